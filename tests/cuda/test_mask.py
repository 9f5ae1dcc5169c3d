"""Masks of the k best on a GPU: the kernel beside the CPU's, and both ways to the set beside topk."""

from __future__ import annotations

import pytest
import torch

import torch_topk
from tests import inputs, oracle

mask_of_kth = torch.ops.gputopk._mask_of_kth.default
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)


@pytest.mark.gpu
@DTYPES
def test_the_kernel_marks_what_the_cpu_marks(device, dtype):
    shapes = ((9, 1), (70, 3), (5, 33), (3, 256), (2000, 64), (2, 8208), (3, 100_003), (1, 1 << 20))
    for number, (rows, cols) in enumerate(shapes):
        apart = (0, 16, 3)[number % 3]
        tensor = inputs.make("mixed_rows", rows, cols + apart, dtype, seed=number)[:, :cols]
        index = torch.arange(rows) * 7919 % (cols + 2) - 1
        lengths = None if number % 2 else torch.arange(rows) * 31 % (cols + 9) - 4
        flags = {"largest": number % 2 == 0, "magnitude": number % 5 == 0, "equals": number % 3 == 1}
        want = mask_of_kth(tensor, index, lengths, **flags)
        own = [None if one is None else one.to(device) for one in (tensor, index, lengths)]
        assert torch.equal(mask_of_kth(*own, **flags).cpu(), want)


@pytest.mark.gpu
@DTYPES
def test_listed_and_compared_are_the_set_of_topk(device, dtype):
    fill = 0
    for name in ("mixed_rows", "few_distinct"):
        tensor = inputs.make(name, 5, 20_000, dtype, device, seed=3)
        for k in (1, 1250, 1251, 15_000):
            indices = torch_topk.topk(tensor, k, magnitude=k == 1, largest=k != 1251).indices
            want = torch.zeros(tensor.shape, dtype=torch.bool, device=device).scatter_(1, indices, True)
            flags = {"magnitude": k == 1, "largest": k != 1251}
            assert torch.equal(torch_topk.topk_mask(tensor, k, **flags), want)
            kept = torch.where(want, oracle.as_ints(tensor), 0)
            assert torch.equal(oracle.as_ints(torch_topk.keep_topk(tensor, k, fill, **flags)), kept)
            changed = tensor.clone()
            torch_topk.keep_topk_(changed, k, fill, **flags)
            assert torch.equal(oracle.as_ints(changed), kept)
