"""torch_topk.knn: the same bits as rerank of all vectors, whatever products lose."""

from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import torch_topk
from tests import oracle
from tests import rerank_reference as reference
from torch_topk import knn, rerank

module = sys.modules["torch_topk.knn"]
METRICS = pytest.mark.parametrize("metric", reference.METRICS)
VECTOR_DTYPES = pytest.mark.parametrize("dtype", reference.VECTOR_DTYPES, ids=oracle.name_of)


def check(queries, vectors, k, metric, mask=None, **options):
    ids = torch.arange(len(vectors))
    if mask is not None:
        ids = torch.where(mask, ids, -1)
    want = rerank(queries, vectors, ids, k, metric)
    got = knn(queries, vectors, k, metric, **options)
    assert isinstance(got, torch_topk.Reranked)
    assert torch.equal(got.ids, want.ids)
    assert (oracle.bits_of(got.distances) == oracle.bits_of(want.distances)).all()


def offset_rows(rows: int, dims: int, seed: int, spread: float = 1e-3) -> torch.Tensor:
    """Near duplicates far from zero."""
    return 1000 + spread * reference.normal(rows, dims, torch.float32, seed=seed)


def clusters(rows: int, dims: int, seed: int) -> torch.Tensor:
    """Near duplicates of 20 points far from each other."""
    centers = 1000 * reference.normal(20, dims, torch.float32, seed=seed)
    near = 1e-3 * reference.normal(rows, dims, torch.float32, seed=seed + 1)
    return centers[torch.arange(rows) % 20] + near


@pytest.fixture
def searches(monkeypatch) -> list[int]:
    """How many queries each search by products had, and minus that of each search of all vectors."""
    seen: list[int] = []
    best, reranked = module._best, module.rerank

    def counted_best(search, queries, *rest):
        seen.append(len(queries.rows))
        return best(search, queries, *rest)

    def counted_rerank(queries, vectors, ids, *rest):
        if ids.dim() == 1:
            seen.append(-len(queries))
        return reranked(queries, vectors, ids, *rest)

    monkeypatch.setattr(module, "_best", counted_best)
    monkeypatch.setattr(module, "rerank", counted_rerank)
    return seen


# Results.


@VECTOR_DTYPES
@METRICS
@pytest.mark.parametrize("dims", [1, 33, 128])
def test_it_is_rerank_of_all_vectors(dims, metric, dtype):
    vectors = reference.any_numbers(3000, dims, dtype, seed=1)
    queries = reference.normal(9, dims, torch.float32, seed=2)
    for k, chunk in ((1, None), (10, 700), (100, 1), (3000, None))[: 4 if dims == 33 else 2]:
        check(queries, vectors[: 300 if chunk == 1 else None], k, metric, chunk=chunk)


def test_random_vectors_are_proven_at_once(searches):
    vectors = reference.normal(20_000, 64, torch.float32, seed=3)
    for metric in reference.METRICS:
        check(vectors[:50] + 0.1, vectors, 10, metric)
        assert searches == [50]
        searches.clear()


@pytest.mark.parametrize("make", [offset_rows, clusters], ids=["offset", "clusters"])
def test_near_duplicates_are_told_apart(make, searches):
    vectors = make(4000, 32, seed=4)
    queries = vectors[:40] + 1e-3 * reference.normal(40, 32, torch.float32, seed=6)
    norms, products = vectors.square().sum(1), queries @ vectors.T
    textbook = (queries.square().sum(1)[:, None] - 2 * products + norms).topk(10, largest=False).indices
    want = rerank(queries, vectors, torch.arange(4000), 10).ids
    assert (textbook != want).float().mean() > 0.3  # so there are digits to lose
    check(queries, vectors, 10, "l2")
    # An offset is taken away beforehand; of clusters rounding hides neighbours, which is noticed.
    assert searches[0] == 40 and (len(searches) == 1) == (make is offset_rows)
    check(queries, vectors, 10, "cosine")


def test_what_is_never_proven_is_searched_whole(searches):
    vectors = torch.ones(2000, 8)
    check(vectors[:3], vectors, 5, "l2")
    assert searches[-1] == -3
    assert knn(vectors[:3], vectors, 5).ids.tolist() == [[0, 1, 2, 3, 4]] * 3


@METRICS
def test_numbers_that_float32_hardly_holds(metric):
    inf, nan = torch.inf, torch.nan
    vectors = reference.normal(600, 3, torch.float32, seed=7)
    for row, value in enumerate((inf, -inf, nan, 1e19, 2e19, -1e30, 1e-20, 1e-38, 1e-45, 0.0)):
        vectors[10 * row] = value
        vectors[10 * row + 1, 1] = value
    queries = torch.stack([vectors[3], *vectors[:100:10]])
    check(queries, vectors, 20, metric)
    check(queries * 1e-22, vectors * 1e-22, 20, metric)
    check(queries, vectors[200:], 20, metric)


@METRICS
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_of_less_precision_are_known_of(precision, metric):
    vectors = reference.normal(3000, 48, torch.float32, seed=8)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        assert module._input_rounding(torch.device("cpu")) >= 2.0**-10
        check(vectors[:20] + 0.1, vectors, 10, metric)
    finally:
        torch.set_float32_matmul_precision(before)
    assert module._input_rounding(torch.device("cpu")) == 0


@pytest.mark.parametrize("bits", [torch.bool, torch.uint8, torch.int32], ids=str)
def test_only_what_is_allowed_comes_out(bits):
    vectors = reference.normal(1001, 16, torch.float32, seed=9)
    for share in (0.0, 0.005, 0.5, 1.0):
        mask = torch.rand(1001, generator=torch.Generator().manual_seed(10)) < share
        allow = mask if bits == torch.bool else reference.bits_of_mask(mask, bits)
        for k in (1, 10, 30):
            check(vectors[:7], vectors, k, "l2", mask, allow=allow, chunk=100)
            approximate = knn(vectors[:7], vectors, k, allow=allow, exact=False)
            assert torch.equal(approximate.ids < 0, knn(vectors[:7], vectors, k, allow=allow).ids < 0)


@METRICS
def test_without_proof_distances_are_near(metric):
    vectors = reference.normal(2000, 24, torch.float32, seed=11)
    queries = reference.normal(30, 24, torch.float32, seed=12)
    want = rerank(queries, vectors, torch.arange(2000), 10, metric)
    got = knn(queries, vectors, 10, metric, exact=False, chunk=300)
    torch.testing.assert_close(got.distances, want.distances, rtol=1e-4, atol=1e-4)
    assert (got.ids == want.ids).float().mean() > 0.95


@METRICS
def test_empty_things_have_results(metric):
    for q, n, d, k in ((0, 5, 3, 2), (2, 5, 3, 0), (2, 0, 3, 0), (2, 5, 0, 3)):
        check(torch.ones(q, d), torch.ones(n, d), k, metric)


@given(
    st.integers(1, 5), st.integers(1, 200), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**31),
    st.sampled_from(reference.VECTOR_DTYPES), st.sampled_from(reference.METRICS), st.integers(1, 250),
)  # fmt: skip
def test_any_request_is_answered_to_the_bit(queries, vectors, dims, k, seed, dtype, metric, chunk):
    """Small whole numbers: many distances are equal, and most queries are searched again."""
    table = reference.whole_numbers(vectors, dims, dtype, seed=seed)
    rows = reference.whole_numbers(queries, dims, torch.float32, seed=seed + 1)
    check(rows, table, min(k, vectors), metric, chunk=chunk)


# The bound itself.


@METRICS
@pytest.mark.parametrize("make", ["normal", "offset", "clusters", "many sizes"])
def test_no_distance_is_better_than_its_score_allows(make, metric):
    dims = 96
    normal = reference.normal(1500, dims, torch.float32, seed=13)
    vectors = {
        "normal": normal,
        "offset": offset_rows(1500, dims, 13),
        "clusters": clusters(1500, dims, 13),
        "many sizes": normal * torch.logspace(-6, 6, dims),
    }[make]
    queries = vectors[:40] * (1 + 1e-6 * reference.normal(40, dims, torch.float32, seed=15))
    kind = torch_topk.Metric[metric]
    search = module._Search(queries, vectors, kind, None, 400, True)
    prepared = search.prepare(queries)
    scores, rows = module._best(search, prepared, 1500, False)
    # Distances at these rows, in float64 and as rerank computes them.
    everything = rerank(queries, vectors, torch.arange(1500), 1500, metric)
    direct = torch.empty(40, 1500).scatter(1, everything.ids, everything.distances).gather(1, rows)
    ids = torch.arange(1500).repeat(40, 1)
    exact = torch.from_numpy(reference.reference_distances(queries, vectors, ids, metric)[0]).gather(1, rows)
    bounds = torch.stack([search.bound(prepared, scores[:, i]) for i in range(1500)], 1)
    sign = 1 if metric == "l2" else -1
    for distances in (direct.double(), exact):
        assert (sign * distances >= sign * bounds).all()
    # And not so low that nothing could be proven: within some roundings of the terms' size.
    size = vectors.double().norm(dim=1).amax() * queries.double().norm(dim=1)[:, None]
    size = torch.ones_like(size) if metric == "cosine" else size
    assert ((exact - bounds).abs() <= 20 * dims * 2.0**-24 * 2 * size).all()


# What a call may not do.


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operator gives, in bytes."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("exact", [False, True])
def test_no_matrix_of_queries_and_vectors_exists(exact):
    queries = reference.normal(500, 4, torch.float32, seed=16)
    vectors = reference.normal(100_000, 4, torch.float32, seed=17)  # all scores: 200 MB
    for chunk in (None, 1000, 10**9):
        with Largest() as largest:
            knn(queries, vectors, 5, exact=exact, chunk=chunk)
        assert largest.bytes <= 4 * module._CPU_SCORES
    assert 4 * module._SCORES == 2**28


def test_results_have_no_gradients_and_autocast_changes_nothing():
    vectors = reference.normal(500, 16, torch.float32, seed=18)
    want = knn(vectors[:4], vectors, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = knn(vectors[:4].clone().requires_grad_(), vectors, 5)
        near = knn(vectors[:4], vectors, 5, exact=False)
    assert torch.equal(got.distances, want.distances) and torch.equal(got.ids, want.ids)
    assert not got.distances.requires_grad
    torch.testing.assert_close(near.distances, want.distances, rtol=1e-4, atol=1e-4)


def test_progress_is_shown_where_asked(capsys):
    vectors = reference.normal(500, 4, torch.float32, seed=19)
    knn(vectors[:4], vectors, 5, chunk=100)
    assert capsys.readouterr().err == ""
    knn(vectors[:4], vectors, 5, chunk=100, progress=True)
    assert "5/5" in capsys.readouterr().err


Q, V = torch.ones(3, 4), torch.ones(9, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: knn([1.0], V, 2), TypeError, "argument 'queries' must be Tensor, not list"),
        (lambda: knn(Q, V, 2.0), TypeError, "argument 'k' must be int, not float"),
        (lambda: knn(Q, V, True), TypeError, "argument 'k'"),
        (lambda: knn(Q, V, 10), RuntimeError, "k is 10, and there are 9 vectors"),
        (lambda: knn(Q, V, -1), RuntimeError, "k is -1"),
        (lambda: knn(Q, V, 2, "L2"), ValueError, r"knn\(\): metric must be one of l2"),
        (lambda: knn(Q, V, 2, 7), ValueError, r"knn\(\): metric must be one of l2 .*, not 7"),
        (lambda: knn(Q[:, :3], V, 2), RuntimeError, r"knn\(\): queries have 3 elements"),
        (lambda: knn(Q.double(), V, 2), RuntimeError, r"knn\(\): queries must be float32"),
        (lambda: knn(Q[0], V, 2), RuntimeError, r"knn\(\): queries must have 2 dimensions"),
        (lambda: knn(Q, V, 2, allow=Q[0] > 0), RuntimeError, r"knn\(\): allow must have 9"),
        (lambda: knn(Q, V, 2, chunk=0), RuntimeError, "chunk must be at least 1, but is 0"),
        (lambda: knn(Q, V, 2, chunk=1.5), TypeError, "argument 'chunk' must be int"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
