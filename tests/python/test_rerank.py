"""torch_topk.rerank and torch.ops.gputopk.rerank on the CPU: against float64, and as a PyTorch operator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_topk
from tests import oracle
from tests import rerank_reference as reference
from tests.rerank_reference import check_close, check_exact
from tests.threads import threads

rerank = torch_topk.rerank
operator = torch.ops.gputopk.rerank
DTYPES = pytest.mark.parametrize("dtype", reference.DTYPES, ids=oracle.name_of)
METRICS = pytest.mark.parametrize("metric", reference.METRICS)
ID_DTYPES = pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64], ids=oracle.name_of)


# Results.


@DTYPES
@METRICS
@ID_DTYPES
@pytest.mark.parametrize("dims", [1, 3, 16, 31, 64, 100, 129, 768, 1000])
def test_results_are_the_references(dims, id_dtype, metric, dtype):
    vectors = reference.normal(500, dims, dtype, seed=1)
    queries = reference.normal(6, dims, dtype, seed=2)
    ids = reference.some_ids(6, 333, 500, id_dtype, seed=3)
    for k in (1, 10, 100):
        check_close(queries, vectors, ids, k, metric)


@DTYPES
@pytest.mark.parametrize("metric", ["l2", "inner_product"])
@pytest.mark.parametrize("dims", [1, 2, 7, 17, 63, 65, 130])
def test_whole_numbers_are_answered_to_the_bit(dims, metric, dtype):
    vectors = reference.whole_numbers(300, dims, dtype, seed=4)
    queries = reference.whole_numbers(5, dims, dtype, seed=5)
    for candidates in (1, 2, 63, 64, 65, 200, 1000):
        ids = reference.some_ids(5, candidates, 300, seed=candidates)
        ks = sorted({1, 2, candidates // 2, candidates - 1, candidates} & set(range(1, candidates + 1)))
        check_exact(queries, vectors, ids, ks, metric)


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
def test_every_k_is_answered_to_the_bit(metric):
    vectors = reference.whole_numbers(200, 6, torch.float32, seed=6)
    queries = reference.whole_numbers(3, 6, torch.float32, seed=7)
    ids = reference.some_ids(3, 300, 200, seed=8)
    check_exact(queries, vectors, ids, range(301), metric)


@st.composite
def requests(draw):
    dims = draw(st.integers(0, 70))
    vectors, queries = draw(st.integers(0, 40)), draw(st.integers(0, 4))
    candidates = draw(st.one_of(st.integers(0, 70), st.integers(0, 700)))
    return {
        "dims": dims,
        "vectors": vectors,
        "queries": queries,
        "candidates": candidates,
        "k": draw(st.integers(0, candidates)),
        "dtype": draw(st.sampled_from(reference.DTYPES)),
        "id_dtype": draw(st.sampled_from([torch.int32, torch.int64])),
        "metric": draw(st.sampled_from(["l2", "inner_product"])),
        "seed": draw(st.integers(0, 2**31)),
    }


@given(requests())
def test_any_request_of_whole_numbers_is_answered_to_the_bit(request):
    vectors = reference.whole_numbers(
        request["vectors"], request["dims"], request["dtype"], seed=request["seed"]
    )
    queries = reference.whole_numbers(
        request["queries"], request["dims"], request["dtype"], seed=request["seed"] + 1
    )
    ids = reference.some_ids(
        request["queries"],
        request["candidates"],
        request["vectors"],
        request["id_dtype"],
        seed=request["seed"],
    )
    check_exact(queries, vectors, ids, request["k"], request["metric"])


@METRICS
def test_rising_and_falling_distances_are_answered(metric):
    # Candidates in the order of their distances keep the floor moving, or never move it.
    vectors = torch.arange(1, 3001.0)[:, None] * torch.tensor([[0.0, 1.0]]) + torch.tensor([[1.0, 0.0]])
    queries = torch.tensor([[1.0, 0.5]])
    for ids in (torch.arange(3000)[None], torch.arange(2999, -1, -1)[None]):
        for k in (1, 10, 500, 3000):
            check_close(queries, vectors, ids, k, metric)


@METRICS
def test_all_equal_distances_keep_the_order_of_the_candidates(metric):
    vectors = torch.ones(5000, 4)
    ids = torch.randperm(5000, generator=torch.Generator().manual_seed(9)).repeat(2, 1)
    for k in (1, 100, 3000, 5000):
        result = rerank(vectors[:2], vectors, ids, k, metric)
        assert torch.equal(result.ids, ids[:, :k])


def test_float16_is_widened_exactly():
    # Every pattern, subnormals, infinities and NaN included, as the inner product with 1.
    values = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for dtype, vectors in ((torch.float16, values), (torch.bfloat16, values.view(torch.bfloat16))):
        query = torch.ones(1, 1, dtype=dtype)
        ids = torch.arange(2**16)[None]
        result = rerank(query, vectors[:, None], ids, 2**16, "inner_product")
        want = vectors.double()[result.ids[0]]
        torch.testing.assert_close(result.distances[0].double(), want, rtol=0, atol=0, equal_nan=True)
        # 17 elements: within a vector and behind it.
        wide = vectors[: 2**16 - 2**16 % 17].view(-1, 17)
        for column in (0, 15, 16):
            query = torch.zeros(1, 17, dtype=dtype)
            query[0, column] = 1
            finite = torch.isfinite(wide).all(1)
            got = rerank(query, wide[finite], torch.arange(int(finite.sum()))[None], 1, "inner_product")
            assert got.distances.item() == wide[finite][:, column].double().max().item()


@METRICS
@DTYPES
def test_numbers_then_nan_then_missing(metric, dtype):
    nan, inf = float("nan"), float("inf")
    vectors = torch.tensor([[nan, 0.0], [1.0, 2.0], [inf, 1.0], [-inf, 1.0], [3.0, nan], [0.0, 0.0]]).to(
        dtype
    )
    queries = torch.tensor([[1.0, 1.0], [0.0, 0.0], [-2.0, nan], [inf, 1.0]]).to(dtype)
    ids = torch.tensor([[-1, 0, 5, 2, 6, 4, 3, 1, -7, 1]]).repeat(4, 1)
    with np.errstate(invalid="ignore"):
        distances, present = reference.reference_distances(queries, vectors, ids, metric)
    result = rerank(queries, vectors, ids, 10, metric)
    worst = torch.inf if metric == "l2" else -torch.inf
    for row in range(4):
        order = reference.best_positions(distances, present, metric)[row]
        there = present[row][order]
        assert result.ids[row].tolist() == [
            int(ids[row, i]) if t else -1 for i, t in zip(order, there, strict=True)
        ]
        got = result.distances[row].double().numpy()
        np.testing.assert_allclose(got[there], distances[row][order][there], rtol=1e-5)
        assert (got[~there] == worst).all()


def test_zero_is_positive_and_nan_is_one_pattern():
    vectors = torch.tensor([[-0.0], [0.0], [float("nan")], [-float("nan")]])
    result = rerank(torch.tensor([[1.0]]), vectors, torch.tensor([[0, 1, 2, 3]]), 4, "inner_product")
    assert result.ids.tolist() == [[0, 1, 2, 3]]
    assert oracle.bits_of(result.distances).tolist() == [[0, 0, 0x7FC00000, 0x7FC00000]]


def test_the_cosine_of_a_zero_vector_is_zero():
    vectors = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    result = rerank(
        torch.tensor([[3.0, 0.0], [0.0, 0.0]]), vectors, torch.tensor([[0, 1, 2]] * 2), 3, "cosine"
    )
    assert result.ids.tolist() == [[2, 0, 1], [0, 1, 2]]
    assert result.distances.tolist() == [[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]


@METRICS
@ID_DTYPES
def test_missing_candidates_fill_the_end(id_dtype, metric):
    worst = torch.inf if metric == "l2" else -torch.inf
    vectors, queries = torch.ones(4, 3), torch.ones(2, 3)
    limits = torch.iinfo(id_dtype)
    ids = torch.tensor([[-1, 4, limits.min, limits.max, -2], [-1, 2, 4, -1, 1]], dtype=id_dtype)
    result = rerank(queries, vectors, ids, 4, metric)
    assert result.ids.tolist() == [[-1] * 4, [2, 1, -1, -1]]
    assert result.distances[0].tolist() == [worst] * 4
    assert result.distances[1, 2:].tolist() == [worst] * 2
    assert torch.isfinite(result.distances[1, :2]).all()


@METRICS
def test_empty_things_have_results(metric):
    def shapes(q, n, d, c, k):
        ids = torch.zeros(q, c, dtype=torch.int64)
        return [tuple(t.shape) for t in rerank(torch.ones(q, d), torch.ones(n, d), ids, k, metric)]

    assert shapes(0, 5, 3, 4, 2) == [(0, 2)] * 2
    assert shapes(3, 5, 3, 0, 0) == [(3, 0)] * 2
    assert shapes(3, 5, 3, 4, 0) == [(3, 0)] * 2
    no_vectors = rerank(torch.ones(2, 3), torch.ones(0, 3), torch.zeros(2, 4, dtype=torch.int64), 3, metric)
    assert no_vectors.ids.tolist() == [[-1] * 3] * 2
    no_dims = rerank(torch.ones(2, 0), torch.ones(5, 0), torch.tensor([[3, 7, 1]] * 2), 3, metric)
    assert no_dims.ids.tolist() == [[3, 1, -1]] * 2
    assert no_dims.distances[:, :2].tolist() == [[0.0, 0.0]] * 2


@DTYPES
def test_rows_may_lie_any_distance_apart(dtype):
    wide = reference.whole_numbers(120, 40, dtype, seed=10)
    ids = reference.some_ids(6, 90, 60, seed=11)
    layouts = {
        "columns": wide[:, 3:24],
        "every other row": wide[::2, :21],
        "transposed": wide[:60, :21].t().contiguous().t(),
        "every other column": wide[:60, :40:2],
        "expanded": wide[:1, :21].expand(60, 21),
    }
    for vectors, queries in itertools.product(layouts.values(), layouts.values()):
        dims = min(vectors.shape[1], queries.shape[1])
        check_exact(queries[:6, :dims], vectors[:60, :dims], ids, 20, "l2")
    for some in (ids.repeat(2, 1)[::2], ids.t().contiguous().t(), ids[:1].expand(6, 90), ids[:, ::3]):
        check_exact(wide[:6], wide[:60], some, 20, "inner_product")


def test_threads_change_nothing():
    vectors = reference.normal(2000, 65, torch.float32, seed=12)
    queries = reference.normal(301, 65, torch.float32, seed=13)
    ids = reference.some_ids(301, 400, 2000, seed=14)
    results = []
    for count in (1, 2, 5):
        with threads(count):
            results.append(rerank(queries, vectors, ids, 37))
    for result in results[1:]:
        assert torch.equal(result.ids, results[0].ids)
        assert torch.equal(result.distances, results[0].distances)


def test_many_queries_are_all_answered():
    vectors = reference.whole_numbers(50, 3, torch.float32, seed=15)
    queries = reference.whole_numbers(10_000, 3, torch.float32, seed=16)
    ids = reference.some_ids(10_000, 20, 50, seed=17)
    check_exact(queries, vectors, ids, 5, "l2")


# Arguments.

Q, V = torch.ones(3, 4), torch.ones(9, 4)
I = torch.zeros(3, 5, dtype=torch.int64)  # noqa: E741

# what: (call, words that the message must hold)
BAD = {
    "k above the candidates": (lambda: operator(Q, V, I, 6), ["selected index k out of range", "6", "5"]),
    "k below zero": (lambda: operator(Q, V, I, -1), ["selected index k out of range", "-1", "5"]),
    "metric above the last": (lambda: operator(Q, V, I, 2, 3), ["metric", "3", "[0, 2]"]),
    "metric below zero": (lambda: operator(Q, V, I, 2, -1), ["metric", "-1", "[0, 2]"]),
    "other dims": (lambda: operator(Q, V[:, :3], I, 2), ["queries have 4", "vectors have 3"]),
    "other rows": (lambda: operator(Q, V, I[:2], 2), ["3 queries", "2 rows"]),
    "queries of one dim": (lambda: operator(Q[0], V, I, 2), ["queries", "2 dimensions", "1"]),
    "vectors of three dims": (lambda: operator(Q, V[None], I, 2), ["vectors", "2 dimensions", "3"]),
    "ids of three dims": (lambda: operator(Q, V, I[None], 2), ["candidate_ids", "1 or 2 dimensions", "3"]),
    "float64": (lambda: operator(Q.double(), V.double(), I, 2), ["queries", "float64"]),
    "integers": (lambda: operator(Q.int(), V.int(), I, 2), ["queries", "int32"]),
    "complex": (lambda: operator(Q.to(torch.complex64), V, I, 2), ["queries must be"]),
    "float64 vectors": (lambda: operator(Q, V.double(), I, 2), ["vectors", "int8", "not float64"]),
    "int16 ids": (lambda: operator(Q, V, I.short(), 2), ["candidate_ids", "int16"]),
    "float ids": (lambda: operator(Q, V, I.float(), 2), ["candidate_ids", "float32"]),
    "too many candidates": (
        lambda: operator(Q, V, I[:, :1].expand(3, 2**31), 2),
        ["candidates", str(2**31), str(2**31 - 1)],
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_are_refused_in_words(what):
    call, words = BAD[what]
    with pytest.raises(RuntimeError, match="gputopk::rerank: ") as caught:
        call()
    for word in words:
        assert word in str(caught.value)
    check_exact(Q, V, I, 2, "l2")


@pytest.mark.parametrize("what", BAD)
def test_the_fake_refuses_what_the_operator_refuses(what):
    call, words = BAD[what]
    namespace = dict(zip("QVI", (Q.to("meta"), V.to("meta"), I.to("meta")), strict=True))
    before = {name: globals()[name] for name in namespace}
    globals().update(namespace)
    try:
        with pytest.raises(RuntimeError, match="gputopk::rerank: ") as caught:
            call()
    finally:
        globals().update(before)
    for word in words:
        if word != "complex64":
            assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([1.0], V, I, 2), "queries"),
        ((Q, None, I, 2), "vectors"),
        ((Q, V, [[0]], 2), "candidate_ids"),
        ((Q, V, I, True), "k"),
        ((Q, V, I, 2.0), "k"),
        ((Q, V, I, None), "k"),
        ((Q, V, I, torch.tensor(2)), "k"),
        ((Q, V, I, 2, True), "metric"),
        ((Q, V, I, 2, 1.0), "metric"),
        ((Q, V, I, 2, None), "metric"),
    ],
    ids=str,
)
def test_types_are_strict(arguments, name):
    with pytest.raises(TypeError, match=rf"rerank\(\): argument '{name}' must be"):
        rerank(*arguments)


def test_a_metric_has_a_name_a_number_and_a_member():
    vectors = reference.normal(30, 8, torch.float32, seed=18)
    ids = reference.some_ids(3, 20, 30, seed=19)
    for metric in torch_topk.Metric:
        results = [rerank(vectors[:3], vectors, ids, 5, m) for m in (metric, metric.name, int(metric))]
        for result in results[1:]:
            assert torch.equal(result.distances, results[0].distances)
    assert torch.equal(
        rerank(vectors[:3], vectors, ids, 5).ids, rerank(vectors[:3], vectors, ids, 5, "l2").ids
    )
    with pytest.raises(ValueError, match=r"l2 \(0\), inner_product \(1\), cosine \(2\), not 'L2'"):
        rerank(vectors[:3], vectors, ids, 5, "L2")


def test_numpy_integers_are_integers():
    assert rerank(Q, V, I, np.int64(2)).ids.shape == (3, 2)


# As an operator.


def test_the_schema_is_the_published_one():
    assert str(operator.default._schema) == (
        "gputopk::rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0, *, "
        "Tensor? lengths=None, Tensor? row_offsets=None, Tensor? allow=None, Tensor? scales=None, "
        "bool positions=False) -> (Tensor distances, Tensor ids)"
    )


SAMPLES = [
    ("plain", (Q, V, I, 2), {}),
    ("int32", (Q.half(), V.half(), I.int(), 5), {"metric": 2}),
    ("k = 0", (Q, V, I, 0), {}),
    ("no queries", (Q[:0], V, I[:0], 2), {}),
    ("strided", (torch.ones(4, 3).t(), torch.ones(9, 8)[:, ::2], I, 2), {"metric": 1}),
]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("args", "kwargs"), [s[1:] for s in SAMPLES], ids=[s[0] for s in SAMPLES])
def test_opcheck_accepts_the_operator(args, kwargs, requires_grad):
    queries = args[0].clone().requires_grad_() if requires_grad else args[0]
    torch.library.opcheck(operator.default, (queries, *args[1:]), kwargs)


def test_results_have_no_gradients():
    queries = torch.ones(3, 4, requires_grad=True)
    for result in (operator(queries, V, I, 2), rerank(queries, V, I, 2)):
        assert not any(tensor.requires_grad for tensor in result)


def test_the_fake_gives_the_form_of_the_real_thing():
    for dtype, id_dtype in itertools.product(reference.DTYPES, (torch.int32, torch.int64)):
        arguments = (Q.to(dtype), V.to(dtype), I.to(id_dtype))
        real = rerank(*arguments, 2)
        with FakeTensorMode() as mode:
            fake = rerank(*(mode.from_tensor(t) for t in arguments), 2)
        for got, want in zip(fake, real, strict=True):
            assert (got.shape, got.dtype, got.stride(), got.device) == (
                want.shape, want.dtype, want.stride(), want.device,
            )  # fmt: skip


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_it_compiles_whole_with_dynamic_shapes(backend):
    @torch.compile(fullgraph=True, dynamic=True, backend=backend)
    def function(queries, vectors, ids, k):
        result = rerank(queries * 2, vectors, ids, k, "inner_product")
        return result.distances + 1, result.ids

    for queries, candidates, k in ((4, 30, 3), (7, 40, 11)):
        vectors = reference.whole_numbers(60, 12, torch.float32, seed=20)
        ids = reference.some_ids(queries, candidates, 60, seed=21)
        distances, got_ids = function(vectors[:queries], vectors, ids, k)
        want = rerank(vectors[:queries] * 2, vectors, ids, k, "inner_product")
        assert torch.equal(distances, want.distances + 1)
        assert torch.equal(got_ids, want.ids)


@DTYPES
@pytest.mark.parametrize("query_dtype", reference.DTYPES, ids=oracle.name_of)
def test_autocast_changes_nothing(query_dtype, dtype):
    """Queries come out of a matmul, and vectors of a file: both are read as they are."""
    queries = reference.normal(4, 8, query_dtype, seed=3)
    vectors = reference.normal(50, 8, dtype, seed=4)
    ids = reference.some_ids(4, 20, 50, seed=5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = rerank(queries, vectors, ids, 5)
    want = rerank(queries.float(), vectors.float(), ids, 5)
    assert torch.equal(result.distances, want.distances) and torch.equal(result.ids, want.ids)


@pytest.mark.parametrize(
    "more", [{"return_positions": True}, {"payload": torch.arange(20)}], ids=["positions", "payload"]
)
def test_outs_that_share_memory_are_refused_where_results_are_copied_too(more):
    queries, vectors = torch.ones(3, 8), torch.ones(20, 8)
    candidates = torch.arange(18).view(3, 6)
    count = 3 if "return_positions" in more else 2
    distances, *others = torch.zeros(3, 2), *(torch.zeros(3, 2, dtype=torch.int64) for _ in range(2))
    good = [distances, *others][:count]
    bad = [
        [queries[:, :2], *good[1:]],
        [vectors[:3, :2], *good[1:]],
        [distances, candidates[:, :2], *good[2:]],
        [distances, others[0][:, :1].expand(3, 2), *good[2:]],
        [others[0].view(torch.float32)[:, :2], *good[1:]],
        [distances, *[others[0]] * (count - 1)],
    ]
    for out in bad if count == 3 else bad[:-1]:
        with pytest.raises(RuntimeError, match="single memory location"):
            rerank(queries, vectors, candidates, 2, out=tuple(out), **more)
    assert not any(out.any() for out in good) and queries.all() and vectors.all()
    rerank(queries, vectors, candidates, 2, out=tuple(good), **more)
    assert good[1].tolist() == [[0, 1], [6, 7], [12, 13]]


@pytest.mark.parametrize("more", [{}, {"return_positions": True}], ids=str)
def test_distances_may_be_a_view_of_negatives(more):
    queries, vectors, candidates = torch.ones(3, 8), torch.zeros(20, 8), torch.arange(18).view(3, 6)
    ids = [torch.zeros(3, 2, dtype=torch.int64) for _ in range(len(more) + 1)]
    distances = torch.zeros(3, 2, dtype=torch.complex64).conj().imag
    rerank(queries, vectors, candidates, 2, out=(distances, *ids), **more)
    assert distances.tolist() == [[8, 8]] * 3 and ids[0].tolist() == [[0, 1], [6, 7], [12, 13]]
