"""Runs a function on several processes that gloo, or NCCL, connects, and hands back what each returned."""

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


def _run(
    rank: int, ranks: int, backend: str, folder: str, function: Callable[..., Any], arguments: tuple
) -> None:
    torch.set_num_threads(1)
    if "nccl" in backend:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        device_id=torch.device("cuda", rank) if backend == "nccl" else None,
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


def device() -> torch.device:
    """Where this rank's tensors are."""
    has_gpu = "nccl" in dist.get_backend()
    return torch.device("cuda", torch.cuda.current_device()) if has_gpu else torch.device("cpu")


class _Failure:
    def __init__(self, text: str):
        self.text = text


def run(ranks: int, function: Callable[..., Any], *arguments: Any, backend: str = "gloo") -> list[Any]:
    """function(rank, *arguments) of each rank; a module's function, as processes import it. Tensors that it
    returns come back on the CPU. `backend`: as for init_process_group."""
    with tempfile.TemporaryDirectory() as folder:
        mp.set_forkserver_preload(["torch", "torch_topk", "torch.distributed.tensor"])
        # What is forked is ready sooner, but where the server's imports look for a GPU it could use none.
        method = "forkserver" if backend == "gloo" else "spawn"
        mp.start_processes(_run, (ranks, backend, folder, function, arguments), ranks, start_method=method)
        results = [
            torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=False, map_location="cpu")
            for rank in range(ranks)
        ]
    failures = [f"rank {i}: {r.text}" for i, r in enumerate(results) if isinstance(r, _Failure)]
    assert not failures, "\n".join(failures)
    return results
