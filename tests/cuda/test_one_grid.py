"""Delegate top-k of long rows in one launch of the whole GPU: every dtype, named input and boundary."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle, tuning
from tests.cuda.calls import DTYPES
from tests.cuda.resident_rows import (
    check,
    check_every_named_input,
    check_graph_replays,
    check_rows_that_begin_anywhere,
    check_ties_at_the_bound,
)

pytestmark = pytest.mark.gpu

FORM = "delegate.one_grid"
LISTED = tuning.number("kGridListed")


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [
        (1, 2**23, (1, 256, LISTED)),
        (1, 12_000_003, (300, 2000, LISTED - 1)),
        (3, 2_500_001, (8, 2048, LISTED)),
    ],
    ids=str,
)
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    check_every_named_input(FORM, rows, cols, ks, dtype, device)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
def test_rows_around_whole_tiles_of_all_blocks_begin_anywhere(device, dtype):
    """As many tiles as are fetched ahead, one more, and some times as many."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    tile = tuning.number("kPassThreads") * (32 if dtype.itemsize == 1 else 64) // dtype.itemsize
    served = []
    for rows, tiles in itertools.product((1, 3, 8), (4, 5, 8, 9, 20)):
        cols = sms // rows * tile * tiles
        served += check_rows_that_begin_anywhere(FORM, rows, cols, (1, 100, 2048), dtype, device)
    assert sum(served) >= len(served) // 2


def test_ties_at_the_bound_across_blocks_go_to_the_lowest_indices(device):
    check_ties_at_the_bound(FORM, 3_000_000, device)


def test_winners_side_by_side_and_a_tile_apart(device):
    """The sample's lines miss them all, or see all of them."""
    cols, k = 2**23, 3000
    for step in (1, 16, 64, 2112, 67_584, 8192):
        tensor = inputs.make("normal", 1, cols, torch.float32, device)
        tensor[:, (torch.arange(4 * k, device=device) * step) % cols] += 100
        assert check(FORM, tensor, k)
        assert check(FORM, tensor, LISTED)


def test_a_key_of_many_and_a_few_far_above(device):
    """Nearly all that reaches the bound is in one bin, or beyond all bins."""
    cols = 2**23
    for outliers, k in itertools.product((0, 1, 500, 5000), (1, 400, LISTED)):
        tensor = torch.zeros(1, cols, device=device)
        tensor[:, 11 : 11 + 1000 * outliers : 1000] = 1e30
        tensor[:, 5 : 5 + 100 * 30_000 : 100] += 1e-30
        assert check(FORM, tensor, k)


def test_graph_replays_and_streams(device):
    check_graph_replays(FORM, 2**22, 3_000_000, device)


@DTYPES
def test_the_last_alone(device, dtype):
    """kth_value's request, of few candidates, of many, and where ties decide."""
    for name, k in itertools.product(("normal", "few_distinct", "all_equal"), (1, 700, LISTED)):
        tensor = inputs.make(name, 1, 2**23, dtype, device)
        values, indices = torch.ops.gputopk._form(tensor, k, FORM, sorted=False, last_alone=True)
        last = torch.ops.gputopk.topk(tensor, k, sorted=True, algorithm=1)[1][:, -1:].contiguous()
        assert torch.equal(indices[:, -1:], last)
        value = oracle.as_ints(values[:, -1:].contiguous())
        assert torch.equal(value, oracle.as_ints(tensor).gather(1, last))
