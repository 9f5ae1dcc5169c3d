"""The operators' errors, as Python's callers know them."""

from __future__ import annotations

from typing import Any

import torch


def call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Calls an operator. Where memory runs out, raises torch.OutOfMemoryError: no exception's type passes
    the stable ABI, but the words are torch's own, on CUDA and on the CPU."""
    try:
        return function(*arguments, **options)
    except RuntimeError as error:
        words = str(error)
        if words.startswith("gputopk::") and ("out of memory" in words or "can't allocate memory" in words):
            raise torch.OutOfMemoryError(words) from error
        raise
