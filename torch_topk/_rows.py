"""What the functions beside topk share: the contract's order on whole tensors, numbers a row, arguments."""

from __future__ import annotations

import functools
import math
import operator
import struct
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ._autograd import _AS_INTEGERS

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
    """``torch.where``, of every dtype."""
    integers = _AS_INTEGERS.get(tensor.dtype)
    if integers is None:
        return torch.where(mask, tensor, otherwise)
    return torch.where(mask, tensor.view(integers), otherwise.view(integers)).view(tensor.dtype)


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
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"{function}(): argument 'dim' must be int, not {type(dim).__name__}")
    dims = max(input.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(
            f"{function}(): Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], "
            f"but got {dim})"
        )
    return dim if dim < 0 else dim - dims


def numbers_of_rows(function: str, name: str, numbers: Tensor, rows: Tensor) -> Tensor:
    """One integer a row, as int64 with a last dimension of 1; ``rows`` has the selected dimension last."""
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


def integer(function: str, name: str, number: Any) -> int:
    """NumPy's integers are integers; tensors would have to be read."""
    if isinstance(number, (int, torch.SymInt)) and not isinstance(number, bool):
        return number
    if isinstance(number, (bool, Tensor)) or not hasattr(number, "__index__"):
        raise TypeError(f"{function}(): argument '{name}' must be int, not {type(number).__name__}")
    return operator.index(number)


def check_count(function: str, k: Any) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, torch.SymInt, Tensor)):
        raise TypeError(f"{function}(): argument 'k' must be int or Tensor, not {type(k).__name__}")


def check_choice(function: str, name: str, choice: Any, choices: tuple[str, ...]) -> None:
    if choice not in choices:
        raise ValueError(f"{function}(): {name} must be one of {', '.join(choices)}, not {choice!r}")
