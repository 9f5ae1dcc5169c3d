"""torch.ops.gputopk.topk as a PyTorch operator: schema, outs, errors, opcheck and fakes."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import torch_topk  # noqa: F401 (loads the operators)
from tests import inputs, oracle

topk = torch.ops.gputopk.topk
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)


def good_call() -> None:
    """A call that must be right whatever went wrong before it."""
    tensor = inputs.make("few_distinct", 3, 100)
    oracle.assert_topk(topk(tensor, 5), tensor, 5)


# The schema.

ARGUMENTS = (
    "Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool magnitude=False, "
    "ScalarType? index_dtype=None, int algorithm=0"
)


def test_the_schemas_are_the_published_ones():
    assert str(topk.default._schema) == f"gputopk::topk({ARGUMENTS}) -> (Tensor values, Tensor indices)"
    outs = "Tensor(a!) values, Tensor(b!) indices"
    assert str(topk.out._schema) == f"gputopk::topk.out({ARGUMENTS}, {outs}) -> ()"
    results = "(Tensor values, Tensor indices)"
    differentiable = str(torch.ops.gputopk.differentiable_topk.default._schema)
    assert differentiable == f"gputopk::differentiable_topk({ARGUMENTS}) -> {results}"
    assert (
        str(torch.ops.gputopk._plan.default._schema)
        == f"gputopk::_plan({ARGUMENTS}, bool last_alone=False) -> str"
    )


def test_arguments_may_be_named():
    tensor = inputs.make("normal", 3, 20)
    result = topk(self=tensor, k=4, dim=0 - 1, largest=False, sorted=True, magnitude=True, algorithm=0)
    oracle.assert_topk(result, tensor, 4, largest=False, magnitude=True)


def test_a_plan_is_printed_for_the_cpu():
    assert torch.ops.gputopk._plan(torch.zeros(3, 1000), 5).startswith("cpu: ")


# Bad arguments.


def zeros(*shape, dtype=torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


# what: (call, words that the message must hold)
BAD = {
    "k above the size": (lambda: topk(zeros(3, 7), 8), ["selected index k out of range", "8", "7"]),
    "k below zero": (lambda: topk(zeros(3, 7), -2), ["selected index k out of range", "-2", "7"]),
    "k above one of a scalar": (lambda: topk(zeros(), 2), ["selected index k out of range", "2"]),
    "k of another dim": (lambda: topk(zeros(3, 7), 4, 0), ["selected index k out of range", "4", "3"]),
    "k of an empty dim": (lambda: topk(zeros(3, 0), 1), ["selected index k out of range", "1", "0"]),
    "k of 2**40": (lambda: topk(zeros(3, 7), 2**40), ["selected index k out of range", str(2**40)]),
    "dim too high": (lambda: topk(zeros(3, 7), 1, 2), ["Dimension out of range", "[-2, 1]", "2"]),
    "dim too low": (lambda: topk(zeros(3, 7), 1, -3), ["Dimension out of range", "[-2, 1]", "-3"]),
    "dim of a scalar": (lambda: topk(zeros(), 1, 1), ["Dimension out of range", "[-1, 0]", "1"]),
    "complex": (lambda: topk(zeros(3, 7, dtype=torch.complex64), 1), ["complex"]),
    "algorithm too high": (lambda: topk(zeros(3, 7), 1, algorithm=7), ["algorithm", "7"]),
    "algorithm below zero": (lambda: topk(zeros(3, 7), 1, algorithm=-1), ["algorithm", "-1"]),
    "algorithm of 256": (lambda: topk(zeros(3, 7), 1, algorithm=256), ["algorithm", "256"]),
    "air on the cpu": (lambda: topk(zeros(3, 7), 1, algorithm=1), ["air", "CPU"]),
    "sort on the cpu": (lambda: topk(zeros(3, 7), 1, algorithm=6), ["sort", "CPU"]),
    "air on the cpu, k = 0": (lambda: topk(zeros(3, 7), 0, algorithm=1), ["air", "CPU"]),
    "air on the cpu, no rows": (lambda: topk(zeros(0, 7), 1, algorithm=1), ["air", "CPU"]),
    "int32 indices of a long row": (
        lambda: topk(zeros(1).expand(2**31), 1, index_dtype=torch.int32),
        ["index_dtype", str(2**31)],
    ),
    "a dtype of neither torch.topk nor ours": (
        lambda: topk(torch.empty(3, 7, dtype=torch.float8_e4m3fnuz), 1),
        ["dtype Float8_e4m3fnuz is not supported"],
    ),
    "index_dtype float": (lambda: topk(zeros(3, 7), 1, index_dtype=torch.float32), ["index_dtype"]),
    "index_dtype int16": (lambda: topk(zeros(3, 7), 1, index_dtype=torch.int16), ["index_dtype"]),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_argument_is_named_with_its_value_and_range(what):
    call, words = BAD[what]
    with pytest.raises(RuntimeError) as caught:
        call()
    message = str(caught.value)
    for word in ["topk", *words]:
        assert word.lower() in message.lower(), message
    good_call()


@pytest.mark.parametrize("what", BAD)
def test_the_fake_refuses_what_the_operator_refuses(what):
    call, words = BAD[what]
    with FakeTensorMode(), pytest.raises(RuntimeError) as caught:
        call()
    for word in ["topk", *words]:
        assert word.lower() in str(caught.value).lower(), str(caught.value)


def test_layouts_without_strides_are_refused():
    with pytest.raises((RuntimeError, NotImplementedError)):
        topk(torch.eye(5).to_sparse(), 1)
    good_call()


# Out variants.


def outs(shape, dtype=torch.float32, index_dtype=torch.int64) -> dict[str, torch.Tensor]:
    return {"values": torch.full(shape, 99, dtype=dtype), "indices": torch.full(shape, 99, dtype=index_dtype)}


def test_the_out_variant_fills_its_tensors_and_returns_nothing():
    tensor = inputs.make("few_distinct", 6, 50, torch.bfloat16)
    for order in (True, False):
        out = outs((6, 9), torch.bfloat16)
        places = out["values"].data_ptr(), out["indices"].data_ptr()
        assert topk.out(tensor, 9, sorted=order, **out) is None
        assert places == (out["values"].data_ptr(), out["indices"].data_ptr())
        oracle.assert_topk((out["values"], out["indices"]), tensor, 9, sorted=order)


# How an out may lie in a larger tensor of 99s; "dense" does not.
LAYOUTS = {
    "dense": lambda t: t.new_full(t.shape, 99)[:],
    "transposed": lambda t: t.new_full((*t.shape[::-1],), 99).T,
    "stepped": lambda t: t.new_full((t.shape[0], 2 * t.shape[1]), 99)[:, ::2],
    "inner": lambda t: t.new_full((t.shape[0] + 3, t.shape[1] + 2), 99)[3:, 2:],
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("values_layout", "indices_layout"), itertools.product(LAYOUTS, repeat=2), ids=" values, ".join
)
def test_strided_outs_are_honoured_and_their_gaps_left_alone(values_layout, indices_layout, dim):
    tensor = inputs.make("normal", 12, 15)
    k = 4
    shape = [12, 15]
    shape[dim] = k
    values = LAYOUTS[values_layout](torch.empty(shape))
    indices = LAYOUTS[indices_layout](torch.empty(shape, dtype=torch.int64))
    strides = values.stride(), indices.stride()
    around = [int((out._base == 99).sum()) for out in (values, indices)]
    topk.out(tensor, k, dim, values=values, indices=indices)
    assert strides == (values.stride(), indices.stride())
    oracle.assert_topk((values, indices), tensor, k, dim, contiguous=False)
    for out, before in zip((values, indices), around, strict=True):
        assert int((out._base == 99).sum()) == before - out.numel(), "written outside the out tensor"


def test_outs_are_known_to_autograd_as_written_to():
    """A gradient of what was there before is refused, as of any tensor that an operator changed."""
    tensor = inputs.make("normal", 3, 20)
    for layout in LAYOUTS.values():
        for k in (4, 0):
            weight = torch.ones(3, k, requires_grad=True)
            values, indices = layout(torch.empty(3, k)), layout(torch.empty(3, k, dtype=torch.int64))
            before = values._version, indices._version
            loss = (weight * values).sum()
            topk.out(tensor, k, values=values, indices=indices)
            assert values._version > before[0] and indices._version > before[1]
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()


def test_outs_may_require_grad_where_grad_is_off():
    tensor = inputs.make("normal", 3, 20)
    leaf = torch.full((3, 4), 99.0, requires_grad=True)
    with torch.no_grad():
        topk.out(tensor, 4, values=leaf, indices=torch.empty(3, 4, dtype=torch.int64))
    assert leaf.is_leaf and torch.equal(leaf.detach(), topk(tensor, 4)[0])
    with torch.inference_mode():
        out = outs((3, 4))
        topk.out(tensor, 4, **out)
        oracle.assert_topk((out["values"], out["indices"]), tensor, 4)


def test_outs_of_int32_indices_are_filled():
    tensor = inputs.make("normal", 6, 50)
    out = outs((6, 9), index_dtype=torch.int32)
    topk.out(tensor, 9, index_dtype=torch.int32, **out)
    oracle.assert_topk((out["values"], out["indices"]), tensor, 9, index_dtype=torch.int32)


def test_empty_outs_are_accepted():
    topk.out(zeros(3, 7), 0, **outs((3, 0)))
    topk.out(zeros(0, 7), 2, **outs((0, 2)))


def _same_storage() -> dict[str, torch.Tensor]:
    both = torch.full((3, 4), 99)
    return {"values": both, "indices": both}


def _overlapping_pair() -> dict[str, torch.Tensor]:
    flat = torch.full((20,), 99)
    return {"values": flat[:12].view(3, 4), "indices": flat[6:18].view(3, 4)}


def _over_input(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"values": tensor[:, 1:5], "indices": torch.zeros(3, 4, dtype=torch.int64)}


@torch.inference_mode()
def _inference(dtype: torch.dtype) -> torch.Tensor:
    return torch.full((3, 4), 99, dtype=dtype)


# what: (input, outs of it, words)
BAD_OUTS = {
    "values of another dtype": (
        lambda: zeros(3, 7),
        lambda x: outs((3, 4), torch.float64),
        ["Expected out tensor to have dtype"],
    ),
    "indices of another dtype": (
        lambda: zeros(3, 7),
        lambda x: outs((3, 4), index_dtype=torch.int32),
        ["Expected out tensor to have dtype"],
    ),
    "values of another shape": (lambda: zeros(3, 7), lambda x: outs((3, 5)), ["[3, 4]"]),
    "values of another rank": (lambda: zeros(3, 7), lambda x: outs((12,)), ["[3, 4]"]),
    "empty values": (lambda: zeros(3, 7), lambda x: outs((0,)), ["[3, 4]"]),
    "indices of another shape": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "indices": torch.zeros(4, 3, dtype=torch.int64)},
        ["[3, 4]"],
    ),
    "values of another device": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": torch.empty(3, 4, device="meta")},
        ["Expected out tensor to have device cpu, but got meta instead"],
    ),
    "indices of another device": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "indices": torch.empty(3, 4, dtype=torch.int64, device="meta")},
        ["Expected out tensor to have device cpu, but got meta instead"],
    ),
    "values of another device and indices of another dtype": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4), index_dtype=torch.int32), "values": torch.empty(3, 4, device="meta")},
        ["Expected out tensor to have"],
    ),
    "expanded values": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": torch.zeros(3, 1).expand(3, 4)},
        ["single memory location"],
    ),
    "expanded indices": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "indices": torch.zeros(1, 4, dtype=torch.int64).expand(3, 4)},
        ["single memory location"],
    ),
    "overlapping windows": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": torch.zeros(6).unfold(0, 4, 1)},
        ["single memory location"],
    ),
    "one tensor for both": (lambda: zeros(3, 7, dtype=torch.int64), lambda x: _same_storage(), ["memory"]),
    "values over indices": (
        lambda: zeros(3, 7, dtype=torch.int64),
        lambda x: _overlapping_pair(),
        ["memory"],
    ),
    "values over the input": (lambda: zeros(3, 7), _over_input, ["memory"]),
    "values are the input": (
        lambda: zeros(3, 4),
        lambda x: {"values": x, "indices": torch.zeros(3, 4, dtype=torch.int64)},
        ["memory"],
    ),
    "values that are a leaf and require grad": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": zeros(3, 4).requires_grad_()},
        ["gputopk::topk", "a leaf Variable that requires grad is being used in an in-place operation"],
    ),
    "values that are no leaf and require grad": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": zeros(3, 4).requires_grad_() * 2},
        ["gputopk::topk", "don't support automatic differentiation", "requires grad"],
    ),
    "inference values": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "values": _inference(torch.float32)},
        ["gputopk::topk", "inference tensor outside InferenceMode"],
    ),
    "inference indices": (
        lambda: zeros(3, 7),
        lambda x: {**outs((3, 4)), "indices": _inference(torch.int64)},
        ["gputopk::topk", "inference tensor outside InferenceMode"],
    ),
    "indices over the input": (
        lambda: zeros(3, 8, dtype=torch.int64),
        lambda x: {"values": torch.zeros(3, 4, dtype=torch.int64), "indices": x[:, :4]},
        ["memory"],
    ),
}


@pytest.mark.parametrize("what", BAD_OUTS)
def test_a_bad_out_is_refused_and_left_alone(what):
    make_input, make_outs, words = BAD_OUTS[what]
    tensor = make_input()
    out = make_outs(tensor)
    before = {name: t.clone() for name, t in out.items()}
    with pytest.raises(RuntimeError) as caught:
        topk.out(tensor, 4, **out)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    for name, t in out.items():
        assert t.is_meta or torch.equal(t, before[name])
    good_call()


def test_outs_beside_the_input_in_one_storage_are_accepted():
    """Interleaved columns share a storage and no element."""
    storage = inputs.make("normal", 3, 20)
    tensor, values = storage[:, ::2], storage[:, 1:8:2]
    want = oracle.expected(tensor, 4)
    indices = torch.empty(3, 4, dtype=torch.int64)
    topk.out(tensor, 4, values=values, indices=indices)
    assert (oracle.bits_of(values) == want[0]).all() and (indices.numpy() == want[1]).all()


# Autograd: none.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_outputs_never_require_grad(dtype):
    leaf = inputs.make("normal", 3, 20, dtype).requires_grad_()
    for tensor in (leaf, leaf * 2, leaf.T, leaf.view(-1), torch.nn.Parameter(leaf.detach().clone())):
        values, indices = topk(tensor, 2)
        for output in (values, indices):
            assert not output.requires_grad and output.grad_fn is None
    with torch.inference_mode():
        oracle.assert_topk(topk(leaf, 3), leaf.detach(), 3)
    with torch.no_grad():
        oracle.assert_topk(topk(leaf, 3), leaf.detach(), 3)


# opcheck.


def samples() -> list[tuple[str, tuple, dict]]:
    x = inputs.make("normal", 6, 40).view(2, 3, 40)
    return [
        ("plain", (x, 5), {}),
        ("every flag", (x, 2, -2, False, False), {"magnitude": True, "index_dtype": torch.int32}),
        ("k = 0", (x, 0), {}),
        ("k = size", (x, 40), {}),
        ("scalar", (torch.tensor(2.0), 1), {}),
        ("scalar, k = 0", (torch.tensor(2.0), 0, 0), {}),
        ("empty", (torch.zeros(0, 4), 2), {}),
        ("empty dim", (torch.zeros(4, 0), 0), {}),
        ("dim 0", (x, 2, 0), {}),
        ("transposed", (x.transpose(0, 2), 2), {}),
        ("expanded", (x[:, :1].expand(2, 7, 40), 3, 1), {}),
        ("stepped", (x[..., ::3], 3), {}),
        ("bfloat16", (x.to(torch.bfloat16), 3), {}),
        ("int64", (x.to(torch.int64), 3), {}),
        ("bool", (x > 0, 3), {}),
        ("uint32", (inputs.make("normal", 3, 9, torch.uint32), 3), {}),
        ("float8", (inputs.make("normal", 3, 9, torch.float8_e5m2), 3), {}),
    ]


SAMPLES = {name: (args, kwargs) for name, args, kwargs in samples()}
WITH_GRAD = [name for name, ((tensor, *_), _) in SAMPLES.items() if tensor.is_floating_point()]
WITH_GRAD.remove("float8")  # opcheck multiplies its input, which torch cannot in float8
CHECKS = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
OPERATORS = pytest.mark.parametrize(
    "operator",
    [topk.default, torch.ops.gputopk.differentiable_topk.default],
    ids=["topk", "differentiable_topk"],
)


@OPERATORS
@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck_accepts_the_operator(operator, name):
    args, kwargs = SAMPLES[name]
    checks = [check for check in CHECKS if not (name == "float8" and check == "test_schema")]
    torch.library.opcheck(operator, args, kwargs, test_utils=checks)


@OPERATORS
@pytest.mark.parametrize("name", WITH_GRAD)
def test_opcheck_accepts_the_operator_of_what_requires_grad(operator, name):
    (tensor, *args), kwargs = SAMPLES[name]
    leaf = tensor.detach().clone().requires_grad_()
    torch.library.opcheck(operator, (leaf, *args), kwargs, test_utils=CHECKS)
    values, indices = operator(leaf, *args, **kwargs)
    assert values.requires_grad == (operator is not topk.default) and not indices.requires_grad


def test_opcheck_accepts_the_out_variant():
    torch.library.opcheck(topk.out, (inputs.make("normal", 3, 20), 4), outs((3, 4)))


# Fake and meta.


@DTYPES
def test_the_fake_gives_the_form_of_the_real_thing(dtype):
    bases = [
        (inputs.make("normal", 6, 20, dtype).view(2, 3, 20), -1, 4),
        (inputs.make("normal", 6, 20, dtype).view(2, 3, 20).permute(2, 0, 1), 0, 7),
        (inputs.make("normal", 6, 20, dtype)[:, ::2], 0, 5),
        (inputs.make("normal", 6, 20, dtype), 1, 0),
        (inputs.make("normal", 1, 1, dtype).view(()), 0, 1),
        (inputs.make("normal", 0, 3, dtype), 1, 2),
    ]
    for tensor, dim, k in bases:
        for index_dtype in (None, torch.int32):
            real = topk(tensor, k, dim, index_dtype=index_dtype)
            with FakeTensorMode() as mode:
                fake = topk(mode.from_tensor(tensor), k, dim, index_dtype=index_dtype)
            meta = topk(tensor.to("meta"), k, dim, index_dtype=index_dtype)
            for got, like in zip((*fake, *meta), (*real, *real), strict=True):
                assert got.shape == like.shape and got.dtype == like.dtype
                assert got.stride() == like.stride() and not got.requires_grad


@pytest.mark.parametrize(
    ("shape", "k", "dim"), [((6, 10), 0, 0), ((0, 5, 7), 3, 1), ((4, 0, 6), 2, 0)], ids=str
)
def test_empty_results_have_the_strides_that_the_fake_says(shape, k, dim):
    real, fake = topk(zeros(*shape), k, dim), topk(zeros(*shape).to("meta"), k, dim)
    for got, like in zip(real, fake, strict=True):
        assert got.shape == like.shape and got.stride() == like.stride()


def test_the_out_variant_has_a_fake():
    with FakeTensorMode():
        out = outs((3, 4))
        assert topk.out(zeros(3, 7), 4, **out) is None
        with pytest.raises(RuntimeError):
            topk.out(zeros(3, 7), 5, **out)


# Of what these are about a fake tensor has nothing.
NEEDS_MEMORY = ("expanded", "overlapping", "over", "are the input", "one tensor", "require grad", "inference")


@pytest.mark.parametrize(
    ("device", "what"),
    [
        (device, what)
        for device in ("cpu", "meta")
        for what in BAD_OUTS
        if not any(word in what for word in NEEDS_MEMORY) and not (device == "meta" and "device" in what)
    ],
)
def test_the_fake_refuses_the_outs_that_the_operator_refuses(device, what):
    make_input, make_outs, words = BAD_OUTS[what]
    with FakeTensorMode():
        tensor = make_input().to(device)
        out = {name: t.to(device) if device == "meta" else t for name, t in make_outs(tensor).items()}
        with pytest.raises(RuntimeError) as caught:
            topk.out(tensor, 4, **out)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("rows", [3, 0, "symbol"])
def test_the_fake_refuses_an_algorithm_that_cannot_serve(rows):
    tensor = torch.empty(4 if rows == "symbol" else rows, 2000, device="meta")
    with FakeTensorMode(shape_env=ShapeEnv() if rows == "symbol" else None) as mode:
        tensor = mode.from_tensor(tensor, static_shapes=rows != "symbol")
        assert (rows == "symbol") == (type(tensor.shape[0]) is torch.SymInt)
        topk(tensor, 1024, algorithm=5)
        if rows == "symbol":  # left to the call
            topk(tensor, 1025, algorithm=5)
            return
        with pytest.raises(RuntimeError, match="split_bucket cannot serve"):
            topk(tensor, 1025, algorithm=5)
