"""compute-sanitizer's four tools over small requests of every form, on a GPU: `make sanitize`.

    python tests/sanitize.py            runs the tools and notes in tests/gpu_record.json what they found
    python tests/sanitize.py cases      what they run

Small, as a kernel is tens to hundreds of times slower under a tool: the smallest, odd and overflowing sizes
of each form and dtype width. PyTorch's allocator is told not to keep memory, so that what lies behind a
buffer is nobody's. Only this library's kernels are looked at, but by initcheck, which has to see who writes
what they read; of what it finds, only their part counts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import gpu_record  # noqa: E402
from tests.records import commit_named  # noqa: E402

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
KERNELS = "gputopk"  # a part of the names of the kernels
SHAPES = ((1, 1, 1), (3, 33, 5), (2, 1000, 1000), (1, 4097, 129))
LONG_SHAPES = ((2, 20001, 77), (1, 70001, 3000))  # of two dtypes, as they take longest
# About the least rows of forms that serve long ones alone.
GRID_SHAPES = {"delegate.resident_grid": (1, 140_001, 2100), "delegate.grid_parts": (1, 524_289, 3000)}
OURS = re.compile(rf"\bat (?:void )?{KERNELS}::")  # in a finding: what did it
ERRORS = 99  # the exit status of a tool that has found something


def run_cases() -> int:
    """Every form that serves a shape, by the operator that runs one form, and the plan's own choice."""
    import torch

    from tests import oracle, study_library

    assert study_library.loaded, "no study library: make study"
    folder = ROOT / "csrc" / "cuda"
    names = sorted(
        set(re.findall(r'kName = "([\w.]+)"', "".join(f.read_text() for f in folder.rglob("*.h"))))
    )
    dtypes = (torch.uint8, torch.float16, torch.float32, torch.int64)
    runs = 0
    for dtype in dtypes:
        for rows, cols, k in SHAPES + (LONG_SHAPES if dtype in (torch.float32, torch.int64) else ()):
            tensor = torch.randint(0, 120, (rows, cols)).to(dtype).cuda()
            for name in ("auto", *names):
                if name == "auto":
                    result = torch.ops.gputopk.topk(tensor, k)
                else:
                    try:
                        result = torch.ops.gputopk._form(tensor, k, name)
                    except RuntimeError:
                        continue  # it does not serve this
                oracle.assert_topk(tuple(r.cpu() for r in result), tensor.cpu(), k)
                runs += 1
        runs += run_split_bucket(dtype)
    runs += run_grids()
    runs += run_other_operators()
    print(f"runs: {runs}")
    return 0


def run_grids() -> int:
    """Blocks that are launched together, over rows of many values and of few."""
    import torch

    from tests import oracle

    runs = 0
    for name, (rows, cols, k) in GRID_SHAPES.items():
        few_values = torch.randint(0, 120, (rows, cols)).cuda()
        for tensor in (torch.randn(rows, cols).cuda(), few_values.float(), few_values):
            result = torch.ops.gputopk._form(tensor, k, name)
            oracle.assert_topk(tuple(r.cpu() for r in result), tensor.cpu(), k)
            runs += 1
    return runs


def run_split_bucket(dtype: torch.dtype) -> int:
    """Both rules and each optimisation, on rows of the smallest tiles, in one level of entries and in two."""
    import torch

    from tests import oracle

    tile = 128 * (16 if dtype.itemsize == 8 else 32)  # of the fewest threads
    bools = (True, False)
    choices = [{"rule": 2, "task": task, "control_flow": flow} for task in bools for flow in bools]
    runs = 0
    # Ten tiles that hand on 1024 entries each have more than a tile of entries holds.
    for cutoff, k in ((64, 32), (1024, 900)):
        tensor = torch.randint(0, 120, (2, 9 * tile + 5)).to(dtype).cuda()
        for options in ({"rule": 1}, *choices):
            result = torch.ops.gputopk._split_bucket(tensor, k, tile=tile, cutoff=cutoff, **options)
            oracle.assert_topk(tuple(r.cpu() for r in result), tensor.cpu(), k)
            runs += 1
    return runs


def run_other_operators(device: str = "cuda") -> int:
    """What is built on the same kernels: ragged and strided rows, masks, filters, gradients, reranking."""
    import torch

    import torch_topk

    runs = 0
    # Windows that lie outside their rows, begin behind their ends or are empty.
    starts = torch.tensor([0, -5, 3000, 2**40, 17], device=device)
    lengths = torch.tensor([4097, 2**40, 4097, 3, -1], device=device)
    for dtype in (torch.float16, torch.float32):
        tensor = torch.randn(5, 4097, device=device).to(dtype)
        for k in (1, 64, 3000):
            torch_topk.topk_varlen(tensor, k, lengths=lengths, starts=starts)
            torch_topk.kth_value(tensor, k)
            torch_topk.topk_mask(tensor, k)
            torch_topk.keep_topk_(tensor.clone(), k)
            runs += 4 + run_where(tensor, k)
        # Long enough for many blocks a row.
        long = torch.randn(5, 70001, device=device).to(dtype)
        torch_topk.topk_varlen(long, 64, lengths=lengths * 17, starts=starts, order="value")
        runs += 1 + run_where(long, 64)
        # Winners in order, of a block and of a cluster, and rows that do not lie side by side.
        for rows, k in ((long, 300), (long, 13_000), (long[:1], 13_000)):
            for order in ("value", "index"):
                torch_topk.topk(rows, k, order=order)
                runs += 1
            torch_topk.kth_value(rows, 3 * k)
            runs += 1
        for shape, k in (((3, 300, 40), 7), ((2, 5000, 20), 64)):
            torch_topk.topk(torch.randn(shape, device=device).to(dtype), k, dim=1)
            runs += 1
        # Read across: vectors of adjacent rows, laps of columns, and single elements.
        algorithm = "delegate" if device == "cuda" else "auto"
        for shape, k in (((2, 1100, 64), 7), ((1, 2101, 9), 20), ((2, 1300, 131), 70)):
            columns = torch.randn(shape, device=device).to(dtype)
            torch_topk.topk(columns, k, dim=1, algorithm=algorithm)
            runs += 1
        gradient = torch.randn(70001, device=device).to(dtype)
        for k in (7, 700):
            torch_topk.sparsify_(gradient.clone(), k, add=gradient, alpha=0.5)
            runs += 1
        # With one read, by one bound and by two; and of rows that are held, step by step.
        gradient = torch.randn(2**21, device=device).to(dtype)
        for k in (700, 2**18):
            torch_topk.sparsify_(gradient.clone(), k, add=gradient)
            runs += 1
            for way in ("one_read", "steps") if device == "cuda" else ():
                torch.ops.gputopk._sparsify(gradient.clone(), k, add=gradient, way=way)
                runs += 1
        for queries, candidates, dims in ((1, 1000, 129), (40, 70, 96)):
            vectors = torch.randn(500, dims, device=device).to(dtype)
            ids = torch.randint(-2, 500, (queries, candidates), device=device)
            torch_topk.rerank(vectors[:queries].contiguous(), vectors, ids, 10)
            runs += 1
    if device == "cuda":
        torch.cuda.synchronize()
    return runs


def run_where(scores: torch.Tensor, k: int) -> int:
    """topk_where by a mask, a condition, and three at once, one of them of rows' thresholds; and by keys."""
    import torch

    from torch_topk import Condition, topk_where

    mask = torch.rand(scores.shape, device=scores.device) < 0.5
    column = torch.randint(0, 100, scores.shape, dtype=torch.int32, device=scores.device)
    # Of the last rows nothing is left.
    thresholds = torch.arange(scores.shape[0], dtype=torch.int32, device=scores.device) * 25
    below = Condition(column, "<", 50)
    for where in (mask, below, (mask[0], below, Condition(column, ">=", thresholds))):
        topk_where(scores, where, k)
    first = column // 30
    topk_where((first, scores), below, k)
    topk_where((first, column, scores), None, k, order="index", index_dtype=torch.int32)
    return 5


def run_tool(tool: str, sanitizer: str) -> dict[str, object]:
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(ERRORS)]
    if tool != "initcheck":
        command += ["--kernel-name", f"kns={KERNELS}"]
    command += [sys.executable, __file__, "cases"]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    seconds = round(time.monotonic() - began)
    runs = re.search(r"^runs: (\d+)", done.stdout, re.MULTILINE)
    # A finding is a paragraph; each line begins with the tool's mark.
    findings = [text for text in re.split(r"^=+ *$", done.stdout, flags=re.MULTILINE) if OURS.search(text)]
    # Without its summary a tool has not looked at anything.
    complete = runs is not None and "SUMMARY: " in done.stdout and done.returncode in (0, ERRORS)
    if findings or not complete:
        print(*findings[:8], done.stdout[-1000:], done.stderr[-3000:], sep="\n")
    return {
        "runs": int(runs[1]) if runs else 0,
        "errors": len(findings),
        "clean": complete and not findings,
        "seconds": seconds,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="?", choices=("cases",))
    parser.add_argument("--commit", type=commit_named, help="for the record, where this is not a checkout")
    options = parser.parse_args(arguments)
    if options.cases:
        return run_cases()
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        print("no compute-sanitizer: it comes with the CUDA toolkit")
        return 1
    found: dict[str, dict[str, object]] = {}
    with ThreadPoolExecutor(len(TOOLS)) as pool:  # side by side: each is mostly its own process's work
        runs = {pool.submit(run_tool, tool, sanitizer): tool for tool in TOOLS}
        for run in as_completed(runs):
            found[runs[run]] = run.result()
            print(f"{runs[run]}: {run.result()}", flush=True)
            gpu_record.add("sanitizer", found, commit=options.commit)
    return int(not all(tool["clean"] for tool in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
