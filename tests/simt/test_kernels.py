"""Every form, dtype and named input on the emulated GPU, against the oracle: see emulated.py."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil

import pytest
import torch

from tests import inputs, oracle
from tests import rerank_reference as reference
from tests.cases import Case
from tests.simt import coverage, emulated, mutants

# Of each width, floating or not.
DTYPES = (
    torch.uint8,
    torch.float8_e4m3fn,
    torch.int16,
    torch.bfloat16,
    torch.int32,
    torch.float32,
    torch.int64,
    torch.float64,
)
OTHERS = tuple(dtype for dtype in oracle.DTYPES if dtype not in DTYPES)

# form: rows x cols, k, and its numbers, small ones, so that short rows meet every part of it.
FORMS = {
    "air.one_block": [
        ("8x700", 90, "forced=1 threads=64"),
        ("8x2500", 2000, "forced=1 threads=128 digit_bits=6 sm_count=2"),
        ("6x300", 40, "sm_count=8"),
    ],
    "air.one_cluster": [
        ("4x900", 100, "forced=1 cluster=4 threads=64"),
        ("2x9000", 3000, "forced=1 cluster=2 threads=64 digit_bits=6"),
    ],
    "air.many_blocks": [
        ("2x5000", 700, "forced=1 blocks=3"),
        ("2x5000", 4000, "forced=1 blocks=2 digit_bits=7 sm_count=2"),
        ("1x9000", 300, "forced=1 blocks=2 digit_bits=4 buffer=64"),
    ],
    "air.resident_row": [
        ("8x700", 20, "sm_count=2"),
        ("4x3000", 300, "sm_count=2"),
        ("4x5001", 90, "sm_count=2"),
        ("3x2501", 3, "sm_count=2"),
        ("3x2500", 700, "sm_count=2"),
    ],
    "bitonic.one_thread": [
        ("40x16", 8, ""),
        ("40x31", 3, ""),
        ("140x64", 6, ""),
    ],
    "bitonic.one_warp": [
        ("40x60", 7, "sm_count=2"),
        ("9x128", 16, "sm_count=2"),
        ("40x250", 12, "sm_count=2"),
        ("40x1000", 30, "sm_count=2"),
        ("9x1024", 64, ""),
        ("9x1000", 100, ""),
        ("9x129", 128, ""),
        ("40x31", 20, ""),
        ("9x64", 64, ""),
        ("9x250", 250, ""),
    ],
    "bitonic.many_blocks": [
        ("3x3000", 20, "forced=1 blocks=3"),
        ("2x3000", 100, "forced=1 blocks=2"),
        ("3x1500", 256, ""),
    ],
    "grid_select.registers": [
        ("8x700", 30, "forced=1 blocks=-1 threads=64"),
        ("3x3000", 100, "forced=1 blocks=3 threads=64"),
        ("3x3000", 256, "forced=1 blocks=1 threads=96"),
        ("3x3000", 40, "forced=1 blocks=2 threads=64 thread_queues=1"),
    ],
    "grid_select.shared_list": [
        ("3x3000", 129, "forced=1 blocks=1 threads=64"),
        ("2x6000", 300, "forced=1 blocks=3 threads=64"),
    ],
    "sort.copy": [("7x300", 300, "sorted=0"), ("1x9000", 9000, "sorted=0 sm_count=2")],
    "sort.whole_rows": [
        ("5x700", 350, ""),
        ("2x3000", 3000, "sm_count=2"),
        ("1x20000", 9000, "sm_count=2"),
        ("1x20000", 20_000, "sm_count=14"),
        ("1x9000", 4700, "forced=1 parts=4 capacity=1024 threads=128 blocks=2 tile=1024 sm_count=2"),
        ("1x9000", 4700, "forced=1 parts=2 capacity=128 threads=64 blocks=2 tile=1024 sm_count=2"),
        (
            "1x9000",
            4700,
            "forced=1 parts=15 sample_blocks=4 sample_chunk=128 capacity=1024 threads=128 blocks=2 tile=1024",
        ),
        ("2x9000", 9000, "forced=1 parts=7 sample_blocks=2 sample_chunk=256 capacity=2048 threads=256"),
    ],
    "split_bucket.radix": [
        ("3x3000", 20, "forced=1 threads=128"),
        ("1x20000", 8, "forced=1 threads=128 sm_count=2"),
        ("2x30000", 30, "forced=1 threads=128 cutoff=64"),
        ("1x17000", 1024, "forced=1 threads=512"),
    ],
    "split_bucket.tree": [
        ("3x3000", 20, "forced=1 threads=128"),
        ("1x20000", 8, "forced=1 threads=128 sm_count=2"),
        ("2x9000", 60, "forced=1 threads=128 one_tree_a_row=0"),
        ("2x9000", 100, "forced=1 threads=128 cutoff=256 best_buckets_first=0"),
    ],
    "delegate.from_maxima": [
        ("2x6000", 70, "forced=1"),
        ("2x6000", 90, "forced=1 beta=2"),
        ("1x9000", 300, "forced=1 buffer=64 alpha=6"),
    ],
    "delegate.one_cluster": [
        ("2x6000", 50, "forced=1 cluster=1 threads=256"),
        ("1x17000", 100, "forced=1 cluster=4 threads=256"),
        ("1x17000", 200, "forced=1 cluster=2 threads=256 rank=3 room=1024"),
        ("1x40000", 100, "forced=1 cluster=2 threads=512 ahead=1"),
        ("1x9000", 200, "forced=1 cluster=1 threads=256 ahead=1 rank=3 room=1024"),
    ],
    "delegate.resident_cluster": [
        ("2x9000", 100, "forced=1 cluster=4 threads=256"),
        ("3x14001", 400, "forced=1 cluster=2 threads=256 elements=32 room=1024"),
        ("1x9000", 60, "forced=1 cluster=8 threads=256 rank=1 room=512"),
        ("1x9000", 60, "forced=1 cluster=2 threads=256 room=64"),
        ("1x9000", 60, "forced=1 cluster=8 threads=256 cluster_room=4"),
        ("1x9000", 300, "forced=1 cluster=8 threads=256 cluster_room=4 parts=1"),
        ("1x4000", 200, "forced=1 cluster=8 threads=256 cluster_room=2 parts=1"),
        ("1x9000", 300, "forced=1 cluster=4 threads=256 rank=1 parts=1"),
        ("2x9000", 700, "forced=1 cluster=4 threads=256 parts=1"),
        ("1x20000", 300, "forced=1 cluster=8 threads=256 parts=1 room=1024"),
    ],
    "air.resident_grid": [
        ("2x9001", 100, "forced=1 blocks=3 ranked=300"),
        ("1x20000", 4000, "forced=1 blocks=2"),
        ("3x5003", 700, "forced=1 blocks=1 sm_count=3"),
        ("1x9001", 9001, "forced=1 blocks=2"),
        ("1x14001", 60, "forced=1 blocks=4 ranked=64 sm_count=1"),
    ],
    "delegate.resident_grid": [
        ("2x9000", 20, "forced=1 blocks=5 threads=256 room=1024 sm_count=5"),
        ("1x14001", 100, "forced=1 blocks=4 threads=256 of_warp=8 room=512 sm_count=2"),
        ("1x30001", 300, "forced=1 blocks=4 threads=256 elements=32 of_warp=8 parts=4 room=512 sm_count=2"),
        ("2x12000", 60, "forced=1 blocks=4 threads=256 of_warp=4 room=128 sm_count=4"),
        ("1x12000", 60, "forced=1 blocks=4 threads=256 of_warp=4 sm_count=1"),
        ("1x14001", 60, "forced=1 blocks=4 threads=256 of_warp=8 parts=3 room=256 sm_count=2"),
        ("2x14001", 50, "forced=1 blocks=4 threads=256 of_warp=8 parts=2 room=128 sm_count=4"),
    ],
    "delegate.one_grid": [
        ("2x20001", 50, "forced=1 blocks=2"),
        ("1x150001", 300, "forced=1 blocks=2 lines=2 group=16"),
        ("1x40000", 4000, "forced=1 blocks=3"),
        ("1x20000", 60, "forced=1 blocks=3 rank=1"),
        ("1x20000", 700, "forced=1 blocks=2 buffer=600"),
        ("2x20000", 60, "forced=1 blocks=3 lines=2 group=32 sm_count=2"),
    ],
    "delegate.grid_parts": [
        ("1x9001", 700, "forced=1 blocks=2"),
        ("2x20001", 6000, "forced=1 blocks=1"),
        ("1x40000", 13_000, "forced=1 blocks=3"),
        ("1x20000", 3000, "forced=1 blocks=3 rank=9"),
        ("1x20000", 3000, "forced=1 blocks=2 rank=1500 buffer=4000"),
        ("1x20000", 300, "forced=1 blocks=2 rank=300 dealt=310"),
        ("1x30000", 9000, "forced=1 blocks=1 rank=4096"),
    ],
    "delegate.equal_shares": [
        ("2x6000", 50, "forced=1 threads=256"),
        ("3x9000", 100, "forced=1 blocks=4 threads=256"),
        ("1x17000", 200, "forced=1 blocks=3 threads=256 rank=3 room=1024"),
        ("2x17000", 200, "forced=1 blocks=3 threads=256 rank=3 room=1024 cluster=8 cluster_room=4"),
        ("2x17000", 200, "forced=1 blocks=3 threads=256 rank=3 room=1024 cluster=8 cluster_room=1"),
    ],
    "delegate.from_sample": [
        ("1x140000", 100, "forced=1"),
        ("1x140000", 500, "forced=1 buffer=64"),
        ("1x140000", 500, "forced=1 upper_rank=1"),
        ("1x140000", 500, "forced=1 upper_rank=300"),
        ("1x140000", 2000, "forced=1 upper_rank=20 likely_passes=1"),
        ("1x140000", 500, "forced=1 meet=1 upper_rank=1 dealt_share=2"),
        ("1x140000", 2000, "forced=1 meet=1 upper_rank=20 sm_count=2 dealt_share=3"),
        ("1x140000", 20000, "forced=1 meet=1 sm_count=1"),  # more than stages hold
        ("1x140000", 4000, "forced=1 meet=1 dealt_share=3 sm_count=16 buffer=64"),  # more in a bin
    ],
    "delegate.two_bounds": [
        ("1x9000", 1100, "forced=1 threads=128 sample_blocks=4"),
        ("1x40000", 10_000, "forced=1 threads=64 sample_blocks=32 sm_count=2"),
        ("2x9000", 8900, "forced=1 threads=64 sample_blocks=1"),
        ("1x9000", 4500, "forced=1 threads=64 sample_blocks=2 buffer=64"),
        ("1x9000", 4500, "forced=1 threads=64 sample_blocks=2 rank=50"),
        ("1x9000", 3000, "forced=1 threads=64 sample_blocks=4 upper_rank=250"),
        ("1x70000", 30_000, "forced=1 threads=64 sample_blocks=1 rank=257 upper_rank=0 buffer=70000"),
        ("1x9000", 1100, "forced=1 threads=128 sample_blocks=4 meet=1"),
        ("1x40000", 10_000, "forced=1 threads=64 sample_blocks=32 sm_count=1 meet=1 many=1"),
        ("2x40000", 12_000, "forced=1 threads=64 sample_blocks=1 sm_count=2 meet=1 many=0"),
        ("1x9000", 3000, "forced=1 threads=64 sample_blocks=4 upper_rank=250 meet=1"),
    ],
}


@pytest.fixture(scope="module", autouse=True)
def lines_are_counted_from_here():
    coverage.clear()


def name_of(dtype: torch.dtype) -> str:
    return oracle.name_of(dtype)


def cases_of(form: str, dtype: torch.dtype) -> list[Case]:
    """Each shape with families in turn, one a row where rows are many; flags alternate."""
    families = inputs.names_for(dtype)
    families = [family for family in families if family != inputs.MIXED]
    cases = []
    which = DTYPES.index(dtype) if dtype in DTYPES else OTHERS.index(dtype)
    for i, (shape, k, numbers) in enumerate(FORMS[form]):
        for wide in (0, 1):
            turn = 2 * (which * len(FORMS[form]) + i) + wide
            family = inputs.MIXED if shape.split("x")[0] not in "12" else families[(7 * turn) % len(families)]
            flags = f"largest={turn % 2} sorted={turn // 2 % 2} magnitude={int(turn % 5 == 0)}"
            where = f"offset={turn % 4} gap={turn % 3} seed={turn + 1}"
            line = f"{name_of(dtype)} {family} {shape} k={k} {where} {flags} form={form} {numbers}"
            line += " most_cols_of_32_bits=0" if wide else " index_dtype=int32"
            cases.append(Case.parse(line))
    return cases


def check(case: Case) -> bool:
    """False where no form serves the case."""
    try:
        emulated.run_case(case)
    except emulated.NotServed:
        return False
    return True


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_and_width(form, dtype):
    served = [check(case) for case in cases_of(form, dtype)]
    assert sum(served) >= len(served) // 2


def test_every_form_there_is_has_cases():
    assert set(emulated.library().forms()) == set(FORMS)


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_winners_by_index(dtype):
    """Of a form that orders, one that does not, a copy, whole rows, in parts, and one that writes them so."""
    for shape, k, numbers in [
        ("3x700", 300, "form=air.one_block"),
        ("3x700", 40, "form=grid_select.registers"),
        ("3x500", 500, "form=sort.copy"),
        ("3x500", 200, "form=sort.whole_rows"),
        (
            "1x9000",
            4000,
            "form=sort.whole_rows forced=1 parts=4 capacity=1024 threads=128 blocks=2 tile=1024",
        ),
        ("1x40000", 20_000, "form=air.one_block sm_count=3"),
        ("9x60", 9, "form=bitonic.one_warp"),
        ("9x60", 60, "form=bitonic.one_warp"),
        ("9x250", 33, "form=bitonic.one_warp"),
        ("9x1000", 100, "form=bitonic.one_warp"),
    ]:
        line = f"{name_of(dtype)} few_distinct {shape} k={k} seed={k} sorted=0 by_index=1 {numbers}"
        assert check(Case.parse(line))
        assert check(Case.parse(f"{line} index_dtype=int32"))


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize("devices", ["", "sm_count=1 "])
def test_winners_by_marks_of_their_columns(dtype, devices):
    """Of few rows and of many, whose blocks have fewer threads."""
    cases = [
        ("3x700", 300, "int64"),
        ("1x8192", 257, "int32"),
        ("2x2049", 1500, "int64"),
        ("2x900", 899, "int32"),
    ]
    for shape, k, index_dtype in cases:
        line = f"{name_of(dtype)} few_distinct {shape} k={k} seed={k} sorted=0 by_index=1 {devices}"
        assert check(Case.parse(f"{line}form=air.one_block index_dtype={index_dtype}"))


LAST = "sorted=0 last_alone=1"


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=name_of)
def test_the_last_in_its_place(dtype):
    """Of one entry to more than a block reads at once, and of ties, NaN and zeros: a copy leaves the worst
    anywhere."""
    families = [
        family
        for family in ("few_distinct", "all_equal", "nan_scattered", "zeros_among_numbers", inputs.MIXED)
        if family in inputs.names_for(dtype)
    ]
    for turn, k in enumerate((1, 2, 31, 33, 130, 1000, 4100)):
        rows = 5 if k < 200 else 1
        flags = f"largest={turn // 2 % 2} magnitude={int(turn % 3 == 0)} seed={k}"
        flags += " index_dtype=int32" if turn % 2 else " most_cols_of_32_bits=0" if turn % 4 else ""
        for family in families:
            line = f"{name_of(dtype)} {family} {rows}x{k} k={k} {LAST} {flags}"
            assert check(Case.parse(f"{line} form=sort.copy"))


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_the_last_of_shares_of_rows(dtype):
    """Many winners, of which several blocks a row find the last."""
    for family, rows, k, sm_count, blocks in (
        ("few_distinct", 1, 16_385, 3, 5),
        ("normal", 2, 16_390, 3, 3),
        ("few_distinct", 3, 16_385, 1, 1),
    ):
        case = Case.parse(
            f"{name_of(dtype)} {family} {rows}x{k} k={k} {LAST} largest={rows % 2} seed={k} "
            f"form=sort.copy sm_count={sm_count}"
        )
        assert (f"{blocks} blocks a row of" in emulated.run_case(case)) == (blocks > 1)


@pytest.mark.parametrize("form", FORMS)
def test_the_last_is_in_its_place_whatever_the_form(form):
    for number, (shape, k, numbers) in enumerate(FORMS[form][:2]):
        numbers = numbers.replace("sorted=0", "")
        dtype = ("float32", "int16")[number]
        assert check(Case.parse(f"{dtype} few_distinct {shape} k={k} {LAST} seed={k} form={form} {numbers}"))


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=name_of)
def test_the_last_alone_is_selected(dtype):
    """By digits, from stored candidates, few and many, and from rows of which too many are alike to be
    stored; the first, one in the middle and the last of a row."""
    families = [
        family
        for family in ("normal", "few_distinct", "all_equal", "increasing", "nan_scattered", inputs.MIXED)
        if family in inputs.names_for(dtype)
    ]
    for turn, (family, (k, numbers)) in enumerate(
        itertools.product(
            families,
            (
                (2, "form=air.many_blocks blocks=3"),
                (3001, "form=air.many_blocks blocks=2 digit_bits=7 sm_count=2"),
                (4500, "form=air.many_blocks blocks=2 digit_bits=4 buffer=64"),
                (9000, "form=air.many_blocks blocks=2 buffer=64"),
                (2, "form=air.one_block threads=64 digit_bits=4"),
                (4500, "form=air.one_block threads=128"),
                (9000, "form=air.one_block threads=64 digit_bits=9"),
                (700, "form=air.one_cluster cluster=2 threads=64 digit_bits=4"),
                (4500, "form=air.one_cluster cluster=4 threads=64"),
                (9000, "form=air.one_cluster cluster=2 threads=64 digit_bits=7"),
                (4500, "form=delegate.two_bounds threads=64 sample_blocks=4"),
                (8000, "form=delegate.two_bounds threads=128 sample_blocks=2"),
                (2000, "form=delegate.two_bounds threads=64 sample_blocks=8 buffer=64"),
                (700, "form=delegate.two_bounds threads=64 sample_blocks=1 rank=10"),
                (700, "form=delegate.two_bounds threads=64 sample_blocks=1 upper_rank=90"),
            ),
        )
    ):
        flags = f"largest={turn % 2} magnitude={int(turn % 3 == 0)}"
        flags += " index_dtype=int32" if turn % 5 else ""
        flags += " most_cols_of_32_bits=0" if turn % 7 == 0 else ""
        line = f"{name_of(dtype)} {family} 1x9000 k={k} {LAST} {flags} seed={turn + 1} forced=1 {numbers}"
        assert "no further step" in emulated.run_case(Case.parse(line))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64], ids=name_of)
def test_the_last_alone_of_more_candidates_than_a_list_holds(dtype):
    """All of the row, or most: one of a bin of a few, of some thousands, and of more than a list holds."""
    families = ("normal", "few_distinct", "twelve_bit_random", "all_equal", "increasing", "nan_scattered")
    for turn, family in enumerate(family for family in families if family in inputs.names_for(dtype)):
        for k, ranks in ((30, "257 0"), (12_000, "257 0"), (12_000, "250 5"), (23_999, "257 0")):
            rank, upper = ranks.split()
            line = (
                f"{name_of(dtype)} {family} 1x24000 k={k} {LAST} largest={turn % 2} seed={k} sm_count=3 "
                "form=delegate.two_bounds forced=1 threads=64 sample_blocks=1 buffer=24000 "
                f"rank={rank} upper_rank={upper}"
            )
            assert "no further step" in emulated.run_case(Case.parse(line))


@pytest.mark.parametrize("k", [1, 7, 129, 3000])
def test_the_last_is_in_its_place_whatever_a_plan_takes(k):
    for algorithm in ("auto", "air", "sort"):
        for rows, cols in ((1, 5000), (9, 3000)):
            line = f"float32 mixed_rows {rows}x{cols} k={k} {LAST} algorithm={algorithm} seed={k} sm_count=3"
            assert check(Case.parse(line))
    # Rows that do not lie side by side, in panels and where they lie.
    for cols, where in ((3000, "panel_bytes=50000"), (3000, "algorithm=air"), (40, "")):
        if k <= cols:
            for dim_last in (0, 1):
                line = f"float32 few_distinct 10x{cols} k={k} {LAST} inner=5 {where} dim_last={dim_last}"
                assert check(Case.parse(line))


@pytest.mark.parametrize("form", FORMS)
def test_every_other_dtype(form):
    for dtype in OTHERS:
        assert any(check(case) for case in cases_of(form, dtype))


@pytest.mark.parametrize("form", FORMS)
def test_every_named_input(form):
    """All families of float32, some rows each."""
    shape, k, numbers = FORMS[form][0]
    cols = shape.split("x")[1]
    for turn, family in enumerate(inputs.names_for(torch.float32)):
        if form == "delegate.from_sample" and turn % 4:  # its rows are long
            continue
        rows = {"delegate.from_sample": 1, "delegate.from_maxima": 1}.get(form, 2)
        assert check(
            Case.parse(
                f"float32 {family} {rows}x{cols} k={k} seed={turn} sorted={turn % 2} form={form} {numbers}"
            )
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8])
def test_named_inputs_in_parts_of_a_cluster(dtype):
    """Blocks send each other keys, of which the writer makes patterns again, or looks them up."""
    for turn, family in enumerate(inputs.names_for(dtype)):
        flags = f"largest={turn % 2} magnitude={turn // 2 % 2}"
        numbers = "form=delegate.resident_cluster forced=1 cluster=4 threads=256 parts=1"
        line = f"{name_of(dtype)} {family} 2x9000 k=300 seed={turn} {flags} {numbers}"
        assert check(Case.parse(line)), line


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint16"])
@pytest.mark.parametrize("k", [200, 260])
def test_a_counted_bound_where_few_keys_lie_at_the_end_of_a_range(dtype, k):
    """A bin that reaches beyond the range that it is of has none of the keys that were counted as above."""
    for flags in ("largest=0 magnitude=1", "largest=1", "largest=0"):
        line = f"{dtype} digit_boundaries 9x4096 k={k} seed=13 {flags} form=air.resident_row sm_count=132"
        assert check(Case.parse(line)), line


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_a_row_whose_bound_is_below_all_that_its_first_block_has(dtype, blocks):
    """The first block's delegates divide what is listed into parts; the least of them is above the bound."""
    tensor = inputs.great_ones_in_the_first_block(2, 2048 * blocks, blocks, 256, dtype)
    for k in (40, 100, 200):
        for largest in (True, False):
            emulated.check(
                tensor if largest else -tensor, k, seed=k, largest=largest, form="delegate.resident_cluster",
                forced=1, cluster=blocks, threads=256, parts=1,
            )  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 33, 250, 257, 1000, 1999, 2000, 4097])
@pytest.mark.parametrize("algorithm", ["auto", "air", "grid_select", "delegate", "sort"])
def test_what_a_plan_takes(algorithm, k):
    """With the plan's own numbers, and the step that puts winners in order."""
    for dtype in (torch.float32, torch.int64, torch.uint8):
        for rows, cols in ((1, 5000), (3, 4500)):
            line = (
                f"{name_of(dtype)} mixed_rows {rows}x{cols} k={k} algorithm={algorithm} seed={k} sm_count=3"
            )
            assert check(Case.parse(line)) or algorithm in ("grid_select", "delegate")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.float64], ids=name_of)
def test_resident_rows_that_crowd_in_a_part_of_their_range(dtype):
    for family in ("winners_in_one_subrange", "zeros_among_numbers", "sampled_peaks"):
        if family not in inputs.names_for(dtype):
            continue
        for k in (100, 200, 500):
            line = f"{name_of(dtype)} {family} 2x4096 k={k} seed={k} form=air.resident_row sm_count=2"
            assert check(Case.parse(line))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64], ids=name_of)
def test_resident_rows_that_crowd_in_two_parts_of_their_range(dtype):
    """Groups of bins are dealt out anew, also where that leaves them crowded."""
    generator = torch.Generator().manual_seed(5)
    for cols, k in ((2048, 256), (10000, 1000), (16384, 2048)):
        for kinds in (3, 10000):  # in each part
            near = torch.randint(0, kinds, (2, cols), generator=generator)
            far = torch.rand(2, cols, generator=generator) < k / cols * 0.6
            tensor = torch.where(far, (1 << 30) + near, 1000 + near)
            if dtype == torch.int64:
                tensor = tensor << 30
            tensor = tensor.to(dtype) if not dtype.is_floating_point else tensor.float().to(dtype)
            if dtype.is_floating_point:
                tensor[:, [0, 3, cols - 1]] = torch.nan  # beyond the greatest number
            for largest in (True, False):
                emulated.check(tensor, k, largest=largest, form="air.resident_row")


@pytest.mark.parametrize("form", ["one_cluster", "equal_shares", "resident_cluster"])
def test_a_cluster_of_one_block_has_the_row_of_its_number(form):
    """Such kernels are launched without clusters."""
    line = f"float32 normal 600x5000 k=20 form=delegate.{form} forced=1 cluster=1 threads=256 sm_count=4"
    assert check(Case.parse(line))


@pytest.mark.parametrize("form", ["delegate.one_cluster", "delegate.equal_shares"])
@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_equals_of_a_bound_that_come_first(form, dtype):
    """Most winners are equals of the bound, the first of the row, and some elements here and there are
    better: a few, or many that differ."""
    generator = torch.Generator().manual_seed(6)
    for cols, k, share in ((40000, 300, 0.0001), (70000, 2048, 0.01), (70000, 2048, 0.028)):
        better = torch.rand(2, cols, generator=generator) < share
        for most in (3, 100):
            numbers = (1 + torch.randint(0, most, (2, cols), generator=generator)) * better
            for largest in (True, False) if dtype.is_signed else (True,):
                tensor = (numbers if largest else -numbers).to(dtype)
                emulated.check(tensor, k, largest=largest, form=form)


def test_a_row_in_registers_with_more_equals_than_its_delegates_tell_of():
    """So more elements than k are better than the bound: with room for them, and without."""
    for k in (185, 190, 195, 200, 205):
        for of_warp, room in ((8, 512), (4, 256)):
            sizes = f"blocks=7 threads=512 elements=32 of_warp={of_warp} parts=3 room={room} sm_count=4"
            line = f"float32 twelve_bit_random 1x100000 k={k} seed={k} form=delegate.resident_grid"
            assert check(Case.parse(f"{line} forced=1 {sizes}"))


@pytest.mark.parametrize("threads", [64, 96, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_few_entries_in_order_by_each_way_to_rank_them(dtype, threads):
    """Compared with all by some lanes each, looked up in runs of a warp, and in bins: at the ends of each,
    odd and even, where a block has warps without an entry, and more bins than its warps scan at once."""
    for cols in (8, 15, 16, 17, 23, 24, 25, 63, 64, 65, 127, 129, 255, 256, 257, 500):
        for family in ("normal", "few_distinct", "increasing"):
            line = f"{name_of(dtype)} {family} 2x{cols} k={cols - cols // 7} seed={cols} form=sort.whole_rows"
            assert check(Case.parse(f"{line} forced=1 threads={threads} capacity=512 sm_count=2"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=name_of)
def test_resident_rows_whose_best_maximum_is_a_nan(dtype):
    """All elements that share a maximum which is counted are NaN, others are here and there, a few numbers
    win beside them, and too many are as good as the best to be told apart by their keys."""
    in_vector = 16 // dtype.itemsize
    tensor = torch.randn(3, 5787, generator=torch.Generator().manual_seed(3)).to(dtype)
    tensor[:, ::10] = torch.nan
    threads = 192  # with 32 elements each, of which every eighth falls to the same maximum
    tensor[:, [in_vector * threads * (i // in_vector) + i % in_vector for i in range(0, 32, 8)]] = torch.nan
    nans = int(tensor[0].isnan().sum())
    for beyond in (-1, 0, 1, 15, 100):
        for largest, magnitude in ((True, False), (True, True), (False, False)):
            flags = {"largest": largest, "magnitude": magnitude}
            plan = emulated.check(tensor, nans + beyond, form="air.resident_row", **flags)
            assert f"{threads} threads" in plan and "counted" in plan


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_rows_in_order_that_crowd_in_parts_of_their_range(dtype):
    """Bins are dealt out anew: to most entries' part, or to groups, by their own range of keys or indices."""
    for family in ("winners_in_one_subrange", "few_distinct", "sampled_peaks", "range_ends", "normal"):
        if family not in inputs.names_for(dtype):
            continue
        for rows, cols, capacity in ((2, 700, 128), (2, 3000, 1024)):
            sizes = f"capacity={capacity} threads={max(64, capacity // 8)} blocks=2 tile=1024"
            parts = f"parts=5 sample_blocks=2 sample_chunk=128 {sizes}"
            for k in (cols // 3, cols):
                line = f"{name_of(dtype)} {family} {rows}x{cols} k={k} seed={k} form=sort.whole_rows"
                assert check(Case.parse(f"{line} sm_count=2"))
                assert check(Case.parse(f"{line} forced=1 {parts} sm_count=2"))


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize(
    "family",
    ["all_equal", "few_distinct", "ones_with_four_outliers", "winners_in_one_subrange", "twelve_bit_random",
     "increasing", "nan_scattered", "zeros_among_numbers"],
)  # fmt: skip
def test_rows_in_a_warp_that_crowd(family, dtype):
    """Lists filled up from what equals the bound, or by a bisection; of each shape of a team, and each way to
    rank a list: with room for 1, 2, 4 and 8 a lane."""
    if family not in inputs.names_for(dtype):
        pytest.skip("not an input of this dtype")
    shapes = ((50, 3), (64, 16), (100, 30), (128, 2), (250, 20), (256, 64), (1000, 10), (1000, 128))
    listed_whole = ((30, 30), (64, 40), (256, 200))
    for cols, k in (*shapes, *listed_whole):
        line = f"{name_of(dtype)} {family} 9x{cols} k={k} seed={k} largest={k % 3 % 2} form=bitonic.one_warp"
        assert check(Case.parse(line))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=name_of)
def test_nans_come_before_the_greatest_number_at_a_lower_index(dtype):
    """Where keys between the warps' bounds and the greatest are few, and so go by their places in the row."""
    tensor = torch.zeros(2, 1000, dtype=dtype)
    tensor[:, 5] = 1.0
    tensor[:, 70:300:64] = 1.0 - torch.finfo(dtype).eps  # in lines of other warps
    tensor[:, 900:] = torch.nan
    for k in (1, 40):
        plan = emulated.check(tensor, k, form="air.resident_row")
        assert "air.resident_row" in plan


@pytest.mark.parametrize("sm_count", [1, 2, 6])
@pytest.mark.parametrize("compute_capability", [80, 90])
def test_devices(sm_count, compute_capability):
    for shape, k in (("2x3000", 20), ("1x9000", 2500), ("20x200", 7)):
        where = f"sm_count={sm_count} compute_capability={compute_capability} cluster_blocks={2 * sm_count}"
        assert check(Case.parse(f"float32 normal {shape} k={k} seed={sm_count} {where}"))


@pytest.mark.parametrize("room", [1, 2, 4, 8])
def test_a_cluster_that_finds_no_room_is_made_smaller(room):
    """As in a green context: the device said eight blocks, this context has SMs for fewer."""
    numbers = "forced=1 cluster=8 threads=64 sm_count=8"
    assert check(
        Case.parse(f"float32 normal 2x9000 k=200 form=air.one_cluster {numbers} cluster_room={room}")
    )


@pytest.mark.parametrize("k", [129, 201, 511, 512])
def test_odd_k_with_indices_of_64_bits(k):
    """Reversed indices of 8 bytes lie behind keys of 4: misaligned where the list's capacity was odd."""
    for dtype in (torch.uint8, torch.float16, torch.float32):
        line = (
            f"{name_of(dtype)} normal 1x9000 k={k} form=grid_select.shared_list forced=1 blocks=2 threads=128"
        )
        assert check(Case.parse(f"{line} most_cols_of_32_bits=0"))


def test_an_odd_capacity_is_found():
    """What the plan gave before."""
    line = (
        "float32 normal 1x9000 k=201 form=grid_select.shared_list forced=1 blocks=2 threads=128 capacity=1161"
    )
    assert check(Case.parse(line))  # indices of 32 bits do not mind
    with pytest.raises(emulated.Found, match="misaligned"):
        assert check(Case.parse(f"{line} most_cols_of_32_bits=0"))


@pytest.mark.parametrize("dtype", reference.VECTOR_DTYPES, ids=name_of)
@pytest.mark.parametrize("metric", range(len(reference.METRICS)), ids=reference.METRICS)
def test_rerank(metric, dtype):
    lib = emulated.library()
    name = reference.METRICS[metric]
    for queries, candidates, dims, k in (
        (6, 200, 64, 10),
        (1, 900, 20, 33),
        (3, 300, 129, 300),
        (2, 70, 256, 1),
    ):
        # Queries of the vectors' own type, where that is one, and float32 ones.
        for query_dtype in {dtype, torch.float32} - {torch.int8, torch.uint8}:
            make = reference.any_numbers if name == "cosine" else reference.whole_numbers
            vectors, rows = make(150, dims, dtype, seed=1), make(queries, dims, query_dtype, seed=2)
            id_dtype = torch.int32 if k == 33 else torch.int64
            ids = reference.some_ids(queries, candidates, 150, id_dtype, seed=3)
            *result, plan = lib.rerank(rows, vectors, ids, k, metric, seed=k)
            assert plan.startswith("rerank")
            check = reference.assert_close if name == "cosine" else reference.assert_exact
            check(result, rows, vectors, ids, k, name)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint8], ids=name_of)
@pytest.mark.parametrize("metric", range(len(reference.METRICS)), ids=reference.METRICS)
@pytest.mark.parametrize("k", [10, 300], ids=["lists", "keys stored"])
def test_rerank_of_what_search_asks(k, metric, dtype):
    """Lists and stored keys, the latter in slices, with ragged rows, filters and scales."""
    lib, name, queries, count = emulated.library(), reference.METRICS[metric], 5, 70
    make = reference.any_numbers if name == "cosine" else reference.whole_numbers
    check = reference.assert_close if name == "cosine" else reference.assert_exact
    vectors, rows = make(count, 24, dtype, seed=1), make(queries, 24, torch.float32, seed=2)
    mask = torch.arange(count) % 3 != 0
    numbers, scaled = vectors, {}
    if dtype != torch.float16:
        scaled = {"scales": torch.tensor([0.5, -2.0]).repeat(count // 2)}
        numbers = vectors * scaled["scales"][:, None]
    matrix = reference.some_ids(queries, 310, count, torch.int32, seed=3)
    lengths = torch.tensor([310, 0, 33, 400, -1], dtype=torch.int32)
    offsets = torch.tensor([-3, 100, 100, 90, 305, 999])
    for ids, options, plain in (
        (matrix, {"lengths": lengths, "allow": mask}, {"lengths": lengths, "mask": mask}),
        (matrix[0], {"allow": reference.bits_of_mask(mask, torch.int32)}, {"mask": mask}),
        (matrix[0], {"row_offsets": offsets}, {"row_offsets": offsets}),
    ):
        # Two queries' keys at a time: the last slice begins before the one before it ends.
        stored = {"most_stored_bytes": 2 * 4 * 310}
        *result, plan = lib.rerank(rows, vectors, ids, k, metric, **options, **scaled, **stored)
        assert ("2 queries at a time" if k == 300 else "lists of 32") in plan
        plain_ids = reference.plain_ids(ids, queries, k, **plain)
        check(result, rows, numbers, plain_ids, k, name)
        _, positions, _ = lib.rerank(
            rows, vectors, ids, k, metric, **options, **scaled, **stored, positions=True
        )
        assert torch.equal(
            torch.where(positions < 0, -1, plain_ids.gather(1, positions.clamp(min=0).long())), result[1]
        )


# The emulator itself: in sources that are right it is to find nothing, so faults are needed. mutants.py
# plants them; these are the ones that need none.


def test_the_same_seed_is_the_same_run():
    case = Case.parse("float32 normal 2x5000 k=300 form=air.many_blocks forced=1 blocks=3 seed=5")
    runs = []
    for _ in range(2):
        check(case)
        runs.append(emulated.library().counts())
    assert runs[0] == runs[1]
    emulated.run_case(Case.parse(str(case).replace("seed=5", "seed=6")))
    assert emulated.library().counts() != runs[0]


def test_a_case_is_its_line():
    line = "bfloat16 normal 3x1000 k=10 offset=1 gap=3 seed=5 form=air.one_block index_dtype=int32 sorted=0"
    assert str(Case.parse(line)) == line


def test_faults_can_be_planted_in_the_sources_at_hand(tmp_path):
    sources = shutil.copytree(mutants.CSRC, tmp_path / "csrc")
    mutants.plant(sources)
    planted = "".join(file.read_text() for file in (sources / "cuda").rglob("*.cu*"))
    assert planted.count("::simt::is_planted(") == len(mutants.MUTANTS)
    for mutant in mutants.MUTANTS:  # so that they compile: nothing else of CI builds them
        assert mutant.new.strip() and "//" not in mutant.new, mutant
        assert mutant.is_statement == mutant.new.rstrip().endswith((";", "}")), mutant
        assert not re.match(r"[&|^<>=,?]", mutant.old.lstrip()), mutant


@pytest.mark.parametrize("case", mutants.MORE_THAN_ROOM)
def test_a_cluster_lists_anew_where_more_reach_the_bound_than_there_is_room_for(case):
    for seed in range(100, 106):
        check(dataclasses.replace(Case.parse(case), seed=seed))


def test_what_is_not_served_says_why():
    with pytest.raises(emulated.NotServed, match="4096"):
        emulated.run_case(Case.parse("float32 normal 1x5000 k=4097 algorithm=grid_select"))
