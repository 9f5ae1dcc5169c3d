"""What records say of a run: no path that may be private, and a commit that can be found again."""

from __future__ import annotations

import argparse
import subprocess

import pytest
import torch

from bench import (
    ablation,
    bench_distributed,
    bench_topk,
    bench_varlen,
    environment,
    host_time,
    papers,
    report,
)
from tests import fuzz, gpu_record, records, sanitize

OPTIONS = [
    "--output /root/x.jsonl",
    "--output=/root/x.jsonl",
    "--commit 3a1983d",
    "--commit=3a1983d",
    "--out=/x",
]


@pytest.mark.parametrize("option", OPTIONS)
def test_a_header_has_neither_the_path_nor_the_commit_that_were_given(option, monkeypatch):
    words = ["bench/bench_topk.py", "--set", "held", *option.split(), "--cols", "2^20", "--plot"]
    monkeypatch.setattr("sys.argv", words)
    header = environment.header(torch.device("cpu"), None)
    assert header["command"] == "python bench/bench_topk.py --set held --cols 2^20 --plot"


def test_a_path_with_spaces_is_left_out_whole():
    assert records.without_options(["x.py", "--output", "/my own/x.jsonl", "--plot"]) == "x.py --plot"


def test_a_page_leaves_out_more_of_records_that_have_it_all():
    header = {"command": "python x.py --time-limit 60 --output /root/x.jsonl --commit 3a1983d --set held"}
    assert report.command_text(header) == "python x.py --time-limit 60 --set held"
    assert report.command_text(header, ("output", "commit", "time-limit")) == "python x.py --set held"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """With one commit, of this hash."""
    monkeypatch.setattr(records, "ROOT", tmp_path)
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "--quiet"), (*author, "commit", "--quiet", "--allow-empty", "--message=a")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return records.output_of("git", "rev-parse", "HEAD")


def test_a_commit_of_a_checkout_is_recorded_by_its_hash(checkout):
    assert len(checkout) == 40
    for name in ("HEAD", checkout, checkout[:7]):
        assert records.commit_named(name) == checkout
    assert records.commit_named("0123456") == "0123456"  # a copy's history may begin later
    for name in ("merged", "--help"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"{name} is no commit here"):
            records.commit_named(name)


@pytest.fixture
def no_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def test_elsewhere_a_commit_is_its_hash(no_checkout):
    for name in ("3a1983d", "18208ca6902236897c3f5b2dbc8e1f18b204c7dc"):
        assert records.commit_named(name) == name


PROGRAMS = [fuzz, sanitize, ablation, bench_distributed, bench_topk, bench_varlen, host_time, papers]


@pytest.mark.parametrize("name", ["HEAD", "merged", "3a1983", "3a1983d-dirty", "1" * 41])
@pytest.mark.parametrize("program", [gpu_record, *PROGRAMS], ids=lambda program: program.__name__)
def test_elsewhere_anything_else_is_refused(no_checkout, program, name, capsys):
    command = ["run"] if program is gpu_record else []
    with pytest.raises(SystemExit) as exit_:
        program.main([*command, "--commit", name])
    assert exit_.value.code == 2
    assert f"argument --commit: {name} is no commit here, nor 7 to 40 hex digits" in capsys.readouterr().err
