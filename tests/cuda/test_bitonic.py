"""Bitonic top-k and AIR's resident row on a GPU: every dtype and boundary against exact checks, in every form
that serves. test_bitonic_inputs.py has every named input."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import torch_topk
from tests import inputs, oracle
from tests.cuda import calls
from tests.cuda.calls import DTYPES, FLAGS, check_forms

pytestmark = pytest.mark.gpu

topk = torch.ops.gputopk.topk
BITONIC = int(torch_topk.Algorithm.bitonic)
WIDTHS = [
    torch.uint8,
    torch.float8_e5m2,
    torch.bfloat16,
    torch.int16,
    torch.float32,
    torch.int32,
    torch.int64,
]
WIDTHS += [torch.float64]
# Around what a thread, the parts of a warp and a block hold.
EDGES = [16, 32, 64, 128, 256, 512, 1024, 4096, 8192, 16384, 32768]

run = functools.partial(calls.run, algorithm=BITONIC)
check = functools.partial(calls.check, algorithm=BITONIC)


@DTYPES
def test_small_cases_agree_with_the_oracle_itself(device, dtype):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    for cols, k in ((60, 8), (300, 20), (1500, 256)):
        tensor = inputs.make("mixed_rows", 40, cols, dtype, device)
        for flags in FLAGS:
            oracle.assert_topk(run(tensor, k, **flags), tensor, k, **flags)


# Sizes.


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
@pytest.mark.parametrize("edge", EDGES)
def test_rows_around_what_registers_hold_are_answered_exactly(device, edge, dtype):
    for step in (-3, -1, 0, 1, 3):
        cols = edge + step
        for rows, name in ((1, "normal"), (37, "few_distinct"), (300, "winners_in_one_subrange")):
            tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
            for k in {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 100, 128, 129, 256, 257, cols // 2, cols}:
                if k <= cols:
                    # bitonic.many_blocks serves whatever the row's length, but not more winners.
                    assert check_forms(tensor, k, largest=k % 2 == 0) or k > 256


@pytest.mark.parametrize("largest", [True, False])
def test_every_short_width_is_answered_exactly(device, largest):
    for cols in [*range(1, 300), *range(1020, 1030)]:
        tensor = inputs.make("digit_boundaries", 40, cols, torch.float16, device, seed=cols)
        for k in {1, 7, 8, cols // 3, cols} - {0}:
            if k <= cols:
                # A block of 64 threads lists 512 winners.
                assert check_forms(tensor, k, largest=largest) or k > 512


@pytest.mark.parametrize("k", [1, 31, 32, 33, 64, 127, 128, 129, 255, 256])
def test_a_long_row_is_answered_exactly_for_every_run(device, k):
    for rows, cols in ((1, 3_000_001), (40, 70_001)):
        for name in ("normal", "increasing", "few_distinct"):
            check(inputs.make(name, rows, cols, torch.float32, device), k, index_dtype=torch.int32)
    check(inputs.make("normal", 1, 500_001, torch.float64, device), k, largest=False)


def test_rows_around_32_bits_are_answered_exactly(device):
    cols = 2**32 + 5
    tensor = torch.zeros((1, cols), dtype=torch.uint8, device=device)
    tensor[0, -1], tensor[0, 7], tensor[0, 2**32 - 1] = 3, 2, 2
    _, indices = run(tensor, 5)
    assert indices[0].tolist() == [cols - 1, 7, 2**32 - 1, 0, 1]


# Layout.


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_rows_that_are_not_aligned_or_lie_apart(device, dtype):
    for cols, gap, offset in itertools.product((33, 64, 100, 1000, 3000), (0, 1, 8), (0, 1, 3)):
        rows = 19
        flat = inputs.make("mixed_rows", 1, offset + rows * (cols + gap), dtype, device, seed=cols)[0]
        tensor = flat[offset:].as_strided((rows, cols), (cols + gap, 1), offset)
        for k in (5, 30):
            assert check_forms(tensor, k)


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1 << 20, 8, 2), (70_001, 64, 6), (70_001, 256, 8), (300_001, 5, 5)]
)
def test_many_rows(device, rows, cols, k):
    served = check_forms(inputs.make("mixed_rows", rows, cols, torch.float32, device), k)
    assert len(served) >= 3
