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
        # The k-th's index as a list of winners has it, k apart.
        apart = torch.stack((index * 0 - 5, index), 1)[:, 1]
        kept = torch.empty_like(tensor) if number % 2 else tensor.clone()
        emulated.library().mask_of_kth(
            tensor if number % 2 else kept, apart, lengths, *flags, kept, FILL, seed=number + 9
        )
        assert torch.equal(bits_of(kept), torch.where(got, bits_of(tensor), fill_of(tensor)))


# Rows of a thread, of quarters, halves and whole warps, all registers full and not; listed, in one launch
# and, of a long list, two; and compared with the k-th.
KEPT = (
    (33, 7, 3, "bitonic.one_thread", "one thread a row, of up to 16"),
    (300, 16, 8, "", "in registers; bitonic: one thread a row, of up to 16"),
    (35, 31, 5, "bitonic.one_thread", "one thread a row, of up to 32"),
    (64, 64, 6, "bitonic.one_thread", "one thread a row, of up to 64"),
    (5, 63, 8, "bitonic.one_thread", "one thread a row, of up to 64"),
    (9, 64, 40, "", "in registers; bitonic: 16 lanes a row, 16"),
    (33, 32, 3, "", "in registers; bitonic: 8 lanes a row, 8"),
    (7, 128, 8, "", "in registers; bitonic: 8 lanes a row, 16"),
    (9, 250, 20, "", "in registers; bitonic: 16 lanes a row, 16"),
    (3, 500, 33, "", "in registers; bitonic: 32 lanes a row, 16"),
    (5, 1001, 60, "", "in registers; bitonic: 32 lanes a row, 32"),
    (4, 1024, 17, "", "in registers; bitonic: 32 lanes a row, 32"),
    (3, 20_000, 5, "", "from a list; "),
    (2, 16_384, 1024, "", "from a list; "),
    (3, 20_011, 1100, "", "from a list; "),
    (1, 40_001, 2400, "", "from a list; "),
    (3, 3000, 1500, "", "from the k-th; "),
    (2, 4097, 4096, "", "from the k-th; "),
)
FILL = 0x7A51_93C2_64F0_1B38


def bits_of(tensor):  # before a copy: that of a bool is 0 or 1
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.itemsize])


def fill_of(tensor):
    return torch.tensor([FILL]).view(bits_of(tensor).dtype)[0]


@DTYPES
def test_the_best_are_kept_in_their_places(dtype):
    families = [
        name for name in ("few_distinct", "mixed_rows", "all_equal") if name in inputs.names_for(dtype)
    ]
    emulator = emulated.library()
    for number, (rows, cols, k, form, way) in enumerate(KEPT):
        if dtype not in (torch.float32, torch.bfloat16, torch.uint8) and number % 3:
            continue
        if form and dtype.itemsize * cols > 256:  # more than a thread has registers for
            continue
        largest, magnitude = number % 2 == 0, number % 5 == 0
        family = families[number % len(families)]
        gap = (0, 16, 3)[number // 3 % 3]
        whole = inputs.make(family, rows, cols + gap, dtype, seed=number)
        tensor = whole[:, :cols]
        mask, plan = emulator.keep_topk(tensor, k, largest, magnitude, form=form, seed=number + 1)
        if dtype == torch.float32:
            assert way in plan, plan
        want = torch.zeros(tensor.shape, dtype=torch.bool)
        for row, marks in zip(tensor, want, strict=True):
            marks[torch.from_numpy(oracle.expected(row, k, 0, largest, magnitude)[1].copy())] = True
        assert torch.equal(mask, want)
        kept = torch.where(want, bits_of(tensor), fill_of(tensor))
        beside = torch.empty(rows, cols + gap, dtype=dtype)[:, :cols]
        emulator.keep_topk(tensor, k, largest, magnitude, beside, FILL, form, seed=number + 2)
        assert torch.equal(bits_of(beside), kept)
        behind = whole[:, cols:].clone()
        emulator.keep_topk(tensor, k, largest, magnitude, tensor, FILL, form, seed=number + 3)
        assert torch.equal(bits_of(tensor), kept)
        assert torch.equal(bits_of(whole[:, cols:]), bits_of(behind))
