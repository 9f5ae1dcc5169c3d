"""torch_topk.distributed.topk over processes with gloo, against topk of the whole rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests import inputs, oracle
from tests.python import gloo
from torch_topk import distributed, topk
from torch_topk._autograd import gather as gather_bits

# Cases are done by one set of processes, as starting them is what takes time.


def pieces_of(cols, ranks, seed):
    """Where pieces begin: of any sizes, some of none."""
    generator = torch.Generator().manual_seed(seed)
    cuts = torch.randint(0, cols + 1, (ranks - 1,), generator=generator).sort().values.tolist()
    return [0, *cuts, cols]


def same(got, want):
    return (
        torch.equal(oracle.as_ints(got), oracle.as_ints(want))
        if got.is_floating_point()
        else torch.equal(got, want)
    )


def problem_of(rank, ranks, tensor, k, cuts, narrows=None, shuffled=False, **options):
    """What is wrong with this rank's results, or None."""
    begin, end = cuts[rank], cuts[rank + 1]
    offset = None
    if shuffled:  # the pieces do not lie in the order of the ranks
        place = ranks - 1 - rank
        begin, end = cuts[place], cuts[place + 1]
        offset = begin
    before = distributed._saves_by_narrowing
    if narrows is not None:
        distributed._saves_by_narrowing = lambda *_: narrows
    try:
        local = tensor.to(gloo.device())[..., begin:end]
        found = distributed.topk(local, k, offset=offset, **options)
        values, indices, counts = (one.cpu() for one in found)
    finally:
        distributed._saves_by_narrowing = before
    flags = {name: options[name] for name in ("largest", "magnitude") if name in options}
    want = topk(tensor, k, **flags)
    gather = options.get("gather", "all")
    label = f"{tensor.dtype} {list(tensor.shape)} k={k} cuts={cuts} narrows={narrows} {shuffled} {options}"
    if gather == "root" and rank != 0:
        empty = values.shape == indices.shape == (*tensor.shape[:-1], 0) and not counts.any()
        return None if empty else f"not empty: {label}"
    if gather == "none":
        number = want.indices.view(-1, k).shape[0] if k > 0 else counts.numel()
        rows, row_values = (t.reshape(number, t.shape[-1]) for t in (indices, values))
        for i, row in enumerate(want.indices.reshape(number, k)):
            mine = (row >= begin) & (row < end)
            count = int(counts.view(-1)[i])
            good = count == int(mine.sum()) and torch.equal(rows[i, :count], row[mine])
            good &= bool((rows[i, count:] == -1).all())
            good &= same(row_values[i, :count].clone(), want.values.reshape(number, k)[i, mine])
            if not good:
                return f"row {i}: {label}"
        return None
    if not options.get("sorted", True):
        order = indices.sort(-1)
        ordered = want.indices.sort(-1)
        values, indices = gather_bits(values, -1, order.indices), order.values
        want = (gather_bits(want.values, -1, ordered.indices), ordered.values)
    good = same(values, want[0]) and torch.equal(indices, want[1]) and (counts == k).all()
    return None if good else label


def many_cases(rank, ranks, number):
    found = []
    for seed in range(number):
        generator = torch.Generator().manual_seed(seed)
        pick = lambda *choices, g=generator: choices[torch.randint(len(choices), (1,), generator=g)]  # noqa: E731
        dtype = pick(*oracle.DTYPES)
        names = inputs.names_for(dtype)
        cols = pick(1, 7, 300, 2000)
        tensor = inputs.make(pick(*names), 6, cols, dtype, seed=seed).view(pick((6, cols), (2, 3, cols)))
        if pick(True, False):
            tensor = tensor.flatten()[:cols]
        found.append(
            problem_of(
                rank,
                ranks,
                tensor,
                pick(0, 1, cols // 3, cols - 1, cols),
                pieces_of(cols, ranks, seed),
                narrows=pick(None, True, False),
                shuffled=pick(True, False),
                largest=pick(True, False),
                magnitude=pick(True, False),
                sorted=pick(True, False),
                gather=pick("all", "root", "none"),
            )
        )
    return [problem for problem in found if problem]


@pytest.mark.parametrize(("ranks", "number"), [(1, 60), (2, 250), (3, 100), (8, 25)])
def test_as_the_whole_rows(ranks, number):
    assert [problems for problems in gloo.run(ranks, many_cases, ranks, number) if problems] == []


def refusals(rank):
    x = torch.randn(10 + rank, device=gloo.device())
    calls = [
        lambda: distributed.topk(x, 3 + rank),
        lambda: distributed.topk(x.to((torch.float32, torch.int16)[rank]), 3),
        lambda: distributed.topk(x[:5].expand(2 + rank, 5), 3),
        lambda: distributed.topk(x, 3, largest=rank == 0),
        lambda: distributed.topk(x, 22),
        lambda: distributed.topk(x, -1),
        lambda: distributed.topk(x, 3, offset=5 * rank),
        lambda: distributed.topk(x, 3, offset=None if rank else 0),
        lambda: distributed.topk(x if rank else x.to(torch.complex64), 3),
        lambda: distributed.topk(x, 3 if rank else "3"),
        lambda: distributed.topk(x if rank else None, 3),
        lambda: distributed.topk(x if rank else x.to("meta"), 3),
        lambda: distributed.topk(x, True if rank == 0 else 3),
        lambda: distributed.topk(x, 3, largest=True if rank else 1),
        lambda: distributed.topk(x, 3, sorted=True if rank else None),
        lambda: distributed.topk(x, 3, gather="all" if rank else 0),
        lambda: distributed.topk(x, 3, gather="all" if rank else "some"),
        lambda: distributed.topk(x, 3, offset=None if rank else True),
        lambda: distributed.topk(x, 3, offset=None if rank else -1),
    ]
    words = [words_of(call) for call in calls]
    values, _, _ = distributed.topk(x, np.int64(3))  # the group is as good as before
    return words, values


def words_of(call):
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def test_every_rank_is_told_what_does_not_fit():
    check_refusals(gloo.run(2, refusals))


def check_refusals(told):
    (zero, a), (one, b) = told
    assert torch.equal(a, b)
    both = [
        "disagree in k: 3, 4, rank by rank",
        "disagree in dtype: torch.float32, torch.int16",
        "disagree in the leading dimensions: \\[\\[2\\], \\[3\\]\\]",
        "disagree in largest, magnitude, sorted or gather",
        "k is 22, and a row has 21 elements",
        "k is -1, and a row has 21 elements",
        "pieces of ranks 0 and 1 overlap: the one is \\[0, 10\\), the other begins at 5",
        "on all ranks or on none: \\[0, -1\\]",
    ]
    function = r"torch_topk.distributed.topk\(\): "
    own = [
        f"RuntimeError: {function}rank 0: dtype torch.complex64 is not served",
        f"TypeError: {function}argument 'k' must be int, not str",
        f"TypeError: {function}argument 'local' must be Tensor, not NoneType",
        f"RuntimeError: {function}rank 0: local is on meta, where the group's backends, [a-z:,]*, send nothi",
        f"TypeError: {function}argument 'k' must be int, not bool",
        f"TypeError: {function}argument 'largest' must be bool, not int 1",
        f"TypeError: {function}argument 'sorted' must be bool, not NoneType None",
        f"TypeError: {function}argument 'gather' must be str, not int",
        f"ValueError: {function}gather must be one of all, root, none, not 'some'",
        f"TypeError: {function}argument 'offset' must be int or None, not bool",
        rf"RuntimeError: {function}rank 0: offset must be in \[0, 2\^63\), but is -1",
    ]
    others = [f"RuntimeError: {function}rank 0 was called with arguments that are not"] * len(own)
    for words, wanted in ((zero, both + own), (one, both + others)):
        assert len(words) == len(wanted)
        for word, want in zip(words, wanted, strict=True):
            assert re.search(want, word), (word, want)


def one_leaves(rank):
    """Rank 1 fails before it calls."""
    if rank == 1:
        return "left"
    return words_of(lambda: distributed.topk(torch.randn(10), 3))


def test_a_rank_that_left_is_an_error_of_the_others():
    words, left = gloo.run(2, one_leaves)
    assert left == "left" and words not in ("nothing", "left")
