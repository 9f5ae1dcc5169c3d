"""topk_where: filters, keys and edges, against the oracle."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_topk
from tests import inputs, oracle
from tests.where_oracle import COMPARISONS, assert_where
from torch_topk import Condition, topk_where

operator = torch.ops.gputopk.topk_where.default
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
ORDERS = pytest.mark.parametrize("order", ["any", "value", "index"])


def check(score, mask, k, dim=-1, **options):
    result = topk_where(score, mask, k, dim, **options)
    assert_where(result, score, mask, k, dim, **options)
    return result


def make(rows=12, cols=64, dtype=torch.float32, family="few_distinct", seed=0):
    family = family if family in inputs.names_for(dtype) else "few_distinct"
    return inputs.make(family, rows, cols, dtype, seed=seed)


def some(rows=12, cols=64, share=0.5, seed=5):
    mask = torch.rand(rows, cols, generator=torch.Generator().manual_seed(seed)) < share
    mask[:1], mask[1:2] = False, True
    return mask


def elements_of(tensor, count):
    """Thresholds that occur: an element of each of the first rows."""
    return torch.stack([oracle.as_ints(tensor)[r % len(tensor), r] for r in range(count)]).view(tensor.dtype)


# Filters.


@DTYPES
@ORDERS
def test_masks(dtype, order):
    score = make(dtype=dtype)
    for largest, magnitude in itertools.product((True, False), repeat=2):
        for mask in (None, some(), some()[3], some().t().contiguous().t(), some()[:2].repeat(6, 1)):
            for k in (0, 1, 9, 64, 100):
                check(score, mask, k, order=order, largest=largest, magnitude=magnitude)


@DTYPES
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_conditions_on_columns_of_every_dtype(dtype, comparison):
    """NaN, zeros of both signs and the ends of the range among the elements and the thresholds."""
    score = make(family="normal")
    for family in ("few_distinct", "mixed_rows"):
        column = make(dtype=dtype, family=family, seed=3)
        shared = oracle.as_ints(column)[4].view(dtype)
        for threshold in (elements_of(column, 12), *elements_of(column, 12)):
            check(score, Condition(column, comparison, threshold), 7)
            check(score, Condition(shared, comparison, threshold), 7)


def test_a_nan_compares_as_in_pytorch():
    score = torch.zeros(1, 5)
    column = torch.tensor([[torch.nan, -0.0, 0.0, torch.inf, -torch.nan]])
    for threshold in (0.0, torch.nan, torch.inf, -torch.inf):
        for comparison, held in (
            ("<", column < threshold), ("<=", column <= threshold), ("==", column == threshold),
            ("!=", column != threshold), (">=", column >= threshold), (">", column > threshold),
        ):  # fmt: skip
            for given_threshold in (threshold, torch.tensor(threshold), torch.tensor([threshold])):
                got = topk_where(score, Condition(column, comparison, given_threshold), 5)
                assert got.indices[0, : got.counts[0]].tolist() == held[0].nonzero().flatten().tolist()


@pytest.mark.parametrize("dtype", [d for d in oracle.DTYPES if not d.is_floating_point], ids=oracle.name_of)
def test_thresholds_at_the_ends_of_an_integers_range(dtype):
    least, most = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    column = make(dtype=dtype, family="mixed_rows")
    for threshold, comparison in itertools.product((least, most), COMPARISONS):
        check(make(), Condition(column, comparison, threshold), 20)


def test_all_that_is_given_has_to_hold():
    score, a, b = make(family="normal"), make(dtype=torch.int16), make(family="normal", seed=2)
    conditions = (
        Condition(a, ">=", 0),
        some(share=0.9),
        Condition(b, "<", torch.linspace(-1, 2, 12)),
        Condition(b[0], "!=", 0.5),
        some(share=0.8, seed=7)[5],
        Condition(a, "<=", torch.tensor(100, dtype=torch.int16)),
    )
    for count in range(6):
        check(score, conditions[:count], 9)
        check(score, list(conditions[1 : 1 + count]), 9)


def test_nothing_else_is_a_winner_whatever_it_holds():
    score = torch.tensor([[torch.nan, torch.inf, 1.0, -torch.inf, torch.nan, 2.0]])
    mask = torch.tensor([[False, False, True, True, True, False]])
    got = topk_where(score, mask, 5)
    assert got.indices.tolist() == [[4, 2, 3, -1, -1]] and got.counts.tolist() == [3]
    assert got.values[0, 1:].tolist() == [1.0, -torch.inf, -torch.inf, -torch.inf]
    got = topk_where(score, mask, 5, largest=False, pad_index=77, index_dtype=torch.int32)
    assert got.indices.tolist() == [[3, 2, 4, 77, 77]] and got.values[0, 3:].tolist() == [torch.inf] * 2


@ORDERS
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.5, 1.0])
def test_long_rows(order, share):
    """More than is looked at in one go; few candidates and many; rows that rise, so that each is better."""
    rows, cols = 3, 150_000
    column = torch.rand(rows, cols, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for family in ("normal", "increasing", "few_distinct", "all_equal"):
        score = make(rows, cols, family=family)
        for k in (1, 100, 5000, 60_000):
            check(score, Condition(column, "<", share), k, order=order, largest=family != "normal")
    long = make(1, 1_000_000, torch.bfloat16)
    check(long, some(1, 2_000_000, share)[:, ::2], 500, order=order)


# Several keys.


@ORDERS
@pytest.mark.parametrize("count", [2, 3, 4])
def test_keys_are_compared_one_after_the_other(order, count):
    for seed in range(4):
        keys = tuple(
            inputs.make("few_distinct", 10, 200, dtype, seed=seed + i) % 3 if dtype == torch.int32
            else (inputs.make("few_distinct", 10, 200, dtype, seed=seed + i) > 0).to(dtype)
            for i, dtype in enumerate((torch.int32, torch.float32, torch.int8, torch.float64))
        )[:count]  # fmt: skip
        largest = tuple((seed >> i) % 2 == 0 for i in range(count))
        for mask in (None, some(10, 200, 0.3), Condition(keys[-1], ">=", 1)):
            for k in (0, 1, 5, 60, 199, 200, 230):
                check(keys, mask, k, order=order, largest=largest, index_dtype=torch.int32)


@DTYPES
def test_keys_of_every_dtype(dtype):
    first, second = make(dtype=dtype), make(dtype=dtype, family="mixed_rows", seed=1)
    for magnitude in (False, True, (True, False)):
        for largest in (True, False, (False, True)):
            check((first, second), some(), 9, magnitude=magnitude, largest=largest)
    check((first, first, second), some()[3], 40, largest=(True, False, False))


def test_equal_keys_of_different_bits():
    nan = float("nan")
    first = torch.tensor([[0.0, -0.0, nan, -nan, 1.0, nan, -0.0]])
    second = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])
    for k in range(8):
        check((first, second), None, k)
        check((first, second), None, k, largest=(False, True))
        check((first, -second), first.isnan() | (first == 0), k, largest=(False, False))
    got = topk_where((first, second), None, 2, largest=(False, True))
    assert got.indices.tolist() == [[6, 1]] and math.copysign(1, got.values[0][0, 0]) == -1


def test_one_key_in_a_tuple_gives_a_tuple():
    score = make()
    got = check((score,), some(), 5)
    assert isinstance(got.values, tuple)
    for one, two in zip((got.values[0], *got[1:]), topk_where(score, some(), 5), strict=True):
        assert torch.equal(one, two)


def test_without_a_filter_it_is_topk():
    score = make(5, 3000)
    got = topk_where(score, None, 40)
    want = torch_topk.topk(score, 40)
    assert torch.equal(got.values, want.values) and torch.equal(got.indices, want.indices)


# Shapes and layouts.


@ORDERS
def test_any_dim_and_strides(order):
    base = make(6, 5 * 8).view(6, 5, 8)
    column = make(6, 5 * 8, torch.int32, seed=4).view(6, 5, 8)
    views = (
        lambda x: x,
        lambda x: x.permute(2, 0, 1),
        lambda x: x[:, ::2, 1:],
        lambda x: x[:1].expand(4, 5, 8),
        lambda x: x[:, :0],
        lambda x: x[:0],
        lambda x: x[0, 0],
    )
    for view in views:
        score, beside = view(base), view(column)
        for dim in range(-score.dim(), score.dim()):
            lead = [size for d, size in enumerate(score.shape) if d != dim % score.dim()]
            own = torch.zeros(lead, dtype=torch.int32)
            for mask in (beside > 0, Condition(beside, ">", own), Condition(beside, "<=", 0), None):
                check(score, mask, 3, dim, order=order)
                check((beside, score), mask, 3, dim, order=order)
            shared = torch.arange(score.shape[dim]) % 2 == 0
            check(score, (shared, Condition(beside, "!=", 1)), 2, dim, order=order)


def test_nothing_to_choose_from():
    for rows, cols in ((0, 5), (5, 0), (0, 0), (3, 4)):
        score, nothing = torch.zeros(rows, cols), torch.zeros(rows, cols, dtype=torch.bool)
        for k in (0, 3, 9):
            check(score, nothing, k)
            check((score, score), nothing, k)
            check((score, score), Condition(score, ">", 0), k, order="index")


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        score, column = make(40, 20_000), make(40, 20_000, torch.int32)
        check(score, Condition(column, ">", 0), 300)
        check((column, score), Condition(score, ">", 0), 300, order="index")
        check(score[:1].expand(40, 20_000), some(40, 20_000), 30)
    finally:
        torch.set_num_threads(before)


# Random requests.


@st.composite
def requests(draw):
    dtypes = st.sampled_from(oracle.DTYPES)
    rows = draw(st.integers(0, 5))
    cols = draw(st.sampled_from([0, 1, 2, 7, 31, 64, 65, 300, 1025]))
    seeds = st.integers(0, 2**16)

    def tensor():
        dtype = draw(dtypes)
        family = draw(st.sampled_from(["few_distinct", *inputs.names_for(dtype)]))
        return make(rows, cols, dtype, family, draw(seeds))

    keys = tuple(tensor() for _ in range(draw(st.integers(1, 4))))
    wheres = []
    for _ in range(draw(st.integers(0, 4))):
        if cols == 0 or rows == 0 or draw(st.booleans()):
            wheres.append(some(rows, cols, draw(st.sampled_from([0.02, 0.5, 0.98])), draw(seeds)))
            continue
        column = tensor()
        threshold = oracle.as_ints(column)[:, draw(st.integers(0, cols - 1))].view(column.dtype)
        if draw(st.booleans()):
            threshold = oracle.as_ints(threshold)[0].view(column.dtype)
        wheres.append(Condition(column, draw(st.sampled_from(list(COMPARISONS))), threshold))
    flags = st.lists(st.booleans(), min_size=len(keys), max_size=len(keys))
    return keys, wheres, draw(st.integers(0, cols + 3)), {
        "largest": draw(flags),
        "magnitude": draw(flags),
        "order": draw(st.sampled_from(["value", "index", "any"])),
        "index_dtype": draw(st.sampled_from([torch.int64, torch.int32])),
        "pad_index": draw(st.sampled_from([-1, 0, 5])),
    }  # fmt: skip


@given(requests())
def test_random_requests(request):
    keys, wheres, k, options = request
    check(keys, wheres, k, **options)


# Errors.

SCORE = torch.zeros(3, 8)
WRONG = [
    ((torch.zeros(()), None, 1), RuntimeError, "must have at least 1 dimension, but has 0"),
    (([1], None, 1), TypeError, r"score\[0\] must be Tensor, not int"),
    ((3, None, 1), TypeError, "'score' must be Tensor or tuple, not int"),
    (((), None, 1), ValueError, "score must have 1 to 4 keys, but has 0"),
    (((SCORE,) * 5, None, 1), ValueError, "score must have 1 to 4 keys, but has 5"),
    (((SCORE, SCORE[:2]), None, 1), RuntimeError, r"one shape, but score\[1\] has \[2, 8\] and .* \[3, 8\]"),
    (((SCORE, SCORE.to("meta")), None, 1), RuntimeError, r"one device, but score\[1\] has meta"),
    ((SCORE.to(torch.complex64), None, 1), RuntimeError, "ComplexFloat is not supported"),
    ((SCORE, None, True), TypeError, "'k' must be int, not bool"),
    ((SCORE, None, -1), RuntimeError, r"k must be in \[0, 2147483647\], but is -1"),
    ((SCORE, None, 2**31), RuntimeError, r"k must be in \[0, 2147483647\], but is 2147483648"),
    ((SCORE, None, 1, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    ((SCORE, 3, 1), TypeError, "'mask' must be Tensor or tuple, not int"),
    ((SCORE, (SCORE, ">", 0), 1), RuntimeError, r"mask\[0\] must be bool, not torch.float32"),
    ((SCORE, SCORE[0] > 0, 1, 0), RuntimeError, r"mask must have shape \[3, 8\] or \[3\], but has \[8\]"),
    ((SCORE, (SCORE > 0).to("meta"), 1), RuntimeError, "on the score's device, cpu, but is on meta"),
    ((SCORE, Condition([1], ">", 0), 1), TypeError, "mask.column must be Tensor, not list"),
    ((SCORE, Condition(SCORE, "=>", 0), 1), ValueError, "must be one of <, <=, ==, !=, >=, >, not '=>'"),
    ((SCORE, Condition(SCORE, ">", "0"), 1), TypeError, "threshold must be a number or Tensor, not str"),
    ((SCORE, Condition(SCORE.int(), ">", 0.5), 1), RuntimeError, "is 0.5, but must be an integer in"),
    ((SCORE, Condition(SCORE.byte(), ">", 256), 1), RuntimeError, r"is 256, but must be .* in \[0, 255\]"),
    ((SCORE, Condition(SCORE.int(), ">", math.nan), 1), RuntimeError, "is nan, but must be an integer"),
    ((SCORE, Condition(SCORE, ">", torch.tensor(1)), 1), RuntimeError, "column's dtype, torch.float32, not"),
    ((SCORE, Condition(SCORE, ">", SCORE[0]), 1), RuntimeError, r"shape \[8\], but there are \[3\] rows"),
    ((SCORE, [Condition(SCORE, ">", 0)] * 5, 1), ValueError, "4 conditions beside one mask, but has 5"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "kind", "words"), WRONG)
def test_what_it_refuses(arguments, kind, words):
    with pytest.raises(kind, match=words):
        topk_where(*arguments)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"order": "best"}, ValueError, "order must be one of any, value, index, not 'best'"),
        ({"largest": (True, False)}, ValueError, "largest has 2 flags, but there are 1 keys"),
        ({"magnitude": 1}, TypeError, "'magnitude' must be bool, or a tuple of bools, not 1"),
        ({"index_dtype": torch.int16}, RuntimeError, "index_dtype must be torch.int64 or torch.int32"),
        (
            {"index_dtype": torch.int32, "pad_index": 2**31},
            RuntimeError,
            "pad_index is 2147483648, which torch.int32",
        ),
    ],
)
def test_which_options_it_refuses(options, kind, words):
    with pytest.raises(kind, match=words):
        topk_where(SCORE, None, 2, **options)


def test_what_the_operator_refuses():
    one = torch.tensor(0.0)
    for arguments, options, words in (
        ((SCORE[0], 1, [], [], []), {}, "must have 2 dimensions, but has 1"),
        ((SCORE, 1, [SCORE], [], []), {}, "must be as many, but are 1, 0 and 0"),
        ((SCORE, 1, [SCORE] * 8, [0] * 8, [one] * 8), {}, "there may be 7 conditions, but are 8"),
        ((SCORE, 1, [SCORE], [8], [one]), {}, r"comparisons\[0\] must be in \[0, 7\], but is 8"),
        ((SCORE, 1, [SCORE[:2]], [0], [one]), {}, r"columns\[0\] must have shape \[3, 8\] or \[8\]"),
        ((SCORE, 1, [SCORE], [0], [one.int()]), {}, r"thresholds\[0\] must have the dtype of its column"),
        ((SCORE, 1, [SCORE], [0], [one.view(1, 1)]), {}, r"thresholds\[0\] must have shape \[\] or \[3\]"),
        ((SCORE, 1, [], [], []), {"mask": SCORE}, "mask must be bool, not float32"),
        ((SCORE, 1, [], [], []), {"row_k": torch.zeros(2).int()}, r"row_k must have shape \[3\]"),
        ((SCORE, 1, [], [], []), {"order": 3}, r"order must be in \[0, 2\], but is 3"),
    ):
        with pytest.raises(RuntimeError, match="gputopk::topk_where: .*" + words):
            operator(*arguments, **options)


def test_fakes_refuse_what_the_operator_refuses():
    score, one = SCORE.to("meta"), torch.tensor(0.0, device="meta")
    for arguments, options, words in (
        ((score[0], 1, [], [], []), {}, "must have 2 dimensions, but has 1"),
        ((score, -1, [], [], []), {}, "k must be in"),
        ((score, 1, [score], [], []), {}, "must be as many"),
        ((score, 1, [score[:2]], [0], [one]), {}, r"columns\[0\] must have shape"),
        ((score, 1, [SCORE], [0], [one]), {}, r"columns\[0\] must be on the device of the input, meta"),
        ((score, 1, [score], [0], [one.int()]), {}, r"thresholds\[0\] must have the dtype of its column"),
        ((score, 1, [score], [0], [one.view(1, 1)]), {}, r"thresholds\[0\] must have shape"),
        ((score, 1, [], [], []), {"mask": score}, "mask must be bool"),
        ((score, 1, [], [], []), {"row_k": score[:, 0]}, "row_k must be int32 or int64"),
        ((score, 1, [], [], []), {"index_dtype": torch.int16}, "index_dtype must be"),
    ):
        with pytest.raises(RuntimeError, match="gputopk::topk_where: .*" + words):
            operator(*arguments, **options)


# What stages are joined by.


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_a_stage_is_settled_where_there_is_no_choice():
    values = torch.tensor(
        [[5.0, 3.0, 3.0, 1.0], [5.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [1.0, 0.0, 0.0, 0.0]]
    )
    values = torch.cat([values, values[:1]])
    settle = torch.ops.gputopk._settle_stage
    sure, left, row_k, last = settle(
        values, numbers(4, 4, 4, 1, 4), numbers(1, 2, 3, 3, 0), 3, 1, True, False
    )
    assert sure.tolist() == [1, 1, 0, 1, 0] and left.tolist() == [0, 1, 3, 0, 0]
    assert row_k.tolist() == [0, 2, 4, 0, 0] and last.tolist() == [5, 3, 2, 0, 5]
    # Without numbers of their own, k of each row.
    sure, left, row_k, _ = settle(values, numbers(4, 4, 4, 1, 4), None, 2, 0, True, False)
    assert sure.tolist() == [1, 1, 0, 1, 1] and left.tolist() == row_k.tolist() == [1, 1, 2, 0, 1]


def test_what_the_operators_of_stages_refuse():
    settle, join = torch.ops.gputopk._settle_stage, torch.ops.gputopk._join_stages
    counts = numbers(1, 1, 1)
    for arguments, words in (
        ((SCORE[0], counts, None, 1, 0, True, False), "values must have 2 dimensions, but has 1"),
        ((SCORE, counts, None, 8, 0, True, False), r"k must be in \[0, 8\), less than .* but is 8"),
        ((SCORE, counts, None, 1, 2, True, False), "spare must be 0 or 1, but is 2"),
        ((SCORE, counts[:2], None, 1, 0, True, False), r"counts must have shape \[3\], but has \[2\]"),
        ((SCORE, counts.long(), None, 1, 0, True, False), "counts must be int32, not int64"),
        ((SCORE.t(), counts, None, 1, 0, True, False), "values must be contiguous"),
        ((SCORE + 0j, counts, None, 1, 0, True, False), "values has dtype .*, which is not supported"),
    ):
        with pytest.raises(RuntimeError, match="gputopk::_settle_stage: .*" + words):
            settle(*arguments)
    found = torch.zeros(3, 2, dtype=torch.int64)
    flags = ([True], [False])
    for arguments, words in (
        (([SCORE] * 5, [], [], 1, 1, [], [], 1, -1), "there must be 1 to 4 keys, but are 5"),
        (([SCORE], [], [counts], 1, 1, *flags, 1, -1), "must be as many"),
        (([SCORE], [found], [counts], 1, 2, *flags, 1, -1), r"most must be in \[0, 1\], but is 2"),
        (([SCORE], [found], [counts], 1, 1, *flags, 3, -1), r"order must be in \[0, 2\], but is 3"),
        (([SCORE[0]], [found], [counts], 1, 1, *flags, 1, -1), "keys must have 2 dimensions, but have 1"),
        (([SCORE], [SCORE], [counts], 1, 1, *flags, 1, -1), "found must be int32 or int64, not float32"),
        (([SCORE], [found[:2]], [counts], 1, 1, *flags, 1, -1), r"found must have shape \[3, 2\]"),
        (
            ([SCORE, SCORE[:, 1:]], [found] * 2, [counts] * 2, 1, 1, [True] * 2, [False] * 2, 1, -1),
            "keys must have one shape",
        ),
    ):
        with pytest.raises(RuntimeError, match="gputopk::_join_stages: .*" + words):
            join(*arguments)


def test_opcheck_accepts_the_operators_of_stages():
    values = make(3, 9, family="decreasing")
    counts = numbers(9, 4, 0)
    for needed in (None, numbers(1, 2, 3)):
        arguments = (values, counts, needed, 5, 1, True, False)
        torch.library.opcheck(torch.ops.gputopk._settle_stage.default, arguments)
    keys = [make(3, 30), make(3, 30, torch.int32)]
    found = [torch.arange(5).repeat(3, 1), torch.arange(5, 9).repeat(3, 1)]
    for order in range(3):
        arguments = (
            keys,
            found,
            [numbers(2, 0, 3), numbers(4, 0, 2)],
            7,
            6,
            [True, False],
            [False] * 2,
            order,
            -1,
        )
        torch.library.opcheck(torch.ops.gputopk._join_stages.default, arguments)


# As a part of torch.


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (0, {}),
        (0, {"mask": torch.arange(30) % 2 == 0, "order": 2, "index_dtype": torch.int32}),
        (1, {"row_k": torch.tensor([1, 0, 9]), "order": 0, "largest": False}),
        (3, {"mask": torch.ones(3, 30, dtype=torch.bool), "magnitude": True, "pad_index": 4}),
    ],
)
def test_opcheck_accepts_the_operator(count, options):
    column = make(3, 30, torch.int32)
    thresholds = [torch.tensor(0, dtype=torch.int32), column[:, 0], column[0, 1]][:count]
    columns = [column, column[0], column][:count]
    torch.library.opcheck(operator, (make(3, 30), 5, columns, [4, 3, 7][:count], thresholds), options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_values_have_gradients_and_padding_has_none(dtype):
    scores = [make(4, 30, family="normal", seed=i).to(dtype).requires_grad_() for i in range(2)]
    mask = some(4, 30, 0.1)
    got = topk_where(scores[0], mask, 6, 1)
    assert_where(got._replace(values=got.values.detach()), scores[0], mask, 6, 1)
    weights = torch.arange(24, dtype=dtype).view(4, 6) + 1
    (got.values.nan_to_num(neginf=0) * weights).sum().backward()
    want = torch.zeros(4, 30, dtype=dtype)
    for r, count in enumerate(got.counts.tolist()):
        want[r, got.indices[r, :count]] = weights[r, :count]
    assert torch.equal(scores[0].grad, want)
    assert not got.indices.requires_grad
    with torch.no_grad():
        assert not topk_where(scores[0], mask, 6).values.requires_grad

    keys = (scores[0] > 0).to(dtype) * scores[0], scores[1]
    found = topk_where(keys, None, 3)
    grads = torch.autograd.grad([value.sum() for value in found.values], scores, allow_unused=True)
    assert torch.equal(grads[1], torch.zeros(4, 30, dtype=dtype).scatter(1, found.indices, 1))


def test_gradients_of_a_derivative_agree_with_differences():
    mask = some(3, 9)
    score = torch.randn(3, 9, dtype=torch.float64, requires_grad=True)

    def best(x):
        return topk_where(x, mask, 4).values.nan_to_num(neginf=0.0)

    assert torch.autograd.gradcheck(best, (score,)) and torch.autograd.gradgradcheck(best, (score,))


def test_it_compiles_whole_and_dynamically():
    def function(x, y, column, threshold, k):
        mask = (Condition(column, ">=", threshold), Condition(column, "!=", 3), x < 2)
        one = topk_where(x, mask, k)
        two = topk_where((y, x), mask[0], k, largest=(False, True), index_dtype=torch.int32)
        return one.values, one.indices, one.counts, *two.values, two.indices, two.counts

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, cols, k in ((4, 40, 5), (6, 70, 5), (6, 70, 9)):
        arguments = (
            make(rows, cols),
            make(rows, cols, torch.int32),
            make(rows, cols, torch.int32, seed=1),
            torch.tensor(0, dtype=torch.int32),
            k,
        )
        for got, want in zip(compiled(*arguments), function(*arguments), strict=True):
            assert torch.equal(got, want)


def test_vmap_and_gradients_of_examples():
    scores, others = make(5, 4 * 30).view(5, 4, 30), make(5, 4 * 30, torch.int32, seed=1).view(5, 4, 30)
    limits = torch.tensor([0, 1, 2, 3, 4], dtype=torch.int32)

    def function(x, y, limit, shared, own):
        mask = Condition(y, "<", limit), shared > 0, Condition(shared, "!=", 1.5), Condition(x, ">=", own)
        one, two = topk_where(x, mask, 6, 1), topk_where((y, x), mask[0], 6, largest=(True, False))
        return one.values, one.indices, one.counts, *two.values, two.indices, two.counts

    def check_examples(in_dims, *arguments):
        got = torch.vmap(function, in_dims)(*arguments)
        for e in range(5):
            example = [a if d is None else a.select(d, e) for a, d in zip(arguments, in_dims, strict=True)]
            for all_, one in zip(got, function(*example), strict=True):
                assert torch.equal(all_[e], one)

    own = torch.linspace(-1, 1, 4)
    check_examples((0, 0, 0, None, None), scores, others, limits, scores[0, 1], own)
    check_examples(
        (1, 1, 0, 0, None), scores.transpose(0, 1), others.transpose(0, 1), limits, scores[:, 2], own
    )
    check_examples((None, 0, None, None, None), scores[0], others, limits[3], scores[0, 1], own)
    check_examples((0, None, None, None, 0), scores, others[1], limits[2], scores[0, 1], own.expand(5, 4))

    def best(x):
        return topk_where(x, x.detach() < 2, 3).values.nan_to_num(neginf=0.0).sum()

    grads = torch.vmap(torch.func.grad(best))(scores)
    for e in range(5):
        assert torch.equal(grads[e], torch.func.grad(best)(scores[e]))


class Module(torch.nn.Module):
    def forward(self, x, column):
        return topk_where((column, x), Condition(column, ">", 0), 5).indices


def test_it_is_exported_with_dynamic_shapes():
    rows, cols = torch.export.Dim("rows"), torch.export.Dim("cols", min=6)
    shapes = ({0: rows, 1: cols}, {0: rows, 1: cols})
    program = torch.export.export(
        Module(), (make(), make(dtype=torch.int32)), dynamic_shapes=shapes, strict=False
    )
    arguments = make(5, 99), make(5, 99, torch.int32, seed=2)
    assert torch.equal(program.module()(*arguments), Module()(*arguments))


def test_autocast_leaves_it_alone():
    score = make()
    with torch.autocast("cpu", torch.bfloat16):
        check(score, Condition(score, ">", 0), 5)


def test_a_subclass_sees_the_call():
    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is topk_where:
                return "seen"
            return super().__torch_function__(function, types, args, kwargs or {})

    seen = make().as_subclass(Seen)
    assert topk_where(make(), Condition(seen, ">", 0), 3) == topk_where((make(), seen), None, 3) == "seen"


def test_the_page_runs():
    page = (Path(torch_topk.__file__).parents[1] / "docs" / "where.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    assert (names["best"].counts == 20).all() and names["prices"].shape == (8, 20)


def test_it_is_offered():
    assert {"Condition", "TopKWhere", "topk_where"} <= set(torch_topk.__all__)
