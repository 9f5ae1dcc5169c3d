"""Finds and loads the shared libraries, which register the operators with torch."""

from __future__ import annotations

import os
from pathlib import Path

import torch

# The variable is for a build folder of its own, such as `make DEBUG=1`'s.
FOLDER = Path(os.environ.get("GPUTOPK_LIBRARY_DIR") or Path(__file__).parent / "lib")


def load() -> bool:
    """Loads libgputopk.so, and libgputopk_cuda.so where torch has CUDA. True if the latter was loaded."""
    library = FOLDER / "libgputopk.so"
    if not library.exists():
        raise ImportError(
            f"{library} is missing: build it with `make build` in a checkout, or install the package."
        )
    torch.ops.load_library(library)
    cuda_library = FOLDER / "libgputopk_cuda.so"
    if torch.version.cuda is None or not cuda_library.exists():
        return False
    torch.ops.load_library(cuda_library)
    return True


has_cuda: bool = load()
"""Whether the CUDA kernels are loaded."""

registry = torch.library.Library("gputopk", "IMPL")
"""What the stable ABI cannot register is registered here: fallthroughs, autograd, vmap."""


def why_no_cuda() -> str | None:
    """None where CUDA tensors are served on this machine; else what is missing, for a message."""
    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    if not has_cuda:
        return f"{FOLDER} has no libgputopk_cuda.so: `make cuda` builds it, or install a wheel that has it"
    return None if torch.cuda.is_available() else "torch finds no GPU"
