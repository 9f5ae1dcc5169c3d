"""compute-sanitizer's four tools over small requests of every form, on a GPU: `make sanitize`.

    python tests/sanitize.py            runs the tools and notes in tests/gpu_record.json what they found
    python tests/sanitize.py cases      what they run

Small, as a kernel is tens to hundreds of times slower under a tool: the smallest, odd and overflowing sizes
of each form and dtype width. PyTorch's allocator is told not to keep memory, so that what lies behind a
buffer is nobody's, and only this library's kernels are looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "gpu_record.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
KERNELS = "gputopk"  # a part of the names of the kernels
SHAPES = ((1, 1, 1), (3, 33, 5), (2, 1000, 1000), (1, 4097, 129), (2, 20001, 77), (1, 70001, 3000))
ERRORS = 99  # the exit status of a tool that has found something


def run_cases() -> int:
    """Every form that serves a shape, by the operator that runs one form, and the plan's own choice."""
    import torch

    sys.path.insert(0, str(ROOT))
    from tests import oracle, study_library

    assert study_library.loaded, "no study library: make study"
    folder = ROOT / "csrc" / "cuda"
    names = sorted(
        set(re.findall(r'kName = "([\w.]+)"', "".join(f.read_text() for f in folder.rglob("*.h"))))
    )
    dtypes = (torch.uint8, torch.float16, torch.float32, torch.int64)
    runs = 0
    for dtype in dtypes:
        for rows, cols, k in SHAPES:
            tensor = torch.randint(0, 120, (rows, cols), device="cuda").to(dtype)
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
    print(f"runs: {runs}")
    return 0


def run_tool(tool: str, sanitizer: str) -> dict[str, object]:
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(ERRORS), "--kernel-name", f"kns={KERNELS}"]
    command += [sys.executable, __file__, "cases"]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    runs = re.search(r"^runs: (\d+)", done.stdout, re.MULTILINE)
    errors = re.search(r"ERROR SUMMARY: (\d+)|RACECHECK SUMMARY: (\d+)", done.stdout)
    clean = done.returncode == 0 and runs is not None
    if not clean:
        print(done.stdout[-6000:], done.stderr[-3000:], sep="\n")
    summary = next((n for n in errors.groups() if n), None) if errors else None
    return {
        "runs": int(runs[1]) if runs else 0,
        "errors": None if summary is None else int(summary),
        "clean": clean,
    }


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["cases"]:
        return run_cases()
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        print("no compute-sanitizer: it comes with the CUDA toolkit")
        return 1
    found = {}
    for tool in TOOLS:
        found[tool] = run_tool(tool, sanitizer)
        print(f"{tool}: {found[tool]}", flush=True)
    known = json.loads(RECORD.read_text())
    known["sanitizer"] = found
    RECORD.write_text(json.dumps(known, indent=2) + "\n")
    return int(not all(tool["clean"] for tool in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
