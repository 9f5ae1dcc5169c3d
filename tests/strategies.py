"""hypothesis strategies: a top-k call as data, so that it shrinks, prints, and is built on any device."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st

from tests import inputs, oracle

# ("permute", dims) | ("slice", dim, start, step) | ("expand", dim, size) | ("unfold", dim, size, step)
View = tuple


def apply_view(tensor: torch.Tensor, view: View) -> torch.Tensor:
    kind, *arguments = view
    if kind == "permute":
        return tensor.permute(arguments[0])
    if kind == "slice":
        dim, start, step = arguments
        return tensor[(slice(None),) * dim + (slice(start, None, step),)]
    if kind == "expand":
        dim, size = arguments
        tensor = tensor.unsqueeze(dim)
        return tensor.expand((*tensor.shape[:dim], size, *tensor.shape[dim + 1 :]))
    return tensor.unfold(*arguments)


@dataclasses.dataclass(frozen=True)
class Call:
    """A top-k call: its input as a named family and views of it, and its arguments."""

    dtype: torch.dtype
    family: str
    seed: int
    offset: int  # elements before the tensor in its storage
    shape: tuple[int, ...]
    views: tuple[View, ...]
    dim: int
    k: int
    largest: bool
    sorted: bool
    magnitude: bool
    index_dtype: torch.dtype

    def tensor(self, device: torch.device | str = "cpu") -> torch.Tensor:
        cols = self.shape[-1] if self.shape else 1
        count = math.prod(self.shape)
        rows = count // cols if cols else 0
        made = inputs.make(self.family, rows, cols, self.dtype, device, self.seed).view(-1)
        storage = torch.empty(self.offset + count, dtype=self.dtype, device=device)
        oracle.as_ints(storage)[self.offset :] = oracle.as_ints(made)
        tensor = storage[self.offset :].view(self.shape)
        for view in self.views:
            tensor = apply_view(tensor, view)
        return tensor

    def flags(self) -> dict[str, object]:
        names = ("k", "dim", "largest", "sorted", "magnitude", "index_dtype")
        return {name: getattr(self, name) for name in names}

    def run(self, topk: Callable, tensor: torch.Tensor, **more) -> tuple[torch.Tensor, torch.Tensor]:
        return topk(tensor, **self.flags(), **more)

    def check(self, result: tuple[torch.Tensor, torch.Tensor], tensor: torch.Tensor) -> None:
        oracle.assert_topk(result, tensor, **self.flags())


# Around the powers of two: the sizes at which lanes, warps, queues and blocks fill up.
EDGES = [0, 1, 2, 3, *(2**power + step for power in range(3, 10) for step in (-1, 0, 1))]
LONG_EDGES = [2**power + step for power in range(10, 13) for step in (-1, 0, 1)]


@st.composite
def _shapes(draw: st.DrawFn, max_elements: int) -> tuple[int, ...]:
    """0 to 4 dimensions; one of them may be long."""
    dims = draw(st.integers(0, 4))
    if dims == 0:
        return ()
    long = draw(st.sampled_from([edge for edge in EDGES + LONG_EDGES if edge <= max_elements]))
    shape = [long]
    for _ in range(dims - 1):
        room = max(1, max_elements // max(1, math.prod(shape)))
        shape.append(draw(st.integers(0, min(room, 9))))
    return tuple(draw(st.permutations(shape)))


@st.composite
def _views(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[View, ...], tuple[int, ...]]:
    """Up to three views of a tensor of this shape, and the shape that they leave."""
    tensor = torch.empty(shape, device="meta")
    views: list[View] = []
    for _ in range(draw(st.integers(0, 3))):
        kinds = ["expand"] if tensor.dim() < 5 and tensor.numel() < 4096 else []
        if tensor.dim() > 0:
            kinds += ["permute", "slice"]
        if 0 < tensor.dim() < 5 and 0 < tensor.numel() < 1024:
            kinds.append("unfold")
        if not kinds:
            break
        kind = draw(st.sampled_from(kinds))
        dim = draw(st.integers(0, max(0, tensor.dim() - 1)))
        if kind == "permute":
            view = (kind, tuple(draw(st.permutations(range(tensor.dim())))))
        elif kind == "slice":
            view = (kind, dim, draw(st.integers(0, min(3, tensor.shape[dim]))), draw(st.integers(1, 3)))
        elif kind == "expand":
            view = (kind, dim, draw(st.integers(0, 3)))
        else:
            view = (kind, dim, draw(st.integers(1, min(8, tensor.shape[dim]))), draw(st.integers(1, 3)))
        views.append(view)
        tensor = apply_view(tensor, view)
    return tuple(views), tuple(tensor.shape)


def _ks(size: int) -> st.SearchStrategy[int]:
    edges = sorted({k for k in [*EDGES, *LONG_EDGES, size // 2, size - 1, size] if 0 <= k <= size})
    return st.one_of(st.sampled_from(edges), st.integers(0, size))


@st.composite
def calls(draw: st.DrawFn, max_elements: int = 6000, dtypes=oracle.DTYPES) -> Call:
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(_shapes(max_elements))
    views, seen = draw(_views(shape))
    dim = draw(st.integers(-max(1, len(seen)), max(1, len(seen)) - 1))
    return Call(
        dtype=dtype,
        family=draw(st.sampled_from(inputs.names_for(dtype))),
        seed=draw(st.integers(0, 2**16)),
        offset=draw(st.sampled_from([0, 0, *range(1, 16)])),
        shape=shape,
        views=views,
        dim=dim,
        k=draw(_ks(seen[dim] if seen else 1)),
        largest=draw(st.booleans()),
        sorted=draw(st.booleans()),
        magnitude=draw(st.booleans()),
        index_dtype=draw(st.sampled_from([torch.int64, torch.int64, torch.int32])),
    )
