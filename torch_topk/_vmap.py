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


@torch.library.register_vmap("gputopk::_mask_of_kth")
def _(info, in_dims, self, index, lengths=None, **options):
    # By position, what has a batch: schemas have no others here.
    given = [self, index] if lengths is None else [self, index, lengths]
    rows = []
    for tensor, dim in zip(given, in_dims, strict=False):
        batched = tensor.movedim(dim, 0) if dim is not None else tensor.expand(info.batch_size, *tensor.shape)
        rows.append(batched.flatten(0, 1))
    mask = torch.ops.gputopk._mask_of_kth(*rows, **options)
    return mask.unflatten(0, (info.batch_size, -1)), 0
