"""topk_varlen, and what stands on topk, on a GPU."""

from __future__ import annotations

import pytest
import torch

import torch_topk
from tests import inputs, oracle, study_library  # noqa: F401 (loads _varlen)
from tests.varlen_oracle import assert_varlen, hostile
from torch_topk import topk_varlen

pytestmark = pytest.mark.gpu
ORDERS = pytest.mark.parametrize("order", ["any", "value", "index"])


def on(device, options):
    return {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in options.items()}


def check(tensor, k, device, **options):
    result = topk_varlen(tensor.to(device), k, **on(device, options))
    assert_varlen([x if x is None else x.cpu() for x in result], tensor, k, **options)


def make(rows, cols, dtype=torch.float32, family="few_distinct"):
    return inputs.make(family if family in inputs.names_for(dtype) else "few_distinct", rows, cols, dtype)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@ORDERS
def test_hostile_windows(dtype, order, device):
    for seed, (rows, cols) in enumerate(((300, 70), (40, 9000), (4, 300_000))):
        tensor = make(rows, cols, dtype, ("few_distinct", "mixed_rows", "normal")[seed])
        given = {"lengths": hostile(rows, cols, seed=seed), "starts": hostile(rows, cols, seed=seed + 50)}
        for k in (1, 64, 2048):
            check(tensor, k, device, order=order, largest=seed != 1, **given)
            check(tensor, k, device, order=order, row_k=hostile(rows, k, seed=seed), **given)


# Those that take windows.
FORMS = (
    "air.one_block",
    "bitonic.one_warp",
    "delegate.one_cluster",
    "delegate.equal_shares",
    "split_bucket.tree",
)
LONG_ROWS = (((3, 300_000), (64, 50_000), (700, 6_000)), (7, 100, 1000))
SHORT_ROWS = (((3, 1000), (6400, 100), (700, 300)), (3, 30, 64))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_each_form(form, dtype, device):
    """Whatever it costs: few and many rows, of which some are empty, short, or with few candidates."""
    run = torch.ops.gputopk._varlen
    generator = torch.Generator().manual_seed(9)
    shapes, counts = SHORT_ROWS if form == "bitonic.one_warp" else LONG_ROWS
    for turn, (rows, cols) in enumerate(shapes):
        family = ("normal", "ones_with_four_outliers", "increasing")[turn]
        tensor = make(rows, cols, dtype, family)
        given = {"lengths": hostile(rows, cols, seed=turn), "starts": hostile(rows, cols, seed=turn + 50)}
        given["lengths"][0], given["starts"][0] = cols, 0
        for share in (None, 0.001, 0.5):
            if share is not None:
                given["mask"] = torch.rand(rows, cols, generator=generator) < share
            for order, k in enumerate(counts):
                k = min(k, cols // 7) if form == "bitonic.one_warp" else k  # so many as a row's lanes keep
                result = run(tensor.to(device), k, order=order, form=form, **on(device, given))
                name = ("any", "value", "index")[order]
                assert_varlen([x.cpu() for x in result], tensor, k, order=name, **given)


@ORDERS
def test_filters_and_what_an_index_becomes(order, device):
    rows, cols = 50, 5000
    tensor = make(rows, cols)
    some = torch.rand(rows, cols, generator=torch.Generator().manual_seed(5)) < 0.4
    ids = torch.randint(-300, 900, (rows, cols), generator=torch.Generator().manual_seed(6))
    table = torch.randint(-1, 99, (rows, 1 + cols // 64), dtype=torch.int32)
    where = {"starts": hostile(rows, cols, seed=7), "lengths": hostile(rows, cols, seed=8), "order": order}
    check(tensor, 100, device, mask=some, **where)
    check(tensor, 100, device, mask=some[3], return_values=False, **where)
    check(tensor, 100, device, ids=ids.int(), **where)
    check(tensor, 100, device, ids=ids[0], index_dtype=torch.int64, **where)
    check(tensor, 100, device, offsets=torch.arange(rows), **where)
    check(tensor, 100, device, page_table=table, page_size=64, **where)


@ORDERS
def test_a_graph_serves_changing_lengths(order, device):
    rows, cols, k = 64, 20000, 300
    cpu = make(rows, cols)
    tensor, lengths = cpu.to(device), torch.zeros(rows, dtype=torch.int32, device=device)
    topk_varlen(tensor, k, lengths=lengths, order=order)  # whatever is done once
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = topk_varlen(tensor, k, lengths=lengths, order=order)
    for step in range(1000):
        changed = hostile(rows, cols, torch.int32, seed=step)
        lengths.copy_(changed)
        graph.replay()
        if step % 50 == 0:
            assert_varlen([x.cpu() for x in result], cpu, k, lengths=changed, order=order)


def test_nothing_is_read_on_the_host(device):
    logits = make(32, 5000, family="normal").to(device)
    k = torch.arange(32, device=device)
    share = torch.linspace(0, 1, 32, device=device)
    values = logits.view(4, 8, 5000)[..., :50].contiguous()
    ids = torch.arange(1600, device=device).view(4, 8, 50)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        results = [
            topk_varlen(logits, 20, lengths=k, row_k=k, order="index"),
            torch_topk.kth_value(logits, k, lengths=k * 100),
            (torch_topk.topk_mask(logits, k), torch_topk.keep_topk(logits, 9)),
            (torch_topk.top_k_top_p_filter_(logits.clone(), k, share, 0.01),),
            (torch_topk.top_k_top_p_filter_(logits.clone(), 50, 0.9),),
            torch_topk.merge_topk(values, ids, 30, unique=True),
        ]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    cpu = logits.cpu()
    wanted = [
        topk_varlen(cpu, 20, lengths=k.cpu(), row_k=k.cpu(), order="index"),
        torch_topk.kth_value(cpu, k.cpu(), lengths=k.cpu() * 100),
        (torch_topk.topk_mask(cpu, k.cpu()), torch_topk.keep_topk(cpu, 9)),
    ]
    for result, want in zip(results, wanted, strict=False):
        assert all(torch.equal(a.cpu(), b) for a, b in zip(result, want, strict=True))
    merged = torch_topk.merge_topk(values.cpu(), ids.cpu(), 30, unique=True)
    assert torch.equal(results[-1].ids.cpu(), merged.ids)
