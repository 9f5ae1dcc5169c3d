"""The operators' errors, as Python's callers know them."""

from __future__ import annotations

from typing import Any

import torch


def call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Calls an operator. Where memory runs out, raises torch.OutOfMemoryError."""
    try:
        return function(*arguments, **options)
    except RuntimeError as error:
        raise_out_of_memory(error)
        raise


def raise_out_of_memory(error: RuntimeError) -> None:
    """If an operator's error is that, as torch.OutOfMemoryError: no exception's type passes the stable ABI,
    but the words are torch's own, on CUDA and on the CPU."""
    words = str(error)
    if words.startswith("gputopk::") and ("out of memory" in words or "can't allocate memory" in words):
        raise torch.OutOfMemoryError(words) from error


def raise_failure(error: RuntimeError) -> None:
    """If it is the device that failed, and not the call that was wrong: nothing is to be tried again."""
    raise_out_of_memory(error)
    if isinstance(error, torch.OutOfMemoryError) or "CUDA error" in str(error):
        raise error
