"""What the functions beside topk share: the contract's order on whole tensors, numbers a row, arguments."""

from __future__ import annotations

import functools
import math
import operator
import struct
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ._autograd import _AS_INTEGERS, is_functorch_active, moved
from ._overlap import overlaps_itself
from ._sharding import is_dtensor

_UNSIGNED = {torch.uint16: torch.int32, torch.uint32: torch.int64}


def comparable(tensor: Tensor, magnitude: bool = False) -> Tensor:
    """The same order among numbers that torch can compare: all but which of NaN and number is better."""
    dtype = tensor.dtype
    if dtype.is_floating_point:
        tensor = tensor.float() if dtype.itemsize == 1 else tensor
        return tensor.abs() if magnitude else tensor
    if dtype == torch.uint64:
        return tensor.view(torch.int64) ^ -(2**63)
    if dtype in _UNSIGNED:
        return tensor.to(_UNSIGNED[dtype])
    if magnitude and dtype.is_signed:
        return torch.where(tensor < 0, tensor, -tensor).bitwise_not()  # -1 - (-|x|): |INT_MIN| fits
    return tensor.to(torch.uint8) if dtype == torch.bool else tensor


def better(a: Tensor, b: Tensor, largest: bool) -> Tensor:
    """Whether ``a`` comes before ``b`` by value alone; of ``comparable`` tensors."""
    if not largest:
        a, b = b, a
    larger = a > b
    return larger | (a.isnan() & ~b.isnan()) if a.is_floating_point() else larger


def as_bits(tensor: Tensor) -> Tensor:
    """As integers where torch has no kernels for the dtype; bits are then moved, without gradients."""
    integers = _AS_INTEGERS.get(tensor.dtype)
    return tensor if integers is None else tensor.view(integers)


_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def integers_of(tensor: Tensor) -> Tensor:
    """The bits as integers of their width, whatever the dtype, without gradients."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def worst_value(dtype: torch.dtype, largest: bool, magnitude: bool) -> float | int | bool:
    """What stands where a row has no more elements: the least number of the order, NaN apart."""
    if magnitude and largest:
        return 0
    if dtype == torch.bool:
        return not largest
    if dtype.is_floating_point:
        limit = math.inf if dtype != torch.float8_e4m3fn else torch.finfo(dtype).max
        return -limit if largest else limit
    if magnitude and dtype.is_signed:
        return torch.iinfo(dtype).min
    return torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max


def full_of(number: float | int | bool, like: Tensor) -> Tensor:
    """One element of that dtype, on that device, without a copy from the host."""
    integers = _AS_INTEGERS.get(like.dtype)
    if integers is None:
        return torch.full((), number, dtype=like.dtype, device=like.device)
    if like.dtype.is_floating_point:
        return torch.full((), number, dtype=torch.float32, device=like.device).to(like.dtype)
    bits = 8 * like.dtype.itemsize
    signed = (int(number) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return torch.full((), signed, dtype=integers, device=like.device).view(like.dtype)


def bits_of_number(number: float | int | bool, dtype: torch.dtype) -> int:
    """The bits of a number of that dtype, as ``integers_of`` has them."""
    # As bytes, which tell zeros from each other, and no NaN from another.
    return _bits_of_number(struct.pack("d", number) if isinstance(number, float) else number, dtype)


@functools.lru_cache(maxsize=256)
def _bits_of_number(number: bytes | int, dtype: torch.dtype) -> int:
    if isinstance(number, bytes):
        number = struct.unpack("d", number)[0]
    with _disable_current_modes():
        return int(integers_of(full_of(number, torch.empty((), dtype=dtype, device="cpu"))))


def select(mask: Tensor, tensor: Tensor, otherwise: Tensor) -> Tensor:
    """``torch.where``, of every dtype, with gradients."""
    return moved(lambda tensor, otherwise: torch.where(mask, tensor, otherwise), tensor, otherwise)


def repeated(keys: Tensor) -> Tensor:
    """True where the same key stands before in the last dimension."""
    ascending, places = keys.sort(dim=-1, stable=True)
    again = torch.zeros_like(keys, dtype=torch.bool)
    again[..., 1:] = ascending[..., 1:] == ascending[..., :-1]
    return torch.empty_like(again).scatter(-1, places, again)


def check_dim(function: str, input: Any, dim: Any) -> int:
    """``dim`` from the last, as a negative number."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{function}(): argument 'input' must be Tensor, not {type(input).__name__}")
    dim = integer(function, "dim", dim)
    dims = max(input.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(
            f"{function}(): Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], "
            f"but got {dim})"
        )
    return dim if dim < 0 else dim - dims


def numbers_of_rows(function: str, name: str, numbers: Tensor, rows: Tensor) -> Tensor:
    """One integer a row, as int64 with a last dimension of 1; ``rows`` has the selected dimension last."""
    if not isinstance(numbers, Tensor):
        raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(numbers).__name__}")
    if numbers.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{function}(): {name} must be int32 or int64, not {numbers.dtype}")
    return one_a_row(function, name, numbers.long(), rows)


def one_a_row(function: str, name: str, numbers: Tensor, rows: Tensor, whose: str = "input's") -> Tensor:
    """The same of numbers of any dtype."""
    if numbers.device != rows.device:
        raise RuntimeError(
            f"{function}(): {name} must be on the {whose} device, {rows.device}, but is on {numbers.device}"
        )
    if numbers.dim() > 0 and numbers.shape != rows.shape[:-1]:
        raise RuntimeError(
            f"{function}(): {name} has shape {list(numbers.shape)}, "
            f"but there are {list(rows.shape[:-1])} rows"
        )
    return numbers.expand(rows.shape[:-1]).unsqueeze(-1)


def check_apart(function: str, name: str, tensor: Tensor) -> None:
    """Refuses to write to a tensor of which elements share memory."""
    if type(tensor) is Tensor and tensor.layout == torch.strided and tensor.is_contiguous():
        return
    if is_dtensor(tensor):
        tensor = tensor.to_local()
    if tensor.layout == torch.strided and has_elements(tensor) and overlaps_itself(tensor):
        raise RuntimeError(f"{function}(): two elements of {name} share memory")


def has_elements(tensor: Tensor) -> bool:
    """Whether there is any element here, and not a traced program's or a transform's stand-in for some."""
    is_traced = torch.compiler.is_compiling() or is_functorch_active() or torch._C._len_torch_dispatch_stack()
    return type(tensor) in (Tensor, torch.nn.Parameter) and not is_traced and tensor.numel() > 0


def integer(function: str, name: str, number: Any, kinds: str = "int") -> int:
    """An integer as torch.topk takes it: NumPy's are integers, bools are not. Tensors would have to be read.
    ``kinds``: for the message, what the argument may be."""
    if isinstance(number, (int, torch.SymInt)) and not isinstance(number, bool):
        return number
    if not isinstance(number, (bool, Tensor)) and hasattr(number, "__index__"):
        try:
            return operator.index(number)
        except TypeError:  # an array of several numbers has the method too
            pass
    raise TypeError(f"{function}(): argument '{name}' must be {kinds}, not {type(number).__name__}")


def count(function: str, k: Any) -> int | Tensor:
    """A ``k`` that may also be a tensor, with a number a row."""
    return k if isinstance(k, Tensor) else integer(function, "k", k, "int or Tensor")


def check_bool(function: str, name: str, flag: Any) -> None:
    if not isinstance(flag, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(flag).__name__} {flag!r}")


def check_dtype(function: str, name: str, dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{function}(): argument '{name}' must be torch.dtype, not {type(dtype).__name__}")


def check_choice(function: str, name: str, choice: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(choice, str):
        raise TypeError(f"{function}(): argument '{name}' must be str, not {type(choice).__name__}")
    if choice not in choices:
        raise ValueError(f"{function}(): {name} must be one of {', '.join(choices)}, not {choice!r}")


def number_of(function: str, name: str, member: Any, kind: type[IntEnum]) -> int:
    """The number of a member of ``kind``, which may be given by its name or its number too."""
    # As compilers trace it: dynamo of torch 2.11 does not know `in kind.__members__`.
    try:
        if isinstance(member, str):
            return kind[member].value
        if isinstance(member, int) and not isinstance(member, bool):
            return kind(member).value
    except (KeyError, ValueError):
        names = ", ".join(f"{known.name} ({known.value})" for known in kind)
        raise ValueError(f"{function}(): {name} must be one of {names}, not {member!r}") from None
    raise TypeError(
        f"{function}(): argument '{name}' must be {kind.__name__}, its name or int, "
        f"not {type(member).__name__}"
    )
