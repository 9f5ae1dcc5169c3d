"""Runs a function on several processes that gloo connects, and hands back what each returned."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _run(rank: int, ranks: int, folder: str, function: Callable[..., Any], arguments: tuple) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=60),
    )
    try:
        result = function(rank, *arguments)
    except Exception:
        result = _Failure(traceback.format_exc())
    torch.save(result, os.path.join(folder, f"{rank}.pt"))
    dist.destroy_process_group()


class _Failure:
    def __init__(self, text: str):
        self.text = text


def run(ranks: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """function(rank, *arguments) of each rank; a module's function, as processes import it."""
    with tempfile.TemporaryDirectory() as folder:
        mp.set_forkserver_preload(["torch", "torch_topk", "torch.distributed.tensor"])
        mp.start_processes(_run, (ranks, folder, function, arguments), ranks, start_method="forkserver")
        results = [
            torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=False) for rank in range(ranks)
        ]
    failures = [f"rank {i}: {r.text}" for i, r in enumerate(results) if isinstance(r, _Failure)]
    assert not failures, "\n".join(failures)
    return results
