"""What delegate's plan and its sample are to be, told a second time, from numbers.h, in Python.

Tests of the plan compare it with this; tests on a GPU plant elements where the sample looks; the benches mark
rule 4's alpha with it. The sample's places are csrc/cuda/device/row_sample.cuh's.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from tests import tuning


def _elements_log2(dtype: torch.dtype) -> int:
    """Of a 16-byte vector."""
    return (16 // dtype.itemsize).bit_length() - 1


def alphas(cols: int, k: int, dtype: torch.dtype, beta: int) -> range:
    """The alphas that serve the request; empty where delegate does not."""
    least = _elements_log2(dtype) + tuning.number("kDelegateMinVectorsLog2")
    most = _elements_log2(dtype) + tuning.number("kDelegateMaxVectorsLog2")
    while (cols >> least) * beta >= 2**30:
        least += 1
    while most > 0 and ((cols >> most) - 1) * beta < k:
        most -= 1
    return range(least, most + 1)


def most_k(cols: int, dtype: torch.dtype, beta: int = 1) -> int:
    """The largest k that the request may have, 0 if none. For rows of fewer than 2^34 elements."""
    return max(0, ((cols >> (_elements_log2(dtype) + tuning.number("kDelegateMinVectorsLog2"))) - 1) * beta)


def serves(cols: int, k: int, dtype: torch.dtype) -> bool:
    return k == 0 or len(alphas(cols, k, dtype, beta=1)) > 0


def chosen_beta(k: int) -> int:
    return 1


def rule_4(cols: int, k: int, dtype: torch.dtype, beta: int) -> int:
    """The alpha of the paper's rule 4, rounded, within what serves the request."""
    constant = tuning.number("kDelegateConst2" if beta == 2 else "kDelegateConst1")
    alpha = math.floor((math.log2(cols / k) + constant) / 2 + 0.5)
    allowed = alphas(cols, k, dtype, beta)
    return min(max(alpha, allowed[0]), allowed[-1])


def is_sampled(rows: int, cols: int, k: int, dtype: torch.dtype) -> bool:
    """Whether the plan takes its bound from a sample."""
    if cols < tuning.number("kSampleMinCols") or k > cols // tuning.number("kSampleMinColsPerK"):
        return False
    sample = sample_of(rows, cols, k, dtype)
    return sample.rank <= sample.delegates * tuning.number("kSampleMostRank")


@dataclasses.dataclass(frozen=True)
class Sample:
    """The sample of each row of a request that is_sampled."""

    cols: int
    dtype: torch.dtype
    blocks: int
    group: int
    rank: int  # so many delegates reach the bound, or a quarter more
    room: int  # candidates a row

    @property
    def delegates(self) -> int:
        return self.blocks * tuning.number("kPassThreads") // self.group

    def places(self, head: int = 0, device: torch.device | str = "cpu") -> torch.Tensor:
        """[delegates, n]: of each delegate, the elements that it is the best of. `head`: elements of the row
        before the first that is 16-byte aligned."""
        per_vector, line_vectors = 16 // self.dtype.itemsize, tuning.number("kSampleLineVectors")
        octets = self.blocks * (tuning.number("kPassThreads") // line_vectors)
        strata = octets * tuning.number("kSampleLines")
        lines = (self.cols // per_vector - 1) // line_vectors
        width = (lines << 16) // strata  # of a stratum, in lines times 2^16
        number = torch.arange(strata, dtype=torch.int64, device=device)
        first, following = (number * width) >> 16, ((number + 1) * width) >> 16
        line = first + ((_scrambled(number) * (following - first)) >> 32)
        # A warp's octets, and a lane's lines, lie far apart. [line of a lane, octet, lane, element]
        of_warp = 32 // line_vectors
        line = line.view(-1, of_warp, octets // of_warp).transpose(1, 2).reshape(-1, octets, 1, 1)
        at = line * line_vectors + torch.arange(line_vectors, device=device).view(-1, 1)
        element = head + at * per_vector + torch.arange(per_vector, device=device)
        return element.permute(1, 2, 0, 3).reshape(self.delegates, -1)


def sampled_elements(cols: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Those of one row that gradient sparsification looks at before it reads the row."""
    if is_sampled(1, cols, k, dtype):
        return sample_of(1, cols, k, dtype).places().flatten()
    return elements_of_strata(cols, tuning.number("kSampleMostDelegates"))


def elements_of_strata(cols: int, strata: int) -> torch.Tensor:
    """One of each of so many parts of a row, as csrc/cuda/device/sample.cuh draws them."""
    width, number = (cols << 16) // strata, torch.arange(strata, dtype=torch.int64)
    first, following = (number * width) >> 16, ((number + 1) * width) >> 16
    return first + ((_scrambled(number) * (following - first)) >> 32)


def _scrambled(x: torch.Tensor) -> torch.Tensor:
    """In 32 bits, of which int64 products keep the low ones whatever overflows."""
    mask = 2**32 - 1
    x = ((x ^ 0x9E3779B9 ^ (x >> 16)) * 0x85EBCA6B) & mask
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & mask
    return x ^ (x >> 16)


def sample_of(rows: int, cols: int, k: int, dtype: torch.dtype) -> Sample:
    threads = tuning.number("kPassThreads")
    per_block = threads * tuning.number("kSampleLines") * (16 // dtype.itemsize)
    most_blocks = cols / tuning.number("kSampleShare") / per_block
    most_blocks = min(max(most_blocks, 1.0), max(1.0, tuning.number("kSampleMostBlocks") / rows))
    few = max(tuning.number("kSampleFewCandidates"), tuning.number("kSampleFewTimesK") * k)
    blocks = tuning.number("kSampleMinBlocks")
    while True:
        blocks = min(blocks, int(most_blocks))
        winners = blocks * per_block * k / cols
        spare = tuning.number("kSampleDeviations") * math.sqrt(winners) + tuning.number("kSampleExtraRank")
        candidates = (winners + spare) * cols / (blocks * per_block)
        if candidates <= few or 2 * blocks > most_blocks:
            break
        blocks *= 2
    group = 1
    while blocks * threads // group > tuning.number("kSampleMostDelegates"):
        group *= 2
    delegates = blocks * threads // group
    rank = int(winners + spare)
    line_vectors = tuning.number("kSampleLineVectors")
    of_line = min(group, line_vectors)
    if (rank - 1) * of_line * (16 // dtype.itemsize) + 1 < k:  # what one line's delegates may stand for
        rank = max(rank, line_vectors // of_line + 1)
    rank = min(rank, delegates)
    parts = tuning.number("kSampleLines") * blocks * threads / of_line
    of_neighbours = rank * cols / parts
    room = max(4 * k, cols / tuning.number("kSampleBufferShare"), 1.25 * of_neighbours)
    most = tuning.number("kSampleMostNeighbours") * of_neighbours
    room = min(room, most, cols / tuning.number("kSampleMostBufferShare"))
    return Sample(cols, dtype, blocks, group, rank, min(cols, max(int(room), 2 * k)))
