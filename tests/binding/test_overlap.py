"""Outs that share memory with themselves, each other or the input: every layout against its listed bytes."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

import torch_topk

topk = torch.ops.gputopk.topk


def bytes_of(tensor: torch.Tensor) -> list[int]:
    """The address of every byte of every element."""
    places = [
        tensor.data_ptr()
        + tensor.element_size() * sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
        for index in itertools.product(*map(range, tensor.shape))
    ]
    return [place + byte for place in places for byte in range(tensor.element_size())]


def are_apart(*tensors: torch.Tensor) -> bool:
    """Whether the first has no byte twice, nor one in common with the others."""
    written = bytes_of(tensors[0])
    return len(set(written)) == len(written) and not any(set(written) & set(bytes_of(t)) for t in tensors[1:])


def random_view(generator: random.Random, base: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
    strides = [generator.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12]) for _ in shape]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= base.numel():
        return None
    return base.as_strided(shape, strides, generator.randrange(base.numel() - last))


def by_index(tensor, k, *, values, indices):
    """Results that are copied to the outs."""
    torch_topk.topk(tensor, k, order="index", out=(values, indices))


INTO = pytest.mark.parametrize("into", [topk.out, by_index], ids=["operator", "copied"])


@INTO
def test_what_shares_no_byte_is_accepted_and_what_does_is_refused(into):
    generator = random.Random(0)
    seen = {True: 0, False: 0}
    while min(seen.values()) < 1000:
        dtype = generator.choice([torch.int8, torch.int16, torch.int32, torch.int64])
        shared = torch.zeros(48, dtype=torch.int64)
        bases = [shared.view(dtype)[:48], torch.zeros(48, dtype=dtype)]
        index_bases = [shared, torch.zeros(48, dtype=torch.int64)]
        outer = generator.choice([(), (2,), (3,), (2, 2)])
        cols = generator.randint(1, 5)
        k = generator.randint(1, cols)
        tensor = random_view(generator, bases[0], (*outer, cols))
        values = random_view(generator, generator.choice(bases), (*outer, k))
        indices = random_view(generator, generator.choice(index_bases), (*outer, k))
        if tensor is None or values is None or indices is None:
            continue
        good = are_apart(values, indices, tensor) and are_apart(indices, tensor)
        seen[good] += 1
        if good:
            into(tensor, k, values=values, indices=indices)
        else:
            before = values.tolist(), indices.tolist()
            with pytest.raises(RuntimeError, match="single memory location"):
                into(tensor, k, values=values, indices=indices)
            assert (values.tolist(), indices.tolist()) == before


BIG = torch.zeros(3000, 2011)
# Views of one storage with no element in common: (input, values)
APART = {
    "columns in turn, rows of odd length": (BIG[:, ::2], BIG[:, 1:9:2]),
    "columns beside columns": (BIG[:, :2000], BIG[:, 2003:2007]),
    "rows below rows": (BIG[:1500], BIG[1500:, :4]),
    "rows in turn": (BIG[::2], BIG[1::2, 7:11]),
    "transposed blocks": (BIG[:, :1000].T, BIG[:1000, 1500:1504]),
}


@INTO
@pytest.mark.parametrize("what", APART)
def test_large_views_of_one_storage_are_told_apart(what, into):
    tensor, values = APART[what]
    indices = torch.zeros(values.shape, dtype=torch.int64)
    into(tensor, 4, values=values, indices=indices)


def test_a_lazily_cloned_input_is_no_obstacle_to_its_source():
    source = torch.arange(12.0).view(3, 4)
    lazy = torch._lazy_clone(source)
    topk.out(lazy, 4, values=source, indices=torch.zeros(3, 4, dtype=torch.int64))
    assert source[0].tolist() == [3, 2, 1, 0] and lazy[0].tolist() == [0, 1, 2, 3]
