"""The way of most calls of ``torch_topk.topk``: torch's aten::topk, led to our kernels by dispatch keys of
their own. What autograd, modes, the profiler and odd tensors must not notice."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_topk
from tests.oracle import assert_topk

DIMS = (-1, 0, 1)


def ties(*shape: int) -> torch.Tensor:
    return torch.randint(4, shape, generator=torch.Generator().manual_seed(0)).float()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", DIMS)
def test_ties_go_to_the_lower_index_with_a_gradient_and_into_outs_too(dim, largest):
    x = ties(40, 50)
    leaf = x.clone().requires_grad_()
    outs = torch.topk(x, 7, dim)
    assert_topk(torch_topk.topk(x, 7, dim, largest), x, 7, dim, largest)
    values, indices = torch_topk.topk(leaf, 7, dim, largest)
    assert_topk((values.detach(), indices), x, 7, dim, largest)
    assert_topk(torch_topk.topk(x, 7, dim, largest, out=outs), x, 7, dim, largest)


def test_torch_topk_is_left_as_it_is():
    x = ties(1, 5000)
    before = torch.topk(x, 50)
    torch_topk.topk(x, 50)
    after = torch.topk(x, 50)
    assert torch.equal(before.indices, after.indices)


def test_a_gradient_is_recorded_by_torch_itself_and_keeps_the_indices_alone():
    leaf = ties(30, 40).requires_grad_()
    kept = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor * 1  # a hook may call what it likes

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        values, indices = torch_topk.topk(leaf, 3)
    assert type(values.grad_fn).__name__ == "TopkBackward0" and not indices.requires_grad
    assert len(kept) == 1 and torch.equal(kept[0], indices)


@pytest.mark.parametrize("arguments", [(0.5,), (2, 7), (9999,), ("2",)])
def test_a_call_that_fails_leaves_no_key_behind(arguments):
    x = ties(1, 5000)
    before = torch.topk(x, 50).indices
    with pytest.raises((TypeError, IndexError, RuntimeError)):
        torch_topk.topk(x, *arguments)
    assert torch.equal(torch.topk(x, 50).indices, before)


def test_threads_have_keys_of_their_own():
    x = ties(1, 5000)
    theirs, failures = torch.topk(x, 50).indices, []

    def turn(ours: bool) -> None:
        for _ in range(300):
            indices = (torch_topk if ours else torch).topk(x, 50).indices
            if torch.equal(indices, theirs) == ours:
                failures.append(indices)

    threads = [threading.Thread(target=turn, args=(number % 2 == 0,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_is_recorded_where_grad_is_off():
    leaf = ties(3, 4).requires_grad_()
    with torch.no_grad():
        assert not torch_topk.topk(leaf, 2).values.requires_grad
    with torch.inference_mode():
        x = ties(3, 4)
        result = torch_topk.topk(x, 2)
        assert result.values.is_inference() and not torch_topk.topk(leaf, 2).values.requires_grad
        assert_topk(torch_topk.topk(x, 1, out=torch.topk(x, 1)), x, 1, -1)


def test_an_integer_parameter_and_a_float8_leaf_are_served():
    x = ties(5, 6)
    assert torch_topk.topk(torch.nn.Parameter(x.int(), requires_grad=False), 2).values.dtype == torch.int32
    leaf = x.to(torch.float8_e5m2).requires_grad_()
    torch_topk.topk(leaf, 2).values.backward(torch.ones(5, 2).to(torch.float8_e5m2))
    assert leaf.grad.float().sum() == 10


def test_outs_are_known_to_be_written():
    x = ties(5, 6).requires_grad_()
    values, indices = torch.topk(x.detach(), 2)
    product = x[:, :2] * values
    version = values._version
    torch_topk.topk(x.detach(), 2, out=(values, indices))
    assert values._version == version + 1 and indices._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_dispatch_mode_sees_our_operator():
    seen = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **kwargs or {})

    x = ties(3, 4)
    with Seeing():
        torch_topk.topk(x, 2)
        torch_topk.topk(x, 2, out=torch.return_types.topk((torch.empty(3, 2), torch.empty(3, 2).long())))
    assert torch.ops.gputopk.topk.default in seen and torch.ops.gputopk.topk.out in seen


def test_a_profile_names_our_operator():
    x = ties(3, 4)
    with torch.profiler.profile() as profile:
        torch_topk.topk(x, 2)
        torch_topk.topk(x, 2, out=torch.topk(x, 2))
        torch_topk.topk(x.requires_grad_(), 2)
    names = [event.key for event in profile.key_averages() for _ in range(event.count)]
    assert names.count("gputopk::topk") == 3, names


# Tensors whose elements are not what their memory holds ----------------------------------------------------


def test_a_negative_is_not_taken_for_its_memory():
    imaginary = torch.complex(ties(6, 30), ties(6, 30)).conj().imag
    assert imaginary.is_neg()
    assert_topk(torch_topk.topk(imaginary, 3), imaginary.clone(), 3, -1)
    assert_topk(torch_topk.topk(imaginary, 3, out=torch.topk(imaginary, 3)), imaginary.clone(), 3, -1)


def test_a_negative_is_written_to_as_what_it_stands_for():
    x = ties(6, 30)
    values = torch.zeros(6, 3, dtype=torch.complex64).conj().imag
    torch_topk.topk(x, 3, out=(values, torch.empty(6, 3).long()))
    assert values.is_neg() and torch.equal(values, torch_topk.topk(x, 3).values)


def test_zeros_without_memory_are_zeros():
    zeros = torch._efficientzerotensor((3, 4))
    values, indices = torch_topk.topk(zeros, 2)
    assert not values.any() and indices.tolist() == [[0, 1]] * 3


@pytest.mark.parametrize("kind", ["sparse", "csr", "nested", "mkldnn"])
def test_a_layout_without_strides_is_refused(kind):
    x = ties(3, 4)
    odd = {
        "sparse": lambda: x.to_sparse(),
        "csr": lambda: x.to_sparse_csr(),
        "nested": lambda: torch.nested.nested_tensor([x, x[:2]]),
        "mkldnn": lambda: x.to_mkldnn(),
    }[kind]()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch_topk.topk(odd, 2)


def test_a_lazy_clone_of_the_input_is_written_to_apart():
    x = ties(3, 4)
    lazy = torch._lazy_clone(x)
    torch_topk.topk(ties(3, 9), 4, out=(lazy, torch.empty(3, 4).long()))
    assert torch.equal(x, ties(3, 4))


@pytest.mark.parametrize("change", ["dtype", "shape", "overlap", "itself"])
def test_outs_that_do_not_fit_are_judged_before_they_are_written(change):
    x = ties(3, 8)
    before = copy.deepcopy(x)
    values, indices = torch.full((3, 2), 7.0), torch.full((3, 2), 7)
    wrong = {
        "dtype": lambda: (values.double(), indices),
        "shape": lambda: (values[:, :0], indices),
        "overlap": lambda: (x[:, :2], indices),
        "itself": lambda: (values[:1].expand(3, 2), indices),
    }[change]()
    if change == "shape":
        assert_topk(torch_topk.topk(x, 2, out=wrong), x, 2, -1)
    else:
        with pytest.raises(RuntimeError):
            torch_topk.topk(x, 2, out=wrong)
        assert torch.equal(x, before) and (indices == 7).all()
