"""Times every form that can serve a request, over random requests: what the plan's costs are fitted to.

    python bench/sweep_plan.py --seconds 500        # CUDA; writes bench/results/plan-cuda.jsonl
    python bench/sweep_plan.py --again bench/results/plan-h200.jsonl --forms delegate.one_cluster
    python bench/sweep_plan.py --cols 2^26 2^30 --most-k 2^22 --output bench/results/plan-h200-3.jsonl
    python bench/sweep_plan.py --rows 1 8 --cols 2^17 2^22 --output bench/results/plan-h200-5.jsonl
    python bench/sweep_plan.py --rows 1 8 --cols 2^20 2^28 --output bench/results/plan-h200-6.jsonl
    python bench/sweep_plan.py --set held callers short --output bench/results/plan-h200-7.jsonl
    python bench/sweep_plan.py --side-by-side --output bench/results/plan-h200-8.jsonl

The second times some forms anew at the requests of a recorded sweep, after they were changed, and adds to
that file a header and records that stand for those forms' earlier ones; with --missing, only where a form
that now serves a request has no time. The one with --set takes the shapes of sets of bench_topk.py, those
that models call with, in place of random ones. The last times the ways to read rows that lie side by side, as
those of a dimension other than the last do: winners are in order then.

Rows, cols and k are drawn log-uniformly, so that they lie between the powers of two as callers' do, single
rows and k near cols more often than that would bring them; dtypes by width; inputs from those that kernels
find easy and hard. Each form is timed unsorted and sorted, beside one read of the input. All forms' results
of a point must be the same set; one goes through the exact oracle. bench/fit_plan.py reads the records.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk
from bench import environment, report, shapes, timing
from bench.contenders import floor_contender, works_of
from bench.timing import Contender, two_tensors
from tests import inputs, oracle, study_library
from tests.records import commit_named

BUDGET_S = 0.02
ROUNDS = 5
COLS = (8, 2**26)
MAX_ELEMENTS = 2**28  # of rows together
MAX_K = 2**20
# Mostly float32 and bfloat16, as callers' tensors are.
DTYPES = ("float32", "float32", "float32", "bfloat16", "bfloat16", "uint8", "int64", "int64")
ONE_ROW = 0.15  # of the points
LARGE_K = 0.15  # of the points: a tenth of the row or more, and now and then all of it
PANEL_BYTES = 96 << 20  # csrc/cuda/strided/strided.h
INPUTS = ("normal", "increasing", "all_equal", "twelve_bit_random", "few_distinct", "ones_with_four_outliers")

Record = report.Record


def log_uniform(random_: random.Random, least: int, most: int) -> int:
    """An integer of [least, most], as likely of any magnitude."""
    return min(most, int(least * (most / least + 1e-9) ** random_.random()))


def draw(
    random_: random.Random, of_rows: Sequence[int] | None, least_cols: int, most_cols: int
) -> dict[str, Any]:
    cols = log_uniform(random_, least_cols, most_cols)
    if of_rows:
        rows = log_uniform(random_, *of_rows)
    else:
        most_rows = 1 if random_.random() < ONE_ROW else min(2**17, max(1, MAX_ELEMENTS // cols))
        rows = log_uniform(random_, 1, most_rows)
    if random_.random() < LARGE_K:
        k = random_.choice((cols, max(1, int(cols * random_.uniform(0.1, 1)))))
    else:
        k = log_uniform(random_, 1, min(cols, MAX_K, max(1, 2**26 // rows)))
    return {"rows": rows, "cols": cols, "k": k, "dtype": random_.choice(DTYPES)}


def drawn(random_: random.Random, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Random requests, without end."""
    while True:
        yield draw(random_, options.rows, *options.cols)


def drawn_side_by_side(random_: random.Random, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same of rows that lie side by side, as many as callers have channels, pixels or features."""
    least_cols, most_cols = options.cols
    while True:
        inner = random_.choice((log_uniform(random_, 2, 64), log_uniform(random_, 8, 8192)))
        inner = inner // 8 * 8 if random_.random() < 0.5 and inner > 8 else inner
        cols = log_uniform(random_, max(least_cols, 65), min(most_cols, 2**20))
        outer = log_uniform(random_, 1, max(1, MAX_ELEMENTS // (cols * inner)))
        if not 2**18 <= outer * cols * inner <= MAX_ELEMENTS:
            continue
        k = log_uniform(random_, 1, min(cols, 2048))
        dtype = random_.choice(DTYPES)
        yield {"rows": outer * inner, "cols": cols, "k": k, "dtype": dtype, "inner": inner}


def requests_of(sets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each shape and dtype of the sets' matrices once."""
    seen = set()
    for point in itertools.chain.from_iterable(map(shapes.point_set, sets)):
        request = {"rows": point.rows, "cols": point.cols, "k": point.k, "dtype": point.dtype}
        if point.inner == 1 and tuple(request.values()) not in seen:
            seen.add(tuple(request.values()))
            yield request


def forms_of(request: dict[str, Any], order: bool) -> dict[str, bool]:
    """The forms that serve the request on the GPU at hand, and whether their rows come out in order."""
    works = works_of(request, "cuda", order)
    return {name: "in_order 1 " in work for name, work in works.items() if name != "order_rows"}


def contender(name: str, k: int, order: bool) -> Contender:
    run = torch.ops.gputopk._form
    return Contender(name, lambda x: run(x, k, name, True, order), export=two_tensors, eager=False)


def side_by_side_contender(name: str, k: int) -> Contender:
    """A way to read rows side by side: panels, or what an algorithm has of its own."""
    if name == "strided.panels":
        run = functools.partial(torch.ops.gputopk._strided, panel_bytes=PANEL_BYTES)
    else:
        run = functools.partial(torch.ops.gputopk.topk, algorithm=torch_topk.Algorithm[name.split(".")[0]])
    return Contender(name, lambda x: run(x, k, 1), export=two_tensors, eager=False)


def time_side_by_side(request: dict[str, Any], name: str, seed: int, *_: object) -> list[Record]:
    """The times of all ways to read rows side by side on one input, sorted."""
    rows, cols, k, inner = (request[key] for key in ("rows", "cols", "k", "inner"))
    x = inputs.make(name, rows, cols, getattr(torch, request["dtype"]), torch.device("cuda"), seed)
    columns = x.view(-1, inner, cols).mT.contiguous()
    contenders = [side_by_side_contender(form, k) for form in forms_of(request, True)]
    timings = timing.measure([floor_contender(columns), *contenders], timing.copies_of(columns), BUDGET_S)
    floor, first = timings.pop("floor"), None
    for form, timed in timings.items():
        if timed.us is None:
            raise RuntimeError(f"{form} at {request}: {timed.reason}")
        values, indices = timed.outputs
        if first is None:
            first = indices
            of_rows = tuple(tensor.mT.reshape(rows, k).contiguous() for tensor in (values, indices))
            oracle.assert_topk_on_device(of_rows, x, k, sorted=True)
        elif not torch.equal(first, indices):
            raise RuntimeError(f"{form} at {request}, {name}: other winners")
    us = {form: round(timed.us, 3) for form, timed in timings.items()}
    return [{**request, "input": name, "sorted": True, "floor_us": floor.us, "us": us}]


def as_set(outputs: timing.Outputs) -> torch.Tensor:
    return outputs[1].sort(dim=-1).values


def time_input(
    request: dict[str, Any], name: str, seed: int, without: Sequence[str] = (), alone: Sequence[str] = ()
) -> list[Record]:
    """The times of all forms on one input, unsorted and sorted, or of those `alone`."""
    rows, cols, k, dtype = (request[key] for key in ("rows", "cols", "k", "dtype"))
    x = inputs.make(name, rows, cols, getattr(torch, dtype), torch.device("cuda"), seed)
    copies = timing.copies_of(x)
    records, first = [], None
    in_order_us: dict[str, float] = {}
    for order in (True, False):
        forms = {
            form: ordered
            for form, ordered in forms_of(request, order).items()
            if form not in without and (not alone or form in alone)
        }
        # A form whose rows come out in order takes as long unsorted.
        names = [form for form in forms if form not in in_order_us]
        contenders = [floor_contender(x), *(contender(form, k, order) for form in names)]
        timings = timing.measure(contenders, copies, BUDGET_S)
        floor = timings.pop("floor")
        for form, timed in timings.items():
            if timed.us is None:
                raise RuntimeError(f"{form} at {request}: {timed.reason}")
            if first is None:
                first = as_set(timed.outputs)
                oracle.assert_topk_on_device(timed.outputs, x, k, sorted=order)
            elif not torch.equal(first, as_set(timed.outputs)):
                raise RuntimeError(f"{form} at {request}, {name}: another set than {names[0]}'s")
        times = {form: round(timed.us, 3) for form, timed in timings.items()}
        if order:
            in_order_us = {form: us for form, us in times.items() if forms[form]}
        else:
            times = {form: times.get(form) or in_order_us[form] for form in forms}
        records.append({"sorted": order, "floor_us": floor.us, "us": times})
    return [{**request, "input": name, **record} for record in records]


def times_again(path: Path, forms: Sequence[str], options: argparse.Namespace, device: torch.device) -> int:
    recorded = [record for record in report.sweep_of(path) if record["sorted"]]
    timed = defaultdict(set)
    for record in recorded:
        timed[record["point"], record["input"]] |= record["us"].keys()
    out = report.JsonLines(path, append=True)
    out.write(environment.header(device, options.commit, again=list(forms)))
    start, done, points = time.monotonic(), set(), 0
    progress = report.Progress(len(recorded))
    for record in recorded:
        progress.done += 1
        if time.monotonic() - start > options.seconds:
            break
        request = {key: record[key] for key in ("rows", "cols", "k", "dtype")}
        key = (record["point"], record["input"])
        if not options.least_k <= request["k"] <= options.most_k:
            continue
        wanted = set(forms) & set(forms_of(request, order=True))
        if options.missing:
            wanted -= timed[key]
        if key in done or not wanted:
            continue
        done.add(key)
        progress.show(str(request))
        for again in time_input(request, record["input"], record["point"], alone=wanted):
            out.write({"kind": "plan", "point": record["point"], **again, "again": True})
        points += 1
    progress.close()
    out.close()
    print(f"{points} inputs of {len(recorded)} in {time.monotonic() - start:.0f} s, added to {path}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=500, help="start no point after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rows", type=report.integer, nargs=2, metavar=("LEAST", "MOST"), help="default: of any number"
    )
    parser.add_argument(
        "--cols",
        type=report.integer,
        nargs=2,
        default=COLS,
        metavar=("LEAST", "MOST"),
        help="such as 2^26 2^30",
    )
    parser.add_argument(
        "--set", nargs="+", default=[], choices=sorted(shapes.SETS), metavar="NAME", help="of bench_topk.py"
    )
    parser.add_argument("--side-by-side", action="store_true", help="rows of a dimension other than the last")
    parser.add_argument("--least-k", type=report.integer, default=1, metavar="K", help="or for fewer")
    parser.add_argument(
        "--most-k", type=report.integer, default=2**26, metavar="K", help="leave out requests for more"
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="FORM", help="forms that are not timed")
    parser.add_argument("--again", type=Path, metavar="FILE", help="a recorded sweep, to which to add")
    parser.add_argument("--forms", nargs="+", default=[], metavar="FORM", help="with --again: what is timed")
    parser.add_argument("--missing", action="store_true", help="with --again: where there is no time yet")
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path, help="JSON lines; default: bench/results/plan-cuda.jsonl")
    options = parser.parse_args()
    if (options.again is None) != (not options.forms):
        parser.error("--again and --forms go together")
    if not study_library.loaded:
        print("the sweep needs a GPU and libgputopk_study.so: make study")
        return 2
    timing.ROUNDS = ROUNDS
    device = torch.device("cuda")
    if options.again is not None:
        return times_again(options.again, options.forms, options, device)
    path = options.output or report.RESULTS / "plan-cuda.jsonl"
    out = report.JsonLines(path)
    out.write(environment.header(device, options.commit, seed=options.seed))
    random_ = random.Random(options.seed)
    start, points = time.monotonic(), 0
    progress = report.Progress(int(options.seconds))
    time_request = time_side_by_side if options.side_by_side else time_input
    draw_requests = drawn_side_by_side if options.side_by_side else drawn
    for request in requests_of(options.set) if options.set else draw_requests(random_, options):
        if (spent := time.monotonic() - start) >= options.seconds:
            break
        if not options.least_k <= request["k"] <= options.most_k:
            continue
        hard = INPUTS[1 + points % (len(INPUTS) - 1)] if options.set else random_.choice(INPUTS[1:])
        progress.done = int(spent)
        progress.show(f"{points} points; {request}")
        for name in ("normal", hard):
            for record in time_request(request, name, points, options.without):
                out.write({"kind": "plan", "point": points, **record})
        points += 1
    progress.close()
    out.close()
    print(f"{points} points in {time.monotonic() - start:.0f} s, written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
