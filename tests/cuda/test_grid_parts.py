"""Delegate top-k of many winners in one launch of the whole GPU: dtypes of two bytes and more."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle, tuning
from tests.cuda.calls import FLAGS
from tests.cuda.resident_rows import (
    check,
    check_graph_replays,
    check_rows_that_begin_anywhere,
)

pytestmark = pytest.mark.gpu

FORM = "delegate.grid_parts"
WIDE_DTYPES = pytest.mark.parametrize(
    "dtype", [dtype for dtype in oracle.DTYPES if dtype.itemsize > 1], ids=oracle.name_of
)
LEAST = tuning.number("kGridPartsMinK")


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [
        (1, 2**20, (LEAST, 32_768)),
        (1, 3_000_001, (10_001, 300_000)),
        (3, 1_500_001, (4097, 150_000)),
    ],
    ids=str,
)
@WIDE_DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    served = []
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        served += [
            check(FORM, tensor, k, **flags) for k, flags in zip(itertools.cycle(ks), FLAGS, strict=False)
        ]
    # Where candidates would take more than the workspace may, it does not serve.
    assert sum(served) >= len(served) // 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of)
def test_rows_begin_anywhere(device, dtype):
    served = []
    for rows, cols in ((1, 1_000_003), (3, 700_001), (8, 600_000)):
        served += check_rows_that_begin_anywhere(FORM, rows, cols, (LEAST, 9000), dtype, device)
    assert sum(served) >= len(served) // 8  # of bfloat16 one row alone, and few winners


def test_winners_side_by_side_and_a_tile_apart(device):
    """The sample misses them all, or sees more than their share."""
    cols, k = 2**21, 30_000
    for step in (1, 16, 64, 511, 8192):
        tensor = inputs.make("normal", 1, cols, torch.float32, device)
        tensor[:, (torch.arange(k, device=device) * step) % cols] += 100
        assert check(FORM, tensor, k)
        assert check(FORM, tensor, 2 * k)


@pytest.mark.parametrize("outliers", [0, 1, 500, 50_000])
def test_winners_that_crowd_in_few_bins(device, outliers):
    """Ties, numbers near each other, and some far above: splitters in place of bins."""
    cols = 2**21
    tensor = torch.zeros(1, cols, device=device)
    tensor[:, 5 : 5 + 30 * 60_000 : 30] += 1e-30
    tensor[:, 11 : 11 + 20 * outliers : 20] = torch.linspace(1e29, 1e30, max(outliers, 1), device=device)[
        :outliers
    ]
    for k in (4000, 20_000, 70_000, 140_000):
        assert check(FORM, tensor, k)


def test_graph_replays_and_streams(device):
    check_graph_replays(FORM, 2**21, 1_000_000, device, k=20_000, other_k=8000)


@WIDE_DTYPES
def test_the_last_alone(device, dtype):
    """kth_value's request: of many, and where ties decide."""
    served = 0
    for name, k in itertools.product(("normal", "few_distinct", "all_equal"), (100_000, 300_000)):
        tensor = inputs.make(name, 1, 2**21, dtype, device)
        if not check(FORM, tensor, k):
            continue
        served += 1
        values, indices = torch.ops.gputopk._form(tensor, k, FORM, sorted=False, last_alone=True)
        last = torch.ops.gputopk.topk(tensor, k, sorted=True, algorithm=1)[1][:, -1:].contiguous()
        assert torch.equal(indices[:, -1:], last)
        value = oracle.as_ints(values[:, -1:].contiguous())
        assert torch.equal(value, oracle.as_ints(tensor).gather(1, last))
    assert served >= 3
