"""The bench of kth_value and masks: its points, its check, and that a wrong answer is a failure."""

from __future__ import annotations

import json

import pytest
import torch

import torch_topk
from bench import bench_selection
from bench.bench_selection import OPS, OURS, Point


def test_points_are_calls_that_there_are():
    for points in bench_selection.SETS.values():
        assert len({*points}) == len(points)
        for point in points:
            assert point.op in OPS and 1 <= point.k < point.cols and hasattr(torch_topk, point.op)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("k", [1, 9, 70])
def test_a_wrong_answer_is_a_problem(op, k):
    point = Point(op, 3, 300, k)
    x = torch.randint(0, 40, (3, 300)).float()
    outputs = bench_selection.our_call(point)(x)
    assert bench_selection.problem_of(outputs, x, point) is None
    for number in range(len(outputs)):
        changed = [one.clone() for one in outputs]
        at = (1, 0) if op == "kth_value" else (1, 77)
        changed[number][at] = changed[number][at] == 0
        assert "row 1" in bench_selection.problem_of(changed, x, point)
    distinct = torch.randperm(900).view(3, 300).float()  # without equals all formulations agree
    ours = bench_selection.our_call(point)(distinct)
    for call in bench_selection.torch_calls(point).values():
        got = call(distinct)[0]
        if op == "kth_value":  # of whole lists, or alone
            got = got[:, min(k, got.shape[1]) - 1, None]
        assert torch.equal(got, ours[0])


def test_a_run_is_a_record_and_a_table(tmp_path, monkeypatch, capsys):
    points = [Point(op, 4, 600, 5, goal=1.1) for op in OPS]
    monkeypatch.setitem(bench_selection.SETS, "goals", points)
    output = tmp_path / "selection.jsonl"
    assert bench_selection.main(["--device", "cpu", "--set", "goals", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert all(op in printed for op in OPS)
    header, *records, summary = map(json.loads, output.read_text().splitlines())
    assert header["set"] == "selection-goals" and summary["failed"] == []
    for record, point in zip(records, points, strict=True):
        ours = next(one for one in record["contenders"] if one["name"] == OURS)
        assert record["op"] == point.op and ours["verified"] and ours["x_floor"] > 0
        assert (record["x_written"] is None) == (point.op == "kth_value")
