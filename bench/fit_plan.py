"""Fits what a unit of work costs each form, from a recorded sweep, and writes it where the plan reads it.

    python bench/fit_plan.py            # bench/results/plan-h200.jsonl -> csrc/cuda/plan/costs_h200.h
    python bench/fit_plan.py --check    # writes nothing

A form's time is  fixed + max(bytes, elements, depth) + waves + winners,  each a number of the form's own
plan (csrc/cuda/cost.h, asked through gputopk::_forms, without a GPU) times a cost. Costs are fitted for each
form and width of dtype, to the logarithm of the time on the worse of the point's two inputs. A quarter of
the points is held out; how far the choice by these costs is from the best form is printed for them alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from scipy.optimize import least_squares

import torch_topk  # noqa: F401 (loads the operators)
from bench import report
from bench.environment import ROOT

TERMS = ("bytes", "elements", "depth", "waves", "winners")
UNITS = np.array([1e6, 1e3, 1e3, 1.0, 1e3])  # of each term, in the header as well
PARTS = ("fixed", "byte", "element", "depth", "wave", "winner")
ORDER = "order_rows"
WIDTHS = (1, 2, 4, 8)
HELD_OUT = 4  # one point in so many
LEAST = 1e-6  # us a unit


def forms_of(record: report.Record) -> dict[str, tuple[bool, np.ndarray]]:
    """By name: whether rows come out in order, and the work."""
    like = torch.empty((1, 1), dtype=getattr(torch, record["dtype"]), device="meta")
    text = torch.ops.gputopk._forms(
        like.expand(record["rows"], record["cols"]), record["k"], sorted=record["sorted"]
    )
    forms = {}
    for line in text.splitlines():
        name, _, terms = line.split("; ")
        words = terms.split()
        numbers = dict(zip(words[::2], map(float, words[1::2]), strict=True))
        forms[name] = (bool(numbers["in_order"]), np.array([numbers[term] for term in TERMS]) / UNITS)
    return forms


def predicted(costs: np.ndarray, work: np.ndarray) -> np.ndarray:
    """Microseconds; work is [n, terms]."""
    return costs[0] + (costs[1:4] * work[:, :3]).max(axis=1) + work[:, 3:] @ costs[4:]


def fit(work: np.ndarray, us: np.ndarray) -> np.ndarray:
    """Costs, none negative, by least squares of the logarithm. The maximum has corners: several starts."""

    def distance(logs: np.ndarray) -> np.ndarray:
        return np.log(predicted(np.exp(logs), work) / us)

    starts = [
        (1.0, 0.25, 0.05, 0.5, 0.5, 0.5),
        (3.0, 0.25, 0.005, 0.05, 0.05, 0.05),
        (5.0, 0.5, 0.5, 0.05, 2.0, 5.0),
    ]
    least = np.log(LEAST)
    results = [
        least_squares(distance, np.log(start), bounds=(least, 12), loss="soft_l1", f_scale=0.1)
        for start in starts
    ]
    return np.exp(min(results, key=lambda result: result.cost).x)


class Points:
    """The sweep, by point and sortedness: the worse of the two inputs' times a form."""

    def __init__(self, records: list[report.Record]) -> None:
        self.records: dict[tuple[int, bool], report.Record] = {}
        self.us: dict[tuple[int, bool], dict[str, float]] = defaultdict(dict)
        for record in records:
            key = record["point"], record["sorted"]
            self.records[key] = record
            for form, us in record["us"].items():
                self.us[key][form] = max(us, self.us[key].get(form, 0.0))
        self.forms = {key: forms_of(record) for key, record in self.records.items()}

    @staticmethod
    def held_out(key: tuple[int, bool]) -> bool:
        return key[0] % HELD_OUT == 0

    def width(self, key: tuple[int, bool]) -> int:
        return getattr(torch, self.records[key]["dtype"]).itemsize


def order_work(record: report.Record) -> np.ndarray:
    """Of order_rows: what csrc/cuda/plan/plan.cpp estimates it by."""
    rows, k = record["rows"], record["k"]
    width = getattr(torch, record["dtype"]).itemsize
    on_an_sm = -(-rows // 132) * k
    return np.array([3.0 * rows * k * (width + 8), on_an_sm, 0.0, 0.0, 0.0]) / UNITS


def fitted(points: Points, train: bool = True) -> dict[str, dict[int, np.ndarray]]:
    """Costs by form and width."""
    work, us = defaultdict(list), defaultdict(list)
    for key, record in points.records.items():
        if train and points.held_out(key):
            continue
        width = points.width(key)
        for form, time in points.us[key].items():
            if form not in points.forms[key]:
                continue
            in_order, terms = points.forms[key][form]
            if not record["sorted"] or in_order:
                work[form, width].append(terms)
                us[form, width].append(time)
            else:
                unordered = points.us[key[0], False][form]
                if time > 1.02 * unordered:
                    work[ORDER, width].append(order_work(record))
                    us[ORDER, width].append(time - unordered)
    costs: dict[str, dict[int, np.ndarray]] = defaultdict(dict)
    for (form, width), rows in work.items():
        if len(rows) >= 2 * len(PARTS):
            costs[form][width] = fit(np.array(rows), np.array(us[form, width]))
    return costs


def estimate(
    costs: dict[str, dict[int, np.ndarray]], points: Points, key: tuple[int, bool], form: str
) -> float:
    width = points.width(key)
    in_order, work = points.forms[key][form]
    if width not in costs.get(form, {}):
        return float("inf")
    us = predicted(costs[form][width], work[None])[0]
    if key[1] and not in_order:
        us += predicted(costs[ORDER][width], order_work(points.records[key])[None])[0]
    return us


def regrets(costs: dict[str, dict[int, np.ndarray]], points: Points) -> list[tuple[float, str]]:
    """Of every held-out point: the chosen form's time over the best one's, and what it is about."""
    found = []
    for key, times in points.us.items():
        if not points.held_out(key):
            continue
        known = [form for form in times if form in points.forms[key]]
        chosen = min(known, key=lambda form: estimate(costs, points, key, form))
        best = min(known, key=times.__getitem__)
        r = points.records[key]
        text = f"{r['rows']} x {r['cols']} k={r['k']} {r['dtype']} {'sorted' if key[1] else 'unsorted'}"
        found.append((times[chosen] / times[best], f"{text}: {chosen} for {best}"))
    return sorted(found, reverse=True)


def header_text(costs: dict[str, dict[int, np.ndarray]], source: str, header: report.Record) -> str:
    rows = []
    for form in sorted(costs):
        widths = [costs[form].get(width) for width in WIDTHS]
        known = next(w for w in (costs[form].get(4), *widths) if w is not None)
        cells = ["{" + ", ".join(f"{c:.4g}" for c in (known if w is None else w)) + "}" for w in widths]
        rows.append(f'    {{"{form}",\n     {{' + ",\n      ".join(cells) + "}},")
    return f"""// What a unit of each form's work costs, in microseconds, by width of dtype: 1, 2, 4, 8 bytes.
// Written by bench/fit_plan.py from {source}, of commit {header["commit"]}, {header["date"][:10]},
// {header["gpu"]}, driver {header["driver"]}. Not edited by hand.
#pragma once

#include "cuda/plan/costs.h"

namespace gputopk::cuda {{

inline constexpr FormCosts kCostsH200[] = {{
    // clang-format off
    // {", ".join(PARTS)}
{chr(10).join(rows)}
    // clang-format on
}};

}}  // namespace gputopk::cuda
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweep", type=Path, default=ROOT / "bench" / "results" / "plan-h200.jsonl")
    parser.add_argument("--output", type=Path, default=ROOT / "csrc" / "cuda" / "plan" / "costs_h200.h")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    header, *records = report.read(options.sweep)
    points = Points([record for record in records if record["kind"] == "plan"])
    costs = fitted(points)
    found = regrets(costs, points)
    ratios = np.array([ratio for ratio, _ in found])
    print(
        f"{len(ratios)} held-out requests: auto within 10 % of the best at {np.mean(ratios <= 1.1):.1%}, "
        f"within 30 % at {np.mean(ratios <= 1.3):.1%}, worst {ratios.max():.2f}, mean {ratios.mean():.3f}"
    )
    for ratio, text in found[:25]:
        print(f"  {ratio:.2f}  {text}")
    if not options.check:
        options.output.write_text(header_text(fitted(points, train=False), options.sweep.name, header))
        print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
