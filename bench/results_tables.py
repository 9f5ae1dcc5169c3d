"""The tables of docs/results.md that come straight from records: what each says, by the name of its marker.

results_page.py puts them into the page. Ratios have three digits, or as many as tell on which side of its
goal one lies; times as fast as torch.topk tenths up to 10.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench import report
from bench.papers_page import matches, range_text
from bench.report import Record, command_text, contender_of, form_named, number_text, size_text

OURS = "ours:auto"
LINKS = "../bench/results/"  # from the page
INPUTS = {"twelve_bit_random": "12 random bits", "few_distinct": "few values"}  # others by their own names
SHORT_INPUTS = ("normal", "increasing", "decreasing", "all_equal", "signed_zeros", "few_distinct",
                "twelve_bit_random", "ones_with_four_outliers", "sampled_peaks",
                "winners_in_one_subrange")  # fmt: skip
SHORT_DTYPES = ("float32", "bfloat16", "float16", "int32")
NARROW_DTYPES = ("float32", "bfloat16", "float16", "int16", "int8")
NARROW_SHAPES = ((64, 2**17, 50), (256, 2**17, 512), (1024, 2**16, 50), (1024, 2**17, 512), (256, 2**20, 512),
                 (1024, 2**20, 2048))  # fmt: skip  # (rows, cols, k) of its record's that the page has


@dataclass
class Source:
    """A record."""

    path: Path

    @cached_property
    def records(self) -> list[Record]:
        return report.read(self.path)

    @property
    def header(self) -> Record:
        return self.records[0]

    @cached_property
    def points(self) -> list[Record]:
        return [r for r in self.records if r["kind"] not in ("header", "summary")]

    @property
    def where(self) -> str:
        """GPU or CPU, commit and date."""
        h = self.header
        cpu = f"{h['cpu_count']} cores of {h['cpu']}, torch {h['torch'].partition('+')[0]}"
        return f"{h['gpu'].removeprefix('NVIDIA ') if h.get('gpu') else cpu}, {self.commit}, {self.date}"

    @property
    def commit(self) -> str:
        return self.header["commit"][:7]

    @property
    def date(self) -> str:
        return self.header["date"][:10]

    @property
    def link(self) -> str:
        return f"[{self.path.name}]({LINKS}{self.path.name})"

    def line(self, more: str = "", plot: str = "") -> str:
        """What stands below a table of it."""
        command = command_text(self.header, ("output", "commit", "time-limit")).removesuffix(" --plot")
        picture = f" [Plot]({LINKS}{self.path.stem}-{plot}.png)." if plot else ""
        return f"{self.where}, {self.link}{more}: `{command}`.{picture}"


Records = Callable[[str], Source]  # by the file's name without suffix
Lines = list[str]


# --- cells ----------------------------------------------------------------------------------------


def ours(p: Record, field: str, name: str = OURS) -> float:
    return contender_of(p, name)[field]


def size(number: int) -> str:
    """Round numbers as powers of ten or two."""
    lead = str(number).rstrip("0")
    if number >= 10**5 and (zeros := len(str(number)) - len(lead)) >= 5:
        return f"10^{zeros}" if lead == "1" else f"{lead} * 10^{zeros}"
    return "2^14" if number == 2**14 else size_text(number)


def shape(p: Record) -> str:
    rows, cols, inner = p["rows"], size(p["cols"]), p.get("inner", 1)
    return f"{rows} x {cols}" if inner == 1 else f"{rows // inner} x {cols} x {size(inner)}"


def at(p: Record) -> str:
    return f"{shape(p)}, k = {size(p['k'])}"


def named(name: str) -> str:
    return INPUTS.get(name, name.replace("_", " "))


def x_floor(p: Record, name: str = OURS) -> str:
    value, goal = ours(p, "x_floor", name), p.get("goal_x_floor")
    text = number_text(value)
    return text if goal is None or (float(text) <= goal) == (value <= goal) else f"{value:.3f}"


def times(value: float) -> str:
    """As fast as torch.topk: tenths to 10, hundredths beside 1."""
    return f"{value:.{2 if value < 1.2 else 1 if value < 9.95 else 0}f}"


def x_torch(p: Record, name: str = OURS) -> str:
    return times(ours(p, "x_torch", name))


def ratios(points: Iterable[Record], name: str = OURS, field: str = "x_torch") -> list[float]:
    """Of those that have it."""
    return [value for p in points if (value := ours(p, field, name)) is not None]


def span(values: Sequence[float]) -> str:
    return f"{times(min(values))} to {times(max(values))}"


def yes_or_no(truth: bool) -> str:
    return "yes" if truth else "no"


def met(p: Record) -> bool:
    return ours(p, "x_floor") <= p["goal_x_floor"]


def pick(source: Source, **fields: object) -> list[Record]:
    return [p for p in source.points if matches(p, fields)]


def eager_ratio(p: Record) -> float | None:
    """Times as fast as torch.topk with the host's part."""
    eager = {c["name"]: c.get("eager_us") for c in p["contenders"]}
    mine, theirs = eager.get(OURS), eager.get("torch")
    return theirs / mine if mine and theirs else None


def slower_eagerly(p: Record) -> bool:
    ratio = eager_ratio(p)
    return ratio is not None and ratio < 1


def slower_text(points: Sequence[Record], slower: Callable[[Record], bool]) -> str:
    """How many points, and what they have in common."""
    slow = [p for p in points if slower(p)]
    if not slow:
        return "none"
    rows, cols = ({p.get(axis) for p in slow} for axis in ("rows", "cols"))
    if len(slow) == 1 or len(cols) > 1:
        return str(len(slow))
    one = "one row of {}" if rows == {1} else "of {} columns"
    return f"{len(slow)}, all {one.format(size(*cols))}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    return report.markdown_table(columns, rows, "---")


# --- at a glance ----------------------------------------------------------------------------------

GLANCE = (  # subject, record, whose time
    ("all goals, `auto`", "held-h200", OURS),
    ("callers' shapes", "callers-sectors-h200", OURS),
    ("grid of rows, cols, k and inputs", "grid-h200", OURS),
    ("short rows, sorted, ten inputs", "short-h200", OURS),
    ("dtypes of two bytes and one", "narrow-h200", OURS),
    ("a dimension other than the last", "dims-h200", OURS),
    ("the k-th alone and masks of one long row", "selection-h200", "ours"),
    ("the same of many rows", "selection-rows-h200", "ours"),
    ("rerank, over PyTorch", "rerank-grid-h200", "ours:rerank"),
    ("CPU", "cpu-epyc", OURS),
)


def glance(of: Records) -> Lines:
    rows = []
    for subject, file, name in GLANCE:
        source = of(file)
        points = [p for p in source.points if ours(p, "x_torch", name) is not None]
        values = ratios(points, name)
        slower = slower_text(points, lambda p, name=name: ours(p, "x_torch", name) < 1)
        if eagerly := sum(map(slower_eagerly, points)):
            slower += f"; {eagerly} if timed eagerly"
        middle = times(statistics.median(values))
        line = [subject, str(len(values)), middle, span(values), slower]
        rows.append([*line, source.commit, source.date, source.link])
    columns = ("subject", "points", "x torch, median", "least to most", "slower than `torch.topk`")
    return table((*columns, "commit", "date", "record"), rows)


# --- all goals ------------------------------------------------------------------------------------

SECTIONS = {  # of --set held: title, and what its line says of its points
    "long": ("Long rows", ""),
    "models": ("Rows that models call with", ""),
    "short": ("Short rows", ", normal input"),
    "many": ("Many winners and sorted", ", normal input"),
    "dims": ("Other dimensions", ", sorted"),
}
HELD_COLUMNS = ("k", "input", "sorted", "indices", "form", "us", "x floor", "goal", "met?", "x torch")
UNTOLD = {"dims": HELD_COLUMNS[1:4], "short": HELD_COLUMNS[1:2]}  # as all points have the same


def section_of(p: Record) -> str:
    if p["inner"] > 1:
        return "dims"
    if p["cols"] < 2**15:
        return "short"
    if p["k"] >= 2**15 and p["cols"] <= 256 * p["k"]:
        return "many"
    return "long" if p["cols"] >= 2**20 else "models"


def in_section(of: Records, section: str) -> list[Record]:
    points = [p for p in of("held-h200").points if section_of(p) == section]
    axes = ("rows", "cols", "k", "sorted")
    by_input = {"normal": "", "int64": ""}  # these first
    return sorted(
        points,
        key=lambda p: (*(p[a] for a in axes), *(by_input.get(p[n], p[n]) for n in ("input", "index_dtype"))),
    )


def goals(of: Records) -> Lines:
    groups = {f"[{title}](#{title.lower().replace(' ', '-')})": in_section(of, name)
              for name, (title, _) in SECTIONS.items()}  # fmt: skip
    groups["all"] = of("held-h200").points
    rows = [
        [subject, f"{sum(map(met, points))} of {len(points)}", span(values), times(statistics.median(values))]
        for subject, points in groups.items()
        if (values := ratios(points))
    ]
    columns = ("subject", "goals met", "x torch, least to most", "x torch, median")
    note = ' In the tables of this set, "form" is the one that `auto` takes ([plan.md](plan.md)).'
    return [*table(columns, rows), "", of("held-h200").line() + note]


def goals_elsewhere(of: Records) -> Lines:
    """Of another GPU, by the costs of the H200 and beside it."""
    here, there = of("held-h200"), of("held-h100")
    columns = ["subject", *(f"{s.header['gpu'].split()[1]}: {what}" for s in (here, there)
                            for what in ("goals met", "x floor, median", "x torch, median"))]  # fmt: skip
    rows = []
    for section, title in [*((name, title) for name, (title, _) in SECTIONS.items()), (None, "all")]:
        cells = []
        for source in (here, there):
            points = [p for p in source.points if section in (None, section_of(p))]
            cells.append(f"{sum(map(met, points))} of {len(points)}")
            cells += [times(statistics.median(ratios(points, field=f))) for f in ("x_floor", "x_torch")]
        rows.append([title, *cells])
    slowest = min(ratios(there.points))
    note = f" The least x torch on it is {times(slowest)}."
    return [*table(columns, rows), "", there.line() + note]


def held(section: str) -> Callable[[Records], Lines]:
    def lines(of: Records) -> Lines:
        source = of("held-h200")
        rows = []
        for p in in_section(of, section):
            form = form_named(ours(p, "plan")) or "-"
            cells = (size(p["k"]), named(p["input"]), yes_or_no(p["sorted"]), p["index_dtype"])
            cells += (f"`{form}`", number_text(ours(p, "us")), x_floor(p), f"{p['goal_x_floor']:g}")
            cells += (yes_or_no(met(p)), x_torch(p))
            told = zip(HELD_COLUMNS, cells, strict=True)
            rows.append([shape(p), *(cell for name, cell in told if name not in UNTOLD.get(section, ()))])
        first = "outer x cols x inner" if section == "dims" else "rows x cols"
        columns = (first, *(name for name in HELD_COLUMNS if name not in UNTOLD.get(section, ())))
        what = SECTIONS[section][1]
        head = f"Goals of `auto`{what}, from the record of all goals ({source.where}, `{source.path.name}`, "
        return [head + "`--set held`):", "", *table(columns, rows)]

    return lines


# --- algorithms by name, callers, the grid --------------------------------------------------------


def algorithm(name: str, plot: str) -> Callable[[Records], Lines]:
    def lines(of: Records) -> Lines:
        source = of(f"{name}-h200")
        has_k = len({p["k"] for p in source.points}) > 1
        rows = []
        for p in source.points:
            dtype = "" if p["dtype"] == "float32" else f", {p['dtype']}"
            goal = "" if p["goal_x_floor"] is None else f"{p['goal_x_floor']:g}"
            cells = (f"{ours(p, 'x_floor', 'torch'):.1f}", x_floor(p, f"ours:{name}"), goal)
            cells += (f"{ours(p, 'x_torch', f'ours:{name}'):.1f}",)
            rows.append([named(p["input"]) + dtype, shape(p), *([size(p["k"])] if has_k else []), *cells])
        columns = ("input", "rows x cols", *(["k"] if has_k else []), "torch.topk, x floor")
        return [*table((*columns, f"{name}, x floor", "goal", "x torch"), rows), "", source.line(plot=plot)]

    return lines


def callers(of: Records) -> Lines:
    sources = [of(f"callers{name}-h200") for name in ("", "-after", "-cluster", "-sectors")]
    rows = [
        [s.commit, f"{statistics.median(values):.1f}", f"{min(values):.1f} to {max(values):.1f}", s.link]
        for s in sources
        if (values := ratios(s.points))
    ]
    return table(("commit", "median", "least to most", "record"), rows)


def grid(of: Records) -> Lines:
    source = of("grid-h200")
    points = [p for p in source.points if ours(p, "x_torch") is not None]
    values, eager = ratios(points), [ratio for p in points if (ratio := eager_ratio(p))]
    slower = slower_text(points, lambda p: ours(p, "x_torch") < 1)
    replays = (times(statistics.median(values)), span(values), slower)
    by_host = ("", f"{times(min(eager))} at worst", slower_text(points, slower_eagerly))
    rows = [["graph replays", *replays], ["eagerly, with the host's part", *by_host]]
    columns = ("timed", "x torch, median", "least to most", "slower than `torch.topk`")
    return [*table(columns, rows), "", source.line(plot="xtorch-normal-float32-unsorted")]


# --- short rows -----------------------------------------------------------------------------------


def short_groups(of: Records, **fields: object) -> list[list[Record]]:
    """Points of the same rows, cols and k: those of goals first, then by cols."""
    groups: dict[tuple, list[Record]] = defaultdict(list)
    for p in pick(of("short-h200"), **fields):
        groups[p["label"] != "short", p["cols"], p["rows"], p["k"]].append(p)
    return [some for _, some in sorted(groups.items())]


def over_best(some: Sequence[Record]) -> dict[str, float]:
    """Of each input."""
    best = min(ours(p, "us") for p in some)
    return {p["input"]: ours(p, "us") / best for p in some}


def short_inputs(of: Records) -> Lines:
    rows = [
        [shape(some[0]), size(some[0]["k"]), number_text(min(ours(p, "us") for p in some)),
         *(f"{over_best(some)[name]:.2f}" for name in SHORT_INPUTS)]
        for some in short_groups(of, dtype="float32")
        if len(some) > 1
    ]  # fmt: skip
    return table(("rows x cols", "k", "best, us", *map(named, SHORT_INPUTS)), rows)


def by_dtype(some: Sequence[Record], dtypes: Sequence[str], cell: Callable[[Record], str]) -> Lines:
    of_dtype = {p["dtype"]: p for p in some}
    return [cell(of_dtype[dtype]) for dtype in dtypes]


def us_and_floor(p: Record) -> str:
    return f"{number_text(ours(p, 'us'))} ({number_text(ours(p, 'x_floor'))})"


def short_dtypes(of: Records) -> Lines:
    rows = [
        [shape(some[0]), size(some[0]["k"]), *by_dtype(some, SHORT_DTYPES, us_and_floor)]
        for some in short_groups(of, input="normal", label="short")
    ]
    return table(("rows x cols", "k", *SHORT_DTYPES), rows)


def short_narrow(of: Records) -> Lines:
    rows = []
    for some in short_groups(of, input="normal"):
        us = {p["dtype"]: ours(p, "us") for p in some}
        for dtype in ("bfloat16", "float16"):
            if us[dtype] > 1.005 * us["float32"]:
                cells = map(number_text, (us[dtype], us["float32"], us[dtype] / us["float32"]))
                rows.append([shape(some[0]), size(some[0]["k"]), dtype, *cells])
    return table(("rows x cols", "k", "dtype", "us", "float32, us", "over float32"), rows)


def short_whole(of: Records) -> Lines:
    def cell(p: Record) -> str:
        return f"{number_text(ours(p, 'us'))} ({number_text(ours(p, 'x_floor'))}, {x_torch(p)})"

    source = of("short-h200")
    rows = [
        [shape(some[0]), *by_dtype(some, SHORT_DTYPES, cell)]
        for some in short_groups(of, input="normal")
        if some[0]["k"] == some[0]["cols"]
    ]
    more = f", {len(source.points)} points, {span(ratios(source.points))} times as fast as `torch.topk`"
    return [*table(("rows x cols = k", *SHORT_DTYPES), rows), "", f"All four tables: {source.line(more)}"]


# --- other dimensions, narrow dtypes, orders, CPU -------------------------------------------------


def dims(of: Records) -> Lines:
    source = of("dims-h200")
    floors = ratios(source.points, field="x_floor")
    long = ratios([p for p in source.points if p["floor_us"] > 20], field="x_floor")
    values = ratios(source.points)
    text = (
        f"The whole set, {len(values)} points of 7 to 10^6 rows in float32 and bfloat16, is {span(values)} "
        f"times as fast as `torch.topk` (median {times(statistics.median(values))}), at {span(floors)} x "
        f"floor. Where a read takes more than 20 us it is at {span(long)} x floor. Its goals, in that run:"
    )
    rows = [
        [shape(p), size(p["k"]), x_floor(p), f"{p['goal_x_floor']:g}", x_torch(p)]
        for p in source.points
        if p["goal_x_floor"] is not None
    ]
    columns = ("outer x cols x inner", "k", "x floor", "goal", "x torch")
    return [text, "", *table(columns, rows), "", source.line(plot="points")]


def narrow(of: Records) -> Lines:
    source = of("narrow-h200")
    groups = [pick(source, rows=rows, cols=cols, k=k) for rows, cols, k in NARROW_SHAPES]
    rows = [
        [shape(some[0]), size(some[0]["k"]), *by_dtype(some, NARROW_DTYPES, us_and_floor)] for some in groups
    ]
    return [*table(("rows x cols", "k", *NARROW_DTYPES), rows), "", source.line()]


def narrow_ratios(of: Records) -> Lines:
    us: dict[str, list[float]] = defaultdict(list)  # points of a dtype are in the same order
    for p in of("narrow-h200").points:
        if p["rows"] * p["cols"] >= 2**24:
            us[p["dtype"]].append(ours(p, "us"))
    rows = []
    for dtype in NARROW_DTYPES[1:]:
        over = [one / wide for one, wide in zip(us[dtype], us["float32"], strict=True)]
        rows.append([dtype, number_text(statistics.median(over)), range_text(min(over), max(over))])
    return table(("dtype", "median", "least to most"), rows)


def order(of: Records) -> Lines:
    source = of("order-h200")
    rows, over = [], []
    for p in source.points:
        us = [ours(p, "us", f"ours:order={name}") for name in ("value", "index", "any")]
        over.append(us[1] / us[0])
        cells = (*map(number_text, (*us, over[-1])), x_torch(p, "ours:order=index"))
        rows.append([shape(p), size(p["k"]), *cells])
    text = (
        f'`order="index"` takes {range_text(min(over), max(over))} times as long as `order="value"` (median '
    )
    text += f"{number_text(statistics.median(over))}; the goal is 1)."
    columns = ("rows x cols", "k", "`value`, us", "`index`, us", "`any`, us", "index over value")
    below = source.line(f", {len(rows)} shapes")
    return [text, "", *table((*columns, "x torch of `index`"), rows), "", f'{below} `any` is `order="any"`.']


def selection(of: Records) -> Lines:
    sources = [of("selection-h200"), of("selection-rows-h200")]
    rows = []
    for p in [p for source in sources for p in source.points]:
        held_to, goal = p["x_written"] or ours(p, "x_floor", "ours"), p["goal"]
        met = "" if goal is None else yes_or_no(held_to <= goal)
        written = "" if p["x_written"] is None else number_text(p["x_written"])
        floor, torchs = number_text(ours(p, "x_floor", "ours")), x_torch(p, "ours")
        us = number_text(ours(p, "us", "ours"))
        kind = "" if p["dtype"] == "float32" else f", {p['dtype']}"
        call = f"`{p['op']}`{kind}"
        rows.append([call, shape(p), size(p["k"]), us, floor, written, met, number_text(p["x_topk"]), torchs])
    columns = ("call", "rows x cols", "k", "us", "x floor", "x written", "goal met?", "x topk", "x torch")
    lines = [source.line(f", {len(source.points)} points") for source in sources]
    return [*table(columns, rows), "", f"One row: {lines[0]}", "", f"Many rows: {lines[1]}"]


def cpu(of: Records) -> Lines:
    source = of("cpu-epyc")
    rows = [
        [shape(p), size(p["k"]), x_torch(p), f"{p['goal_x_torch']:g}"]
        for p in source.points
        if p["goal_x_torch"] > 1
    ]
    return [
        *table(("rows x cols", "k", "x torch", "goal"), rows),
        "",
        source.line(plot="xtorch-kinds-unsorted"),
    ]


# --- where it is slow -----------------------------------------------------------------------------


def missed(of: Records) -> Lines:
    points = [p for p in of("held-h200").points if p["index_dtype"] == "int64"]
    over = {id(p): ours(p, "x_floor") / p["goal_x_floor"] for p in points}
    rows = [
        [shape(p), size(p["k"]), named(p["input"]), yes_or_no(p["sorted"]), x_floor(p),
         f"{p['goal_x_floor']:g}", number_text(over[id(p)])]
        for p in sorted(points, key=lambda p: -over[id(p)])
        if over[id(p)] >= 1.1
    ]  # fmt: skip
    return table(("rows x cols", "k", "input", "sorted", "x floor", "goal", "over the goal"), rows)


TABLES: dict[str, Callable[[Records], Lines]] = {
    "at a glance": glance,
    "goals met": goals,
    "goals on another GPU": goals_elsewhere,
    "goals of long rows": held("long"),
    "delegate": algorithm("delegate", "xfloor"),
    "grid_select": algorithm("grid_select", "points"),
    "air": algorithm("air", "points"),
    "goals of rows that models call with": held("models"),
    "callers": callers,
    "grid": grid,
    "goals of short rows": held("short"),
    "short rows on every input": short_inputs,
    "short rows in other dtypes": short_dtypes,
    "short rows that take longer in two bytes": short_narrow,
    "short rows sorted whole": short_whole,
    "goals of many winners": held("many"),
    "goals of other dimensions": held("dims"),
    "other dimensions": dims,
    "narrow dtypes": narrow,
    "narrow dtypes over float32": narrow_ratios,
    "selection": selection,
    "order": order,
    "CPU": cpu,
    "goals missed": missed,
}
