"""Named inputs: the distributions that top-k meets and the ones that break it.

make(name, rows, cols, dtype, device, seed) fills a [rows, cols] tensor. A family is a function from positions
to bit patterns, computed in int64 on the target device from a counter-based hash, so an element depends on
(name, seed, row, col, cols, dtype) alone: any size, any device, any chunking. Families of positions and
integers are the same bits on every device; those that go through log or cos (normal, zipf) nearly so.
Needs torch and numpy alone: the benches read this file too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

_CHUNK = 1 << 25
_INT_OF_WIDTH = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)

# dtype: (bits of 1.0, bits of the least normal number, bits of the largest finite number, bits of the largest
# magnitude that is not NaN)
_FLOATS = {
    torch.float8_e4m3fn: (0x38, 0x08, 0x7E, 0x7E),
    torch.float8_e5m2: (0x3C, 0x04, 0x7B, 0x7C),
    torch.float16: (0x3C00, 0x0400, 0x7BFF, 0x7C00),
    torch.bfloat16: (0x3F80, 0x0080, 0x7F7F, 0x7F80),
    torch.float32: (0x3F800000, 0x00800000, 0x7F7FFFFF, 0x7F800000),
    torch.float64: (0x3FF << 52, 1 << 52, (0x7FF << 52) - 1, 0x7FF << 52),
}


def _wrap(number: int) -> int:
    """A Python integer modulo 2^64, as int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63


def _mix(x: torch.Tensor) -> torch.Tensor:
    """splitmix64's finaliser: int64 multiplication wraps, and a mask makes >> logical."""
    x = (x ^ ((x >> 30) & (2**34 - 1))) * _wrap(0xBF58476D1CE4E5B9)
    x = (x ^ ((x >> 27) & (2**37 - 1))) * _wrap(0x94D049BB133111EB)
    return x ^ ((x >> 31) & (2**33 - 1))


class Elements:
    """A run of elements to be filled: their positions, their randomness, and their dtype's facts."""

    def __init__(self, dtype: torch.dtype, cols: int, row: torch.Tensor, col: torch.Tensor, seed: int):
        self.dtype, self.cols, self.row, self.col, self.seed = dtype, cols, row, col, seed
        self.width = 8 * dtype.itemsize
        self.sign = _wrap(1 << (self.width - 1))
        self.floating = dtype in _FLOATS
        self.one, self.normal_bits, self.finite_bits, self.top_bits = _FLOATS.get(dtype, (1, 0, 0, 0))
        # Ordinals count a dtype's numbers (NaN apart) upwards; 0 is the middle: zero, or half the range.
        half = 2 ** (self.width - 1)
        if self.floating:
            self.lowest, self.highest = -self.top_bits, self.top_bits
        elif dtype == torch.bool:
            self.lowest, self.highest = 0, 1
        else:
            self.lowest, self.highest = -half, half - 1

    def random(self, stream: int = 0) -> torch.Tensor:
        """64 random bits an element; a stream is independent of the others."""
        salt = _wrap((self.seed * 1000003 + stream + 1) * 0x9E3779B97F4A7C15)
        return _mix(_mix(self.row * _wrap(0xD1B54A32D192ED03) + salt) + self.col * _wrap(0x9E3779B97F4A7C15))

    def row_random(self, stream: int = 0) -> torch.Tensor:
        """64 random bits a row, the same for all its elements."""
        salt = _wrap((self.seed * 1000003 + stream + 77) * 0x9E3779B97F4A7C15)
        return _mix(_mix(self.row * _wrap(0xD1B54A32D192ED03) + salt))

    def uniform(self, stream: int = 0) -> torch.Tensor:
        """float64 in [0, 1)."""
        return ((self.random(stream) >> 11) & (2**53 - 1)).to(torch.float64) * 2.0**-53

    def chance(self, probability: float, stream: int = 0) -> torch.Tensor:
        return self.uniform(stream) < probability

    def numbers(self, numbers: torch.Tensor) -> torch.Tensor:
        """float64 numbers as bits of the dtype, rounded, integers clamped to their range."""
        if self.floating:
            return numbers.to(self.dtype).view(_INT_OF_WIDTH[self.dtype.itemsize]).to(torch.int64)
        if self.dtype == torch.bool:
            return (numbers >= 1).to(torch.int64)
        half = 2.0 ** min(self.width - 1, 62)
        low = -half if self.dtype in _SIGNED else 0.0
        return numbers.round().clamp(low, half - 1 if self.width < 54 else half).to(torch.int64)

    def ordinals(self, ordinals: torch.Tensor) -> torch.Tensor:
        """The bits of the dtype's numbers by their ordinals, which must lie in lowest .. highest."""
        if self.floating:
            return torch.where(ordinals < 0, -ordinals | self.sign, ordinals)
        return ordinals if self.dtype in _SIGNED or self.dtype == torch.bool else ordinals ^ self.sign

    def clamped(self, ordinals: torch.Tensor) -> torch.Tensor:
        return self.ordinals(ordinals.clamp(self.lowest, self.highest))

    def ladder(self, position: torch.Tensor, steps: int) -> torch.Tensor:
        """Bits that never decrease with position in 0 .. steps - 1, spread over the dtype's range."""
        span = self.highest - self.lowest
        if span >= steps:
            return self.ordinals(position * min(span // max(steps, 1), 2**62) + self.lowest)
        return self.ordinals(position // (steps // (span + 1) + 1) + self.lowest)

    def one_of(self, patterns: list[int], stream: int = 0) -> torch.Tensor:
        """One of a few bit patterns, at random."""
        table = torch.tensor([_wrap(p) for p in patterns], dtype=torch.int64, device=self.col.device)
        return table[self.random(stream) % len(patterns)]

    def everywhere(self, bits: int) -> torch.Tensor:
        return torch.full_like(self.col, _wrap(bits))

    def nan(self, stream: int = 90) -> torch.Tensor:
        """NaNs of either sign and any payload."""
        payloads = 2 ** (self.width - 1) - 1 - self.top_bits
        magnitude = self.random(stream) % payloads + (self.top_bits + 1)
        return torch.where(self.chance(0.5, stream + 1), magnitude | self.sign, magnitude)

    def signed(self, magnitude: torch.Tensor, stream: int = 80) -> torch.Tensor:
        """A random sign bit."""
        return torch.where(self.chance(0.5, stream), magnitude | self.sign, magnitude)

    def normal(self, stream: int = 0) -> torch.Tensor:
        """Normal numbers; integers with a spread of an eighth of their range."""
        radius = (-2.0 * torch.log1p(-self.uniform(stream))).sqrt()
        gauss = radius * (2.0 * math.pi * self.uniform(stream + 1)).cos()
        if self.floating:
            return self.numbers(gauss)
        if self.dtype == torch.bool:
            return self.numbers(gauss + 1)
        bits = (gauss * 2.0 ** (self.width - 4)).to(torch.int64)
        return self.clamped(bits)


Family = Callable[[Elements], torch.Tensor]
FAMILIES: dict[str, Family] = {}
_FLOAT_ONLY: set[str] = set()


def _family(function: Family) -> Family:
    FAMILIES[function.__name__] = function
    return function


def _float_family(function: Family) -> Family:
    _FLOAT_ONLY.add(function.__name__)
    return _family(function)


# What top-k meets.


@_family
def normal(e: Elements) -> torch.Tensor:
    return e.normal()


@_family
def uniform(e: Elements) -> torch.Tensor:
    """[0, 1) for floats, the whole range for integers."""
    if e.floating:
        return e.numbers(e.uniform())
    return e.random() & 1 if e.dtype == torch.bool else e.random()


@_family
def random_bits(e: Elements) -> torch.Tensor:
    """Any bit pattern: in floats every exponent alike, NaN and infinity among them."""
    return e.random() & 1 if e.dtype == torch.bool else e.random()


@_family
def increasing(e: Elements) -> torch.Tensor:
    return e.ladder(e.col, e.cols)


@_family
def decreasing(e: Elements) -> torch.Tensor:
    return e.ladder(e.cols - 1 - e.col, e.cols)


@_family
def all_equal(e: Elements) -> torch.Tensor:
    return e.everywhere(e.one)


@_family
def few_distinct(e: Elements) -> torch.Tensor:
    middle = 2 if e.floating or e.dtype in _SIGNED else 0
    return e.numbers((e.random() % 5 - middle).to(torch.float64))


@_family
def zipf(e: Elements) -> torch.Tensor:
    """1 / u, floored: half the elements are 1, and a few are huge."""
    return e.numbers((1.0 / (e.uniform() + 2.0**-40)).floor())


@_family
def two_level(e: Elements) -> torch.Tensor:
    return e.numbers(e.chance(0.5).to(torch.float64))


# What breaks a radix pass: elements that share digits.


@_family
def ones_with_four_outliers(e: Elements) -> torch.Tensor:
    bits = e.everywhere(e.one)
    for outlier in range(4):
        here = e.col == e.row_random(outlier) % max(e.cols, 1)
        bits = torch.where(here, bits - 1 if outlier % 2 else bits + 1 + outlier, bits)
    return bits & 1 if e.dtype == torch.bool else bits


def _low_bits_random(e: Elements, count: int) -> torch.Tensor:
    if e.dtype == torch.bool:
        return e.random() & 1
    mask = 2**count - 1
    prefix = e.one if e.floating else 3 << (e.width - 4)
    return (e.random() & mask) | _wrap(prefix & ~mask)


@_family
def twelve_bit_random(e: Elements) -> torch.Tensor:
    """In 32 bits: the first 20 fixed, 12 random. As many at most in the others."""
    return _low_bits_random(e, min(12, 3 * e.width // 8))


@_family
def ten_bit_prefix(e: Elements) -> torch.Tensor:
    """In 32 bits: the first 10 fixed, 22 random. In proportion in the others."""
    return _low_bits_random(e, e.width - 10 * e.width // 32)


@_family
def pivot_byte(e: Elements) -> torch.Tensor:
    """The second byte from the top decides; the others are alike."""
    if e.width == 8:
        return random_bits(e)
    shift = e.width - 16
    prefix = _wrap((0x3B << (e.width - 8)) | ((1 << shift) - 1))
    return ((e.random() & 0xFF) << shift) | prefix


@_family
def digit_boundaries(e: Elements) -> torch.Tensor:
    """Ordinals at, one below and one above multiples of the powers of two at which digits may be cut."""
    shifts = torch.tensor([3, 5, 7, 8, 9, 10, 11, 12, 16, 20, 21, 22, 24, 32, 33, 42, 44, 53, 56])
    shifts = shifts.clamp(max=e.width - 1).to(e.col.device)
    shift = shifts[e.random(1) % len(shifts)]
    multiple = (e.random(2) % 7 - 3) << shift
    return e.clamped(multiple + e.random(3) % 3 - 1)


@_family
def beyond_half_range(e: Elements) -> torch.Tensor:
    """Around 65,504, where float16 turns to infinity."""
    return e.numbers(65400 + e.uniform() * 400)


@_family
def top_bits_plus_i(e: Elements) -> torch.Tensor:
    """2^60 + i in 64 bits: a detour through float64 would merge neighbours. Likewise in the others."""
    if e.dtype == torch.bool:
        return e.col & 1
    position = e.col % min(2 ** (e.width - 4), 2**52)
    return position + (e.one & ~(2 ** (e.width // 2) - 1) if e.floating else 1 << (e.width - 4))


# What breaks sampling and subranges.


@_family
def sampled_peaks(e: Elements) -> torch.Tensor:
    """Every 32nd element is high in even rows and low in odd ones: a strided sample misjudges the row."""
    high = ((e.col % 32 == 0) == (e.row % 2 == 0)).to(torch.float64)
    return e.numbers(high * 64 + e.uniform() * 32)


@_family
def winners_in_one_subrange(e: Elements) -> torch.Tensor:
    """All high elements lie side by side, in ascending order."""
    size = max(1, e.cols // 16)
    start = e.row_random() % max(1, e.cols - size + 1)
    inside = (e.col >= start) & (e.col < start + size)
    below_top = (e.cols - 1 - e.col).clamp(max=(e.highest - e.lowest) // 8)
    return torch.where(inside, e.ordinals(e.highest - below_top), e.numbers(e.uniform() * 8))


@_family
def great_ones_in_some_vectors(e: Elements) -> torch.Tensor:
    """Of every second, fourth, eighth or sixteenth group of four vectors of 16 bytes, in a part of the row,
    the first element of each vector is great, others are small: bad for who deals out vectors in turn."""
    in_vector = 16 // e.dtype.itemsize
    some = e.col // (4 * in_vector) % (2 << e.row_random(3) % 4) == 0
    great = some & (8 * e.col < e.cols << e.row_random(4) % 4) & (e.col % in_vector == 0)
    others = torch.where(some, 0.0, 8.0) + 8 * e.uniform()
    return e.numbers(torch.where(great, 64 + 32 * e.uniform(), others))


@_family
def range_ends(e: Elements) -> torch.Tensor:
    """The dtype's ends, their neighbours, and the middle."""
    ends = [e.lowest, e.lowest + 1, e.highest - 1, e.highest, 0]
    if e.dtype != torch.bool:
        ends += [-1, 1]
    table = torch.tensor([max(e.lowest, min(e.highest, end)) for end in ends], device=e.col.device)
    return e.ordinals(table[e.random() % len(ends)])


# What breaks floats.


@_float_family
def all_nan(e: Elements) -> torch.Tensor:
    return e.nan()


@_float_family
def nan_heads(e: Elements) -> torch.Tensor:
    return torch.where(e.col < e.cols // 3, e.nan(), e.normal())


@_float_family
def nan_tails(e: Elements) -> torch.Tensor:
    return torch.where(e.col >= e.cols - e.cols // 3, e.nan(), e.normal())


@_float_family
def nan_scattered(e: Elements) -> torch.Tensor:
    return torch.where(e.chance(0.1, 7), e.nan(), e.normal())


@_float_family
def nan_rows(e: Elements) -> torch.Tensor:
    return torch.where(e.row % 2 == 0, e.nan(), e.normal())


@_float_family
def negative_nan(e: Elements) -> torch.Tensor:
    return torch.where(e.chance(0.3, 7), e.nan() | e.sign, e.normal())


@_float_family
def one_number_among_nan(e: Elements) -> torch.Tensor:
    return torch.where(e.col == e.row_random() % max(e.cols, 1), e.normal(), e.nan())


@_float_family
def signed_zeros(e: Elements) -> torch.Tensor:
    return e.signed(e.everywhere(0))


@_float_family
def zeros_among_numbers(e: Elements) -> torch.Tensor:
    """Mostly zeros of both signs, so that the k-th element is one of them."""
    return torch.where(e.chance(0.8, 5), e.signed(e.everywhere(0)), e.normal())


@_float_family
def subnormals(e: Elements) -> torch.Tensor:
    return e.signed(e.random() % e.normal_bits)


@_float_family
def all_infinite(e: Elements) -> torch.Tensor:
    """Infinities of both signs; in float8_e4m3fn, which has none, its largest magnitude."""
    return e.signed(e.everywhere(e.top_bits))


@_float_family
def infinite_kth(e: Elements) -> torch.Tensor:
    """A third +inf, a third -inf, a third numbers."""
    third = e.random(6) % 3
    infinite = torch.where(third == 0, e.everywhere(e.top_bits), e.everywhere(e.top_bits | e.sign))
    return torch.where(third == 2, e.normal(), infinite)


@_float_family
def mostly_minus_infinity(e: Elements) -> torch.Tensor:
    """99.9 %: masked logits."""
    return torch.where(e.chance(0.999, 6), e.everywhere(e.top_bits | e.sign), e.normal())


@_float_family
def nan_infinity_and_ends(e: Elements) -> torch.Tensor:
    special = e.signed(e.one_of([0, 1, e.finite_bits, e.top_bits, e.one, e.normal_bits]))
    return torch.where(e.chance(0.2, 7), e.nan(), special)


MIXED = "mixed_rows"
NAMES = (*FAMILIES, MIXED)


def applies(name: str, dtype: torch.dtype) -> bool:
    return dtype in _FLOATS or name not in _FLOAT_ONLY


def names_for(dtype: torch.dtype) -> list[str]:
    return [name for name in NAMES if applies(name, dtype)]


def make(
    name: str,
    rows: int,
    cols: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> torch.Tensor:
    """A contiguous [rows, cols] tensor of the named family. mixed_rows: each row of another family."""
    out = torch.empty(rows * cols, dtype=_INT_OF_WIDTH[dtype.itemsize], device=device)
    if name == MIXED:
        families = [family for family in FAMILIES if applies(family, dtype)]
        for i, family in enumerate(families):
            some = out.view(rows, cols)[i :: len(families)]
            some.copy_(make(family, some.shape[0], cols, dtype, device, seed + i).view(out.dtype))
        return out.view(dtype).view(rows, cols)
    if not applies(name, dtype):
        raise ValueError(f"inputs.{name} does not apply to {dtype}")
    for start in range(0, rows * cols, _CHUNK):
        flat = torch.arange(start, min(start + _CHUNK, rows * cols), device=device)
        elements = Elements(dtype, cols, flat // cols, flat % cols, seed)
        out[start : start + _CHUNK] = FAMILIES[name](elements)
    return out.view(dtype).view(rows, cols)


def great_ones_in_the_first_block(
    rows: int, cols: int, blocks: int, threads: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Of rows whose vectors go to a cluster's blocks by fours, as delegate.resident_cluster has it: each
    thread of the first block has one element that exceeds all of the other blocks'."""
    per = 16 // dtype.itemsize
    col = torch.arange(cols)
    of_first = col // (4 * per) % blocks == 0
    numbers = torch.rand(rows, cols, generator=torch.Generator().manual_seed(cols)) * 100
    numbers[:, of_first] *= 0.5
    numbers[:, of_first & (col < blocks * threads * per) & (col % per == 0)] += 1000
    return numbers.to(dtype).to(device)


def make_bits(name: str, rows: int, cols: int, dtype: torch.dtype, seed: int = 0) -> np.ndarray:
    """The same as unsigned integers in NumPy."""
    signed = make(name, rows, cols, dtype, seed=seed).view(_INT_OF_WIDTH[dtype.itemsize]).numpy()
    return signed.view(signed.dtype.str.replace("i", "u"))
