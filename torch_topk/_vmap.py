"""vmap of the operators: examples become rows."""

from __future__ import annotations

import torch

from ._fakes import check_dim_and_k


def _register(name: str) -> None:
    operator = getattr(torch.ops.gputopk, name)

    @torch.library.register_vmap(f"gputopk::{name}")
    def _(info, in_dims, self, k, dim=-1, largest=True, *sorted, **options):
        batched = self.movedim(in_dims[0], 0)
        example = batched.shape[1:]
        # Of the example: in the batch another dim, and other sizes, would pass.
        check_dim_and_k(example, k, dim)
        scalars = len(example) == 0  # an example's one element is its row, and stays where k is 0
        if scalars:
            batched, k, dim = batched.unsqueeze(1), 1, -1
        elif dim >= 0:
            dim += 1
        values, indices = operator(batched, k, dim, largest, *sorted, **options)
        if scalars:
            values, indices = values.squeeze(1), indices.squeeze(1)
        return (values, indices), (0, 0)


_register("topk")
_register("differentiable_topk")
_register("_topk_kth")
