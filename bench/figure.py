"""What a figure of a paper is here: requests, who is timed at each, and what its authors found. The figures
themselves are in paper_figures.py.

Needs nothing but Python: the page and the plots may be made from another machine's record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

# The inputs that are not of tests/inputs.py: paper_calls.make.
REAL = "patch_distances"
THIRTY_BITS = "thirty_bits"
NARROW = "narrow_normal"
FULL_BUCKETS = "full_buckets"


@dataclass(frozen=True)
class Point:
    """One request: a [rows, cols] tensor of a named input, and columns beside it where there are several."""

    input: str
    rows: int
    cols: int
    k: int
    dtype: str = "float32"
    largest: bool = True
    columns: int = 1
    percent: int = 100  # of the elements that pass a filter on the second column

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    @property
    def data_key(self) -> tuple[str, int, int, str, int, int]:
        """Points with equal keys are timed on the same tensors."""
        return (self.input, self.rows, self.cols, self.dtype, self.columns, self.percent)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast `ours` is as the fastest of `base`, and what the authors found of that."""

    ours: str
    base: tuple[str, ...]
    paper: tuple[float | None, float] | None = None  # their range; without a lower end "up to"
    note: str = ""  # of what their range is
    where: Mapping[str, object] = field(default_factory=dict)  # the points that it is about; default all


@dataclass(frozen=True)
class Duel:
    """Where is `first` faster than `second`, over k, and where was it in the paper?"""

    first: str
    second: str
    paper: str = ""


@dataclass(frozen=True)
class Figure:
    """`points` are timed by papers.py. A figure is of its own points, of those of the figures `of`, or of an
    ablation."""

    name: str
    paper: str
    number: str
    about: str
    hardware: str
    claim: str
    differs: str = ""  # what is not as in the paper, and why, beyond what `Paper.here` says
    contenders: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    axis: str = "k"
    ratios: tuple[Ratio, ...] = ()
    duels: tuple[Duel, ...] = ()
    of: tuple[str, ...] = ()
    where: Mapping[str, object] = field(default_factory=dict)
    study: str = ""  # of ablation.py


@dataclass(frozen=True)
class Method:
    """What a paper describes, by its name there and here."""

    paper: str
    theirs: str
    ours: str  # as the page writes it
    files: str
    contender: str  # whose wins are counted


@dataclass(frozen=True)
class Paper:
    title: str
    here: str  # what stands for what, in all its figures
    not_here: str  # its figures that are not rebuilt, and why


def powers(*exponents: int) -> tuple[int, ...]:
    return tuple(2**exponent for exponent in exponents)


def cross(
    inputs: Iterable[str],
    rows: Iterable[int],
    cols: Iterable[int],
    ks: Iterable[int],
    dtype: str = "float32",
    largest: bool = True,
    columns: Iterable[int] = (1,),
) -> tuple[Point, ...]:
    """Every combination with k <= cols."""
    every = itertools.product(inputs, rows, cols, columns, ks)
    return tuple(Point(name, r, c, k, dtype, largest, n) for name, r, c, n, k in every if k <= c)


def quick(points: Sequence[Point]) -> list[Point]:
    """Four small requests at most, of kinds from all over the list, for a machine without a GPU."""
    ranks = {cols: rank for rank, cols in enumerate(sorted({point.cols for point in points}))}
    small = [
        replace(p, cols=512 << ranks[p.cols] % 3, k=min(p.k, 2 + p.k % 61), rows=min(p.rows, 3))
        for p in points
    ]
    distinct = list(dict.fromkeys(small))
    return distinct[:: -(-len(distinct) // 4)]
