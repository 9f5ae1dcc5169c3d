"""merge_topk and topk_sharded: what shards hold together gives what the whole row would."""

from __future__ import annotations

import pytest
import torch
import torch.distributed

import torch_topk
from tests import inputs, oracle
from tests.python import gloo

ROWS, COLS = 5, 96
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)


def bits(tensor):
    return oracle.as_ints(tensor.contiguous())


def assert_whole(got, tensor, k, largest=True):
    """Bit-equal to the oracle's top-k of the whole rows, and padding behind them."""
    found = min(k, tensor.shape[1])
    want_values, want_ids = oracle.expected(tensor, found, largest=largest)
    assert got.values.dtype == tensor.dtype and got.values.shape == got.ids.shape == (tensor.shape[0], k)
    assert (got.ids[:, :found].cpu().numpy() == want_ids).all()
    assert (oracle.bits_of(got.values[:, :found].cpu()) == want_values).all()
    assert (got.ids[:, found:] == -1).all()


def interleaved(shards):
    return [torch.arange(shard, COLS, shards) for shard in range(shards)]


def behind_each_other(shards):
    return list(torch.arange(COLS).tensor_split(shards))


@DTYPES
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dealt", [interleaved, behind_each_other])
def test_shards_give_what_the_whole_row_gives(dtype, largest, dealt):
    tensor = inputs.make("few_distinct", ROWS, COLS, dtype)
    for shards, k in ((1, 5), (3, 7), (4, 24), (4, 40), (5, COLS), (5, COLS + 4)):
        lists = []
        for positions in dealt(shards):
            part = oracle.from_bits(oracle.bits_of(tensor)[:, positions.numpy()], dtype)
            values, indices = torch_topk.topk(part, min(k, len(positions)), largest=largest)
            lists.append((values, positions[indices]))
        values, ids = zip(*reversed(lists), strict=True)  # whichever comes first
        assert_whole(torch_topk.merge_topk(values, ids, k, largest=largest), tensor, k, largest)
        narrow = torch_topk.merge_topk(values, [i.int() for i in ids], k, largest=largest)
        assert narrow.ids.dtype == torch.int32
        assert_whole(narrow, tensor, k, largest)


def test_a_tensor_of_shards_is_a_list_of_them():
    values = inputs.make("few_distinct", 12, 8).view(3, 4, 8)
    ids = torch.stack([torch.randperm(1000)[:96].view(3, 4, 8)[i] for i in range(3)])
    for tie in ("id", "position"):
        one = torch_topk.merge_topk(values, ids, 6, tie=tie)
        other = torch_topk.merge_topk(list(values), list(ids), 6, tie=tie)
        assert torch.equal(one.values, other.values) and torch.equal(one.ids, other.ids)


def by_hand(values, ids, k, largest, tie, unique):
    """The order of one row, from tuples."""
    entries = [(v, i, p) for p, (v, i) in enumerate(zip(values, ids, strict=True)) if i >= 0]
    entries.sort(key=lambda e: (-e[0] if largest else e[0], e[1] if tie == "id" else e[2]))
    seen, kept = set(), []
    for value, number, _ in entries:
        if not (unique and number in seen):
            kept.append((value, number))
            seen.add(number)
    worst = (float("-inf") if largest else float("inf"), -1)
    return (kept + [worst] * k)[:k]


@pytest.mark.parametrize("tie", ["id", "position"])
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_ties_repeated_ids_and_padding(tie, unique, largest):
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(0, 4, (3, 6, 10), generator=generator).float()
    values[0, :, 0] = float("inf")  # of padding: it never wins
    values[1, :, 1] = float("-inf")
    ids = torch.randint(-2, 12, (3, 6, 10), generator=generator)
    ids[0, :, 0] = -7
    ids[2, 5] = ids[1, 5] = ids[0, 5] = -1
    ids[0, 4, 3] = 2**63 - 1
    for k in (0, 1, 5, 30, 40):
        got = torch_topk.merge_topk(values, ids, k, largest=largest, tie=tie, unique=unique)
        by_id = torch_topk.merge_topk(values, ids, k, largest=largest, tie=tie, unique=unique, order="index")
        for row in range(6):
            want = by_hand(
                values[:, row].flatten().tolist(), ids[:, row].flatten().tolist(), k, largest, tie, unique
            )
            assert list(zip(got.values[row].tolist(), got.ids[row].tolist(), strict=True)) == want
            ascending = sorted((e for e in want if e[1] >= 0), key=lambda e: e[1])
            assert by_id.ids[row].tolist() == [e[1] for e in ascending] + [-1] * (k - len(ascending))
            if tie == "id" and not unique:
                pairs = list(zip(by_id.values[row].tolist(), by_id.ids[row].tolist(), strict=True))
                assert sorted(pairs) == sorted(want)


def test_nan_wins_over_inf_and_loses_to_padding_nowhere():
    values = torch.tensor([[[float("nan"), -float("inf")]], [[float("inf"), float("nan")]]])
    ids = torch.tensor([[[9, 4]], [[3, 5]]])
    got = torch_topk.merge_topk(values, ids, 4)
    assert got.ids.tolist() == [[5, 9, 3, 4]]
    got = torch_topk.merge_topk(values, ids, 5, largest=False)
    assert got.ids.tolist() == [[4, 3, 5, 9, -1]]


def test_values_have_gradients():
    leaf = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    ids = torch.arange(48).view(2, 3, 8)
    got = torch_topk.merge_topk(leaf, ids, 4)
    (grad,) = torch.autograd.grad(got.values.square().sum(), leaf)
    want = torch.zeros(48, dtype=torch.float64).scatter(
        0, got.ids.flatten(), 2 * got.values.detach().flatten()
    )
    assert torch.equal(grad.flatten(), want)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda v, i: torch_topk.merge_topk(v, i[:1], 2), RuntimeError, "different shapes"),
        (lambda v, i: torch_topk.merge_topk(v, i.float(), 2), TypeError, "int32 or int64, not torch.float32"),
        (lambda v, i: torch_topk.merge_topk(v, i, -1), RuntimeError, "k must be at least 0, but is -1"),
        (lambda v, i: torch_topk.merge_topk(v, i, 2, order="x"), ValueError, "order must be one of"),
        (lambda v, i: torch_topk.merge_topk(v, i, 2, tie="x"), ValueError, "tie must be one of"),
        (lambda v, i: torch_topk.merge_topk(v[0], i[0], 2), RuntimeError, "has 2 dimensions"),
        (lambda v, i: torch_topk.merge_topk([], [], 2), RuntimeError, "values has no lists"),
        (
            lambda v, i: torch_topk.merge_topk([v[0].int(), v[1]], list(i), 2),
            RuntimeError,
            r"one dtype, but values\[1\] has torch.float32 and values\[0\] torch.int32",
        ),
        (
            lambda v, i: torch_topk.merge_topk(list(v), [i[0], i[1].int()], 2),
            RuntimeError,
            r"one dtype, but ids\[1\] has torch.int32 and ids\[0\] torch.int64",
        ),
        (
            lambda v, i: torch_topk.merge_topk([v[0], v[1, :2]], list(i), 2),
            RuntimeError,
            r"one number of rows, but values\[1\] has 2 and values\[0\] 3",
        ),
        (
            lambda v, i: torch_topk.merge_topk([v[0], v[1].to("meta")], list(i), 2),
            RuntimeError,
            r"one device, but values\[1\] has meta and values\[0\] cpu",
        ),
        (
            lambda v, i: torch_topk.merge_topk(v, i.to("meta"), 2),
            RuntimeError,
            "ids must be on the values' device, cpu, but are on meta",
        ),
    ],
)
def test_errors_name_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, dtype=torch.int64))


def test_merging_compiles_whole():
    values, ids = inputs.make("few_distinct", 12, 8).view(3, 4, 8), torch.randperm(96).view(3, 4, 8)

    def function(v, i):
        return torch_topk.merge_topk(v, i, 6, unique=True)

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for got, want in zip(compiled(values, ids), function(values, ids), strict=True):
        assert torch.equal(got, want)


# Shards of a process group.


def check_shards(rank: int, world: int) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.uint16, torch.float8_e4m3fn, torch.int64):
        tensor = inputs.make("few_distinct", ROWS, COLS, dtype)
        whole = oracle.bits_of(tensor)
        sizes = [0, *(COLS // 4 + 3 * r for r in range(world - 1)), COLS]
        for r in range(1, world):
            sizes[r] += sizes[r - 1]
        bounds = [0, *sizes[1:world], COLS]
        own = oracle.from_bits(whole[:, bounds[rank] : bounds[rank + 1]], dtype).to(gloo.device())
        dealt = oracle.from_bits(whole[:, rank::world], dtype).to(gloo.device())
        for k, largest in ((0, True), (30, False), (COLS + 5, True)):
            behind = torch_topk.topk_sharded(own, k, largest=largest)
            placed = torch_topk.topk_sharded(own, k, largest=largest, offset=bounds[rank])
            mapped = torch_topk.topk_sharded(dealt, k, largest=largest, index_map=lambda i: i * world + rank)
            for got in (behind, placed, mapped):
                assert_whole(got, tensor, k, largest)
    # Bit-equal on all ranks, payloads of NaN included.
    local = torch.tensor([[0x7FC00000 + 5 * rank, 0x3F800000]], dtype=torch.int32).view(torch.float32)
    got = torch_topk.topk_sharded(local.to(gloo.device()), 2)
    assert got.ids.tolist() == [[0, 2]] and bits(got.values.cpu()).tolist() == [[0x7FC00000, 0x7FC00005]]

    if world > 2:  # compiling takes seconds
        return
    compiled = torch.compile(
        lambda x: torch_topk.topk_sharded(x, 3), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    tensor = inputs.make("few_distinct", ROWS, COLS)
    got = compiled(tensor.tensor_split(world, 1)[rank].contiguous().to(gloo.device()))
    assert_whole(got, tensor, 3)
    with pytest.raises(RuntimeError, match="exclude each other"):
        torch_topk.topk_sharded(tensor, 3, offset=0, index_map=lambda i: i)


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)
@pytest.mark.parametrize("world", [2, 3])
def test_all_ranks_have_the_top_k_of_the_whole(world):
    gloo.run(world, check_shards, world)
