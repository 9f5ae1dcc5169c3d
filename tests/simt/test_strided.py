"""Rows that do not lie side by side: of a dimension other than the last, and of other strides."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.simt import emulated

DTYPES = (torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.float64)


def make(name, outer, cols, inner, dtype=torch.float32, seed=0) -> torch.Tensor:
    """[outer, cols, inner], dense, each of whose rows is the named input's."""
    return emulated.columns_of(inputs.make(name, outer * inner, cols, dtype, seed=seed), inner)


def check(*arguments, **options) -> str:
    return emulated.library().check_strided(*arguments, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize(
    ("outer", "cols", "inner", "k"),
    [
        (3, 9, 70, 3),  # a thread a row, warps that end within one outer row and go on in the next
        (1, 32, 33, 8),
        (2, 1, 40, 1),
        (2, 100, 37, 12),  # a tile that reaches into the next outer row
        (1, 128, 64, 16),
        (1, 257, 45, 30),  # of 32 lanes
        (1, 1000, 33, 64),
        (2, 700, 32, 1),
    ],
)
def test_rows_where_they_lie(dtype, outer, cols, inner, k):
    for dim_last in (False, True):
        plan = check(
            make("normal", outer, cols, inner, dtype),
            k,
            dim_last,
            index_dtype=torch.int32,
            algorithm="bitonic",
        )
        assert "rows in tiles" in plan or "where they lie" in plan
        tensor = make("few_distinct", outer, cols, inner, dtype)
        check(tensor, k, dim_last, largest=False, sorted=False, algorithm="bitonic")


@pytest.mark.parametrize("name", inputs.names_for(torch.float32))
def test_rows_in_tiles_of_every_input(name):
    for cols, k in ((60, 9), (128, 16), (200, 11), (600, 64)):
        for flags in ({}, {"largest": False}, {"magnitude": True}):
            plan = check(make(name, 2, cols, 33, seed=3), k, algorithm="bitonic", **flags)
            assert "rows in tiles" in plan
    for cols in (7, 61):
        assert "where they lie" in check(make(name, 2, cols, 33, seed=3), 5)


@pytest.mark.parametrize("dtype", DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize(
    ("outer", "cols", "inner", "k"),
    [
        (2, 1500, 3, 40),  # fewer rows side by side than lie in a sector
        (5, 300, 7, 300),
        (2, 5000, 33, 9),
        (1, 4097, 8, 2048),
        (3, 2100, 1, 5),
        (200, 16, 3, 2),  # many rows of a few elements, more than a tile's
        (2, 70, 300, 70),
    ],
)
def test_panels(dtype, outer, cols, inner, k):
    tensor = make("normal", outer, cols, inner, dtype)
    for dim_last, panel_bytes in itertools.product((False, True), (24 << 20, 64 << 10)):
        options = {"panel_bytes": panel_bytes, "algorithm": "air", "device": emulated.Device(sm_count=2)}
        check(tensor, k, dim_last, **options)
        check(tensor, k, dim_last, sorted=False, index_dtype=torch.int32, **options)


def test_the_last_panel_may_have_fewer_rows_and_another_plan():
    tensor = make("normal", 3, 2000, 27)
    plan = check(tensor, 100, panel_bytes=32 * 2000 * 4)
    assert "moved together, winners moved to their place, 32 rows at a time" in plan
    plan = check(tensor, 100, dim_last=True, panel_bytes=32 * 2000 * 4)
    assert "moved together, winners written to their place, 32 rows at a time" in plan


def test_rows_of_adjacent_elements_are_not_moved():
    """As channels-last tensors have them."""
    tensor = inputs.make("normal", 6 * 50, 400, torch.float32).view(6, 50, 400).transpose(1, 2)
    for panel_bytes in (24 << 20, 8 * 20 * 4):
        assert "read where they lie, winners moved" in check(tensor, 20, panel_bytes=panel_bytes)


def test_other_strides():
    base = inputs.make("normal", 40, 90 * 30, torch.float32).view(40, 90, 30)
    for tensor in (
        base[::2, ::3, ::2],  # nothing is side by side
        base[:, :, :1],
        base[:1].transpose(1, 2),
        base[:, :1].expand(40, 90, 30),  # a row's elements are one
        base[:1].expand(40, 90, 30),  # rows are the same
        base[:, :, :1].expand(40, 90, 30),
        base[:3, 5:80, 1:29],
    ):
        for k in (1, 10, 29):
            check(tensor, k)
            check(tensor, k, dim_last=True, panel_bytes=2000)


@pytest.mark.parametrize("algorithm", ["air", "grid_select", "delegate", "bitonic", "split_bucket", "sort"])
def test_every_algorithm(algorithm):
    k = 20 if algorithm != "sort" else 900
    plan = check(make("normal", 2, 1800, 9), k, algorithm=algorithm)
    assert algorithm in plan


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_blocks_and_warps(seed):
    device = emulated.Device(sm_count=1)
    check(make("normal", 2, 120, 40), 12, seed=seed, device=device, algorithm="bitonic")
    check(make("normal", 2, 40, 40), 7, seed=seed, device=device)
    check(make("normal", 2, 1200, 40), 12, seed=seed, device=device, panel_bytes=50_000)
