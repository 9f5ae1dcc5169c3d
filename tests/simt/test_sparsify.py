"""gputopk::sparsify_'s kernels, and the selection between them, on the emulated GPU."""

from __future__ import annotations

import re

import pytest
import torch

from tests import delegate_model, inputs, tuning
from tests import sparsify_reference as reference
from tests.simt import emulated


def spread(tensor: torch.Tensor, apart: int) -> torch.Tensor:
    """The same in rows that lie `apart` elements more than their length apart; 0: adjacent."""
    rows, cols = tensor.shape
    wide = torch.zeros((rows, cols + apart), dtype=tensor.dtype)
    wide[:, :cols] = tensor
    return wide[:, :cols]


def run(self, k, apart=(0, 0, 0), seed=1, sm_count=2, **options):
    """By reference.check, all ways: step by step, and with one read, and in one launch, where these serve."""
    for one_read in (False, True):
        reference.check(kernels(apart, seed, sm_count, one_read), self, k, **options)
    reference.check(kernels(apart, seed, sm_count, None, resident=True), self, k, **options)


def kernels(apart, seed, sm_count, one_read, plans=None, two_sided=None, resident=False):
    """reference.check's function: the kernels, on copies whose rows lie so far apart. Adds to `plans`."""

    def function(tensor, k, add=None, momentum=None, **others):
        mine = spread(tensor, apart[0])
        add = None if add is None else spread(add, apart[1])
        kept = None if momentum is None else spread(momentum, apart[2])
        values, indices, plan = emulated.library().sparsify(
            mine, k, add=add, momentum=kept, seed=seed, device=emulated.Device(sm_count=sm_count),
            resident=resident, one_read=one_read, two_sided=two_sided, **others,
        )  # fmt: skip
        if plans is not None:
            plans.append(plan)
        tensor.copy_(mine)
        if momentum is not None:
            momentum.copy_(kept)
        return values, indices

    return function


@pytest.mark.parametrize("update", reference.UPDATES)
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
        options = reference.options_of(update, add, momentum)
        run(self, k, apart, **options)


@pytest.mark.parametrize(
    "name", ["all_nan", "nan_rows", "one_number_among_nan", "all_infinite", "few_distinct"]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_not_finite_is_never_kept(name, seed):
    self = inputs.make(name, 4, 3000, torch.float32)
    momentum = torch.ones_like(self)
    run(self, 40, seed=seed, sm_count=7, add=torch.ones_like(self), momentum=momentum, mu=reference.MU)
    run(torch.zeros(1, 3000), 700, seed=seed, sm_count=3, add=self[:1].bfloat16())


LEAST = tuning.number("kSampleMinCols")


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("update", reference.UPDATES)
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
def test_one_read(dtype, add_dtype, update, two_sided):
    """Rows of whole chunks and of a part of one, from the shortest that there are; few winners, of a sample
    of lines, and many, of a sample of elements; by one bound and by two."""
    for rows, cols, k, apart in (
        (1, LEAST, 50, 0),
        (2, LEAST + 2056, LEAST // 50, 8),
        (1, LEAST + 13, 8000, 0),
    ):
        self = inputs.make("normal", rows, cols, torch.float32).to(dtype)
        add = inputs.make("normal", rows, cols, torch.float32, seed=1).to(add_dtype)
        momentum = inputs.make("normal", rows, cols, torch.float32, seed=2).to(dtype)
        options = reference.options_of(update, add, momentum)
        plans = []
        reference.check(kernels((apart,) * 3, 1, 3, True, plans, two_sided), self, k, **options)
        assert ("one read: bounds are" if two_sided else "one read: bound is") in plans[0]


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("k", [1, 40, 900, 8000])
@pytest.mark.parametrize(
    "name",
    ["all_equal", "few_distinct", "increasing", "decreasing", "winners_in_one_subrange", "all_nan",
     "nan_rows", "one_number_among_nan", "all_infinite", "twelve_bit_random"],
)  # fmt: skip
def test_one_read_of_hostile_rows(name, k, two_sided):
    """What two bounds tell is taken at once where there is no momentum."""
    self = inputs.make(name, 2, LEAST + 4096, torch.float32)
    add = torch.ones_like(self)
    function = kernels((0, 0, 0), 2, 5, True, two_sided=two_sided)
    reference.check(function, self, k, add=add, momentum=torch.ones_like(self), mu=reference.MU)
    if two_sided:
        reference.check(function, self, k, add=add)
        reference.check(function, self, k)


@pytest.mark.parametrize("k", [3, 500, 7000])
def test_a_bound_that_misleads(k):
    """A sample that is far better than the row, so that fewer than k reach its bound, or far worse, so that
    more do than there is room for."""
    cols = 2 * LEAST
    sampled = delegate_model.sampled_elements(cols, k, torch.float32)
    for inside, outside in ((2.0, 1.0), (1.0, 2.0)):
        self = outside + torch.rand(1, cols) / 4
        self[0, sampled] = inside + torch.rand(len(sampled)) / 4
        reference.check(kernels((0, 0, 0), 3, 4, True), self, k)


@pytest.mark.parametrize("update", reference.UPDATES)
@pytest.mark.parametrize("shift", [-4, -0.05, -0.01, 0, 0.01, 0.05, 4, "losers"])
def test_two_bounds_that_mislead(shift, update):
    """A sample that is a little better or worse than the row, or far: bounds that the k-th best is beyond, of
    candidates that are all stored or too many; or whose winners are as the row's, but not what is near them:
    then more than can be stored reach the lower bound, and the upper one is right. What was taken and does
    not win, or is not stored, is put back."""
    cols, k = 2 * LEAST, 12_000
    self = 1 + torch.rand(1, cols)
    plans = []
    reference.check(kernels((0, 0, 0), 2, 4, True, plans, True), self, k)
    of_block, blocks = map(int, re.search(r"of (\d+) elements.* of (\d+) blocks", plans[0]).groups())
    sampled = delegate_model.elements_of_strata(cols, of_block * blocks)
    if shift == "losers":
        self[0, sampled] *= self[0, sampled] >= self.topk(k).values[0, -1]
    else:
        self[0, sampled] += shift
    add = torch.rand(1, cols) / 1024
    options = reference.options_of(update, add, torch.zeros_like(self))
    reference.check(kernels((0, 0, 0), 3, 4, True, two_sided=True), self, k, **options)


def test_long_rows_are_read_once():
    least = tuning.number("kOneReadMinCols")
    for cols, reads_once in ((least - 8, False), (least, True)):
        plans = []
        reference.check(kernels((0, 0, 0), 1, 7, None, plans), torch.randn(1, cols), 90)
        assert ("one read" in plans[0]) == reads_once


@pytest.mark.parametrize("update", reference.UPDATES)
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
def test_resident(dtype, add_dtype, update):
    """Parts of whole vectors and of a part of one, of several blocks and of one, blocks that have nothing;
    few winners to all."""
    for rows, cols, sm_count, k, apart in (
        (1, 20_003, 3, 77, 0),
        (1, 30_000, 4, 15_000, 0),
        (3, 9_000, 7, 1, 8),
        (2, 4_112, 2, 4_112, 0),
        (1, 5, 4, 2, 0),
    ):
        self = inputs.make("normal", rows, cols, torch.float32).to(dtype)
        add = inputs.make("normal", rows, cols, torch.float32, seed=1).to(add_dtype)
        momentum = inputs.make("normal", rows, cols, torch.float32, seed=2).to(dtype)
        options = reference.options_of(update, add, momentum)
        plans = []
        function = kernels((apart,) * 3, cols, sm_count, None, plans, resident=True)
        reference.check(function, self, k, **options)
        assert "resident" in plans[0]


@pytest.mark.parametrize("k", [40, 1500, 15_999])
@pytest.mark.parametrize(
    "name",
    ["all_equal", "few_distinct", "increasing", "decreasing", "winners_in_one_subrange", "all_nan",
     "nan_rows", "one_number_among_nan", "all_infinite", "twelve_bit_random", "signed_zeros"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_resident_hostile_rows(name, k, dtype):
    """Digits that go on to the index, rows of which none is finite, lists that are ranked and narrowed."""
    self = inputs.make(name, 2, 16_000, torch.float32).to(dtype)
    function = kernels((0, 0, 0), 2, 6, None, resident=True)
    reference.check(function, self, k)
    add = torch.ones_like(self)
    reference.check(function, self, k, add=add, momentum=torch.ones_like(self), mu=reference.MU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resident_zeros_win_up_to_the_end_of_a_row(dtype):
    """The last vector is a part of one, and what fills it up is as good as the worst winners."""
    self = torch.zeros(1, 20_003, dtype=dtype)
    self[0, ::700] = torch.arange(1, 30)
    function = kernels((0, 0, 0), 1, 4, None, resident=True)
    for k in (100, 20_000, 20_002, 20_003):
        reference.check(function, self, k, add=torch.zeros_like(self))


def test_resident_infinities_that_lose_to_nan_are_dropped():
    """They lie far from all NaN, and much is stored before the bound is known."""
    self = torch.randn(1, 16_000)
    self[0, 100:150] = torch.nan
    self[0, 8_000:8_300:7] = torch.inf
    function = kernels((0, 0, 0), 1, 4, None, resident=True)
    for k in (20, 49, 50, 51, 93, 94):
        reference.check(function, self, k, add=torch.zeros_like(self))


def test_rows_that_shared_memory_holds_are_resident():
    cols = 2 * 4 * 12_000
    for sm_count, is_resident in ((1, False), (2, True)):
        plans = []
        reference.check(kernels((0, 0, 0), 1, sm_count, None, plans, resident=None), torch.randn(1, cols), 90)
        assert ("resident" in plans[0]) == is_resident


def test_rows_that_do_not_begin_at_vectors_go_step_by_step():
    """Dense rows of a length that is no multiple of a vector's: the first begins well, the next do not."""
    for dtype, cols in ((torch.float32, LEAST + 13), (torch.bfloat16, LEAST + 4)):
        self = inputs.make("normal", 2, cols, torch.float32).to(dtype)
        plans = []
        reference.check(kernels((0, 0, 0), 1, 3, True, plans), self, 90, add=torch.ones_like(self))
        assert "one read" not in plans[0]


def test_nothing_selected():
    run(torch.randn(3, 500), 0, add=torch.randn(3, 500))
