"""Exact nearest neighbours by brute force: matrix products in chunks, a top-k of each, and a proof.

Products find the candidates, as they are fast, and ``rerank`` computes what is returned, as products lose
digits: |q|^2 - 2 q v + |v|^2 cancels where neighbours are near, and TF32 loses more. What a product can be
off by is known, so whether a vector that was left out could belong to the answer is decided, not hoped.

The bound, with u = 2^-24, d dims and e the rounding of a product's inputs (0 for float32, see
_input_rounding): a product in float32 is off from q v by at most P |q| |v|, P = (d + 2) u + 2 e; a distance
of ``rerank`` by B = (d / 16 + 32) u of its terms. Every score is raised by what both can hide, together C, so
a vector that is left out behind a score T has a distance that is no better than T says:

    l2             s = q v - (1 - C) |v|^2 / 2      distance >= (1 - C) |q|^2 - 2 T
    inner product  s = q v + C |q| max |v|          distance <= T
    cosine         s = q v / |q| |v| + C            distance <= T

For l2, 2 |q| |v| <= |q|^2 + |v|^2 turns the error into a part of the norms; and both are taken relative to a
point amid the vectors, which moves no distance, costs a rounding an element and makes the norms small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from . import _rows
from ._errors import call
from ._sharding import has_dtensor
from .rerank import Metric, Reranked, rerank

__all__ = ["knn"]

_U = 2.0**-24
# Scores stored at a time: 256 MiB; on the CPU 16, which its caches hold in part.
_SCORES, _CPU_SCORES = 2**26, 2**22
_QUERIES = 4096  # of a product, at most, unless a chunk is asked for
_ELEMENTS = 2**26  # of a chunk of vectors, brought to float32
_SAMPLE = 4096  # vectors whose mean the others are taken relative to
_WIDEN = 8
_LARGEST_NORM, _SMALLEST_NORM = 1e38, 1e-30  # squared; beyond, float32 overflows, or loses digits of cosines


def knn(
    queries: Tensor,
    vectors: Tensor,
    k: int,
    metric: Metric | str | int = Metric.l2,
    *,
    allow: Tensor | None = None,
    chunk: int | None = None,
    exact: bool = True,
    progress: bool = False,
) -> Reranked:
    """The ``k`` nearest of all vectors to each query, best first. At most 256 MiB of scores exist at once.

    Args:
        queries: [q, d], float32, float16 or bfloat16.
        vectors: [n, d], float32, float16, bfloat16, int8 or uint8, on the same device.
        k: how many, 0 <= k <= n.
        metric: a ``Metric``, its name or its number.
        allow: which vectors may come out: bool [n], or bits as ``rerank`` takes them. Read on the host.
        chunk: vectors in a product; by default as many as fit.
        exact: whether to return just what ``rerank`` of all vectors would. Otherwise what matrix products in
            float32, or TF32 where that is allowed, give: distances that have lost digits, and so other ids.
        progress: shows tqdm's bar.

    Returns:
        ``distances`` [q, k], float32, and ``ids`` [q, k], int64, as of ``rerank``: of equal distances the
        lower id first, id -1 where less than ``k`` vectors are allowed. Without gradients.

        With ``exact`` the bits are those of ``rerank(queries.clone(), vectors, torch.arange(n), k, metric)``:
        more than k candidates are taken by products and reranked, and a query for which rounding could have
        hidden a better one is searched again with more of them, at last with all. That reads one flag on the
        host, so no CUDA graph can hold the call. Of DTensors, queries stay sharded; vectors must be
        replicated.

    Raises:
        TypeError, ValueError, RuntimeError: as ``rerank``; also for a ``chunk`` below 1.
        ImportError: ``progress`` without tqdm.

    Source: a matrix product a chunk and a selection of its scores, as J. Johnson, M. Douze, H. Jegou,
    "Billion-scale similarity search with GPUs", 2017, have it in section 4; the proof is this project's.
    """
    for name, tensor in (("queries", queries), ("vectors", vectors), ("allow", allow)):
        if not isinstance(tensor, Tensor) and not (name == "allow" and tensor is None):
            raise TypeError(f"knn(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    k = _rows.integer("knn", "k", k)
    number = _rows.number_of("knn", "metric", metric, Metric)
    _rows.check_bool("knn", "exact", exact)
    _rows.check_bool("knn", "progress", progress)
    if chunk is not None:
        chunk = _rows.integer("knn", "chunk", chunk, "int or None")
    if has_dtensor(queries, vectors, allow):
        from . import _dtensor

        options = {"chunk": chunk, "exact": exact, "progress": progress}
        return _dtensor.knn(queries, vectors, k, number, allow, options)
    _check(queries, vectors, k, number, allow)
    if chunk is not None and chunk < 1:
        raise RuntimeError(f"knn(): chunk must be at least 1, but is {chunk}")
    with torch.no_grad(), torch.autocast(queries.device.type, enabled=False):
        queries = queries.clone(memory_format=torch.contiguous_format)  # as those are that are searched again
        search = _Search(queries, vectors, Metric(number), _allowed(allow, vectors.size(0)), chunk, exact)
        return _search(search, k, progress)


def _check(queries: Tensor, vectors: Tensor, k: int, metric: int, allow: Tensor | None) -> None:
    """What rerank refuses, by a call that does nothing else."""
    none = torch.empty(0, dtype=torch.int64, device=queries.device)
    try:
        torch.ops.gputopk.rerank(queries, vectors, none, 0, metric, allow=allow)
    except RuntimeError as error:
        words = str(error).split("\n")[0]
        raise RuntimeError(words.replace("gputopk::rerank:", "knn():")) from None
    if not 0 <= k <= vectors.size(0):
        raise RuntimeError(
            f"knn(): selected index k out of range: k is {k}, and there are {vectors.size(0)} vectors"
        )


def _allowed(allow: Tensor | None, count: int) -> Tensor | None:
    """The ids that are allowed, ascending; None for all."""
    if allow is None:
        return None
    if allow.dtype != torch.bool:
        octets = allow.contiguous().view(torch.uint8)
        places = torch.arange(8, dtype=torch.uint8, device=allow.device)
        allow = ((octets[:, None] >> places) & 1).flatten()[:count].bool()
    return allow.nonzero()[:, 0]


def _input_rounding(device: torch.device) -> float:
    """What torch's settings let a float32 product lose of its inputs, relative, with room to spare."""
    try:
        precision = torch.get_float32_matmul_precision()
        if device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32 and precision == "highest":
            precision = "high"
    except RuntimeError:  # of torch's newer settings some say another thing
        precision = "medium"
    return {"highest": 0.0, "high": 2.0**-10}.get(precision, 2.0**-8)


class _Prepared(NamedTuple):
    """Queries as a product takes them."""

    rows: Tensor  # float32
    norms: Tensor  # squared, float64, of rows; for cosine of the queries
    lengths: Tensor  # what the raise of a score is multiplied by: float32, [q, 1]


class _Search:
    """What is searched, and how scores are raised."""

    def __init__(
        self,
        queries: Tensor,
        vectors: Tensor,
        metric: Metric,
        rows: Tensor | None,
        chunk: int | None,
        exact: bool,
    ) -> None:
        self.queries, self.vectors, self.metric, self.rows, self.exact = queries, vectors, metric, rows, exact
        self.count = vectors.size(0) if rows is None else rows.size(0)
        self.dims = vectors.size(1)
        self.scores = _CPU_SCORES if queries.device.type == "cpu" else _SCORES
        if chunk is None:
            per_query = self.scores // max(1, min(queries.size(0), _QUERIES))
            chunk = max(1, min(per_query, _ELEMENTS // max(self.dims, 1)))
        self.chunk = min(chunk, self.scores)
        self.center = self._center() if metric == Metric.l2 else None
        self.raised = self._raised() if exact else 0.0

    def _raised(self) -> float:
        """C of the bound. What the few other roundings add is rounded up."""
        dims = self.dims
        product = (dims + 2) * _U + 2 * _input_rounding(self.queries.device)
        direct = (dims / 16 + 32) * _U
        # 2.1: |q - v|^2 <= 2 (|q|^2 + |v|^2); a cosine has two lengths. dims: the norms' own sums.
        return 1.02 * (product + 2.1 * direct + (dims + 32) * _U)

    def _center(self) -> Tensor:
        step = max(1, self.vectors.size(0) // _SAMPLE)
        mean = self.vectors[::step].float().mean(0)
        return torch.where(mean.isfinite(), mean, 0)

    def prepare(self, queries: Tensor) -> _Prepared:
        rows = queries.float()
        if self.center is not None:
            rows = rows - self.center
        norms = rows.double().square().sum(1)
        lengths = norms.sqrt().float()[:, None]
        if self.metric == Metric.cosine:
            rows = (rows.double() / torch.where(norms == 0, 1, norms).sqrt()[:, None]).float()
            lengths = torch.ones_like(lengths)
        return _Prepared(rows, norms, lengths)

    def chunks(self) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """First row, rows in float32, what is added to each product, and the longest row, of each chunk. NaN
        is added where float32 does not hold a row's norm: the best score, so the row is a candidate."""
        for first in range(0, self.count, self.chunk):
            last = min(first + self.chunk, self.count)
            part = self.vectors[first:last] if self.rows is None else self.vectors[self.rows[first:last]]
            part = part.float()
            if self.center is not None:
                part = part - self.center
            norms = part.square().sum(1)
            held = norms < _LARGEST_NORM
            if self.metric == Metric.cosine:
                held &= (norms > _SMALLEST_NORM) | (part == 0).all(1)
                part = part / torch.where(norms == 0, 1, norms).sqrt()[:, None]
            added = norms * (-0.5 * (1 - self.raised) if self.metric == Metric.l2 else 0)
            longest = torch.where(held, norms, 0).amax().sqrt()
            if self.metric == Metric.cosine:
                longest = torch.ones_like(longest)
            yield first, part, torch.where(held, added, torch.nan), longest

    def passes(self) -> int:
        return -(-self.count // self.chunk)

    def bound(self, queries: _Prepared, worst: Tensor) -> Tensor:
        """The best that a distance can be behind a score of `worst`, float64. NaN where nobody knows."""
        tiny = self.dims * 2.0**-120  # what underflows
        if self.metric == Metric.l2:
            bound = (1 - self.raised) * queries.norms - 2 * worst.double() - tiny
        else:
            bound = worst.double() + tiny
        held = queries.norms < _LARGEST_NORM
        if self.metric == Metric.cosine:
            held &= queries.norms > _SMALLEST_NORM
        return torch.where(held, bound, torch.nan)


def _best(search: _Search, queries: _Prepared, width: int, progress: bool) -> tuple[Tensor, Tensor]:
    """The `width` best raised scores of each query, best first, and their rows."""
    count, device = queries.rows.size(0), queries.rows.device
    scores = torch.empty((count, 0), device=device)
    rows = torch.empty((count, 0), dtype=torch.int64, device=device)
    block = max(1, min(count, search.scores // search.chunk))
    room = torch.empty(block * min(search.chunk, search.count), device=device)
    for first, part, added, longest in _shown(search.chunks(), search.passes(), progress):
        most = min(width, part.size(0))
        found, places = [], []
        for begin in range(0, count, block):
            some = queries.rows[begin : begin + block]
            products = room[: some.size(0) * part.size(0)].view(some.size(0), part.size(0))
            torch.addmm(added, some, part.t(), out=products)
            values, indices = call(torch.ops.gputopk.topk, products, most)
            found.append(values)
            places.append(indices)
        new = torch.cat(found)
        if search.metric != Metric.l2:
            new += search.raised * longest * queries.lengths
        scores = torch.cat([scores, new], 1)
        rows = torch.cat([rows, torch.cat(places) + first], 1)
        scores, order = call(torch.ops.gputopk.topk, scores, min(width, scores.size(1)))
        rows = rows.gather(1, order)
    return scores, rows


def _shown(chunks: Iterator, passes: int, progress: bool) -> Iterable:
    if not progress:
        return chunks
    from tqdm import tqdm

    return tqdm(chunks, total=passes, desc="knn", unit="chunk")


def _padded(ids: Tensor, k: int) -> Tensor:
    missing = max(0, k - ids.size(-1))
    return torch.nn.functional.pad(ids, (0, missing), value=-1)


def _search(search: _Search, k: int, progress: bool) -> Reranked:
    queries, count = search.queries, search.count
    if k == 0 or queries.size(0) == 0 or count == 0:
        ids = torch.full((max(k, 1),), -1, dtype=torch.int64, device=queries.device)
        return rerank(queries, search.vectors, ids, k, search.metric)
    prepared = search.prepare(queries)
    if not search.exact:
        return _from_products(search, prepared, k, progress)

    # More than the k best by a quarter, as what is left out needs to be further away than rounding reaches.
    width = min(count, k + max(16, k // 4))
    result, pending = None, None  # pending: the queries without a proof; None: all
    while True:
        some = queries if pending is None else queries[pending]
        whole = width * _WIDEN > count and pending is not None
        if whole:
            every = torch.arange(count, device=queries.device) if search.rows is None else search.rows
            part = rerank(some, search.vectors, _padded(every, k), k, search.metric)
            proven = torch.ones(some.size(0), dtype=torch.bool, device=some.device)
        else:
            taken = _Prepared(*(t if pending is None else t[pending] for t in prepared))
            scores, rows = _best(search, taken, width, progress)
            ids = rows if search.rows is None else search.rows[rows]
            ids = _padded(ids.sort(1).values, k)  # of equal distances the lower id is to come first
            part = rerank(some, search.vectors, ids, k, search.metric)
            last, bound = part.distances[:, -1].double(), search.bound(taken, scores[:, -1])
            better = last < bound if search.metric == Metric.l2 else last > bound
            proven = better if width < count else torch.ones_like(better)
        if pending is None:
            result = part
        else:
            for tensor, new in zip(result, part, strict=True):
                tensor[pending] = new
        if bool(proven.all()):
            return result
        pending = (~proven).nonzero()[:, 0] if pending is None else pending[~proven]
        width = min(count, width * _WIDEN)


def _from_products(search: _Search, prepared: _Prepared, k: int, progress: bool) -> Reranked:
    scores, rows = _best(search, prepared, min(k, search.count), progress)
    ids = _padded(rows if search.rows is None else search.rows[rows], k)
    distances = scores
    if search.metric == Metric.l2:
        distances = (prepared.norms[:, None] - 2 * scores.double()).clamp(min=0).float()
    elif search.metric == Metric.cosine:
        distances = scores.clamp(-1, 1)
    worst = torch.inf if search.metric == Metric.l2 else -torch.inf
    missing = max(0, k - distances.size(1))
    return Reranked(torch.nn.functional.pad(distances, (0, missing), value=worst), ids)
