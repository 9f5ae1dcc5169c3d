"""The operator on a GPU as PyTorch meets it, and its fuzz."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given

import torch_topk
from tests import inputs, oracle, strategies

pytestmark = pytest.mark.gpu

topk = torch.ops.gputopk.topk


@given(strategies.calls(max_elements=20_000))
def test_any_call_gives_the_oracles_answer(call):
    tensor = call.tensor("cuda")
    call.check(call.run(topk, tensor), tensor)


def random_shape(generator: random.Random) -> tuple[int, int, int]:
    """rows, cols, k: sizes of every order of magnitude, k more often small."""
    cols = max(1, int(2 ** generator.uniform(0, 21)) + generator.randint(-3, 3))
    rows = generator.randint(1, max(1, min(400, (1 << 22) // cols)))
    k = min(cols, max(1, int(2 ** generator.uniform(0, 14))))
    return rows, cols, generator.choice([k, k, k, min(cols, k + 1), max(1, cols - k), cols])


@pytest.mark.parametrize("part", range(10))
def test_mixed_rows_of_any_size_are_answered_exactly(device, part, request):
    """300 calls by default, thousands of rows, checked on the device."""
    generator = random.Random(part)
    examples = request.config.getoption("--fuzz-examples") or 300
    for example in range(examples // 10):
        rows, cols, k = random_shape(generator)
        dtype = generator.choice(oracle.DTYPES)
        tensor = inputs.make("mixed_rows", rows, cols, dtype, device, seed=1000 * part + example)
        flags = {flag: generator.random() < 0.5 for flag in ("largest", "sorted", "magnitude")}
        flags["index_dtype"] = generator.choice([torch.int64, torch.int32])
        oracle.assert_topk_on_device(topk(tensor, k, **flags), tensor, k, **flags)


@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_by_index_is_the_same_set_by_ascending_index(device, dtype, index_dtype):
    for shape, dim, k in [
        ((300, 40), 1, 7),
        ((40, 300), 0, 11),
        ((300, 250), 1, 33),
        ((300, 1000), 1, 100),
        ((64, 64), 1, 60),
        ((2, 70000), 1, 30000),
        ((1, 5), 1, 5),
        ((), 0, 1),
    ]:
        tensor = inputs.make("few_distinct", 1, max(1, math.prod(shape)), dtype, device).view(shape)
        best, at = topk(tensor, k, dim)
        at, places = at.sort(dim)
        values, indices = torch_topk.topk(tensor, k, dim, order="index", index_dtype=index_dtype)
        assert indices.dtype == index_dtype
        assert torch.equal(indices.long(), at)
        assert torch.equal(oracle.as_ints(values), oracle.as_ints(best).gather(dim, places))


def samples() -> list[tuple[str, tuple, dict]]:
    x = inputs.make("normal", 6, 40).view(2, 3, 40)
    return [
        ("plain", (x, 5), {}),
        ("every flag", (x, 2, -2, False, False), {"magnitude": True, "index_dtype": torch.int32}),
        ("air", (x, 5), {"algorithm": int(torch_topk.Algorithm.air)}),
        ("k = 0", (x, 0), {}),
        ("scalar", (torch.tensor(2.0), 1), {}),
        ("scalar, k = 0", (torch.tensor(2.0), 0, 0), {}),
        ("empty", (torch.zeros(0, 4), 2), {}),
        ("dim 0", (x, 2, 0), {}),
        ("transposed", (x.transpose(0, 2), 2), {}),
        ("expanded", (x[:, :1].expand(2, 7, 40), 3, 1), {}),
        ("bfloat16", (x.to(torch.bfloat16), 3), {}),
        ("uint32", (inputs.make("normal", 3, 9, torch.uint32), 3), {}),
        ("bool", (x > 0, 3), {}),
    ]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("args", "kwargs"), [s[1:] for s in samples()], ids=[s[0] for s in samples()])
def test_opcheck_accepts_the_operator(device, args, kwargs, requires_grad):
    # A copy keeps the strides of a transposed view; the expanded one becomes dense.
    tensor = args[0].detach().to(device)
    if requires_grad:
        if not tensor.is_floating_point():
            return
        tensor = tensor.clone().requires_grad_()
    torch.library.opcheck(topk.default, (tensor, *args[1:]), kwargs)


def test_opcheck_accepts_the_out_variant(device):
    tensor = inputs.make("normal", 3, 20, torch.float32, device)
    values = torch.empty(3, 4, device=device)
    indices = torch.empty(3, 4, dtype=torch.int64, device=device)
    torch.library.opcheck(topk.out, (tensor, 4), {"values": values, "indices": indices})


def test_the_operator_compiles_whole_with_dynamic_shapes(device):
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, dynamic=True)
    def function(x, k):
        values, indices = topk(x * 2, k)
        return values + 1, indices

    for rows, cols, k in ((20, 600, 3), (33, 5000, 7)):
        tensor = inputs.make("few_distinct", rows, cols, torch.float32, device)
        want = topk(tensor * 2, k)
        got = function(tensor, k)
        assert torch.equal(got[0], want[0] + 1) and torch.equal(got[1], want[1])


def test_the_wrapper_compiles_into_a_cuda_graph(device):
    torch._dynamo.reset()
    function = torch.compile(lambda x: torch_topk.topk(x, 5), fullgraph=True, mode="reduce-overhead")
    for seed in range(5):
        tensor = inputs.make("few_distinct", 8, 4000, torch.float32, device, seed)
        torch.compiler.cudagraph_mark_step_begin()
        result = tuple(function(tensor))
        oracle.assert_topk([part.clone() for part in result], tensor, 5)


def test_strided_outs_are_honoured(device):
    tensor = inputs.make("normal", 12, 5000, torch.float32, device)
    values = torch.full((7, 12), 99.0, device=device).T
    indices = torch.full((12, 14), 99, device=device)[:, ::2]
    topk.out(tensor, 7, values=values, indices=indices)
    oracle.assert_topk((values, indices), tensor, 7, contiguous=False)
    assert bool((indices._base[:, 1::2] == 99).all()), "written between the strides"


def test_gradients_are_those_of_the_cpu(device):
    tensor = inputs.make("normal", 12, 500, torch.float64)
    grads = []
    for where in ("cpu", device):
        leaf = tensor.clone().to(where).requires_grad_()
        (torch_topk.topk(leaf, 9, magnitude=True).values ** 2).sum().backward()
        grads.append(leaf.grad.cpu())
    assert torch.equal(*grads)


def test_vmap_gives_what_a_loop_gives(device):
    tensor = inputs.make("few_distinct", 12, 500, torch.float32, device).view(3, 4, 500)
    values, indices = torch.vmap(lambda x: topk(x, 9), in_dims=1)(tensor)
    oracle.assert_topk((values, indices), tensor.transpose(0, 1), 9)


def test_lazily_cloned_and_negated_inputs_are_read_right(device):
    lazy = torch._lazy_clone(inputs.make("normal", 4, 5000, torch.float32, device))
    oracle.assert_topk(topk(lazy, 3), lazy.clone(), 3)
    assert torch._C._is_cow_tensor(lazy)
    negated = torch.view_as_complex(inputs.make("normal", 4000, 2, torch.float32, device)).conj().imag
    oracle.assert_topk(topk(negated, 7), negated.resolve_neg(), 7)


def test_the_wrapper_returns_torchs_type_and_takes_outs(device):
    tensor = inputs.make("normal", 4, 5000, torch.float32, device)
    result = torch_topk.topk(tensor, 5, algorithm="air")
    assert isinstance(result, torch.return_types.topk)
    oracle.assert_topk(result, tensor, 5)
    again = torch_topk.topk(-tensor, 5, out=result)
    assert again.values.data_ptr() == result.values.data_ptr()
    oracle.assert_topk(result, -tensor, 5)


def test_another_current_device_does_not_matter(device):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    tensor = inputs.make("normal", 4, 50_000, torch.float32, "cuda:1")
    with torch.cuda.device(0):
        oracle.assert_topk_on_device(topk(tensor, 50), tensor, 50)


def test_the_plan_names_the_gpus_algorithm(device):
    tensor = torch.empty(3, 100_000, device=device)
    assert torch.ops.gputopk._plan(tensor, 5).split(":")[0] in [a.name for a in torch_topk.Algorithm]


def test_out_of_memory_is_torchs_exception_and_later_calls_are_right(device):
    endless = torch.zeros(1, 7, device=device).expand(2**38, 7)
    for call in (lambda: torch_topk.topk(endless, 2), lambda: torch_topk.topk(endless[:, ::2], 2)):
        with pytest.raises(torch.OutOfMemoryError, match=r"cannot allocate \d{12,} bytes on cuda:"):
            call()
        tensor = inputs.make("few_distinct", 4, 5000, torch.float32, device)
        oracle.assert_topk(torch_topk.topk(tensor, 5), tensor, 5)


def test_outs_of_another_device_are_refused(device):
    tensor = torch.zeros(3, 7, device=device)
    out = {"values": torch.zeros(3, 2), "indices": torch.zeros(3, 2, dtype=torch.int64, device=device)}
    words = f"Expected out tensor to have device {device}, but got cpu instead"
    with pytest.raises(RuntimeError, match=words):
        topk.out(tensor, 2, **out)
    with pytest.raises(RuntimeError, match=f"device cpu, but got {device} instead"):
        topk.out(tensor.cpu(), 2, **out)
