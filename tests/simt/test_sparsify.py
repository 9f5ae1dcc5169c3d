"""gputopk::sparsify_'s kernels, and the selection between them, on the emulated GPU."""

from __future__ import annotations

import pytest
import torch

from tests import inputs
from tests import sparsify_reference as reference
from tests.simt import emulated

ALPHA, MU = -0.37109375, 0.8984375


def spread(tensor: torch.Tensor, apart: int) -> torch.Tensor:
    """The same in rows that lie `apart` elements more than their length apart; 0: adjacent."""
    rows, cols = tensor.shape
    wide = torch.zeros((rows, cols + apart), dtype=tensor.dtype)
    wide[:, :cols] = tensor
    return wide[:, :cols]


def run(self, k, apart=(0, 0, 0), seed=1, sm_count=2, **options):
    """By reference.check, both ways: indices put in order, and winners collected."""
    for collects in (False, True):
        reference.check(kernels(apart, seed, sm_count, collects), self, k, **options)


def kernels(apart, seed, sm_count, collects):
    """reference.check's function: the kernels, on copies whose rows lie so far apart."""

    def function(tensor, k, add=None, momentum=None, **others):
        mine = spread(tensor, apart[0])
        add = None if add is None else spread(add, apart[1])
        kept = None if momentum is None else spread(momentum, apart[2])
        values, indices, _ = emulated.library().sparsify(
            mine, k, add=add, momentum=kept, seed=seed, device=emulated.Device(sm_count=sm_count),
            collects=collects, **others,
        )  # fmt: skip
        tensor.copy_(mine)
        if momentum is not None:
            momentum.copy_(kept)
        return values, indices

    return function


@pytest.mark.parametrize("update", ["none", "add", "scaled", "momentum"])
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
def test_exact(dtype, add_dtype, update):
    # Vectors and a part of one; rows where no vector may begin; more than the threads take at once.
    for rows, cols, k, apart in (
        (1, 10_007, 90, (0, 0, 0)),
        (3, 130, 130, (1, 1, 3)),
        (5, 203, 7, (5, 13, 21)),
    ):
        self = inputs.make("normal", rows, cols, dtype)
        add = inputs.make("normal", rows, cols, torch.float32, seed=1).to(add_dtype)
        momentum = inputs.make("normal", rows, cols, torch.float32, seed=2).to(dtype)
        self = self.float().to(dtype)  # of float64 with 24 bits of mantissa
        options = {
            "none": {},
            "add": {"add": add},
            "scaled": {"add": add, "alpha": ALPHA, "index_dtype": torch.int64},
            "momentum": {"add": add, "momentum": momentum, "mu": MU},
        }[update]
        run(self, k, apart, **options)


@pytest.mark.parametrize(
    "name", ["all_nan", "nan_rows", "one_number_among_nan", "all_infinite", "few_distinct"]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_not_finite_is_never_kept(name, seed):
    self = inputs.make(name, 4, 3000, torch.float32)
    momentum = torch.ones_like(self)
    run(self, 40, seed=seed, sm_count=7, add=torch.ones_like(self), momentum=momentum, mu=MU)
    run(torch.zeros(1, 3000), 700, seed=seed, sm_count=3, add=self[:1].bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_winners_of_several_tiles(dtype):
    """More than one turn of a block's places, all equal and crowded rows, and rows that are not aligned."""
    for seed, (name, rows, cols, apart) in enumerate(
        (("normal", 2, 100_000, 3), ("few_distinct", 1, 70_001, 0), ("all_equal", 3, 40_000, 0))
    ):
        self = inputs.make(name, rows, cols, dtype)
        for k in (1, 900, 30_000):
            run(self, k, (apart, 0, 0), seed=seed, sm_count=5)


def test_nothing_selected():
    run(torch.randn(3, 500), 0, add=torch.randn(3, 500))
