"""The record of the GPU run follows the source and nothing else."""

from __future__ import annotations

import json

import pytest

from tests import gpu_record


@pytest.fixture
def tree(tmp_path):
    for name in ("csrc/core/a.h", "torch_topk/ops.py", "tests/oracle.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["csrc/core/a.h", "torch_topk/ops.py", "tests/oracle.py", "csrc/cuda/new.cu"]
)
def test_a_change_of_the_source_changes_the_hash(tree, name):
    before = gpu_record.source_hash(tree)
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("changed")
    assert gpu_record.source_hash(tree) != before


def test_a_renamed_file_changes_the_hash(tree):
    before = gpu_record.source_hash(tree)
    (tree / "csrc/core/a.h").rename(tree / "csrc/core/b.h")
    assert gpu_record.source_hash(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        "tests/gpu_record.json",
        "tests/__pycache__/oracle.pyc",
        "tests/.pytest_cache/x",
        "torch_topk/lib/libgputopk.so",
        "README.md",
    ],
)
def test_builds_caches_and_the_record_do_not_count(tree, name):
    before = gpu_record.source_hash(tree)
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("anything")
    assert gpu_record.source_hash(tree) == before


def write_record(path, **changes):
    record = {
        "source_hash": gpu_record.source_hash(),
        "gpu": "a GPU",
        "driver": "1",
        "torch": "2",
        "date": "today",
        "passed": 9,
        "failed": 0,
        "skipped": 0,
    }
    path.write_text(json.dumps({**record, **changes}))
    return path


def test_a_record_says_whether_it_is_of_this_source(tmp_path):
    path = tmp_path / "record.json"
    assert "none" in gpu_record.describe(path) and not gpu_record.is_good(path)
    write_record(path)
    text = gpu_record.describe(path)
    assert "9 passed" in text and text.endswith("of this source") and gpu_record.is_good(path)
    write_record(path, source_hash="0")
    assert "ANOTHER source" in gpu_record.describe(path) and not gpu_record.is_good(path)
    write_record(path, failed=1)
    assert "1 failed" in gpu_record.describe(path) and not gpu_record.is_good(path)
    write_record(path, unfinished=["tests/cuda/test_air.py"])
    assert "1 files unfinished" in gpu_record.describe(path) and not gpu_record.is_good(path)


def test_each_part_of_another_source_is_named(tmp_path, capsys):
    this, other = gpu_record.source_hash(), "0"
    path = tmp_path / "record.json"

    def check(suite: str, fuzz: str, ragged: str, sanitizer: str) -> str:
        parts = {
            "fuzz cuda": {"source_hash": fuzz, "found": {"cases": 1}},
            "fuzz cuda-ragged": {"source_hash": ragged, "found": {"cases": 1}},
            "sanitizer": {"source_hash": sanitizer, "found": {"memcheck": {}, "racecheck": {}}},
        }
        write_record(path, source_hash=suite, **parts, seconds={"tests/test_fuzz.py": 1.0})
        assert gpu_record.main(["check", "--record", str(path)]) == 0
        assert gpu_record.main(["check", "--record", str(path), "--strict"]) == int(suite != this)
        return capsys.readouterr().out.splitlines()[0]

    assert check(this, this, this, this).endswith("; of this source")
    for parts, named in (
        ((other, this, this, this), "suite"),
        ((this, other, this, this), "fuzz cuda"),
        ((this, this, other, this), "fuzz cuda-ragged"),
        ((this, this, this, other), "memcheck, racecheck"),
        ((other, other, this, other), "suite, fuzz cuda, memcheck, racecheck"),
    ):
        assert check(*parts).endswith(f"; of ANOTHER source: {named}; run these again")


def test_the_real_record_is_described_in_one_line_and_without_failures(capsys):
    assert gpu_record.main(["check"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_check_fails_for_failures_and_when_strict_for_another_source(tmp_path):
    path = tmp_path / "record.json"

    def statuses() -> list[int]:
        return [gpu_record.main(["check", "--record", str(path), *strict]) for strict in ([], ["--strict"])]

    assert statuses() == [1, 1]
    write_record(path)
    assert statuses() == [0, 0]
    write_record(path, source_hash="0")
    assert statuses() == [0, 1]
    write_record(path, failed=1)
    assert statuses() == [1, 1]


def test_files_run_side_by_side_are_counted_together(tmp_path, monkeypatch, capsys):
    marked = "import pytest\npytestmark = pytest.mark.gpu\n"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_good.py").write_text(
        marked + "def test_a(): pass\ndef test_b(): pytest.skip('here')\n"
    )
    (tmp_path / "tests/test_bad.py").write_text(
        marked + "def test_a(): assert False, 'planted'\ndef test_b(): pass\n"
    )
    (tmp_path / "tests/test_of_the_host.py").write_text("def test_a(): assert False\n")
    monkeypatch.setattr(gpu_record, "ROOT", tmp_path)
    outcomes = gpu_record.Outcomes()
    seconds = {"tests/test_good.py": 1e9}
    assert gpu_record.run_files(2, ["-p", "no:cacheprovider"], outcomes, seconds) == 1
    assert (outcomes.passed, outcomes.failed, outcomes.skipped) == (2, 1, 1)
    assert "planted" in capsys.readouterr().out
    assert seconds.keys() == {"tests/test_good.py", "tests/test_bad.py"}
    assert max(seconds.values()) < 1e9


def test_files_that_take_too_long_are_named(tmp_path, monkeypatch):
    marked = "import time, pytest\npytestmark = pytest.mark.gpu\n"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_fast.py").write_text(marked + "def test_a(): pass\n")
    (tmp_path / "tests/test_slow.py").write_text(marked + "def test_a(): time.sleep(600)\n")
    monkeypatch.setattr(gpu_record, "ROOT", tmp_path)
    outcomes = gpu_record.Outcomes()
    assert gpu_record.run_files(2, ["-p", "no:cacheprovider"], outcomes, {}, most_seconds=12) == 1
    assert (outcomes.passed, outcomes.unfinished) == (1, ["tests/test_slow.py"])
