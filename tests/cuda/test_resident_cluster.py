"""Rows in the registers of a cluster, delegate.resident_cluster, on a GPU: every named input, dtype, flag and
boundary against the exact oracle."""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle, study_library  # noqa: F401 (loads _form)
from tests.cuda.calls import FLAGS

pytestmark = pytest.mark.gpu

FORM = "delegate.resident_cluster"


@pytest.fixture(autouse=True)
def _has_clusters(device):
    if FORM not in torch.ops.gputopk._forms(torch.empty((1, 20_000), device=device), 5):
        pytest.skip("this GPU has no clusters")


def check(tensor: torch.Tensor, k: int, **flags) -> None:
    largest, order = flags.get("largest", True), flags.get("sorted", True)
    outputs = torch.ops.gputopk._form(
        tensor, k, FORM, largest, order, magnitude=flags.get("magnitude", False)
    )
    oracle.assert_topk_on_device(outputs, tensor, k, **flags)


def serves(tensor: torch.Tensor, k: int) -> bool:
    return f"{FORM};" in torch.ops.gputopk._forms(tensor, k)


@pytest.mark.parametrize("name", [*inputs.names_for(torch.float32), inputs.MIXED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=oracle.name_of)
def test_every_named_input_is_answered_exactly(device, dtype, name):
    if name != inputs.MIXED and not inputs.applies(name, dtype):
        pytest.skip("not of this dtype")
    for rows, cols, k in ((1, 131_072, 2048), (5, 70_001, 64), (40, 20_000, 300)):
        tensor = inputs.make(name, rows, cols, dtype, device)
        for largest in (True, False):
            check(tensor, k, largest=largest)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_dtype_and_flag_is_answered_exactly(device, dtype):
    for cols, k in ((20_003, 100), (60_000, 1000)):
        tensor = inputs.make("mixed_rows", 40, cols, dtype, device)
        for flags in FLAGS:
            check(tensor, k, **flags)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_around_what_registers_hold_are_answered_exactly(device, dtype):
    elements = 16 if dtype == torch.float64 else 32
    longest = 16 * 1024 * elements
    for edge in (4096, 2 * 256 * elements, 8 * 256 * elements, 2 * 1024 * elements, longest):
        for step in (-17, -1, 0, 1, 16):
            cols = edge + step
            for rows, name in ((1, "normal"), (7, "few_distinct")):
                tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
                for k in (1, 33, cols // 40):
                    if serves(tensor, k):
                        check(tensor, k, largest=k % 2 == 0)
                    else:
                        assert cols < 4096 or cols > longest - 16 or k > 2048


@pytest.mark.parametrize("shift", range(1, 5))
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32], ids=oracle.name_of)
def test_rows_may_begin_anywhere(device, dtype, shift):
    whole = inputs.make("normal", 9, 32_768 + 8, dtype, device)
    for cols in (32_768, 32_767, 20_001):
        check(whole[:, shift : shift + cols], 100)


@pytest.mark.parametrize("rows", [1, 8, 9, 33, 66, 67, 500])
def test_any_number_of_rows_shares_the_gpu(device, rows):
    tensor = inputs.make("normal", rows, 65_536, torch.float32, device)
    for k in (1, 512, 4096):
        if serves(tensor, k):
            check(tensor, k)


def test_in_a_graph(device):
    tensor = inputs.make("normal", 4, 100_000, torch.float32, device)
    graph = torch.cuda.CUDAGraph()
    check(tensor, 100)
    with torch.cuda.graph(graph):
        outputs = torch.ops.gputopk._form(tensor, 100, FORM, True, True, magnitude=False)
    for seed in (1, 2):
        tensor.copy_(inputs.make("normal", 4, 100_000, torch.float32, device, seed=seed))
        graph.replay()
        oracle.assert_topk_on_device(outputs, tensor, 100)
