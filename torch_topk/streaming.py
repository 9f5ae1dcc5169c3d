"""Top-k of more data than fits: chunks come one after the other, and the k best of all so far are kept.

    stream = StreamingTopK(1000, device="cuda")
    stream.consume(memory_mapped, chunk=1 << 26)
    values, indices = stream.result()

On the CPU a chunk is read where it lies. On CUDA it passes through pinned memory and is copied on a stream of
its own while the chunk before it is selected from; the k best so far lie in front of it in one buffer, so
that one top-k of both, which reads the chunk once, is also the merge, and its bound is theirs from the start.

Source: A. Gaihre et al., "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC '21, section 5.4: data beyond the
memory of the GPUs, in sub-vectors one after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._rows import check_bool, integer, integers_of
from ._sharding import is_dtensor
from .ops import _DTYPES, topk

__all__ = ["StreamingTopK"]

Progress = Callable[[int], Any]
_Lists = tuple[Tensor, Tensor]  # values and indices, in order


class StreamingTopK:
    """The k best of each row of a tensor that is given in chunks along its last dimension.

    The result is, to the bit, ``torch_topk.topk(torch.cat(chunks, -1), k)``, whatever the sizes of the
    chunks.

    Args:
        k: at least 1. Of fewer elements in all, all are kept.
        device: where to select: "cpu" or a CUDA device. Chunks may come from either.
        largest, magnitude: as in ``torch_topk.topk``.
        progress: called with the number of elements of a row that a chunk had, after each. For tqdm:
            ``progress=bar.update``.

    Raises:
        TypeError: ``k`` is no int, ``largest`` or ``magnitude`` no bool.
        RuntimeError: ``k`` below 1, a device that torch does not know.
    """

    def __init__(
        self,
        k: int,
        *,
        device: torch.device | str = "cpu",
        largest: bool = True,
        magnitude: bool = False,
        progress: Progress | None = None,
    ):
        k = integer("StreamingTopK", "k", k)
        check_bool("StreamingTopK", "largest", largest)
        check_bool("StreamingTopK", "magnitude", magnitude)
        if k < 1:
            raise RuntimeError(f"StreamingTopK(): k must be at least 1, but is {k}")
        self.k = k
        self.device = torch.device(device)
        self._order = {"largest": largest, "magnitude": magnitude}
        self._progress = progress
        self._values: Tensor | None = None  # [..., up to k], in order
        self._indices: Tensor | None = None
        self._end = 0  # where the next chunk begins
        self._copies: _Copies | None = None

    @property
    def position(self) -> int:
        """Elements of a row so far, and what was left out between them: where the next chunk begins."""
        return self._end

    def update(self, chunk: Any, offset: int | None = None) -> None:
        """Takes a chunk into account.

        Args:
            chunk: a tensor, or what ``torch.as_tensor`` takes without a copy, [..., n]; after the first its
                dtype and leading dimensions are given. It may be changed once this returns; but if it is
                pinned, for a CUDA device, once the update after the next one has returned.
            offset: where it begins in the row, ``position`` or later; None: at ``position``.

        Raises:
            TypeError: a chunk that is a DTensor, an offset that is no int.
            RuntimeError: a chunk of a dtype that is not served, or that does not fit to those before, or
                begins before their end. The stream is then as it was.
        """
        if is_dtensor(chunk):
            raise TypeError(
                "StreamingTopK: a chunk is a DTensor; a rank's part of it is its to_local(), with an offset"
            )
        chunk = _as_tensor(chunk)
        offset = self._end if offset is None else integer("StreamingTopK.update", "offset", offset)
        if chunk.dim() == 0:
            raise RuntimeError("StreamingTopK: a chunk must have 1 dimension or more, but has 0")
        if offset < self._end:
            raise RuntimeError(
                f"StreamingTopK: a chunk at {offset} begins before the end of those before, {self._end}"
            )
        if chunk.dtype not in _DTYPES:
            raise NotImplementedError(f"StreamingTopK: not implemented for {chunk.dtype}")
        held = self._values, self._indices
        if self._values is None:
            empty = torch.empty((*chunk.shape[:-1], 0), dtype=chunk.dtype, device=self.device)
            held = empty, empty.to(torch.int64)
        elif chunk.dtype != self._values.dtype or chunk.shape[:-1] != self._values.shape[:-1]:
            raise RuntimeError(
                f"StreamingTopK: a chunk is {chunk.dtype} {list(chunk.shape)}, but those before were "
                f"{self._values.dtype} {[*self._values.shape[:-1], 'any number']}"
            )
        # All is as before until this has succeeded.
        self._values, self._indices = self._select(held, chunk, offset) if chunk.shape[-1] > 0 else held
        self._end = offset + chunk.shape[-1]
        if self._progress is not None:
            self._progress(chunk.shape[-1])

    def consume(self, source: Any, *, chunk: int = 1 << 24) -> StreamingTopK:
        """``update`` for each part of a tensor or array, as of ``torch.from_file`` or ``numpy.memmap``,
        ``chunk`` elements of a row at a time; or for each chunk of an iterable. Returns self.

        Raises:
            TypeError: a source that is neither, a ``chunk`` that is no int.
            RuntimeError: a ``chunk`` below 1; as ``update``.
        """
        chunk = integer("StreamingTopK.consume", "chunk", chunk)
        if chunk < 1:
            raise RuntimeError(f"StreamingTopK: chunk must be at least 1, but is {chunk}")
        if not hasattr(source, "shape") and not isinstance(source, Iterable):
            raise TypeError(
                f"StreamingTopK: a source must be a tensor, an array or iterable, not {type(source).__name__}"
            )
        for part in _parts(source, chunk) if hasattr(source, "shape") else source:
            self.update(part)
        return self

    def result(self) -> tuple[Tensor, Tensor]:
        """``values`` and ``indices`` (int64) so far, [..., min(k, elements so far)], best first: new tensors,
        on ``device``. Chunks may still follow.

        Raises:
            RuntimeError: before the first chunk.
        """
        if self._values is None:
            raise RuntimeError("StreamingTopK: there has been no chunk yet")
        return torch.return_types.topk((self._values.clone(), self._indices.clone()))

    def result_of_ranks(self, group: dist.ProcessGroup | None = None) -> tuple[Tensor, Tensor]:
        """The k best of what all ranks have streamed, on all of them. Each rank streams its own stretch of
        the row, and begins it with ``update(chunk, offset=...)`` where it lies.

        Raises:
            RuntimeError: on all ranks, as ``torch_topk.distributed.topk``; also where one has had no chunk.
        """
        from . import distributed

        values, indices = self._values, self._indices  # None without a chunk so far: all ranks are told
        first = self._end
        if indices is not None and indices.numel() > 0:
            first = int(indices.amin())
        return distributed.merge_lists(values, indices, self.k, first, self._end, group, **self._order)

    def state_dict(self) -> dict[str, Any]:
        """What is kept so far, copied, without the device."""
        state = {"k": self.k, "position": self._end, **self._order}
        if self._values is not None:
            state |= {"values": self._values.clone(), "indices": self._indices.clone()}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there.

        Raises:
            RuntimeError: it is of another k or order.
        """
        mine = {"k": self.k, **self._order}
        theirs = {name: state_dict[name] for name in mine}
        if theirs != mine:
            raise RuntimeError(f"StreamingTopK: a state_dict of {theirs} cannot go on with {mine}")
        self._end = state_dict["position"]
        self._values = self._indices = None
        if "values" in state_dict:
            self._values = state_dict["values"].to(self.device, copy=True)
            self._indices = state_dict["indices"].to(self.device, copy=True)

    # ---- One chunk ----

    def _select(self, held: _Lists, chunk: Tensor, offset: int) -> _Lists:
        """The best of what is held and of a chunk."""
        if self.device.type == "cuda" and chunk.device.type == "cpu":
            if self._copies is None or not self._copies.fits(chunk):
                self._copies = _Copies(self.k, chunk, self.device)
            return self._copies.select(self, held, chunk, offset)
        chunk = chunk.to(self.device)
        found = topk(chunk, min(self.k, chunk.shape[-1]), **self._order)
        values = torch.cat([integers_of(held[0]), integers_of(found.values)], -1).view(chunk.dtype)
        indices = torch.cat([held[1], found.indices + offset], -1)
        return self._best(values, lambda places: indices.gather(-1, places))

    def _best(self, values: Tensor, indices_at: Callable[[Tensor], Tensor]) -> _Lists:
        """The best of these. Of equal ones the earlier are kept, so those of the chunks before come first."""
        best = topk(values, min(self.k, values.shape[-1]), **self._order)
        return best.values, indices_at(best.indices)


def _as_tensor(chunk: Any) -> Tensor:
    with warnings.catch_warnings():
        # Of an array that may not be written, such as a file mapped for reading: nothing is.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.as_tensor(chunk).detach()


def _parts(row: Any, size: int) -> Iterable[Any]:
    if len(row.shape) == 0 or row.shape[-1] == 0:  # a chunk too: update takes its form, or refuses it
        yield row
        return
    for begin in range(0, row.shape[-1], size):
        yield row[..., begin : begin + size]


class _Copies:
    """The way of chunks from the host to a GPU: two pinned buffers and two there, so that chunk n + 1 is
    copied while chunk n is selected from. A buffer there has room for k entries in front of a chunk.

    What must not overlap is kept apart by events: `copied` before the selection reads a buffer, and before
    the host writes its pinned one again; `selected` before the next copy writes it.
    """

    def __init__(self, k: int, like: Tensor, device: torch.device):
        self.k = k
        self.room = like.shape[-1]
        leading = like.shape[:-1]
        self.pinned = [torch.empty(like.numel(), dtype=like.dtype, pin_memory=True) for _ in range(2)]
        self.sources: list[Tensor | None] = [None, None]  # what is being copied from
        self.buffers = [
            torch.empty((*leading, k + self.room), dtype=like.dtype, device=device) for _ in range(2)
        ]
        self.stream = torch.cuda.Stream(device)
        for buffer in self.buffers:
            buffer.record_stream(self.stream)
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.selected = [torch.cuda.Event() for _ in range(2)]
        for event in self.selected:  # the buffers may be what this stream's earlier work still uses
            event.record(torch.cuda.current_stream(device))
        self.turn = 0

    def fits(self, chunk: Tensor) -> bool:
        buffer = self.buffers[0]  # another's where a first chunk failed, or a state_dict came
        alike = chunk.dtype == buffer.dtype and chunk.shape[:-1] == buffer.shape[:-1]
        return alike and chunk.shape[-1] <= self.room

    def select(self, stream: StreamingTopK, held: _Lists, chunk: Tensor, offset: int) -> _Lists:
        turn, n = self.turn, chunk.shape[-1]
        self.turn = 1 - turn
        buffer = self.buffers[turn]
        current = torch.cuda.current_stream(buffer.device)
        self.copied[turn].synchronize()  # the host waits for the copy of two chunks ago, not for a selection
        source = chunk
        if not (chunk.is_pinned() and chunk.is_contiguous()):
            source = self.pinned[turn][: chunk.numel()].view(chunk.shape).copy_(chunk)
        self.sources[turn] = source
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.selected[turn])
            place = buffer[..., self.k : self.k + n]
            if not place.is_contiguous():  # a strided copy would go through memory that is not pinned
                source = source.to(buffer.device, non_blocking=True)
            place.copy_(source, non_blocking=True)
            self.copied[turn].record(self.stream)
        current.wait_event(self.copied[turn])
        values, indices = held
        count = values.shape[-1]
        integers_of(buffer)[..., self.k - count : self.k].copy_(integers_of(values))

        def indices_at(places: Tensor) -> Tensor:
            if count == 0:
                return places + offset
            return torch.where(
                places < count, indices.gather(-1, places.clamp(max=count - 1)), places + (offset - count)
            )

        best = stream._best(buffer[..., self.k - count : self.k + n], indices_at)
        self.selected[turn].record(current)
        return best
