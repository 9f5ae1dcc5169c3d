"""The libraries that are timed beside torch.topk, where they are installed; "not installed" where not.

    pylibraft    pylibraft.matrix.select_k (RAFT's own choice of algorithm), scratch from a stream's pool
    FlashInfer   flashinfer.top_k
    JAX          jax.lax.top_k, jitted, on the same GPU and memory (DLPack). Timed by the host's clock: calls
                 in a row until the last result is there, over their number. So it includes the dispatch
                 wherever that takes longer than the device. It always returns sorted results

None of them promises which of equal elements it takes, so a peer's result is checked as values: indices
unique and in range, values copied from there, and together the values that the exact operator returns.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from importlib import metadata

import torch

from bench.shapes import Point
from bench.timing import Contender, Outputs, two_tensors

NAMES = ("pylibraft", "flashinfer", "jax")
_PACKAGES = {
    "pylibraft": ("pylibraft-cu13", "pylibraft-cu12", "pylibraft"),
    "flashinfer": ("flashinfer-python", "flashinfer"),
    "jax": ("jax",),
}


class NotOfferedError(Exception):
    """Why a peer does not serve a point."""


def version(name: str) -> str | None:
    """The installed version, or None."""
    for package in _PACKAGES[name]:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def contender(name: str, point: Point) -> Contender:
    """The peer as a contender for a point on CUDA; raises NotOfferedError."""
    if point.magnitude:
        raise NotOfferedError("no selection by magnitude")
    if point.inner != 1:
        raise NotOfferedError("over the last dimension only")
    if version(name) is None:
        raise NotOfferedError("not installed")
    return _BUILDERS[name](point)


def _pylibraft(point: Point) -> Contender:
    if point.dtype != "float32":
        raise NotOfferedError("float32 only")
    select_k, resources = _import_pylibraft()

    def call(x: torch.Tensor) -> Outputs:
        values = torch.empty(point.rows, point.k, dtype=x.dtype, device=x.device)
        indices = torch.empty(point.rows, point.k, dtype=torch.int64, device=x.device)
        handle = resources(torch.cuda.current_stream().cuda_stream)
        select_k(x, k=point.k, distances=values, indices=indices, select_min=not point.largest, handle=handle)
        return values, indices

    return Contender("pylibraft", call, export=lambda outputs: outputs)


@functools.cache
def _import_pylibraft() -> tuple[Callable, Callable]:
    import rmm
    from pylibraft.common import DeviceResources
    from pylibraft.matrix import select_k

    # Plain cudaMalloc, the default, neither belongs in a timing nor can be captured.
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    return select_k, functools.cache(lambda stream: DeviceResources(stream=stream))


def _flashinfer(point: Point) -> Contender:
    if not point.largest:
        raise NotOfferedError("largest only")
    if point.dtype not in ("float16", "bfloat16", "float32"):
        raise NotOfferedError("float16, bfloat16 and float32 only")
    if point.cols >= 2**25:
        raise NotOfferedError("its spin barrier hangs on rows of 2^25 elements")
    import flashinfer

    def call(x: torch.Tensor) -> Outputs:
        return flashinfer.top_k(x, point.k, sorted=point.sorted)

    return Contender("flashinfer", call, export=two_tensors)


def _jax(point: Point) -> Contender:
    if not point.largest:
        raise NotOfferedError("largest only")
    if point.dtype not in ("float16", "bfloat16", "float32", "int32", "int16", "int8", "uint8"):
        raise NotOfferedError(f"no {point.dtype}")
    jax = _import_jax()
    select = jax.jit(lambda x: jax.lax.top_k(x, point.k))
    return Contender(
        "jax",
        select,
        prepare=jax.dlpack.from_dlpack,
        export=lambda outputs: (torch.from_dlpack(outputs[0]), torch.from_dlpack(outputs[1]).to(torch.int64)),
        wait=jax.block_until_ready,
        eager=False,
    )


@functools.cache
def _import_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs its share of the memory
    import jax
    import jax.dlpack

    try:
        jax.devices("gpu")
    except RuntimeError as error:
        raise NotOfferedError("installed without CUDA") from error
    return jax


_BUILDERS: dict[str, Callable[[Point], Contender]] = {
    "pylibraft": _pylibraft,
    "flashinfer": _flashinfer,
    "jax": _jax,
}


def values_problem(outputs: Outputs, exact_values: torch.Tensor, x: torch.Tensor, point: Point) -> str | None:
    """What is wrong with a result that may take any of equal elements; `exact_values` are proven right."""
    values, indices = outputs
    indices = indices.to(torch.int64)
    if list(values.shape) != [point.rows, point.k] or values.shape != indices.shape:
        return f"shapes {tuple(values.shape)} and {tuple(indices.shape)}"
    if bool(((indices < 0) | (indices >= point.cols)).any()):
        return "indices out of range"
    ascending = indices.sort(1).values
    if bool((ascending[:, 1:] == ascending[:, :-1]).any()):
        return "an index twice"
    if not _same(x.gather(1, indices), values):
        return "values are not input[indices]"
    got, want = (v.abs() if point.magnitude else v for v in (values, exact_values))
    if not _same(got.sort(1).values, want.sort(1).values):
        return "not the best values"
    if point.sorted and not _same(got, got.sort(1, descending=point.largest).values):
        return "output out of order"
    return None


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    both_nan = a.isnan() & b.isnan() if a.is_floating_point() else torch.zeros_like(a, dtype=torch.bool)
    return bool(((a == b) | both_nan).all())
