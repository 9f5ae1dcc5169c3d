"""topk(order=...): the sequence of what was selected."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import torch_topk
from tests import inputs, oracle
from torch_topk import _elsewhere


def expected(tensor, k, dim, largest):
    """The oracle's set, by ascending index."""
    values, indices = torch_topk.topk(tensor, k, dim, largest)
    oracle.assert_topk((values, indices), tensor, k, dim, largest)
    indices, places = indices.sort(dim)
    return oracle.as_ints(values).gather(dim, places), indices


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize(
    ("shape", "k"), [((5, 40), 7), ((3, 70000), 50), ((2, 9000), 4500), ((300, 5), 5)], ids=str
)
def test_by_index_is_the_same_set_by_ascending_index(dtype, shape, k):
    tensor = inputs.make("few_distinct", *shape, dtype)
    for dim, most in ((1, k), (0, 2)):
        for largest in (True, False):
            values, indices = torch_topk.topk(tensor, most, dim, largest, order="index")
            want_values, want_indices = expected(tensor, most, dim, largest)
            assert torch.equal(indices, want_indices)
            assert torch.equal(oracle.as_ints(values), want_values)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
def test_outs_are_filled_by_index(dtype, index_dtype):
    tensor = inputs.make("few_distinct", 6, 50, dtype)
    want_values, want_indices = expected(tensor, 9, 1, True)
    out = torch.empty(0, dtype=dtype), torch.empty(6, 9, dtype=index_dtype)
    assert torch_topk.topk(tensor, 9, order="index", index_dtype=index_dtype, out=out).values is out[0]
    assert torch.equal(out[1].long(), want_indices)
    assert torch.equal(oracle.as_ints(out[0]), want_values)


def test_order_decides_over_sorted():
    tensor = inputs.make("normal", 4, 30)
    for flag in (True, False):
        oracle.assert_topk(torch_topk.topk(tensor, 5, sorted=flag, order="value"), tensor, 5)
        oracle.assert_topk(torch_topk.topk(tensor, 5, sorted=flag, order="any"), tensor, 5, sorted=False)
        indices = torch_topk.topk(tensor, 5, sorted=flag, order="index").indices
        assert torch.equal(indices, indices.sort(1).values)


class Sorts(TorchDispatchMode):
    """Whether indices were put in order."""

    def __init__(self):
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        ours = function.overloadpacket is torch.ops.gputopk._topk_by_index
        self.seen |= ours or function.overloadpacket is torch.ops.aten.sort
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("device", "requires_grad"), [("cpu", False), ("cpu", True), ("cuda", False)])
def test_any_order_is_by_index_where_all_is_to_be_deterministic(monkeypatch, device, requires_grad):
    """Of tensors without data, so that the road of CUDA's is seen too: the CPU's "any" is by index anyway."""
    monkeypatch.setattr(_elsewhere, "has_cuda", True)
    unsorted = [{"sorted": False}, {"order": "any"}, {"sorted": False, "dim": 0}]
    by_value = [{}, {"dim": 0}, {"order": "value", "sorted": False}]
    with FakeTensorMode():
        tensor = torch.zeros(2, 3, device=device, requires_grad=requires_grad)
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            try:
                for arguments in unsorted + by_value:
                    with Sorts() as sorts:
                        torch_topk.topk(tensor, 1, **arguments)
                    assert sorts.seen == (deterministic and arguments in unsorted), arguments
            finally:
                torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("order", "error"), [("best", ValueError), ("", ValueError), (True, TypeError), (1, TypeError)]
)
def test_another_order_is_refused(order, error):
    with pytest.raises(error, match="order"):
        torch_topk.topk(torch.zeros(3), 1, order=order)


def test_gradients_follow_the_order():
    tensor = inputs.make("normal", 4, 6, torch.float64)
    leaf = tensor.clone().requires_grad_()
    values, indices = torch_topk.topk(leaf, 2, order="index")
    assert torch.equal(indices, indices.sort(1).values)
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)
    (values * weights).sum().backward()
    assert torch.equal(leaf.grad, torch.zeros_like(tensor).scatter_(1, indices, weights.expand(4, 2)))


def test_an_order_is_compiled_and_has_a_fake():
    torch._dynamo.reset()
    tensor = inputs.make("normal", 4, 30)
    function = torch.compile(
        lambda x: torch_topk.topk(x, 5, order="index"), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for got, want in zip(function(tensor), torch_topk.topk(tensor, 5, order="index"), strict=True):
        assert torch.equal(got, want)
    with FakeTensorMode():
        assert torch_topk.topk(torch.empty(4, 30), 5, order="index").indices.shape == (4, 5)


def test_by_index_too_values_are_bit_copies_where_gradients_are_asked_for():
    tensor = inputs.make("nan_scattered", 4, 60, torch.bfloat16)
    leaf = tensor.clone().requires_grad_()
    values, indices = torch_topk.topk(leaf, 20, order="index")
    assert values.requires_grad
    assert torch.equal(oracle.as_ints(values.detach()), oracle.as_ints(tensor).gather(1, indices))


@pytest.mark.parametrize(
    ("deterministic", "arguments"), [(False, {"order": "index"}), (True, {"sorted": False})]
)
def test_outs_of_an_order_compile_whole_and_have_fakes(deterministic, arguments):
    torch._dynamo.reset()
    tensor = inputs.make("normal", 4, 30)

    def function(tensor, values, indices):
        return torch_topk.topk(tensor, 5, out=(values, indices), **arguments)

    outs = torch.zeros(4, 5), torch.zeros(4, 5, dtype=torch.int64)
    torch.use_deterministic_algorithms(deterministic)
    try:
        torch.compile(function, fullgraph=True, backend="aot_eager")(tensor, *outs)
        want = torch_topk.topk(tensor, 5, **arguments)
        with FakeTensorMode():
            function(*(torch.empty(t.shape, dtype=t.dtype) for t in (tensor, *outs)))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(outs[0], want.values) and torch.equal(outs[1], want.indices)


def test_outs_of_an_order_are_refused_before_anything_is_written():
    tensor = torch.tensor([[3, 1, 2, 7], [9, 8, 1, 0]])
    values, indices = torch.zeros(2, 2, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int64)
    for out in ((values, values), (values, indices[:, :1].expand(2, 2)), (tensor[:, :2], indices)):
        for deterministic, arguments in ((False, {"order": "index"}), (True, {"sorted": False})):
            torch.use_deterministic_algorithms(deterministic)
            try:
                with pytest.raises(RuntimeError, match="single memory location"):
                    torch_topk.topk(tensor, 2, out=out, **arguments)
            finally:
                torch.use_deterministic_algorithms(False)
    assert not values.any() and not indices.any() and tensor[0].tolist() == [3, 1, 2, 7]
