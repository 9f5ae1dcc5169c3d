"""Delegate on a GPU, on rows made to mislead the sample that its bound comes from."""

from __future__ import annotations

import functools

import pytest
import torch

import torch_topk
from tests import delegate_model, inputs, oracle
from tests.cuda import calls
from tests.cuda.calls import DTYPES, head_of, rows_at

pytestmark = pytest.mark.gpu

# Of the list that a row's last block selects from alone.
LIST_BYTES = 64 * 1024

check = functools.partial(calls.check, algorithm=int(torch_topk.Algorithm.delegate))


def reached(row: torch.Tensor, sample: delegate_model.Sample, head: int) -> tuple[int, int]:
    """How many of a row's elements reach the bound that the sample gives, at least and at most."""
    best_first = row[sample.places(head, row.device)].amax(1).sort(descending=True).values
    most = min(sample.rank + sample.rank // 4, sample.delegates)
    return int((row > best_first[sample.rank - 1]).sum()), int((row >= best_first[most - 1]).sum())


def row_that_reaches(target: int | None, sample: delegate_model.Sample, head: int, device) -> torch.Tensor:
    """An int64 row of which exactly `target` elements reach the bound that the sample gives, wherever it is
    among those that the sample allows. None: no more than in the sample.

    As many delegates as the bound's rank are high, distinct, and one element each; the rest of the sample is
    0, so that no other rank is near; and between the two there is nothing in the row.
    """
    cols, places, rank = sample.cols, sample.places(head, device), sample.rank
    more = 0 if target is None else target - rank
    assert more >= 0 and rank < sample.delegates // 2
    row = -1 - torch.randperm(cols, device=device)
    row[places] = 0
    outside = (row < 0).nonzero().flatten()
    high = places[torch.randperm(sample.delegates, device=device)[:rank]]
    high = high.gather(1, torch.randint(high.shape[1], (rank, 1), device=device)).flatten()
    chosen = torch.cat([high, outside[torch.randperm(len(outside), device=device)[:more]]])
    row[chosen] = 1000 + torch.randperm(rank + more, device=device)
    row[high[0]] = 999  # the least of all that is high is a delegate
    return row


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("k", [1, 100, 2048, 16_384])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float64], ids=oracle.name_of)
def test_a_bound_that_too_few_or_too_many_reach_is_found_out(device, dtype, k, offset):
    cols = 2**20 + 11
    # Of an extended key with an index of 32 bits.
    entries = LIST_BYTES // (8 if dtype.itemsize == 4 else 16)
    room = delegate_model.sample_of(11, cols, k, dtype).room
    targets = [
        None,
        k - 1,
        k,
        k + 1,
        entries - 1,
        entries,
        entries + 1,
        room - 1,
        room,
        room + 1,
        cols - 20_000,
    ]
    sample = delegate_model.sample_of(len(targets), cols, k, dtype)
    tensor = rows_at(offset, len(targets), cols, dtype, device)
    head = head_of(tensor[0])
    assert (head > 0) == (offset > 0)
    torch.manual_seed(k)
    counts = []
    for row, target in enumerate(targets):
        if target is not None and target < sample.rank:
            target = None  # the sample alone has as many
        made = row_that_reaches(target, sample, head, device)
        counts.append(int((made > 0).sum()))
        assert counts[-1] == (target or sample.rank)
        delegates = made[sample.places(head, device)].amax(1)
        assert int((delegates >= made[made > 0].amin()).sum()) == sample.rank, (
            "the bound is not the least of them"
        )
        tensor[row] = made.to(dtype)
        assert torch.equal(tensor[row].to(torch.int64), made), "not distinct in this dtype"
    assert sample.room == room < max(counts)
    assert k < 100 or min(counts) < k
    check(tensor, k)
    check(tensor, k, sorted=False)
    tensor.neg_()
    check(tensor, k, largest=False)


@pytest.mark.parametrize("high_in_sample", [True, False])
@DTYPES
def test_two_values_that_tell_the_sample_from_the_rest_are_answered_exactly(device, dtype, high_in_sample):
    """The bound's index decides how many ties reach it."""
    rows, cols = 3, 2**19 + 5
    for k in (1, 30, 3000, min(cols // 64, delegate_model.most_k(cols, dtype))):
        sample = delegate_model.sample_of(rows, cols, k, dtype)
        for offset in (0, 1):
            numbers = torch.full((rows, cols), not high_in_sample, device=device)
            tensor = rows_at(offset, rows, cols, dtype, device, "all_equal")
            places = sample.places(head_of(tensor[0]), device).flatten()
            numbers[:, places] = high_in_sample
            # In the last row the other value is rare.
            numbers[2] = high_in_sample
            numbers[2, torch.arange(0, cols, cols // (k + k // 2 + 1), device=device)] = not high_in_sample
            oracle.as_ints(tensor).masked_fill_(~numbers, 0)
            check(tensor, k)
            check(tensor, k, largest=False, sorted=False)


@pytest.mark.parametrize("form", ["peaks", "pits"])
def test_a_long_row_with_nothing_but_peaks_or_pits_in_its_sample_is_answered_exactly(device, form):
    for cols, k in ((2**26 + 1, 2048), (2**26 + 1, 2**20), (2**28, 2**15)):
        tensor = inputs.make("normal", 1, cols, torch.float32, device)
        sample = delegate_model.sample_of(1, cols, k, torch.float32)
        places = sample.places(0, device).flatten()
        tensor[0, places] += 100 if form == "peaks" else -100
        least, most = reached(tensor[0], sample, 0)
        assert most < k if form == "peaks" else least > sample.room
        check(tensor, k)
        tensor.neg_()
        check(tensor, k, largest=False, sorted=False)


@pytest.mark.parametrize("k", [1, 100, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=oracle.name_of)
def test_winners_far_beyond_the_sample_are_found(device, dtype, k):
    """The digit by which candidates are counted as they are stored does not tell these apart."""
    cols = 2**20 + 5
    sample = delegate_model.sample_of(9, cols, k, dtype)
    tensor = rows_at(0, 9, cols, dtype, device, "uniform")
    if not dtype.is_floating_point:
        tensor.remainder_(1000)
    free = torch.ones(cols, dtype=torch.bool, device=device)
    free[sample.places(head_of(tensor[0]), device).flatten()] = False
    free = free.nonzero().flatten()
    counts = [0, 1, k - 1, k, k + 1, 2 * k, LIST_BYTES // 8, sample.room // 2, sample.room + 1]
    for row, count in enumerate(counts):
        place = free[torch.randperm(len(free), device=device)[:count]]
        tensor[row, place] = (2**30 + torch.randint(0, 50, (count,), device=device)).to(dtype)
    for order in (True, False):
        check(tensor, k, sorted=order)
    tensor.neg_()
    check(tensor, k, largest=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float64], ids=oracle.name_of)
def test_more_ties_with_the_bound_than_there_is_room_for_are_answered_exactly(device, dtype):
    """Rows like those behind a ReLU, with a bound of zero: of the zeros that tie with it, some are stored, or
    counted, and some are not."""
    cols, k = 2**20, 60_000
    tensor = torch.arange(-cols, 0, device=device, dtype=torch.float64).repeat(13, 1)
    order = torch.rand(13, cols, device=device).argsort(1)
    for row in range(13):
        positive = k - 500 * row - 10
        tensor[row, order[row, :positive]] = torch.randint(
            1, 2**20, (positive,), device=device, dtype=torch.float64
        )
        tensor[row, order[row, k : k + 50_000 * (row + 1)]] = 0
    tensor = tensor.to(dtype)
    for numbers in ({}, {"beta": 1}, {"beta": 2}):
        oracle.assert_topk_on_device(
            torch.ops.gputopk._delegate(tensor, k, True, False, **numbers), tensor, k, sorted=False
        )
    check(tensor, k // 64)
    check(tensor.neg(), k, largest=False)
