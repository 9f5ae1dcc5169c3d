"""The numbers of csrc/cuda/*/numbers.h, read from their text: tests stand at the switch points they set."""

from __future__ import annotations

import math
import re
from pathlib import Path

_CUDA = Path(__file__).resolve().parents[1] / "csrc" / "cuda"
_TEXT = "".join(file.read_text() for file in sorted(_CUDA.glob("*/numbers.h")))


def number(name: str) -> int | float:
    """The value of `inline constexpr ... name = a * b;`, `name = a << b;` or `name = a.b;`."""
    found = re.search(
        rf"\b{name}\s*=\s*(?:([0-9]+\.[0-9]+)|([0-9]+(?:\s*\*\s*[0-9]+)*)(?:\s*<<\s*([0-9]+))?)\s*;", _TEXT
    )
    if not found:
        raise KeyError(f"{name} is not a plain number in csrc/cuda/*/numbers.h")
    if found[1]:
        return float(found[1])
    return math.prod(int(factor) for factor in found[2].split("*")) << int(found[3] or 0)
