"""Delegate top-k of rows in the registers of the whole GPU: every dtype, named input and boundary."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES
from tests.cuda.resident_rows import (
    check,
    check_every_named_input,
    check_graph_replays,
    check_rows_that_begin_anywhere,
    check_the_longest,
    check_ties_at_the_bound,
)

pytestmark = pytest.mark.gpu

FORM = "delegate.resident_grid"


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(1, 1_048_576, (1, 32, 2048)), (1, 1_500_001, (255, 256, 2048)), (5, 200_003, (8, 300, 1000))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    check_every_named_input(FORM, rows, cols, ks, dtype, device)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
def test_rows_around_what_registers_hold_begin_anywhere(device, dtype):
    """Those of each block's sizes, one element more, and rows in the middle of a vector."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    served = []
    for rows, of_block in itertools.product((1, 3, 8), (2**11, 2**13, 2**14, 2**15)):
        cols = sms // rows * of_block
        served += check_rows_that_begin_anywhere(FORM, rows, cols, (1, 100, 2048), dtype, device)
    assert sum(served) >= len(served) // 4
    of_block = 2**14 if dtype == torch.int64 else 2**15
    in_vector = 16 // dtype.itemsize
    check_the_longest(FORM, sms * of_block - in_vector + 1, dtype, device)


def test_ties_at_the_bound_across_blocks_go_to_the_lowest_indices(device):
    check_ties_at_the_bound(FORM, 1_048_576, device)


def test_winners_side_by_side_and_a_block_apart(device):
    """More reach the bound than lists have room for: a block has all winners, or each delegate some."""
    cols, k = 1_048_576, 1000
    for step in (1, 16, 64, 2112, 67_584):
        tensor = inputs.make("normal", 1, cols, torch.float32, device)
        places = (torch.arange(4 * k, device=device) * step) % cols
        tensor[:, places] += 100
        assert check(FORM, tensor, k)


def test_graph_replays_and_streams(device):
    check_graph_replays(FORM, 1_048_576, 300_000, device)
