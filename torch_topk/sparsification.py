"""Training with sparse gradients: each rank sends the largest magnitudes of its gradient, and keeps the rest
for the next step (error feedback).

    state = TopKState(ratio=0.01, parameters=model.parameters())
    ddp.register_comm_hook(state, topk_hook)

What is sent is one message a bucket: values and int32 indices of the same number on every rank, so that one
all_gather without sizes moves them. Every rank adds up what all have sent, rank by rank, so that parameters
stay equal to the bit.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from . import _rows
from ._messages import all_gather_single, pack, unpack
from ._overlap import overlap
from .sparsify import sparsify_

__all__ = ["CompressionStats", "TopKState", "sparse_all_reduce_", "sparse_sum", "topk_hook"]

_logger = logging.getLogger(__name__)


def sparse_sum(
    values: Tensor,
    indices: Tensor,
    size: int,
    *,
    out: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """The dense sum of sparse vectors, one a rank: ``sum over r of scale * values[r] at indices[r]``.

    The vectors are added one after the other, and no index may occur twice in one, so that each element is a
    sum in the order of the ranks: the same to the bit wherever it is computed, which a scatter of all of them
    by atomics is not.

    Args:
        values: [ranks, k], floating.
        indices: [ranks, k], int32 or int64, in [0, size), each row without repetition.
        size: elements of the sum.
        out: [size], floating, to write to, also where values or indices lie; float16 and bfloat16 are summed
            in float32 and rounded once.
        scale: what values are multiplied with before they are added, in float32 (float64 for float64).

    Returns:
        ``out``, or a new tensor of values' dtype.

    Raises:
        TypeError: an argument of another type or dtype.
        RuntimeError: shapes or devices that do not fit together, an ``out`` of which elements share memory;
            on the CPU also an index out of range. Raised before anything is written. On CUDA, where looking
            would wait for the device, such an index is a failed assertion of torch's kernel.
    """
    size = _check_sum(values, indices, size, out, scale)
    if values.dim() != 2 or values.shape != indices.shape:
        raise RuntimeError(
            "sparse_sum(): values and indices must have one shape, [ranks, k], but have "
            f"{list(values.shape)} and {list(indices.shape)}"
        )
    if out is not None and out.shape != (size,):
        raise RuntimeError(f"sparse_sum(): out must have shape [{size}], but has {list(out.shape)}")
    if indices.is_cpu and _rows.has_elements(indices):
        least, most = (int(one) for one in indices.aminmax())
        if least < 0 or most >= size:
            raise RuntimeError(f"sparse_sum(): indices must be in [0, {size}), but are in [{least}, {most}]")
    in_place = out is not None and not any(_shared(out, one) for one in (values, indices))
    if out is None:
        out = values.new_empty(size)
    wide = torch.float64 if out.dtype == torch.float64 else torch.float32
    total = out.zero_() if in_place and out.dtype == wide else torch.zeros_like(out, dtype=wide)
    scaled = values.to(wide) if scale == 1 else values.to(wide) * scale
    for rank_values, rank_indices in zip(scaled, indices, strict=True):
        total.index_add_(0, rank_indices, rank_values)
    return out if total is out else out.copy_(total)


def _shared(a: Tensor, b: Tensor) -> bool:
    return _rows.has_elements(a) and _rows.has_elements(b) and overlap(a, b)


def _check_sum(values: Any, indices: Any, size: Any, out: Any, scale: Any) -> int:
    """``size``, after the checks of types, dtypes and devices."""
    for name, tensor in (("values", values), ("indices", indices), ("out", out)):
        if not isinstance(tensor, Tensor) and not (name == "out" and tensor is None):
            raise TypeError(f"sparse_sum(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    size = _rows.integer("sparse_sum", "size", size)
    if size < 0:
        raise RuntimeError(f"sparse_sum(): size must be at least 0, but is {size}")
    if isinstance(scale, bool) or not isinstance(scale, (int, float, torch.SymFloat)):
        raise TypeError(f"sparse_sum(): argument 'scale' must be float, not {type(scale).__name__}")
    if indices.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"sparse_sum(): indices must be int32 or int64, not {indices.dtype}")
    for name, tensor in (("values", values), ("out", out)):
        if tensor is not None and not tensor.is_floating_point():
            raise TypeError(f"sparse_sum(): {name} must be floating, not {tensor.dtype}")
    for name, tensor in (("indices", indices), ("out", out)):
        if tensor is not None and tensor.device != values.device:
            raise RuntimeError(
                f"sparse_sum(): {name} must be on the values' device, {values.device}, but is on "
                f"{tensor.device}"
            )
    if out is not None:
        _rows.check_apart("sparse_sum", "out", out)
    return size


class CompressionStats(NamedTuple):
    """What one rank has sent so far."""

    rate: float
    """bytes_before / bytes_sent."""
    numel_before: int
    numel_sent: int
    bytes_before: int
    """What a dense all-reduce takes as its input."""
    bytes_sent: int
    """What this rank handed to all_gather and all_reduce."""


_KEPT = (torch.float32, torch.bfloat16, torch.float16, torch.float64)  # what sparsify_ serves
_SENT = (*_KEPT, torch.float8_e4m3fn, torch.float8_e5m2)


@dataclasses.dataclass
class TopKState:
    """What sparse training remembers from step to step: residuals, one element a gradient element.

    Args:
        ratio: the share of elements that a step sends, 0 < ratio <= 1; or
        k: how many, of each bucket or parameter.
        process_group: the ranks; None is the default group.
        momentum: mu of momentum that is corrected for sparsity: the momentum of what is not sent yet goes on
            here, and of what is sent starts anew. The optimizer then has none.
        warmup: pairs (iteration, ratio): up to that iteration this ratio holds. In ascending order.
        start_iter: gradients of the iterations before go dense, as DDP puts its buckets in order after the
            first.
        min_numel: buckets, or parameters, of fewer elements always go dense.
        value_dtype: what values are sent as; what rounding loses stays in the residual. None: the residual's.
        residual_dtype: torch.float32, or None: the gradient's.
        scope: "bucket": the largest of each bucket. "parameter": of each parameter, in one message a bucket.
        parameters: the model's, in their order. With them residuals belong to parameters, not to places in
            buckets: needed for ``state_dict``, and where DDP may put buckets in another order later.
        unused_parameters: where DDP has ``find_unused_parameters``: of a parameter whose gradient here is
            zero all over nothing is sent or changed, for DDP would drop it if no rank has used the parameter.

    A copy, or what was pickled, has neither process group nor parameters: give its ``state_dict`` to a state
    that is made with them.

    Raises:
        TypeError: an argument of another type.
        ValueError: both or neither of ``ratio`` and ``k``, a ratio outside (0, 1], ``k`` below 1, a scope of
            another name, a dtype that is not floating, a warmup that is not in ascending order.
    """

    ratio: float | None = None
    k: int | None = None
    process_group: dist.ProcessGroup | None = None
    momentum: float | None = None
    warmup: Sequence[tuple[int, float]] = ()
    start_iter: int = 2
    min_numel: int = 2**12
    value_dtype: torch.dtype | None = None
    residual_dtype: torch.dtype | None = None
    scope: Literal["bucket", "parameter"] = "bucket"
    parameters: dataclasses.InitVar[Iterable[Tensor] | None] = None
    unused_parameters: bool = False

    def __post_init__(self, parameters: Iterable[Tensor] | None) -> None:
        if (self.ratio is None) == (self.k is None):
            raise ValueError("TopKState(): give ratio or k, one of them")
        for name in ("ratio", "momentum"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
                raise TypeError(
                    f"TopKState(): argument '{name}' must be float or None, not {type(number).__name__}"
                )
        for name in ("start_iter", "min_numel"):
            setattr(self, name, _rows.integer("TopKState", name, getattr(self, name)))
        for name, dtypes in (("value_dtype", _SENT), ("residual_dtype", _KEPT)):
            dtype = getattr(self, name)
            if dtype is not None:
                _rows.check_dtype("TopKState", name, dtype)
                if dtype not in dtypes:
                    known = ", ".join(str(one).removeprefix("torch.") for one in dtypes)
                    raise ValueError(f"TopKState(): {name} must be one of {known}, not {dtype}")
        ratios = [ratio for _, ratio in self.warmup] + ([] if self.ratio is None else [self.ratio])
        if any(not 0 < ratio <= 1 for ratio in ratios):
            raise ValueError(f"TopKState(): a ratio must be in (0, 1], but they are {ratios}")
        if self.k is not None:
            self.k = _rows.integer("TopKState", "k", self.k, "int or None")
            if self.k < 1:
                raise ValueError(f"TopKState(): k must be at least 1, but is {self.k}")
        _rows.check_choice("TopKState", "scope", self.scope, ("bucket", "parameter"))
        _rows.check_bool("TopKState", "unused_parameters", self.unused_parameters)
        if list(self.warmup) != sorted(self.warmup):
            raise ValueError(f"TopKState(): warmup must be in ascending order, but is {self.warmup}")
        self._numbers = None if parameters is None else {id(p): i for i, p in enumerate(parameters)}
        self._iterations: dict[Hashable, int] = {}
        self._residuals = _Kept()
        self._momenta = _Kept()
        self._counts = [0, 0, 0, 0]
        self._called = False  # by DDP, since it was made or loaded

    def k_of(self, numel: int, iteration: int) -> int:
        """How many elements of so many are sent: a function of the arguments, so the same on every rank."""
        ratio = next((ratio for until, ratio in self.warmup if iteration < until), self.ratio)
        if ratio is None:
            return min(self.k, numel)
        return max(1, min(numel, round(ratio * numel)))

    def compression_stats(self) -> CompressionStats:
        """Of this rank, since it started or was loaded."""
        return CompressionStats(self._counts[2] / max(1, self._counts[3]), *self._counts)

    def rescale_(self, factor: float) -> None:
        """Multiplies what is kept. After ``torch.amp.GradScaler.update``: by the new scale over the old one,
        where that changed, as residuals are of scaled gradients."""
        for tensor in (*self._residuals.tensors(), *self._momenta.tensors()):
            tensor.mul_(factor)

    def state_dict(self) -> dict[str, Any]:
        """This rank's residuals and momenta, copied, and where it stands: each rank saves its own."""
        return {
            "iterations": dict(self._iterations),
            "residuals": self._residuals.copies(),
            "momenta": self._momenta.copies(),
            "counts": list(self._counts),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What ``state_dict`` gave on this rank. ``topk_hook`` then needs ``parameters`` in the same order.
        The hook goes on to the bit where its selections are the same: with scope "parameter", or where DDP's
        first buckets are those of later iterations (it orders none anew where it finds unused parameters)."""
        self._iterations = dict(state_dict["iterations"])
        self._residuals = _Kept(state_dict["residuals"])
        self._momenta = _Kept(state_dict["momenta"])
        self._counts = list(state_dict["counts"])
        self._called = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the process group, which cannot be saved, and the parameters' identities."""
        state = dict(self.__dict__)
        state["process_group"] = None
        state["_numbers"] = None
        state["_called"] = False  # topk_hook is to ask for parameters, as of a loaded state_dict
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        _logger.warning(
            "TopKState: neither the process group nor parameters are saved with it: the default group is "
            "set, and parameters must be given again: "
            "TopKState(parameters=...).load_state_dict(this.state_dict())"
        )
        self.__dict__.update(state)

    def _key_of(self, parameter: Tensor, bucket: int, place: int) -> Hashable:
        if self._numbers is None:
            return f"{bucket}.{place}"
        if id(parameter) not in self._numbers:
            raise RuntimeError(
                "topk_hook(): TopKState's parameters lack one of shape " + str(list(parameter.shape))
            )
        return self._numbers[id(parameter)]

    def _count(self, numel: int, sent: int, bytes_before: int, bytes_sent: int) -> None:
        for i, more in enumerate((numel, sent, bytes_before, bytes_sent)):
            self._counts[i] += more


class _Kept:
    """One element for each of every gradient seen. What belongs to a piece of a gradient lies in one flat
    tensor with its neighbours', so that a bucket is selected from at once; where they change, it moves."""

    def __init__(self, pieces: dict[Hashable, Tensor] | None = None):
        self._pieces = {key: piece.clone().flatten() for key, piece in (pieces or {}).items()}
        self._flats: dict[tuple[Hashable, ...], Tensor] = {}

    def flat(self, keys: tuple[Hashable, ...], like: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
        """Of these pieces, one behind the other; zeros where a piece is new."""
        if keys in self._flats:
            return self._flats[keys]
        flat = torch.zeros(sum(t.numel() for t in like), dtype=dtype, device=like[0].device)
        for key, place in zip(keys, flat.split([t.numel() for t in like]), strict=True):
            if key in self._pieces:
                if self._pieces[key].numel() != place.numel():
                    raise RuntimeError(
                        f"TopKState: {place.numel()} elements of gradient number {key}, but "
                        f"{self._pieces[key].numel()} are kept for it"
                    )
                place.copy_(self._pieces[key])
            self._pieces[key] = place
        self._flats = {old: t for old, t in self._flats.items() if not set(old) & set(keys)}
        self._flats[keys] = flat
        return flat

    def copies(self) -> dict[Hashable, Tensor]:
        return {key: piece.clone() for key, piece in self._pieces.items()}

    def tensors(self) -> Iterable[Tensor]:
        return self._pieces.values()


# ---- A step ----


class _Held:
    """What is kept for parameters that this rank has not used, while others are selected from. Decided on the
    device, as reading it back would wait for the gradient."""

    def __init__(self, gradients: Sequence[Tensor], kept: Sequence[Tensor]):
        sizes = [gradient.numel() for gradient in gradients]
        used = [gradient.ne(0).any().expand(gradient.numel()) for gradient in gradients]
        self._unused = torch.cat(used).logical_not_()
        assert all(flat.numel() == sum(sizes) for flat in kept)
        self._kept = kept
        self._before = [flat.clone() for flat in kept]
        for flat in kept:
            flat.masked_fill_(self._unused, 0)

    def put_back(self) -> None:
        for flat, before in zip(self._kept, self._before, strict=True):
            torch.where(self._unused, before, flat, out=flat)


def _select(
    state: TopKState,
    keys: tuple[Hashable, ...],
    gradients: Sequence[Tensor],
    flat: Tensor,
    iteration: int,
) -> tuple[Tensor, Tensor]:
    """Accumulates gradients, which lie one behind the other as `flat`, and takes the largest of them all."""
    dtype = state.residual_dtype or flat.dtype
    residual = state._residuals.flat(keys, gradients, dtype)
    options: dict[str, Any] = {"add": flat}
    kept = [residual]
    if state.momentum is not None:
        options |= {"momentum": state._momenta.flat(keys, gradients, dtype), "mu": state.momentum}
        kept.append(options["momentum"])
    held = _Held(gradients, kept) if state.unused_parameters else None
    numel = flat.numel()
    index_dtype = torch.int32 if numel < 2**31 else torch.int64
    values, indices = sparsify_(residual, state.k_of(numel, iteration), index_dtype=index_dtype, **options)
    if state.value_dtype is not None and state.value_dtype != dtype:
        sent = values.to(state.value_dtype)
        lost = values - sent.to(dtype)
        # Of an infinity, sent or rounded to, nothing is left to keep.
        residual.scatter_(0, indices.long(), torch.where(lost.isfinite(), lost, 0))
        values = sent
    if held is not None:
        held.put_back()
    return values, indices


def _group(state: TopKState, group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    return group or state.process_group or dist.group.WORLD


class _Plan(NamedTuple):
    """How the pieces of one buffer go: stretches that are selected from, and pieces that go dense."""

    sparse: list[tuple[tuple[Hashable, ...], list[Tensor], Tensor]]  # keys, gradients, and these as one
    dense: list[Tensor]


def _plan(
    state: TopKState, keys: list[Hashable], pieces: list[Tensor], whole: Tensor, iteration: int
) -> _Plan:
    if iteration < state.start_iter or whole.numel() == 0:
        return _Plan([], [whole])
    if state.scope == "bucket":
        if whole.numel() < state.min_numel:
            return _Plan([], [whole])
        return _Plan([(tuple(keys), pieces, whole)], [])
    plan = _Plan([], [])
    for key, piece in zip(keys, pieces, strict=True):
        if piece.numel() < state.min_numel:
            plan.dense.append(piece)
        else:
            plan.sparse.append(((key,), [piece], piece))
    return plan


def _start(state: TopKState, plan: _Plan, iteration: int, group: dist.ProcessGroup):
    """Starts what has to be sent. Returns the works, and functions that put the means in place after them."""
    ranks = dist.get_world_size(group)
    works, finishes = [], []
    if plan.sparse:
        taken = [_select(state, *sparse, iteration) for sparse in plan.sparse]
        mine = [values for values, _ in taken] + [indices for _, indices in taken]
        packed = pack(mine)
        gathered = packed.new_empty(ranks * packed.numel())
        works.append(all_gather_single(gathered, packed, group=group, async_op=True))
        numel = sum(to.numel() for _, _, to in plan.sparse)
        before = sum(to.numel() * to.element_size() for _, _, to in plan.sparse)
        state._count(numel, sum(values.numel() for values, _ in taken), before, packed.numel())

        def sum_up() -> None:
            theirs = unpack(gathered.view(ranks, -1), mine)
            for i, (_, _, to) in enumerate(plan.sparse):
                sparse_sum(theirs[i], theirs[i + len(taken)], to.numel(), out=to, scale=1 / ranks)

        finishes.append(sum_up)
    if plan.dense:
        flat = plan.dense[0] if len(plan.dense) == 1 else torch.cat(plan.dense)
        flat.div_(ranks)
        works.append(dist.all_reduce(flat, group=group, async_op=True))
        size = flat.numel() * flat.element_size()
        state._count(flat.numel(), flat.numel(), size, size)

        def copy_back() -> None:
            if len(plan.dense) > 1:
                for to, mean in zip(plan.dense, flat.split([t.numel() for t in plan.dense]), strict=True):
                    to.copy_(mean)

        finishes.append(copy_back)
    return works, finishes


def topk_hook(state: TopKState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """The communication hook of ``DistributedDataParallel``: ``ddp.register_comm_hook(state, topk_hook)``.

    Instead of the mean of the ranks' gradients a bucket becomes the mean of what they send of residual plus
    gradient; see ``TopKState``. Under ``no_sync`` DDP does not call it: what was accumulated comes at once.

    Raises:
        RuntimeError: a loaded ``state_dict``, or ``start_iter`` < 2, without ``TopKState``'s ``parameters``.
    """
    group = _group(state, None)
    iteration = state._iterations.get("ddp", 0)
    if state._numbers is None and (state.start_iter < 2 or (iteration > 0 and not state._called)):
        raise RuntimeError(
            "topk_hook(): DDP orders its buckets anew after the first iteration, so a loaded state_dict and "
            "start_iter < 2 need TopKState(parameters=model.parameters())"
        )
    state._called = True
    buffer = bucket.buffer()
    parameters = bucket.parameters()
    keys = [state._key_of(p, bucket.index(), i) for i, p in enumerate(parameters)]
    pieces = list(buffer.split([parameter.numel() for parameter in parameters]))
    works, finishes = _start(state, _plan(state, keys, pieces, buffer, iteration), iteration, group)
    if bucket.is_last():
        state._iterations["ddp"] = iteration + 1
    first, *others = [work.get_future() for work in works]
    if others and not buffer.is_cuda:
        first, others = torch.futures.collect_all([first, *others]), []
    # A future of collect_all knows of no device, so none of its streams would wait, and it would refuse the
    # buffer. NCCL's are complete at once: to wait for one is its stream's.

    def finish(done: torch.futures.Future) -> Tensor:
        done.value()  # raises what a rank's failure has raised
        for other in others:
            other.wait()
        for one in finishes:
            one()
        return buffer

    return first.then(finish)


if dist.is_available():
    # DDP compares these with the classes, and this module's annotations are text.
    topk_hook.__annotations__ |= {"bucket": dist.GradBucket, "return": torch.futures.Future[Tensor]}


def sparse_all_reduce_(
    tensor: Tensor, state: TopKState, key: Hashable, group: dist.ProcessGroup | None = None
) -> None:
    """Puts in place of a gradient the mean of what all ranks send of it: what ``topk_hook`` does to a bucket.

    For FSDP2 over a mesh of replicas, one hook a module, of the group of its replicas:

        group = mesh["replicate"].get_group()
        module.set_all_reduce_hook(lambda gradient: sparse_all_reduce_(gradient, state, "layer 0", group))

    Args:
        tensor: dense, of any shape; the same on every rank.
        state: its iterations are counted by key; "parameter" has no meaning here.
        key: whose residual it is: str or int, so that ``state_dict`` can be saved.
        group: the ranks; None: ``state.process_group``.
    """
    flat = tensor.view(-1)
    iteration = state._iterations.get(key, 0)
    state._iterations[key] = iteration + 1
    works, finishes = _start(
        state, _plan(state, [key], [flat], flat, iteration), iteration, _group(state, group)
    )
    for work in works:
        work.wait()
    for finish in finishes:
        finish()
