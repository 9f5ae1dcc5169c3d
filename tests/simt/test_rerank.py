"""rerank's ways and row layouts on the emulated GPU: the same bits whoever computes and whoever selects."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import rerank_reference as reference
from tests.oracle import name_of
from tests.simt import emulated

METRICS = pytest.mark.parametrize("metric", range(len(reference.METRICS)), ids=reference.METRICS)
# Queries fill a GPU of one SM, and leave most of the other idle.
SMALL, LARGE = emulated.Device(sm_count=1), emulated.Device(sm_count=40)
LISTS, FINISH, TOP_K = "rerank: lists of", " warps a query, room for ", "a top-k"
# dtype -> dims: whole words for 4, 8, 16 lanes and 32, some that make several pieces, and each narrow layout.
DIMS = {
    torch.float32: (8, 20, 32, 64, 100, 129, 768, 1030, 1100),
    torch.float16: (8, 32, 64, 98, 99, 100, 128, 136, 300, 768, 1100),
    torch.bfloat16: (50, 100, 520),
    torch.int8: (16, 80, 99, 100, 128, 256, 300, 1040),
    torch.uint8: (100, 528),
}


def way_of(plan: str) -> str:
    return next((way for way in (LISTS, FINISH) if way in plan), TOP_K)


@METRICS
@pytest.mark.parametrize(
    ("dtype", "dims"), [(t, d) for t, all_dims in DIMS.items() for d in all_dims], ids=lambda p: str(p)
)
def test_every_way_gives_the_same_bits(dtype, dims, metric):
    vectors = reference.any_numbers(80, dims, dtype, seed=1)
    rows = reference.normal(2, dims, torch.float32, seed=2)
    ids = reference.some_ids(2, 300, 80, torch.int32, seed=3)
    distances, winners, plan = emulated.library().rerank(rows, vectors, ids, 300, metric, LARGE)
    assert FINISH in plan
    large_rows = 300 * dims * dtype.itemsize > 65536
    for k, device, way in (
        (10, SMALL, LISTS),
        (300, SMALL, TOP_K),
        (40, LARGE, FINISH if large_rows else LISTS),
    ):
        *result, plan = emulated.library().rerank(rows, vectors, ids, k, metric, device, seed=k)
        assert way_of(plan) == way
        assert torch.equal(result[0].view(torch.int32), distances[:, :k].view(torch.int32)), plan
        assert torch.equal(result[1], winners[:, :k]), plan


@METRICS
@pytest.mark.parametrize("dims", [16, 30, 64, 100, 129, 300, 1040])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=name_of)
def test_a_distance_is_the_same_wherever_a_vector_lies(dtype, dims, metric):
    """In words of 16 bytes, of four, and of neither, and a query likewise."""
    vectors = reference.any_numbers(50, dims, dtype, seed=1)
    rows = reference.normal(12, dims, torch.float32, seed=2)
    ids = reference.some_ids(12, 40, 50, torch.int32, seed=3)
    *want, _ = emulated.library().rerank(rows, vectors, ids, 20, metric, SMALL)
    words = 16 // dtype.itemsize
    for first, gap in ((0, -dims % words), (4 // dtype.itemsize, 4 // dtype.itemsize), (1, 1), (3, 4)):
        for moves_query in (False, True):
            elsewhere = torch.zeros(50, first + dims + gap, dtype=dtype)[:, first : first + dims]
            query = torch.zeros(12, dims + 3)[:, 1 : 1 + dims] if moves_query else torch.empty(12, dims)
            *got, _ = emulated.library().rerank(
                query.copy_(rows), elsewhere.copy_(vectors), ids, 20, metric, SMALL
            )
            assert torch.equal(got[0].view(torch.int32), want[0].view(torch.int32))
            assert torch.equal(got[1], want[1])


@pytest.mark.parametrize("query_dtype", [torch.float32, torch.float16], ids=name_of)
@pytest.mark.parametrize(
    ("dims", "gap", "first"),
    [(100, 0, 0), (98, 2, 0), (99, 1, 0), (64, 8, 1), (64, 2, 0), (768, 0, 0), (16, 0, 0)],
)
def test_any_number_of_candidates_in_every_layout(dims, gap, first, query_dtype):
    """Tiles of all sizes, the last of them cut off anywhere."""
    vectors = reference.whole_numbers(90, dims + gap, torch.float16, seed=4)[:, first : first + dims]
    for candidates in (1, 2, 7, 8, 9, 16, 17, 33, 100, 333):
        for queries, device in ((1, LARGE), (3, SMALL), (3, LARGE)):
            rows = reference.whole_numbers(queries, dims, query_dtype, seed=5)
            ids = reference.some_ids(queries, candidates, 90, seed=candidates)
            for k in {min(10, candidates), candidates}:
                *result, _ = emulated.library().rerank(rows, vectors, ids, k, 0, device, seed=candidates)
                reference.assert_exact(result, rows, vectors, ids, k, "l2")


@pytest.mark.parametrize("queries_begin_in_a_word", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8], ids=name_of)
def test_a_query_that_lies_anywhere(dtype, queries_begin_in_a_word):
    first = 0 if queries_begin_in_a_word else 1
    rows = reference.whole_numbers(2, 257, torch.float32, seed=6)[:, first : first + 256]
    vectors = reference.whole_numbers(50, 256, dtype, seed=7)
    ids = reference.some_ids(2, 150, 50, seed=8)
    for device in (SMALL, LARGE):
        *result, _ = emulated.library().rerank(rows, vectors, ids, 20, 0, device)
        reference.assert_exact(result, rows, vectors, ids, 20, "l2")


@METRICS
@pytest.mark.parametrize("dtype", [torch.float16, torch.int8], ids=name_of)
@pytest.mark.parametrize("k", [10, 200, 300])
def test_what_search_asks_is_finished_too(k, dtype, metric):
    name, count, queries = reference.METRICS[metric], 70, 4
    make = reference.any_numbers if name == "cosine" else reference.whole_numbers
    check = reference.assert_close if name == "cosine" else reference.assert_exact
    vectors, rows = make(count, 600, dtype, seed=1), make(queries, 600, torch.float32, seed=2)
    mask = torch.arange(count) % 3 != 0
    numbers, scaled = vectors, {}
    if dtype == torch.int8:
        scaled = {"scales": torch.tensor([0.5, -2.0]).repeat(count // 2)}
        numbers = vectors * scaled["scales"][:, None]
    matrix = reference.some_ids(queries, 310, count, torch.int32, seed=3)
    lengths, offsets = torch.tensor([310, 0, 33, -1]), torch.tensor([-3, 100, 100, 305, 999])
    for ids, options, plain in (
        (matrix, {"lengths": lengths, "allow": mask}, {"lengths": lengths, "mask": mask}),
        (matrix[0], {"allow": reference.bits_of_mask(mask, torch.uint8)}, {"mask": mask}),
        (matrix.flatten(), {"row_offsets": offsets}, {"row_offsets": offsets}),
    ):
        plain_ids = reference.plain_ids(ids, queries, k, **plain)
        *result, plan = emulated.library().rerank(rows, vectors, ids, k, metric, LARGE, **options, **scaled)
        assert FINISH in plan
        check(result, rows, numbers, plain_ids, k, name)
        _, positions, _ = emulated.library().rerank(
            rows, vectors, ids, k, metric, LARGE, seed=2, **options, **scaled, positions=True
        )
        at = plain_ids.gather(1, positions.clamp(min=0).long())
        assert torch.equal(torch.where(positions < 0, -1, at), result[1])


@pytest.mark.parametrize("spread", [3, 100_000], ids=["equal distances", "others"])
def test_one_block_finishes_many_keys(spread):
    """More of them than there is room for in order: digits of the keys, and of positions, make them fewer."""
    vectors = torch.arange(300.0)[:, None] % spread * torch.ones(16)
    rows = torch.zeros(1, 16)
    ids = reference.some_ids(1, 4096, 300, torch.int32, seed=11)
    for k in (33, 100, 256, 2000):
        *result, plan = emulated.library().rerank(rows, vectors, ids, k, 0, LARGE)
        assert FINISH in plan and "by 32 warps" in plan
        reference.assert_exact(result, rows, vectors, ids, k, "l2")


@pytest.mark.parametrize(("dims", "count"), [(0, 40), (8, 0), (0, 0)])
def test_vectors_without_elements_and_none_at_all(dims, count):
    rows, vectors = torch.zeros(3, dims), torch.zeros(count, dims)
    ids = reference.some_ids(3, 200, count, seed=1)
    for device in (SMALL, LARGE):
        for k in (10, 150):
            *result, _ = emulated.library().rerank(rows, vectors, ids, k, 0, device)
            reference.assert_exact(result, rows, vectors, ids, k, "l2")


def test_missing_candidates_are_finished_behind_all_others():
    vectors, rows = (
        reference.whole_numbers(300, 16, torch.float32),
        reference.whole_numbers(2, 16, torch.float32),
    )
    ids = torch.full((2, 4096), -1, dtype=torch.int64)
    ids[0, ::450] = torch.arange(10)
    *result, plan = emulated.library().rerank(rows, vectors, ids, 40, 0, LARGE)
    assert FINISH in plan
    reference.assert_exact(result, rows, vectors, ids, 40, "l2")


@pytest.mark.parametrize(
    ("queries", "candidates", "k", "device"),
    [(1, 4097, 20, LARGE), (1, 4200, 4200, LARGE), (3, 400, 150, SMALL)],
    ids=["keys", "winners", "queries"],
)
def test_what_is_too_much_for_a_block_goes_to_a_top_k(queries, candidates, k, device):
    vectors, rows = (
        reference.whole_numbers(300, 8, torch.float32),
        reference.whole_numbers(queries, 8, torch.float32),
    )
    ids = reference.some_ids(queries, candidates, 300, torch.int32, seed=12)
    *result, plan = emulated.library().rerank(rows, vectors, ids, k, 0, device)
    assert way_of(plan) == TOP_K
    reference.assert_exact(result, rows, vectors, ids, k, "l2")


def test_a_top_k_finds_nothing_behind_shorter_rows():
    """What is stored for it there says so, whatever the memory held."""
    vectors, rows = (
        reference.whole_numbers(300, 16, torch.int8, seed=1),
        reference.whole_numbers(3, 16, torch.float32, seed=2),
    )
    matrix = reference.some_ids(3, 16_500, 300, torch.int32, seed=3)
    lengths, offsets = torch.tensor([16_500, 5, 0]), torch.tensor([0, 16_400, 16_405, 16_500])
    for ids, ranges in ((matrix, {"lengths": lengths}), (matrix[0], {"row_offsets": offsets})):
        plain_ids = reference.plain_ids(ids, 3, 20, **ranges)
        *result, plan = emulated.library().rerank(rows, vectors, ids, 20, 0, LARGE, **ranges)
        assert way_of(plan) == TOP_K
        reference.assert_exact(result, rows, vectors, plain_ids, 20, "l2")


def test_warps_share_the_candidates_of_all_queries_alike():
    """Shares that begin and end in the middle of a query, with fewer queries than warps, and more."""
    vectors = reference.whole_numbers(300, 100, torch.float32, seed=1)
    for queries, candidates in ((1, 7), (3, 1001), (41, 130), (700, 9)):
        rows = reference.whole_numbers(queries, 100, torch.float32, seed=2)
        ids = reference.some_ids(queries, candidates, 300, torch.int32, seed=3)
        for device in (SMALL, emulated.Device(sm_count=7), LARGE):
            *result, _ = emulated.library().rerank(rows, vectors, ids, candidates, 0, device)
            reference.assert_exact(result, rows, vectors, ids, candidates, "l2")


@pytest.mark.parametrize("shared_bytes", [64 * 1024, 99 * 1024, 163 * 1024])
def test_gpus_with_less_shared_memory_have_fewer_warps_and_smaller_blocks(shared_bytes):
    vectors = reference.whole_numbers(300, 64, torch.float32, seed=1)
    for queries, candidates, k, sms in ((1, 12_000, 500, 40), (3, 400, 100, 1), (3, 400, 300, 40)):
        rows = reference.whole_numbers(queries, 64, torch.float32, seed=2)
        ids = reference.some_ids(queries, candidates, 300, torch.int32, seed=3)
        device = emulated.Device(sm_count=sms, compute_capability=80, shared_bytes=shared_bytes)
        *result, _ = emulated.library().rerank(rows, vectors, ids, k, 0, device)
        reference.assert_exact(result, rows, vectors, ids, k, "l2")


@pytest.mark.parametrize("dims", [48, 300, 33, 1040])
def test_an_infinite_scale_meets_no_zero_behind_the_row(dims):
    vectors, rows = torch.ones(40, dims, dtype=torch.int8), torch.zeros(1, dims)
    ids = torch.arange(40)[None]
    for device in (SMALL, LARGE):
        distances, winners, _ = emulated.library().rerank(
            rows, vectors, ids, 40, 0, device, scales=torch.full((40,), torch.inf)
        )
        assert (distances == torch.inf).all() and torch.equal(winners, ids)


@METRICS
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=name_of)
@pytest.mark.parametrize("dims", [1, 31, 64, 100, 256, 769, 1600])
def test_distances_of_bytes_are_within_the_documented_bound(dims, dtype, metric):
    """Also of queries whose elements are of many sizes, and of those that are nearly a vector."""
    name, count = reference.METRICS[metric], 50
    vectors = reference.any_numbers(count, dims, dtype, seed=1)
    vectors[: count // 2, 0] = 0
    numbers = vectors.float()
    scales = torch.logspace(-3, 3, count) * torch.tensor([1.0, -1.0]).repeat(count // 2)
    rows = reference.normal(8, dims, torch.float32, seed=2)
    rows[1] *= 1e-15
    rows[2] *= torch.logspace(-15, 12, dims)
    rows[3, 0] = 1e18  # where half of the vectors are zero
    rows[4], rows[5], rows[6] = numbers[3], numbers[4] * scales[4] * (1 + 1e-6 * rows[5]), 0
    rows[7] = (numbers[40] * scales[40]).nextafter(torch.tensor(torch.inf))
    ids = torch.arange(count).repeat(8, 1)
    for options, widened in (
        ({}, numbers),
        ({"scales": scales}, numbers.double() * scales.double()[:, None]),
    ):
        exact, _ = reference.reference_distances(rows, widened, ids, name)
        allowed = reference.allowed_error(rows, widened, ids, name)
        for device in (SMALL, LARGE):
            distances, winners, _ = emulated.library().rerank(
                rows, vectors, ids, count, metric, device, **options
            )
            off = np.abs(np.take_along_axis(exact, winners.numpy(), 1) - distances.double().numpy())
            # Below the least normal number float32 has fewer bits.
            assert (off <= np.take_along_axis(allowed, winners.numpy(), 1) + 2.0**-126).all()


@METRICS
@pytest.mark.parametrize("infinite", [torch.inf, -torch.inf, torch.nan])
def test_queries_that_are_not_finite_have_the_distances_of_floats(infinite, metric):
    vectors = reference.any_numbers(40, 70, torch.int8, seed=1)
    rows = reference.normal(2, 70, torch.float32, seed=2)
    rows[0, 3] = infinite
    vectors[7, 3] = 0
    ids = torch.arange(40).repeat(2, 1)
    want, found = (
        emulated.library().rerank(rows, like, ids, 40, metric, LARGE)[:2]
        for like in (vectors.float(), vectors)
    )
    assert torch.equal(found[0][0].isnan(), want[0][0].isnan())
    there = ~want[0][0].isnan()
    assert torch.equal(found[0][0][there], want[0][0][there])
    torch.testing.assert_close(found[0][1], want[0][1], rtol=1e-4, atol=1e-3)
