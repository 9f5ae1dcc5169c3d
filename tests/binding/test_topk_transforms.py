"""torch.ops.gputopk.topk under torch.compile, export, vmap, and beside other parts of PyTorch."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch._dynamo.testing

import torch_topk
from tests import inputs, oracle

topk = torch.ops.gputopk.topk


# torch.compile and export.


def compiled(function, backend: str):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, dynamic=True, backend=backend)


def test_the_operator_compiles_whole_with_dynamic_shapes():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, dynamic=True, backend=counter)
    def function(x, k):
        values, indices = topk(x * 2, k, 0, False, magnitude=True)
        return values + 1, indices

    for rows, cols, k in ((20, 6, 3), (33, 5, 7), (50, 9, 20)):
        tensor = inputs.make("normal", rows, cols)
        values, indices = function(tensor, k)
        want_values, want_indices = topk(tensor * 2, k, 0, False, magnitude=True)
        assert torch.equal(values, want_values + 1) and torch.equal(indices, want_indices)
    assert counter.frame_count == 1, "recompiled"


def test_the_operator_compiles_with_inductor():
    tensor = inputs.make("normal", 5, 60)

    def function(x):
        values, indices = topk(x + 1, 4)
        return values * 2, indices

    for got, want in zip(compiled(function, "inductor")(tensor), function(tensor), strict=True):
        assert torch.equal(got, want)


def test_the_out_variant_compiles_whole():
    def function(x, values, indices):
        topk.out(x, 4, values=values, indices=indices)
        return values + 0

    tensor = inputs.make("normal", 5, 60)
    values, indices = torch.empty((5, 4)), torch.empty((5, 4), dtype=torch.int64)
    result = compiled(function, "aot_eager")(tensor, values, indices)
    oracle.assert_topk((values, indices), tensor, 4)
    assert torch.equal(result, values)


def test_the_operator_is_exported_with_dynamic_shapes():
    class Module(torch.nn.Module):
        def forward(self, x):
            return topk(x, 3)

    rows, cols = torch.export.Dim("rows"), torch.export.Dim("cols", min=4)
    program = torch.export.export(
        Module(), (inputs.make("normal", 5, 60),), dynamic_shapes={"x": {0: rows, 1: cols}}
    )
    tensor = inputs.make("normal", 9, 33)
    oracle.assert_topk(program.module()(tensor), tensor, 3)


# Other parts of PyTorch.


def test_a_lazily_cloned_input_stays_unmaterialised():
    for view in (lambda t: t, lambda t: t[1:], lambda t: t[:, 3:-2]):
        source = inputs.make("normal", 4, 50)
        lazy = view(torch._lazy_clone(source))
        oracle.assert_topk(topk(lazy, 3), view(source), 3)
        lazy = torch._lazy_clone(source)
        topk(view(lazy), 3)
        assert torch._C._is_cow_tensor(lazy)
        assert torch._C._is_cow_tensor(source)


def test_a_lazily_cloned_out_is_materialised():
    base = torch.full((4, 3), 99.0)
    lazy = torch._lazy_clone(base)
    topk.out(inputs.make("normal", 4, 50), 3, values=lazy, indices=torch.empty(4, 3, dtype=torch.int64))
    assert bool((base == 99).all()) and not bool((lazy == 99).any())


@pytest.mark.parametrize("in_dim", [0, 1, 2])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_vmap_gives_what_a_loop_gives(in_dim, dim):
    tensor = inputs.make("few_distinct", 12, 20).view(3, 4, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing rule warns that it loops
        values, indices = torch.vmap(lambda x: topk(x, 2, dim, False), in_dims=in_dim)(tensor)
    slices = [topk(x, 2, dim, False) for x in tensor.unbind(in_dim)]
    assert torch.equal(values, torch.stack([s[0] for s in slices]))
    assert torch.equal(indices, torch.stack([s[1] for s in slices]))


def test_vmap_over_rows_alone_and_nested():
    tensor = inputs.make("few_distinct", 12, 20).view(3, 4, 20)
    nested = torch.vmap(torch.vmap(lambda x: topk(x, 5)))(tensor)
    oracle.assert_topk(nested, tensor, 5)
    scalars = torch.vmap(lambda x: topk(x, 1))(torch.arange(4.0))
    assert scalars[0].tolist() == [0, 1, 2, 3] and scalars[1].tolist() == [0, 0, 0, 0]


# What vmap is to refuse: (shape of an example, arguments, words).
BAD_EXAMPLES = {
    "dim that the batch alone has": ((4, 5), (2, -3), ["Dimension out of range", "[-2, 1]", "-3"]),
    "dim of no example": ((4, 5), (2, 2), ["Dimension out of range", "[-2, 1]", "2"]),
    "dim of a scalar": ((), (1, 7), ["Dimension out of range", "[-1, 0]", "7"]),
    "k above the size": ((4, 5), (6,), ["selected index k out of range", "6", "5"]),
    "k below zero": ((4, 5), (-1, 0), ["selected index k out of range", "-1", "4"]),
    "k above one of a scalar": ((), (5,), ["selected index k out of range", "5", "1"]),
    "k below zero of a scalar": ((), (-1,), ["selected index k out of range", "-1", "1"]),
}


@pytest.mark.parametrize("operator", [topk, torch.ops.gputopk.differentiable_topk, torch_topk.topk])
@pytest.mark.parametrize("what", BAD_EXAMPLES)
def test_vmap_checks_the_arguments_of_an_example(what, operator):
    shape, arguments, words = BAD_EXAMPLES[what]
    with pytest.raises((RuntimeError, IndexError)) as caught:
        torch.vmap(lambda x: operator(x, *arguments))(torch.zeros(9, *shape))
    for word in words:
        assert word in str(caught.value)
    with pytest.raises((RuntimeError, IndexError)):
        torch.topk(torch.zeros(shape), *arguments)


@pytest.mark.parametrize("operator", [topk, torch.ops.gputopk.differentiable_topk, torch_topk.topk])
def test_vmap_hands_every_option_on(operator):
    tensor = inputs.make("mixed_rows", 6, 40).view(3, 2, 40)
    options = {"magnitude": True, "index_dtype": torch.int32}
    result = torch.vmap(lambda x: operator(x, 5, 0 - 1, False, **options))(tensor)
    oracle.assert_topk(result, tensor, 5, largest=False, **options)
    with pytest.raises(RuntimeError, match="algorithm air"):
        torch.vmap(lambda x: operator(x, 5, algorithm=1))(tensor)


def test_vmap_of_scalars_keeps_the_one_value_of_k_zero():
    scalars = torch.arange(4.0)
    slices = zip(*(topk(scalar, 0) for scalar in scalars), strict=True)
    for got, want in zip(torch.vmap(lambda x: topk(x, 0))(scalars), slices, strict=True):
        assert torch.equal(got, torch.stack(want))


def test_lazily_negated_and_zero_tensors_are_read_right():
    negated = torch.view_as_complex(inputs.make("normal", 40, 2)).conj().imag
    assert negated.is_neg()
    oracle.assert_topk(topk(negated, 7), negated.resolve_neg(), 7)
    values, indices = topk(torch._efficientzerotensor((3, 9)), 2)
    assert values.tolist() == [[0, 0]] * 3 and indices.tolist() == [[0, 1]] * 3


def test_autocast_leaves_the_dtype_alone():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert topk(torch.zeros(3, 7), 1)[0].dtype == torch.float32


def test_deterministic_mode_is_no_obstacle():
    torch.use_deterministic_algorithms(True)
    try:
        tensor = inputs.make("few_distinct", 3, 100)
        oracle.assert_topk(topk(tensor, 5), tensor, 5)
    finally:
        torch.use_deterministic_algorithms(False)
