"""AIR with a cluster a row on a GPU: its lists, ranks and places at their edges, against exact checks."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tests import inputs, oracle, tuning
from tests.cuda.calls import DTYPES, FLAGS

pytestmark = pytest.mark.gpu

BLOCKS = (1, 2, 4, 8, 16)
RANKED = tuning.number("kAirClusterRanked")
UNSORTED = tuning.number("kAirClusterRankedUnsorted")
LISTED = tuning.number("kAirClusterListBytes") // 8  # of 4-byte dtypes


def most_ranked(blocks: int) -> int:
    """The most entries, winners and candidates, that a cluster ranks."""
    comparisons = tuning.number("kAirClusterComparisons")
    return min(tuning.number("kAirClusterMostRanked"), math.isqrt(comparisons * blocks))


def check(tensor: torch.Tensor, k: int, largest: bool = True, order: bool = True, **study) -> None:
    result = torch.ops.gputopk._air(tensor, k, largest, order, **study)
    oracle.assert_topk_on_device(result, tensor, k, largest, order)


@pytest.fixture(autouse=True)
def _needs_clusters(device):
    try:
        torch.ops.gputopk._air(torch.zeros(1, 2, device=device), 1, cluster=max(BLOCKS))
    except RuntimeError as error:
        if "cluster must be" not in str(error):
            raise
        pytest.skip("this device has no clusters of so many blocks")


@pytest.mark.parametrize("blocks", BLOCKS)
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, blocks):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else 3, 20_011, dtype, device, seed)
        for k, flags in zip((1, 40, 513, 6000) * 2, FLAGS, strict=True):
            if not flags["magnitude"]:
                check(tensor, k, flags["largest"], flags["sorted"], cluster=blocks)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64], ids=oracle.name_of)
def test_orders_by_magnitude_and_narrow_indices_are_those_of_the_operator(device, dtype):
    tensor = inputs.make("random_bits", 5, 40_000, dtype, device)
    for k, flags, index_dtype in itertools.product((1, 300), FLAGS, (torch.int32, torch.int64)):
        result = torch.ops.gputopk.topk(tensor, k, algorithm=1, index_dtype=index_dtype, **flags)
        oracle.assert_topk_on_device(result, tensor, k, index_dtype=index_dtype, **flags)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_every_short_width_is_answered_exactly(device, blocks):
    """Most blocks have no part of the row, or a ragged one."""
    for cols in [*range(1, 140), *range(511, 515), *range(16 * 32 - 1, 16 * 32 + 2), 4095, 4097]:
        tensor = inputs.make("digit_boundaries", 2, cols, torch.float32, device, seed=cols)
        for k in {k for k in (1, 2, cols // 2, cols - 1, cols) if 1 <= k <= cols}:
            check(tensor, k, order=k % 2 == 0, cluster=blocks)


@pytest.mark.parametrize("threads", [64, 128, 256, 512, 1024])
@pytest.mark.parametrize("bits", [4, 9, 11, 12, 13])
def test_every_size_of_block_and_digit_is_answered_exactly(device, threads, bits):
    if bits > (threads * 32 - 1).bit_length():
        pytest.skip("more bins than such a block is asked for")
    cases = (("normal", torch.float32), ("few_distinct", torch.bfloat16), ("all_equal", torch.int64))
    for name, dtype in cases:
        tensor = inputs.make(name, 2, 30_001, dtype, device)
        for k in (1, 200, 3000):
            check(tensor, k, cluster=8, threads=threads, digit_bits=bits)


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_as_many_candidates_as_fit_and_one_more(device, blocks, order):
    """Elements of one first digit, around what is ranked at once and what blocks list, of distinct values,
    few and one, among smaller ones; and winners before them, around the number that is ranked with them."""
    cols = 40_001
    most = most_ranked(blocks)
    counts = (RANKED - 1, RANKED, RANKED + 1, most, most + 1, LISTED, LISTED + 1)
    for count, values in itertools.product(counts, (1, 7, None)):
        distinct = values or count
        for winners in (0, 1, UNSORTED, most // 2, most // 2 + 1):
            tensor = torch.rand(1, cols, device=device)
            place = torch.randperm(cols, device=device)
            # One first digit of 12 bits: sign, exponent and three bits of [16, 18).
            crowd = 16 + torch.arange(count, device=device) % distinct / (distinct + 1)
            tensor[0, place[:count]] = crowd.float()
            tensor[0, place[count : count + winners]] = torch.rand(winners, device=device) + 100
            for k in {winners + 1, winners + count // 2, winners + count}:
                check(tensor, k, order=order, cluster=blocks)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("where", ["first part", "last part", "two parts", "ties everywhere"])
def test_winners_in_one_block_or_in_all(device, where, blocks):
    cols = 50_001
    position = torch.arange(cols, device=device)
    high = {
        "first part": position < 2000,
        "last part": position >= cols - 2000,
        "two parts": (position < 1000) | (position >= cols - 1000),
        "ties everywhere": position % 25 == 3,
    }[where]
    tensor = inputs.make("normal", 2, cols, torch.float32, device)
    raised = torch.full_like(tensor, 7.0) if where == "ties everywhere" else tensor.abs() + 100
    tensor = torch.where(high, raised, tensor)
    ordered = most_ranked(blocks) // 2
    for k in (1, 64, 65, ordered, ordered + 1, 1000, 2000, 2001, 3000):
        check(tensor, k, cluster=blocks)
        check(-tensor, k, largest=False, order=False, cluster=blocks)


@pytest.mark.parametrize("rows", [1, 131, 132, 133, 700])
def test_more_clusters_than_run_at_once(device, rows):
    tensor = inputs.make("mixed_rows", rows, 9001, torch.float32, device)
    for blocks in BLOCKS:
        check(tensor, 300, cluster=blocks)


@pytest.mark.parametrize("offset", range(16))
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_at_any_alignment_are_answered_exactly(device, dtype, offset):
    storage = inputs.make("normal", 1, 3 * 40_100 + 64, dtype, device).view(-1)
    for cols, row_stride in ((7, 8), (1001, 1001), (40_001, 40_001), (40_001, 40_017)):
        tensor = storage.as_strided((3, cols), (row_stride, 1), offset)
        check(tensor, min(cols, 50), cluster=8)
        check(tensor, 1, largest=False, cluster=16)


@pytest.mark.parametrize("k", [1, 512, 513, 4000])
@pytest.mark.parametrize("name", ["normal", "few_distinct", "increasing", "all_equal"])
def test_repeats_give_the_same_bits_in_order(device, name, k):
    tensor = inputs.make(name, 8, 1 << 17, torch.float32, device)
    want = torch.ops.gputopk.topk(tensor, k, algorithm=1)
    oracle.assert_topk_on_device(want, tensor, k)
    for _ in range(20):
        again = torch.ops.gputopk.topk(tensor, k, algorithm=1)
        assert torch.equal(again[1], want[1]) and torch.equal(again[0], want[0])


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 15, 256), (32, 128_256, 50), (64, 1 << 17, 2048)], ids=str
)
def test_a_graph_replays_on_changed_data(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = torch.ops.gputopk.topk(tensor, k, algorithm=1)
    for seed, name in enumerate(inputs.names_for(torch.float32)):
        tensor.copy_(inputs.make(name, rows, cols, torch.float32, device, seed))
        oracle.as_ints(results[0]).fill_(0x5A)
        results[1].fill_(-1)
        graph.replay()
        oracle.assert_topk_on_device(results, tensor, k)


def test_calls_on_several_streams_keep_apart(device):
    """No state of a call is another's: each cluster has all it needs in its own shared memory."""
    names = ("normal", "increasing", "zipf")
    tensors = [inputs.make(name, 4, 1 << 16, torch.float32, device) for name in names]
    streams = [torch.cuda.Stream(device) for _ in tensors]
    torch.cuda.synchronize(device)
    results = []
    for _ in range(20):
        for tensor, stream in zip(tensors, streams, strict=True):
            with torch.cuda.stream(stream):
                results.append((tensor, torch.ops.gputopk.topk(tensor, 200, algorithm=1)))
    torch.cuda.synchronize(device)
    for tensor, result in results:
        oracle.assert_topk_on_device(result, tensor, 200)
