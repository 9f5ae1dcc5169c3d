"""topk_varlen's kernels on the emulated GPU, against the oracle: windows of every kind, hostile ones too."""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle
from tests.simt import emulated
from tests.varlen_oracle import assert_varlen, hostile, pad_bits
from tests.where_oracle import COMPARISONS, candidates
from torch_topk import Condition

DEVICE = emulated.Device(sm_count=2)
ORDERS = ("any", "value", "index")


def check(tensor, k, seed=1, device=DEVICE, gap=0, **options):
    """By each form, where it serves, and as planned, whose plan it returns."""
    plan = ""
    for form in emulated.VARLEN_FORMS:
        result, plan = emulated.library().varlen(tensor, k, device, seed, gap, form=form, **options)
        assert_varlen(result, tensor, k, **options)
    return plan


def make(rows, cols, dtype=torch.float32, family="few_distinct", seed=0):
    return inputs.make(
        family if family in inputs.names_for(dtype) else "few_distinct", rows, cols, dtype, seed=seed
    )


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_dtype_and_order(dtype):
    for turn, order in enumerate(ORDERS):
        tensor = make(5, 700, dtype, ("few_distinct", "mixed_rows", "normal")[turn])
        given = {"lengths": hostile(5, 700, seed=turn), "starts": hostile(5, 700, seed=turn + 50)}
        for k in (9, 200):
            check(tensor, k, seed=turn, order=order, largest=turn != 1, magnitude=turn == 2, **given)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [torch.int32, torch.int64])
def test_hostile_windows(order, width):
    for seed, cols in enumerate((1, 37, 300, 1500)):
        rows = 9
        given = {
            "lengths": hostile(rows, cols, width, seed),
            "starts": hostile(rows, cols, width, seed + 10),
            "row_k": hostile(rows, 40, width, seed + 20),
        }
        tensor = make(rows, cols, seed=seed)
        for k in (1, 40, 150):
            check(tensor, k, seed=seed, order=order, **given)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_windows_of_several_tiles(dtype, order):
    cols = 3 * 4096 + 70
    tensor = make(4, cols, dtype, "normal", seed=3)
    given = {
        "lengths": torch.tensor([cols, 4096, 9000, 5]),
        "starts": torch.tensor([0, 4097, 3001, cols - 3]),
        "mask": torch.rand(4, cols, generator=torch.Generator().manual_seed(1)) < 0.5,
        "order": order,
    }
    for k in (1, 32, 100, 1024):
        result, plan = emulated.library().varlen(tensor, k, DEVICE, k, form="split_bucket.tree", **given)
        assert "tiles of" in plan
        assert_varlen(result, tensor, k, **given)
        check(tensor, k, **{**given, "mask": None})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64])
def test_windows_on_clusters(dtype):
    """Some blocks of a row's cluster are needed, or all, or one; some rows have fewer candidates than there
    is room for, others a sample that misleads, or none."""
    device = emulated.Device(sm_count=16, cluster_blocks=4)
    rows, cols = 6, 40_000
    blocks = 4 if dtype.itemsize >= 4 else 2
    lengths = torch.tensor([cols, 9_000, 3_000, 70, 0, cols - 5])
    generator = torch.Generator().manual_seed(4)
    for seed, family in enumerate(("normal", "ones_with_four_outliers", "increasing", "all_equal")):
        tensor = make(rows, cols, dtype, family, seed)
        given = {"lengths": lengths, "starts": torch.tensor([0, 3, 17, 39_950, 5, 5])}
        for share in (None, 0.002, 0.5):
            if share is not None:
                given["mask"] = torch.rand(rows, cols, generator=generator) < share
            for k in (5, 90, 600):
                given["order"] = ORDERS[(seed + k) % len(ORDERS)]
                run = emulated.library().varlen
                result, plan = run(tensor, k, device, seed, form="delegate.one_cluster", **given)
                assert f"delegate: a cluster of {blocks} blocks" in plan
                assert_varlen(result, tensor, k, **given)
        # Rows that are longer than was promised, and fewer winners of some.
        given = {"row_k": torch.tensor([90, 3, 0, 90, 5, 41]), "max_length": 9_000, "return_values": seed > 1}
        result, plan = run(tensor, 90, device, seed, gap=3, form="delegate.one_cluster", **given)
        assert "delegate" in plan
        assert_varlen(result, tensor, 90, **given)


# Lengths of rows of 30,000 columns, several of which share a block, or share blocks.
SHARED = {
    "one full row": [30_000] + [300] * 11,
    "a full row behind others": [300] * 11 + [30_000],
    "empty rows in between": [9_000, *[0] * 70, 9_001, *[0] * 33, 1],
    "whole shares": [8192] * 6,
    "one element each": [1] * 40,
    "nothing": [0] * 40,
}


@pytest.mark.parametrize("pattern", SHARED)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_windows_in_equal_shares(dtype, pattern):
    """Shares that begin and end anywhere in rows, in rows of which nothing is selected, or nowhere."""
    lengths = torch.tensor(SHARED[pattern])
    rows, cols = len(lengths), 30_000
    generator = torch.Generator().manual_seed(5)
    for seed, family in enumerate(("normal", "ones_with_four_outliers", "increasing")):
        tensor = make(rows, cols, dtype, family, seed)
        given = {"lengths": lengths, "starts": torch.arange(rows) % 5 * (lengths < cols)}
        device = emulated.Device(sm_count=(1, 3, 8)[seed])
        for k in (5, 90, 600):
            given["order"] = ORDERS[(seed + k) % len(ORDERS)]
            if k == 90:
                given["mask"] = torch.rand(rows, cols, generator=generator) < 0.3
                given["row_k"] = torch.arange(rows) * 17 % 100
            run = emulated.library().varlen
            result, plan = run(tensor, k, device, seed, form="delegate.equal_shares", **given)
            assert "equal shares of all rows" in plan
            assert_varlen(result, tensor, k, **given)


@pytest.mark.parametrize("order", ORDERS)
def test_many_winners_and_the_whole_row(order):
    lengths = torch.tensor([2600, 2599, 0, 1300])
    for dtype in (torch.float32, torch.int64, torch.uint8):
        for k in (1300, 2600, 3000):
            check(make(4, 2600, dtype), k, order=order, lengths=lengths)
    check(make(1, 20000), 9000, order=order)  # more than a block orders


@pytest.mark.parametrize("order", ORDERS)
def test_filters_and_what_an_index_becomes(order):
    rows, cols = 6, 900
    tensor = make(rows, cols)
    some = torch.rand(rows, cols, generator=torch.Generator().manual_seed(5)) < 0.4
    some[0], some[1] = False, True
    ids = torch.randint(-300, 900, (rows, cols), generator=torch.Generator().manual_seed(6))
    table = torch.randint(-1, 99, (rows, 1 + cols // 16), dtype=torch.int32)
    where = {"starts": hostile(rows, cols, seed=7), "lengths": torch.arange(rows) * 200, "order": order}
    for k in (5, 60):
        check(tensor, k, mask=some, **where)
        check(tensor, k, ids=ids.int(), **where)
        check(tensor, k, ids=ids, mask=some, index_dtype=torch.int64, **where)
        check(tensor, k, offsets=torch.arange(rows) * 7, pad_index=-9, **where)
        check(tensor, k, page_table=table, page_size=16, pad_index=3, **where)
    given = {"page_row": hostile(rows, rows, torch.int32, 1), "page_start": hostile(rows, 57, torch.int32, 2)}
    check(tensor, 60, page_table=table, page_size=16, **given, **where)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_conditions_on_columns(dtype):
    """Of every dtype and comparison; rows that are to have no winners; and elements that equal the k-th."""
    rows, cols = 5, 700
    tensor = make(rows, cols)
    column = make(rows, cols, dtype, "mixed_rows", seed=2)
    own = oracle.as_ints(column)[:, 3].contiguous().view(dtype)
    one = own[:1].view(torch.uint8).view(dtype).reshape(())
    row_k = torch.tensor([20, 0, 3, 20, 7])
    for comparison, words in enumerate(COMPARISONS):
        for given, thresholds in ((column, own), (column[2], one)):
            result, _ = emulated.library().varlen(
                tensor, 20, DEVICE, comparison, conditions=[(given, comparison, thresholds)], row_k=row_k
            )
            mask = candidates(Condition(given, words, thresholds), tensor.shape, 1)
            assert_varlen(result, tensor, 20, mask=torch.from_numpy(mask), row_k=row_k)
    for same, magnitude in ((6, False), (7, True)):
        ranks = oracle.ranks(oracle.bits_of(column).reshape(-1), dtype, magnitude).reshape(rows, cols)
        result, _ = emulated.library().varlen(
            tensor, 20, DEVICE, same, conditions=[(column, same, own), (tensor, 4, tensor[:, 5].contiguous())]
        )
        mask = (ranks == ranks[:, 3:4]) & (tensor >= tensor[:, 5:6]).numpy()
        assert_varlen(result, tensor, 20, mask=torch.from_numpy(mask))


def test_outs_with_gaps_strides_and_no_values():
    wide = make(5, 500)
    lengths = torch.tensor([500, 2, 0, 77, 400])
    for order in ORDERS:
        check(wide[:, 3:450], 20, gap=3, order=order, lengths=lengths)
        check(wide, 20, return_values=False, order=order, lengths=lengths)
        check(wide[:1].expand(5, 500), 20, order=order, lengths=lengths)
        check(wide, 0, order=order, lengths=lengths)


def test_the_plan_looks_at_max_length_and_not_at_lengths():
    tensor = make(3, 3000)
    plans = {check(tensor, 5, lengths=torch.tensor(lengths)) for lengths in ([1, 2, 3], [3000, 0, 2999])}
    assert len(plans) == 1
    assert check(tensor, 5, max_length=100, lengths=torch.tensor([3000, 0, 2999])) not in plans


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_the_kth_alone(dtype):
    for seed, (cols, family) in enumerate(((200, "mixed_rows"), (3000, "few_distinct"), (1500, "all_equal"))):
        rows, largest = 8, seed != 1
        tensor = make(rows, cols, dtype, family)
        k = torch.tensor([1, cols, cols + 1, 0, -5, cols // 2, 129, 2**40])
        lengths = torch.tensor([cols, cols, cols, 5, 5, cols - 7, 300, cols])
        options = {"row_k": k, "lengths": lengths, "largest": largest, "index_dtype": torch.int64}
        device = emulated.Device(sm_count=2 if seed else 16)
        (values, indices, _), _ = emulated.library().varlen(
            tensor, 1, device, seed, kth_alone=True, **options
        )
        for r in range(rows):
            bits = oracle.bits_of(tensor[r : r + 1, : int(lengths[r])])
            if 1 <= k[r] <= bits.shape[1]:
                want = oracle.best_first(bits, dtype, largest, False)[0, int(k[r]) - 1]
                assert indices[r, 0] == want and oracle.bits_of(values[r])[0] == bits[0, want]
            else:
                assert indices[r, 0] == -1 and oracle.bits_of(values[r])[0] == pad_bits(dtype, largest, False)
