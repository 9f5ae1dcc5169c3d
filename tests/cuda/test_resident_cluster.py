"""Delegate top-k of rows in a cluster's registers on a GPU: every dtype, named input and boundary."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES
from tests.cuda.resident_rows import (
    check,
    check_every_named_input,
    check_rows_that_begin_anywhere,
    check_the_longest,
    check_ties_at_the_bound,
)

pytestmark = pytest.mark.gpu

FORM = "delegate.resident_cluster"


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(1, 131_072, (1, 64, 2048)), (9, 100_000, (8, 300, 2048)), (40, 20_011, (1, 255, 256, 1500))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    check_every_named_input(FORM, rows, cols, ks, dtype, device)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
def test_rows_around_what_registers_hold_begin_anywhere(device, dtype):
    """The longest by whole vectors, one element more, and rows in the middle of a vector."""
    served = []
    for rows, cols in itertools.product((1, 5, 17), (2**13, 2**16, 2**17, 2**18, 2**19)):
        served += check_rows_that_begin_anywhere(FORM, rows, cols, (1, 100, 2048, 5000), dtype, device)
    assert sum(served) >= len(served) // 4
    most = 2**18 if dtype == torch.int64 else 2**19
    check_the_longest(FORM, most, dtype, device)


def test_more_rows_than_clusters_at_once(device):
    for rows in (33, 300):
        for name in ("normal", "all_equal", "ones_with_four_outliers", "nan_tails"):
            assert check(FORM, inputs.make(name, rows, 30_000, torch.float32, device), 700)


def test_ties_at_the_bound_across_blocks_go_to_the_lowest_indices(device):
    check_ties_at_the_bound(FORM, 131_072, device)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of)
def test_a_row_whose_bound_is_below_all_that_its_first_block_has(device, dtype):
    """Whatever size of clusters the plan has."""
    served = 0
    for rows, cols, blocks in itertools.product((1, 17, 40), (2**14, 2**16), (2, 4, 8, 16)):
        tensor = inputs.great_ones_in_the_first_block(rows, cols, blocks, 512, dtype, device)
        served += sum(check(FORM, tensor, k) for k in (64, 200, 512))
    assert served > 40
