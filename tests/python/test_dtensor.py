"""Every function on DTensors, over gloo processes: what the whole tensors give, bit for bit, and where.

Rows lie unevenly, and some ranks have none. tests/python/test_sharding.py has topk's gradients and operators.
"""

from __future__ import annotations

import functools
import itertools
import warnings

import pytest
import torch
import torch.distributed

import torch_topk
from tests import inputs, oracle
from tests.python import gloo

pytest.importorskip("torch.distributed.tensor.experimental")
pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)

COLS = 40


def meshes(world):
    from torch.distributed.device_mesh import init_device_mesh

    kind = gloo.device().type
    made = [init_device_mesh(kind, (world,))]
    return [*made, init_device_mesh(kind, (2, 2))] if world == 4 else made


def every_placement(mesh, dims):
    from torch.distributed.tensor import Replicate, Shard

    return itertools.product((Replicate(), *map(Shard, range(dims))), repeat=mesh.ndim)


def of_rows(mesh):
    return list(every_placement(mesh, 1))


def whole(mesh):
    from torch.distributed.tensor import Replicate

    return (Replicate(),) * mesh.ndim


def dealt(tensor, mesh, placements):
    from torch.distributed.tensor import distribute_tensor

    # Every rank has the whole: nothing need be sent, which gloo and NCCL could not do of every dtype.
    return distribute_tensor(tensor.clone(), mesh, placements, src_data_rank=None)


def uncut(placements, dim):
    from torch.distributed.tensor import Replicate, Shard

    return tuple(Replicate() if place == Shard(dim) else place for place in placements)


def assert_same(got, want, placements):
    """The bits, the placements, and that what this rank has is its part of the whole."""
    got, want = ([t] if isinstance(t, torch.Tensor) else list(t) for t in (got, want))
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        if other is None:
            assert one is None
            continue
        assert one.placements == tuple(placements), (one.placements, placements)
        assert one.dtype == other.dtype and one.shape == other.shape
        part = dealt(other, one.device_mesh, placements).to_local()
        local = one.to_local()
        assert local.shape == part.shape
        assert torch.equal(oracle.as_ints(local.contiguous()), oracle.as_ints(part.contiguous()))


class Collectives:
    """Which collectives run within, by name."""

    def __enter__(self):
        from torch.distributed.tensor.debug import CommDebugMode

        self.mode = CommDebugMode()
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        self.names = {str(name) for name, count in self.mode.get_comm_counts().items() if count > 0}


def numbers_of_rows(rows, most):
    return torch.tensor([0, most, 1, most + 5, -3, 7, 2])[:rows]


def check_topk(world):
    """Rows stay where they are, whatever their number; of a row that is cut only winners are sent."""
    for mesh, rows in itertools.product(meshes(world), (1, 7)):
        for dtype in (torch.float32, torch.uint8, torch.bfloat16):
            tensor = inputs.make("few_distinct", rows, COLS * 5, dtype).view(rows, COLS, 5)
            for placements, dim in itertools.product(every_placement(mesh, 3), (1, 2)):
                sharded = dealt(tensor, mesh, placements)
                for k, options in (
                    (2, {}),
                    (2, {"largest": False, "order": "index"}),
                    (5, {"magnitude": True}),
                ):
                    with Collectives() as seen:
                        got = torch_topk.topk(sharded, k, dim, index_dtype=torch.int32, **options)
                    want = torch_topk.topk(tensor, k, dim, index_dtype=torch.int32, **options)
                    assert_same(got, want, uncut(placements, dim))
                    if uncut(placements, dim) == placements:
                        assert not seen.names, seen.names


def check_only_winners_are_sent(world):
    from torch.distributed.tensor import Shard

    for mesh in meshes(world):
        for at in range(mesh.ndim):
            placements = list(whole(mesh))
            placements[at] = Shard(1)
            for cols, k, dtype in ((1001, 9, torch.float64), (3, 1, torch.float32), (4001, 100, torch.int64)):
                tensor = inputs.make("few_distinct", 5, cols, dtype)
                sharded = dealt(tensor, mesh, placements)
                for options in ({}, {"largest": False}, {"magnitude": True, "order": "index"}):
                    with Collectives() as seen:
                        got = torch_topk.topk(sharded, k, **options)
                    assert_same(got, torch_topk.topk(tensor, k, **options), whole(mesh))
                    gathers = any("c10d_functional" in name for name in seen.names)
                    assert gathers == (cols == 3), seen.names
                with Collectives() as seen:
                    mask = torch_topk.topk_mask(sharded, k)
                assert_same(mask, torch_topk.topk_mask(tensor, k), placements)


def check_out(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        tensor = inputs.make("few_distinct", rows, COLS)
        want = torch_topk.topk(tensor, 3)
        for placements, placed in itertools.product(every_placement(mesh, 2), every_placement(mesh, 2)):
            outs = [dealt(torch.zeros_like(one), mesh, placed) for one in want]
            before = [out._version for out in outs]
            got = torch_topk.topk(dealt(tensor, mesh, placements), 3, out=tuple(outs))
            assert got[0] is outs[0] and got[1] is outs[1]
            assert all(out._version > version for out, version in zip(outs, before, strict=True))
            assert_same(got, want, placed)


def check_kth_value(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        tensor = inputs.make("mixed_rows", rows, COLS)
        counts, lengths = numbers_of_rows(rows, COLS), numbers_of_rows(rows, 20).flip(0)
        for placements in every_placement(mesh, 2):
            kept = uncut(placements, 1)
            for k, length in itertools.product((9, counts, torch.tensor(9)), (None, lengths)):
                want = torch_topk.kth_value(tensor, k, largest=False, lengths=length)
                for numbers in of_rows(mesh):
                    given = [
                        dealt(n, mesh, numbers if n.dim() == 1 else whole(mesh))
                        if isinstance(n, torch.Tensor) else n
                        for n in (k, length)
                    ]  # fmt: skip
                    sharded = dealt(tensor, mesh, placements)
                    got = torch_topk.kth_value(sharded, given[0], largest=False, lengths=given[1])
                    assert_same(got, want, kept)
        # The dimension that is selected along first.
        sharded = dealt(tensor.t().contiguous(), mesh, of_rows(mesh)[-1])
        got = torch_topk.kth_value(sharded, dealt(counts, mesh, of_rows(mesh)[-1]), 0)
        assert_same(got, torch_topk.kth_value(tensor.t(), counts, 0), whole(mesh))


def check_masks(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        tensor = inputs.make("few_distinct", rows, COLS)
        counts, lengths = numbers_of_rows(rows, COLS), numbers_of_rows(rows, 20).flip(0)
        for placements in every_placement(mesh, 2):
            sharded = dealt(tensor, mesh, placements)
            for k, ties in itertools.product((0, 9, COLS, counts), ("index", "all")):
                given = dealt(k, mesh, of_rows(mesh)[-1]) if k is counts else k
                want = torch_topk.topk_mask(tensor, k, ties=ties)
                with Collectives() as seen:
                    got = torch_topk.topk_mask(sharded, given, ties=ties)
                assert_same(got, want, placements)
                if uncut(placements, 1) == placements and k is not counts:
                    assert not seen.names, seen.names
                want = torch_topk.keep_topk(tensor, k, 0.5, ties=ties, magnitude=True)
                got = torch_topk.keep_topk(sharded, given, 0.5, ties=ties, magnitude=True)
                assert_same(got, want, placements)
            given = [dealt(n, mesh, uncut(of_rows(mesh)[-1], 1)) for n in (counts, lengths)]
            mine = dealt(tensor, mesh, placements)
            got = torch_topk.keep_topk_(mine, given[0], lengths=given[1])
            assert got is mine
            assert_same(mine, torch_topk.keep_topk(tensor, counts, lengths=lengths), placements)
            got = torch_topk.topk_mask(dealt(tensor, mesh, placements), given[0], lengths=given[1])
            assert_same(got, torch_topk.topk_mask(tensor, counts, lengths=lengths), placements)
        # Of dtypes that gloo or NCCL does not carry; rows are gathered where k is a tensor.
        for dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2):
            tensor = inputs.make("few_distinct", rows, 10 * COLS, dtype)
            for placements, k in itertools.product(every_placement(mesh, 2), (5, counts)):
                given = dealt(k, mesh, of_rows(mesh)[-1]) if k is counts else k
                mine = dealt(tensor, mesh, placements)
                torch_topk.keep_topk_(mine, given, 7)
                assert_same(mine, torch_topk.keep_topk(tensor, k, 7), placements)


def check_gradients(world):
    """Through masks and k-th values, as of the whole."""
    for mesh in meshes(world):
        tensor = inputs.make("normal", 7, COLS, torch.float64)
        weights = inputs.make("normal", 7, COLS, torch.float64, seed=1)
        for placements in every_placement(mesh, 2):
            for function in (
                lambda x: torch_topk.keep_topk(x, 3, 0.0),
                lambda x: torch_topk.kth_value(x, 3).values,
                lambda x: torch_topk.kth_value(x, torch.tensor(3)).values,
                lambda x: torch_topk.keep_topk_(x * 2, 3, 0.0),
                lambda x: torch_topk.top_k_top_p_filter_(x * 2, 9, 0.5, fill=0.0),
            ):
                leaf, other = (
                    tensor.clone().requires_grad_(),
                    dealt(tensor, mesh, placements).requires_grad_(),
                )
                (function(leaf) * weights[:, :1]).pow(2).sum().backward()
                (function(other) * dealt(weights[:, :1], mesh, whole(mesh))).pow(2).sum().backward()
                assert torch.equal(other.grad.full_tensor(), leaf.grad)


def check_sampling(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        logits = inputs.make("few_distinct", rows, COLS)
        k, p, min_p = numbers_of_rows(rows, COLS), torch.linspace(0.1, 1.0, rows), torch.linspace(0, 1, rows)
        settings = [(9, None, None), (9, 0.5, None), (k, 0.7, None), (k, None, None), (None, p, None)]
        settings += [(None, None, 0.25), (9, p, min_p), (k, p, min_p), (0, 1.0, None)]
        for placements, setting in itertools.product(every_placement(mesh, 2), settings):
            want = torch_topk.top_k_top_p_filter_(logits.clone(), *setting)
            numbers = of_rows(mesh)[-1]
            given = [dealt(n, mesh, numbers) if isinstance(n, torch.Tensor) else n for n in setting]
            mine = dealt(logits, mesh, placements)
            assert torch_topk.top_k_top_p_filter_(mine, *given) is mine
            assert_same(mine, want, placements)


def varlen_options(rows):
    each = torch.arange(rows)
    page_table = torch.arange(rows * 5, dtype=torch.int32).view(rows, 5).flip(0)
    pages = {"page_size": 8, "page_start": (each % 3).int()}
    yield {}
    yield {"lengths": numbers_of_rows(rows, COLS), "starts": each * 3}
    yield {"row_k": each % 4, "mask": inputs.make("few_distinct", rows, COLS) > 0, "offsets": each * 1000}
    yield {"mask": torch.arange(COLS) % 3 == 0, "order": "value", "return_values": False}
    yield {"ids": torch.arange(rows * COLS).view(rows, COLS).int() - 50}
    yield {"ids": torch.arange(COLS).int().flip(0), "largest": False, "magnitude": True}
    yield {"page_table": page_table, **pages}
    yield {"page_table": page_table[: rows - 1], **pages}  # the last row has none
    yield {"page_table": torch.cat((page_table, page_table)), **pages}
    yield {"page_table": page_table[:2], "page_row": (each % 2).int(), **pages}


def check_varlen(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        tensor = inputs.make("few_distinct", rows, COLS)
        for options, placements in itertools.product(varlen_options(rows), of_rows(mesh)):
            options = {"order": "index", **options}
            want = torch_topk.topk_varlen(tensor, 6, **options)
            for numbers in of_rows(mesh):
                given = {
                    name: dealt(option, mesh, numbers) if isinstance(option, torch.Tensor) else option
                    for name, option in options.items()
                }
                sharded = dealt(tensor, mesh, placements)
                assert_same(torch_topk.topk_varlen(sharded, 6, **given), want, placements)
            if want.values is not None:
                outs = [dealt(torch.zeros_like(one), mesh, placements) for one in want[:2]]
                got = torch_topk.topk_varlen(dealt(tensor, mesh, placements), 6, out=tuple(outs), **given)
                assert got.values is outs[0] and got.indices is outs[1]
                assert_same(got, want, placements)
        with Collectives() as seen:
            lengths = dealt(numbers_of_rows(rows, COLS), mesh, of_rows(mesh)[-1])
            torch_topk.topk_varlen(dealt(tensor, mesh, of_rows(mesh)[-1]), 6, lengths=lengths)
        assert not any("gather" in name for name in seen.names), seen.names


def queries(rows, place, place_beside):
    """topk_where by one key and by two, along dimension 1 of three."""
    score = place(inputs.make("few_distinct", rows, COLS * 5, torch.int32).view(rows, COLS, 5))
    other = place(inputs.make("few_distinct", rows, COLS * 5).view(rows, COLS, 5))
    limits = place_beside(torch.linspace(-2, 2, rows * 5).view(rows, 5))
    shared = place_beside(torch.arange(COLS) % 3 > 0)
    condition = torch_topk.Condition(other, "<=", limits)
    one = torch_topk.topk_where(score, (shared, condition), 4, 1)
    two = torch_topk.topk_where((score, other), condition, 4, 1, largest=(True, False), order="index")
    return (one.values, *one[1:]), (*two.values, *two[1:])


def check_where(world):
    """Rows stay where they are; what is beside them comes there."""
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        wanted = queries(rows, torch.clone, torch.clone)
        for placements, beside in itertools.product(every_placement(mesh, 3), of_rows(mesh)):
            place = functools.partial(dealt, mesh=mesh, placements=placements)
            place_beside = functools.partial(dealt, mesh=mesh, placements=beside)
            if uncut(placements, 1) != placements:
                with pytest.raises(RuntimeError, match=r"topk_where\(\): score is placed .* dimension 1"):
                    queries(rows, place, place_beside)
                continue
            for got, want in zip(queries(rows, place, place_beside), wanted, strict=True):
                assert_same(got[:-1], want[:-1], placements)
                assert torch.equal(got[-1].full_tensor(), want[-1])


def check_merge(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        lists = inputs.make("few_distinct", 4 * rows, 6).view(4, rows, 6)
        ids = torch.arange(4 * rows * 6).flip(0).view(4, rows, 6) % 90 - 3
        for options in ({}, {"unique": True}, {"tie": "position", "order": "index", "largest": False}):
            for k in (5, 30):
                want = torch_topk.merge_topk(lists, ids, k, **options)
                for placements in every_placement(mesh, 3):
                    got = torch_topk.merge_topk(
                        dealt(lists, mesh, placements), dealt(ids, mesh, whole(mesh)), k, **options
                    )
                    rows_at = [place.is_shard(1) for place in placements]
                    first = of_rows(mesh)[-1]
                    kept = [s if r else w for s, r, w in zip(first, rows_at, whole(mesh), strict=True)]
                    assert_same(got, want, kept)
                for placements in every_placement(mesh, 2):
                    got = torch_topk.merge_topk(
                        [dealt(one, mesh, placements) for one in lists],
                        [dealt(one, mesh, of_rows(mesh)[-1]) for one in ids],
                        k,
                        **options,
                    )
                    assert_same(got, want, uncut(placements, 1))


def check_sparsify(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        tensors = {name: inputs.make("few_distinct", rows, COLS, seed=i) for i, name in enumerate("sam")}
        for placements, numbers in itertools.product(of_rows(mesh), of_rows(mesh)):
            for names in ({}, {"add": "a"}, {"add": "a", "momentum": "m"}):
                whole_of = {name: tensors[key].clone() for name, key in {"self": "s", **names}.items()}
                part_of = {
                    name: dealt(one, mesh, numbers if name == "add" else placements)
                    for name, one in whole_of.items()
                }
                mu = {"mu": 0.5} if "momentum" in names else {}
                want, got = (torch_topk.sparsify_(k=4, **each, **mu) for each in (whole_of, part_of))
                assert_same(got, want, placements)
                for name in whole_of:
                    assert_same(part_of[name], whole_of[name], numbers if name == "add" else placements)
        flat, alike = tensors["s"].flatten(), dealt(tensors["s"].flatten(), mesh, whole(mesh))
        assert_same(torch_topk.sparsify_(alike, 9), torch_topk.sparsify_(flat, 9), whole(mesh))


def check_rerank(world):
    for mesh, rows in itertools.product(meshes(world), (3, 7)):
        queries = inputs.make("few_distinct", rows, 16)
        vectors = inputs.make("few_distinct", 50, 16, seed=1)
        ids = (torch.arange(rows * 12) * 7 % 53 - 1).view(rows, 12)
        ends = torch.tensor([0, 5, 5, 12, 20, 21, 30, 40])[: rows + 1]
        allow, payload = torch.arange(50) % 5 > 0, torch.arange(50) * 10
        calls = [
            (ids, {}),
            (ids[0], {"return_positions": True}),
            (ids, {"lengths": numbers_of_rows(rows, 12), "allow": allow}),
            (ids, {"payload": payload, "unique": True, "return_positions": True}),
            (ids.flatten()[: int(ends[-1])], {"row_offsets": ends}),
            (ids.flatten()[: int(ends[-1])], {"row_offsets": ends, "return_positions": True, "unique": True}),
        ]
        for (candidates, options), placements in itertools.product(calls, of_rows(mesh)):
            want = torch_topk.rerank(queries, vectors, candidates, 3, **options)
            for numbers in of_rows(mesh):
                given = {
                    name: dealt(option, mesh, numbers) if isinstance(option, torch.Tensor) else option
                    for name, option in options.items()
                }
                arguments = (
                    dealt(queries, mesh, placements),
                    dealt(vectors, mesh, whole(mesh)),
                    dealt(candidates, mesh, numbers),
                )
                got = torch_topk.rerank(*arguments, 3, **given)
                assert type(got) is type(want)
                assert_same(got, want, placements)
            outs = tuple(dealt(torch.zeros_like(one), mesh, placements) for one in want)
            got = torch_topk.rerank(*arguments, 3, **given, out=outs)
            assert all(one is out for one, out in zip(got, outs, strict=True))
            assert_same(got, want, placements)
        want = torch_topk.knn(queries, vectors, 3, allow=allow)
        for placements in of_rows(mesh):
            sharded = dealt(queries, mesh, placements), dealt(vectors, mesh, whole(mesh))
            got = torch_topk.knn(*sharded, 3, allow=dealt(allow, mesh, of_rows(mesh)[-1]))
            assert_same(got, want, placements)


def check_partial(world):
    """What is pending a reduction is reduced first, and never changed in place."""
    from torch.distributed.tensor import DTensor, Partial

    mesh = meshes(world)[0]
    tensor = inputs.make("few_distinct", 7, COLS)

    def pending(whole_tensor):
        part = whole_tensor if mesh.get_rank() == 0 else torch.zeros_like(whole_tensor)
        return DTensor.from_local(part.clone(), mesh, [Partial()])

    lengths = numbers_of_rows(7, 20)
    assert_same(torch_topk.topk(pending(tensor), 5), torch_topk.topk(tensor, 5), whole(mesh))
    assert_same(torch_topk.kth_value(pending(tensor), 5), torch_topk.kth_value(tensor, 5), whole(mesh))
    assert_same(torch_topk.topk_mask(pending(tensor), 5), torch_topk.topk_mask(tensor, 5), whole(mesh))
    for numbers in of_rows(mesh):
        got = torch_topk.topk_varlen(dealt(tensor, mesh, numbers), 5, lengths=pending(lengths))
        assert_same(got, torch_topk.topk_varlen(tensor, 5, lengths=lengths), numbers)
    for name, call in (
        ("keep_topk_", lambda: torch_topk.keep_topk_(pending(tensor), 3)),
        ("top_k_top_p_filter_", lambda: torch_topk.top_k_top_p_filter_(pending(tensor), 3, 0.5)),
        ("sparsify_", lambda: torch_topk.sparsify_(pending(tensor), 3)),
    ):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): \w+ is placed \(Partial.* in place"):
            call()


def check_rows_of_any_number(world):
    """Not as torch.chunk deals them: nothing but each rank's own rows is looked at."""
    from torch.distributed.tensor import DTensor, Shard

    mesh = meshes(world)[0]
    sizes = [5, 0, 1, 2][:world]
    begin, rank = sum(sizes[: mesh.get_rank()]), mesh.get_rank()
    tensor = inputs.make("few_distinct", sum(sizes), COLS)
    lengths = torch.arange(sum(sizes)) * 3

    def mine(one):
        part = one[begin : begin + sizes[rank]]
        return DTensor.from_local(part, mesh, [Shard(0)], shape=one.shape, stride=one.stride()), part

    (sharded, part), (numbers, some) = mine(tensor), mine(lengths)
    for got, want in (
        (torch_topk.topk(sharded, 4), torch_topk.topk(part, 4)),
        (torch_topk.kth_value(sharded, numbers), torch_topk.kth_value(part, some)),
        (torch_topk.topk_varlen(sharded, 4, lengths=numbers), torch_topk.topk_varlen(part, 4, lengths=some)),
    ):
        for one, other in zip(got, want, strict=True):
            assert one.shape[0] == sum(sizes) and torch.equal(one.to_local(), other)


def check_refusals(world):
    from torch.distributed.tensor import Shard

    mesh = meshes(world)[-1]
    along = [Shard(1)] * mesh.ndim
    tensor, numbers = inputs.make("few_distinct", 8, COLS), torch.arange(8)
    sharded, rows, cut = (
        dealt(tensor, mesh, whole(mesh)),
        dealt(numbers, mesh, whole(mesh)),
        dealt(tensor, mesh, along),
    )
    flat, ids = dealt(tensor.flatten(), mesh, of_rows(mesh)[-1]), dealt(numbers, mesh, whole(mesh))
    short = dealt(numbers[:5], mesh, whole(mesh))
    outs = dealt(torch.zeros(8, 3), mesh, along), dealt(torch.zeros(8, 3).long(), mesh, whole(mesh))
    wide = dealt(torch.zeros(8, 4), mesh, whole(mesh))
    t = torch_topk
    for call, words in (
        (lambda: t.topk_varlen(cut, 3), r"topk_varlen\(\): input is placed .* dimension 1, as rows must be"),
        (lambda: t.sparsify_(cut, 3), r"sparsify_\(\): self is placed .* dimension 1"),
        (lambda: t.sparsify_(flat, 3), r"sparsify_\(\): self is placed .* dimension 0"),
        (lambda: t.rerank(cut, sharded, ids, 3), r"rerank\(\): queries is placed"),
        (lambda: t.rerank(sharded, cut, ids, 3), r"rerank\(\): vectors are placed"),
        (lambda: t.knn(sharded, cut, 3), r"knn\(\): vectors are placed"),
        (lambda: t.kth_value(sharded, numbers), r"kth_value\(\): k is a torch.Tensor"),
        (lambda: t.kth_value(tensor, rows), r"kth_value\(\): input is a torch.Tensor"),
        (lambda: t.kth_value(sharded, short), r"kth_value\(\): k has shape \[5\], but there are \[8\] rows"),
        (lambda: t.kth_value(cut, 0), r"kth_value\(\): selected index k out of range: k is 0"),
        (lambda: t.topk(cut, COLS + 1), f"selected index k out of range: k is {COLS + 1}"),
        (lambda: t.topk_varlen(tensor, 3, lengths=rows), r"topk_varlen\(\): input is a torch.Tensor"),
        (lambda: t.topk_varlen(sharded, 3, lengths=short), r"topk_varlen\(\): lengths has shape \[5\]"),
        (lambda: t.topk_varlen(sharded, 3, out=outs), r"topk_varlen\(\): values, which is written to"),
        (
            lambda: t.topk(sharded, 3, out=(wide, outs[1])),
            r"Expected out DTensor .* shape \[8, 3\]",
        ),
        (lambda: t.topk(tensor, 3, out=outs), r"topk\(\): input is a torch.Tensor"),
        (lambda: t.merge_topk(tensor[None], sharded[None], 3), r"merge_topk\(\): values is a torch.Tensor"),
        (lambda: t.top_k_top_p_filter_(sharded, numbers), r"top_k_top_p_filter_\(\): k is a torch.Tensor"),
        (lambda: t.topk_sharded(cut, 3), r"topk_sharded\(\): input_local is a DTensor"),
        (lambda: t.distributed.topk(cut, 3), r"local is a DTensor"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(TypeError, match="a chunk is a DTensor"):
        t.StreamingTopK(3).update(cut)
    assert torch.equal(sharded.full_tensor(), tensor)


def check_operators(world):
    """The operators themselves: torch takes tensors by keyword as they lie, so they must lie alike."""
    from torch.distributed.tensor import Shard

    operators = torch.ops.gputopk
    for mesh in meshes(world):
        tensor, k, lengths = inputs.make("few_distinct", 8, COLS), torch.arange(8), torch.arange(8) * 5
        torch_topk.topk_mask(dealt(tensor, mesh, whole(mesh)), 1)  # registers them
        for placements in of_rows(mesh)[:-1] if mesh.ndim > 1 else of_rows(mesh):
            sharded, numbers = dealt(tensor, mesh, placements), dealt(lengths, mesh, placements)
            ranks, pages = (
                dealt(k, mesh, placements),
                dealt(torch.arange(80).int().view(8, 10), mesh, placements),
            )
            got = operators.kth_value(sharded, ranks, lengths=numbers)
            assert_same(got, operators.kth_value(tensor, k, lengths=lengths), placements)
            for values in (True, False):
                got = operators.topk_varlen(sharded, 3, lengths=numbers, order=2, return_values=values)
                want = operators.topk_varlen(tensor, 3, lengths=lengths, order=2, return_values=values)
                assert_same(got[1:], want[1:], placements)
                assert got[0].shape == want[0].shape
            got = operators.topk_varlen(sharded, 3, page_table=pages, page_size=4, order=2)
            paged = torch.arange(80).int().view(8, 10)
            want = operators.topk_varlen(tensor, 3, page_table=paged, page_size=4, order=2)
            assert_same(got, want, placements)
            vectors, ids = (dealt(one, mesh, whole(mesh)) for one in (tensor.flip(0), k))
            got = operators.rerank(sharded, vectors, ids, 3, lengths=numbers)
            assert_same(got, operators.rerank(tensor, tensor.flip(0), k, 3, lengths=lengths), placements)
            for other in of_rows(mesh):
                if other == placements:
                    continue
                given = dealt(lengths, mesh, other)
                for call in (
                    lambda s=sharded, r=ranks, n=given: operators.kth_value(s, r, lengths=n),
                    lambda s=sharded, n=given: operators.topk_varlen(s, 3, lengths=n),
                    lambda s=sharded, n=given, v=vectors, i=ids: operators.rerank(s, v, i, 3, lengths=n),
                ):
                    with pytest.raises(RuntimeError, match="lengths must be placed"):
                        call()
        cut = dealt(tensor, mesh, [Shard(1)] * mesh.ndim)
        with pytest.raises(RuntimeError, match=r"must be placed Replicate\(\) or Shard\(0\)"):
            operators.topk_varlen(cut, 3, lengths=dealt(lengths, mesh, whole(mesh)))


def check_compiled(world):
    """Compiled, and the same."""
    from torch.distributed.tensor import Shard

    (mesh,) = meshes(world)
    tensor, lengths = inputs.make("few_distinct", 8, COLS), torch.arange(8) * 5

    def functions(x, lengths):
        sampled = torch_topk.top_k_top_p_filter_(x.clone(), 9, 0.5)
        return (*torch_topk.kth_value(x, 3), torch_topk.topk_mask(x, 3), sampled, *ragged(x, lengths))

    def ragged(x, lengths):
        return () if x is cut else torch_topk.topk_varlen(x, 3, lengths=lengths)[:2]

    cut = dealt(tensor, mesh, [Shard(1)])
    for sharded, numbers in ((dealt(tensor, mesh, [Shard(0)]), [Shard(0)]), (cut, whole(mesh))):
        given = sharded, dealt(lengths, mesh, numbers)
        want = functions(tensor, lengths)
        got = torch.compile(functions, backend="aot_eager")(*given)
        placed = [sharded.placements] * len(got)
        if sharded is cut:
            placed[:2] = [whole(mesh)] * 2
        for one, other, places in zip(got, want, placed, strict=False):
            assert_same(one, other, places)


CHECKS = [
    check_topk,
    check_only_winners_are_sent,
    check_out,
    check_kth_value,
    check_masks,
    check_gradients,
    check_sampling,
    check_varlen,
    check_where,
    check_merge,
    check_sparsify,
    check_rerank,
    check_partial,
    check_rows_of_any_number,
    check_refusals,
    check_operators,
]


def run(rank, check, world):
    warnings.simplefilter("ignore")
    check(world)


CASES = [*itertools.product(CHECKS, (2, 4)), (check_compiled, 2)]


@pytest.mark.parametrize(("check", "world"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_what_ranks_have_is_their_part_of_the_whole(check, world):
    gloo.run(world, run, check, world)
