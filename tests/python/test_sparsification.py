"""Sparse training over two processes with gloo: equal parameters, nothing lost, restarts."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.python import gloo
from torch_topk import TopKState, sparse_all_reduce_, sparse_sum, topk_hook

RANKS = 2


def test_sparse_sum_adds_rank_by_rank():
    generator = torch.Generator().manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        values = torch.randn((5, 300), generator=generator).to(dtype)
        indices = torch.stack([torch.randperm(1000, generator=generator)[:300] for _ in range(5)]).int()
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        want = torch.zeros(1000, dtype=wide)
        for rank in range(5):
            for value, index in zip(values[rank].to(wide) * 0.3, indices[rank], strict=True):
                want[index] += value
        got = sparse_sum(values, indices, 1000, scale=0.3)
        assert got.dtype == dtype and torch.equal(got, want.to(dtype))
        assert torch.equal(
            sparse_sum(values, indices.long(), 1000, scale=0.3, out=torch.ones(1000, dtype=dtype)), got
        )
    with pytest.raises(RuntimeError, match=r"one shape, \[ranks, k\], but have \[5, 300\] and \[5, 2\]"):
        sparse_sum(values, indices[:, :2], 1000)
    with pytest.raises(RuntimeError, match=r"out must have shape \[1000\], but has \[7\]"):
        sparse_sum(values, indices, 1000, out=torch.zeros(7, dtype=dtype))


def test_a_sum_may_go_where_its_terms_lie():
    array = np.arange(1, 4, dtype=np.float32)
    for dtype, scale in ((torch.float32, 2.0), (torch.float32, 1.0), (torch.bfloat16, 2.0)):
        want = torch.tensor([3.0, 2.0, 1.0]) * scale
        values = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
        indices = torch.tensor([[2, 1, 0]])
        assert sparse_sum(values.view(1, 3), indices, 3, out=values, scale=scale) is values
        assert torch.equal(values, want.to(dtype))
    numbers = torch.from_numpy(array)  # another storage, of the same memory
    sparse_sum(torch.from_numpy(array).view(1, 3), indices, 3, out=numbers)
    assert numbers.tolist() == [3.0, 2.0, 1.0]
    bits = torch.tensor([[2, 1, 0]], dtype=torch.int32)
    out = bits.view(3).view(torch.float32)
    assert sparse_sum(torch.tensor([[1.0, 2.0, 3.0]]), bits, 3, out=out).tolist() == [3.0, 2.0, 1.0]


VALUES, INDICES = torch.ones(1, 2), torch.tensor([[0, 1]])
WRONG_SUMS = [
    (([1.0], INDICES, 5), {}, TypeError, "argument 'values' must be Tensor, not list"),
    ((VALUES, [0], 5), {}, TypeError, "argument 'indices' must be Tensor, not list"),
    ((VALUES, INDICES, 5.0), {}, TypeError, "argument 'size' must be int, not float"),
    ((VALUES, INDICES, -1), {}, RuntimeError, "size must be at least 0, but is -1"),
    ((VALUES, INDICES, 5), {"scale": "2"}, TypeError, "argument 'scale' must be float, not str"),
    ((VALUES, INDICES.float(), 5), {}, TypeError, "indices must be int32 or int64, not torch.float32"),
    ((VALUES.int(), INDICES, 5), {}, TypeError, "values must be floating, not torch.int32"),
    ((VALUES * 1j, INDICES, 5), {}, TypeError, "values must be floating, not torch.complex64"),
    ((VALUES, INDICES, 5), {"out": torch.ones(5).int()}, TypeError, "out must be floating, not torch.int32"),
    ((VALUES, INDICES, 5), {"out": [0]}, TypeError, "argument 'out' must be Tensor, not list"),
    ((VALUES, INDICES.to("meta"), 5), {}, RuntimeError, "indices must be on the values' device, cpu"),
    ((VALUES, INDICES, 5), {"out": torch.ones(1).expand(5)}, RuntimeError, "two elements of out share mem"),
]


@pytest.mark.parametrize(("arguments", "options", "kind", "words"), WRONG_SUMS)
def test_a_sums_arguments_are_checked(arguments, options, kind, words):
    with pytest.raises(kind, match=r"sparse_sum\(\): " + words):
        sparse_sum(*arguments, **options)


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_a_sum_of_an_index_out_of_range_writes_nothing_on_the_cpu(wrong):
    out = torch.full((5,), 7.0)
    with pytest.raises(RuntimeError, match=r"sparse_sum\(\): indices must be in \[0, 5\), but are in "):
        sparse_sum(torch.ones(2, 2), torch.tensor([[0, 1], [2, wrong]]), 5, out=out)
    assert (out == 7).all()
    assert sparse_sum(torch.ones(2, 0), torch.zeros(2, 0, dtype=torch.int64), 5, out=out).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"k": 1.5}, TypeError, "argument 'k' must be int or None, not float"),
        ({"ratio": "a"}, TypeError, "argument 'ratio' must be float or None, not str"),
        ({"k": 1, "momentum": "a"}, TypeError, "argument 'momentum' must be float or None, not str"),
        ({"k": 1, "start_iter": 2.5}, TypeError, "argument 'start_iter' must be int, not float"),
        ({"k": 1, "min_numel": None}, TypeError, "argument 'min_numel' must be int, not NoneType"),
        ({"k": 1, "value_dtype": "int8"}, TypeError, "argument 'value_dtype' must be torch.dtype, not str"),
        ({"k": 1, "value_dtype": torch.int8}, ValueError, "value_dtype must be one of .*, not torch.int8"),
        ({"k": 1, "residual_dtype": torch.int8}, ValueError, "residual_dtype must be one of float32, "),
        ({"k": 1, "residual_dtype": torch.float8_e5m2}, ValueError, "residual_dtype must be one of"),
    ],
)
def test_a_states_types_are_checked(arguments, kind, words):
    with pytest.raises(kind, match=r"TopKState\(\): " + words):
        TopKState(**arguments)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_copy_of_a_state_says_that_it_needs_parameters_again(copied, caplog):
    parameter = nn.Parameter(torch.zeros(3))
    state = TopKState(k=1, parameters=[parameter])
    state._called = True
    state._iterations["ddp"] = 3
    other = copied(state)
    assert state._called and state._numbers is not None
    assert "parameters must be given again" in caplog.text and "process group" in caplog.text
    with pytest.raises(RuntimeError, match=r"need TopKState\(parameters="):
        topk_hook(other, None)
    again = TopKState(k=1, parameters=[parameter])
    again.load_state_dict(other.state_dict())
    assert again._iterations == {"ddp": 3} and again._key_of(parameter, 0, 0) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "ratio or k"),
        ({"ratio": 0.1, "k": 3}, "ratio or k"),
        ({"ratio": 0.0}, "in \\(0, 1\\]"),
        ({"ratio": 0.1, "warmup": [(3, 2.0)]}, "in \\(0, 1\\]"),
        ({"k": 0}, "k must be at least 1, but is 0"),
        ({"k": 1, "scope": "layer"}, "scope must be one of bucket, parameter, not 'layer'"),
        ({"ratio": 0.1, "warmup": [(9, 0.5), (3, 0.2)]}, "ascending"),
    ],
)
def test_states_are_checked(arguments, words):
    with pytest.raises(ValueError, match=words):
        TopKState(**arguments)


# ---- Without a model: whole numbers, whose sums are exact ----


def whole_numbers(step: int, rank: int, numel: int = 5000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-1000, 1000, (numel,), generator=generator).float()


def conserve(rank, options, dtype):
    """All that went in has come out or is kept."""
    state = TopKState(min_numel=1, start_iter=0, **options)
    came = torch.zeros(5000, dtype=torch.float64)
    went = torch.zeros(5000, dtype=torch.float64)
    means = []
    for step in range(6):
        gradient = whole_numbers(step, rank).to(gloo.device(), dtype)
        went += gradient.cpu().double()
        sparse_all_reduce_(gradient, state, "a key")
        means.append(gradient.clone())
        came += gradient.cpu().double() * RANKS
    return (
        came,
        went,
        state.state_dict()["residuals"]["a key"].cpu().double(),
        means,
        state.compression_stats(),
    )


CONSERVED = [
    ({"ratio": 0.01}, torch.float32),
    ({"k": 7, "value_dtype": torch.bfloat16}, torch.float32),
    ({"ratio": 0.3, "value_dtype": torch.float16}, torch.float32),
    ({"ratio": 0.01, "residual_dtype": torch.float32, "value_dtype": torch.bfloat16}, torch.bfloat16),
    ({"k": 5000}, torch.float64),
    ({"k": 7}, torch.float64),
]


@pytest.mark.parametrize(("options", "dtype"), CONSERVED)
def test_nothing_is_lost(options, dtype):
    check_conserved(gloo.run(RANKS, conserve, options, dtype), options, dtype)


def check_conserved(ranks, options, dtype):
    came = ranks[0][0]
    went = sum(rank[1] for rank in ranks)
    kept = sum(rank[2] for rank in ranks)
    assert all(torch.equal(rank[0], came) for rank in ranks)
    assert all(torch.equal(a, b) for a, b in zip(ranks[0][3], ranks[1][3], strict=True))
    assert torch.equal(came + kept, went)
    k = options.get("k") or round(options["ratio"] * 5000)
    stats = ranks[0][4]
    assert stats.numel_before == 6 * 5000 and stats.numel_sent == 6 * k
    value_bytes = (options.get("value_dtype") or options.get("residual_dtype") or dtype).itemsize
    assert stats.bytes_sent == 6 * -(-k * (4 + value_bytes) // 8) * 8
    assert stats.rate == 6 * 5000 * dtype.itemsize / stats.bytes_sent


def with_nan(rank):
    state = TopKState(k=3, min_numel=1, start_iter=0, momentum=0.5, value_dtype=torch.float16)
    first = torch.ones(50, device=gloo.device())
    if rank == 1:
        first[:6] = first.new_tensor([float("nan"), float("inf"), -float("inf"), float("nan"), 7e4, 5.0])
    results = []
    for gradient in (first, first.new_ones(50), first.new_ones(50)):
        sparse_all_reduce_(gradient, state, 0)
        results.append(gradient)
    kept = state.state_dict()
    return results, kept["residuals"][0], kept["momenta"][0]


def test_what_is_not_finite_is_sent_once():
    check_not_finite(gloo.run(RANKS, with_nan))


def check_not_finite(ranks):
    (zero, *_), (one, residual, momentum) = ranks
    for a, b in zip(zero, one, strict=True):
        assert torch.equal(a.nan_to_num(), b.nan_to_num())
    assert not one[0].isfinite().all() and one[2].isfinite().all()
    assert residual.isfinite().all() and momentum.isfinite().all()


# ---- With DDP ----


class Net(nn.Module):
    def __init__(self, unused: bool = False):
        super().__init__()
        self.first = nn.Linear(20, 300)
        self.second = nn.Linear(300, 300)
        self.last = nn.Linear(300, 4)
        self.rare = nn.Linear(300, 300) if unused else None

    def forward(self, x, rare=False):
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(x + self.rare(x) if rare else x)


def parallel(state_options, unused=False, dtype=torch.float32, **ddp_options):
    torch.manual_seed(5)
    net = Net(unused).to(gloo.device(), dtype)
    # Several buckets: 0.3 MB.
    ddp = DistributedDataParallel(net, bucket_cap_mb=0.2, find_unused_parameters=unused, **ddp_options)
    state = TopKState(parameters=net.parameters(), min_numel=1000, **state_options)
    ddp.register_comm_hook(state, topk_hook)
    return ddp, state, torch.optim.SGD(net.parameters(), lr=0.05)


def batch(step, rank, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn((16, 20), generator=generator)
    label = (x[:, :2] > 0).long() @ torch.tensor([2, 1])
    return x.to(gloo.device(), dtype), label.to(gloo.device())


def steps(ddp, optimizer, rank, numbers, dtype=torch.float32, rare=lambda step: False):
    losses = []
    for step in numbers:
        x, label = batch(step, rank, dtype)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x, rare(step)).float(), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def parameters_of(ddp):
    return torch.cat([p.detach().flatten() for p in ddp.module.parameters()])


def train_100(rank, options, dtype):
    ddp, state, optimizer = parallel(options, dtype=dtype)
    losses = steps(ddp, optimizer, rank, range(100), dtype)
    return parameters_of(ddp), losses, state.compression_stats()


TRAINED = [
    ({"ratio": 0.01}, torch.float32),
    # Of a bucket some parameters go dense, and the others sparse.
    ({"ratio": 0.02, "scope": "parameter", "momentum": 0.5}, torch.float32),
    ({"ratio": 0.02, "residual_dtype": torch.float32, "value_dtype": torch.bfloat16}, torch.bfloat16),
]


@pytest.mark.parametrize(("options", "dtype"), TRAINED)
def test_parameters_are_equal_to_the_bit_after_100_steps(options, dtype):
    check_trained(gloo.run(RANKS, train_100, options, dtype))


def check_trained(ranks):
    (a, losses, stats), (b, _, _) = ranks
    assert torch.equal(a, b)
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    assert stats.rate > 10


def restart(rank, options, unused):
    ddp, state, optimizer = parallel(options, unused)
    rare = (lambda step: step % 3 == 1) if unused else (lambda step: False)
    steps(ddp, optimizer, rank, range(8), rare=rare)
    saved = copy.deepcopy((ddp.module.state_dict(), state.state_dict()))
    steps(ddp, optimizer, rank, range(8, 16), rare=rare)
    straight = parameters_of(ddp), state.state_dict()

    ddp, state, optimizer = parallel(options, unused)
    ddp.module.load_state_dict(saved[0])
    state.load_state_dict(saved[1])
    steps(ddp, optimizer, rank, range(8, 16), rare=rare)
    return straight, (parameters_of(ddp), state.state_dict())


@pytest.mark.parametrize(
    ("options", "unused"),
    [
        ({"ratio": 0.03, "scope": "parameter", "momentum": 0.9}, False),
        ({"ratio": 0.03, "unused_parameters": True}, True),
    ],
)
def test_a_restart_goes_on_to_the_bit(options, unused):
    for straight, again in gloo.run(RANKS, restart, options, unused):
        assert torch.equal(straight[0], again[0])
        assert straight[1]["iterations"] == again[1]["iterations"] == {"ddp": 16}
        assert straight[1]["residuals"].keys() == again[1]["residuals"].keys()
        for kind in ("residuals", "momenta"):
            for key, tensor in straight[1][kind].items():
                assert torch.equal(tensor, again[1][kind][key])


def accumulate(rank):
    """Two half batches under no_sync, and whole ones: with whole numbers the same."""
    results = []
    for parts in (1, 2):
        torch.manual_seed(1)
        net = nn.Linear(64, 80, bias=False)
        nn.init.zeros_(net.weight)
        ddp = DistributedDataParallel(net)
        state = TopKState(ratio=0.05, min_numel=1, parameters=net.parameters())
        ddp.register_comm_hook(state, topk_hook)
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        for step in range(5):
            generator = torch.Generator().manual_seed(10 * step + rank)
            x = torch.randint(-8, 8, (8, 64), generator=generator).float()
            y = torch.randint(-8, 8, (8, 80), generator=generator).float()
            optimizer.zero_grad()
            pieces = list(zip(x.chunk(parts), y.chunk(parts), strict=True))
            with ddp.no_sync():
                for one, other in pieces[:-1]:
                    (ddp(one) * other).sum().backward()
            one, other = pieces[-1]
            (ddp(one) * other).sum().backward()
            optimizer.step()
        results.append((net.weight.detach().clone(), state.state_dict()["residuals"][0]))
    return results


def test_gradient_accumulation():
    for whole, halves in gloo.run(RANKS, accumulate):
        assert whole[0].count_nonzero() > 0
        assert torch.equal(whole[0], halves[0]) and torch.equal(whole[1], halves[1])


def leave_unused(rank):
    """A layer that no rank uses in some steps, and only one in others."""
    ddp, state, optimizer = parallel({"ratio": 0.02, "unused_parameters": True, "start_iter": 0}, True)
    rare = next(iter(ddp.module.rare.parameters()))
    key = next(i for i, p in enumerate(ddp.module.parameters()) if p is rare)
    kept, weights = [], []
    for step in range(4):
        used = step == 0 or (step == 2 and rank == 0)
        steps(ddp, optimizer, rank, [step], rare=lambda _, used=used: used)
        kept.append(state.state_dict()["residuals"][key])
        weights.append(rare.detach().clone())
    return kept, weights


def test_unused_parameters_keep_their_residual():
    check_unused(gloo.run(RANKS, leave_unused))


def check_unused(ranks):
    for rank, (kept, weights) in enumerate(ranks):
        assert kept[0].count_nonzero() > 0
        # Used by nobody: DDP would drop what were sent, so nothing is.
        assert torch.equal(kept[1], kept[0]) and torch.equal(weights[1], weights[0])
        # By rank 0 alone.
        assert torch.equal(kept[2], kept[1]) == (rank == 1)
        assert not torch.equal(weights[2], weights[1])
        assert torch.equal(weights[2], ranks[0][1][2])


def warm_up(rank):
    ddp, state, optimizer = parallel({"ratio": 0.01, "warmup": [(4, 0.25), (6, 0.05)]})
    sent = []
    for step in range(8):
        steps(ddp, optimizer, rank, [step])
        sent.append(state.compression_stats().numel_sent)
    buckets = [flat.numel() for flat in state._residuals._flats.values()]
    return [b - a for a, b in zip([0, *sent], sent, strict=False)], parameters_of(ddp).numel(), buckets


def test_warm_up_and_the_start_behind_the_first_buckets():
    """Two steps go dense, so that no residual is of buckets that DDP has put in order since."""
    (sent, numel, buckets), other = gloo.run(RANKS, warm_up)
    assert sent == other[0] and len(buckets) > 1 and sum(buckets) <= numel
    dense = numel - sum(buckets)
    want = [sum(round(ratio * b) for b in buckets) + dense for ratio in (0.25, 0.05, 0.01)]
    assert sent == [numel] * 2 + [want[0]] * 2 + [want[1]] * 2 + [want[2]] * 2


def scale_losses(rank):
    """A scaler's scale changes: residuals with it, and an overflow skips the step on both ranks."""
    results = []
    for scales in ([1.0] * 6, [1.0, 1.0, 4.0, 4.0, 0.5, 0.5]):
        state = TopKState(ratio=0.02, min_numel=1, start_iter=0)
        total, before = torch.zeros(5000), scales[0]
        for step, scale in enumerate(scales):
            if scale != before:
                state.rescale_(scale / before)
            before = scale
            gradient = whole_numbers(step, rank) * scale
            sparse_all_reduce_(gradient, state, 0)
            total += gradient / scale
        results.append(total)
    return results


def test_residuals_follow_the_scale_of_the_loss():
    for plain, scaled in gloo.run(RANKS, scale_losses):
        assert torch.equal(plain, scaled)


def alone(rank):
    torch.manual_seed(0)
    net = nn.Linear(30, 30)
    ddp = DistributedDataParallel(net)
    state = TopKState(ratio=0.5, min_numel=1, process_group=dist.group.WORLD)
    loaded = pickle.loads(pickle.dumps(state))
    state.load_state_dict({"iterations": {"ddp": 3}, "residuals": {}, "momenta": {}, "counts": [0, 0, 0, 0]})
    ddp.register_comm_hook(state, topk_hook)
    try:
        ddp(torch.ones(1, 30)).sum().backward()
    except RuntimeError as error:
        return str(error), loaded.process_group, loaded.ratio
    return None


def test_a_state_without_parameters_cannot_be_loaded_and_pickles_without_its_group():
    for words, group, ratio in gloo.run(RANKS, alone):
        assert "need TopKState(parameters=" in words
        assert group is None and ratio == 0.5


def train_fsdp(rank):
    """FSDP2 over a mesh of two replicas of one shard each, which our hook keeps equal."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(gloo.device().type, (RANKS, 1), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    net = Net().to(gloo.device())
    fully_shard(net, mesh=mesh["shard"])
    state = TopKState(ratio=0.03, min_numel=1, start_iter=0)
    group = mesh["replicate"].get_group()
    net.set_all_reduce_hook(lambda gradient: sparse_all_reduce_(gradient, state, "net", group))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for step in range(40):
        x, label = batch(step, rank)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return (
        torch.cat([p.to_local().detach().flatten() for p in net.parameters()]),
        losses,
        state.compression_stats(),
    )


def test_fsdp2s_all_reduce_hook():
    check_fsdp(gloo.run(RANKS, train_fsdp))


def check_fsdp(ranks):
    (a, losses, stats), (b, _, _) = ranks
    assert torch.equal(a, b)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert stats.numel_before == 40 * a.numel() and stats.numel_sent == 40 * round(0.03 * a.numel())
