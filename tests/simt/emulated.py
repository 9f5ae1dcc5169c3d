"""The kernels of csrc/cuda on the host: builds libgputopk_simt.so and calls it.

    from tests.simt import emulated
    emulated.check(tensor, k, form="air::OneBlock", device=emulated.Device(sm_count=2), seed=7)

A call runs the kernels over an emulated GPU whose blocks and lanes take turns by the seed. It raises Found where
the emulator has found what a GPU would not forgive, or might (a race, a read of memory that nobody wrote, lanes
that part ways, a wait without end), and AssertionError where the result is not the oracle's.

    python -m tests.simt.emulated          builds, and says which forms there are
    python -m tests.simt.emulated "..."    runs the case of that line: see Case
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from tests import inputs, oracle

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LARGEST_32_BIT = 0xFFFFFFFF
ALGORITHMS = ("auto", "air", "grid_select", "delegate", "bitonic", "split_bucket", "sort")

# csrc/core/problem.h's DType.
_DTYPES = {
    torch.bool: 0,
    torch.uint8: 1,
    torch.int8: 2,
    torch.uint16: 3,
    torch.int16: 4,
    torch.uint32: 5,
    torch.int32: 6,
    torch.uint64: 7,
    torch.int64: 8,
    torch.float8_e4m3fn: 9,
    torch.float8_e5m2: 10,
    torch.float16: 11,
    torch.bfloat16: 12,
    torch.float32: 13,
    torch.float64: 14,
}


class NotServed(Exception):
    """The form, or algorithm, does not serve the request."""


class Found(AssertionError):
    """What the emulator has found, with the plan that ran."""


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU of the test's making. `most_cols_of_32_bits`: longer rows have indices of 64 bits."""

    sm_count: int = 4
    compute_capability: int = 90
    shared_bytes: int = 227 * 1024
    cluster_blocks: int = 8
    most_cols_of_32_bits: int = LARGEST_32_BIT


class _Device(ctypes.Structure):
    _fields_ = [
        ("sm_count", ctypes.c_int32),
        ("compute_capability", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("cluster_blocks", ctypes.c_int32),
        ("most_cols_of_32_bits", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
    ]


class _Topk(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("dtype", "algorithm", "largest", "sorted", "magnitude", "wide_indices")),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "row_stride", "k")),
        ("form", ctypes.c_char_p),
        ("overrides", ctypes.c_char_p),
        ("input", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
    ]


def build(folder: Path = ROOT / "build" / "simt", csrc: Path | None = None, coverage: bool = False) -> Path:
    """Builds the library where it is older than its sources; returns it. MAX_JOBS compilers run at a time."""
    cmake, ninja = (shutil.which(tool, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
                    for tool in ("cmake", "ninja"))
    configure = [cmake, "-S", HERE, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    configure += [f"-DSIMT_COVERAGE={'ON' if coverage else 'OFF'}"]
    configure += [f"-DCSRC={csrc}"] if csrc else []
    if not (folder / "build.ninja").exists() or csrc or coverage:
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    jobs = os.environ.get("MAX_JOBS")
    subprocess.run([cmake, "--build", folder, *(["-j", jobs] if jobs else [])], check=True, stdout=subprocess.DEVNULL)
    return folder / "libgputopk_simt.so"


class Library:
    """One build of the kernels."""

    def __init__(self, path: Path):
        self.lib = ctypes.CDLL(str(path))

    def forms(self) -> list[str]:
        text = ctypes.create_string_buffer(4096)
        self.lib.simt_forms(text, ctypes.c_size_t(len(text)))
        return text.value.decode().split()

    def counts(self) -> dict[str, int]:
        counts = (ctypes.c_uint64 * 3)()
        self.lib.simt_counts(counts)
        return dict(zip(("launches", "block_turns", "thread_turns"), counts, strict=True))

    def _call(self, function, tensor, k, values, indices, device, seed, options) -> str:
        call = _Topk(
            dtype=_DTYPES[tensor.dtype],
            algorithm=ALGORITHMS.index(options.pop("algorithm", "auto")),
            largest=options.pop("largest", True),
            sorted=options.pop("sorted", True),
            magnitude=options.pop("magnitude", False),
            wide_indices=indices is None or indices.dtype == torch.int64,
            rows=tensor.shape[0],
            cols=tensor.shape[1],
            row_stride=tensor.stride(0) if tensor.shape[0] > 1 else tensor.shape[1],
            k=k,
            form=options.pop("form", "").encode(),
            overrides=",".join(f"{name}={value}" for name, value in options.items()).encode(),
            input=tensor.data_ptr(),
            values=0 if values is None else values.data_ptr(),
            indices=0 if indices is None else indices.data_ptr(),
        )
        text = ctypes.create_string_buffer(2048)
        result = function(
            ctypes.byref(call),
            ctypes.byref(_Device(**dataclasses.asdict(device), seed=seed)),
            text,
            ctypes.c_size_t(len(text)),
        )
        message = text.value.decode(errors="replace")
        if result == -1:
            raise NotServed(message)
        if result != 0:
            raise Found(message if result == -2 else f"CUDA error {result} ({message})")
        return message

    def plan(self, tensor: torch.Tensor, k: int, device: Device = Device(), **options) -> str:
        """The plan as text. `options`: as of topk."""
        return self._call(self.lib.simt_plan, tensor, k, None, None, device, 1, dict(options))

    def topk(self, tensor: torch.Tensor, k: int, device: Device = Device(), seed: int = 1, index_dtype=torch.int64,
             **options) -> tuple[torch.Tensor, torch.Tensor, str]:
        """(values, indices, plan) of a [rows, cols] tensor whose rows are adjacent elements.

        `algorithm` (a name) or `form` ("air::OneBlock"), `largest`, `sorted`, `magnitude`; all else are overrides
        of the form's numbers, entry.cpp has them; forced=1 runs a form also where it would not serve.
        """
        assert tensor.dim() == 2 and (tensor.stride(1) == 1 or tensor.shape[1] == 1)
        values = torch.empty((tensor.shape[0], k), dtype=tensor.dtype)
        indices = torch.empty((tensor.shape[0], k), dtype=index_dtype)
        plan = self._call(self.lib.simt_topk, tensor, k, values, indices, device, seed, dict(options))
        return values, indices, plan

    def check(self, tensor: torch.Tensor, k: int, device: Device = Device(), seed: int = 1, **options) -> str:
        """Runs it and compares with the oracle; returns the plan."""
        values, indices, plan = self.topk(tensor, k, device, seed, **options)
        flags = {name: options[name] for name in ("largest", "sorted", "magnitude", "index_dtype") if name in options}
        problem = oracle.topk_problem((values, indices), tensor, k, **flags)
        assert problem is None, f"{problem} ({plan})"
        return plan


@functools.cache
def library() -> Library:
    """The working tree's, built where it has to be."""
    return Library(build())


def check(*arguments, **options) -> str:
    return library().check(*arguments, **options)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call in one line: "float32 normal 3x1000 k=10 offset=1 gap=3 seed=5 form=air::OneBlock sm_count=2".

    dtype, named input and shape first, then in any order: k; offset, elements before the first, and gap, elements
    between two rows; seed, of input and schedule; fields of Device; algorithm or form, flags, overrides.
    """

    dtype: torch.dtype
    name: str
    rows: int
    cols: int
    k: int
    offset: int = 0
    gap: int = 0
    seed: int = 1
    device: Device = Device()
    options: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        parts = [oracle.name_of(self.dtype), self.name, f"{self.rows}x{self.cols}", f"k={self.k}"]
        parts += [f"{name}={getattr(self, name)}" for name in ("offset", "gap") if getattr(self, name)]
        parts += [f"seed={self.seed}"]
        for field in dataclasses.fields(Device):
            value = getattr(self.device, field.name)
            if value != field.default:
                parts.append(f"{field.name}={value}")
        parts += [f"{name}={oracle.name_of(v) if isinstance(v, torch.dtype) else int(v) if isinstance(v, bool) else v}"
                  for name, v in self.options]
        return " ".join(parts)

    @classmethod
    def parse(cls, line: str) -> Case:
        dtype, name, shape, *rest = shlex.split(line)
        rows, cols = map(int, shape.split("x"))
        words = dict(word.split("=", 1) for word in rest)
        own = {key: int(words.pop(key)) for key in ("k", "offset", "gap", "seed") if key in words}
        fields = {f.name: int(words.pop(f.name)) for f in dataclasses.fields(Device) if f.name in words}
        options: dict[str, object] = {}
        for key, value in words.items():
            if key in ("form", "algorithm"):
                options[key] = value
            elif key == "index_dtype":
                options[key] = getattr(torch, value)
            else:
                options[key] = bool(int(value)) if key in ("largest", "sorted", "magnitude") else int(value)
        return cls(getattr(torch, dtype), name, rows, cols, **own, device=Device(**fields),
                   options=tuple(options.items()))

    def tensor(self) -> torch.Tensor:
        """The input, at its offset and with its gaps, which hold bits of their own."""
        rows = inputs.make(self.name, self.rows, self.cols, self.dtype, "cpu", self.seed)
        if self.offset == 0 and self.gap == 0:
            return rows
        stride = self.cols + self.gap
        around = inputs.make("random_bits", 1, self.offset + self.rows * stride, self.dtype, "cpu", self.seed + 1)
        view = around[0, self.offset :].as_strided((self.rows, self.cols), (stride, 1))
        oracle.as_ints(view).copy_(oracle.as_ints(rows))
        return view

    def run(self, lib: Library | None = None) -> str:
        return (lib or library()).check(self.tensor(), self.k, self.device, self.seed, **dict(self.options))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(library().forms()))
    for line in sys.argv[1:]:
        print(Case.parse(line).run())
