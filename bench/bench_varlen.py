"""Times topk_varlen on ragged rows against a dense topk of as many elements, and against what callers write.

    python bench/bench_varlen.py                    # on the GPU if there is one; writes bench/results
    python bench/bench_varlen.py --device cpu --set quick

Every figure is a ratio to something timed in the same run:

    x floor     our time over that of one read of as many bytes as the windows have
    x dense     over that of torch_topk.topk on a [rows, mean length] tensor: as many elements; goal 1.15
    x row       of 64 rows, one full and the others 1 %: over topk's time on that row alone; goal 1.3
    x torch     the time of positions >= lengths, masked_fill(-inf) and torch.topk, over ours

The mean is rounded up to eight elements, so that dense rows are aligned as ours are. On CUDA the figures are
of CUDA graph replays, and the eager time of a call stands beside ours. Lengths are a tensor on the device:

    full        all columns
    uniform     of each row, uniform in [1, cols]
    one_full    the first row full, the others 1 %
    decode      all near 0.6 cols, as of sequences that are decoded together

Ours is checked against a stable sort of the masked rows; where there are few elements, against the tests'
oracle too. Exit status 1 if one of ours fails. No time makes it fail.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from bench import points, report, timing
from bench.contenders import floor_contender
from bench.points import Bench, contender_of
from bench.report import Record, number_text, ratio_text, size_text
from bench.timing import Contender
from tests import varlen_oracle
from torch_topk import TopKVarlen, topk, topk_varlen

OURS, DENSE, ROW, TORCH = "ours:topk_varlen", "dense", "row", "torch:masked"
DENSE_GOAL, ROW_GOAL, ROW_GOAL_ROWS = 1.15, 1.3, 64
ALIGNED = 8  # elements
ORACLE_ELEMENTS = 2**16  # of a tensor: the oracle takes a while
SORTED_ELEMENTS = 2**25  # at once: a sort takes many times its input's memory


@dataclass(frozen=True)
class Point:
    """One request on random rows."""

    rows: int
    cols: int
    k: int
    pattern: str
    order: str = "value"
    dtype: str = "float32"
    return_values: bool = True
    promise: bool = False  # whether max_length is given

    @property
    def text(self) -> str:
        size = f"{self.rows} x {size_text(self.cols)}"
        return f"{size} k {self.k} {self.pattern} {self.order} {self.dtype}"

    @property
    def options_text(self) -> str:
        """What differs from the defaults here."""
        names = {"no values": not self.return_values, "max_length": self.promise}
        return ", ".join(name for name, holds in names.items() if holds)


GOALS = [
    *(Point(64, 2**18, k, "one_full") for k in (64, 512, 2048)),
    Point(1, 2**20, 512, "uniform"),
    Point(4, 2**17, 2048, "decode"),
    Point(64, 2**17, 512, "uniform"),
    Point(64, 2**17, 2048, "decode"),
    Point(256, 2**15, 64, "uniform"),
    Point(256, 2**17, 2048, "uniform"),
    Point(256, 2**20, 1024, "uniform"),
    Point(1024, 2**13, 64, "uniform"),
    Point(1024, 2**15, 512, "uniform"),
]
MORE = [
    *(
        Point(rows, cols, k, "full")
        for rows, cols, k in ((1, 2**20, 1024), (64, 2**17, 512), (256, 2**15, 2048), (1024, 2**13, 64))
    ),
    *(
        Point(rows, cols, k, "one_full")
        for rows, cols, k in (
            (64, 2**13, 64), (64, 2**15, 512), (64, 2**20, 1024), (4, 2**20, 512), (256, 2**17, 512),
            (1024, 2**15, 64),
        )
    ),
    *(
        Point(rows, cols, k, "decode")
        for rows, cols, k in ((1, 2**13, 512), (4, 2**15, 64), (64, 2**20, 1024), (1024, 2**13, 1024))
    ),
    # What max_length, order and values cost or save.
    *(Point(rows, 2**17, 2048, "decode", promise=True) for rows in (1, 64)),
    Point(256, 2**15, 512, "decode", promise=True),
    Point(64, 2**17, 512, "uniform", "any"),
    Point(64, 2**17, 2048, "decode", "any"),
    Point(64, 2**17, 2048, "decode", "any", return_values=False, promise=True),
    Point(64, 2**17, 2048, "decode", return_values=False),
    Point(1024, 2**15, 512, "uniform", "any", return_values=False),
    Point(64, 2**18, 2048, "one_full", "any"),
    *(
        Point(rows, cols, k, pattern, dtype="bfloat16")
        for rows, cols, k, pattern in (
            (1, 2**20, 1024, "full"), (64, 2**17, 512, "uniform"), (64, 2**18, 512, "one_full"),
            (256, 2**15, 64, "one_full"), (256, 2**20, 2048, "uniform"), (1024, 2**13, 512, "uniform"),
        )
    ),
    Point(64, 2**17, 2048, "decode", "any", "bfloat16", return_values=False, promise=True),
]  # fmt: skip
QUICK = [
    Point(64, 1024, 8, "one_full"),
    Point(4, 8192, 64, "uniform", "any", return_values=False),
    Point(4, 8192, 64, "decode", dtype="bfloat16", promise=True),
]
SETS = {"quick": QUICK, "goals": GOALS, "all": GOALS + MORE}


@dataclass(frozen=True)
class Data:
    """A point's tensors."""

    scores: Tensor
    lengths: Tensor
    window_elements: int
    dense_cols: int
    max_length: int | None

    def dense_of(self, x: Tensor) -> Tensor:
        """As many elements of scores, or of a copy, as the windows have: the first of its memory."""
        rows = x.shape[0]
        return x.view(-1)[: rows * self.dense_cols].view(rows, self.dense_cols)


def lengths_of(point: Point) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    rows, cols = point.rows, point.cols
    if point.pattern == "full":
        lengths = torch.full((rows,), cols)
    elif point.pattern == "one_full":
        lengths = torch.full((rows,), max(1, cols // 100))
        lengths[0] = cols
    else:
        low, high = {"uniform": (1, cols), "decode": (int(0.58 * cols), int(0.62 * cols))}[point.pattern]
        lengths = torch.randint(low, high + 1, (rows,), generator=generator)
    return lengths.int()


def data_of(point: Point, device: torch.device) -> Data:
    generator = torch.Generator(device).manual_seed(1)
    dtype, lengths = getattr(torch, point.dtype), lengths_of(point)
    scores = torch.randn((point.rows, point.cols), device=device, dtype=dtype, generator=generator)
    elements = int(lengths.sum())
    dense_cols = min(point.cols, ALIGNED * math.ceil(elements / point.rows / ALIGNED))
    max_length = int(lengths.max()) if point.promise else None
    return Data(scores, lengths.to(device), elements, dense_cols, max_length)


def outside(data: Data) -> Tensor:
    """What no window holds: bool [rows, cols]."""
    positions = torch.arange(data.scores.shape[1], dtype=torch.int32, device=data.scores.device)
    return positions >= data.lengths[:, None]


# --- contenders -----------------------------------------------------------------------------------


def contenders_of(point: Point, data: Data) -> list[Contender]:
    """Ours, and what it is compared with where that is possible."""
    floor = floor_contender(data.dense_of(data.scores))
    in_order = point.order == "value"

    def dense(name: str, prepare: Callable[[Tensor], Tensor]) -> Contender:
        return Contender(
            name,
            lambda x: topk(x, point.k, sorted=in_order, index_dtype=torch.int32),
            prepare=prepare,
            eager=False,
        )

    def masked(x: Tensor) -> Any:
        return torch.topk(x.masked_fill(outside(data), -math.inf), point.k, sorted=in_order)

    contenders = [
        Contender("floor", floor.call, prepare=lambda x: floor.prepare(data.dense_of(x)), eager=False),
        our_contender(point, data),
        Contender(TORCH, masked, eager=False),
    ]
    if point.k <= data.dense_cols:
        contenders.append(dense(DENSE, data.dense_of))
    if has_row_goal(point):
        contenders.append(dense(ROW, lambda x: x[:1]))
    return contenders


def our_contender(point: Point, data: Data) -> Contender:
    lengths, max_length = data.lengths, data.max_length

    def call(x: Tensor) -> TopKVarlen:
        return topk_varlen(
            x, point.k, lengths=lengths, order=point.order, return_values=point.return_values,
            max_length=max_length,
        )  # fmt: skip

    def export(found: TopKVarlen) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in found if tensor is not None)

    return Contender(OURS, call, export=export)


def has_row_goal(point: Point) -> bool:
    return point.pattern == "one_full" and point.rows == ROW_GOAL_ROWS


# --- checks ---------------------------------------------------------------------------------------


def problem_of(outputs: Sequence[Tensor], point: Point, data: Data) -> str | None:
    """What is wrong with our results, or None."""
    found = TopKVarlen(outputs[0] if point.return_values else None, *outputs[-2:])
    problem = problem_by_sorting(found, point, data)
    if problem is None and data.scores.numel() <= ORACLE_ELEMENTS:
        options = {"order": point.order, "return_values": point.return_values, "lengths": data.lengths.cpu()}
        on_cpu = tuple(tensor if tensor is None else tensor.cpu() for tensor in found)
        problem = varlen_oracle.problem_of(on_cpu, data.scores.cpu(), point.k, options)
    return problem


def best_by_sorting(data: Data, k: int) -> Tensor:
    """Each row's best columns, equal ones by position; columns behind the winners' are of no window."""
    masked = data.scores.masked_fill(outside(data), -math.inf)
    rows = max(1, SORTED_ELEMENTS // masked.shape[1])
    return torch.cat(
        [part.sort(dim=-1, descending=True, stable=True).indices[:, :k] for part in masked.split(rows)]
    )


def problem_by_sorting(found: TopKVarlen, point: Point, data: Data) -> str | None:
    """Compares the pads, the winners, in any order where none is promised, and their values."""
    if not torch.equal(found.counts, data.lengths.clamp(max=point.k)):
        return "counts are not the lengths, or k"
    is_winner = torch.arange(point.k, device=found.counts.device) < found.counts[:, None]
    if (found.indices[~is_winner] != -1).any():
        return "indices behind the winners are not -1"
    columns, wanted = found.indices.long(), best_by_sorting(data, point.k)
    if point.order == "any":
        behind = point.cols
        columns, wanted = (c.where(is_winner, behind).sort(-1).values for c in (columns, wanted))
    if not torch.equal(columns[is_winner], wanted[is_winner]):
        return "not the columns that a stable sort gives"
    if found.values is None:
        return None
    values = data.scores.gather(-1, found.indices.long().clamp(min=0)).where(is_winner, -math.inf)
    return None if torch.equal(found.values, values) else "values are not those of the indices"


# --- one point ------------------------------------------------------------------------------------


def run(point: Point, device: torch.device, budget_s: float) -> Record:
    """Times and checks one point; its record."""
    data = data_of(point, device)
    contenders = contenders_of(point, data)
    window_bytes = data.window_elements * data.scores.element_size()
    copies = timing.copies_of(data.scores, window_bytes)
    timings = timing.measure(contenders, copies, budget_s)
    records = points.records_of(
        timings, OURS, timings[TORCH].us, lambda t: problem_of(t.outputs, point, data)
    )
    ours, dense = timings[OURS], timings.get(DENSE)
    return {
        "kind": "varlen",
        "rows": point.rows,
        "cols": point.cols,
        "k": point.k,
        "pattern": point.pattern,
        "order": point.order,
        "dtype": point.dtype,
        "return_values": point.return_values,
        "max_length": data.max_length,
        "options": point.options_text,
        "window_elements": data.window_elements,
        "dense_cols": data.dense_cols,
        "copies": len(copies),
        "floor_us": timings["floor"].us,
        "x_dense": points.ratio_of(ours, dense),
        "x_row": points.ratio_of(ours, timings.get(ROW)),
        "goal_x_dense": DENSE_GOAL if DENSE in timings else None,
        "goal_x_row": ROW_GOAL if ROW in timings else None,
        "goal_x_floor": None if (x := points.ratio_of(dense, timings["floor"])) is None else DENSE_GOAL * x,
        "contenders": records,
    }


# --- the report -----------------------------------------------------------------------------------


def print_table(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        ours = contender_of(record, OURS)
        rows.append(
            [
                f"{record['rows']} x {size_text(record['cols'])}",
                str(record["k"]),
                record["pattern"],
                record["order"],
                record["dtype"],
                record["options"] or "-",
                number_text(ours["us"]),
                number_text(ours.get("eager_us")),
                number_text(ours.get("x_floor")),
                ratio_text(record["x_dense"], record["goal_x_dense"]),
                ratio_text(record["x_row"], record["goal_x_row"]),
                number_text(ours.get("x_torch")),
            ]
        )
    columns = ["rows x cols", "k", "lengths", "order", "dtype", "options", "us", "eager us", "x floor"]
    print(report.table([*columns, "x dense ", "x row ", "x torch"], rows))


def print_report(records: Sequence[Record]) -> None:
    print_table(records)
    print()
    points.print_goal(records, "x_dense", DENSE_GOAL, "topk of as many elements")
    points.print_goal(records, "x_row", ROW_GOAL, "topk of the full row alone")


BENCH = Bench("varlen", __doc__, OURS, SETS, run, {"cuda": 0.2, "cpu": 2.0}, print_report, has_plot=True)


def main(arguments: Sequence[str] | None = None) -> int:
    return points.main(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
