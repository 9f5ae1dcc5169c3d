"""The operators on tensors without data: what they refuse, in their words, and the form of what they give."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


def result_shape(shape: Sequence[int], k: int, dim: int) -> list[int]:
    shape = list(shape)
    if shape:
        shape[dim] = k
    return shape


def check_dim_and_k(shape: Sequence[int], k: int, dim: int) -> None:
    dims = max(len(shape), 1)
    torch._check(
        -dims <= dim < dims,
        lambda: (
            "gputopk::topk: Dimension out of range (expected to be in range of "
            f"[{-dims}, {dims - 1}], but got {dim})"
        ),
    )
    cols = shape[dim] if len(shape) > 0 else 1
    for holds in (k >= 0, k <= cols):
        torch._check(
            holds,
            lambda: (
                f"gputopk::topk: selected index k out of range: k is {k}, "
                f"and dimension {dim % dims} has size {cols}"
            ),
        )


def check_request(self: Tensor, k: int, dim: int, index_dtype: torch.dtype | None, algorithm: int) -> None:
    """Refuses what the operator refuses, but for outs."""
    check_dim_and_k(self.shape, k, dim)
    cols = self.size(dim) if self.dim() > 0 else 1
    if index_dtype == torch.int32:
        torch._check(
            cols < 2**31,
            lambda: (
                f"gputopk::topk: index_dtype torch.int32 cannot index {cols} elements, at most {2**31 - 1}"
            ),
        )
    _check_plan(self, k, dim, index_dtype, algorithm)


def _check_plan(self: Tensor, k: int, dim: int, index_dtype: torch.dtype | None, algorithm: int) -> None:
    """Asks the plan, which knows dtypes and algorithms, about a tensor without data. On the CPU no rule
    hangs on sizes; elsewhere, while sizes are symbols, such rules are left to the call."""
    shape = tuple(self.shape)
    on_cpu = self.device.type == "cpu"
    if on_cpu or not all(type(size) is int for size in (*shape, k)):
        shape, k, dim = (1,), 1, 0
    with _disable_current_modes():
        like = torch.empty(shape, dtype=self.dtype, device="cpu" if on_cpu else "meta")
        torch.ops.gputopk._plan(like, k, dim, index_dtype=index_dtype, algorithm=algorithm)


def _check_out_kind(out: Tensor, self: Tensor, dtype: torch.dtype, name: str) -> None:
    for what, found, wanted in (("dtype", out.dtype, dtype), ("device", out.device, self.device)):
        if found != wanted:
            raise RuntimeError(
                f"gputopk::topk: Expected out tensor to have {what} {wanted}, "
                f"but got {found} instead ({name})"
            )


def _check_out_shape(out: Tensor, shape: list[int], name: str) -> None:
    def words() -> str:
        return f"gputopk::topk: {name} has shape {list(out.shape)}, but the result has {shape}"

    torch._check(out.dim() == len(shape), words)
    for found, wanted in zip(out.shape, shape, strict=True):
        torch._check(found == wanted, words)


@torch.library.register_fake("gputopk::topk")
@torch.library.register_fake("gputopk::differentiable_topk")
def _(self, k, dim=-1, largest=True, sorted=True, *, magnitude=False, index_dtype=None, algorithm=0):
    check_request(self, k, dim, index_dtype, algorithm)
    shape = result_shape(self.shape, k, dim)
    return self.new_empty(shape), self.new_empty(shape, dtype=index_dtype or torch.int64)


@torch.library.register_fake("gputopk::topk.out")
def _(
    self, k, dim=-1, largest=True, sorted=True, *,
    magnitude=False, index_dtype=None, algorithm=0, values, indices,
):  # fmt: skip
    check_request(self, k, dim, index_dtype, algorithm)
    shape = result_shape(self.shape, k, dim)
    _check_out_kind(values, self, self.dtype, "values")
    _check_out_kind(indices, self, index_dtype or torch.int64, "indices")
    _check_out_shape(values, shape, "values")
    _check_out_shape(indices, shape, "indices")
