"""Planted faults: one line of csrc/cuda each, wrong. tests/simt has to find them.

    make mutants                              builds them all, runs each's cases, prints which were found
    python -m tests.simt.mutants 4 17         those two alone

All are built at once, into one library: where a fault is planted, the code asks whether it is in force, and
so a run of one is a call of simt_plant. What finds a fault is an emulator's message or a wrong result, by the
cases beside it, under a few schedules each; or, where those find nothing, by random requests of the same
forms (tests/fuzz.py), for some seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import shutil
import sys
import time
from pathlib import Path

from tests import fuzz
from tests.cases import Case
from tests.simt import emulated

CSRC = emulated.ROOT / "csrc"
BUILD = emulated.ROOT / "build" / "mutants"
SCHEDULES = 6

# Cases, by what they run.
MANY = "form=air.many_blocks forced=1"
AIR_MANY = (
    f"float32 normal 2x9000 k=300 sorted=0 {MANY} blocks=3 sm_count=4",
    f"int32 ten_bit_prefix 2x9000 k=700 sorted=0 {MANY} blocks=3 digit_bits=7 sm_count=3",
    f"float32 few_distinct 2x9000 k=301 sorted=0 {MANY} blocks=3 digit_bits=4 sm_count=4",
    f"int8 normal 1x20000 k=900 sorted=0 {MANY} blocks=4 digit_bits=4 adaptive=0 sm_count=4",
)
AIR_BLOCK = (
    "float32 normal 5x3000 k=200 sorted=0 form=air.one_block forced=1 threads=128 sm_count=1",
    "int16 few_distinct 3x2500 k=101 sorted=0 form=air.one_block forced=1 threads=64 digit_bits=6 sm_count=1",
    "float32 normal 3x3000 k=90 form=air.one_block sm_count=4",
    "int16 few_distinct 3x2500 k=900 sorted=0 last_alone=1 form=air.one_block forced=1 threads=64",
)
AIR_CLUSTER = (
    "float32 normal 2x5000 k=400 sorted=0 form=air.one_cluster forced=1 cluster=4 threads=64 sm_count=4",
    "int16 few_distinct 2x6000 k=900 sorted=0 form=air.one_cluster forced=1 cluster=4 digit_bits=4",
    "int16 few_distinct 2x6000 k=90 sorted=0 last_alone=1 form=air.one_cluster forced=1 cluster=2 threads=64",
)
REGISTERS = (
    "float32 normal 3x5000 k=100 form=grid_select.registers forced=1 blocks=3 threads=64 sm_count=4",
    "float32 increasing 2x9000 k=200 form=grid_select.registers forced=1 blocks=2 threads=128 sm_count=4",
    "int16 normal 9x900 k=60 form=grid_select.registers forced=1 blocks=-1 threads=64 sm_count=2",
)
SHARED_LIST = (
    "float32 increasing 2x9000 k=300 form=grid_select.shared_list forced=1 blocks=3 threads=64 sm_count=4",
    "float32 normal 2x5000 k=100 form=grid_select.shared_list forced=1 blocks=1 threads=64 sm_count=4",
    "int16 normal 1x30000 k=400 form=grid_select.shared_list forced=1 blocks=12 threads=64 sm_count=4",
)
MAXIMA = (
    "float32 normal 2x9000 k=100 sorted=0 form=delegate.from_maxima forced=1 sm_count=3",
    "float32 few_distinct 2x9000 k=300 sorted=0 form=delegate.from_maxima forced=1 beta=2 alpha=4 sm_count=3",
    "int32 normal 1x40000 k=900 sorted=0 form=delegate.from_maxima forced=1 alpha=4 buffer=300 sm_count=3",
)
SAMPLE_OF_FEW = (
    "float32 normal 1x40000 k=2 sorted=0 form=delegate.from_sample forced=1 sm_count=3",
    "float32 normal 1x40000 k=20 sorted=0 form=delegate.from_sample forced=1 sm_count=3",
    "int16 normal 1x40000 k=40 sorted=0 last_alone=1 form=delegate.from_sample forced=1 sm_count=3",
)
SAMPLE = (
    "float64 normal 1x40000 k=100 sorted=0 form=delegate.from_sample forced=1 sm_count=3",
    "float64 increasing 1x40000 k=300 sorted=0 form=delegate.from_sample forced=1 buffer=64 sm_count=3",
)
ONE_WARP_BY_INDEX = (
    "float32 normal 9x1000 k=100 sorted=0 by_index=1 form=bitonic.one_warp",
    "float32 few_distinct 9x60 k=9 sorted=0 by_index=1 form=bitonic.one_warp",
)
EQUALS = (
    "float32 signed_zeros 3x3000 k=300 form=air.resident_row sm_count=2",
    "float32 few_distinct 3x3000 k=300 magnitude=1 form=air.resident_row sm_count=2",
    "int32 few_distinct 3x3000 k=300 magnitude=1 form=air.resident_row sm_count=2",
)
BY_MAGNITUDE = (
    "float32 normal 3x3000 k=300 magnitude=1 form=air.resident_row sm_count=2",
    "int32 normal 3x3000 k=300 magnitude=1 form=air.resident_row sm_count=2",
)
RESIDENT = (
    "float32 normal 3x4000 k=60 form=air.resident_row sm_count=2",
    "float32 normal 3x3000 k=200 form=air.resident_row sm_count=2",
    "float32 normal 3x3000 k=300 form=air.resident_row sm_count=2",
    "float32 normal 3x3000 k=600 form=air.resident_row sm_count=2",
    "bfloat16 twelve_bit_random 3x3000 k=300 form=air.resident_row sm_count=2",
    "float32 normal 3x3001 k=200 form=air.resident_row sm_count=2",
    "float32 nan_tails 3x2048 k=200 largest=0 form=air.resident_row sm_count=2",
    "int16 few_distinct 3x900 k=30 form=air.resident_row sm_count=2",
    "bfloat16 normal 3x3000 k=100 form=air.resident_row sm_count=2",
)
ONE_WARP = (
    "float32 normal 9x1000 k=20 form=bitonic.one_warp",
    "float32 few_distinct 9x1000 k=20 form=bitonic.one_warp",
    "float32 normal 9x1000 k=100 form=bitonic.one_warp",
    "float32 twelve_bit_random 9x1000 k=100 form=bitonic.one_warp",
    "float32 few_distinct 9x60 k=20 form=bitonic.one_warp",
    "float32 normal 9x60 k=60 form=bitonic.one_warp",
    "float32 few_distinct 9x60 k=60 form=bitonic.one_warp",
    "int16 winners_in_one_subrange 9x900 k=100 form=bitonic.one_warp",
    "float32 mostly_minus_infinity 9x1000 k=100 form=bitonic.one_warp",
    "uint8 normal 9x700 k=120 largest=0 form=bitonic.one_warp",
)
NARROWED = (
    "bfloat16 winners_in_one_subrange 1x4096 k=200 form=air.resident_row sm_count=2",
    "float32 zeros_among_numbers 2x4096 k=512 form=air.resident_row sm_count=2",
)
GROUPED = (
    "float32 winners_in_one_subrange 2x4096 k=500 seed=500 form=air.resident_row sm_count=2",
    "int64 winners_in_one_subrange 2x2048 k=256 form=air.resident_row sm_count=2",
    "bfloat16 sampled_peaks 2x4096 k=500 form=air.resident_row sm_count=2",
)
TIED = (
    "float32 ones_with_four_outliers 2x40000 k=300 form=delegate.one_cluster sm_count=4",
    "float32 ones_with_four_outliers 2x40000 k=300 form=delegate.equal_shares sm_count=4",
    "float16 zeros_among_numbers 2x40000 k=2048 form=delegate.one_cluster sm_count=4",
    "float32 two_level 1x70000 k=2048 form=delegate.equal_shares sm_count=4",
)
DIGITS = (
    "float32 normal 1x20000 k=30 form=split_bucket.radix forced=1 threads=128 cutoff=64 sm_count=2",
    "int16 few_distinct 2x9000 k=200 form=split_bucket.radix sm_count=3",
)
TREE = (
    "float32 normal 1x20000 k=30 form=split_bucket.tree forced=1 threads=128 cutoff=64 sm_count=2",
    "float32 increasing 2x9000 k=200 form=split_bucket.tree sm_count=3",
)
SORTED = ("float32 normal 1x40000 k=40000 form=sort.whole_rows sm_count=1 cluster_blocks=1",)
LARGE_PARTS = (
    "float32 normal 1x9000 k=4700 form=sort.whole_rows forced=1 parts=4 capacity=1024 threads=128 blocks=2 "
    "tile=1024 sm_count=2",
)
SAMPLED = (
    "float32 normal 1x9000 k=4700 form=sort.whole_rows forced=1 parts=15 sample_blocks=4 sample_chunk=128 "
    "capacity=1024 threads=128 blocks=2 tile=1024",
    "int16 few_distinct 1x9000 k=9000 form=sort.whole_rows forced=1 parts=8 sample_blocks=8 sample_chunk=128 "
    "capacity=2048 threads=256",
)
CROWDED = (
    "float32 winners_in_one_subrange 2x4000 k=4000 form=sort.whole_rows sm_count=2",
    "float32 few_distinct 2x3000 k=3000 form=sort.whole_rows sm_count=2",
)
PACKED_DIGITS = ("int32 winners_in_one_subrange 2x4000 k=4000 form=sort.whole_rows sm_count=2",)
PACKED = (
    "int16 normal 2x100000 k=700 form=delegate.one_cluster sm_count=4",
    "bfloat16 normal 1x5000 k=2000 form=sort.whole_rows sm_count=2",
)

LAST = (  # a copy leaves the worst anywhere
    "float32 normal 3x300 k=300 sorted=0 last_alone=1 form=sort.copy sm_count=2",
    "int16 few_distinct 3x900 k=900 sorted=0 last_alone=1 form=sort.copy sm_count=2",
)
LAST_SELECTED = (
    "float32 normal 1x9000 k=3001 sorted=0 last_alone=1 form=air.many_blocks forced=1 blocks=3",
    "int16 few_distinct 1x9000 k=700 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 threads=64 "
    "sample_blocks=2 buffer=64",
    "float32 normal 1x9000 k=500 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 threads=64 "
    "sample_blocks=4",
    "int16 few_distinct 1x9000 k=9000 sorted=0 last_alone=1 form=air.many_blocks forced=1 blocks=2 buffer=64",
)
TWO_BOUNDS = (  # in sectors, and not; found, and found out; winners told as they are read, and later
    "float32 normal 1x40000 k=20000 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=32 "
    "sm_count=3",
    "int16 few_distinct 1x9000 k=900 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=4 "
    "sm_count=2",
    "float64 normal 2x9000 k=4000 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=2 "
    "buffer=64 sm_count=2",
    "float32 normal 1x9000 k=4500 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=1 "
    "upper_rank=200 sm_count=2",
    "int32 twelve_bit_random 1x9000 k=1100 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 "
    "threads=64 sample_blocks=8 sm_count=2",
)
MEETING = (  # blocks that run together or not; what they have staged, and what they had to write out
    "float32 normal 1x140000 k=2000 sorted=0 form=delegate.from_sample forced=1 meet=1 upper_rank=20 "
    "sm_count=2",
    "float32 normal 1x140000 k=2000 sorted=0 last_alone=1 form=delegate.from_sample forced=1 meet=1 "
    "upper_rank=20 sm_count=3",
    "float32 increasing 1x140000 k=20000 sorted=0 form=delegate.from_sample forced=1 meet=1 sm_count=1",
    "float32 normal 1x40000 k=10000 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=32 "
    "many=1 meet=1 sm_count=2",
    "float32 normal 1x40000 k=10000 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=32 "
    "many=0 meet=1 sm_count=2",
    "int16 few_distinct 1x40000 k=900 sorted=0 form=delegate.two_bounds forced=1 threads=64 sample_blocks=4 "
    "many=0 meet=1 sm_count=2",
)
MEETING_OF_MANY = (  # blocks: more than run at once
    "float32 normal 1x400000 k=2000 sorted=0 form=delegate.from_sample forced=1 meet=1 upper_rank=20 "
    "sm_count=16",
)
LAST_OF_MANY = (  # candidates, of a bin of a few and of thousands
    "float32 normal 1x24000 k=12000 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 threads=64 "
    "sample_blocks=1 rank=257 upper_rank=0 buffer=24000 sm_count=3",
    "bfloat16 few_distinct 1x24000 k=23000 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 "
    "threads=64 sample_blocks=1 rank=257 upper_rank=0 buffer=24000 sm_count=2",
    "float64 twelve_bit_random 1x24000 k=9000 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 "
    "threads=64 sample_blocks=1 rank=257 upper_rank=0 buffer=24000 sm_count=2",
    "float32 all_equal 1x40000 k=20000 sorted=0 last_alone=1 form=delegate.two_bounds forced=1 threads=64 "
    "sample_blocks=1 rank=250 upper_rank=5 buffer=40000 sm_count=2",
)
LAST_OF_SHARES = (
    "float32 normal 1x17003 k=17003 sorted=0 last_alone=1 form=sort.copy sm_count=3",
    "int16 few_distinct 2x17002 k=17002 sorted=0 last_alone=1 form=sort.copy sm_count=3",
)
SHARES = (
    "float32 all_equal 2x17000 k=200 form=delegate.equal_shares forced=1 blocks=3 threads=256 room=1024",
    "float32 few_distinct 2x17000 k=100 form=delegate.one_cluster forced=1 cluster=2 threads=512 ahead=1 "
    "room=1024",
    "float32 normal 3x9000 k=100 form=delegate.equal_shares forced=1 blocks=4 threads=256",
    "float32 normal 2x17000 k=200 form=delegate.equal_shares forced=1 blocks=3 threads=256 rank=3 room=1024 "
    "cluster=4",
)
MORE_THAN_ROOM = (
    "uint32 beyond_half_range 10x129 k=3 offset=1 largest=0 form=delegate.resident_cluster "
    "forced=1 cluster=8 elements=16 rank=9 room=64 parts=0 sm_count=1 cluster_room=2",
)
RESIDENT_CLUSTER = (
    "float32 normal 2x9000 k=100 form=delegate.resident_cluster forced=1 cluster=4 threads=256",
    "float32 few_distinct 2x9000 k=100 form=delegate.resident_cluster forced=1 cluster=4 threads=256",
    "int16 all_equal 1x20000 k=600 form=delegate.resident_cluster forced=1 cluster=8 threads=256 room=1024",
    "float32 ones_with_four_outliers 1x20000 k=600 form=delegate.resident_cluster forced=1 cluster=8 "
    "threads=256 room=1024",
    "float32 normal 2x9000 k=700 form=delegate.resident_cluster forced=1 cluster=4 threads=256 parts=1",
    "float32 normal 1x20000 k=300 form=delegate.resident_cluster forced=1 cluster=8 threads=256 parts=1 "
    "room=512",
    "float32 few_distinct 1x20000 k=300 form=delegate.resident_cluster forced=1 cluster=8 threads=256 "
    "parts=1",
)
COUNTED = (
    "int32 digit_boundaries 9x4096 k=200 seed=13 largest=0 magnitude=1 form=air.resident_row sm_count=132",
)
CLUSTER_WITHOUT_ROOM = (
    "float32 normal 1x9000 k=300 form=delegate.resident_cluster forced=1 cluster=4 threads=256 rank=1 "
    "parts=1",
)
CLUSTER_BITS = (
    "float32 normal 2x9000 k=300 magnitude=1 form=delegate.resident_cluster forced=1 cluster=4 threads=256 "
    "parts=1",
    "bfloat16 nan_tails 1x9000 k=300 form=delegate.resident_cluster forced=1 cluster=4 threads=256 parts=1",
)
MARKED = (
    "float32 few_distinct 2x2049 k=1500 sorted=0 by_index=1 form=air.one_block",
    "float32 few_distinct 3x8192 k=1100 sorted=0 by_index=1 form=air.one_block sm_count=1",
)
AIR_GRID = (
    "float32 normal 2x9001 k=100 form=air.resident_grid forced=1 blocks=3 ranked=300 offset=1 sm_count=6",
    "float32 normal 1x14001 k=4000 sorted=0 form=air.resident_grid forced=1 blocks=3 sm_count=4",
    "float32 few_distinct 1x14001 k=4000 sorted=0 form=air.resident_grid forced=1 blocks=3 sm_count=4",
    "float32 few_distinct 2x9001 k=300 form=air.resident_grid forced=1 blocks=2 ranked=300 sm_count=4",
    "int16 normal 1x14001 k=4000 sorted=0 last_alone=1 form=air.resident_grid forced=1 blocks=3 sm_count=4",
)
RESIDENT_GRID = (
    "float32 normal 2x9000 k=100 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=8 "
    "sm_count=4",
    "float32 normal 1x14001 k=200 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=8 "
    "parts=3 room=512 sm_count=2",
    "float32 few_distinct 2x9000 k=100 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=4 "
    "sm_count=4",
    "int16 all_equal 1x14000 k=200 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=8 "
    "room=256 sm_count=2",
    "float32 normal 1x14000 k=60 form=delegate.resident_grid forced=1 blocks=5 threads=256 of_warp=2 room=64 "
    "sm_count=3",
    "float32 mostly_minus_infinity 1x14000 k=60 form=delegate.resident_grid forced=1 blocks=4 threads=256 "
    "of_warp=2 room=128 sm_count=2",
    "float32 increasing 1x14001 k=60 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=8 "
    "room=256 parts=3 sm_count=2",
    "float32 increasing 2x14001 k=60 form=delegate.resident_grid forced=1 blocks=4 threads=256 of_warp=8 "
    "room=128 parts=2 sm_count=4",
    "float32 twelve_bit_random 1x100000 k=200 form=delegate.resident_grid forced=1 blocks=7 threads=512 "
    "elements=32 of_warp=8 parts=3 room=512 sm_count=4",
    "float32 twelve_bit_random 1x100000 k=205 form=delegate.resident_grid forced=1 blocks=7 threads=512 "
    "elements=32 of_warp=4 parts=3 room=256 sm_count=4",
)
GRID_PARTS = (
    "float32 normal 1x9001 k=700 form=delegate.grid_parts forced=1 blocks=2",
    "float32 few_distinct 1x40000 k=13000 form=delegate.grid_parts forced=1 blocks=3 sm_count=2",
    "float32 normal 1x20000 k=3000 form=delegate.grid_parts forced=1 blocks=3 rank=9 sm_count=2",
    "float32 normal 1x20000 k=3000 form=delegate.grid_parts forced=1 blocks=2 rank=1500 buffer=4000",
    "float32 mostly_minus_infinity 1x60000 k=30000 form=delegate.grid_parts forced=1 blocks=2",
    "float32 mostly_minus_infinity 1x60000 k=30000 sorted=0 form=delegate.grid_parts forced=1 blocks=2",
    "float32 normal 1x30000 k=9000 sorted=0 last_alone=1 form=delegate.grid_parts forced=1 blocks=3 "
    "sm_count=2",
    "float32 normal 1x20000 k=300 form=delegate.grid_parts forced=1 blocks=2 rank=300 dealt=310",
)
ONE_GRID = (
    "float32 normal 2x20001 k=50 form=delegate.one_grid forced=1 blocks=2 sm_count=4",
    "float32 normal 1x150001 k=300 form=delegate.one_grid forced=1 blocks=2 lines=2 group=16 sm_count=2",
    "float32 few_distinct 1x40000 k=4000 form=delegate.one_grid forced=1 blocks=3 sm_count=2",
    "float32 normal 1x20000 k=60 form=delegate.one_grid forced=1 blocks=3 rank=1 sm_count=2",
    "float32 normal 1x60000 k=700 form=delegate.one_grid forced=1 blocks=2 rank=20 buffer=9000 sm_count=2",
    "float32 normal 1x60000 k=2000 form=delegate.one_grid forced=1 blocks=3 rank=60 sm_count=2",
    "int16 all_equal 1x60000 k=3000 sorted=0 last_alone=1 form=delegate.one_grid forced=1 blocks=2 "
    "sm_count=2",
    "float32 normal 1x60000 k=2000 form=delegate.one_grid forced=1 blocks=3 rank=60 counts=0 sm_count=2",
)
STRIDED = (
    "float32 normal 66x9 k=3 inner=33",
    "float32 normal 70x100 k=12 inner=35",
    "float32 normal 70x100 k=12 inner=35 algorithm=bitonic",
    "float32 normal 70x33 k=20 inner=35 algorithm=bitonic",
    "float32 normal 12x3000 k=2000 inner=6 panel_bytes=40000 sm_count=3",
    "int16 few_distinct 40x600 k=20 inner=20 dim_last=1",
    "float32 normal 60x300 k=20 inner=30 panel_bytes=20000 sm_count=2",
    "int8 normal 14x2000 k=50 inner=7 panel_bytes=20000 sm_count=2",
    "float32 normal 9x1500 k=30 inner=1 panel_bytes=20000 dim_last=1",
)
ACROSS = (
    "float32 normal 32x1100 k=40 inner=16 algorithm=delegate sm_count=2",
    "float32 all_equal 32x1100 k=40 inner=16 algorithm=delegate sm_count=2",
    "bfloat16 few_distinct 27x900 k=9 inner=9 algorithm=delegate sm_count=2",
    "int64 normal 24x1300 k=100 inner=12 algorithm=delegate sm_count=2",
    "float32 normal 72x700 k=5 inner=24 algorithm=delegate list_bytes=60000 sm_count=2",
)
SPREAD = (
    "float32 ones_with_four_outliers 1x200000 k=1000 form=delegate.one_cluster sm_count=4",
    "int32 ones_with_four_outliers 2x100000 k=700 form=delegate.one_cluster sm_count=4",
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str  # below csrc/cuda
    old: str  # a part of one line: a statement, or an expression
    new: str
    cases: tuple[str, ...]
    which: int = 1  # of the lines with `old`

    @property
    def is_statement(self) -> bool:
        """Else it is an expression, a whole one, in place of another."""
        return self.old.split("//")[0].rstrip().endswith((";", "}"))


MUTANTS = (
    # The last block of a group.
    Mutant(
        "device/last_block.cuh",
        "::cuda::memory_order_release",
        "::cuda::memory_order_relaxed",
        SHARED_LIST,
    ),
    Mutant("device/last_block.cuh", "__syncthreads();", ";", AIR_MANY),
    Mutant("device/last_block.cuh", "*arrived = 0;", ";", AIR_MANY),
    Mutant("device/last_block.cuh", "__threadfence();", ";", SHARED_LIST),
    Mutant("device/last_block.cuh", "blocks - 1", "blocks - 2", AIR_MANY),
    # Histograms and the digit that holds the k-th best.
    Mutant("device/radix_histogram.cuh", "vectors[i] = uint4{};", ";", AIR_BLOCK),
    Mutant("device/radix_histogram.cuh", "owed <= inclusive", "owed < inclusive", AIR_BLOCK),
    Mutant("device/radix_histogram.cuh", "__syncthreads();", ";", AIR_BLOCK, which=2),
    Mutant(
        "device/radix_histogram.cuh", "count > 0 && bin > highest", "count > 1 && bin > highest", AIR_MANY
    ),
    # Passes over many blocks.
    Mutant("device/radix_passes.cuh", "from[i] = uint4{};", ";", AIR_MANY),
    Mutant("device/radix_passes.cuh", "state.buffered = 0;", ";", AIR_MANY),
    Mutant("device/radix_passes.cuh", "__syncthreads();  // all warps have counted", ";", AIR_MANY),
    Mutant(
        "device/radix_passes.cuh", "::cuda::memory_order_release", "::cuda::memory_order_relaxed", AIR_MANY
    ),
    Mutant(
        "device/radix_passes.cuh", "::cuda::memory_order_acquire", "::cuda::memory_order_relaxed", AIR_MANY
    ),
    Mutant("device/radix_passes.cu", "follow_kernel_before();", "let_next_kernel_start();", AIR_MANY),
    Mutant("device/radix_passes.cu", "__syncthreads();  // the part is known", ";", AIR_MANY),
    Mutant("air/many_blocks.cu", "wait_for_kernel_before();", ";", AIR_MANY),
    # One block a row, and one cluster.
    Mutant("air/one_block.cu", "if (threadIdx.x == 0) written = listed = 0;", ";", AIR_BLOCK),
    Mutant("air/one_block.cu", "if (threadIdx.x == 0) range.reset();", ";", AIR_BLOCK),
    Mutant("air/one_block.cu", "rank >= row.k", "rank > row.k", AIR_BLOCK),
    Mutant("air/one_block.cu", "rank != row.k - 1", "rank != row.k - 2", AIR_BLOCK),
    Mutant("air/one_cluster.cu", "at != params.k - 1", "at != params.k - 2", AIR_CLUSTER),
    Mutant("air/one_cluster.cu", "__syncthreads();  // the sums are there", ";", AIR_CLUSTER),
    Mutant(
        "air/one_cluster.cu", "Cluster::wait();  // all blocks have counted", "__syncthreads();", AIR_CLUSTER
    ),
    Mutant("air/one_cluster.cu", "Cluster::wait();  // every block has all candidates", ";", AIR_CLUSTER),
    Mutant("device/selection.cuh", "owed -= above;", ";", AIR_BLOCK),
    Mutant("device/key_range.cuh", "greatest = 0;", ";", AIR_CLUSTER, which=2),
    # GridSelect.
    Mutant(
        "device/warp_queue.cuh", "__syncwarp();  // the lanes' entries are in shared memory", ";", REGISTERS
    ),
    Mutant("device/warp_queue.cuh", "__syncthreads();  // the lists are there", ";", REGISTERS),
    Mutant("grid_select/registers.cu", "if (threadIdx.x == 0) shared.bound = 0;", ";", REGISTERS),
    Mutant(
        "grid_select/registers.cu", "__ballot_sync(~0u, keeps)", "__ballot_sync(0xFFFFu, keeps)", REGISTERS
    ),
    Mutant(
        "grid_select/shared_list.cu",
        "if (!__syncthreads_or(chosen != 0)) break;",
        "if (chosen == 0) break; __syncthreads_or(1);",
        SHARED_LIST,
    ),
    Mutant("grid_select/shared_list.cu", "least = ~0ull;", ";", SHARED_LIST),
    Mutant("grid_select/shared_list.cu", "at += x < list_[other]", "at += !(list_[other] < x)", SHARED_LIST),
    # Delegate, and candidates that are stored.
    Mutant("device/stored_candidates.cuh", "__syncthreads();  // the places are known", ";", MAXIMA),
    Mutant("device/element_bounds.cu", "__syncthreads();  // the finds are there", ";", TWO_BOUNDS),
    Mutant("device/element_bounds.cu", "worse_finds[thread] == ranks.place", "thread == 0", TWO_BOUNDS),
    Mutant(
        "delegate/two_bounds.cu", "__syncwarp();  // the lanes' entries are in shared memory", ";", TWO_BOUNDS
    ),
    Mutant("delegate/two_bounds.cu", "at < k", "true", TWO_BOUNDS),
    Mutant("delegate/two_bounds.cu", "__syncthreads();  // all warps have told", ";", TWO_BOUNDS),
    Mutant("delegate/two_bounds.cu", "first + kLaneSpan > index_of_bound(high)", "false", TWO_BOUNDS),
    Mutant("delegate/two_bounds.cu", "counted += __popc(sure);", ";", TWO_BOUNDS),
    Mutant(
        "device/stored_candidates.cuh",
        "state.written = state.written_from_end = 0;",
        "state.written = 0;",
        TWO_BOUNDS,
    ),
    Mutant("device/radix_passes.cuh", "pass > 0 && greatest < selection.split", "pass > 0", TWO_BOUNDS),
    Mutant(
        "device/selection.cuh", "if (greatest < split) split = greatest;", "split = greatest;", TWO_BOUNDS
    ),
    Mutant("device/stored_candidates.cuh", "if (threadIdx.x == 0) written = 0;", ";", MAXIMA),
    # Candidates that blocks have staged, and tell the winners among together.
    Mutant("device/meeting.cuh", "__syncthreads();  // the outcome is known", ";", MEETING),
    Mutant("device/meeting.cuh", "known = atomicCAS(&outcome, kOpen, own);", "known = own;", MEETING),
    Mutant("device/meeting.cuh", "all && willing", "willing", MEETING_OF_MANY),
    Mutant("device/meeting.cuh", "RowBarrier(&arrived, blocks, /*waits=*/0).wait();", ";", MEETING),
    Mutant(
        "device/staged_candidates.cuh", "written_out || k > above + staged", "k > above + staged", MEETING
    ),
    Mutant(
        "device/staged_candidates.cuh",
        "__ldcg(&state.written_out) != 0",
        "__ldcg(&state.buffered) != 0",
        (
            "int64 winners_in_one_subrange 1x140000 k=4000 sorted=0 last_alone=1 form=delegate.from_sample "
            "forced=1 meet=1 dealt_share=3 sm_count=16 buffer=64",
        ),
    ),
    Mutant("device/staged_candidates.cuh", "__syncthreads();  // the counts are there", ";", MEETING),
    Mutant("device/staged_candidates.cuh", "__syncthreads();  // all warps have told", ";", MEETING),
    Mutant("device/staged_candidates.cuh", "__syncthreads();  // the places are known", ";", MEETING),
    Mutant(
        "device/staged_candidates.cuh",
        "written + static_cast<int64_t>(at)",
        "static_cast<int64_t>(at)",
        MEETING,
    ),
    Mutant("device/staged_candidates.cuh", "(written + beyond + target.above)", "(written)", MEETING),
    Mutant("device/staged_candidates.cuh", "k - above - beyond", "k - above", MEETING),
    Mutant("device/staged_candidates.cuh", "!wins && !(x < selection.low)", "!wins", MEETING),
    Mutant("delegate/two_bounds.cu", "found.candidates += static_cast<unsigned>(kept);", ";", TWO_BOUNDS),
    Mutant("delegate/two_bounds.cu", "kept = 0;", ";", MEETING, which=2),
    # The last winner alone.
    Mutant(
        "device/stored_candidates.cuh",
        "!(list[i] < bound) && list[i] < least",
        "list[i] < least",
        LAST_SELECTED,
    ),
    Mutant("device/stored_candidates.cuh", "__syncthreads();  // all warps have theirs", ";", LAST_SELECTED),
    Mutant("device/stored_candidates.cuh", "__syncthreads();  // none is listed", ";", LAST_OF_MANY),
    Mutant("device/stored_candidates.cuh", "__syncthreads();  // all are listed", ";", LAST_OF_MANY),
    Mutant("device/stored_candidates.cuh", "rank == selection.owed", "rank == 1", LAST_OF_MANY),
    Mutant("device/stored_candidates.cuh", "!(x < low) && !(high < x)", "!(x < low)", LAST_OF_MANY),
    Mutant(
        "device/stored_candidates.cuh",
        "if (list_[i] < last || last < list_[i]) continue;",
        "if (last < list_[i]) continue;",
        LAST_SELECTED,
    ),
    Mutant(
        "device/radix_passes.cuh",
        "finishes_early() && wanted != Wanted::kLast",
        "finishes_early()",
        LAST_SELECTED,
    ),
    Mutant(
        "device/radix_passes.cuh",
        "cols - 1 - static_cast<int64_t>(last.reversed)",
        "cols - 2 - static_cast<int64_t>(last.reversed)",
        LAST_SELECTED,
    ),
    Mutant("delegate/from_maxima.cu", "follow_kernel_before();", "let_next_kernel_start();", MAXIMA),
    Mutant("device/row_sample.cuh", "wait_for_kernel_before();  // the row's state is zero", ";", SAMPLE),
    # Few candidates, compared each with all.
    Mutant("device/stored_candidates.cuh", "__syncthreads();  // the list is whole", ";", SAMPLE_OF_FEW),
    Mutant("device/stored_candidates.cuh", "rank += x < list[i]", "rank += !(list[i] < x)", SAMPLE_OF_FEW),
    Mutant(
        "device/stored_candidates.cuh", "if (rank >= owed) return;", "if (rank > owed) return;", SAMPLE_OF_FEW
    ),
    Mutant("device/element_bounds.cu", "__syncthreads();  // all are listed", ";", TWO_BOUNDS),
    # Rows in registers, and rows in order.
    Mutant("device/sorted_list.cuh", "__syncthreads();  // the list is filled up", ";", DIGITS),
    Mutant("air/resident_row.cu", "shared.range.reset();", ";", RESIDENT),
    Mutant("air/resident_row.cu", "__syncthreads();  // all warps have a bound", ";", RESIDENT),
    Mutant("air/row_winners.cuh", "__syncthreads();  // all are in their bins", ";", RESIDENT, which=2),
    Mutant("air/row_winners.cuh", "__syncthreads();  // all are in their bins", ";", GROUPED),
    Mutant("air/resident_row.cu", "__syncthreads();  // they are listed", ";", RESIDENT),
    Mutant("air/row_winners.cuh", "__syncthreads();  // all are in order", ";", RESIDENT),
    Mutant("air/row_winners.cuh", "better + (run[better] > entry)", "better", RESIDENT),
    Mutant("air/row_winners.cuh", "(list[other] < index)", "(list[other] > index)", RESIDENT),
    Mutant("air/row_winners.cuh", "rank < k", "rank + 1 < k", RESIDENT),
    Mutant("air/row_winners.cuh", "rank < k", "rank + 1 < k", RESIDENT, which=2),
    Mutant("air/row_winners.cuh", "(index >> (col_bits_ - part_bits_))", "index", RESIDENT),
    Mutant("device/row_numbers.cuh", "first_of(v) + kInVector <= cols", "first_of(v) < cols", RESIDENT),
    Mutant("device/equals.cuh", "sum_so_far<kLanes>(count)", "sum_so_far(count)", RESIDENT),
    Mutant("device/row_numbers.cuh", "number != 0", "true", EQUALS),
    Mutant("device/row_numbers.cuh", "!by_magnitude && !is_nan", "!is_nan", EQUALS),
    Mutant("air/row_winners.cuh", "scratch.kth_bin + 1", "scratch.kth_bin", NARROWED),
    Mutant(
        "air/row_winners.cuh",
        "static_cast<Word>(scratch.distance)",
        "static_cast<Word>(scratch.distance >> 1)",
        NARROWED,
    ),
    Mutant("air/row_winners.cuh", "__syncthreads();  // all know what is left", ";", NARROWED),
    Mutant("air/row_winners.cuh", "__syncthreads();  // the bin is found", ";", NARROWED),
    Mutant(
        "air/row_winners.cuh",
        "__syncthreads();  // groups have their entries, and starts are not in use",
        ";",
        GROUPED,
    ),
    Mutant("air/row_winners.cuh", "__syncthreads();  // all ranges are known", ";", GROUPED),
    Mutant(
        "air/row_winners.cuh", "__syncthreads();  // bins are clear, and groups know theirs", ";", GROUPED
    ),
    Mutant("air/row_winners.cuh", "bins[bin] + places[e]", "bins[bin]", GROUPED),
    Mutant("air/row_winners.cuh", "is_there ? bin_of.of(key, index) : 0", "0", GROUPED),
    Mutant(
        "air/row_winners.cuh",
        "numbers.bits_of_all(Compared::number_of(key), bits)",
        "(numbers.bits_of_all(Compared::number_of(key), bits), true)",
        BY_MAGNITUDE,
    ),
    Mutant(
        "device/sort_bins.cuh", "first_of_tied > 0 && key == tied", "first_of_tied > 0 && key >= tied", TIED
    ),
    Mutant(
        "device/sort_bins.cuh",
        "first_of_tied + static_cast<uint32_t>(index >> shift)",
        "first_of_tied + (static_cast<uint32_t>(index >> shift) ^ 1)",
        TIED,
    ),
    Mutant(
        "device/sort_bins.cuh", "max(ties.bits - bits_of(static_cast<uint32_t>(bins / 2 - 1)), 0)", "0", TIED
    ),
    Mutant("device/row_numbers.cuh", "numbers[i] != numbers[i]", "false", RESIDENT),
    Mutant("bitonic/one_warp.cuh", "__syncwarp();  // the list is whole", ";", ONE_WARP),
    Mutant("bitonic/one_warp.cuh", "__syncwarp();  // no bit is set", ";", ONE_WARP_BY_INDEX),
    Mutant("bitonic/one_warp.cuh", "__syncwarp();  // all are marked", ";", ONE_WARP_BY_INDEX),
    Mutant(
        "bitonic/one_warp.cuh",
        "sum_so_far<kLanes>(__popc(own)) - __popc(own)",
        "sum_so_far<kLanes>(__popc(own))",
        ONE_WARP_BY_INDEX,
    ),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // all keys are there", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // all keys are there, in order", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // all counts are zero", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // the row is in order", ";", ONE_WARP),
    Mutant(
        "device/list_ranks.cuh",
        "static_cast<int>(before) + __popc(lower)",
        "static_cast<int>(before)",
        ONE_WARP,
    ),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // all have met", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // the list has been read", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "__syncwarp();  // it is in order", ";", ONE_WARP),
    Mutant("device/list_ranks.cuh", "others[i] < indices[e]", "others[i] > indices[e]", ONE_WARP),
    Mutant("device/list_ranks.cuh", "(ranks[e]) << 16 | indices[e]", "(ranks[e]) << 16", ONE_WARP),
    Mutant("bitonic/one_warp.cuh", "__syncwarp();  // they are listed", ";", ONE_WARP),
    Mutant("device/equals.cuh", "min(before, wanted)", "before", ONE_WARP),
    Mutant("device/equals.cuh", "sum_so_far<kLanes>(own)", "sum_so_far(own)", ONE_WARP),
    Mutant("bitonic/one_warp.cuh", "k <= above && above <= room", "k <= above", ONE_WARP),
    Mutant("bitonic/one_warp.cuh", "share.index(i) >= static_cast<uint32_t>(cols)", "false", ONE_WARP),
    Mutant(
        "device/list_sort.cuh", "__syncthreads();  // the next trip finds what this one wrote", ";", DIGITS
    ),
    Mutant("device/sort_bins.cuh", "quarter + within.of(key, index)", "within.of(key, index)", SPREAD),
    Mutant("sort/parts.cu", "__syncthreads();  // bins are clear", ";", SORTED),
    Mutant("sort/parts.cu", "part < needed", "part + 1 < needed", LARGE_PARTS),
    Mutant("sort/parts.cu", "__syncthreads();  // all ranks are known", ";", SAMPLED),
    Mutant("sort/parts.cu", "__syncthreads();  // ranks are zero", ";", SAMPLED),
    Mutant("sort/parts.cu", "before[e] += is_before(firsts[e] + before[e]);", ";", SAMPLED),
    Mutant("sort/parts.cu", "min(other + e * step, chunks - 1)", "0 * (other + e * step)", SAMPLED),
    Mutant("sort/parts.cu", "__syncthreads();  // all warps have theirs", ";", SORTED),
    Mutant("sort/parts.cu", "end >= kept", "end > kept + 1", SAMPLED),
    Mutant("sort/splitters.cuh", "__syncthreads();  // splitters are counted", ";", SAMPLED),
    Mutant("sort/splitters.cuh", "(key == other) & (index < indices_[splitter])", "(key == other)", SAMPLED),
    Mutant("sort/splitters.cuh", "parts[e] = middle + 1", "parts[e] = ends[e]", SAMPLED),
    Mutant("sort/splitters.cuh", "index = last_index_", "index = range.least_index", SAMPLED),
    Mutant(
        "sort/splitters.cuh", "min(max(key, range.least), range.greatest)", "max(key, range.least)", SAMPLED
    ),
    Mutant(
        "device/large_part.cuh",
        "__syncthreads();  // the next chunk comes to where the last one was",
        ";",
        LARGE_PARTS,
    ),
    Mutant("device/sort_bins.cuh", "part * scale >> kPartBits", "part * scale >> (kPartBits - 1)", CROWDED),
    Mutant("device/sort_bins.cuh", "group[own].keys.add(key);", ";", CROWDED),
    Mutant("device/sort_bins.cuh", "keys.least == keys.greatest", "true", CROWDED),
    Mutant("device/block_sort.cuh", "__syncthreads();  // all ranges are known", ";", CROWDED),
    Mutant(
        "device/placed_entries.cuh", "least_index_ + Halves::index(index)", "Halves::index(index)", PACKED
    ),
    Mutant("device/placed_entries.cuh", "range.index_bits <= 16", "true", PACKED),
    Mutant("device/placed_entries.cuh", "static_cast<Index>(~index)", "index", SORTED),
    Mutant("device/placed_entries.cuh", "least_ + distance", "distance", SORTED),
    Mutant("device/placed_entries.cuh", "__syncthreads();  // all are taken out", ";", PACKED_DIGITS),
    # The last in its place.
    Mutant(
        "sort/last_in_place.cu",
        "__syncthreads();  // all warps have theirs, and no entry is read after this",
        ";",
        LAST,
    ),
    Mutant("sort/last_in_place.cu", "static_cast<Index>(~indices[i])", "indices[i]", LAST),
    Mutant("device/selection.cuh", "own.key == key", "true", LAST),
    Mutant("sort/last_in_place.cu", "min(share, k - begin)", "share", LAST_OF_SHARES),
    Mutant(
        "sort/last_in_place.cu",
        "follow_kernel_before();",
        "let_next_kernel_start();",
        LAST_OF_SHARES,
        which=2,
    ),
    # Split-bucket.
    Mutant("split_bucket/radix.cu", "follow_kernel_before();", "let_next_kernel_start();", DIGITS),
    Mutant("split_bucket/radix.cu", "__syncthreads();  // all warps have added", ";", DIGITS),
    Mutant("split_bucket/tree.cu", "counts_[next] = 0;", ";", TREE),
    Mutant("split_bucket/tree.cu", "__syncthreads();  // all have added", ";", TREE),
    Mutant("split_bucket/tiles.cuh", "__syncthreads();  // the list is whole", ";", TREE),
    # Across rows.
    Mutant("delegate/across_rows.cu", "__syncthreads();  // all are there", ";", ACROSS),
    Mutant("delegate/across_rows.cu", "wait_for_kernel_before();", ";", ACROSS),
    Mutant("delegate/across_rows.cu", "follow_kernel_before();", "let_next_kernel_start();", ACROSS),
    Mutant("delegate/across_rows.cu", "follow_kernel_before();", "let_next_kernel_start();", ACROSS, which=2),
    Mutant("delegate/across_rows.cu", "__syncwarp();  // all entries are there", ";", ACROSS),
    Mutant("delegate/across_rows.cu", "__syncwarp();  // all are counted", ";", ACROSS),
    Mutant("delegate/across_rows.cu", "__syncwarp();  // all rows have their places", ";", ACROSS),
    Mutant("delegate/across_rows.cu", "__syncwarp();  // they have been read", ";", ACROSS),
    # A bound from a sample.
    Mutant("delegate/sampled_row.cuh", "sample.rank - above", "sample.rank", SHARES),
    Mutant("delegate/sampled_row.cuh", "bound.reversed = selection.low.reversed;", ";", SHARES),
    Mutant("delegate/sampled_row.cuh", "__syncthreads();  // the counts are not in use", ";", SHARES),
    # Equal shares.
    Mutant("delegate/equal_shares.cu", "follow_kernel_before();", "let_next_kernel_start();", SHARES),
    Mutant(
        "delegate/equal_shares.cu", "follow_kernel_before();", "let_next_kernel_start();", SHARES, which=2
    ),
    Mutant("delegate/equal_shares.cu", "params.lists.values[at + i] = memory.values[i];", ";", SHARES),
    Mutant(
        "delegate/equal_shares.cu",
        "Cluster::wait();  // no block adds to a count that is yet to be zeroed",
        "__syncthreads();",
        SHARES,
    ),
    Mutant(
        "delegate/equal_shares.cu", "Cluster::wait();  // the row's list is whole", "__syncthreads();", SHARES
    ),
    # A row in a cluster's registers.
    Mutant("delegate/resident_cluster.cu", "scratch.mail.wait();", "__syncthreads();", RESIDENT_CLUSTER),
    Mutant(
        "delegate/resident_cluster.cu", "Cluster::wait();  // all blocks have begun", ";", RESIDENT_CLUSTER
    ),
    Mutant("delegate/resident_cluster.cu", "__syncthreads();  // nobody looks", ";", RESIDENT_CLUSTER),
    Mutant("delegate/resident_cluster.cu", "__syncthreads();  // nobody reads", ";", MORE_THAN_ROOM),
    Mutant(
        "delegate/resident_cluster.cu",
        "Cluster::wait();  // all blocks have counted",
        "__syncthreads();",
        RESIDENT_CLUSTER,
    ),
    Mutant(
        "delegate/resident_cluster.cu", "__syncthreads();  // all warps have counted", ";", RESIDENT_CLUSTER
    ),
    Mutant("device/equals.cuh", "w < warp", "w + 1 < warp", RESIDENT_CLUSTER),
    Mutant("device/maxima_bound.cuh", "static_cast<Word>(end - low)", "static_cast<Word>(~Word{0})", COUNTED),
    Mutant("delegate/resident.cuh", "scratch.counts.wait();", "__syncwarp();", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "scratch.entries.wait();", ";", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "__syncwarp();  // the warp's list is whole", ";", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "all > places.of_warp", "false", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "__syncthreads();  // all are counted", ";", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "__syncthreads();  // the sums are there", ";", RESIDENT_CLUSTER),
    Mutant("delegate/resident.cuh", "fits &= listed <= places.from_block;", ";", RESIDENT_CLUSTER),
    Mutant(
        "delegate/resident.cuh",
        "scratch.listed[part] | scratch.not_all",
        "scratch.listed[part]",
        RESIDENT_CLUSTER,
    ),
    Mutant(
        "delegate/resident.cuh",
        "__all_sync(~0u, fits) && reach >= static_cast<uint32_t>(row.k)",
        "__all_sync(~0u, fits)",
        CLUSTER_WITHOUT_ROOM,
    ),
    Mutant("delegate/resident_cluster.cu", "mail.counts.wait();", "__syncthreads();", RESIDENT_CLUSTER),
    Mutant("delegate/resident_cluster.cu", "mail.entries.wait();", ";", RESIDENT_CLUSTER),
    Mutant(
        "delegate/resident.cuh", "!numbers.bits_of_all(Compared::number_of(key), bits)", "false", CLUSTER_BITS
    ),
    Mutant("delegate/resident.cuh", "better += count[i];", ";", RESIDENT_CLUSTER),
    Mutant(
        "delegate/resident_cluster.cu", "__syncthreads();  // the counts are there", ";", RESIDENT_CLUSTER
    ),
    Mutant("delegate/resident.cuh", "better + rank", "rank", RESIDENT_CLUSTER),
    Mutant("device/held_row.cuh", "!(x < selection.low)", "true", AIR_GRID),
    Mutant(
        "device/held_row.cuh",
        "with_better_ ? greatest_ : selection.split.key",
        "selection.split.key",
        AIR_GRID,
    ),
    Mutant(
        "device/held_row.cuh",
        "__syncthreads();  // all know what they have counted, and the choice is made",
        ";",
        AIR_GRID,
    ),
    Mutant("device/held_row.cuh", "~static_cast<unsigned long long>(shared.seen.least)", "0ull", AIR_GRID),
    Mutant("device/held_row.cuh", "behind < 0 ? 0 : ~0u >> (31 - min(behind, int64_t{31}))", "~0u", AIR_GRID),
    Mutant("air/resident_grid.cu", "better + 1 == selection.owed", "better == selection.owed", AIR_GRID),
    Mutant("air/resident_grid.cu", "!(own[thread] < bound)", "true", AIR_GRID),
    Mutant("air/resident_grid.cu", "block.number == 0 ? shift : 0", "0", AIR_GRID),
    Mutant("air/resident_grid.cu", "grid.barrier_wait(std::move(arrived));", ";", AIR_GRID),
    Mutant(
        "delegate/resident_grid.cu",
        "cooperative_groups::this_grid().sync();",
        "__syncthreads();",
        RESIDENT_GRID,
    ),
    Mutant(
        "device/row_barrier.cuh",
        "::cuda::memory_order_release",
        "::cuda::memory_order_relaxed",
        RESIDENT_GRID,
    ),
    Mutant("delegate/resident_grid.cu", "__syncthreads();  // the list has its place", ";", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "__syncthreads();  // the part is there", ";", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "better += part < number;", ";", RESIDENT_GRID),
    Mutant("device/row_barrier.cuh", "__syncthreads();  // all have counted", ";", RESIDENT_GRID),
    Mutant("device/row_barrier.cuh", "next[bin] = 0", "next[bin] = 1", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "/*list=*/1", "0", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "reversed_of(i) < selection.low.reversed", "false", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "overflows == 0", "true", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "overflows == 0", "true", RESIDENT_GRID, which=2),
    Mutant("delegate/resident_grid.cu", "bound.reaching > own.room", "false", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "better >= k", "false", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "better > room", "false", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "key < bound.key", "false", RESIDENT_GRID),
    Mutant(
        "delegate/resident_grid.cu",
        "own.room + atomicAdd(&scratch.place, 1u)",
        "atomicAdd(&scratch.place, 1u)",
        RESIDENT_GRID,
    ),
    Mutant("delegate/resident_grid.cu", "__syncthreads();  // they have their place", ";", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "listed_before + histograms", "listed_before", RESIDENT_GRID),
    Mutant("device/maxima_bound.cuh", "!std::decay_t<AddUp>::kOneBlock", "false", RESIDENT_GRID),
    Mutant("delegate/resident_grid.cu", "k - better - selection.owed", "k - selection.owed", RESIDENT_GRID),
    Mutant(
        "delegate/resident_grid.cu", "listed <= static_cast<uint32_t>(params.room)", "true", RESIDENT_GRID
    ),
    Mutant(
        "delegate/resident_grid.cu",
        "__syncthreads();  // no thread looks at counts any more",
        ";",
        RESIDENT_GRID,
    ),
    Mutant(
        "delegate/grid_parts.cu", "cooperative_groups::this_grid().sync();", "__syncthreads();", GRID_PARTS
    ),
    Mutant("delegate/grid_parts.cu", "all <= params.stored_room", "true", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "params.k <= all", "true", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "place <= parts.last", "true", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "rank == params.k - 1", "rank == params.k - 2", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "__syncthreads();  // all have counted", ";", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "__syncthreads();  // the offsets are known", ";", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "splitters()[middle] < x", "x < splitters()[middle]", GRID_PARTS),
    Mutant("delegate/grid_parts.cu", "shared.parts.reaching <= params.dealt_room", "true", GRID_PARTS),
    Mutant("delegate/one_grid.cu", "cooperative_groups::this_grid().sync();", "__syncthreads();", ONE_GRID),
    Mutant(
        "delegate/one_grid.cu",
        "__syncthreads();  // the range is known, and no bin is yet to be cleared",
        ";",
        ONE_GRID,
    ),
    Mutant("delegate/one_grid.cu", "barrier.wait();", ";", ONE_GRID),
    Mutant("delegate/one_grid.cu", "beyond + found.above", "found.above", ONE_GRID),
    Mutant("delegate/one_grid.cu", "++end.bin;", ";", ONE_GRID),
    Mutant("delegate/one_grid.cu", "all_stored > params.capacity", "false", ONE_GRID),
    Mutant("delegate/one_grid.cu", "all_stored < k", "false", ONE_GRID),
    Mutant("delegate/one_grid.cu", "rank == params.k - 1", "rank == params.k - 2", ONE_GRID),
    Mutant("delegate/one_grid.cu", "__syncthreads();  // nothing of the counts is in use", ";", ONE_GRID),
    Mutant("delegate/one_grid.cu", "__syncthreads();  // all are listed", ";", ONE_GRID),
    Mutant("delegate/one_grid.cu", "__syncthreads();  // all are there", ";", ONE_GRID),
    Mutant("delegate/one_grid.cu", "rank += entries[i] > entry", "rank += entries[i] >= entry", ONE_GRID),
    Mutant("delegate/grid_candidates.cuh", "first > bound_index", "false", ONE_GRID),
    Mutant("device/block_sort.cuh", "others.second > entry", "others.second >= entry", RESIDENT_GRID),
    Mutant("device/block_sort.cuh", "others[better] > entry", "false", RESIDENT_CLUSTER),
    Mutant("device/block_sort.cuh", "entries[thread] = sorted[0];", "entries[thread] = entry;", SHARES),
    Mutant("device/block_sort.cuh", "__syncthreads();  // all are there", ";", RESIDENT_GRID),
    Mutant("device/maxima_bound.cuh", "__syncthreads();  // all have counted", ";", RESIDENT_CLUSTER),
    Mutant("device/bin_starts.cuh", "starts_of(count, before)", "starts_of(count, 0)", SHARES),
    Mutant("device/bin_starts.cuh", "start + so_far - own", "start + so_far", SORTED),
    Mutant("device/block_sort.cuh", "__syncthreads();  // all have come to their bins", ";", SHARES),
    Mutant("device/block_sort.cuh", "__syncthreads();  // all are in their places", ";", SHARES),
    Mutant("device/bin_starts.cuh", "before + count.x + count.y + count.z + count.w", "0", SHARES),
    # Rows that do not lie side by side.
    Mutant("bitonic/one_warp_tiles.cu", "__syncthreads();  // the tile is there", ";", STRIDED),
    Mutant("bitonic/one_warp_tiles.cu", "__syncwarp();  // the list has been read", ";", STRIDED),
    Mutant("bitonic/one_warp_tiles.cu", "__syncthreads();  // all winners are there", ";", STRIDED),
    Mutant("strided/move.cu", "follow_kernel_before();", "let_next_kernel_start();", STRIDED, which=2),
    Mutant("strided/move.cu", "follow_kernel_before();", "let_next_kernel_start();", STRIDED, which=3),
    Mutant("device/square_block.cuh", "r >= rows", "r > rows", STRIDED),
    # Reading and writing.
    Mutant(
        "device/winner_writer.cuh", "__syncwarp();  // the lanes' entries are in shared memory", ";", AIR_MANY
    ),
    Mutant("device/row_reader.cuh", "lane - 16 < shape.tail", "lane - 16 <= shape.tail", AIR_BLOCK),
    Mutant(
        "device/row_reader.cuh",
        "begin_of(tile) + v * distance < end",
        "begin_of(tile) + v * distance <= end",
        AIR_BLOCK,
    ),
    Mutant(
        "sort/by_marks.cu", "__syncthreads();  // no word is marked that is yet to be cleared", ";", MARKED
    ),
    Mutant("sort/by_marks.cu", "__syncthreads();  // all are in their places", ";", MARKED),
    Mutant("sort/by_marks.cu", "counted + through - own", "counted + through", MARKED),
    Mutant("sort/by_marks.cu", "before[word] + __popc(below)", "before[word]", MARKED),
    Mutant("sort/by_marks.cu", "sum_so_far(of_warp) - of_warp", "sum_so_far(of_warp)", MARKED),
)


def planted(line: str, number: int, mutant: Mutant) -> str:
    """The line with a choice between old and new."""
    if mutant.is_statement:
        choice = (
            f"if (::simt::is_planted({number})) {{ {mutant.new} }} else {{ {mutant.old.split('//')[0]} }}"
        )
        rest = line.split(mutant.old, 1)
        # The comment, if `old` has a part of one, ends the line.
        return rest[0] + choice + ("\n" if "//" in mutant.old else rest[1])
    return line.replace(mutant.old, f"(::simt::is_planted({number}) ? ({mutant.new}) : ({mutant.old}))", 1)


def plant(csrc: Path) -> None:
    """Plants all faults in a copy of the sources."""
    for number, mutant in enumerate(MUTANTS, 1):
        file = csrc / "cuda" / mutant.file
        lines = file.read_text().splitlines(keepends=True)
        places = [i for i, line in enumerate(lines) if mutant.old in line]
        if len(places) < mutant.which:
            raise SystemExit(f"mutant {number}: {mutant.file} has no line {mutant.which} with {mutant.old!r}")
        at = places[mutant.which - 1]
        lines[at] = planted(lines[at], number, mutant)
        file.write_text("".join(lines))


def build() -> emulated.Library:
    sources = BUILD / "csrc"
    fresh = BUILD / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(CSRC, fresh)
    plant(fresh)
    # Only what has changed is written, so that only that is compiled.
    for file in sorted(f for f in fresh.rglob("*") if f.is_file()):
        target = sources / file.relative_to(fresh)
        if not target.exists() or target.read_bytes() != file.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    for file in [
        f for f in sources.rglob("*") if f.is_file() and not (fresh / f.relative_to(sources)).exists()
    ]:
        file.unlink()
    return emulated.Library(emulated.build(BUILD / "build", csrc=sources, coverage=False))


def first_finding(lib: emulated.Library, cases: tuple[str, ...]) -> str | None:
    """What the cases find, under a few schedules each."""
    for schedule in range(SCHEDULES):
        for line in cases:
            case = dataclasses.replace(Case.parse(line), seed=100 + schedule)
            try:
                emulated.run_case(case, lib)
            except AssertionError as error:
                return f"{error} [{case}]"
    return None


def found_at_random(lib: emulated.Library, number: int, seconds: float) -> str | None:
    """What random requests of the forms of its cases find, and not without the fault."""
    options = [dict(Case.parse(line).options) for line in MUTANTS[number - 1].cases]
    forms = sorted({str(own["form"]) for own in options if "form" in own})
    if not forms:
        return None
    target, rng = fuzz.Emulated(forms), random.Random(number)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        case = target.draw(rng)
        if "form" not in dict(case.options):
            continue
        try:
            emulated.run_case(case, lib)
        except emulated.NotServed:
            continue
        except AssertionError as error:
            lib.plant(0)
            try:
                emulated.run_case(case, lib)
            except AssertionError as own:
                raise SystemExit(f"without any fault: {own} [{case}]") from own
            return f"at random: {error} [{case}]"
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", type=int, help="which; all by default")
    parser.add_argument("--seconds", type=float, default=20, help="for random requests, a fault")
    parser.add_argument("--least", type=int, default=len(MUTANTS) * 28 // 30, help="fewer found is a failure")
    args = parser.parse_args(arguments)
    lib = build()
    lib.plant(0)
    for line in sorted({line for mutant in MUTANTS for line in mutant.cases}):
        finding = first_finding(lib, (line,))
        if finding:
            print(f"without any fault: {finding}")
            return 1
    found = 0
    numbers = args.numbers or range(1, len(MUTANTS) + 1)
    for number in numbers:
        mutant = MUTANTS[number - 1]
        begin = time.monotonic()
        lib.plant(number)
        finding = first_finding(lib, mutant.cases) or found_at_random(lib, number, args.seconds)
        found += finding is not None
        print(f"{number:2} {mutant.file}: {mutant.old.split('//')[0].strip()} -> {mutant.new}")
        print(f"   {(finding or 'NOT FOUND')[:200]} ({time.monotonic() - begin:.1f} s)", flush=True)
    lib.plant(0)
    print(f"{found} of {len(numbers)} found")
    return int(found < (len(numbers) if args.numbers else args.least))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
