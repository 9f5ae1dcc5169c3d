"""Top-k of rows that lie sharded over the ranks of a process group.

    values, indices, _ = torch_topk.distributed.topk(local, k)

The answer is that of ``torch_topk.topk`` on the whole rows, ties by the index in the whole row, to the bit
and whatever the number of ranks. A winner is among the k best of its own rank, so each rank selects those
first and reads its shard once; what is left is between lists:

  1. Where the lists are short, all are gathered and merged: one message.
  2. Where they are long, the k-th best of all is searched for digit by digit: ranks count how many of their
     lists reach each value of a digit, and add that up. Then each rank knows which of its own win, and only
     winners are sent, if anything is.

Source: A. Gaihre et al., "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC '21, section 5.4: shards, local
top-k, gather (1). Its bound shared between ranks before the read is left out, as there. The narrowing by
digits (2) is that of J. Zhang, A. Naruse, X. Li, Y. Wang, SC '23, section 3, over ranks.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._messages import exchange, pack, unpack
from ._rows import check_bool, check_choice, integer, integers_of
from ._sharding import is_dtensor
from .ops import _DTYPES
from .ops import topk as topk_of_rows

__all__ = ["ShardedTopK", "topk"]

Gather = Literal["all", "root", "none"]

_NAME = "torch_topk.distributed.topk"

# Digits of the search for the k-th best: 2048 counts a row and pass.
_DIGIT_BITS = 11
# Lists are gathered whole while that moves at most so many times the bytes of all passes' counts, which move
# twice in an all-reduce, and at most so many bytes: below, the search saves little, and it takes some more
# messages one after the other. CUDA's: on two GPUs that NVLink joins, gathering was the faster at all sizes
# that were timed, up to 10^8 bytes (bench/results/distributed-h200.jsonl).
_GATHERED_PER_COUNTED = 8
_GATHERED_BYTES = {"cuda": 2**27}
_MOST_DIMS = 8


class ShardedTopK(NamedTuple):
    """What ``topk`` returns."""

    values: Tensor
    indices: Tensor
    counts: Tensor
    """Of each row, how many of them are this rank's to have: k, or with gather="none" its own winners."""


def topk(
    local: Tensor,
    k: int,
    *,
    group: dist.ProcessGroup | None = None,
    offset: int | None = None,
    largest: bool = True,
    magnitude: bool = False,
    sorted: bool = True,
    gather: Gather = "all",
) -> ShardedTopK:
    """The k best of each row of a tensor whose last dimension lies sharded over ranks, in pieces of any
    sizes.

    Called by all ranks of the group, with the same arguments but for ``local`` and ``offset``.

    Args:
        local: [..., n], this rank's piece of each row; n may differ between ranks, and be 0. Dtypes, order
            and ties are those of ``torch_topk.topk``. CPU with gloo, CUDA with NCCL.
        k: 0 <= k <= the sum of all n.
        group: the ranks; None is the default group.
        offset: where the piece begins in the whole row; pieces must not overlap. None on all ranks: they lie
            in the order of the ranks, one behind the other.
        largest, magnitude: as in ``torch_topk.topk``.
        sorted: best first, equal values by index. Otherwise any order; with "none" it is sorted anyway.
        gather: who gets the result. "all"; "root": the group's rank 0, and the others empty tensors; "none":
            each rank the winners that are its own, so that the result stays sharded.

    Returns:
        ``values`` [..., k], of local's dtype, ``indices``, int64, in the whole row, and ``counts`` [...],
        int64. With "none" of a single row those that are this rank's; of many, as many columns as the row
        with the most has, and behind counts[row] of them index -1 and value 0. No gradients.

    Raises:
        TypeError, ValueError: on a rank with an argument of another type or name; the others are told.
        RuntimeError: on all ranks, before anything is selected: the ranks disagree in k, dtype, leading
            dimensions or flags, pieces overlap, k is out of range, or another rank cannot take part. A rank
            that has ended or never calls is the process group's error, after its time-out.
    """
    rank, shards = _agree(local, k, group, offset, largest, magnitude, sorted, gather)
    k = integer(_NAME, "k", k)
    if not 0 <= k <= sum(shards.sizes):
        raise RuntimeError(
            f"{_NAME}(): selected index k out of range: k is {k}, and a row has "
            f"{sum(shards.sizes)} elements over all ranks"
        )
    rows = local.detach().reshape(math.prod(local.shape[:-1]), local.shape[-1])
    lists = _Lists(*topk_of_rows(rows, min(k, rows.shape[1]), -1, largest, True, magnitude=magnitude))
    lists = _Lists(lists.values, lists.indices + shards.offsets[rank])
    result = select_of_lists(lists, k, shards, group, largest, magnitude, sorted, gather)
    leading = local.shape[:-1]
    return ShardedTopK(
        result.values.view(*leading, result.values.shape[-1]),
        result.indices.view(*leading, result.values.shape[-1]),
        result.counts.view(leading),
    )


class _Lists(NamedTuple):
    """Of each row a rank's best, in order, and where they lie in the whole row: [rows, m]."""

    values: Tensor
    indices: Tensor


class Shards(NamedTuple):
    """What all ranks know of each other."""

    sizes: list[int]  # of a rank's piece of a row, or of the list that it has of it
    offsets: list[int]

    def in_order(self) -> list[int]:
        """Ranks by where their pieces lie: of equal values the first has the lower index."""
        return sorted(range(len(self.sizes)), key=lambda rank: (self.offsets[rank], self.sizes[rank]))


# ---- Agreement ----


def _check_own(
    local: Any, k: Any, group: Any, offset: Any, largest: Any, magnitude: Any, sorted: Any, gather: Any
) -> tuple[int, int]:
    """``k``, and ``offset`` or -1 for none. Raises what keeps this rank from taking part."""

    def refuse(words: str) -> None:
        raise RuntimeError(f"{_NAME}(): rank {dist.get_rank(group)}: {words}")

    if not isinstance(local, Tensor):
        raise TypeError(f"{_NAME}(): argument 'local' must be Tensor, not {type(local).__name__}")
    k = integer(_NAME, "k", k)
    if offset is not None:
        offset = integer(_NAME, "offset", offset, "int or None")
    for name, flag in (("largest", largest), ("magnitude", magnitude), ("sorted", sorted)):
        check_bool(_NAME, name, flag)
    check_choice(_NAME, "gather", gather, _GATHERS)
    if is_dtensor(local):
        refuse("local is a DTensor, which torch_topk.topk() takes whole; its to_local() is what a rank has")
    if local.device.type not in _device_types(group):
        backends = dist.get_backend_config(group)
        refuse(f"local is on {local.device}, where the group's backends, {backends}, send nothing")
    if not 1 <= local.dim() <= _MOST_DIMS:
        refuse(f"local must have 1 to {_MOST_DIMS} dimensions, but has {local.dim()}")
    if local.dtype not in _DTYPES:
        refuse(f"dtype {local.dtype} is not served")
    if abs(k) >= 2**63:
        refuse(f"k is {k}, which no row has")
    if offset is not None and not 0 <= offset < 2**63:
        refuse(f"offset must be in [0, 2^63), but is {offset}")
    return k, -1 if offset is None else offset


def _agree(
    local: Any,
    k: Any,
    group: Any,
    offset: Any,
    largest: Any,
    magnitude: Any,
    sorted: Any,
    gather: Any,
    extent: int | None = None,
) -> tuple[int, Shards]:
    """One small message, in which every rank says what it was asked. Raises on all of them, or on none.
    `extent`: of the piece, where `local` is a list of its best."""
    trouble = None
    try:
        if local is None and extent is not None:
            raise RuntimeError("StreamingTopK: there has been no chunk yet")
        k, place = _check_own(local, k, group, offset, largest, magnitude, sorted, gather)
    except (TypeError, ValueError, RuntimeError) as error:
        trouble = error  # raised once the others are told, which wait for this rank
        mine = [0] * (8 + _MOST_DIMS - 1)
    else:
        flags = largest + 2 * magnitude + 4 * sorted + 8 * _GATHERS.index(gather)
        leading = list(local.shape[:-1]) + [-1] * (_MOST_DIMS - local.dim())
        dtype, device_type = _DTYPES_IN_ORDER.index(local.dtype), _DEVICE_TYPES.index(local.device.type)
        mine = [1, k, dtype, flags, device_type, *leading, local.shape[-1], place]
        mine.append(local.shape[-1] if extent is None else extent)
    # Where all ranks look for it, wherever their pieces are.
    device = torch.device(_device_types(group)[0])
    if isinstance(local, Tensor) and local.device.type == device.type:
        device = local.device
    said = exchange(torch.tensor(mine, dtype=torch.int64, device=device), group).tolist()
    rank = dist.get_rank(group)
    if trouble is not None:
        raise trouble

    def refuse(words: str) -> None:
        raise RuntimeError(f"{_NAME}(): {words}")

    for other, theirs in enumerate(said):
        if theirs[0] == 0:
            refuse(f"rank {other} was called with arguments that are not served: it says which")
    for place, what, show in (
        (1, "k", str),
        (2, "dtype", lambda number: str(_DTYPES_IN_ORDER[number])),
        (3, "largest, magnitude, sorted or gather", bin),
        (4, "device", lambda number: _DEVICE_TYPES[number]),
    ):
        found = [theirs[place] for theirs in said]
        if len(set(found)) > 1:
            refuse(f"ranks disagree in {what}: {', '.join(map(show, found))}, rank by rank")
    shapes = [[size for size in theirs[5:-3] if size >= 0] for theirs in said]
    if any(shape != shapes[0] for shape in shapes):
        refuse(f"ranks disagree in the leading dimensions: {shapes}, rank by rank")
    sizes, given, extents = ([theirs[place] for theirs in said] for place in (-3, -2, -1))
    if len({theirs < 0 for theirs in given}) > 1:
        refuse(f"offset must be given on all ranks or on none: {given}, rank by rank, -1 for none")
    offsets = given if given[0] >= 0 else [sum(sizes[:r]) for r in range(len(sizes))]
    shards = Shards(sizes, offsets)
    order = [one for one in shards.in_order() if extents[one] > 0]
    for one, next_one in itertools.pairwise(order):
        if offsets[one] + extents[one] > offsets[next_one]:
            refuse(
                f"the pieces of ranks {one} and {next_one} overlap: the one is "
                f"[{offsets[one]}, {offsets[one] + extents[one]}), the other begins at {offsets[next_one]}"
            )
    return rank, shards


_GATHERS = ("all", "root", "none")
_DTYPES_IN_ORDER = sorted(_DTYPES, key=str)


_DEVICE_TYPES = ("cpu", "cuda")


def _device_types(group: dist.ProcessGroup | None) -> list[str]:
    """Where the group's messages may lie: NCCL's on CUDA alone."""
    backends = dist.get_backend_config(group).split(",")
    served = {backend.split(":")[0] for backend in backends}
    return [kind for kind in _DEVICE_TYPES if kind in served]


def _to_root(mine: Tensor, group: dist.ProcessGroup | None) -> Tensor | None:
    """The same, on rank 0 of the group alone."""
    root = dist.get_global_rank(group, 0) if group is not None else 0
    parts = None
    if dist.get_rank(group) == 0:
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.gather(mine, parts, dst=root, group=group)
    return None if parts is None else torch.stack(parts)


def merge_lists(
    values: Tensor | None,
    indices: Tensor | None,
    k: int,
    first: int,
    end: int,
    group: dist.ProcessGroup | None = None,
    largest: bool = True,
    magnitude: bool = False,
) -> tuple[Tensor, Tensor]:
    """The k best, sorted, of lists that ranks have of rows whose pieces lie at [first, end): at most k
    entries each, in order, with their indices in the whole row. If all have fewer than k, all of them. None:
    a rank has no list, which all are told."""
    _, shards = _agree(values, k, group, first, largest, magnitude, True, "all", end - first)
    leading = values.shape[:-1]
    lists = _Lists(*(t.reshape(math.prod(leading), t.shape[-1]) for t in (values, indices)))
    k = min(k, sum(shards.sizes))
    merged = select_of_lists(lists, k, shards, group, largest, magnitude)
    return merged.values.view(*leading, k), merged.indices.view(*leading, k)


# ---- Between lists ----


def select_of_lists(
    lists: _Lists,
    k: int,
    shards: Shards,
    group: dist.ProcessGroup | None,
    largest: bool = True,
    magnitude: bool = False,
    sorted: bool = True,
    gather: Gather = "all",
    narrows: bool | None = None,
) -> ShardedTopK:
    """The k best of all ranks' lists, each of min(k, shards.sizes[rank]) entries. `narrows`: by a search for
    the k-th best, or by gathering all lists; None: whichever moves less."""
    rows = lists.values.shape[0]
    lengths = [min(k, size) for size in shards.sizes]
    if narrows is None:
        entry_bytes = lists.values.element_size() + 8
        gathered = rows * max(lengths) * entry_bytes * len(lengths)
        counted = rows * passes_of(lists.values.element_size()) * (8 << _DIGIT_BITS)
        narrows = _saves_by_narrowing(gathered, counted, lists.values.device)
    rank = dist.get_rank(group)
    counts = None  # of each rank's lists, where they differ
    if narrows:
        counts = _own_winners(lists, k, shards, group, largest, magnitude)
        if gather == "none":
            return _keep(lists, counts[rank])
        width = int(counts.max()) if counts.numel() > 0 else 0  # the same on every rank
    else:
        width = max(lengths)
        if min(lengths) < width:
            counts = torch.tensor(lengths, device=lists.values.device)[:, None].expand(-1, rows)
    gathered = _gather_lists(lists, width, group, gather == "root")
    if gathered is None:
        empty = lists.values.new_empty((rows, 0))
        return ShardedTopK(empty, lists.indices.new_empty((rows, 0)), lists.indices.new_zeros(rows))
    winners = _merge(gathered, counts, k, shards, largest, magnitude, sorted)
    if gather != "none":
        return ShardedTopK(*winners, lists.indices.new_full((rows,), k))
    # Its own are the first of this rank's list: none before the k-th is left out.
    begin = shards.offsets[rank]
    own = (winners.indices >= begin) & (winners.indices < begin + shards.sizes[rank])
    return _keep(lists, own.sum(-1))


def _keep(lists: _Lists, counts: Tensor) -> ShardedTopK:
    """The first counts[row] of each row, and padding."""
    width = int(counts.max()) if counts.numel() > 0 else 0
    values, indices = lists.values[:, :width].clone(), lists.indices[:, :width].clone()
    behind = torch.arange(width, device=counts.device) >= counts[:, None]
    indices.masked_fill_(behind, -1)
    integers_of(values).masked_fill_(behind, 0)
    return ShardedTopK(values, indices, counts.clone())


def _saves_by_narrowing(gathered: int, counted: int, device: torch.device) -> bool:
    return gathered > max(_GATHERED_PER_COUNTED * counted, _GATHERED_BYTES.get(device.type, 0))


def _gather_lists(
    lists: _Lists, width: int, group: dist.ProcessGroup | None, to_root: bool
) -> list[_Lists] | None:
    """The first `width` of each rank's lists, in one message; shorter ones are filled up."""
    rows, length = lists.values.shape
    if rows * width == 0:  # there is nothing to send
        empty = _Lists(lists.values[:, :0], lists.indices[:, :0])
        return None if to_root and dist.get_rank(group) != 0 else [empty] * dist.get_world_size(group)
    filled = []
    for tensor in (integers_of(lists.values), lists.indices):
        part = tensor.new_zeros((rows, width))
        part[:, : min(width, length)] = tensor[:, :width]
        filled.append(part)
    mine = pack(filled)
    gathered = _to_root(mine, group) if to_root else exchange(mine, group)
    if gathered is None:
        return None
    values, indices = unpack(gathered, filled)
    return [_Lists(*both) for both in zip(values.view(lists.values.dtype), indices, strict=True)]


def _merge(
    gathered: list[_Lists],
    counts: Tensor | None,
    k: int,
    shards: Shards,
    largest: bool,
    magnitude: bool,
    sorted: bool,
) -> _Lists:
    """The k best of the first counts[rank, row] of each list, or of all of each. Lists go one behind the
    other in the order of their pieces: of equal values the lower position then has the lower index, which is
    topk's rule for ties."""
    order = shards.in_order()
    rows, width = gathered[0].values.shape
    if rows == 0:
        return _Lists(gathered[0].values.new_empty((0, k)), gathered[0].indices.new_empty((0, k)))
    values = torch.cat([integers_of(gathered[rank].values) for rank in order], 1)
    indices = torch.cat([gathered[rank].indices for rank in order], 1)
    if counts is not None:
        there = torch.arange(width, device=counts.device) < counts[order, :, None]
        there = there.transpose(0, 1).reshape(rows, -1)
        total = int(there[0].sum())  # the same in every row
        values, indices = (one[there].view(rows, total) for one in (values, indices))
    values = values.view(gathered[0].values.dtype)
    if values.shape[1] == k and not sorted:
        return _Lists(values, indices)
    best, places = topk_of_rows(values, k, -1, largest, sorted, magnitude=magnitude)
    return _Lists(best, indices.gather(1, places))


# ---- The search for the k-th best ----


def passes_of(element_size: int) -> int:
    return -(-8 * element_size // _DIGIT_BITS)


def _own_winners(
    lists: _Lists, k: int, shards: Shards, group: dist.ProcessGroup | None, largest: bool, magnitude: bool
) -> Tensor:
    """[ranks, rows]: how many of each rank's lists win, which are the first of them."""
    keys = _keys(lists.values, largest, magnitude)
    rows = keys.shape[0]
    falling = ~keys  # in ascending order, as searchsorted wants it

    def reaching(bounds: Tensor) -> Tensor:
        """How many of the row's keys are at least the bound."""
        return torch.searchsorted(falling, (~bounds).contiguous(), right=True)

    # After each pass the k-th best key of all begins with these bits.
    bits = 8 * lists.values.element_size()
    prefix = keys.new_full((rows, 1), -1 if bits == 64 else 0)
    passes = passes_of(lists.values.element_size())
    digits = torch.arange(1 << _DIGIT_BITS, device=keys.device)
    for number in range(passes):
        shift = (passes - 1 - number) * _DIGIT_BITS
        if number == 0:  # the bits that are left over, and the sign of 64-bit keys
            first = bits - shift
            low = -(1 << (first - 1)) if bits == 64 else 0
            candidates = torch.arange(low, low + (1 << first), device=keys.device).expand(rows, -1)
        else:
            candidates = (prefix << _DIGIT_BITS) + digits
        counts = reaching(candidates << shift)
        dist.all_reduce(counts, group=group)
        # Fewer reach a greater digit.
        place = (counts >= k).sum(1, keepdim=True) - 1
        prefix = candidates.gather(1, place)
    at_least = reaching(prefix)
    above = torch.searchsorted(falling, (~prefix).contiguous())
    both = exchange(torch.cat([above, at_least - above]).flatten(), group).view(-1, 2, rows)
    above, equal = both[:, 0], both[:, 1]
    # Of those equal to the k-th the lower indices win: pieces in their order.
    order = torch.tensor(shards.in_order(), device=keys.device)
    before = torch.empty_like(equal)
    before[order] = equal[order].cumsum(0) - equal[order]
    needed = k - above.sum(0)
    return above + torch.minimum((needed - before).clamp_(min=0), equal)


# The bits of the largest magnitude that is not NaN.
_MOST_MAGNITUDE = {
    torch.float8_e4m3fn: 0x7E,
    torch.float8_e5m2: 0x7C,
    torch.float16: 0x7C00,
    torch.bfloat16: 0x7F80,
    torch.float32: 0x7F800000,
    torch.float64: 0x7FF0000000000000,
}


def _keys(values: Tensor, largest: bool, magnitude: bool) -> Tensor:
    """int64 that rise with how good a value is, equal where values are: in [0, 2^bits), or any of 64 bits."""
    width = values.element_size()
    middle = 0 if width == 8 else 1 << (8 * width - 1)
    if values.is_floating_point():
        bits = integers_of(values).long()
        size = bits & ((1 << (8 * width - 1)) - 1)
        infinity = _MOST_MAGNITUDE[values.dtype]
        keys = size if magnitude else torch.where(bits < 0, -size, size)
        keys = torch.where(size > infinity, infinity + 1, keys) + middle
    elif values.dtype.is_signed:
        keys = values.long()
        # |x| - 1 has room for the least number's, and for 0.
        keys = (~torch.where(keys < 0, keys, -keys) if magnitude else keys) + middle
    elif width == 8:
        keys = values.view(torch.int64) ^ -(1 << 63)
    else:
        keys = values.long()
    if largest:
        return keys
    return ~keys if width == 8 else ((1 << (8 * width)) - 1) - keys
