"""The CUDA plan, from meta tensors: which request goes where, and why others are refused. Needs no GPU."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

import pytest
import torch

import torch_topk
from bench import report
from tests import delegate_model, oracle, tuning

plan = torch.ops.gputopk._plan
topk = torch.ops.gputopk.topk
REFUSING = [("bitonic", 4, 257), ("split_bucket", 5, 1025), ("grid_select", 2, 4097)]
AIR = int(torch_topk.Algorithm.air)
BITONIC = int(torch_topk.Algorithm.bitonic)
DELEGATE = int(torch_topk.Algorithm.delegate)
GRID_SELECT = int(torch_topk.Algorithm.grid_select)
SMS = 132  # of the GPU that a meta tensor is planned for
SHAPES = [(1, 1), (1, 100), (3, 4096), (32, 50257), (1, 1 << 20), (1, 1 << 28), (100_000, 256), (7, 33_333)]


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_request_has_a_plan_of_a_known_algorithm(dtype, shape):
    names = [a.name for a in torch_topk.Algorithm if a.name != "auto"]
    for k in {1, shape[1] // 2, shape[1]} - {0}:
        for order in (True, False):
            text = plan(meta(*shape, dtype=dtype), k, sorted=order)
            assert text.split(":")[0] in names, text
            assert ": " in text and text.isprintable()


def form(*arguments, **flags) -> str:
    """The part of the plan that says what runs, without the request that it repeats."""
    return plan(*arguments, **flags).split(";")[0]


def every_form(tensor: torch.Tensor, k: int, **flags) -> dict[str, tuple[str, bool]]:
    """By name, of the forms that serve: what each would do, and whether rows come out in order."""
    lines = (line.split("; ") for line in torch.ops.gputopk._forms(tensor, k, **flags).splitlines())
    return {name: (text, "in_order 1 " in work) for name, text, work in lines if name != "order_rows"}


def text_of(name: str, tensor: torch.Tensor, k: int, **flags) -> str:
    return every_form(tensor, k, **flags)[name][0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_plan_depends_on_sizes_alone(shape):
    want = form(meta(*shape), 1)
    for flags in (
        {},
        {"largest": False},
        {"magnitude": True},
        {"index_dtype": torch.int32},
    ):
        assert form(meta(*shape), 1, **flags) == want, flags
    assert form(meta(*shape, dtype=torch.int32), 1) == want
    if shape[1] == 1:
        return  # all of a row in any order is a copy
    unsorted = form(meta(*shape), 1, sorted=False)
    assert unsorted.removesuffix(", winners ranked") == want.removesuffix(", winners ranked")


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_form_of_another_dim_is_that_of_its_rows(dim):
    tensor = meta(30, 400, 5000)
    cols = tensor.shape[dim]
    rows = tensor.numel() // cols
    air = torch_topk.Algorithm.air
    found, want = plan(tensor, 9, dim, algorithm=air), plan(meta(rows, cols), 9, algorithm=air)
    assert found.split("form ")[1] == want.split("form ")[1]
    assert found.startswith("strided: ") == (dim != 2)


@pytest.mark.parametrize(("name", "number", "k"), REFUSING)
@pytest.mark.parametrize("call", [plan, topk], ids=["_plan", "topk"])
@pytest.mark.parametrize("rows", [3, 0])
def test_an_algorithm_that_cannot_serve_is_refused_with_its_reason(call, name, number, rows, k):
    call(meta(rows, 5000), k - 1, algorithm=number)
    with pytest.raises(RuntimeError) as caught:
        call(meta(rows, 5000), k, algorithm=number)
    message = str(caught.value)
    assert name in message and "topk" in message
    assert len(message.splitlines()[0]) > len(name) + 20, f"no reason: {message}"


@pytest.mark.parametrize(
    ("arguments", "words"), [((8,), "out of range"), ((-1,), "out of range"), ((1, 2), "Dim")]
)
def test_a_plan_refuses_what_the_operator_refuses(arguments, words):
    with pytest.raises((RuntimeError, IndexError), match=words):
        plan(meta(3, 7), *arguments)


@pytest.mark.parametrize(("shape", "k"), [((3, 7), 0), ((0, 7), 2), ((3, 0), 0), ((), 1), ((), 0)], ids=str)
def test_requests_of_nothing_have_a_plan_too(shape, k):
    assert plan(meta(*shape), k)


def test_rows_beyond_2_31_elements_are_planned():
    for shape in ((1, 2**31 + 3), (2**31 + 3, 2), (2**20, 2**20), (1, 2**40)):
        assert plan(meta(*shape, dtype=torch.uint8), 2)


def blocks_a_row(*shape: int) -> int:
    return int(re.search(r"(\d+) blocks a row", text_of("air.many_blocks", meta(*shape), 1))[1])


def test_one_block_takes_rows_up_to_a_length_and_many_blocks_any():
    most = tuning.number("kAirBlockMaxCols")
    for rows, cols in ((1, 1), (1, most), (1000, most)):
        assert {"air.one_block", "air.many_blocks"} <= every_form(meta(rows, cols), 1).keys()
    assert "air.one_block" not in every_form(meta(1000, most + 1), 1)


def cluster(rows: int, cols: int, k: int = 1, **flags) -> tuple[int, int] | None:
    """Blocks and threads, where AIR takes a cluster a row."""
    text, _ = every_form(meta(rows, cols), k, **flags).get("air.one_cluster", ("", False))
    found = re.match(r"air: one cluster of (\d+) blocks a row, (\d+) threads", text)
    return (int(found[1]), int(found[2])) if found else None


@pytest.mark.parametrize(
    ("rows", "cols", "expected"),
    [
        (1, 1 << 15, (8, 512)),
        (1, 128_256, (16, 512)),
        (15, 1 << 15, (8, 512)),
        (16, 1 << 15, (4, 512)),
        (32, 1 << 15, (2, 512)),
        (32, 128_256, (8, 256)),
        (64, 1 << 17, (2, 1024)),
    ],
)
def test_rows_of_middling_length_take_a_cluster_each(rows, cols, expected):
    assert cluster(rows, cols) == expected


def test_clusters_are_for_rows_that_fit_the_gpu_together():
    least, most = tuning.number("kAirClusterMinCols"), tuning.number("kAirClusterMaxCols")
    for rows in range(1, SMS + 1):
        for cols in (least, 1 << 15, 100_000, most):
            blocks, threads = cluster(rows, cols) or (2, 1)
            assert blocks >= 2 and rows * blocks * threads <= 1024 * SMS, (rows, cols)
        assert cluster(rows, least - 1) is None and cluster(rows, most + 1) is None
    # Two blocks an SM, for long rows.
    long = tuning.number("kAirClusterLongCols")
    for rows in (SMS // 2 + 1, SMS):
        assert cluster(rows, long) == (2, 512) and not cluster(rows, long - 1)
    assert not cluster(SMS + 1, long)


def test_a_cluster_ranks_few_winners_and_writes_a_few_more():
    ranked, unsorted = tuning.number("kAirClusterMostRanked"), tuning.number("kAirClusterRankedUnsorted")
    for k, flags, in_order in (
        (ranked // 2, {}, True),
        (ranked // 2 + 1, {}, False),
        (unsorted, {"sorted": False}, True),
        (unsorted + 1, {"sorted": False}, False),
    ):
        text, ordered = every_form(meta(3, 1 << 16), k, **flags)["air.one_cluster"]
        assert ("winners ranked" in text) == ordered == in_order


def test_one_long_row_takes_the_whole_gpu_and_many_rows_share_it():
    assert blocks_a_row(1, 1 << 28) >= SMS
    assert blocks_a_row(100_000, 1 << 16) == 1
    for rows in (2, 8, 64, 512, 4096):
        # Two blocks an SM and no fewer than one; beyond, a few to even out the last wave.
        assert SMS // (2 * rows) <= blocks_a_row(rows, 1 << 22) <= max(4 * SMS // rows, 4), rows


def test_one_block_ranks_few_winners_and_short_rows_whole():
    few, many = tuning.number("kAirBlockRankedWinnersFewRows"), tuning.number("kAirBlockRankedWinners")
    for rows, most in ((3, few), (1000, many)):
        assert every_form(meta(rows, 5000), most)["air.one_block"][1]
        assert not every_form(meta(rows, 5000), most + 1)["air.one_block"][1]
    whole = tuning.number("kAirBlockList")
    assert every_form(meta(3, whole), whole)["air.one_block"][1]
    assert not every_form(meta(3, whole + 1), whole)["air.one_block"][1]


def test_order_rows_follows_where_order_is_wanted_and_the_form_leaves_none():
    for shape, k in itertools.product(SHAPES, (1, 30, 4097)):
        if k > shape[1]:
            continue
        for order in (True, False):
            text = plan(meta(*shape), k, sorted=order)
            name = re.search(r"form (\S+)", text)[1]
            ordered = every_form(meta(*shape), k, sorted=order)[name][1]
            assert ("then order_rows" in text) == (order and not ordered), text


def test_the_last_alone_takes_a_step_only_behind_a_form_that_leaves_no_order():
    seen = set()
    requests = itertools.product(SHAPES, (1, 2, 30, 1024, 4097, 1 << 20))
    auto, sort = torch_topk.Algorithm.auto, torch_topk.Algorithm.sort
    for shape, k, algorithm in (*((*one, auto) for one in requests), ((16, 1 << 17), 1 << 17, sort)):
        if k > shape[1]:
            continue
        text = plan(meta(*shape), k, last_alone=True, algorithm=algorithm)
        assert "order_rows" not in text
        chosen, step = text.split("; ")[:2]
        name = re.search(r"form (\S+)", text)[1]
        # The form as it would be of winners in order, or of the last alone.
        both = [
            every_form(meta(*shape), k, **flag).get(name) for flag in ({"sorted": True}, {"last_alone": True})
        ]
        finds_last = [orders for form, orders in filter(None, both) if form == chosen]
        needs_step = k > 1 and not any(finds_last)
        assert step.startswith("then the last in its place" if needs_step else "no further step"), text
        seen.add(needs_step)
    assert seen == {True, False}


@pytest.mark.parametrize("power", [20, 24, 28, 30])
def test_the_last_of_many_winners_is_selected_without_the_others(power):
    for k in (1 << power - 1, 1 << power - 3):
        text = plan(meta(1, 1 << power), k, last_alone=True)
        forms = "air.many_blocks|air.resident_grid|delegate.two_bounds"
        assert re.search(f"form ({forms})", text) and "no further step" in text, text


def test_the_last_of_all_of_a_row_and_of_columns():
    text = plan(meta(4, 1 << 18), 1 << 18, last_alone=True, algorithm=torch_topk.Algorithm.sort)
    assert "form sort.copy" in text and "then the last in its place, 64 blocks a row" in text, text
    # In panels, each of which takes the step; and by a form that leaves winners in order where they lie.
    text = plan(meta(1, 40_000, 3), 40_000, 1, last_alone=True, algorithm=torch_topk.Algorithm.sort)
    assert "strided: " in text and "then the last in its place" in text, text
    text = plan(meta(4, 40, 33), 5, 1, last_alone=True)
    assert "strided: " in text and "no further step" in text, text


def test_blocks_that_find_the_last():
    def step(rows: int, cols: int, k: int, algorithm: torch_topk.Algorithm) -> str:
        return plan(meta(rows, cols), k, last_alone=True, algorithm=algorithm).split("; ")[1]

    delegate, sort = torch_topk.Algorithm.delegate, torch_topk.Algorithm.sort
    assert step(1000, 1 << 20, 2, delegate) == "then the last in its place, 32 threads a row"
    assert step(1, 16_384, 16_384, sort) == "then the last in its place, 1024 threads a row"
    assert step(1, 16_385, 16_385, sort) == "then the last in its place, 5 blocks a row of 1024 threads"


@pytest.mark.parametrize(
    ("rows", "cols", "name"), [(1000, 10_000, "air.one_block"), (64, 1 << 17, "air.one_cluster")]
)
def test_the_last_of_many_winners_of_many_rows_is_selected_by_one_block_or_cluster(rows, cols, name):
    text = plan(meta(rows, cols), cols // 2, last_alone=True)
    assert f"form {name}" in text and "no further step" in text, text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=oracle.name_of)
@pytest.mark.parametrize("power", [25, 27, 28, 30])
def test_many_winners_in_any_order_are_selected_and_not_sorted_beyond_what_was_measured(power, dtype):
    """Sorting all of 3 rows of 1.6 million took nine times as long as AIR: bench/results/plan-h200.jsonl."""
    for k in (1 << power - 1, 1 << power - 3):
        text = plan(meta(1, 1 << power, dtype=dtype), k, sorted=False)
        assert "form sort.whole_rows" not in text, text


# Bitonic top-k, and AIR with a resident row.


def bitonic_forms(cols: int, k: int, dtype: torch.dtype = torch.float32, rows: int = 1000) -> set[str]:
    names = every_form(meta(rows, cols, dtype=dtype), k)
    return {name.removeprefix("bitonic.") for name in names if name.startswith("bitonic.")}


def test_bitonic_keeps_a_row_in_a_thread_a_warp_or_many_blocks_by_its_length_and_k():
    assert bitonic_forms(64, 8) == {"one_thread", "one_warp", "many_blocks"}
    assert bitonic_forms(65, 8) == bitonic_forms(64, 9) == {"one_warp", "many_blocks"}
    assert bitonic_forms(1024, 128) == {"one_warp", "many_blocks"}
    assert bitonic_forms(1025, 1) == bitonic_forms(1000, 129) == {"many_blocks"}
    assert bitonic_forms(300, 257) == set()
    # Half as many 8-byte elements fit a thread.
    assert bitonic_forms(33, 8, torch.float64) == {"one_warp", "many_blocks"}


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_lanes_that_share_a_row_hold_it_and_twice_as_many_maxima_as_winners(dtype):
    for cols, k in itertools.product(
        (1, 8, 63, 64, 65, 128, 129, 256, 257, 512, 513, 1024), (1, 4, 9, 16, 17, 32, 64, 65, 128)
    ):
        if k > cols:
            continue
        text = text_of("bitonic.one_warp", meta(1000, cols, dtype=dtype), k)
        lanes, elements = map(int, re.findall(r"\d+", text)[:2])
        assert lanes * elements >= cols and elements * dtype.itemsize >= 16
        if "the row is listed whole" in text:
            assert cols <= lanes * (8 if lanes == 32 else 4) and 2 * k > cols
            continue
        maxima = int(re.findall(r"\d+", text)[2])
        assert maxima <= elements and lanes * maxima >= 2 * k


def test_a_warp_takes_all_of_a_row_that_its_list_has_room_for():
    for cols, lanes in ((20, 8), (32, 8), (33, 16), (64, 16), (65, 32), (256, 32)):
        text = text_of("bitonic.one_warp", meta(1000, cols), cols)
        assert f"{lanes} lanes a row" in text and "the row is listed whole" in text
    assert "2 maxima a lane" in text_of("bitonic.one_warp", meta(1000, 16), 8)
    assert "the row is listed whole" in text_of("bitonic.one_warp", meta(1000, 16), 9)
    assert bitonic_forms(257, 256) == {"many_blocks"}


@pytest.mark.parametrize("call", [plan, topk], ids=["_plan", "topk"])
def test_bitonic_refuses_a_k_that_its_networks_do_not_keep(call):
    with pytest.raises(RuntimeError, match="256"):
        call(meta(3, 1000), 257, algorithm=BITONIC)
    assert plan(meta(3, 1 << 33, dtype=torch.uint8), 256, algorithm=BITONIC).startswith("bitonic: ")


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_a_block_holds_the_rows_that_it_keeps_and_a_list_of_their_winners(dtype):
    longest = 32768 if dtype.itemsize < 8 else 16384
    for cols, k in itertools.product((1, 1000, 1024, 1025, 4096, 6000, longest), (1, 64, 500, 4096)):
        tensor = meta(1000, cols, dtype=dtype)
        if k > cols or "air.resident_row" not in every_form(tensor, k):
            assert k > min(512, cols)
            continue
        text = text_of("air.resident_row", tensor, k)
        threads, elements = map(int, re.search(r"(\d+) threads, (\d+) elements a thread", text).groups())
        # The row may begin anywhere in 16 bytes.
        in_vector = 16 // dtype.itemsize
        assert threads * elements >= cols + (in_vector - 1 if cols % in_vector else 0)
        assert k <= int(re.search(r"lists of (\d+)", text)[1]) <= 8 * threads
        bound = re.search(r"number (\d+) of (\d+) maxima a warp", text)
        if bound:  # k maxima reach the least of the warps' bounds
            rank, maxima = map(int, bound.groups())
            assert rank * (threads // 32) >= k and rank < maxima
        counted = re.search(r"number (\d+) of (\d+) maxima that are counted", text)
        if counted:  # as often as sorting a warp's would take longer
            rank, maxima = map(int, counted.groups())
            assert rank == k <= maxima // 2 and maxima == 8 * threads
            assert -(-k // (threads // 32)) > tuning.number("kAirResidentSortedRank")
    assert "air.resident_row" not in every_form(meta(1000, longest + 1, dtype=dtype), 1)
    assert "air.resident_row" not in every_form(meta(1000, 5000, dtype=dtype), 4097)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_grid_select_has_room_beyond_k_for_every_request_that_it_takes(dtype, shape):
    for k in {min(shape[1], k) for k in (257, 2048, 4096)}:
        if k <= 256:
            continue
        text = text_of("grid_select.shared_list", meta(*shape, dtype=dtype), k)
        found = re.match(r"grid_select: (\d+) blocks a row, (\d+) threads, lists of (\d+) entries", text)
        assert found, text
        blocks, threads, entries = map(int, found.groups())
        assert 1 <= blocks <= 2 * SMS and threads in (64, 128, 256, 512)
        assert entries >= k if shape[1] == k else entries > k
        # Two blocks an SM, with the histograms that they prune by.
        assert entries * (max(4, dtype.itemsize) + 4) + 8 * 1024 <= tuning.number("kGridListSharedBytes")


def test_lists_have_an_even_number_of_entries_so_that_8_byte_indices_behind_4_byte_keys_are_aligned():
    for k in (129, 201, 511, 513, 4095):
        for cols in (1 << 20, 2**32 + 5):
            text = text_of("grid_select.shared_list", meta(1, cols, dtype=torch.uint8), k)
            assert int(re.search(r"lists of (\d+) entries", text)[1]) % 2 == 0, text


def test_lists_rank_few_winners():
    for rows, cols in ((1, 1 << 24), (1000, 5000)):
        for k, ordered in ((1, True), (128, True), (129, False), (4096, False)):
            assert every_form(meta(rows, cols), k)["grid_select.shared_list"][1] == ordered


@pytest.mark.parametrize("call", [plan, topk], ids=["_plan", "topk"])
def test_grid_select_refuses_a_k_that_its_lists_do_not_hold(call):
    for rows in (0, 1, 500):
        with pytest.raises(RuntimeError, match="grid_select cannot serve this: k is larger than 4096"):
            call(meta(rows, 1 << 20), 4097, algorithm=GRID_SELECT)


def test_grid_select_gives_a_long_row_to_the_whole_gpu_and_short_rows_a_block():
    def blocks(*shape: int) -> int:
        return int(re.search(r"(\d+) blocks a row", text_of("grid_select.shared_list", meta(*shape), 300))[1])

    assert 2 * SMS - 4 <= blocks(1, 1 << 28) <= 2 * SMS
    assert blocks(4096, 4096) == blocks(10_000, 10_000) == 1
    assert 2 <= blocks(64, 131_072) <= 4


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_every_block_of_grid_select_has_a_whole_tile(dtype):
    tile = 512 * {1: 32, 2: 32, 4: 16, 8: 8}[dtype.itemsize]
    for cols in (257, 300, tile, 2 * tile, 2 * tile + 31, 2 * tile + 33, 100 * tile, 100 * tile + 1, 10**7):
        text = text_of("grid_select.shared_list", meta(1, cols, dtype=dtype), 257)
        blocks = int(re.search(r"(\d+) blocks a row", text)[1])
        assert blocks == 1 or blocks * tile + 32 <= cols, text


# GridSelect.


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_grid_select_has_a_plan_and_leaves_no_order_to_make(shape, dtype):
    for k in {1, min(shape[1], 32), min(shape[1], 128)}:
        for order in (True, False):
            tensor = meta(*shape, dtype=dtype)
            assert every_form(tensor, k, sorted=order)["grid_select.registers"][1]
            assert plan(tensor, k, sorted=order, algorithm=GRID_SELECT).startswith("grid_select: ")


def test_grid_select_gives_a_row_a_warp_where_rows_are_short_or_many():
    few, many = tuning.number("kGridWarpMaxCols"), tuning.number("kGridWarpMaxColsManyRows")
    enough = SMS * tuning.number("kGridWarpManyRowsPerSm")
    for rows, most in ((1, few), (enough - 1, few), (enough, many)):
        assert "one warp a row" in text_of("grid_select.registers", meta(rows, most), 10)
        assert "one warp a row" not in text_of("grid_select.registers", meta(rows, most + 1), 10)


def test_grid_select_spreads_a_long_row_over_the_gpu_and_few_short_rows_over_its_sms():
    def number(what: str, *shape: int, k: int = 10) -> int:
        text = text_of("grid_select.registers", meta(*shape), k)
        found = re.search(rf"(\d+) {what}", text)
        assert found, text
        return int(found[1])

    for k in (1, 32, 33, 256):
        assert number("blocks a row", 1, 1 << 28, k=k) >= SMS
        assert number("blocks a row", 100, 1 << 20, k=k) <= 32
        assert number("blocks a row", 1000, 1 << 16, k=k) <= 4
    # Blocks that divide the rows evenly: 500 of 192 threads, of 528 that the GPU holds.
    assert (number("threads", 100, 1 << 20, k=32), number("blocks a row", 100, 1 << 20, k=32)) == (192, 5)
    assert number("threads", 1, 1 << 28, k=32) == 256
    assert number("threads", 100, 1000) == 32
    assert number("threads", 10_000, 1000) == 256
    # A sample is read twice: it is a small part of the row.
    for rows, cols in ((1, 1 << 28), (100, 1 << 20), (3, 100_000)):
        samples = number("samples each", rows, cols) * number("blocks a row", rows, cols)
        assert samples * 32 * 16 <= max(cols / 16, number("blocks a row", rows, cols) * 32 * 16)


# Delegate.


def delegate_form(*shape: int, k: int, dtype: torch.dtype = torch.float32) -> str:
    """From a sample where that serves, else from maxima."""
    forms = every_form(meta(*shape, dtype=dtype), k)
    return forms.get("delegate.from_sample", forms.get("delegate.from_maxima"))[0]


def numbers_of(pattern: str, text: str) -> tuple[int, ...]:
    found = re.fullmatch(pattern, text)
    assert found, text
    return tuple(map(int, found.groups()))


FROM_MAXIMA = r"delegate: subranges of 2\^(\d+), beta (\d), (\d+) blocks a row, room for (\d+) candidates"
FROM_SAMPLE = (
    r"delegate: bound is number (\d+) of (\d+) delegates of a sample, (\d+) blocks a row, "
    r"room for (\d+) candidates"
)
TWO_BOUNDS = (
    r"delegate: bounds are numbers (\d+) and (\d+) of (\d+) elements of a sample, in place (\d+) of (\d+) "
    r"blocks, (\d+) blocks a row, room for (\d+) candidates"
)


def test_delegate_takes_its_bound_from_a_sample_where_rows_are_long():
    """Of lines, where k is small."""
    cols, per_k = tuning.number("kSampleMinCols"), tuning.number("kSampleMinColsPerK")
    for rows, cols_here, k, form in (
        (1, cols, 1, FROM_SAMPLE),
        (1, cols - 1, 1, FROM_MAXIMA),
        (1, cols, cols // per_k, FROM_SAMPLE),
        (1, cols, cols // per_k + 1, FROM_MAXIMA),
        (100, cols + 12_345, 50, FROM_SAMPLE),
        (1, 2**30, 2**30 // per_k, FROM_SAMPLE),
        (1, 2**30, 2**30 // per_k + 1, FROM_MAXIMA),
    ):
        numbers_of(form, delegate_form(rows, cols_here, k=k))
        assert delegate_model.is_sampled(rows, cols_here, k, torch.float32) == (form == FROM_SAMPLE)


def test_two_bounds_serve_where_they_leave_a_part_of_the_row_and_little_memory():
    assert "delegate.two_bounds" not in every_form(meta(1, tuning.number("kSampleMinCols") - 1), 30_000)
    assert "delegate.two_bounds" not in every_form(meta(1, 2**28), 2**18 - 1)  # lines tell more
    for dtype in (torch.float32, torch.int8, torch.bfloat16, torch.float64):
        for rows, cols in ((1, 2**20), (1, 10**7 + 3), (1, 2**26), (3, 2**22), (100, 2**22)):
            for per_k in (64, 20, 8, 2):
                k, like = cols // per_k, meta(rows, cols, dtype=dtype)
                assert ("delegate.two_bounds" in every_form(like, k)) or dtype.itemsize == 1 or rows == 100


@pytest.mark.parametrize("rows", [1, 2, 5, 12, 30, 65, 100])
def test_the_last_winner_lies_between_two_bounds_all_but_surely(rows):
    """By the places of the blocks' finds, and by the ranks, of which the sample has a binomial number."""
    seen = set()
    for cols in (2**18, 10**6 + 3, 2**22, 2**26):
        for per_k in (3000, 100, 30, 8, 2, 1.1):
            k = int(cols / per_k)
            form = every_form(meta(rows, cols), k).get("delegate.two_bounds")
            if form is None:
                continue
            lower, upper, elements, place, blocks, _, room = numbers_of(TWO_BOUNDS, form[0])
            assert blocks & (blocks - 1) == 0 and rows * blocks <= SMS + rows
            assert elements * blocks <= cols / tuning.number("kTwoBoundsShare")
            winners, share = elements * k / cols, k / cols
            deviation = math.sqrt(winners * (1 - share))

            # A bound is wrong where so many blocks' finds are that the one in its place is.
            for distance in (winners - lower, upper - winners if upper > 0 else -winners - 100):
                wrong = 0.5 * (1 + math.erf((distance + 0.5) / deviation / math.sqrt(2)))
                right = sum(
                    math.comb(blocks, n) * (1 - wrong) ** n * wrong ** (blocks - n) for n in range(place + 1)
                )
                assert right < 1e-4, (cols, k, lower, upper)
            # There is room for what lies between them.
            assert room >= min(cols, (lower - upper + 2 * deviation / math.sqrt(blocks)) * cols / elements)
            seen.add(blocks)
    assert seen


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64])
def test_two_bounds_take_little_more_memory_than_the_outputs(dtype):
    for rows, cols in ((1, 2**20), (100, 2**20), (7, 2**22), (1, 2**27)):
        for k in (cols // 100, cols // 60, cols // 8, cols // 2):
            like = meta(1, cols, dtype=dtype).expand(rows, cols)
            form = every_form(like, k).get("delegate.two_bounds")
            if form is None:
                continue
            element_bytes, room = dtype.itemsize, numbers_of(TWO_BOUNDS, form[0])[-1]
            outputs, input_bytes = k * (element_bytes + 8), cols * element_bytes
            assert room * (element_bytes + 4) * 9 / 8 <= 1.5 * outputs + 0.08 * input_bytes


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_a_sample_is_as_large_and_its_bound_as_low_as_its_numbers_ask(dtype):
    for rows in (1, 3, 100, 5000):
        for cols in (2**18, 2**20 + 3, 10**7, 2**28, 2**31 + 3):
            for k in (1, 2, 100, 2048, 2**15, cols // 64):
                if not delegate_model.serves(cols, k, dtype):
                    continue
                if not delegate_model.is_sampled(rows, cols, k, dtype):
                    continue
                rank, delegates, blocks, room = numbers_of(
                    FROM_SAMPLE, delegate_form(rows, cols, k=k, dtype=dtype)
                )
                sample = delegate_model.sample_of(rows, cols, k, dtype)
                assert (rank, delegates, room) == (sample.rank, sample.delegates, sample.room)
                assert blocks >= 1 and 1 <= rank <= delegates <= tuning.number("kSampleMostDelegates")
                assert 2 * k <= room <= cols
                places = sample.blocks * 2048 * (16 // dtype.itemsize)
                assert places <= cols / 8, "a sample is a small part of its row"
                # More elements reach the bound than k: the sample has fewer of the k best than `rank`.
                assert delegates > rank > places * k / cols
                # What a sorted or an equal row's bound lets in finds room.
                assert room >= min(rank * cols / (4 * delegates), cols // 8)


ONE_CLUSTER = (
    r"delegate: a cluster of (\d+) blocks a row, (\d+) threads(?: that read ahead)?, "
    r"bound is number (\d+) of a sample of (\d+), "
    r"room for (\d+) candidates"
)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_a_cluster_has_room_for_what_its_sample_lets_in(dtype):
    served = 0
    for rows, cols, k in itertools.product(
        (1, 8, 100, 5000), (4096, 32_768, 131_072, 10**6 + 3, 2**24), (1, 50, 512, 2048, 4096)
    ):
        forms = every_form(meta(rows, cols, dtype=dtype), k)
        if "delegate.one_cluster" not in forms:
            continue
        served += 1
        text, in_order = forms["delegate.one_cluster"]
        blocks, threads, rank, sample, room = numbers_of(ONE_CLUSTER, text)
        assert in_order and blocks in (1, 2, 4, 8, 16)
        assert sample * tuning.number("kClusterSampleShare") <= cols
        # As many elements as threads are no less than the least of the threads' best.
        assert k * sample / cols < rank <= threads <= sample
        # More than k elements reach the bound, as a rule, and they find room.
        assert k < rank * cols / sample <= room <= threads * tuning.number("kClusterItems")
        # Blocks have a tile each, and all of few rows run at once.
        tile = threads * 16 // dtype.itemsize * (2 if dtype.itemsize == 1 else 4)
        assert blocks == 1 or (blocks * tile <= cols and rows * blocks * threads <= 132 * 1024)
    assert served >= 20
    beyond = tuning.number("kClusterMaxCols") + 1
    for cols in (tuning.number("kClusterMinCols") - 1, beyond):
        assert "delegate.one_cluster" not in every_form(meta(3, cols, dtype=dtype), 1)


RESIDENT_CLUSTER = (
    r"delegate: a row in the registers of a cluster of (\d+) blocks, (\d+) threads, (\d+) elements a thread, "
    r"bound is number (\d+) of a block's delegates, room for (\d+) candidates, ordered by (\d+)"
)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_registers_of_a_cluster_hold_the_row_and_its_list_what_reaches_the_bound(dtype):
    served = 0
    for rows, cols, k in itertools.product(
        (1, 8, 100, 5000), (8192, 32_769, 131_072, 500_001), (1, 50, 255, 256, 2048, 4096)
    ):
        text, in_order = every_form(meta(rows, cols, dtype=dtype), k).get(
            "delegate.resident_cluster", ("", True)
        )
        if not text:
            continue
        served += 1
        blocks, threads, elements, rank, room, parts = numbers_of(RESIDENT_CLUSTER, text)
        assert in_order and blocks in (2, 4, 8, 16) and threads in (512, 1024)
        assert cols <= blocks * threads * elements
        assert elements * dtype.itemsize <= 128
        # k elements reach the bound, whatever the row.
        assert k <= blocks * rank and rank <= threads
        assert k < room <= threads * tuning.number("kResidentClusterItems")
        assert parts == 1 or (parts == blocks and k >= tuning.number("kResidentPartsMinK"))
        # Of few rows all run at once.
        assert rows > 8 or rows * blocks * threads <= 132 * 1024
    assert served >= 20
    for cols in (tuning.number("kResidentMinCols") - 1, 2**20):
        assert "delegate.resident_cluster" not in every_form(meta(3, cols, dtype=dtype), 1)


RESIDENT_GRID = (
    r"delegate: a row in the registers of (\d+) blocks, (\d+) threads, (\d+) elements a thread, "
    r"bound from (\d+) delegates, lists of (\d+), ordered by (\d+)"
)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_registers_of_the_gpu_hold_the_rows_and_its_lists_what_reaches_the_bound(dtype):
    served = 0
    for rows, cols, k in itertools.product(
        (1, 3, 8), (131_072, 500_001, 2**20, 2_097_151), (1, 50, 255, 256, 2048, 4096)
    ):
        text, in_order = every_form(meta(rows, cols, dtype=dtype), k).get(
            "delegate.resident_grid", ("", True)
        )
        if not text:
            continue
        served += 1
        blocks, threads, elements, delegates, room, parts = numbers_of(RESIDENT_GRID, text)
        # All blocks run at once.
        assert in_order and rows * blocks <= 132 and threads in (512, 1024)
        assert cols <= blocks * threads * elements and elements * dtype.itemsize <= 128
        # k delegates reach the bound, which is none of the last ones.
        assert k <= tuning.number("kResidentMostRank") * delegates
        assert k < room <= threads * tuning.number("kResidentClusterItems")
        assert delegates * max(dtype.itemsize, 4) <= room * (dtype.itemsize + 4)
        of_part, most = tuning.number("kGridPartK"), tuning.number("kResidentMostParts")
        assert parts == min(-(-k // of_part), most, blocks)
    assert served >= 20
    for rows, cols in ((1, tuning.number("kGridMinCols") - 1), (1, 2**23), (9, 2**18)):
        assert "delegate.resident_grid" not in every_form(meta(rows, cols, dtype=dtype), 1)


ONE_GRID = (
    r"delegate: (\d+) blocks a row together, bound is number (\d+) of (\d+) delegates of a sample, "
    r"(\d+) lines a lane, room for (\d+) candidates(?:, counted)?"
)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_the_sample_of_one_grid_tells_k_and_its_store_is_small(dtype):
    served = 0
    for rows, cols, k in itertools.product(
        (1, 3, 8), (2**20, 3_000_001, 2**25, 2**28 + 1), (1, 50, 255, 2048, 4096)
    ):
        text, in_order = every_form(meta(rows, cols, dtype=dtype), k).get("delegate.one_grid", ("", True))
        if not text:
            continue
        served += 1
        blocks, rank, delegates, lines, room = numbers_of(ONE_GRID, text)
        # All blocks run at once, each of which looks at all delegates.
        assert rows * blocks <= 132 and in_order
        assert delegates <= 132 * tuning.number("kPassThreads") // tuning.number("kGridLeastGroup")
        # The sample is a small share of the row, and the bound none of the last delegates.
        sampled = blocks * tuning.number("kPassThreads") * lines * (16 // dtype.itemsize)
        assert 4 * sampled <= cols and (lines == 1 or 32 * sampled <= cols)
        assert sampled * k / cols < rank <= tuning.number("kResidentMostRank") * delegates
        assert 2 * k <= room <= cols
        # Beside the outputs.
        store = room * (dtype.itemsize + 4)
        assert store <= 1.5 * k * (dtype.itemsize + 8) + 0.08 * cols * dtype.itemsize + 2**16
    assert served >= 20
    least, listed = tuning.number("kOneGridMinCols"), tuning.number("kGridListed")
    for rows, cols, k in ((1, least - 1, 1), (1, 2**32, 1), (9, 2**22, 1), (1, 2**25, listed + 1)):
        assert "delegate.one_grid" not in every_form(meta(rows, cols, dtype=dtype), k)


GRID_PARTS = (
    r"delegate: (\d+) blocks a row together, bound is number (\d+) of a sample of (\d+), "
    r"room for (\d+) candidates, (?:in parts|in any order)"
)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_grid_parts_has_room_for_candidates_and_its_store_is_small(dtype):
    served = 0
    for rows, cols, share in itertools.product(
        (1, 3, 8), (2**17, 2**20, 3_000_001, 2**25), (2, 3, 10, 50, 300)
    ):
        k = cols // share
        text, in_order = every_form(meta(rows, cols, dtype=dtype), k).get("delegate.grid_parts", ("", True))
        if not text:
            continue
        served += 1
        blocks, rank, sampled, room = numbers_of(GRID_PARTS, text)
        assert rows * blocks <= 132 and in_order
        assert sampled * k / cols < rank <= tuning.number("kSampleMostRank") * sampled
        assert rank * cols / sampled < room <= cols
        # Beside the outputs: candidates, and what is dealt out.
        store = (room + k) * (dtype.itemsize + 4)
        assert store <= 1.5 * k * (dtype.itemsize + 8) + 0.08 * cols * dtype.itemsize
    assert served >= 12 or (dtype.itemsize == 1 and served == 0)
    least = tuning.number("kGridPartsMinCols")
    for rows, cols, k in ((1, least - 1, 9000), (1, 2**32, 2**24), (9, 2**22, 2**17)):
        assert "delegate.grid_parts" not in every_form(meta(rows, cols, dtype=dtype), k)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64], ids=oracle.name_of)
def test_the_bound_of_an_equal_row_is_reached_by_k_elements(dtype):
    """There the best delegates are of one line of the sample: an element's rank is its index."""
    for cols, k in itertools.product((70_001, 2**18, 2_114_266), (1, 2, 20, 33, 100, 300)):
        if delegate_model.is_sampled(62, cols, k, dtype):
            sample = delegate_model.sample_of(62, cols, k, dtype)
            best = sample.places().amin(dim=1).sort().values
            assert best[sample.rank - 1] + 1 >= k


def test_a_bound_near_the_least_delegate_is_not_taken_from_lines():
    numbers_of(FROM_MAXIMA, delegate_form(1, 2**22, k=2**22 // 65, dtype=torch.uint8))
    numbers_of(FROM_SAMPLE, delegate_form(1, 2**22, k=2**22 // 65, dtype=torch.float32))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64], ids=oracle.name_of
)
@pytest.mark.parametrize("head", [0, 1])
def test_a_sample_lies_in_its_row_and_holds_no_element_twice(dtype, head):
    for cols, k in ((2**18, 100), (2**18 + 17, 4096), (2**22 + 5, 1), (10**7, 1000)):
        sample = delegate_model.sample_of(1, cols, k, dtype)
        places = sample.places(head)
        assert places.shape[0] == sample.delegates
        assert places.min() >= 0 and places.max() < cols
        assert len(places.unique()) == places.numel() == sample.blocks * 2048 * (16 // dtype.itemsize)
        # Spread over the row, that is, over each of its sixteenths.
        share = torch.histc(places.double(), 16, 0, cols) / places.numel()
        assert (share - 1 / 16).abs().max() < 1 / 64


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_subranges_are_as_long_as_rule_4_says(dtype):
    seen = set()
    for cols in (2000, 10_000, 65_536, 131_200, 2**18 - 1, 2**24 + 7, 2**28):
        for k in {1, 2, 3, 50, 100, 700, 2048, 8191, 8192, cols // 300, cols // 60, cols // 40}:
            if not (k and delegate_model.serves(cols, k, dtype)):
                continue
            text = text_of("delegate.from_maxima", meta(1, cols, dtype=dtype), k)
            alpha, beta, blocks, room = numbers_of(FROM_MAXIMA, text)
            assert beta == delegate_model.chosen_beta(k)
            assert alpha == delegate_model.rule_4(cols, k, dtype, beta), (cols, k)
            assert blocks >= 1 and k <= room <= cols
            seen.add((alpha, beta))
    assert {beta for _, beta in seen} == {1}
    assert len({alpha for alpha, _ in seen}) >= 4


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize("call", [plan, topk], ids=["_plan", "topk"])
def test_delegate_refuses_a_row_that_has_no_subrange_for_each_winner(call, dtype):
    subrange = 64 // dtype.itemsize
    # Of longer rows a sample may tell k.
    for rows, cols in ((1, 60 * subrange), (7, 61 * subrange - 1), (0, 60 * subrange)):
        assert cols < tuning.number("kClusterMinCols")
        most = cols // subrange - 1
        assert most == delegate_model.most_k(cols, dtype)
        call(meta(rows, cols, dtype=dtype), most, algorithm=DELEGATE)
        call(meta(rows, cols, dtype=dtype), 0, algorithm=DELEGATE)
        for k in (most + 1, cols):
            with pytest.raises(
                RuntimeError, match="delegate cannot serve this: it needs rows of more than 64"
            ):
                call(meta(rows, cols, dtype=dtype), k, algorithm=DELEGATE)


def test_delegate_reads_a_long_row_with_the_whole_gpu_and_orders_what_it_found():
    for cols, k in ((2**28, 2048), (2**28, 2**23), (100_000, 300)):
        text = delegate_form(1, cols, k=k)
        blocks = int(re.search(r"(\d+) blocks a row", text)[1])
        assert blocks >= SMS if cols == 2**28 else blocks >= 1
        assert not every_form(meta(1, cols), k)["delegate.from_maxima"][1]
    assert int(re.search(r"(\d+) blocks a row", delegate_form(1, 2**40, k=5, dtype=torch.uint8))[1]) > 2**9


# Reranking.


def rerank_plan(queries: int, candidates: int, k: int, dims: int = 128) -> str:
    rows, vectors = (torch.empty(n, dims, device="meta") for n in (queries, 10))
    ids = torch.empty(queries, candidates, dtype=torch.int64, device="meta")
    return torch.ops.gputopk._rerank_plan(rows, vectors, ids, k)


@pytest.mark.parametrize(
    ("k", "capacity"), [(1, 32), (32, 32), (33, 128), (128, 128), (129, 256), (256, 256)]
)
def test_reranking_keeps_lists_that_hold_k(k, capacity):
    if k <= 128:
        assert rerank_plan(1000, 1000, k).startswith(f"rerank: lists of {capacity}, ")
    assert rerank_plan(66, 100, min(k, 100)).startswith(f"rerank: lists of {min(capacity, 128)}, ")
    assert rerank_plan(66, 256, k, dims=8).startswith(f"rerank: lists of {capacity}, ")


def test_many_queries_of_short_or_unaligned_rows_store_keys():
    for queries, candidates, k, dims, lists in (
        (133, 2000, 32, 32, True),
        (133, 2000, 33, 32, False),
        (133, 1900, 33, 32, True),  # fewer than 2^18 keys
        (133, 2000, 33, 64, True),
        (4224, 100, 32, 32, False),
        (4223, 100, 32, 32, True),
        (4224, 100, 32, 36, True),
        (133, 2000, 10, 127, True),  # of four bytes
        (133, 2000, 33, 127, False),
        (133, 2000, 33, 129, True),
        (132, 2000, 128, 127, True),
        (132, 200, 129, 128, False),
        (131, 1000, 129, 8, True),
    ):
        text = rerank_plan(queries, candidates, k, dims)
        assert text.startswith("rerank: lists" if lists else "rerank: keys stored"), text
    for dims, lists in ((255, False), (256, True), (257, True)):  # of float16, of one element or more
        rows, vectors = (torch.empty(n, dims, dtype=torch.float16, device="meta") for n in (133, 10))
        ids = torch.empty(133, 2000, dtype=torch.int64, device="meta")
        text = torch.ops.gputopk._rerank_plan(rows, vectors, ids, 10)
        assert text.startswith("rerank: lists" if lists else "rerank: keys stored"), text


TOP_K = "(air|delegate|grid_select|bitonic|sort)"
STORED = r"rerank: keys stored by (\d+) blocks of (\d+) warps(, row by row)?, (\d+) queries at a time, then "


def stored(queries: int, candidates: int, k: int = 10, dims: int = 128) -> tuple[int, int]:
    """Blocks that store keys, and their warps."""
    found = re.match(STORED, rerank_plan(queries, candidates, k, dims))
    return int(found[1]), int(found[2])


def test_reranking_stores_keys_for_a_large_k_and_for_few_queries():
    text = rerank_plan(1000, 1000, 257)
    assert re.match(STORED + TOP_K, text) and "by 132 blocks of 16 warps, 1000 queries at a time" in text
    for queries, candidates, k, warps, room in (
        (4, 1000, 33, 16, 256),
        (65, 2000, 200, 32, 384),
        (4, 1000, 500, 16, 640),
        (132, 4096, 4096, 32, 4096),
        (4, 300, 300, 8, 320),
    ):
        text = rerank_plan(queries, candidates, k, dims=1024)
        assert f", then put in order by {warps} warps a query, room for {room};" in text, text
    assert ", then listed by 8 warps a query, room for 32;" in rerank_plan(4, 4096, 32)
    # More keys than a block goes through, or more queries than SMs.
    for queries, candidates, k in ((4, 4097, 10), (4, 10_000, 4097), (133, 1000, 300)):
        assert re.match(STORED + TOP_K, rerank_plan(queries, candidates, k))
    # As many queries as SMs, half as many with few candidates, and candidates of one block's size.
    for queries, candidates in ((132, 100_000), (66, 1024), (1, 128), (1, 10)):
        assert rerank_plan(queries, candidates, 10).startswith("rerank: lists of 32, "), (queries, candidates)


@pytest.mark.parametrize("dims", [100, 128, 129, 768, 1536])
@pytest.mark.parametrize("queries", [1, 8, 32, 60])
def test_few_queries_fill_the_gpu(queries, dims):
    for candidates in (1000, 10_000, 100_000):
        blocks, warps = stored(queries, candidates, dims=dims)
        # A warp has eight rows in flight, sixteen that are not of 16-byte words, or one where these are long
        # and few.
        rows = 1 if "row by row" in rerank_plan(queries, candidates, 10, dims) else 8 if dims % 4 == 0 else 16
        assert min(0.9 * SMS, queries * candidates // rows) <= blocks <= SMS and 1 <= warps <= 16
        assert warps == 16 or rows * warps * blocks < queries * candidates + rows * blocks
        # The warp with most has little more than its share.
        most = -(-queries * -(-candidates // rows) // (blocks * warps)) * rows
        assert most <= max(rows, 8, 1.35 * queries * candidates / (blocks * warps)), (blocks, warps, rows)


def test_a_query_of_long_vectors_has_a_warp_a_row():
    for dtype in (torch.float32, torch.float16, torch.int8):
        rows, vectors = torch.empty(1, 1024, device="meta"), meta(10, 1024, dtype=dtype)
        ids = torch.empty(1, 1000, dtype=torch.int64, device="meta")
        text = torch.ops.gputopk._rerank_plan(rows, vectors, ids, 10)
        assert "by 125 blocks of 8 warps, row by row, " in text
    assert "row by row" not in rerank_plan(1, 1000, 10, dims=128)  # eight rows are eight loads
    assert "row by row" not in rerank_plan(1, 1000, 10, dims=769)  # not made of 16-byte words
    assert "row by row" not in rerank_plan(32, 1000, 10, dims=768)  # warps are busy with eight


def listed(queries: int, candidates: int, dims: int = 128) -> tuple[int, int]:
    """Warps of a query's block, and candidates that a warp takes at a time."""
    found = re.search(r"(\d+) warps a query, (\d+) candidates", rerank_plan(queries, candidates, 10, dims))
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(
    ("queries", "candidates", "dims"), [(132, 256, 768), (200, 200, 768), (300, 10_000, 128)]
)
def test_more_queries_than_sms_fill_the_gpu_in_even_waves(queries, candidates, dims):
    warps, _ = listed(queries, candidates, dims)
    slots = SMS * (16 // warps)
    waves = -(-queries // slots)
    assert queries * warps >= 0.7 * 16 * SMS and queries / (waves * slots) >= 0.7


def test_many_queries_keep_what_was_measured():
    assert listed(1000, 1000) == (4, 32)
    assert listed(10_000, 100) == (1, 32)
    assert listed(1000, 200, dims=768)[0] == 2  # one warp left an SM with half of its warps


def test_rows_whose_lengths_the_device_knows_are_shared_out_query_by_query():
    rows, vectors = torch.empty(4, 128, device="meta"), meta(10, 128)
    ids = torch.empty(4, 10_000, dtype=torch.int64, device="meta")
    lengths = torch.empty(4, dtype=torch.int64, device="meta")
    text = torch.ops.gputopk._rerank_plan(rows, vectors, ids, 10, lengths=lengths)
    assert "keys stored by 132 blocks of 16 warps, 33 a query, 8 candidates at a time, 4 queries" in text


def test_reranking_never_stores_more_than_256_mib():
    # 10,000 x 100,000 keys are 4 GB: 15 slices of no more than 671 queries.
    plan = rerank_plan(10_000, 100_000, 300)
    assert plan.startswith("rerank: keys stored by 132 blocks of 16 warps, 667 queries at a time, then ")
    assert 667 * 100_000 * 4 <= 2**28 and 15 * 667 >= 10_000
    assert ", 1 queries at a time, " in rerank_plan(3, 2**27, 10)


def test_reranking_rows_between_offsets_keeps_lists_where_keys_would_take_slices():
    def plan(queries: int, total: int, k: int) -> str:
        rows, vectors = (torch.empty(n, 8, device="meta") for n in (queries, 10))
        ids = torch.empty(total, dtype=torch.int64, device="meta")
        offsets = torch.empty(queries + 1, dtype=torch.int64, device="meta")
        return torch.ops.gputopk._rerank_plan(rows, vectors, ids, k, row_offsets=offsets)

    assert plan(4, 400_000, 10).startswith("rerank: keys stored by ")
    assert plan(100, 10_000_000, 10).startswith("rerank: lists of 32, 16 warps")
    assert plan(100, 10_000_000, 300).startswith("rerank: keys stored by ")
    assert plan(1000, 0, 10).startswith("rerank: lists of 32, ")


def test_reranking_plans_of_empty_outputs_are_none():
    assert rerank_plan(0, 10, 3) == rerank_plan(5, 10, 0) == "none: the outputs are empty"


# What auto takes.


ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted((ROOT / "bench" / "results").glob("plan-h200*.jsonl"))
COSTS = (ROOT / "csrc/cuda/plan/costs_h200.h").read_text()


def test_of_a_form_that_was_timed_again_the_last_time_stands(tmp_path):
    def record(us: dict[str, float], name: str = "normal", **more: bool) -> str:
        return json.dumps({"kind": "plan", "point": 3, "input": name, "sorted": True, "us": us, **more})

    path = tmp_path / "sweep.jsonl"
    lines = [
        record({"a": 1.0, "b": 2.0}),
        record({"a": 1.5, "b": 2.5}, "increasing"),
        record({"a": 9.0}, again=True),
        record({"a": 3.0}, again=True),
    ]
    path.write_text("\n".join(lines) + "\n")
    assert [each["us"] for each in report.sweep_of(path)] == [
        {"b": 2.0},
        {"a": 1.5, "b": 2.5},
        {},
        {"a": 3.0},
    ]


def test_auto_is_near_the_best_form_wherever_the_sweep_timed_them():
    """The costs are fitted to the sweep, so this holds the plan's arithmetic to it: the choice that the
    compiled plan makes, against recorded times, the mean over a normal and a hard input."""
    recorded: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in itertools.chain.from_iterable(map(report.sweep_of, SWEEPS)):
        key = tuple(record[name] for name in ("rows", "cols", "k", "dtype", "sorted"))
        for name, us in record["us"].items():
            recorded[key][name].append(us)
    ratios = []
    for (rows, cols, k, dtype, order), us in recorded.items():
        x = meta(rows, cols, dtype=getattr(torch, dtype))
        chosen = re.search(r"form (\S+)", plan(x, k, sorted=order))[1]
        if chosen not in us:  # younger than that sweep
            continue
        serving = every_form(x, k, sorted=order).keys()  # a form may have served more when it was timed
        times = {name: geometric_mean(each) for name, each in us.items() if name in serving}
        ratios.append(times[chosen] / min(times.values()))
    assert len(ratios) > 500
    within = [sum(ratio <= most for ratio in ratios) / len(ratios) for most in (1.1, 1.3)]
    assert within[0] >= 0.92 and within[1] >= 0.97, within


def test_every_form_has_costs():
    seen = {"order_rows"}
    for rows, cols, k in itertools.product(
        (1, 100, 100_000), (64, 5000, 1 << 17, 1 << 24), (1, 64, 300, 5000)
    ):
        for order in (True, False):
            if k <= cols:
                seen |= every_form(meta(rows, cols), k, sorted=order).keys()
    assert {name for name in seen if f'"{name}"' not in COSTS} == set()


def test_auto_takes_what_can_serve_the_request():
    for rows, cols in itertools.product((1, 7, 132, 5000), (1, 100, 1025, 1 << 16, 1 << 18, 1 << 25)):
        for dtype, order in itertools.product(oracle.DTYPES, (True, False)):
            for k in {k for k in (1, 16, 129, 256, 4097, cols // 128, cols) if 1 <= k <= cols}:
                x = meta(rows, cols, dtype=dtype)
                text = plan(x, k, sorted=order)
                name = text.partition(":")[0]
                assert text == plan(x, k, sorted=order, algorithm=torch_topk.Algorithm[name])


# Ragged rows.


def varlen_plan(rows: int, cols: int, k: int, *, mask: bool = False, **keywords) -> str:
    lengths = torch.empty(rows, dtype=torch.int32, device="meta")
    own = torch.empty(cols, dtype=torch.bool, device="meta") if mask else None
    return torch.ops.gputopk._varlen_plan(meta(rows, cols), k, lengths=lengths, mask=own, **keywords)


@pytest.mark.parametrize(
    ("rows", "cols", "k", "form"),
    [
        (4096, 1000, 10, "bitonic.one_warp"),
        (64, 2**17, 2048, "delegate.one_cluster"),
        (1, 2**20, 2048, "delegate.equal_shares"),
        (4, 50, 0, "air.one_block"),
    ],
)
def test_a_plan_of_ragged_rows_names_its_form(rows, cols, k, form):
    plan = varlen_plan(rows, cols, k)
    assert plan.startswith("varlen: ")
    assert f"; {rows} rows x {cols} cols, max_length {cols}, k {k}, float32; 132 SMs; form {form}" in plan


def test_a_plan_of_ragged_rows_goes_by_order_length_and_mask():
    assert "no further step" in varlen_plan(64, 2**17, 2048, order=1)
    assert "then order_rows by marks" in varlen_plan(64, 2**17, 2048, order=2)
    short = varlen_plan(16, 2**20, 50, max_length=1000)
    assert "max_length 1000" in short and short.endswith("form air.one_block")
    assert "candidates moved together" not in varlen_plan(16, 50_000, 40_000)
    assert "candidates moved together" in varlen_plan(16, 50_000, 40_000, mask=True)
    assert varlen_plan(0, 50, 3) == "none: the outputs are empty"
    with pytest.raises(RuntimeError, match=r"topk_varlen: rows have 4294967296 columns, at most 2\^32 - 1 "):
        varlen_plan(1, 2**32, 3, index_dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"topk_varlen: order must be in \[0, 2\], but is 7"):
        varlen_plan(4, 50, 3, order=7)
