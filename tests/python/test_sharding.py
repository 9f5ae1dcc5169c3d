"""topk of DTensor, over gloo processes on this machine: what each rank holds is what the whole has there."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed

from tests import inputs, oracle
from tests.python import gloo

pytest.importorskip("torch.distributed.tensor.experimental")
pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)


def check_placements(mesh, world: int) -> None:
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, zeros

    import torch_topk

    # 6 rows lie unevenly on 4 ranks; ties lie on several ranks.
    tensor = inputs.make("few_distinct", 6, 40).view(6, 8, 5)
    operators = (torch_topk.topk, torch.ops.gputopk.topk, torch.ops.gputopk.differentiable_topk)
    for dim in (0, 1, -1):
        for placement in (Replicate(), Shard(0), Shard(1), Shard(2)):
            sharded = distribute_tensor(tensor, mesh, [placement])
            for options in ({}, {"magnitude": True, "index_dtype": torch.int32}):
                for operator in operators:
                    values, indices = operator(sharded, 3, dim, False, **options)
                    moved = placement.is_shard(dim % 3)
                    assert values.placements == indices.placements == ((Replicate() if moved else placement),)
                    result = values.full_tensor().cpu(), indices.full_tensor().cpu()
                    oracle.assert_topk(result, tensor, 3, dim, False, **options)
            values, indices = torch_topk.topk(sharded, 3, dim, order="index")
            assert torch.equal(indices.full_tensor(), indices.full_tensor().sort(dim).values)
    # What torch.topk does with Partial: it is reduced before anything is selected.
    partial = zeros(6, 40, device_mesh=mesh, placements=[Replicate()])
    local = tensor.view(6, 40) if mesh.get_rank() == 0 else torch.zeros(6, 40)
    partial = type(partial).from_local(local, mesh, [Partial()])
    values, indices = torch_topk.topk(partial, 3)
    oracle.assert_topk((values.full_tensor().cpu(), indices.full_tensor().cpu()), tensor.view(6, 40), 3)


def check_gradients(mesh, world: int) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    import torch_topk

    tensor = inputs.make("normal", 6, 40, torch.float64)
    for dim in (0, 1):
        for placement in (Shard(0), Shard(1)):
            grads = []
            for topk in (torch.topk, torch_topk.topk):
                leaf = distribute_tensor(tensor, mesh, [placement]).requires_grad_()
                topk(leaf, 3, dim).values.pow(2).sum().backward()
                grads.append(leaf.grad.full_tensor())
            assert torch.equal(*grads)


def check_rank(rank: int, world: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (world,))
    check_placements(mesh, world)
    check_gradients(mesh, world)


@pytest.mark.parametrize("world", [2, 4])
def test_every_rank_has_its_part_of_the_whole(world):
    gloo.run(world, check_rank, world)
