"""What says which elements of a vector reach a bound against keys: patterns of 1 and 2 bytes, some of 4."""

from __future__ import annotations

import ctypes

import pytest

from tests import oracle
from tests.simt import emulated

UP_TO_WORDS = [dtype for dtype in oracle.DTYPES if dtype.itemsize <= 4]


@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", UP_TO_WORDS, ids=oracle.name_of)
def test_filters_say_what_keys_say(dtype, largest, magnitude):
    faults = emulated.library().lib.simt_filter_faults
    faults.restype = ctypes.c_int64
    assert faults(emulated._DTYPES[dtype], largest, magnitude) == 0


@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_filters_of_rows_side_by_side(dtype, largest, magnitude):
    faults = emulated.library().lib.simt_row_filter_faults
    faults.restype = ctypes.c_int64
    assert faults(emulated._DTYPES[dtype], largest, magnitude) == 0


@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_filters_of_what_is_all_equal(itemsize):
    faults = emulated.library().lib.simt_equals_filter_faults
    faults.restype = ctypes.c_int64
    assert faults(itemsize) == 0
