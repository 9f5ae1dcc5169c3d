"""``install()``: these kernels behind ``aten::topk``, so that whoever calls ``torch.topk`` gets them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator

import torch

from ._libraries import has_cuda, why_no_cuda

__all__ = ["install", "installed", "uninstall"]

_DEVICES = ("cpu", "cuda")
_OPS = ("topk",)


def install(*, devices: Iterable[str] = _DEVICES, ops: Iterable[str] = _OPS) -> None:
    """Puts these kernels behind ``torch.topk``, for the whole process: ``Tensor.topk``, models, torchvision
    and C++ code call them from then on, unchanged. Nothing does this unasked, and twice is once.

    Results are ``torch.topk``'s but for equal elements, of which the lower index wins; with ``sorted=False``
    too, whose order is by value under ``torch.use_deterministic_algorithms(True)``. Gradients, ``out=``,
    ``torch.func``, ``torch.compile`` and DTensor stay torch's own. What ``torch.topk`` does not serve (bad
    arguments, other dtypes) its own kernel refuses, in its words; sparse and quantized tensors never come
    here. A package of ahead-of-time inductor calls torch's kernel by name, and so keeps it.

    Call it while no other thread is in ``torch.topk``, and anew in a process that is spawned, not forked.

    Args:
        devices: of "cpu" and "cuda". "cuda" does nothing where torch has no GPU.
        ops: "topk" is all there is: ``kthvalue`` and ``sort`` stay torch's.

    Raises:
        ValueError: another device or op.
        RuntimeError: "cuda", where torch has a GPU and the CUDA library is not loaded. Then nothing is
            installed.
    """
    _switch(devices, ops, True)


def uninstall(*, devices: Iterable[str] = _DEVICES, ops: Iterable[str] = _OPS) -> None:
    """Takes ``install`` back: torch's own kernels are there again. Where nothing is installed, nothing is
    done."""
    _switch(devices, ops, False)


@contextlib.contextmanager
def installed(*, devices: Iterable[str] = _DEVICES, ops: Iterable[str] = _OPS) -> Iterator[None]:
    """``install`` for a ``with`` block, for all threads; at its end all is as it was before."""
    switched = _switch(devices, ops, True)
    try:
        yield
    finally:
        _switch(switched, _OPS, False)  # not `ops`, which an iterator gives once


def _some_of(name: str, given: Iterable[str], known: tuple[str, ...]) -> list[str]:
    # An iterator gives them once.
    some = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if isinstance(given, str) or any(one not in known for one in some):
        raise ValueError(f"{name} must be some of {known}, not {given!r}")
    return some


def _switch(devices: Iterable[str], ops: Iterable[str], on: bool) -> list[str]:
    """Returns the devices for which that changed anything."""
    devices, ops = _some_of("devices", devices, _DEVICES), _some_of("ops", ops, _OPS)
    if on and "cuda" in devices and not has_cuda and torch.cuda.is_available():
        raise RuntimeError(f"install(): no kernels for cuda: {why_no_cuda()}; or leave it out of devices")
    switches = {"cpu": torch.ops.gputopk._install_cpu}
    if has_cuda:
        switches["cuda"] = torch.ops.gputopk._install_cuda
    if "topk" not in ops:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [d for d in switches if d in devices and _Quietly.apply(switches[d], on) != on]


class _Quietly(torch.autograd.Function):
    """Calls. The dispatcher warns, from C++, of a kernel that takes another's place; within a Function, torch
    makes Python's warnings of such, which can be silenced."""

    @staticmethod
    def forward(ctx, switch, on):
        return switch(on)
