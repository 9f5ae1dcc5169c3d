"""The named inputs are what their names say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import inputs, oracle

EVERY = [(name, dtype) for dtype in oracle.DTYPES for name in inputs.names_for(dtype)]


def ids(value) -> str:
    return value if isinstance(value, str) else oracle.name_of(value)


@pytest.mark.parametrize(("name", "dtype"), EVERY, ids=ids)
def test_an_input_is_a_function_of_its_name_and_seed(name, dtype, monkeypatch):
    first = inputs.make(name, 3, 67, dtype, seed=1)
    assert first.shape == (3, 67) and first.dtype == dtype and first.is_contiguous()
    monkeypatch.setattr(inputs, "_CHUNK", 40)
    assert torch.equal(oracle.as_ints(inputs.make(name, 3, 67, dtype, seed=1)), oracle.as_ints(first)), (
        "chunks matter"
    )
    if dtype == torch.bool:
        assert int(oracle.bits_of(first).max()) <= 1, "a bool of neither 0 nor 1"


@pytest.mark.parametrize(
    "name", [n for n in inputs.NAMES if n not in ("all_equal", "increasing", "decreasing")]
)
def test_another_seed_gives_another_input(name):
    positional = {"top_bits_plus_i"}
    same = torch.equal(
        oracle.as_ints(inputs.make(name, 4, 500, seed=1)), oracle.as_ints(inputs.make(name, 4, 500, seed=2))
    )
    assert same == (name in positional)


@pytest.mark.parametrize(("name", "dtype"), EVERY, ids=ids)
def test_empty_and_tiny_inputs_are_made(name, dtype):
    for rows, cols in ((0, 5), (5, 0), (1, 1), (2, 2)):
        assert inputs.make(name, rows, cols, dtype).shape == (rows, cols)


def rank_rows(name: str, dtype: torch.dtype, rows: int = 4, cols: int = 1000):
    bits = inputs.make_bits(name, rows, cols, dtype)
    return oracle.comparable(bits, dtype, magnitude=False)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_monotone_inputs_are_monotone(dtype):
    for name, step in (("increasing", 1), ("decreasing", -1)):
        bits = inputs.make_bits(name, 2, 1000, dtype)
        rank = oracle.ranks(bits.reshape(-1), dtype, False).reshape(bits.shape)
        assert (np.diff(rank, axis=1) * step >= 0).all()
        distinct = min(1000, len(np.unique(np.arange(256) % 251)) if dtype.itemsize == 1 else 1000)
        if dtype.itemsize > 1:
            assert len(np.unique(rank)) == distinct


@pytest.mark.parametrize("dtype", oracle.FLOAT_DTYPES, ids=oracle.name_of)
def test_nan_families_hold_their_nans(dtype):
    def nan(name):
        return rank_rows(name, dtype)[0]

    assert nan("all_nan").all()
    assert nan("nan_heads")[:, :333].all() and not nan("nan_heads")[:, 333:].any()
    assert nan("nan_tails")[:, -333:].all() and not nan("nan_tails")[:, :-333].any()
    assert nan("nan_rows")[0].all() and not nan("nan_rows")[1].any()
    assert 0.05 < nan("nan_scattered").mean() < 0.15
    assert (~nan("one_number_among_nan")).sum(1).tolist() == [1] * 4
    for quiet in ("normal", "increasing", "subnormals", "all_infinite", "range_ends", "digit_boundaries"):
        assert not nan(quiet).any(), quiet
    bits = inputs.make_bits("all_nan", 1, 1000, dtype)
    assert len(np.unique(bits >> (bits.itemsize * 8 - 1))) == 2, "one sign only"
    if dtype != torch.float8_e4m3fn:
        assert len(np.unique(bits)) > 5, "too few payloads"
    negative = inputs.make_bits("negative_nan", 1, 1000, dtype)
    negative = negative[oracle.comparable(negative, dtype, False)[0]]
    assert len(negative) and (negative >> (bits.itemsize * 8 - 1)).all()


@pytest.mark.parametrize("dtype", oracle.FLOAT_DTYPES, ids=oracle.name_of)
def test_float_families_hold_their_specials(dtype):
    _, zeros = rank_rows("signed_zeros", dtype)
    assert (zeros == 0).all() and len(np.unique(inputs.make_bits("signed_zeros", 1, 1000, dtype))) == 2
    _, tiny = rank_rows("subnormals", dtype)
    normal = inputs._FLOATS[dtype][1]
    least = oracle.numbers(oracle.bits_of(oracle.from_bits(np.array([normal]), dtype)), dtype)[0]
    assert (np.abs(tiny) < least).all() and (tiny != 0).any()
    if dtype != torch.float8_e4m3fn:
        assert np.isinf(rank_rows("all_infinite", dtype)[1]).all()
        assert 0.5 < np.isinf(rank_rows("infinite_kth", dtype)[1]).mean() < 0.8
    _, masked = rank_rows("mostly_minus_infinity", dtype, 1, 20000)
    assert 0.99 < (masked == masked.min()).mean() < 1


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_radix_families_share_their_digits(dtype):
    def varying(name):
        bits = inputs.make_bits(name, 1, 4000, dtype).astype(object)
        return int(np.bitwise_or.reduce(bits[0] ^ bits[0, 0]))

    if dtype == torch.bool:
        return
    width = 8 * dtype.itemsize
    assert varying("all_equal") == 0
    assert varying("twelve_bit_random") == 2 ** min(12, 3 * width // 8) - 1
    assert varying("ten_bit_prefix") == 2 ** (width - 10 * width // 32) - 1
    if width > 8:
        assert varying("pivot_byte") == 0xFF << (width - 16)
    counts = np.unique(inputs.make_bits("ones_with_four_outliers", 1, 4000, dtype), return_counts=True)[1]
    assert sorted(counts)[-1] == 3996 and counts.sum() == 4000


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_the_winners_of_one_subrange_lie_side_by_side(dtype):
    tensor = inputs.make("winners_in_one_subrange", 3, 640, dtype)
    _, winners = oracle.expected(tensor, 20)
    if dtype != torch.bool:
        assert (winners.max(1) - winners.min(1) < 40).all()


def test_sampled_peaks_turn_over_from_row_to_row():
    tensor = inputs.make("sampled_peaks", 2, 640)
    assert (oracle.expected(tensor[:1], 20)[1] % 32 == 0).all()
    assert (oracle.expected(tensor[1:], 20)[1] % 32 != 0).all()


def test_a_float64_detour_would_merge_neighbours():
    tensor = inputs.make("top_bits_plus_i", 1, 1000, torch.int64)
    assert int(tensor[0, 7]) == 2**60 + 7
    assert tensor.unique().numel() == 1000 > tensor.to(torch.float64).unique().numel()


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_mixed_rows_are_rows_of_the_other_families(dtype):
    families = [name for name in inputs.FAMILIES if inputs.applies(name, dtype)]
    mixed = inputs.make("mixed_rows", 2 * len(families), 50, dtype)
    for i, name in enumerate(families):
        alone = inputs.make(name, 2, 50, dtype, seed=i)
        assert torch.equal(oracle.as_ints(mixed[i :: len(families)]), oracle.as_ints(alone)), name
