"""AIR on a GPU: every named input, dtype and boundary against exact checks, and what a call may not do."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import torch_topk
from tests import inputs, oracle, tuning
from tests.cuda import calls
from tests.cuda.calls import DTYPES, FLAGS

pytestmark = pytest.mark.gpu

topk = torch.ops.gputopk.topk
AIR = int(torch_topk.Algorithm.air)
ALGORITHMS = pytest.mark.parametrize("algorithm", [0, AIR], ids=["auto", "air"])
# Sizes of a row around which the plan changes, and the k beyond which winners are ordered in another way.
SWITCH_COLS = [
    tuning.number(name)
    for name in ("kAirBlockList", "kAirBlockShortCols", "kAirClusterMinCols", "kAirBlockMaxCols")
]
ORDER_K = 4096  # the greatest k that a form puts in order itself

run = functools.partial(calls.run, algorithm=AIR)
check = functools.partial(calls.check, algorithm=AIR)


def ks_for(cols: int, more=()) -> list[int]:
    return sorted({k for k in (1, 2, cols // 2, cols - 1, cols, *more) if 1 <= k <= cols})


# Every input.


@pytest.mark.parametrize(
    ("rows", "cols", "algorithm"),
    [(5, 1000, 0), (5, 1000, AIR), (3, 150_001, AIR), (2, 600_001, AIR)],
    ids=str,
)  # one block a row, one cluster, and many blocks
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, rows, cols, algorithm):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else rows, cols, dtype, device, seed)
        for k, flags in zip((1, 40, 513, cols // 3) * 2, FLAGS, strict=True):
            check(tensor, k, algorithm=algorithm, **flags)


@DTYPES
def test_small_cases_agree_with_the_oracle_itself(device, dtype):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    tensor = inputs.make("mixed_rows", 40, 300, dtype, device)
    for k, flags in itertools.product((1, 20, 300), FLAGS):
        oracle.assert_topk(run(tensor, k, **flags), tensor, k, **flags)


@DTYPES
def test_the_gpu_gives_the_bits_of_the_cpu(device, dtype):
    tensor = inputs.make("mixed_rows", 80, 2500, dtype, device)
    for flags in FLAGS:
        if flags["sorted"]:
            ours, theirs = topk(tensor, 100, **flags), topk(tensor.cpu(), 100, **flags)
            assert torch.equal(ours[1].cpu(), theirs[1])
            assert torch.equal(oracle.as_ints(ours[0]).cpu(), oracle.as_ints(theirs[0]))


# Sizes.


@ALGORITHMS
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
@pytest.mark.parametrize("switch_cols", SWITCH_COLS)
def test_rows_around_the_switch_points_are_answered_exactly(device, switch_cols, dtype, algorithm):
    for step in (-3, -1, 0, 1, 3):
        cols = switch_cols + step
        for rows, name in ((1, "normal"), (3, "few_distinct"), (300, "ten_bit_prefix")):
            tensor = inputs.make(name, rows, cols, dtype, device, seed=cols)
            for k in (1, 2047, ORDER_K - 1, ORDER_K, ORDER_K + 1):
                check(tensor, min(k, cols), algorithm=algorithm, sorted=k % 2 == 1)


@pytest.mark.parametrize("largest", [True, False])
def test_every_short_width_is_answered_exactly(device, largest):
    for cols in [*range(1, 300), *range(1020, 1030), *range(2044, 2052), *range(4092, 4100)]:
        tensor = inputs.make("digit_boundaries", 2, cols, torch.float16, device, seed=cols)
        for k in ks_for(cols):
            check(tensor, k, largest=largest)


@pytest.mark.parametrize(
    "k", [31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 20_000, 99_999]
)
def test_k_at_its_edges_is_answered_exactly(device, k):
    for name in ("normal", "few_distinct"):
        tensor = inputs.make(name, 3, 100_003, torch.float32, device)
        for order in (True, False):
            check(tensor, k, sorted=order)
            check(tensor, k, sorted=order, largest=False, index_dtype=torch.int32)


@pytest.mark.parametrize(
    ("rows", "cols"),
    [(70_000, 33), (65_535, 8), (65_536, 8), (65_537, 8), (1 << 20, 5), (131, 9000), (132, 9000), (133, 9000),
     (263, 2000), (265, 2000), (1000, 1)],
    ids=str,
)  # fmt: skip
def test_many_rows_are_answered_exactly(device, rows, cols):
    tensor = inputs.make("mixed_rows", rows, cols, torch.float32, device)
    for k in ks_for(cols, (3, 64)):
        check(tensor, k)
        check(tensor, k, sorted=False, largest=False)


# Layouts.


@pytest.mark.parametrize("algorithm", ["air", "grid_select", "delegate"])
@pytest.mark.parametrize("cols", [3000, 40_001, 2**20 + 3], ids=str)
def test_rows_of_one_value_with_and_without_gaps_are_answered_exactly(device, algorithm, cols):
    """Without gaps the k-th index is known by counting; one gap, and it is not."""
    tensor = inputs.make("all_equal", 6, cols, torch.float32, device)
    tensor[1, 0] = tensor[2, 25] = tensor[3, cols // 2] = -5
    tensor[4, ::2] = -5
    tensor[5, 1::997] = 7
    for k in (1, 2, 24, 25, 26, 30, min(cols // 100, 4000)):
        for flags in FLAGS:
            calls.check(tensor, k, algorithm=int(torch_topk.Algorithm[algorithm]), **flags)


@pytest.mark.parametrize("algorithm", ["air", "grid_select"])
@pytest.mark.parametrize("offset", range(16))
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_at_any_alignment_are_answered_exactly(device, dtype, offset, algorithm):
    storage = inputs.make("normal", 1, 3 * 40_100 + 64, dtype, device).view(-1)
    for cols in (61, 1001, 40_001):
        for row_stride in (cols, cols + 1, cols + 16):
            tensor = storage.as_strided((3, cols), (row_stride, 1), offset)
            for k, largest in ((50, True), (1, False)):
                calls.check(tensor, k, algorithm=int(torch_topk.Algorithm[algorithm]), largest=largest)


@DTYPES
def test_any_dim_of_any_layout_agrees_with_the_oracle(device, dtype):
    base = inputs.make("few_distinct", 24, 35, dtype, device).view(4, 6, 5, 7)
    for tensor in (
        base,
        base.permute(3, 1, 0, 2),
        base[1:, ::2, 1:, ::3],
        base.reshape(-1).unfold(0, 9, 2),
        base.reshape(-1).as_strided((3, 5, 40), (7, 7, 1)),
        base.reshape(-1).as_strided((3, 2, 40), (200, 50, 1)),
        base[:, :1].expand(4, 6, 5, 7),
    ):
        for dim in range(tensor.dim()):
            for k in {0, 1, tensor.shape[dim]}:
                oracle.assert_topk(topk(tensor, k, dim), tensor, k, dim)
    scalar = base[0, 0, 0, 0]
    oracle.assert_topk(topk(scalar, 1, 0), scalar, 1, 0)
    assert topk(scalar, 0)[1].shape == ()


def test_the_last_elements_of_an_allocation_are_read_and_no_more(device):
    """A row that ends with its storage, beside NaNs that would win."""
    for cols in (1, 15, 33, 1001, 50_001):
        storage = torch.full((cols + 64,), float("nan"), device=device)
        storage[32 : 32 + cols] = inputs.make("normal", 1, cols, torch.float32, device)[0]
        inner = storage[32 : 32 + cols].view(1, -1)
        check(inner, min(cols, 100))
        assert not run(inner, cols)[0].isnan().any()


# Sizes beyond 32 bits.


@pytest.mark.parametrize("name", ["normal", "ten_bit_prefix", "all_equal", "decreasing"])
def test_a_row_of_2_28_elements_is_answered_exactly(device, name):
    tensor = inputs.make(name, 1, 2**28, torch.float32, device)
    for k in (1, 2048, 1_000_000):
        check(tensor, k)
    check(tensor, 300, sorted=False, largest=False, magnitude=True)


@pytest.mark.parametrize("name", ["uniform", "all_equal", "increasing"])
def test_a_row_of_more_than_2_31_elements_is_answered_exactly(device, name):
    tensor = inputs.make(name, 1, 2**31 + 3, torch.uint8, device)
    tensor[0, -1] = 255
    for k in (1, 100_000):
        check(tensor, k)
        check(tensor, k, largest=False)
    with pytest.raises(RuntimeError, match="int32"):
        topk(tensor, 5, index_dtype=torch.int32)


def test_more_than_2_32_elements_in_all_are_answered_exactly(device):
    tensor = inputs.make("uniform", 17, 2**28 + 1, torch.uint8, device)
    check(tensor, 1000)
    wide = inputs.make("uniform", 2**22 + 1, 1030, torch.uint8, device)
    check(wide, 3)


def test_more_than_2_31_winners_are_exact(device):
    rows, cols = 2**20 + 1000, 2048
    tensor = inputs.make("uniform", rows, cols, torch.uint8, device)
    values, indices = topk(tensor, cols)
    for some in (slice(0, 500), slice(2**20 - 500, 2**20 + 500), slice(rows - 500, rows)):
        oracle.assert_topk_on_device((values[some], indices[some]), tensor[some], cols)


# The same bits every time.


def bits(result) -> tuple[torch.Tensor, torch.Tensor]:
    return oracle.as_ints(result[0]).clone(), result[1].clone()


def same(a, b) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 22, 2048), (64, 50_257, 50), (500, 3000, 333)], ids=str
)
@pytest.mark.parametrize("name", ["normal", "few_distinct", "ten_bit_prefix"])
def test_repeats_and_streams_give_the_same_bits(device, name, rows, cols, k):
    tensor = inputs.make(name, rows, cols, torch.bfloat16, device)
    want = bits(topk(tensor, k))
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for repeat in range(60):
        with torch.cuda.stream(streams[repeat % len(streams)]):
            results.append(topk(tensor, k))
    torch.cuda.synchronize()
    assert all(same(bits(result), want) for result in results)


def test_a_row_is_answered_alike_in_any_batch(device):
    tensor = inputs.make("mixed_rows", 200, 20_000, torch.float32, device)
    values, indices = topk(tensor, 64)
    for row in (0, 17, 199):
        alone = topk(tensor[row : row + 1], 64)
        assert same(bits(alone), bits((values[row : row + 1], indices[row : row + 1])))


def test_concurrent_streams_and_threads_do_not_disturb_each_other(device):
    work = [inputs.make("mixed_rows", 6, 30_000 + 7 * s, torch.float32, device, seed=s) for s in range(6)]
    wanted = [bits(topk(tensor, 500)) for tensor in work]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def many(which: int) -> None:
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream()):
            results = [topk(work[which], 500) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
            wrong.extend(which for result in results if not same(bits(result), wanted[which]))

    threads = [threading.Thread(target=many, args=(which,)) for which in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# gputopk::_air: AIR over many blocks whatever the shape, its parts off and on, with any numbers.

STUDIES = [
    {},
    *({"digit_bits": bits} for bits in range(4, 15)),
    *({"blocks": blocks} for blocks in (1, 2, 3, 31, 132, 264, 8 * 132)),
    {"adaptive": False},
    {"early_stop": False},
    {"adaptive": False, "early_stop": False, "digit_bits": 8, "blocks": 5},
    {"early_stop": False, "digit_bits": 11, "blocks": 17},
    *({"threads": threads, "digit_bits": bits} for threads in (64, 512) for bits in (4, 9, 11)),
    *({"cluster": blocks} for blocks in (1, 2, 4, 8, 16)),
    *({"cluster": blocks, "threads": 128, "digit_bits": bits} for blocks in (2, 16) for bits in (4, 7, 12)),
]


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_every_form_of_air_is_answered_exactly(device, study):
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    if study.get("blocks", 0) > 8 * sms:
        pytest.skip("more blocks than this GPU is asked for")
    for rows, cols in ((1, 1), (3, 100), (40, 5000), (2, 300_007)):
        for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.int64):
            tensor = inputs.make("mixed_rows", rows, cols, dtype, device, seed=cols)
            for k in {1, min(cols, 77), cols // 2 or 1, cols}:
                for largest, order in ((True, True), (False, False)):
                    result = torch.ops.gputopk._air(tensor, k, largest, order, **study)
                    oracle.assert_topk_on_device(result, tensor, k, largest, order)


@pytest.mark.parametrize(
    "study", [{"digit_bits": 3}, {"digit_bits": 15}, {"blocks": -1}, {"threads": 96}, {"cluster": 3}], ids=str
)
def test_a_form_that_air_cannot_take_is_refused(device, study):
    with pytest.raises(RuntimeError, match=f"_air: {next(iter(study))} must be"):
        torch.ops.gputopk._air(torch.zeros(3, 70_000, device=device), 5, **study)


def test_the_yardstick_reads_and_checks_its_scratch(device):
    tensor = inputs.make("normal", 100, 1001, torch.float32, device)
    before = tensor.clone()
    torch.ops.gputopk._read_floor(tensor, torch.empty(1 << 20, dtype=torch.uint8, device=device))
    torch.cuda.synchronize()
    assert torch.equal(tensor, before)
    with pytest.raises(RuntimeError, match="scratch"):
        torch.ops.gputopk._read_floor(tensor, torch.empty(16, dtype=torch.uint8, device=device))


# Asynchronous, in graphs, and clean after errors.


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 22, 5000), (64, 50_257, 50), (100, 1000, 10)], ids=str
)
def test_a_call_does_not_wait_for_the_gpu(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    check(tensor, k)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(1_000_000_000)
        result = topk(tensor, k)
        done.record()
        assert not done.query(), "the call waited for work before it"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    oracle.assert_topk_on_device(result, tensor, k)


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 21, 5000), (1, 1 << 21, 1), (64, 50_257, 50), (100, 1000, 10)], ids=str
)
def test_a_graph_replays_on_changed_data(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [topk(tensor, k), topk(tensor, k, largest=False, sorted=False)]
    for seed, name in enumerate(inputs.names_for(torch.float32)):
        tensor.copy_(inputs.make(name, rows, cols, torch.float32, device, seed))
        for values, indices in results:
            oracle.as_ints(values).fill_(0x5A)
            indices.fill_(-1)
        graph.replay()
        oracle.assert_topk_on_device(results[0], tensor, k)
        oracle.assert_topk_on_device(results[1], tensor, k, largest=False, sorted=False)


FIRST_CALL_IN_A_CAPTURE = """
import torch, torch_topk
from tests import inputs, oracle, tuning
tensor = inputs.make("normal", {rows}, {cols}, torch.float32, "cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = torch.ops.gputopk.topk(tensor, {k})
for name in ("few_distinct", "nan_scattered"):
    tensor.copy_(inputs.make(name, {rows}, {cols}, torch.float32, "cuda"))
    graph.replay()
    oracle.assert_topk_on_device(result, tensor, {k})
"""


@pytest.mark.parametrize(("rows", "cols", "k"), [(2, 1 << 20, 3000), (300, 900, 20)], ids=str)
def test_the_first_call_of_a_process_may_be_inside_a_capture(rows, cols, k):
    script = FIRST_CALL_IN_A_CAPTURE.format(rows=rows, cols=cols, k=k)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, timeout=120, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


BAD_CALLS = {
    "k above cols": lambda x: topk(x, x.shape[1] + 1),
    "k below zero": lambda x: topk(x, -1),
    "dim out of range": lambda x: topk(x, 1, 2),
    "complex": lambda x: topk(x.to(torch.complex64), 1),
    "unknown algorithm": lambda x: topk(x, 1, algorithm=99),
    "algorithm that cannot serve": lambda x: topk(x, 257, algorithm=4),
    "index dtype": lambda x: topk(x, 1, index_dtype=torch.float16),
    "out on the CPU": lambda x: topk.out(
        x, 1, values=torch.empty(x.shape[0], 1), indices=torch.empty(x.shape[0], 1, dtype=torch.int64)
    ),
    "out over the input": lambda x: topk.out(
        x,
        1,
        values=x.view(-1)[:4].view(4, 1),
        indices=torch.empty(x.shape[0], 1, dtype=torch.int64, device=x.device),
    ),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_a_bad_call_raises_and_the_next_is_right(device, what):
    tensor = inputs.make("normal", 4, 5000, torch.float32, device)
    with pytest.raises(RuntimeError, match=r"topk|Expected out tensor|memory|Dimension out of range"):
        BAD_CALLS[what](tensor)
    check(tensor, 20)
    torch.cuda.synchronize()


def test_out_of_memory_raises_leaks_nothing_and_the_next_call_is_right(device):
    """With ever more memory, so that each allocation of a call is the one that fails."""
    tensor = inputs.make("normal", 1, 1 << 24, torch.float32, device)
    k = 1 << 24
    torch.cuda.synchronize()
    total = torch.cuda.get_device_properties(device).total_memory
    failures = 0
    for headroom_mb in (16, 96, 224, 320, 512, 1024, 4096):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.set_per_process_memory_fraction(
            (torch.cuda.memory_reserved() + (headroom_mb << 20)) / total
        )
        try:
            result = torch_topk.topk(tensor, k)  # the bare operator's error has no type of its own
        except torch.OutOfMemoryError:
            failures += 1
            assert torch.cuda.memory_allocated() == before
        else:
            break
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        check(tensor, 100)
    assert failures >= 2
    oracle.assert_topk_on_device(result, tensor, k)


def test_memory_is_the_outputs_and_one_workspace(device):
    """Nothing is kept between calls."""
    tensor = inputs.make("normal", 8, 100_000, torch.float32, device)
    topk(tensor, 100)
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        topk(tensor, 100)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 1 << 26, 2048), (64, 1 << 20, 50), (5000, 1000, 10)], ids=str
)
def test_the_workspace_is_a_fraction_of_the_input(device, rows, cols, k):
    tensor = inputs.make("normal", rows, cols, torch.float32, device)
    topk(tensor, k)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    topk(tensor, k)
    outputs = rows * k * (4 + 8)
    used = torch.cuda.max_memory_allocated() - before
    assert used <= 2 * outputs + tensor.numel() * 4 / 4 + (16 << 20), f"{used >> 20} MB"


def test_dirty_workspaces_do_no_harm(device):
    """The allocator hands freed blocks back as they are: fill them with every kind of dirt."""
    tensor = inputs.make("mixed_rows", 40, 60_000, torch.float32, device)
    for dirt in (0, 1, 0x7F, 0xFF):
        blocks = [torch.full((1 << size,), dirt, dtype=torch.uint8, device=device) for size in range(9, 27)]
        del blocks
        check(tensor, 700)
        check(tensor, 3, largest=False)
