"""The operator on the CPU against the oracle: bits of values, and indices."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

import torch_topk  # noqa: F401  registers the operator
from tests import inputs, oracle, strategies
from tests.threads import threads

topk = torch.ops.gputopk.topk
EDGES, LONG_EDGES = strategies.EDGES[1:], strategies.LONG_EDGES
FLAGS = [
    {"largest": largest, "sorted": order, "magnitude": magnitude}
    for largest, order, magnitude in itertools.product((True, False), repeat=3)
]
DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)


def check(tensor: torch.Tensor, k: int, dim: int = -1, **flags) -> None:
    oracle.assert_topk(topk(tensor, k, dim, **flags), tensor, k, dim, **flags)


def ks_for(cols: int, edges=EDGES) -> list[int]:
    return sorted({k for k in [0, 1, 2, *edges, cols // 2, cols - 1, cols] if 0 <= k <= cols})


@given(strategies.calls())
def test_any_call_gives_the_oracles_answer(call):
    tensor = call.tensor()
    call.check(call.run(topk, tensor), tensor)


@DTYPES
def test_every_named_input_gives_the_oracles_answer(dtype):
    for name in inputs.names_for(dtype):
        tensor = inputs.make(name, 3 if name != inputs.MIXED else 40, 700, dtype, seed=11)
        for k, flags in itertools.product((1, 37, 650), FLAGS):
            check(tensor, k, **flags)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=oracle.name_of)
@pytest.mark.parametrize("group", [64, 128])
def test_a_row_whose_best_lie_where_a_sample_would_look(group, dtype):
    """The CPU guesses how good the k best are from groups of elements at a constant distance: where they hold
    all the best, and fewer than k, the guess is too high."""
    cols, k = 20000, 100
    for distance in range(4 * group, 17 * group, group):
        row = inputs.make("normal", 1, cols, dtype, seed=distance)
        starts = range(0, cols - group, distance)
        best = [start + 2 * i % group for i, start in enumerate([*starts, *starts, *starts, *starts][:60])]
        row[0, best] = torch.arange(len(best)).to(dtype) + 2000
        check(row, k)
        check(row, k, sorted=False)


@DTYPES
def test_every_k_of_a_short_row_gives_the_oracles_answer(dtype):
    for cols in (1, 2, 5, 33, 64):
        tensor = inputs.make("few_distinct", 2, cols, dtype, seed=cols)
        for k, flags in itertools.product(range(cols + 1), FLAGS):
            check(tensor, k, **flags)


@DTYPES
def test_many_winners_of_as_many_short_rows_as_fill_vectors_give_the_oracles_answer(dtype):
    for cols in (25, 33, 48, 49, 64, 65):
        tensor = inputs.make("mixed_rows", 70, cols, dtype, seed=cols)
        for k, flags in itertools.product((16, 17, cols - 1, cols), FLAGS):
            check(tensor, k, **flags)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint64], ids=oracle.name_of
)
@pytest.mark.parametrize("cols", EDGES + LONG_EDGES)
def test_boundary_sizes_give_the_oracles_answer(cols, dtype):
    for name in ("normal", "few_distinct", "increasing"):
        tensor = inputs.make(name, 2, cols, dtype, seed=cols)
        for k in ks_for(cols, EDGES + LONG_EDGES):
            check(tensor, k)
            check(tensor, k, largest=False, sorted=False)


@pytest.mark.parametrize("largest", [True, False])
def test_every_width_up_to_1100_gives_the_oracles_answer(largest):
    for cols in range(1, 1101):
        tensor = inputs.make("digit_boundaries", 1, cols, torch.float16, seed=cols)
        for k in {1, cols // 2, cols - 1, cols}:
            check(tensor, k, largest=largest)


# Rows over threads, and one long row over threads.

LONG = [
    ((1, 300_001), 50),
    ((1, 300_001), 2049),
    ((3, 200_000), 1),
    ((3, 200_000), 777),
    ((2, 131_072), 60_000),
]
LONG_INPUTS = ["normal", "few_distinct", "increasing", "decreasing", "all_equal", "winners_in_one_subrange"]


@pytest.mark.parametrize(
    "name", [*LONG_INPUTS, "nan_scattered", "zeros_among_numbers", "mostly_minus_infinity"]
)
@pytest.mark.parametrize(("shape", "k"), LONG, ids=str)
def test_the_number_of_threads_changes_no_bit(shape, k, name):
    tensor = inputs.make(name, *shape, torch.float32, seed=2)
    results = []
    for count in (1, 2, 5):
        with threads(count):
            results.append(topk(tensor, k))
    oracle.assert_topk(results[0], tensor, k)
    for values, indices in results[1:]:
        assert torch.equal(indices, results[0][1])
        assert torch.equal(oracle.as_ints(values), oracle.as_ints(results[0][0]))


@pytest.mark.parametrize(
    ("dtype", "cols", "k"),
    [
        (torch.float16, 65_537, 4097),
        (torch.int32, 65_536, 4263),
        (torch.int16, 200_000, 25_000),
        (torch.float64, 131_072, 9000),
    ],
    ids=str,
)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_parts_of_a_row_with_many_winners_are_merged(dtype, cols, k, flags):
    """So many that a part's candidates outgrow what is kept of their keys."""
    for name in ("normal", "few_distinct", "decreasing"):
        tensor = inputs.make(name, 1, cols, dtype, seed=5)
        for count in (2, 3, 5):
            with threads(count):
                check(tensor, k, **flags)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float64, torch.int32], ids=oracle.name_of
)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_long_rows_give_the_oracles_answer_in_every_direction(dtype, flags):
    for name in ("normal", "sampled_peaks", "range_ends"):
        check(inputs.make(name, 2, 150_000, dtype, seed=4), 1000, **flags)


@pytest.mark.parametrize("shape", [(100_000, 3), (20_000, 40), (513, 700)], ids=str)
def test_many_rows_give_the_oracles_answer(shape):
    tensor = inputs.make("mixed_rows", *shape, torch.float32)
    for k in ks_for(shape[1], [2, 16]):
        check(tensor, k)


def test_a_second_thread_is_taken_where_it_pays():
    """It waits for a core, milliseconds where another process has it."""
    with threads(2):
        for few in (
            torch.zeros(1, 131_072),
            torch.zeros(1, 262_144, dtype=torch.bfloat16),
            torch.zeros(256, 8),
        ):
            assert "over 1 workers" in torch.ops.gputopk._plan(few, 2)
        assert "over 1 workers" in torch.ops.gputopk._plan(torch.zeros(1, 40_000), 5000)
        for much in (torch.zeros(1, 2**22), torch.zeros(2**22, dtype=torch.int8), torch.zeros(100_000, 8)):
            assert "over 2 workers" in torch.ops.gputopk._plan(much, 2)


def test_a_row_of_more_than_2_31_elements_is_searched_whole():
    cols = 2**31 + 3
    row = torch.from_numpy(np.zeros(cols, np.uint8))  # untouched pages of zeros take no memory
    for place, value in ((cols - 1, 9), (2**31, 7), (2**31 - 1, 7), (5, 3)):
        row[place] = value
    values, indices = topk(row, 6)
    assert values.tolist() == [9, 7, 7, 3, 0, 0]
    assert indices.tolist() == [cols - 1, 2**31 - 1, 2**31, 5, 0, 1]
    with pytest.raises(RuntimeError, match="int32"):
        topk(row, 6, index_dtype=torch.int32)


def test_a_row_of_more_than_2_32_elements_is_searched_whole():
    """Indices that do not fit beside a four-byte key."""
    cols = 2**32 + 9
    row = torch.from_numpy(np.zeros(cols, np.float32))  # as above
    for place, value in ((cols - 1, 9), (2**32, 7), (2**32 - 1, 7), (5, 3)):
        row[place] = value
    for count in (1, 3):
        with threads(count):
            for order in (True, False):
                values, indices = topk(row, 6, sorted=order)
                found = sorted(
                    zip(values.tolist(), indices.tolist(), strict=True), key=lambda at: (-at[0], at[1])
                )
                assert found == [(9, cols - 1), (7, 2**32 - 1), (7, 2**32), (3, 5), (0, 0), (0, 1)]


def test_rows_beyond_2_31_elements_in_all_are_found():
    tensor = torch.from_numpy(np.zeros((5, 2**29 + 1), np.uint8))
    tensor[4, -1], tensor[4, 7], tensor[2, 2**28] = 2, 1, 3
    values, indices = topk(tensor, 2)
    assert values.tolist() == [[0, 0], [0, 0], [3, 0], [0, 0], [2, 1]]
    assert indices.tolist() == [[0, 1], [0, 1], [2**28, 0], [0, 1], [2**29, 7]]


# Layouts.


@DTYPES
def test_any_dim_of_any_layout_gives_the_oracles_answer(dtype):
    base = inputs.make("few_distinct", 24, 35, dtype, seed=6).view(4, 6, 5, 7)
    layouts = {
        "contiguous": base,
        "permuted": base.permute(3, 1, 0, 2),
        "sliced": base[1:, ::2, 1:, ::3],
        "offset": base.reshape(-1)[13:].unfold(0, 50, 31),
        "overlapping": base.reshape(-1).unfold(0, 9, 2),
        "twin strides": base.reshape(-1).as_strided((3, 5, 40), (7, 7, 1)),
        "hollow": base.reshape(-1).as_strided((3, 2, 40), (200, 50, 1)),
        "expanded": base[:, :1].expand(4, 6, 5, 7),
        "all_expanded": base[:1, :1, :1, :1].expand(2, 3, 4, 5),
        "step": base.reshape(-1)[::5],
    }
    if base.dim() == 4:
        layouts["channels_last"] = base.clone(memory_format=torch.channels_last)
    for tensor in layouts.values():
        for dim in range(-tensor.dim(), tensor.dim()):
            for k in {0, 1, tensor.shape[dim] // 2, tensor.shape[dim]}:
                check(tensor, k, dim)


PEAK = """
import resource, sys, torch, torch_topk
torch.set_num_threads(1)
x = eval(sys.argv[1])
dim, k = int(sys.argv[2]), int(sys.argv[3])
torch.ops.gputopk.topk(torch.ones(300, 300), 5, 0)
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
outputs = torch.ops.gputopk.topk(x, k, dim)
print(peak() - before - sum(t.nbytes for t in outputs))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
@pytest.mark.parametrize(
    ("tensor", "dim", "k"),
    [
        ("torch.ones(128, 400_000)", 0, 2),
        ("torch.ones(128, 500_000)[:, :400_000]", 0, 2),
        ("torch.ones(100, 1000, 512)", 1, 10),
        ("torch.ones(12_800_000, 4)", 0, 1000),
        ("torch.ones(4, 25_600_000)[:, ::2]", 1, 100),
    ],
)
def test_the_input_is_not_copied(tensor, dim, k):
    """Each is of 205 MB. Memory beside the outputs is below 64 MB on one thread."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tensor, str(dim), str(k)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) < 64 * 2**20


@pytest.mark.parametrize("offset", range(17))
@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.float16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_rows_at_any_alignment_give_the_oracles_answer(dtype, offset):
    storage = inputs.make("normal", 1, 4000, dtype).view(-1)
    for cols in (61, 64, 1000):
        for row_stride in (cols, cols + 1, cols + 7):
            for k in (1, 10):
                check(storage[offset:].as_strided((3, cols), (row_stride, 1), offset), k)


def test_nothing_past_a_row_is_read_into_a_result():
    wide = torch.full((4, 300), float("inf"))
    inner = wide[:, 100:200]
    inner.copy_(inputs.make("normal", 4, 100))
    check(inner, 100)
    check(inner, 7)


@DTYPES
def test_scalars_and_empty_tensors_are_served(dtype):
    scalar = inputs.make("normal", 1, 1, dtype).view(())
    for dim in (-1, 0):
        for k in (0, 1):
            check(scalar, k, dim)
    for shape, dim, k in [
        ((0,), 0, 0),
        ((3, 0), 1, 0),
        ((0, 3), 1, 2),
        ((0, 3), 0, 0),
        ((2, 0, 3), 2, 3),
        ((4, 5), 1, 0),
        ((4, 5), 0, 0),
    ]:
        check(oracle.from_bits(np.zeros(shape, np.int64), dtype), k, dim)


@DTYPES
def test_int32_indices_are_the_same_indices(dtype):
    tensor = inputs.make("normal", 4, 500, dtype)
    for flags in FLAGS:
        check(tensor, 20, index_dtype=torch.int32, **flags)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=oracle.name_of
)
@pytest.mark.parametrize(("rows", "cols"), [(5000, 1), (70_000, 1), (701, 3), (3, 2049), (2, 70_000)])
def test_all_of_rows_in_any_order_is_a_copy_wherever_they_lie(rows, cols, dtype):
    together = inputs.make("normal", rows, cols, dtype)
    apart = inputs.make("normal", rows, cols + 3, dtype)[:, 1 : 1 + cols]
    turned = inputs.make("normal", cols, rows, dtype).T
    for tensor in (together, apart, turned, together[::2], together.view(rows, cols, 1)[..., 0]):
        for index_dtype in (torch.int64, torch.int32):
            values, indices = topk(tensor, cols, sorted=False, index_dtype=index_dtype)
            assert torch.equal(oracle.as_ints(values), oracle.as_ints(tensor.contiguous()))
            assert torch.equal(indices, torch.arange(cols, dtype=index_dtype).expand(tensor.shape))


# Outputs and calls.


@pytest.mark.parametrize("name", ["normal", "all_equal", "all_nan", "increasing"])
@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(1, 100_003, 99), (50, 64, 64), (3, 1000, 1), (2, 5000, 4999)]
)
def test_every_element_of_the_outputs_is_written(name, rows, cols, k):
    tensor = inputs.make(name, rows, cols)
    for order in (True, False):
        values = torch.full((rows, k), -12345.0)
        indices = torch.full((rows, k), -7)
        topk.out(tensor, k, sorted=order, values=values, indices=indices)
        oracle.assert_topk((values, indices), tensor, k, sorted=order)


def test_calls_from_many_python_threads_do_not_disturb_each_other():
    tensors = [inputs.make("mixed_rows", 8, 3000, torch.float32, seed=s) for s in range(6)]
    wanted = [oracle.expected(tensor, 100)[1] for tensor in tensors]

    def many(which: int) -> bool:
        return all(np.array_equal(topk(tensors[which], 100)[1].numpy(), wanted[which]) for _ in range(40))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(many, range(6)))


FORK = """
import os, signal, sys, torch, torch_topk
torch.set_num_threads(2)
x = torch.randn(64, 200_000)[:, :: int(sys.argv[2])]
want = torch.ops.gputopk.topk(x, 50)[0] if sys.argv[1] == "ours" else torch.topk(x, 50)[0]
child = os.fork()
if child == 0:
    signal.alarm(20)  # ends a child that hangs
    os._exit(0 if torch.equal(torch.ops.gputopk.topk(x, 50)[0], want) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("step", ["1", "2"], ids=["rows as they are", "rows to copy"])
@pytest.mark.parametrize("parents_call", ["ours", "torch's"])
def test_a_forked_child_can_call_after_its_parent_has(parents_call, step):
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", FORK, parents_call, step], cwd=root, timeout=60, check=False)
    assert done.returncode == 0, f"the child ended with {done.returncode}; -14: it hung"
