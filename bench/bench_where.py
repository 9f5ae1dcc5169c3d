"""Times topk_where against what callers write in PyTorch without it: a masked copy of the scores, and topk.

    python bench/bench_where.py                     # on the GPU if there is one; writes bench/results
    python bench/bench_where.py --device cpu --set goals

Every figure is a ratio to something timed in the same run: "x torch", the time of the fastest of PyTorch's
formulations over ours, and "x floor", our time over that of one read of the scores. The formulations, eager:

    fill        scores.masked_fill(~mask, -inf).topk(k)
    where       torch.where(mask, scores, -inf).topk(k)
    sort        of two keys: two stable sorts of whole rows
    pack        of two keys, int32 and float32: both in an int64, masked, and topk

What is filtered by: "mask", a bool tensor that is there; "condition", a float32 column and a number, which
PyTorch's formulations compare first; "keys", a condition, and an int32 key of ten values before the float32
one. Ours is checked against a stable sort of the masked rows. Peak memory beside inputs is noted on CUDA.
Exit status 1 if one of ours fails. No time makes it fail.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from bench import points, report, timing
from bench.contenders import floor_contender
from bench.points import Bench, contender_of
from bench.report import Record, number_text, size_text
from bench.timing import Contender, Outputs
from torch_topk import Condition, topk_where

OURS = "ours:topk_where"


@dataclass(frozen=True)
class Point:
    """One query on random columns."""

    rows: int
    cols: int
    k: int
    by: str = "condition"
    share: float = 0.5  # of the elements that pass
    dtype: str = "float32"
    goal: float | None = None  # at least this many times as fast as PyTorch

    @property
    def text(self) -> str:
        size = f"{self.rows} x {size_text(self.cols)}"
        return f"{size} k {self.k} by {self.by} {self.share} {self.dtype}"


GOALS = [
    Point(rows, cols, k, by, goal=2.0)
    for rows, cols in ((1, 2**24), (64, 2**17), (1000, 10_000))
    for by in ("mask", "condition", "keys")
    for k in (10, 100)
]
MORE = [
    *(Point(64, 2**17, 100, by, share) for by in ("mask", "condition") for share in (0.001, 0.01, 0.99)),
    *(Point(64, 2**17, 100, "condition", 0.5, dtype) for dtype in ("bfloat16", "float64")),
    *(Point(rows, cols, 2000) for rows, cols in ((1, 2**24), (64, 2**17))),
    Point(1, 2**27, 100),
    Point(32, 50_257, 50),
    Point(10_000, 256, 8),
]
SETS = {"goals": GOALS, "all": GOALS + MORE}


@dataclass(frozen=True)
class Data:
    """A point's columns but for the scores, which the timing hands in."""

    column: Tensor  # uniform
    mask: Tensor  # column < share
    first: Tensor  # the key before the scores


def data_of(point: Point, device: torch.device) -> tuple[Tensor, Data]:
    generator = torch.Generator(device).manual_seed(1)
    shape = (point.rows, point.cols)
    scores = torch.randn(shape, device=device, generator=generator).to(getattr(torch, point.dtype))
    column = torch.rand(shape, device=device, generator=generator)
    first = torch.randint(0, 10, shape, device=device, generator=generator, dtype=torch.int32)
    return scores, Data(column, column < point.share, first)


def torch_contenders(point: Point, data: Data) -> list[Contender]:
    """What callers write."""
    return points.torch_contenders((two_key_calls if point.by == "keys" else one_key_calls)(point, data))


def one_key_calls(point: Point, data: Data) -> dict[str, Callable[[Tensor], Outputs]]:
    if point.by == "mask":
        return {
            "fill": lambda x: torch.topk(x.masked_fill(~data.mask, -math.inf), point.k),
            "where": lambda x: torch.topk(torch.where(data.mask, x, -math.inf), point.k),
        }
    return {
        "fill": lambda x: torch.topk(x.masked_fill(data.column >= point.share, -math.inf), point.k),
        "where": lambda x: torch.topk(torch.where(data.column < point.share, x, -math.inf), point.k),
    }


def two_key_calls(point: Point, data: Data) -> dict[str, Callable[[Tensor], Outputs]]:
    def pack(x: Tensor) -> Outputs:
        bits = x.view(torch.int32)
        ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() + 2**31
        packed = (data.first.long() << 32) | ordered
        indices = packed.masked_fill(data.column >= point.share, -1).topk(point.k).indices
        return x.gather(-1, indices), indices

    return {"sort": lambda x: best_by_sorting(x, point, data), "pack": pack}


def best_by_sorting(x: Tensor, point: Point, data: Data) -> Outputs:
    """Equal ones by index; for the two keys, by the second key first."""
    outside = data.column >= point.share
    order = x.masked_fill(outside, -math.inf).sort(dim=-1, descending=True, stable=True).indices
    if point.by == "keys":
        first = data.first.masked_fill(outside, -1).gather(-1, order)
        order = order.gather(-1, first.sort(dim=-1, descending=True, stable=True).indices)
    indices = order[..., : point.k].contiguous()
    return x.gather(-1, indices), indices


def our_contender(point: Point, data: Data) -> Contender:
    where = data.mask if point.by == "mask" else Condition(data.column, "<", point.share)

    def call(x: Tensor) -> Outputs:
        if point.by != "keys":
            return topk_where(x, where, point.k)[:2]
        found = topk_where((data.first, x), where, point.k)
        return found.values[1], found.indices

    return Contender(OURS, call, export=tuple)


def problem_of(outputs: Outputs, x: Tensor, point: Point, data: Data) -> str | None:
    wanted = best_by_sorting(x, point, data)
    is_same = all(torch.equal(got, want) for got, want in zip(outputs, wanted, strict=True))
    return None if is_same else "not what a stable sort gives"


def peak_bytes(contender: Contender, x: Tensor) -> int | None:
    """What a call takes of CUDA's memory at most, outputs too."""
    if not x.is_cuda:
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    contender.call(x)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def run(point: Point, device: torch.device, budget_s: float) -> Record:
    """Times and checks one point; its record."""
    scores, data = data_of(point, device)
    contenders = [floor_contender(scores), our_contender(point, data), *torch_contenders(point, data)]
    timings = timing.measure(contenders, timing.copies_of(scores), budget_s)
    best_name, best_us = points.best_of_torch(timings)
    records = points.records_of(timings, OURS, best_us, lambda t: problem_of(t.outputs, scores, point, data))
    for contender, record in zip(contenders, records, strict=True):
        if timings[contender.name].outputs is not None:
            record["peak_bytes"] = peak_bytes(contender, scores)
    return {
        "kind": "where",
        "rows": point.rows,
        "cols": point.cols,
        "k": point.k,
        "by": point.by,
        "share": point.share,
        "dtype": point.dtype,
        "goal_x_torch": point.goal,
        "input_bytes": scores.numel() * scores.element_size(),
        "floor_us": timings["floor"].us,
        "best_torch": best_name,
        "contenders": records,
    }


def print_table(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        ours = contender_of(record, OURS)
        rows.append(
            [
                f"{record['rows']} x {size_text(record['cols'])}",
                str(record["k"]),
                record["by"],
                number_text(record["share"]),
                record["dtype"],
                number_text(ours.get("x_floor")),
                number_text(ours.get("x_torch")),
                (record["best_torch"] or "-").removeprefix(points.TORCH),
                number_text(record["goal_x_torch"]),
            ]
        )
    columns = ["rows x cols", "k", "by", "share", "dtype", "x floor", "x torch", "best", "goal"]
    print(report.table(columns, rows))


BENCH = Bench("where", __doc__, OURS, SETS, run, {"cuda": 1.5, "cpu": 3.0}, print_table)


def main(arguments: Sequence[str] | None = None) -> int:
    return points.main(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
