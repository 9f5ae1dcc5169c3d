"""topk_varlen: every rule of ragged rows, against the oracle."""

from __future__ import annotations

import itertools

import pytest
import torch

import torch_topk
from tests import inputs, oracle
from tests.varlen_oracle import assert_varlen, hostile
from torch_topk import topk_varlen

operator = torch.ops.gputopk.topk_varlen
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
ORDERS = pytest.mark.parametrize("order", ["any", "value", "index"])
LENGTHS = torch.tensor([0, 1, 5, 6, 40, 63, 64, 65, -3, 2**40, 33, 64])


def check(tensor, k, **options):
    result = topk_varlen(tensor, k, **options)
    assert_varlen(result, tensor, k, **options)
    return result


def make(rows=12, cols=64, dtype=torch.float32, family="few_distinct"):
    return inputs.make(family if family in inputs.names_for(dtype) else "few_distinct", rows, cols, dtype)


@DTYPES
@ORDERS
@pytest.mark.parametrize("magnitude", [False, True])
def test_winners_come_first_and_padding_behind_them(dtype, order, magnitude):
    for largest, family in itertools.product((True, False), ("few_distinct", "mixed_rows")):
        tensor = make(dtype=dtype, family=family)
        for k in (0, 1, 5, 64, 100):
            check(tensor, k, lengths=LENGTHS, largest=largest, order=order, magnitude=magnitude)


@ORDERS
@pytest.mark.parametrize("width", [torch.int32, torch.int64])
def test_windows_are_clamped_whatever_the_tensors_hold(order, width):
    for seed, (rows, cols) in enumerate(((40, 64), (40, 1), (30, 0), (25, 1500))):
        tensor = make(rows, cols)
        given = {
            "lengths": hostile(rows, cols, width, seed),
            "starts": hostile(rows, cols, width, seed + 100),
            "row_k": hostile(rows, 20, width, seed + 200),
        }
        for names in (("lengths",), ("starts",), ("row_k",), ("starts", "lengths"), tuple(given)):
            check(tensor, 20, order=order, **{name: given[name] for name in names})


def test_nothing_outside_a_window_is_read():
    """Neighbours of other values, NaN among them, change nothing."""
    rows, cols = 20, 90
    starts, lengths = hostile(rows, cols, seed=1), hostile(rows, cols, seed=2)
    tensor = make(rows, cols, family="normal")
    begin = starts.clamp(0, cols)
    end = (begin + lengths.clamp(0, cols)).clamp(max=cols)
    position = torch.arange(cols)
    inside = (position >= begin[:, None]) & (position < end[:, None])
    poisoned = torch.where(inside, tensor, torch.nan)
    for order in ("any", "value", "index"):
        options = {"starts": starts, "lengths": lengths, "order": order}
        for got, want in zip(
            topk_varlen(poisoned, 9, **options), topk_varlen(tensor, 9, **options), strict=True
        ):
            assert torch.equal(got, want)


def test_minus_infinity_and_nan_are_candidates_like_any_other():
    tensor = torch.tensor([[-torch.inf, torch.nan, 1.0, -torch.inf]])
    got = topk_varlen(tensor, 6, order="value")
    assert got.indices.tolist() == [[1, 2, 0, 3, -1, -1]] and got.counts.tolist() == [4]
    got = topk_varlen(tensor, 6, order="value", largest=False)
    assert got.indices.tolist() == [[0, 3, 2, 1, -1, -1]]
    assert got.values[0, 4:].tolist() == [torch.inf] * 2


@ORDERS
def test_long_rows_of_unequal_lengths(order):
    tensor = make(6, 20000)
    lengths = torch.tensor([20000, 12, 3000, 19999, 0, 1000])
    for k in (1, 2048, 17000):
        check(tensor, k, lengths=lengths, starts=torch.tensor([0, 5, 9, 1, 3, 2]), order=order)
    # One row that is longer than all others together is shared by all threads.
    check(make(9, 400_000), 300, lengths=torch.tensor([400_000] + [7] * 8), order=order)
    check(make(2, 900_000, torch.bfloat16), 70, row_k=torch.tensor([70, 0]), order=order)


@DTYPES
@ORDERS
def test_masks(dtype, order):
    rows, cols = 9, 300
    tensor = make(rows, cols, dtype)
    some = torch.rand(rows, cols, generator=torch.Generator().manual_seed(5)) < 0.3
    some[0], some[1] = False, True
    starts = torch.tensor([0, 3, 299, 300, 10, 0, 0, 7, 100])
    for mask in (some, some[2], some.t().contiguous().t(), some[:1].expand(rows, cols)):
        for k in (1, 20, 400):
            check(tensor, k, mask=mask, order=order)
            check(tensor, k, mask=mask, starts=starts, lengths=starts.flip(0), order=order)


@ORDERS
def test_what_an_index_becomes(order):
    rows, cols = 9, 200
    tensor = make(rows, cols)
    starts, lengths = hostile(rows, cols, seed=3), torch.arange(rows) * 30
    where = {"starts": starts, "lengths": lengths, "order": order, "pad_index": -7}
    for width in (torch.int32, torch.int64):
        check(tensor, 30, offsets=torch.arange(rows, dtype=width) * 1000 - 5, **where)
    check(tensor, 30, offsets=torch.full((rows,), 2**40), index_dtype=torch.int64, **where)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(-5, 50, (rows, cols), generator=generator)
    for table in (ids, ids[3], ids.t().contiguous().t()):
        check(tensor, 30, ids=table.int(), **where)
        check(tensor, 30, ids=table, index_dtype=torch.int64, **where)
        check(tensor, 30, ids=table.int(), mask=ids[5] > 20, **where)
    for size in (1, 4, 64):
        table = torch.randint(-1, 1000, (rows, 200 // size + 1), generator=generator, dtype=torch.int32)
        check(tensor, 30, page_table=table, page_size=size, **where)
        hostile_rows = hostile(rows, rows, torch.int32, seed=4)
        hostile_pages = hostile(rows, table.shape[1], torch.int32, seed=5)
        for options in ({"page_row": hostile_rows}, {"page_start": hostile_pages}):
            check(tensor, 30, page_table=table, page_size=size, **options, **where)
        check(tensor, 30, page_table=table[:2, :3], page_size=size, **where)
        check(tensor, 30, page_table=table[:0], page_size=size, **where)


def test_negative_ids_and_unset_masks_are_read_inside_windows_alone():
    tensor = torch.zeros(1, 8)
    ids = torch.tensor([-1, -1, 4, 3, -1, 9, 8, 7], dtype=torch.int32)
    got = topk_varlen(tensor, 8, starts=torch.tensor([1]), lengths=torch.tensor([5]), ids=ids)
    assert got.indices.tolist() == [[4, 3, 9, -1, -1, -1, -1, -1]] and got.counts.tolist() == [3]


@ORDERS
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_index_dtypes_and_no_values(order, index_dtype):
    tensor = make()
    options = {"order": order, "index_dtype": index_dtype, "lengths": LENGTHS}
    check(tensor, 7, return_values=False, **options)
    check(tensor, 7, return_values=False, mask=tensor > 0, **options)
    check(tensor, 7, max_length=3, **options)


@DTYPES
def test_any_strides(dtype):
    tensor = make(12, 64, dtype)
    bits = oracle.as_ints(tensor)
    for view in (bits.t().contiguous().t(), bits[:, ::2], bits[::3], bits[:1].expand(12, 64), bits[:0]):
        check(view.view(dtype), 9, lengths=LENGTHS[: len(view)], order="value")
    check(tensor[:4], 9, lengths=LENGTHS[::3], starts=torch.arange(12)[::3])


@ORDERS
def test_outs_may_be_a_slice_of_a_wider_buffer(order):
    tensor = make()
    wide_values, wide_indices = torch.full((12, 20), 3.5), torch.full((12, 20), 77, dtype=torch.int32)
    out = wide_values[:, 4:11], wide_indices[:, 2:9]
    got = topk_varlen(tensor, 7, lengths=LENGTHS, order=order, out=out)
    assert got.values is out[0] and got.indices is out[1]
    assert_varlen(got, tensor, 7, lengths=LENGTHS, order=order)
    assert (wide_values[:, :4] == 3.5).all() and (wide_values[:, 11:] == 3.5).all()
    assert (wide_indices[:, :2] == 77).all() and (wide_indices[:, 9:] == 77).all()
    got = topk_varlen(tensor, 7, order=order, return_values=False, out=(None, out[1]))
    assert_varlen(got, tensor, 7, order=order, return_values=False)


def test_autograd_knows_that_outs_were_written():
    out = torch.ones(12, 7), torch.zeros(12, 7, dtype=torch.int32)
    saved = torch.ones(12, 7, requires_grad=True)
    loss = (saved * out[0]).sum()
    topk_varlen(make(), 7, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(RuntimeError, match="requires grad"):
        topk_varlen(make(), 7, out=(saved, out[1]))


def test_a_row_does_not_depend_on_the_others():
    tensor = make(30, 500)
    lengths = hostile(30, 500, seed=9)
    for order in ("value", "index"):
        whole = topk_varlen(tensor, 40, lengths=lengths, order=order)
        for r in range(30):
            alone = topk_varlen(tensor[r : r + 1], 40, lengths=lengths[r : r + 1], order=order)
            assert torch.equal(alone.indices[0], whole.indices[r])
            assert torch.equal(alone.values[0], whole.values[r])


def test_whole_rows_are_topk():
    tensor = make(20, 3000)
    values, indices, counts = topk_varlen(tensor, 100, order="value", index_dtype=torch.int64)
    oracle.assert_topk((values, indices), tensor, 100)
    assert counts.tolist() == [100] * 20


@pytest.mark.parametrize("threads", [1, 3])
def test_random_requests(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(threads)

    def draw(*choices):
        return choices[int(torch.randint(len(choices), (1,), generator=generator))]

    try:
        for seed in range(60):
            rows, cols = draw(1, 3, 17, 70), draw(1, 30, 257, 1024, 5000, 30000)
            dtype = draw(*oracle.DTYPES)
            tensor = inputs.make(draw(*inputs.names_for(dtype)), rows, cols, dtype, seed=seed)
            options = {"order": draw("any", "value", "index"), "largest": draw(True, False)}
            options["magnitude"] = draw(True, False, False)
            for name in ("lengths", "starts"):
                if draw(True, False):
                    options[name] = hostile(rows, cols, torch.int64, seed)
            if draw(True, False, False):
                options["mask"] = torch.rand(rows, cols, generator=generator) < draw(0.01, 0.5, 0.99)
            check(tensor, draw(1, 2, 17, 129, 1000, cols), **options)
    finally:
        torch.set_num_threads(before)


# Errors.

NARROW = torch.zeros(3, dtype=torch.int32)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": -1}, r"k must be in \[0, 2147483647\], but is -1"),
        ({"lengths": torch.zeros(4, dtype=torch.int64)}, r"lengths must have shape \[3\]"),
        ({"lengths": torch.zeros(3)}, "lengths must be int32 or int64, not float32"),
        ({"lengths": NARROW, "starts": NARROW.long()}, "starts and lengths must have one dtype"),
        ({"row_k": torch.zeros(3, 1, dtype=torch.int32)}, "row_k must have shape"),
        ({"mask": torch.zeros(3, 8)}, "mask must be bool, not float32"),
        ({"mask": torch.zeros(3, 7, dtype=torch.bool)}, r"mask must have shape \[3, 8\] or \[8\], but has"),
        ({"ids": torch.zeros(8, dtype=torch.int64)}, "ids are int64: index_dtype must be torch.int64 too"),
        ({"offsets": NARROW, "ids": torch.zeros(8, dtype=torch.int32)}, "exclude each other"),
        ({"page_size": 4}, "page_size, page_row and page_start need a page_table"),
        ({"page_table": NARROW}, "page_table must have 2 dimensions, but has 1"),
        ({"page_table": NARROW.view(3, 1), "page_size": 3}, "must be a power of two below 2.31, but is 3"),
        ({"page_table": NARROW.view(3, 1).long()}, "page_table must be int32, not int64"),
        ({"page_table": NARROW.view(3, 1), "page_row": NARROW.long()}, "page_row must be int32"),
        ({"pad_index": 2**31}, "pad_index is 2147483648, which torch.int32 does not hold"),
        ({"index_dtype": torch.int16}, "index_dtype must be torch.int64 or torch.int32"),
        ({"max_length": -1}, "max_length must be at least 0, but is -1"),
        ({"lengths": NARROW.to("meta")}, "lengths must be on the device of the input, cpu, but is on meta"),
    ],
)
def test_what_the_operator_refuses(options, words):
    options = {"k": 3, **options}
    with pytest.raises(RuntimeError, match=words):
        topk_varlen(torch.zeros(3, 8), **options)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: topk_varlen(torch.zeros(3), 1), RuntimeError, "must have 2 dimensions, but has 1"),
        (lambda: topk_varlen(torch.zeros(3, 3, dtype=torch.complex64), 1), RuntimeError, "not supported"),
        (lambda: topk_varlen([1], 1), TypeError, "'input' must be Tensor, not list"),
        (lambda: topk_varlen(torch.zeros(2, 2), 1, mask=[1]), TypeError, "'mask' must be Tensor, not list"),
        (lambda: topk_varlen(torch.zeros(2, 2), True), TypeError, "'k' must be int, not bool"),
        (lambda: topk_varlen(torch.zeros(2, 2), 1, order="x"), ValueError, "order must be one of any, value"),
        (lambda: topk_varlen(torch.zeros(2, 2), 1, out=(None, NARROW)), RuntimeError, "out has no values"),
        (lambda: topk_varlen(torch.zeros(2, 2), 1, out=NARROW), TypeError, "'out' must be a tuple"),
    ],
)
def test_what_the_function_refuses(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_outs_that_are_views_of_negatives_are_refused_in_words():
    values, indices = torch.zeros(12, 4), torch.zeros(12, 4, dtype=torch.int32)
    for name, out in (
        ("values", (torch._neg_view(values), indices)),
        ("indices", (values, torch._neg_view(indices))),
    ):
        with pytest.raises(RuntimeError, match=f"{name} is a view of its elements' negatives"):
            topk_varlen(make(), 4, out=out)
    topk_varlen(make(), 4, return_values=False, out=(torch._neg_view(values), indices))


def test_outs_that_cannot_take_the_result():
    tensor = make(3, 8)
    values, indices = torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.int32)
    for out, words in (
        ((values[:, :3], indices), r"values has shape \[3, 3\], but the result has \[3, 4\]"),
        ((values.double(), indices), "to have dtype float32, but got float64"),
        ((values, indices.long()), "to have dtype int32, but got int64"),
        ((values.t().contiguous().t(), indices), "adjacent elements"),
        ((values[:1].expand(3, 4), indices), "share memory"),
        ((tensor[:, :4], indices), "values and the input share memory"),
        ((indices.view(torch.float32), indices), "indices and values share memory"),
    ):
        with pytest.raises(RuntimeError, match=words):
            topk_varlen(tensor, 4, out=out)


# As an operator of torch.

SAMPLES = [
    {},
    {"lengths": torch.tensor([3, 0, 50]), "starts": torch.tensor([1, 2, 3]), "order": 1},
    {"row_k": torch.tensor([1, 2, 3], dtype=torch.int32), "return_values": False, "order": 2},
    {"mask": torch.arange(30) % 2 == 0, "offsets": torch.arange(3), "index_dtype": torch.int64},
    {"ids": torch.arange(30, dtype=torch.int32) - 4, "max_length": 10},
    {"page_table": torch.arange(24, dtype=torch.int32).view(3, 8), "page_size": 4, "pad_index": 5},
]


@pytest.mark.parametrize("options", SAMPLES)
def test_opcheck_accepts_the_operator(options):
    torch.library.opcheck(operator.default, (make(3, 30), 5), options)


def test_opcheck_accepts_the_out_variant():
    outs = {
        "values": torch.empty(3, 5),
        "indices": torch.empty(3, 5, dtype=torch.int32),
        "counts": torch.empty(3, dtype=torch.int32),
    }
    torch.library.opcheck(operator.out, (make(3, 30), 5), {"lengths": torch.tensor([3, 0, 50]), **outs})
    torch.library.opcheck(operator.out, (make(3, 30), 5), {**outs, "values": None})


def test_it_records_no_gradient():
    assert not topk_varlen(make().requires_grad_(), 3).values.requires_grad


def test_it_compiles_whole_and_dynamically():
    def function(x, lengths, table):
        one = topk_varlen(x, 5, lengths=lengths, order="value", page_table=table)
        return one.values, one.indices, one.counts, topk_varlen(x, 3, return_values=False).indices

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, cols in ((4, 40), (6, 70)):
        arguments = (
            make(rows, cols),
            hostile(rows, cols),
            torch.arange(rows * 9, dtype=torch.int32).view(rows, 9),
        )
        for got, want in zip(compiled(*arguments), function(*arguments), strict=True):
            assert torch.equal(got, want)


def test_outs_compile_whole():
    def function(x, values, indices):
        topk_varlen(x, 5, order="value", out=(values, indices))
        return values + 0

    tensor = make()
    outs = [(torch.zeros(12, 5), torch.zeros(12, 5, dtype=torch.int32)) for _ in range(2)]
    got = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")(tensor, *outs[0])
    assert torch.equal(got, function(tensor, *outs[1])) and torch.equal(outs[0][1], outs[1][1])


class Module(torch.nn.Module):
    def forward(self, x, lengths):
        return topk_varlen(x, 5, lengths=lengths, order="index").indices


def test_it_is_exported_with_dynamic_shapes():
    rows, cols = torch.export.Dim("rows"), torch.export.Dim("cols", min=6, max=2**31 - 1)  # int32 indices
    shapes = ({0: rows, 1: cols}, {0: rows})
    program = torch.export.export(Module(), (make(), LENGTHS), dynamic_shapes=shapes)
    tensor, lengths = make(5, 99), torch.tensor([1, 50, 99, 0, 7])
    assert torch.equal(program.module()(tensor, lengths), Module()(tensor, lengths))


def test_fakes_refuse_what_the_operator_refuses():
    meta = torch.zeros(3, 8, device="meta")
    got = topk_varlen(meta, 4, return_values=False, index_dtype=torch.int64)
    assert got.indices.shape == (3, 4) and got.indices.dtype == torch.int64 and got.counts.shape == (3,)
    for options, words in (
        ({"lengths": torch.zeros(4, dtype=torch.int64, device="meta")}, "lengths must have shape"),
        ({"mask": torch.zeros(8, device="meta")}, "mask must be bool"),
        ({"lengths": torch.zeros(3, dtype=torch.int64)}, "lengths must be on the device of the input"),
    ):
        with pytest.raises(RuntimeError, match=words):
            topk_varlen(meta, 4, **options)


def test_it_is_offered():
    assert {"TopKVarlen", "topk_varlen"} <= set(torch_topk.__all__)
