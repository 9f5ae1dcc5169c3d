"""The papers' baselines of the study library on a GPU: per-thread, bucket and search-tree top-k."""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle, study_library  # noqa: F401 (loads the operators)

pytestmark = pytest.mark.gpu

OPERATORS = ("_per_thread_topk", "_bucket_topk", "_tree_topk")
DTYPES = (torch.int32, torch.uint32, torch.float32, torch.int64, torch.float64)

each_operator = pytest.mark.parametrize("name", OPERATORS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=oracle.name_of)


def check(name: str, tensor: torch.Tensor, k: int, largest: bool = True) -> None:
    result = getattr(torch.ops.gputopk, name)(tensor, k, largest, False)
    oracle.assert_topk_on_device(result, tensor, k, largest=largest, sorted=False)


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [(70, 100, (1, 8, 100)), (9, 70_000, (1, 30, 256)), (1, 3_000_000, (1, 64, 450))],
    ids=str,
)
@each_dtype
@each_operator
def test_every_named_input_is_answered_exactly(device, name, dtype, rows, cols, ks):
    for seed, family in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(family, rows, cols, dtype, device, seed)
        for k in ks:
            check(name, tensor, k, largest=(seed + k) % 2 == 0)


@each_operator
def test_small_cases_agree_with_the_oracle_itself(device, name):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    for cols, k in ((60, 8), (5000, 20), (20_000, 300)):
        tensor = inputs.make("mixed_rows", 20, cols, torch.float32, device)
        for largest in (True, False):
            result = getattr(torch.ops.gputopk, name)(tensor, k, largest, False)
            oracle.assert_topk(result, tensor, k, largest=largest, sorted=False)


@pytest.mark.parametrize("k", [8, 16, 32, 64, 128])
def test_lists_in_registers(device, k):
    per_thread = torch.ops.gputopk._per_thread_topk
    for rows, cols in ((70, 200), (1, 3_000_000)):
        for seed, family in enumerate(inputs.names_for(torch.float32)):
            tensor = inputs.make(family, rows, cols, torch.float32, device, seed)
            result = per_thread(tensor, k, seed % 2 == 0, False, registers=True)
            oracle.assert_topk_on_device(result, tensor, k, largest=seed % 2 == 0, sorted=False)
    for other, count in ((torch.float32, 9), (torch.int32, k)):
        with pytest.raises(RuntimeError, match="_per_thread_topk: registers must be False but for float32"):
            per_thread(torch.zeros(1, 500, dtype=other, device=device), count, True, False, registers=True)


@pytest.mark.parametrize("name", ["_bucket_topk", "_tree_topk"])
def test_buckets_serve_any_k(device, name):
    tensor = inputs.make("normal", 2, 100_003, torch.float32, device)
    for k in (1000, 50_000, 100_002, 100_003):
        check(name, tensor, k)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16], ids=oracle.name_of)
def test_the_search_tree_serves_narrow_elements(device, dtype):
    for rows, cols, ks in ((9, 70_000, (1, 256, 69_999)), (1, 3_000_000, (64, 100_000))):
        for seed, family in enumerate(inputs.names_for(dtype)):
            tensor = inputs.make(family, rows, cols, dtype, device, seed)
            for k in ks:
                check("_tree_topk", tensor, k, largest=(seed + k) % 2 == 0)


def test_a_row_that_is_long(device):
    for family in ("uniform", "increasing", "ones_with_four_outliers"):
        tensor = inputs.make(family, 1, 2**27 + 3, torch.float32, device)
        for name in OPERATORS:
            check(name, tensor, 64)


@each_dtype
@each_operator
def test_rows_that_are_not_aligned_or_lie_apart(device, name, dtype):
    for cols, gap, offset in ((100, 1, 1), (9000, 0, 3), (40_001, 5, 2)):
        flat = inputs.make("mixed_rows", 1, offset + 7 * (cols + gap), dtype, device, seed=cols)[0]
        tensor = flat[offset:].as_strided((7, cols), (cols + gap, 1), offset)
        for k in (5, 90):
            check(name, tensor, k)


@each_operator
def test_what_a_baseline_does_not_serve_is_refused_by_name(device, name):
    function = getattr(torch.ops.gputopk, name)
    tensor = torch.zeros(2, 5000, device=device)
    with pytest.raises(RuntimeError, match=f"{name}: sorted must be False"):
        function(tensor, 5, True, True)
    if name != "_tree_topk":
        with pytest.raises(
            RuntimeError, match=f"{name}: self must have elements of 4 or 8 bytes, but is of bfloat16"
        ):
            function(tensor.bfloat16(), 5, True, False)
    with pytest.raises(RuntimeError, match="k is 5001"):
        function(tensor, 5001, True, False)


def test_a_k_beyond_a_blocks_shared_memory_is_refused(device):
    for dtype in (torch.float32, torch.float64):
        tensor = torch.zeros(1, 70_000, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match=r"_per_thread_topk: k must be at most .* but is 4000"):
            torch.ops.gputopk._per_thread_topk(tensor, 4000, True, False)


@each_operator
def test_nothing_to_select(device, name):
    function = getattr(torch.ops.gputopk, name)
    for shape, k in (((0, 50), 3), ((4, 50), 0)):
        values, indices = function(torch.zeros(shape, device=device), k, True, False)
        assert values.shape == indices.shape == (shape[0], k)


@each_operator
def test_a_captured_graph_reads_what_its_input_holds_when_it_runs(device, name):
    function = getattr(torch.ops.gputopk, name)
    tensor = torch.randn(3, 60_000, device=device)
    function(tensor, 30, True, False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(tensor, 30, True, False)
    for seed in range(10):
        tensor.copy_(inputs.make("mixed_rows", 3, 60_000, torch.float32, device, seed))
        graph.replay()
        oracle.assert_topk_on_device(outputs, tensor, 30, sorted=False)
