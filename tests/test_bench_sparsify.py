"""The bench of sparsify_: what it runs and writes, and that a wrong step is a failure."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from bench import bench_sparsify, points, report
from bench.bench_sparsify import ADD, OURS, TORCH, Point
from torch_topk import sparsify_


def run(tmp_path):
    # Times are not looked at.
    bench = dataclasses.replace(bench_sparsify.BENCH, seconds={"cpu": 0.0})
    output = tmp_path / "sparsify.jsonl"
    status = points.main(bench, ["--device", "cpu", "--set", "quick", "--output", str(output)])
    return status, report.read(output)


def test_a_run_writes_what_it_timed_and_checked(tmp_path, capsys):
    status, (header, *records, summary) = run(tmp_path)
    assert status == 0 and header["set"] == "sparsify-quick" and summary["failed"] == []
    assert header["floor"] == "torch.amax of the bytes as integers"
    for record, point in zip(records, bench_sparsify.QUICK, strict=True):
        times = {contender["name"]: contender["us"] for contender in record["contenders"]}
        assert set(times) == {"floor", OURS, ADD, TORCH} and record["k"] == point.k
        assert points.contender_of(record, OURS)["verified"]
        assert math.isclose(record["x_add"], times[OURS] / times[ADD], rel_tol=0.01, abs_tol=1e-4)
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[:4] == ["1e4", "float32", "1", "%"]
    assert bench_sparsify.main(["--report", str(tmp_path / "sparsify.jsonl")]) == 0
    reported = capsys.readouterr().out
    assert "at most 1.3 x self.add_(add): held at" in reported and printed.startswith(reported)


def test_goals_are_of_every_size_and_dtype():
    for listed in bench_sparsify.SETS.values():
        assert len(set(listed)) == len(listed) and all(1 <= point.k <= point.elements for point in listed)
    assert {point.elements for point in bench_sparsify.SETS["goals"]} == {10**n for n in range(5, 10)}
    assert {point.dtype for point in bench_sparsify.SETS["goals"]} == set(bench_sparsify.DTYPES)


def mistaken(name):
    def call(residual, k, add):
        before = residual.clone()
        values, indices = sparsify_(residual, k, add=add)
        if name == "nothing accumulated":
            residual.copy_(before)
        elif name == "a winner kept":
            residual[indices[0]] = values[0]
        elif name == "another winner":
            indices[-1] = residual.abs().argmax()
            values[-1] = residual[indices[-1]]
        return values, indices

    return call


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing accumulated", "what is left is not the sum with zeros"),
        ("a winner kept", "what is left is not the sum with zeros"),
        ("another winner", "not in order of index|beyond the worst winner"),
        ("nothing", None),
    ],
)
def test_a_wrong_step_is_found(name, words, monkeypatch):
    monkeypatch.setattr(bench_sparsify, "sparsify_", mistaken(name))
    point = Point(5000, 0.01)
    problem = bench_sparsify.problem_of(point, bench_sparsify.data_of(point, torch.device("cpu")))
    assert (problem is None) == (words is None)
    if words is not None:
        with pytest.raises(RuntimeError, match=words):
            raise RuntimeError(problem)


def test_a_wrong_result_ends_in_exit_status_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_sparsify, "sparsify_", mistaken("a winner kept"))
    status, (*_, summary) = run(tmp_path)
    assert status == 1 and len(summary["failed"]) == len(bench_sparsify.QUICK)
    assert "FAILED: 10000 float32, 1 %: wrong: what is left" in capsys.readouterr().out
