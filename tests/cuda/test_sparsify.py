"""torch_topk.sparsify_ on a GPU, against the same reference as on the CPU."""

from __future__ import annotations

import functools

import pytest
import torch

from tests import delegate_model, inputs, study_library  # noqa: F401 (loads _sparsify)
from tests import sparsify_reference as reference
from torch_topk import sparsify_

pytestmark = pytest.mark.gpu


WAYS = ("resident", "one_read", "steps")


def on_gpu(self, k, way=None, **options):
    """reference.check's function: on copies there, and back. By a way, or as planned."""
    moved = {name: v.cuda() if isinstance(v, torch.Tensor) else v for name, v in options.items()}
    there = self.cuda()
    if way is None:
        values, indices = sparsify_(there, k, **moved)
    else:
        values, indices = torch.ops.gputopk._sparsify(there, k, way=way, **moved)
    self.copy_(there)
    if options.get("momentum") is not None:
        options["momentum"].copy_(moved["momentum"])
    return values.cpu(), indices.cpu()


@pytest.mark.parametrize("update", reference.UPDATES)
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 63, 5), (3, 700, 0), (900, 4096, 32), (1, 1 << 20, 10_000)]
)
def test_exact(dtype, add_dtype, rows, cols, k, update):
    self, add, momentum = (inputs.make("normal", rows, cols, torch.float32, seed=i) for i in range(3))
    self, add, momentum = self.to(dtype), add.to(add_dtype), momentum.to(dtype)
    options = reference.options_of(update, add, momentum)
    reference.check(on_gpu, self, k, **options)


@pytest.mark.parametrize("update", reference.UPDATES)
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
def test_each_way(dtype, add_dtype, update):
    """The step's function by a plan that the request would not get."""
    self, add, momentum = (inputs.make("normal", 1, 300_000, torch.float32, seed=i) for i in range(3))
    options = reference.options_of(update, add.to(add_dtype), momentum.to(dtype))
    ways = [functools.partial(on_gpu, way=way) for way in WAYS]
    reference.check_each(ways, self.to(dtype), 40, 9_000, **options)


@pytest.mark.parametrize("name", inputs.names_for(torch.float32))
@pytest.mark.parametrize(
    ("rows", "cols", "way"), [(2, 40_000, "steps"), (2, 70_008, "one_read"), (1, 1_500_000, "one_read")]
)
def test_named_inputs(name, rows, cols, way):
    """As planned, and by a way that is not the plan's."""
    self = inputs.make(name, rows, cols, torch.float32)
    ks = (1, 500, 8_000, cols // 9)
    options = {"add": self, "momentum": torch.ones_like(self), "mu": reference.MU}
    ways = [on_gpu, functools.partial(on_gpu, way=way)]
    reference.check_each(ways, torch.zeros_like(self), *ks, **options)
    reference.check_each(ways, torch.zeros_like(self), *ks, add=self)


@pytest.mark.parametrize("cols", [6_700_000, 7_100_000])
def test_the_longest_rows_that_are_resident(cols):
    """As many as shared memory holds, and more."""
    self = torch.randn(1, cols)
    for k in (700, cols // 50):
        reference.check(on_gpu, self, k, add=torch.randn(1, cols))


@pytest.mark.parametrize("k", [3, 2_000, 90_000])
def test_a_bound_that_misleads(k):
    """A sample that is far better than the row, so that fewer than k reach its bound, or far worse, so that
    more do than there is room for."""
    cols = 1_000_000
    sampled = delegate_model.sampled_elements(cols, k, torch.float32)
    for inside, outside in ((2.0, 1.0), (1.0, 2.0)):
        self = outside + torch.rand(1, cols) / 4
        self[0, sampled] = inside + torch.rand(len(sampled)) / 4
        reference.check(functools.partial(on_gpu, way="one_read"), self, k)


def test_steps_of_one_graph():
    """A long row's residual, step after step."""
    add, self = torch.randn(1, 300_000), torch.zeros(1, 300_000)
    there, added = self.cuda(), add.cuda()
    sparsify_(there.clone(), 3000, add=added)  # what is loaded lazily is
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values, indices = sparsify_(there, 3000, add=added)
    for _ in range(5):
        want = reference.expected(self, 3000, add=add)
        graph.replay()
        for got, wanted, what in zip(
            (values, indices, there), want[:3], ("values", "indices", "self"), strict=True
        ):
            reference.assert_same(got.cpu(), wanted, what)
        self = want[2]


def test_in_a_graph_and_in_a_part_of_a_buffer():
    self = torch.zeros(64, 5000, device="cuda")[:, 3:4100]
    add = torch.randn(64, 4097, device="cuda")
    before = self.cpu().contiguous()
    graph = torch.cuda.CUDAGraph()
    sparsify_(self, 41, add=add)  # what is loaded lazily is
    self.zero_()
    with torch.cuda.graph(graph):
        values, indices = sparsify_(self, 41, add=add)
    for seed in (1, 2):
        add.copy_(torch.randn(64, 4097, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        want = reference.expected(before, 41, add=add.cpu())
        for got, wanted, what in zip(
            (values, indices, self), want[:3], ("values", "indices", "self"), strict=True
        ):
            reference.assert_same(got.cpu().contiguous(), wanted, what)
        before = want[2]


def test_opcheck():
    self, add, momentum = (torch.randn(2, 40, device="cuda") for _ in range(3))
    options = {"add": add, "momentum": momentum, "mu": reference.MU}
    torch.library.opcheck(torch.ops.gputopk.sparsify_.default, (self, 3), options)
