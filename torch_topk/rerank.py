"""Reranking: exact distances from queries to their candidates, and the best k of them, in one operator."""

from __future__ import annotations

import operator
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from ._errors import call

__all__ = ["Metric", "Reranked", "rerank"]


class Metric(IntEnum):
    """How far a candidate is from a query."""

    l2 = 0
    """Squared Euclidean distance, without the root, as in FAISS: less is better."""
    inner_product = 1
    """Inner product: more is better."""
    cosine = 2
    """Cosine similarity, 0 for a vector of zeros: more is better."""


class Reranked(NamedTuple):
    """What ``rerank`` returns."""

    distances: Tensor
    ids: Tensor


def rerank(
    queries: Tensor,
    vectors: Tensor,
    candidate_ids: Tensor,
    k: int,
    metric: Metric | str | int = Metric.l2,
) -> Reranked:
    """The ``k`` best of each query's candidates by exact distance, best first: the last step of an
    approximate nearest-neighbour search.

    A distance is selected as soon as it is computed: no tensor of queries x candidates x elements exists, and
    each candidate's vector is read once. Beyond the outputs, the CPU needs O(k + d) bytes a thread, and CUDA
    none for k <= 256 and queries enough to fill the GPU; else 4 bytes a candidate and what a top-k of those
    takes.

    Args:
        queries: [q, d], float32, float16 or bfloat16.
        vectors: [n, d], of the same dtype, on the same device; under ``torch.autocast`` queries of another
            are cast to it. Rows of queries and vectors may lie any distance apart; a tensor whose rows are
            not dense is copied.
        candidate_ids: [q, c], int32 or int64, c < 2**31: which rows of ``vectors`` to look at. An id outside
            [0, n), such as -1, is a missing candidate: so rows of different lengths are padded, anywhere.
            A repeated id is as many candidates.
        k: how many, 0 <= k <= c.
        metric: a ``Metric``, its name or its number.

    Returns:
        ``distances`` [q, k], float32, and ``ids`` [q, k], of ``candidate_ids``'s dtype; a named tuple. Among
        equal distances the earlier candidate comes first. Behind all numbers come NaN distances, and then,
        where candidates are missing, id -1 with the worst distance: +inf for l2, -inf for the others. Neither
        has gradients.

        Distances are sums in float32; their last bits, and with them the order of candidates whose distances
        differ by no more than rounding, are the device's own. Elements whose squares leave float32's range
        make distances that are infinite, NaN or 0.

    Raises:
        TypeError: an argument of another type.
        ValueError: a metric of another name.
        RuntimeError: ``k`` or ``metric`` out of range, shapes, dtypes or devices that do not fit together.
            Raised before anything is launched.
        torch.OutOfMemoryError: the outputs or the workspace do not fit.

    CPU and CUDA tensors; ids are never checked on the host, so a CUDA graph may hold the call.

    Source: on CUDA, the selection merged with the kernel that computes what it selects from, as J. Zhang,
    A. Naruse, X. Li, Y. Wang, "Parallel Top-K Algorithms on GPU: A Comprehensive Study and New Methods",
    SC '23, describe it for GridSelect in section 4; the lists in registers are those of J. Johnson, M. Douze,
    H. Jegou, "Billion-scale similarity search with GPUs", 2017, section 4.
    """
    tensors = (queries, vectors, candidate_ids)
    if has_torch_function(tensors):
        return handle_torch_function(rerank, tensors, queries, vectors, candidate_ids, k, metric)
    for name, tensor in zip(("queries", "vectors", "candidate_ids"), tensors, strict=True):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"rerank(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    if isinstance(k, bool) or not isinstance(k, (int, torch.SymInt)):
        k = _index(k)
    number = _metric_number(metric)
    if queries.dtype != vectors.dtype and torch.is_autocast_enabled(queries.device.type):
        both_served = queries.dtype in _DTYPES and vectors.dtype in _DTYPES
        queries = queries.to(vectors.dtype) if both_served else queries
    return Reranked(*call(torch.ops.gputopk.rerank, queries, vectors, candidate_ids, k, number))


def _index(k: Any) -> int:
    """NumPy's integers are integers; tensors would have to be read."""
    if isinstance(k, (bool, Tensor)) or not hasattr(k, "__index__"):
        raise TypeError(f"rerank(): argument 'k' must be int, not {type(k).__name__}")
    return operator.index(k)


def _metric_number(metric: Metric | str | int) -> int:
    if isinstance(metric, str):
        try:
            return Metric[metric].value
        except KeyError:
            names = ", ".join(member.name for member in Metric)
            raise ValueError(f"rerank(): metric must be one of {names}, not {metric!r}") from None
    if isinstance(metric, bool) or not isinstance(metric, int):
        name = type(metric).__name__
        raise TypeError(f"rerank(): argument 'metric' must be a Metric, its name or int, not {name}")
    return int(metric)


# What the stable ABI cannot register ------------------------------------------------------------------

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(holds: Any, words: str) -> None:
    torch._check(holds, lambda: f"gputopk::rerank: {words}")


@torch.library.register_fake("gputopk::rerank")
def _(queries, vectors, candidate_ids, k, metric=0):
    """Refuses what the operator refuses, in its words."""
    named = {"queries": queries, "vectors": vectors, "candidate_ids": candidate_ids}
    for name, tensor in named.items():
        _check(tensor.dim() == 2, f"{name} must have 2 dimensions, but has {tensor.dim()}")
        _check(
            tensor.device == queries.device,
            f"{name} must be on the device of queries, {queries.device}, but is on {tensor.device}",
        )
    dtype = _name(queries.dtype)
    _check(queries.dtype in _DTYPES, f"queries must be float32, float16 or bfloat16, not {dtype}")
    _check(
        vectors.dtype == queries.dtype,
        f"vectors must have the dtype of queries, {dtype}, not {_name(vectors.dtype)}",
    )
    _check(
        candidate_ids.dtype in (torch.int32, torch.int64),
        f"candidate_ids must be int32 or int64, not {_name(candidate_ids.dtype)}",
    )
    (rows, dims), candidates = queries.shape, candidate_ids.size(1)
    _check(vectors.size(1) == dims, f"queries have {dims} elements each, but vectors have {vectors.size(1)}")
    _check(
        candidate_ids.size(0) == rows,
        f"there are {rows} queries, but candidate_ids has {candidate_ids.size(0)} rows",
    )
    for holds in (k >= 0, k <= candidates):
        _check(
            holds,
            f"selected index k out of range: k is {k}, and each query has {candidates} candidates",
        )
    _check(candidates < 2**31, f"each query has {candidates} candidates, at most {2**31 - 1}")
    _check(0 <= metric < len(Metric), f"metric must be in [0, {len(Metric) - 1}], but is {metric}")
    distances = queries.new_empty((rows, k), dtype=torch.float32)
    return distances, candidate_ids.new_empty((rows, k))
