"""AIR top-k of rows in the SMs' shared memory: every dtype, named input and boundary; in order, by index."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES
from tests.cuda.resident_rows import (
    check,
    check_every_named_input,
    check_graph_replays,
    check_rows_that_begin_anywhere,
    check_ties_at_the_bound,
)

pytestmark = pytest.mark.gpu

FORM = "air.resident_grid"
WIDTHS = [torch.uint8, torch.bfloat16, torch.float32, torch.int64]


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(1, 400_001, (1, 300, 20_000)), (5, 150_003, (8, 1024, 70_000)), (132, 17_000, (60, 3000, 16_999))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, ks):
    check_every_named_input(FORM, rows, cols, ks, dtype, device)


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_rows_around_what_blocks_hold_begin_anywhere(device, dtype):
    """A part is whole lines of memory, a vector a thread or more; and the longest row, and one too long."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    in_vector = 16 // dtype.itemsize
    answered = []
    for rows, vectors in itertools.product((1, 3, 40), (1024, 1032, 2048, 4000)):
        cols = sms // rows * vectors * in_vector
        answered += check_rows_that_begin_anywhere(FORM, rows, cols, (1, 700, cols // 3), dtype, device)
    assert sum(answered) >= len(answered) // 2
    vectors = (torch.cuda.get_device_properties(device).shared_memory_per_block_optin - 18 * 1024) // 17
    whole = inputs.make("normal", 1, sms * (vectors // 8 * 8 - 64) * in_vector, dtype, device)
    served = [len(row) for row in (whole[0], whole.repeat(1, 2)[0]) if check(FORM, row[None], 5000)]
    assert served in ([], [whole.shape[1]]) and (served or dtype.itemsize == 1)


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_winners_of_no_order_come_by_index(device, dtype):
    for name, k in itertools.product(("mixed_rows", "few_distinct", "increasing"), (5000, 100_000, 199_999)):
        tensor = inputs.make(name, 3, 200_000, dtype, device, seed=k)
        values, indices = torch.ops.gputopk._form(tensor, k, FORM, True, False)
        oracle.assert_topk_on_device((values, indices), tensor, k, sorted=False)
        assert (indices.diff(dim=1) > 0).all()


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_the_last_alone_is_the_last_of_all(device, dtype):
    for name, k in itertools.product(inputs.names_for(dtype), (1, 700, 30_000, 70_001)):
        tensor = inputs.make(name, 2, 70_001, dtype, device, seed=k)
        for largest in (True, False):
            every = torch.ops.gputopk.topk(tensor, k, -1, largest)
            alone = torch.ops.gputopk._form(tensor, k, FORM, largest, False, last_alone=True)
            for all_winners, last in zip(every, alone, strict=True):
                if last.dtype.is_floating_point:
                    all_winners, last = oracle.as_ints(all_winners), oracle.as_ints(last)
                assert torch.equal(all_winners[:, -1], last[:, -1])


def test_ties_at_the_bound_across_blocks_go_to_the_lowest_indices(device):
    check_ties_at_the_bound(FORM, 300_000, device)


@pytest.mark.parametrize("k", [1000, 60_000])
def test_winners_side_by_side_and_a_block_apart(device, k):
    cols = 1_048_576
    for step in (1, 16, 8192, 8256):
        tensor = inputs.make("normal", 1, cols, torch.float32, device)
        tensor[:, (torch.arange(2 * k, device=device) * step) % cols] += 100
        assert check(FORM, tensor, k)


@pytest.mark.parametrize(("k", "other_k"), [(64, 5000), (20_000, 5)])
def test_graph_replays_and_streams(device, k, other_k):
    check_graph_replays(FORM, 1_048_576, 300_000, device, k, other_k)
