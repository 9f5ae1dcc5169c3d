"""torch_topk.sparsify_ on a GPU, against the same reference as on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests import inputs
from tests import sparsify_reference as reference
from torch_topk import sparsify_

pytestmark = pytest.mark.gpu

ALPHA, MU = -0.37109375, 0.8984375


def on_gpu(self, k, **options):
    """reference.check's function: on copies there, and back."""
    moved = {name: v.cuda() if isinstance(v, torch.Tensor) else v for name, v in options.items()}
    there = self.cuda()
    values, indices = sparsify_(there, k, **moved)
    self.copy_(there)
    if options.get("momentum") is not None:
        options["momentum"].copy_(moved["momentum"])
    return values.cpu(), indices.cpu()


@pytest.mark.parametrize("update", ["none", "add", "scaled", "momentum"])
@pytest.mark.parametrize(("dtype", "add_dtype"), reference.PAIRS)
@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 63, 5), (3, 700, 0), (900, 4096, 32), (1, 1 << 20, 10_000)]
)
def test_exact(dtype, add_dtype, rows, cols, k, update):
    self, add, momentum = (inputs.make("normal", rows, cols, torch.float32, seed=i) for i in range(3))
    self, add, momentum = self.to(dtype), add.to(add_dtype), momentum.to(dtype)
    options = {
        "none": {},
        "add": {"add": add},
        "scaled": {"add": add, "alpha": ALPHA, "index_dtype": torch.int64},
        "momentum": {"add": add, "momentum": momentum, "mu": MU},
    }[update]
    reference.check(on_gpu, self, k, **options)


@pytest.mark.parametrize("name", inputs.names_for(torch.float32))
def test_named_inputs(name):
    self = inputs.make(name, 2, 40_000, torch.float32)
    for k in (1, 500, 13_000):
        reference.check(on_gpu, torch.zeros_like(self), k, add=self, momentum=torch.ones_like(self), mu=MU)


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
    options = {"add": add, "momentum": momentum, "mu": MU}
    torch.library.opcheck(torch.ops.gputopk.sparsify_.default, (self, 3), options)
