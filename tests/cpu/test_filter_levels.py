"""The CPU's filter of ragged rows compiled for every level of vector instructions, each run where this CPU
can: blocks of every length against the oracle, with canaries behind what is written."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import compiler, inputs, oracle
from tests.cpu import levels
from tests.where_oracle import COMPARISONS, candidates
from torch_topk import Condition

HERE = Path(__file__).resolve().parent
LEVELS = [name for name in levels.LEVELS if levels.X86 or name == "baseline"]
COUNTS = (0, 1, 7, 8, 31, 64, 65, 200, 512)
CANARY = 0xA5


@pytest.fixture(scope="module", params=LEVELS)
def probe(request, tmp_path_factory) -> ctypes.CDLL:
    if not levels.has_level(request.param):
        pytest.skip(f"this CPU has no {request.param}")
    folder = tmp_path_factory.mktemp(f"filter_{request.param}")
    flags = (f"-DGPUTOPK_CPU_LEVEL={request.param}", *levels.LEVELS[request.param][0])
    compiled = [
        compiler.compile_object(source, folder / f"{source.stem}.o", *flags)
        for source in (compiler.CSRC / "cpu" / "filter_rows.cpp", HERE / "filter_rows_probe.cpp")
    ]
    probe = ctypes.CDLL(str(compiler.link_shared(compiled, folder / "probe.so")))
    probe.probe_dtype_name.restype = ctypes.c_char_p
    return probe


def number_of(probe: ctypes.CDLL, dtype: torch.dtype) -> int:
    names = [probe.probe_dtype_name(i).decode() for i in range(len(oracle.DTYPES))]
    return names.index(oracle.name_of(dtype))


def pointer(array: np.ndarray, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset * array.itemsize)


def families(dtype: torch.dtype) -> list[str]:
    return [name for name in ("mixed_rows", "few_distinct", "normal") if name in inputs.names_for(dtype)]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_what_is_better_than_an_element(probe, dtype):
    number = number_of(probe, dtype)
    for family, largest, magnitude in itertools.product(families(dtype), (True, False), (False, True)):
        bits = oracle.bits_of(inputs.make(family, 1, 600, dtype))[0]
        ranks = oracle.ranks(bits, dtype, magnitude)
        for at, begin, count in itertools.product((0, 5, 599), (0, 3), COUNTS):
            accepted = np.full(count + 64, CANARY, np.uint8)
            element = ctypes.c_int64(at - begin)
            found = probe.probe_find_better(
                number, largest, magnitude, pointer(bits, begin), ctypes.c_int64(count), element,
                pointer(accepted),
            )  # fmt: skip
            part = ranks[begin : begin + count]
            want = part > ranks[at] if largest else part < ranks[at]
            assert (accepted[:count] == want).all() and (accepted[count:] == CANARY).all()
            assert found == want.any()


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_what_a_filter_refuses(probe, dtype):
    number = number_of(probe, dtype)
    for family, (comparison, words) in itertools.product(families(dtype), enumerate(COMPARISONS)):
        column = inputs.make(family, 2, 600, dtype)
        bits = oracle.bits_of(column)
        thresholds = oracle.as_ints(column)[:, 11].contiguous().view(dtype)
        holds = candidates(Condition(column, words, thresholds), column.shape, 1)[1]
        mask = np.random.default_rng(1).random((2, 600)) < 0.7
        for begin, count, masked in itertools.product((0, 13), COUNTS, (False, True)):
            before = np.random.default_rng(count).random(count) < 0.8
            accepted = np.full(count + 64, CANARY, np.uint8)
            accepted[:count] = before
            probe.probe_clear_refused(
                number, comparison, pointer(bits), ctypes.c_int64(600), pointer(oracle.bits_of(thresholds)),
                pointer(mask) if masked else None, ctypes.c_int64(begin), ctypes.c_int64(count),
                pointer(accepted),
            )  # fmt: skip
            own = slice(begin, begin + count)
            want = before & holds[own] & (mask[1, own] if masked else True)
            assert (accepted[:count] == want).all() and (accepted[count:] == CANARY).all()
