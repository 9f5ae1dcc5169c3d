"""What the benches of an operator share: a list of points, each timed and checked, a record and a table.

A point's record has its contenders by name, ours among them, which is `verified` or has a `problem`. Exit
status 1 if ours fails at one. No time makes a bench fail. `--report FILE` prints a record's table again.
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
from bench.contenders import contender_record, floor_name, verdict
from bench.report import Record, contender_of, number_text
from bench.runs import Run
from bench.timing import Contender, Outputs, Timing
from tests.records import commit_named
from torch_topk._libraries import why_no_cuda

TORCH = "torch:"  # prefix of the names of PyTorch's formulations


@dataclass(frozen=True)
class Bench:
    name: str  # "varlen": bench/results/varlen-cuda.jsonl, and its records' kind
    usage: str
    ours: str  # the contender's name
    sets: Mapping[str, Sequence[Any]]  # "all" is one; points have a text
    run: Callable[[Any, torch.device, float], Record]  # times and checks a point, for so many seconds
    seconds: Mapping[str, float]  # by the device's type
    print_table: Callable[[Sequence[Record]], None]
    has_plot: bool = False


def torch_contenders(calls: Mapping[str, Callable[[Any], Outputs]]) -> list[Contender]:
    """PyTorch's formulations, as contenders of their names behind TORCH."""
    return [Contender(TORCH + name, call, export=tuple, eager=False) for name, call in calls.items()]


def best_of_torch(timings: Mapping[str, Timing]) -> tuple[str | None, float | None]:
    """The fastest of them and its us; None where none was served."""
    times = {name: t.us for name, t in timings.items() if t.us is not None and name.startswith(TORCH)}
    return min(times.items(), key=lambda item: item[1], default=(None, None))


def records_of(
    timings: Mapping[str, Timing], ours: str, torch_us: float | None, problem: Callable[[Timing], str | None]
) -> list[Record]:
    """A record for each contender. Ours, where it was served, is checked by `problem`."""
    floor_us = timings["floor"].us
    records = [contender_record(name, t, floor_us, torch_us) for name, t in timings.items()]
    for record in records:
        if record["name"] == ours and record["us"] is not None:
            record |= verdict(problem(timings[ours]))
    return records


def ratio_of(one: Timing | None, other: Timing | None) -> float | None:
    """One's time over the other's, where both were timed."""
    if one is None or other is None or one.us is None or other.us is None:
        return None
    return round(one.us / other.us, 4)


def failure_of(record: Record, name: str) -> str | None:
    """Why the contender's outcome is no good."""
    contender = contender_of(record, name)
    if contender["us"] is None:
        return f"not served: {contender['reason']}"
    return None if contender.get("verified") else f"wrong: {contender.get('problem') or 'no outputs'}"


def print_goal(records: Sequence[Record], ratio: str, goal: float, of: str) -> None:
    """At how many of the points that have the ratio it is at most the goal."""
    values = [record[ratio] for record in records if record[ratio] is not None]
    if values:
        held = sum(value <= goal for value in values)
        print(
            f"at most {goal} x {of}: held at {held} of {len(values)} points, "
            f"{number_text(min(values))} to {number_text(max(values))}"
        )


def parse_arguments(bench: Bench, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=bench.usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=bench.sets, default="all")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--report", type=Path, metavar="FILE", help="print a record's table, time nothing")
    if bench.has_plot:
        parser.add_argument("--plot", action="store_true", help="draw the plot as well (matplotlib)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device cuda: {missing}")
    options.device = options.device or ("cpu" if why_no_cuda() else "cuda")
    return options


def main(bench: Bench, arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(bench, arguments)
    if options.report is not None:
        bench.print_table([record for record in report.read(options.report) if record["kind"] == bench.name])
        return 0
    kind = options.device
    device = torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")
    todo = bench.sets[options.set]
    output = options.output or report.RESULTS / f"{bench.name}-{kind}.jsonl"
    out = report.JsonLines(output)
    more = {"set": f"{bench.name}-{options.set}", "points": len(todo), "floor": floor_name(device)}
    out.write(environment.header(device, options.commit, **more))
    too_large, failures = [], []
    run, start = Run(), time.monotonic()
    records = run.records
    for point in run.through(todo, lambda point: point.text, options.time_limit):
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
