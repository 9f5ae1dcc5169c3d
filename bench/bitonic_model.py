"""The cost model of the bitonic top-k paper (its section 7), as functions of a GPU's two bandwidths."""

from __future__ import annotations

import math
from collections.abc import Sequence

PAPER_GLOBAL_RATE, PAPER_SHARED_RATE = 251e3, 2.9e6  # of its GTX Titan X, bytes a us
ELEMENTS_PER_THREAD = 16  # in one kernel, which leaves so many times fewer elements
TOP_32_PASSES = 17.5  # over shared memory in the first kernel, by the paper, bank conflicts counted
DIGIT_VALUES = 16  # counters of a thread in a radix pass, as the paper has it
# Shares of the elements that each 8-bit digit leaves of floats from U(0, 1), k far below their number: half
# have the largest exponent; one of 128 of those, and then of 256, has the largest digit.
UNIFORM_FLOATS = (1 / 2, 1 / 128, 1 / 256, 1 / 256)


def _rounds(levels: int) -> int:
    """Trips to shared memory for so many levels of a network; a thread's elements do some at once."""
    return math.ceil(levels / math.log2(ELEMENTS_PER_THREAD))


def _reduction(k: int) -> float:
    """Bytes moved in shared memory by a kernel's merges, and rebuilds between them, over its input's."""
    merges = round(math.log2(ELEMENTS_PER_THREAD))
    levels = round(math.log2(k))
    moved = 0.0
    for merge in range(merges):
        size = 0.5**merge
        moved += size  # read, two sequences of k at a time
        if merge < merges - 1:
            moved += size / 2 + 2 * _rounds(levels) * size / 2  # one is written, and put in order again
    return moved


def _sort_passes(k: int) -> float:
    """The same for the first kernel, which sorts sequences of k to begin with; without bank conflicts."""
    own = round(math.log2(ELEMENTS_PER_THREAD))  # a thread's elements are sorted in registers, then written
    return 1 + sum(2 * _rounds(level) for level in range(own + 1, round(math.log2(k)) + 1)) + _reduction(k)


def bitonic_us(input_bytes: float, k: int, global_rate: float, shared_rate: float) -> float:
    """Time of bitonic top-k, k a power of two. Rates in bytes a us."""
    conflicts = TOP_32_PASSES / _sort_passes(32)
    rebuild = 1 + 2 * _rounds(round(math.log2(k)))
    us, size, passes = 0.0, input_bytes, _sort_passes(k)
    while size > 4 * k:
        by_global = size / global_rate * (1 + 1 / ELEMENTS_PER_THREAD)
        us += max(by_global, conflicts * passes * size / shared_rate)
        size /= ELEMENTS_PER_THREAD
        passes = rebuild + _reduction(k)
    return us


def radix_us(
    input_bytes: float, global_rate: float, threads: int, left: Sequence[float] = UNIFORM_FLOATS
) -> float:
    """Time of radix select by 8-bit digits, of which each leaves a share of its pass's input."""
    us, size = 0.0, input_bytes
    for share in left:
        counters = DIGIT_VALUES * 4 * threads
        us += (size + counters) / global_rate + 2 * counters / global_rate
        us += (size + share * size) / global_rate if share < 1 else 0.0
        size *= share
    return us
