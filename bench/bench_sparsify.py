"""Times sparsify_ against what an accumulation must read and write, and against what callers write.

    python bench/bench_sparsify.py                  # on the GPU if there is one; writes bench/results
    python bench/bench_sparsify.py --device cpu --set quick
    python bench/bench_sparsify.py --report bench/results/sparsify-cuda.jsonl       # its table again

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

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from bench import exact, points, report, timing
from bench.contenders import floor_contender
from bench.points import Bench, contender_of
from bench.report import Record, number_text, ratio_text, size_text
from bench.timing import Contender, Outputs
from torch_topk import sparsify_

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
# Of DistributedDataParallel: 1 MB, its first, and 25 MB.
BUCKETS = [
    Point(size // (4 if dtype == "float32" else 2), share, dtype)
    for size in (2**20, 25 * 2**20)
    for dtype in DTYPES
    for share in SHARES
]
QUICK = [Point(10**4, 0.01), Point(10**5, 0.001, "bfloat16"), Point(10**5, 0.1, "float16")]
SETS = {
    "quick": QUICK,
    "goals": [point for point in ALL if point.dtype == "float32" or point.elements == 10**8],
    "all": ALL,
    "buckets": BUCKETS,
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
    timings = timing.measure(contenders, timing.copies_of(x), budget_s)
    records = points.records_of(timings, OURS, timings[TORCH].us, lambda _: problem_of(point, x))
    return {
        "kind": "sparsify",
        "elements": point.elements,
        "share": point.share,
        "k": point.k,
        "dtype": point.dtype,
        "floor_us": timings["floor"].us,
        "x_add": points.ratio_of(timings[OURS], timings[ADD]),
        "goal_x_add": GOAL,
        "contenders": records,
    }


def print_table(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        ours = contender_of(record, OURS)
        rows.append(
            [
                f"{record['elements']:.0e}".replace("e+0", "e"),
                record["dtype"],
                f"{100 * record['share']:g} %",
                number_text(ours["us"]),
                number_text(ours.get("eager_us")),
                ratio_text(record["x_add"], record["goal_x_add"]),
                number_text(ours.get("x_floor")),
                number_text(ours.get("x_torch")),
            ]
        )
    columns = ["elements", "dtype", "k", "us", "eager us", "x add_ ", "x floor", "x torch"]
    print(report.table(columns, rows))
    print()
    points.print_goal(records, "x_add", GOAL, "self.add_(add)")


BENCH = Bench("sparsify", __doc__, OURS, SETS, run, {"cuda": 0.2, "cpu": 2.0}, print_table)


def main(arguments: Sequence[str] | None = None) -> int:
    return points.main(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
