"""What a search asks of rerank beyond a matrix of ids: other types of vectors, ragged rows, filters,
payloads, positions, outs. Each request is compared with the same one in plain form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_topk
from tests import oracle
from tests import rerank_reference as reference

rerank = torch_topk.rerank
operator = torch.ops.gputopk.rerank
METRICS = pytest.mark.parametrize("metric", reference.METRICS)
EXACT = pytest.mark.parametrize("metric", ["l2", "inner_product"])
VECTOR_DTYPES = pytest.mark.parametrize("dtype", reference.VECTOR_DTYPES, ids=oracle.name_of)
QUERY_DTYPES = pytest.mark.parametrize("query_dtype", reference.DTYPES, ids=oracle.name_of)
RANGE_DTYPES = pytest.mark.parametrize("range_dtype", [torch.int32, torch.int64], ids=oracle.name_of)


def rows_of(lengths, range_dtype=torch.int64) -> torch.Tensor:
    return torch.tensor(np.concatenate([[0], np.cumsum(lengths)]), dtype=range_dtype)


# Types.


@VECTOR_DTYPES
@QUERY_DTYPES
@METRICS
@pytest.mark.parametrize("dims", [0, 1, 15, 16, 17, 64, 100, 129])
def test_vectors_are_of_any_type(dims, metric, query_dtype, dtype):
    vectors = reference.any_numbers(300, dims, dtype, seed=1)
    queries = reference.normal(5, dims, query_dtype, seed=2)
    ids = reference.some_ids(5, 200, 300, seed=3)
    reference.assert_close(rerank(queries, vectors, ids, 20, metric), queries, vectors, ids, 20, metric)
    if metric != "cosine":
        vectors = reference.whole_numbers(300, dims, dtype, seed=4)
        queries = reference.whole_numbers(5, dims, query_dtype, seed=5)
        reference.assert_exact(rerank(queries, vectors, ids, 20, metric), queries, vectors, ids, 20, metric)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=oracle.name_of)
def test_every_byte_is_widened_exactly(dtype):
    values = torch.arange(256).to(dtype)
    ids = torch.arange(256)
    for dims, column in ((1, 0), (17, 3), (17, 16), (40, 39)):
        vectors = torch.zeros(256, dims, dtype=dtype)
        vectors[:, column] = values
        queries = torch.zeros(1, dims)
        queries[0, column] = 1
        result = rerank(queries, vectors, ids, 256, "inner_product")
        assert torch.equal(result.distances[0], values[result.ids[0]].float())
        assert torch.equal(result.distances[0], values.float().sort(descending=True).values)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=oracle.name_of)
@METRICS
@pytest.mark.parametrize("dims", [3, 16, 100])
def test_scales_multiply_rows(dims, metric, dtype):
    vectors = reference.whole_numbers(200, dims, dtype, seed=6)
    scales = torch.tensor([0.5, 2.0, -1.0, 0.0]).repeat(50)
    queries = reference.whole_numbers(4, dims, torch.float32, seed=7)
    ids = reference.some_ids(4, 150, 200, seed=8)
    result = rerank(queries, vectors, ids, 30, metric, scales=scales)
    check = reference.assert_close if metric == "cosine" else reference.assert_exact
    check(result, queries, vectors * scales[:, None], ids, 30, metric)
    # Any scale: an element may be off by a rounding of its own.
    scales = torch.rand(200, generator=torch.Generator().manual_seed(9)) - 0.3
    result = rerank(queries, vectors, ids, 30, metric, scales=scales)
    scaled = vectors.double() * scales.double()[:, None]
    reference.assert_close(result, queries, scaled, ids, 30, metric)


# Whose candidates.


@RANGE_DTYPES
@pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64], ids=oracle.name_of)
@EXACT
def test_lengths_say_how_many_count(metric, id_dtype, range_dtype):
    vectors = reference.whole_numbers(90, 8, torch.float32, seed=10)
    queries = reference.whole_numbers(8, 8, torch.float32, seed=11)
    lengths = torch.tensor([0, 1, 63, 64, 65, 200, 1000, -5], dtype=range_dtype)
    for ids in (
        reference.some_ids(8, 200, 90, id_dtype, seed=12),
        reference.some_ids(1, 200, 90, id_dtype)[0],
    ):
        for k in (1, 10, 200):
            result = rerank(queries, vectors, ids, k, metric, lengths=lengths)
            plain = reference.plain_ids(ids, 8, lengths=lengths)
            reference.assert_exact(result, queries, vectors, plain, k, metric)


@RANGE_DTYPES
@EXACT
def test_row_offsets_share_one_list_out(metric, range_dtype):
    vectors = reference.whole_numbers(90, 8, torch.float16, seed=13)
    queries = reference.whole_numbers(6, 8, torch.float32, seed=14)
    ids = reference.some_ids(1, 300, 90, seed=15)[0]
    for offsets in (
        rows_of([0, 100, 1, 64, 135, 0], range_dtype),
        # None of what these say is there.
        torch.tensor([-9, 20, 10, 400, -3, 350, 17], dtype=range_dtype),
    ):
        for k in (1, 10, 100, 1000):
            result = rerank(queries, vectors, ids, k, metric, row_offsets=offsets)
            plain = reference.plain_ids(ids, 6, k, row_offsets=offsets)
            reference.assert_exact(result, queries, vectors, plain, k, metric)
    none = rerank(queries, vectors, ids[:0], 3, row_offsets=torch.zeros(7, dtype=range_dtype))
    assert none.ids.tolist() == [[-1] * 3] * 6


@METRICS
def test_one_list_serves_all_queries(metric):
    vectors = reference.normal(500, 20, torch.float32, seed=16)
    ids = reference.some_ids(1, 300, 500, seed=17)[0]
    for one in (ids, torch.stack([ids, ids], 1)[:, 0]):
        result = rerank(vectors[:7], vectors, one, 25, metric)
        want = rerank(vectors[:7], vectors, ids.repeat(7, 1), 25, metric)
        assert torch.equal(result.ids, want.ids) and torch.equal(result.distances, want.distances)


# Which candidates.


@pytest.mark.parametrize("bits", [torch.bool, torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("count", [1, 7, 8, 31, 32, 33, 300])
def test_only_what_is_allowed_comes_out(count, bits):
    vectors = reference.whole_numbers(count, 4, torch.float32, seed=18)
    ids = reference.some_ids(5, 120, count, seed=19)
    for share in (0.0, 0.2, 1.0):
        mask = torch.rand(count, generator=torch.Generator().manual_seed(20)) < share
        allow = mask if bits == torch.bool else reference.bits_of_mask(mask, bits)
        result = rerank(vectors[:1].expand(5, 4), vectors, ids, 12, allow=allow)
        plain = reference.plain_ids(ids, 5, mask=mask)
        reference.assert_exact(result, vectors[:1].expand(5, 4), vectors, plain, 12, "l2")


def test_bits_beyond_the_last_vector_mean_nothing():
    vectors = torch.ones(3, 2)
    ids = torch.tensor([[0, 1, 2, 3, 4, 7, 8, -1]])
    result = rerank(vectors[:1], vectors, ids, 8, allow=torch.tensor([255], dtype=torch.uint8))
    assert result.ids.tolist() == [[0, 1, 2, -1, -1, -1, -1, -1]]


@pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64], ids=oracle.name_of)
def test_an_id_counts_once_at_its_first_place(id_dtype):
    vectors = reference.whole_numbers(40, 3, torch.float32, seed=21)
    queries = reference.whole_numbers(6, 3, torch.float32, seed=22)
    ids = reference.some_ids(6, 200, 40, id_dtype, seed=23)
    flat, offsets = ids.flatten(), rows_of([200, 0, 1000 - 200 - 77, 77, 100, 100])
    for options in ({}, {"lengths": torch.tensor([0, 1, 50, 199, 200, 7])}):
        result = rerank(queries, vectors, ids, 60, unique=True, return_positions=True, **options)
        plain = reference.plain_ids(ids, 6, **options, unique=True)
        reference.assert_exact(result[:2], queries, vectors, plain, 60, "l2")
        first = (ids[:, None, :] == result.ids[:, :, None]).int().argmax(-1)
        assert torch.equal(result.positions.long(), torch.where(result.ids < 0, -1, first))
    result = rerank(queries, vectors, flat, 60, unique=True, row_offsets=offsets)
    plain = reference.plain_ids(flat, 6, 60, row_offsets=offsets, unique=True)
    reference.assert_exact(result, queries, vectors, plain, 60, "l2")
    result = rerank(queries, vectors, ids[0], 60, unique=True)
    plain = reference.plain_ids(ids[0], 6, unique=True)
    reference.assert_exact(result, queries, vectors, plain, 60, "l2")


# What comes out.


@pytest.mark.parametrize("payload_dtype", [torch.int32, torch.int64], ids=oracle.name_of)
@pytest.mark.parametrize("form", ["matrix", "one list", "offsets"])
def test_payload_and_positions(form, payload_dtype):
    vectors = reference.whole_numbers(60, 5, torch.float32, seed=24)
    queries = reference.whole_numbers(4, 5, torch.float32, seed=25)
    payload = (torch.randperm(60) * 1000 + 7).to(payload_dtype)
    ids = reference.some_ids(4, 50, 60, torch.int32, seed=26)
    offsets, options = None, {}
    if form == "one list":
        ids = ids[0]
    elif form == "offsets":
        ids, offsets = ids.flatten(), rows_of([10, 0, 150, 40])
        options = {"row_offsets": offsets}
    plain = reference.plain_ids(ids, 4, 50, row_offsets=offsets)
    want = rerank(queries, vectors, ids, 20, **options)
    result = rerank(queries, vectors, ids, 20, payload=payload, **options)
    assert isinstance(result, torch_topk.Reranked) and result.ids.dtype == payload_dtype
    assert torch.equal(result.ids, torch.where(want.ids < 0, -1, payload[want.ids.clamp(min=0)]))
    assert torch.equal(result.distances, want.distances)
    result = rerank(queries, vectors, ids, 20, return_positions=True, **options)
    assert isinstance(result, torch_topk.RerankedPositions) and result.positions.dtype == torch.int32
    assert torch.equal(result.ids, want.ids) and torch.equal(result.distances, want.distances)
    assert torch.equal(result.positions < 0, want.ids < 0)
    at = plain.gather(1, result.positions.clamp(min=0).long())
    assert torch.equal(torch.where(result.positions < 0, -1, at), want.ids)
    both = rerank(queries, vectors, ids, 20, return_positions=True, payload=payload, **options)
    assert torch.equal(both.positions, result.positions)
    assert torch.equal(both.ids, torch.where(want.ids < 0, -1, payload[want.ids.clamp(min=0)]))


def test_payload_of_no_vectors():
    ids = torch.zeros(2, 4, dtype=torch.int64)
    none = torch.empty(0, dtype=torch.int64)
    result = rerank(torch.ones(2, 3), torch.ones(0, 3), ids, 2, payload=none, return_positions=True)
    assert result.ids.tolist() == result.positions.tolist() == [[-1, -1]] * 2
    result = rerank(torch.ones(2, 3), torch.ones(0, 3), ids[:, :0], 0, payload=none, return_positions=True)
    assert [t.shape for t in result] == [(2, 0)] * 3


@pytest.mark.parametrize(
    "extra", [{}, {"return_positions": True}, {"payload": torch.arange(100, 140)}], ids=str
)
def test_outs_are_filled(extra):
    vectors = reference.whole_numbers(40, 3, torch.float32, seed=27)
    ids = reference.some_ids(6, 30, 40, seed=28)
    want = rerank(vectors[:6], vectors, ids, 10, **extra)
    wide = [torch.full((6, 13), -7, dtype=t.dtype) for t in want]
    for outs in ([torch.empty_like(t) for t in want], [t[:, 2:12] for t in wide]):
        result = rerank(vectors[:6], vectors, ids, 10, **extra, out=tuple(outs))
        assert type(result) is type(want)
        for given_, returned, wanted in zip(outs, result, want, strict=True):
            assert returned is given_ and torch.equal(given_, wanted)
    for tensor in wide:
        assert (tensor[:, [0, 1, 12]] == -7).all()


def test_outs_that_cannot_hold_the_result_are_refused():
    vectors, ids = torch.ones(9, 4), torch.zeros(3, 5, dtype=torch.int64)
    distances, found = torch.empty(3, 2), torch.empty(3, 2, dtype=torch.int64)
    wrong = {
        "dtype": (distances.double(), found),
        "int": (distances, found.int()),
        "shape": (distances[:, :1], found),
        "single memory": (vectors[:3, :2], found),
        "single memory location": (distances[:1].expand(3, 2), found),
        "memory": (distances, ids[:, :2]),
        "automatic differentiation": (torch.empty(3, 2).requires_grad_() * 1, found),
    }
    for words, outs in wrong.items():
        with pytest.raises(RuntimeError, match=words):
            rerank(vectors[:3], vectors, ids, 2, out=outs)
    for outs in ((distances,), (distances, found, found), distances, (distances, None)):
        with pytest.raises(TypeError, match="argument 'out'"):
            rerank(vectors[:3], vectors, ids, 2, out=outs)
    with pytest.raises(RuntimeError, match="dtype"):
        rerank(vectors[:3], vectors, ids, 2, payload=torch.arange(9), out=(distances.double(), found))
    version = distances._version
    rerank(vectors[:3], vectors, ids, 2, out=(distances, found))
    assert distances._version > version


# Everything at once.


@st.composite
def requests(draw):
    queries, vectors, dims = draw(st.integers(0, 4)), draw(st.integers(0, 40)), draw(st.integers(0, 70))
    form = draw(st.sampled_from(["matrix", "one list", "offsets"]))
    return {
        "queries": queries, "vectors": vectors, "dims": dims, "form": form,
        "candidates": draw(st.integers(0, 200)),
        "k": draw(st.integers(0, 200)),
        "query_dtype": draw(st.sampled_from(reference.DTYPES)),
        "dtype": draw(st.sampled_from(reference.VECTOR_DTYPES)),
        "id_dtype": draw(st.sampled_from([torch.int32, torch.int64])),
        "range_dtype": draw(st.sampled_from([torch.int32, torch.int64])),
        "lengths": form != "offsets" and draw(st.booleans()),
        "allow": draw(st.sampled_from([None, torch.bool, torch.uint8, torch.int32])),
        "unique": draw(st.booleans()),
        "scales": draw(st.booleans()),
        "metric": draw(st.sampled_from(["l2", "inner_product"])),
        "seed": draw(st.integers(0, 2**31)),
    }  # fmt: skip


@given(requests())
def test_any_request_is_answered_to_the_bit(r):
    generator = torch.Generator().manual_seed(r["seed"])

    def some(low, high, count):
        return torch.randint(low, high, (count,), generator=generator)

    vectors = reference.whole_numbers(r["vectors"], r["dims"], r["dtype"], seed=r["seed"])
    queries = reference.whole_numbers(r["queries"], r["dims"], r["query_dtype"], seed=r["seed"] + 1)
    rows = r["queries"] if r["form"] == "matrix" else 1
    ids = reference.some_ids(rows, r["candidates"], r["vectors"], r["id_dtype"], seed=r["seed"])
    k, options, plain = min(r["k"], r["candidates"]), {}, {}
    if r["form"] != "matrix":
        ids = ids[0]
    if r["form"] == "offsets":
        k = r["k"]
        offsets = some(-5, r["candidates"] + 5, r["queries"] + 1).sort().values
        options["row_offsets"] = plain["row_offsets"] = offsets.to(r["range_dtype"])
    if r["lengths"]:
        lengths = some(-5, r["candidates"] + 5, r["queries"]).to(r["range_dtype"])
        options["lengths"] = plain["lengths"] = lengths
    if r["allow"] is not None:
        plain["mask"] = mask = some(0, 3, r["vectors"]) > 0
        options["allow"] = mask if r["allow"] == torch.bool else reference.bits_of_mask(mask, r["allow"])
    numbers = vectors
    if r["scales"] and r["dtype"] in (torch.int8, torch.uint8):
        options["scales"] = 2.0 ** some(-2, 3, r["vectors"]).float()
        numbers = vectors * options["scales"][:, None]
    if r["unique"]:
        options["unique"] = plain["unique"] = True
    result = rerank(queries, vectors, ids, k, r["metric"], **options)
    plain_ids = reference.plain_ids(ids, r["queries"], k, **plain)
    reference.assert_exact(result, queries, numbers, plain_ids, k, r["metric"])


# Accuracy.


@VECTOR_DTYPES
@METRICS
@pytest.mark.parametrize("dims", [1, 31, 100, 128, 768, 4100])
def test_distances_are_within_the_documented_bound(dims, metric, dtype):
    vectors = reference.any_numbers(200, dims, dtype, seed=29)
    queries = reference.normal(4, dims, torch.float32, seed=30)
    if dtype.is_floating_point:
        # Sums that cancel; terms of many sizes; near duplicates of the queries.
        vectors[:60] = vectors[:60].abs() * torch.tensor([1.0, -1.0]).repeat(dims)[:dims].to(dtype)
        vectors[60:120] *= torch.logspace(-3, 3, dims).to(dtype)
        vectors[120:160] = (queries[0] * (1 + 1e-4 * torch.randn(40, 1))).to(dtype)
    ids = torch.arange(200).repeat(4, 1)
    exact, _ = reference.reference_distances(queries, vectors, ids, metric)
    result = rerank(queries, vectors, ids, 200, metric)
    off = np.abs(np.take_along_axis(exact, result.ids.numpy(), 1) - result.distances.double().numpy())
    allowed = np.take_along_axis(
        reference.allowed_error(queries, vectors, ids, metric), result.ids.numpy(), 1
    )
    assert (off <= allowed).all()


@pytest.mark.parametrize("dtype", reference.DTYPES, ids=oracle.name_of)
def test_cosines_are_never_beyond_one(dtype):
    for dims in (1, 2, 3, 17, 100):
        vectors = reference.normal(3000, dims, dtype, seed=dims)
        for sign in (1, -1):
            own = torch.arange(3000)[:, None]
            cosines = rerank(sign * vectors, vectors, own, 1, "cosine").distances
            assert (cosines.abs() <= 1).all()
            assert not torch.acos(cosines).isnan().any()
    nan = rerank(torch.full((1, 2), float("nan")), torch.ones(1, 2), torch.tensor([[0]]), 1, "cosine")
    assert nan.distances.isnan().all()


@METRICS
@VECTOR_DTYPES
def test_a_distance_hangs_on_query_and_vector_alone(dtype, metric):
    """The same bits wherever the two stand: so orders of summation are fixed."""
    vectors = reference.any_numbers(400, 100, dtype, seed=31)
    queries = reference.normal(3, 100, torch.float32, seed=32)
    ids = reference.some_ids(3, 300, 400, seed=33)
    whole = rerank(queries, vectors, ids, 300, metric)
    for row, rank in ((0, 0), (1, 17), (2, 200)):
        one = whole.ids[row, rank].reshape(1, 1)
        alone = rerank(queries[row : row + 1], vectors, one, 1, metric)
        assert torch.equal(alone.distances[0], whole.distances[row, rank : rank + 1])


# Arguments.

Q, V = torch.ones(3, 4), torch.ones(9, 4)
I = torch.zeros(3, 5, dtype=torch.int64)  # noqa: E741
L = torch.ones(3, dtype=torch.int64)
BYTES, SCALES, MASK = V.to(torch.int8), torch.ones(9), torch.ones(9, dtype=torch.bool)
TENSORS = {"Q": Q, "V": V, "I": I, "L": L, "BYTES": BYTES, "SCALES": SCALES, "MASK": MASK}

BAD = {
    "rows of lengths": (lambda: operator(Q, V, I, 2, lengths=L[:2]), ["lengths must have 3", "has 2"]),
    "float lengths": (lambda: operator(Q, V, I, 2, lengths=L.float()), ["lengths", "int64", "float32"]),
    "two dims of lengths": (lambda: operator(Q, V, I, 2, lengths=L[None]), ["lengths", "1 dim", "has 2"]),
    "rows of offsets": (lambda: operator(Q, V, I[0], 2, row_offsets=L), ["row_offsets must have 4", "3"]),
    "offsets of a matrix": (lambda: operator(Q, V, I, 2, row_offsets=L), ["candidate_ids", "1 dim"]),
    "offsets and lengths": (
        lambda: operator(Q, V, I[0], 2, lengths=L, row_offsets=torch.cat([L, L[:1]])), ["exclude each other"]
    ),
    "k above all": (
        lambda: operator(Q, V, I[0], 2**31, row_offsets=torch.cat([L, L[:1]])), ["k is 2147483648", "at most"]
    ),
    "k below zero": (lambda: operator(Q, V, I[0], -1, row_offsets=torch.cat([L, L[:1]])), ["k is -1"]),
    "k above one list": (lambda: operator(Q, V, I[0], 6), ["k is 6", "5 candidates"]),
    "allow of floats": (lambda: operator(Q, V, I, 2, allow=SCALES), ["allow must be bool", "float32"]),
    "length of allow": (lambda: operator(Q, V, I, 2, allow=MASK[:8]), ["allow must have 9", "has 8"]),
    "bits of allow": (lambda: operator(Q, V, I, 2, allow=MASK.byte()), ["allow must have 2", "has 9"]),
    "words of allow": (lambda: operator(Q, V, I, 2, allow=MASK[:2].int()), ["allow must have 1", "has 2"]),
    "scales of floats": (lambda: operator(Q, V, I, 2, scales=SCALES), ["scales", "int8", "float32"]),
    "half scales": (lambda: operator(Q, BYTES, I, 2, scales=SCALES.half()), ["scales must be float32"]),
    "number of scales": (lambda: operator(Q, BYTES, I, 2, scales=SCALES[:4]), ["scales must have 9", "4"]),
    "int16 vectors": (lambda: operator(Q, V.short(), I, 2), ["vectors must be", "int16"]),
    "byte queries": (lambda: operator(BYTES[:3], V, I, 2), ["queries must be", "int8"]),
}  # fmt: skip


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_are_refused_in_words(what, fake, monkeypatch):
    call, words = BAD[what]
    if fake:
        for name, tensor in TENSORS.items():
            monkeypatch.setitem(globals(), name, tensor.to("meta"))
    with pytest.raises(RuntimeError, match="gputopk::rerank: ") as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_bad_payloads_are_refused():
    for payload, words in (
        (torch.arange(8), r"\[9\], not \[8\]"),
        (torch.arange(9)[None], r"\[1, 9\]"),
        (torch.ones(9), "float32"),
    ):
        with pytest.raises(RuntimeError, match=words):
            rerank(Q, V, I, 2, payload=payload)
    for name in ("lengths", "row_offsets", "allow", "scales", "payload"):
        with pytest.raises(TypeError, match=f"argument '{name}' must be Tensor, not list"):
            rerank(Q, V, I, 2, **{name: [1]})


OFFSETS = torch.tensor([0, 2, 2, 5])
SAMPLES = {
    "bytes": ((Q, BYTES, I, 2), {"scales": SCALES, "allow": MASK}),
    "mixed": ((Q.half(), V, I.int(), 2), {"lengths": L.int(), "metric": 1}),
    "offsets": ((Q, V.bfloat16(), I[0], 7), {"row_offsets": OFFSETS, "positions": True}),
    "one list": ((Q, V, I[0], 2), {"allow": torch.tensor([255, 1], dtype=torch.uint8)}),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_opcheck_accepts_the_operator(sample):
    args, kwargs = SAMPLES[sample]
    torch.library.opcheck(operator.default, args, kwargs)
    outs = {"distances": torch.empty(3, args[3]), "ids": torch.empty(3, args[3], dtype=args[2].dtype)}
    torch.library.opcheck(operator.out, args, {**kwargs, **outs})


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_fake_gives_the_form_of_the_real_thing(sample):
    args, kwargs = SAMPLES[sample]
    real = operator(*args, **kwargs)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = operator(*args, **kwargs)
    for got, want in zip(fake, real, strict=True):
        assert (got.shape, got.dtype, got.stride()) == (want.shape, want.dtype, want.stride())


def test_it_compiles_whole_with_dynamic_shapes():
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def function(queries, vectors, ids, k, payload, lengths, distances, found):
        result = rerank(
            queries, vectors, ids, k, unique=True, payload=payload, return_positions=True, lengths=lengths
        )
        rerank(queries, vectors, ids, k, out=(distances, found))
        return tuple(result)

    for count, k in ((3, 2), (5, 4)):
        queries = reference.whole_numbers(count, 4, torch.float32, seed=34)
        ids = reference.some_ids(count, 11, 9, seed=35)
        vectors = reference.whole_numbers(9, 4, torch.int8, seed=36)
        arguments = (queries, vectors, ids, k)
        lengths, payload = torch.arange(count), torch.arange(9) * 10
        outs = torch.empty(count, k), torch.empty(count, k, dtype=torch.int64)
        got = function(*arguments, payload, lengths, *outs)
        want = rerank(*arguments, unique=True, payload=payload, return_positions=True, lengths=lengths)
        plain = rerank(*arguments)
        for a, b in zip((*got, *outs), (*want, *plain), strict=True):
            assert torch.equal(a, b)
