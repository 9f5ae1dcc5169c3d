"""The bench over ranks: what it runs and writes, that a wrong answer is found, and that a part may fail."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from bench import bench_distributed, distributed_parts, exact, message_model, report
from bench.message_model import Constants, Request
from bench.ranks import Ranks
from tests.python import gloo
from torch_topk import distributed, topk

ROOT = Path(__file__).parents[1]


# ---- Winners are right by counting ----


def winners_of_part(row, k, begin, end, **options):
    """Of the k best of a row those that lie in a part, and the part."""
    values, indices = topk(row, k, **options)
    mine = (indices >= begin) & (indices < end)
    return row[begin:end], values[mine], indices[mine]


@pytest.mark.parametrize("options", [{}, {"magnitude": True, "order": "index"}])
def test_right_winners_are_right_whatever_their_ties(options, monkeypatch):
    monkeypatch.setattr(exact, "PART", 70)
    generator = torch.Generator().manual_seed(3)
    row = torch.randint(-9, 9, (500,), generator=generator).float()
    for k in (1, 37, 400, 500):
        part = winners_of_part(row, k, 0, 500, **options)
        assert exact.problem_of(*part, k, **options) is None


def wrong(name, row, values, indices):
    values, indices = values.clone(), indices.clone()
    if name == "value":
        values[3] += 1
    elif name == "outside":
        indices[3] = 500
    elif name == "twice":
        values[3], indices[3] = values[2], indices[2]
    elif name == "order":
        values, indices = values.flip(0), indices.flip(0)
    elif name == "fewer":
        values, indices = values[:-1], indices[:-1]
    elif name == "a later tie":
        later = (row == values[-1]).nonzero().flatten()
        indices[-1] = later[later > indices[-1]][0]
    elif name == "a worse one":
        rest = torch.ones(500, dtype=torch.bool).index_fill(0, indices, False)
        worse = (rest & (row < values[-1])).nonzero().flatten()[0]
        values[-1], indices[-1] = row[worse], worse
    return values, indices


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("value", "values are not those of the indices"),
        ("outside", r"an index is not in \[0, 500\)"),
        ("twice", "not in order of value, or an index twice"),
        ("order", "not in order of value"),
        ("fewer", "29 winners, not 30"),
        ("a later tie", r"elements equal to the worst winner come first"),
        ("a worse one", r"elements are beyond the worst winner"),
    ],
)
def test_every_mistake_is_found(name, words):
    row = torch.randint(-9, 9, (500,), generator=torch.Generator().manual_seed(4)).float()
    values, indices = wrong(name, row, *topk(row, 30))
    with pytest.raises(AssertionError, match=words):
        problem = exact.problem_of(row, values, indices, 30)
        assert problem is None, problem


# ---- Over ranks ----


def other_results(rank, gather, name):
    """problem_of where distributed.topk is right, and where it errs on the last rank, or on all."""
    ranks, right = Ranks(torch.device("cpu")), distributed.topk

    def mistaken(*arguments, **options):
        values, indices, counts = (one.clone() for one in right(*arguments, **options))
        is_last = ranks.rank == ranks.count - 1
        if name == "order" and is_last:
            values[-1], values[-2] = values[-2].clone(), values[-1].clone()
        elif name == "another index" and is_last:
            indices[-1] -= 1
        elif name == "fewer":
            values, indices, counts = values[:-1], indices[:-1], counts - 1
        elif name == "not the root's" and is_last:
            values = values.new_zeros(1)
        return distributed.ShardedTopK(values, indices, counts)

    local = ranks.randn(1000)
    before = distributed_parts.problem_of(ranks, local, 64, gather)
    distributed.topk = mistaken
    return before, distributed_parts.problem_of(ranks, local, 64, gather)


@pytest.mark.parametrize(
    ("gather", "name", "words"),
    [
        ("all", "order", "rank 1: not best first, or an index twice"),
        ("all", "another index", "rank 1: not what rank 0 has"),
        ("none", "fewer", "rank 0: 62 winners, not 64"),
        ("root", "not the root's", "rank 1: a result on a rank that is not the root"),
    ],
)
def test_one_ranks_mistake_is_told_to_all(gather, name, words):
    for before, after in gloo.run(2, other_results, gather, name):
        assert before is None and after == words


def test_a_run_measures_every_part_and_checks_it(tmp_path, capsys):
    output = tmp_path / "distributed.jsonl"
    status = bench_distributed.main(["--backend", "gloo", "--set", "quick", "--output", str(output)])
    header, *records, summary = report.read(output)
    assert status == 0 and summary["failed"] == []
    assert header["set"] == "distributed-quick" and header["ranks"] == 2 and header["backend"] == "gloo"
    assert [r["part"] for r in records if r["kind"] == "part"] == list(distributed_parts.PARTS)
    sizes = distributed_parts.SIZES["quick"]
    timed = {kind: [r for r in records if r["kind"] == kind] for kind in distributed_parts.PARTS}
    assert [(r["k"], r["gather"]) for r in timed["topk"]] == [
        (k, gather) for k in sizes.ks for gather in ("all", "root", "none")
    ]
    for r in timed["topk"]:
        assert r["elements"] == r["wanted_elements"] == 2 * sizes.local_elements
        assert math.isclose(r["x_local"], r["us"] / r["local_us"])
    assert len(timed["roads"]) == 2 * len(sizes.roads) and len(timed["scaling"]) == 2 * len(sizes.ks)
    assert [r["dtype"] for r in timed["sparse"]] == ["float32", "bfloat16"]
    assert [r["source"] for r in timed["stream"]] == ["pageable", "file", "device"]
    for kind in ("topk", "roads", "sparse", "stream"):
        assert all(r["verified"] for r in timed[kind])
    printed = capsys.readouterr().out
    assert all(title in printed for title in bench_distributed.TABLES)
    assert bench_distributed.main(["--report", str(output)]) == 0
    again = capsys.readouterr().out
    assert all(title in again for title in bench_distributed.TABLES) and "| gather | lists |" in again


@pytest.mark.parametrize("ranks", [1, 3])
def test_it_runs_on_any_number_of_ranks(ranks, tmp_path):
    arguments = ["--backend", "gloo", "--set", "quick", "--ranks", str(ranks), "--parts", "model", "topk"]
    output = tmp_path / "distributed.jsonl"
    assert bench_distributed.main([*arguments, "sparse", "--output", str(output)]) == 0
    records = report.read(output)
    assert sum(record.get("verified", False) for record in records) == 9 + 2


def fail_in_roads(rank, count, backend, folder, set_name, parts, output):
    """Instead of a process of the bench."""
    for part in parts:
        if part == "roads":
            raise RuntimeError("no memory")
        if rank == 0:
            out = report.JsonLines(output, append=True)
            out.write({"kind": "part", "part": part, "seconds": 1.0})
            out.close()


def test_a_part_that_fails_is_told_and_the_others_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_distributed, "run_parts", fail_in_roads)
    output = tmp_path / "distributed.jsonl"
    parts = ["model", "roads", "sparse"]
    arguments = ["--backend", "gloo", "--set", "quick", "--ranks", "1", "--output", str(output)]
    assert bench_distributed.main([*arguments, "--parts", *parts]) == 1
    _, *records, summary = report.read(output)
    assert [r["part"] for r in records] == ["model", "sparse"]
    assert summary["failed"] == ["roads: RuntimeError: no memory"]
    assert "FAILED: roads: RuntimeError: no memory" in capsys.readouterr().out


def test_the_switch_is_drawn_from_both_ways_times():
    times = ((2.0, 10.0, 30.0), (4.0, 20.0, 19.0), (8.0, 40.0, 41.0), (16.0, 80.0, 50.0))
    records = [
        {"kind": "roads", "gather": "all", "gathered_per_counted": per, "gathered_us": g, "narrowed_us": n}
        for per, g, n in times
    ]
    assert bench_distributed.switch_sentences(records) == [
        "gather all: narrowed is faster from 4.00 times the counts' bytes on, slower up to 8.00 times"
    ]


def test_a_wrong_record_is_a_failure():
    record = {"kind": "topk", "k": 5, "gather": "all", "verified": False, "problem": "29 winners, not 30"}
    right = {**record, "verified": True}
    assert bench_distributed.failures_of([record, right, {"kind": "model"}]) == [
        "topk [5, 'all']: 29 winners, not 30"
    ]


def test_more_gpus_than_there_are_is_a_sentence(capsys):
    with pytest.raises(SystemExit) as exit_:
        bench_distributed.main(["--backend", "nccl", "--ranks", "4096"])
    assert exit_.value.code == 2 and "error: --backend nccl: " in capsys.readouterr().err


# ---- The model ----


def bytes_text(number):
    """As in the table of docs/distributed.md."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return number / unit, name
    return number, "B"


def test_the_tables_of_bytes_are_the_models():
    text = (ROOT / "docs" / "distributed.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and " kB |" in line]
    assert len(rows) == len(message_model.RANKS) - 1
    for row, ranks in zip(rows, message_model.RANKS[1:], strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[0] == str(ranks)
        for i, k in enumerate((2048, 2**20, 2**26)):
            request = Request(ranks, k, 2**32)
            for cell, narrows in zip(cells[1 + 2 * i : 3 + 2 * i], (False, True), strict=True):
                number, unit = cell.split()
                sent, wanted = bytes_text(sum(request.messages(narrows)))
                assert unit == wanted and math.isclose(sent, float(number), rel_tol=0.035), (cell, sent)


def test_the_model_adds_up():
    constants = Constants(10.0, 1000.0, 50.0, {100: 7.0, 10_000: 20.0})
    request = Request(4, 100, 2**20)
    # Gathered: one message of three other lists, and a merge of 400 entries.
    want = 1000.0 + 50 + 10 * 2 + 3 * 100 * 12 / 1000 + constants.merge(400)
    assert not request.narrows
    assert math.isclose(message_model.predicted_us(request, 1000.0, constants), want)
    assert constants.merge(0) == 0 and constants.merge(150) == 10.5 and constants.merge(20_000) == 40
    # Sharded output: no winners are sent, and none merged.
    sharded = Request(4, 2**24, 2**24, gather="none")
    assert sharded.narrows and len(sharded.messages(True)) == 4 and sharded.merged_entries(True) == 0


def test_the_code_takes_the_way_that_the_model_takes():
    for way in gloo.run(2, ways):
        assert way == [Request(2, k, 2**16, device="cpu").narrows for k in KS]


KS = (64, 2**14, 2**15)


def ways(rank):
    seen = []
    narrowed, distributed._own_winners = distributed._own_winners, lambda *a: seen.append(1) or narrowed(*a)
    found = []
    for k in KS:
        seen.clear()
        distributed.topk(torch.randn(2**16), k)
        found.append(bool(seen))
    return found


def test_records_are_json(tmp_path):
    out = report.JsonLines(tmp_path / "one.jsonl")
    out.write({"kind": "model", "merge_us": {64: 1.5}})
    out.close()
    (record,) = map(json.loads, (tmp_path / "one.jsonl").read_text().splitlines())
    more = {"latency_us": 1.0, "bytes_per_us": 1.0, "agreement_us": 1.0}
    assert Constants.of({**record, **more}).merge_us == {64: 1.5}
