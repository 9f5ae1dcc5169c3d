"""What the GPU tests of every algorithm share: how the operator is called, and with what."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch

import torch_topk  # noqa: F401 (loads the operators)
from tests import inputs, oracle, study_library  # noqa: F401 (loads _form)

topk = torch.ops.gputopk.topk

DTYPES = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
FLAGS = [
    {"largest": largest, "sorted": order, "magnitude": magnitude}
    for largest, order, magnitude in itertools.product((True, False), repeat=3)
]
# Of rows that a thread, a warp or a block holds, and of few winners of any.
SHORT_ROW_FORMS = ("bitonic.one_thread", "bitonic.one_warp", "bitonic.many_blocks", "air.resident_row")


def run(tensor: torch.Tensor, k: int, algorithm: int, **flags):
    """The operator into poisoned outputs: what it leaves unwritten is found."""
    rows = tensor.shape[0]
    index_dtype = flags.get("index_dtype") or torch.int64
    values = torch.empty((rows, k), dtype=tensor.dtype, device=tensor.device)
    if tensor.dtype == torch.bool:
        values.fill_(True)
    else:
        oracle.as_ints(values).fill_(0x5A)
    indices = torch.full((rows, k), -(2**30), dtype=index_dtype, device=tensor.device)
    topk.out(tensor, k, algorithm=algorithm, values=values, indices=indices, **flags)
    return values, indices


def check(tensor: torch.Tensor, k: int, algorithm: int, **flags) -> None:
    oracle.assert_topk_on_device(run(tensor, k, algorithm, **flags), tensor, k, **flags)


def serving(tensor: torch.Tensor, k: int, forms: Sequence[str] = SHORT_ROW_FORMS) -> list[str]:
    lines = torch.ops.gputopk._forms(tensor, k).splitlines()
    return [name for name in forms if any(line.startswith(f"{name};") for line in lines)]


def check_forms(tensor: torch.Tensor, k: int, forms: Sequence[str] = SHORT_ROW_FORMS, **flags) -> list[str]:
    """Every form that serves; their names."""
    served = serving(tensor, k, forms)
    for name in served:
        largest, order = flags.get("largest", True), flags.get("sorted", True)
        magnitude = flags.get("magnitude", False)
        outputs = torch.ops.gputopk._form(tensor, k, name, largest, order, magnitude=magnitude)
        oracle.assert_topk_on_device(outputs, tensor, k, **flags)
    return served


def rows_at(
    offset: int, rows: int, cols: int, dtype: torch.dtype, device, name: str = "normal", seed: int = 0
):
    """Rows `offset` elements behind a 16-byte boundary, all of them: in a wider tensor."""
    per_vector = 16 // dtype.itemsize
    stride = -(-(cols + offset) // per_vector) * per_vector
    return inputs.make(name, rows, stride, dtype, device, seed)[:, offset : offset + cols]


def head_of(row: torch.Tensor) -> int:
    """Elements before the first that is 16-byte aligned."""
    return -row.data_ptr() % 16 // row.element_size()
