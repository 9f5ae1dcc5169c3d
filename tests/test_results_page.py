"""docs/results.md has the tables of its records, and bench/results_page.py puts them there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from bench import results_page
from bench.report import RESULTS
from bench.results_page import BEGIN, END, PAGE
from bench.results_tables import TABLES, Source, size, slower_text, times, x_floor


@pytest.fixture
def copies(tmp_path):
    """A page and its records; the arguments that name them."""
    page = Path(shutil.copy(PAGE, tmp_path))
    for path in RESULTS.glob("*.jsonl"):
        if not path.name.startswith("plan"):
            shutil.copy(path, tmp_path)
    return page, ["--records", str(tmp_path), "--page", str(page)]


def change(path: Path, **fields: object) -> None:
    """Another header, or another time of ours at the first point."""
    header, first, *rest = map(json.loads, path.read_text().splitlines())
    header |= {name: value for name, value in fields.items() if name in header}
    for contender in first["contenders"]:
        if contender["name"] == "ours:auto":
            contender |= {name: value for name, value in fields.items() if name in contender}
    path.write_text("".join(json.dumps(record) + "\n" for record in (header, first, *rest)))


def by_hand(text: str) -> str:
    return re.sub(f"(<!-- table: .* -->\n)(?s:.*?)({END})", r"\1\2", text)


def test_the_page_in_the_repository_is_that_of_its_records(capsys):
    assert results_page.main(["--check"]) == 0, capsys.readouterr().out


def test_a_changed_record_changes_its_tables_alone(copies, capsys):
    page, arguments = copies
    before = page.read_text()
    first = Source(page.with_name("held-h200.jsonl")).points[0]
    change(page.with_name("held-h200.jsonl"), commit="0123456789", us=0.25, x_floor=0.125, x_torch=987.0)
    assert results_page.main(["--check", *arguments]) == 1
    told = capsys.readouterr().out
    differing = [name for name in TABLES if f"the table {name!r} is not that of its record" in told]
    assert {"at a glance", "goals met"} < set(differing)
    assert all(name.startswith(("goals", "at a glance")) for name in differing)
    assert page.read_text() == before  # so far
    assert results_page.main(arguments) == 0
    after = page.read_text()
    assert by_hand(after) == by_hand(before) and "987" not in before
    row = next(line for line in after.splitlines() if "| 0.25 | 0.12 |" in line)
    assert row.startswith(f"| {first['rows']} x {size(first['cols'])} |") and row.endswith("| yes | 987 |")
    assert "H200, 0123456, " in after and " to 987 |" in after
    assert results_page.main(["--check", *arguments]) == 0


def test_a_page_that_someone_edited_is_put_right(copies):
    page, arguments = copies
    before = page.read_text()
    page.write_text(before.replace("| all | ", "| all | 1"))
    assert page.read_text() != before
    assert results_page.main(arguments) == 0 and page.read_text() == before


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_marker_is_named(name, copies, capsys):
    page, arguments = copies
    text, marker = page.read_text(), BEGIN.format(name)
    page.write_text(text.replace(marker, ""))
    for check in ([], ["--check"]):
        assert results_page.main([*check, *arguments]) == 1
        assert f"no table written: {page}: 0 lines {marker.strip()}, not one" in capsys.readouterr().out
    assert page.read_text() == text.replace(marker, "")
    begin = text.index(marker)
    page.write_text(text[:begin] + text[begin:].replace(END, "", 1))
    assert results_page.main(arguments) == 1
    assert f"{page}: no line {END.strip()} behind {marker.strip()}" in capsys.readouterr().out


def test_a_marker_of_no_table_or_twice_is_named(copies, capsys):
    page, arguments = copies
    text = page.read_text()
    page.write_text(text + BEGIN.format("of nothing") + END)
    assert results_page.main(arguments) == 1
    assert "there is no table of the name of <!-- table: of nothing -->" in capsys.readouterr().out
    page.write_text(text + BEGIN.format("order") + END)
    assert results_page.main(arguments) == 1
    assert "2 lines <!-- table: order -->, not one" in capsys.readouterr().out


def test_a_missing_record_is_named(copies, capsys):
    page, arguments = copies
    page.with_name("order-h200.jsonl").unlink()
    assert results_page.main(arguments) == 1
    assert f"there is no {page.with_name('order-h200.jsonl')}" in capsys.readouterr().out


def test_numbers_are_written_as_they_are_read():
    assert [size(n) for n in (10_000, 2**14, 2**20, 10**6, 5 * 10**6, 128_256)] == [
        "10000", "2^14", "2^20", "10^6", "5 * 10^6", "128256"
    ]  # fmt: skip
    assert [times(value) for value in (0.594, 1.049, 2.83, 9.94, 9.96, 25.49, 290.2)] == [
        "0.59", "1.05", "2.8", "9.9", "10", "25", "290"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ratio, text", [(2.39, "2.39"), (2.4, "2.40"), (2.402, "2.402"), (2.396, "2.40"), (21.37, "21.4")]
)
def test_as_many_digits_as_tell_whether_the_goal_is_met(ratio, text):
    point = {"goal_x_floor": 2.4, "contenders": [{"name": "ours:auto", "x_floor": ratio}]}
    assert x_floor(point) == text


def test_what_slow_points_have_in_common():
    def text(*shapes: tuple[int, int]) -> str:
        return slower_text([{"rows": rows, "cols": cols} for rows, cols in shapes], lambda p: p["cols"] < 999)

    assert text((1, 1000)) == "none"
    assert text((1, 64), (1, 1000)) == "1"
    assert text((1, 64), (1, 64)) == "2, all one row of 64"
    assert text((1, 256), (16, 256)) == "2, all of 256 columns"
    assert text((1, 256), (16, 64)) == "2"
