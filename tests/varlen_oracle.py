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


class Rows:
    """What rows must give. `ranking` is the order of whole rows, best first, of which a row's window and its
    candidates leave some out."""

    def __init__(self, tensor: torch.Tensor, k: int, options: dict, ranking: np.ndarray | None = None):
        self.bits = oracle.bits_of(tensor)
        if ranking is None:
            flags = options.get("largest", True), options.get("magnitude", False)
            ranking = oracle.best_first(self.bits, tensor.dtype, *flags)
        self.ranking, self.k, self.options = ranking, k, options
        tensors = {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
        self.given = {name: x.cpu().numpy() for name, x in tensors.items()}
        for name in {"mask", "ids"} & {*tensors}:
            self.given[name] = np.broadcast_to(self.given[name], self.bits.shape)

    def number(self, name: str, r: int, otherwise: int) -> int:
        return int(self.given[name][r]) if name in self.given else otherwise

    def winners(self, r: int) -> tuple[int, np.ndarray, bool]:
        """The window's start, the winners' columns, best first, and whether all candidates win."""
        cols = self.bits.shape[1]
        start = clamp(self.number("starts", r, 0), 0, cols)
        end = min(start + clamp(self.number("lengths", r, cols), 0, cols), cols)
        accepted = np.zeros(cols, bool)
        accepted[start:end] = True
        if "mask" in self.given:
            accepted &= self.given["mask"][r]
        if "ids" in self.given:
            accepted &= self.given["ids"][r] >= 0
        candidates = self.ranking[r][accepted[self.ranking[r]]]
        count = min(clamp(self.number("row_k", r, self.k), 0, self.k), len(candidates))
        return start, candidates[:count], count == len(candidates)

    def indices(self, r: int, start: int, columns: np.ndarray) -> np.ndarray:
        """What the indices of these columns become; those of 32 bits wrap."""
        positions = columns.astype(np.int64) - start
        if "ids" in self.given:
            indices = self.given["ids"][r][columns]
        elif "page_table" in self.given:
            table, size = self.given["page_table"], self.options.get("page_size", 1)
            row = self.number("page_row", r, r)
            pages = self.number("page_start", r, 0) + positions // size
            there = (0 <= row < table.shape[0]) & (pages >= 0) & (pages < table.shape[1])
            physical = np.full(len(columns), -1, np.int64)
            if there.any():
                physical[there] = table[row, pages[there]]
            pad = self.options.get("pad_index", -1)
            indices = np.where(physical >= 0, physical * size + positions % size, pad)
        else:
            indices = positions + self.number("offsets", r, 0)
        narrow = self.options.get("index_dtype", torch.int32) == torch.int32
        return indices.astype(np.int32 if narrow else np.int64).astype(np.int64)


def problem_of(
    result: tuple[torch.Tensor | None, torch.Tensor, torch.Tensor],
    tensor: torch.Tensor,
    k: int,
    options: dict,
    ranking: np.ndarray | None = None,
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
    want = Rows(tensor, k, options, ranking)
    got_counts, got_indices = counts.cpu().numpy(), indices.cpu().numpy().astype(np.int64)
    got_bits = None if values is None else oracle.bits_of(values)
    for r in range(rows):
        start, columns, all_win = want.winners(r)
        count = len(columns)
        if got_counts[r] != count:
            return f"row {r} has count {got_counts[r]}, expected {count}"
        if (got_indices[r, count:] != options.get("pad_index", -1)).any():
            return f"row {r} has indices behind its {count} winners: {got_indices[r]}"
        if got_bits is not None and (got_bits[r, count:] != pad).any():
            return f"row {r} has values behind its {count} winners: {values[r]}"
        if order != "value":
            columns = np.sort(columns)
        wanted, found = want.indices(r, start, columns), got_indices[r, :count]
        own = bits = np.zeros(count)
        if got_bits is not None:
            own, bits = want.bits[r, columns], got_bits[r, :count]
        if order == "any" and not all_win:
            # Pairs of index and value, as a set.
            by_index, by_found = np.lexsort((own, wanted)), np.lexsort((bits, found))
            wanted, own, found, bits = wanted[by_index], own[by_index], found[by_found], bits[by_found]
        if (wanted != found).any():
            return f"row {r} has indices {found}, expected {wanted}"
        if (own != bits).any():
            return f"row {r} has values {values[r]}, which are not those of its indices"
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
