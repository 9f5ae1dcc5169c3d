"""Reranking: exact distances from queries to their candidates, and the best k of them, in one operator."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from . import _rows
from ._errors import call
from ._out import check_apart, is_negative
from ._sharding import has_dtensor

__all__ = ["Metric", "Reranked", "RerankedPositions", "rerank"]


class Metric(IntEnum):
    """How far a candidate is from a query."""

    l2 = 0
    """Squared Euclidean distance, without the root, as in FAISS: less is better."""
    inner_product = 1
    """Inner product: more is better."""
    cosine = 2
    """Cosine similarity, in [-1, 1], 0 for a vector of zeros: more is better."""


class Reranked(NamedTuple):
    """What ``rerank`` returns."""

    distances: Tensor
    ids: Tensor


class RerankedPositions(NamedTuple):
    """What ``rerank`` returns with ``return_positions``."""

    distances: Tensor
    ids: Tensor
    positions: Tensor


def rerank(
    queries: Tensor,
    vectors: Tensor,
    candidate_ids: Tensor,
    k: int,
    metric: Metric | str | int = Metric.l2,
    *,
    lengths: Tensor | None = None,
    row_offsets: Tensor | None = None,
    allow: Tensor | None = None,
    scales: Tensor | None = None,
    unique: bool = False,
    payload: Tensor | None = None,
    return_positions: bool = False,
    out: tuple[Tensor, ...] | None = None,
) -> Reranked | RerankedPositions:
    """The ``k`` best of each query's candidates by exact distance, best first: the last step of an
    approximate nearest-neighbour search.

    A distance is selected as soon as it is computed: no tensor of queries x candidates x elements exists, and
    each candidate's vector is read once. Beyond the outputs, the CPU needs O(k + d) bytes a thread, and CUDA
    none for k <= 256 and queries enough to fill the GPU; else 4 bytes a candidate of as many queries as make
    256 MiB, or of one, and what a top-k of those takes. With ``row_offsets`` every query then counts as if it
    had all candidates.

    Args:
        queries: [q, d], float32, float16 or bfloat16.
        vectors: [n, d], float32, float16, bfloat16, int8 or uint8, on the same device: read as they are, and
            widened exactly. Rows of queries and vectors may lie any distance apart; a tensor whose rows are
            not dense is copied.
        candidate_ids: [q, c], int32 or int64, c < 2**31: which rows of ``vectors`` to look at. Or [c]: the
            same for all queries; with ``row_offsets`` [total], the candidates of one query after another's.
            An id outside [0, n), such as -1, is a missing candidate. A repeated id is as many candidates.
        k: how many, 0 <= k <= c; with ``row_offsets`` less than 2**31.
        metric: a ``Metric``, its name or its number.
        lengths: [q], int32 or int64: only so many of a query's candidates count, the first ones.
        row_offsets: [q + 1], int32 or int64, ascending (CSR): query i has the candidates
            ``candidate_ids[row_offsets[i]:row_offsets[i + 1]]``. Lengths and offsets are read on the device
            alone, and clamped into what is there.
        allow: which vectors may come out at all: bool [n], or bits, from the lowest on, in uint8
            [ceil(n / 8)] or int32 [ceil(n / 32)] (a bitset as cuVS has it). Others are missing candidates.
        scales: [n], float32, with int8 and uint8: an element of vector i is ``scales[i] * vectors[i, j]``.
        unique: an id counts once for a query, where it stands first. Sorts the ids beforehand.
        payload: [n], int32 or int64: what to return for ids, such as the documents' own.
        return_positions: also return where among the query's candidates each winner stands.
        out: tensors to write the results to, as many as are returned, of their shapes and dtypes.

    Returns:
        ``distances`` [q, k], float32, and ``ids`` [q, k], of ``candidate_ids``'s dtype or ``payload``'s; with
        ``return_positions`` also ``positions`` [q, k], of ``candidate_ids``'s dtype; a named tuple. Among
        equal distances the earlier candidate comes first. Behind all numbers come NaN distances, and then,
        where candidates are missing, id and position -1 with the worst distance: +inf for l2, -inf for the
        others. None has gradients.

        Distances are sums in float32 of a fixed order: their bits are a function of query, vector and
        processor, not of where they lie. With u = 2**-24, a sum of terms t_i is off by less than
        (d / 16 + 32) u sum |t_i|, a cosine by less than twice (d / 16 + 32) u; a scaled element may itself be
        off by u of its size. So the order of candidates whose distances differ by less is the device's own.
        Elements whose squares leave float32's range make distances that are infinite, NaN or 0.

    Raises:
        TypeError: an argument of another type.
        ValueError: a metric of another name or number.
        RuntimeError: ``k`` out of range, shapes, dtypes or devices that do not fit together,
            outs that share memory. Raised before anything is launched.
        torch.OutOfMemoryError: the outputs or the workspace do not fit.

    CPU and CUDA tensors; ids are never checked on the host, so a CUDA graph may hold the call. Of DTensors,
    queries stay sharded, with their candidates, and vectors must be replicated; outs are placed as queries.

    Source: on CUDA, the selection merged with the kernel that computes what it selects from, as J. Zhang,
    A. Naruse, X. Li, Y. Wang, "Parallel Top-K Algorithms on GPU: A Comprehensive Study and New Methods",
    SC '23, describe it for GridSelect in section 4; the lists in registers are those of J. Johnson, M. Douze,
    H. Jegou, "Billion-scale similarity search with GPUs", 2017, section 4.
    """
    tensors = {
        "queries": queries, "vectors": vectors, "candidate_ids": candidate_ids, "lengths": lengths,
        "row_offsets": row_offsets, "allow": allow, "scales": scales, "payload": payload,
    }  # fmt: skip
    given = tuple(tensor for tensor in tensors.values() if tensor is not None)
    if has_torch_function(given):
        return handle_torch_function(
            rerank, given, queries, vectors, candidate_ids, k, metric, lengths=lengths,
            row_offsets=row_offsets, allow=allow, scales=scales, unique=unique, payload=payload,
            return_positions=return_positions, out=out,
        )  # fmt: skip
    for position, (name, tensor) in enumerate(tensors.items()):
        if not isinstance(tensor, Tensor) and (position < 3 or tensor is not None):
            raise TypeError(f"rerank(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    k = _rows.integer("rerank", "k", k)
    number = _rows.number_of("rerank", "metric", metric, Metric)
    _rows.check_bool("rerank", "unique", unique)
    _rows.check_bool("rerank", "return_positions", return_positions)
    options = {"lengths": lengths, "row_offsets": row_offsets, "allow": allow, "scales": scales}
    outs = None if out is None else _outs(out, 3 if return_positions else 2)
    if has_dtensor(*given, *(outs or ())):
        from . import _dtensor

        options["payload"] = payload
        return _dtensor.rerank(
            queries, vectors, candidate_ids, k, number, options,
            unique=unique, return_positions=return_positions, out=outs,
        )  # fmt: skip
    if payload is not None:
        _check_payload(payload, vectors)
    ids = without_repeats(candidate_ids, vectors.size(0), row_offsets) if unique else candidate_ids
    arguments = (queries, vectors, ids, k, number)
    if not return_positions and payload is None and not any(map(is_negative, outs or ())):
        if outs is None:
            return Reranked(*call(torch.ops.gputopk.rerank, *arguments, **options))
        call(torch.ops.gputopk.rerank.out, *arguments, **options, distances=outs[0], ids=outs[1])
        return Reranked(*outs)

    distances, found = call(torch.ops.gputopk.rerank, *arguments, **options, positions=return_positions)
    winners = _ids_at(candidate_ids, found, row_offsets) if return_positions else found
    if payload is not None:
        winners = _look_up(payload, winners)
    result = (distances, winners, found) if return_positions else (distances, winners)
    if outs is not None:
        result = _copied(result, outs, tensors)
    return RerankedPositions(*result) if return_positions else Reranked(*result)


def _outs(out: Any, count: int) -> tuple[Tensor, ...]:
    if not isinstance(out, (tuple, list)) or len(out) != count:
        raise TypeError(f"rerank(): argument 'out' must be a tuple of {count} Tensors")
    for tensor in out:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"rerank(): argument 'out' must be tuple of Tensors, not {type(tensor).__name__}")
    return tuple(out)


def _copied(
    result: tuple[Tensor, ...], outs: tuple[Tensor, ...], inputs: dict[str, Tensor | None]
) -> tuple[Tensor, ...]:
    """The results that PyTorch's own operators make, in the caller's tensors."""
    for tensor, wanted in zip(outs, result, strict=True):
        for what in ("dtype", "device", "shape"):
            found, want = getattr(tensor, what), getattr(wanted, what)
            if found != want:
                raise RuntimeError(f"rerank(): an out must have {what} {want}, but has {found}")
    check_apart("rerank", dict(zip(RerankedPositions._fields, outs, strict=False)), inputs)
    for tensor, wanted in zip(outs, result, strict=True):
        tensor.copy_(wanted)
    return outs


def _check_payload(payload: Tensor, vectors: Tensor) -> None:
    if payload.dtype not in _ID_DTYPES:
        raise RuntimeError(f"rerank(): payload must be int32 or int64, not {_name(payload.dtype)}")
    if payload.dim() != 1 or payload.size(0) != vectors.size(0):
        raise RuntimeError(
            f"rerank(): payload must have an element a vector, [{vectors.size(0)}], not {list(payload.shape)}"
        )
    if payload.device != vectors.device:
        raise RuntimeError(
            f"rerank(): payload must be on the device of vectors, {vectors.device}, not {payload.device}"
        )


def _look_up(table: Tensor, places: Tensor) -> Tensor:
    """``table[places]``, and -1 where the place is -1."""
    if table.size(0) == 0:
        return table.new_full(places.shape, -1)
    return torch.where(places < 0, -1, table[places.clamp(min=0).long()])


def _ids_at(candidate_ids: Tensor, positions: Tensor, row_offsets: Tensor | None) -> Tensor:
    """The ids at positions of each query's candidates; -1 where the position is -1."""
    if candidate_ids.dim() == 2:
        if candidate_ids.size(1) == 0:
            return positions
        ids = candidate_ids.gather(1, positions.clamp(min=0).long())
        return torch.where(positions < 0, -1, ids)
    if row_offsets is None:
        return _look_up(candidate_ids, positions)
    begins = row_offsets[:-1, None].clamp(0, candidate_ids.size(0))
    return _look_up(candidate_ids, torch.where(positions < 0, -1, positions.long() + begins))


def without_repeats(ids: Tensor, count: int, row_offsets: Tensor | None = None) -> Tensor:
    """``ids`` of a query's candidates with -1 wherever the same id, in [0, count), stands before it; of its
    shape and dtype. ``row_offsets`` as of ``rerank``."""
    if row_offsets is None:
        keys = ids
    else:
        # Queries apart: an id's key is its own and its query's.
        places = torch.arange(ids.size(0), device=ids.device)
        rows = torch.searchsorted(row_offsets.long(), places, right=True)
        keys = rows * (count + 1) + ids.clamp(-1, count)
    return torch.where(_rows.repeated(keys), -1, ids)


# What the stable ABI cannot register ------------------------------------------------------------------

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_BYTES = (torch.int8, torch.uint8)
_ID_DTYPES = (torch.int32, torch.int64)
_ALLOW_BITS = {torch.bool: 1, torch.uint8: 8, torch.int32: 32}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(holds: Any, words: str) -> None:
    torch._check(holds, lambda: f"gputopk::rerank: {words}")


def _check_list(tensor: Tensor, name: str, count: int, device: torch.device) -> None:
    _check(tensor.dim() == 1, f"{name} must have 1 dimension, but has {tensor.dim()}")
    _check_device(tensor, name, device)
    _check(tensor.size(0) == count, f"{name} must have {count} elements, but has {tensor.size(0)}")


def _check_device(tensor: Tensor, name: str, device: torch.device) -> None:
    _check(
        tensor.device == device,
        f"{name} must be on the device of queries, {device}, but is on {tensor.device}",
    )


def _check_vectors(queries: Tensor, vectors: Tensor, allow: Tensor | None, scales: Tensor | None) -> None:
    dtype = vectors.dtype
    _check(
        queries.dtype in _DTYPES, f"queries must be float32, float16 or bfloat16, not {_name(queries.dtype)}"
    )
    _check(
        dtype in _DTYPES + _BYTES,
        f"vectors must be float32, float16, bfloat16, int8 or uint8, not {_name(dtype)}",
    )
    (count, dims), wanted = vectors.shape, queries.size(1)
    _check(dims == wanted, f"queries have {wanted} elements each, but vectors have {dims}")
    if scales is not None:
        _check(dtype in _BYTES, f"scales are for int8 and uint8 vectors, not {_name(dtype)}")
        _check(scales.dtype == torch.float32, f"scales must be float32, not {_name(scales.dtype)}")
        _check_list(scales, "scales", count, queries.device)
    if allow is not None:
        bits = _ALLOW_BITS.get(allow.dtype)
        _check(bits is not None, f"allow must be bool, or bits in uint8 or int32, not {_name(allow.dtype)}")
        _check_list(allow, "allow", (count + bits - 1) // bits, queries.device)


def _check_ranges(ranges: Tensor, name: str, count: int, device: torch.device) -> None:
    _check(ranges.dtype in _ID_DTYPES, f"{name} must be int32 or int64, not {_name(ranges.dtype)}")
    _check_list(ranges, name, count, device)


def _check_candidates(
    ids: Tensor, queries: int, k: int, lengths: Tensor | None, row_offsets: Tensor | None
) -> None:
    _check(ids.dtype in _ID_DTYPES, f"candidate_ids must be int32 or int64, not {_name(ids.dtype)}")
    candidates, most = ids.size(-1), 2**31 - 1
    whose = "each query has" if row_offsets is None else "there are"
    _check(candidates <= most, f"{whose} {candidates} candidates, at most {most}")
    if row_offsets is not None:
        _check(ids.dim() == 1, "candidate_ids must have 1 dimension where row_offsets are given")
        _check(lengths is None, "lengths and row_offsets exclude each other")
        _check_ranges(row_offsets, "row_offsets", queries + 1, ids.device)
        for holds in (k >= 0, k <= most):
            _check(holds, f"selected index k out of range: k is {k}, at most {most}")
        return
    if ids.dim() == 2:
        _check(
            ids.size(0) == queries,
            f"there are {queries} queries, but candidate_ids has {ids.size(0)} rows",
        )
    for holds in (k >= 0, k <= candidates):
        _check(holds, f"selected index k out of range: k is {k}, and each query has {candidates} candidates")
    if lengths is not None:
        _check_ranges(lengths, "lengths", queries, ids.device)


def _check_request(
    queries, vectors, candidate_ids, k, metric, *, lengths, row_offsets, allow, scales, positions
) -> None:
    """Refuses what the operator refuses, in its words."""
    for name, tensor in (("queries", queries), ("vectors", vectors)):
        _check(tensor.dim() == 2, f"{name} must have 2 dimensions, but has {tensor.dim()}")
        _check_device(tensor, name, queries.device)
    dims = candidate_ids.dim()
    _check(dims in (1, 2), f"candidate_ids must have 1 or 2 dimensions, but has {dims}")
    _check_device(candidate_ids, "candidate_ids", queries.device)
    _check_vectors(queries, vectors, allow, scales)
    _check_candidates(candidate_ids, queries.size(0), k, lengths, row_offsets)
    _check(0 <= metric < len(Metric), f"metric must be in [0, {len(Metric) - 1}], but is {metric}")


@torch.library.register_fake("gputopk::rerank")
def _(
    queries, vectors, candidate_ids, k, metric=0, *,
    lengths=None, row_offsets=None, allow=None, scales=None, positions=False,
):  # fmt: skip
    _check_request(
        queries, vectors, candidate_ids, k, metric,
        lengths=lengths, row_offsets=row_offsets, allow=allow, scales=scales, positions=positions,
    )  # fmt: skip
    shape = (queries.size(0), k)
    return queries.new_empty(shape, dtype=torch.float32), candidate_ids.new_empty(shape)


@torch.library.register_fake("gputopk::rerank.out")
def _(
    queries, vectors, candidate_ids, k, metric=0, *,
    lengths=None, row_offsets=None, allow=None, scales=None, positions=False, distances, ids,
):  # fmt: skip
    _check_request(
        queries, vectors, candidate_ids, k, metric,
        lengths=lengths, row_offsets=row_offsets, allow=allow, scales=scales, positions=positions,
    )  # fmt: skip
    for name, out, dtype in (("distances", distances, torch.float32), ("ids", ids, candidate_ids.dtype)):
        _check(
            out.dtype == dtype,
            f"Expected out tensor to have dtype {dtype}, but got {out.dtype} instead ({name})",
        )
        _check(
            out.device == queries.device,
            f"Expected out tensor to have device {queries.device}, but got {out.device} instead ({name})",
        )
        shape = [queries.size(0), k]
        _check(list(out.shape) == shape, f"{name} has shape {list(out.shape)}, but the result has {shape}")
