"""Times sparsify_ against what an accumulation must read and write, and against what callers write.

    python bench/bench_sparsify.py                  # on the GPU if there is one; writes bench/results
    python bench/bench_sparsify.py --device cpu --set quick
    python bench/bench_sparsify.py --report bench/results/sparsify-cuda.jsonl       # its table, Markdown

Every figure is a ratio to something timed in the same run:

    x add_      our time over that of torch's self.add_(add): one read and write of self, one read of add;
                goal 1.3
    x floor     our time over that of one read of three times self's bytes, which is as much traffic
    x torch     the time of self.add_(add), torch.topk of self.abs(), gather and filling with zeros, over ours

Each of them goes on with a residual of its own, call after call with the same gradient, as training does. On
CUDA the figures are of CUDA graph replays, and the eager time of a call stands beside ours. Ours is checked
on a first step: its winners by counting, and what is left in self. Exit status 1 if that fails, or a call.
No time makes it fail.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from bench import environment, exact, report, timing
from bench.bench_topk import contender_record, floor_contender, has_read_kernel
from bench.report import Record, number_text, size_text
from bench.timing import Contender, Outputs
from torch_topk import sparsify_
from torch_topk._libraries import why_no_cuda

CUDA_BUDGET_S, CPU_BUDGET_S = 0.2, 2.0
OURS, ADD, TORCH = "ours:sparsify_", "add_", "torch:topk"
GOAL = 1.3  # x add_


@dataclass(frozen=True)
class Point:
    """One step of a gradient."""

    elements: int
    share: float  # of the elements that a step takes
    dtype: str = "float32"

    @property
    def k(self) -> int:
        return max(1, round(self.share * self.elements))

    @property
    def text(self) -> str:
        return f"{size_text(self.elements)} {self.dtype}, {100 * self.share:g} %"


SHARES = (0.0001, 0.001, 0.01, 0.1)
DTYPES = ("float32", "bfloat16", "float16")
ALL = [Point(10**n, share, dtype) for n in range(5, 10) for dtype in DTYPES for share in SHARES]
QUICK = [Point(10**4, 0.01), Point(10**5, 0.001, "bfloat16"), Point(10**5, 0.1, "float16")]
SETS = {
    "quick": QUICK,
    "goals": [point for point in ALL if point.dtype == "float32" or point.elements == 10**8],
    "all": ALL,
}


def data_of(point: Point, device: torch.device) -> Tensor:
    """Where the residual starts, the gradient, and as much again: what one read of all is the floor of."""
    generator = torch.Generator(device).manual_seed(1)
    dtype = getattr(torch, point.dtype)
    return torch.randn((3, point.elements), device=device, dtype=dtype, generator=generator)


def residual_and_gradient(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[0].clone(), x[1]


def contenders_of(point: Point, x: Tensor) -> list[Contender]:
    def ours(pair: Outputs) -> Outputs:
        return sparsify_(pair[0], point.k, add=pair[1])

    def add(pair: Outputs) -> Outputs:
        return (pair[0].add_(pair[1]),)

    def peer(pair: Outputs) -> Outputs:
        residual = pair[0].add_(pair[1])
        indices = torch.topk(residual.abs(), point.k, sorted=False).indices
        values = residual.gather(0, indices)
        residual.scatter_(0, indices, 0)
        return values, indices

    return [
        floor_contender(x),
        Contender(OURS, ours, prepare=residual_and_gradient),
        Contender(ADD, add, prepare=residual_and_gradient, eager=False),
        Contender(TORCH, peer, prepare=residual_and_gradient, eager=False),
    ]


def problem_of(point: Point, x: Tensor) -> str | None:
    """What is wrong with a first step, or None."""
    residual, gradient = residual_and_gradient(x)
    whole = residual + gradient
    values, indices = sparsify_(residual, point.k, add=gradient)
    problem = exact.problem_of(whole, values, indices, point.k, magnitude=True, order="index")
    if problem is not None:
        return problem
    left = whole.index_fill_(0, indices.long(), 0)
    return None if torch.equal(residual, left) else "what is left is not the sum with zeros"


def run(point: Point, device: torch.device, budget_s: float) -> Record:
    """Times and checks one point; its record."""
    x = data_of(point, device)
    contenders = contenders_of(point, x)
    measured = timing.measure(contenders, timing.copies_of(x), budget_s)
    timings = {c.name: t for c, t in zip(contenders, measured, strict=True)}
    records = [contender_record(n, t, timings["floor"].us, timings[TORCH].us) for n, t in timings.items()]
    ours, add = timings[OURS], timings[ADD]
    if ours.us is not None:
        problem = problem_of(point, x)
        record = next(record for record in records if record["name"] == OURS)
        record |= {"verified": problem is None, "problem": problem}
    return {
        "kind": "sparsify",
        "elements": point.elements,
        "share": point.share,
        "k": point.k,
        "dtype": point.dtype,
        "floor_us": timings["floor"].us,
        "x_add": None if ours.us is None or add.us is None else round(ours.us / add.us, 4),
        "goal_x_add": GOAL,
        "contenders": records,
    }


# --- the report -----------------------------------------------------------------------------------


def ours_of(record: Record) -> Record:
    return next(c for c in record["contenders"] if c["name"] == OURS)


COLUMNS = ["elements", "dtype", "k", "us", "eager us", "x add_ ", "x floor", "x torch"]


def rows_of(records: Sequence[Record]) -> list[list[str]]:
    rows = []
    for record in records:
        ours, x_add = ours_of(record), record["x_add"]
        missed = x_add is not None and x_add > record["goal_x_add"]
        rows.append(
            [
                f"{record['elements']:.0e}".replace("e+0", "e"),
                record["dtype"],
                f"{100 * record['share']:g} %",
                number_text(ours["us"]),
                number_text(ours.get("eager_us")),
                number_text(x_add) + ("!" if missed else " "),
                number_text(ours.get("x_floor")),
                number_text(ours.get("x_torch")),
            ]
        )
    return rows


def print_goal(records: Sequence[Record]) -> None:
    values = [record["x_add"] for record in records if record["x_add"] is not None]
    if values:
        held = sum(value <= GOAL for value in values)
        print(
            f"\nat most {GOAL} x self.add_(add): held at {held} of {len(values)} points, "
            f"{number_text(min(values))} to {number_text(max(values))}"
        )


def failure_of(record: Record) -> str | None:
    ours = ours_of(record)
    if ours["us"] is None:
        return f"not served: {ours['reason']}"
    return None if ours.get("verified") else f"wrong: {ours.get('problem')}"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=SETS, default="all")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--report", type=Path, metavar="FILE", help="print a record's table, time nothing")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device cuda: {missing}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.report is not None:
        records = [record for record in report.read(options.report) if record["kind"] == "sparsify"]
        print("\n".join(report.markdown_table(COLUMNS, rows_of(records))))
        print_goal(records)
        return 0
    kind = options.device or ("cpu" if why_no_cuda() else "cuda")
    device = torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)
    todo = SETS[options.set]
    output = options.output or environment.ROOT / "bench" / "results" / f"sparsify-{kind}.jsonl"
    out = report.JsonLines(output)
    floor = "gputopk._read_floor" if has_read_kernel(device) else "torch.amax of the bytes as integers"
    out.write(
        environment.header(
            device, options.commit, set=f"sparsify-{options.set}", points=len(todo), floor=floor
        )
    )
    records, too_large, failures = [], [], []
    progress, start = report.Progress(len(todo)), time.monotonic()
    for point in todo:
        if options.time_limit and time.monotonic() - start > options.time_limit:
            break
        progress.show(point.text)
        try:
            record = run(point, device, CUDA_BUDGET_S if kind == "cuda" else CPU_BUDGET_S)
        except torch.OutOfMemoryError as error:
            too_large.append(f"{point.text}: {timing.one_line(error)}")
        except RuntimeError as error:  # the device is lost: no point that follows could be timed
            failures.append(f"{point.text}: {timing.one_line(error)}")
            break
        else:
            records.append(record)
            out.write(record)
            if failure := failure_of(record):
                failures.append(f"{point.text}: {failure}")
        progress.advance()
    progress.close()
    seconds, not_run = time.monotonic() - start, len(todo) - len(records)
    out.write(
        {
            "kind": "summary",
            "points": len(records),
            "not_run": not_run,
            "too_large": too_large,
            "failed": failures,
            "seconds": seconds,
        }
    )
    out.close()
    print(report.table(COLUMNS, rows_of(records)))
    print_goal(records)
    print(f"{len(records)} points in {seconds:.0f} s, {not_run} not run, written to {output}")
    for sentence in too_large:
        print(f"too large: {sentence}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
