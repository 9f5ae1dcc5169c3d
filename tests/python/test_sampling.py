"""top_k_top_p_filter_: the kept set is defined to the element."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import torch_topk
from tests import inputs, oracle, selection_oracle

ROWS, COLS = 6, 60


def check(logits, k=None, p=None, min_p=None):
    rows = logits.shape[0]
    numbers = [
        option.expand(rows).tolist() if isinstance(option, torch.Tensor) else [option] * rows
        for option in (k, p, min_p)
    ]
    ranking = oracle.best_first(oracle.bits_of(logits), logits.dtype, True, False)
    weights = selection_oracle.weights(logits, torch.from_numpy(ranking[:, 0].copy()))
    masks = [selection_oracle.sampled(*row) for row in zip(ranking, weights, *numbers, strict=True)]
    want = torch.from_numpy(np.stack(masks))
    got = logits.clone()
    assert torch_topk.top_k_top_p_filter_(got, k, p, min_p) is got
    filled = torch.where(want, logits, -math.inf)
    assert torch.equal(oracle.as_ints(got), oracle.as_ints(filled))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["normal", "few_distinct", "nan_infinity_and_ends"])
def test_the_kept_set_is_the_definitions(dtype, family):
    names = inputs.names_for(dtype)
    logits = inputs.make(family if family in names else "normal", ROWS, COLS, dtype)
    for k in (None, 0, 20, COLS + 1):
        for p in (None, 0.0, 0.5, 0.95, 1.0):
            for min_p in (None, 0.05):
                check(logits, k, p, min_p)


def test_rows_have_their_own_numbers():
    logits = inputs.make("normal", ROWS, COLS) * 3
    k = torch.tensor([0, 1, 5, 20, COLS, -1])
    p = torch.tensor([0.5, 0.9, 0.0, 1.0, 0.7, 2.0])
    min_p = torch.tensor([0.0, 0.5, 0.1, 0.2, 0.01, 1.0], dtype=torch.float64)
    for given in (
        (k, None, None),
        (None, p, None),
        (k, p, None),
        (k, p, min_p),
        (20, p, None),
        (k, 0.8, 0.1),
    ):
        check(logits, *given)
    check(logits, torch.tensor(7), torch.tensor(0.6), torch.tensor(0.1))


def test_min_p_is_not_rounded():
    """exp(-2) in float32 is less than in float64."""
    logits = torch.tensor([[0.0, -2.0, -3.0]])
    for dtype in (None, torch.float32, torch.float64):
        min_p = math.exp(-2) if dtype is None else torch.tensor(math.exp(-2), dtype=dtype)
        check(logits, min_p=min_p)
        got = torch_topk.top_k_top_p_filter_(logits.clone(), min_p=min_p)
        assert got.isfinite().tolist() == [[True, dtype == torch.float32, False]]


def test_infinite_and_nan_logits():
    nan, inf = math.nan, math.inf
    rows = [[nan, 1, nan, 2, inf], [inf, 3, -inf, inf, 2], [-inf] * 5, [0.0, -0.0, 0.0, -inf, -inf]]
    logits = torch.tensor(rows)
    for k in (None, 2, 3):
        for p in (None, 0.3, 0.5, 0.9):
            check(logits, k, p)


def test_equal_logits_are_kept_by_index():
    logits = torch.zeros(1, 10)
    torch_topk.top_k_top_p_filter_(logits, 8, 0.5, fill=7.0)
    assert logits.tolist() == [[0.0] * 4 + [7.0] * 6]


def test_any_shape_and_nothing_to_do():
    logits = inputs.make("normal", 6, 50).view(2, 3, 50)
    flat = logits.view(6, 50).clone()
    got = torch_topk.top_k_top_p_filter_(logits.clone(), torch.tensor([[1, 2, 3], [4, 5, 6]]), 0.9)
    torch_topk.top_k_top_p_filter_(flat, torch.arange(1, 7), 0.9)
    assert torch.equal(got.view(6, 50), flat)
    assert torch.equal(torch_topk.top_k_top_p_filter_(logits.clone()), logits)
    assert torch_topk.top_k_top_p_filter_(torch.empty(3, 0), 2, 0.5).shape == (3, 0)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((torch.zeros(2, 5, dtype=torch.int64), 1), TypeError, "logits must be float16"),
        ((torch.zeros(()), 1), RuntimeError, "must have 1 to"),
        ((torch.zeros(2, 5), 1.5), TypeError, "'k' must be int or Tensor, not float"),
        ((torch.zeros(2, 5), None, "x"), TypeError, "'p' must be float or Tensor, not str"),
        ((torch.zeros(2, 5), None, torch.ones(2, dtype=torch.int32)), TypeError, "p must be a float tensor"),
        ((torch.zeros(2, 5), None, torch.ones(3)), RuntimeError, r"p has shape \[3\], but there are \[2\]"),
        ((torch.zeros(2, 5), None, None, torch.ones(3)), RuntimeError, r"min_p has shape \[3\]"),
    ],
)
def test_errors_name_what_is_wrong(arguments, kind, words):
    with pytest.raises(kind, match=words):
        torch_topk.top_k_top_p_filter_(*arguments)


def test_a_share_that_is_nan_keeps_the_best_alone():
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 5.0]])
    want = torch.tensor([[False, True, False], [True, False, False]])
    for nan in (math.nan, torch.tensor(math.nan), torch.full((2,), math.nan)):
        for name in ("p", "min_p"):
            for k in (None, 2, torch.tensor(2)):
                kept = torch_topk.top_k_top_p_filter_(logits.clone(), k, **{name: nan}) > -math.inf
                assert torch.equal(kept, want)


def test_it_compiles_whole():
    logits = inputs.make("normal", ROWS, COLS)
    k, p = torch.arange(ROWS), torch.linspace(0, 1, ROWS)
    compiled = torch.compile(
        lambda x, k, p: torch_topk.top_k_top_p_filter_(x.clone(), k, p, 0.01),
        fullgraph=True,
        dynamic=True,
        backend="aot_eager",
    )
    want = torch_topk.top_k_top_p_filter_(logits.clone(), k, p, 0.01)
    assert torch.equal(compiled(logits, k, p), want)
