"""What the papers' figures are timed on, and whom: inputs, and calls by the names of paper_figures.py."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import torch_topk
from bench import timing
from bench.figure import FULL_BUCKETS, NARROW, REAL, THIRTY_BITS, Point
from bench.paper_figures import SPLIT_STUDIES
from bench.peers import NotOfferedError
from bench.report import Record
from bench.timing import Outputs
from tests import inputs, study_library

PATCH = 8  # pixels, the side of a patch of the real data

Call = Callable[[torch.Tensor], Any]


# --- inputs ---------------------------------------------------------------------------------------


@functools.cache
def patches() -> torch.Tensor:
    """[531720, 192] uint8: every patch of 8 x 8 pixels of scikit-learn's two photographs, shuffled."""
    from sklearn.datasets import load_sample_images

    every = [
        np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), axis=(0, 1)).reshape(-1, 3 * PATCH**2)
        for image in load_sample_images().images
    ]
    order = np.random.default_rng(0).permutation(sum(map(len, every)))
    return torch.from_numpy(np.concatenate(every)[order])


def patch_distances(cols: int, device: torch.device) -> torch.Tensor:
    """[1, cols] float32: squared distances of one patch to the first cols; of as many patches to all as make
    a longer row. Integers below 2^24, so exact however they are computed."""
    vectors = patches()[:cols].to(device).float()
    norms = vectors.square().sum(1)
    out = torch.empty(cols, device=device)
    for i in range(math.ceil(cols / len(vectors))):
        some = out[i * len(vectors) : (i + 1) * len(vectors)]
        distances = norms - 2 * torch.mv(vectors, vectors[-1 - i]) + norms[-1 - i]
        some.copy_(distances[: len(some)])
    return out.view(1, cols)


def full_buckets(cols: int, device: torch.device) -> torch.Tensor:
    """[1, cols] int32 of the whole range: seven times over all but 15 elements are in the last of 16 buckets
    of equal width, and each of the others has one. Of the last bucket's 16 values any has as many."""
    x = inputs.make("random_bits", 1, cols, torch.int32, device) & 15 | 2**31 - 16
    numbers = [
        16**8 - 16 ** (8 - times) + bucket * 16 ** (7 - times) for times in range(7) for bucket in range(15)
    ]
    few = torch.tensor(numbers, device=device) - 2**31
    x[0, torch.arange(len(few), device=device) * (cols // len(few))] = few.int()
    return x


def make(point: Point, device: torch.device, seed: int = 1) -> torch.Tensor:
    if point.input == REAL:
        return patch_distances(point.cols, device)
    dtype = getattr(torch, point.dtype)
    if point.input == THIRTY_BITS:
        return inputs.make("uniform", point.rows, point.cols, dtype, device, seed) & (2**30 - 1)
    if point.input == FULL_BUCKETS:
        return full_buckets(point.cols, device)
    if point.input == NARROW:
        x = inputs.make("normal", point.rows, point.cols, torch.float32, device, seed)
        return (x * 10).round_().to(dtype).add_(10**8)
    return inputs.make(point.input, point.rows, point.cols, dtype, device, seed)


@dataclass
class Data:
    """A point's tensor, the copies that keep the cache cold, and the columns beside it."""

    copies: list[torch.Tensor]
    columns: list[torch.Tensor]

    @property
    def x(self) -> torch.Tensor:
        return self.copies[0]


def data_of(point: Point, device: torch.device, filtered: bool) -> Data:
    """`filtered`: the column beside the first is what a filter looks at."""
    beside = dataclasses.replace(point, input="uniform", dtype="float32") if filtered else point
    columns = [make(beside, device, seed) for seed in range(2, 1 + point.columns)]
    return Data(timing.copies_of(make(point, device)), columns)


# --- contenders -----------------------------------------------------------------------------------

_BASELINES: dict[str, tuple[str, Record]] = {
    "per-thread": ("_per_thread_topk", {}),
    "per-thread registers": ("_per_thread_topk", {"registers": True}),
    "bucket": ("_bucket_topk", {}),
    "tree": ("_tree_topk", {}),
}
# The split-bucket paper's variants, as options of `_split_bucket`.
_SPLIT_BUCKET: dict[str, Record] = {
    "TK_RdSP": {"rule": 1},
    "TK_StSP": {"rule": 2, "task": False, "control_flow": False},
    "TK_StSPT": {"rule": 2, "task": True, "control_flow": False},
    "TK_StSPTC": {"rule": 2, "task": True, "control_flow": True},
}


def study_operator(name: str) -> Callable[..., Outputs]:
    if not study_library.loaded:
        raise NotOfferedError("needs CUDA and the study library: make study")
    if not hasattr(torch.ops.gputopk, name):
        raise NotOfferedError(f"the study library has no {name}")
    return getattr(torch.ops.gputopk, name)


def algorithm_number(name: str) -> int:
    if name not in torch_topk.Algorithm.__members__:
        raise NotOfferedError(f"no algorithm {name} here")
    return int(torch_topk.Algorithm[name])


def without_others(x: torch.Tensor, point: Point, data: Data) -> torch.Tensor:
    """The elements that do not pass the filter made the worst there are."""
    info = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
    return x.masked_fill(data.columns[0] >= point.percent / 100, info.min if point.largest else info.max)


def call_of(name: str, point: Point, data: Data, selection: bool) -> Call:
    """A contender's call, by its name in paper_figures.py, for the k-th alone if `selection`; raises
    NotOfferedError."""
    k, largest = point.k, point.largest
    if name == "torch.topk":
        return lambda x: torch.topk(x, k, -1, largest, False)
    if name == "torch.sort":
        first = k - 1 if selection else 0

        def sort(x: torch.Tensor) -> Outputs:
            values, indices = torch.sort(x, descending=largest)
            return values[..., first:k], indices[..., first:k]

        return sort
    if name == "torch.kthvalue":
        rank = point.cols - k + 1 if largest else k
        return lambda x: torch.kthvalue(x, rank, -1, True)
    if name == "kth_value":
        return lambda x: torch_topk.kth_value(x, k, -1, largest)
    if name.startswith("masked_fill + "):
        topk = call_of(name.removeprefix("masked_fill + "), point, data, selection)
        return lambda x: topk(without_others(x, point, data))
    if name == "topk_where filtered":
        passing = torch_topk.Condition(data.columns[0], "<", point.percent / 100)
        return lambda x: torch_topk.topk_where(x, passing, k, largest=largest, order="any")
    if name.endswith(" + gather"):
        topk = call_of(name.removesuffix(" + gather"), point, data, selection)

        def gather(x: torch.Tensor) -> Any:
            values, indices = topk(x)
            return values, indices, *(column.gather(-1, indices) for column in data.columns)

        return gather
    if name == "topk_where":
        return lambda x: torch_topk.topk_where((x, *data.columns), None, k, largest=largest, order="any")
    if name in _BASELINES:
        operator, options = _BASELINES[name]
        baseline = study_operator(operator)
        return lambda x: baseline(x, k, largest, False, **options)
    variant, _, numbers = name.partition(" ")
    if variant in _SPLIT_BUCKET:
        split_bucket = study_operator("_split_bucket")
        options = _SPLIT_BUCKET[variant] | SPLIT_STUDIES.get(f" {numbers}", {})
        return lambda x: split_bucket(x, k, largest, False, **options)
    if "." in name:
        form = study_operator("_form")
        return lambda x: form(x, k, name, largest, False)
    number = algorithm_number(name)
    return lambda x: torch.ops.gputopk.topk(x, k, -1, largest, False, algorithm=number)
