"""A case of one top-k in one line, which a failure prints and a command runs again.

    float32 normal 3x1000 k=10 offset=1 gap=3 seed=5 largest=0 algorithm=air

dtype, named input (tests/inputs.py) and rows x cols first, then in any order k; offset, elements before the
first; gap, elements between two rows; seed, of the input and, where there is one, the schedule; all else are
options of who runs it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator

import torch

from tests import inputs, oracle

_BOOLS = ("largest", "sorted", "magnitude", "by_index", "last_alone", "return_values", "dim_last")


def _number_or_word(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


@dataclasses.dataclass(frozen=True)
class Case:
    dtype: torch.dtype
    name: str
    rows: int
    cols: int
    k: int
    offset: int = 0
    gap: int = 0
    seed: int = 1
    options: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        parts = [oracle.name_of(self.dtype), self.name, f"{self.rows}x{self.cols}", f"k={self.k}"]
        parts += [f"{name}={getattr(self, name)}" for name in ("offset", "gap") if getattr(self, name)]
        parts += [f"seed={self.seed}"]
        for name, value in self.options:
            text = oracle.name_of(value) if isinstance(value, torch.dtype) else value
            parts.append(f"{name}={int(text) if isinstance(text, bool) else text}")
        return " ".join(parts)

    @classmethod
    def parse(cls, line: str) -> Case:
        dtype, name, shape, *rest = line.split()
        rows, cols = map(int, shape.split("x"))
        words = dict(word.split("=", 1) for word in rest)
        own = {key: int(words.pop(key)) for key in ("k", "offset", "gap", "seed") if key in words}
        options: dict[str, object] = {}
        for key, value in words.items():
            if key == "index_dtype":
                options[key] = getattr(torch, value)
            else:
                options[key] = bool(int(value)) if key in _BOOLS else _number_or_word(value)
        return cls(getattr(torch, dtype), name, rows, cols, **own, options=tuple(options.items()))

    def tensor(self, device: str = "cpu") -> torch.Tensor:
        """The input, at its offset and with its gaps, which hold bits of their own."""
        rows = inputs.make(self.name, self.rows, self.cols, self.dtype, device, self.seed)
        if self.offset == 0 and self.gap == 0:
            return rows
        stride = self.cols + self.gap
        elements = self.offset + self.rows * stride
        around = inputs.make("random_bits", 1, elements, self.dtype, device, self.seed + 1)
        view = around[0, self.offset :].as_strided((self.rows, self.cols), (stride, 1))
        oracle.as_ints(view).copy_(oracle.as_ints(rows))
        return view

    def with_options(self, **options) -> Case:
        return dataclasses.replace(self, options=tuple({**dict(self.options), **options}.items()))


def number_near(rng: random.Random, most: int) -> int:
    """1 to `most`: small, near a power of two, near the end, or anywhere."""
    kind = rng.randrange(5)
    if kind == 0:
        number = rng.randint(1, 40)
    elif kind == 1:
        number = (1 << rng.randint(0, max(most.bit_length() - 1, 0))) + rng.randint(-2, 2)
    elif kind == 2:
        number = most - rng.randint(0, 3)
    elif kind == 3:
        number = int(most ** rng.random())
    else:
        number = rng.randint(1, most)
    return min(max(number, 1), most)


def fewer(number: int) -> list[int]:
    """Less of it by a large or a small part."""
    return sorted({number // 2, number * 3 // 4, number - number // 8, number - number // 32} - {number})


def smaller(case: Case) -> Iterator[Case]:
    """Simpler cases: those in big steps first, for shrinking."""
    least = max(case.k, 1) if case.k <= case.cols else 1
    for rows in (1, *fewer(case.rows)):
        if 0 < rows < case.rows:
            yield dataclasses.replace(case, rows=rows)
    for cols in (least, *fewer(case.cols)):
        if least <= cols < case.cols:
            yield dataclasses.replace(case, cols=cols)
    for k in (1, *fewer(case.k)):
        if 0 < k < case.k:
            yield dataclasses.replace(case, k=k)
    for field in ("offset", "gap"):
        if getattr(case, field):
            yield dataclasses.replace(case, **{field: 0})
    for name, _ in case.options:
        if name not in ("form", "algorithm", "op"):
            yield dataclasses.replace(case, options=tuple(o for o in case.options if o[0] != name))
    for field, end in (("rows", 1), ("cols", least), ("k", 1)):
        if getattr(case, field) > end:
            yield dataclasses.replace(case, **{field: getattr(case, field) - 1})
    if case.name == inputs.MIXED:
        for name in dict.fromkeys(("normal", "all_equal", "increasing", *inputs.names_for(case.dtype))):
            yield dataclasses.replace(case, name=name)


def shrink(case: Case, fails: Callable[[Case], bool], most: int = 200) -> Case:
    """The smallest case found that still fails, in at most so many tries."""
    tries = 0
    again = True
    while again:
        again = False
        for candidate in smaller(case):
            tries += 1
            if tries > most:
                return case
            if fails(candidate):
                case, again = candidate, True
                break
    return case
