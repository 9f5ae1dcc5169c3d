"""The C++ compiler that tests build small probes of csrc with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[1] / "csrc"


def command() -> list[str]:
    """CXX, or the first compiler found; skips the test where there is none."""
    named = os.environ.get("CXX", "").split()
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if not named and found is None:
        pytest.skip("no C++ compiler")
    return named or [found]


def compile_object(source: Path, target: Path, *flags: str) -> Path:
    # -w: the build warns; here it would be noise.
    flags = ("-std=c++17", "-O3", "-w", "-fPIC", f"-I{CSRC}", *flags)
    subprocess.run([*command(), *flags, "-c", source, "-o", target], check=True)
    return target


def link_shared(objects: list[Path], target: Path, *flags: str) -> Path:
    subprocess.run([*command(), "-shared", *objects, "-o", target, *flags], check=True)
    return target
