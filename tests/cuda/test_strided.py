"""Rows that do not lie side by side: how their layout is found (meta tensors), and their top-k on a GPU."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

import torch_topk
from tests import inputs, oracle, study_library

topk = torch.ops.gputopk.topk
LAYOUT = re.compile(r"strided: (\d+) x (\d+) rows, (\d+) and (\d+) apart, of elements (\d+) apart; ([^;]*)")


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def layout(tensor: torch.Tensor, dim: int, k: int = 2) -> tuple[int, ...] | None:
    """outer, inner, their strides, and that of columns; None where rows lie side by side."""
    found = LAYOUT.match(torch.ops.gputopk._plan(tensor, k, dim))
    return found and tuple(int(number) for number in found.groups()[:5])


@pytest.mark.parametrize(
    ("tensor", "dim", "want"),
    [
        (meta(7, 30, 5), -1, None),
        (meta(7, 30, 5), 1, (7, 5, 150, 1, 5)),
        (meta(7, 30, 5, 4), 1, (7, 20, 600, 1, 20)),
        (meta(3, 7, 30, 5, 4), 2, (21, 20, 600, 1, 20)),
        (meta(30, 5, 4), 0, (1, 20, 0, 1, 20)),
        (meta(30, 1, 4), 1, None),  # of one element all is chosen, and has its place
        (meta(7, 30, 1), 1, None),
        (meta(7, 30).t(), -1, (1, 30, 0, 1, 30)),
        (meta(7, 30)[:, ::2], -1, (1, 7, 0, 30, 2)),
        (meta(7, 5, 30)[:, :3], -1, (7, 3, 150, 30, 1)),
        (meta(7, 5, 30)[:, :3].transpose(1, 2), 1, (7, 3, 150, 30, 1)),
        # channels last: rows of adjacent elements, whose winners belong elsewhere
        (meta(7, 8, 9, 30).permute(0, 3, 1, 2), 1, (504, 1, 30, 0, 1)),
        (meta(1, 5, 30).expand(7, 5, 30), -1, (7, 5, 0, 30, 1)),
        # three strides: as after a copy
        (meta(7, 30, 5, 8)[:5, :, :, :3], 1, (5, 15, 450, 1, 15)),
        (meta(7, 6, 5, 30)[:, :4, :3], -1, None),
    ],
)
def test_the_layout_of_rows(tensor, dim, want):
    assert layout(tensor, dim, k=1 if tensor.shape[dim] == 1 else 2) == want


@pytest.mark.parametrize(
    ("cols", "k", "way"),
    [
        (30, 3, "rows where they lie"),
        (200, 3, "rows in tiles"),
        (200, 190, "rows in tiles"),
        (300, 290, "rows moved together, winners moved to their place, 8192 rows at a time"),
        (100_000, 3, "rows read across"),
        (100_000, 3000, "rows moved together, winners moved to their place, 256 rows at a time"),
    ],
)
def test_the_way_of_rows(cols, k, way):
    plan = torch.ops.gputopk._plan(meta(4, cols, 2048), k, 1)
    assert LAYOUT.match(plan)[6] == way


def ways(tensor: torch.Tensor, k: int, dim: int) -> set[str]:
    """Those that could serve a request of rows which do not lie side by side."""
    lines = torch.ops.gputopk._forms(tensor, k, dim).splitlines()
    return {line.split(";")[0] for line in lines} - {"order_rows"}


@pytest.mark.parametrize(
    ("tensor", "k", "across"),
    [
        (meta(4, 5000, 64), 9, True),
        (meta(4, 5000, 64), 2000, False),  # too many of the row could be candidates
        (meta(4, 500, 64), 2, False),  # the row is short
        (meta(4, 5000, 3), 9, True),  # few side by side, without gaps
        (meta(4, 5000, 9)[:, :, :3], 9, False),  # and with them
        (meta(4, 5000, 90)[:, :, :70], 9, True),
        (meta(5000, 64), 9, True),
        (meta(4, 64, 10_000)[:, :, ::2].transpose(1, 2), 9, False),
        (meta(1, 5000, 1).expand(4, 5000, 64), 9, False),  # rows are the same
    ],
)
def test_which_rows_can_be_read_across(tensor, k, across):
    found = ways(tensor, k, max(tensor.dim() - 2, 0))
    assert ("delegate.across_rows" in found) == across
    assert "strided.panels" in found


def test_delegate_reads_across_what_it_would_not_serve_otherwise():
    plan = torch.ops.gputopk._plan(meta(4, 600, 64), 40, 1, algorithm=torch_topk.Algorithm.delegate)
    assert "rows read across; delegate: " in plan
    with pytest.raises(RuntimeError, match="algorithm delegate cannot serve this"):
        torch.ops.gputopk._plan(meta(256, 600), 40, 1, algorithm=torch_topk.Algorithm.delegate)


@pytest.mark.gpu
def test_workspace_is_bounded(device):
    """Whatever the size of the input."""
    for rows in (2**12, 2**14):
        plan = torch.ops.gputopk._plan(torch.empty((50_000, rows), device=device, dtype=torch.int8), 4, 0)
        assert int(re.search(r"workspace (\d+) bytes", plan)[1]) < 128 << 20


def views(dtype: torch.dtype, device: torch.device):
    """Tensors of 3 dimensions to select along the middle one."""
    base = inputs.make("mixed_rows", 24, 90 * 40, dtype, device).view(24, 90, 40)
    long = inputs.make("mixed_rows", 6, 3000 * 40, dtype, device).view(6, 3000, 40)
    return [
        base,
        base[:, :16],
        base[::2, ::3, ::2],
        base[:, :, :1],
        base.transpose(0, 2),
        base.transpose(1, 2),
        base[:, :, :1].expand(24, 90, 40),
        base[:1].expand(24, 90, 40),
        long,
        long[:, :, :3],
        long[:5, 7:, 1:39],
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_exact(device, dtype):
    for tensor, index_dtype in itertools.product(views(dtype, device), (torch.int64, torch.int32)):
        for k in (1, 7, tensor.shape[1] // 2, tensor.shape[1]):
            flags = {"largest": k % 2 == 1, "magnitude": k == 7, "index_dtype": index_dtype}
            oracle.assert_topk(topk(tensor, k, 1, **flags), tensor, k, 1, **flags)
            oracle.assert_topk(topk(tensor.transpose(1, 2), k, **flags), tensor.transpose(1, 2), k, **flags)


def check_across(tensor: torch.Tensor, k: int, **flags) -> None:
    """Against the stable order of all, on the device."""
    values, indices = topk(tensor, k, 1, algorithm=torch_topk.Algorithm.delegate, **flags)
    rows = tensor.mT.reshape(-1, tensor.shape[1])
    result = tuple(winners.mT.reshape(-1, k).contiguous() for winners in (values, indices))
    oracle.assert_topk_on_device(result, rows, k, **flags)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize(
    ("outer", "cols", "inner", "k"),
    [(3, 3000, 64, 40), (2, 20_001, 7, 12), (5, 1500, 300, 9), (1, 20_000, 33, 300)],
)
def test_rows_read_across(device, dtype, outer, cols, inner, k):
    """Vectors of adjacent rows, laps of several columns, single elements, and a block that orders."""
    turns = itertools.cycle(({}, {"largest": False}, {"magnitude": True}))
    for name, flags in zip(inputs.names_for(dtype), turns, strict=False):
        rows = inputs.make(name, outer * inner, cols, dtype, device)
        check_across(rows.view(outer, inner, cols).mT.contiguous(), k, **flags)


@pytest.mark.gpu
def test_more_rows_than_have_lists_at_once(device):
    for shape in ((70, 600, 4000), (2, 520, 150_000)):
        check_across(torch.randn(shape, device=device), 5)


@pytest.mark.gpu
@pytest.mark.skipif(not study_library.loaded, reason="the study library is not built")
@pytest.mark.parametrize("panel_bytes", [1000, 100_000, 24 << 20])
def test_panels_of_any_size(device, panel_bytes):
    for tensor in views(torch.float32, device):
        cols = tensor.shape[1]
        if cols >= 90 and torch.ops.gputopk._plan(tensor, 3, 1).startswith("strided"):
            for algorithm in torch_topk.Algorithm:
                k = cols // 2 if algorithm.name == "sort" else 3
                result = torch.ops.gputopk._strided(
                    tensor, k, 1, algorithm=algorithm, panel_bytes=panel_bytes
                )
                oracle.assert_topk(result, tensor, k, 1)


@pytest.mark.gpu
def test_outs_of_other_strides(device):
    tensor = inputs.make("normal", 24, 90 * 40, torch.float32, device).view(24, 90, 40)
    values = torch.empty((24, 40, 9), device=device).transpose(1, 2)
    indices = torch.empty((24, 40, 9), device=device, dtype=torch.int64).transpose(1, 2)
    torch.ops.gputopk.topk.out(tensor, 9, 1, values=values, indices=indices)
    oracle.assert_topk((values, indices), tensor, 9, 1, contiguous=False)


@pytest.mark.gpu
def test_replayed_graphs(device):
    tensor = inputs.make("normal", 24, 3000 * 40, torch.float32, device).view(24, 3000, 40)
    for k in (3, 300):
        topk(tensor, k, 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = topk(tensor, k, 1)
        for seed in range(3):
            tensor.copy_(inputs.make("normal", 24, 3000 * 40, torch.float32, device, seed).view_as(tensor))
            graph.replay()
            oracle.assert_topk(result, tensor, k, 1)
