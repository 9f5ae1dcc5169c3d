"""Delegate on chip on a GPU, against exact checks.

`gputopk::_on_chip` takes the form whatever the plan would; chunks of few bytes make rows of some thousands of
elements pass through the ring, as longer rows do by themselves.
"""

from __future__ import annotations

import pytest
import torch

from tests import inputs, oracle
from tests.cuda.calls import DTYPES

# On a GPU the form touches memory that is not its own, and leaves out ties: nothing takes it until mended.
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skip(reason="delegate on chip is set aside: see bench/fit_plan.py"),
]

ROWS = 16  # the fewest that it serves
LEAST_COLS = 8192
MOST_ROW_BYTES = 256 * 1024
MOST_K = 4096
HOSTILE = ("increasing", "decreasing", "all_equal", "few_distinct", "ones_with_four_outliers", "random_bits")
# None: the plan's. The others let rows pass through the ring, with rings that wrap around often and seldom.
NUMBERS = [
    {},
    {"chunk_bytes": 1024},
    {"chunk_bytes": 4096, "threads": 128},
    {"threads": 1024, "blocks_per_sm": 1},
]


def study(*arguments, **numbers) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.gputopk._on_chip(*arguments, **numbers)


def check(tensor: torch.Tensor, k: int, largest: bool = True, order: bool = True, **numbers) -> None:
    result = study(tensor, k, largest, order, **numbers)
    index_dtype = numbers.get("index_dtype") or torch.int64
    oracle.assert_topk_on_device(result, tensor, k, largest, order, index_dtype=index_dtype)


def rows_at(
    offset: int, rows: int, cols: int, dtype: torch.dtype, device, name: str = "normal"
) -> torch.Tensor:
    """Rows `offset` elements behind a 16-byte boundary, and an odd stride apart from one to the next."""
    return inputs.make(name, rows, cols + offset + 3, dtype, device, seed=1)[:, offset : offset + cols]


def most_k(cols: int, dtype: torch.dtype) -> int:
    return min(cols // 4, MOST_K // (2 if dtype.itemsize == 8 else 1))


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@DTYPES
def test_every_named_input_is_answered_exactly(device, dtype, numbers):
    cols = 10_001
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, 40 if name == inputs.MIXED else ROWS, cols, dtype, device, seed)
        for number, k in enumerate((1, 100, 700, most_k(cols, dtype))):
            check(tensor, k, largest=(seed + number) % 3 != 0, order=number != 1, **numbers)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64], ids=oracle.name_of
)
def test_lengths_around_every_chunk_and_tile_are_answered_exactly(device, dtype):
    """A tile is 1 KB a warp; a chunk of one tile, of some, of all warps'."""
    for chunk in (1024, 4096, 16 * 1024):
        per_chunk = chunk // dtype.itemsize
        for chunks in (1, 2, 3, 16, 17):
            for step in (-17, -1, 0, 1, 17):
                cols = chunks * per_chunk + step
                if LEAST_COLS <= cols <= MOST_ROW_BYTES // dtype.itemsize:
                    check(rows_at(0, ROWS, cols, dtype, device), 77, chunk_bytes=chunk)


@pytest.mark.parametrize("offset", range(16))
def test_rows_that_begin_anywhere_are_answered_exactly(device, offset):
    for dtype in (torch.int8, torch.float16, torch.float32, torch.int64):
        for name in ("normal", "all_equal", "increasing"):
            tensor = rows_at(offset, ROWS + 1, 9_999, dtype, device, name)
            check(tensor, 50)
            check(tensor, 50, largest=False, chunk_bytes=1024)


def test_winners_in_the_ragged_ends_are_found(device):
    for offset in range(4):
        tensor = rows_at(offset, ROWS, 8_195, torch.float32, device).contiguous()
        tensor[:, :4] += 100
        tensor[:, -4:] += 100
        for k in (1, 7, 8, 9):
            check(tensor, k)
            check(tensor[:, 1:-1], k, chunk_bytes=2048)


@pytest.mark.parametrize("rows", [16, 131, 132, 133, 263, 264, 265, 1000])
def test_a_block_takes_any_number_of_rows(device, rows):
    for numbers in NUMBERS:
        check(inputs.make("mixed_rows", rows, 8_200, torch.float32, device, 3), 60, **numbers)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("cols", [10_000, 32_768, 65_536])
def test_rows_that_mislead_a_bound_are_answered_exactly(device, name, cols):
    tensor = inputs.make(name, 20, cols, torch.float32, device, 5)
    for k in (1, 100, 2048, most_k(cols, torch.float32)):
        if k <= cols // 4:
            check(tensor, k)
            check(tensor, k, largest=False, order=False)
            check(tensor, k, chunk_bytes=4096, threads=256)


@pytest.mark.parametrize("largest", [True, False])
def test_rows_of_nan_and_infinity_are_answered_exactly(device, largest):
    tensor = inputs.make("normal", 20, 9_000, torch.float32, device, 6)
    for row, count in enumerate((1, 50, 99, 100, 101, 4000, 8999, 9000)):
        tensor[row, :count] = torch.nan
        tensor[row + 8, torch.randperm(9_000, device=device)[:count]] = torch.inf
    tensor[16] = -torch.nan
    tensor[17, ::2] = -torch.inf
    tensor[18] = 0.0
    tensor[18, ::3] = -0.0
    for numbers in NUMBERS:
        check(tensor, 100, largest=largest, **numbers)


def test_32_bit_indices_are_written_where_asked_for(device):
    tensor = inputs.make("normal", 40, 20_000, torch.bfloat16, device, 7)
    check(tensor, 512, index_dtype=torch.int32)


def test_a_graph_replays_on_changed_data(device):
    tensor = inputs.make("normal", 100, 12_000, torch.float32, device, 0)
    study(tensor, 300)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = study(tensor, 300)
    for seed, name in enumerate(inputs.names_for(torch.float32)):
        tensor.copy_(inputs.make(name, 100, 12_000, torch.float32, device, seed))
        graph.replay()
        oracle.assert_topk_on_device(result, tensor, 300)


@pytest.mark.parametrize(
    ("rows", "cols", "k"), [(15, 10_000, 5), (20, 8_191, 5), (20, 65_537, 5), (20, 10_000, 2_501)], ids=str
)
def test_what_it_does_not_serve_is_refused(device, rows, cols, k):
    with pytest.raises(RuntimeError, match="_on_chip: it cannot serve"):
        study(torch.zeros(rows, cols, device=device), k)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"threads": 100}, "threads must be a power of two"),
        ({"threads": 2048}, "threads must be"),
        ({"blocks_per_sm": 5}, "blocks_per_sm must be"),
        ({"chunk_bytes": 1000}, "chunk_bytes must be a multiple of 1024"),
    ],
    ids=str,
)
def test_numbers_that_it_cannot_take_are_refused(device, numbers, words):
    with pytest.raises(RuntimeError, match=f"_on_chip: {words}"):
        study(torch.zeros(20, 10_000, device=device), 5, **numbers)
