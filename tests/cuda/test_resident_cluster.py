"""Delegate top-k of rows in a cluster's registers on a GPU: every dtype, named input and boundary."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES, FLAGS
from tests.cuda.test_bitonic import check_forms

pytestmark = pytest.mark.gpu

FORM = "delegate.resident_cluster"


def check(tensor: torch.Tensor, k: int, **flags) -> bool:
    """False where the form does not serve."""
    return bool(check_forms(tensor, k, (FORM,), **flags))


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(1, 131_072, (1, 64, 2048)), (9, 100_000, (8, 300, 2048)), (40, 20_011, (1, 255, 256, 1500))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        for k, flags in zip(itertools.cycle(ks), FLAGS, strict=False):
            assert check(tensor, k, **flags)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
def test_rows_around_what_registers_hold_begin_anywhere(device, dtype):
    """The longest by whole vectors, one element more, and rows in the middle of a vector."""
    for rows, cols in itertools.product((1, 5, 17), (2**13, 2**16, 2**17, 2**18, 2**19)):
        for step in (-17, -1, 0, 1):
            wide = inputs.make("normal", rows, cols + step + 3, dtype, device, seed=cols)
            for begin in (0, 1, 3):
                row = wide[:, begin : begin + cols + step]
                for k in (1, 100, 2048, 5000):
                    check(row, k)
    most = 2**18 if dtype == torch.int64 else 2**19
    whole = inputs.make("normal", 1, most, dtype, device)
    assert check(whole, 100) and not check(torch.cat([whole, whole[:, :64]], 1), 100)


def test_more_rows_than_clusters_at_once(device):
    for rows in (33, 300):
        for name in ("normal", "all_equal", "ones_with_four_outliers", "nan_tails"):
            assert check(inputs.make(name, rows, 30_000, torch.float32, device), 700)


def test_ties_at_the_bound_across_blocks_go_to_the_lowest_indices(device):
    """As many above the bound as k, one less, and none; equals of it in every block."""
    for above, k in itertools.product((0, 1, 299, 300, 3000), (1, 300, 2048)):
        tensor = torch.zeros(3, 131_072, device=device)
        tensor[:, 7 : 7 + 43 * above : 43] = torch.arange(above, device=device) % 5 + 1.0
        assert check(tensor, k)
