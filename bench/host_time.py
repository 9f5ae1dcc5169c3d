#!/usr/bin/env python
"""The host's time for a call of each kind: torch.topk, torch_topk.topk, and both with install().

    python bench/host_time.py                  on the CPU
    python bench/host_time.py --device cuda    until the calls return; the device is waited for in between

The tensor is 3 x 7, so that what is timed is the way to the kernel and back. The four take turns, 25 calls
at a time, and each figure is the least of many turns: on a busy machine that is what is left of the truth.
Goals: torch_topk.topk takes at most 1 us more than torch.topk does, and torch.topk no more once ours is
installed. Written to bench/results.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk
from bench import environment, report
from tests.records import commit_named
from torch_topk._libraries import why_no_cuda

CALLS, TURNS = 25, 1200
GOAL_US = 1.0
NAMES = ("torch", "ours", "torch_installed", "ours_installed")
Call = Callable[[], Any]


def calls_of(topk: Callable[..., Any], device: torch.device) -> dict[str, Call]:
    x = torch.arange(21.0, device=device).view(3, 7)
    leaf = x.clone().requires_grad_()
    out = torch.topk(x, 2)
    out_dim_0 = torch.topk(x, 2, 0)
    return {
        "(x, k)": lambda: topk(x, 2),
        "(x, k, sorted=False)": lambda: topk(x, 2, sorted=False),
        "(x, k, largest=False)": lambda: topk(x, 2, largest=False),
        "(x, k, dim=0)": lambda: topk(x, 2, 0),
        "(x, k, out=)": lambda: topk(x, 2, out=out),
        "(x, k, dim=0, out=)": lambda: topk(x, 2, 0, out=out_dim_0),
        "(leaf, k)": lambda: topk(leaf, 2),
        "(leaf, k, dim=0)": lambda: topk(leaf, 2, 0),
    }


def least_us(call: Call, device: torch.device, best: float) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return min(best, (time.perf_counter() - start) / CALLS * 1e6)


def measure(theirs: Call, ours: Call, device: torch.device, turns: int) -> dict[str, float]:
    best = dict.fromkeys(NAMES, float("inf"))
    for _ in range(turns):
        best["torch"] = least_us(theirs, device, best["torch"])
        best["ours"] = least_us(ours, device, best["ours"])
        with torch_topk.installed(devices=[device.type]):
            best["torch_installed"] = least_us(theirs, device, best["torch_installed"])
            best["ours_installed"] = least_us(ours, device, best["ours_installed"])
    return best


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    if options.device == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device cuda: {missing}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    device = torch.device(options.device)
    torch.set_num_threads(1)
    output = options.output or report.RESULTS / f"host-{options.device}.jsonl"
    out = report.JsonLines(output)
    out.write(environment.header(device, options.commit, set="host", turns=options.turns))
    rows = []
    theirs, ours = calls_of(torch.topk, device), calls_of(torch_topk.topk, device)
    for name in theirs:
        us = measure(theirs[name], ours[name], device, options.turns)
        above = us["ours"] - us["torch"]
        met = above <= GOAL_US, us["torch_installed"] <= us["torch"]
        out.write({"kind": "host", "call": name, **{f"{n}_us": t for n, t in us.items()}, "met": met})
        texts = [f"{us[n]:.2f}" for n in NAMES] + [f"{above:+.2f}"]
        rows.append([name, *texts, " ".join("yes" if one else "no" for one in met)])
    out.close()
    columns = ["call", "torch.topk", "topk", "torch.topk installed", "topk installed", "above", "goals met"]
    print(report.table(columns, rows))
    print(f"\nus a call, load {os.getloadavg()[0]:.1f}; written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
