"""Writes the tables of docs/results.md that come straight from records, in place.

    python bench/results_page.py                    # after a record in bench/results was renewed
    python bench/results_page.py --check            # writes nothing: is each table that of its record?
    python bench/results_page.py --records FOLDER --page FILE

A table stands between the lines "<!-- table: NAME -->" and "<!-- end -->" of the page, with the line that
tells its command, hardware, commit and date. What lies between is replaced; all else is written by hand, and
stays. results_tables.py says what each table holds. Needs nothing but Python. Exit status 1 where a marker or
a record is missing, and with --check where the page and the records differ.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import RESULTS
from bench.results_tables import TABLES, Source

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results.md"
BEGIN, END = "<!-- table: {} -->\n", "<!-- end -->\n"


class MarkerError(ValueError):
    """A marker is missing from the page, stands there twice, or names no table."""


def span_of(name: str, text: str) -> tuple[int, int]:
    """Where in the page the table begins and ends."""
    marker = BEGIN.format(name)
    if text.count(marker) != 1:
        raise MarkerError(f"{text.count(marker)} lines {marker.strip()}, not one")
    begin = text.index(marker) + len(marker)
    end, following = text.find(END, begin), text.find(BEGIN.partition("{}")[0], begin)
    if end < 0 or 0 <= following < end:
        raise MarkerError(f"no line {END.strip()} behind {marker.strip()}")
    return begin, end


def rewritten(text: str, folder: Path) -> tuple[str, list[str]]:
    """The page with the tables of the folder's records, and the names of those that were others."""
    for name in re.findall(r"^<!-- table: (.*) -->$", text, re.MULTILINE):
        if name not in TABLES:
            raise MarkerError(f"there is no table of the name of {BEGIN.format(name).strip()}")
    source = functools.cache(lambda name: Source(folder / f"{name}.jsonl"))
    changed = []
    for name, lines_of in TABLES.items():
        begin, end = span_of(name, text)
        lines = "".join(f"{line}\n" for line in lines_of(source))
        if lines != text[begin:end]:
            changed.append(name)
            text = text[:begin] + lines + text[end:]
    return text, changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--check", action="store_true", help="write nothing, tell which tables differ")
    parser.add_argument("--records", type=Path, metavar="FOLDER", default=RESULTS)
    parser.add_argument("--page", type=Path, metavar="FILE", default=PAGE)
    options = parser.parse_args(arguments)
    try:
        text, changed = rewritten(options.page.read_text(), options.records)
    except MarkerError as error:
        print(f"no table written: {options.page}: {error}")
        return 1
    except FileNotFoundError as error:
        print(f"no table written: there is no {error.filename}")
        return 1
    if options.check:
        for name in changed:
            print(
                f"{options.page}: the table {name!r} is not that of its record: python bench/results_page.py"
            )
        return 1 if changed else 0
    if changed:
        options.page.write_text(text)
    print(f"{options.page}: {len(changed)} of {len(TABLES)} tables changed")
    for name in changed:
        print(f"  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
