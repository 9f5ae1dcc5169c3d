"""Fits what a unit of work costs each form, from a recorded sweep, and writes it where the plan reads it.

    python bench/fit_plan.py            # bench/results/plan-h200*.jsonl -> csrc/cuda/plan/costs_h200.h
    python bench/fit_plan.py --check    # writes nothing
    python bench/fit_plan.py --forms delegate.one_grid    # the costs of forms that were swept anew alone
    python bench/fit_plan.py --forms delegate.grid_parts --bench \\
        --sweep bench/results/plan-h200-6.jsonl bench/results/plan-h200-9.jsonl    # from these sweeps alone
    python bench/fit_plan.py --where-better --bench \\
        --sweep bench/results/plan-h200-7.jsonl bench/results/plan-h200-10.jsonl    # and keep the others
    python bench/fit_plan.py --scale csrc/cuda/plan/costs_h200.h --bench \\
        --sweep build/plan-tuned.jsonl --output build/costs_tuned.h    # another GPU's, from a short sweep

Beside the sweeps it reads what bench_topk.py recorded of callers' shapes and the grid, mostly of one form.

A form's time is  fixed + max(bytes, elements, depth) + waves + blocks + winners + entries,  each a number of
the form's own plan (csrc/cuda/cost.h, asked through gputopk::_forms, without a GPU) times a cost, and the sum
bent by a polynomial in the logarithms of the sizes (csrc/cuda/plan/costs.h). Costs are fitted for each form,
way that it goes (a sort, say, in a block or in parts) and width of dtype, to the logarithm of the
time: the mean of the logarithms of the point's inputs, a normal one and a hard one; a time counts the less
the further it is from the point's best, for what never wins need not be told apart. Each quarter of the
points is held out in turn; how far the choice by costs that were fitted without it is from the best form is
printed for all of them.

The mean, as the worse of the two was tried: which hard input a point drew is then half of what is fitted, and
the choice was further from the best on normal inputs (86.8 % within 10 %, the mean 91.1), on hard ones no
nearer (81.0, 80.5), and further even on the worse of the two (84.5, 85.3; a quarter held out, 2026-11-23).

What fits a form's times better may choose worse, where forms are close. With --where-better the costs of a
form, of one width, are taken if the choice over all recorded requests is nearer to the best by them, one form
and width after the other, the one that gains most first; all others stay as the file has them. No request of
a sweep by --set, whose shapes models call with, may take longer by it than by the file's.

A sweep of minutes is too little for all of that. With --scale the costs that a header has are kept but for
four factors a form, way and width: of what a launch, waves and blocks take, of bytes, of elements, and of
winners and entries. Factors are held near 1 where the sweep says little. How far the choice is from the best
by the costs as they are is printed too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from scipy.optimize import least_squares

import torch_topk  # noqa: F401 (loads the operators)
from bench import report
from bench.contenders import works_of
from tests.records import ROOT

TERMS = ("bytes", "elements", "depth", "waves", "blocks", "winners", "entries")
UNITS = np.array([1e6, 1e3, 1e3, 1.0, 1.0, 1e3, 1e3])  # of each term, in the header as well
PARTS = ("fixed", "byte", "element", "depth", "wave", "block", "winner", "entry")
BENDS = 9
ORDER = "order_rows"
WIDTHS = (1, 2, 4, 8)
BENCHES = (
    "callers",
    "callers-after",
    "callers-cluster",
    "callers-sectors",
    "goals",
    "held",
    "grid",
    "air",
    "grid_select",
    "delegate",
)
QUARTERS = 4  # of the points, each held out once
LEAST, MOST = 1e-7, 1e4  # us a unit
STIFFNESS = 0.05  # of the polynomial: what a coefficient of 1 weighs beside an error of 2 ** 1
NEAR = 1.5  # times the best: from there on a time counts less...
CALLED = 2.0  # times what another weighs: a time at a shape that models call with, of a sweep by --set
FACTORS = ([0, 4, 5], [1], [2, 3], [6, 7])  # the parts that are scaled together
HOLD = 1.0  # of a factor: what one of e weighs beside an error of 2 ** 1
BEYOND = 0.05  # what a choice more than 10 % from the best weighs beside the logarithm of its ratio
LEAST_GAIN = 5e-5  # of that, in the mean, by which costs are taken
SLOWER = 1.02  # times as long as before is no longer
TOO_LITTLE = 0.6  # ...but no less than this where the estimate is below it: it must not look the best


@dataclass
class Form:
    """What a plan says of a form at a request."""

    in_order: bool  # rows come out so
    costs: str  # whose: the form's, or those of its way
    work: np.ndarray


def forms_of(record: report.Record) -> dict[str, Form]:
    """By name."""
    forms = {}
    for name, terms in works_of(record, "meta", record["sorted"]).items():
        words = terms.split()
        numbers = dict(zip(words[::2], map(float, words[1::2]), strict=True))
        work = np.array([numbers[term] for term in TERMS]) / UNITS
        forms[name] = Form(bool(numbers["in_order"]), f"{name} {int(numbers['way'])}", work)
    return forms


def sizes(record: report.Record) -> np.ndarray:
    """What the polynomial is of: csrc/cuda/plan/costs.h, microseconds()."""
    r, c, k = (0.1 * np.log2(record[name]) for name in ("rows", "cols", "k"))
    return np.array([r, c, k, r * r, c * c, k * k, r * c, r * k, c * k])


def predicted(costs: np.ndarray, work: np.ndarray, of_sizes: np.ndarray) -> np.ndarray:
    """Microseconds; work is [n, terms], of_sizes [n, bends]."""
    sums = costs[0] + (costs[1:4] * work[:, :3]).max(axis=1) + work[:, 3:] @ costs[4 : len(PARTS)]
    return sums * np.exp2(of_sizes @ costs[len(PARTS) :])


def errors_of(
    costs: np.ndarray, work: np.ndarray, of_sizes: np.ndarray, us: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Weighed, in powers of 2."""
    errors = np.log2(predicted(costs, work, of_sizes) / us)
    return errors * np.where(errors < 0, np.maximum(weights, TOO_LITTLE), weights)


def scale(costs: np.ndarray, *samples: np.ndarray) -> np.ndarray:
    """The costs times factors, by least squares of the logarithm; samples: as fit()."""

    def scaled(x: np.ndarray) -> np.ndarray:
        result = costs.copy()
        for parts, factor in zip(FACTORS, np.exp(x), strict=True):
            result[parts] *= factor
        return result

    def distance(x: np.ndarray) -> np.ndarray:
        return np.concatenate([errors_of(scaled(x), *samples), HOLD * x])

    return scaled(least_squares(distance, np.zeros(len(FACTORS)), loss="soft_l1", f_scale=0.15).x)


def fit(work: np.ndarray, of_sizes: np.ndarray, us: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Costs, none negative, by least squares of the logarithm. The maximum has corners: several starts."""
    parts = len(PARTS)

    def costs_of(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.exp(x[:parts]), x[parts:]])

    def distance(x: np.ndarray) -> np.ndarray:
        return np.concatenate([errors_of(costs_of(x), work, of_sizes, us, weights), STIFFNESS * x[parts:]])

    starts = [
        (1.0, 0.25, 0.05, 0.5, 0.5, 0.1, 0.5, 0.05),
        (3.0, 0.25, 0.005, 0.05, 0.05, 0.05, 0.05, 0.5),
        (5.0, 0.5, 0.5, 0.05, 2.0, 0.5, 5.0, 0.05),
    ]
    low = np.concatenate([np.full(parts, np.log(LEAST)), np.full(BENDS, -20.0)])
    high = np.concatenate([np.full(parts, np.log(MOST)), np.full(BENDS, 20.0)])
    results = [
        least_squares(
            distance, np.concatenate([np.log(start), np.zeros(BENDS)]), bounds=(low, high),
            loss="soft_l1", f_scale=0.15, max_nfev=200,
        )
        for start in starts
    ]  # fmt: skip
    return costs_of(min(results, key=lambda result: result.cost).x)


Key = tuple[tuple[int, int], bool]  # a point, by sweep and number, and sortedness


# What plans said of themselves before they named their form.
FORM_OF_TEXT = {
    r"air: one cluster": "air.one_cluster",
    r"air: one block": "air.one_block",
    r"air: \d+ blocks": "air.many_blocks",
    r"grid_select: .* lists of": "grid_select.shared_list",
    r"grid_select: ": "grid_select.registers",
    r"delegate: bound": "delegate.from_sample",
    r"delegate: subranges": "delegate.from_maxima",
}


def form_of(plan: str) -> str:
    return report.form_named(plan) or next(f for text, f in FORM_OF_TEXT.items() if re.match(text, plan))


def bench_points(path: Path) -> list[report.Record]:
    """The points of a bench's record as those of a sweep: of the forms that were timed, mostly one."""
    points = []
    for number, record in enumerate(report.read(path)):
        ours = [c for c in record.get("contenders", ()) if c["name"].startswith("ours:") and c["us"]]
        # Where order_rows took part, the time is not the form's.
        us = {form_of(c["plan"]): c["us"] for c in ours if "then order_rows" not in c["plan"]}
        if us and record.get("kind") == "point":
            sizes = {name: record[name] for name in ("rows", "cols", "k", "dtype", "sorted")}
            points.append({"kind": "plan", "point": number, **sizes, "us": us})
    return points


class Points:
    """The sweeps, by point and sortedness: a form's time, the geometric mean over the inputs."""

    def __init__(self, sweeps: list[list[report.Record]], weights: Sequence[float] = ()) -> None:
        """`weights`: of the first sweeps, for those that do not weigh 1."""
        self.records: dict[Key, report.Record] = {}
        self.weights = [*weights, *[1.0] * (len(sweeps) - len(weights))]
        us: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number, record in ((n, r) for n, sweep in enumerate(sweeps) for r in sweep):
            key = (number, record["point"]), record["sorted"]
            self.records.setdefault(key, record)
            for form, time in record["us"].items():
                us[key][form].append(time)
        self.us = {
            key: {form: geometric_mean(times) for form, times in forms.items()} for key, forms in us.items()
        }
        self.forms = {key: forms_of(record) for key, record in self.records.items()}

    @staticmethod
    def quarter(key: Key) -> int:
        return key[0][1] % QUARTERS

    def width(self, key: Key) -> int:
        return getattr(torch, self.records[key]["dtype"]).itemsize


# By form and way, and width.
AllCosts = dict[str, dict[int, np.ndarray]]


def fitted(points: Points, before: AllCosts, without: int | None = None) -> AllCosts:
    """Of all points or without a quarter: the costs of before, scaled, or, where there are none, anew."""
    samples = defaultdict(list)
    for key, record in points.records.items():
        if points.quarter(key) == without:
            continue
        width, best = points.width(key), min(points.us[key].values())
        for form, time in points.us[key].items():
            if form not in points.forms[key]:
                continue
            weight = points.weights[key[0][0]] * min(1.0, (NEAR * best / time) ** 2)
            planned, order = points.forms[key][form], points.forms[key][ORDER]
            if not record["sorted"] or planned.in_order:
                samples[planned.costs, width].append((planned.work, sizes(record), time, weight))
                continue
            unordered = points.us[key[0], False].get(form, time)
            if time > 1.02 * unordered:
                samples[order.costs, width].append((order.work, sizes(record), time - unordered, weight))
    costs: AllCosts = defaultdict(dict, {name: dict(of_widths) for name, of_widths in before.items()})
    for (name, width), rows in samples.items():
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        if name in before:
            costs[name][width] = scale(before[name][width], *columns)
        elif not before and len(rows) >= 2 * len(PARTS):
            costs[name][width] = fit(*columns)
    return costs


def of_width(costs: dict[int, np.ndarray], width: int) -> np.ndarray:
    """Those of another width where too few of this one were timed."""
    return next(costs[w] for w in (width, 4, *WIDTHS) if w in costs)


def of_way(costs: AllCosts, name: str) -> dict[int, np.ndarray] | None:
    """Those of the form's last way where too few of this one were timed, as csrc/cuda/plan/costs.h has it."""
    ways = sorted(other for other in costs if other.split()[0] == name.split()[0])
    return costs[name] if name in costs else costs[ways[-1]] if ways else None


def estimate(costs: AllCosts, points: Points, key: Key, form: str) -> float:
    width, of_sizes = points.width(key), sizes(points.records[key])[None]
    planned, order = points.forms[key][form], points.forms[key][ORDER]
    us = 0.0
    for step in [planned] + [order] * (key[1] and not planned.in_order):
        known = of_way(costs, step.costs)
        us += predicted(of_width(known, width), step.work[None], of_sizes)[0] if known else float("inf")
    return us


def regrets(points: Points, costs_of_quarters: Sequence[AllCosts]) -> list[tuple[float, str]]:
    """Of every point, by its quarter's costs: the chosen form's time over the best's, and which they are."""
    found = []
    for key, times in points.us.items():
        costs = costs_of_quarters[points.quarter(key)]
        if len(times) == 1:
            continue
        known = [form for form in times if form in points.forms[key]]
        chosen = min(known, key=lambda form: estimate(costs, points, key, form))
        best = min(known, key=times.__getitem__)
        r = points.records[key]
        text = f"{r['rows']} x {r['cols']} k={r['k']} {r['dtype']} {'sorted' if key[1] else 'unsorted'}"
        found.append((times[chosen] / times[best], f"{text}: {chosen} for {best}"))
    return sorted(found, reverse=True)


class Choices:
    """Each point's times and estimates by two sets of costs, and how far the choice is from the best."""

    def __init__(self, points: Points, before: AllCosts, anew: AllCosts, without: int | None = None) -> None:
        keys = [key for key in points.us if points.quarter(key) != without and len(points.us[key]) > 1]
        self.forms = sorted({form for key in keys for form in points.us[key] if form in points.forms[key]})
        self.times, self.before, self.anew = np.full((3, len(keys), len(self.forms)), np.inf)
        self.widths = np.array([WIDTHS.index(points.width(key)) for key in keys])
        self.weights = np.array([points.weights[key[0][0]] for key in keys])
        for n, key in enumerate(keys):
            for form in points.us[key]:
                if form in points.forms[key]:
                    at = n, self.forms.index(form)
                    self.times[at] = points.us[key][form]
                    self.before[at] = estimate(before, points, key, form)
                    self.anew[at] = estimate(anew, points, key, form)
        self.best = self.times.min(axis=1)
        # No more than so long by any costs.
        by_before = self.chosen(np.zeros((len(self.forms), len(WIDTHS)), dtype=bool))
        self.most = np.where(self.weights >= CALLED, SLOWER * by_before, np.inf)

    def chosen(self, taken: np.ndarray) -> np.ndarray:
        """The time of each point's choice, by new costs of those widths of forms that are taken."""
        estimates = np.where(taken[:, self.widths].T, self.anew, self.before)
        return self.times[np.arange(len(estimates)), estimates.argmin(axis=1)]

    def distance(self, taken: np.ndarray) -> float:
        """Infinite where a shape that models call with takes longer than by the costs of before."""
        chosen = self.chosen(taken)
        if (chosen > self.most).any():
            return float("inf")
        ratios = chosen / self.best
        return float(np.average(np.log(ratios) + BEYOND * (ratios > 1.1), weights=self.weights))

    def better(self) -> np.ndarray:
        """What to take."""
        taken = np.zeros((len(self.forms), len(WIDTHS)), dtype=bool)
        distance = self.distance(taken)
        while True:
            tried = []
            for unit in np.ndindex(*taken.shape):
                taken[unit] ^= True
                tried.append((self.distance(taken), unit))
                taken[unit] ^= True
            least, unit = min(tried)
            if least > distance - LEAST_GAIN:
                return taken
            distance = least
            taken[unit] ^= True


def where_better(points: Points, before: AllCosts, anew: AllCosts, without: int | None = None) -> AllCosts:
    """The costs of before, and those anew where they make the choice better."""
    # What orders winners is a part of others' times: it is not one that is chosen.
    order = {name: of_widths for name, of_widths in before.items() if name.split()[0] == ORDER}
    choices = Choices(points, before, {**anew, **order}, without)
    taken = {
        (form, width)
        for form, of_widths in zip(choices.forms, choices.better(), strict=True)
        for width, is_taken in zip(WIDTHS, of_widths, strict=True)
        if is_taken
    }
    return {
        name: {
            width: of_width(anew[name], width)
            if (name.split()[0], width) in taken and name in anew
            else costs
            for width, costs in of_widths.items()
        }
        for name, of_widths in before.items()
    }


def print_regrets(found: list[tuple[float, str]], requests: str) -> None:
    ratios = np.array([ratio for ratio, _ in found])
    print(
        f"{len(ratios)} {requests}: auto within 10 % of the best at {np.mean(ratios <= 1.1):.1%}, "
        f"within 30 % at {np.mean(ratios <= 1.3):.1%}, worst {ratios.max():.2f}, mean {ratios.mean():.3f}"
    )


def header_text(
    costs: AllCosts,
    records: Iterable[report.Record],
    headers: list[report.Record],
    paths: list[Path],
    kept: dict[str, str],
    kept_sources: dict[str, str],
    measured: str,
) -> str:
    def cell(numbers: np.ndarray) -> str:
        parts, bends = (", ".join(f"{n:.4g}" for n in group) for group in np.split(numbers, [len(PARTS)]))
        return f"{{{parts}, {{{bends}}}}}"

    rows = []
    for name in sorted({*costs, *kept}):
        if name in kept:
            rows.append(kept[name])
            continue
        cells = ",\n      ".join(cell(of_width(costs[name], width)) for width in WIDTHS)
        form, way = name.split()
        rows.append(f'    {{"{form}", {way},\n     {{{cells}}}}},')
    records = list(records)
    most = measured or ", ".join(
        str(max(record[size] for record in records)) for size in ("rows", "cols", "k")
    )
    sources = kept_sources | {
        path.name: f"//   {path.name}, of commit {header['commit'][:12]}, {header['date'][:10]}, "
        f"{header['gpu']}, driver {header['driver']}"
        for header, path in zip(headers, paths, strict=True)
    }
    return f"""// What a unit of each form's work costs, in microseconds, by width of dtype: 1, 2, 4, 8 bytes.
// Written by bench/fit_plan.py, not edited by hand, from
{chr(10).join(sources[name] for name in sorted(sources))}
#pragma once

#include "cuda/plan/costs.h"

namespace gputopk::cuda {{

inline constexpr Measured kMeasured{{{most}}};

inline constexpr FormCosts kCosts[] = {{
    // clang-format off
    // form, way, {", ".join(PARTS)}, bend
{chr(10).join(rows)}
    // clang-format on
}};

}}  // namespace gputopk::cuda
"""


def rows_of(header: str) -> dict[str, str]:
    """What a header says of each form and way."""
    row = r'    \{"([^"]+)", (\d+),\n(?:.*\n){3}.*\}\}\}\},'
    return {f"{x[1]} {x[2]}": x[0] for x in re.finditer(row, header)}


def costs_of(header: str) -> AllCosts:
    """The costs that a header has."""
    costs = {}
    for name, row in rows_of(header).items():
        cells = row.partition("\n")[2].split("}},")[: len(WIDTHS)]
        numbers = [np.array([float(n) for n in re.findall(r"[-+.e\d]+", cell)]) for cell in cells]
        if any(len(of_width) != len(PARTS) + BENDS for of_width in numbers):
            raise ValueError(f"costs of {name}: {row}")
        costs[name] = dict(zip(WIDTHS, numbers, strict=True))
    return costs


def same_costs(some: dict[int, np.ndarray], others: dict[int, np.ndarray]) -> bool:
    return all(np.array_equal(some[width], others[width]) for width in others)


def said_of_others(header: str, forms: list[str]) -> tuple[dict[str, str], dict[str, str], str]:
    """What a header says of all forms, or ways, but these, by name and way, from which records, and up
    to which sizes that holds."""
    kept = {
        name: row
        for name, row in rows_of(header).items()
        if name not in forms and name.split()[0] not in forms
    }
    sources = {x[1]: x[0] for x in re.finditer(r"//   (\S+\.jsonl), .*", header)}
    return kept, sources, re.search(r"Measured kMeasured\{(.*)\}", header)[1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    results = sorted(report.RESULTS.glob("plan-h200*.jsonl"))
    parser.add_argument("--sweep", type=Path, nargs="+", default=results)
    benches = [report.RESULTS / f"{name}-h200.jsonl" for name in BENCHES]
    parser.add_argument("--bench", type=Path, nargs="*", default=benches, help="records of bench_topk.py")
    parser.add_argument("--output", type=Path, default=ROOT / "csrc" / "cuda" / "plan" / "costs_h200.h")
    parser.add_argument(
        "--forms", nargs="+", default=[], metavar="FORM", help="what is written; of others, what the file has"
    )
    parser.add_argument("--scale", type=Path, metavar="HEADER", help="whose costs to scale, not to fit anew")
    parser.add_argument(
        "--where-better", action="store_true", help="what is written where the choice is better by it alone"
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.scale and (options.forms or options.where_better):
        parser.error("--scale: of all forms, not of --forms, nor --where-better")
    sweeps = [report.sweep_of(path) for path in options.sweep]
    headers = [report.read(path)[0] for path in options.sweep]
    weights = [CALLED if "--set " in header["command"] else 1.0 for header in headers]
    points = Points(sweeps + [bench_points(path) for path in options.bench], weights)
    before = options.scale.read_text() if options.scale else ""
    others = before or (options.output.read_text() if options.forms or options.where_better else "")
    kept_costs = costs_of(others)
    if before or options.where_better:
        name = (options.scale or options.output).name
        print_regrets(regrets(points, [kept_costs] * QUARTERS), f"requests, by {name} as it is")

    def costs_without(quarter: int | None = None) -> AllCosts:
        anew = fitted(points, costs_of(before), quarter)
        return where_better(points, kept_costs, anew, quarter) if options.where_better else anew

    found = regrets(points, [costs_without(quarter) for quarter in range(QUARTERS)])
    print_regrets(found, "held-out requests")
    for ratio, text in found[:25]:
        print(f"  {ratio:.2f}  {text}")
    if not options.check:
        costs = costs_without()
        forms = options.forms or [name.split()[0] for name in costs_of(before)]
        if options.where_better:
            changed = [name for name in costs if not same_costs(costs[name], kept_costs[name])]
            print_regrets(
                regrets(points, [costs] * QUARTERS), f"requests, by new costs of {', '.join(changed)}"
            )
            costs, forms = {name: costs[name] for name in changed}, sorted(changed)
        options.output.write_text(
            header_text(
                costs,
                points.records.values(),
                headers,
                options.sweep,
                *(said_of_others(others, forms) if others else ({}, {}, "")),
            )
        )
        print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
