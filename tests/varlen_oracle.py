"""What topk_varlen must return, row by row, from the oracle's order of the window's candidates."""

from __future__ import annotations

import numpy as np
import torch

from tests import oracle

# Pads of each dtype: the number below all others of the order, NaN apart.
_FLOAT_TOP = {
    torch.float8_e4m3fn: 0x7E,
    torch.float8_e5m2: 0x7C,
    torch.float16: 0x7C00,
    torch.bfloat16: 0x7F80,
    torch.float32: 0x7F800000,
    torch.float64: 0x7FF << 52,
}


def pad_bits(dtype: torch.dtype, largest: bool, magnitude: bool) -> int:
    sign = 1 << (8 * dtype.itemsize - 1)
    if magnitude and largest:
        return 0
    if dtype in _FLOAT_TOP:
        return (sign if largest else 0) | _FLOAT_TOP[dtype]
    if dtype == torch.bool:
        return 0 if largest else 1
    if dtype in oracle.UNSIGNED_DTYPES:
        return 0 if largest else 2 * sign - 1
    return sign if largest or magnitude else sign - 1


def clamp(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)


class Row:
    """One row's answer: `positions` from the window's start, in the order that was asked for."""

    def __init__(self, tensor: torch.Tensor, r: int, k: int, options: dict):
        def number(name: str, otherwise: int) -> int:
            numbers = options.get(name)
            return otherwise if numbers is None else int(numbers[r])

        def column(name: str) -> np.ndarray | None:
            table = options.get(name)
            if table is None:
                return None
            return (table if table.dim() == 1 else table[r]).cpu().numpy()

        cols = tensor.shape[1]
        start = clamp(number("starts", 0), 0, cols)
        end = min(start + clamp(number("lengths", cols), 0, cols), cols)
        accepted = np.ones(cols, bool)
        mask, ids = column("mask"), column("ids")
        if mask is not None:
            accepted &= mask
        if ids is not None:
            accepted &= ids >= 0
        candidates = np.flatnonzero(accepted[start:end])
        bits = oracle.bits_of(tensor[r])[start:end]
        ranked = oracle.best_first(
            bits[candidates], tensor.dtype, options.get("largest", True), options.get("magnitude", False)
        )
        self.count = min(clamp(number("row_k", k), 0, k), len(candidates))
        positions = candidates[ranked[: self.count]]
        self.all_win = self.count == len(candidates)
        self.by_value = positions
        self.by_index = np.sort(positions)
        self.bits = bits
        offset = number("offsets", 0)
        table = options.get("page_table")
        size = options.get("page_size", 1)

        def of(position: int) -> int:
            if ids is not None:
                return int(ids[start + position])
            if table is None:
                return position + offset
            pages = number("page_row", r), number("page_start", 0) + position // size
            if not (0 <= pages[0] < table.shape[0] and 0 <= pages[1] < table.shape[1]):
                return options.get("pad_index", -1)
            page = int(table[pages])
            return page * size + position % size if page >= 0 else options.get("pad_index", -1)

        self.of = of


def problem_of(
    result: tuple[torch.Tensor | None, torch.Tensor, torch.Tensor],
    tensor: torch.Tensor,
    k: int,
    options: dict,
) -> str | None:
    """What is wrong with a result, or None. Every bit is compared; of order "any" the set."""
    values, indices, counts = result
    rows = tensor.shape[0]
    index_dtype = options.get("index_dtype", torch.int32)
    if indices.shape != (rows, k) or indices.dtype != index_dtype:
        return f"indices are {indices.dtype} {list(indices.shape)}"
    if counts.shape != (rows,) or counts.dtype != torch.int32:
        return f"counts are {counts.dtype} {list(counts.shape)}"
    if (values is None) != (not options.get("return_values", True)):
        return f"values are {values}"
    if values is not None and (values.shape != (rows, k) or values.dtype != tensor.dtype):
        return f"values are {values.dtype} {list(values.shape)}"
    pad = pad_bits(tensor.dtype, options.get("largest", True), options.get("magnitude", False))
    order = options.get("order", "any")
    for r in range(rows):
        want = Row(tensor, r, k, options)
        if counts[r] != want.count:
            return f"row {r} has count {counts[r]}, expected {want.count}"
        got = indices[r].cpu().numpy().astype(np.int64)
        if (got[want.count :] != options.get("pad_index", -1)).any():
            return f"row {r} has indices behind its {want.count} winners: {got}"
        positions = want.by_value if order == "value" else want.by_index
        wanted = np.array([want.of(int(p)) for p in positions], np.int64)
        found = got[: want.count]
        if order == "any" and not want.all_win:
            wanted, found = np.sort(wanted), np.sort(found)
        if (wanted != found).any():
            return f"row {r} has indices {found}, expected {wanted}"
        if values is None:
            continue
        bits = oracle.bits_of(values[r])
        if (bits[want.count :] != pad).any():
            return f"row {r} has values behind its {want.count} winners: {values[r]}"
        own = want.bits[positions]
        if order == "any" and not want.all_win:
            # Each value stands at its own index; where several positions become one index, as a set.
            own, bits = np.sort(own), np.sort(bits[: want.count])
        if (bits[: want.count] != own).any():
            return f"row {r} has values {values[r]}, which are not those of its indices"
        if (
            order == "any"
            and not want.all_win
            and not any(options.get(name) is not None for name in ("ids", "offsets", "page_table"))
        ):
            unsorted = oracle.bits_of(values[r])[: want.count]
            if (want.bits[got[: want.count]] != unsorted).any():
                return f"row {r} has values that do not stand at their indices"
    return None


def assert_varlen(result, tensor: torch.Tensor, k: int, **options) -> None:
    problem = problem_of(result, tensor, k, options)
    assert problem is None, f"{problem}; input {oracle.name_of(tensor.dtype)}{tuple(tensor.shape)}, k={k}"


def hostile(rows: int, cols: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Numbers a row: within it, at its ends, beyond them, and the extremes of the dtype."""
    info = torch.iinfo(dtype)
    edge = [0, 1, cols - 1, cols, cols + 1, -1, -cols, info.min, info.max, info.max - cols, cols // 2, 2]
    generator = torch.Generator().manual_seed(seed)
    drawn = [
        edge[i] if i < len(edge) else int(torch.randint(0, cols + 1, (1,), generator=generator))
        for i in torch.randint(0, 2 * len(edge), (rows,), generator=generator).tolist()
    ]
    return torch.tensor(drawn, dtype=dtype)
