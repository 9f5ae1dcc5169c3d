"""install(): torch.topk, and all of torch that stands on it, with these kernels behind it."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
import torch.distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

import torch_topk
from tests import inputs, oracle
from tests.python import gloo, test_topk_wrapper
from torch_topk import _install

X = torch.arange(21.0).view(3, 7)
# Whose ties torch's own kernel breaks otherwise: see the first test.
TIES = inputs.make("few_distinct", 6, 3000)
TORCHS_DTYPES = [torch.uint8, *oracle.SIGNED_DTYPES, *(d for d in oracle.FLOAT_DTYPES if d.itemsize > 1)]


@pytest.fixture
def ours():
    with torch_topk.installed():
        yield


def is_ours() -> bool:
    return oracle.topk_problem(torch.topk(TIES, 500), TIES, 500) is None


# Installing.


def test_nothing_is_installed_by_an_import():
    assert not is_ours()
    program = (
        "import torch, torch_topk; print('behind_aten' in torch._C._dispatch_dump('aten::topk'));"
        "torch_topk.install(); print('behind_aten' in torch._C._dispatch_dump('aten::topk'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    assert done.stderr == "", "a warning of torch's about kernels that take another's place"


def test_twice_is_once_and_taken_back_at_once():
    torch_topk.install()
    torch_topk.install()
    try:
        assert is_ours()
        with torch_topk.installed():
            assert is_ours()
        assert is_ours(), "the block found it installed"
    finally:
        torch_topk.uninstall()
    assert not is_ours()
    torch_topk.uninstall()


def test_a_block_takes_back_what_it_installed_whatever_happens_in_it():
    with pytest.raises(KeyError), torch_topk.installed():
        assert is_ours()
        raise KeyError
    assert not is_ours()


def test_devices_are_chosen():
    with torch_topk.installed(devices=["cuda"] if torch_topk.has_cuda else []):
        assert not is_ours()
    with torch_topk.installed(devices=["cpu"]):
        torch_topk.uninstall(devices=[])
        assert is_ours()
    with torch_topk.installed(ops=[]):
        assert not is_ours()


def test_devices_may_be_any_iterable():
    for devices in (iter(["cpu"]), (name for name in ("cpu",)), {"cpu"}, {"cpu": 1}):
        with torch_topk.installed(devices=devices, ops=iter(["topk"])):
            assert is_ours()
        assert not is_ours()


@pytest.mark.parametrize(
    "arguments",
    [
        {"devices": None},
        {"ops": 1},
        {"devices": ["mps"]},
        {"devices": "cpu"},
        {"ops": ["kthvalue"]},
        {"ops": "topk"},
    ],
    ids=str,
)
def test_another_device_or_op_is_refused(arguments):
    for function in (
        torch_topk.install,
        torch_topk.uninstall,
        lambda **a: torch_topk.installed(**a).__enter__(),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be some of"):
            function(**arguments)
    assert not is_ours()


def test_cuda_without_its_kernels_is_refused_before_anything_is_installed(monkeypatch):
    monkeypatch.setattr(_install, "has_cuda", False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match="no kernels for cuda"):
        torch_topk.install()
    assert not is_ours()
    with torch_topk.installed(devices=("cpu",)):
        assert is_ours()


# Results.


@pytest.mark.parametrize("dtype", TORCHS_DTYPES, ids=oracle.name_of)
def test_results_are_exact_with_the_lower_index_of_ties(ours, dtype):
    for name in ("few_distinct", "mixed_rows"):
        tensor = inputs.make(name, 12, 300, dtype)
        for shaped, dim in ((tensor, -1), (tensor, 0), (tensor.T, 1), (tensor.view(3, 4, 300), 1)):
            for k in (0, 1, 3):
                for largest in (True, False):
                    for sorted in (True, False):
                        result = torch.topk(shaped, k, dim, largest, sorted)
                        oracle.assert_topk(result, shaped, k, dim, largest, sorted=sorted)
                        method = shaped.topk(k, dim, largest, sorted)
                        assert torch.equal(method.indices, result.indices)


@pytest.mark.parametrize("dtype", TORCHS_DTYPES, ids=oracle.name_of)
def test_outs_are_filled_resized_and_strided(ours, dtype):
    tensor = inputs.make("few_distinct", 5, 700, dtype)

    def outs(*shape):
        return torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=torch.int64)

    for out in (outs(5, 90), outs(0), (outs(90, 5)[0].T, outs(5, 180)[1][:, ::2])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = torch.topk(tensor, 90, out=out)
        assert result[0].data_ptr() == out[0].data_ptr() and result[1].data_ptr() == out[1].data_ptr()
        oracle.assert_topk(out, tensor, 90, contiguous=False)


def said(call) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message).split(" (Triggered")[0] for warning in caught]


def test_a_resized_out_is_warned_of_in_torchs_words():
    def call():
        torch.topk(X, 2, out=(torch.zeros(5), torch.zeros(2, 7, dtype=torch.int64)))

    theirs = said(call)
    with torch_topk.installed():
        assert said(call) == theirs
    assert len(theirs) == 2


def outcome(call) -> tuple:
    try:
        return "result", *call(torch.topk)
    except Exception as error:  # any type: it is compared
        return type(error), test_topk_wrapper.words(error)


OTHER_CALLS = {
    **test_topk_wrapper.BAD,
    "bool": lambda topk: topk(X > 3, 2),
    "uint16": lambda topk: topk(X.to(torch.uint16), 2),
    "float8": lambda topk: topk(X.to(torch.float8_e5m2), 2),
    "a dtype that the stable ABI has no word for": lambda topk: topk(torch.empty(3, 7, dtype=torch.bits8), 2),
    "bool, with outs": lambda topk: topk(X > 3, 2, out=(torch.zeros(3, 2) > 0, torch.zeros(3, 2).long())),
    "sparse": lambda topk: topk(X.to_sparse(), 2),
    "named dimensions": lambda topk: topk(X.rename("a", "b"), 2),
    "indices of another dtype": lambda topk: topk(X, 2, out=(torch.zeros(3, 2), torch.zeros(3, 2).int())),
    "an expanded out": lambda topk: topk(
        X, 2, out=(torch.zeros(3, 1).expand(3, 2), torch.zeros(3, 2).long())
    ),
    "a leaf as an out": lambda topk: topk(
        X, 2, out=(torch.zeros(3, 2, requires_grad=True), torch.zeros(3, 2).long())
    ),
    "more than memory": lambda topk: topk(torch.zeros(1, 7).expand(2**48, 7), 2),
}


@pytest.mark.parametrize("what", OTHER_CALLS)
def test_what_torch_refuses_is_refused_in_the_same_way(what):
    theirs = outcome(OTHER_CALLS[what])
    assert theirs[0] != "result", "torch.topk accepts this"
    with torch_topk.installed():
        assert outcome(OTHER_CALLS[what]) == theirs
        assert is_ours()


def test_outs_that_share_the_inputs_memory_are_left_to_torchs_kernel():
    def call():
        both = torch.arange(12.0).view(3, 4)
        return torch.topk(both[:, :3], 2, out=(both[:, 1:3], torch.zeros(3, 2, dtype=torch.int64)))

    theirs = call()
    with torch_topk.installed():
        assert torch.equal(call().values, theirs.values) and torch.equal(call().indices, theirs.indices)


@pytest.mark.parametrize(
    "what", ["named", "scalar", "scalar, dim 0", "k = 0", "empty", "meta", "requires grad"]
)
def test_what_torch_accepts_has_its_form(ours, what):
    test_topk_wrapper.test_what_torch_accepts_is_answered_alike(what)


def test_quantized_tensors_stay_torchs(ours):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        quantized = torch.quantize_per_tensor(X.sin(), 0.01, 0, torch.quint8)
    assert torch.topk(quantized, 2).values.is_quantized


def test_unsorted_is_deterministic_where_that_is_asked_for(ours):
    torch.use_deterministic_algorithms(True)
    try:
        result = torch.topk(TIES, 500, sorted=False)
    finally:
        torch.use_deterministic_algorithms(False)
    oracle.assert_topk(result, TIES, 500)  # by value


def test_ours_calls_itself_never(ours, monkeypatch):
    monkeypatch.setattr(torch, "topk", torch_topk.topk)
    for what, call in test_topk_wrapper.BAD.items():
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as caught:
            call(torch.topk)
        assert not isinstance(caught.value, RecursionError), what


def test_threads_of_another_call_are_no_matter(ours):
    threads = torch.get_num_threads()
    try:
        for n in (1, 2, 4):
            torch.set_num_threads(n)
            assert is_ours()
    finally:
        torch.set_num_threads(threads)


# Subsystems of torch: the kernels below are another's, and everything above is as it was.


def test_gradients(ours):
    leaf = torch.randperm(40, dtype=torch.float64).view(4, 10).requires_grad_()
    for arguments in ((3,), (2, 0), (2, 1, False), (2, -1, True, False)):

        def values(x, arguments=arguments):
            return torch.topk(x, *arguments).values

        assert gradcheck(values, (leaf,), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(lambda x: values(x) ** 3, (leaf,))
    ties = torch.ones(2, 600, requires_grad=True)
    torch.topk(ties, 200).values.sum().backward()
    assert torch.equal(ties.grad, (torch.arange(600) < 200).float().expand(2, 600))


def test_an_out_that_was_overwritten_is_known_to_autograd(ours):
    weights, values = torch.ones(3, 2, requires_grad=True), torch.full((3, 2), 5.0)
    loss = (weights * values).sum()
    torch.topk(X, 2, out=(values, torch.zeros(3, 2, dtype=torch.int64)))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_function_transforms(ours):
    def loss(x):
        return torch.topk(x, 3).values.pow(3).sum()

    x = torch.randperm(30, dtype=torch.float64).view(5, 6) / 10
    mask = torch.zeros_like(x).scatter(1, x.argsort(1, descending=True)[:, :3], 1.0)
    assert torch.allclose(torch.func.vmap(torch.func.grad(loss))(x), 3 * x**2 * mask)
    assert torch.allclose(torch.func.jacrev(loss)(x), 3 * x**2 * mask)
    assert torch.allclose(torch.func.hessian(loss)(x[0]).diagonal(), (6 * x * mask)[0])
    indices = torch.vmap(lambda row: torch.topk(row, 500).indices)(TIES)
    assert torch.equal(indices, torch_topk.topk(TIES, 500).indices)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_programs(ours, backend):
    torch._dynamo.reset()
    function = torch.compile(
        lambda x, k: torch.topk(x, k, largest=False), fullgraph=True, dynamic=True, backend=backend
    )
    for rows, cols, k in ((3, 2000, 400), (5, 3100, 900)):
        tensor = inputs.make("few_distinct", rows, cols)
        oracle.assert_topk(function(tensor, k), tensor, k, largest=False)


def test_exported_programs_and_fakes(ours):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.topk(x, 500)

    exported = torch.export.export(Model(), (TIES,))
    assert torch.equal(exported.module()(TIES)[1], torch_topk.topk(TIES, 500).indices)
    with FakeTensorMode():
        assert torch.topk(torch.empty(4, 30, device="cuda"), 5).indices.shape == (4, 5)


@pytest.mark.parametrize("arguments", [(X, 2), (X, 2, 0, False, False), (torch.tensor(3.0), 1)], ids=repr)
def test_opcheck(ours, arguments):
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.aten.topk.default, arguments, test_utils=checks)
    leaf = arguments[0].clone().requires_grad_()
    torch.library.opcheck(torch.ops.aten.topk.default, (leaf, *arguments[1:]), test_utils=checks)


def check_dtensor(rank: int, world: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    warnings.simplefilter("ignore")
    torch_topk.install()
    mesh = init_device_mesh("cpu", (world,))
    for dim, k in ((0, 3), (1, 500)):
        for placement in (Replicate(), Shard(0), Shard(1)):
            leaf = distribute_tensor(TIES, mesh, [placement]).requires_grad_()
            values, indices = torch.topk(leaf, k, dim)
            oracle.assert_topk((values.full_tensor().detach(), indices.full_tensor()), TIES, k, dim)
            values.sum().backward()
            assert leaf.grad.full_tensor().sum() == k * TIES.size(1 - dim)


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)
def test_dtensor():
    gloo.run(2, check_dtensor, 2)


# torch's own samples of topk: what its test suite runs every operator on.


@pytest.fixture(scope="module")
def op_info():
    pytest.importorskip("expecttest")  # which torch's own tests want
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = (info for info in op_db if info.name == "topk")
    return info


def test_torchs_samples_in_every_dtype_that_torch_says_it_serves(ours, op_info):
    ran = 0
    for dtype in (*oracle.DTYPES, torch.complex64):
        samples = [] if dtype not in op_info.dtypes else list(op_info.sample_inputs("cpu", dtype))
        for sample in samples:
            result = op_info(sample.input, *sample.args, **sample.kwargs)
            k, dim, *flags = (*sample.args, -1)[: max(2, len(sample.args))]
            oracle.assert_topk(result, sample.input, k, dim, *flags)
            ran += 1
        if dtype not in op_info.dtypes:
            with pytest.raises(RuntimeError):
                op_info(torch.zeros(3, 3, dtype=dtype), 1)
    assert ran >= 14 * len(op_info.dtypes)


def test_torchs_samples_have_torchs_gradients_and_outs(ours, op_info):
    for sample in op_info.sample_inputs("cpu", torch.float64, requires_grad=True):

        def values(x, sample=sample):
            return op_info(x, *sample.args, **sample.kwargs).values

        assert gradcheck(values, (sample.input,), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(values, (sample.input,))
        want = op_info(sample.input.detach(), *sample.args, **sample.kwargs)
        out = torch.empty_like(want.values), torch.empty_like(want.indices)
        version = out[0]._version
        op_info(sample.input.detach(), *sample.args, **sample.kwargs, out=out)
        assert torch.equal(out[0], want.values) and torch.equal(out[1], want.indices)
        assert out[0]._version > version
