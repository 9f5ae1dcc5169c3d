"""What the tests over processes check with gloo, on two GPUs that NCCL connects."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
import torch.distributed as dist

from tests.python import (
    gloo,
    test_distributed,
    test_dtensor,
    test_merge,
    test_sharding,
    test_sparsification,
    test_streaming,
)
from torch_topk import distributed
from torch_topk._libraries import why_no_cuda

RANKS = 2
pytestmark = pytest.mark.skipif(
    why_no_cuda() is not None or torch.cuda.device_count() < RANKS or not dist.is_nccl_available(),
    reason=why_no_cuda() or "needs two GPUs, and NCCL",
)
nccl = functools.partial(gloo.run, RANKS, backend="nccl")


def in_turn(rank, calls):
    """Several functions on one set of processes, as starting them is what takes time."""
    warnings.simplefilter("ignore")
    return [function(rank, *arguments) for function, *arguments in calls]


def each_in_turn(*calls):
    """Of each call what the ranks return."""
    return zip(*nccl(in_turn, calls), strict=True)


def test_as_the_whole_rows():
    """All dtypes, both ways, all that gather may be."""
    assert nccl(test_distributed.many_cases, RANKS, 250) == [[], []]


def on_the_host(rank):
    """NCCL has no way to a piece there: all ranks are told, and the group is as good as before."""
    x = torch.arange(9.0, device="cuda")
    words = test_distributed.words_of(lambda: distributed.topk(x if rank else x.cpu(), 3))
    return words, distributed.topk(x, 3).values.tolist()


def test_every_rank_is_told_what_does_not_fit():
    told, hosts = each_in_turn((test_distributed.refusals,), (on_the_host,))
    test_distributed.check_refusals(told)
    (own, values), (other, same) = hosts
    assert "rank 0: local is on cpu, where the group's backends, cuda:nccl, send nothing" in own
    assert "rank 0 was called with arguments that are not served" in other
    assert values == same == [8.0, 8.0, 7.0]


def of_both_devices(rank):
    """A group of gloo and NCCL serves either, but not one rank here and one there."""
    x = torch.arange(9.0)
    words = test_distributed.words_of(lambda: distributed.topk(x.cuda() if rank else x, 3))
    return words, [distributed.topk(one, 3).values.tolist() for one in (x, x.cuda())]


def test_a_group_with_two_backends():
    for words, values in gloo.run(RANKS, of_both_devices, backend="cpu:gloo,cuda:nccl"):
        assert "ranks disagree in device: cpu, cuda, rank by rank" in words
        assert values == [[8.0, 8.0, 7.0]] * 2


def test_shards_and_streams():
    _, streams = each_in_turn((test_merge.check_shards, RANKS), (test_streaming.of_ranks,))
    test_streaming.check_ranks(streams)


def test_sparse_all_reduce():
    conserved = [(test_sparsification.conserve, *case) for case in test_sparsification.CONSERVED]
    not_finite, *found = each_in_turn((test_sparsification.with_nan,), *conserved)
    test_sparsification.check_not_finite(not_finite)
    for ranks, case in zip(found, test_sparsification.CONSERVED, strict=True):
        test_sparsification.check_conserved(ranks, *case)


def test_training():
    """DDP's hook, also where a bucket goes in two messages, and FSDP2's."""
    trained = [(test_sparsification.train_100, *case) for case in test_sparsification.TRAINED]
    unused, fsdp, *found = each_in_turn(
        (test_sparsification.leave_unused,), (test_sparsification.train_fsdp,), *trained
    )
    test_sparsification.check_unused(unused)
    test_sparsification.check_fsdp(fsdp)
    for ranks in found:
        test_sparsification.check_trained(ranks)


def check_placements(rank):
    test_sharding.check_placements(test_dtensor.meshes(RANKS)[0], RANKS)


def test_dtensors():
    checks = (
        test_dtensor.check_topk,
        test_dtensor.check_only_winners_are_sent,
        test_dtensor.check_kth_value,
        test_dtensor.check_masks,
        test_dtensor.check_sparsify,
    )
    nccl(in_turn, [(check_placements,), *((test_dtensor.run, check, RANKS) for check in checks)])
