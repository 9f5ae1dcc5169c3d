"""The same mistake is the same exception in every public function: k, flags and names."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

import torch_topk as t
from tests.oracle import assert_topk
from torch_topk import ops

X = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
IDS = torch.arange(36).view(1, 4, 9)

# By name in errors: the function of k and further arguments.
FUNCTIONS = {
    "topk": lambda k=2, **more: t.topk(X, k, **more),
    "topk_varlen": lambda k=2, **more: t.topk_varlen(X, k, **more),
    "topk_where": lambda k=2, **more: t.topk_where(X, None, k, **more),
    "kth_value": lambda k=2, **more: t.kth_value(X, k, **more),
    "topk_mask": lambda k=2, **more: t.topk_mask(X, k, **more),
    "keep_topk": lambda k=2, **more: t.keep_topk(X, k, **more),
    "keep_topk_": lambda k=2, **more: t.keep_topk_(X.clone(), k, **more),
    "top_k_top_p_filter_": lambda k=2, **more: t.top_k_top_p_filter_(X.clone(), k, **more),
    "merge_topk": lambda k=2, **more: t.merge_topk(X[None], IDS, k, **more),
    "topk_sharded": lambda k=2, **more: t.topk_sharded(X, k, **more),
    "sparsify_": lambda k=2, **more: t.sparsify_(X.clone(), k, **more),
    "rerank": lambda k=2, **more: t.rerank(X, X, torch.arange(4), k, **more),
    "knn": lambda k=2, **more: t.knn(X, X, k, **more),
    "StreamingTopK": lambda k=2, **more: t.StreamingTopK(k, **more),
    "TopKState": lambda k=2, **more: t.TopKState(k=k, **more),
}
COUNTED = ("kth_value", "topk_mask", "keep_topk", "keep_topk_", "top_k_top_p_filter_")  # a tensor is a k too
FLAGS = {
    "topk": ("largest", "sorted", "magnitude"),
    "topk_varlen": ("largest", "magnitude", "return_values"),
    "topk_where": ("largest", "magnitude"),
    "kth_value": ("largest", "magnitude"),
    "topk_mask": ("largest", "magnitude"),
    "keep_topk": ("largest", "magnitude"),
    "keep_topk_": ("largest", "magnitude"),
    "merge_topk": ("largest", "unique"),
    "topk_sharded": ("largest",),
    "rerank": ("unique", "return_positions"),
    "knn": ("exact", "progress"),
    "StreamingTopK": ("largest", "magnitude"),
    "TopKState": ("unused_parameters",),
}
ORDERS = ("value", "index", "any")
CHOICES = [
    ("topk", "order", ORDERS),
    ("topk_varlen", "order", ORDERS),
    ("topk_where", "order", ORDERS),
    ("merge_topk", "order", ORDERS),
    ("merge_topk", "tie", ("id", "position")),
    ("topk_sharded", "order", ORDERS),
    ("topk_mask", "ties", ("index", "all")),
    ("keep_topk", "ties", ("index", "all")),
    ("keep_topk_", "ties", ("index", "all")),
    ("TopKState", "scope", ("bucket", "parameter")),
]


# There is no process group here, so that a call of topk_sharded that comes to send anything fails.


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name != "topk_sharded"])
@pytest.mark.parametrize("k", [np.int64(2), np.int32(2), np.array(2)], ids=repr)
def test_numpys_integers_are_a_k(function, k):
    got, want = FUNCTIONS[function](k), FUNCTIONS[function](2)
    if isinstance(got, (t.StreamingTopK, t.TopKState)):
        assert type(got.k) is int and got.k == want.k
        return
    if isinstance(got, torch.Tensor):
        got, want = (got,), (want,)
    assert all(torch.equal(one, other) for one, other in zip(got, want, strict=True))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("k", [True, 2.5, 2.0, "2", [2], np.array([1, 2]), np.float64(2)], ids=repr)
def test_nothing_else_is_a_k(function, k):
    with pytest.raises(TypeError, match=rf"{function}\(\): argument 'k'.* must be int.*, not "):
        FUNCTIONS[function](k)


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name not in ("topk", *COUNTED)])
def test_a_tensor_is_no_k_as_it_would_have_to_be_read(function):
    with pytest.raises(TypeError, match=rf"{function}\(\): argument 'k' must be int.*, not Tensor"):
        FUNCTIONS[function](torch.tensor(2))


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, names in FLAGS.items() for name in names])
@pytest.mark.parametrize("flag", [1, 0, None, "no", np.bool_(True), torch.tensor(True)], ids=repr)
def test_a_flag_is_a_bool(function, name, flag):
    words = rf"{function}\(\): argument '{name}'.* must be bool.*, not "
    with pytest.raises(TypeError, match=words) as caught:
        FUNCTIONS[function](**{name: flag})
    torchs = function == "topk" and name != "magnitude"  # whose words tell the type alone
    assert (type(flag).__name__ if torchs else repr(flag)) in str(caught.value)


@pytest.mark.parametrize(("function", "name", "choices"), CHOICES)
def test_a_name_is_a_str_and_known(function, name, choices):
    for choice in (1, True, ["value"], *(() if function == "topk" else (None,))):
        with pytest.raises(TypeError, match=rf"{function}\(\): argument '{name}' must be str, not "):
            FUNCTIONS[function](**{name: choice})
    with pytest.raises(ValueError, match=rf"{function}\(\): {name} must be one of .*, not 'x'") as caught:
        FUNCTIONS[function](**{name: "x"})
    assert all(known in str(caught.value) for known in choices)


@pytest.mark.parametrize("function", ["rerank", "knn"])
def test_a_metric_of_another_name_or_number_is_a_value_error(function):
    known = r"l2 \(0\), inner_product \(1\), cosine \(2\)"
    for metric in ("L2", "", 7, -1, 3):
        with pytest.raises(
            ValueError, match=rf"{function}\(\): metric must be one of {known}, not {metric!r}"
        ):
            FUNCTIONS[function](metric=metric)
    words = rf"{function}\(\): argument 'metric' must be Metric, its name or int, not "
    for metric in (True, 1.0, None):
        with pytest.raises(TypeError, match=words):
            FUNCTIONS[function](metric=metric)


def test_an_algorithm_of_another_name_or_number_is_a_value_error():
    for algorithm in ("AIR", 7, -1):
        with pytest.raises(ValueError, match=r"algorithm must be one of auto \(0\), .*, sort \(6\), not "):
            t.topk(X, 2, algorithm=algorithm)
    for algorithm in (None, 1.0, True, b"air"):
        with pytest.raises(TypeError, match="argument 'algorithm' must be Algorithm, its name or int"):
            t.topk(X, 2, algorithm=algorithm)


@pytest.mark.parametrize(
    ("function", "name", "wrong"),
    [
        ("topk_varlen", "page_size", 1.0),
        ("topk_varlen", "pad_index", True),
        ("topk_varlen", "max_length", "9"),
        ("topk_varlen", "index_dtype", "int32"),
        ("topk_where", "pad_index", 0.5),
        ("topk_where", "index_dtype", None),
        ("kth_value", "dim", True),
        ("kth_value", "lengths", [1, 2, 3, 4]),
        ("topk_mask", "lengths", [1, 2, 3, 4]),
        ("topk_sharded", "offset", True),
        ("topk_sharded", "index_map", 3),
        ("knn", "chunk", True),
        ("knn", "allow", [True]),
    ],
)  # fmt: skip
def test_what_else_has_another_type(function, name, wrong):
    with pytest.raises(TypeError, match=rf"{function}\(\): argument '{name}' must be .*, not "):
        FUNCTIONS[function](**{name: wrong})


def test_a_dim_may_be_numpys():
    for function in ("topk", "topk_where", "kth_value", "topk_mask", "keep_topk", "keep_topk_"):
        FUNCTIONS[function](dim=np.int64(0))


def test_a_sharded_calls_arguments_are_checked_before_anything_is_sent():
    with pytest.raises(TypeError, match="argument 'input_local' must be Tensor, not list"):
        t.topk_sharded([1.0], 2)
    with pytest.raises(RuntimeError, match="k must be at least 0, but is -1"):
        t.topk_sharded(X, -1)
    for offset in (-100, -1, 2**63 - 9, 2**70):
        words = rf"offset must be in \[0, 2\^63 - 9\), but is {offset}"
        with pytest.raises(RuntimeError, match=words):
            t.topk_sharded(X, 2, offset=offset)


def test_backend_is_told_a_tensor():
    with pytest.raises(TypeError, match=r"backend\(\): argument 'input' must be Tensor, not list"):
        t.backend([1])


UNSERVED = (torch.complex64, torch.float8_e4m3fnuz)
OF_INPUT = (t.kth_value, t.topk_mask, t.keep_topk, t.keep_topk_)


@pytest.mark.parametrize("function", OF_INPUT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("k", [2, 8, torch.tensor(2)], ids=repr)
def test_a_dtype_that_is_not_served_is_said_by_the_public_name(function, k):
    for dtype in UNSERVED:
        words = rf"^{function.__name__}\(\): not implemented for {dtype}$"
        with pytest.raises(NotImplementedError, match=words):
            function(X.to(dtype), k)
    quantized = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
    if function is not t.kth_value:
        with pytest.raises(NotImplementedError, match=r"not implemented for torch\.qint8"):
            function(quantized, k)
    elif not isinstance(k, torch.Tensor):
        assert torch.equal(function(quantized, k).values.int_repr(), function(quantized.int_repr(), k).values)


# In place: what is written to.

OVERLAPPING = {
    "a row for all": torch.randn(1, 20).expand(3, 20),
    "a column for all": torch.randn(3, 1).expand(3, 20),
    "windows": torch.randn(22).unfold(0, 20, 1),
    "interleaved by hand": torch.randn(99).as_strided((3, 20), (4, 2)),
}
IN_PLACE = {
    "keep_topk_": (
        lambda x: t.keep_topk_(x, 1, 0.0),
        lambda x: t.keep_topk_(x, 10, 0.0),
        lambda x: t.keep_topk_(x, 100, 0.0),
        lambda x: t.keep_topk_(x, torch.tensor(1), 0.0),
        lambda x: t.keep_topk_(x, 1, 0.0, 0),
        lambda x: t.keep_topk_(x, 1, 0.0, ties="all"),
    ),
    "top_k_top_p_filter_": (
        lambda x: t.top_k_top_p_filter_(x),
        lambda x: t.top_k_top_p_filter_(x, 1),
        lambda x: t.top_k_top_p_filter_(x, 1, 0.5),
        lambda x: t.top_k_top_p_filter_(x, torch.tensor(1)),
        lambda x: t.top_k_top_p_filter_(x, min_p=0.5),
    ),
}


@pytest.mark.parametrize("function", IN_PLACE)
@pytest.mark.parametrize("which", OVERLAPPING)
def test_what_overlaps_itself_is_not_written_to(function, which):
    tensor = OVERLAPPING[which]
    before = tensor.clone()
    for call in IN_PLACE[function]:
        name = "input" if function == "keep_topk_" else "logits"
        words = rf"^{function}\(\): two elements of {name} share memory"
        with pytest.raises(RuntimeError, match=words):
            call(tensor)
    assert torch.equal(tensor, before)


def test_views_that_only_seem_to_overlap_are_written_to():
    whole = torch.randn(99, generator=torch.Generator().manual_seed(2))
    for size, strides in (((3, 2), (2, 3)), ((5, 4), (1, 5)), ((4, 5), (9, 1)), ((2, 4, 1), (1, 2, 0))):
        view = whole.clone().as_strided(size, strides)
        want = t.keep_topk(view.clone(), 1, 0.0)
        assert torch.equal(t.keep_topk_(view, 1, 0.0), want)


@pytest.mark.parametrize("k", [2, 20, torch.tensor(2)], ids=repr)
@pytest.mark.parametrize("function", ["keep_topk", "keep_topk_", "top_k_top_p_filter_"])
def test_a_fill_is_a_number_that_the_dtype_holds(function, k):
    def fill(dtype, number):
        x = torch.arange(120).view(3, 40).to(dtype)
        if function == "top_k_top_p_filter_":
            return t.top_k_top_p_filter_(x, k, 0.5, fill=number)
        return getattr(t, function)(x, k, number)

    held = [
        (torch.float16, 65504.0), (torch.float16, -math.inf), (torch.float32, math.nan),
        (torch.float32, -0.0), (torch.float64, 1e300), (torch.float32, 10**30), (torch.float32, True),
        (torch.float32, np.float32(2.5)), (torch.bfloat16, torch.finfo(torch.bfloat16).min),
    ]  # fmt: skip
    refused = [
        (torch.float16, 1e6), (torch.float16, -65505), (torch.float32, 1e300), (torch.float32, 10**400),
        (torch.float64, 10**400), (torch.bfloat16, 3.4e38),
    ]  # fmt: skip
    if function != "top_k_top_p_filter_":
        held += [
            (torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, math.inf), (torch.int8, -128),
            (torch.int8, 3.0), (torch.uint8, 255), (torch.int64, -(2**63)), (torch.uint64, 2**64 - 1),
            (torch.int32, np.int64(7)),
        ]  # fmt: skip
        refused += [
            (torch.float8_e4m3fn, 1e6), (torch.float8_e4m3fn, math.inf), (torch.float8_e5m2, 1e6),
            (torch.int8, 128), (torch.int8, -129), (torch.uint8, -1), (torch.int32, 0.5),
            (torch.int32, math.nan), (torch.int64, -math.inf), (torch.int64, 2**63), (torch.uint64, 2**64),
            (torch.bool, 2),
        ]  # fmt: skip
    for dtype, number in held:
        got = fill(dtype, number)[0, 0]
        if dtype == torch.uint64:
            assert got.view(torch.int64) == -1
        else:
            assert got.double().item() == pytest.approx(float(number), rel=1e-2, nan_ok=True)
            assert math.copysign(1, got.double()) == math.copysign(1, number) or math.isnan(number)
    for dtype, number in refused:
        with pytest.raises(RuntimeError, match=rf"^{function}\(\): fill is .*, which {dtype} does not hold"):
            fill(dtype, number)
    for number in ("0", None, 1j, torch.tensor(0.0)):
        with pytest.raises(TypeError, match=rf"{function}\(\): argument 'fill' must be a number, not "):
            fill(torch.float32, number)


def test_a_comparison_is_a_str_and_known():
    with pytest.raises(TypeError, match=r"'mask.comparison' must be str, not int"):
        t.topk_where(X, t.Condition(X, 3, 0.0), 2)


def test_a_stream_takes_integers():
    stream = t.StreamingTopK(np.int64(2))
    stream.update(X, offset=np.int64(5))
    assert stream.position == 5 + 9 and type(stream.position) is int
    assert stream.consume(X, chunk=np.int32(4)).position == 5 + 9 + 9
    for call in (lambda: stream.update(X, offset=20.0), lambda: stream.consume(X, chunk=True)):
        with pytest.raises(TypeError, match="must be int"):
            call()


def test_checks_are_traced_and_leave_no_break():
    def function(x, k):
        kept = t.keep_topk(x, k, largest=False, ties="all")
        return t.kth_value(x, k).values, kept, t.topk(x, k, algorithm="auto", order="index").values

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for k in (2, 5):
        for got, want in zip(compiled(X, k), function(X, k), strict=True):
            assert torch.equal(got, want)


# topk's short way: what it may try again, and what not.

NO_ROOM = RuntimeError("gputopk::topk: cannot allocate 99 bytes on cuda:0: CUDA out of memory.")
NO_ROOM_ON_CPU = RuntimeError("gputopk::topk: cannot allocate 9 bytes on cpu: can't allocate memory")
NO_LAUNCH = RuntimeError("gputopk::topk: CUDA error: invalid argument (plan: air)")
BAD_ACCESS = getattr(torch, "AcceleratorError", RuntimeError)("CUDA error: an illegal memory access")


@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), torch.OutOfMemoryError),
        (NO_ROOM, torch.OutOfMemoryError),
        (NO_ROOM_ON_CPU, torch.OutOfMemoryError),
        (NO_LAUNCH, RuntimeError),
        (BAD_ACCESS, type(BAD_ACCESS)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_device_that_fails_is_called_once(monkeypatch, error, kind, with_out):
    calls = []

    def fails(*arguments, **options):
        calls.append(arguments)
        raise error

    for kernel in ("_aten_topk", "_aten_topk_out", "select", "topk_into"):
        monkeypatch.setattr(ops, kernel, fails)
    options = {"out": torch.topk(X, 2)} if with_out else {}
    with pytest.raises(kind, match=re.escape(str(error))):
        t.topk(X, 2, **options)
    assert len(calls) == 1


def test_a_call_that_the_short_way_refuses_is_served_or_refused_by_the_long_one(monkeypatch):
    calls = []
    kernel = ops._aten_topk

    def refuses(*arguments, **options):
        calls.append(arguments)
        return kernel(*arguments, **options)

    monkeypatch.setattr(ops, "_aten_topk", refuses)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 5"):
        t.topk(X, 2, 5)
    negative = torch.complex(X, X).conj().imag
    assert_topk(t.topk(negative, 2), negative.clone(), 2, -1)
    assert len(calls) == 2
    t.topk(X.to(torch.float8_e5m2).requires_grad_(), 2)  # goes the long way at once
    assert len(calls) == 2


def test_an_out_of_one_tensor_is_not_taken_apart():
    both = torch.zeros(2, 2, dtype=torch.int64)
    for topk in (torch.topk, t.topk):
        with pytest.raises(TypeError, match="argument 'out' must be tuple of Tensors, not Tensor"):
            topk(torch.arange(7), 2, out=both)
    assert not both.any()
