"""Draws what a result file holds: PNGs beside it, or in another folder.

    python bench/plot.py bench/results/goals-h200.jsonl
    python bench/plot.py --readme

    <name>-xtorch-<...>.png  heat maps: times as fast as torch.topk over rows x cols, a panel a k, for each
                             (input, dtype, sorted or not); and over (input, dtype) x shape, where those vary
    <name>-time.png          us over cols, a panel for each (input, dtype, rows, k) timed at several cols
    <name>-xfloor.png        the same panels as x floor
    <name>-points.png        a line a point: x floor of each contender, with the goal; for CPU sets x torch
    <name>-rerank.png        the same of bench_rerank.py
    <name>-varlen.png        and of bench_varlen.py; its goal is 1.15 times the dense topk
    <name>-<study>.png       ablations: x floor over cols, k or alpha of each variant; time by step; workload
    <name>-<figure>.png      figures of papers (papers.py): us over cols, k or the number of columns

What does not fit one picture goes on in <name>-...-2.png. Needs matplotlib and nothing else: the records may
come from another machine.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import papers_page, report
from bench.paper_figures import FIGURES
from bench.report import RESULTS, Record, size_text

README = RESULTS / "readme.png"
README_KS = (16, 256, 2048)

OURS = "ours:"
MAX_PANELS = 16
MAX_LINES = 80
MAX_SHAPES = 12
_COLOURS = {
    "floor": "0.6",
    "torch": "tab:red",
    "torch.topk": "tab:red",
    "torch.topk + gather": "tab:red",
    "torch.kthvalue": "tab:red",
    "torch.sort": "tab:brown",
    "auto": "black",
    "auto + gather": "black",
    "aten-op": "tab:gray",
    "torch:bmm": "tab:red",
    "torch:subtract": "tab:orange",
    "torch:cdist": "tab:brown",
    "torch:masked": "tab:red",
    "pylibraft": "tab:purple",
    "flashinfer": "tab:brown",
    "jax": "tab:pink",
}
_OUR_COLOURS = ("tab:blue", "tab:green", "tab:orange", "tab:cyan", "tab:olive", "navy", "teal")
_LABELS = {
    "floor": "one read",
    "torch": "torch.topk",
    "aten-op": "torch.ops.aten.topk",
    "ours:auto": "gputopk",
    "ours:rerank": "gputopk",
    "ours:topk_varlen": "gputopk",
    "dense": "topk of as many elements",
    "row": "topk of the full row alone",
}


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _colours(names: Sequence[str]) -> dict[str, str]:
    ours = [name for name in names if name not in _COLOURS]
    return _COLOURS | {name: _OUR_COLOURS[i % len(_OUR_COLOURS)] for i, name in enumerate(ours)}


def _label(name: str) -> str:
    if name.startswith(OURS):
        return _LABELS.get(name, f"gputopk {name.removeprefix(OURS)}")
    return _LABELS.get(name, name.replace("torch:", "torch "))


def _style(name: str) -> dict[str, Any]:
    """torch is dashed and above all but ours, so that an equal time hides neither."""
    if name == "torch":
        return {"linestyle": "--", "zorder": 4}
    if name in ("floor", "aten-op"):
        return {"linestyle": ":", "zorder": 2}
    return {"zorder": 5 if name.startswith(OURS) else 3}


def _names(records: Sequence[Record]) -> list[str]:
    """Every contender that has a time somewhere, in order of appearance."""
    timed = (c["name"] for r in records for c in r["contenders"] if c["us"] is not None)
    return list(dict.fromkeys(timed))


def _value(record: Record, name: str, field: str) -> float | None:
    return next((c.get(field) for c in record["contenders"] if c["name"] == name), None)


def _pages(things: Sequence[Any], most: int) -> Iterable[tuple[str, Sequence[Any]]]:
    """Pages of equal length, each with what its file's name ends in: nothing, "-2", "-3"..."""
    pages = -(-len(things) // most)
    length = -(-len(things) // max(1, pages))
    for i in range(pages):
        yield "" if i == 0 else f"-{i + 1}", things[i * length : (i + 1) * length]


def _size_ticks(axis: Any, sizes: Iterable[int]) -> None:
    """A label at every size, or at every other where they crowd."""
    from matplotlib.ticker import NullLocator

    sizes = sorted(set(sizes))
    shown = sizes[:: -(-len(sizes) // 7)]
    axis.set_ticks(shown, [size_text(size) for size in shown])
    axis.set_minor_locator(NullLocator())


def _number_ticks(axis: Any) -> None:
    """Plain numbers on a log axis, three or more whatever its span."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for subs in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
        if sum(low <= sub * 10.0**exponent <= high for sub in subs for exponent in exponents) >= 3:
            break
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _shape(point: Record) -> str:
    size = f"{point['rows']} x {size_text(point['cols'])} k={size_text(point['k'])}"
    what = point["label"] or point["input"]
    inner = "" if point.get("inner", 1) == 1 else f" inner {size_text(point['inner'])}"
    return f"{what} {size} {point['dtype']}{' sorted' if point['sorted'] else ''}{inner}"


def _rerank_shape(record: Record) -> str:
    shape = f"{record['queries']} x {record['candidates']} x {record['dims']} k={record['k']}"
    return f"{shape} {record['metric']} {record['dtype']}"


def _varlen_shape(record: Record) -> str:
    size = f"{record['rows']} x {size_text(record['cols'])} k={record['k']}"
    return f"{record['pattern']} {size} {record['dtype']} {record['order']} {record['options']}".rstrip()


def _title(header: Record) -> str:
    where = header.get("gpu") or f"{header.get('cpu')}, {header.get('threads')} threads"
    return f"{where}, torch {header.get('torch')}, commit {str(header.get('commit'))[:12]}"


def _curves(
    axes: Any,
    records: Sequence[Record],
    names: Sequence[str],
    field: str,
    colours: dict[str, str],
    over: str = "cols",
) -> None:
    """One line a contender over cols, or over another field of the records."""
    records = sorted(records, key=lambda r: r[over])
    for name in names:
        points = [(r[over], _value(r, name, field)) for r in records]
        points = [point for point in points if point[1] is not None]
        if points:
            style = {"marker": "o", "markersize": 3, "color": colours[name], **_style(name)}
            axes.plot(*zip(*points, strict=True), label=_label(name), **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _size_ticks(axes.xaxis, (r[over] for r in records))
    _number_ticks(axes.yaxis)
    axes.grid(True, which="major", alpha=0.3)


def _panels(
    plt: Any,
    groups: dict[str, list[Record]],
    title: str,
    ylabel: str,
    draw: Callable[..., None],
    path: Path,
    xlabel: str = "cols",
) -> None:
    """Grids of panels, a group each, with one legend a page."""
    for page, some in _pages(list(groups.items()), MAX_PANELS):
        width = min(4, len(some))
        height = -(-len(some) // width)
        figure, grid = plt.subplots(height, width, figsize=(3.6 * width, 2.9 * height + 0.9), squeeze=False)
        for axes, (name, records) in zip(grid.flat, some, strict=False):
            draw(axes, records)
            axes.set_title(name, fontsize=8)
            axes.set_xlabel(xlabel, fontsize=8)
            axes.set_ylabel(ylabel, fontsize=8)
            axes.tick_params(labelsize=7)
        for axes in list(grid.flat)[len(some) :]:
            axes.set_visible(False)
        entries: dict[str, Any] = {}
        for axes in grid.flat:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        figure.suptitle(_fitting(title, 3.6 * width), fontsize=8)
        figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=2 * width, fontsize=8)
        legend = 0.2 + 0.2 * -(-len(entries) // (2 * width))  # inches
        figure.set_figheight(2.9 * height + 0.5 + legend)
        figure.tight_layout(rect=(0, legend / figure.get_figheight(), 1, 1))
        _save(plt, figure, path.with_stem(path.stem + page))


def _fitting(title: str, inches: float) -> str:
    """In as many lines as a figure of that width takes, at 8 points."""
    import textwrap

    return textwrap.fill(title, int(inches * 17))


def _save(plt: Any, figure: Any, path: Path) -> None:
    """As a PNG of 48 colours, a third of the bytes."""
    from PIL import Image

    pixels = io.BytesIO()
    figure.savefig(pixels, dpi=100)
    plt.close(figure)
    Image.open(pixels).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"wrote {path}")


def _over_cols(points: Sequence[Record]) -> dict[str, list[Record]]:
    """The groups that differ in cols alone and have several."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for p in points:
        flags = (" " + p["label"] if p["label"] else "") + (" sorted" if p["sorted"] else "")
        flags += "" if p.get("inner", 1) == 1 else " columns"
        groups[f"{p['input']} {p['dtype']}{flags}\nrows {p['rows']}, k {size_text(p['k'])}"].append(p)
    return {name: group for name, group in groups.items() if len({p["cols"] for p in group}) > 1}


def _plot_points(
    plt: Any, points: Sequence[Record], text: Callable[[Record], str], speedup: bool, title: str, path: Path
) -> None:
    """A line a point, a dot a contender, goals as black strokes: x floor, or times as fast as torch.topk."""
    field, goal = ("x_torch", "goal_x_torch") if speedup else ("x_floor", "goal_x_floor")
    names = [name for name in _names(points) if name != "floor" and not (speedup and name == "torch")]
    colours = _colours(names)
    for page, some in _pages(points, MAX_LINES):
        figure, axes = plt.subplots(figsize=(8, 1.4 + 0.17 * len(some)))
        for name in names:
            at = [(x, i) for i, p in enumerate(some) if (x := _value(p, name, field)) is not None]
            if at:
                style = {
                    "linestyle": "none",
                    "marker": "o",
                    "markersize": 5,
                    "zorder": _style(name)["zorder"],
                }
                axes.plot(*zip(*at, strict=True), color=colours[name], label=_label(name), **style)
        at = [(p[goal], i) for i, p in enumerate(some) if p.get(goal) is not None]
        if at:
            style = {"linestyle": "none", "marker": "|", "markersize": 11, "markeredgewidth": 2, "zorder": 6}
            axes.plot(*zip(*at, strict=True), color="black", label="goal", **style)
        axes.set_yticks(range(len(some)), [text(p) for p in some], fontsize=7)
        axes.set_ylim(len(some) - 0.4, -0.6)
        axes.set_xscale("log")
        _number_ticks(axes.xaxis)
        axes.axvline(1.0, color="0.5", linewidth=1)
        axes.grid(True, alpha=0.3)
        axes.set_xlabel("times as fast as torch.topk" if speedup else "time / time of one read of the input")
        figure.suptitle(_fitting(title, 8), fontsize=8)
        axes.legend(fontsize=7, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        figure.tight_layout()
        _save(plt, figure, path.with_stem(path.stem + page))


# Heat maps --------------------------------------------------------------------------------------------


def _draw_heat(
    axes: Any, cells: dict[tuple[Any, Any], float], rows: Sequence[Any], cols: Sequence[Any]
) -> None:
    """cells[row, col] as a number on a colour: red below 1, blue above, grey where there is none."""
    from matplotlib import colormaps

    axes.set_facecolor("0.93")
    colour_map = colormaps["RdBu"]
    for (row, col), value in cells.items():
        x, y = cols.index(col), rows.index(row)
        shade = min(1.0, max(0.0, 0.5 + math.log2(value) / 9))  # 1 is white, 16 and up as blue as it gets
        axes.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, color=colour_map(shade), linewidth=0)
        text = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
        axes.text(
            x, y, text, ha="center", va="center", fontsize=7, color="white" if shade > 0.85 else "black"
        )
    axes.set_xlim(-0.5, len(cols) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(cols)), [_heat_label(col) for col in cols], fontsize=7, rotation=60)
    axes.set_yticks(range(len(rows)), [_heat_label(row) for row in rows], fontsize=7)
    axes.tick_params(length=0)


def _heat_label(value: Any) -> str:
    return size_text(value) if isinstance(value, int) else value


def _plot_heat(
    plt: Any, points: Sequence[Record], title: str, path: Path, ks: Sequence[int] | None = None
) -> None:
    """x torch over rows x cols, a panel a k."""
    panels = {}
    for k in ks or sorted({p["k"] for p in points}):
        at = [p for p in points if p["k"] == k and _value(p, "ours:auto", "x_torch") is not None]
        panels[k] = {(p["rows"], p["cols"]): _value(p, "ours:auto", "x_torch") for p in at}
    rows, cols = (sorted({at[i] for cells in panels.values() for at in cells}) for i in (0, 1))
    width = min(3, len(panels))
    height = -(-len(panels) // width)
    size = (width * (0.8 + 0.33 * len(cols)), 0.6 + height * (1.1 + 0.25 * len(rows)))
    figure, grid = plt.subplots(height, width, figsize=size, squeeze=False)
    for axes, (k, cells) in zip(grid.flat, panels.items(), strict=False):
        _draw_heat(axes, cells, rows, cols)
        axes.set_title(f"k = {size_text(k)}", fontsize=9)
        axes.set_xlabel("cols", fontsize=8)
        axes.set_ylabel("rows", fontsize=8)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(_fitting(title, size[0]), fontsize=9)
    figure.tight_layout()
    _save(plt, figure, path)


def _plot_kinds(plt: Any, points: Sequence[Record], title: str, path: Path) -> None:
    """x torch over (input, dtype) x shape."""
    cells = {
        (
            f"{p['input']} {p['dtype']}",
            f"{size_text(p['rows'])} x {size_text(p['cols'])}\nk {size_text(p['k'])}",
        ): x
        for p in points
        if (x := _value(p, "ours:auto", "x_torch")) is not None
    }
    rows, cols = (list(dict.fromkeys(at[i] for at in cells)) for i in (0, 1))
    figure, axes = plt.subplots(figsize=(2.6 + 0.6 * len(cols), 1.5 + 0.24 * len(rows)))
    _draw_heat(axes, cells, rows, cols)
    figure.suptitle(_fitting(title, figure.get_figwidth()), fontsize=8)
    figure.tight_layout()
    _save(plt, figure, path)


def _plot_heats(plt: Any, points: Sequence[Record], header: Record, stem: str) -> None:
    """Every heat map with cells enough: rows and cols of a grid, or four kinds at each of a few shapes."""
    timed = [p for p in points if p.get("inner", 1) == 1 and _value(p, "ours:auto", "x_torch") is not None]
    what = "times as fast as torch.topk"
    for order in (True, False):
        word = "sorted" if order else "unsorted"
        some = [p for p in timed if p["sorted"] == order and not p["label"]]
        groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for p in some:
            groups[p["input"], p["dtype"]].append(p)
        grids = {}
        for kind, group in groups.items():
            # A k of few points is a point with a goal of its own, not a part of the grid.
            ks = {k for k in {p["k"] for p in group} if sum(p["k"] == k for p in group) >= 4}
            grids[kind] = [p for p in group if p["k"] in ks]
        for (name, dtype), group in grids.items():
            if len(group) >= 12 and min(len({p[axis] for p in group}) for axis in ("rows", "cols")) >= 3:
                title = f"{what}: {name} {dtype}, {word}. {_title(header)}"
                _plot_heat(plt, group, title, Path(f"{stem}-xtorch-{name}-{dtype}-{word}.png"))
        shapes: dict[tuple[int, int, int], list[Record]] = defaultdict(list)
        for p in some:
            shapes[p["rows"], p["cols"], p["k"]].append(p)
        several = [group for group in shapes.values() if len(group) >= 4]
        kinds = [p for group in several for p in group]
        if 0 < len(several) <= MAX_SHAPES:
            _plot_kinds(
                plt, kinds, f"{what}: {word}. {_title(header)}", Path(f"{stem}-xtorch-kinds-{word}.png")
            )


def plot_readme(paths: Sequence[Path], path: Path = README) -> None:
    """The chart of the README: x torch over rows x cols for three k, sorted where that was timed."""
    records = [record for some in paths for record in report.read(some)]
    header = next(r for r in records if r["kind"] == "header")
    points = [
        r
        for r in records
        if r["kind"] == "point" and (r["input"], r["dtype"]) == ("normal", "float32") and not r["label"]
    ]
    order = any(p["sorted"] for p in points)
    points = [p for p in points if p["sorted"] == order and p["k"] in README_KS]
    words = f"Times as fast as torch.topk: float32, {'sorted' if order else 'unsorted'}. {_title(header)}"
    _plot_heat(_pyplot(), points, words, path, README_KS)


# Ablations --------------------------------------------------------------------------------------------


def _plot_ablation(plt: Any, records: Sequence[Record], header: Record, path: Path) -> None:
    """Curves of the variants over cols or k, a panel for each of what is fixed."""
    over = records[0].get("axis", "cols")
    special = {"alpha": _plot_alpha, "steps": _plot_steps, "workload": _plot_workload}
    title = f"{records[0]['study']} ({records[0]['figure']}): {_title(header)}"
    if records[0]["study"] in special:
        special[records[0]["study"]](plt, records, title, path)
        return
    fixed = "cols" if over == "k" else "k"
    names = [name for name in _names(records) if name != "floor"]
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[f"{record['input']}, {fixed} {size_text(record[fixed])}"].append(record)

    def draw(axes: Any, some: Sequence[Record]) -> None:
        _curves(axes, some, names, "x_floor", _colours(names), over)

    _panels(plt, groups, title, "x floor", draw, path, over)


def _plot_alpha(plt: Any, records: Sequence[Record], title: str, path: Path) -> None:
    """x floor over alpha, rule 4's marked."""
    groups = {f"cols {size_text(r['cols'])}, k {size_text(r['k'])}, beta {r['beta']}": [r] for r in records}

    def draw(axes: Any, some: Sequence[Record]) -> None:
        timed = [c for c in some[0]["contenders"] if c["name"] != "floor" and c["us"] is not None]
        x_floor = {int(c["name"]): c["x_floor"] for c in timed}
        axes.plot(*zip(*x_floor.items(), strict=True), marker="o", markersize=3, color=_OUR_COLOURS[0])
        axes.axvline(some[0]["rule_4"], color="tab:orange", label="rule 4")
        axes.grid(True, which="major", alpha=0.3)

    _panels(plt, groups, title, "x floor", draw, path, "alpha")


def _plot_steps(plt: Any, records: Sequence[Record], title: str, path: Path) -> None:
    """A bar a k, of a piece a step; a panel a form."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: (r["cols"], r["k"])):
        for form in record["contenders"]:
            groups[f"{form['name']}, cols {size_text(record['cols'])}"].append({**form, "k": record["k"]})
    steps = list(dict.fromkeys(step for some in groups.values() for form in some for step in form["steps"]))

    def draw(axes: Any, some: Sequence[Record]) -> None:
        below = [0.0] * len(some)
        for step, colour in zip(steps, _OUR_COLOURS, strict=False):
            heights = [form["steps"].get(step, 0.0) for form in some]
            axes.bar(range(len(some)), heights, bottom=below, label=step, color=colour)
            below = [base + height for base, height in zip(below, heights, strict=True)]
        axes.set_xticks(range(len(some)), [size_text(form["k"]) for form in some], fontsize=7)

    _panels(plt, groups, title, "us", draw, path, "k")


def _plot_workload(plt: Any, records: Sequence[Record], title: str, path: Path) -> None:
    """What each selection works on, as a share of the row, over whichever of k and cols varies."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for varies, fixed in (("k", "cols"), ("cols", "k")):
        for value in dict.fromkeys(r[fixed] for r in records):
            some = [r for r in records if r[fixed] == value]
            if len(some) > 2:
                groups[f"over {varies}, {fixed} {size_text(value)}"] = [
                    {**r, "over": r[varies]} for r in some
                ]

    def draw(axes: Any, some: Sequence[Record]) -> None:
        some = sorted(some, key=lambda r: r["over"])
        over = [r["over"] for r in some]
        parts = (("first selection", "delegates"), ("second selection", "candidates"))
        for (label, field), colour in zip(parts, _OUR_COLOURS, strict=False):
            shares = [r[field] / r["cols"] for r in some]
            axes.plot(over, shares, marker="o", markersize=3, label=label, color=colour)
        both = [(r["delegates"] + r["candidates"]) / r["cols"] for r in some]
        axes.plot(over, both, marker="o", markersize=3, label="both", color="0.5")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _size_ticks(axes.xaxis, over)
        _number_ticks(axes.yaxis)
        axes.grid(True, which="major", alpha=0.3)

    _panels(plt, groups, title, "elements / cols", draw, path, "k, or cols")


def _plot_paper(plt: Any, records: Sequence[Record], header: Record, path: Path) -> None:
    """Time of everyone over the figure's axis, a panel for each of what is fixed."""
    over = records[0]["axis"]
    names = _names(records)
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        texts = {
            "rows": f"rows {record['rows']}",
            "cols": f"cols {size_text(record['cols'])}",
            "k": "k cols / 2" if 2 * record["k"] == record["cols"] else f"k {size_text(record['k'])}",
        }
        texts.pop(over, None)
        groups[f"{record['input']} {record['dtype']}\n{', '.join(texts.values())}"].append(record)
    groups = {name: some for name, some in groups.items() if len(some) > 1}

    def draw(axes: Any, some: Sequence[Record]) -> None:
        _curves(axes, some, names, "us", _colours(names), over)

    if groups:
        figure = FIGURES[records[0]["figure"]]
        title = f"{figure.paper}, {figure.number.lower()}: {figure.about}. {_title(header)}"
        _panels(plt, groups, title, "us", draw, path, over)


def plot_file(path: Path, folder: Path | None = None) -> None:
    """Draws every plot that the file has data for."""
    try:
        plt = _pyplot()
    except ImportError:
        print(f"no plots: matplotlib is not installed; later: python bench/plot.py {path}")
        return
    records = report.read(path)
    header = next((r for r in records if r["kind"] == "header"), {})
    points = [r for r in records if r["kind"] == "point"]
    stem = (folder or path.parent) / path.stem
    stem.parent.mkdir(parents=True, exist_ok=True)
    groups = _over_cols(points)
    if groups:
        names = _names(points)
        colours = _colours(names)
        for suffix, field, label in (("time", "us", "us"), ("xfloor", "x_floor", "x floor")):
            shown = [name for name in names if suffix == "time" or name != "floor"]

            def draw(axes: Any, some: Sequence[Record], shown: list[str] = shown, field: str = field) -> None:
                _curves(axes, some, shown, field, colours)

            _panels(plt, groups, _title(header), label, draw, Path(f"{stem}-{suffix}.png"))
    _plot_heats(plt, points, header, str(stem))
    with_goal = [p for p in points if p["goal_x_floor"] or (p["goal_x_torch"] or 0) > 1]
    if with_goal or 0 < len(points) <= 2 * MAX_LINES:
        speedup = header.get("device") == "cpu"
        shown = with_goal or points
        title = f"{len(shown)} of {len(points)} points. {_title(header)}"
        _plot_points(plt, shown, _shape, speedup, title, Path(f"{stem}-points.png"))
    reranked = [r for r in records if r["kind"] == "rerank"]
    if reranked:
        title = f"queries x candidates x dimensions. {_title(header)}"
        _plot_points(plt, reranked, _rerank_shape, False, title, Path(f"{stem}-rerank.png"))
    ragged = [r for r in records if r["kind"] == "varlen"]
    if ragged:
        title = f"ragged rows: lengths, rows x cols, k. {_title(header)}"
        _plot_points(plt, ragged, _varlen_shape, False, title, Path(f"{stem}-varlen.png"))
    studies: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["kind"] == "ablation":
            studies[record["study"]].append(record)
    for figure, some in papers_page.read([path]).points.items():
        _plot_paper(plt, some, header, Path(f"{stem}-{figure}.png"))
    for study, some in studies.items():
        _plot_ablation(plt, some, header, Path(f"{stem}-{study}.png"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="*", help="JSON lines of a bench; --readme has a default")
    parser.add_argument("--folder", type=Path, help="where the PNGs go; default: beside the results")
    parser.add_argument("--readme", action="store_true", help=f"draw {README.name} from a grid's results")
    options = parser.parse_args(arguments)
    if options.readme:
        plot_readme(options.results or sorted(RESULTS.glob("grid*-h200.jsonl")))
        return 0
    if not options.results:
        parser.error("which results?")
    for path in options.results:
        plot_file(path, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
