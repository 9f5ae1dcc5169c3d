"""GridSelect on a GPU: every named input, dtype and boundary against exact checks, in all its forms."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from hypothesis import given

import torch_topk
from tests import inputs, oracle, strategies, tuning
from tests.cuda import calls
from tests.cuda.calls import DTYPES, FLAGS

pytestmark = pytest.mark.gpu

topk = torch.ops.gputopk.topk


def study(*arguments, **options):
    """Looked up when it is called: only a GPU's tests load it."""
    return torch.ops.gputopk._grid_select(*arguments, **options)


GRID = int(torch_topk.Algorithm.grid_select)
MOST_K = 256
# Around the capacities of lists and queues.
KS = [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256]
WIDTHS = [torch.uint8, torch.bfloat16, torch.float32, torch.int64]
# Row lengths around which the plan changes.
SWITCH_COLS = [tuning.number(name) for name in ("kGridWarpMaxCols", "kGridWarpMaxColsManyRows")]

run = functools.partial(calls.run, algorithm=GRID)
check = functools.partial(calls.check, algorithm=GRID)


def ks_for(cols: int, more=()) -> list[int]:
    most = min(cols, MOST_K)
    return sorted({k for k in (1, 2, most // 2, most - 1, most, *more) if 1 <= k <= most})


# Every input.


@pytest.mark.parametrize(
    ("rows", "cols"), [(5, 1000), (3, 20_001), (3, 150_001)], ids=str
)  # a warp a row, one block or a few, many blocks
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else rows, cols, dtype, device, seed)
        for k, flags in zip((1, 40, 100, 256) * 2, FLAGS, strict=True):
            check(tensor, k, **flags)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=oracle.name_of)
@pytest.mark.parametrize("algorithm", ["air", "grid_select", "delegate"])
def test_every_threshold_around_a_special_pattern_is_told_apart(device, dtype, algorithm):
    """4-byte elements are compared by their bit patterns: around every power of two, zero, infinities, NaNs
    of both signs, and the ends of the integers."""
    near = torch.arange(-3, 4, device=device)
    special = torch.cat([torch.tensor([0, 0x7F800000, 0x7FC00000, 2**31 - 1]), 2 ** torch.arange(31)])
    patterns = (special.to(device)[:, None] + near).flatten() & 0x7FFFFFFF
    patterns = torch.cat([patterns, patterns - 2**31]).to(torch.int32)
    torch.manual_seed(0)
    for cols in (len(patterns), 300_000):  # a warp or block a row, and many blocks
        base = torch.full((8, cols), 0x40490FDB, dtype=torch.int32, device=device)
        place = torch.rand(8, cols, device=device).topk(len(patterns)).indices
        tensor = base.scatter_(1, place, patterns.expand(8, -1)).view(dtype)
        for k, flags in itertools.product((1, 7, 60, 200, 256), FLAGS):
            if algorithm != "delegate" or cols > 64 * 256:
                calls.check(tensor, k, algorithm=int(torch_topk.Algorithm[algorithm]), **flags)


@DTYPES
def test_small_cases_agree_with_the_oracle_itself(device, dtype):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    for cols in (300, 3000):
        tensor = inputs.make("mixed_rows", 40, cols, dtype, device)
        for k, flags in itertools.product((1, 20, 256), FLAGS):
            oracle.assert_topk(run(tensor, k, **flags), tensor, k, **flags)


@DTYPES
def test_winners_are_in_order_and_the_bits_those_of_air(device, dtype):
    tensor = inputs.make("mixed_rows", 80, 70_000, dtype, device)
    for flags in FLAGS:
        if flags["sorted"]:
            ours, theirs = run(tensor, 100, **flags), topk(tensor, 100, algorithm=1, **flags)
            assert torch.equal(ours[1], theirs[1])
            assert torch.equal(oracle.as_ints(ours[0]), oracle.as_ints(theirs[0]))


# Sizes.


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_k_at_its_edges_is_answered_exactly(device, dtype, k):
    for name in ("normal", "few_distinct", "increasing", "decreasing", "all_equal"):
        for rows, cols in ((40, k), (40, k + 1), (30, 1000), (3, 100_003)):
            if cols < k:
                continue
            tensor = inputs.make(name, rows, cols, dtype, device)
            check(tensor, k)
            check(tensor, k, sorted=False, largest=False, index_dtype=torch.int32)


def test_k_beyond_the_lists_is_refused_with_the_limit(device):
    tensor = torch.zeros(3, 10_000, device=device)
    with pytest.raises(RuntimeError, match="lists in registers hold k of at most 256"):
        torch.ops.gputopk._grid_select(tensor, MOST_K + 1, form=1)
    with pytest.raises(RuntimeError, match="4096"):
        topk(tensor, 4097, algorithm=GRID)
    check(tensor, MOST_K)


@DTYPES
@pytest.mark.parametrize("cols", [5000, 300_001])
def test_lists_in_registers_are_right_for_a_k_that_the_plan_gives_to_lists_a_block(device, dtype, cols):
    for name in ("random_bits", "increasing", "few_distinct", "all_equal"):
        tensor = inputs.make(name, 3, cols, dtype, device, seed=7)
        for k in (129, 200, 255, 256):
            for largest in (True, False):
                result = torch.ops.gputopk._grid_select(tensor, k, largest, True, form=1)
                oracle.assert_topk_on_device(result, tensor, k, largest=largest, sorted=True)


@pytest.mark.parametrize("largest", [True, False])
def test_every_short_width_is_answered_exactly(device, largest):
    widths = [range(1, 300), range(508, 516), range(1020, 1030), range(2044, 2052), range(4092, 4100)]
    for cols in itertools.chain(*widths):
        tensor = inputs.make("digit_boundaries", 2, cols, torch.float16, device, seed=cols)
        for k in ks_for(cols):
            check(tensor, k, largest=largest)


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
@pytest.mark.parametrize("switch_cols", SWITCH_COLS)
def test_rows_around_the_switch_points_are_answered_exactly(device, switch_cols, dtype):
    for step in (-3, -1, 0, 1, 3):
        cols = switch_cols + step
        for rows, name in ((1, "normal"), (3, "few_distinct"), (3000, "ten_bit_prefix")):
            tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
            for k in (1, 32, 256):
                check(tensor, k, sorted=k % 2 == 1)


@pytest.mark.parametrize(
    ("rows", "cols"),
    [(70_000, 33), (65_535, 8), (65_536, 8), (65_537, 8), (1 << 20, 5), (131, 9000), (133, 9000), (1000, 1),
     (2113, 9000), (8192, 256), (10_000, 1000)],
    ids=str,
)  # fmt: skip
def test_many_rows_are_answered_exactly(device, rows, cols):
    tensor = inputs.make("mixed_rows", rows, cols, torch.float32, device)
    for k in ks_for(cols, (3, 10, 64)):
        check(tensor, k)
        check(tensor, k, sorted=False, largest=False)


# Layouts.


@DTYPES
def test_any_dim_of_any_layout_agrees_with_the_oracle(device, dtype):
    base = inputs.make("few_distinct", 24, 35, dtype, device).view(4, 6, 5, 7)
    for tensor in (base, base.permute(3, 1, 0, 2), base[1:, ::2, 1:, ::3], base[:, :1].expand(4, 6, 5, 7)):
        for dim in range(tensor.dim()):
            for k in {0, 1, tensor.shape[dim]}:
                oracle.assert_topk(topk(tensor, k, dim, algorithm=GRID), tensor, k, dim)


def test_the_last_elements_of_an_allocation_are_read_and_no_more(device):
    """A row that ends with its storage, beside NaNs that would win."""
    for cols in (1, 15, 33, 1001, 50_001):
        storage = torch.full((cols + 64,), float("nan"), device=device)
        storage[32 : 32 + cols] = inputs.make("normal", 1, cols, torch.float32, device)[0]
        inner = storage[32 : 32 + cols].view(1, -1)
        check(inner, min(cols, 100))


@given(call=strategies.calls(max_elements=20_000))
def test_any_call_agrees_with_the_oracle(call):  # a fixture would be one for all examples
    tensor = call.tensor("cuda")
    if call.k > 4096:
        with pytest.raises(RuntimeError, match="grid_select"):
            call.run(topk, tensor, algorithm=GRID)
    else:
        call.check(call.run(topk, tensor, algorithm=GRID), tensor)


# Sizes beyond 32 bits.


@pytest.mark.parametrize(
    "name", ["normal", "ten_bit_prefix", "all_equal", "increasing", "decreasing", "winners_in_one_subrange"]
)
def test_a_row_of_2_28_elements_is_answered_exactly(device, name):
    tensor = inputs.make(name, 1, 2**28, torch.float32, device)
    for k in (1, 32, 256):
        check(tensor, k)
    check(tensor, 100, sorted=False, largest=False, magnitude=True)


@pytest.mark.parametrize("name", ["uniform", "all_equal", "increasing"])
def test_a_row_of_more_than_2_32_elements_is_answered_exactly(device, name):
    """Entries of 128 bits for keys of 8."""
    tensor = inputs.make(name, 1, 2**32 + 3, torch.uint8, device)
    tensor[0, -1] = 255
    for k in (1, 200):
        check(tensor, k)
        check(tensor, k, largest=False)


def test_more_than_2_32_elements_in_all_are_answered_exactly(device):
    check(inputs.make("uniform", 17, 2**28 + 1, torch.uint8, device), 200)
    check(inputs.make("uniform", 2**22 + 1, 1030, torch.uint8, device), 3)


# The same bits every time.


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 22, 256), (64, 50_257, 50), (500, 3000, 200)], ids=str
)
@pytest.mark.parametrize("name", ["normal", "few_distinct", "increasing"])
def test_repeats_and_streams_give_the_same_bits(device, name, rows, cols, k):
    tensor = inputs.make(name, rows, cols, torch.bfloat16, device)
    want_values, want_indices = topk(tensor, k, algorithm=GRID)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for repeat in range(60):
        with torch.cuda.stream(streams[repeat % len(streams)]):
            results.append(topk(tensor, k, algorithm=GRID))
    torch.cuda.synchronize()
    for values, indices in results:
        assert torch.equal(oracle.as_ints(values), oracle.as_ints(want_values))
        assert torch.equal(indices, want_indices)


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 21, 256), (1, 1 << 21, 1), (64, 50_257, 50), (100, 1000, 10)], ids=str
)
def test_a_graph_replays_on_changed_data(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [
            topk(tensor, k, algorithm=GRID),
            topk(tensor, k, largest=False, sorted=False, algorithm=GRID),
        ]
    for seed, name in enumerate(inputs.names_for(torch.float32)):
        tensor.copy_(inputs.make(name, rows, cols, torch.float32, device, seed))
        for values, indices in results:
            oracle.as_ints(values).fill_(0x5A)
            indices.fill_(-1)
        graph.replay()
        oracle.assert_topk_on_device(results[0], tensor, k)
        oracle.assert_topk_on_device(results[1], tensor, k, largest=False, sorted=False)


def test_a_call_does_not_wait_for_the_gpu(device):
    tensor = inputs.make("normal", 2, 1 << 22, torch.float32, device)
    check(tensor, 200)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(1_000_000_000)
        result = topk(tensor, 200, algorithm=GRID)
        done.record()
        assert not done.query(), "the call waited for work before it"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    oracle.assert_topk_on_device(result, tensor, 200)


def test_dirty_workspaces_do_no_harm(device):
    """The allocator hands freed blocks back as they are: fill them with every kind of dirt."""
    tensor = inputs.make("mixed_rows", 40, 60_000, torch.float32, device)
    for dirt in (0, 1, 0x7F, 0xFF):
        blocks = [torch.full((1 << size,), dirt, dtype=torch.uint8, device=device) for size in range(9, 27)]
        del blocks
        check(tensor, 200)
        check(tensor, 3, largest=False)


# gputopk::_grid_select: any form whatever the shape.

STUDIES = [
    {},
    *({"blocks": -1, "threads": threads} for threads in (0, 32, 64, 128, 192, 256)),
    *({"blocks": blocks} for blocks in (1, 2, 3, 31, 132, 396, 8 * 132)),
    *({"blocks": blocks, "threads": threads} for blocks in (1, 7) for threads in (32, 64, 128, 192, 256)),
]


@pytest.mark.parametrize("numbers", STUDIES, ids=str)
def test_every_form_is_answered_exactly(device, numbers):
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    if numbers.get("blocks", 0) > 8 * sms:
        pytest.skip("more blocks than this GPU is asked for")
    for rows, cols in ((1, 1), (3, 100), (40, 5000), (2, 300_007)):
        for dtype in WIDTHS:
            tensor = inputs.make("mixed_rows", rows, cols, dtype, device, seed=cols)
            for k in {1, min(cols, 33), min(cols, 77), min(cols, 256)}:
                for largest in (True, False):
                    result = study(tensor, k, largest, **numbers)
                    oracle.assert_topk_on_device(result, tensor, k, largest)


@pytest.mark.parametrize("blocks", [-1, 0, 1, 9])
def test_thread_queues_are_answered_exactly(device, blocks):
    for name in ("normal", "increasing", "all_equal", "few_distinct", "nan_scattered"):
        for rows, cols in ((40, 257), (20, 5001), (2, 300_007)):
            tensor = inputs.make(name, rows, cols, torch.float32, device, seed=cols)
            for k in (1, 32, 33, 64, 65, 128, 256):
                result = study(tensor, k, blocks=blocks, thread_queues=True)
                oracle.assert_topk_on_device(result, tensor, k)


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (torch.float32, {"threads": 48}),
        (torch.float32, {"threads": 512}),
        (torch.float32, {"blocks": -2}),
        (torch.float16, {"thread_queues": True}),
    ],
    ids=str,
)
def test_a_form_that_it_cannot_take_is_refused(device, dtype, numbers):
    with pytest.raises(RuntimeError, match=f"_grid_select: {next(iter(numbers))} must be"):
        study(torch.zeros(3, 70_000, dtype=dtype, device=device), 5, **numbers)
