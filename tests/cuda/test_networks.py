"""The bitonic networks of one thread and of a block, on the host: all inputs of zeros and ones of small
sizes, as a network that sorts those sorts everything, and random values of larger ones."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests import compiler

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def probe(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("networks")
    compiled = compiler.compile_object(HERE / "networks_probe.cpp", folder / "probe.o")
    return ctypes.CDLL(str(compiler.link_shared([compiled], folder / "probe.so")))


def zeros_and_ones(size: int) -> np.ndarray:
    """Every array of them, a row each."""
    return (np.arange(2**size)[:, None] >> np.arange(size) & 1).astype(np.uint32)


def arguments_of(arrays: np.ndarray):
    return arrays.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(arrays)), arrays.shape[1]


def sort_items(probe: ctypes.CDLL, arrays: np.ndarray, descending: bool) -> np.ndarray:
    done = np.ascontiguousarray(arrays)
    probe.probe_sort_items(*arguments_of(done), int(descending))
    return done


def sort_list(probe: ctypes.CDLL, arrays: np.ndarray) -> np.ndarray:
    done = np.ascontiguousarray(arrays)
    assert probe.probe_sort_list(*arguments_of(done)), "a place was written that is none"
    return done


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_items_of_a_thread_are_sorted_whatever_they_are(probe, size):
    arrays = zeros_and_ones(size)
    ascending = np.sort(arrays, axis=1)
    assert np.array_equal(sort_items(probe, arrays.copy(), descending=False), ascending)
    assert np.array_equal(sort_items(probe, arrays.copy(), descending=True), ascending[:, ::-1])


@pytest.mark.parametrize("size", [8, 16])
def test_a_list_is_sorted_whatever_it_holds(probe, size):
    arrays = zeros_and_ones(size)
    assert np.array_equal(sort_list(probe, arrays.copy()), np.sort(arrays, axis=1)[:, ::-1])


@pytest.mark.parametrize("size", [32, 64, 128, 256, 512, 1024, 2048, 4096])
def test_a_long_list_is_sorted(probe, size):
    """Random values, and zeros and ones with every number of ones, in random places."""
    random = np.random.default_rng(size)
    values = random.integers(0, 2**32, (50, size), dtype=np.uint32)
    counts = np.linspace(0, size, 60).astype(int)
    ones = random.permuted((np.arange(size) < counts[:, None]).astype(np.uint32), axis=1)
    for arrays in (values, ones, np.sort(values, axis=1), values % 5):
        assert np.array_equal(sort_list(probe, arrays.copy()), np.sort(arrays, axis=1)[:, ::-1])


def test_the_comparison_can_fail(probe):
    arrays = zeros_and_ones(4)
    unsorted = sort_items(probe, arrays.copy(), descending=True)
    unsorted[3] = unsorted[3][::-1]
    assert not np.array_equal(unsorted, np.sort(arrays, axis=1)[:, ::-1])
