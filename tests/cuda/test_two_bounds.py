"""Delegate top-k between two bounds from a sample, on a GPU: every dtype, named input and boundary."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES, FLAGS, check_forms

pytestmark = pytest.mark.gpu

FORM = "delegate.two_bounds"


def check(tensor: torch.Tensor, k: int, **flags) -> bool:
    """All winners, and the last alone. False where the form does not serve."""
    if not check_forms(tensor, k, (FORM,), **flags):
        return False
    flags.pop("sorted", None)
    values, indices = torch.ops.gputopk._form(tensor, k, FORM, sorted=False, last_alone=True, **flags)
    sorted_ = torch.ops.gputopk.topk(tensor, k, sorted=True, algorithm=1, **flags)
    last, last_value = indices[:, -1:].contiguous(), oracle.as_ints(values[:, -1:].contiguous())
    assert torch.equal(last, sorted_[1][:, -1:])
    assert torch.equal(last_value, oracle.as_ints(tensor).gather(1, last))
    return True


@pytest.mark.parametrize(
    ("rows", "cols", "shares"),
    [(1, 2**20 + 3, (0.03, 0.5, 0.99)), (3, 300_001, (0.01, 0.2)), (40, 70_007, (0.1, 0.7))],
    ids=str,
)  # fmt: skip
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, shares):
    served = []
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        for share, flags in zip(itertools.cycle(shares), FLAGS, strict=False):
            served.append(check(tensor, int(cols * share), **flags))
    assert sum(served) >= len(served) // 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of)
def test_k_from_few_to_all_of_a_long_row(device, dtype):
    served = []
    for name in ("normal", "increasing", "few_distinct", "all_equal"):
        tensor = inputs.make(name, 1, 2**22 + 17, dtype, device)
        cols = tensor.shape[1]
        for k in (300, 2**12, 2**15, cols // 9, cols // 2, cols - 3000, cols - 1, cols):
            served.append(check(tensor, k, sorted=k < 2**15))
    assert sum(served) >= len(served) // 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=oracle.name_of)
def test_rows_that_begin_anywhere(device, dtype):
    """In the middle of a vector, with ends of fewer than one."""
    wide = inputs.make("normal", 2, 2**18 + 40, dtype, device)
    for begin, cols in itertools.product((0, 1, 3, 15), (2**18, 2**18 + 1, 2**18 - 7)):
        for k in (cols // 50, cols // 3):
            assert check(wide[:, begin : begin + cols], k)


@pytest.mark.parametrize("run", [2, 8, 64, 4096])
@pytest.mark.parametrize("share", [0.02, 0.4])
def test_elements_that_are_alike_where_a_sample_reads_them_together(device, run, share):
    """Runs of one value, in any order: a sector of the sample says what one element does."""
    cols = 2**22
    steps = torch.randn(3, cols // run, device=device)
    tensor = steps.repeat_interleave(run, dim=1)
    for row in (tensor[:1], tensor):
        assert check(row, int(cols * share))


def test_rows_made_to_mislead_the_sample(device):
    """What is sampled is the best, or the worst, of the row."""
    cols = 2**20
    for value in (10.0, -10.0):
        tensor = torch.randn(1, cols, device=device)
        tensor.view(-1, 8)[::3] = value  # whole sectors
        tensor.view(-1)[::128] = -value
        for k in (cols // 100, cols // 3, cols // 2):
            assert check(tensor, k)


def test_rows_of_more_than_32_bit_indices(device):
    if torch.cuda.get_device_properties(device).total_memory < 40e9:
        pytest.skip("needs 40 GB")
    cols = 2**32 + 9
    tensor = torch.randint(0, 256, (1, cols), dtype=torch.uint8, device=device)
    k = cols // 40
    values, indices = torch.ops.gputopk._form(tensor, k, FORM, sorted=False)
    least = values.min()
    above = int((tensor > least).sum())
    assert above < k and int((values > least).sum()) == above
    assert torch.equal(tensor[0, indices[0]], values[0])
    # Of those that tie with the last, the first ones.
    ties = indices[values == least]
    assert len(ties.unique()) == k - above
    assert int((tensor[0, : int(ties.max()) + 1] == least).sum()) == k - above
