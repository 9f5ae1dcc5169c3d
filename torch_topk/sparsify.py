"""Sparsification of a gradient: accumulate, take the largest magnitudes, leave zeros, in one operator."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _rows
from ._elsewhere import backend
from ._errors import call
from ._libraries import registry
from ._out import is_negative
from ._sharding import has_dtensor

__all__ = ["Sparse", "sparsify_"]


class Sparse(NamedTuple):
    """What ``sparsify_`` returns."""

    values: Tensor
    indices: Tensor


def sparsify_(
    self: Tensor,
    k: int,
    *,
    add: Tensor | None = None,
    alpha: float = 1.0,
    momentum: Tensor | None = None,
    mu: float = 0.0,
    index_dtype: torch.dtype = torch.int32,
) -> Sparse:
    """Accumulates into ``self``, takes its ``k`` elements of largest magnitude out of it, and leaves zeros in
    their places: the step of gradient sparsification with error feedback, in place.

    Element by element, in float32 (float64 for float64) and rounded once to the dtype that is stored:
    ``self += add``; with ``alpha``, ``self = fma(alpha, add, self)``; with ``momentum``,
    ``momentum = fma(mu, momentum, add)`` and then ``self += momentum``. Then the winners come out, signed,
    bit copies of what ``self`` holds by now, and their places become +0 in ``self`` and in ``momentum``.
    Among equal magnitudes the lower index wins, so that the result is a function of the input alone, the same
    on every device but for the payload of NaN.

    Infinity and NaN are sent, or dropped, and never kept, as error feedback would keep them for ever: NaN is
    larger than infinity and both than all numbers, so they come out first, and where more than ``k`` of a row
    are there, those beyond become zeros too. With k = 0 nothing is taken, and nothing dropped.

    Args:
        self: [n] or [rows, n], float32, bfloat16, float16 or float64; of a matrix each row is one selection.
            Elements of a row must be adjacent, and no two elements share memory.
        k: how many of each row, 0 <= k <= n.
        add: of self's shape, and its dtype; or float16 or bfloat16 where self is float32. Any strides, but
            not in self's memory.
        alpha: what ``add`` is multiplied with. Not with ``momentum``.
        momentum: of self's shape and dtype, updated in place, apart from self and add. Needs ``add``.
        mu: what ``momentum`` is multiplied with.
        index_dtype: torch.int32, where n < 2**31, or torch.int64.

    Returns:
        ``values`` [k] or [rows, k], of self's dtype, and ``indices``, ascending in each row; a named tuple.
        Neither has gradients.

    Raises:
        TypeError: an argument of another type.
        RuntimeError: ``k`` out of range, shapes, dtypes, devices or strides that do not serve, memory that is
            shared, a tensor that requires grad. Raised before anything is written.
        torch.OutOfMemoryError: the outputs or the workspace do not fit. Nothing is written then either.

    CPU and CUDA tensors; asynchronous on CUDA. On the CPU each element is read once. Of DTensors, rows stay
    sharded, and momentum is placed as self; where elements of a row are sharded, or pending a reduction, the
    call is refused.

    Source: error feedback: S. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with Memory", 2018; momentum
    that is corrected: Y. Lin and others, "Deep Gradient Compression", 2018, section 3.
    """
    for name, tensor, optional in (("self", self, False), ("add", add, True), ("momentum", momentum, True)):
        if not isinstance(tensor, Tensor) and not (optional and tensor is None):
            raise TypeError(f"sparsify_(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    k = _rows.integer("sparsify_", "k", k)
    for name, number in (("alpha", alpha), ("mu", mu)):
        if isinstance(number, bool) or not isinstance(number, (int, float, torch.SymFloat)):
            raise TypeError(f"sparsify_(): argument '{name}' must be float, not {type(number).__name__}")
    _rows.check_dtype("sparsify_", "index_dtype", index_dtype)
    if has_dtensor(self, add, momentum):
        from . import _dtensor

        numbers = {"alpha": alpha, "mu": mu, "index_dtype": index_dtype}
        return _dtensor.sparsify_(self, k, add, momentum, numbers)
    backend(self)  # a CUDA tensor without the CUDA library: says how to get it
    _check_no_derivative(self, add, momentum)
    for name, tensor in (("self", self), ("momentum", momentum)):
        if is_negative(tensor):
            raise RuntimeError(f"sparsify_(): {name} is a view of its elements' negatives: resolve_neg() it")
    return Sparse(
        *call(
            torch.ops.gputopk.sparsify_, self, k,
            add=add, alpha=alpha, momentum=momentum, mu=mu, index_dtype=index_dtype,
        )
    )  # fmt: skip


def _check_no_derivative(self: Tensor, add: Tensor | None, momentum: Tensor | None) -> None:
    """Of plain autograd alone, and of what it writes alone, the operator sees it."""
    for name, tensor in (("self", self), ("momentum", momentum), ("add", add)):
        if tensor is None:
            continue
        wanted = tensor.requires_grad and torch.is_grad_enabled()
        if wanted or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None):
            how = "read" if name == "add" else "changed in place"
            raise RuntimeError(f"sparsify_(): {name} is {how}, without gradients, but has some to pass on")


# What the stable ABI cannot register ------------------------------------------------------------------

registry.impl("sparsify_", torch.library.fallthrough_kernel, "Autograd")

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_WIDENED = (torch.float16, torch.bfloat16)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(holds: Any, words: str) -> None:
    torch._check(holds, lambda: f"gputopk::sparsify_: {words}")


def _check_beside(tensor: Tensor, name: str, self: Tensor) -> None:
    words = f"{name} must have the shape of self, {list(self.shape)}, but has {list(tensor.shape)}"
    _check(tensor.dim() == self.dim(), words)
    for found, wanted in zip(tensor.shape, self.shape, strict=True):
        _check(found == wanted, words)
    _check(
        tensor.device == self.device,
        f"{name} must be on the device of self, {self.device}, but is on {tensor.device}",
    )


def _check_rows(tensor: Tensor, name: str) -> None:
    apart = tensor.stride(-1)
    _check(
        tensor.size(-1) <= 1 or apart == 1,
        f"{name}'s elements of a row must be adjacent, but are {apart} apart",
    )


@torch.library.register_fake("gputopk::sparsify_")
def _(self, k, *, add=None, alpha=1.0, momentum=None, mu=0.0, index_dtype=None):
    """Refuses what the operator refuses, in its words, but for memory that is shared."""
    _check(self.dim() in (1, 2), f"self must have 1 or 2 dimensions, but has {self.dim()}")
    dtype = _name(self.dtype)
    _check(self.dtype in _DTYPES, f"self must be float32, bfloat16, float16 or float64, not {dtype}")
    cols = self.size(-1)
    for holds in (k >= 0, k <= cols):
        _check(holds, f"k out of range: k is {k}, and a row of self has {cols} elements")
    index_dtype = index_dtype or torch.int32
    _check(index_dtype in (torch.int32, torch.int64), "index_dtype must be torch.int32 or torch.int64")
    if index_dtype == torch.int32:
        _check(
            cols < 2**31,
            f"index_dtype torch.int32 cannot index {cols} elements, at most {2**31 - 1}",
        )
    _check_rows(self, "self")
    _check(add is not None or momentum is None, "momentum needs add")
    _check(add is not None or alpha == 1, f"alpha needs add: it is {alpha:g}")
    _check(momentum is not None or mu == 0, f"mu needs momentum: it is {mu:g}")
    _check(momentum is None or alpha == 1, f"alpha must be 1 with momentum, but is {alpha:g}")
    if add is not None:
        wide = self.dtype == torch.float32
        _check(
            add.dtype == self.dtype or (wide and add.dtype in _WIDENED),
            f"add must be {dtype}{', float16 or bfloat16' if wide else ''} as self is {dtype}, "
            f"not {_name(add.dtype)}",
        )
        _check_beside(add, "add", self)
    if momentum is not None:
        _check(
            momentum.dtype == self.dtype,
            f"momentum must have self's dtype, {dtype}, not {_name(momentum.dtype)}",
        )
        _check_beside(momentum, "momentum", self)
        _check_rows(momentum, "momentum")
    shape = (*self.shape[:-1], k)
    return self.new_empty(shape), self.new_empty(shape, dtype=index_dtype)
