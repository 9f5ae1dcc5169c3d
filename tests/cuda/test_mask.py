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


@pytest.mark.gpu
@DTYPES
def test_short_rows_are_kept_in_their_places(device, dtype):
    """By a thread, by parts of warps and whole ones, full blocks and not; of rows aligned, and not."""
    shapes = (
        (70_001, 7, 3),
        (65_536, 64, 6),
        (30_000, 61, 8),
        (4001, 128, 8),
        (2000, 250, 20),
        (999, 1000, 32),
    )
    for number, (rows, cols, k) in enumerate(shapes):
        apart = (0, 16, 3)[number % 3]
        whole = inputs.make("mixed_rows", rows, cols + apart, dtype, device, seed=number)
        tensor, flags = whole[:, :cols], {"largest": number % 2 == 0, "magnitude": number % 4 == 1}
        indices = torch_topk.topk(tensor, k, **flags).indices
        want = torch.zeros(tensor.shape, dtype=torch.bool, device=device).scatter_(1, indices, True)
        assert torch.equal(torch_topk.topk_mask(tensor, k, **flags), want)
        kept = torch.where(want, oracle.as_ints(tensor), 1)
        fill = int(torch.ones((), dtype=kept.dtype))
        got = torch.ops.gputopk._keep_topk(tensor, k, fill, **flags)
        assert torch.equal(oracle.as_ints(got), kept)
        torch.ops.gputopk._keep_topk_(tensor, k, fill, **flags)
        assert torch.equal(oracle.as_ints(tensor), kept)
        behind = inputs.make("mixed_rows", rows, cols + apart, dtype, device, seed=number)[:, cols:]
        assert torch.equal(oracle.as_ints(whole[:, cols:]), oracle.as_ints(behind))


@pytest.mark.gpu
def test_masks_of_long_lists_are_the_set_of_topk(device):
    """Of lists that a launch of its own marks, in rows of many tiles."""
    for rows, cols, k in ((2, 1_000_003, 5000), (1, 1 << 24, 100_000)):
        tensor = inputs.make("normal", rows, cols, torch.float32, device, seed=5)
        indices = torch_topk.topk(tensor, k).indices
        want = torch.zeros(tensor.shape, dtype=torch.bool, device=device).scatter_(1, indices, True)
        assert torch.equal(torch_topk.topk_mask(tensor, k), want)
        kept = torch_topk.keep_topk(tensor, k, 0.0)
        assert torch.equal(kept, torch.where(want, tensor, 0.0))
        assert torch_topk.keep_topk_(tensor, k, 0.0) is tensor
        assert torch.equal(kept, tensor)


@pytest.mark.gpu
def test_calls_follow_each_other_without_waiting(device):
    """A step behind a selection is launched ahead: it must see what stands before it in the stream."""

    def steps(tensor):
        found = []
        for k in (5, 700, 3):
            tensor.add_(1)
            torch_topk.keep_topk_(tensor, k, 0.0)
            found.append(torch_topk.topk(tensor, 9).values)
            found.append(torch_topk.topk_mask(tensor, k))
        return [tensor, *found]

    for rows, cols in ((3, 12_000), (300, 1000), (1, 1_000_000)):
        first = inputs.make("normal", rows, cols, torch.float32, device, seed=2)
        wanted = steps(first.cpu())
        tensor = first.clone()
        for got, want in zip(steps(tensor), wanted, strict=True):
            assert torch.equal(got.cpu(), want)
        held = first.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = steps(held)
        for _ in range(20):
            held.copy_(first)
            graph.replay()
            for got, want in zip(captured, wanted, strict=True):
                assert torch.equal(got.cpu(), want)


@pytest.mark.gpu
def test_more_elements_than_an_int_counts(device):
    cols = (1 << 30) + 4099
    tensor = torch.randint(-128, 128, (3, cols), dtype=torch.int8, device=device)
    for k in (1000, 1 << 27):
        kth = torch_topk.kth_value(tensor, k)
        mask = torch_topk.topk_mask(tensor, k)
        for row in range(3):
            value, index = int(kth.values[row]), int(kth.indices[row])
            above, equal = tensor[row] > value, tensor[row] == value
            equal[index + 1 :] = False
            assert torch.equal(mask[row], above | equal)
            assert int(mask[row].sum()) == k
        del mask, above, equal
        torch.cuda.empty_cache()
