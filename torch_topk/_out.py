"""Outs: torch's rules about them that the operators leave to their callers, and results copied to them."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._errors import call
from ._fakes import check_request, result_shape
from ._overlap import overlap, overlaps_itself


def two_tensors(out: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(out, (tuple, list)) or not all(isinstance(tensor, Tensor) for tensor in out):
        raise TypeError(f"topk(): argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != 2:
        raise TypeError(f"topk(): argument 'out' must be a tuple of 2 Tensors, not {len(out)}")
    return out[0], out[1]


def check_no_grad(*tensors: Tensor) -> None:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            "topk(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise NotImplementedError(
            "Trying to use forward AD with topk_out that does not support it because it is an out= function"
        )


def topk_into(
    input: Tensor,
    k: int,
    dim: int,
    largest: bool,
    sorted: bool,
    options: dict[str, Any],
    values: Tensor,
    indices: Tensor,
) -> None:
    """Resizes the outs where they have another shape, and fills them."""
    if _can_hold(values, indices, input, options.get("index_dtype", torch.int64)):
        shape = result_shape(input.shape, k, dim)
        wrong = [tensor for tensor in (values, indices) if list(tensor.shape) != shape]
        # Before anything is resized, all is checked; while compiling nothing is done yet.
        if wrong and not torch.compiler.is_compiling():
            check_request(input, k, dim, options.get("index_dtype"), options.get("algorithm", 0))
            _check_not_inference(values, indices)
        for tensor in wrong:
            _resize(tensor, shape)
    # Otherwise the operator refuses the outs, and they keep their shapes.
    call(
        torch.ops.gputopk.topk.out,
        input, k, dim, largest, sorted, **options, values=values, indices=indices,
    )  # fmt: skip


def copy_into(result: tuple[Tensor, Tensor], input: Tensor, values: Tensor, indices: Tensor) -> None:
    """The same with a result that is there."""
    outs = {"values": values, "indices": indices}
    for (name, out), want in zip(outs.items(), result, strict=True):
        for what in ("dtype", "device"):
            if getattr(out, what) != getattr(want, what):
                raise RuntimeError(
                    f"topk(): Expected out tensor to have {what} {getattr(want, what)}, "
                    f"but got {getattr(out, what)} instead ({name})"
                )
    if not torch.compiler.is_compiling():  # nothing is there yet
        _check_not_inference(values, indices)
    for out, want in zip(outs.values(), result, strict=True):
        if out.shape != want.shape:
            _resize(out, list(want.shape))
    check_apart("topk", outs, {"the input": input})
    for out, want in zip(outs.values(), result, strict=True):
        out.copy_(want)


def check_apart(function: str, outs: dict[str, Tensor], inputs: dict[str, Tensor | None]) -> None:
    """What operators check of the outs that they write to: no element shares memory with another."""
    if torch.compiler.is_compiling():
        return
    for name, out in outs.items():
        if overlaps_itself(out):
            raise RuntimeError(
                f"{function}(): unsupported operation: more than one element of the written-to tensor refers "
                "to a single memory location. Please clone() the tensor before performing the operation. "
                f"({name})"
            )
    pairs = [(out, other) for out in outs.items() for other in inputs.items()]
    for (name, out), (other_name, other) in (*pairs, *itertools.combinations(outs.items(), 2)):
        if other is not None and overlap(out, other):
            raise RuntimeError(
                f"{function}(): unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before performing the "
                f"operation. ({name} and {other_name})"
            )


def is_negative(tensor: Tensor | None) -> bool:
    """Whether the tensor's memory holds the negatives of its elements, as of ``z.conj().imag``: no operator
    of ours may write there. Dynamo can neither tell, nor trace such tensors."""
    return tensor is not None and not torch.compiler.is_compiling() and tensor.is_neg()


def _can_hold(values: Tensor, indices: Tensor, input: Tensor, index_dtype: torch.dtype) -> bool:
    kinds = (values.dtype, indices.dtype, values.device, indices.device)
    return kinds == (input.dtype, index_dtype, input.device, input.device)


def _check_not_inference(*tensors: Tensor) -> None:
    if not torch.is_inference_mode_enabled() and any(tensor.is_inference() for tensor in tensors):
        raise RuntimeError(
            "topk(): Inplace update to inference tensor outside InferenceMode is not allowed. "
            "You can make a clone to get a normal tensor before doing inplace update."
        )


def _resize(tensor: Tensor, shape: list[int]) -> None:
    if tensor.numel() > 0:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(tensor.shape)}, which does not match the required output shape {shape}.",
            stacklevel=5,
        )
    if torch.is_grad_enabled() or not tensor.requires_grad:
        tensor.resize_(shape)
    else:
        with torch._C._AutoDispatchBelowAutograd():  # which would refuse, even where it records nothing
            tensor.resize_(shape)
