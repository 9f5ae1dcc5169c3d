"""The kernels of a selection by several keys on the emulated GPU, in torch_topk's own stages beside the CPU's
selections, against the oracle."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.simt import emulated
from tests.where_oracle import assert_where
from torch_topk import _where, topk_where

ORDERS = ("any", "value", "index")


@pytest.fixture(autouse=True)
def stages_are_emulated(monkeypatch):
    """The operators of stages, emulated, where topk_where looks for them."""
    lib = emulated.library()
    emulations = {
        torch.ops.gputopk._settle_stage: lib.settle_stage,
        torch.ops.gputopk._join_stages: lib.join_stages,
    }
    used = []

    def call(function, *arguments, **options):
        if function in emulations:
            used.append(function)
            return emulations[function](*arguments, **options)
        return function(*arguments, **options)

    monkeypatch.setattr(_where, "call", call)
    yield used
    assert set(used) == set(emulations)


def keys_of(
    count: int, rows: int, cols: int, dtypes: list[torch.dtype], seed: int
) -> tuple[torch.Tensor, ...]:
    """Keys with many equals, the first ones above all."""
    return tuple(
        inputs.make(
            ("few_distinct", "two_level", "mixed_rows", "normal")[i], rows, cols, dtypes[i], seed=seed + i
        )
        for i in range(count)
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_keys_are_compared_one_after_the_other(count, order):
    for (rows, cols), k in itertools.product(((5, 40), (2, 700)), (1, 7, 40, 300)):
        keys = keys_of(count, rows, cols, [torch.int32, torch.bfloat16, torch.float32, torch.int64], seed=k)
        flags = [(i + k) % 2 == 0 for i in range(count)]
        index_dtype = torch.int32 if k % 2 else torch.int64
        mask = torch.arange(cols) % 5 != 1
        found = topk_where(keys, mask, k, largest=flags, order=order, index_dtype=index_dtype, pad_index=-7)
        assert_where(found, keys, mask, k, largest=flags, order=order, index_dtype=index_dtype, pad_index=-7)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_keys_of_every_dtype(dtype):
    keys = keys_of(3, 9, 60, [dtype] * 3, seed=3)
    for magnitude, k in itertools.product((False, True), (3, 17)):
        found = topk_where(keys, None, k, magnitude=magnitude, largest=k == 3)
        assert_where(found, keys, None, k, magnitude=magnitude, largest=k == 3)


def test_as_many_winners_as_a_block_puts_in_order():
    keys = keys_of(2, 2, 3000, [torch.int16, torch.float32], seed=1)
    assert_where(topk_where(keys, None, 2048), keys, None, 2048)


def test_rows_without_winners():
    keys = keys_of(2, 3, 50, [torch.int32, torch.float32], seed=1)
    mask = torch.zeros(3, 50, dtype=torch.bool)
    mask[1, 7] = True
    assert topk_where(keys, mask, 4).counts.tolist() == [0, 1, 0]
    assert_where(topk_where(keys, mask, 4), keys, mask, 4)
