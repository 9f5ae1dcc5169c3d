"""What a search asks of rerank, and knn, on a GPU: each request as the same one in plain form."""

from __future__ import annotations

import pytest
import torch

from tests import oracle
from tests import rerank_reference as reference
from torch_topk import knn, rerank

pytestmark = pytest.mark.gpu

operator = torch.ops.gputopk.rerank
METRICS = pytest.mark.parametrize("metric", reference.METRICS)
VECTOR_DTYPES = pytest.mark.parametrize("dtype", reference.VECTOR_DTYPES, ids=oracle.name_of)
QUERY_DTYPES = pytest.mark.parametrize("query_dtype", reference.DTYPES, ids=oracle.name_of)
# Of lists in registers, and of stored keys.
KS = pytest.mark.parametrize("k", [10, 300])


@VECTOR_DTYPES
@QUERY_DTYPES
@METRICS
@KS
@pytest.mark.parametrize("dims", [1, 16, 100, 128, 129, 768])
def test_vectors_are_of_any_type(device, dims, k, metric, query_dtype, dtype):
    queries = reference.normal(7, dims, query_dtype, device, seed=1)
    vectors = reference.any_numbers(400, dims, dtype, device, seed=2)
    ids = reference.some_ids(7, 350, 400, device=device, seed=3)
    reference.assert_close(rerank(queries, vectors, ids, k, metric), queries, vectors, ids, k, metric)
    if metric != "cosine":
        queries = reference.whole_numbers(7, dims, query_dtype, device, seed=4)
        vectors = reference.whole_numbers(400, dims, dtype, device, seed=5)
        reference.assert_exact(rerank(queries, vectors, ids, k, metric), queries, vectors, ids, k, metric)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint8], ids=oracle.name_of)
@pytest.mark.parametrize("metric", ["l2", "inner_product"])
@KS
@pytest.mark.parametrize("queries", [5, 200])  # fewer than SMs, and more
def test_whose_candidates_and_which(device, queries, k, metric, dtype):
    vectors = reference.whole_numbers(90, 24, dtype, device, seed=6)
    rows = reference.whole_numbers(queries, 24, torch.float32, device, seed=7)
    mask = torch.arange(90, device=device) % 3 != 0
    numbers, scaled = vectors, {}
    if dtype != torch.float16:
        scaled = {"scales": torch.tensor([0.5, -2.0], device=device).repeat(45)}
        numbers = vectors * scaled["scales"][:, None]
    matrix = reference.some_ids(queries, 310, 90, torch.int32, device, seed=8)
    generator = torch.Generator().manual_seed(9)
    lengths = torch.randint(-3, 320, (queries,), generator=generator).to(device)
    offsets = torch.randint(-3, 320, (queries + 1,), generator=generator).sort().values.to(device)
    bits = reference.bits_of_mask(mask, torch.int32)
    for ids, options, plain in (
        (matrix, {"lengths": lengths, "allow": mask}, {"lengths": lengths, "mask": mask}),
        (matrix, {"unique": True}, {"unique": True}),
        (matrix[0], {"allow": bits}, {"mask": mask}),
        (matrix[0], {"row_offsets": offsets}, {"row_offsets": offsets}),
    ):
        result = rerank(rows, vectors, ids, k, metric, **options, **scaled)
        plain_ids = reference.plain_ids(ids, queries, k, **plain)
        reference.assert_exact(result, rows, numbers, plain_ids, k, metric)
        outs = torch.empty_like(result.distances), torch.empty_like(result.ids)
        rerank(rows, vectors, ids, k, metric, **options, **scaled, out=outs)
        assert torch.equal(outs[1], result.ids)
        payload = torch.arange(90, device=device) + 1000
        found = rerank(
            rows, vectors, ids, k, metric, **options, **scaled, payload=payload, return_positions=True
        )
        at = plain_ids.gather(1, found.positions.clamp(min=0).long())
        assert torch.equal(torch.where(found.positions < 0, -1, at), result.ids)
        assert torch.equal(found.ids, torch.where(result.ids < 0, -1, result.ids.long() + 1000))


@KS
def test_a_graph_is_replayed_on_changed_ranges(device, k):
    vectors = reference.whole_numbers(90, 24, torch.int8, device, seed=10)
    queries = reference.whole_numbers(6, 24, torch.float32, device, seed=11)
    ids = reference.some_ids(1, 500, 90, device=device, seed=12)[0]
    offsets = torch.arange(7, device=device) * 80
    operator(queries, vectors, ids, k, row_offsets=offsets)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = operator(queries, vectors, ids, k, row_offsets=offsets)
    for numbers in ([0, 500, 500, 500, 500, 500, 500], [-5, 10, 5, 300, 600, 2**40, 0]):
        offsets.copy_(torch.tensor(numbers))
        graph.replay()
        plain = reference.plain_ids(ids, 6, k, row_offsets=offsets)
        reference.assert_exact(result, queries, vectors, plain, k, "l2")


@METRICS
@pytest.mark.parametrize("tf32", [False, True])
def test_knn_is_rerank_of_all_vectors(device, tf32, metric):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        for spread, offset in ((1.0, 0.0), (1e-3, 1000.0)):
            vectors = offset + spread * reference.normal(20_000, 64, torch.float32, device, seed=13)
            queries = vectors[:300] + 0.1 * spread
            want = rerank(queries.clone(), vectors, torch.arange(20_000, device=device), 20, metric)
            for chunk in (None, 3000):
                got = knn(queries, vectors, 20, metric, chunk=chunk)
                assert torch.equal(got.ids, want.ids) and torch.equal(got.distances, want.distances)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
