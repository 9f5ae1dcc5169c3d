"""The record of the last run of the GPU tests: what source, on what GPU, and what came of it.

    python tests/gpu_record.py run [--commit HASH] [--jobs N [--seconds S]] [pytest's arguments]
    python tests/gpu_record.py check [--strict]

`run` runs `pytest -m gpu`, with --jobs so many test files at a time, and writes the record; files that have
not ended after --seconds are named in it. `check` says whether the record is of this source. It is of the
source whose hash it holds: csrc, torch_topk's Python files, and tests. Beside it the file keeps what
tests/fuzz.py and tests/sanitize.py last found on a GPU, each with the source that it was of; `check` names
what is of another source, and its exit status is that of the suite.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.records import commit_named, output_of, without_options  # noqa: E402

RECORD = ROOT / "tests" / "gpu_record.json"


def source_files(root: Path = ROOT) -> list[Path]:
    """Sorted, relative to the root. Neither builds, nor caches, nor the record itself."""
    files = [f for top in ("csrc", "tests") for f in (root / top).rglob("*") if f.is_file()]
    files += (root / "torch_topk").rglob("*.py")
    relative = [f.relative_to(root) for f in files]
    kept = [
        f
        for f in relative
        if f.suffix not in (".pyc", ".so")
        and not any(part.startswith(".") or part == "__pycache__" for part in f.parts)
        and f.as_posix() != "tests/gpu_record.json"
        and f.parts[:2] != ("torch_topk", "lib")
    ]
    return sorted(kept, key=lambda f: f.as_posix())


def source_hash(root: Path = ROOT) -> str:
    digest = hashlib.sha256()
    for file in source_files(root):
        content = (root / file).read_bytes()
        digest.update(f"{file.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def first_line(*command: str) -> str | None:
    """The first line that a command prints, or None where there is no such command or it fails."""
    printed = output_of(*command)
    return printed.splitlines()[0] if printed else None


class Outcomes:
    """A pytest plugin that counts tests by outcome."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self.unfinished: list[str] = []  # files

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed += 1
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report) -> None:
        self.failed += report.failed


def here(commit: str | None = None) -> dict[str, object]:
    """What a result is of: the source, the time and the machine."""
    import torch

    gpu = torch.cuda.is_available()
    return {
        "source_hash": source_hash(),
        "commit": commit or first_line("git", "rev-parse", "HEAD"),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "driver": first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }


def add(name: str, found: object, commit: str | None = None, record: Path = RECORD) -> None:
    """Notes a result beside that of the tests, which keeps it when they run again."""
    known = json.loads(record.read_text()) if record.is_file() else {}
    known[name] = {**here(commit), "found": found}
    record.write_text(json.dumps(known, indent=2) + "\n")


NO_TESTS = 5  # pytest's exit status


def run_here(arguments: list[str], outcomes: Outcomes) -> int:
    import pytest

    return int(pytest.main(["-m", "gpu", *arguments], plugins=[outcomes]))


def run_files(
    jobs: int,
    arguments: list[str],
    outcomes: Outcomes,
    known: dict[str, float],
    most_seconds: float | None = None,
) -> int:
    """Each test file in a process of its own, with its share of the cores: much of a GPU test's time is its
    oracle's, on the host. Those that took longest go first, by the seconds `known`, which are brought up to
    date. After `most_seconds` what still runs is ended, and what has not begun is left out."""
    end = time.monotonic() + (most_seconds or math.inf)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))}

    def run_file(name: str) -> tuple[float, subprocess.CompletedProcess | None]:
        command = [sys.executable, __file__, "run-file", str(ROOT / name), *arguments]
        began = time.monotonic()
        left = None if math.isinf(end) else max(end - began, 0)
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=left
            )
        except subprocess.TimeoutExpired:
            done = None
        return time.monotonic() - began, done

    files = [f for f in (ROOT / "tests").rglob("test_*.py") if "gpu" in f.read_text()]
    names = sorted(file.relative_to(ROOT).as_posix() for file in files)
    names.sort(key=lambda name: known.get(name, math.inf), reverse=True)
    status = 0
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(run_file, name): name for name in names}
        for run in as_completed(runs):
            name, (seconds, done) = runs[run], run.result()
            if done is None:
                outcomes.unfinished.append(name)
                status = 1
                print(f"{name}: not finished in {seconds:.0f} s", flush=True)
                continue
            lines = done.stdout.splitlines()
            counts = json.loads(lines[-1]) if lines and lines[-1].startswith("[") else [0, 1, 0]
            outcomes.passed += counts[0]
            outcomes.failed += counts[1]
            outcomes.skipped += counts[2]
            if done.returncode not in (0, NO_TESTS):
                status = done.returncode
                print(done.stdout, done.stderr, sep="\n")
            if sum(counts):
                known[name] = round(seconds, 1)
                print(
                    f"{name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped, {seconds:.0f} s",
                    flush=True,
                )
    return status


def run(
    commit: str | None,
    jobs: int,
    arguments: list[str],
    record: Path = RECORD,
    most_seconds: float | None = None,
) -> int:
    began = here(commit)
    outcomes = Outcomes()
    known = json.loads(record.read_text()) if record.is_file() else {}
    seconds = known.setdefault("seconds", {})  # of each file, the last time that files ran side by side
    if jobs > 1:
        command = ["-m", "gpu", *arguments, "<each file of tests>"]
        status = run_files(jobs, arguments, outcomes, seconds, most_seconds)
    else:
        command = ["-m", "gpu", *(arguments or ["tests"])]
        status = run_here(command[2:], outcomes)
    if outcomes.passed + outcomes.failed == 0:
        print("gpu record: no GPU test ran; nothing is recorded")
        return status or 1
    # What add() has noted, and may have meanwhile.
    noted = json.loads(record.read_text()) if record.is_file() else {}
    written = {
        **began,
        "passed": outcomes.passed,
        "failed": outcomes.failed,
        "skipped": outcomes.skipped,
        "unfinished": sorted(outcomes.unfinished),
        "command": without_options(["pytest", *command]),
        **{name: kept for name, kept in noted.items() if isinstance(kept, dict)},
        "seconds": seconds,
    }
    record.write_text(json.dumps(written, indent=2) + "\n")
    print(describe(record))
    return status


def describe(record: Path = RECORD) -> str:
    """One line: the outcome of the tests, and what in the record is of another source than this."""
    if not record.is_file():
        return "gpu record: none; run `make gpu-test` on a machine with a GPU"
    found = json.loads(record.read_text())
    counts = f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped"
    where = f"{found['gpu']}, driver {found['driver']}, torch {found['torch']}, {found['date']}"
    stale = stale_parts(found)
    verdict = f"of ANOTHER source: {', '.join(stale)}; run these again" if stale else "of this source"
    unfinished = found.get("unfinished", [])
    if unfinished:
        counts += f", {len(unfinished)} files unfinished"
    return f"gpu record: {counts} on {where}; {verdict}"


def stale_parts(found: dict[str, Any]) -> list[str]:
    """What a record has of another source than this: the suite, a fuzz, a tool of the sanitizer."""
    this = source_hash()
    stale = [] if found["source_hash"] == this else ["suite"]
    for name, part in found.items():
        if isinstance(part, dict) and part.get("source_hash", this) != this:
            stale += part["found"] if name == "sanitizer" else [name]
    return stale


def is_current(record: Path = RECORD) -> bool:
    return record.is_file() and json.loads(record.read_text())["source_hash"] == source_hash()


def has_passed(record: Path = RECORD) -> bool:
    """Whatever source it is of."""
    return record.is_file() and json.loads(record.read_text())["failed"] == 0


def is_good(record: Path = RECORD) -> bool:
    return is_current(record) and has_passed(record) and not json.loads(record.read_text()).get("unfinished")


def main(argv: list[str]) -> int:
    if argv[:1] == ["run-file"]:  # a part of `run --jobs`
        outcomes = Outcomes()
        status = run_here(argv[1:], outcomes)
        print(json.dumps([outcomes.passed, outcomes.failed, outcomes.skipped]))
        return status
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="what", required=True)
    runner = commands.add_parser("run", help="run the GPU tests and write the record")
    runner.add_argument("--commit", type=commit_named, help="the commit, where there is no git to ask")
    runner.add_argument("--jobs", type=int, default=1, help="test files run at a time (default 1)")
    runner.add_argument("--seconds", type=float, help="end what still runs after so many; with --jobs")
    checker = commands.add_parser(
        "check", help="say whether the record is of this source, and without failures"
    )
    checker.add_argument(
        "--strict", action="store_true", help="exit 1 unless it is both, not the latter alone"
    )
    checker.add_argument("--record", type=Path, default=RECORD, help="default %(default)s")
    options, rest = parser.parse_known_args(argv)
    if options.what == "run":
        if options.seconds and options.jobs == 1:
            parser.error("--seconds goes with --jobs")
        return run(options.commit, options.jobs, rest, most_seconds=options.seconds)
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    print(describe(options.record))
    return int(not (is_good if options.strict else has_passed)(options.record))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
