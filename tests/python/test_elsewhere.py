"""Tensors without kernels of ours: what serves them, and that it is never another contract in silence."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_topk
from tests import inputs, oracle
from torch_topk import _elsewhere

X = torch.arange(21.0).view(3, 7)


@pytest.fixture(autouse=True)
def warned():
    """As in a process that has not been warned yet."""
    _elsewhere._warn_once.cache_clear()


def by_sorting(tensor, k, dim=-1, largest=True, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _elsewhere.topk_by_sorting(tensor, k, dim, largest, options)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize("magnitude", [False, True])
def test_sorting_keeps_the_contract(dtype, magnitude):
    """Ties, NaN, zeros, the most negative integer."""
    for name in ("few_distinct", "mixed_rows", "nan_scattered"):
        if name == "nan_scattered" and not dtype.is_floating_point:
            continue
        tensor = inputs.make(name, 12, 50, dtype)
        if dtype.is_signed and not dtype.is_floating_point:
            tensor[::2, 7] = torch.iinfo(dtype).min
        for dim, k in ((-1, 9), (0, 5), (1, 50), (0, 0)):
            for largest in (True, False):
                options = {"magnitude": True} if magnitude else {}
                result = by_sorting(tensor, k, dim, largest, **options)
                oracle.assert_topk(result, tensor, k, dim, largest, magnitude=magnitude)


def test_sorting_serves_scalars_and_int32_indices():
    oracle.assert_topk(by_sorting(torch.tensor(3.0), 1), torch.tensor(3.0), 1)
    result = by_sorting(X, 2, index_dtype=torch.int32)
    oracle.assert_topk(result, X, 2, index_dtype=torch.int32)


def test_sorting_has_gradients():
    for dim in (0, -1):
        grads = []
        for topk in (by_sorting, torch.topk):
            leaf = X.sin().requires_grad_()
            grads += torch.autograd.grad(topk(leaf, 2, dim)[0].pow(2).sum(), leaf)
        assert torch.equal(*grads)


def test_sorting_refuses_what_the_operator_refuses():
    with pytest.raises(RuntimeError, match="algorithm must be auto on device cpu"):
        by_sorting(X, 2, algorithm=1)
    for k in (8, -1):
        with pytest.raises(RuntimeError, match=f"selected index k out of range: k is {k}"):
            by_sorting(X, k)


# By device, of tensors without data.


@pytest.mark.parametrize("device", ["xpu", "mps"])
def test_other_devices_are_sorted_with_one_warning(device):
    with FakeTensorMode():
        tensor = torch.empty(3, 7, device=device)
        assert torch_topk.backend(tensor) == "torch"
        with pytest.warns(UserWarning, match=f"no kernels for device {device}") as caught:
            for _ in range(2):
                values, indices = torch_topk.topk(tensor, 2, sorted=False, index_dtype=torch.int32)
        assert len(caught) == 1
        assert values.shape == indices.shape == (3, 2)
        assert values.device.type == device and indices.dtype == torch.int32
        out = torch.empty(3, 2, device=device), torch.empty(3, 2, dtype=torch.int64, device=device)
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            torch_topk.topk(tensor, 2, out=(out[0].double(), out[1]))
        with pytest.raises(RuntimeError, match="algorithm must be auto"):
            torch_topk.topk(tensor, 2, algorithm="air")


@pytest.mark.skipif(torch_topk.has_cuda, reason="the CUDA library is loaded")
@pytest.mark.parametrize("arguments", [{}, {"sorted": False}, {"algorithm": "air"}], ids=str)
def test_cuda_tensors_without_the_cuda_library_are_refused(arguments):
    with FakeTensorMode():
        tensor = torch.empty(3, 7, device="cuda")
        for call in (lambda: torch_topk.topk(tensor, 2, **arguments), lambda: torch_topk.backend(tensor)):
            with pytest.raises(RuntimeError, match=r"libgputopk_cuda\.so, which is not loaded.*make cuda"):
                call()


def test_our_own_devices_are_named():
    assert torch_topk.backend(X) == torch_topk.backend(X.to("meta")) == "cpu"
    if torch_topk.has_cuda:
        with FakeTensorMode():
            assert torch_topk.backend(torch.empty(3, device="cuda")) == "cuda"


# Quantized tensors.


@pytest.fixture
def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        yield torch.quantize_per_tensor(X.sin(), 0.01, 0, torch.quint8)


def test_quantized_tensors_go_to_torch(quantized):
    assert torch_topk.backend(quantized) == "torch"
    for arguments in ((2,), (2, 0), (2, -1, False), (2, -1, True, False)):
        want, got = torch.topk(quantized, *arguments), torch_topk.topk(quantized, *arguments)
        assert torch.equal(got.values.int_repr(), want.values.int_repr())
        assert torch.equal(got.indices, want.indices)
    for options in ({"magnitude": True}, {"algorithm": "air"}, {"index_dtype": torch.int32}):
        with pytest.raises(RuntimeError, match=f"{next(iter(options))} of a quantized tensor"):
            torch_topk.topk(quantized, 2, **options)
    with pytest.raises(RuntimeError, match="order='index' of a quantized tensor"):
        torch_topk.topk(quantized, 2, order="index")


def test_an_order_that_nobody_asked_for_is_no_reason_to_refuse_a_quantized_tensor(quantized):
    """Where all is to be deterministic "any" is "index": then torch has the say."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = torch.topk(quantized, 2, sorted=False)
            for arguments in ({"sorted": False}, {"order": "any"}):
                assert torch.equal(torch_topk.topk(quantized, 2, **arguments).indices, want.indices)
    finally:
        torch.use_deterministic_algorithms(False)


def test_ours_in_the_place_of_torchs_calls_itself_never(monkeypatch, quantized):
    monkeypatch.setattr(torch, "topk", torch_topk.topk)
    oracle.assert_topk(torch.topk(X, 2), X, 2)
    with pytest.raises(TypeError, match="must be int, not float"):
        torch.topk(X, 2.0)
    with pytest.raises(ValueError, match="Overflow"):
        torch.topk(X, 2**70)
    assert torch.topk(quantized, 2).indices.shape == (3, 2)
