"""Times exact top-k against one read of its input, torch.topk and the libraries that are installed.

    python bench/bench_topk.py --set goals                      # CUDA: the goals, with the best library known
    python bench/bench_topk.py --set air --algorithm air auto
    python bench/bench_topk.py --set dims                       # CUDA: over a dimension other than the last
    python bench/bench_topk.py --set order                      # CUDA: best first, by index, or in any order
    python bench/bench_topk.py --set cpu                        # times as fast as torch.topk, same threads
    python bench/bench_topk.py --rows 1 100 --cols 2^20 --k 64 2048 --input normal all_equal --dtype float16

Every figure is a ratio to something timed on the same buffers in the same run: "x floor", the time over that
of a kernel that only reads the input once (on the CPU: torch's fastest reduction over the same bytes), and
"x torch", torch.topk's time over ours. On the CPU "aten-op" is torch.topk called through torch.ops, as ours
is: what that road costs. How calls are timed is told in timing.py, which points there are in shapes.py. The
outputs of the timed calls are checked: ours against the exact oracle of the tests, the others as values, as
they leave ties open.

Prints a table and writes JSON lines (default bench/results/<set>-<device>.jsonl): a header with GPU, driver,
versions and commit, a record for each point, and a summary. Exit status: 0, or 1 if one of our results failed
the check, `auto` could not serve a point or the device was lost; those are listed. No time makes it fail.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk
from bench import environment, peers, report, shapes, timing
from bench.contenders import contender_record, floor_contender, floor_name, print_reasons, rounded
from bench.report import Record, integer, number_text, size_text
from bench.runs import Run
from bench.shapes import Point
from bench.timing import Contender, HeldInput, Outputs, Timing, two_tensors
from tests import inputs, oracle
from tests.records import commit_named
from torch_topk._libraries import why_no_cuda

OURS = "ours:"  # prefix of our contenders' names
ORDERED = OURS + "order="  # those that ask torch_topk.topk for an order
ATEN = "aten-op"  # no peer: torch.topk through torch.ops
ALGORITHMS = tuple(algorithm.name for algorithm in torch_topk.Algorithm)
CUDA_BUDGET_S, CPU_BUDGET_S = 1.5, 5.0


# --- contenders -----------------------------------------------------------------------------------


def order_options(point: Point) -> Record:
    """`dim`, `largest` and `sorted` as a caller writes them: what has its default's value is left out."""
    flags = {"largest": point.largest, "sorted": point.sorted}
    dim = {} if point.inner == 1 else {"dim": -2}
    return dim | {name: False for name, flag in flags.items() if not flag}


def lay_out(x: torch.Tensor, point: Point) -> torch.Tensor:
    """The point's tensor of these [rows, cols]."""
    if point.inner == 1:
        return x
    columns = x.view(-1, point.inner, x.shape[1]).mT.contiguous()
    return columns[0] if point.inner == point.rows else columns


def as_rows(tensor: torch.Tensor, point: Point) -> torch.Tensor:
    """What lay_out made, or an output of it, as contiguous [rows, cols] or [rows, k]."""
    if point.inner == 1:
        return tensor
    return tensor.mT.reshape(point.rows, tensor.shape[-2]).contiguous()


def caller(function: Callable[..., Any], k: int, options: Record) -> Callable[[torch.Tensor], Any]:
    """The call as it is written out, where it is a common one: unpacking a dict takes time."""
    if not options:
        return lambda x: function(x, k)
    if options == {"sorted": False}:
        return lambda x: function(x, k, sorted=False)
    return lambda x: function(x, k, **options)


def torch_contender(point: Point) -> Contender:
    """torch.topk with the same flags; by magnitude, what callers write: topk of abs, and a gather."""
    topk = caller(torch.topk, point.k, order_options(point))

    def by_magnitude(x: torch.Tensor) -> Outputs:
        indices = topk(x.abs())[1]
        return x.gather(-1 if point.inner == 1 else -2, indices), indices

    return Contender("torch", by_magnitude if point.magnitude else topk, export=two_tensors)


def aten_contender(point: Point) -> Contender:
    """torch.topk by the road that ours takes, which costs more than torch's own."""
    return Contender(ATEN, caller(torch.ops.aten.topk, point.k, order_options(point)), export=two_tensors)


def our_options(point: Point, algorithm: str) -> Record:
    options = order_options(point)
    if point.magnitude:
        options["magnitude"] = True
    if point.index_dtype is not None:
        options["index_dtype"] = getattr(torch, point.index_dtype)
    if algorithm != "auto":
        options["algorithm"] = int(torch_topk.Algorithm[algorithm])
    return options


def our_contender(point: Point, algorithm: str) -> Contender:
    call = caller(torch.ops.gputopk.topk, point.k, our_options(point, algorithm))
    return Contender(OURS + algorithm, call, export=two_tensors)


def ordered_contender(point: Point, order: str) -> Contender:
    """The Python function, as "index" is none of the operator's orders."""
    call = caller(torch_topk.topk, point.k, our_options(point, "auto") | {"order": order})
    return Contender(ORDERED + order, call, export=two_tensors)


def order_of(name: str, point: Point) -> str:
    """The order in which a contender of ours returns winners."""
    if name.startswith(ORDERED):
        return name.removeprefix(ORDERED)
    return "value" if point.sorted else "any"


def plan_of(point: Point, name: str, x: torch.Tensor) -> str | None:
    """Of a contender of ours; putting winners in order of index comes behind it."""
    algorithm = "auto" if name.startswith(ORDERED) else name.removeprefix(OURS)
    request = replace(point, sorted=order_of(name, point) == "value")
    try:
        return torch.ops.gputopk._plan(x, point.k, **our_options(request, algorithm))
    except Exception as error:  # the record tells; the timing goes on
        return f"no plan: {timing.one_line(error)}"


# --- one point ------------------------------------------------------------------------------------


def data_of(point: Point, device: torch.device) -> torch.Tensor:
    dtype = getattr(torch, point.dtype)
    return lay_out(inputs.make(point.input, point.rows, point.cols, dtype, device, seed=1), point)


def exact_problem(outputs: Outputs, x: torch.Tensor, point: Point, order: str) -> str | None:
    """What the exact oracle of the tests says, on the input's device; by index, of the set."""
    problem = oracle.device_problem(
        outputs,
        x,
        point.k,
        point.largest,
        order == "value",
        magnitude=point.magnitude,
        index_dtype=getattr(torch, point.index_dtype or "int64"),
    )
    if problem is None and order == "index" and bool((outputs[1].diff() <= 0).any()):
        return "indices do not ascend"
    return problem


def contenders_of(point: Point, x: torch.Tensor, peer_names: Sequence[str]) -> tuple[list[Contender], Record]:
    """Everyone who is to be timed at the point, and the reasons of the peers who are not."""
    contenders = [floor_contender(x), torch_contender(point)]
    contenders += [our_contender(point, algorithm) for algorithm in point.algorithms]
    contenders += [ordered_contender(point, order) for order in point.orders]
    if x.device.type == "cpu" and not point.magnitude:
        contenders.append(aten_contender(point))
    absent: Record = {}
    for name in peer_names:
        try:
            contenders.append(peers.contender(name, point))
        except Exception as error:  # not installed, not offered, or installed but broken
            absent[name] = timing.one_line(error)
    return contenders, absent


def verify(timings: dict[str, Timing], x: torch.Tensor, point: Point) -> dict[str, str | None]:
    """For every contender with outputs: what is wrong with them, None if nothing."""
    problems: dict[str, str | None] = {}
    exact_values = None
    x = as_rows(x, point)
    timed = {
        name: (as_rows(t.outputs[0], point), as_rows(t.outputs[1], point))
        for name, t in timings.items()
        if t.outputs is not None
    }
    for name, outputs in timed.items():
        if name.startswith(OURS):
            problems[name] = exact_problem(outputs, x, point, order_of(name, point))
            if problems[name] is None:
                exact_values = outputs[0]
    for name, outputs in timed.items():
        if not name.startswith(OURS) and exact_values is not None:
            problems[name] = peers.values_problem(outputs, exact_values, x, point)
    return problems


def run_point(point: Point, held: HeldInput, peer_names: Sequence[str], budget_s: float) -> Record:
    """Times and checks one point; its record."""
    copies = held.copies(point.data_key, lambda: data_of(point, held.device))
    x = copies[0]
    contenders, absent = contenders_of(point, x, peer_names)
    timings = timing.measure(contenders, copies, budget_s)
    problems = verify(timings, x, point)
    floor_us, torch_us = timings["floor"].us, timings["torch"].us
    records = [contender_record(name, t, floor_us, torch_us) for name, t in timings.items()]
    for record in records:
        if record["name"] in problems:
            record["verified"] = problems[record["name"]] is None
            if not record["verified"]:
                record["problem"] = problems[record["name"]]
        if record["name"].startswith(OURS):
            record["plan"] = plan_of(point, record["name"], x)
    records += [{"name": name, "us": None, "reason": reason} for name, reason in absent.items()]
    goal = point.goal or shapes.Goal()
    return {
        "kind": "point",
        "label": point.label,
        "input": point.input,
        "rows": point.rows,
        "cols": point.cols,
        "k": point.k,
        "dtype": point.dtype,
        "sorted": point.sorted,
        "largest": point.largest,
        "magnitude": point.magnitude,
        "index_dtype": point.index_dtype or "int64",
        "inner": point.inner,
        "bytes": x.numel() * x.element_size(),
        "copies": len(copies),
        "floor_us": rounded(floor_us),
        "torch_us": rounded(torch_us),
        "goal_x_floor": goal.x_floor,
        "goal_x_torch": goal.x_torch,
        "goal_algorithm": goal.algorithm if point.goal else None,
        "best_library": goal.best_library,
        "best_library_x_floor": goal.best_x_floor,
        "contenders": records,
        "failures": failures_of(records),
    }


def failures_of(records: Sequence[Record]) -> list[str]:
    """Our wrong results, and `auto`, in any order, refusing a point, which it never may."""
    failures = []
    for record in records:
        if record["name"].startswith(OURS):
            if record.get("verified") is False:
                failures.append(f"{record['name']}: {record['problem']}")
            elif record["us"] is None and record["name"].startswith((OURS + "auto", ORDERED)):
                failures.append(f"{record['name']}: {record['reason']}")
    return failures


# --- what is printed ------------------------------------------------------------------------------


def by_name(point: Record, name: str) -> Record:
    return next((c for c in point["contenders"] if c["name"] == name), {})


def describe(point: Record) -> str:
    label = f"{point['label']}: " if point["label"] else ""
    flags = "".join(f" {flag}" for flag in ("sorted", "magnitude") if point[flag])
    flags += "" if point["largest"] else " smallest"
    flags += "" if point.get("inner", 1) == 1 else f" columns, {size_text(point['inner'])} side by side"
    return (
        f"{label}{point['input']} {point['rows']} x {size_text(point['cols'])} k={size_text(point['k'])} "
        f"{point['dtype']}{flags}"
    )


def goal_of(point: Record) -> tuple[str, bool | None]:
    """The goal as text, and whether it is met (None: no goal, or not timed)."""
    ours = by_name(point, f"{OURS}{point['goal_algorithm']}")
    if point["goal_x_floor"] is not None:
        got = ours.get("x_floor")
        return f"{point['goal_x_floor']:g}", None if got is None else got <= point["goal_x_floor"]
    if point["goal_x_torch"] is not None:
        got = ours.get("x_torch")
        return f"{point['goal_x_torch']:g} x torch", None if got is None else got >= point["goal_x_torch"]
    return "-", None


def print_table(points: Sequence[Record]) -> None:
    """One line a point: x floor of everyone, x torch of the algorithm that has the goal, goal, verdict."""
    names = dict.fromkeys(c["name"] for p in points for c in p["contenders"])
    ours = [name for name in names if name.startswith(OURS)]
    others = [
        name for name in (ATEN, *peers.NAMES) if any(by_name(p, name).get("us") is not None for p in points)
    ]
    columns = ["input", "rows", "cols", "k", "dtype", "order", "floor us", "torch"]
    columns += [name.removeprefix(OURS) for name in ours] + others
    columns += ["x torch", "goal", "met", "best library", "ok"]
    rows = []
    for p in points:
        goal, met = goal_of(p)
        held = by_name(p, f"{OURS}{p['goal_algorithm']}") or by_name(p, ours[0])
        best = f"{p['best_library_x_floor']:g} {p['best_library']}" if p["best_library"] else "-"
        rows.append(
            [
                f"{p['label']}: {p['input']}" if p["label"] else p["input"],
                str(p["rows"]),
                size_text(p["cols"]),
                size_text(p["k"]),
                p["dtype"],
                ("sorted" if p["sorted"] else "any")
                + ("" if p["inner"] == 1 else f", inner {size_text(p['inner'])}"),
                number_text(p["floor_us"]),
                *(number_text(by_name(p, name).get("x_floor")) for name in ("torch", *ours, *others)),
                number_text(held.get("x_torch")),
                goal,
                {True: "yes", False: "no", None: "-"}[met],
                best,
                "WRONG" if p["failures"] else "ok",
            ]
        )
    print("\nx floor: time over that of one read of the input; x torch: torch.topk's time over ours")
    print(report.table(columns, rows))


def worst_input_ratios(points: Sequence[Record]) -> dict[str, float]:
    """For each shape timed on several inputs: auto's worst x floor over its best."""
    groups: dict[str, list[float]] = defaultdict(list)
    for p in points:
        got = by_name(p, OURS + "auto").get("x_floor")
        if got is not None:
            groups[describe(p | {"input": "inputs of"})].append(got)
    return {shape: max(group) / min(group) for shape, group in groups.items() if len(group) > 1}


def print_findings(points: Sequence[Record]) -> None:
    """Goals, points slower than torch.topk, the cost of the worst input, host time, and peers' mistakes."""
    met = [(p, goal_of(p)[1]) for p in points]
    judged = [p for p, verdict in met if verdict is not None]
    if judged:
        print(f"\ngoals met: {sum(v is True for _, v in met)} of {len(judged)}")
    auto = [(p, by_name(p, OURS + "auto")) for p in points]
    slower = [(p, c["x_torch"]) for p, c in auto if c.get("x_torch") is not None and c["x_torch"] < 1]
    compared = sum(c.get("x_torch") is not None for _, c in auto)
    if compared:
        print(f"slower than torch.topk: {len(slower)} of {compared}")
        for p, ratio in sorted(slower, key=lambda item: item[1])[:20]:
            print(f"  {ratio:.2f} times as fast: {describe(p)}")
    ratios = worst_input_ratios(points)
    if ratios:
        shape = max(ratios, key=ratios.__getitem__)
        print(f"worst input over best at one shape: {ratios[shape]:.2f} ({shape})")
    hosts = [(c.get("host_us"), by_name(p, "torch").get("host_us")) for p, c in auto]
    hosts = [pair for pair in hosts if None not in pair]
    if hosts:
        ours, theirs = (statistics.median(side) for side in zip(*hosts, strict=True))
        print(f"host time of a call, median: {ours:.1f} us, torch.topk {theirs:.1f} us")
    print_orders(points)
    for p in points:
        for c in p["contenders"]:
            if c.get("verified") is False and not c["name"].startswith(OURS):
                print(f"not exact: {c['name']} at {describe(p)}: {c['problem']}")
    print_reasons(points)


def print_orders(points: Sequence[Record]) -> None:
    """What winners in another order take beside those best first."""
    for order in ("index", "any"):
        pairs = [[by_name(p, ORDERED + name).get("us") for name in (order, "value")] for p in points]
        ratios = [us / by_value_us for us, by_value_us in pairs if us and by_value_us]
        if ratios:
            low, middle, high = (number_text(f(ratios)) for f in (min, statistics.median, max))
            print(f"order={order}: {middle} times as long as order=value, {low} to {high}")


# --- command line ---------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--set", choices=shapes.SETS, help="a named set; axes given beside it select from it")
    parser.add_argument("--rows", type=integer, nargs="+")
    parser.add_argument("--cols", type=integer, nargs="+", metavar="N", help="also as 2^20")
    parser.add_argument("--k", type=integer, nargs="+")
    parser.add_argument("--input", nargs="+", choices=inputs.NAMES, metavar="NAME", help="of tests/inputs.py")
    parser.add_argument("--dtype", nargs="+", choices=[oracle.name_of(dtype) for dtype in oracle.DTYPES])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each N-th point only")
    parser.add_argument("--sorted", action=argparse.BooleanOptionalAction, help="instead of the set's choice")
    parser.add_argument("--algorithm", nargs="+", choices=[*ALGORITHMS, "all"], help="instead of the set's")
    parser.add_argument("--peers", nargs="*", choices=peers.NAMES, default=list(peers.NAMES), help="on CUDA")
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    parser.add_argument(
        "--device", type=torch.device, help="default: cuda where there is one, but for --set cpu"
    )
    parser.add_argument("--threads", type=int, help="torch.set_num_threads, for everyone")
    parser.add_argument("--budget", type=float, metavar="S", help="for one contender at a point")
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path, help="JSON lines; default: bench/results/<set>-<device>.jsonl")
    parser.add_argument("--plot", action="store_true", help="draw the plots as well (matplotlib)")
    options = parser.parse_args(arguments)
    if options.device is not None and options.device.type == "cuda" and (missing := why_no_cuda()):
        parser.error(f"--device {options.device}: {missing}")
    axes = (options.rows, options.cols, options.k, options.input, options.dtype)
    if options.set is None and not any(axes):
        options.set = "smoke"
    return options


def points_of(options: argparse.Namespace) -> list[Point]:
    """The points asked for, those on the same data side by side."""
    rows, cols, ks = options.rows, options.cols, options.k
    if options.set is None:
        points = shapes.cross(
            rows or (1,),
            cols or (2**20,),
            ks or (64,),
            options.input or ("normal",),
            options.dtype or ("float32",),
            max_elements=2**34,
        )
    else:
        points = [
            p
            for p in shapes.point_set(options.set)
            if (not rows or p.rows in rows)
            and (not cols or p.cols in cols)
            and (not ks or p.k in ks)
            and (not options.input or p.input in options.input)
            and (not options.dtype or p.dtype in options.dtype)
        ]
    if options.algorithm:
        names = ALGORITHMS if "all" in options.algorithm else options.algorithm
        points = shapes.with_algorithms(points, names)
    if options.sorted is not None:
        points = [replace(p, sorted=options.sorted) for p in points]
    order = {key: i for i, key in enumerate(dict.fromkeys(p.data_key for p in points))}
    applicable = [p for p in points if inputs.applies(p.input, getattr(torch, p.dtype))]
    return sorted(applicable, key=lambda p: order[p.data_key])[:: options.every]


def why_no_points(options: argparse.Namespace) -> str:
    if options.set is not None:
        return f"no point of --set {options.set} has these axes"
    cols, ks = options.cols or (2**20,), options.k or (64,)
    if min(ks) > max(cols):
        return f"k = {min(ks)} is more than cols = {max(cols)}"
    return "no input has that dtype, or rows x cols is more than 2^34"


def device_of(options: argparse.Namespace) -> torch.device:
    if options.device is not None:
        return options.device
    return torch.device("cuda" if options.set != "cpu" and torch.cuda.is_available() else "cpu")


def run_points(
    points: Sequence[Point], device: torch.device, options: argparse.Namespace, out: report.JsonLines
) -> Run:
    run = Run()
    peer_names = options.peers if device.type == "cuda" else []
    budget = options.budget or (CUDA_BUDGET_S if device.type == "cuda" else CPU_BUDGET_S)
    held = HeldInput(device)

    def text(p: Point) -> str:
        return f"{p.input} {p.rows} x {size_text(p.cols)} k={size_text(p.k)} {p.dtype}"

    with run.kept():
        for point in run.through(points, text, options.time_limit):
            run.records.append(run_point(point, held, peer_names, budget))
            out.write(run.records[-1])
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = device_of(options)
    if not torch._C._dispatch_has_kernel_for_dispatch_key("gputopk::topk", device.type.upper()):
        print(f"torch_topk has no {device.type} library here")
        return 2
    if device.index is not None and device.type == "cuda":
        torch.cuda.set_device(device)
    points = points_of(options)
    if not points:
        print(f"nothing to time: {why_no_points(options)}")
        return 1
    name = options.set or "custom"
    path = options.output or report.RESULTS / f"{name}-{device.type}.jsonl"
    out = report.JsonLines(path)
    start = time.monotonic()
    floor = floor_name(device)
    out.write(environment.header(device, options.commit, set=name, points=len(points), floor=floor))
    run = run_points(points, device, options, out)
    records = run.records
    failed = [(p, failure) for p in records for failure in p["failures"]]
    not_run = len(points) - len(records)
    out.write(
        {
            "kind": "summary",
            "points": len(records),
            "not_run": not_run,
            "stopped_by": run.stopped_by,
            "failed": [f"{describe(p)}: {failure}" for p, failure in failed],
            "seconds": round(time.monotonic() - start, 1),
        }
    )
    out.close()
    if records:
        print_table(records)
        print_findings(records)
    print(f"\n{len(records)} points in {time.monotonic() - start:.0f} s, written to {path}")
    if not_run:
        print(f"{not_run} of {len(points)} points were not run: stopped by {run.stopped_by}")
    if options.plot:
        from bench import plot

        plot.plot_file(path)
    if failed:
        print(f"{len(failed)} results FAILED verification:")
        for p, failure in failed:
            print(f"  {describe(p)}: {failure}")
    return 1 if failed or run.broken else 0


if __name__ == "__main__":
    sys.exit(main())
