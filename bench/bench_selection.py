"""Times kth_value, topk_mask and keep_topk against what callers write in PyTorch without them.

    python bench/bench_selection.py                     # on the GPU if there is one; writes bench/results
    python bench/bench_selection.py --device cpu --set goals

Every figure is a ratio to something timed in the same run: "x torch", the time of the fastest of PyTorch's
formulations over ours; "x floor", our time over that of one read of the input; "x topk", over that of our own
topk of the same k, unsorted; and, of a mask or a filled copy, "x written", our time over that of one read and
of filling an output of that size. PyTorch's formulations, eager:

    kthvalue    torch.kthvalue, which counts from the smallest
    topk        the last of torch.topk; for a mask, what is at least that; filled by torch.where
    sort        the k-th of torch.sort, from cols / 4 on

They keep or choose among equals as they please. Ours is checked against a stable sort. Exit status 1 if one
of ours fails. No time makes it fail.
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

import torch_topk
from bench import points, report, timing
from bench.contenders import floor_contender
from bench.points import Bench, contender_of
from bench.report import Record, number_text, size_text
from bench.timing import Contender

OURS, TOPK, FILL = "ours", "ours:topk", "fill"


@dataclass(frozen=True)
class Point:
    """One call on random rows."""

    op: str  # kth_value, topk_mask or keep_topk
    rows: int
    cols: int
    k: int
    dtype: str = "float32"
    goal: float | None = None  # at most so many times: the floor, or what is read and written

    @property
    def text(self) -> str:
        return f"{self.op} {self.rows} x {size_text(self.cols)} k {self.k} {self.dtype}"


MASKS = ("topk_mask", "keep_topk")
OPS = ("kth_value", *MASKS)
GOALS = [
    *(Point("kth_value", 1, 2**28, k, goal=1.1) for k in (1, 8, 64, 1024, 4096, 2**14, 2**17, 2**20)),
    *(Point(op, 1, 2**28, k, goal=1.15) for op in MASKS for k in (100, 2**16, 2**20)),
]
MORE = [
    Point("kth_value", 1, 2**28, 2**27),
    *(Point("kth_value", 1, 2**24, k) for k in (1000, 2**18, 2**23)),
    *(Point("kth_value", 1, 2**20, k) for k in (100, 2**14, 2**19)),
    *(Point("kth_value", 100, 2**20, k) for k in (64, 2**14, 2**19)),
    *(
        Point(op, rows, cols, k)
        for op in OPS
        for rows, cols, k in (
            (64, 2**17, 50),
            (256, 32_000, 1000),
            (1000, 10_000, 5000),
            (65_536, 64, 6),
            (16_384, 256, 8),
            (10_000, 1000, 32),
        )
    ),
    *(Point(op, 64, 2**17, 50, "bfloat16") for op in OPS),
    *(Point(op, 1, 2**26, k) for op in MASKS for k in (100, 2**16, 2**20, 2**25)),
]
MANY = [point for point in MORE if point.rows > 1]
SETS = {"goals": GOALS, "rows": MANY, "all": GOALS + MORE}


def our_call(point: Point) -> Callable[[Tensor], tuple[Tensor, ...]]:
    if point.op == "kth_value":
        return lambda x: tuple(torch_topk.kth_value(x, point.k))
    function = getattr(torch_topk, point.op)
    return lambda x: (function(x, point.k),)


def whole(outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What outputs may be views of, [rows, any]: kth_value hands out the last columns."""
    rows = outputs[0].shape[0]
    cols = [one.untyped_storage().nbytes() // one.element_size() // rows for one in outputs]
    return tuple(one.as_strided((rows, c), (c, 1), 0) for one, c in zip(outputs, cols, strict=True))


def torch_calls(point: Point) -> dict[str, Callable[[Tensor], tuple[Tensor, ...]]]:
    """What callers write."""
    k, cols = point.k, point.cols

    def from_kth(kth: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, ...]]:
        if point.op == "kth_value":
            return lambda x: whole((kth(x),))
        if point.op == "topk_mask":
            return lambda x: (x >= kth(x),)
        return lambda x: (torch.where(x >= kth(x), x, -math.inf),)

    ways = {
        "topk": lambda x: torch.topk(x, k).values[..., -1:],
        "kthvalue": lambda x: torch.kthvalue(x, cols - k + 1, keepdim=True).values,
    }
    if 4 * k >= cols:
        ways["sort"] = lambda x: x.sort(dim=-1, descending=True).values[..., k - 1 : k]
    return {name: from_kth(kth) for name, kth in ways.items()}


def problem_of(outputs: Sequence[Tensor], x: Tensor, point: Point) -> str | None:
    """By some rows at a time: a stable sort takes several times their memory."""
    rows = max(1, 2**26 // point.cols)
    for first in range(0, point.rows, rows):
        part = x[first : first + rows]
        chosen = part.sort(dim=-1, descending=True, stable=True).indices[:, : point.k]
        if point.op == "kth_value":
            last = chosen[:, -1:]
            wanted: tuple[Tensor, ...] = (part.gather(1, last), last)
        else:
            mask = torch.zeros_like(part, dtype=torch.bool).scatter_(1, chosen, True)
            wanted = (mask if point.op == "topk_mask" else torch.where(mask, part, -math.inf),)
        for output, want in zip(outputs, wanted, strict=True):
            got = output[first : first + rows, -want.shape[1] :]
            wrong = (got != want).any(dim=1).nonzero()
            if wrong.numel() > 0:
                return f"row {first + int(wrong[0])} is not what a stable sort gives"
    return None


def run(point: Point, device: torch.device, budget_s: float) -> Record:
    """Times and checks one point; its record."""
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn((point.rows, point.cols), device=device, generator=generator)
    x = x.to(getattr(torch, point.dtype))
    out_dtype = torch.bool if point.op == "topk_mask" else x.dtype
    contenders = [
        floor_contender(x),
        Contender(OURS, our_call(point), export=whole),
        Contender(TOPK, lambda x: torch_topk.topk(x, point.k, sorted=False), export=tuple, eager=False),
        Contender(FILL, lambda x: (torch.zeros_like(x, dtype=out_dtype),), export=tuple, eager=False),
        *points.torch_contenders(torch_calls(point)),
    ]
    timings = timing.measure(contenders, timing.copies_of(x), budget_s)
    best_name, best_us = points.best_of_torch(timings)
    ours, floor, fill = timings[OURS], timings["floor"], timings[FILL]
    written = None
    if point.op in MASKS and None not in (ours.us, floor.us, fill.us):
        written = round(ours.us / (floor.us + fill.us), 4)
    return {
        "kind": "selection",
        "op": point.op,
        "rows": point.rows,
        "cols": point.cols,
        "k": point.k,
        "dtype": point.dtype,
        "goal": point.goal,
        "floor_us": floor.us,
        "x_written": written,
        "x_topk": points.ratio_of(ours, timings[TOPK]),
        "best_torch": best_name,
        "contenders": points.records_of(timings, OURS, best_us, lambda t: problem_of(t.outputs, x, point)),
    }


def print_table(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        ours = contender_of(record, OURS)
        rows.append(
            [
                record["op"],
                f"{record['rows']} x {size_text(record['cols'])}",
                str(record["k"]),
                record["dtype"],
                number_text(ours.get("x_floor")),
                number_text(record["x_written"]),
                number_text(record["goal"]),
                number_text(record["x_topk"]),
                number_text(ours.get("x_torch")),
                (record["best_torch"] or "-").removeprefix(points.TORCH),
            ]
        )
    columns = ["op", "rows x cols", "k", "dtype", "x floor", "x written", "goal", "x topk", "x torch", "best"]
    print(report.table(columns, rows))


BENCH = Bench("selection", __doc__, OURS, SETS, run, {"cuda": 1.0, "cpu": 3.0}, print_table)


def main(arguments: Sequence[str] | None = None) -> int:
    return points.main(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
