"""torch_topk.topk: as strict as torch.topk and in its words, and what it adds."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
import torch.autograd.forward_ad as fwd

import torch_topk
from tests import inputs, oracle


def both(call) -> list:
    """What torch.topk and torch_topk.topk do: an exception, or a result."""
    outcomes = []
    for topk in (torch.topk, torch_topk.topk):
        try:
            outcomes.append(call(topk))
        except Exception as error:  # any type: it is compared
            outcomes.append(error)
    return outcomes


X = torch.arange(21.0).view(3, 7)
OUT = (torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int64))
with torch.inference_mode():
    INFERENCE = torch.zeros(3, 2)

# Calls that torch.topk refuses.
BAD = {
    "k is True": lambda topk: topk(X, True),
    "k is a float": lambda topk: topk(X, 2.0),
    "k is None": lambda topk: topk(X, None),
    "k is a str": lambda topk: topk(X, "2"),
    "k is a list": lambda topk: topk(X, [2]),
    "k is a float tensor": lambda topk: topk(X, torch.tensor(2.0)),
    "k is a vector": lambda topk: topk(X, torch.tensor([2, 2])),
    "k by name is True": lambda topk: topk(X, k=True),
    "dim is True": lambda topk: topk(X, 2, True),
    "dim is None": lambda topk: topk(X, 2, None),
    "dim is a float": lambda topk: topk(X, 2, 1.0),
    "dim is -1 as a float": lambda topk: topk(X, 2, -1.0),
    "dim by name is a str": lambda topk: topk(X, 2, dim="rows"),
    "largest is 1": lambda topk: topk(X, 2, -1, 1),
    "largest is None": lambda topk: topk(X, 2, -1, None),
    "largest by name is 0": lambda topk: topk(X, 2, largest=0),
    "sorted is 1": lambda topk: topk(X, 2, -1, True, 1),
    "sorted is None": lambda topk: topk(X, 2, sorted=None),
    "input is a list": lambda topk: topk([1.0, 2.0], 1),
    "input is None": lambda topk: topk(None, 1),
    "input is a float": lambda topk: topk(1.0, 1),
    "k is above the size": lambda topk: topk(X, 8),
    "k is below zero": lambda topk: topk(X, -1),
    "k is above a scalar's one": lambda topk: topk(torch.tensor(1.0), 2),
    "dim is too high": lambda topk: topk(X, 2, 2),
    "dim is too low": lambda topk: topk(X, 2, -3),
    "dim is too high for a scalar": lambda topk: topk(torch.tensor(1.0), 1, 1),
    "dim is checked before k": lambda topk: topk(X, 99, 5),
    "k is checked before complex": lambda topk: topk(X.to(torch.complex64), 99),
    "dim is checked before complex": lambda topk: topk(X.to(torch.complex64), 1, 9),
    "complex": lambda topk: topk(X.to(torch.complex64), 2),
    "k beyond 64 bits": lambda topk: topk(X, 2**70),
    "k below 64 bits": lambda topk: topk(X, -(2**63) - 1),
    "dim beyond 64 bits": lambda topk: topk(X, 2, 2**65),
    "dim beyond 64 bits, of an unsorted call": lambda topk: topk(X, 2, -(2**65), True, False),
    "k below zero, with outs to resize": lambda topk: topk(X, -1, out=OUT),
    "k above the size, with outs to resize": lambda topk: topk(X, 99, out=OUT),
    "complex, with outs to resize": lambda topk: topk(
        X.to(torch.complex64), 3, out=(OUT[0].to(torch.complex64), OUT[1])
    ),
    "values that are inference tensors": lambda topk: topk(X, 2, out=(INFERENCE, OUT[1])),
    "values of another dtype": lambda topk: topk(X, 2, out=(OUT[0].double(), OUT[1])),
    "indices of another dtype": lambda topk: topk(X, 2, out=(OUT[0], OUT[1].int())),
    "values of another device": lambda topk: topk(X, 2, out=(OUT[0].to("meta"), OUT[1])),
    "indices of another device": lambda topk: topk(X, 2, out=(OUT[0], OUT[1].to("meta"))),
    "out is one tensor": lambda topk: topk(X, 2, out=OUT[0]),
    "out is three tensors": lambda topk: topk(X, 2, out=(*OUT, OUT[1])),
    "out with grad": lambda topk: topk(X, 2, out=(OUT[0].clone().requires_grad_(), OUT[1])),
    "input with grad and out": lambda topk: topk(X.clone().requires_grad_(), 2, out=OUT),
    "expanded values": lambda topk: topk(X, 2, out=(torch.zeros(3, 1).expand(3, 2), OUT[1])),
    "an unknown argument": lambda topk: topk(X, 2, stable=True),
    "k is missing": lambda topk: topk(X),
}
# Python's own words: a call that a Python function cannot parse, or an out that torch's parser takes apart.
TYPE_ALONE = {"an unknown argument", "k is missing", "out is one tensor", "out is three tensors"}


def words(error: Exception) -> str:
    """The complaint itself; whether an argument came by position or by name is lost in a Python function."""
    return re.sub(r" \(position \d\)", "", str(error).splitlines()[0]).strip()


@pytest.mark.parametrize("what", BAD)
def test_a_refusal_is_of_torchs_type_and_in_torchs_words(what):
    theirs, ours = both(BAD[what])
    assert isinstance(theirs, Exception), "torch.topk accepts this"
    assert type(ours) is type(theirs), (theirs, ours)
    if what not in TYPE_ALONE:
        assert words(theirs) in words(ours)
    assert all(out.shape == (3, 2) for out in (*OUT, INFERENCE)), "resized, and then refused"
    oracle.assert_topk(torch_topk.topk(X, 2), X, 2)


GOOD = {
    "positional": lambda topk: topk(X, 2, 1, False, True),
    "named": lambda topk: topk(input=X, k=2, dim=0, largest=False, sorted=True),
    "k is a numpy-like integer": lambda topk: topk(X, __import__("numpy").int64(2)),
    "k is an integer tensor": lambda topk: topk(X, torch.tensor(2)),
    "k = 0": lambda topk: topk(X, 0),
    "scalar": lambda topk: topk(torch.tensor(3.0), 1),
    "scalar, dim 0": lambda topk: topk(torch.tensor(3.0), 1, 0),
    "empty": lambda topk: topk(torch.zeros(0, 3), 2),
    "meta": lambda topk: topk(X.to("meta"), 2),
    "meta, dim 0": lambda topk: topk(X.to("meta"), 2, 0, False),
    "requires grad": lambda topk: topk(X.clone().requires_grad_(), 2),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_torch_accepts_is_answered_alike(what):
    theirs, ours = both(GOOD[what])
    assert type(ours) is type(theirs) is torch.return_types.topk, ours
    for field in ("values", "indices"):
        mine, want = getattr(ours, field), getattr(theirs, field)
        assert mine.shape == want.shape and mine.dtype == want.dtype and mine.device == want.device
        assert mine.stride() == want.stride() and mine.requires_grad == want.requires_grad
        assert mine.is_meta or torch.equal(mine.detach(), want.detach())


def test_the_result_unpacks_and_names_its_parts():
    result = torch_topk.topk(X, 2)
    values, indices = result
    assert result.values is values is result[0] and result.indices is indices is result[1]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_flag_reaches_the_operator(dtype):
    tensor = inputs.make("mixed_rows", 40, 60, dtype)
    for largest in (True, False):
        for order in (True, False):
            for magnitude in (True, False):
                for index_dtype in (torch.int64, torch.int32):
                    flags = {"sorted": order, "magnitude": magnitude, "index_dtype": index_dtype}
                    result = torch_topk.topk(tensor, 3, 0, largest, **flags)
                    oracle.assert_topk(result, tensor, 3, 0, largest, **flags)


# Algorithms.


def test_the_algorithms_have_their_numbers():
    numbers = {"auto": 0, "air": 1, "grid_select": 2, "delegate": 3, "bitonic": 4}
    numbers |= {"split_bucket": 5, "sort": 6}
    assert {a.name: int(a) for a in torch_topk.Algorithm} == numbers


@pytest.mark.parametrize("algorithm", ["auto", torch_topk.Algorithm.auto, 0])
def test_auto_may_be_written_in_three_ways(algorithm):
    oracle.assert_topk(torch_topk.topk(X, 2, algorithm=algorithm), X, 2)


@pytest.mark.parametrize("algorithm", [a for a in torch_topk.Algorithm if int(a)], ids=lambda a: a.name)
def test_an_algorithm_that_cannot_serve_says_why(algorithm):
    for spelling in (algorithm, algorithm.name, int(algorithm)):
        with pytest.raises(RuntimeError) as caught:
            torch_topk.topk(X, 2, algorithm=spelling)
        message = str(caught.value)
        assert algorithm.name in message and "topk" in message
        assert len(message.splitlines()[0]) > len(algorithm.name) + 20, f"no reason: {message}"


@pytest.mark.parametrize("algorithm", ["fastest", "AIR", "sort", 5, 6, 7, -1, None, 1.0, True, b"air"])
def test_an_unknown_algorithm_is_refused(algorithm):
    with pytest.raises((ValueError, TypeError, RuntimeError), match="algorithm"):
        torch_topk.topk(X, 2, algorithm=algorithm)


@pytest.mark.parametrize("arguments", [{"magnitude": 1}, {"magnitude": None}, {"index_dtype": "int32"}])
def test_our_own_arguments_are_as_strict(arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        torch_topk.topk(X, 2, **arguments)


@pytest.mark.parametrize("index_dtype", [torch.int16, torch.float32, torch.uint32])
def test_an_index_dtype_of_neither_width_is_refused(index_dtype):
    with pytest.raises((RuntimeError, TypeError, ValueError), match="index_dtype"):
        torch_topk.topk(X, 2, index_dtype=index_dtype)


# Outs.


def test_outs_are_filled_and_returned():
    values, indices = torch.full((3, 2), 9.0), torch.full((3, 2), 9)
    result = torch_topk.topk(X, 2, out=(values, indices))
    assert isinstance(result, torch.return_types.topk)
    assert result.values.data_ptr() == values.data_ptr() and result.indices.data_ptr() == indices.data_ptr()
    oracle.assert_topk((values, indices), X, 2)


def test_outs_may_be_a_list_and_strided():
    values, indices = torch.full((2, 3), 9.0).T, torch.full((3, 4), 9)[:, ::2]
    torch_topk.topk(X, 2, out=[values, indices])
    oracle.assert_topk((values, indices), X, 2, contiguous=False)


def test_empty_outs_are_resized_in_silence_and_others_with_torchs_warning():
    def outcome(topk, shape):
        values, indices = torch.zeros(shape), torch.zeros(shape, dtype=torch.int64)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            topk(X, 2, out=(values, indices))
        oracle.assert_topk((values, indices), X, 2)
        return [(w.category, str(w.message).split(".")[0]) for w in caught]

    for shape in ((0,), (3, 5), (4,)):
        ours, theirs = outcome(torch_topk.topk, shape), outcome(torch.topk, shape)
        assert bool(ours) == bool(theirs)
        assert all(category is UserWarning and "resized" in words for category, words in ours), ours


def test_outs_that_are_refused_keep_their_shapes():
    for values, indices in (
        (torch.zeros(5), torch.zeros(5, dtype=torch.int32)),
        (torch.zeros(5, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)),
        (torch.zeros(5), torch.zeros(5, dtype=torch.int64, device="meta")),
    ):
        with warnings.catch_warnings(), pytest.raises(RuntimeError, match="Expected out tensor"):
            warnings.simplefilter("error")
            torch_topk.topk(X, 2, out=(values, indices))
        assert values.shape == indices.shape == (5,)


def test_outs_keep_their_shapes_where_something_else_is_refused():
    with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
        torch_topk.topk(X, 3, out=(INFERENCE, torch.zeros(3, 3, dtype=torch.int64)))  # torch.topk resizes it
    assert INFERENCE.shape == (3, 2)
    values, indices = torch.zeros(5), torch.zeros(5, dtype=torch.int64)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="air"):
        warnings.simplefilter("error")
        torch_topk.topk(X, 2, algorithm="air", out=(values, indices))
    assert values.shape == indices.shape == (5,)


def test_a_tangent_is_not_written_to_outs():
    for topk in (torch.topk, torch_topk.topk):
        with fwd.dual_level(), pytest.raises(NotImplementedError, match="forward AD"):
            topk(fwd.make_dual(X, X), 2, out=(torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int64)))


def test_outs_may_be_views_of_negatives():
    """Their memory does not hold what they are."""
    for shape, arguments in (((3, 2), {}), ((3, 2), {"order": "index"}), ((0,), {})):
        values = torch.zeros(shape, dtype=torch.complex64).conj().imag
        indices = torch._neg_view(torch.zeros(shape, dtype=torch.int64))
        torch_topk.topk(X, 2, out=(values, indices), **arguments)
        want = torch_topk.topk(X, 2, **arguments)
        assert values.is_neg() and torch.equal(values, want.values) and torch.equal(indices, want.indices)


@pytest.mark.parametrize("arguments", [{}, {"order": "index"}], ids=str)
def test_without_grad_an_out_that_requires_it_is_resized_too(arguments):
    for topk, more in ((torch.topk, {}), (torch_topk.topk, arguments)):
        leaf, indices = torch.zeros(0, requires_grad=True), torch.zeros(0, dtype=torch.int64)
        with torch.no_grad():
            topk(X, 2, out=(leaf, indices), **more)
        assert leaf.shape == (3, 2) and leaf.requires_grad and leaf.is_leaf
        assert leaf.tolist() == X[:, -2:].flip(1 if not more else ()).tolist()


def test_a_subclass_among_the_outs_sees_the_call():
    class Answering(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function

    for out in ((OUT[0].as_subclass(Answering), OUT[1]), [OUT[0], OUT[1].as_subclass(Answering)]):
        assert torch_topk.topk(X, 2, out=out) is torch_topk.topk


def test_what_differs_from_torch_is_as_the_readme_has_it():
    memory = X.clone()
    with pytest.raises(RuntimeError, match="single memory location"):
        torch_topk.topk(memory, 2, out=(memory[:, :2], OUT[1]))
    with pytest.raises(TypeError, match="axis"):
        torch_topk.topk(X, 2, axis=0)


def test_outs_of_a_result_may_be_used_again():
    result = torch_topk.topk(X, 2)
    torch_topk.topk(-X, 2, out=result)
    oracle.assert_topk(result, -X, 2)


# Memory.


def test_out_of_memory_is_torchs_exception_and_later_calls_are_right():
    endless = torch.zeros(1, 7).expand(2**48, 7)
    for call in (
        lambda: torch_topk.topk(endless, 2),
        lambda: torch_topk.topk(endless.T, 2, 0),
        lambda: torch_topk.topk(endless[:, ::2], 2),  # needs a copy of the input
        lambda: torch_topk.topk(endless.detach().requires_grad_(), 2),
    ):
        with pytest.raises(torch.OutOfMemoryError, match=r"cannot allocate \d{16,} bytes on cpu"):
            call()
        oracle.assert_topk(torch_topk.topk(X, 2), X, 2)


def test_a_count_of_elements_beyond_64_bits_is_refused():
    for rows, cols, k in ((2**60, 7, 2), (2**62, 1, 1)):
        with pytest.raises(RuntimeError, match="cannot allocate"):
            torch_topk.topk(torch.zeros(1, cols).expand(rows, cols), k)


# Dtypes that neither serves.


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.uint4, torch.bits8], ids=str
)
@pytest.mark.parametrize("arguments", [{}, {"sorted": False}], ids=str)
def test_a_dtype_that_is_not_served_is_named(dtype, arguments):
    with pytest.raises(NotImplementedError, match=re.escape(str(dtype))):
        torch_topk.topk(torch.empty(3, 7, dtype=dtype), 2, **arguments)


# Gradients.


def loss(topk, tensor, **arguments):
    return (topk(tensor, 3, **arguments).values ** 2 * torch.arange(1.0, 4.0).to(tensor)).sum()


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("largest", [True, False])
def test_gradients_are_torchs(dim, largest):
    tensor = inputs.make("normal", 4, 5, torch.float64)
    grads = []
    for topk in (torch.topk, torch_topk.topk):
        leaf = tensor.clone().requires_grad_()
        values, indices = topk(leaf, 3, dim, largest)
        assert values.requires_grad and not indices.requires_grad
        (values**2 * torch.arange(1.0, values.numel() + 1).view(values.shape)).sum().backward()
        grads.append(leaf.grad)
    assert torch.equal(*grads)


def test_gradients_pass_gradcheck_and_gradgradcheck():
    tensor = torch.randperm(20, dtype=torch.float64).view(4, 5).requires_grad_()
    for arguments in ({}, {"largest": False}, {"magnitude": True}, {"sorted": False}):

        def values(x, arguments=arguments):
            return torch_topk.topk(x, 2, **arguments).values

        torch.autograd.gradcheck(values, (tensor,))
        torch.autograd.gradgradcheck(lambda x: values(x) ** 3, (tensor,))


def test_gradients_of_ties_go_to_the_lower_index():
    leaf = torch.ones(2, 6, requires_grad=True)
    torch_topk.topk(leaf, 2).values.sum().backward()
    assert leaf.grad.tolist() == [[1, 1, 0, 0, 0, 0]] * 2


@pytest.mark.parametrize("shape", [(), (0, 4), (3, 4)], ids=str)
def test_gradients_of_odd_shapes_have_their_shape(shape):
    leaf = torch.zeros(shape, requires_grad=True)
    for k in (0, 1):
        values = torch_topk.topk(leaf, k).values
        assert values.requires_grad
        (grad,) = torch.autograd.grad(values.sum(), leaf, allow_unused=True)
        assert grad is not None and grad.shape == leaf.shape


def test_nothing_requires_grad_where_grad_is_off():
    leaf = X.clone().requires_grad_()
    with torch.no_grad():
        assert not torch_topk.topk(leaf, 2).values.requires_grad
    with torch.inference_mode():
        assert not torch_topk.topk(leaf, 2).values.requires_grad


def test_gradients_of_bit_exact_values():
    """gather copies bits, so asking for gradients changes none."""
    tensor = inputs.make("nan_scattered", 4, 60)
    want = torch_topk.topk(tensor, 20)
    got = torch_topk.topk(tensor.clone().requires_grad_(), 20)
    assert torch.equal(oracle.as_ints(got.values), oracle.as_ints(want.values))
    assert torch.equal(got.indices, want.indices)


def test_int32_indices_go_with_gradients():
    leaf = X.clone().requires_grad_()
    values, indices = torch_topk.topk(leaf, 2, index_dtype=torch.int32)
    assert indices.dtype == torch.int32
    values.sum().backward()
    assert leaf.grad.sum() == 6


# torch.func, torch.compile.


def test_forward_gradients_are_torchs():
    tensor, tangent = inputs.make("normal", 4, 6, torch.float64), inputs.make("uniform", 4, 6, torch.float64)
    ours, theirs = (
        torch.func.jvp(lambda x, topk=topk: topk(x, 3, 0).values ** 2, (tensor,), (tangent,))
        for topk in (torch_topk.topk, torch.topk)
    )
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_a_tensor_subclass_sees_the_call():
    seen = []

    class Watcher(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    values, indices = torch_topk.topk(X.as_subclass(Watcher), 2)
    assert torch_topk.topk in seen
    oracle.assert_topk((values.as_subclass(torch.Tensor), indices.as_subclass(torch.Tensor)), X, 2)


def test_function_transforms_go_through():
    tensor = inputs.make("normal", 4, 6, torch.float64)
    grad = torch.func.vmap(torch.func.grad(lambda x: torch_topk.topk(x, 2).values.pow(2).sum()))(tensor)
    want = torch.func.vmap(torch.func.grad(lambda x: torch.topk(x, 2).values.pow(2).sum()))(tensor)
    assert torch.equal(grad, want)


def test_the_wrapper_compiles_whole_with_dynamic_shapes():
    torch._dynamo.reset()
    function = torch.compile(
        lambda x, k: torch_topk.topk(x, k, largest=False), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for rows, cols, k in ((3, 20, 4), (5, 31, 9)):
        tensor = inputs.make("normal", rows, cols)
        oracle.assert_topk(function(tensor, k), tensor, k, largest=False)


def test_gradients_go_through_a_compiled_wrapper():
    torch._dynamo.reset()
    leaf = inputs.make("normal", 3, 20).requires_grad_()
    torch.compile(lambda x: loss(torch_topk.topk, x), fullgraph=True, backend="aot_eager")(leaf).backward()
    want = leaf.detach().clone().requires_grad_()
    loss(torch.topk, want).backward()
    assert torch.equal(leaf.grad, want.grad)
