"""The kernel of masks on the emulated GPU, against the oracle's order."""

from __future__ import annotations

import pytest
import torch

import torch_topk  # noqa: F401  its operators
from tests import inputs, oracle
from tests.simt import emulated

DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
# Rows that share a block, that are a tile and one element more or less, and of several tiles.
SHAPES = ((9, 1), (70, 3), (5, 33), (3, 256), (3, 64), (2, 2048), (2, 2049), (2, 8208), (1, 20_000))


def wanted(tensor, index, lengths, largest, magnitude, equals):
    mask = torch.ones(tensor.shape, dtype=torch.bool)
    for r, (row, at) in enumerate(zip(tensor, index.tolist(), strict=True)):
        if 0 <= at < row.numel():
            order = oracle.expected(row, row.numel(), 0, largest, magnitude)[1]
            ranks = torch.from_numpy(oracle.ranks(oracle.bits_of(row), row.dtype, magnitude))
            place = order.tolist().index(at)
            mask[r] = False
            mask[r, torch.from_numpy(order[: place + 1].copy())] = True
            if equals:
                mask[r] |= ranks == ranks[at]
        if lengths is not None:
            mask[r, max(0, int(lengths[r])) :] = True
    return mask


@DTYPES
def test_what_is_no_worse_than_an_element(dtype):
    families = [
        name for name in ("few_distinct", "nan_scattered", "normal") if name in inputs.names_for(dtype)
    ]
    for number, (rows, cols) in enumerate(SHAPES):
        largest, magnitude, equals = number % 2 == 0, number % 5 == 0, number % 3 == 1
        family = families[number % len(families)]
        # Rows side by side, and apart: aligned, and not.
        apart = (0, 16, 3)[number % 3]
        tensor = inputs.make(family, rows, cols + apart, dtype, seed=number)[:, :cols]
        index = torch.arange(rows) * 7919 % (cols + 2) - 1  # and one on either side
        lengths = None if number % 2 else torch.arange(rows) * 31 % (cols + 9) - 4
        flags = (largest, magnitude, equals)
        got = emulated.library().mask_of_kth(tensor, index, lengths, *flags, seed=number + 1)
        assert torch.equal(got, wanted(tensor, index, lengths, *flags))
        on_cpu = torch.ops.gputopk._mask_of_kth(
            tensor, index, lengths, largest=largest, magnitude=magnitude, equals=equals
        )
        assert torch.equal(got, on_cpu)
