"""csrc/cpu by itself, at each level of vector instructions that this machine has.

The library picks the highest level at run time, so that the others would never be tested here. Each gets a
library that knows of no higher one, called through ctypes with buffers of exactly the sizes asked for: once
with canaries behind them, and once under the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import compiler, inputs, oracle

HERE = Path(__file__).resolve().parent
X86 = platform.machine().lower() in ("x86_64", "amd64")
# level: (flags, what the CPU must have), as CMakeLists.txt has them.
LEVELS = {
    "baseline": ([], []),
    "avx2": (["-mavx2", "-mfma", "-mbmi", "-mbmi2"], ["avx2", "fma", "bmi1", "bmi2"]),
    "avx512": (
        ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma", "-mbmi", "-mbmi2"],
        ["avx512f", "avx512bw", "avx512vl", "avx512dq", "bmi1", "bmi2"],
    ),
}
CANARY = 0xC5
GUARD = 256  # bytes of canaries behind each buffer


def cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def has_level(level: str) -> bool:
    return not LEVELS[level][1] or (X86 and set(LEVELS[level][1]) <= cpu_flags())


def compile_levels(folder: Path, *flags: str) -> list[Path]:
    """The object of each level that CMakeLists.txt would compile for this machine."""
    source = compiler.CSRC / "cpu" / "select_rows.cpp"
    return [
        compiler.compile_object(
            source,
            folder / f"select_rows_{level}.o",
            f"-DGPUTOPK_CPU_LEVEL={level}",
            *LEVELS[level][0],
            *flags,
        )
        for level in LEVELS
        if X86 or level == "baseline"
    ]


def build(folder: Path, level: str, levels: list[Path], *flags: str) -> Path:
    """The CPU algorithm of all `levels`, on a CPU that seems to have nothing beyond `level`."""
    higher = list(LEVELS)[list(LEVELS).index(level) + 1 :]
    hidden = " ".join(need for name in higher for need in LEVELS[name][1] if need not in LEVELS[level][1])
    pretend = f'-D__builtin_cpu_supports(name)=(!__builtin_strstr("{hidden}", name))'
    objects = [
        compiler.compile_object(source, folder / f"{source.stem}.o", pretend, *flags)
        for source in (compiler.CSRC / "cpu" / "topk_cpu.cpp", HERE / "topk_cpu_probe.cpp")
    ]
    return compiler.link_shared([*levels, *objects], folder / "probe.so", *flags)


class Probe:
    """The compiled algorithm, called on NumPy arrays."""

    def __init__(self, path: Path | str, guard: int = GUARD):
        self.library = ctypes.CDLL(str(path))
        self.library.probe_workspace_bytes.restype = ctypes.c_int64
        self.library.probe_dtype_name.restype = ctypes.c_char_p
        self.guard = guard
        names = [self.library.probe_dtype_name(i).decode() for i in range(len(oracle.DTYPES))]
        self.dtype_numbers = {dtype: names.index(oracle.name_of(dtype)) for dtype in oracle.DTYPES}

    def describe(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.library.probe_describe(text, ctypes.c_int64(256))
        return text.value.decode()

    def _buffer(self, size: int) -> np.ndarray:
        return np.full(size + self.guard, CANARY, np.uint8)

    def topk(self, tensor: torch.Tensor, k: int, threads: int, largest, sorted, magnitude, index_dtype):
        """values and indices of a contiguous [rows, cols] tensor, after a look at the canaries."""
        rows, cols = tensor.shape
        flags = (largest, sorted, magnitude, index_dtype == torch.int64)
        numbers = np.array([self.dtype_numbers[tensor.dtype], rows, cols, cols, k, *flags], np.int64)
        request = numbers.ctypes.data_as(ctypes.c_void_p)
        sizes = {
            "values": rows * k * tensor.dtype.itemsize,
            "indices": rows * k * index_dtype.itemsize,
            "workspace": self.library.probe_workspace_bytes(request, threads),
        }
        buffers = {name: self._buffer(size) for name, size in sizes.items()}
        # A copy, so that nothing but the row lies behind it.
        source = oracle.bits_of(tensor).copy()
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (source, *buffers.values())]
        self.library.probe_topk(request, threads, *pointers)
        for name, size in sizes.items():
            assert (buffers[name][size:] == CANARY).all(), f"written behind the {name}"
        assert (source == oracle.bits_of(tensor)).all(), "the input was written to"
        values = buffers["values"][: sizes["values"]].view(f"u{tensor.dtype.itemsize}").reshape(rows, k)
        indices = buffers["indices"][: sizes["indices"]].view(f"i{index_dtype.itemsize}").reshape(rows, k)
        return oracle.from_bits(values, tensor.dtype), torch.from_numpy(indices)


def fuzz(probe: Probe, examples: int, seed: int = 0) -> None:
    """Requests of every kind, each checked."""
    generator = random.Random(seed)
    for example in range(examples):
        dtype = generator.choice(oracle.DTYPES)
        cols = max(1, int(2 ** generator.uniform(0, 17)) + generator.randint(-2, 2))
        rows = generator.randint(1, max(1, min(6, (1 << 18) // cols)))
        k = min(cols, max(1, int(2 ** generator.uniform(0, 12))))
        k = generator.choice([k, k, max(1, cols - k), cols, 1])
        tensor = inputs.make(generator.choice(inputs.names_for(dtype)), rows, cols, dtype, seed=example)
        flags = [generator.random() < 0.5 for _ in range(3)]
        index_dtype = generator.choice([torch.int64, torch.int32])
        threads = generator.choice([1, 1, 2, 3, 8])
        result = probe.topk(tensor, k, threads, *flags, index_dtype)
        largest, order, magnitude = flags
        oracle.assert_topk(
            result, tensor, k, -1, largest, order, magnitude=magnitude, index_dtype=index_dtype
        )


@pytest.fixture(scope="module")
def levels(tmp_path_factory) -> list[Path]:
    return compile_levels(tmp_path_factory.mktemp("levels"))


@pytest.fixture(scope="module", params=LEVELS)
def probe(request, levels, tmp_path_factory) -> Probe:
    level = request.param
    if not has_level(level):
        pytest.skip(f"this CPU has no {level}")
    probe = Probe(build(tmp_path_factory.mktemp(level), level, levels))
    assert f"{level} vectors" in probe.describe()
    return probe


def test_every_level_answers_exactly_and_stays_in_its_buffers(probe, request):
    fuzz(probe, request.config.getoption("--fuzz-examples") or 300)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_level_answers_every_named_input_exactly(probe, dtype):
    for name in inputs.names_for(dtype):
        tensor = inputs.make(name, 2, 5000, dtype, seed=8)
        for k, (largest, order) in zip(
            (1, 33, 700, 4999), itertools.product((True, False), repeat=2), strict=True
        ):
            result = probe.topk(tensor, k, 1, largest, order, k == 33, torch.int64)
            oracle.assert_topk(result, tensor, k, -1, largest, order, magnitude=k == 33)


# Short rows with few winners have a kernel of their own: up to 1024 elements and k = 16, 16 rows at a time.
SHORT_COLS = [*range(1, 36), *range(61, 68), 100, *range(126, 131), 192, 200, 256, 1000, *range(1023, 1026)]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_level_answers_short_rows_exactly(probe, dtype):
    names = itertools.cycle(inputs.names_for(dtype))
    flags = itertools.cycle(itertools.product((True, False), repeat=3))
    index_dtypes = itertools.cycle([torch.int64, torch.int64, torch.int32])
    for cols in SHORT_COLS:
        tensor = inputs.make(next(names), 1 + cols % 34, cols, dtype, seed=cols)
        for k in {1, 2, cols % 15 + 2, 16, 17, cols}:
            if k > cols:
                continue
            (largest, order, magnitude), index_dtype = next(flags), next(index_dtypes)
            result = probe.topk(tensor, k, 1, largest, order, magnitude, index_dtype)
            oracle.assert_topk(
                result, tensor, k, -1, largest, order, magnitude=magnitude, index_dtype=index_dtype
            )


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int64, torch.float16, torch.uint8], ids=oracle.name_of
)
def test_every_level_tells_short_rows_with_crowds_and_ties_from_others(probe, dtype):
    """Rows of which too much reaches any floor lie between rows that are ranked, and rows of many ties."""
    for cols, k in itertools.product((64, 640, 1024), (2, 5, 8, 16)):
        tensor = inputs.make("normal", 50, cols, dtype, seed=cols + k)
        for step, rows in ((8, slice(3, None, 7)), (16, slice(4, None, 7)), (64, slice(5, None, 7))):
            places = torch.arange(0, cols, step)
            tensor[rows, places] = (100 + places.flip(0) % 27).to(dtype)
        tensor[6::7] = tensor[0, 0]
        tensor[6::14, cols // 2 :: 3] = 99
        for largest, order in itertools.product((True, False), repeat=2):
            result = probe.topk(tensor, k, 1, largest, order, False, torch.int64)
            oracle.assert_topk(result, tensor, k, -1, largest, order)


def test_the_canaries_are_looked_at(probe):
    """A library that asks for half its workspace is found out."""

    class Miser:
        def __getattr__(self, name):
            return getattr(probe.library, name)

        def probe_workspace_bytes(self, *arguments):
            return probe.library.probe_workspace_bytes(*arguments) // 2

    miser = Probe.__new__(Probe)
    miser.library, miser.dtype_numbers = Miser(), probe.dtype_numbers
    miser.guard = 1 << 25  # room for what lies behind the half
    tensor = inputs.make("increasing", 1, 300_000, torch.float64)
    with pytest.raises(AssertionError, match="behind the workspace"):
        miser.topk(tensor, 200_000, 1, True, True, False, torch.int64)


@pytest.mark.skipif(not X86, reason="levels are x86's")
def test_the_library_takes_the_highest_level_that_this_cpu_has():
    import torch_topk  # noqa: F401  registers the operator

    highest = [level for level in LEVELS if has_level(level)][-1]
    assert f"{highest} vectors" in torch.ops.gputopk._plan(torch.zeros(3, 100), 5)


# Under the sanitizers.

SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-g",
    "-fno-omit-frame-pointer",
]


def runtime_library(name: str) -> str | None:
    """The compiler's own copy of a sanitizer's runtime, to be loaded before all else."""
    found = subprocess.run(
        [*compiler.command(), f"-print-file-name={name}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return found if os.path.isabs(found) and os.path.exists(found) else None


UNDER_SANITIZERS = """
import sys
from tests.cpu.test_levels import Probe, fuzz
fuzz(Probe(sys.argv[1], guard=0), int(sys.argv[2]), seed=1)
print("clean")
"""


@pytest.fixture(scope="module")
def sanitized_levels(tmp_path_factory) -> list[Path]:
    return compile_levels(tmp_path_factory.mktemp("sanitized"), *SANITIZE)


@pytest.mark.parametrize("level", LEVELS)
def test_the_sanitizers_have_nothing_to_report(level, sanitized_levels, tmp_path):
    runtimes = [runtime_library("libasan.so"), runtime_library("libubsan.so")]
    if None in runtimes:
        pytest.skip("the compiler has no sanitizer runtimes")
    if not has_level(level):
        pytest.skip(f"this CPU has no {level}")
    library = build(tmp_path, level, sanitized_levels, *SANITIZE)
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(HERE.parents[1]),
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNDER_SANITIZERS, str(library), "100"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.strip() == "clean", done.stderr[-4000:]
