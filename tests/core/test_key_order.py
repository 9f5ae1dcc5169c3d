"""csrc/core/key_order.h, compiled here, against the oracle's order: every pattern of the narrow dtypes."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import compiler, inputs, oracle

HERE = Path(__file__).resolve().parent
FLAGS = list(itertools.product((True, False), (False, True)))
NARROW = [dtype for dtype in oracle.DTYPES if dtype.itemsize <= 2 and dtype != torch.bool]
WIDE = [dtype for dtype in oracle.DTYPES if dtype.itemsize >= 4]


@pytest.fixture(scope="module")
def probe(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("key_order")
    compiled = compiler.compile_object(HERE / "key_order_probe.cpp", folder / "probe.o")
    library = compiler.link_shared([compiled], folder / "probe.so")
    probe = ctypes.CDLL(str(library))
    probe.probe_dtype_name.restype = ctypes.c_char_p
    probe.probe_worst.restype = ctypes.c_uint64
    return probe


def dtype_number(probe: ctypes.CDLL, dtype: torch.dtype) -> int:
    names = [probe.probe_dtype_name(i).decode() for i in range(len(oracle.DTYPES))]
    return names.index(oracle.name_of(dtype))


def keys_of(probe: ctypes.CDLL, bits: np.ndarray, dtype: torch.dtype, largest: bool, magnitude: bool):
    keys = np.empty(bits.size, np.uint64)
    probe.probe_keys(
        dtype_number(probe, dtype),
        int(largest),
        int(magnitude),
        np.ascontiguousarray(bits).ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(bits.size),
        keys.ctypes.data_as(ctypes.c_void_p),
    )
    return keys


def assert_same_order(keys: np.ndarray, bits: np.ndarray, dtype: torch.dtype, largest: bool, magnitude: bool):
    """Equal keys for equal elements, and a greater key for each better one."""
    rank = oracle.ranks(bits, dtype, magnitude)
    if not largest:
        rank = rank.max() - rank
    _, key_rank = np.unique(keys, return_inverse=True)
    different = np.flatnonzero(key_rank != rank)
    assert different.size == 0, [f"{bits[i]:#x}" for i in different[:5]]


def test_every_dtype_has_its_name_and_width(probe):
    names = [probe.probe_dtype_name(i).decode() for i in range(len(oracle.DTYPES))]
    assert sorted(names) == sorted(map(oracle.name_of, oracle.DTYPES))
    for dtype in oracle.DTYPES:
        assert probe.probe_dtype_bytes(dtype_number(probe, dtype)) == dtype.itemsize


@pytest.mark.parametrize(("largest", "magnitude"), FLAGS)
@pytest.mark.parametrize("dtype", NARROW, ids=oracle.name_of)
def test_every_pattern_of_a_narrow_dtype_keeps_its_order(probe, dtype, largest, magnitude):
    bits = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    keys = keys_of(probe, bits, dtype, largest, magnitude)
    assert keys.max() < 2 ** (8 * dtype.itemsize)
    assert_same_order(keys, bits, dtype, largest, magnitude)


@pytest.mark.parametrize(("largest", "magnitude"), FLAGS)
@pytest.mark.parametrize("dtype", NARROW + WIDE, ids=oracle.name_of)
def test_no_key_is_below_that_of_the_worst_pattern(probe, dtype, largest, magnitude):
    width = 8 * dtype.itemsize
    worst = probe.probe_worst(dtype_number(probe, dtype), int(largest), int(magnitude))
    bits = np.arange(2**width).astype(f"u{dtype.itemsize}") if width <= 16 else wide_patterns(dtype)
    own = keys_of(probe, np.array([worst], bits.dtype), dtype, largest, magnitude)
    assert own[0] == keys_of(probe, bits, dtype, largest, magnitude).min()


@pytest.mark.parametrize(("largest", "magnitude"), FLAGS)
def test_true_is_above_false(probe, largest, magnitude):
    bits = np.array([0, 1], np.uint8)
    keys = keys_of(probe, bits, torch.bool, largest, magnitude)
    assert_same_order(keys, bits, torch.bool, largest, magnitude)


def wide_patterns(dtype: torch.dtype) -> np.ndarray:
    """Around every power of two with either sign, around the specials, and every named input."""
    width = 8 * dtype.itemsize
    centres = [0, 2**width - 1, *(2**i for i in range(width)), *(2**width - 2**i for i in range(width))]
    if dtype in oracle.FLOAT_DTYPES:
        for special in inputs._FLOATS[dtype]:
            centres += [special, special | 2 ** (width - 1)]
    near = {(centre + step) % 2**width for centre in centres for step in (-2, -1, 0, 1, 2)}
    parts = [np.array(sorted(near), dtype=f"u{dtype.itemsize}")]
    parts += [inputs.make_bits(name, 2, 500, dtype).reshape(-1) for name in inputs.names_for(dtype)]
    parts.append(inputs.make_bits("random_bits", 1, 50_000, dtype, seed=9).reshape(-1))
    return np.concatenate(parts)


@pytest.mark.parametrize(("largest", "magnitude"), FLAGS)
@pytest.mark.parametrize("dtype", WIDE, ids=oracle.name_of)
def test_special_and_random_patterns_of_a_wide_dtype_keep_their_order(probe, dtype, largest, magnitude):
    bits = wide_patterns(dtype)
    assert_same_order(keys_of(probe, bits, dtype, largest, magnitude), bits, dtype, largest, magnitude)


@pytest.mark.parametrize(("largest", "magnitude"), FLAGS)
@pytest.mark.parametrize("dtype", NARROW + WIDE, ids=oracle.name_of)
def test_distances_are_those_of_keys_and_none_is_short_outside_the_range(probe, dtype, largest, magnitude):
    width = 8 * dtype.itemsize
    bits = np.arange(2**width).astype(f"u{dtype.itemsize}") if width <= 16 else wide_patterns(dtype)
    keys = keys_of(probe, bits, dtype, largest, magnitude)
    distances = np.empty(bits.size, np.uint64)
    random = np.random.default_rng(width)
    served = 0
    for _ in range(300):
        # As a digit leaves a range: a prefix, with the bits below it all clear and all set.
        free = int(random.integers(0, width))
        least = int(random.choice(keys)) >> free << free
        most = min(least + (2**free - 1) * int(random.integers(1, 3)), 2**width - 1)
        if not probe.probe_distances(
            dtype_number(probe, dtype),
            int(largest),
            int(magnitude),
            ctypes.c_uint64(least),
            ctypes.c_uint64(most),
            np.ascontiguousarray(bits).ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(bits.size),
            distances.ctypes.data_as(ctypes.c_void_p),
        ):
            continue
        served += 1
        inside = (keys >= np.uint64(least)) & (keys <= np.uint64(most))
        assert np.array_equal(distances[inside], keys[inside] - np.uint64(least))
        assert (distances[~inside] > np.uint64(most - least)).all()
    signed_magnitudes = magnitude and not dtype.is_floating_point and dtype.is_signed
    assert (served == 0) == signed_magnitudes


def test_the_comparison_of_orders_can_fail(probe):
    bits = np.arange(65536).astype(np.uint16)
    keys = keys_of(probe, bits, torch.float16, True, False)
    for spoil in (0x0000, 0x3C00, 0xFFFF, 0x8001):
        spoilt = keys.copy()
        spoilt[spoil] ^= np.uint64(1)
        with pytest.raises(AssertionError):
            assert_same_order(spoilt, bits, torch.float16, True, False)
    with pytest.raises(AssertionError):
        assert_same_order(keys, bits, torch.bfloat16, True, False)
