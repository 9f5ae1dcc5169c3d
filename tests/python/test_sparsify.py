"""torch_topk.sparsify_ on the CPU against an exact reference; arguments, autograd, fakes, compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from tests import inputs
from tests import sparsify_reference as reference
from tests.sparsify_reference import ALPHA, MU
from torch_topk import sparsify_


def tensors(rows, cols, dtype, add_dtype, name="normal", seed=0):
    """self, add and momentum; of float64 with 24 bits of mantissa."""
    made = [inputs.make(name, rows, cols, torch.float32, seed=seed + i) for i in range(3)]
    to = [dtype, add_dtype, dtype]
    return [tensor.to(d) for tensor, d in zip(made, to, strict=True)]


def updates(self, add, momentum):
    return {
        "none": {},
        "add": {"add": add},
        "scaled": {"add": add, "alpha": ALPHA},
        "momentum": {"add": add, "momentum": momentum, "mu": MU},
    }


@pytest.mark.parametrize("update", ["none", "add", "scaled", "momentum"])
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
@pytest.mark.parametrize(
    ("rows", "cols", "k"),
    [(1, 1, 1), (1, 63, 5), (3, 700, 0), (9, 4096, 32), (2, 4097, 4097), (1, 30_000, 500), (3, 20_001, 2500)],
)
def test_exact(dtype, add_dtype, rows, cols, k, update):
    self, add, momentum = tensors(rows, cols, dtype, add_dtype)
    reference.check(sparsify_, self, k, **updates(self, add, momentum)[update])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_long_row_over_threads(dtype, threads):
    self, add, momentum = tensors(1, 150_001, dtype, dtype)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        reference.check(sparsify_, self[0], 15_000, add=add[0], momentum=momentum[0], mu=MU)
        reference.check(sparsify_, self[0], 90_000, add=add[0], index_dtype=torch.int64)
        self, add, momentum = tensors(2, 60_001, dtype, dtype)
        reference.check(sparsify_, self, 7777, add=add)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("cols", [500, 20_000])
@pytest.mark.parametrize("name", inputs.names_for(torch.float32))
def test_named_inputs(name, cols):
    """Ties, NaN, infinities, zeros of both signs, inputs that mislead a sample."""
    self = inputs.make(name, 2, cols, torch.float32)
    zero = torch.zeros_like(self)
    for k in (37, cols // 3):
        reference.check(sparsify_, self, k)
    reference.check(sparsify_, zero, 90, add=self, momentum=torch.ones_like(self), mu=MU)


def test_a_sample_that_misses_the_rest():
    """Every sampled block of a long row is large, the rest small: too few reach the guess."""
    cols = 1 << 16
    blocks = 4096 // 16
    self = torch.randn(cols) * 1e-3
    at = torch.arange(blocks) * cols // blocks
    self[(at[:, None] + torch.arange(16)).flatten().clamp(max=cols - 1)] += 100
    for k in (100, 8000, 30_000):
        reference.check(sparsify_, self, k, add=torch.zeros(cols))
    skewed = torch.cat([torch.randn(1000) * 100, torch.randn(cols)])
    reference.check(sparsify_, skewed, 900)


def test_infinity_and_nan_are_sent_or_dropped_never_kept():
    self = torch.tensor([1.0, float("nan"), -float("inf"), 2.0, float("inf"), -3.0])
    momentum = torch.tensor([0.0, float("nan"), 1.0, 1.0, 1.0, 1.0])
    values, indices = sparsify_(self, 2, add=torch.zeros(6), momentum=momentum, mu=1.0)
    assert indices.tolist() == [1, 2] and values[0].isnan() and values[1] == -float("inf")
    assert self.tolist() == [1.0, 0.0, 0.0, 3.0, 0.0, -2.0]
    assert momentum.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    # An overflow of the sum counts as well.
    big = torch.full((4,), 6e4, dtype=torch.float16)
    values, _ = sparsify_(big, 1, add=big.clone())
    assert values.isinf().all() and (big == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_to_half_of_every_pattern(dtype):
    """0 + add, for every bit pattern and those between two of them."""
    patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    cols = patterns.numel()
    for scale in (1.0, 0.5, 0.37109375, 1.00390625):
        reference.check(sparsify_, torch.zeros(cols, dtype=dtype), 100, add=patterns, alpha=scale)
    ones = torch.full((cols,), 1.0, dtype=dtype)
    reference.check(sparsify_, ones, 100, add=patterns, alpha=0.37109375)


def test_any_strides_of_add_and_rows_apart():
    base = torch.randn(6, 40, 2)
    self = torch.randn(6, 64)[:, :40]
    for add in (
        base[..., 0],
        torch.randn(40, 6).t(),
        torch.randn(40).expand(6, 40),
        torch.randn(6, 1).expand(6, 40),
    ):
        reference.check(sparsify_with_stride, self, 7, add=add)


def sparsify_with_stride(self, k, **options):
    """On a part of a wider buffer, whose rest stays."""
    wide = torch.full((self.shape[0], self.shape[1] + 9), 5.0)
    part = wide[:, : self.shape[1]]
    part.copy_(self)
    result = sparsify_(part, k, **options)
    assert (wide[:, self.shape[1] :] == 5).all()
    self.copy_(part)
    return result


def test_empty():
    for shape, k in (((0,), 0), ((0, 5), 3), ((4, 0), 0)):
        values, indices = sparsify_(torch.zeros(shape), k, add=torch.zeros(shape))
        assert values.shape == indices.shape == (*shape[:-1], k)
    self = torch.zeros(5)
    assert sparsify_(self, 0, add=torch.ones(5)).values.shape == (0,) and (self == 1).all()


REFUSED = {
    "k is 6, and a row of self has 5": lambda x: (x, 6, {}),
    "k is -1, and a row of self has 5": lambda x: (x, -1, {}),
    "self must have 1 or 2 dimensions, but has 3": lambda x: (torch.zeros(1, 1, 5), 1, {}),
    "self must be float32, bfloat16, float16 or float64, not int32": lambda x: (x.int(), 1, {}),
    "index_dtype must be torch.int32 or torch.int64": lambda x: (x, 1, {"index_dtype": torch.int16}),
    "elements of a row must be adjacent, but are 2 apart": lambda x: (torch.zeros(10)[::2], 1, {}),
    "self overlaps itself": lambda x: (torch.zeros(5).expand(3, 5), 1, {}),
    "add must be float32, float16 or bfloat16 as self is float32, not float64": lambda x: (
        x, 1, {"add": x.double()},
    ),
    "add must be bfloat16 as self is bfloat16, not float32": lambda x: (x.bfloat16(), 1, {"add": x}),
    r"add must have the shape of self, \[5\], but has \[4\]": lambda x: (x, 1, {"add": torch.zeros(4)}),
    "add and self must not overlap": lambda x: (x, 1, {"add": x}),
    "momentum needs add": lambda x: (x, 1, {"momentum": torch.zeros(5)}),
    "momentum must have self's dtype, float32, not bfloat16": lambda x: (
        x, 1, {"add": torch.ones(5), "momentum": torch.zeros(5).bfloat16()},
    ),
    "momentum and self must not overlap": lambda x: (x, 1, {"add": torch.ones(5), "momentum": x}),
    "alpha must be 1 with momentum, but is 2": lambda x: (
        x, 1, {"add": torch.ones(5), "momentum": torch.zeros(5), "alpha": 2.0},
    ),
    "alpha needs add: it is 0.5": lambda x: (x, 1, {"alpha": 0.5}),
    "mu needs momentum: it is 0.9": lambda x: (x, 1, {"add": torch.ones(5), "mu": 0.9}),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_name_the_value_and_write_nothing(words):
    self, k, options = REFUSED[words](torch.zeros(5))
    before = self.clone()
    with pytest.raises(RuntimeError, match="gputopk::sparsify_: .*" + words):
        sparsify_(self, k, **options)
    assert torch.equal(self, before)


@pytest.mark.parametrize("words", [w for w in REFUSED if "overlap" not in w])
def test_fakes_refuse_in_the_same_words(words):
    with torch.device("meta"):
        self, k, options = REFUSED[words](torch.zeros(5))
    with pytest.raises((RuntimeError, ValueError), match="gputopk::sparsify_: .*" + words):
        sparsify_(self, k, **options)


def test_types():
    x = torch.zeros(5)
    for arguments, options in (
        (([1.0], 1), {}), ((x, 1.5), {}), ((x, True), {}), ((x, 1), {"add": 3}), ((x, 1), {"alpha": "1"}),
        ((x, 1), {"index_dtype": "int32"}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="sparsify_\\(\\): argument"):
            sparsify_(*arguments, **options)
    assert sparsify_(x, np.int64(2)).values.shape == (2,)


def test_autograd_knows_that_self_is_written():
    leaf = torch.zeros(5, requires_grad=True)
    with pytest.raises(RuntimeError, match="sparsify_"):
        sparsify_(leaf, 1)
    with pytest.raises(RuntimeError, match="gradients"):
        sparsify_(leaf * 2, 1)
    x = torch.randn(5)
    y = (leaf * x).sum()
    sparsify_(x, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("update", ["none", "add", "momentum"])
def test_opcheck(update):
    self, add, momentum = (torch.randn(2, 40) for _ in range(3))
    options = updates(self, add, momentum)[update]
    torch.library.opcheck(torch.ops.gputopk.sparsify_.default, (self, 3), options)


def test_compiled():
    @torch.compile(fullgraph=True, dynamic=True)
    def step(residual, gradient, momentum, k: int):
        values, indices = sparsify_(residual, k, add=gradient, momentum=momentum, mu=MU)
        return values * 2, indices

    for cols in (100, 130):
        self, add, momentum = (t[0] for t in tensors(1, cols, torch.float32, torch.bfloat16))
        values, indices, after, kept = reference.expected(self, 9, add=add, momentum=momentum, mu=MU)
        got = step(self, add, momentum, 9)
        for one, other in zip((*got, self, momentum), (values * 2, indices, after, kept), strict=True):
            reference.assert_same(one, other, "compiled")


def dual(function):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(torch.ones(4), torch.ones(4)))


TRANSFORMS = {
    "grad": lambda function: torch.func.grad(lambda x: function(x * 1).sum())(torch.ones(4)),
    "jvp": lambda function: torch.func.jvp(lambda x: function(x * 1), (torch.ones(4),), (torch.ones(4),)),
    "dual numbers": dual,
    "compile": lambda function: torch.compile(lambda x: function(x * 1), backend="aot_eager")(
        torch.ones(4, requires_grad=True)
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["self", "add", "momentum"])
def test_what_has_a_derivative_is_refused_under_transforms_too(transform, name):
    def function(x):
        given = {"self": torch.zeros(4), "add": torch.zeros(4), "momentum": torch.zeros(4), name: x}
        sparsify_(given.pop("self"), 2, **given)
        return x

    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=f"{name} is (read|changed in place), without gradients"):
        TRANSFORMS[transform](function)


def test_what_has_no_derivative_is_served_inside_a_transform():
    def loss(x):
        residual = torch.tensor([1.0, 4.0, 2.0, 3.0])
        return (sparsify_(residual, 2).values * x).sum()

    assert torch.func.grad(loss)(torch.ones(2)).tolist() == [4, 3]


def test_an_add_that_has_a_gradient_is_refused():
    """self would have none."""
    with pytest.raises(RuntimeError, match="add is read, without gradients"):
        sparsify_(torch.zeros(4), 2, add=torch.ones(4, requires_grad=True))
    with torch.no_grad():
        sparsify_(torch.zeros(4), 2, add=torch.ones(4, requires_grad=True))


@pytest.mark.parametrize("name", ["self", "momentum"])
def test_views_of_negatives_are_refused_in_words(name):
    negatives = torch.zeros(4, dtype=torch.complex64).conj().imag
    given = {"self": torch.zeros(4), "add": torch.ones(4), "momentum": torch.zeros(4), name: negatives}
    with pytest.raises(RuntimeError, match=f"{name} is a view of its elements' negatives"):
        sparsify_(given.pop("self"), 2, **given)
