"""Bitonic top-k and AIR's resident row on a GPU: every named input, in every form that serves."""

from __future__ import annotations

import itertools

import pytest

from tests import inputs
from tests.cuda.calls import DTYPES, FLAGS, check_forms

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(70, 64, (1, 6, 8)), (70, 200, (1, 8, 30)), (40, 1000, (1, 10, 64, 100, 128)),
     (9, 4096, (1, 64, 200, 1000)), (5, 10_000, (1, 100, 256, 2500))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly_by_every_form(device, dtype, rows, cols, ks):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        for k, flags in zip(itertools.cycle(ks), FLAGS, strict=False):
            served = check_forms(tensor, k, **flags)
            assert served or dtype.itemsize == 8  # of which the longest row and k find no room
