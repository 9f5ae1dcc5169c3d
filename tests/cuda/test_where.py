"""topk_where on a GPU."""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle
from tests.where_oracle import COMPARISONS, assert_where
from torch_topk import Condition, TopKWhere, topk_where

pytestmark = pytest.mark.gpu
ORDERS = ("any", "value", "index")


def on(device, given):
    if isinstance(given, torch.Tensor):
        return given.to(device)
    if isinstance(given, Condition):
        return Condition(on(device, given.column), given.comparison, on(device, given.threshold))
    return type(given)(on(device, one) for one in given) if isinstance(given, (tuple, list)) else given


def on_host(result):
    return TopKWhere(*on("cpu", tuple(result)))


def check(score, mask, k, device, dim=-1, **options):
    result = topk_where(on(device, score), on(device, mask), k, dim, **options)
    assert_where(on_host(result), score, mask, k, dim, **options)


def make(rows, cols, dtype=torch.float32, family="few_distinct", seed=0):
    family = family if family in inputs.names_for(dtype) else "few_distinct"
    return inputs.make(family, rows, cols, dtype, seed=seed)


def some(rows, cols, share=0.4):
    return torch.rand(rows, cols, generator=torch.Generator().manual_seed(5)) < share


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_masks_and_conditions(dtype, device):
    for turn, (rows, cols) in enumerate(((300, 70), (20, 5000), (2, 120_000))):
        score, column = make(rows, cols, dtype, "mixed_rows"), make(rows, cols, dtype, seed=1)
        own = oracle.as_ints(column)[:, 1].contiguous().view(dtype)
        one = oracle.as_ints(own)[0].view(dtype)
        for k, order in ((1, "value"), (64, "index"), (2048, "any")):
            check(score, some(rows, cols), k, device, order=order)
        for i, comparison in enumerate(list(COMPARISONS)[turn::2]):
            options = {"order": ORDERS[i], "largest": i % 2 == 0, "magnitude": turn == 1}
            check(score, Condition(column, comparison, own), 64, device, **options)
            mask = (Condition(column, comparison, one), some(rows, cols, 0.9), some(1, cols, 0.8)[0])
            check(score, mask, 64, device, **options)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_several_keys(dtype, device):
    for rows, cols in ((50, 600), (2, 60_000)):
        keys = tuple(make(rows, cols, d, seed=i) for i, d in enumerate((dtype, torch.int8, torch.float32)))
        for k, order in ((1, "any"), (50, "value"), (700, "index")):
            options = {"largest": (False, True, True), "magnitude": k == 50, "order": order}
            check(keys, some(rows, cols), k, device, **options)
            check(keys[1::-1], None, k, device, order=order)
    check((make(40, 90), make(40, 90, dtype)), Condition(make(40, 90), ">", 0), 7, device, dim=0)


def test_a_graph_serves_changing_columns_and_thresholds(device):
    rows, cols, k = 20, 30_000, 200
    keys = make(rows, cols, torch.int32), make(rows, cols, family="normal")
    column = make(rows, cols, torch.float64, "normal")
    on_gpu = on(device, (*keys, column, torch.zeros(rows, dtype=torch.float64)))

    def call():
        mask = Condition(on_gpu[2], ">=", on_gpu[3]), Condition(on_gpu[1], "<", 1.5)
        return (
            topk_where(on_gpu[1], mask, k),
            topk_where(on_gpu[:2], mask, k, largest=(True, False), order="index"),
        )

    call()  # whatever is done once
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    for step in range(20):
        threshold = torch.linspace(-4, 1 + step / 10, rows, dtype=torch.float64).roll(step)
        moved = keys[1].roll(step, 1)
        on_gpu[3].copy_(threshold)
        on_gpu[1].copy_(moved)
        graph.replay()
        mask = Condition(column, ">=", threshold), Condition(moved, "<", 1.5)
        one, two = map(on_host, results)
        assert_where(one, moved, mask, k)
        assert_where(two, (keys[0], moved), mask, k, largest=(True, False), order="index")


def test_nothing_is_read_on_the_host(device):
    score, column = make(32, 5000, family="normal").to(device), make(32, 5000, torch.int16).to(device)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        mask = (Condition(column, ">", 0), Condition(score, "<=", column.float()[:, 0]), column != 3)
        one = topk_where(score, mask, 50)
        two = topk_where((column, score), mask, 50)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    mask = on("cpu", mask)
    assert_where(on_host(one), score.cpu(), mask, 50)
    assert_where(on_host(two), (column.cpu(), score.cpu()), mask, 50)


def test_values_have_gradients(device):
    score = make(8, 900, family="normal").to(device).requires_grad_()
    got = topk_where(score, score > 1, 400)
    got.values.nan_to_num(neginf=0.0).sum().backward()
    want = torch.zeros(8, 900)
    for r, count in enumerate(got.counts.tolist()):
        want[r, got.indices[r, :count].cpu()] = 1
    assert torch.equal(score.grad.cpu(), want)
