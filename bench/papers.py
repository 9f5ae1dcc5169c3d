"""The figures of the four papers that this project's algorithms are from, timed on the GPU at hand.

    python bench/papers.py                             # all figures: bench/results/papers-<gpu>.jsonl
    python bench/papers.py --figure air-6 air-7 --time-limit 60
    python bench/papers.py --again --figure split-9    # times it anew; the later record stands
    python bench/papers.py --device cpu --quick        # tiny requests: does the road work

Figures and who is timed in them are in paper_figures.py, the calls in paper_calls.py. A run adds to the file
what it does not hold yet, and gives each figure the same time, so one that is cut short leaves something of
each and the next goes on. Timed as in timing.py, beside one read of the input, in few rounds; who takes more
than 50 ms a call is spared at that point and at larger ones. Any order of the winners will do. What our
operators return goes through the exact oracle, what torch returns is compared as values. Exit status 1 if one
of ours fails or the device was lost. `python bench/papers_page.py` makes bench/results/papers.md of the
records. The real data are scikit-learn's photographs.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from bench import environment, papers_page, peers, report, shapes, timing
from bench.contenders import contender_record, floor_contender, print_reasons, verdict
from bench.figure import Figure, Point, quick
from bench.paper_calls import Call, Data, call_of, data_of, without_others
from bench.paper_figures import FIGURES, TIMED
from bench.peers import NotOfferedError
from bench.report import Record, size_text
from bench.runs import Run
from bench.timing import Contender, Outputs, Timing
from tests import oracle
from tests.records import commit_named
from torch_topk._libraries import why_no_cuda

BUDGET_S = 0.02  # for one contender at a point, as in the plan's sweeps: three to five rounds
ROUNDS = 5
TIME_LIMIT_S = 150.0
SLOW_US = 50_000.0

GroupKey = tuple[str, int, int, str, int, int]


# --- who is too slow ------------------------------------------------------------------------------


class TooSlowError(Exception):
    """A call took longer than SLOW_US: not worth a figure's time."""


def watched(call: Call, device: torch.device) -> Call:
    """The call, giving up if its second time, when all is loaded, takes too long."""
    times = 0

    def run(x: torch.Tensor) -> Any:
        nonlocal times
        times += 1
        if times != 2:
            return call(x)
        start = time.perf_counter()
        outputs = call(x)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        us = 1e6 * (time.perf_counter() - start)
        if us > SLOW_US:
            raise TooSlowError(f"more than {SLOW_US / 1e3:g} ms a call")
        return outputs

    return run


def first_two(outputs: Any) -> Outputs:
    """Values of the first key and indices, of whatever a contender returns."""
    values, indices = outputs[:2]
    return (values[0] if isinstance(values, tuple) else values), indices


class Spared:
    """Who was too slow, and from which size on. Reads what has been recorded."""

    def __init__(self) -> None:
        self._from: dict[tuple[str, str, str, str], list[tuple[int, int]]] = defaultdict(list)

    def learn(self, record: Record) -> None:
        for c in record["contenders"]:
            if c["us"] is None and c["reason"].startswith("more than"):
                key = (record["figure"], c["name"], record["input"], record["dtype"])
                self._from[key].append((record["rows"] * record["cols"], record["k"]))

    def reason(self, figure: str, name: str, point: Point) -> str | None:
        for elements, k in self._from[figure, name, point.input, point.dtype]:
            if point.elements >= elements and point.k >= k:
                where = f"{size_text(elements)} elements, k {size_text(k)}"
                return f"more than {SLOW_US / 1e3:g} ms a call at {where}"
        return None


# --- checks ---------------------------------------------------------------------------------------


def kth_problem(outputs: Outputs, x: torch.Tensor, point: Point) -> str | None:
    """What is wrong with a k-th element of one row: k - 1 elements are better, or equal and before it."""
    value, index = (output.reshape(()) for output in outputs)
    row, at = x[0], int(index)
    if not 0 <= at < point.cols or not bool(row[at] == value):
        return f"index {at} does not hold the value"
    better = (row > value) if point.largest else (row < value)
    before = int(better.sum()) + int((row[:at] == value).sum())
    return None if before == point.k - 1 else f"{before} elements come before it, not {point.k - 1}"


def several_keys_problem(outputs: Outputs, data: Data, point: Point) -> str | None:
    """The same for the k best by several keys: candidates by the first are put in order one by one."""
    first = data.x[0]
    least = first.topk(point.k, largest=point.largest).values[-1]
    at = (first >= least if point.largest else first <= least).nonzero().flatten()
    keys = [column[0][at].tolist() for column in (data.x, *data.columns)]
    sign = -1 if point.largest else 1
    ranked = sorted(zip(*([sign * key for key in column] for column in keys), at.tolist(), strict=True))
    want = sorted(entry[-1] for entry in ranked[: point.k])
    return None if want == sorted(outputs[1][0].tolist()) else "not the best by all keys"


def as_set(indices: torch.Tensor) -> torch.Tensor:
    return indices.sort(-1).values


def is_torchs(name: str) -> bool:
    return "torch." in name


def ours_first(timings: dict[str, Timing]) -> list[tuple[str, Outputs]]:
    """Who has outputs, torch's own functions last."""
    names = sorted(timings, key=is_torchs)
    return [(name, outputs) for name in names if (outputs := timings[name].outputs) is not None]


def verify_kth(timings: dict[str, Timing], data: Data, point: Point) -> dict[str, str | None]:
    """What is wrong with each k-th element; torch's may be any of those that are equal to ours."""
    problems: dict[str, str | None] = {}
    ours: torch.Tensor | None = None
    for name, outputs in ours_first(timings):
        if not is_torchs(name):
            problems[name] = kth_problem(outputs, data.x, point)
            ours = outputs[0] if problems[name] is None else ours
        elif ours is not None:
            problems[name] = None if torch.equal(outputs[0], ours) else "another value"
    return problems


def verify(timings: dict[str, Timing], data: Data, point: Point) -> dict[str, str | None]:
    """What is wrong with each one's winners. Ours must all be the same set: one is proved."""
    problems: dict[str, str | None] = {}
    proved: Outputs | None = None
    request = shapes.Point(point.rows, point.cols, point.k, dtype=point.dtype, largest=point.largest)
    for name, outputs in ours_first(timings):
        if name == "topk_where" and point.columns > 1:
            problems[name] = several_keys_problem(outputs, data, point)
        elif is_torchs(name):
            if proved is not None:
                problems[name] = peers.values_problem(outputs, proved[0], data.x, request)
        elif proved is None:
            problems[name] = oracle.device_problem(outputs, data.x, point.k, point.largest, False)
            proved = outputs if problems[name] is None else None
        elif not torch.equal(as_set(outputs[1]), as_set(proved[1])):
            problems[name] = "another set than the exact one"
        else:
            problems[name] = None if torch.equal(data.x.gather(1, outputs[1]), outputs[0]) else "other values"
    return problems


# --- one point ------------------------------------------------------------------------------------


def is_filtered(figure: Figure) -> bool:
    return "topk_where filtered" in figure.contenders


def run_point(figure: Figure, point: Point, data: Data, spared: Spared) -> Record:
    device = data.x.device
    selection = "kth_value" in figure.contenders
    contenders, absent = [floor_contender(data.x)], {}
    for name in figure.contenders:
        try:
            if (reason := spared.reason(figure.name, name, point)) is not None:
                raise TooSlowError(reason)
            call = watched(call_of(name, point, data, selection), device)
            contenders.append(Contender(name, call, export=first_two, eager=False))
        except (NotOfferedError, TooSlowError) as error:
            absent[name] = str(error)
    timings = timing.measure(contenders, data.copies, BUDGET_S)
    floor_us = timings["floor"].us
    if is_filtered(figure):
        data = Data([without_others(data.x, point, data)], [])
    problems = (verify_kth if selection else verify)(timings, data, point)
    records = []
    for name, t in timings.items():
        record = contender_record(name, t, floor_us, None)
        if name in problems:
            record |= verdict(problems[name])
        records.append(record)
    records += [{"name": name, "us": None, "reason": reason} for name, reason in absent.items()]
    record = {"kind": "paper", "figure": figure.name, "axis": figure.axis, **dataclasses.asdict(point)}
    return {**record, "floor_us": floor_us, "contenders": records, "failures": failures_of(records)}


def failures_of(records: Sequence[Record]) -> list[str]:
    wrong = (c for c in records if c.get("verified") is False and not is_torchs(c["name"]))
    return [f"{c['name']}: {c['problem']}" for c in wrong]


# --- the run --------------------------------------------------------------------------------------


def group(points: Sequence[Point]) -> list[list[Point]]:
    """The points on the same data, smaller data first."""
    groups: dict[GroupKey, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.data_key].append(point)
    return sorted(groups.values(), key=lambda some: some[0].elements * some[0].columns)


@dataclass
class PapersRun(Run):
    without_data: list[str] = field(default_factory=list)  # what could not be made, or did not fit


def run_figures(
    todo: dict[str, list[Point]],
    device: torch.device,
    time_limit: float,
    spared: Spared,
    out: report.JsonLines,
) -> PapersRun:
    """Always the figure that has had the least time goes on with its next data."""
    run = PapersRun()
    left = {name: group(points) for name, points in todo.items()}
    spent = dict.fromkeys(todo, 0.0)
    progress = report.Progress(sum(map(len, todo.values())))
    start = time.monotonic()
    with run.kept():
        while any(left.values()) and run.stopped_by is None:
            name = min((n for n in left if left[n]), key=lambda n: spent[n])
            points = left[name].pop(0)
            began = time.monotonic()
            if device.type == "cuda":
                torch.cuda.empty_cache()
            try:
                data = data_of(points[0], device, is_filtered(FIGURES[name]))
            except (ImportError, torch.OutOfMemoryError) as error:
                run.without_data.append(f"{name}: no {points[0].input}: {timing.one_line(error)}")
                continue
            for point in points:
                if time.monotonic() - start > time_limit:
                    run.stopped_by = f"the time limit of {time_limit:g} s"
                    break
                run.at = f"{name} {papers_page.describe(dataclasses.asdict(point))}"
                progress.show(run.at)
                try:
                    record = run_point(FIGURES[name], point, data, spared)
                except torch.OutOfMemoryError as error:
                    run.without_data.append(f"{run.at}: {timing.one_line(error)}")
                    continue
                spared.learn(record)
                run.records.append(record)
                out.write(record)
                progress.advance()
            del data  # before the next is made
            spent[name] += time.monotonic() - began
    progress.close()
    return run


def name_of(device: torch.device) -> str:
    """h200 of "NVIDIA H200", h100 of "NVIDIA H100 80GB HBM3"; cpu."""
    if device.type != "cuda":
        return device.type
    words = re.split(r"[ -]", torch.cuda.get_device_name(device).lower())
    return next((word for word in words if any(c.isdigit() for c in word)), words[-1])


def recorded(path: Path, device: torch.device, quickly: bool) -> list[Record]:
    """What the file holds; ValueError says why nothing can be added to it."""
    if not path.exists():
        return []
    records = report.read(path)
    for header in (r for r in records if r["kind"] == "header"):
        here = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        if header.get("gpu") != here or header.get("device") != device.type:
            raise ValueError(f"{path} is of {header.get('gpu') or header.get('device')}, not of this device")
        if header.get("quick", False) != quickly:
            raise ValueError(f"{path} was written {'with' if header.get('quick') else 'without'} --quick")
    return [r for r in records if r["kind"] == "paper"]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--figure", nargs="+", choices=TIMED, metavar="NAME", default=list(TIMED),
                        help=f"of {', '.join(TIMED)}; default: all")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="time anew what the file holds already")
    parser.add_argument("--quick", action="store_true", help="a few tiny requests of each figure")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--time-limit", type=float, metavar="S", default=TIME_LIMIT_S,
                        help="start no point after so many seconds (default %(default)g)")  # fmt: skip
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path, help="JSON lines; default: bench/results/papers-<gpu>.jsonl")
    parser.add_argument("--plot", action="store_true", help="draw the plots as well (matplotlib)")
    options = parser.parse_args(arguments)
    if options.device.type == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device {options.device}: {missing}")
    if options.device.type != "cuda" and not options.quick:
        parser.error(f"--device {options.device}: the papers' sizes are for GPUs; elsewhere say --quick")
    return options


def todo_of(options: argparse.Namespace, before: Sequence[Record]) -> dict[str, list[Point]]:
    """The points asked for, by figure, but for those that are recorded unless they are timed again."""
    done = set() if options.again else {papers_page.key_of(record) for record in before}
    todo = {}
    for name in dict.fromkeys(options.figure):
        points = quick(FIGURES[name].points) if options.quick else FIGURES[name].points
        keys = {p: papers_page.key_of({"figure": name, **dataclasses.asdict(p)}) for p in points}
        todo[name] = [p for p in points if keys[p] not in done]
    return todo


def tell(run: PapersRun, count: int, path: Path) -> None:
    """Prints the times, who has none and why, and what to do next."""
    by_figure: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        by_figure[record["figure"]].append(record)
    for name, some in by_figure.items():
        print(f"\n{name}: us\n{report.table(*papers_page.times_table(FIGURES[name], some))}")
    print_reasons(run.records)
    print(f"\n{len(run.records)} points added to {path}")
    if len(run.records) < count:
        why = run.stopped_by or "; ".join(run.without_data)
        print(f"{count - len(run.records)} of {count} points were not run: {why}")
    usual = path.parent == papers_page.RESULTS and path.name in papers_page.DEFAULT
    print(f"the page: python bench/papers_page.py{'' if usual else f' {path}'}")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    device = options.device
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        torch.cuda.set_device(device)
    path = options.output or papers_page.RESULTS / f"papers-{name_of(device)}.jsonl"
    try:
        before = recorded(path, device, options.quick)
    except ValueError as error:
        print(f"nothing timed: {error}")
        return 1
    todo = todo_of(options, before)
    count = sum(map(len, todo.values()))
    if not count:
        print(f"nothing to time: {path} holds all of it; --again times it anew")
        return 1
    timing.ROUNDS = ROUNDS
    out = report.JsonLines(path, append=bool(before))
    out.write(environment.header(device, options.commit, set="papers", quick=options.quick, points=count))
    spared = Spared()
    for record in () if options.again else before:
        spared.learn(record)
    start = time.monotonic()
    run = run_figures(todo, device, options.time_limit, spared, out)
    failed = [f"{r['figure']} {papers_page.describe(r)}, {f}" for r in run.records for f in r["failures"]]
    out.write(
        {
            "kind": "summary",
            "points": len(run.records),
            "not_run": count - len(run.records),
            "stopped_by": run.stopped_by,
            "without_data": run.without_data,
            "failed": failed,
            "seconds": round(time.monotonic() - start, 1),
        }
    )
    out.close()
    tell(run, count, path)
    if options.plot:
        from bench import plot

        plot.plot_file(path)
    for failure in failed:
        print(f"FAILED verification: {failure}")
    return 1 if failed or run.broken else 0


if __name__ == "__main__":
    sys.exit(main())
