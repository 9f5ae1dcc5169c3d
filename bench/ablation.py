"""What the parts of AIR top-k are worth: its paper's figures 9 and 10, and the width of the first digits.

    python bench/ablation.py                        # CUDA; writes bench/results/ablation-cuda.jsonl
    python bench/ablation.py --study adaptive --cols 2^20 2^24 2^28

Three studies, float32, one row, k = 2048, unsorted, each variant against one read of the input, in one run:

    adaptive     the adaptive strategy on and off over cols, where the first 10 and the first 20 bits of all
                 elements agree (figure 9)
    early_stop   early stopping on and off over cols, on uniform input as in figure 10, and on input whose k
                 largest elements have the first digit to themselves, so that it surely applies
    digit_bits   digits of 8 to 14 bits, for input that spreads over the first digit and input that does not

The paper's own gains on an A100, "up to" 4.62 (10 bits), 6.53 (20 bits) and 1.187 times as fast, are printed
beside ours. Every timed result goes through the exact oracle; exit status 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk  # noqa: F401 (loads the operators)
from bench import environment, report, timing
from bench.bench_topk import contender_record, floor_contender, integer
from bench.report import Record, number_text, size_text
from bench.timing import Contender, Timing
from tests import inputs, oracle

K = 2048
BUDGET_S = 1.0


@dataclass(frozen=True)
class Study:
    """Variants of AIR over inputs and cols; `paper` is what its authors report for an input, as a speedup."""

    figure: str
    inputs: tuple[str, ...]
    cols: tuple[int, ...]
    variants: dict[str, dict[str, Any]]
    paper: dict[str, float]


def _powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    return tuple(2**power for power in range(first, last + 1, step))


STUDIES = {
    "adaptive": Study(
        "figure 9",
        ("ten_bit_prefix", "twelve_bit_random"),
        _powers(15, 28),
        {"on": {"adaptive": True}, "off": {"adaptive": False}},
        {"ten_bit_prefix": 4.62, "twelve_bit_random": 6.53},
    ),
    "early_stop": Study(
        "figure 10",
        ("uniform", "winners_share_a_digit"),
        _powers(15, 28),
        {"on": {"early_stop": True}, "off": {"early_stop": False}},
        {"uniform": 1.187},
    ),
    "digit_bits": Study(
        "digit width",
        ("normal", "uniform", "twelve_bit_random"),
        _powers(16, 28, 4),
        {"plan": {}} | {f"{bits} bits": {"digit_bits": bits} for bits in (8, 11, 12, 13, 14)},
        {},
    ),
}


def winners_share_a_digit(cols: int, device: torch.device) -> torch.Tensor:
    """Uniform in [0.5, 1) but for K elements in [1, 1.25), whose first 11 bits are theirs alone."""
    x = inputs.make("uniform", 1, cols, device=device, seed=1) * 0.5 + 0.5
    x.clamp_(max=1 - 2.0**-24)
    here = torch.arange(K, device=device) * (cols // K)
    x[0, here] = (x[0, here] - 0.5) * 0.5 + 1
    return x


def make(name: str, cols: int, device: torch.device) -> torch.Tensor:
    if name == "winners_share_a_digit":
        return winners_share_a_digit(cols, device)
    return inputs.make(name, 1, cols, device=device, seed=1)


def air_contender(variant: str, options: dict[str, Any]) -> Contender:
    def call(x: torch.Tensor) -> timing.Outputs:
        return torch.ops.gputopk._air(x, K, True, False, **options)

    return Contender(variant, call, export=lambda outputs: (outputs[0], outputs[1]), eager=False)


def run(name: str, study: Study, input_name: str, cols: int, device: torch.device) -> Record:
    """Times and checks all variants on one input."""
    copies = timing.copies_of(make(input_name, cols, device))
    contenders = [floor_contender(copies[0])]
    contenders += [air_contender(variant, options) for variant, options in study.variants.items()]
    timings: Sequence[Timing] = timing.measure(contenders, copies, BUDGET_S)
    records = []
    for contender, t in zip(contenders, timings, strict=True):
        record = contender_record(contender.name, t, timings[0].us, None)
        record.pop("x_torch", None)
        if t.outputs is not None:
            problem = oracle.device_problem(t.outputs, copies[0], K, True, False)
            record |= {"verified": problem is None, "problem": problem}
        records.append(record)
    return {
        "kind": "ablation",
        "study": name,
        "figure": study.figure,
        "input": input_name,
        "rows": 1,
        "cols": cols,
        "k": K,
        "dtype": "float32",
        "floor_us": records[0]["us"],
        "contenders": records,
    }


def print_study(name: str, records: Sequence[Record]) -> None:
    """x floor of every variant; for an on/off study the speedup of on over off."""
    study = STUDIES[name]
    variants = list(study.variants)
    speedup = variants == ["on", "off"]
    rows, best = [], dict.fromkeys(study.inputs, 0.0)
    for record in records:
        by_name: dict[str, Record] = {c["name"]: c for c in record["contenders"]}
        cells = [record["input"], size_text(record["cols"]), number_text(record["floor_us"])]
        cells += [number_text(by_name[variant].get("x_floor")) for variant in variants]
        if speedup:
            on, off = (by_name[variant]["us"] for variant in variants)
            ratio = off / on if on and off else None
            best[record["input"]] = max(best[record["input"]], ratio or 0.0)
            cells.append(number_text(ratio))
        rows.append(cells)
    columns = ["input", "cols", "floor us", *variants, *(["off / on"] if speedup else [])]
    print(f"\n{name} ({study.figure}): x floor, k = {K}\n{report.table(columns, rows)}")
    reasons = {(c["name"], c["reason"]) for r in records for c in r["contenders"] if c["us"] is None}
    for variant, reason in sorted(reasons):
        print(f"no time for {variant}: {reason}")
    for input_name, paper in study.paper.items():
        print(f"{input_name}: up to {best[input_name]:.2f} times as fast with it; the paper: {paper} (A100)")


def failures_of(record: Record) -> list[str]:
    where = f"{record['study']} {record['input']} 1 x {size_text(record['cols'])}"
    wrong = (c for c in record["contenders"] if c.get("verified") is False)
    return [f"{where}, {c['name']}: {c['problem']}" for c in wrong]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--cols", type=integer, nargs="+", metavar="N", help="instead of the study's")
    parser.add_argument("--time-limit", type=float, metavar="S", help="start no point after so many seconds")
    parser.add_argument("--commit", help="for the header, where this is not a checkout")
    parser.add_argument(
        "--output", type=Path, default=environment.ROOT / "bench" / "results" / "ablation-cuda.jsonl"
    )
    parser.add_argument("--plot", action="store_true", help="draw the plots as well (matplotlib)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if not (torch.cuda.is_available() and hasattr(torch.ops.gputopk, "_air")):
        print("the ablations need CUDA and the operator gputopk::_air")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    todo: list[tuple[str, Study, str, int]] = [
        (name, study, input_name, cols)
        for name, study in STUDIES.items()
        if name in options.study
        for input_name in study.inputs
        for cols in (options.cols or study.cols)
    ]
    out = report.JsonLines(options.output)
    out.write(environment.header(device, options.commit, set="ablation", points=len(todo)))
    records, progress, start = [], report.Progress(len(todo)), time.monotonic()
    for name, study, input_name, cols in todo:
        if options.time_limit and time.monotonic() - start > options.time_limit:
            break
        progress.show(f"{name} {input_name} 1 x {size_text(cols)}")
        records.append(run(name, study, input_name, cols, device))
        out.write(records[-1])
        progress.advance()
    progress.close()
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
