"""The bench of ragged rows: its points, what it compares, and that a wrong answer is a failure."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

from bench import bench_varlen, points
from bench.bench_varlen import OURS, Point
from torch_topk import topk_varlen


@pytest.mark.parametrize("name", bench_varlen.SETS)
def test_points_have_windows_to_compare_with_as_many_dense_elements(name):
    listed = bench_varlen.SETS[name]
    assert len({*listed}) == len(listed) >= 3
    for point in listed:
        lengths = bench_varlen.lengths_of(point)
        assert lengths.shape == (point.rows,) and lengths.min() >= 1 and lengths.max() <= point.cols
        # Else there is no dense topk of that k to hold the goal against.
        assert point.k <= lengths.sum() // point.rows


@pytest.mark.parametrize("pattern", ["full", "uniform", "one_full", "decode"])
def test_the_dense_tensor_has_the_windows_elements(pattern):
    point = Point(7, 800, 4, pattern, promise=True)
    data = bench_varlen.data_of(point, torch.device("cpu"))
    elements, dense = int(data.lengths.sum()), data.dense_of(data.scores)
    assert data.window_elements == elements and data.max_length == data.lengths.max()
    assert dense.is_contiguous() and dense.shape[0] == 7
    assert elements <= dense.numel() < elements + 7 * bench_varlen.ALIGNED
    names = [contender.name for contender in bench_varlen.contenders_of(point, data)]
    assert names == ["floor", OURS, bench_varlen.TORCH, bench_varlen.DENSE]


def changed(found, name):
    """The result, wrong in one thing."""
    values, indices, counts = (None if tensor is None else tensor.clone() for tensor in found)
    if name == "a column of no window":
        indices[2, 0] = 99
    elif name == "a winner twice":
        indices[1, 0] = indices[1, 1]
    elif name == "a pad":
        indices[0, -1] = 0
    elif name == "a count":
        counts[0] += 1
    elif name == "a value":
        values[1, 0] += 1
    elif name == "a pad's value":
        values[0, -1] = 0
    elif name == "two winners' places":
        values[1], indices[1] = values[1].flip(0), indices[1].flip(0)
    return values, indices, counts


MISTAKES = ["a column of no window", "a winner twice", "a pad", "a count", "a value", "a pad's value"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("order", ["value", "any"])
def test_a_mistake_is_found_by_the_sort_alone(order, dtype):
    point = Point(3, 100, 8, "full", order, dtype)
    scores = torch.randn((3, 100), dtype=getattr(torch, dtype), generator=torch.Generator().manual_seed(4))
    data = bench_varlen.Data(scores, torch.tensor([5, 90, 60], dtype=torch.int32), 155, 56, None)
    found = topk_varlen(scores, 8, lengths=data.lengths, order=order)
    assert bench_varlen.problem_by_sorting(found, point, data) is None
    mistakes = [*MISTAKES, "two winners' places"]
    problems = {
        name: bench_varlen.problem_by_sorting(type(found)(*changed(found, name)), point, data)
        for name in mistakes
    }
    harmless = {"two winners' places"} if order == "any" else set()
    assert {name for name, problem in problems.items() if problem is None} == harmless


def test_rows_are_sorted_in_parts(monkeypatch):
    point = Point(5, 64, 6, "uniform")
    data = bench_varlen.data_of(point, torch.device("cpu"))
    whole = bench_varlen.best_by_sorting(data, 6)
    monkeypatch.setattr(bench_varlen, "SORTED_ELEMENTS", 2 * 64)
    assert torch.equal(bench_varlen.best_by_sorting(data, 6), whole)


def run(monkeypatch, tmp_path, *arguments):
    # Times are not looked at.
    bench = dataclasses.replace(bench_varlen.BENCH, seconds={"cpu": 0.0})
    output = tmp_path / "varlen.jsonl"
    status = points.main(bench, ["--device", "cpu", "--set", "quick", "--output", str(output), *arguments])
    return status, [json.loads(line) for line in output.read_text().splitlines()]


def test_a_run_writes_what_it_timed_and_checked(tmp_path, capsys, monkeypatch):
    status, (header, *records, summary) = run(monkeypatch, tmp_path, "--plot")
    assert status == 0 and header["set"] == "varlen-quick" and summary["failed"] == []
    assert [record["rows"] for record in records] == [point.rows for point in bench_varlen.QUICK]
    for record, point in zip(records, bench_varlen.QUICK, strict=True):
        times = {contender["name"]: contender["us"] for contender in record["contenders"]}
        ours = points.contender_of(record, OURS)
        assert ours["verified"] and ours["problem"] is None
        assert math.isclose(record["x_dense"], times[OURS] / times["dense"], rel_tol=0.01)
        assert (record["x_row"] is not None) == (point.rows == 64)
        assert (record["max_length"] is not None) == point.promise
    printed = capsys.readouterr().out
    assert "topk of as many elements: held at" in printed and "of the full row alone: held at" in printed
    assert (tmp_path / "varlen-varlen.png").read_bytes()[1:4] == b"PNG"


def test_a_wrong_result_ends_in_exit_status_1(tmp_path, capsys, monkeypatch):
    def wrong(*arguments, **options):
        found = topk_varlen(*arguments, **options)
        found.indices[1, 0] = found.indices[1, 1]
        return found

    monkeypatch.setattr(bench_varlen, "topk_varlen", wrong)
    status, (*_, summary) = run(monkeypatch, tmp_path)
    assert status == 1 and len(summary["failed"]) == len(bench_varlen.QUICK)
    assert "FAILED: 64 x 1024 k 8 one_full value float32: wrong: not the columns" in capsys.readouterr().out


def test_a_lost_device_and_too_little_memory_are_sentences(tmp_path, capsys, monkeypatch):
    def fail(error):
        def measure(*_):
            raise error

        monkeypatch.setattr(bench_varlen.timing, "measure", measure)
        status, (*_, summary) = run(monkeypatch, tmp_path)
        return status, summary, capsys.readouterr().out

    status, summary, printed = fail(torch.OutOfMemoryError("CUDA out of memory."))
    assert (
        status == 0
        and summary["not_run"] == 3
        and "too large: 64 x 1024 k 8 one_full value float32: CUDA out" in printed
    )
    status, summary, printed = fail(RuntimeError("dense lost the device"))
    assert status == 1 and "FAILED: 64 x 1024 k 8 one_full value float32: dense lost the device" in printed
    assert len(summary["failed"]) == 1
