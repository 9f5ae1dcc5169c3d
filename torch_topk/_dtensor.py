"""The functions on DTensors: each rank calls them on the rows that it has. Imported where there is a DTensor.

Rows stay on the ranks that have them, in whatever number; numbers and masks of rows follow them. Where the
dimension that is selected along is sharded, winners are merged, or the rows gathered, or the call is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard

from . import _where, distributed, merge, sampling, selection, sparsify, varlen
from ._autograd import gather, in_index_order
from ._fakes import check_dim_and_k, check_request, result_shape
from ._sharding import register
from .knn import knn as knn_of_tensors
from .ops import topk as topk_of_tensor
from .rerank import Reranked, RerankedPositions
from .rerank import rerank as rerank_of_tensors

register()  # for the operators themselves, which are called where a transform or compilation is at work
_Placements = tuple[Any, ...]


def _sharded_dim(placement: Any) -> int | None:
    return getattr(placement, "dim", None)


def _in_dim(placement: Any, dim: int) -> Any:
    """Another dimension sharded as this one is."""
    if type(placement) is Shard:
        return Shard(dim)
    return type(placement)(dim, split_factor=placement.split_factor)


def _check_dtensor(function: str, name: str, tensor: Any) -> None:
    if not isinstance(tensor, DTensor):
        raise RuntimeError(
            f"{function}(): {name} is a torch.Tensor, and other arguments are DTensors: make it one, "
            "with distribute_tensor()"
        )
    if tensor.device_mesh.get_coordinate() is None:
        raise RuntimeError(f"{function}(): this rank is not in {name}'s mesh, {tensor.device_mesh}")


def _placed(function: str, name: str, tensor: Any, like: DTensor, placements: _Placements) -> Tensor:
    """What this rank has of the tensor where it is placed so, on the mesh of ``like``."""
    _check_dtensor(function, name, tensor)
    if tensor.device_mesh != like.device_mesh:
        raise RuntimeError(
            f"{function}(): {name} is on the mesh {tensor.device_mesh}, other arguments on {like.device_mesh}"
        )
    if tensor.placements != placements:
        tensor = _moved(tensor, placements)
    return tensor.to_local()


# What NCCL or gloo does not carry: its bits are sent as another dtype of the width.
_SENT_AS = {
    torch.int16: torch.float16,
    torch.uint16: torch.float16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}


def _moved(tensor: DTensor, placements: _Placements) -> DTensor:
    """The same, placed so. What is pending a reduction is added up, and gradients too, in their own dtype."""
    is_added = tensor.requires_grad or any(place.is_partial() for place in tensor.placements)
    if tensor.dtype not in _SENT_AS or is_added:
        return tensor.redistribute(placements=placements)
    bits = tensor.to_local().view(_SENT_AS[tensor.dtype])
    sent = _wrap(bits, tensor, tensor.placements, tensor.shape).redistribute(placements=placements)
    return _wrap(sent.to_local().view(tensor.dtype), tensor, placements, tensor.shape)


def _wrap(local: Tensor, like: DTensor, placements: _Placements, shape: Sequence[int]) -> DTensor:
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        local.contiguous(), like.device_mesh, placements, shape=torch.Size(shape), stride=stride
    )


class Rows:
    """A DTensor that is selected from along ``dim``, and what belongs to its rows. What is pending a
    reduction is reduced, unless the function changes it in place."""

    def __init__(self, function: str, name: str, tensor: Any, dim: int = -1):
        _check_dtensor(function, name, tensor)
        self.function, self.name = function, name
        self.dim = dim % max(tensor.dim(), 1)
        reduced = tuple(Replicate() if place.is_partial() else place for place in tensor.placements)
        if reduced != tensor.placements:
            if function.endswith("_"):
                raise RuntimeError(
                    f"{function}(): {name} is placed {tensor.placements}, and what is pending a reduction "
                    "cannot be changed in place: redistribute it first"
                )
            tensor = tensor.redistribute(placements=reduced)
        self.tensor: DTensor = tensor
        self.placements = reduced
        self.is_cut = self.dim in map(_sharded_dim, reduced)

    @property
    def uncut(self) -> _Placements:
        """Placements of what has whole rows where this tensor has parts of them."""
        return tuple(Replicate() if _sharded_dim(p) == self.dim else p for p in self.placements)

    def gathered(self) -> Rows:
        """The same with every row whole."""
        if not self.is_cut:
            return self
        return Rows(self.function, self.name, _moved(self.tensor, self.uncut), self.dim)

    def check_uncut(self) -> None:
        if self.is_cut:
            raise RuntimeError(
                f"{self.function}(): {self.name} is placed {self.placements}, but must not be sharded in "
                f"dimension {self.dim}, as rows must be whole"
            )

    def local(self) -> Tensor:
        return self.tensor.to_local()

    def place(self, name: str, tensor: Any, placements: _Placements) -> Tensor:
        return _placed(self.function, name, tensor, self.tensor, placements)

    def everywhere(self, name: str, tensor: Tensor | None) -> Tensor | None:
        """What every rank needs all of."""
        if tensor is None:
            return None
        return self.place(name, tensor, (Replicate(),) * len(self.placements))

    def number(self, name: str, number: Any) -> Any:
        """A number a row, of the shape without ``dim``, or one for all: those of this rank's rows."""
        if not isinstance(number, Tensor):
            return number
        if number.dim() == 0:
            return self.everywhere(name, number) if isinstance(number, DTensor) else number
        shape = [size for d, size in enumerate(self.tensor.shape) if d != self.dim]
        if list(number.shape) != shape:
            raise RuntimeError(
                f"{self.function}(): {name} has shape {list(number.shape)}, but there are {shape} rows"
            )
        dims = [_sharded_dim(place) for place in self.uncut]
        places = [
            place if d is None else _in_dim(place, d - (d > self.dim))
            for place, d in zip(self.uncut, dims, strict=True)
        ]
        return self.place(name, number, tuple(places))

    def beside(self, name: str, tensor: Tensor | None) -> Tensor | None:
        """Something of each of the tensor's rows, or, of one dimension less, of all of them."""
        if tensor is None:
            return None
        if tensor.dim() != self.tensor.dim():
            return self.everywhere(name, tensor)
        if tensor.shape[: self.dim] != self.tensor.shape[: self.dim]:
            raise RuntimeError(
                f"{self.function}(): {name} has shape {list(tensor.shape)}, "
                f"but {self.name} has {list(self.tensor.shape)}"
            )
        return self.place(name, tensor, self.uncut)

    def in_place(self, name: str, tensor: Tensor | None) -> Tensor | None:
        """What is written to, and so has to be where the rows are."""
        if tensor is None:
            return None
        _check_dtensor(self.function, name, tensor)
        if tensor.device_mesh != self.tensor.device_mesh or tensor.placements != self.placements:
            raise RuntimeError(
                f"{self.function}(): {name}, which is written to, must be placed as {self.name}, "
                f"{self.placements} on {self.tensor.device_mesh}, but is {tensor.placements} on "
                f"{tensor.device_mesh}"
            )
        return _written(tensor)

    def numbers_of(self, dim: int) -> Tensor:
        """Which of the whole tensor's positions along ``dim`` this rank has, int64, ascending."""
        numbers = torch.arange(self.tensor.size(dim), device=self.tensor.to_local().device)
        everywhere = (Replicate(),) * len(self.placements)
        numbers = DTensor.from_local(numbers, self.tensor.device_mesh, everywhere)
        places = [_in_dim(p, 0) if _sharded_dim(p) == dim else Replicate() for p in self.placements]
        return numbers.redistribute(placements=places).to_local()

    def wrap(self, local: Tensor) -> DTensor:
        """A result with this tensor's rows; of other size in ``dim`` only where rows are whole."""
        kept = [self.is_cut or d != self.dim for d in range(local.dim())]
        shape = [self.tensor.size(d) if kept[d] else local.size(d) for d in range(local.dim())]
        return _wrap(local, self.tensor, self.placements, shape)


def topk(
    input: DTensor, k: int, dim: int, largest: bool, order: Any, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Without gradients. Where ``dim`` is sharded, by merging each rank's winners, unless they are more
    bytes than the rows."""
    # Of the whole, so by all ranks or by none, before anything is sent.
    check_request(input, k, dim, options.get("index_dtype"), options.get("algorithm", 0))
    rows = Rows("topk", "input", input, dim)
    if rows.is_cut and "algorithm" not in options and _merges(rows, k):
        return _topk_of_cut_rows(rows, k, largest, order, options)
    rows = rows.gathered()
    found = topk_of_tensor(rows.local(), k, rows.dim, largest, order=order, **options)
    values, indices = (rows.wrap(one) for one in found)
    return values, indices


def check_outs(input: Any, k: int, dim: int, index_dtype: torch.dtype, values: Any, indices: Any) -> None:
    """Outs of topk may be placed in any way, but are not resized, as DTensors are not."""
    for name, tensor in (("input", input), ("values", values), ("indices", indices)):
        _check_dtensor("topk", name, tensor)
    check_dim_and_k(input.shape, k, dim)
    shape = result_shape(input.shape, k, dim)
    for name, out, dtype in (("values", values, input.dtype), ("indices", indices, index_dtype)):
        if out.dtype != dtype or list(out.shape) != shape:
            raise RuntimeError(
                f"topk(): Expected out DTensor to have dtype {dtype} and shape {shape}, "
                f"but got {out.dtype} and {list(out.shape)} instead ({name})"
            )
        if any(place.is_partial() for place in out.placements):
            raise RuntimeError(
                f"topk(): {name} is placed {out.placements}: what is pending a reduction is no out"
            )


def copy_into(result: Sequence[Tensor], outs: Sequence[DTensor]) -> None:
    with torch.no_grad():  # torch refuses to copy into fewer rows than ranks
        for name, one, out in zip(("values", "indices"), result, outs, strict=True):
            _written(out).copy_(_placed("topk", name, one, out, out.placements))


def _written(tensor: DTensor) -> Tensor:
    """What this rank has of it, to write to: autograd is told by the whole's version."""
    torch.autograd.graph.increment_version(tensor)
    return tensor.to_local()


def _mesh_dims(rows: Rows) -> list[int]:
    return [m for m, place in enumerate(rows.placements) if _sharded_dim(place) == rows.dim]


def _merges(rows: Rows, k: int) -> bool:
    mesh_dims = _mesh_dims(rows)
    if len(mesh_dims) > 1 or type(rows.placements[mesh_dims[0]]) is not Shard:
        return False
    width = rows.tensor.element_size()
    most = -(-rows.tensor.size(rows.dim) // rows.tensor.device_mesh.size(mesh_dims[0]))
    return min(k, most) * (width + 8) < most * width


def _topk_of_cut_rows(
    rows: Rows, k: int, largest: bool, order: Any, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    (mesh_dim,) = _mesh_dims(rows)
    mesh, cols = rows.tensor.device_mesh, rows.tensor.size(rows.dim)
    ranks, rank = mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim)
    most = -(-cols // ranks)
    offsets = [min(r * most, cols) for r in range(ranks)]
    sizes = [min(most, cols - offset) for offset in offsets]
    local = rows.local().movedim(rows.dim, -1)
    if local.size(-1) != sizes[rank]:
        raise RuntimeError(
            f"topk(): input is placed {rows.placements}, which gives this rank {sizes[rank]} of {cols} "
            f"elements of a row, but it has {local.size(-1)}"
        )
    magnitude = options.get("magnitude", False)
    flat = local.reshape(math.prod(local.shape[:-1]), sizes[rank])
    best, places = topk_of_tensor(flat, min(k, sizes[rank]), largest=largest, magnitude=magnitude)
    values, indices, _ = distributed.select_of_lists(
        distributed._Lists(best, places + offsets[rank]),
        k,
        distributed.Shards(sizes, offsets),
        mesh.get_group(mesh_dim),
        largest,
        magnitude,
        order == "value",
    )
    if order == "index":
        values, indices = in_index_order(values, indices, -1)
    indices = indices.to(options.get("index_dtype", torch.int64))
    shape = list(rows.tensor.shape)
    shape[rows.dim] = k
    found = (one.view(*local.shape[:-1], k).movedim(-1, rows.dim) for one in (values, indices))
    values, indices = (_wrap(one, rows.tensor, rows.uncut, shape) for one in found)
    return values, indices


def kth_value(
    input: DTensor, k: Any, dim: int, largest: bool, magnitude: bool, lengths: Tensor | None
) -> selection.KthValue:
    rows = Rows("kth_value", "input", input, dim)
    with torch.no_grad():
        if rows.is_cut and not isinstance(k, Tensor) and lengths is None:
            winners = topk_of_tensor(rows.tensor.detach(), k, dim, largest, magnitude=magnitude)
            shape = [1 if d == rows.dim else size for d, size in enumerate(input.shape)]
            last = [rows.place("input", one, rows.uncut).narrow(dim, k - 1, 1) for one in winners]
            values, indices = (_wrap(one, rows.tensor, rows.uncut, shape) for one in last)
        else:
            whole = rows.gathered()
            k, lengths = whole.number("k", k), whole.number("lengths", lengths)
            found = selection.kth_value(
                whole.local(), k, rows.dim, largest, magnitude=magnitude, lengths=lengths
            )
            values, indices = (whole.wrap(one) for one in found)
    if input.requires_grad and torch.is_grad_enabled():
        chosen = gather(rows.gathered().tensor, rows.dim, indices.clamp(min=0))
        values = torch.where(indices >= 0, chosen, values)
    return selection.KthValue(values, indices)


def mask(
    function: str,
    input: DTensor,
    k: Any,
    dim: int,
    largest: bool,
    magnitude: bool,
    ties: str,
    lengths: Tensor | None,
) -> DTensor:
    """What ``selection._mask`` gives, placed as the input."""
    rows = Rows(function, "input", input, dim)
    cols = input.size(dim) if input.dim() > 0 else 1
    with torch.no_grad():
        own = rows.local()
        if not isinstance(k, Tensor) and (k <= 0 or k >= cols):
            return rows.wrap(torch.ones_like(own, dtype=torch.bool))
        if not rows.is_cut:
            k, lengths = rows.number("k", k), rows.number("lengths", lengths)
            return rows.wrap(selection._mask(function, own, k, rows.dim, largest, magnitude, ties, lengths))
        kth = kth_value(rows.tensor, k, dim, largest, magnitude, lengths)
        value, index = (rows.place("k", one, rows.uncut).movedim(rows.dim, -1) for one in kth)
        position = rows.numbers_of(rows.dim)
        own = own.movedim(rows.dim, -1)
        if lengths is not None:
            lengths = rows.number("lengths", lengths).unsqueeze(-1)
        kept = selection.keep_pair(own, index, largest, magnitude, ties, value, position, lengths)
        return rows.wrap(kept.movedim(-1, rows.dim))


def mask_to_sample(logits: DTensor, k: Any, p: Any, min_p: Any) -> DTensor | None:
    """What ``sampling.mask_to_sample`` gives, placed as the logits."""
    rows = Rows("top_k_top_p_filter_", "logits", logits)
    k, p, min_p = (rows.number(name, given) for name, given in (("k", k), ("p", p), ("min_p", min_p)))
    with torch.no_grad():
        if not rows.is_cut:
            kept = sampling.mask_to_sample(rows.local(), k, p, min_p)
            return None if kept is None else rows.wrap(kept)
        cols = logits.size(-1)
        k, p, min_p = sampling.of_rows(rows.local(), cols, k, p, min_p)
        if k is None and p is None and min_p is None:
            return None
        found = topk_of_tensor(rows.tensor.detach(), sampling.most_kept(cols, k))
        best, indices = (rows.place("logits", one, rows.uncut) for one in found)
        last = sampling.count_kept(best, cols, k, p, min_p) - 1
        value, index = best.gather(-1, last), indices.gather(-1, last)
        position = rows.numbers_of(rows.dim)
        return rows.wrap(selection.keep_pair(rows.local(), index, True, False, "index", value, position))


def topk_varlen(
    input: DTensor,
    k: int,
    tensors: dict[str, Tensor | None],
    numbers: dict[str, Any],
    out: tuple[Tensor | None, Tensor] | None,
) -> varlen.TopKVarlen:
    rows = Rows("topk_varlen", "input", input)
    rows.check_uncut()
    mine: dict[str, Any] = {name: rows.beside(name, tensors[name]) for name in ("mask", "ids")}
    for name in varlen._OF_ROWS:
        mine[name] = rows.number(name, tensors[name])
    if tensors["page_table"] is not None:
        # By default a row's table is that of its number in the whole.
        table, own = tensors["page_table"], tensors["page_row"] is None
        a_table_each = own and table.size(0) == input.size(0)
        mine["page_table"] = (rows.beside if a_table_each else rows.everywhere)("page_table", table)
        if own and not a_table_each:
            mine["page_row"] = rows.numbers_of(0).int()
    if out is None:
        found = varlen.topk_varlen(rows.local(), k, **mine, **numbers)
        values, indices, counts = (None if one is None else rows.wrap(one) for one in found)
        return varlen.TopKVarlen(values, indices, counts)
    values, indices = out
    local_out = rows.in_place("values", values), rows.in_place("indices", indices)
    counts = varlen.topk_varlen(rows.local(), k, **mine, **numbers, out=local_out).counts
    return varlen.TopKVarlen(values, indices, rows.wrap(counts))


def topk_where(
    keys: Sequence[Any], wheres: Sequence[Any], k: int, dim: int, options: dict[str, Any]
) -> _where.TopKWhere:
    """Keys and columns lie as the first key does; what is of all rows is needed everywhere."""
    rows = Rows("topk_where", "score", keys[0], dim)
    rows.check_uncut()

    def beside(name: str, tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor  # which is refused below
        if tensor.dim() != rows.tensor.dim():
            return rows.everywhere(name, tensor)
        return rows.place(name, tensor, rows.placements)

    def placed(where: Any) -> Any:
        if not isinstance(where, _where.Condition):
            return beside("mask", where)
        column, threshold = beside("column", where.column), rows.number("threshold", where.threshold)
        return _where.Condition(column, where.comparison, threshold)

    mine = tuple(beside("score", key) for key in keys)
    found = _where.topk_where(mine, tuple(map(placed, wheres)), k, dim, **options)
    counts = rows.wrap(found.counts.unsqueeze(rows.dim)).squeeze(rows.dim)
    return _where.TopKWhere(tuple(map(rows.wrap, found.values)), rows.wrap(found.indices), counts)


def merge_topk(values: Any, ids: Any, k: int, **options: Any) -> merge.Merged:
    """Rows stay where the first tensor has them; lists are gathered where they lie on several ranks."""
    row_dim = 1 if isinstance(values, Tensor) else 0
    named = [("values", one) for one in ([values] if isinstance(values, Tensor) else values)]
    named += [("ids", one) for one in ([ids] if isinstance(ids, Tensor) else ids)]
    like = named[0][1]
    _check_dtensor("merge_topk", "values", like)
    places = tuple(p if _sharded_dim(p) == row_dim else Replicate() for p in like.placements)
    for name, tensor in named:
        if tensor.dim() != row_dim + 2 or tensor.size(row_dim) != like.size(row_dim):
            raise RuntimeError(
                "merge_topk(): values and ids must be [shards, rows, k], or lists of [rows, k], of as many "
                f"rows, but values have shape {list(like.shape)}, and {name} {list(tensor.shape)}"
            )
    mine = {"values": [], "ids": []}
    for name, tensor in named:
        mine[name].append(_placed("merge_topk", name, tensor, like, places))
    lists = [mine[name][0] if row_dim == 1 else mine[name] for name in ("values", "ids")]
    places = tuple(p if _sharded_dim(p) is None else _in_dim(p, 0) for p in places)
    found = merge.merge_topk(*lists, k, **options)
    return merge.Merged(*(_wrap(one, like, places, (like.size(row_dim), one.size(1))) for one in found))


def sparsify_(
    self: DTensor, k: int, add: Tensor | None, momentum: Tensor | None, numbers: dict[str, Any]
) -> sparsify.Sparse:
    rows = Rows("sparsify_", "self", self)
    rows.check_uncut()
    add, momentum = rows.beside("add", add), rows.in_place("momentum", momentum)
    found = sparsify.sparsify_(_written(rows.tensor), k, add=add, momentum=momentum, **numbers)
    return sparsify.Sparse(*map(rows.wrap, found))


def _queries(function: str, queries: Any, vectors: Any) -> tuple[Rows, Tensor]:
    rows = Rows(function, "queries", queries)
    rows.check_uncut()
    _check_dtensor(function, "vectors", vectors)
    if not all(place.is_replicate() for place in vectors.placements):
        raise RuntimeError(
            f"{function}(): vectors are placed {vectors.placements}, and every rank needs all of them: "
            "redistribute them, or give each rank's result of its own vectors to merge_topk"
        )
    return rows, rows.everywhere("vectors", vectors)


def rerank(
    queries: Any, vectors: Any, candidate_ids: Any, k: int, metric: int, tensors: dict[str, Any],
    *, unique: bool, return_positions: bool, out: tuple[Tensor, ...] | None,
) -> Reranked | RerankedPositions:  # fmt: skip
    rows, vectors = _queries("rerank", queries, vectors)
    mine = {name: rows.everywhere(name, tensors[name]) for name in ("allow", "scales", "payload")}
    mine["lengths"] = rows.number("lengths", tensors["lengths"])
    offsets = rows.everywhere("row_offsets", tensors["row_offsets"])
    if offsets is None:
        ids = rows.beside("candidate_ids", candidate_ids)
    else:
        ids = rows.everywhere("candidate_ids", candidate_ids)
        offsets = _offsets_of_rows(rows, offsets)
    local_out = None if out is None else tuple(rows.in_place("out", one) for one in out)
    found = rerank_of_tensors(
        rows.local(), vectors, ids, k, metric, row_offsets=offsets, unique=unique,
        return_positions=return_positions, out=local_out, **mine,
    )  # fmt: skip
    return type(found)(*(map(rows.wrap, found) if out is None else out))


def _offsets_of_rows(rows: Rows, offsets: Tensor) -> Tensor:
    """Of [all queries + 1] those of this rank's queries, and where the last of them ends."""
    if any(_sharded_dim(p) is not None and type(p) is not Shard for p in rows.placements):
        raise RuntimeError(
            f"rerank(): row_offsets need adjacent queries, but these are placed {rows.placements}"
        )
    count = rows.tensor.size(0)
    if list(offsets.shape) != [count + 1]:
        raise RuntimeError(
            f"rerank(): row_offsets has shape {list(offsets.shape)}, but there are {count} queries"
        )
    numbers = rows.numbers_of(0)
    if numbers.size(0) == 0:
        return offsets[:1]
    return torch.cat((offsets[numbers], offsets[numbers[-1:] + 1]))


def knn(queries: Any, vectors: Any, k: int, metric: int, allow: Any, options: dict[str, Any]) -> Any:
    rows, vectors = _queries("knn", queries, vectors)
    found = knn_of_tensors(rows.local(), vectors, k, metric, allow=rows.everywhere("allow", allow), **options)
    return Reranked(*map(rows.wrap, found))
