"""Rows side by side, read across where they lie: delegate.across_rows."""

from __future__ import annotations

import re

import pytest
import torch

from tests import delegate_model, inputs, oracle
from tests.simt import emulated
from tests.simt.test_strided import make

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32,
          torch.int64, torch.float64)  # fmt: skip
SMALL = emulated.Device(sm_count=2)


def check(tensor: torch.Tensor, k: int, *arguments, device: emulated.Device = SMALL, **options) -> str:
    plan = emulated.library().check_strided(
        tensor, k, *arguments, algorithm="delegate", device=device, **options
    )
    assert "rows read across" in plan, plan
    return plan


@pytest.mark.parametrize("dtype", DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize(
    ("outer", "cols", "inner", "k"),
    [
        (2, 700, 32, 3),  # vectors of adjacent rows
        (1, 2500, 144, 60),  # tiles that leave threads without a vector
        (3, 1345, 2, 36),  # a lap of vectors is longer than the row
        (2, 2100, 7, 5),  # laps of several columns, the last of which is not whole
        (1, 3000, 49, 30),
        (1, 900, 300, 1),  # no laps: whole columns take too many vectors
        (1, 4097, 8, 300),  # the many delegates, and a block that orders
    ],
)
def test_every_layout_and_dtype(dtype, outer, cols, inner, k):
    for name, flags in (("normal", {}), ("few_distinct", {"largest": False}), ("random_bits", {})):
        check(make(name, outer, cols, inner, dtype), k, **flags)


@pytest.mark.parametrize("name", inputs.names_for(torch.float32))
@pytest.mark.parametrize("flags", [{}, {"largest": False}, {"magnitude": True}], ids=str)
def test_every_input(name, flags):
    for outer, cols, inner in ((2, 1100, 16), (2, 1100, 9)):
        check(make(name, outer, cols, inner), 20, **flags)
    check(make(name, 1, 1200, 8, torch.bfloat16), 20, **flags)


@pytest.mark.parametrize("name", inputs.names_for(torch.int16))
def test_every_input_of_integers(name):
    for flags in ({}, {"largest": False}, {"magnitude": True}):
        check(make(name, 2, 1100, 12, torch.int16), 20, **flags)


def test_rows_with_gaps_and_other_beginnings():
    base = inputs.make("normal", 3, 1400 * 48, torch.float32).view(3, 1400, 48)
    for tensor in (
        base[:, :, :32],
        base[:, 3:, 4:36],
        base[:, :, 1:34],  # nothing is aligned
        base[::2, :, 8:],
        base[:1, :, 8:].expand(3, 1400, 40),  # outer rows are the same
    ):
        for dim_last in (False, True):
            check(tensor, 12, dim_last, index_dtype=torch.int32)


@pytest.mark.parametrize("inner", [3, 8, 20, 300])
def test_lengths_around_steps_and_parts(inner):
    for cols in (513, 1023, 1024, 1025, 1535, 1537):
        check(make("normal", 2, cols, inner), 4)
        check(make("all_equal", 2, cols, inner), 4)


def test_more_rows_than_lists_have_memory_for():
    """Whole outer rows at a time, or, where those are long, parts of one."""
    tensor = make("normal", 5, 600, 24)
    for list_bytes in (1, 60_000, 130_000):
        check(tensor, 10, list_bytes=list_bytes)
        check(tensor, 10, dim_last=True, list_bytes=list_bytes)
    check(make("normal", 2, 520, 700), 3, list_bytes=1)


def test_the_last_alone():
    """As kth_value wants it: all winners are in order, and so is the last."""
    check(make("normal", 2, 1500, 12), 40, sorted=False, last_alone=True)


def sampled_columns(plan: str, cols: int) -> torch.Tensor:
    """[delegates, elements of each] of every row."""
    delegates, group = map(int, re.search(r"of (\d+) delegates, each of (\d+) elements", plan).groups())
    return delegate_model.elements_of_strata(cols, delegates * group).view(group, delegates).T


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.float64], ids=oracle.name_of)
@pytest.mark.parametrize("k", [10, 150])
def test_samples_that_mislead(dtype, k):
    """Of some rows fewer than k elements reach the bound, of others more than there is room for."""
    cols, inner = 3000, 24
    tensor = make("normal", 2, cols, inner, dtype)
    plan = check(tensor, k)
    sample = sampled_columns(plan, cols)
    rank = int(re.search(r"bound is number (\d+) ", plan)[1])
    best, worst = (100, -100) if dtype == torch.int8 else (1000, -1000)
    tensor[0, sample[:rank, 0], 1::2] = best  # these alone reach it
    tensor[1, sample.flatten(), ::3] = worst  # all reach it
    for flags in ({}, {"index_dtype": torch.int32, "dim_last": True}):
        check(tensor, k, **flags)
    check(-tensor, k, largest=False)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_blocks_and_warps(seed):
    device = emulated.Device(sm_count=1)
    for outer, cols, inner, k in ((2, 700, 16, 9), (2, 900, 5, 9), (1, 1100, 9, 100)):
        check(make("normal", outer, cols, inner), k, seed=seed, device=device)
