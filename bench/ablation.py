"""What the parts of the algorithms are worth: the ablations of their papers, and a few of this project's own.

    python bench/ablation.py                        # CUDA; writes bench/results/ablation-cuda.jsonl
    python bench/ablation.py --study adaptive alpha --cols 2^20 2^24 2^28

All on one row of float32, unsorted. Timed side by side, against one read of the input in the same run:

    adaptive     AIR's adaptive strategy on and off over cols, where the first 10 and the first 20 bits of all
                 elements agree (its paper's figure 9)
    early_stop   AIR's early stopping on and off over cols, on uniform input as in figure 10, and on input
                 whose k largest elements have the first digit to themselves, so that it surely applies
    digit_bits   AIR's digits of 8 to 14 bits, for input that spreads over the first digit and that does not
    spread       AIR with a row on one block, one cluster, or many blocks of the whole GPU, over cols
    queues       GridSelect with a queue a warp and a queue a thread, over cols and k (figure 11)
    beta         delegate with one and two delegates a subrange over k, each with rule 4's alpha (figure 9)
    alpha        delegate over alpha, rule 4's against the best (figures 13 and 14)
    bound        delegate with its bound from a sample and from all maxima, over k and inputs

and, of delegate from all maxima:

    steps        the time of each step over k (figures 6, 7, 10 and 15), by the profiler; of the sampled form
                 too
    workload     how many elements each selection works on, over k and cols (figures 20 and 21), counted

The papers' gains are printed beside ours. Every timed result goes through the exact oracle; exit status 1 if
one fails. The timed studies are in studies.py, the others in delegate_steps.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk  # noqa: F401 (loads the operators)
from bench import delegate_steps, environment, report, studies, timing
from bench.contenders import contender_record, floor_contender, verdict
from bench.report import Record, integer, number_text, size_text
from bench.runs import Run
from bench.studies import STUDIES, Study
from bench.timing import Contender, HeldInput, two_tensors
from tests import delegate_model, oracle, study_library
from tests.records import commit_named

BUDGET_S = 1.0
NAMES = (*STUDIES, "steps", "workload")
Task = tuple[str, Callable[[], Record]]  # what is shown while it runs


def copies_of_row(name: str, cols: int, row: HeldInput) -> list[torch.Tensor]:
    return row.copies((name, cols), lambda: studies.make(name, cols, row.device))


def base_record(study: str, figure: str, axis: str, input_name: str, cols: int, k: int) -> Record:
    return {
        "kind": "ablation",
        "study": study,
        "figure": figure,
        "axis": axis,
        "input": input_name,
        "rows": 1,
        "cols": cols,
        "k": k,
        "dtype": "float32",
    }


# --- timed studies ----------------------------------------------------------------------------------


def contender(operator: str, variant: str, options: dict[str, Any], k: int) -> Contender:
    def call(x: torch.Tensor) -> timing.Outputs:
        return getattr(torch.ops.gputopk, operator)(x, k, True, False, **options)

    return Contender(variant, call, export=two_tensors, eager=False)


def run_timed(name: str, study: Study, input_name: str, cols: int, k: int, row: HeldInput) -> Record:
    """Times and checks all variants on one input."""
    copies = copies_of_row(input_name, cols, row)
    variants = study.variants(cols, k)
    contenders = [floor_contender(copies[0])]
    contenders += [contender(study.operator, variant, options, k) for variant, options in variants.items()]
    timings = timing.measure(contenders, copies, BUDGET_S)
    records = []
    for variant, t in timings.items():
        record = contender_record(variant, t, timings["floor"].us, None)
        record.pop("x_torch", None)
        if t.outputs is not None:
            record |= verdict(oracle.device_problem(t.outputs, copies[0], k, True, False))
        records.append(record)
    record = base_record(name, study.figure, study.axis, input_name, cols, k)
    if study.axis == "alpha":
        beta = delegate_model.chosen_beta(k)
        record |= {"beta": beta, "rule_4": delegate_model.rule_4(cols, k, torch.float32, beta)}
    return {**record, "floor_us": records[0]["us"], "contenders": records}


def print_timed(name: str, records: Sequence[Record]) -> None:
    """x floor of every variant, and how many times as fast the first of a pair is as the second."""
    study = STUDIES[name]
    variants = list(dict.fromkeys(c["name"] for r in records for c in r["contenders"][1:]))
    rows, best = [], dict.fromkeys(study.inputs, 0.0)
    for record in records:
        by_name: dict[str, Record] = {c["name"]: c for c in record["contenders"]}
        cells = [record["input"], size_text(record["cols"]), size_text(record["k"])]
        cells.append(number_text(record["floor_us"]))
        cells += [number_text(by_name.get(variant, {}).get("x_floor")) for variant in variants]
        if study.pair:
            first, second = (by_name[variant]["us"] for variant in study.pair)
            ratio = second / first if first and second else None
            best[record["input"]] = max(best[record["input"]], ratio or 0.0)
            cells.append(number_text(ratio))
        rows.append(cells)
    columns = ["input", "cols", "k", "floor us", *variants]
    columns += ["{1} / {0}".format(*study.pair)] if study.pair else []
    print(f"\n{name} ({study.figure}): x floor\n{report.table(columns, rows)}")
    reasons = {(c["name"], c["reason"]) for r in records for c in r["contenders"] if c["us"] is None}
    for variant, reason in sorted(reasons):
        print(f"no time for {variant}: {reason}")
    for input_name, paper in study.paper.items() if study.pair else ():
        gain = f"up to {best[input_name]:.2f} times as fast with {study.pair[0]}"
        print(f"{input_name}: {gain}; the paper: {paper}")
    if study.axis == "alpha":
        print_rule_4(records)


def print_rule_4(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        times = {int(c["name"]): c["us"] for c in record["contenders"][1:] if c["us"] is not None}
        if record["rule_4"] not in times:
            continue
        best = min(times, key=times.__getitem__)
        ours = times[record["rule_4"]]
        cells = [record["beta"], record["rule_4"], best]
        rows.append(
            [size_text(record["k"]), *map(str, cells), number_text(ours), number_text(ours / times[best])]
        )
    print(report.table(["k", "beta", "rule 4's alpha", "best alpha", "us by rule 4", "over the best"], rows))


# --- steps and workload of delegate -----------------------------------------------------------------


def run_steps(cols: int, k: int, row: HeldInput) -> Record:
    x = copies_of_row(delegate_steps.STEPS_INPUT, cols, row)[0]
    record = base_record("steps", "Dr. Top-k, figures 6 to 15", "k", delegate_steps.STEPS_INPUT, cols, k)
    forms = []
    for form, options in delegate_steps.forms_of(cols, k).items():
        times, outputs = delegate_steps.profile_steps(x, k, options)
        problem = oracle.device_problem(outputs, x, k, True, False)
        forms.append({"name": form, "us": sum(times.values()), "steps": times, **verdict(problem)})
    return {**record, "contenders": forms}


def print_steps(records: Sequence[Record]) -> None:
    rows = [
        [form["name"], size_text(r["cols"]), size_text(r["k"]), number_text(form["us"])]
        + [number_text(form["steps"][step]) if form["steps"][step] else "-" for step in delegate_steps.STEPS]
        for r in sorted(records, key=lambda r: (r["cols"], r["k"]))
        for form in r["contenders"]
    ]
    rows.sort(key=lambda cells: list(delegate_steps.FORMS).index(cells[0]))
    print(f"\nsteps ({records[0]['figure']}): us, each from the end of the step before")
    print(report.table(["form", "cols", "k", "all", *delegate_steps.STEPS], rows))


def run_workload(cols: int, k: int, row: HeldInput) -> Record:
    x = copies_of_row(delegate_steps.WORKLOAD_INPUT, cols, row)[0]
    record = base_record(
        "workload", "Dr. Top-k, figures 20 and 21", "k", delegate_steps.WORKLOAD_INPUT, cols, k
    )
    return {**record, "contenders": [], **delegate_steps.workload_of_point(x, k)}


def print_workload(records: Sequence[Record]) -> None:
    rows = []
    for r in records:
        share = (r["delegates"] + r["candidates"]) / r["cols"]
        cells = [r["alpha"], r["beta"], r["delegates"], r["read_again"], r["candidates"]]
        rows.append(
            [size_text(r["cols"]), size_text(r["k"]), *(size_text(cell) for cell in cells), f"{share:.3%}"]
        )
    columns = ["cols", "k", "alpha", "beta", "first selection", "read again", "second selection", "both"]
    print(f"\nworkload ({records[0]['figure']}): elements\n{report.table(columns, rows)}")
    print("the paper: both are 0.83 % of 2^30 at k = 2^19, and 0.0015 % to 15.91 % of 2^30 with k up to 2^24")


# --- the run ----------------------------------------------------------------------------------------


def tasks_of(name: str, cols: Sequence[int] | None, row: HeldInput) -> Iterator[Task]:
    """A study's tasks."""
    if name == "steps":
        for c, k in delegate_steps.steps_points(cols):
            yield f"steps 1 x {size_text(c)}, k {size_text(k)}", lambda c=c, k=k: run_steps(c, k, row)
    elif name == "workload":
        for c, k in delegate_steps.workload_points(cols):
            yield f"workload 1 x {size_text(c)}, k {size_text(k)}", lambda c=c, k=k: run_workload(c, k, row)
    else:
        study = STUDIES[name]
        for point in study.points(tuple(cols) if cols else None):
            text = f"{name} {point[0]} 1 x {size_text(point[1])}, k {size_text(point[2])}"
            yield text, lambda point=point: run_timed(name, study, *point, row)


def print_study(name: str, records: Sequence[Record]) -> None:
    if not records:
        return
    if name == "steps":
        print_steps(records)
    elif name == "workload":
        print_workload(records)
    else:
        print_timed(name, records)


def failures_of(record: Record) -> list[str]:
    where = f"{record['study']} {record['input']} 1 x {size_text(record['cols'])} k={size_text(record['k'])}"
    wrong = (c for c in record["contenders"] if c.get("verified") is False)
    return [f"{where}, {c['name']}: {c['problem']}" for c in wrong]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--cols", type=integer, nargs="+", metavar="N", help="instead of the study's")
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path, default=report.RESULTS / "ablation-cuda.jsonl")
    parser.add_argument("--plot", action="store_true", help="draw the plots as well (matplotlib)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if not study_library.loaded:
        print("the ablations need a GPU and libgputopk_study.so: make study")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    row = HeldInput(device)
    todo = [task for name in NAMES if name in options.study for task in tasks_of(name, options.cols, row)]
    out = report.JsonLines(options.output)
    out.write(environment.header(device, options.commit, set="ablation", points=len(todo)))
    run, start = Run(), time.monotonic()
    for _, task in run.through(todo, lambda task: task[0], options.time_limit):
        run.records.append(task())
        out.write(run.records[-1])
    records = run.records
    failures = [failure for record in records for failure in failures_of(record)]
    seconds = time.monotonic() - start
    not_run = len(todo) - len(records)
    out.write(
        {
            "kind": "summary",
            "points": len(records),
            "not_run": not_run,
            "failed": failures,
            "seconds": seconds,
        }
    )
    out.close()
    for name in options.study:
        print_study(name, [record for record in records if record["study"] == name])
    print(f"\n{len(records)} points in {seconds:.0f} s, {not_run} not run, written to {options.output}")
    if options.plot:
        from bench import plot

        plot.plot_file(options.output)
    for failure in failures:
        print(f"FAILED verification: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
