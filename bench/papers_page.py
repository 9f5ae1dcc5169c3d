"""Writes bench/results/papers.md: the figures of the four papers, and what this GPU's records say of them.

    python bench/papers_page.py                                  # papers-h200.jsonl and the ablations
    python bench/papers_page.py bench/results/papers-h100.jsonl  # these files alone

Each number of ours is computed from the records, and a figure that they lack is "not measured". Needs nothing
but Python. Exit status 1 where there is no record to read.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import bitonic_model, report
from bench.figure import Duel, Figure, Method, Ratio
from bench.paper_figures import FIGURES, METHODS, OURS, PAPERS
from bench.report import RESULTS, Record, command_text, markdown_table, number_text, size_text

DEFAULT = ("papers-h200.jsonl", "ablation-h200.jsonl", "delegate-studies-h200.jsonl")
SHARED_BYTES_PER_CLOCK = 128  # of an SM
THREADS_PER_SM = 2048
MAX_LINES = 24  # of a figure's table; what is longer is for the plots

Key = tuple[object, ...]
_POINT = ("input", "rows", "cols", "k", "dtype", "largest", "columns", "percent")


def key_of(record: Record) -> Key:
    """Records with equal keys are of the same point of the same figure."""
    return (record["figure"], *(record[name] for name in _POINT))


@dataclass
class Records:
    """The records of some files: of a point that was timed again the last."""

    headers: list[Record] = field(default_factory=list)  # those with points
    points: dict[str, list[Record]] = field(default_factory=dict)  # by figure
    studies: dict[str, list[Record]] = field(default_factory=dict)  # of ablation.py
    files: dict[str, str] = field(
        default_factory=dict
    )  # which file a figure or study is from, without suffix

    def of(self, figure: Figure) -> list[Record]:
        if figure.study:
            return self.studies.get(figure.study, [])
        some = [r for name in figure.of or (figure.name,) for r in self.points.get(name, [])]
        return [r for r in some if matches(r, figure.where)]


def matches(record: Record, where: object) -> bool:
    return all(record[name] == value for name, value in dict(where).items())


def read(paths: Sequence[Path]) -> Records:
    data = Records()
    latest: dict[Key, Record] = {}
    for path in paths:
        header = None
        for record in report.read(path):
            if record["kind"] == "header":
                header = record
            elif record["kind"] in ("paper", "ablation"):
                if header is not None and header not in data.headers:
                    data.headers.append(header)
                data.files[record.get("study") or record["figure"]] = path.stem
                if record["kind"] == "paper":
                    latest[key_of(record)] = record
                else:
                    data.studies.setdefault(record["study"], []).append(record)
    for record in latest.values():
        data.points.setdefault(record["figure"], []).append(record)
    return data


# --- what a record says ---------------------------------------------------------------------------


def us_of(record: Record, name: str) -> float | None:
    return next((c["us"] for c in record["contenders"] if c["name"] == name), None)


def describe(record: Record) -> str:
    text = f"{record['input']} {record['rows']} x {size_text(record['cols'])} k={size_text(record['k'])}"
    columns = record.get("columns", 1)
    text += f" {record['dtype']}" + (f", {columns} columns" if columns > 1 else "")
    percent = record.get("percent", 100)
    return text + (f", {percent} % pass" if percent < 100 else "")


def ratios_of(ratio: Ratio, records: Sequence[Record]) -> list[float]:
    out = []
    for record in records:
        ours = us_of(record, ratio.ours)
        others = [us for name in ratio.base if (us := us_of(record, name)) is not None]
        if matches(record, ratio.where) and ours and others:
            out.append(min(others) / ours)
    return out


def range_text(low: float, high: float) -> str:
    low_text, high_text = number_text(low), number_text(high)
    return low_text if low_text == high_text else f"{low_text} to {high_text}"


def where_text(where: object) -> str:
    words = {"rows": "rows {}", "cols": "N = {}", "input": "{}", "dtype": "{}", "percent": "{} % pass"}
    texts = (words[n].format(size_text(v) if isinstance(v, int) else v) for n, v in dict(where).items())
    return ", ".join(texts)


def verdict(got: Sequence[float], paper: tuple[float | None, float]) -> str:
    """Whether our ratios lie below or above the paper's, by more than a tenth."""
    low, high = paper
    least, most = (max(got) if low is None else min(got)), max(got)
    if most * 1.1 < (high if low is None else low):
        return "less here"
    return "more here" if least > high * 1.1 else "as there"


def ratio_line(ratio: Ratio, records: Sequence[Record]) -> str:
    """A sentence on how many times as fast, with the paper's range."""
    where = where_text(ratio.where)
    base = " and ".join(f"`{name}`" for name in ratio.base)
    best = "the faster of " if len(ratio.base) > 1 else ""
    text = f"{where}: " if where else ""
    text += f"`{ratio.ours}` against {best}{base}: "
    got = ratios_of(ratio, records)
    if not got:
        text += "not measured"
    else:
        slower = sum(one < 1 for one in got)
        text += f"**{range_text(min(got), max(got))}** times as fast"
        if len(got) > 1:
            text += f" (median {number_text(statistics.median(got))}, {len(got)} points"
            text += f", slower at {slower})" if slower else ")"
    if ratio.paper is not None:
        low, high = ratio.paper
        text += "; the paper: " + (f"up to {number_text(high)}" if low is None else range_text(low, high))
        text += f" ({ratio.note})" if ratio.note else ""
        text += f": {verdict(got, ratio.paper)}" if got else ""
    return text + "."


def duel_line(duel: Duel, records: Sequence[Record]) -> str:
    """Where the first is faster than the second: of each k how often."""
    by_k: dict[int, list[bool]] = defaultdict(list)
    for record in records:
        first, second = us_of(record, duel.first), us_of(record, duel.second)
        if first is not None and second is not None:
            by_k[record["k"]].append(first < second)
    text = f"`{duel.first}` is faster than `{duel.second}`"
    if not by_k:
        text += " where: not measured"
    elif not any(map(any, by_k.values())):
        text += f" at **none** of {sum(map(len, by_k.values()))} points"
    else:
        parts = (f"{sum(won)} of {len(won)} at k = {size_text(k)}" for k, won in sorted(by_k.items()))
        text += f" at **{sum(map(sum, by_k.values()))}** of {sum(map(len, by_k.values()))} points: "
        text += ", ".join(parts)
    return text + (f"; the paper: {duel.paper}" if duel.paper else "") + "."


def inputs_line(names: Sequence[str], records: Sequence[Record]) -> str | None:
    """How much the input matters to each: at one size the slowest over the fastest, at the worst size."""
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[tuple(record[name] for name in _POINT if name != "input")].append(record)
    parts = []
    for name in names:
        times = ([us for r in some if (us := us_of(r, name)) is not None] for some in groups.values())
        spreads = [max(some) / min(some) for some in times if len(some) > 1]
        if spreads:
            parts.append(f"`{name}` {number_text(max(spreads))}")
    return f"Slowest input over fastest at one size, at most: {', '.join(parts)}." if parts else None


def names_of(figure: Figure, records: Sequence[Record]) -> list[str]:
    """Who was timed somewhere, without the floor."""
    names = dict.fromkeys((*figure.contenders, *(c["name"] for r in records for c in r["contenders"])))
    timed = [name for name in names if any(us_of(r, name) is not None for r in records)]
    return [name for name in timed if name != "floor"]


def times_table(figure: Figure, records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: a row a point, the time of everyone in us."""
    names = names_of(figure, records)
    rows = [
        [describe(r), number_text(r["floor_us"]), *(number_text(us_of(r, name)) for name in names)]
        for r in sorted(
            records,
            key=lambda r: (r["input"], r["dtype"], r["rows"], r["cols"], r["columns"], r["percent"], r["k"]),
        )
    ]
    return ["point", "one read", *names], rows


def missing_lines(figure: Figure, records: Sequence[Record]) -> list[str]:
    """Who has no time at any point, and why."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name in figure.contenders:
        at = [c for r in records for c in r["contenders"] if c["name"] == name]
        if all(c["us"] is None for c in at):
            by_reason[at[0]["reason"] if at else "not timed yet"].append(f"`{name}`")
    return [f"No time for {', '.join(names)}: {reason}." for reason, names in by_reason.items()]


# --- figures with arithmetic of their own ---------------------------------------------------------


def model_lines(records: Sequence[Record], data: Records) -> list[str]:
    """The cost model's times beside the measured ones."""
    header = next((h for h in data.headers if h.get("set") == "papers" and h.get("sm_mhz")), None)
    if header is None:
        return ["The record does not tell the GPU's clock, which the model needs."]
    shared_rate = header["sms"] * SHARED_BYTES_PER_CLOCK * header["sm_mhz"]
    rows, rates = [], []
    for record in sorted(records, key=lambda r: r["k"]):
        size = record["cols"] * 4
        rate = size / record["floor_us"]
        rates.append(rate)
        predicted = bitonic_model.bitonic_us(size, record["k"], rate, shared_rate)
        radix = bitonic_model.radix_us(size, rate, header["sms"] * THREADS_PER_SM)
        measured = [us_of(record, name) for name in ("bitonic.many_blocks", "air.many_blocks")]
        rows.append([size_text(record["k"]), *map(number_text, (predicted, measured[0], radix, measured[1]))])
    columns = ["k", "bitonic by the model", "bitonic.many_blocks", "radix by the model", "air.many_blocks"]
    rate = statistics.median(rates)
    theirs = bitonic_model.PAPER_SHARED_RATE / bitonic_model.PAPER_GLOBAL_RATE
    return [
        f"Shared memory is {number_text(shared_rate / rate)} times as fast as global memory here, and "
        f"{number_text(theirs)} times on the paper's GPU.",
        "",
        f"Times in us, at {rate / 1e6:.2f} TB/s of global and {shared_rate / 1e6:.1f} TB/s of shared memory:",
        "",
        *markdown_table(columns, rows),
    ]


def alpha_lines(records: Sequence[Record], data: Records) -> list[str]:
    rows = []
    for record in records:
        times = {int(c["name"]): c["us"] for c in record["contenders"][1:] if c["us"] is not None}
        ours, best = record["rule_4"], min(times, key=times.__getitem__)
        if ours in times:
            over = number_text(times[ours] / times[best])
            rows.append([size_text(record["k"]), str(ours), str(best), over])
    return markdown_table(["k", "rule 4's alpha", "best alpha", "time by rule 4 over the best"], rows)


def steps_lines(records: Sequence[Record], data: Records) -> list[str]:
    rows, steps = [], list(records[0]["contenders"][0]["steps"])
    for record in records:
        for form in record["contenders"]:
            parts = [number_text(form["steps"][step]) if form["steps"][step] else "-" for step in steps]
            rows.append([f"{form['name']}, k {size_text(record['k'])}", number_text(form["us"]), *parts])
    return [
        "Times in us:",
        "",
        *markdown_table(["form", "all", *steps], sorted(rows, key=lambda r: r[0][:6])),
    ]


def workload_lines(records: Sequence[Record], data: Records) -> list[str]:
    def share(r: Record) -> str:
        return f"{(r['delegates'] + r['candidates']) / r['cols']:.3%}"

    largest = max((r for r in records if r["k"] == 2**19), key=lambda r: r["cols"])
    over_k = sorted((r for r in records if r["cols"] == 2**28), key=lambda r: r["k"])
    ends = [f"{share(r)} (k = {size_text(r['k'])})" for r in (over_k[0], over_k[-1])]
    of = size_text(largest["cols"])
    return [
        f"- Both are **{share(largest)}** of {of} elements at k = 2^19; the paper: 0.83 %.",
        f"- Of 2^28 elements: **{' to '.join(ends)}**.",
    ]


SPECIAL: dict[str, Callable[[Sequence[Record], Records], list[str]]] = {
    "bitonic-17": model_lines,
    "drtopk-13": alpha_lines,
    "drtopk-6": steps_lines,
    "drtopk-20": workload_lines,
}


# --- the page -------------------------------------------------------------------------------------


def command_of(figure: Figure) -> str:
    if figure.study:
        return f"python bench/ablation.py --study {figure.study}"
    return f"python bench/papers.py --figure {' '.join(figure.of or (figure.name,))}"


def picture_of(figure: Figure, data: Records) -> str | None:
    """The figure's plot, where plot.py has drawn it."""
    name = figure.study or figure.name
    path = RESULTS / f"{data.files.get(name)}-{name}.png"
    return f"[plot]({path.name})" if path.exists() else None


def figure_lines(figure: Figure, data: Records) -> list[str]:
    records = data.of(figure)
    lines = [f"### {figure.number}: {figure.about}", ""]
    lines += [f"**The paper** ({figure.hardware}): {figure.claim}", ""]
    if not records:
        lines += ["**Here**: not measured.", ""]
    else:
        lines += [f"**Here**, {len(records)} points:", ""]
        lines += [f"- {ratio_line(ratio, records)}" for ratio in figure.ratios]
        lines += [f"- {duel_line(duel, records)}" for duel in figure.duels]
        if figure.contenders and (by_input := inputs_line(figure.contenders, records)):
            lines.append(f"- {by_input}")
        lines += [f"- {line}" for line in missing_lines(figure, records)]
        if figure.name in SPECIAL:
            lines += SPECIAL[figure.name](records, data)
        elif figure.points and len(records) <= MAX_LINES:
            lines += ["", "Times in us:", "", *markdown_table(*times_table(figure, records))]
        lines.append("")
    differs = [f"**What differs**: {figure.differs}"] if figure.differs else []
    picture = picture_of(figure, data)
    lines += [" ".join((*differs, f"`{command_of(figure)}`", *([picture] if picture else []))), ""]
    return lines


def wins_text(method: Method, data: Records) -> str:
    """At how many points the method is the fastest, and of what sizes those are."""
    if method.contender in OURS:
        figures, rivals, among = ("air-6", "air-7"), OURS, "algorithms"
    else:
        figures = ("split-17", "split-19")
        rivals, among = (method.contender, "torch.kthvalue", "torch.sort"), "ways to the k-th element"
    records = [record for name in figures for record in data.points.get(name, [])]
    held = [r for r in records if us_of(r, method.contender) is not None]
    if not held:
        return "not measured"
    won = []
    for record in held:
        times = {name: us for name in rivals if (us := us_of(record, name)) is not None}
        if min(times, key=times.__getitem__) == method.contender:
            won.append(record)
    text = f"fastest of the {among} at {len(won)} of {len(held)} points of {' and '.join(figures)}"
    for rows in sorted({r["rows"] for r in won}):
        some = [r for r in won if r["rows"] == rows]
        ends = {axis: [f(r[axis] for r in some) for f in (min, max)] for axis in ("cols", "k")}
        spans = [" to ".join(dict.fromkeys(map(size_text, ends[axis]))) for axis in ("cols", "k")]
        text += f"; {rows} row{'s' * (rows > 1)}: {len(some)}, N {spans[0]}, k {spans[1]}"
    return text


def method_table(data: Records) -> list[str]:
    rows = []
    for method in METHODS:
        figures = [f for f in FIGURES.values() if f.paper == method.paper and f.points]
        command = f"`python bench/papers.py --figure {' '.join(f.name for f in figures)}`"
        folder = f"[{method.files}](../../{method.files})"
        rows.append([f"{method.theirs}", method.ours, folder, command, wins_text(method, data)])
    columns = ("the paper's method", "name here", "files", "its figures", "when it wins today")
    return markdown_table(columns, rows, "---")


def where_from(data: Records) -> list[str]:
    lines = []
    for header in data.headers:
        where = header.get("gpu") or f"{header.get('cpu')}, {header.get('threads')} threads"
        driver = f", driver {header['driver']}, CUDA {header['cuda']}" if header.get("driver") else ""
        quick = ", a few tiny requests (`--quick`)" if header.get("quick") else ""
        lines.append(f"- {where}{driver}, torch {header['torch']}, {header['date'][:10]}, "
                     f"commit {header['commit']}{quick}: `{command_text(header)}`")  # fmt: skip
    return lines or ["- nothing yet"]


def page(data: Records) -> str:
    lines = [
        "# The papers' figures on this GPU",
        "",
        'Written by `python bench/papers_page.py` from the records. "Times as fast": of times '
        'in the same run; "one read" is a kernel that reads the input once. Any order of the winners '
        "will do, and all return values and indices. What our algorithms returned went through the exact "
        "oracle. [docs/papers.md](../../docs/papers.md) says how the algorithms here go beyond the papers'.",
        "",
        *where_from(data),
        "",
        *method_table(data),
        "",
    ]
    for name, paper in PAPERS.items():
        lines += [f"## {paper.title}", "", f"**What stands for what**: {paper.here}", ""]
        for figure in FIGURES.values():
            if figure.paper == name:
                lines += figure_lines(figure, data)
        lines += [f"**Figures that are not here**: {paper.not_here}", ""]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("records", type=Path, nargs="*", help="JSON lines of papers.py and ablation.py")
    parser.add_argument("--output", type=Path, help="default: papers.md, or beside the first of the records")
    options = parser.parse_args(arguments)
    paths = options.records or [path for name in DEFAULT if (path := RESULTS / name).exists()]
    for path in paths:
        if not path.exists():
            print(f"no page written: there is no {path}")
            return 1
    data = read(paths)
    output = options.output or (paths[0].with_suffix(".md") if options.records else RESULTS / "papers.md")
    output.write_text(page(data))
    measured = sum(bool(data.of(figure)) for figure in FIGURES.values())
    print(f"wrote {output}: {measured} of {len(FIGURES)} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
