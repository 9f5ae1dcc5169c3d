"""The papers' baselines of the study library on the emulated GPU, against the oracle."""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle
from tests.cases import Case
from tests.simt import emulated

BASELINES = ("per-thread", "bucket", "tree")
DTYPES = (torch.int32, torch.float32, torch.int64, torch.float64)
NARROW = (torch.bool, torch.uint8, torch.int8, torch.float8_e5m2, torch.int16, torch.float16, torch.bfloat16)

each_baseline = pytest.mark.parametrize("baseline", BASELINES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=oracle.name_of)


def check(line: str, baseline: str) -> str:
    return emulated.run_case(Case.parse(f"{line} sorted=0 baseline={baseline}"))


@each_dtype
@each_baseline
def test_every_named_input(baseline, dtype):
    """In rows of several blocks, which begin anywhere and do not end with a vector."""
    for turn, name in enumerate(inputs.names_for(dtype)):
        k = (1, 7, 40, 300)[turn % 4]
        where = f"largest={turn // 2 % 2} offset={turn % 3} gap={turn % 5} seed={turn + 1} sm_count=2"
        check(f"{oracle.name_of(dtype)} {name} {1 + turn % 3}x{4500 + turn} k={k} {where}", baseline)


@each_baseline
def test_sizes_around_what_blocks_and_vectors_hold(baseline):
    for cols in (1, 2, 3, 5, 31, 33, 511, 2049, 4097):
        for k in {1, 2, 3, cols // 2, cols - 1, cols} & set(range(1, min(cols, 448) + 1)):
            for dtype in (torch.float32, torch.float64):
                line = f"{oracle.name_of(dtype)} few_distinct 2x{cols} k={k} seed={k} sm_count=3"
                check(line + " index_dtype=int32", baseline)


@pytest.mark.parametrize("seed", range(1, 6))
@each_baseline
def test_other_schedules_and_devices(baseline, seed):
    for name in ("normal", "all_equal", "increasing"):
        where = f"seed={seed} sm_count={seed} compute_capability={80 if seed % 2 else 90}"
        check(f"float32 {name} 1x9000 k={20 * seed} {where}", baseline)


def test_heaps_fill_a_blocks_shared_memory_and_no_more():
    """k is as large as a warp's heaps allow, which keys and indices of 8 and 16 bytes share."""
    for dtype, most in (("float32", 900), ("int64", 450)):
        plan = check(f"{dtype} normal 1x6000 k={most} sm_count=2", "per-thread")
        assert plan.endswith("of 32 threads")
        with pytest.raises(emulated.NotServed, match="k is too large"):
            check(f"{dtype} normal 1x6000 k={most + 1} sm_count=2", "per-thread")
    assert check("float32 normal 1x60000 k=8 sm_count=2", "per-thread") == "6 blocks a row of 512 threads"


def test_lists_in_registers():
    names = inputs.names_for(torch.float32)
    for k in (8, 16, 32, 64, 128):
        for turn, name in enumerate(names[k % 7 :: 5]):
            rows, cols = 1 + turn % 2, (4500 if turn % 3 else 150) + turn
            where = f"largest={turn % 2} offset={turn % 3} seed={turn + k} sm_count=2"
            check(f"float32 {name} {rows}x{cols} k={k} {where}", "per-thread-registers")
    for other in ("float32 normal 1x500 k=9", "int32 normal 1x500 k=8"):
        with pytest.raises(emulated.NotServed, match="k or dtype"):
            check(other, "per-thread-registers")


def test_a_bucket_that_is_most_of_the_row_is_read_there_and_a_small_one_where_it_was_stored():
    """Rows whose every pass leaves all but a few elements, or a sixteenth of them."""
    for name in ("ones_with_four_outliers", "two_level", "twelve_bit_random", "uniform", "random_bits"):
        for k in (2, 100, 2000):
            check(f"int32 {name} 1x9000 k={k} sm_count=2", "bucket")


def test_k_is_1_takes_the_first_of_equal_winners():
    for name in ("all_equal", "few_distinct", "all_nan"):
        for largest in (0, 1):
            check(f"float32 {name} 3x9000 k=1 largest={largest} sm_count=2", "bucket")


def spread(low: int, high: int, cols: int) -> torch.Tensor:
    """[1, cols] int64 numbers with both ends and, else, numbers near them: buckets whose ends round."""
    near = torch.arange(cols // 2)
    row = torch.cat([low + near, high - near[: cols - cols // 2 - 2], torch.tensor([low, high])])
    return row[torch.randperm(len(row), generator=torch.Generator().manual_seed(cols))][None]


@pytest.mark.parametrize("width", [17, 100, 2**28 - 1, 2**31 + 3, 2**32 - 1, 2**60 + 7, 2**63 - 1, 2**64 - 1])
def test_ranges_that_no_power_of_16_divides(width):
    low = -(2**63) if width >= 2**63 else -(width // 2)
    tensor = spread(low, low + width, min(width, 600))
    narrow = low >= -(2**31) and low + width < 2**31
    for dtype in (torch.int64, torch.int32) if narrow else (torch.int64,):
        for k in (2, 5, tensor.shape[1] // 2, tensor.shape[1] - 3):
            for largest in (True, False):
                emulated.check(tensor.to(dtype), k, largest=largest, sorted=False, baseline="bucket")


@pytest.mark.parametrize("dtype", (*NARROW, *DTYPES), ids=oracle.name_of)
def test_a_tree_divides_every_dtype_whatever_k(dtype):
    for turn, name in enumerate(inputs.names_for(dtype)):
        k = (2, 700, 5000, 8999)[turn % 4]
        where = (
            f"largest={turn // 2 % 2} magnitude={turn % 5 == 4:d} offset={turn % 3} seed={turn} sm_count=3"
        )
        check(f"{oracle.name_of(dtype)} {name} {1 + turn % 2}x{9000 + turn} k={k} {where}", "tree")


def test_a_tree_has_as_many_levels_as_a_row_should_need():
    for cols, levels in ((4096, 0), (4097, 1), (2**18, 1), (2**18 + 1, 2), (300_000, 2)):
        for name, k in (("normal", 1000), ("all_equal", 3), ("increasing", cols // 2), ("normal", cols)):
            plan = check(f"float32 {name} 1x{cols} k={k} sm_count=2", "tree")
            assert plan.startswith(f"{levels} levels")


def sampled(cols: int, samples: int = 1024) -> torch.Tensor:
    """Where device/sample.cuh has a row's sample."""
    mask = 2**32 - 1
    positions = []
    for i in range(samples):
        x = (i ^ 0x9E3779B9 ^ i >> 16) * 0x85EBCA6B & mask
        x = (x ^ x >> 13) * 0xC2B2AE35 & mask
        x ^= x >> 16
        first, next_ = (n * ((cols << 16) // samples) >> 16 for n in (i, i + 1))
        positions.append(first + (x * (next_ - first) >> 32))
    return torch.tensor(positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16], ids=oracle.name_of)
def test_a_sample_that_misleads_leaves_the_row_to_the_block_that_finishes(dtype):
    """Nearly all other elements are in one bucket, which is not stored; the next sample has few of it."""
    for above, below in ((1024, 0), (1021, 0), (0, 1024), (600, 421), (10, 1000)):
        cols = 300_000 if above == 1021 else 9000
        where = sampled(cols)
        tensor = inputs.make("normal", 1, cols, torch.float32).mul(100).to(dtype)
        tensor[0, where[:above]] += 2000
        tensor[0, where[1024 - below :]] -= 2000
        for k in {1, above + 1, cols // 2, cols - below, cols - 1}:
            for largest in (True, False):
                emulated.check(tensor, k, largest=largest, sorted=False, baseline="tree")


def test_a_bucket_that_the_sample_missed_is_divided_where_it_was_stored():
    """30,000 elements that no sampled one is among: a second level has work, from one buffer to the other."""
    tensor = inputs.make("normal", 1, 300_000, torch.float32)
    missed = torch.ones(tensor.shape[1], dtype=torch.bool)
    missed[sampled(tensor.shape[1])] = False
    tensor[0, missed.nonzero()[::9, 0][:30_000]] += 50
    for k in (1, 15_000, 29_990, 30_010):
        for largest in (True, False):
            emulated.check(tensor, k, largest=largest, sorted=False, baseline="tree")


def test_a_tree_of_the_greatest_keys():
    """Where the range of entries ends with the greatest number, the block that finishes cuts off its bins."""
    for dtype in (torch.int32, torch.int64):
        greatest = torch.iinfo(dtype).max
        tensor = greatest - torch.arange(9000, dtype=dtype)[None] // 3
        for k in (1, 2, 5, 20, 4000):
            emulated.check(tensor, k, sorted=False, baseline="tree")
            emulated.check(-1 - tensor, k, largest=False, sorted=False, baseline="tree")
