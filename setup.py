"""What pip asks for a build: scikit-build-core, and a torch only where there is none.

The build needs the stable headers and libtorch_cpu.so of any torch >= 2.11. CMakeLists.txt finds those of
the environment that pip runs in, isolated build or not, or in TORCH_DIR. So a torch is downloaded for the
build only where one is downloaded to run as well. pyproject.toml names this file as the build backend; it is
no script.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from scikit_build_core import build as _core
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

if "MAX_JOBS" in os.environ:
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", os.environ["MAX_JOBS"])

TORCH = "torch==2.13.0"
_HAS_TORCH = """
from importlib.metadata import version
assert tuple(map(int, version("torch").split(".")[:2])) >= (2, 11)
"""


def _torch() -> list[str]:
    # -E looks past pip's isolated build environment, as CMakeLists.txt does.
    ask = [sys.executable, "-E", "-c", _HAS_TORCH]
    found = os.environ.get("TORCH_DIR") or subprocess.run(ask, capture_output=True).returncode == 0
    return [] if found else [TORCH]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return _core.get_requires_for_build_wheel(config_settings) + _torch()


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return _core.get_requires_for_build_editable(config_settings) + _torch()
