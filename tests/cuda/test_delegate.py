"""Delegate on a GPU, its bound from the row's delegates and from a sample's, against exact checks.

`topk` takes the plan's form: a sample where rows are long and k is small, maxima of subranges elsewhere.
`gputopk::_delegate` takes the maxima wherever alpha or beta is given.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_topk
from tests import delegate_model, inputs, oracle, strategies, tuning
from tests.cuda import calls
from tests.cuda.calls import DTYPES, FLAGS, head_of, rows_at

pytestmark = pytest.mark.gpu

topk = torch.ops.gputopk.topk


def study(*arguments, **options):
    """Looked up when it is called: only a GPU's tests load it."""
    return torch.ops.gputopk._delegate(*arguments, **options)


DELEGATE = int(torch_topk.Algorithm.delegate)
BETAS = pytest.mark.parametrize("beta", [1, 2])
WIDTHS = [torch.uint8, torch.bfloat16, torch.float32, torch.int64]
SAMPLED_COLS = tuning.number("kSampleMinCols")

run = functools.partial(calls.run, algorithm=DELEGATE)
check = functools.partial(calls.check, algorithm=DELEGATE)


def check_maxima(tensor: torch.Tensor, k: int, largest: bool = True, order: bool = True, **numbers) -> None:
    """`numbers`: alpha, beta or both."""
    assert numbers.get("alpha") or numbers.get("beta"), "that would be the plan's form"
    result = study(tensor, k, largest, order, **numbers)
    oracle.assert_topk_on_device(result, tensor, k, largest, order)


# Every input.


@pytest.mark.parametrize(("rows", "cols"), [(3, 40_001), (2, SAMPLED_COLS + 5)], ids=["maxima", "sample"])
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols):
    most = min(delegate_model.most_k(cols, dtype), cols // 64)
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else rows, cols, dtype, device, seed)
        for k, flags in zip((1, 40, 513, most) * 2, FLAGS, strict=True):
            check(tensor, k, **flags)


@BETAS
@DTYPES
def test_every_named_input_is_answered_exactly_from_maxima(device, dtype, beta):
    cols = 50_007
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else 3, cols, dtype, device, seed)
        for k in (1, 60, delegate_model.most_k(cols, dtype)):
            check_maxima(tensor, k, largest=k != 60, order=k == 60, beta=beta)


@DTYPES
def test_small_cases_agree_with_the_oracle_itself(device, dtype):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    tensor = inputs.make("mixed_rows", 40, 4000, dtype, device)
    for k, flags in itertools.product((1, 20, delegate_model.most_k(4000, dtype)), FLAGS):
        oracle.assert_topk(run(tensor, k, **flags), tensor, k, **flags)


@DTYPES
def test_winners_are_in_order_and_the_bits_those_of_air(device, dtype):
    for cols in (30_000, SAMPLED_COLS + 1):
        tensor = inputs.make("mixed_rows", 40, cols, dtype, device)
        for flags in FLAGS:
            if flags["sorted"]:
                ours, theirs = run(tensor, 100, **flags), topk(tensor, 100, algorithm=1, **flags)
                assert torch.equal(ours[1], theirs[1])
                assert torch.equal(oracle.as_ints(ours[0]), oracle.as_ints(theirs[0]))


# Sizes.


@BETAS
@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_rows_of_whole_subranges_one_more_and_one_less_are_answered_exactly(device, dtype, beta):
    for alpha in delegate_model.alphas(2**28, 1, dtype, beta):
        for subranges, step, offset in itertools.product((3, 40), (-1, 0, 1), (0, 1)):
            cols = (subranges << alpha) + step
            most = min(((cols >> alpha) - 1) * beta, delegate_model.most_k(cols, dtype))
            name = ("few_distinct", "normal", "decreasing")[step + 1]
            tensor = rows_at(offset, 2, cols, dtype, device, name, seed=alpha)
            for k in {1, most}:
                check_maxima(tensor, k, largest=offset == 0, alpha=alpha, beta=beta)


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_the_shortest_rows_that_have_k_subranges_are_answered_exactly(device, dtype):
    subrange = 64 // dtype.itemsize
    for k in (1, 2, 3, 31, 32, 33, 100, 1000, 4095, 4096, 4097):
        for cols in range((k + 1) * subrange, (k + 1) * subrange + 2):
            tensor = inputs.make("few_distinct", 3, cols, dtype, device, seed=k)
            check(tensor, k, largest=k % 2 == 0)
            check_maxima(tensor, k, beta=2)
        shorter = inputs.make("normal", 3, (k + 1) * subrange - 1, dtype, device)
        if shorter.shape[1] >= tuning.number("kClusterMinCols"):  # where a sample may tell k
            continue
        with pytest.raises(
            RuntimeError, match="delegate cannot serve this: it needs rows of more than 64 bytes"
        ):
            topk(shorter, k, algorithm=DELEGATE)


@pytest.mark.parametrize(
    "k", [1, 2, 31, 33, 255, 257, 2047, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 16_384]
)
def test_k_at_its_edges_is_answered_exactly(device, k):
    for cols in (SAMPLED_COLS - 1, (1 << 20) + 3, 64 * k, 64 * k - 1):
        if not delegate_model.serves(cols, k, torch.float32):
            continue
        for name in ("normal", "few_distinct"):
            tensor = inputs.make(name, 2, cols, torch.float32, device, seed=k)
            check(tensor, k)
            check(tensor, k, sorted=False, largest=False, index_dtype=torch.int32)


@pytest.mark.parametrize("step", [-3, -1, 0, 1, 3, 17])
@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_rows_around_the_shortest_that_are_sampled_are_answered_exactly(device, dtype, step):
    cols = SAMPLED_COLS + step
    for rows, name in ((1, "normal"), (3, "few_distinct"), (300, "mixed_rows")):
        tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
        for k in (1, 400, min(cols // 64, delegate_model.most_k(cols, dtype)) - 1):
            check(tensor, k, sorted=k == 400)


@pytest.mark.parametrize(
    ("rows", "cols"), [(20_000, 1000), (131, 50_000), (133, 50_000), (600, 300_001)], ids=str
)
def test_many_rows_are_answered_exactly(device, rows, cols):
    tensor = inputs.make("mixed_rows", rows, cols, torch.float32, device)
    for k in (1, 30, 60):
        check(tensor, k)
        check_maxima(tensor, k, largest=False, order=False, beta=2)


@pytest.mark.parametrize("numbers", [{}, {"beta": 1}, {"beta": 2}, {"alpha": 14, "beta": 2}], ids=str)
@pytest.mark.parametrize(
    "name", ["normal", "ten_bit_prefix", "all_equal", "increasing", "decreasing", "winners_in_one_subrange"]
)
def test_a_row_of_2_28_elements_is_answered_exactly(device, name, numbers):
    tensor = inputs.make(name, 1, 2**28, torch.float32, device)
    for k in (1, 2048, 16_000):
        result = study(tensor, k, **numbers)
        oracle.assert_topk_on_device(result, tensor, k)
    if numbers == {}:
        check(tensor, 1 << 20)
        check(tensor, 1 << 23)
        check(tensor, 300, sorted=False, largest=False, magnitude=True)


@pytest.mark.parametrize("name", ["uniform", "all_equal", "increasing"])
def test_a_row_of_more_than_2_31_elements_is_answered_exactly(device, name):
    tensor = inputs.make(name, 1, 2**31 + 3, torch.uint8, device)
    tensor[0, -1] = 255
    for k in (1, 100_000):
        check(tensor, k)
        check(tensor, k, largest=False)
        for beta in (1, 2):
            check_maxima(tensor, k, beta=beta)
            check_maxima(tensor, k, largest=False, beta=beta)
    check_maxima(tensor, 100, alpha=16, beta=1)
    check_maxima(tensor, 100, alpha=delegate_model.alphas(2**31 + 3, 100, torch.uint8, 2)[0], beta=2)


def test_a_row_of_more_than_2_32_elements_is_answered_exactly(device):
    """Indices of candidates then are of 64 bits, positions of delegates are not."""
    tensor = inputs.make("uniform", 1, 2**32 + 3, torch.uint8, device)
    tensor[0, -1] = 255
    for k in (1, 5000):
        check(tensor, k)
        check_maxima(tensor, k, largest=False, beta=1)
        check_maxima(tensor, k, beta=2)


# Layouts.


@pytest.mark.parametrize("offset", range(16))
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_at_any_alignment_are_answered_exactly(device, dtype, offset):
    for cols in (2001, 40_001, SAMPLED_COLS + 9):
        storage = inputs.make("normal", 1, 3 * (cols + 16) + 64, dtype, device).view(-1)
        for row_stride in (cols, cols + 1, cols + 16):
            tensor = storage.as_strided((3, cols), (row_stride, 1), offset)
            check(tensor, 25)
            check(tensor, 1, largest=False)
            check_maxima(tensor, 25, beta=2)


def test_any_dim_of_a_layout_agrees_with_the_oracle(device):
    base = inputs.make("few_distinct", 15, 4000, torch.float16, device).view(3, 5, 4000)
    for tensor, dim in (
        (base, 2),
        (base.permute(2, 0, 1), 0),
        (base.transpose(1, 2), 1),
        (base[:, :, ::3], -1),
        (base[:, :1].expand(3, 5, 4000), 2),
    ):
        for k in (0, 1, 37):
            oracle.assert_topk(topk(tensor, k, dim, algorithm=DELEGATE), tensor, k, dim)


def test_the_last_elements_of_an_allocation_are_read_and_no_more(device):
    """A row that ends with its storage, beside NaNs that would win."""
    for cols in (2001, 50_001, SAMPLED_COLS + 3):
        storage = torch.full((cols + 64,), float("nan"), device=device)
        storage[31 : 31 + cols] = inputs.make("normal", 1, cols, torch.float32, device)[0]
        inner = storage[31 : 31 + cols].view(1, -1)
        check(inner, 100)
        check_maxima(inner, 100, beta=2)
        assert not run(inner, 100)[0].isnan().any()


# Where winners lie: subranges, and the row's ragged ends, which no subrange has.


@BETAS
@pytest.mark.parametrize("where", ["one subrange", "each subrange", "last subrange", "ends"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=oracle.name_of)
def test_winners_anywhere_are_found(device, dtype, where, beta):
    per_vector = 16 // dtype.itemsize
    for alpha in {per_vector.bit_length() - 1 + vectors_log2 for vectors_log2 in (2, 4, 5, 7, 8, 11)}:
        subranges, size = 41, 1 << alpha
        cols = subranges * size + size // 2 + 1
        most = min((subranges - 1) * beta, delegate_model.most_k(cols, dtype))
        for offset in (0, 1):
            tensor = rows_at(offset, 3, cols, dtype, device, "uniform", seed=alpha)
            if dtype == torch.uint8:
                tensor //= 2
            head = head_of(tensor[0])
            position = torch.arange(cols, device=device)
            last = head + (cols - head) // size * size
            high = {
                "one subrange": (position - head) // size == 7,
                "each subrange": (position - head) % size == size // 3,
                "last subrange": position >= last,
                "ends": (position < head) | (position >= cols - (cols - head) % per_vector),
            }[where]
            tensor[:, high] = tensor[:, high] + 100
            for k in sorted({1, 2, 3, min(most, int(high.sum())), most}):
                if k > 0:
                    check_maxima(tensor, k, alpha=alpha, beta=beta)
            for row in range(3):
                tensor[row, high] = 101 + row  # all of them ties
            for k in {2, most}:
                check_maxima(tensor, k, alpha=alpha, beta=beta)


def planted_offsets(per_vector: int, size: int) -> dict[str, list[int]]:
    """Places in a subrange, by the lanes that read them."""
    lane_turn = 32 * per_vector
    offsets = {
        "one": [1],
        "two of a vector": [0, per_vector - 1],
        "two of two lanes": [0, per_vector],
        "the second first": [per_vector - 1, 0, per_vector],
        "three of two lanes": [0, 1, per_vector],
        "one of each of four lanes": [0, per_vector, 2 * per_vector, 3 * per_vector],
    }
    if size > lane_turn:
        offsets["two of a lane, far apart"] = [per_vector, lane_turn + per_vector]
        offsets["three of a lane and one of another"] = [0, lane_turn, lane_turn + 1, lane_turn - 1]
    return offsets


@BETAS
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=oracle.name_of)
def test_one_two_or_more_winners_of_a_subrange_are_found_whichever_lanes_have_them(device, dtype, beta):
    """For every k, so that of some subrange none, the first, or both delegates are taken."""
    per_vector = 16 // dtype.itemsize
    vectors_log2 = per_vector.bit_length() - 1
    for alpha in (vectors_log2 + v for v in (2, 3, 5, 6, 8, 10)):
        size = 1 << alpha
        for name, offsets in planted_offsets(per_vector, size).items():
            subranges = [0, 1, 3, 7, 19]
            cols = (len(subranges) * len(offsets) + 24) * size + 3
            tensor = rows_at(0, 4, cols, dtype, device, "uniform", seed=alpha)
            if not dtype.is_floating_point:
                tensor.remainder_(60)
            place = torch.tensor([s * size + offset for s in subranges for offset in offsets], device=device)
            number = torch.arange(len(place), device=device)
            tensor[0, place] = 100  # ties everywhere
            tensor[1, place] = (100 + number).to(dtype)
            tensor[2, place] = (200 - number).to(dtype)
            tensor[3, place] = (100 + number // len(offsets) % 2).to(dtype)  # ties within each, and two kinds
            for k in range(1, len(place) + 3):
                result = study(tensor, k, alpha=alpha, beta=beta)
                problem = oracle.device_problem(result, tensor, k)
                assert problem is None, f"{name}, alpha {alpha}, k {k}: {problem}"


# Any call.


@given(strategies.calls(max_elements=20_000))
def test_any_call_agrees_with_the_oracle_or_is_refused(call):
    tensor = call.tensor("cuda")
    cols, k = (tensor.shape[call.dim], call.k) if tensor.dim() else (1, 1)  # whose one element is the result
    rows = torch.empty((tensor.numel() // max(cols, 1), cols), dtype=call.dtype, device="meta")
    if delegate_model.serves(cols, k, call.dtype) or "delegate." in torch.ops.gputopk._forms(rows, k):
        call.check(call.run(topk, tensor, algorithm=DELEGATE), tensor)
    else:
        with pytest.raises(RuntimeError, match="delegate cannot serve this"):
            call.run(topk, tensor, algorithm=DELEGATE)


@dataclasses.dataclass(frozen=True)
class LongCall:
    """A call of the study on rows that delegate serves; alpha and beta 0: the plan's form."""

    dtype: torch.dtype
    family: str
    seed: int
    rows: int
    cols: int
    offset: int
    k: int
    largest: bool
    alpha: int
    beta: int


@st.composite
def long_calls(draw: st.DrawFn) -> LongCall:
    dtype = draw(st.sampled_from(oracle.DTYPES))
    power = draw(st.integers(10, 19))
    cols = draw(st.sampled_from([2**power + step for step in (-1, 0, 1, 7)]) | st.integers(1000, 2**power))
    most = delegate_model.most_k(cols, dtype)
    k = draw(st.sampled_from([1, most, max(1, most // 3), min(most, 100)]) | st.integers(1, most))
    beta = draw(st.sampled_from([0, 1, 2]))
    alphas = delegate_model.alphas(cols, k, dtype, beta or 1)
    return LongCall(
        dtype=dtype,
        family=draw(st.sampled_from(inputs.names_for(dtype))),
        seed=draw(st.integers(0, 2**16)),
        rows=draw(st.integers(1, 3)),
        cols=cols,
        offset=draw(st.integers(0, 15)),
        k=k,
        largest=draw(st.booleans()),
        alpha=draw(st.sampled_from([0, *alphas])),
        beta=beta,
    )


@given(long_calls())
def test_any_long_row_is_answered_exactly_with_any_numbers(call):
    offset = call.offset % (16 // call.dtype.itemsize)
    tensor = rows_at(offset, call.rows, call.cols, call.dtype, "cuda", call.family, call.seed)
    result = study(tensor, call.k, call.largest, alpha=call.alpha, beta=call.beta)
    oracle.assert_topk_on_device(result, tensor, call.k, call.largest)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"alpha": 3}, r"alpha must be in \[4, "),
        ({"alpha": 40}, "alpha must be"),
        ({"alpha": -1}, "alpha must be"),
        ({"beta": 3}, "beta must be"),
        ({"beta": -1}, "beta must be"),
    ],
    ids=str,
)
def test_a_form_that_it_cannot_take_is_refused(device, numbers, words):
    with pytest.raises(RuntimeError, match=f"_delegate: {words}"):
        study(torch.zeros(3, 70_000, device=device), 5, **numbers)


def test_subranges_too_long_for_k_of_them_are_refused(device):
    tensor = inputs.make("normal", 2, 70_000, torch.float32, device)
    for k, beta in ((100, 1), (100, 2), (1000, 1)):
        most = delegate_model.alphas(70_000, k, torch.float32, beta)[-1]
        check_maxima(tensor, k, alpha=most, beta=beta)
        with pytest.raises(RuntimeError, match=f"alpha must be in .4, {most}"):
            study(tensor, k, alpha=most + 1, beta=beta)
    with pytest.raises(RuntimeError, match="delegate cannot serve this"):
        study(tensor, 70_000 // 16, beta=2)


# The same bits every time, in graphs, asynchronously, whatever the workspace holds.

SHAPES = pytest.mark.parametrize(
    ("rows", "cols", "k"),
    [(1, 1 << 21, 2048), (1, 1 << 21, 1), (1, 1 << 20, 30_000), (64, 50_257, 50), (8, SAMPLED_COLS, 4000)],
    ids=str,
)  # one sampled row with few and with one winner; many winners of maxima; short rows; some sampled rows


@SHAPES
@pytest.mark.parametrize("name", ["normal", "few_distinct", "increasing"])
def test_repeats_and_streams_give_the_same_bits(device, name, rows, cols, k):
    tensor = inputs.make(name, rows, cols, torch.float32, device)
    want_values, want_indices = topk(tensor, k, algorithm=DELEGATE)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for repeat in range(60):
        with torch.cuda.stream(streams[repeat % len(streams)]):
            results.append(topk(tensor, k, algorithm=DELEGATE))
    torch.cuda.synchronize()
    for values, indices in results:
        assert torch.equal(oracle.as_ints(values), oracle.as_ints(want_values))
        assert torch.equal(indices, want_indices)


@SHAPES
def test_a_graph_replays_on_changed_data(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    places = delegate_model.sample_of(rows, cols, k, torch.float32).places(0, device).flatten()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [
            topk(tensor, k, algorithm=DELEGATE),
            study(tensor, k, alpha=0, beta=2),
            topk(tensor, k, largest=False, sorted=False, algorithm=DELEGATE),
        ]
    for seed, name in enumerate([*inputs.names_for(torch.float32), "peaks"]):
        if name == "peaks":
            tensor.copy_(inputs.make("uniform", rows, cols, torch.float32, device, seed))
            tensor[:, places] += 5
        else:
            tensor.copy_(inputs.make(name, rows, cols, torch.float32, device, seed))
        for values, indices in results:
            oracle.as_ints(values).fill_(0x5A)
            indices.fill_(-1)
        graph.replay()
        oracle.assert_topk_on_device(results[0], tensor, k)
        oracle.assert_topk_on_device(results[1], tensor, k)
        oracle.assert_topk_on_device(results[2], tensor, k, largest=False, sorted=False)


@SHAPES
def test_a_call_does_not_wait_for_the_gpu(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    check(tensor, k)
    check_maxima(tensor, k, beta=2)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(1_000_000_000)
        results = [topk(tensor, k, algorithm=DELEGATE), study(tensor, k, beta=2)]
        done.record()
        assert not done.query(), "the call waited for work before it"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for result in results:
        oracle.assert_topk_on_device(result, tensor, k)


def test_a_row_is_answered_alike_in_any_batch(device):
    """Though its sample is another in each."""
    tensor = inputs.make("mixed_rows", 60, SAMPLED_COLS + 20, torch.float32, device)
    values, indices = topk(tensor, 64, algorithm=DELEGATE)
    for row in (0, 17, 59):
        alone = topk(tensor[row : row + 1], 64, algorithm=DELEGATE)
        assert torch.equal(oracle.as_ints(alone[0]), oracle.as_ints(values[row : row + 1]))
        assert torch.equal(alone[1], indices[row : row + 1])


def test_dirty_workspaces_do_no_harm(device):
    """The allocator hands freed blocks back as they are: fill them with every kind of dirt."""
    short = inputs.make("mixed_rows", 40, 60_000, torch.float32, device)
    long = inputs.make("mixed_rows", 40, SAMPLED_COLS + 7, torch.float32, device)
    for dirt in (0, 1, 0x7F, 0xFF):
        for tensor, k in ((short, 700), (short, 3), (long, 700), (long, 3)):
            blocks = [torch.full((1 << s,), dirt, dtype=torch.uint8, device=device) for s in range(9, 27)]
            del blocks
            check(tensor, k)
            check_maxima(tensor, k, largest=False, beta=2)
