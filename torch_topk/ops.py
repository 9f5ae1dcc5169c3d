"""``torch_topk.topk``, the typed front of ``torch.ops.gputopk.topk``."""

from __future__ import annotations

import operator
from enum import IntEnum
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_unary

from . import _vmap  # noqa: F401  registers the rules
from ._autograd import (
    in_index_order,
    is_functorch_active,
    is_tracing,
    select,
    wants_derivative,
)
from ._elsewhere import backend, topk_by_sorting, topk_of_quantized, torch_topk
from ._errors import raise_failure
from ._libraries import has_cuda
from ._out import check_no_grad, copy_into, is_negative, topk_into, two_tensors
from ._rows import check_bool, check_choice, check_dtype, number_of
from ._sharding import has_dtensor, is_dtensor
from ._sharding import register as register_sharding

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
    """Tiles of the row reduced on chip, and reduced again until one is left (split-bucket): k to 1024."""
    sort = 6
    """A sort of the whole row: any k in rows to 8192 elements, k from an eighth of the row in longer ones."""


Order = Literal["value", "index", "any"]

# Looked up once.
_AUTO = Algorithm.auto
_INT64 = torch.int64
_PLAIN = frozenset({Tensor, torch.nn.Parameter})  # no FakeTensor, no DTensor
_Result = torch.return_types.topk
_PAIRS = frozenset({tuple, list, _Result})
_deterministic = torch._C._get_deterministic_algorithms
_modes = torch._C._len_torch_dispatch_stack
_profiling = torch._C._autograd._profiler_enabled  # a call that names its dispatch keys is not recorded

# aten::topk, led past torch's kernel to ours, which stands behind dispatch keys that no device goes by
# (csrc/binding/behind_aten.h). So arguments, gradients and versions of outs are seen to by torch, in C++: a
# Python function for them takes microseconds. By whether the tensor is the CPU's.
_aten_topk = torch.ops.aten.topk.default._handle.redispatch_boxed
_aten_topk_out = torch.ops.aten.topk.values._handle.redispatch_boxed
_OWN = (DispatchKeySet(DispatchKey.PrivateUse2), DispatchKeySet(DispatchKey.PrivateUse3))
_AUTOGRAD = tuple(own | DispatchKeySet(DispatchKey.AutogradCPU) for own in _OWN)
_VERSIONS = tuple(keys | DispatchKeySet(DispatchKey.ADInplaceOrView) for keys in _AUTOGRAD)
_UNDIFFERENTIABLE = (torch.float8_e4m3fn, torch.float8_e5m2)  # torch cannot scatter them, _autograd can


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
    order: Order | None = None,
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
        order: the same, and more; given, it decides and ``sorted`` does not. "value": best first, equal
            values by index. "index": by ascending index, and so a function of the input alone. "any":
            whatever comes fastest, and may differ from run to run (so a recomputation, as of
            ``torch.utils.checkpoint``, may see another); under ``torch.use_deterministic_algorithms(True)``
            it is "index".
        magnitude: order by absolute value; the values returned keep their sign.
        index_dtype: torch.int64, or torch.int32 where input.size(dim) < 2**31.
        algorithm: an ``Algorithm``, its name or its number. For CUDA tensors; others have auto alone.
        out: two tensors to write values and indices to, of the result's dtypes; resized where their shape is
            another. Unlike ``torch.topk``'s they may not share memory with the input.

    Returns:
        ``torch.return_types.topk`` of ``values`` (the input's dtype) and ``indices`` (``index_dtype``), both
        contiguous, of the input's shape with ``k`` in place of ``input.size(dim)``. Values have gradients, as
        ``input.gather(dim, indices)`` has, of any order and under every transform of ``torch.func``,
        ``torch.compile`` and forward mode; indices alone are kept for them. Indices have none.

    Raises:
        TypeError: an argument of a type that ``torch.topk`` does not take.
        IndexError: ``dim`` out of range.
        ValueError: an algorithm or order of another name; ``k`` or ``dim`` beyond 64 bits.
        RuntimeError: ``k`` out of range, a dtype that is not served, an algorithm that cannot serve the
            request, or a CUDA tensor where the CUDA library is not loaded. Raised before any launch.
        torch.OutOfMemoryError: the outputs or the workspace do not fit. The bare operator's RuntimeError.

    CPU, CUDA and meta tensors go to ``torch.ops.gputopk.topk``; tensors of other devices are sorted, stably,
    by torch, so that the contract holds; quantized tensors go to ``torch.topk``, with its arguments alone.
    ``backend`` says which.

    Of a DTensor, dimensions that are not selected along stay sharded. Where ``dim`` is, each rank's winners
    are merged, or the rows gathered if that is less, and always for a gradient and while compiling; results
    are replicated there. An ``out`` may be placed in any way. The bare operator takes DTensors too, once this
    has, or ``torch.distributed.tensor`` was imported before this package; it gathers.

    Source: on CUDA, AIR top-k and GridSelect: J. Zhang, A. Naruse, X. Li, Y. Wang, "Parallel Top-K Algorithms
    on GPU: A Comprehensive Study and New Methods", SC '23, sections 3 and 4; delegates: A. Gaihre et al.,
    "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC '21, sections 4 and 5; bitonic: A. Shanbhag, H. Pirk,
    S. Madden, "Efficient Top-K Query Processing on Massively Parallel Hardware", SIGMOD '18, section 3.2;
    split-bucket: "Optimizing top-K and selection algorithms on GPUs by split-bucket partition", 2024,
    sections 3.2 and 3.3. The sort of whole rows, and what runs on the CPU, follow no paper.
    """
    if has_torch_function_unary(input):
        return handle_torch_function(
            topk, (input,), input, k, dim, largest, sorted,
            magnitude=magnitude, index_dtype=index_dtype, algorithm=algorithm, order=order, out=out,
        )  # fmt: skip
    # Most calls: torch.topk's arguments, and no transform or mode at work. Few checks, as they are what a
    # short call costs; the kernel refuses what it cannot serve, before anything is launched.
    if (
        not is_dynamo_compiling() and type(input) in _PLAIN
        and ((on_cpu := input.is_cpu) or (input.is_cuda and has_cuda))
        and type(k) is int and type(dim) is int and (largest is True or largest is False)
        and (sorted is True or (sorted is False and not _deterministic()))
        and magnitude is False and index_dtype is _INT64 and algorithm is _AUTO and order is None
        and forward_ad._current_level < 0 and not is_functorch_active() and not is_tracing()
        and not _modes() and not _profiling()
    ):  # fmt: skip
        try:
            if out is None:
                keys = _OWN[on_cpu]
                if input.requires_grad:
                    keys = _AUTOGRAD[on_cpu] if input.dtype not in _UNDIFFERENTIABLE else None
                if keys is not None:
                    if dim == -1 and largest and sorted:  # arguments that are left out need not be parsed
                        return _Result(_aten_topk(keys, input, k))
                    return _Result(_aten_topk(keys, input, k, dim, largest, sorted))
            elif type(out) in _PAIRS:
                values, indices = out
                if type(values) in _PLAIN and type(indices) in _PLAIN:
                    keys = _VERSIONS[on_cpu]
                    return _Result(
                        _aten_topk_out(keys, input, k, dim, largest, sorted, values=values, indices=indices)
                    )
        except (RuntimeError, ValueError) as error:
            # The slow path repeats the checks and raises torch.topk's own message, or serves what the kernel
            # refused: tensors whose elements are not what their memory holds, outs to resize. ValueError: out
            # has another number of tensors.
            raise_failure(error)
    if isinstance(out, (tuple, list)) and has_torch_function(out):
        return handle_torch_function(
            topk, (input, *out), input, k, dim, largest, sorted,
            magnitude=magnitude, index_dtype=index_dtype, algorithm=algorithm, order=order, out=out,
        )  # fmt: skip
    if is_dtensor(input) or (isinstance(out, (tuple, list)) and has_dtensor(*out)):
        register_sharding()
    k, dim = _check_arguments(input, k, dim, largest, sorted, magnitude, index_dtype)
    asked, order = order, _check_order(order, sorted)
    if asked == "index" and input.is_quantized:
        raise RuntimeError("topk(): order='index' of a quantized tensor is not served")

    options: dict[str, Any] = {}  # what differs from the defaults: parsing the rest takes microseconds
    if magnitude:
        options["magnitude"] = True
    if index_dtype != torch.int64:
        options["index_dtype"] = index_dtype
    if algorithm is not _AUTO and (number := number_of("topk", "algorithm", algorithm, Algorithm)) != 0:
        options["algorithm"] = number

    if out is None:
        return _Result(_topk(input, k, dim, largest, order, options))
    values, indices = two_tensors(out)
    check_no_grad(input, values, indices)
    if has_dtensor(input, values, indices):
        from . import _dtensor

        _dtensor.check_outs(input, k, dim, index_dtype, values, indices)
        _dtensor.copy_into(_topk(input, k, dim, largest, order, options), (values, indices))
    elif order == "index" or backend(input) == "torch" or is_negative(values) or is_negative(indices):
        copy_into(_topk(input, k, dim, largest, order, options), input, values, indices)
    else:
        topk_into(input, k, dim, largest, order == "value", options, values, indices)
    return _Result((values, indices))


def _topk(
    input: Tensor, k: int, dim: int, largest: bool, order: Order, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    by_value, by_index = order == "value", order == "index"
    if is_dtensor(input) and not wants_derivative(input):
        from . import _dtensor

        return _dtensor.topk(input, k, dim, largest, order, options)
    if backend(input) != "torch":
        return select(input, k, dim, largest, by_value, by_index, options)
    if input.is_quantized:
        return topk_of_quantized(input, k, dim, largest, by_value, options)
    values, indices = topk_by_sorting(input, k, dim, largest, options)
    return in_index_order(values, indices, dim) if by_index else (values, indices)


def _check_order(order: Order | None, sorted: bool) -> Order:
    if order is None:
        order = "value" if sorted else "any"
    else:
        check_choice("topk", "order", order, ("value", "index", "any"))
    if order == "any" and torch.are_deterministic_algorithms_enabled():
        return "index"
    return order


_DTYPES = frozenset(
    {
        torch.bool,
        torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float8_e4m3fn, torch.float8_e5m2,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    }
)  # fmt: skip

# What fits no int64 is no size.
_LEAST, _MOST = -(2**63), 2**63 - 1


def _check_arguments(
    input: Any, k: Any, dim: Any, largest: Any, sorted: Any, magnitude: Any, index_dtype: Any
) -> tuple[int, int]:
    """As strict about types as torch.topk, which the bare operator is not: it would take k=True."""
    as_expected = (
        isinstance(input, Tensor)
        and (isinstance(k, torch.SymInt) or _is_int64(k))
        and _is_int64(dim)
        and isinstance(largest, bool)
        and isinstance(sorted, bool)
    )
    if not as_expected:
        # torch.topk judges, in its own words, on a tensor without data: it also takes NumPy's integers.
        like = torch.empty(input.shape, device="meta") if isinstance(input, Tensor) else input
        torch_topk(like, k, dim, largest, sorted)
        k, dim = operator.index(k), operator.index(dim)
    check_bool("topk", "magnitude", magnitude)
    check_dtype("topk", "index_dtype", index_dtype)
    if index_dtype not in (torch.int64, torch.int32):
        raise RuntimeError(f"topk(): index_dtype must be torch.int64 or torch.int32, not {index_dtype}")
    if input.dtype not in _DTYPES and not input.is_complex() and not input.is_quantized:
        raise NotImplementedError(f"topk(): not implemented for {input.dtype}")
    dims = max(input.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})"
        )
    return k, dim


def _is_int64(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and _LEAST <= number <= _MOST
