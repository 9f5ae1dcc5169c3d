"""Rows in order: whole rows that are sorted, copies, and the step that orders winners."""

from __future__ import annotations

import math
import re

import pytest
import torch

import torch_topk
from tests import inputs, oracle
from tests.cuda.calls import DTYPES, FLAGS, check, topk

plan = torch.ops.gputopk._plan
AIR = int(torch_topk.Algorithm.air)
SORT = int(torch_topk.Algorithm.sort)
# Entries that a block sorts: fewer where a value or an index has 64 bits.
BLOCK, WIDE_BLOCK = 12288, 8192
# Where the number of threads, or of bins, changes.
SIZES = [1, 2, 31, 33, 64, 127, 129, 511, 513, 1023, 1025, 2048, 4095, 4097, 8191]
HARD = [
    "all_equal",
    "increasing",
    "decreasing",
    "few_distinct",
    "twelve_bit_random",
    "ones_with_four_outliers",
    "winners_in_one_subrange",
    "sampled_peaks",
]


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


# ---- The plan: needs no GPU ----


def test_all_of_a_row_in_any_order_is_a_copy():
    for shape in [(1, 1), (3, 4096), (1, 1 << 20), (100_000, 256)]:
        for order in (True, False):
            forms = torch.ops.gputopk._forms(meta(*shape), shape[1], sorted=order)
            assert ("sort.copy; sort: a copy" in forms) == (not order)


@pytest.mark.parametrize(
    ("dtype", "block"), [(torch.float32, BLOCK), (torch.uint8, BLOCK), (torch.int64, WIDE_BLOCK)]
)
def test_a_block_sorts_what_it_has_room_for(dtype, block):
    for cols, parts in [(block, False), (block + 1, True)]:
        text = plan(meta(1, cols, dtype=dtype), cols, algorithm=SORT)
        assert ("parts a row" in text) == parts and "no further step" in text, text
        text = plan(meta(1, 1 << 20, dtype=dtype), cols, algorithm=AIR)
        assert (re.search(r"then order_rows in \d+ parts", text) is not None) == parts, text


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64])
def test_few_parts_are_as_many_for_each_sm(dtype):
    for rows, cols in [(1, 20_000), (1, 60_000), (1, 300_000), (3, 100_000), (12, 40_000)]:
        text = plan(meta(rows, cols, dtype=dtype), cols, algorithm=SORT)
        parts = rows * int(re.search(r"(\d+) parts a row", text)[1])
        sms = int(re.search(r"(\d+) SMs", text)[1])
        assert parts % sms == 0, text


def test_few_of_a_long_row_are_no_case_for_sorting():
    plan(meta(2, 8192), 1, algorithm=SORT)
    plan(meta(2, 80_000), 10_000, algorithm=SORT)
    with pytest.raises(RuntimeError, match=r"sort cannot serve this: .* k is less than an eighth of cols"):
        plan(meta(2, 80_008), 100, algorithm=SORT)


# ---- On a GPU ----


def workspace(text: str) -> int:
    return int(re.search(r"workspace (\d+) bytes", text)[1])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
def test_order_takes_no_more_memory_than_the_outputs(device, dtype):
    for rows in (1, 7, 100, 1000):
        for k in (1, 4096, WIDE_BLOCK, BLOCK, BLOCK + 1, 1 << 17, 1 << 20):
            like = torch.empty((1, 1 << 22), dtype=dtype, device=device).expand(rows, 1 << 22)
            unordered = workspace(plan(like, k, algorithm=AIR, sorted=False))
            ordered = workspace(plan(like, k, algorithm=AIR))
            outputs = rows * k * (dtype.itemsize + 8)
            assert ordered <= max(unordered, outputs + 64 * 1024 * rows)
            if k <= WIDE_BLOCK:
                assert ordered == unordered


@pytest.mark.gpu
@DTYPES
def test_whole_rows_of_every_size_and_dtype(device, dtype):
    for number, cols in enumerate([*SIZES, 8193, 16383, 16385, 40_000]):
        tensor = inputs.make("mixed_rows", 5, cols, dtype, device, seed=number)
        for k in {cols, max(1, cols - 1), max(1, cols // 2)}:
            check(tensor, k, SORT, **FLAGS[number % len(FLAGS)])


@pytest.mark.gpu
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.float64], ids=oracle.name_of
)
def test_crowded_and_ordered_rows(device, dtype, name):
    for rows, cols in [(300, 1000), (3, 8192), (2, 16384), (2, 300_000), (1, 3_000_000)]:
        tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
        check(tensor, cols, SORT)
        check(tensor, max(cols // 3, 1), SORT, index_dtype=torch.int32)


@pytest.mark.gpu
@DTYPES
def test_winners_are_put_in_order_at_every_size(device, dtype):
    for number, k in enumerate([*SIZES, 8193, 16384, 16385, 30_000]):
        tensor = inputs.make("mixed_rows", 6, 3 * k + 5, dtype, device, seed=number)
        check(tensor, k, AIR, largest=number % 2 == 0, magnitude=number % 3 == 0)


def check_kth(tensor: torch.Tensor, k: int, dim: int = -1, algorithm: int = 0, **flags) -> None:
    values, indices = torch.ops.gputopk._topk_kth(tensor, k, dim, algorithm=algorithm, **flags)
    best, at = torch.ops.gputopk.topk(tensor, k, dim, algorithm=algorithm, **flags)
    assert torch.equal(indices.narrow(dim, k - 1, 1), at.narrow(dim, k - 1, 1))
    last = (one.narrow(dim, k - 1, 1).contiguous() for one in (values, best))
    assert torch.equal(*map(oracle.as_ints, last))


@pytest.mark.gpu
@DTYPES
def test_the_last_in_its_place_at_every_size(device, dtype):
    for number, k in enumerate([*SIZES, 8193, 16384, 16385, 30_000]):
        for name in ("mixed_rows", "few_distinct"):
            tensor = inputs.make(name, 6, 3 * k + 5, dtype, device, seed=number)
            flags = {"largest": number % 2 == 0, "magnitude": number % 3 == 0}
            flags["index_dtype"] = (torch.int64, torch.int32)[number % 2]
            for algorithm in (0, AIR):
                check_kth(tensor, k, algorithm=algorithm, **flags)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["normal", *HARD])
def test_the_last_of_many_winners_and_of_any_layout(device, name):
    for rows, cols, k in [
        (1, 1 << 22, 1 << 20),
        (7, 1 << 20, 100_000),
        (40, 300_000, 20_000),
        (1, 9000, 9000),
    ]:
        tensor = inputs.make(name, rows, cols, torch.float32, device, seed=k)
        check_kth(tensor, k)
        check_kth(tensor, k, algorithm=AIR, largest=False)
    for shape, k in [((3, 300, 40), 7), ((2, 5000, 20), 64), ((2, 5000, 20), 3000)]:
        tensor = inputs.make(name, 1, math.prod(shape), torch.float32, device).view(shape)
        check_kth(tensor, k, 1)


@pytest.mark.gpu
def test_the_kth_replays_in_a_graph_on_changed_rows(device):
    for cols, k in [(6000, 3000), (300_000, 20_000)]:
        tensor = inputs.make("normal", 1, cols, torch.float32, device, seed=1)
        torch_topk.kth_value(tensor, k)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            values, indices = torch_topk.kth_value(tensor, k)
        for seed, name in enumerate(["all_equal", "increasing", "normal"]):
            tensor.copy_(inputs.make(name, 1, cols, torch.float32, device, seed=seed))
            graph.replay()
            best, at = topk(tensor, k)
            assert torch.equal(indices, at[:, -1:]) and torch.equal(values, best[:, -1:])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["normal", *HARD])
def test_many_winners_are_put_in_order(device, name):
    for rows, cols, k in [(1, 1 << 22, 1 << 20), (7, 1 << 20, 100_000), (40, 300_000, 20_000)]:
        tensor = inputs.make(name, rows, cols, torch.float32, device, seed=k)
        check(tensor, k, AIR)


@pytest.mark.gpu
def test_more_parts_than_a_block_can_keep_apart(device):
    """So many winners that a part is more than a block holds, and is sorted in memory."""
    for dtype, k in [(torch.int64, 12_000_000), (torch.float32, 30_000_000)]:
        tensor = inputs.make("normal", 1, 40_000_000, dtype, device, seed=1)
        check(tensor, k, SORT)


@pytest.mark.gpu
@DTYPES
def test_copies(device, dtype):
    for rows, cols in [(1, 1), (1, 100_001), (1000, 3), (7, 513), (3, 1_000_003)]:
        tensor = inputs.make("random_bits", rows, cols + 3, dtype, device, seed=cols)[:, 1 : cols + 1]
        values, indices = torch.ops.gputopk._form(tensor, cols, "sort.copy", True, False)
        assert torch.equal(oracle.as_ints(values), oracle.as_ints(tensor.contiguous()))
        assert torch.equal(indices, torch.arange(cols, device=device).expand(rows, cols))


@pytest.mark.gpu
def test_a_graph_of_every_step_replays_on_changed_rows(device):
    for cols, k in [(6000, 6000), (50_000, 50_000), (50_000, 30_000)]:
        tensor = inputs.make("normal", 3, cols, torch.float32, device, seed=1)
        topk(tensor, k, algorithm=SORT)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = topk(tensor, k, algorithm=SORT)
        for seed, name in enumerate(["all_equal", "increasing", "normal"]):
            tensor.copy_(inputs.make(name, 3, cols, torch.float32, device, seed=seed))
            graph.replay()
            oracle.assert_topk_on_device(result, tensor, k)
