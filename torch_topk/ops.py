"""The typed front of ``torch.ops.gputopk``, and what the stable ABI cannot register from C++: fakes,
autograd and vmap."""

from __future__ import annotations

import operator
import warnings
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils._python_dispatch import _disable_current_modes

from ._libraries import has_cuda

__all__ = ["Algorithm", "topk"]


class Algorithm(IntEnum):
    """What runs a call. An algorithm that cannot serve a request says why; it is never replaced."""

    auto = 0
    """The plan's choice: use this."""
    air = 1
    """Radix selection (AIR top-k): any dtype, shape and k."""
    grid_select = 2
    """Queues of candidates on the fly (GridSelect): small k."""
    delegate = 3
    """A bound first, from maxima of parts of the row (Dr. Top-k): long rows."""
    bitonic = 4
    """Sorting networks: short rows and small k."""
    split_bucket = 5
    """Split-bucket partition."""
    sort = 6
    """A sort of the whole row: k near its length."""


# Looked up once.
_AUTO = Algorithm.auto
_INT64 = torch.int64
_Result = torch.return_types.topk
_operator = torch.ops.gputopk.topk.default


def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    magnitude: bool = False,
    index_dtype: torch.dtype = torch.int64,
    algorithm: Algorithm | str | int = Algorithm.auto,
    out: tuple[Tensor, Tensor] | None = None,
) -> torch.return_types.topk:
    """The ``k`` largest (or smallest) elements along ``dim``, and where they are: ``torch.topk``, exactly,
    with ties defined.

    Among equal elements the lower index wins, on every device and in every run, so the chosen set is a
    function of the input alone. NaN of either sign is above +inf and -0.0 equals +0.0, as in ``torch.topk``;
    values are bit copies of the input's elements.

    Args:
        input: any shape, any strides. bool, (u)int8/16/32/64, float8_e4m3fn, float8_e5m2, float16, bfloat16,
            float32 or float64.
        k: how many, 0 <= k <= input.size(dim).
        dim: the dimension to select along.
        largest: the largest elements, or the smallest.
        sorted: best first, equal values by index; otherwise the same elements in any order.
        magnitude: order by absolute value; the values returned keep their sign.
        index_dtype: torch.int64, or torch.int32 where input.size(dim) < 2**31.
        algorithm: an ``Algorithm``, its name or its number. For CUDA tensors.
        out: two tensors to write values and indices to, of the result's dtypes; resized where their shape is
            another.

    Returns:
        ``torch.return_types.topk`` of ``values`` (the input's dtype) and ``indices`` (``index_dtype``), both
        contiguous, of the input's shape with ``k`` in place of ``input.size(dim)``. Where the input requires
        grad, values have gradients, through ``input.gather(dim, indices)``; indices never do.

    Raises:
        TypeError: an argument of a type that ``torch.topk`` does not take.
        IndexError: ``dim`` out of range.
        RuntimeError: ``k`` out of range, a dtype that is not served, or an algorithm that cannot serve the
            request. Raised before anything is launched.
        torch.OutOfMemoryError: the outputs or the workspace do not fit. The bare operator's RuntimeError.

    CPU, CUDA and meta tensors go to ``torch.ops.gputopk.topk``, other devices to ``torch.topk``, whose ties
    are its own.

    Source: on CUDA, AIR top-k and GridSelect: J. Zhang, A. Naruse, X. Li, Y. Wang, "Parallel Top-K Algorithms
    on GPU: A Comprehensive Study and New Methods", SC '23, sections 3 and 4; delegates: A. Gaihre et al.,
    "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC '21, sections 4 and 5.
    """
    if has_torch_function_unary(input):
        return handle_torch_function(
            topk, (input,), input, k, dim, largest, sorted,
            magnitude=magnitude, index_dtype=index_dtype, algorithm=algorithm, out=out,
        )  # fmt: skip
    # The call that is made most, told by the fewest checks and without calls; what they refuse may yet be
    # served below. Defaults are left out, as parsing takes time.
    if (
        largest is True and sorted is True and type(k) is int and type(dim) is int and dim == -1
        and magnitude is False and index_dtype is _INT64 and algorithm is _AUTO and out is None
        and isinstance(input, Tensor) and (input.is_cpu or (input.is_cuda and has_cuda))
        and not input.requires_grad and forward_ad._current_level < 0
    ):  # fmt: skip
        try:
            return _Result(_operator(input, k))
        except RuntimeError as error:
            _raise_out_of_memory(error)
            raise
    k, dim = _check_arguments(input, k, dim, largest, sorted, magnitude, index_dtype)
    algorithm = _algorithm_number(algorithm)
    if not _is_served(input):
        return _topk_elsewhere(input, k, dim, largest, sorted, magnitude, index_dtype, out)

    options: dict[str, Any] = {}  # what differs from the defaults: parsing the rest takes microseconds
    if magnitude:
        options["magnitude"] = True
    if index_dtype != torch.int64:
        options["index_dtype"] = index_dtype
    if algorithm != 0:
        options["algorithm"] = algorithm
    if out is not None:
        return _topk_out(input, k, dim, largest, sorted, options, out)
    if _wants_gradient(input):
        _, indices = _call(torch.ops.gputopk.topk, input.detach(), k, dim, largest, sorted, **options)
        values = input.gather(dim, indices.long())
    else:
        values, indices = _call(torch.ops.gputopk.topk, input, k, dim, largest, sorted, **options)
    return torch.return_types.topk((values, indices))


def _call(operator: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return operator(*arguments, **options)
    except RuntimeError as error:
        _raise_out_of_memory(error)
        raise


def _raise_out_of_memory(error: RuntimeError) -> None:
    """No exception's type passes the stable ABI. The words are torch's own, on CUDA and on the CPU."""
    words = str(error)
    if words.startswith("gputopk::") and ("out of memory" in words or "can't allocate memory" in words):
        raise torch.OutOfMemoryError(words) from error


def _check_arguments(
    input: Any, k: Any, dim: Any, largest: Any, sorted: Any, magnitude: Any, index_dtype: Any
) -> tuple[int, int]:
    """As strict about types as torch.topk, which the bare operator is not: it would take k=True."""
    as_expected = (
        isinstance(input, Tensor)
        and isinstance(k, (int, torch.SymInt))
        and not isinstance(k, bool)
        and isinstance(dim, int)
        and not isinstance(dim, bool)
        and isinstance(largest, bool)
        and isinstance(sorted, bool)
    )
    if not as_expected:
        # torch.topk judges, in its own words, on a tensor without data: it also takes NumPy's integers.
        like = input.new_empty(input.shape, device="meta") if isinstance(input, Tensor) else input
        torch.topk(like, k, dim, largest, sorted)
        k, dim = operator.index(k), operator.index(dim)
    if not isinstance(magnitude, bool):
        raise TypeError(f"topk(): argument 'magnitude' must be bool, not {type(magnitude).__name__}")
    if not isinstance(index_dtype, torch.dtype):
        raise TypeError(
            f"topk(): argument 'index_dtype' must be torch.dtype, not {type(index_dtype).__name__}"
        )
    if index_dtype not in (torch.int64, torch.int32):
        raise RuntimeError(f"topk(): index_dtype must be torch.int64 or torch.int32, not {index_dtype}")
    dims = max(input.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})"
        )
    return k, dim


def _algorithm_number(algorithm: Algorithm | str | int) -> int:
    if algorithm is Algorithm.auto:
        return 0
    if isinstance(algorithm, str):
        try:
            return Algorithm[algorithm].value
        except KeyError:
            names = ", ".join(member.name for member in Algorithm)
            raise ValueError(f"topk(): algorithm must be one of {names}, not {algorithm!r}") from None
    if isinstance(algorithm, bool) or not isinstance(algorithm, int):
        name = type(algorithm).__name__
        raise TypeError(f"topk(): argument 'algorithm' must be an Algorithm, its name or int, not {name}")
    return int(algorithm)


def _is_served(input: Tensor) -> bool:
    return input.is_cpu or (input.is_cuda and has_cuda) or input.is_meta


def _wants_gradient(input: Tensor) -> bool:
    if input.requires_grad and torch.is_grad_enabled():
        return True
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def _topk_out(
    input: Tensor,
    k: int,
    dim: int,
    largest: bool,
    sorted: bool,
    options: dict[str, Any],
    out: tuple[Tensor, Tensor],
) -> torch.return_types.topk:
    values, indices = _check_out(out)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (input, values, indices)):
        raise RuntimeError(
            "topk(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    dtypes = (input.dtype, options.get("index_dtype", torch.int64))
    if (values.dtype, indices.dtype) == dtypes and values.device == indices.device == input.device:
        shape = _result_shape(input, k, dim)
        for tensor in (values, indices):
            _resize_out(tensor, shape)
    # Otherwise the operator refuses them, and they keep their shapes.
    _call(
        torch.ops.gputopk.topk.out,
        input, k, dim, largest, sorted, **options, values=values, indices=indices,
    )  # fmt: skip
    return torch.return_types.topk((values, indices))


def _check_out(out: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(out, (tuple, list)) or not all(isinstance(tensor, Tensor) for tensor in out):
        raise TypeError(f"topk(): argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != 2:
        raise TypeError(f"topk(): argument 'out' must be a tuple of 2 Tensors, not {len(out)}")
    return out[0], out[1]


def _resize_out(tensor: Tensor, shape: list[int]) -> None:
    if list(tensor.shape) == shape:
        return
    if tensor.numel() > 0:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(tensor.shape)}, which does not match the required output shape {shape}.",
            stacklevel=4,
        )
    tensor.resize_(shape)


def _topk_elsewhere(
    input: Tensor,
    k: int,
    dim: int,
    largest: bool,
    sorted: bool,
    magnitude: bool,
    index_dtype: torch.dtype,
    out: tuple[Tensor, Tensor] | None,
) -> torch.return_types.topk:
    """Devices that have no kernel of ours."""
    if not magnitude and index_dtype == torch.int64:
        return torch.topk(input, k, dim, largest, sorted, out=out)
    if out is not None:
        raise RuntimeError(
            f"topk(): out= with magnitude or index_dtype is not served on device {input.device.type}"
        )
    keys = input.abs() if magnitude else input
    indices = torch.topk(keys, k, dim, largest, sorted).indices
    return torch.return_types.topk((input.gather(dim, indices), indices.to(index_dtype)))


def _result_shape(input: Tensor, k: int, dim: int) -> list[int]:
    shape = list(input.shape)
    if shape:
        shape[dim] = k
    return shape


# What the stable ABI cannot register ------------------------------------------------------------------

_library = torch.library.Library("gputopk", "IMPL")
# Without this, outputs of an operator that registers no derivative come out with requires_grad=True.
_library.impl("topk", torch.library.fallthrough_kernel, "Autograd")
_library.impl("topk.out", torch.library.fallthrough_kernel, "Autograd")


def _check_fake(self: Tensor, k: int, dim: int, index_dtype: torch.dtype | None, algorithm: int) -> None:
    """Refuses what the operator refuses, in its words."""
    dims = max(self.dim(), 1)
    torch._check(
        -dims <= dim < dims,
        lambda: (
            "gputopk::topk: Dimension out of range (expected to be in range of "
            f"[{-dims}, {dims - 1}], but got {dim})"
        ),
    )
    cols = self.size(dim) if self.dim() > 0 else 1
    for holds in (k >= 0, k <= cols):
        torch._check(
            holds,
            lambda: (
                f"gputopk::topk: selected index k out of range: k is {k}, "
                f"and dimension {dim % dims} has size {cols}"
            ),
        )
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


def _check_fake_kind(out: Tensor, self: Tensor, dtype: torch.dtype, name: str) -> None:
    for what, found, wanted in (("dtype", out.dtype, dtype), ("device", out.device, self.device)):
        if found != wanted:
            raise RuntimeError(
                f"gputopk::topk: Expected out tensor to have {what} {wanted}, "
                f"but got {found} instead ({name})"
            )


def _check_fake_shape(out: Tensor, shape: list[int], name: str) -> None:
    def words() -> str:
        return f"gputopk::topk: {name} has shape {list(out.shape)}, but the result has {shape}"

    torch._check(out.dim() == len(shape), words)
    for found, wanted in zip(out.shape, shape, strict=True):
        torch._check(found == wanted, words)


@torch.library.register_fake("gputopk::topk")
def _(self, k, dim=-1, largest=True, sorted=True, *, magnitude=False, index_dtype=None, algorithm=0):
    _check_fake(self, k, dim, index_dtype, algorithm)
    shape = _result_shape(self, k, dim)
    return self.new_empty(shape), self.new_empty(shape, dtype=index_dtype or torch.int64)


@torch.library.register_fake("gputopk::topk.out")
def _(
    self, k, dim=-1, largest=True, sorted=True, *,
    magnitude=False, index_dtype=None, algorithm=0, values, indices,
):  # fmt: skip
    _check_fake(self, k, dim, index_dtype, algorithm)
    shape = _result_shape(self, k, dim)
    _check_fake_kind(values, self, self.dtype, "values")
    _check_fake_kind(indices, self, index_dtype or torch.int64, "indices")
    _check_fake_shape(values, shape, "values")
    _check_fake_shape(indices, shape, "indices")


@torch.library.register_vmap("gputopk::topk")
def _(info, in_dims, self, k, dim=-1, largest=True, sorted=True, **options):
    batched = self.movedim(in_dims[0], 0)
    scalars = batched.dim() == 1  # each example is 0-dim: its one element is the row
    if scalars:
        batched, k, dim = batched.unsqueeze(1), 1, 1
    elif dim >= 0:
        dim += 1
    values, indices = torch.ops.gputopk.topk(batched, k, dim, largest, sorted, **options)
    if scalars:
        values, indices = values.squeeze(1), indices.squeeze(1)
    return (values, indices), (0, 0)
