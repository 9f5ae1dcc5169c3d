"""Gradients of torch_topk.topk under torch's transforms: each beside torch.topk's."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import torch_topk
from tests import inputs, oracle

BOTH = (torch.topk, torch_topk.topk)
X = inputs.make("normal", 4, 6, torch.float64)


def pull_back(function):
    def pulled(x):
        result, pull = vjp(function, x)
        return pull(result.cos())[0]

    return pulled


# Of tensor -> tensor, tensor -> tensor.
TRANSFORMS = {
    "grad": lambda function: grad(lambda x: function(x).sum()),
    "vjp": pull_back,
    "jvp": lambda function: lambda x: jvp(function, (x,), (x.cos(),))[1],
    "vmap": vmap,
    "jacfwd": jacfwd,
    "jacrev": jacrev,
    "hessian": hessian,
    "compile": lambda function: torch.compile(function, backend="eager", fullgraph=True, dynamic=False),
    "checkpoint": lambda function: lambda x: checkpoint(function, x, use_reentrant=False),
}
REVERSE = {"grad", "vjp", "jacrev", "hessian"}


def is_for_torch(names: tuple[str, ...]) -> bool:
    """Whether torch has the composition: of compile, around the rest, but for a hessian inside a transform
    (which fails, and leaves a state in which others fail); of checkpoint, not inside a transform, and around
    none that goes backward."""
    if names == ("compile", "checkpoint"):
        return True
    if names[0] == "compile" and names[2:] == ("hessian",):
        return False
    if names[0] == "compile":
        inner = set(names[1:])
    else:
        inner = set(itertools.dropwhile(lambda name: name == "checkpoint", names))
    backward_inside = names[0] == "checkpoint" and inner & REVERSE
    return not inner & {"compile", "checkpoint"} and not backward_inside


COMPOSITIONS = [
    names
    for depth in (1, 2, 3)
    for names in itertools.product(TRANSFORMS, repeat=depth)
    if is_for_torch(names)
]


def transformed(topk, names: tuple[str, ...]) -> list[torch.Tensor]:
    """What the composition gives, and the gradient through it."""

    def function(x):
        return topk(x, 2).values.sin()

    for name in reversed(names):
        function = TRANSFORMS[name](function)
    shape = (2,) * names.count("vmap") + (3,)
    numel = 3 * 2 ** names.count("vmap")
    # Cloned, as Dynamo and functorch get along badly with leaves that are views.
    leaf = (torch.arange(numel, dtype=torch.float64) * 7 % numel / numel).view(shape).clone().requires_grad_()
    torch._dynamo.reset()
    result = function(leaf)
    return [result, torch.autograd.grad(result.sum(), leaf)[0]]


@pytest.mark.parametrize("names", COMPOSITIONS, ids="-".join)
def test_every_composition_of_transforms_gives_torchs_numbers(names):
    # Compiling torch.topk too would change no number, and take as long again.
    theirs = transformed(torch.topk, tuple(name for name in names if name != "compile"))
    ours = transformed(torch_topk.topk, names)
    for want, got in zip(theirs, ours, strict=True):
        assert torch.equal(got, want)


# Ways through autograd that are no composition.


def scalar(topk):
    return lambda x: topk(x, 2).values.pow(3).sum()


def dual(topk):
    with fwd.dual_level():
        return fwd.unpack_dual(topk(fwd.make_dual(X, X.cos()), 2, 0).values).tangent


def compiled_on_a_dual(topk):
    function = TRANSFORMS["compile"](lambda x: topk(x, 2).values)
    with fwd.dual_level():
        return fwd.unpack_dual(function(fwd.make_dual(X, X.cos()))).tangent


def reverse_over_forward(topk):
    tangent = X.cos().requires_grad_()
    with fwd.dual_level():
        fwd.unpack_dual(topk(fwd.make_dual(X, tangent), 2).values).tangent.pow(2).sum().backward()
    return tangent.grad


def backward_through_vmap(topk):
    leaf = X.clone().requires_grad_()
    vmap(lambda x: topk(x, 2).values.pow(3))(leaf).sum().backward()
    return leaf.grad


def batched_backward(topk):
    leaf = X.clone().requires_grad_()
    values = topk(leaf, 2).values
    directions = torch.eye(values.numel(), dtype=values.dtype).view(-1, *values.shape)
    return torch.autograd.grad(values, leaf, directions, is_grads_batched=True)[0]


def compiled_backward(topk):
    leaf = X.clone().requires_grad_()
    torch.compile(scalar(topk), backend="aot_eager", fullgraph=True)(leaf).backward()
    return leaf.grad


def compiled_by_aot(transform):
    def through(topk):
        function = transform(lambda x: topk(x, 2).values.sin())
        return torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)(X)

    return through


def made_fx(topk):
    return make_fx(grad(scalar(topk)))(X)(X.flip(1))


class Scored(torch.nn.Module):
    def __init__(self, topk):
        super().__init__()
        self.topk = topk
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 6, dtype=torch.float64))

    def forward(self, x):
        return self.topk(x * self.weight, 2).values.pow(2)


def gradient_of(scored, function):
    function(X.cos()).sum().backward()
    return scored.weight.grad


def traced_by_jit(topk):
    scored = Scored(topk)
    traced = torch.jit.trace(scored, X)  # which checks that it traces the same once more
    return gradient_of(traced, traced)


def traced_without_grad_by_jit(topk):
    """The trace may be called with what the example was not."""
    leaf = X.clone().requires_grad_()
    torch.jit.trace(scalar(topk), X)(leaf).backward()
    return leaf.grad


def exported(topk):
    scored = Scored(topk)
    return gradient_of(scored, torch.export.export(scored, (X,)).module())


def exported_without_grad(topk):
    class Plain(torch.nn.Module):
        def forward(self, x):
            return scalar(topk)(x)

    leaf = X.clone().requires_grad_()
    torch.export.export(Plain(), (X,)).module()(leaf).backward()
    return leaf.grad


def exported_with_a_transform(strict):
    class Pushed(torch.nn.Module):
        def __init__(self, topk):
            super().__init__()
            self.topk = topk

        def forward(self, x):
            return jvp(lambda x: self.topk(x, 2).values.sin(), (x,), (x.cos(),))[1]

    def through(topk):
        return torch.export.export(Pushed(topk), (X,), strict=strict).module()(X)

    return through


WAYS = {
    "dual numbers": dual,
    "a compiled function of a dual number": compiled_on_a_dual,
    "reverse over forward": reverse_over_forward,
    "backward through vmap": backward_through_vmap,
    "backward in batches": batched_backward,
    "backward of a compiled function": compiled_backward,
    **{
        f"{name}, compiled with autograd": compiled_by_aot(TRANSFORMS[name])
        for name in ("vjp", "jvp", "hessian")
    },
    "make_fx": made_fx,
    "jit.trace": traced_by_jit,
    "jit.trace of an example without grad": traced_without_grad_by_jit,
    "export": exported,
    "export of an example without grad": exported_without_grad,
    "export of a transform": exported_with_a_transform(strict=False),
    "strict export of a transform": exported_with_a_transform(strict=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_torchs_by(way):
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit
        want, got = (WAYS[way](topk) for topk in BOTH)
    assert want is not None and torch.equal(got, want)


# What is kept.


def kept_bytes(topk, **arguments) -> int:
    leaf = torch.randn(1000, 1000, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        topk(leaf, 3, **arguments)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept)


def test_the_indices_alone_are_kept_for_backward():
    want, got = (kept_bytes(topk) for topk in BOTH)
    assert got == want == 1000 * 3 * 8
    assert kept_bytes(torch_topk.topk, index_dtype=torch.int32) == 1000 * 3 * 4


def test_an_input_may_change_before_backward_and_indices_may_not():
    for topk in BOTH:
        leaf = X.clone().requires_grad_()
        changed = leaf * 1
        values, _ = topk(changed, 2)
        changed.zero_()
        values.sum().backward()
        assert leaf.grad.sum() == 2 * len(X)

        values, indices = topk(leaf, 2)
        indices.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            values.sum().backward()


def graph_of(function, *arguments) -> str:
    """What AOTAutograd hands to a compiler."""
    graphs = []

    def backend(module, _):
        graphs.append(module.code)
        return module.forward

    torch._dynamo.reset()
    compiler = torch._dynamo.backends.common.aot_autograd(fw_compiler=backend)
    torch.compile(function, backend=compiler, fullgraph=True)(*arguments)
    (code,) = graphs
    return code


def test_a_compiled_function_without_gradients_pays_for_none():
    code = graph_of(lambda x: torch_topk.topk(x, 2).values, X)
    assert code.count("torch.ops.gputopk.topk.default") == 1
    assert "gather" not in code and "differentiable" not in code


# Dtypes.


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=oracle.name_of)
def test_float8_may_require_grad(dtype):
    tensor = inputs.make("normal", 4, 6).to(dtype)
    leaf = tensor.clone().requires_grad_()
    values, indices = torch_topk.topk(leaf, 2)
    oracle.assert_topk((values.detach(), indices), tensor, 2)
    (values.float() * 2).sum().backward()
    want = torch.zeros(4, 6).scatter_(1, indices, 2.0)
    assert leaf.grad.dtype == dtype and torch.equal(leaf.grad.float(), want)
    with fwd.dual_level():
        pushed = fwd.unpack_dual(torch_topk.topk(fwd.make_dual(tensor, tensor), 2).values).tangent
    assert torch.equal(oracle.as_ints(pushed), oracle.as_ints(values.detach()))


def test_dims_counted_from_the_end_have_gradients():
    tensor = inputs.make("normal", 24, 5, torch.float64).view(2, 3, 4, 5)
    for dim in range(-4, 4):
        grads = []
        for topk in BOTH:
            leaf = tensor.clone().requires_grad_()
            values = topk(leaf, 2, dim).values
            grads += torch.autograd.grad((values * values.cos().detach()).sum(), leaf)
        assert torch.equal(*grads)


def test_a_tangent_reaches_the_call_that_is_made_most():
    """Its shortcut has conditions of its own: no argument but k."""
    want, got = (jvp(lambda x, topk=topk: topk(x, 2).values, (X,), (X.cos(),))[1] for topk in BOTH)
    assert torch.equal(got, want)
    theirs, ours = (dual(lambda x, k, dim, topk=topk: topk(x, k)) for topk in BOTH)
    assert torch.equal(ours, theirs)


POSITIONS = torch.arange(6)
# Of float8 the bits are moved as integers, which have no derivatives. Functions of a row of 6.
OF_FLOAT8 = {
    "topk": lambda x: torch_topk.topk(x, 2).values,
    "topk by index": lambda x: torch_topk.topk(x, 2, order="index").values,
    "kth_value": lambda x: torch_topk.kth_value(x, 2).values,
    "kth_value of a tensor k": lambda x: torch_topk.kth_value(x, torch.tensor(2)).values,
    "keep_topk": lambda x: torch_topk.keep_topk(x, 2, 0.0),
    "keep_topk_": lambda x: torch_topk.keep_topk_(x, 2, 0.0),
    "keep_topk_ of a view": lambda x: (torch_topk.keep_topk_(x[:4], 2, 0.0), x)[1],
    "topk_where": lambda x: torch_topk.topk_where(x, None, 2).values,
    "topk_where of two keys": lambda x: torch_topk.topk_where((x, x.detach().float()), None, 2).values[0],
    "merge_topk": lambda x: torch_topk.merge_topk([x.view(1, 6)], [POSITIONS.view(1, 6)], 2).values,
    "merge_topk, padded": lambda x: torch_topk.merge_topk(x.view(2, 1, 3), POSITIONS.view(2, 1, 3), 7).values,
}


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=oracle.name_of)
@pytest.mark.parametrize("what", OF_FLOAT8)
def test_gradients_of_float8_are_those_of_other_dtypes(what, dtype):
    row = torch.tensor([1.0, 4.0, 2.0, 3.0, -1.0, 0.5])

    def of(dtype):
        # Derivatives that float8 holds, and not 0 at what is filled in.
        return lambda x: OF_FLOAT8[what](x.to(dtype, copy=True)).float().clamp(min=-9).add(1).square()

    want = of(torch.float32)(row)
    gradient = grad(lambda x: of(torch.float32)(x).sum())(row)
    leaf = row.clone().requires_grad_()
    values = of(dtype)(leaf)
    values.sum().backward()
    assert torch.equal(values.detach(), want) and torch.equal(leaf.grad, gradient)
    assert torch.equal(grad(lambda x: of(dtype)(x).sum())(row), gradient)
    assert torch.equal(*(jvp(of(kind), (row,), (row.abs(),))[1] for kind in (dtype, torch.float32)))
    torch._dynamo.reset()
    leaf = row.clone().requires_grad_()
    torch.compile(of(dtype), backend="aot_eager")(leaf).sum().backward()
    assert torch.equal(leaf.grad, gradient)


def test_nan_of_float8_keep_their_payload_where_gradients_are_asked_for():
    row = torch.tensor([0x7D, 0, 0x7E, -1, 0x7F, -2], dtype=torch.int8)
    for function in (OF_FLOAT8["topk by index"], OF_FLOAT8["keep_topk"], OF_FLOAT8["merge_topk"]):
        want = function(row.view(torch.float8_e5m2))
        got = function(row.view(torch.float8_e5m2).clone().requires_grad_())
        assert got.requires_grad and torch.equal(got.detach().view(torch.int8), want.view(torch.int8))


def test_float8_is_filled_in_place_under_vmap():
    rows = torch.tensor([[1.0, 4.0, 2.0], [8.0, 1.0, 3.0]]).to(torch.float8_e5m2)
    vmap(lambda row: torch_topk.keep_topk_(row, 1, 0.0))(rows)
    assert rows.float().tolist() == [[0, 4, 0], [8, 0, 0]]


def test_a_tangent_of_a_half_is_gathered():
    row = torch.tensor([1.0, 4.0, 2.0], dtype=torch.bfloat16)
    with fwd.dual_level():
        pushed = fwd.unpack_dual(torch_topk.kth_value(fwd.make_dual(row, row * 2), 2).values).tangent
    assert pushed.tolist() == [4]
