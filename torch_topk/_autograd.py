"""Gradients of ``torch_topk.topk``: ``gputopk::differentiable_topk``, below autograd ``gputopk::topk``.

Its Autograd kernel is reached through the dispatcher, so whatever transform is at work, eager or traced,
meets it where it meets those of torch's own operators. What is kept for backward is the indices alone, so the
input may be freed, or changed in place. Outside transforms most calls get torch's own gradient: ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

from ._errors import call
from ._libraries import registry

_topk = torch.ops.gputopk.topk.default
_topk_by_index = torch.ops.gputopk._topk_by_index.default
_differentiable_topk = torch.ops.gputopk.differentiable_topk.default

is_functorch_active = _C._are_functorch_transforms_active
is_tracing = _C._is_tracing


def select(
    input: Tensor, k: int, dim: int, largest: bool, sorted: bool, by_index: bool, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """``gputopk::topk``, with gradients wherever they may be asked for, and on request by ascending index."""
    if _in_transform():
        function = _differentiable_topk if input.is_floating_point() else _topk
        values, indices = call(function, input, k, dim, largest, sorted, **options)
        return in_index_order(values, indices, dim) if by_index else (values, indices)
    if _is_recorded(input):
        # No transform would see the operator: what its kernel does, without the way there.
        return call(Selection.apply, None, input, k, dim, largest, sorted, by_index, options)
    return call(_select, input, k, dim, largest, sorted, by_index, options)


def _select(
    input: Tensor, k: int, dim: int, largest: bool, sorted: bool, by_index: bool, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    if by_index and input.is_cuda:
        return _topk_by_index(input, k, dim, largest, **options)
    values, indices = _topk(input, k, dim, largest, sorted, **options)
    return in_index_order(values, indices, dim) if by_index else (values, indices)


def in_index_order(values: Tensor, indices: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    if indices.is_cuda:
        count = indices.size(dim) if indices.dim() > 0 else 1
        indices, places = call(_topk, indices, count, dim, False, True)
    else:
        indices, places = torch.sort(indices, dim=dim)
    return gather(values, dim, places), indices


def wants_derivative(input: Tensor) -> bool:
    """Whether what is called now may have to be differentiated."""
    return _is_recorded(input) or _in_transform()


def _is_recorded(input: Tensor) -> bool:
    return (input.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0


def _in_transform() -> bool:
    """Whether what is called may have derivatives that no tensor here tells of."""
    return torch.compiler.is_compiling() or is_functorch_active() or is_tracing()


# As what torch, which lacks kernels for the one, copies the bits of the other.
_AS_INTEGERS = {
    torch.float8_e4m3fn: torch.int8,
    torch.float8_e5m2: torch.int8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}
_HALVES = (torch.float16, torch.bfloat16)


def gather(tensor: Tensor, dim: int, indices: Tensor) -> Tensor:
    """``tensor.gather(dim, indices)``, of every dtype, with gradients."""
    if tensor.dtype in _HALVES and not wants_derivative(tensor):
        # torch's own, on the CPU, makes one NaN of all.
        return tensor.view(torch.int16).gather(dim, indices).view(tensor.dtype)
    return moved(lambda tensor: tensor.gather(dim, indices), tensor)


def moved(move: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """``move(*tensors)``, of every dtype, with gradients. ``move`` copies elements and computes nothing."""
    dtype = tensors[0].dtype
    integers = _AS_INTEGERS.get(dtype)
    if integers is None:
        return move(*tensors)
    bits = move(*(tensor.detach().view(integers) for tensor in tensors))
    if not (dtype.is_floating_point and any(map(wants_derivative, tensors))):
        return bits.view(dtype)
    # Integers have no derivatives: those are of the same move in float32. Its values lack the payloads of NaN
    # alone, and are written over where autograd does not see it.
    result = move(*(tensor.float() for tensor in tensors)).to(dtype)
    result.detach().view(integers).copy_(bits)
    return result


def _scatter_to(sizes: Any, dim: int, indices: Tensor, grad: Tensor) -> Tensor:
    """Zeros but for ``grad``, as torch.topk's backward makes them."""
    scatter = torch.ops.aten.value_selecting_reduction_backward
    integers = _AS_INTEGERS.get(grad.dtype)
    if integers is None:
        return scatter(grad, dim, indices, sizes, True)
    return scatter(grad.view(integers), dim, indices, sizes, True).view(grad.dtype)


# One level of autograd, be it torch's own or a transform's. Where transforms nest, the dispatcher reaches one
# after the other, each with tensors of its own; torch.autograd.Function would start over at every level.
class Selection(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx, keyset, self, k, dim, largest, sorted, by_index, options):
        """``keyset``: the operator's, where levels below are to see it; otherwise None."""
        if keyset is None:
            values, indices = _select(self, k, dim, largest, sorted, by_index, options)
        else:
            # Function turns both modes off; levels below have their own.
            with _C._AutoDispatchBelowAutograd(), torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                keyset = keyset & _C._after_autograd_keyset
                values, indices = _differentiable_topk.redispatch(
                    keyset, self, k, dim, largest, sorted, **options
                )
        ctx.dim = dim
        ctx.sizes = self.shape
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.save_for_forward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, values_grad, _):
        if values_grad is None:
            return (None,) * 8
        (indices,) = ctx.saved_tensors
        grad = _scatter_to(ctx.sizes, ctx.dim, indices.long(), values_grad)
        return None, grad, None, None, None, None, None, None

    @staticmethod
    def jvp(ctx, _, tangent, *__):
        (indices,) = ctx.saved_tensors
        with forward_ad._set_fwd_grad_enabled(True):  # Function turns it off here, not for levels below
            return gather(tangent, ctx.dim, indices.long()), None


def _autograd_kernel(keyset, self, k, dim=-1, largest=True, sorted=True, **options):
    allowed = _C._functorch.get_single_level_autograd_function_allowed()
    _C._functorch.set_single_level_autograd_function_allowed(True)
    try:
        below = keyset if is_functorch_active() else None
        return Selection.apply(below, self, k, dim, largest, sorted, False, options)
    finally:
        _C._functorch.set_single_level_autograd_function_allowed(allowed)


registry.impl("differentiable_topk", _autograd_kernel, "Autograd", with_keyset=True)
# The other operators record nothing. Without this, outputs of an operator that registers no derivative come
# out with requires_grad=True.
for _name in ("topk", "topk.out", "_topk_by_index", "_topk_kth", "rerank", "rerank.out"):
    registry.impl(_name, torch.library.fallthrough_kernel, "Autograd")
