"""The points that the benches time: shapes, inputs and dtypes, with goals and the best known results as data.

A point is one top-k request on a named input of tests/inputs.py. `point_set(name)` gives a list of them:

    smoke     a few seconds on any device: does the harness work, is every result right
    goals     CUDA: the table of goals, with the best library known for each line
    air       CUDA: the goals of AIR top-k alone
    grid_select, delegate    the same of the other two
    grid      CUDA: rows 1..16384, cols 2^8..2^30, k 1..2^20, then inputs, then dtypes
    sorted    CUDA: many winners, unsorted and sorted, and rows that are sorted whole
    cpu       the CPU goals (times as fast as torch.topk), a CPU grid, and, of every dtype, what is easily
              slower: rows of a few elements, dimensions other than the last, half of a row
    middle    CUDA: rows that models call with, 2^13 to 2^22 columns, with the best library for each line;
              sorted and unsorted, then inputs and dtypes, each form that serves them forced
    indexer   CUDA: the same lines with int32 indices, unsorted, beside libraries that write indices alone
    callers   the shapes that samplers, indexers, routers, sparsifiers and rerankers call with
    short     CUDA: many short rows, sorted; the goals on every input and in bfloat16, and a grid around them
    dims      CUDA: over a dimension other than the last, sorted; no peer serves that
    order     CUDA: what winners in order of index cost beside best first and any order (sorted=False)
    held      CUDA: whatever is held to a goal in the sets for it, with `auto` alone: where all stands at once

Every `x_floor` is relative to one read of the input in the same run, every `x_torch` to torch.topk in the
same run; there are no absolute times here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

MAX_ELEMENTS = 2**30  # rows x cols of any grid point: 4 GiB of float32
CPU_MAX_ELEMENTS = 2**22  # of the CPU grid: torch.topk takes up to some tenths of a second


@dataclass(frozen=True)
class Goal:
    """What a point is to reach, and who is best today."""

    x_floor: float | None = None  # at most this many times the one-read floor
    x_torch: float | None = None  # at least this many times as fast as torch.topk
    algorithm: str = "auto"  # the algorithm that is held to it
    best_library: str | None = None
    best_x_floor: float | None = None  # of that library, measured on an H200


@dataclass(frozen=True)
class Point:
    """One top-k request over the last dim of a [rows, cols] tensor, or over columns."""

    rows: int
    cols: int
    k: int
    input: str = "normal"
    dtype: str = "float32"
    sorted: bool = False
    largest: bool = True
    magnitude: bool = False
    index_dtype: str | None = None  # None: int64
    inner: int = 1  # not 1: over dim -2 of [rows / inner, cols, inner], without the first dim where that is 1
    algorithms: tuple[str, ...] = ("auto",)
    orders: tuple[str, ...] = ()  # also torch_topk.topk with each of these as its order
    goal: Goal | None = None
    label: str = ""

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    @property
    def data_key(self) -> tuple[str, int, int, str, int]:
        """Points with equal keys are timed on the same tensor."""
        return (self.input, self.rows, self.cols, self.dtype, self.inner)


# --- goals on CUDA: float32, unsorted -------------------------------------------------------------

# (input, rows, cols, k, best library, its x floor, goal as x floor)
_GOALS: tuple[tuple[str, int, int, int, str, float, float], ...] = (
    ("normal", 1, 2**15, 256, "FlashInfer clusters", 6.1, 3.5),
    ("normal", 1, 2**20, 32, "RAFT radix 11 bits", 7.7, 3.0),
    ("normal", 1, 2**20, 2048, "RAFT radix", 9.5, 3.3),
    ("normal", 1, 2**20, 32768, "RAFT radix", 14.0, 5.0),
    ("normal", 1, 2**25, 256, "RAFT radix", 2.8, 1.35),
    ("normal", 1, 2**25, 2**20, "RAFT radix", 17.0, 3.0),
    ("normal", 1, 2**28, 32, "RAFT radix", 2.3, 1.08),
    ("normal", 1, 2**28, 32768, "RAFT radix", 2.3, 1.15),
    ("normal", 1, 2**28, 2**20, "RAFT radix", 7.3, 1.6),
    ("normal", 1, 2**30, 2048, "RAFT radix", 2.2, 1.05),
    ("twelve_bit_random", 1, 2**28, 256, "RAFT warpsort", 6.6, 1.1),
    ("all_equal", 1, 2**28, 32768, "CUB DeviceTopK", 432.0, 1.15),
    ("increasing", 1, 2**28, 256, "RAFT radix", 3.4, 1.1),
    ("normal", 100, 2**15, 2048, "FlashInfer", 4.5, 2.2),
    ("normal", 100, 2**20, 256, "FlashInfer clusters", 3.1, 1.2),
    ("normal", 100, 2**20, 32768, "RAFT", 6.0, 1.8),
    ("all_equal", 100, 2**20, 256, "RAFT warpsort", 5.0, 1.3),
    ("normal", 64, 131072, 2048, "FlashInfer clusters", 4.1, 1.6),
    ("normal", 4096, 4096, 64, "RAFT radix", 5.5, 1.6),
    ("normal", 8192, 256, 8, "RAFT warp", 5.1, 1.8),
    ("normal", 10000, 10000, 100, "FlashInfer clusters", 4.1, 1.4),
)

# (input, rows, cols, goal as x floor), k = 2048
_AIR_GOALS: tuple[tuple[str, int, int, float], ...] = (
    ("normal", 1, 2**28, 2.15),
    ("uniform", 1, 2**28, 2.6),
    ("increasing", 1, 2**28, 2.6),
    ("twelve_bit_random", 1, 2**28, 3.3),
    ("all_equal", 1, 2**28, 3.3),
    ("ones_with_four_outliers", 1, 2**28, 3.3),
    ("normal", 100, 2**20, 2.6),
)

# (input, rows, cols, k, goal as x floor)
_GRID_SELECT_GOALS: tuple[tuple[str, int, int, int, float], ...] = (
    ("normal", 1, 2**28, 32, 1.15),
    ("normal", 1, 2**28, 256, 1.3),
    ("normal", 1, 2**28, 2048, 2.0),
    ("normal", 100, 2**20, 32, 1.3),
    ("normal", 10000, 1000, 10, 2.5),
    ("increasing", 1, 2**28, 32, 5.0),
    ("increasing", 1, 2**28, 256, 5.0),
    ("increasing", 1, 2**28, 2048, 5.0),
)
_DELEGATE_GOALS: tuple[tuple[str, int, int, int, float], ...] = (
    ("normal", 1, 2**28, 32, 1.08),
    ("normal", 1, 2**28, 2048, 1.1),
    ("normal", 1, 2**28, 32768, 1.15),
    ("normal", 1, 2**28, 2**20, 1.6),
    ("normal", 1, 2**30, 2048, 1.05),
    ("uniform", 1, 2**28, 256, 1.15),
    ("twelve_bit_random", 1, 2**28, 256, 1.15),
    ("all_equal", 1, 2**28, 256, 1.15),
    ("increasing", 1, 2**28, 256, 1.15),
    ("decreasing", 1, 2**28, 256, 1.15),
    ("ones_with_four_outliers", 1, 2**28, 256, 1.15),
)


def _goals() -> list[Point]:
    return [
        Point(rows, cols, k, name, goal=Goal(x_floor=goal, best_library=library, best_x_floor=best))
        for name, rows, cols, k, library, best, goal in _GOALS
    ]


def _air() -> list[Point]:
    return [
        Point(rows, cols, 2048, name, algorithms=("air",), goal=Goal(x_floor=goal, algorithm="air"))
        for name, rows, cols, goal in _AIR_GOALS
    ]


def _held_to(algorithm: str, goals: Iterable[tuple[str, int, int, int, float]]) -> list[Point]:
    return [
        Point(rows, cols, k, name, algorithms=(algorithm,), goal=Goal(x_floor=goal, algorithm=algorithm))
        for name, rows, cols, k, goal in goals
    ]


def _grid_select() -> list[Point]:
    return _held_to("grid_select", _GRID_SELECT_GOALS)


def _delegate() -> list[Point]:
    bfloat16 = Point(1, 2**28, 2048, dtype="bfloat16", algorithms=("delegate",))
    return [*_held_to("delegate", _DELEGATE_GOALS), bfloat16]


# --- the CUDA grid --------------------------------------------------------------------------------

GRID_ROWS = (1, 16, 100, 1024, 16384)
GRID_COLS = (2**8, 2**11, 2**13, 2**15, 2**17, 2**20, 2**22, 2**25, 2**28, 2**30)
GRID_KS = (1, 16, 256, 2048, 32768, 2**20)
GRID_INPUTS = (
    "normal",
    "uniform",
    "increasing",
    "decreasing",
    "all_equal",
    "ones_with_four_outliers",
    "twelve_bit_random",
    "ten_bit_prefix",
    "few_distinct",
    "winners_in_one_subrange",
)
GRID_DTYPES = (
    "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64",
    "bool", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
# Where the inputs and dtypes are varied: one shape of each kind.
_GRID_SHAPES = ((1, 2**15, 256), (1, 2**20, 2048), (1, 2**28, 2048), (100, 2**20, 256), (1024, 65536, 512),
                (4096, 4096, 64), (8192, 256, 8))  # fmt: skip


def cross(
    rows: Iterable[int],
    cols: Iterable[int],
    ks: Iterable[int],
    inputs: Iterable[str] = ("normal",),
    dtypes: Iterable[str] = ("float32",),
    max_elements: int = MAX_ELEMENTS,
    **fields: object,
) -> list[Point]:
    """Every combination of at most max_elements with k <= cols; points on the same data are neighbours."""
    return [
        replace(Point(r, c, k, name, dtype), **fields)
        for dtype, name, r, c, k in itertools.product(dtypes, inputs, rows, cols, ks)
        if k <= c and r * c <= max_elements and r * k <= 2**26
    ]


def _grid() -> list[Point]:
    points = cross(GRID_ROWS, GRID_COLS, GRID_KS)
    for rows, cols, k in _GRID_SHAPES:
        points += cross((rows,), (cols,), (k,), inputs=GRID_INPUTS[1:])
        points += cross((rows,), (cols,), (k,), dtypes=GRID_DTYPES)
    return points


# --- middle rows on CUDA --------------------------------------------------------------------------

# (rows, cols, k, best library that returns values, its x floor, best with indices alone, its x floor, goal as
# x floor): unsorted, float32, normal, measured on an H200.
_MIDDLE: tuple[tuple[int, int, int, str, float, str, float, float], ...] = (
    (1, 2**15, 256, "CUB batched", 6.4, "SGLang", 5.2, 4.2),
    (1, 131072, 2048, "CUB batched", 9.0, "SGLang", 5.3, 5.0),
    (8, 131072, 2048, "FlashInfer clusters", 5.4, "SGLang", 3.7, 3.4),
    (16, 129280, 64, "CUB batched", 4.7, "SGLang", 2.5, 2.4),
    (64, 32768, 2048, "CUB batched", 5.2, "SGLang", 3.5, 3.2),
    (100, 2**15, 2048, "FlashInfer", 4.8, "SGLang", 2.9, 2.6),
    (64, 131072, 512, "DeepSelect", 2.7, "DeepSelect", 2.7, 2.2),
    (64, 131072, 2048, "FlashInfer clusters", 4.9, "vLLM", 3.6, 2.4),
    (128, 131072, 512, "DeepSelect", 1.66, "DeepSelect", 1.67, 1.5),
    (256, 128256, 50, "DeepSelect", 1.48, "DeepSelect", 1.48, 1.3),
    (512, 131072, 2048, "FlashInfer clusters", 3.0, "vLLM", 1.93, 1.6),
    (1024, 65536, 512, "DeepSelect", 2.0, "DeepSelect", 2.0, 1.6),
    (10000, 10000, 100, "FlashInfer clusters", 4.1, "SGLang", 2.2, 1.6),
    (1, 2**20, 32, "CUB", 7.3, "SGLang", 5.5, 4.0),
    (1, 2**20, 2048, "CUB", 8.7, "SGLang", 6.2, 4.5),
    (1, 2**22, 256, "CUB", 5.0, "SGLang", 8.6, 2.6),
    (100, 2**20, 256, "DeepSelect", 1.27, "DeepSelect", 1.27, 1.2),
)
# (rows, cols, k, input, best library that returns values, its x floor, goal as x floor)
_MIDDLE_INPUTS: tuple[tuple[int, int, int, str, str | None, float | None, float], ...] = (
    (1, 2**20, 256, "uniform", None, None, 5.5),
    (1, 2**20, 256, "twelve_bit_random", None, None, 5.5),
    (1, 2**20, 256, "all_equal", None, None, 5.5),
    (1, 2**20, 256, "ones_with_four_outliers", None, None, 5.5),
    (64, 131072, 2048, "twelve_bit_random", "DeepSelect", 5.5, 2.9),
    (64, 131072, 2048, "all_equal", "DeepSelect", 2.3, 2.9),
    (64, 131072, 2048, "increasing", "DeepSelect", 2.2, 2.9),
    (64, 131072, 2048, "ones_with_four_outliers", "DeepSelect", 2.9, 2.9),
)
# Where inputs are varied: one shape of each kind, rows whole in shared memory and rows that pass through it.
_MIDDLE_SHAPES = ((10000, 10000, 100), (100, 2**15, 2048), (1024, 65536, 512), (512, 131072, 2048),
                  (256, 128256, 50))  # fmt: skip
_MIDDLE_FORMS = ("auto", "air", "grid_select", "delegate")


def _middle() -> list[Point]:
    fields = {"algorithms": _MIDDLE_FORMS}
    points = []
    for rows, cols, k, library, best, _, _, goal in _MIDDLE:
        held = Goal(x_floor=goal, best_library=library, best_x_floor=best)
        points.append(Point(rows, cols, k, goal=held, **fields))
        points.append(Point(rows, cols, k, sorted=True, **fields))
    for rows, cols, k, name, library, best, goal in _MIDDLE_INPUTS:
        held = Goal(x_floor=goal, best_library=library, best_x_floor=best)
        points.append(Point(rows, cols, k, name, goal=held, **fields))
    for rows, cols, k in _MIDDLE_SHAPES:
        points += cross((rows,), (cols,), (k,), inputs=GRID_INPUTS[1:], **fields)
        points += cross((rows,), (cols,), (k,), dtypes=("bfloat16", "float16", "int8"), **fields)
    points.append(Point(256, 32000, 50, **fields))
    points.append(Point(256, 32000, 50, dtype="bfloat16", **fields))
    points += cross(
        (1, 16, 64, 132, 1024, 4096), (2**14, 2**16, 2**18, 2**20, 2**22), (1, 64, 1024, 4096),
        max_elements=2**28, **fields,
    )  # fmt: skip
    return points


def _indexer() -> list[Point]:
    return [
        Point(rows, cols, k, index_dtype="int32", algorithms=_MIDDLE_FORMS,
              goal=Goal(x_floor=goal, best_library=library, best_x_floor=best))
        for rows, cols, k, _, _, library, best, goal in _MIDDLE
    ]  # fmt: skip


# --- winners in order, and many winners, on CUDA --------------------------------------------------

# (rows, cols, k, goals as x floor: unsorted, sorted; None: sorted is to cost 15 % more than unsorted)
_SORTED: tuple[tuple[int, int, int, float | None, float | None], ...] = (
    (32, 20000, 2048, None, None),
    (1024, 12000, 2048, None, None),
    (1000, 2000, 1000, None, None),
    (16, 262144, 1000, None, None),
    (1, 2_360_000, 23_593, None, None),
    (64, 2**20, 10_486, None, None),
    (1, 2**20, 32_768, 6.0, 12.0),
    (1, 2**25, 2**20, 3.0, 4.5),
    (1, 2**28, 2**20, 1.3, 1.6),
    (100, 2**20, 32_768, 2.0, 3.0),
    (1, 10_000_000, 5_000_000, 7.0, 20.0),
)
# Winners that crowd or lie far apart, in one block and in parts.
_SORTED_SHAPES = ((1024, 12000, 2048), (100, 2**20, 32_768), (1, 2**22, 2**20))
_SORTED_DTYPES = ("bfloat16", "int64", "float64")


def _sorted() -> list[Point]:
    points = []
    for rows, cols, k, *goals in _SORTED:
        algorithms = ("auto", "air", "sort") if cols <= 8 * k else ("auto", "air")
        for order, x_floor in zip((False, True), goals, strict=True):
            goal = None if x_floor is None else Goal(x_floor=x_floor)
            points.append(Point(rows, cols, k, sorted=order, goal=goal, algorithms=algorithms))
    for order in (False, True):
        for rows, cols, k in _SORTED_SHAPES:
            points += cross((rows,), (cols,), (k,), inputs=GRID_INPUTS[1:], sorted=order)
            points += cross((rows,), (cols,), (k,), dtypes=_SORTED_DTYPES, sorted=order)
        # A good part of a row, and all of it.
        for rows, cols in ((1, 2**15), (100, 2**15), (16384, 2048), (1000, 8192), (1, 2**20), (1, 2**24)):
            ks = (cols // 4, cols // 2, cols - 1, cols)
            points += cross((rows,), (cols,), ks, sorted=order, algorithms=("auto", "air", "sort"))
        for cols in (2**18, 2**22, 2**26, 2**30):
            ks = [2**bits for bits in range(13, cols.bit_length() - 1, 3)]
            points += cross((1, 30, 1000), (cols,), ks, max_elements=2**30, sorted=order)
        points += cross((1, 30), (2**22,), (2**16, 2**20), dtypes=_SORTED_DTYPES, sorted=order)
    return points


# --- CPU ------------------------------------------------------------------------------------------

# (rows, cols, k, goal as times as fast as torch.topk)
_CPU_GOALS = (
    (1, 2**24, 1000, 15.0),
    (32, 50257, 50, 8.0),
    (1000, 10000, 100, 6.0),
    (10000, 1000, 10, 6.0),
    (8192, 256, 8, 6.0),
)
_CPU_GRID_INPUTS = ("normal", "increasing", "decreasing", "all_equal")
_CPU_DTYPES = ("float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64")
# (rows, cols, inner, k), as Point.inner says
_CPU_COLUMNS = (
    (2, 2**20, 2, 10),
    (3, 300_000, 3, 5),
    (8, 50257, 8, 10),
    (1024, 64, 1024, 8),
    (2**18, 4, 2**18, 2),
    (2**18, 8, 2**18, 2),
    (2**15, 32, 2**12, 4),
    (20_000, 100, 1000, 10),
    (30_000, 8, 3, 2),
)
_CPU_LARGE_COLUMNS = ((10**6, 20, 10**6, 10), (2048, 2048, 2048, 50), (2048, 2048, 2048, 1024))


def _cpu_short() -> list[Point]:
    """Rows of a few elements, one after the other in memory."""
    points = []
    for cols in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64):
        for k, order in dict.fromkeys(((min(2, cols), True), (cols, True), (cols, False))):
            points += cross((2**16,), (cols,), (k,), dtypes=_CPU_DTYPES, sorted=order)
    return points + cross((256,), (8, 64), (2,), dtypes=_CPU_DTYPES, sorted=True)


def _cpu_columns() -> list[Point]:
    """Over a dimension that is not the last."""
    points = []
    for shapes, dtypes in ((_CPU_COLUMNS, _CPU_DTYPES), (_CPU_LARGE_COLUMNS, ("float32", "bfloat16"))):
        for rows, cols, inner, k in shapes:
            points += cross(
                (rows,), (cols,), (k,), dtypes=dtypes, max_elements=2**25, sorted=True, inner=inner
            )
    return points


def _cpu_half() -> list[Point]:
    inputs = ("normal", "few_distinct")
    points = cross((1,), (2**20,), (2**19,), inputs=inputs, dtypes=_CPU_DTYPES, sorted=True)
    return points + cross((1,), (2**20,), (2**19,), dtypes=_CPU_DTYPES)


def _cpu() -> list[Point]:
    points = [
        Point(rows, cols, k, sorted=True, goal=Goal(x_torch=goal)) for rows, cols, k, goal in _CPU_GOALS
    ]
    grid = cross(
        (1, 32, 1024),
        (2**6, 2**10, 2**14, 2**18, 2**22),
        (1, 8, 64, 1024, 2**14),
        inputs=_CPU_GRID_INPUTS,
        max_elements=CPU_MAX_ELEMENTS,
        sorted=True,
    )
    not_slower = Goal(x_torch=1.0)
    rest = [*grid, *_cpu_short(), *_cpu_columns(), *_cpu_half()]
    return points + [replace(point, goal=not_slower) for point in rest]


# --- callers --------------------------------------------------------------------------------------


def _callers() -> list[Point]:
    points: list[Point] = []
    for rows, cols in itertools.product((1, 32, 256), (32000, 50257, 128256, 151936, 262144)):
        for dtype, k in (("float32", 50), ("bfloat16", 50), ("float32", 100)):
            points.append(Point(rows, cols, k, dtype=dtype, sorted=True, label="logits"))
    for rows, cols, k in itertools.product((1, 64, 512), (8192, 65536, 262144), (512, 2048)):
        points.append(Point(rows, cols, k, index_dtype="int32", label="attention indexer"))
    for rows, cols, k in ((1, 128, 8), (64, 256, 8), (4096, 64, 6), (16384, 256, 8), (100000, 512, 16)):
        points.append(Point(rows, cols, k, sorted=True, label="MoE router"))
    for cols in (2**18, 6_553_600):
        for permille in (1, 10):
            points.append(
                Point(
                    1, cols, cols * permille // 1000, magnitude=True, index_dtype="int32", label="gradients"
                )
            )
    points.append(Point(100_000, 4096, 32, magnitude=True, index_dtype="int32", label="gradients (DeMo)"))
    for rows, cols, k in ((1000, 100, 10), (1000, 1000, 100), (10000, 1000, 100), (1000, 10000, 1000)):
        points.append(Point(rows, cols, k, sorted=True, largest=False, label="ANN rerank"))
    points.append(Point(128, 2**23, 1000, dtype="float16", sorted=True, label="retrieval"))
    return points


# --- short rows: routers, reranking; sorted -------------------------------------------------------

# (rows, cols, k, goal as x floor)
_SHORT_GOALS: tuple[tuple[int, int, int, float], ...] = (
    (65536, 64, 6, 2.5),
    (8192, 128, 8, 1.7),
    (8192, 256, 8, 1.6),
    (16384, 256, 8, 1.6),
    (100_000, 512, 16, 1.6),
    (16384, 1024, 32, 2.0),
    (4096, 4096, 64, 1.7),
    (10_000, 1000, 10, 1.6),
    (10_000, 1000, 100, 3.5),
    (1000, 10_000, 1000, 3.5),
)
_SHORT_INPUTS = (
    "increasing",
    "decreasing",
    "all_equal",
    "few_distinct",
    "twelve_bit_random",
    "ones_with_four_outliers",
    "sampled_peaks",
    "winners_in_one_subrange",
    "signed_zeros",
)


_SHORT_DTYPES = ("float32", "bfloat16", "float16", "int32")
_SHORT_GRID = ((64, 1024), (1024, 8), (1024, 64), (1000, 1000), (4096, 2048), (100_000, 32), (1000, 16384))


def _short() -> list[Point]:
    """The goals on every input and in other dtypes, and a grid around them."""
    points = []
    for rows, cols, k, goal in _SHORT_GOALS:
        point = Point(rows, cols, k, sorted=True, goal=Goal(x_floor=goal), label="short")
        points.append(point)
        points += [replace(point, input=name, goal=None) for name in _SHORT_INPUTS]
        points += [replace(point, dtype=dtype, goal=None) for dtype in _SHORT_DTYPES[1:]]
    for rows, cols in _SHORT_GRID:
        for k in sorted({1, min(8, cols), cols // 8, cols}):
            points += cross((rows,), (cols,), (k,), dtypes=_SHORT_DTYPES, sorted=True)
        point = Point(rows, cols, cols // 8, sorted=True)
        points += [replace(point, input=name) for name in _SHORT_INPUTS]
    return points


# --- a dimension other than the last, on CUDA; sorted ---------------------------------------------

# (outer, cols, inner, k) and the goal, x floor: over dim 1 of [outer, cols, inner]
_DIMS = (
    (64, 256, 3136, 10, 2.5),
    (8, 4096, 1024, 64, 3),
    (1, 32, 10**6, 3, 3),
    (16, 50257, 8, 50, 3),
    (4, 131072, 16, 512, 4),
)
_DIMS_MIN_ELEMENTS, _DIMS_MAX_ELEMENTS = 2**16, 2**28  # of a point of the grid around them


def _dims() -> list[Point]:
    points = [
        Point(outer * inner, cols, k, sorted=True, inner=inner, goal=Goal(x_floor=goal))
        for outer, cols, inner, k, goal in _DIMS
    ]
    for outer, inner in itertools.product((1, 32), (7, 49, 1000)):
        points += cross(
            (outer * inner,), (16, 100, 1000, 10_000, 100_000), (3, 32), dtypes=("float32", "bfloat16"),
            max_elements=_DIMS_MAX_ELEMENTS, sorted=True, inner=inner,
        )  # fmt: skip
    return [point for point in points if point.elements >= _DIMS_MIN_ELEMENTS]


# --- the orders that winners can come in, on CUDA -------------------------------------------------

_ORDERS = ("value", "index", "any")
_ORDERED = (
    (1024, 12_000, 2048),
    (32, 20_000, 2048),
    (64, 131_072, 2048),
    (1000, 2000, 1000),
    (16, 262_144, 1000),
    (100, 2**20, 256),
    (4096, 4096, 64),
    (256, 128_256, 50),
    (10_000, 1000, 32),
    (8192, 256, 8),
    (1, 2**20, 2048),
    (1, 10**7, 10**5),
)


def _order() -> list[Point]:
    return [Point(*shape, sorted=True, algorithms=(), orders=_ORDERS) for shape in _ORDERED]


# --- all that has a goal, on CUDA ------------------------------------------------------------------

_HELD_SETS = (_goals, _middle, _indexer, _sorted, _short, _dims)


def _held() -> list[Point]:
    points = [point for points_of in _HELD_SETS for point in points_of() if point.goal is not None]
    # A shape that several sets hold to goals is timed once, for the last of them.
    once = {replace(point, goal=None, label="", algorithms=()): point for point in points}
    return [replace(point, algorithms=("auto",)) for point in once.values()]


# --- smoke ----------------------------------------------------------------------------------------


def _smoke() -> list[Point]:
    points = cross((1, 7), (300, 5000), (1, 37), inputs=("normal", "all_equal"))
    points += cross((3,), (70001,), (129,), dtypes=("float32", "bfloat16", "int64", "uint8"), sorted=True)
    points.append(Point(2, 4096, 64, largest=False, sorted=True))
    points.append(Point(2, 4096, 64, magnitude=True, index_dtype="int32"))
    return points


SETS: dict[str, Callable[[], list[Point]]] = {
    "smoke": _smoke,
    "goals": _goals,
    "air": _air,
    "grid_select": _grid_select,
    "delegate": _delegate,
    "grid": _grid,
    "middle": _middle,
    "indexer": _indexer,
    "sorted": _sorted,
    "cpu": _cpu,
    "callers": _callers,
    "short": _short,
    "dims": _dims,
    "order": _order,
    "held": _held,
}


def point_set(name: str) -> list[Point]:
    """The points of a named set."""
    return SETS[name]()


def with_algorithms(points: Sequence[Point], algorithms: Sequence[str]) -> list[Point]:
    """The same points, timed with these algorithms; the one that a goal is about is always among them."""
    out = []
    for point in points:
        wanted = list(algorithms)
        if point.goal is not None and point.goal.algorithm not in wanted:
            wanted.append(point.goal.algorithm)
        out.append(replace(point, algorithms=tuple(wanted)))
    return out
