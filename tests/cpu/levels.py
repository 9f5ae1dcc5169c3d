"""csrc/cpu compiled for each level of vector instructions, for tests to call by ctypes.

The library picks the highest level at run time, so that the others would never be tested. Here each has a
library that knows of no higher one.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests import compiler

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


def compile_levels(folder: Path, kernels: str, *flags: str) -> list[Path]:
    """The object of csrc/cpu/`kernels`.cpp of each level that CMakeLists.txt would compile here."""
    return [
        compiler.compile_object(
            compiler.CSRC / "cpu" / f"{kernels}.cpp",
            folder / f"{kernels}_{level}.o",
            f"-DGPUTOPK_CPU_LEVEL={level}",
            *LEVELS[level][0],
            *flags,
        )
        for level in LEVELS
        if X86 or level == "baseline"
    ]


def link_level(folder: Path, level: str, levels: list[Path], name: str, *flags: str) -> Path:
    """csrc/cpu/`name`.cpp and its probe with the kernels of all `levels`, on a CPU that seems to have nothing
    beyond `level`."""
    higher = list(LEVELS)[list(LEVELS).index(level) + 1 :]
    hidden = " ".join(need for other in higher for need in LEVELS[other][1] if need not in LEVELS[level][1])
    pretend = f'-D__builtin_cpu_supports(name)=(!__builtin_strstr("{hidden}", name))'
    objects = [
        compiler.compile_object(source, folder / f"{source.stem}_{level}.o", pretend, *flags)
        for source in (compiler.CSRC / "cpu" / f"{name}.cpp", HERE / f"{name}_probe.cpp")
    ]
    return compiler.link_shared([*levels, *objects], folder / f"{level}.so", *flags)


def build(folder: Path, kernels: str, name: str, *flags: str) -> dict[str, Path]:
    """A library for each level that this CPU has."""
    levels = compile_levels(folder, kernels, *flags)
    return {level: link_level(folder, level, levels, name, *flags) for level in filter(has_level, LEVELS)}


# -O1: with -O3 the sanitizers' checks take minutes to compile.
SANITIZE = [
    "-O1",
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


def sanitizers() -> list[str]:
    """Their runtimes; skips the test where there is none."""
    runtimes = [runtime_library("libasan.so"), runtime_library("libubsan.so")]
    if None in runtimes:
        pytest.skip("the compiler has no sanitizer runtimes")
    return runtimes


def libraries_of(kernels: str, name: str, *flags: str):
    """A module's fixture: `build`, once."""

    @pytest.fixture(scope="module")
    def libraries(tmp_path_factory) -> dict[str, Path]:
        if flags == tuple(SANITIZE):
            sanitizers()  # without them nothing links
        return build(tmp_path_factory.mktemp(name), kernels, name, *flags)

    return libraries


def run_sanitized(module: str, library: Path, examples: int) -> None:
    """The fuzz of a test module, with its Probe of a library that was built with SANITIZE."""
    program = f"from {module} import Probe, fuzz; fuzz(Probe({str(library)!r}, guard=0), {examples}, seed=1)"
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(sanitizers()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(HERE.parents[1]),
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print('clean')"],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.strip() == "clean", done.stderr[-4000:]
