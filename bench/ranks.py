"""Processes of one host that a bench runs on, one a GPU, and their common clock."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bench import timing

ROUNDS, WARM_ROUNDS = timing.ROUNDS, 2
RESERVED_BYTES = {"cuda": 8 * 2**30, "cpu": 2**28}  # for lists, workspaces and messages
Call = Callable[[], Any]
_OPERATIONS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class Ranks:
    """This process as one of the default group's."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.count, self.device = dist.get_rank(), dist.get_world_size(), device
        self.first = dist.new_group([0])  # rank 0 alone

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        dist.barrier()
        self.synchronize()

    def reduce(self, tensor: Tensor, operation: str) -> Tensor:
        """Of all ranks' tensors one: sum, min or max."""
        dist.all_reduce(tensor, _OPERATIONS[operation])
        return tensor

    def first_problem(self, problem: str | None) -> str | None:
        """The first rank's that has one."""
        problems: list[str | None] = [None] * self.count
        dist.all_gather_object(problems, problem)
        return next((f"rank {r}: {text}" for r, text in enumerate(problems) if text is not None), None)

    def medians(
        self, calls: dict[str, Call], before: Call = lambda: None, rounds: int = ROUNDS
    ) -> dict[str, float]:
        """us of each call from a barrier until the slowest rank's device is done: medians over rounds in
        which each has its turn. `before` each call something that is not timed."""
        samples = torch.zeros((rounds, len(calls)), dtype=torch.float64)
        for turn in range(-WARM_ROUNDS, rounds):
            for place, call in enumerate(calls.values()):
                before()
                self.barrier()
                start = time.perf_counter()
                call()
                self.synchronize()
                if turn >= 0:
                    samples[turn, place] = 1e6 * (time.perf_counter() - start)
        slowest = self.reduce(samples.to(self.device), "max").T.tolist()
        return {name: statistics.median(of) for name, of in zip(calls, slowest, strict=True)}

    def elements_that_fit(self, wanted: int, bytes_each: float) -> int:
        """Halved until so many bytes an element are free on every rank."""
        if self.device.type == "cuda":
            free = torch.cuda.mem_get_info(self.device)[0]
        else:
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // self.count
        free = int(self.reduce(torch.tensor(free, device=self.device), "min"))
        elements = wanted
        while elements > 2**16 and elements * bytes_each + RESERVED_BYTES[self.device.type] > free:
            elements //= 2
        return elements

    def release(self) -> None:
        """Hands memory that nothing holds back to the device."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
        """Every rank its own numbers."""
        generator = torch.Generator(self.device).manual_seed(1000 * seed + self.rank)
        return torch.randn(shape, dtype=dtype, device=self.device, generator=generator)


def join(rank: int, count: int, backend: str, meeting: str) -> Ranks:
    """Joins the others. `meeting`: a file that is not there yet."""
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    dist.init_process_group(
        backend,
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=120),
        device_id=device if backend == "nccl" else None,
    )
    return Ranks(device)
