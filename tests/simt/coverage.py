"""Which lines of csrc/cuda have run on the emulated GPU, by gcov.

python -m tests.simt.coverage      of all runs since the counts were last cleared
    --least 95                     fails where fewer in a hundred have run, and names those that have not
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simt import emulated

BUILD = emulated.ROOT / "build" / "simt"
CUDA = emulated.ROOT / "csrc" / "cuda"

# Lines that no run is to reach: file, a part of the line, why. Counted neither as reached nor as missed.
NOT_REACHED = (
    ("device/radix_passes.cu", "__trap()", "a wait of many seconds, which would be a bug"),
    ("", "return error;", "what CUDA refuses: the emulated runtime refuses clusters alone"),
    ("", "return cudaErrorInvalidConfiguration;", "grids of 2^31 blocks"),
    ("", "return 0;  // never", "for the compiler"),
    ("study/read_floor.cu", "", "the yardstick of the benchmarks: a kernel that selects nothing"),
)


@dataclasses.dataclass
class Lines:
    reached: set[int] = dataclasses.field(default_factory=set)
    there: set[int] = dataclasses.field(default_factory=set)


def clear() -> None:
    """Forgets all counts. Before the library is loaded."""
    for file in BUILD.rglob("*.gcda"):
        file.unlink(missing_ok=True)


def _unit_is_gone(notes: Path) -> bool:
    """An object of a unit that was removed or renamed since."""
    unit = notes.as_posix().removesuffix(".gcno")
    at = unit.find(CUDA.as_posix())
    return at >= 0 and not Path(unit[at:]).exists()


def _of_object(notes: Path) -> dict[str, Lines]:
    done = subprocess.run(
        ["gcov", "--json-format", "--stdout", notes.name], cwd=notes.parent, capture_output=True, text=True
    )
    found: dict[str, Lines] = defaultdict(Lines)
    for text in done.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = Path(os.path.normpath(notes.parent / file["file"]))
            if CUDA not in path.parents:
                continue
            lines = found[path.relative_to(CUDA).as_posix()]
            for line in file["lines"]:
                lines.there.add(line["line_number"])
                if line["count"] > 0:
                    lines.reached.add(line["line_number"])
    return found


def collect() -> dict[str, Lines]:
    """By file: a line is reached where any instance of its function has reached it."""
    found: dict[str, Lines] = defaultdict(Lines)
    objects = sorted(BUILD.rglob("*.cu.gcno")) + sorted(BUILD.rglob("*.cpp.gcno"))
    with ThreadPoolExecutor(2) as pool:
        for part in pool.map(_of_object, [notes for notes in objects if not _unit_is_gone(notes)]):
            for name, lines in part.items():
                found[name].there |= lines.there
                found[name].reached |= lines.reached
    for name, lines in found.items():
        text = (CUDA / name).read_text().splitlines()
        for number in sorted(lines.there - lines.reached):
            if any(file in ("", name) and part in text[number - 1] for file, part, _ in NOT_REACHED):
                lines.there.discard(number)
    return dict(found)


def report(found: dict[str, Lines]) -> tuple[float, str]:
    """The share of lines that were reached, and a table with those that were not."""
    there = reached = 0
    rows = []
    for name, lines in sorted(found.items()):
        if not lines.there:
            continue
        there += len(lines.there)
        reached += len(lines.there & lines.reached)
        missed = sorted(lines.there - lines.reached)
        share = 100 * (1 - len(missed) / len(lines.there))
        rows.append(
            f"{share:6.1f} %  {name}" + (f"  missed: {', '.join(map(str, missed))}" if missed else "")
        )
    share = reached / there if there else 0.0
    return share, "\n".join(
        [*rows, f"{100 * share:6.1f} %  of {there} lines of csrc/cuda on the emulated GPU"]
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT")
    least = parser.parse_args(arguments).least
    share, table = report(collect())
    enough = 100 * share >= least
    print(table.splitlines()[-1] if least and enough else table)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
