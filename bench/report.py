"""What a bench shows and writes: a progress line, JSON lines, and a table."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.records import without_options

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

Record = dict[str, Any]

RESULTS = Path(__file__).resolve().parent / "results"


class Progress:
    """A progress bar on a terminal; elsewhere, or without tqdm, a plain line every few seconds."""

    EVERY_S = 5.0

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start, self.last = total, 0, time.monotonic(), 0.0
        bar = tqdm is not None and sys.stderr.isatty()
        self.bar = tqdm(total=total, unit="point", dynamic_ncols=True) if bar else None

    def show(self, text: str) -> None:
        """What is being worked on."""
        if self.bar is not None:
            self.bar.set_postfix_str(text)
            return
        now = time.monotonic()
        if now - self.last >= self.EVERY_S:
            print(f"[{self.done}/{self.total}] {now - self.start:.0f} s  {text}", file=sys.stderr, flush=True)
            self.last = now

    def advance(self) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.update()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class JsonLines:
    """A file of one JSON object a line, complete up to the last record whenever the run ends."""

    def __init__(self, path: Path, append: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._file = path, path.open("a" if append else "w")

    def write(self, record: Record) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Record]:
    """The records of a result file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def contender_of(record: Record, name: str) -> Record:
    return next(c for c in record["contenders"] if c["name"] == name)


def form_named(plan: str) -> str | None:
    """The form that a plan's text names; old ones name none."""
    named = re.search(r"; form (\S+?)(;|$)", plan)
    return named[1] if named else None


def command_text(header: Record, without: Sequence[str] = ("output", "commit")) -> str:
    """The command that wrote a record, without these options, which have a value each."""
    return without_options(header["command"].split(), without)


def sweep_of(path: Path) -> list[Record]:
    """A sweep's timings (sweep_plan.py). Of a form that was timed again on an input, only the last ones."""
    records = [record for record in read(path) if record["kind"] == "plan"]
    last: dict[tuple, int] = {}
    for number, record in enumerate(records):
        for form in record["us"]:
            last[record["point"], record["input"], record["sorted"], form] = number

    def stands(number: int, form: str) -> bool:
        record = records[number]
        return last[record["point"], record["input"], record["sorted"], form] == number

    return [
        {**record, "us": {form: us for form, us in record["us"].items() if stands(number, form)}}
        for number, record in enumerate(records)
    ]


def size_text(number: int) -> str:
    """2^20 for the powers of two from 2^15 up, else plain."""
    power = number.bit_length() - 1
    return f"2^{power}" if number >= 2**15 and number == 2**power else str(number)


def integer(text: str) -> int:
    """A plain integer or 2^n."""
    base, _, exponent = text.partition("^")
    return int(base) ** int(exponent) if exponent else int(base)


def number_text(number: float | None, digits: int = 3) -> str:
    """Three digits or so, '-' for nothing."""
    if number is None:
        return "-"
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.{digits - 1 if number < 10 else digits - 2}f}"


def ratio_text(value: float | None, goal: float | None, at_least: bool = False) -> str:
    """A ratio, and a mark where it misses its goal, else a space."""
    missed = value is not None and goal is not None and (value < goal if at_least else value > goal)
    return number_text(value) + ("!" if missed else " ")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((first, *rest)).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(columns), rule, *(line(row) for row in rows)])


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], others: str = "---:") -> list[str]:
    """Its lines: the first column to the left, the others to the right, or as their rule says."""
    rule = ["---", *(others for _ in columns[1:])]
    return [f"| {' | '.join(line)} |" for line in (columns, rule, *rows)]
