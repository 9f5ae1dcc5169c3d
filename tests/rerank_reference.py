"""What a rerank must return: distances in float64 of every candidate, and their order.

Two kinds of data. Of small whole numbers every float32 sum is exact, so l2 and inner products, ties by
position included, are compared bit for bit. Of others a device's distances differ from the reference's by
rounding: there ids are exact wherever the reference's distances differ by more than that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import torch

import torch_topk
from tests import oracle

METRICS = ("l2", "inner_product", "cosine")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
VECTOR_DTYPES = (*DTYPES, torch.int8, torch.uint8)


def whole_numbers(rows: int, dims: int, dtype: torch.dtype, device="cpu", seed: int = 0) -> torch.Tensor:
    """Rows of -3 .. 3; of uint8 0 .. 6."""
    generator = torch.Generator().manual_seed(seed)
    least = 0 if dtype == torch.uint8 else -3
    return torch.randint(least, least + 7, (rows, dims), generator=generator).to(dtype).to(device)


def any_numbers(rows: int, dims: int, dtype: torch.dtype, device="cpu", seed: int = 0) -> torch.Tensor:
    """Normal; of int8 and uint8 every number there is."""
    if dtype.is_floating_point:
        return normal(rows, dims, dtype, device, seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (rows, dims), generator=generator).to(dtype).to(device)


def normal(rows: int, dims: int, dtype: torch.dtype, device="cpu", seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, dims, generator=generator).to(dtype).to(device)


def some_ids(
    queries: int, candidates: int, vectors: int, dtype=torch.int64, device="cpu", seed: int = 0
) -> torch.Tensor:
    """A tenth is missing: -1, or out of range on either side."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, max(vectors, 1), (queries, candidates), generator=generator)
    kind = torch.randint(0, 30, (queries, candidates), generator=generator)
    ends = torch.iinfo(dtype)
    for number, missing in enumerate((-1, vectors, ends.min)):
        ids = torch.where(kind == number, torch.full_like(ids, missing), ids)
    return ids.to(dtype).to(device)


def bits_of_mask(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask as bits of uint8 or int32, the lowest first."""
    bits = np.packbits(mask.cpu().numpy(), bitorder="little")
    if dtype == torch.uint8:
        return torch.from_numpy(bits).to(mask.device)
    padded = np.zeros((len(bits) + 3) // 4 * 4, dtype=np.uint8)
    padded[: len(bits)] = bits
    return torch.from_numpy(padded.view(np.int32)).to(mask.device)


def plain_ids(
    ids: torch.Tensor, queries: int, k: int = 0, lengths=None, row_offsets=None, mask=None, unique=False
) -> torch.Tensor:
    """The same candidates as a matrix, -1 where there is none: what is not listed, not allowed or repeated.
    At least k columns."""
    device, ids = ids.device, ids.cpu()
    if row_offsets is not None:
        offsets = [min(max(int(o), 0), len(ids)) for o in row_offsets]
        rows = [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    else:
        rows = (ids.expand(queries, -1) if ids.dim() == 1 else ids).tolist()
        if lengths is not None:
            rows = [row[: max(int(n), 0)] for row, n in zip(rows, lengths, strict=True)]
    width = max([k, *map(len, rows)])
    allowed = None if mask is None else mask.cpu().tolist()

    def kept(row: list[int]) -> list[int]:
        seen: set[int] = set()
        result = []
        for i in row:
            ruled_out = allowed is not None and 0 <= i < len(allowed) and not allowed[i]
            result.append(-1 if ruled_out or (unique and i in seen) else i)
            seen.add(i)
        return result + [-1] * (width - len(row))

    return torch.tensor([kept(row) for row in rows], dtype=ids.dtype).reshape(queries, width).to(device)


def reference_distances(
    queries: torch.Tensor, vectors: torch.Tensor, ids: torch.Tensor, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """float64 [q, c], anything where missing; and which candidates are present."""
    ids = ids.cpu().long().numpy()
    rows, table = (t.cpu().double().numpy() for t in (queries, vectors))
    present = (ids >= 0) & (ids < len(table))
    distances = np.zeros(ids.shape)
    if len(table) == 0:
        return distances, present
    with np.errstate(invalid="ignore", over="ignore"):
        for row, q in enumerate(rows):
            g = table[np.where(present[row], ids[row], 0)]
            if metric == "l2":
                distances[row] = ((q - g) ** 2).sum(-1)
                continue
            distances[row] = (q * g).sum(-1)
            if metric == "cosine":
                lengths = np.sqrt((q * q).sum()) * np.sqrt((g * g).sum(-1))
                distances[row] /= np.where(lengths == 0, 1, lengths)
    return distances, present


def best_positions(distances: np.ndarray, present: np.ndarray, metric: str) -> np.ndarray:
    """Every row's positions, best first: numbers, then NaN, then missing; equal ones by position."""
    costs = distances if metric == "l2" else -distances
    kinds = np.where(present, np.isnan(costs), 2)
    costs = np.where(kinds == 0, costs, 0)
    return np.lexsort((np.broadcast_to(np.arange(costs.shape[1]), costs.shape), costs, kinds), axis=-1)


Answer = tuple[np.ndarray, np.ndarray]


def answer_of(queries, vectors, ids, metric: str) -> Answer:
    """distances (float64) and ids for k = c, of which a smaller k has the first."""
    distances, present = reference_distances(queries, vectors, ids, metric)
    order = best_positions(distances, present, metric)
    there = np.take_along_axis(present, order, -1)
    worst = np.inf if metric == "l2" else -np.inf
    return (
        np.where(there, np.take_along_axis(distances, order, -1), worst),
        np.where(there, np.take_along_axis(ids.cpu().long().numpy(), order, -1), -1),
    )


def assert_form(result, queries, ids, k: int) -> None:
    for tensor, dtype in zip(result, (torch.float32, ids.dtype), strict=True):
        assert tensor.dtype == dtype
        assert tensor.device == queries.device
        assert tensor.shape == (queries.shape[0], k)
        assert tensor.is_contiguous()
        assert not tensor.requires_grad


def assert_exact(result, queries, vectors, ids, k: int, metric: str, answer: Answer | None = None) -> None:
    """Bit for bit: for data whose sums are exact. `answer`: answer_of the same, where it is known already."""
    assert_form(result, queries, ids, k)
    distances, want_ids = (a[:, :k] for a in answer or answer_of(queries, vectors, ids, metric))
    np.testing.assert_array_equal(result[1].cpu().numpy(), want_ids)
    # Adding 0 makes -0 what it must be, +0.
    want = oracle.bits_of(torch.from_numpy((distances + 0.0).astype(np.float32)))
    np.testing.assert_array_equal(oracle.bits_of(result[0]), want)


def rounding(queries, vectors, metric: str) -> float:
    """More than float32 sums can be off by, in any order: each of d terms is rounded, and each addition."""
    dims = queries.shape[1]
    if metric == "cosine":
        size = 1.0
    else:
        largest = [float(t.float().abs().max()) if t.numel() else 0.0 for t in (queries, vectors)]
        size = dims * ((sum(largest)) ** 2 if metric == "l2" else largest[0] * largest[1])
    return (dims + 8) * 2.0**-24 * size


def allowed_error(queries, vectors, ids, metric: str) -> np.ndarray:
    """What the documentation allows a distance to be off by, [q, c]. Every id is present."""
    sums = (queries.shape[1] / 16 + 32) * 2.0**-24
    q, g = queries.double().numpy()[:, None], vectors.double().numpy()[ids.numpy()]
    if metric == "l2":
        return sums * ((q - g) ** 2).sum(-1)
    if metric == "inner_product":
        return sums * np.abs(q * g).sum(-1)
    return np.full(ids.shape, 2 * sums)


def assert_close(result, queries, vectors, ids, k: int, metric: str) -> None:
    """Distances within rounding; ids exact where the reference's distances differ by more."""
    assert_form(result, queries, ids, k)
    slack = rounding(queries, vectors, metric)
    got_distances, got_ids = result[0].cpu().double().numpy(), result[1].cpu().long().numpy()
    all_distances, present = reference_distances(queries, vectors, ids, metric)
    full, full_ids = answer_of(queries, vectors, ids, metric)
    want, want_ids = full[:, :k], full_ids[:, :k]
    np.testing.assert_array_equal(got_ids == -1, want_ids == -1)
    # Ranks hold the distances that they should, those of the ids beside them.
    np.testing.assert_allclose(got_distances, want, rtol=0, atol=slack)
    candidates = ids.cpu().long().numpy()
    for row in range(len(got_ids)):
        of_id = dict(zip(candidates[row][present[row]], all_distances[row][present[row]], strict=True))
        given = {i: int(n) for i, n in zip(*np.unique(candidates[row], return_counts=True), strict=True)}
        taken = got_ids[row][got_ids[row] != -1]
        for i, count in zip(*np.unique(taken, return_counts=True), strict=True):
            assert count <= given.get(i, 0), f"id {i} came {count} times"
        np.testing.assert_allclose(
            got_distances[row][: len(taken)], [of_id[i] for i in taken], rtol=0, atol=slack
        )
    # An id stands alone where no other candidate's distance is near; a repeated id is near itself.
    with np.errstate(invalid="ignore"):
        gaps = np.abs(np.diff(full, axis=1)) > 2 * slack
    apart = np.ones_like(full, dtype=bool)
    apart[:, 1:] &= gaps
    apart[:, :-1] &= gaps
    apart = apart[:, :k]
    np.testing.assert_array_equal(got_ids[apart], want_ids[apart])


def check_exact(queries, vectors, ids, ks: int | Iterable[int], metric: str) -> None:
    """For one k, or several."""
    answer = answer_of(queries, vectors, ids, metric)
    for k in [ks] if isinstance(ks, int) else ks:
        result = torch_topk.rerank(queries, vectors, ids, k, metric)
        assert_exact(result, queries, vectors, ids, k, metric, answer)


def check_close(queries, vectors, ids, k: int, metric: str) -> None:
    result = torch_topk.rerank(queries, vectors, ids, k, metric)
    assert_close(result, queries, vectors, ids, k, metric)
