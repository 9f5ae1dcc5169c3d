"""The oracle itself: against brute force and torch, and that each check can fail."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import inputs, oracle

FLAGS = [(largest, magnitude) for largest in (True, False) for magnitude in (False, True)]


def brute_force_order(elements: list, largest: bool, magnitude: bool) -> list[int]:
    """Positions, best first, by Python's exact comparisons of numbers and None for NaN."""

    def better(a: int, b: int) -> int:
        x, y = elements[a], elements[b]
        if x is None or y is None:
            sign = (x is None) - (y is None)
        else:
            x, y = (abs(x), abs(y)) if magnitude else (x, y)
            sign = (x > y) - (x < y)
        return (-sign if largest else sign) or a - b

    return sorted(range(len(elements)), key=functools.cmp_to_key(better))


def exact_elements(tensor: torch.Tensor) -> list:
    """A 1-D tensor as exact Python numbers, infinities as themselves, NaN as None."""
    if tensor.dtype in oracle.FLOAT_DTYPES:
        floats = tensor.to(torch.float64).tolist()
        return [None if math.isnan(x) else x if math.isinf(x) else Fraction(x) for x in floats]
    if tensor.dtype in oracle.SIGNED_DTYPES:
        return tensor.tolist()
    return [int(x) for x in oracle.bits_of(tensor)]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_the_oracle_orders_as_brute_force_does(dtype):
    for name in inputs.names_for(dtype):
        tensor = inputs.make(name, 2, 40, dtype, seed=3)[1]
        for largest, magnitude in FLAGS:
            want = brute_force_order(exact_elements(tensor), largest, magnitude)
            got = oracle.best_first(oracle.bits_of(tensor), dtype, largest, magnitude)
            assert got.tolist() == want, (name, largest, magnitude)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16])
def test_the_oracle_reads_every_narrow_float_as_torch_does(dtype):
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint32)
    tensor = oracle.from_bits(bits, dtype)
    np.testing.assert_array_equal(
        oracle.numbers(oracle.bits_of(tensor), dtype), tensor.to(torch.float64).numpy()
    )


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_bits_survive_the_way_to_numpy_and_back(dtype):
    tensor = inputs.make("random_bits", 3, 50, dtype)
    assert torch.equal(
        oracle.as_ints(oracle.from_bits(oracle.bits_of(tensor), dtype)), oracle.as_ints(tensor)
    )
    np.testing.assert_array_equal(oracle.bits_of(tensor.T), oracle.bits_of(tensor).T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8])
def test_the_oracle_gives_the_values_of_torch_topk(dtype):
    """torch's ties are its own, so values alone, and no NaN payloads."""
    for name in ("normal", "uniform", "few_distinct", "increasing", "range_ends"):
        tensor = inputs.make(name, 4, 300, dtype)
        for k in (1, 17, 300):
            for largest in (True, False):
                values, _ = oracle.expected(tensor, k, -1, largest)
                want = torch.topk(tensor, k, -1, largest).values
                assert torch.equal(oracle.from_bits(values, dtype), want), (name, k, largest)


def test_the_oracle_takes_the_lower_index_among_equals():
    tensor = torch.tensor([0.0, 1.0, -0.0, 1.0, float("nan"), -float("nan")])
    assert oracle.expected(tensor, 6)[1].tolist() == [4, 5, 1, 3, 0, 2]
    assert oracle.expected(tensor, 6, largest=False)[1].tolist() == [0, 2, 1, 3, 4, 5]


def test_the_magnitude_of_the_least_integer_is_the_largest():
    for dtype in oracle.SIGNED_DTYPES:
        info = torch.iinfo(dtype)
        tensor = torch.tensor([info.max, info.min, 0, -info.max], dtype=dtype)
        assert oracle.expected(tensor, 4, magnitude=True)[1].tolist() == [1, 0, 3, 2]


def test_the_oracle_works_along_any_dim():
    tensor = inputs.make("few_distinct", 6, 20, torch.int32).view(3, 2, 4, 5)
    for dim in range(-4, 4):
        values, indices = oracle.expected(tensor, 1, dim)
        assert torch.equal(torch.from_numpy(values.view(np.int32)), tensor.amax(dim, keepdim=True))
        assert indices.shape == values.shape


# Planted errors: each check is shown to fail.


def right_answer(tensor: torch.Tensor, k: int, largest=True, magnitude=False, index_dtype=torch.int64):
    values, indices = oracle.expected(tensor, k, -1, largest, magnitude)
    values = oracle.from_bits(values, tensor.dtype)
    return values, torch.from_numpy(indices).to(index_dtype)


def swap(values, indices, tensor):
    values[0, [0, 5]], indices[0, [0, 5]] = values[0, [5, 0]], indices[0, [5, 0]]


def swap_equals(values, indices, tensor):
    """Two equal values in the wrong order of their indices."""
    same = (values[:, 1:] == values[:, :-1]).nonzero()[0].tolist()
    row, col = same
    indices[row, [col, col + 1]] = indices[row, [col + 1, col]]


def twice(values, indices, tensor):
    values[1, 1], indices[1, 1] = values[1, 0].clone(), indices[1, 0].clone()


def invented(values, indices, tensor):
    values[2, 3] += 1


def wrong_index(values, indices, tensor):
    indices[2, 3] = (indices[2, 3] + 1) % tensor.shape[1]


def out_of_range(values, indices, tensor):
    indices[0, 0] = tensor.shape[1]


def negative(values, indices, tensor):
    indices[0, 0] = -1


def replace_last(values, indices, tensor, candidates):
    """The last winner of row 1 gives way to a loser."""
    col = int(candidates[0])
    values[1, -1], indices[1, -1] = tensor[1, col], col


def missed_winner(values, indices, tensor):
    losers = [c for c in range(tensor.shape[1]) if c not in indices[1] and tensor[1, c] != values[1, -1]]
    replace_last(values, indices, tensor, losers)


def higher_tie(values, indices, tensor):
    ties = [c for c in range(tensor.shape[1]) if c not in indices[1] and tensor[1, c] == values[1, -1]]
    replace_last(values, indices, tensor, ties)


FAULTS = [swap, swap_equals, twice, invented, wrong_index, out_of_range, negative, missed_winner, higher_tie]
CHECKS = {
    "oracle": lambda result, tensor, k, **flags: oracle.topk_problem(result, tensor, k, **flags),
    "device": lambda result, tensor, k, **flags: oracle.device_problem(result, tensor, k, **flags),
}


def few_levels() -> torch.Tensor:
    """Rows with many ties, at the threshold too."""
    return torch.from_numpy(np.random.default_rng(5).integers(0, 9, (4, 100)).astype(np.int32))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("sorted", [True, False])
def test_a_planted_error_is_found(check, fault, sorted):
    tensor = few_levels()
    values, indices = right_answer(tensor, 20)
    assert check((values, indices), tensor, 20, sorted=sorted) is None
    fault(values, indices, tensor)
    reorders_only = fault in (swap, swap_equals)
    problem = check((values, indices), tensor, 20, sorted=sorted)
    assert (problem is None) == (reorders_only and not sorted), problem


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_wrong_form_is_found(check):
    tensor = few_levels()
    values, indices = right_answer(tensor, 20)
    wrong = [
        (values.to(torch.int64), indices),
        (values, indices.to(torch.int32)),
        (values[:, :19], indices[:, :19]),
        (values.T.contiguous().T, indices),
        (values, indices.T.contiguous().T),
        (values.to("meta"), indices),
    ]
    for result in wrong:
        assert check(result, tensor, 20) is not None
    floats = right_answer(tensor.to(torch.float32), 20)
    floats[0].requires_grad_()
    assert "grad" in check(floats, tensor.to(torch.float32), 20)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_bits_count_where_values_compare_equal(check):
    zeros = torch.tensor([[0.0, -0.0, 0.0]])
    nans = oracle.from_bits(np.array([[0x7FC00001, 0xFFC00002, 0x7FC00003]]), torch.float32)
    for tensor in (zeros, nans):
        values, indices = right_answer(tensor, 2)
        assert check((values, indices), tensor, 2) is None
        assert check((values[:, [1, 0]], indices), tensor, 2) is not None


@given(
    st.sampled_from(oracle.DTYPES),
    st.data(),
    st.integers(1, 4),
    st.integers(1, 70),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_device_check_agrees_with_the_oracle(dtype, data, rows, cols, largest, sorted, magnitude):
    """On right answers, and on answers with one element of one row exchanged."""
    tensor = inputs.make(data.draw(st.sampled_from(inputs.names_for(dtype))), rows, cols, dtype)
    k = data.draw(st.integers(1, cols))
    values, indices = right_answer(tensor, k, largest, magnitude)
    flags = {"largest": largest, "sorted": sorted, "magnitude": magnitude}
    assert oracle.device_problem((values, indices), tensor, k, **flags) is None
    row = data.draw(st.integers(0, rows - 1))
    place, col = data.draw(st.integers(0, k - 1)), data.draw(st.integers(0, cols - 1))
    indices[row, place] = col
    oracle.as_ints(values)[row, place] = oracle.as_ints(tensor)[row, col]
    slow = oracle.topk_problem((values, indices), tensor, k, **flags)
    fast = oracle.device_problem((values, indices), tensor, k, **flags)
    assert (slow is None) == (fast is None), (slow, fast)


def test_the_device_check_counts_over_chunks(monkeypatch):
    monkeypatch.setattr(oracle, "_CHUNK", 64)
    for shape in ((1, 1000), (50, 13)):
        tensor = inputs.make("few_distinct", *shape, torch.float16)
        values, indices = right_answer(tensor, 7)
        assert oracle.device_problem((values, indices), tensor, 7) is None
        wrong = indices.clone()
        wrong[-1, -1] = max(set(range(shape[1])) - set(indices[-1].tolist()))
        taken = oracle.from_bits(
            np.take_along_axis(oracle.bits_of(tensor), wrong.numpy(), axis=1), torch.float16
        )
        assert "left out" in oracle.device_problem((taken, wrong), tensor, 7, sorted=False)
