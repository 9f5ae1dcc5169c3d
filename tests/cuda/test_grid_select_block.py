"""GridSelect on a GPU: every named input, dtype and boundary of k against exact checks."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given

import torch_topk
from tests import inputs, oracle, strategies, tuning
from tests.cuda import calls
from tests.cuda.calls import DTYPES, FLAGS

topk = torch.ops.gputopk.topk
GRID_SELECT = int(torch_topk.Algorithm.grid_select)
MAX_K = 4096
KS = [1, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049, 4095, 4096]
RANKED = [tuning.number("kGridListRankedWinners"), tuning.number("kGridListRankedUnsorted")]

run = functools.partial(calls.run, algorithm=GRID_SELECT)
check = functools.partial(calls.check, algorithm=GRID_SELECT)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "cols"), [(5, 1000), (300, 5000), (3, 150_001), (1, 1_000_003)], ids=str
)  # a block a row, alone and among many; groups of blocks; groups of groups
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, max(40, rows) if name == inputs.MIXED else rows, cols, dtype, device, seed)
        for k, flags in zip((1, 40, 513, min(cols, MAX_K) // 3) * 2, FLAGS, strict=True):
            check(tensor, k, **flags)


@pytest.mark.gpu
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(("rows", "cols"), [(400, 4099), (3, 100_003), (1, 1 << 21)], ids=str)
def test_k_at_its_edges_is_answered_exactly(device, rows, cols, k):
    for name in ("normal", "few_distinct", "increasing", "all_equal"):
        for dtype in (torch.bfloat16, torch.float32, torch.int64):
            tensor = inputs.make(name, rows, cols, dtype, device, seed=k)
            check(tensor, k)
            check(tensor, k, sorted=False, largest=False, index_dtype=torch.int32)


@pytest.mark.parametrize("place", ["meta", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_larger_k_is_refused_with_the_limit(place):
    tensor = torch.empty((3, 10_000), device=place)
    with pytest.raises(RuntimeError, match="grid_select cannot serve this: k is larger than 4096"):
        topk(tensor, MAX_K + 1, algorithm=GRID_SELECT)


@pytest.mark.gpu
@pytest.mark.parametrize("order", [True, False])
def test_every_short_width_is_answered_exactly(device, order):
    for cols in [*range(1, 300), *range(1020, 1030), *range(2044, 2052), *range(4092, 4100)]:
        tensor = inputs.make("digit_boundaries", 2, cols, torch.float16, device, seed=cols)
        for k in sorted(
            {k for k in (1, 2, cols // 2, cols - 1, cols, *RANKED) if 1 <= k <= min(cols, MAX_K)}
        ):
            check(tensor, k, sorted=order)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "cols"),
    [(70_000, 33), (65_537, 8), (1 << 20, 5), (131, 9000), (133, 9000), (265, 2000), (1000, 1)],
    ids=str,
)
def test_many_rows_are_answered_exactly(device, rows, cols):
    tensor = inputs.make("mixed_rows", rows, cols, torch.float32, device)
    for k in {1, min(cols, 3), min(cols, 64), min(cols, MAX_K)}:
        check(tensor, k)
        check(tensor, k, sorted=False, largest=False)


@pytest.mark.gpu
@pytest.mark.parametrize("offset", range(16))
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_at_any_alignment_are_answered_exactly(device, dtype, offset):
    storage = inputs.make("normal", 1, 3 * 40_100 + 64, dtype, device).view(-1)
    for cols in (7, 61, 1001, 40_001):
        for row_stride in (cols, cols + 1, cols + 16):
            tensor = storage.as_strided((3, cols), (row_stride, 1), offset)
            check(tensor, min(cols, 50))
            check(tensor, 1, largest=False)


@pytest.mark.gpu
@pytest.mark.parametrize("where", ["head", "tail", "one tile", "every tile"])
def test_winners_anywhere_in_a_row_of_many_blocks_are_found(device, where):
    """k is more than one block's part can give, or all of it comes from one part."""
    cols = 3_000_001
    position = torch.arange(cols, device=device)
    high = {
        "head": position < 4000,
        "tail": position >= cols - 4000,
        "one tile": (position >= 1_000_000) & (position < 1_004_000),
        "every tile": position % 750 == 3,
    }[where]
    tensor = inputs.make("normal", 1, cols, torch.float32, device)
    tensor = torch.where(high, tensor.abs() + 100, tensor)
    for k in (1, 100, 2048, 4000, 4096):
        check(tensor, k)
        check(-tensor, k, largest=False, sorted=False)


@pytest.mark.gpu
@pytest.mark.parametrize("k", [1, 100, 2048, 4096])
@pytest.mark.parametrize("name", ["normal", "few_distinct", "increasing", "decreasing", "all_equal"])
def test_repeats_give_the_same_bits(device, name, k):
    tensor = inputs.make(name, 1, 1 << 22, torch.bfloat16, device)
    want = topk(tensor, k, algorithm=GRID_SELECT)
    oracle.assert_topk_on_device(want, tensor, k)
    for _ in range(30):
        again = topk(tensor, k, algorithm=GRID_SELECT)
        assert torch.equal(again[1], want[1])
        assert torch.equal(oracle.as_ints(again[0]), oracle.as_ints(want[0]))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 21, 3000), (64, 50_257, 50), (500, 1000, 10)], ids=str
)
def test_a_graph_replays_on_changed_data(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [
            topk(tensor, k, algorithm=GRID_SELECT),
            topk(tensor, k, largest=False, sorted=False, algorithm=GRID_SELECT),
        ]
    for seed, name in enumerate(inputs.names_for(torch.float32)):
        tensor.copy_(inputs.make(name, rows, cols, torch.float32, device, seed))
        for values, indices in results:
            oracle.as_ints(values).fill_(0x5A)
            indices.fill_(-1)
        graph.replay()
        oracle.assert_topk_on_device(results[0], tensor, k)
        oracle.assert_topk_on_device(results[1], tensor, k, largest=False, sorted=False)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["uniform", "all_equal", "increasing"])
def test_rows_around_32_bits_are_answered_exactly(device, name):
    for cols in (2**31 + 3, 2**32 - 1, 2**32 + 5):
        tensor = inputs.make(name, 1, cols, torch.uint8, device)
        tensor[0, -1] = 255
        for k in (1, 129, 201, 4096):  # k = 1 is in registers
            check(tensor, k)
            check(tensor, k, largest=False)


@pytest.mark.gpu
def test_dirty_workspaces_do_no_harm(device):
    """The allocator hands freed blocks back as they are: fill them with every kind of dirt."""
    tensor = inputs.make("mixed_rows", 40, 200_000, torch.float32, device)
    for dirt in (0, 1, 0x7F, 0xFF):
        blocks = [torch.full((1 << size,), dirt, dtype=torch.uint8, device=device) for size in range(9, 27)]
        del blocks
        check(tensor, 700)
        check(tensor, 3, largest=False)


@pytest.mark.gpu
@given(strategies.calls(max_elements=20_000))
def test_any_call_agrees_with_the_oracle(call):
    if call.k > MAX_K:
        return
    tensor = call.tensor("cuda")
    call.check(call.run(topk, tensor, algorithm=GRID_SELECT), tensor)
