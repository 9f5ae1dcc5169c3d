"""The operators on DTensor: dimensions that are not selected along stay sharded as they are.

What has no strategy torch refuses by name: the out= forms and sparsify_, as its dispatcher serves no out of
an operator that returns nothing, and returns self of any name that ends so. The functions serve them.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch


def is_dtensor(tensor: Any) -> bool:
    """Without importing what takes a second, and what whoever has such a tensor has imported."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def has_dtensor(*arguments: Any) -> bool:
    return any(map(is_dtensor, arguments))


@functools.cache
def register() -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    operators = torch.ops.gputopk

    @register_sharding([operators.topk.default, operators.differentiable_topk.default])
    def _(self, k, dim=-1, largest=True, sorted=True, **options):
        """A row that lies on many ranks is gathered first, and what is partial reduced: so ties go to the
        lower index of the whole row."""
        selected = dim % max(self.ndim, 1)
        places = [Replicate(), *(Shard(d) for d in range(self.ndim) if d != selected)]
        return [([place, place], [place, None, None, None, None]) for place in places]

    def rows_first(operator, outputs, follows, named, shardable=True):
        """All replicated, or dimension 0 sharded of the outputs and of each tensor that ``follows``, the
        others being replicated. ``named``: keyword arguments, as (name, tensor, whether it follows)."""
        first = follows[0][0]
        if named:
            check_placed(operator, first, named)
        follows = [follow for _, follow in follows] + [follow for *_, follow in named]
        return [
            ([place] * outputs, [place if follow else Replicate() for follow in follows])
            for place in ((Replicate(), Shard(0)) if shardable else (Replicate(),))
        ]

    def check_placed(operator, first, named):
        """torch leaves keyword arguments where they are, whatever the strategy says."""
        for place in first.placements:
            if place not in (Replicate(), Shard(0)):
                raise RuntimeError(
                    f"gputopk::{operator}: beside tensors by keyword, the first argument must be placed "
                    f"Replicate() or Shard(0), but is {first.placements}: redistribute it first"
                )
        for name, tensor, follow in named:
            wanted = tuple(place if follow else Replicate() for place in first.placements)
            if tensor.placements != wanted:
                raise RuntimeError(
                    f"gputopk::{operator}: {name} must be placed {wanted}, but is {tensor.placements}; "
                    f"torch_topk.{operator} brings it there"
                )

    def tensors_of(options):
        return {name: option for name, option in options.items() if hasattr(option, "placements")}

    @register_sharding(operators.kth_value.default)
    def _(self, k, **options):
        named = [(name, tensor, True) for name, tensor in tensors_of(options).items()]
        return rows_first("kth_value", 2, [(self, True), (k, True)], named)

    @register_sharding(operators.topk_varlen.default)
    def _(self, k, **options):
        tensors = tensors_of(options)
        own_tables = tensors.get("page_row") is None
        table = tensors.get("page_table")
        shared = {name: tensor.ndim == 1 for name, tensor in tensors.items() if name in ("mask", "ids")}
        shared["page_table"] = not own_tables
        named = [(name, tensor, not shared.get(name, False)) for name, tensor in tensors.items()]
        # Of other numbers of tables a row's own is that of its number in the whole, which no rank can tell.
        shardable = table is None or not own_tables or table.shape[0] == self.shape[0]
        return rows_first("topk_varlen", 3, [(self, True)], named, shardable)

    @register_sharding(operators.rerank.default)
    def _(queries, vectors, candidate_ids, k, metric=0, **options):
        named = [(name, tensor, name == "lengths") for name, tensor in tensors_of(options).items()]
        follows = [(queries, True), (vectors, False), (candidate_ids, candidate_ids.ndim == 2)]
        return rows_first("rerank", 2, follows, named, options.get("row_offsets") is None)

    # A decision is kept by what torch takes for its grounds, and to tensors by keyword it does not look.
    known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for name in ("kth_value", "topk_varlen", "rerank"):
        operator = getattr(operators, name).default
        names = [argument.name for argument in operator._schema.arguments if argument.kwarg_only]
        known[operator].static_kwargkey = names


if "torch.distributed.tensor" in sys.modules:
    register()
