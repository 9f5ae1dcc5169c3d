"""Split-bucket top-k on a GPU: both rules, every named input and dtype, sizes around what a tile holds."""

from __future__ import annotations

import itertools

import pytest
import torch

import torch_topk
from tests import inputs, oracle, study_library  # noqa: F401 (loads _form and _split_bucket)
from tests.cuda.calls import DTYPES, FLAGS

pytestmark = pytest.mark.gpu

SPLIT_BUCKET = int(torch_topk.Algorithm.split_bucket)
FORMS = ("split_bucket.tree", "split_bucket.radix")
WIDTHS = [torch.uint8, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.float64]
TILES = [4096, 8192, 16384]  # of four-byte elements


def study(tensor: torch.Tensor, k: int, **options) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.gputopk._split_bucket(tensor, k, **options)


def check(tensor: torch.Tensor, k: int, forms=FORMS, **flags) -> None:
    for name in forms:
        outputs = torch.ops.gputopk._form(
            tensor,
            k,
            name,
            flags.get("largest", True),
            flags.get("sorted", True),
            magnitude=flags.get("magnitude", False),
        )
        oracle.assert_topk_on_device(outputs, tensor, k, **flags)


@pytest.mark.parametrize(
    ("rows", "cols", "ks"),
    [
        (70, 100, (1, 8, 100)),
        (40, 5000, (1, 64, 65, 1000)),
        (9, 70_000, (1, 30, 128, 1024)),
        (1, 500_000, (8, 200)),
    ],
    ids=str,
)
@DTYPES
def test_every_named_input_is_answered_exactly_by_both_rules(device, dtype, rows, cols, ks):
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        for k, flags in zip(itertools.cycle(ks), FLAGS, strict=False):
            check(tensor, k, **flags)


@DTYPES
def test_small_cases_agree_with_the_oracle_itself(device, dtype):
    """The device check is proven elsewhere; this leans on NumPy alone."""
    for cols, k in ((60, 8), (5000, 20), (20_000, 1000)):
        tensor = inputs.make("mixed_rows", 20, cols, dtype, device)
        for flags in FLAGS:
            outputs = torch.ops.gputopk.topk(tensor, k, algorithm=SPLIT_BUCKET, **flags)
            oracle.assert_topk(outputs, tensor, k, **flags)


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
@pytest.mark.parametrize("tile", TILES)
def test_rows_around_what_tiles_hold_are_answered_exactly(device, tile, dtype):
    for cols in (tile - 1, tile, tile + 1, 3 * tile, 3 * tile + 5, 64 * tile + 3):
        for name in ("normal", "few_distinct", "increasing", "winners_in_one_subrange"):
            tensor = inputs.make(name, 2, cols, dtype, device, seed=cols)
            for k in (1, 64, 65, 128, 1024):
                check(tensor, k, largest=k % 2 == 0)


@pytest.mark.parametrize("one_tree", [True, False])
@pytest.mark.parametrize("best_first", [True, False])
@pytest.mark.parametrize("name", ["normal", "all_equal", "increasing", "ones_with_four_outliers"])
def test_every_choice_of_tile_cutoff_and_optimisation_is_exact(device, name, one_tree, best_first):
    tensor = inputs.make(name, 3, 150_000, torch.float32, device)
    for tile, cutoff, k in itertools.product(TILES, (64, 256, 1024), (1, 32, 900)):
        if cutoff < k + 32:
            continue
        for rule in (1, 2):
            options = {"rule": rule, "tile": tile, "cutoff": cutoff}
            options |= {"task": one_tree, "control_flow": best_first}
            oracle.assert_topk_on_device(study(tensor, k, **options), tensor, k)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": 3}, "rule"),
        ({"tile": 1000}, "tile"),
        ({"tile": 64 * 32}, "threads"),
        ({"cutoff": 100}, "cutoff"),
        ({"cutoff": 128, "k": 97}, "k \\+ 32"),
        ({"k": 1025}, "1024"),
    ],
    ids=str,
)
def test_what_tiles_cannot_be_is_refused_by_name(device, options, words):
    tensor = torch.zeros(2, 5000, device=device)
    k = options.pop("k", 8)
    with pytest.raises(RuntimeError, match=words):
        study(tensor, k, **options)


def test_rows_around_32_bits_are_answered_exactly(device):
    cols = 2**32 + 5
    tensor = torch.zeros((1, cols), dtype=torch.uint8, device=device)
    tensor[0, -1], tensor[0, 7], tensor[0, 2**32 - 1] = 3, 2, 2
    for name in FORMS:
        _, indices = torch.ops.gputopk._form(tensor, 5, name)
        assert indices[0].tolist() == [cols - 1, 7, 2**32 - 1, 0, 1]


@pytest.mark.parametrize("dtype", WIDTHS, ids=oracle.name_of)
def test_rows_that_are_not_aligned_or_lie_apart(device, dtype):
    for cols, gap, offset in itertools.product((100, 9000, 40_001), (0, 1, 8), (0, 1, 3)):
        rows = 7
        flat = inputs.make("mixed_rows", 1, offset + rows * (cols + gap), dtype, device, seed=cols)[0]
        tensor = flat[offset:].as_strided((rows, cols), (cols + gap, 1), offset)
        for k in (5, 90):
            check(tensor, k)


@pytest.mark.parametrize(("rows", "cols", "k"), [(70_001, 64, 6), (3000, 20_000, 40), (300_001, 5, 5)])
def test_many_rows(device, rows, cols, k):
    check(inputs.make("mixed_rows", rows, cols, torch.float32, device), k)


def test_a_captured_graph_reads_what_its_input_holds_when_it_runs(device):
    tensor = torch.randn(3, 60_000, device=device)
    for name in FORMS:
        torch.ops.gputopk._form(tensor, 30, name)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = torch.ops.gputopk._form(tensor, 30, name)
        for seed in range(20):
            tensor.copy_(inputs.make("mixed_rows", 3, 60_000, torch.float32, device, seed))
            graph.replay()
            oracle.assert_topk_on_device(outputs, tensor, 30)
