"""rerank on a GPU: lists in registers and stored keys against float64, and what a call may not do."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_topk
from tests import oracle
from tests import rerank_reference as reference
from tests.rerank_reference import check_close, check_exact

pytestmark = pytest.mark.gpu

rerank = torch_topk.rerank
operator = torch.ops.gputopk.rerank
DTYPES = pytest.mark.parametrize("dtype", reference.DTYPES, ids=oracle.name_of)
METRICS = pytest.mark.parametrize("metric", reference.METRICS)
ID_DTYPES = pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64], ids=oracle.name_of)
# Elements of a row: one lane's, a group's and more, of whole 16-byte words in all dtypes or in none.
DIMS = [1, 3, 8, 32, 64, 100, 127, 128, 129, 136, 256, 264, 768, 1000, 4100]
# queries x candidates, and how they are to be served for a small k.
SHAPES = {(7, 300): "lists", (200, 1500): "lists", (3, 5000): "keys stored"}


# Results.


@pytest.mark.parametrize(("shape", "way"), SHAPES.items(), ids=str)
def test_the_shapes_below_take_both_ways(device, shape, way):
    queries, candidates = shape
    vectors = torch.empty(10, 4, device=device)
    ids = torch.empty(queries, candidates, dtype=torch.int64, device=device)
    plan = torch.ops.gputopk._rerank_plan(torch.empty(queries, 4, device=device), vectors, ids, 10)
    assert plan.startswith(f"rerank: {way}")
    plan = torch.ops.gputopk._rerank_plan(torch.empty(queries, 4, device=device), vectors, ids, 257)
    assert plan.startswith("rerank: keys stored")


@DTYPES
@METRICS
@ID_DTYPES
@pytest.mark.parametrize("dims", DIMS)
def test_results_are_the_references(device, dims, id_dtype, metric, dtype):
    vectors = reference.normal(500, dims, dtype, device, seed=1)
    for queries, candidates in ((7, 300), (2, 1100)):
        rows = reference.normal(queries, dims, dtype, device, seed=2)
        ids = reference.some_ids(queries, candidates, 500, id_dtype, device, seed=3)
        for k in (1, 10, 100, 300):
            check_close(rows, vectors, ids, k, metric)


@DTYPES
@pytest.mark.parametrize("metric", ["l2", "inner_product"])
@pytest.mark.parametrize("dims", DIMS[:-2])
def test_whole_numbers_are_answered_to_the_bit(device, dims, metric, dtype):
    vectors = reference.whole_numbers(300, dims, dtype, device, seed=4)
    for queries, candidates in (*SHAPES, (2, 1), (2, 31), (2, 32), (2, 33)):
        rows = reference.whole_numbers(queries, dims, dtype, device, seed=5)
        ids = reference.some_ids(queries, candidates, 300, device=device, seed=candidates)
        ks = sorted({1, 31, 32, 33, 128, 129, 256, 257, candidates})
        check_exact(rows, vectors, ids, [k for k in ks if k <= candidates], metric)


@pytest.mark.parametrize("queries", [3, 150])  # fewer than SMs and more
def test_every_k_is_answered_to_the_bit(device, queries):
    vectors = reference.whole_numbers(200, 8, torch.float32, device, seed=6)
    rows = reference.whole_numbers(queries, 8, torch.float32, device, seed=7)
    ids = reference.some_ids(queries, 300, 200, device=device, seed=8)
    check_exact(rows, vectors, ids, range(0, 301, 2), "l2")
    check_exact(rows, vectors, ids, range(1, 301, 2), "inner_product")


@pytest.mark.parametrize("candidates", [32, 33, 255, 256, 257, 511, 1023, 1024, 1025, 2048, 2049, 10_000])
def test_every_number_of_warps_is_answered_to_the_bit(device, candidates):
    vectors = reference.whole_numbers(5000, 16, torch.float16, device, seed=9)
    for queries in (1, 140):
        rows = reference.whole_numbers(queries, 16, torch.float16, device, seed=10)
        ids = reference.some_ids(queries, candidates, 5000, torch.int32, device, seed=11)
        check_exact(rows, vectors, ids, [k for k in (1, 32, 100, 256, 300) if k <= candidates], "l2")


@st.composite
def requests(draw):
    candidates = draw(st.one_of(st.integers(0, 70), st.integers(0, 1500)))
    return {
        "dims": draw(st.one_of(st.integers(0, 70), st.integers(0, 300))),
        "vectors": draw(st.integers(0, 60)),
        "queries": draw(st.one_of(st.integers(0, 4), st.integers(0, 200))),
        "candidates": candidates,
        "k": draw(st.integers(0, candidates)),
        "dtype": draw(st.sampled_from(reference.DTYPES)),
        "id_dtype": draw(st.sampled_from([torch.int32, torch.int64])),
        "metric": draw(st.sampled_from(["l2", "inner_product"])),
        "seed": draw(st.integers(0, 2**31)),
        "offset": draw(st.integers(0, 3)),
    }


@given(requests())
def test_any_request_of_whole_numbers_is_answered_to_the_bit(request):
    vectors, queries = (
        # Rows that begin anywhere in a 16-byte word, and lie further apart than they are long.
        reference.whole_numbers(
            request[rows], request["dims"] + 4, request["dtype"], "cuda", seed=request["seed"] + number
        )[:, request["offset"] : request["offset"] + request["dims"]]
        for number, rows in enumerate(("vectors", "queries"))
    )
    ids = reference.some_ids(
        request["queries"],
        request["candidates"],
        request["vectors"],
        request["id_dtype"],
        "cuda",
        seed=request["seed"],
    )
    check_exact(queries, vectors, ids, request["k"], request["metric"])


@METRICS
@pytest.mark.parametrize("queries", [1, 150])
def test_all_equal_distances_keep_the_order_of_the_candidates(device, queries, metric):
    vectors = torch.ones(5000, 4, device=device)
    generator = torch.Generator().manual_seed(12)
    ids = torch.randperm(5000, generator=generator).repeat(queries, 1).to(device)
    for k in (1, 100, 256, 3000, 5000):
        result = rerank(vectors[:queries], vectors, ids, k, metric)
        assert torch.equal(result.ids, ids[:, :k])


@METRICS
def test_rising_and_falling_distances_are_answered(device, metric):
    vectors = torch.arange(1, 3001.0)[:, None] * torch.tensor([[0.0, 1.0]]) + torch.tensor([[1.0, 0.0]])
    for queries, candidates in itertools.product((1, 150), (torch.arange(3000), torch.arange(2999, -1, -1))):
        rows = torch.tensor([[1.0, 0.5]]).repeat(queries, 1).to(device)
        for k in (1, 10, 200, 500):
            check_close(rows, vectors.to(device), candidates.repeat(queries, 1).to(device), k, metric)


@DTYPES
@METRICS
@pytest.mark.parametrize("k", [3, 10])
def test_numbers_then_nan_then_missing(device, metric, dtype, k):
    nan, inf = float("nan"), float("inf")
    vectors = torch.tensor([[nan, 0.0], [1.0, 2.0], [inf, 1.0], [-inf, 1.0], [3.0, nan], [0.0, 0.0]])
    queries = torch.tensor([[1.0, 1.0], [0.0, 0.0], [-2.0, nan], [inf, 1.0]])
    ids = torch.tensor([[-1, 0, 5, 2, 6, 4, 3, 1, -7, 1]]).repeat(4, 1)
    for repeat in (1, 700):  # lists, stored keys
        many = ids.repeat(1, repeat)
        tensors = (queries.to(dtype), vectors.to(dtype), many)
        want = rerank(*tensors, k * repeat, metric)
        got = rerank(*(t.to(device) for t in tensors), k * repeat, metric)
        assert torch.equal(got.ids.cpu(), want.ids)
        torch.testing.assert_close(got.distances.cpu(), want.distances, rtol=1e-5, atol=0, equal_nan=True)


@METRICS
@ID_DTYPES
@pytest.mark.parametrize("queries", [2, 150])
def test_missing_candidates_fill_the_end(device, queries, id_dtype, metric):
    worst = torch.inf if metric == "l2" else -torch.inf
    vectors = torch.ones(4, 3, device=device)
    limits = torch.iinfo(id_dtype)
    for candidates in (5, 64, 3000):
        ids = torch.full((queries, candidates), -1, dtype=id_dtype, device=device)
        ids[1, [0, 1, 2, -1]] = torch.tensor([limits.min, 2, limits.max, 1], dtype=id_dtype, device=device)
        result = rerank(vectors[:1].expand(queries, 3), vectors, ids, 4, metric)
        want = torch.full((queries, 4), -1, dtype=id_dtype)
        want[1, :2] = torch.tensor([2, 1], dtype=id_dtype)
        assert torch.equal(result.ids.cpu(), want)
        assert (result.distances.cpu()[want == -1] == worst).all()
        assert torch.isfinite(result.distances.cpu()[want != -1]).all()


@METRICS
def test_empty_things_have_results(device, metric):
    def run(q, n, d, c, k):
        ids = torch.zeros(q, c, dtype=torch.int64, device=device)
        return rerank(torch.ones(q, d, device=device), torch.ones(n, d, device=device), ids, k, metric)

    for sizes in ((0, 5, 3, 4, 2), (3, 5, 3, 0, 0), (3, 5, 3, 4, 0)):
        assert [tuple(t.shape) for t in run(*sizes)] == [(sizes[0], sizes[4])] * 2
    assert run(2, 0, 3, 4, 3).ids.tolist() == [[-1] * 3] * 2
    assert run(2, 5, 0, 4, 3).ids.tolist() == [[0] * 3] * 2
    assert run(2, 5, 0, 4, 3).distances.tolist() == [[0.0] * 3] * 2


@DTYPES
def test_rows_may_lie_any_distance_apart(device, dtype):
    wide = reference.whole_numbers(120, 40, dtype, device, seed=13)
    ids = reference.some_ids(6, 90, 60, device=device, seed=14)
    layouts = [
        wide[:, 3:24],
        wide[:, 8:32],
        wide[::2, :21],
        wide[:60, :21].t().contiguous().t(),
        wide[:60, :40:2],
        wide[:1, :21].expand(60, 21),
    ]
    for vectors, queries in itertools.product(layouts, layouts):
        dims = min(vectors.shape[1], queries.shape[1])
        check_exact(queries[:6, :dims], vectors[:60, :dims], ids, 20, "l2")
    for some in (ids.repeat(2, 1)[::2], ids.t().contiguous().t(), ids[:1].expand(6, 90), ids[:, ::3]):
        check_exact(wide[:6], wide[:60], some, 20, "inner_product")


# What a call may not do.


@pytest.mark.parametrize(("queries", "candidates"), SHAPES)
def test_a_graph_is_replayed_on_changed_data(device, queries, candidates):
    def data(seed):
        return (
            reference.whole_numbers(queries, 24, torch.float32, device, seed=seed),
            reference.whole_numbers(900, 24, torch.float32, device, seed=seed + 1),
            reference.some_ids(queries, candidates, 900, device=device, seed=seed + 2),
        )

    buffers = data(0)
    for k in (10, 257):
        operator(*buffers, k)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = operator(*buffers, k)
        for seed in (20, 30):
            for buffer, fresh in zip(buffers, data(seed), strict=True):
                buffer.copy_(fresh)
            graph.replay()
            reference.assert_exact(result, *buffers, k, "l2")


@METRICS
@pytest.mark.parametrize(("queries", "candidates"), SHAPES)
def test_runs_and_batches_give_the_same_bits(device, queries, candidates, metric):
    vectors = reference.normal(2000, 100, torch.float32, device, seed=15)
    rows = reference.normal(queries, 100, torch.float32, device, seed=16)
    ids = reference.some_ids(queries, candidates, 2000, device=device, seed=17)
    first = rerank(rows, vectors, ids, 50, metric)
    for _ in range(5):
        again = rerank(rows, vectors, ids, 50, metric)
        assert torch.equal(again.ids, first.ids)
        assert torch.equal(again.distances, first.distances)
    # A query alone is served in another way, and by the same sums.
    alone = rerank(rows[1:2], vectors, ids[1:2], 50, metric)
    assert torch.equal(alone.ids, first.ids[1:2])
    assert torch.equal(alone.distances, first.distances[1:2])


# One row in flight at a time, eight, and the words that rows of other lengths have: 8, 4, 2 and 1 bytes.
LAYOUTS = [
    (torch.float32, 768),
    (torch.float32, 1100),
    (torch.float32, 129),
    (torch.float16, 1024),
    (torch.float16, 100),
    (torch.float16, 300),
    (torch.float16, 98),
    (torch.bfloat16, 129),
    (torch.int8, 1040),
    (torch.uint8, 100),
    (torch.int8, 99),
]


@METRICS
@pytest.mark.parametrize(("dtype", "dims"), LAYOUTS, ids=str)
def test_every_way_gives_the_same_bits(device, dims, dtype, metric):
    """A block a query, blocks that share one, and who selects: lists, a sort, a top-k."""
    vectors = reference.any_numbers(3000, dims, dtype, device, seed=24)
    rows = reference.normal(200, dims, torch.float32, device, seed=25)
    ids = reference.some_ids(200, 1000, 3000, device=device, seed=26)
    whole = rerank(rows, vectors, ids, 1000, metric)
    for queries, ks in ((200, (10, 100)), (80, (10, 500)), (8, (10, 100, 500)), (1, (64, 256, 500, 1000))):
        for k in ks:
            result = rerank(rows[:queries], vectors, ids[:queries], k, metric)
            assert torch.equal(result.ids, whole.ids[:queries, :k])
            assert torch.equal(result.distances, whole.distances[:queries, :k])


@pytest.mark.parametrize(("dtype", "dims"), LAYOUTS, ids=str)
@pytest.mark.parametrize("queries", [1, 8, 50])
def test_few_queries_are_answered_to_the_bit(device, queries, dims, dtype):
    vectors = reference.whole_numbers(2000, dims, dtype, device, seed=27)
    rows = reference.whole_numbers(queries, dims, torch.float32, device, seed=28)
    for candidates in (40, 1000, 5000):
        ids = reference.some_ids(queries, candidates, 2000, device=device, seed=29)
        ks = [k for k in (1, 10, 100, 256, 500) if k <= candidates]
        check_exact(rows, vectors, ids, ks, "l2")


def test_calls_in_a_row_do_not_meet_in_memory(device):
    """The launch that finishes starts early: calls in a row, each on the memory of the one before."""
    vectors = reference.whole_numbers(2000, 256, torch.float32, device, seed=30)
    requests = [
        (
            reference.whole_numbers(1 + turn % 3, 256, torch.float32, device, seed=turn),
            reference.some_ids(1 + turn % 3, 1000, 2000, device=device, seed=100 + turn),
            (10, 100, 300)[turn % 3],
        )
        for turn in range(30)
    ]
    torch.cuda.synchronize()
    results = [rerank(rows, vectors, ids, k) for rows, ids, k in requests]
    for result, (rows, ids, k) in zip(results, requests, strict=True):
        reference.assert_exact(result, rows, vectors, ids, k, "l2")


def test_streams_do_not_disturb_each_other(device):
    vectors = reference.whole_numbers(900, 32, torch.float32, device, seed=18)
    rows = reference.whole_numbers(200, 32, torch.float32, device, seed=19)
    ids = reference.some_ids(200, 1000, 900, device=device, seed=20)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for turn in range(12):
        with torch.cuda.stream(streams[turn % 4]):
            results.append((k := (10, 100, 300)[turn % 3], rerank(rows, vectors, ids, k)))
    torch.cuda.synchronize()
    for k, result in results:
        reference.assert_exact(result, rows, vectors, ids, k, "l2")


def test_no_temporary_is_as_large_as_the_gathered_vectors(device):
    queries, candidates, dims = 500, 1000, 128
    vectors = reference.normal(10_000, dims, torch.float32, device, seed=21)
    rows = reference.normal(queries, dims, torch.float32, device, seed=22)
    ids = reference.some_ids(queries, candidates, 10_000, device=device, seed=23)
    for k, most in ((100, 0), (300, 4 * queries * candidates)):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = rerank(rows, vectors, ids, k)
        outputs = sum(t.numel() * t.element_size() for t in result)
        used = torch.cuda.max_memory_allocated() - before - outputs
        assert used <= 4 * most + 2**20 < 4 * queries * candidates * dims / 10


@pytest.mark.parametrize("which", range(3))
def test_tensors_of_two_devices_are_refused(device, which):
    tensors = [torch.ones(3, 4), torch.ones(9, 4), torch.zeros(3, 5, dtype=torch.int64)]
    on_gpu = [t.to(device) for t in tensors]
    mixed = [t if i == which else g for i, (t, g) in enumerate(zip(tensors, on_gpu, strict=True))]
    with pytest.raises(RuntimeError, match="device of queries"):
        operator(*mixed, 2)
    check_exact(*on_gpu, 2, "l2")


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck_accepts_the_operator(device, requires_grad):
    queries = torch.ones(3, 4, device=device, requires_grad=requires_grad)
    vectors = torch.ones(9, 4, device=device)
    for id_dtype, k, metric in ((torch.int64, 2, 0), (torch.int32, 5, 2)):
        ids = torch.zeros(3, 5, dtype=id_dtype, device=device)
        torch.library.opcheck(operator.default, (queries, vectors, ids, k), {"metric": metric})


def test_it_compiles_whole_with_dynamic_shapes(device):
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def function(queries, vectors, ids, k):
        return rerank(queries * 2, vectors, ids, k, "inner_product")

    for queries, candidates, k in ((4, 30, 3), (7, 40, 11)):
        vectors = reference.whole_numbers(60, 12, torch.float32, device, seed=24)
        ids = reference.some_ids(queries, candidates, 60, device=device, seed=25)
        result = function(vectors[:queries], vectors, ids, k)
        reference.assert_exact(result, vectors[:queries] * 2, vectors, ids, k, "inner_product")
