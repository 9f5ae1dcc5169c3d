"""Draws what a result file holds: PNGs beside it, or in another folder.

    python bench/plot.py bench/results/goals-cuda.jsonl

    <name>-time.png       us over cols, a panel for each (input, dtype, rows, k) timed at several cols
    <name>-xfloor.png     the same panels as x floor
    <name>-points.png     a bar a point: x floor with its goal; for CPU sets times as fast as torch.topk
    <name>-<study>.png    ablations: x floor over cols, k or alpha of each variant; time by step; workload

Needs matplotlib and nothing else: the records may come from another machine.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import report
from bench.report import Record, size_text

OURS = "ours:"
MAX_PANELS = 24
MAX_BARS = 60
_COLOURS = {
    "floor": "0.6",
    "torch": "tab:red",
    "aten-op": "tab:gray",
    "pylibraft": "tab:purple",
    "flashinfer": "tab:brown",
    "jax": "tab:pink",
}
_OUR_COLOURS = ("tab:blue", "tab:green", "tab:orange", "tab:cyan", "tab:olive", "navy", "teal")


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _colours(names: Sequence[str]) -> dict[str, str]:
    ours = [name for name in names if name not in _COLOURS]
    return _COLOURS | {name: _OUR_COLOURS[i % len(_OUR_COLOURS)] for i, name in enumerate(ours)}


def _names(records: Sequence[Record]) -> list[str]:
    """Every contender that has a time somewhere, in order of appearance."""
    timed = (c["name"] for r in records for c in r["contenders"] if c["us"] is not None)
    return list(dict.fromkeys(timed))


def _value(record: Record, name: str, field: str) -> float | None:
    return next((c.get(field) for c in record["contenders"] if c["name"] == name), None)


def _shape(point: Record) -> str:
    size = f"{point['rows']} x {size_text(point['cols'])} k={size_text(point['k'])}"
    return f"{point['input']} {size} {point['dtype']}"


def _title(header: Record) -> str:
    where = header.get("gpu") or f"{header.get('cpu')}, {header.get('threads')} threads"
    return f"{where}, torch {header.get('torch')}, commit {header.get('commit')}"


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
            label = name.removeprefix(OURS)
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label, color=colours[name])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
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
    """A grid of panels, a group each, and one legend."""
    width = min(4, len(groups))
    height = -(-len(groups) // width)
    figure, grid = plt.subplots(height, width, figsize=(4.2 * width, 3.2 * height + 0.8), squeeze=False)
    for axes, (name, records) in zip(grid.flat, groups.items(), strict=False):
        draw(axes, records)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
    for axes in list(grid.flat)[len(groups) :]:
        axes.set_visible(False)
    entries: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.suptitle(title, fontsize=9)
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=8, fontsize=8)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    _save(plt, figure, path)


def _save(plt: Any, figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"wrote {path}")


def _over_cols(points: Sequence[Record]) -> dict[str, list[Record]]:
    """The groups that differ in cols alone and have several; the longest first, up to a page of panels."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for p in points:
        flags = (" " + p["label"] if p["label"] else "") + (" sorted" if p["sorted"] else "")
        flags += "" if p.get("inner", 1) == 1 else " columns"
        groups[f"{p['input']} {p['dtype']}, rows {p['rows']}, k {size_text(p['k'])}{flags}"].append(p)
    several = {name: group for name, group in groups.items() if len({p["cols"] for p in group}) > 1}
    chosen = sorted(several, key=lambda name: -len(several[name]))[:MAX_PANELS]
    return {name: group for name, group in several.items() if name in chosen}


def _plot_points(plt: Any, points: Sequence[Record], header: Record, path: Path) -> None:
    """A bar a point and contender, goals as black strokes; on the CPU as speedups over torch.topk."""
    speedup = header.get("device") == "cpu"
    field, goal = ("x_torch", "goal_x_torch") if speedup else ("x_floor", "goal_x_floor")
    names = [name for name in _names(points) if name != "floor" and not (speedup and name == "torch")]
    colours = _colours(names)
    thickness = 0.8 / max(1, len(names))
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.18 * len(points) * max(2, len(names))))
    labelled: set[str] = set()

    def label_once(name: str) -> str | None:
        if name in labelled:
            return None
        labelled.add(name)
        return name.removeprefix(OURS)

    for i, p in enumerate(points):
        for j, name in enumerate(names):
            value = _value(p, name, field)
            if value is not None:
                style = {"color": colours[name], "label": label_once(name)}
                axes.barh(i + j * thickness, value, thickness, align="edge", **style)
        if p[goal] is not None:
            axes.vlines(p[goal], i, i + 0.8, colors="black", linewidth=2, label=label_once("goal"))
    texts = [_shape(p) for p in points]
    axes.set_yticks([i + 0.4 for i in range(len(points))], texts, fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1.0, color="0.5", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as torch.topk" if speedup else "time / time of one read of the input")
    axes.set_title(_title(header), fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    _save(plt, figure, path)


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
        axes.grid(True, which="major", alpha=0.3)

    _panels(plt, groups, title, "elements / cols", draw, path, "k, or cols")


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
    if points:
        with_goal = [p for p in points if p["goal_x_floor"] or (p["goal_x_torch"] or 0) > 1]
        _plot_points(plt, (with_goal or points)[:MAX_BARS], header, Path(f"{stem}-points.png"))
    studies: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["kind"] == "ablation":
            studies[record["study"]].append(record)
    for study, some in studies.items():
        _plot_ablation(plt, some, header, Path(f"{stem}-{study}.png"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="JSON lines of bench_topk.py or ablation.py")
    parser.add_argument("--folder", type=Path, help="where the PNGs go; default: beside the results")
    options = parser.parse_args(arguments)
    for path in options.results:
        plot_file(path, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
