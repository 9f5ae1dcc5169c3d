"""kth_value, topk_mask, keep_topk and keep_topk_ against the oracle's order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import torch_topk
from tests import inputs, oracle
from torch_topk import selection

ROWS, COLS = 7, 60
FAMILIES = ("few_distinct", "mixed_rows")


def ranking(tensor, largest=True, magnitude=False):
    """Positions of the last axis, best first."""
    return torch.from_numpy(
        oracle.best_first(oracle.bits_of(tensor), tensor.dtype, largest, magnitude).astype(np.int64)
    )


def first_of(order, counts):
    """A mask of the first counts[r] of each row's order."""
    mask = torch.zeros(order.shape, dtype=torch.bool)
    for r in range(order.shape[0]):
        mask[r, order[r, : max(0, int(counts[r]))]] = True
    return mask


def make(dtype, family="few_distinct", rows=ROWS, cols=COLS):
    names = inputs.names_for(dtype)
    return inputs.make(family if family in names else names[0], rows, cols, dtype)


def bits(tensor):
    return oracle.as_ints(tensor.contiguous())


FLAGS = pytest.mark.parametrize("largest", [True, False])
MAGNITUDE = pytest.mark.parametrize("magnitude", [False, True])
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)


@DTYPES
@FLAGS
@MAGNITUDE
def test_the_kth_is_the_last_that_topk_selects(dtype, largest, magnitude):
    for family in FAMILIES:
        tensor = make(dtype, family)
        order = ranking(tensor, largest, magnitude)
        for k in (1, 2, 31, COLS):
            for count in (k, torch.tensor(k), torch.full((ROWS,), k, dtype=torch.int32)):
                values, indices = torch_topk.kth_value(tensor, count, largest=largest, magnitude=magnitude)
                assert torch.equal(indices, order[:, k - 1 : k])
                assert values.dtype == dtype and indices.dtype == torch.int64
                assert torch.equal(bits(values), bits(tensor).gather(1, indices))


@DTYPES
@FLAGS
def test_rows_have_their_own_k_and_length(dtype, largest):
    tensor = make(dtype)
    k = torch.tensor([0, -5, 1, COLS, COLS + 1, 13, 2**40])
    lengths = torch.tensor([COLS, 10, 0, 2**40, 60, 12, -3])
    for given in (None, lengths):
        sizes = torch.full((ROWS,), COLS) if given is None else lengths.clamp(0, COLS)
        values, indices = torch_topk.kth_value(tensor, k, largest=largest, lengths=given)
        worst = {True: -math.inf, False: math.inf}[largest]
        for r in range(ROWS):
            if 1 <= k[r] <= sizes[r]:
                want = ranking(tensor[r : r + 1, : int(sizes[r])], largest)[0, k[r] - 1]
                assert indices[r, 0] == want
                assert torch.equal(bits(values[r]), bits(tensor[r, want : want + 1]))
            else:
                assert indices[r, 0] == -1
                if dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                    assert values[r, 0] == worst
                elif dtype in oracle.SIGNED_DTYPES:
                    info = torch.iinfo(dtype)
                    assert values[r, 0] == (info.min if largest else info.max)


KTH = torch.ops.gputopk._topk_kth.default


@DTYPES
@FLAGS
@MAGNITUDE
def test_of_an_int_k_the_last_alone_has_its_place(dtype, largest, magnitude):
    """Of rows that are tiny, short, long, in parts and all wanted, along any dimension."""
    flags = {"largest": largest, "magnitude": magnitude}
    for rows, cols, k in ((9, 5, 3), (9, 60, 7), (3, 3000, 300), (2, 40_000, 5000), (4, 60, 60)):
        for family in FAMILIES:
            tensor = make(dtype, family, rows, cols)
            for dim, index_dtype in ((1, torch.int64), (0, torch.int32)):
                whole = tensor if dim == 1 else tensor.t().contiguous()
                options = {**flags, "index_dtype": index_dtype}
                oracle.assert_topk(KTH(whole, k, dim, **options), whole, k, dim, **options, last_alone=True)


def test_the_kth_of_many_and_its_mask():
    for cols, k in ((20_000, 5000), (300_000, 70_000)):
        tensor = make(torch.float32, rows=3, cols=cols)
        for largest in (True, False):
            order = ranking(tensor, largest)
            values, indices = torch_topk.kth_value(tensor, k, largest=largest)
            assert torch.equal(indices, order[:, k - 1 : k])
            assert torch.equal(bits(values), bits(tensor).gather(1, indices))
            assert torch.equal(torch_topk.topk_mask(tensor, k, largest=largest), first_of(order, [k] * 3))


def test_the_kth_under_transforms():
    tensor = make(torch.float64, "normal", 6, 40)
    want = torch_topk.kth_value(tensor, 5)
    batches = tensor.view(2, 3, 40)
    for in_dim, batch in ((0, batches), (1, batches.transpose(0, 1))):
        got = torch.vmap(lambda x: tuple(torch_topk.kth_value(x, 5)), in_dim)(batch)
        for one, whole in zip(got, want, strict=True):
            assert torch.equal(one.reshape(6, 1), whole)
    columns = torch.vmap(lambda x: torch_topk.kth_value(x, 5, 0).indices, 1)(tensor.t())
    assert torch.equal(columns, want.indices)
    for one in torch.vmap(lambda x: KTH(x, 3, 0))(tensor):
        assert one.shape == (6, 3)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.vmap(lambda x: KTH(x, 41, 0))(tensor)

    def total(x):
        return torch_topk.kth_value(x, 5).values.square().sum()

    grad = torch.zeros_like(tensor).scatter(1, want.indices, 2 * want.values)
    assert torch.equal(torch.func.grad(total)(tensor), grad)
    rows = torch.vmap(torch.func.grad(total))(tensor)
    assert torch.equal(rows, grad)
    _, slope = torch.func.jvp(total, (tensor,), (torch.ones_like(tensor),))
    assert torch.allclose(slope, grad.sum())


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_kth_compiles_whole(dynamic):
    torch._dynamo.reset()
    function = torch.compile(
        lambda x, k: tuple(torch_topk.kth_value(x, k)), fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for cols, k in ((60, 5), (6000, 4097), (70, 6)):
        tensor = make(torch.float32, cols=cols)
        for got, want in zip(function(tensor, k), torch_topk.kth_value(tensor, k), strict=True):
            assert torch.equal(got, want)
    leaf = make(torch.float32).requires_grad_()
    function(leaf, 5)[0].sum().backward()
    at = torch_topk.kth_value(leaf.detach(), 5).indices
    assert torch.equal(leaf.grad, torch.zeros_like(leaf).scatter(1, at, 1.0))


@FLAGS
def test_an_int_k_with_lengths(largest):
    tensor = make(torch.float32)
    lengths = torch.tensor([3, 4, 5, 6, 60, 100, 0])
    indices = torch_topk.kth_value(tensor, 5, largest=largest, lengths=lengths).indices
    for r, size in enumerate(lengths.clamp(0, COLS).tolist()):
        want = ranking(tensor[r : r + 1, :size], largest)[0, 4] if size >= 5 else -1
        assert indices[r, 0] == want


@DTYPES
@FLAGS
@MAGNITUDE
def test_the_mask_is_the_set_that_topk_selects(dtype, largest, magnitude):
    for family in FAMILIES:
        tensor = make(dtype, family)
        order = ranking(tensor, largest, magnitude)
        for k in (-1, 0, 1, 7, COLS - 1, COLS, COLS + 9):
            want = first_of(order, [k if 0 < k < COLS else COLS] * ROWS)
            for count in (k, torch.tensor(k), torch.full((ROWS,), k)):
                got = torch_topk.topk_mask(tensor, count, largest=largest, magnitude=magnitude)
                assert torch.equal(got, want)


@DTYPES
@FLAGS
@MAGNITUDE
def test_few_of_long_rows_are_listed_and_others_compared(dtype, largest, magnitude):
    flags = {"largest": largest, "magnitude": magnitude}
    fill = 1 if dtype == torch.bool or not dtype.is_floating_point else 1.5
    for family, cols in ((FAMILIES[0], 640), (FAMILIES[1], 3000)):
        tensor = make(dtype, family, 3, cols)
        order = ranking(tensor, largest, magnitude)
        for k in (1, cols // 32, cols // 32 + 1, cols // 2):
            mask = first_of(order, [k] * 3)
            assert torch.equal(torch_topk.topk_mask(tensor, k, **flags), mask)
            assert torch.equal(torch_topk.topk_mask(tensor.t(), k, 0, **flags), mask.t())
            want = torch.where(mask, bits(tensor), bits(torch.tensor([fill]).to(dtype)))
            assert torch.equal(bits(torch_topk.keep_topk(tensor, k, fill, **flags)), want)
            for dim, changed in ((1, tensor.clone()), (0, tensor.t().clone())):
                version = changed._version
                assert torch_topk.keep_topk_(changed, k, fill, dim, **flags) is changed
                assert torch.equal(bits(changed if dim else changed.t().contiguous()), want)
                assert changed._version > version


def test_masks_under_vmap_and_of_leaves():
    tensor = make(torch.float64, "normal", 6, 640)
    k = torch.tensor([3, 0, 7, 640, 300, 1])
    for count in (5, 300):
        want = torch_topk.topk_mask(tensor, count)
        batches = tensor.view(2, 3, 640)
        for in_dim, batch in ((0, batches), (1, batches.transpose(0, 1))):
            got = torch.vmap(lambda x: torch_topk.topk_mask(x, count), in_dim)(batch)  # noqa: B023
            assert torch.equal(got.reshape(6, 640), want)
        leaf = tensor.clone().requires_grad_()
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            torch_topk.keep_topk_(leaf, count)
        with torch.no_grad():
            torch_topk.keep_topk_(leaf, count, 0.0)
        assert torch.equal(leaf, tensor.where(want, 0))
    both = torch.vmap(torch.ops.gputopk._mask_of_kth)(tensor.view(2, 3, 640), k.view(2, 3))
    assert torch.equal(both.view(6, 640), torch.ops.gputopk._mask_of_kth(tensor, k))
    shared = torch.vmap(torch.ops.gputopk._mask_of_kth, (None, 0))(tensor[:3], k.view(2, 3))
    for one, index in zip(shared, k.view(2, 3), strict=True):
        assert torch.equal(one, torch.ops.gputopk._mask_of_kth(tensor[:3], index))


@pytest.mark.parametrize(
    ("index", "lengths", "message"),
    [
        (torch.zeros(6, dtype=torch.int64), None, r"index must have shape \[7\]"),
        (torch.zeros(7), None, "index must be int32 or int64"),
        (torch.zeros(7, dtype=torch.int32), None, "index must be int64"),
        (torch.zeros(7, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), r"lengths must have shape"),
    ],
)
def test_what_a_mask_refuses(index, lengths, message):
    with pytest.raises(RuntimeError, match=f"gputopk::_mask_of_kth: {message}"):
        torch.ops.gputopk._mask_of_kth(make(torch.float32), index, lengths)


@pytest.mark.parametrize("operator", ["_topk_mask", "_keep_topk", "_keep_topk_"])
def test_operators_of_rows_refuse_what_they_cannot_do(operator):
    function = getattr(torch.ops.gputopk, operator)
    fill = () if operator == "_topk_mask" else (0,)
    name = operator.rstrip("_")
    for tensor in (make(torch.float32), make(torch.float32).to("meta")):
        for k in (-1, 0, COLS + 1):
            with pytest.raises(
                RuntimeError, match=rf"gputopk::{name}: k must be in \[1, {COLS}\], but is {k}"
            ):
                function(tensor, k, *fill)
        with pytest.raises(RuntimeError, match=f"gputopk::{name}: the input must have 2 dimensions"):
            function(tensor[0], 1, *fill)
    with pytest.raises(RuntimeError, match=f"gputopk::{name}: dtype ComplexFloat is not supported"):
        function(torch.zeros(2, 3, dtype=torch.complex64), 1, *fill)
    if operator == "_keep_topk_":
        with pytest.raises(RuntimeError, match="elements of a row must be adjacent, but are 60 apart"):
            function(torch.zeros(5, 60).t(), 1, *fill)
        with pytest.raises(RuntimeError, match="self overlaps itself"):
            function(torch.zeros(1, 60).expand(5, 60), 1, *fill)


def test_a_fill_has_its_own_sign_whatever_came_before():
    tensor = make(torch.float32, "normal") + 10
    for fill in (0.0, -0.0, 0, 0.0, -0.0, math.nan, -math.inf):
        want = torch.tensor(fill, dtype=torch.float32).view(torch.int32)
        for k in (3, 50):
            mask = torch_topk.topk_mask(tensor, k)
            for kept in (
                torch_topk.keep_topk(tensor, k, fill),
                torch_topk.keep_topk_(tensor.clone(), k, fill),
            ):
                assert torch.equal(bits(kept), torch.where(mask, bits(tensor), want))
    for number in range(600):
        torch_topk.keep_topk(tensor, 3, float(number))
    assert torch_topk._rows._bits_of_number.cache_info().currsize <= 256


def test_the_default_device_is_not_asked():
    tensor = make(torch.float32, "normal")
    want = torch_topk.keep_topk(tensor, 3, 17.25)
    torch_topk._rows._bits_of_number.cache_clear()
    with torch.device("meta"):
        assert torch.equal(torch_topk.keep_topk(tensor, 3, 17.25), want)


def test_which_rows_go_to_the_operators_of_rows(monkeypatch):
    called = []
    for name in ("_topk_mask", "_keep_topk", "_keep_topk_"):
        operator = getattr(selection, name)
        monkeypatch.setattr(
            selection, name, lambda *a, o=operator, n=name, **k: (called.append(n), o(*a, **k))[1]
        )
    whole = make(torch.float32, "normal", 12, 64)
    for rows, served in (
        (whole, True),
        (whole[::2, 3:40], True),  # rows apart
        (whole.view(3, 4, 64), True),
        (whole[0], True),
        (whole.t(), False),  # elements apart: they are read where they lie, not copied
        (whole.view(3, 4, 64).transpose(0, 1), False),
    ):
        called.clear()
        mask, kept = torch_topk.topk_mask(rows, 4), torch_topk.keep_topk(rows, 4, 0.0)
        assert torch.equal(kept, torch.where(mask, rows, 0.0))
        own = whole.clone()
        changed = own.as_strided(rows.shape, rows.stride(), rows.storage_offset())
        torch_topk.keep_topk_(changed, 4, 0.0)
        assert torch.equal(changed, kept)
        assert called == (["_topk_mask", "_keep_topk", "_keep_topk_"] if served else [])


def test_rows_apart_views_and_none():
    whole = make(torch.float32, "normal", 6, 64)
    part = whole[::2, 3:40]
    want = first_of(ranking(part), [4] * 3)
    assert torch.equal(torch_topk.topk_mask(part, 4), want)
    assert torch.equal(torch_topk.topk_mask(part[:, ::3], 4), first_of(ranking(part[:, ::3]), [4] * 3))
    kept = torch.where(want, part, 0.0)
    assert torch.equal(torch_topk.keep_topk(part, 4, 0.0), kept)
    beside = whole.clone()
    view = beside[::2, 3:40]
    torch_topk.keep_topk_(view, 4, 0.0)
    assert torch.equal(view, kept)
    view.copy_(part)
    assert torch.equal(beside, whole)
    for shape in ((0, 5), (3, 0, 5), (2, 3, 0)):
        none = torch.empty(shape)
        assert torch_topk.topk_mask(none, 2).shape == none.shape
        assert torch_topk.keep_topk(none, 2).shape == none.shape
        assert torch_topk.keep_topk_(none, 2) is none
    with torch.inference_mode():
        made_there = part.clone()
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        torch_topk.keep_topk_(made_there, 4)


def test_a_change_in_place_is_known_to_autograd():
    leaf = make(torch.float32, "normal").requires_grad_()
    hidden = leaf.exp()
    loss = hidden.square().sum()
    with torch.no_grad():
        torch_topk.keep_topk_(hidden, 3, 0.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@DTYPES
@FLAGS
def test_all_ties_of_the_kth_are_kept_where_they_are_asked_for(dtype, largest):
    tensor = make(dtype)
    order = ranking(tensor, largest)
    rank = torch.from_numpy(
        oracle.ranks(oracle.bits_of(tensor).reshape(-1), dtype, False).reshape(ROWS, COLS)
    )
    for k in (1, 20, 59):
        kth = rank.gather(1, order[:, k - 1 : k])
        want = rank >= kth if largest else rank <= kth
        for count in (k, torch.full((ROWS,), k)):
            assert torch.equal(torch_topk.topk_mask(tensor, count, largest=largest, ties="all"), want)


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
def test_any_dimension(dim):
    tensor = make(torch.float32, rows=24, cols=30).view(4, 6, 30)
    last = tensor.movedim(dim, -1)
    k = torch.arange(last[..., 0].numel()).view(last.shape[:-1]) % 5
    order = ranking(last.reshape(-1, last.shape[-1]))
    for count in (3, k):
        counts = k.reshape(-1) if isinstance(count, torch.Tensor) else torch.full((k.numel(),), 3)
        wanted = torch.where(counts == 0, last.shape[-1], counts)
        mask = first_of(order, wanted).view(last.shape).movedim(-1, dim)
        assert torch.equal(torch_topk.topk_mask(tensor, count, dim), mask)
        kept = torch.where(mask, tensor, -math.inf)
        assert torch.equal(torch_topk.keep_topk(tensor, count, dim=dim), kept)
        changed = tensor.clone()
        assert torch_topk.keep_topk_(changed, count, dim=dim) is changed
        assert torch.equal(changed, kept)
    values, indices = torch_topk.kth_value(tensor, 3, dim)
    want = torch_topk.topk(tensor, 3, dim)
    assert torch.equal(values, want.values.narrow(dim, 2, 1))
    assert torch.equal(indices, want.indices.narrow(dim, 2, 1))


@DTYPES
def test_what_is_kept_and_filled(dtype):
    tensor = make(dtype)
    lengths = torch.tensor([0, 1, 5, 20, 60, 99, -1])
    fill = 0 if dtype in (*oracle.SIGNED_DTYPES, *oracle.UNSIGNED_DTYPES, torch.bool) else -math.inf
    fill = 1.5 if dtype == torch.float8_e4m3fn else fill
    filled = torch.tensor([fill]).to(dtype)
    for k in (5, torch.full((ROWS,), 5)):
        want = bits(tensor).clone()
        for r, size in enumerate(lengths.clamp(0, COLS).tolist()):
            mask = torch.ones(COLS, dtype=torch.bool)
            if size > 5:
                mask[:size] = first_of(ranking(tensor[r : r + 1, :size]), [5])[0]
            want[r, ~mask] = bits(filled)[0]
        assert torch.equal(bits(torch_topk.keep_topk(tensor, k, fill, lengths=lengths)), want)
        mask = torch_topk.topk_mask(tensor, k, lengths=lengths)
        assert torch.equal(bits(torch.where(mask, tensor, filled[0])), want)
        changed = tensor.clone()
        torch_topk.keep_topk_(changed, k, fill, lengths=lengths)
        assert torch.equal(bits(changed), want)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("ties", ["index", "all"])
def test_a_mask_of_rows_with_lengths(largest, ties):
    tensor = make(torch.float32)
    lengths = torch.tensor([0, 1, 5, 20, 60, 99, -1])
    for k in (0, 5, COLS, torch.arange(ROWS)):
        counts = k.tolist() if isinstance(k, torch.Tensor) else [k] * ROWS
        want = torch.ones(ROWS, COLS, dtype=torch.bool)
        for r, size in enumerate(lengths.clamp(0, COLS).tolist()):
            if size > 0:
                part = tensor[r : r + 1, :size]
                want[r, :size] = torch_topk.topk_mask(part, counts[r], largest=largest, ties=ties)[0]
        flags = {"largest": largest, "ties": ties}
        assert torch.equal(torch_topk.topk_mask(tensor, k, lengths=lengths, **flags), want)
        assert torch.equal(torch_topk.topk_mask(tensor, k, lengths=lengths.int(), **flags), want)
        assert torch.equal(torch_topk.topk_mask(tensor.t(), k, 0, lengths=lengths, **flags), want.t())
        meta = torch_topk.topk_mask(tensor.to("meta"), 5, lengths=lengths.to("meta"), **flags)
        assert meta.is_meta and meta.shape == want.shape and meta.dtype == torch.bool
    batched = torch.vmap(lambda x, n: torch_topk.topk_mask(x, 5, lengths=n, largest=largest, ties=ties))
    want = torch_topk.topk_mask(tensor, 5, lengths=lengths, largest=largest, ties=ties)
    assert torch.equal(batched(tensor.unsqueeze(1), lengths.unsqueeze(1)).squeeze(1), want)


def test_the_gradient_passes_through_the_mask():
    leaf = make(torch.float64, "normal").requires_grad_()
    mask = torch_topk.topk_mask(leaf, 4)
    assert not mask.requires_grad
    for keep in (lambda x: torch_topk.keep_topk(x, 4, 0.0), lambda x: torch_topk.keep_topk_(x * 1, 4, 0.0)):
        (grad,) = torch.autograd.grad(keep(leaf).square().sum(), leaf)
        assert torch.equal(grad, torch.where(mask, 2 * leaf, 0))
    values, indices = torch_topk.kth_value(leaf, 4)
    (grad,) = torch.autograd.grad(values.sum(), leaf)
    assert torch.equal(grad, torch.zeros_like(leaf).scatter(1, indices, 1.0))


def test_shapes_without_elements_or_dimensions():
    assert torch_topk.topk_mask(torch.tensor(3.0), 1).shape == ()
    assert torch_topk.keep_topk(torch.tensor(3.0), torch.tensor(5)) == 3
    assert torch_topk.kth_value(torch.tensor(3.0), 1) == (torch.tensor(3.0), torch.tensor(0))
    empty = torch.empty(3, 0)
    assert torch_topk.topk_mask(empty, 2).shape == (3, 0)
    values, indices = torch_topk.kth_value(empty, torch.tensor(1))
    assert indices.tolist() == [[-1]] * 3 and (values == -math.inf).all()
    assert torch_topk.kth_value(torch.empty(0, 9), 4).values.shape == (0, 1)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: torch_topk.kth_value(x, 0), RuntimeError, "k is 0, and dimension 1 has size 60"),
        (lambda x: torch_topk.kth_value(x, 61), RuntimeError, "k is 61, and dimension 1 has size 60"),
        (lambda x: torch_topk.kth_value(x, True), TypeError, "'k' must be int or Tensor, not bool"),
        (lambda x: torch_topk.kth_value(x, 1, 2), IndexError, r"\[-2, 1\], but got 2"),
        (lambda x: torch_topk.topk_mask(x, torch.ones(3)), TypeError, "k must be int32 or int64"),
        (
            lambda x: torch_topk.topk_mask(x, torch.ones(3, dtype=torch.int64)),
            RuntimeError,
            r"k has shape \[3\], but there are \[7\] rows",
        ),
        (
            lambda x: torch_topk.topk_mask(x, 3, lengths=torch.ones(3, dtype=torch.int64)),
            RuntimeError,
            r"lengths has shape \[3\], but there are \[7\] rows",
        ),
        (lambda x: torch_topk.topk_mask(x, 3, ties="some"), ValueError, "ties must be one of index, all"),
        (lambda x: torch_topk.keep_topk(x.int(), 3), RuntimeError, "fill is -inf, which torch.int32"),
        (lambda x: torch_topk.keep_topk([1], 3), TypeError, "'input' must be Tensor, not list"),
    ],
)
def test_errors_name_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call(make(torch.float32))


@pytest.mark.parametrize("threads", [1, 3])
def test_long_rows_have_their_own_k(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        tensor = make(torch.float32, rows=4, cols=300_000)
        k = torch.tensor([1, 299_999, 150_000, 5], dtype=torch.int32)
        lengths = torch.tensor([300_000, 300_000, 200_000, 9], dtype=torch.int32)
        for largest in (True, False):
            indices = torch_topk.kth_value(tensor, k, largest=largest, lengths=lengths).indices
            for r in range(4):
                order = ranking(tensor[r : r + 1, : int(lengths[r])], largest)
                assert indices[r, 0] == order[0, int(k[r]) - 1]
    finally:
        torch.set_num_threads(before)


def test_the_sort_of_other_devices_agrees():
    tensor = make(torch.float32)
    k, lengths = torch.tensor([0, 1, 5, 60, 61, -1, 7]), torch.tensor([5, 1, 4, 60, 60, 3, 30])
    rank = k.unsqueeze(-1)
    for given in (None, lengths):
        want = selection._kth_by_sorting("kth_value", tensor, rank, False, True, given)
        got = torch_topk.kth_value(tensor, k, largest=False, magnitude=True, lengths=given).indices
        assert torch.equal(got, want)


@pytest.mark.parametrize("k", [3, 50])
def test_opcheck_accepts_the_operators_of_rows(k):
    tensor = make(torch.float32)
    torch.library.opcheck(torch.ops.gputopk._topk_mask.default, (tensor, k), {"largest": False})
    torch.library.opcheck(torch.ops.gputopk._keep_topk.default, (tensor, k, 7), {"magnitude": True})
    torch.library.opcheck(torch.ops.gputopk._keep_topk_.default, (tensor, k, 7), {})
    torch.library.opcheck(torch.ops.gputopk._keep_topk_.default, (tensor.repeat(1, 2)[:, :COLS], k, 7), {})
    for rows in (make(torch.bfloat16), torch.zeros(0, COLS)):
        torch.library.opcheck(torch.ops.gputopk._keep_topk.default, (rows, k, 7), {})
    torch.library.opcheck(torch.ops.gputopk._topk_mask.default, (tensor, COLS), {})


def test_opcheck_accepts_the_operator():
    operator = torch.ops.gputopk.kth_value.default
    tensor, k = make(torch.float32), torch.arange(ROWS)
    torch.library.opcheck(operator, (tensor, k), {})
    torch.library.opcheck(operator, (tensor, k.int()), {"lengths": k * 9, "largest": False})
    with pytest.raises(RuntimeError, match=r"gputopk::kth_value: k must have shape \[7\]"):
        operator(tensor, k[:3])
    with pytest.raises(RuntimeError, match="gputopk::kth_value: lengths must be int32 or int64, not float32"):
        operator(tensor, k, lengths=k.float())


def test_opcheck_accepts_the_operator_of_an_int_k():
    tensor = make(torch.float32)
    for arguments, options in (
        ((tensor, 5), {}),
        ((tensor, 2, 0, False), {"magnitude": True, "index_dtype": torch.int32}),
        ((tensor, 0), {}),
        ((torch.tensor(2.0), 1), {}),
        ((torch.zeros(0, 4), 2), {}),
        ((tensor.clone().requires_grad_(), 5), {}),
    ):
        torch.library.opcheck(KTH, arguments, options)
    assert not KTH(tensor.clone().requires_grad_(), 5)[0].requires_grad
    assert KTH(torch.empty(3, 9, device="meta"), 4)[1].shape == (3, 4)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        KTH(tensor, 61)


def test_they_compile_whole():
    tensor = make(torch.float32)
    k = torch.arange(ROWS)

    def function(x, k):
        kth = torch_topk.kth_value(x, k)
        y = torch_topk.keep_topk_(x.clone(), k)
        return kth.values, kth.indices, y, torch_topk.topk_mask(x, 5), torch_topk.keep_topk(x, 3)

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for got, want in zip(compiled(tensor, k), function(tensor, k), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("k", [1, 9, torch.tensor(3)], ids=str)
def test_views_of_negatives_are_filled(k):
    negatives = torch.complex(torch.zeros(60), make(torch.float32)[0]).conj().imag
    want = torch_topk.keep_topk(negatives.resolve_neg(), k, 0.0)
    for fill_in in (torch_topk.keep_topk_, torch_topk.top_k_top_p_filter_):
        assert fill_in(negatives, k, fill=0.0) is negatives
        assert negatives.is_neg() and torch.equal(negatives, want)
        negatives = torch.complex(torch.zeros(60), make(torch.float32)[0]).conj().imag
