"""Which tensors have kernels of ours, and top-k for those that have none."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from ._autograd import gather
from ._fakes import check_dim_and_k
from ._libraries import has_cuda


def backend(input: Tensor) -> Literal["cuda", "cpu", "torch"]:
    """Who serves ``topk`` of this tensor.

    Returns:
        "cuda" or "cpu": this library's kernels; for a meta tensor "cpu", as its form is computed there.
        "torch": a stable sort by torch, on devices without kernels of ours, which keeps the contract; and
        torch.topk itself for quantized tensors, whose ties are torch's.

    Raises:
        TypeError: no tensor.
        RuntimeError: a CUDA tensor, where the CUDA library is not loaded.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"backend(): argument 'input' must be Tensor, not {type(input).__name__}")
    if input.is_quantized:
        return "torch"
    if input.is_cpu or input.is_meta:
        return "cpu"
    if not input.is_cuda:
        return "torch"
    if not has_cuda:
        raise RuntimeError(
            "topk(): a CUDA tensor needs libgputopk_cuda.so, which is not loaded: torch here is "
            f"{torch.__version__}; build the library with `make cuda` in a checkout, or with "
            "`FORCE_CUDA=1 pip install --no-build-isolation .`, beside a torch that has CUDA"
        )
    return "cuda"


# Kept, as a caller may put ours in its place.
torch_topk = torch.topk


def topk_of_quantized(
    input: Tensor, k: int, dim: int, largest: bool, sorted: bool, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    if options:
        raise RuntimeError(f"topk(): {', '.join(options)} of a quantized tensor is not served")
    return torch_topk(input, k, dim, largest, sorted)


def topk_by_sorting(
    input: Tensor, k: int, dim: int, largest: bool, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The contract, ties included, from a stable sort of whole rows, with gradients through gather."""
    if "algorithm" in options:
        raise RuntimeError(
            f"topk(): algorithm must be auto on device {input.device.type}: it has no kernels of ours"
        )
    check_dim_and_k(input.shape, k, dim)
    _warn_once(input.device.type)
    if input.dim() == 0:
        indices = torch.zeros((), dtype=torch.int64, device=input.device)
    else:
        keys, descending = _sort_keys(input.detach(), largest, options.get("magnitude", False))
        ranking = torch.sort(keys, dim=dim, descending=descending, stable=True).indices
        indices = ranking.narrow(dim, 0, k).clone(memory_format=torch.contiguous_format)
    return gather(input, dim, indices), indices.to(options.get("index_dtype", torch.int64))


def _sort_keys(tensor: Tensor, largest: bool, magnitude: bool) -> tuple[Tensor, bool]:
    """What to sort, and whether descending. torch's order is the contract's: NaN above all, zeros equal."""
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        tensor = tensor.float()  # sort knows no float8
    if not magnitude or not tensor.dtype.is_signed:
        return tensor, largest
    if tensor.is_floating_point():
        return tensor.abs(), largest
    return torch.where(tensor < 0, tensor, -tensor), not largest  # -|x|: |x| may not hold INT_MIN's


@functools.cache
def _warn_once(device_type: str) -> None:
    warnings.warn(
        f"torch_topk has no kernels for device {device_type}: topk() sorts whole rows there", stacklevel=4
    )
