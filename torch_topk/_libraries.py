"""Finds and loads the shared libraries, which register the operators with torch."""

from __future__ import annotations

from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "lib"


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
