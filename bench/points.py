"""What the benches of an operator share: a list of points, each timed and checked, a record and a table.

A point's record has its contenders by name, ours among them, which is `verified` or has a `problem`. Exit
status 1 if ours fails at one. No time makes a bench fail.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench import environment, report, timing
from bench.report import Record
from torch_topk._libraries import why_no_cuda


@dataclass(frozen=True)
class Bench:
    name: str  # "varlen": bench/results/varlen-cuda.jsonl
    usage: str
    ours: str  # the contender's name
    sets: Mapping[str, Sequence[Any]]  # "all" is one; points have a text
    run: Callable[[Any, torch.device, float], Record]  # times and checks a point, for so many seconds
    seconds: Mapping[str, float]  # by the device's type
    print_table: Callable[[Sequence[Record]], None]
    has_plot: bool = False


def contender_of(record: Record, name: str) -> Record:
    return next(c for c in record["contenders"] if c["name"] == name)


def failure_of(record: Record, name: str) -> str | None:
    """Why the contender's outcome is no good."""
    contender = contender_of(record, name)
    if contender["us"] is None:
        return f"not served: {contender['reason']}"
    return None if contender.get("verified") else f"wrong: {contender.get('problem') or 'no outputs'}"


def parse_arguments(bench: Bench, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=bench.usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=bench.sets, default="all")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path)
    if bench.has_plot:
        parser.add_argument("--plot", action="store_true", help="draw the plot as well (matplotlib)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device cuda: {missing}")
    options.device = options.device or ("cpu" if why_no_cuda() else "cuda")
    return options


def main(bench: Bench, arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(bench, arguments)
    kind = options.device
    device = torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")
    todo = bench.sets[options.set]
    output = options.output or environment.ROOT / "bench" / "results" / f"{bench.name}-{kind}.jsonl"
    out = report.JsonLines(output)
    out.write(environment.header(device, options.commit, set=f"{bench.name}-{options.set}", points=len(todo)))
    records, too_large, failures = [], [], []
    progress, start = report.Progress(len(todo)), time.monotonic()
    for point in todo:
        if options.time_limit and time.monotonic() - start > options.time_limit:
            break
        progress.show(point.text)
        try:
            records.append(bench.run(point, device, bench.seconds[kind]))
        except torch.OutOfMemoryError as error:
            too_large.append(f"{point.text}: {timing.one_line(error)}")
        except RuntimeError as error:  # the device may be lost: no point that follows could be timed
            failures.append(f"{point.text}: {timing.one_line(error)}")
            break
        else:
            out.write(records[-1])
            if failure := failure_of(records[-1], bench.ours):
                failures.append(f"{point.text}: {failure}")
        progress.advance()
    progress.close()
    seconds, not_run = time.monotonic() - start, len(todo) - len(records)
    out.write(
        {
            "kind": "summary",
            "points": len(records),
            "not_run": not_run,
            "too_large": too_large,
            "failed": failures,
            "seconds": seconds,
        }
    )
    out.close()
    bench.print_table(records)
    print(f"\n{len(records)} points in {seconds:.0f} s, {not_run} not run, written to {output}")
    for sentence in too_large:
        print(f"too large: {sentence}")
    for failure in failures:
        print(f"FAILED: {failure}")
    if bench.has_plot and options.plot:
        from bench import plot

        plot.plot_file(output)
    return 1 if failures else 0
