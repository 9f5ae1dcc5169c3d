"""The one exact oracle: what a top-k must return, bit for bit, by a stable sort in NumPy.

Every element is turned into an exact number (float64, int64 or uint64) and an is-NaN flag, and two stable
sorts put the row in order: by number, then NaN to its end. Nothing here knows of ordered keys or masks, so
that a slip in csrc/core/key_order.h cannot be repeated here. Selection has no tolerances: bits are compared.
"""

from __future__ import annotations

import numpy as np
import torch

FLOAT_DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
SIGNED_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED_DTYPES = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
DTYPES = (*FLOAT_DTYPES, *SIGNED_DTYPES, *UNSIGNED_DTYPES, torch.bool)

_INT_OF_WIDTH = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UINT_OF_WIDTH = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Bits to and from tensors: torch computes little on uint16, uint32, uint64 and float8, so only bits move.


def as_ints(tensor: torch.Tensor) -> torch.Tensor:
    """The same storage as signed integers of the same width; strides and device stay."""
    return tensor.detach().view(_INT_OF_WIDTH[tensor.dtype.itemsize])


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's bit patterns as unsigned integers in NumPy."""
    return as_ints(tensor).cpu().contiguous().numpy().view(_UINT_OF_WIDTH[tensor.dtype.itemsize])


def from_bits(bits: np.ndarray, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """A tensor of these bit patterns; any integer array, its high bits dropped."""
    shape = np.shape(bits)
    bits = np.ascontiguousarray(np.asarray(bits).astype(_UINT_OF_WIDTH[dtype.itemsize]))
    signed = bits.view(bits.dtype.str.replace("u", "i"))
    return torch.from_numpy(signed).to(device).view(dtype).view(shape)


# The order.


def _float8_table(exponent_bits: int, bias: int, has_infinity: bool) -> np.ndarray:
    """The 256 values of an 8-bit float, from the definition of its format."""
    fraction_bits = 7 - exponent_bits
    table = np.empty(256)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code & 0x7F) >> fraction_bits
        fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
        if exponent == 0:
            number = fraction * 2.0 ** (1 - bias)
        elif has_infinity and exponent == (1 << exponent_bits) - 1:
            number = np.nan if fraction else np.inf
        elif not has_infinity and code & 0x7F == 0x7F:
            number = np.nan
        else:
            number = (1 + fraction) * 2.0 ** (exponent - bias)
        table[code] = sign * number
    return table


_FLOAT8 = {
    torch.float8_e4m3fn: _float8_table(exponent_bits=4, bias=7, has_infinity=False),
    torch.float8_e5m2: _float8_table(exponent_bits=5, bias=15, has_infinity=True),
}


def numbers(bits: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The exact values of bit patterns: float64, int64 or uint64, each able to hold its dtype exactly."""
    if dtype in _FLOAT8:
        return _FLOAT8[dtype][bits]
    if dtype in FLOAT_DTYPES:
        if dtype == torch.bfloat16:
            floats = (bits.astype(np.uint32) << 16).view(np.float32)
        else:
            floats = bits.view({2: np.float16, 4: np.float32, 8: np.float64}[dtype.itemsize])
        with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is widened
            return floats.astype(np.float64)
    if dtype in SIGNED_DTYPES:
        return bits.view(bits.dtype.str.replace("u", "i")).astype(np.int64)
    return bits.astype(np.uint64)


def comparable(bits: np.ndarray, dtype: torch.dtype, magnitude: bool) -> tuple[np.ndarray, np.ndarray]:
    """(is NaN, number to compare, 0 where NaN)."""
    number = numbers(bits, dtype)
    if number.dtype != np.float64:
        if magnitude and number.dtype == np.int64:
            # |INT64_MIN| does not fit int64.
            number = np.where(
                number < 0, (~number).astype(np.uint64) + np.uint64(1), number.astype(np.uint64)
            )
        return np.zeros(bits.shape, bool), number
    is_nan = np.isnan(number)
    number = np.where(is_nan, 0.0, number)
    return is_nan, np.abs(number) if magnitude else number


def best_first(bits: np.ndarray, dtype: torch.dtype, largest: bool, magnitude: bool) -> np.ndarray:
    """The positions of the last axis, best element first, equal elements by position."""
    is_nan, number = comparable(bits, dtype, magnitude)
    if largest:
        # Both reverse the order exactly; ~x also where -x would overflow.
        number = -number if number.dtype == np.float64 else ~number
    by_number = np.argsort(number, axis=-1, kind="stable")
    nan_side = np.take_along_axis(~is_nan if largest else is_nan, by_number, axis=-1)
    nan_last = np.argsort(nan_side, axis=-1, kind="stable")
    return np.take_along_axis(by_number, nan_last, axis=-1)


def ranks(bits: np.ndarray, dtype: torch.dtype, magnitude: bool) -> np.ndarray:
    """Dense ranks of a flat array of bit patterns: equal elements share a rank, a larger one has a larger."""
    is_nan, number = comparable(bits, dtype, magnitude)
    distinct, rank = np.unique(number, return_inverse=True)
    return np.where(is_nan, len(distinct), rank.reshape(bits.shape))


def expected(
    tensor: torch.Tensor, k: int, dim: int = -1, largest: bool = True, magnitude: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(bits of the values, int64 indices) of the sorted top-k along `dim`."""
    bits = bits_of(tensor)
    if bits.ndim == 0:
        # Of k = 0 too: a 0-dim result has one element, and this is the only one there is.
        return bits, np.zeros((), np.int64)
    rows = np.moveaxis(bits, dim, -1)
    winners = best_first(rows, tensor.dtype, largest, magnitude)[..., :k]
    values = np.take_along_axis(rows, winners, axis=-1)
    return np.moveaxis(values, -1, dim), np.moveaxis(winners, -1, dim).astype(np.int64)


# The checks. Each returns what is wrong, or None.


def _first_difference(what: str, got: np.ndarray, want: np.ndarray) -> str | None:
    if np.array_equal(got, want):
        return None
    where = np.argwhere(got != want)
    at = tuple(int(i) for i in where[0])
    return f"{what} differ in {len(where)} places, first at {at}: got {got[at]}, expected {want[at]}"


def form_problem(
    tensor: torch.Tensor,
    values: torch.Tensor,
    indices: torch.Tensor,
    k: int,
    dim: int = -1,
    index_dtype: torch.dtype = torch.int64,
    contiguous: bool = True,
) -> str | None:
    """Whether dtypes, devices, shapes, layout and requires_grad of a result are right."""
    shape = list(tensor.shape)
    if shape:
        shape[dim] = k
    for what, got, dtype in (("values", values, tensor.dtype), ("indices", indices, index_dtype)):
        if got.dtype != dtype:
            return f"{what} have dtype {got.dtype}, expected {dtype}"
        if got.device != tensor.device:
            return f"{what} are on {got.device}, expected {tensor.device}"
        if list(got.shape) != shape:
            return f"{what} have shape {tuple(got.shape)}, expected {tuple(shape)}"
        if contiguous and not got.is_contiguous():
            return f"{what} are not contiguous: strides {got.stride()}"
        if got.requires_grad:
            return f"{what} require grad"
    return None


def topk_problem(
    result: tuple[torch.Tensor, torch.Tensor],
    tensor: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    magnitude: bool = False,
    index_dtype: torch.dtype = torch.int64,
    contiguous: bool = True,
    last_alone: bool = False,
) -> str | None:
    """What is wrong with a result. `last_alone`: with the last of the sorted winners, at its place; what is
    at the others is not looked at."""
    values, indices = result
    problem = form_problem(tensor, values, indices, k, dim, index_dtype, contiguous)
    if problem:
        return problem
    want_values, want_indices = expected(tensor, k, dim, largest, magnitude)
    got_values, got_indices = bits_of(values), indices.cpu().numpy().astype(np.int64)
    if last_alone:
        every = (got_values, got_indices, want_values, want_indices)
        got_values, got_indices, want_values, want_indices = (one.take([k - 1], dim) for one in every)
    if sorted or last_alone or tensor.dim() == 0:
        problem = _first_difference("indices", got_indices, want_indices)
        return problem or _first_difference("bits of values", got_values, want_values)
    problem = _first_difference(
        "indices as a set", np.sort(got_indices, axis=dim), np.sort(want_indices, axis=dim)
    )
    # Only after the sets agree are the indices known to be in range.
    return problem or _first_difference(
        "bits of values", got_values, np.take_along_axis(bits_of(tensor), got_indices, axis=dim)
    )


def assert_topk(result, tensor: torch.Tensor, k: int, dim: int = -1, *flags, **options) -> None:
    """topk_problem with the same arguments, as an assertion."""
    problem = topk_problem(result, tensor, k, dim, *flags, **options)
    assert problem is None, (
        f"{problem}; input {name_of(tensor.dtype)}{tuple(tensor.shape)}, strides {tensor.stride()}, "
        f"{tensor.device}, k={k}, dim={dim}, flags={flags}, {options}"
    )


# The same verdict on the tensor's own device, without a sort of the input. Selected elements are proven to be
# unique copies of the input; if as many are selected above the threshold as there are, and as many ties as
# there are up to the last tie selected, then the sets are the same.

_CHUNK = 1 << 26


def _comparable_tensor(tensor: torch.Tensor, magnitude: bool) -> torch.Tensor:
    dtype = tensor.dtype
    if dtype in FLOAT_DTYPES:
        wide = tensor if dtype.itemsize >= 4 else tensor.to(torch.float32)
        return wide.abs() if magnitude else wide
    ints = as_ints(tensor)
    if dtype in SIGNED_DTYPES:
        if not magnitude:
            return ints
        if dtype == torch.int64:
            return ints.abs() ^ -(2**63)  # |INT64_MIN| wraps to itself, which this maps to the top
        return ints.to(torch.int64).abs()
    if dtype == torch.uint64:
        return ints ^ -(2**63)
    return ints.to(torch.int64) & (2 ** (8 * dtype.itemsize) - 1)


def _better(a: torch.Tensor, b: torch.Tensor, largest: bool) -> torch.Tensor:
    if not largest:
        a, b = b, a
    # Swapped, "a is smaller" reads "b is larger", and NaN is the largest either way.
    larger = a > b
    return larger | (a.isnan() & ~b.isnan()) if a.is_floating_point() else larger


def _equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b


def _worst(chosen: torch.Tensor, largest: bool) -> torch.Tensor:
    """The worst element of each row, [rows, 1]."""
    if not chosen.is_floating_point():
        return chosen.amin(1, keepdim=True) if largest else chosen.amax(1, keepdim=True)
    nan = chosen.isnan()
    if largest:
        lowest = chosen.masked_fill(nan, torch.inf).amin(1, keepdim=True)
        return lowest.masked_fill(nan.all(1, keepdim=True), torch.nan)
    highest = chosen.masked_fill(nan, -torch.inf).amax(1, keepdim=True)
    return highest.masked_fill(nan.any(1, keepdim=True), torch.nan)


def device_problem(
    result: tuple[torch.Tensor, torch.Tensor],
    tensor: torch.Tensor,
    k: int,
    largest: bool = True,
    sorted: bool = True,
    *,
    magnitude: bool = False,
    index_dtype: torch.dtype = torch.int64,
) -> str | None:
    """topk_problem for a 2-D tensor and dim 1, by counting on the device."""
    values, indices = result
    problem = form_problem(tensor, values, indices, k, 1, index_dtype)
    rows, cols = tensor.shape
    if problem or rows == 0 or k == 0:
        return problem

    def first_bad(what: str, bad: torch.Tensor) -> str | None:
        if not bad.any():
            return None
        at = bad.nonzero()[0].tolist()
        return f"{what} in {int(bad.sum())} places, first at {at}"

    indices = indices.to(torch.int64)
    problem = first_bad("indices out of range", (indices < 0) | (indices >= cols))
    if problem:
        return problem
    ascending = indices.sort(1).values
    problem = first_bad("an index twice", ascending[:, 1:] == ascending[:, :-1])
    problem = problem or first_bad(
        "values are not input[indices]", as_ints(tensor).gather(1, indices) != as_ints(values)
    )
    if problem:
        return problem

    chosen = _comparable_tensor(values, magnitude)
    if sorted:
        here, after = chosen[:, :-1], chosen[:, 1:]
        in_order = _better(here, after, largest) | (_equal(here, after) & (indices[:, :-1] < indices[:, 1:]))
        problem = first_bad("output out of order", ~in_order)
        if problem:
            return problem

    threshold = _worst(chosen, largest)
    last_tie = indices.masked_fill(~_equal(chosen, threshold), -1).amax(1, keepdim=True)
    better = -_better(chosen, threshold, largest).sum(1)
    ties = -_equal(chosen, threshold).sum(1)
    col_step = min(cols, _CHUNK)
    row_step = max(1, _CHUNK // col_step)
    for row in range(0, rows, row_step):
        some = slice(row, row + row_step)
        for col in range(0, cols, col_step):
            part = _comparable_tensor(tensor[some, col : col + col_step], magnitude)
            position = torch.arange(col, col + part.shape[1], device=tensor.device)
            better[some] += _better(part, threshold[some], largest).sum(1)
            ties[some] += (_equal(part, threshold[some]) & (position <= last_tie[some])).sum(1)
    return first_bad("better elements left out", better != 0) or first_bad(
        "ties of a lower index left out", ties != 0
    )


def assert_topk_on_device(result, tensor: torch.Tensor, k: int, *flags, **options) -> None:
    problem = device_problem(result, tensor, k, *flags, **options)
    assert problem is None, (
        f"{problem}; input {name_of(tensor.dtype)}{tuple(tensor.shape)}, strides {tensor.stride()}, "
        f"k={k}, flags={flags}, {options}"
    )
