"""What the programs say to a request that this machine cannot serve: a sentence and an exit status."""

from __future__ import annotations

import json

import pytest

from bench import (
    bench_rerank,
    bench_selection,
    bench_sparsify,
    bench_topk,
    bench_varlen,
    bench_where,
    host_time,
    papers,
)
from torch_topk import demo
from torch_topk._libraries import why_no_cuda


@pytest.mark.skipif(why_no_cuda() is None, reason="CUDA is here")
@pytest.mark.parametrize(
    "program",
    [
        bench_topk,
        bench_rerank,
        bench_where,
        bench_varlen,
        bench_selection,
        bench_sparsify,
        demo,
        host_time,
        papers,
    ],
    ids=lambda program: program.__name__,
)
def test_cuda_where_there_is_none_is_a_sentence(program, capsys):
    with pytest.raises(SystemExit) as exit_:
        program.main(["--device", "cuda"])
    assert exit_.value.code == 2
    assert f"error: --device cuda: {why_no_cuda()}" in capsys.readouterr().err


def test_host_times_are_written_for_every_call(tmp_path, capsys):
    output = tmp_path / "host.jsonl"
    assert host_time.main(["--turns", "2", "--output", str(output)]) == 0
    header, *records = map(json.loads, output.read_text().splitlines())
    assert header["set"] == "host" and len(records) == 8
    assert all(record[f"{name}_us"] > 0 for record in records for name in host_time.NAMES)
    assert str(output) in capsys.readouterr().out


def test_more_than_cols_is_nothing_to_time(tmp_path, capsys):
    output = tmp_path / "results.jsonl"
    arguments = ["--cols", "100", "--k", "101", "200", "--device", "cpu", "--output", str(output)]
    assert bench_topk.main(arguments) == 1
    assert "k = 101 is more than cols = 100" in capsys.readouterr().out
    assert not output.exists()
