"""The examples run, small, and check themselves."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recipes_of_ragged_rows_run_one_after_the_other():
    page = (FOLDER.parent / "docs" / "varlen.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["tokens"].shape == (4, 1)
    assert 499_000 < names["pruned"].count_nonzero() <= 500_000


def test_the_calls_of_rerank_run_and_shards_agree_with_the_whole():
    page = (FOLDER.parent / "docs" / "rerank.md").read_text()
    first, shards = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)
    assert names["distances"].shape == (8, 10) and names["documents"].max() < 2500
    exec(shards, names)
    want = names["rerank"](names["queries"], names["vectors"], names["candidate_ids"], 10, unique=True)
    merged = names["merge_topk"](
        [p.distances for p in names["parts"]], [p.ids for p in names["parts"]], 10, largest=False, unique=True
    )
    assert torch.equal(names["distances"][:, 0], want.distances[:, 0])
    assert torch.equal(merged.ids[:, 0], want.ids[:, 0])


DEVICES = pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@DEVICES
def test_decoding_samples_from_what_is_allowed(where, capsys):
    decode = load("decode")
    tokens = decode.main(["--vocabulary", "2000", "--requests", "6", "--tokens", "3", "--device", where])
    assert tokens.shape == (6, 4) and (tokens < 2000).all()
    assert "request 0: 50 tokens" in capsys.readouterr().out
    # Numbers of requests that leave one token leave the best.
    scores = torch.randn(3, 500, device=where)
    one = torch.ones(3, device=where)
    warper = decode.Warper(one, one.int(), one, 0 * one)
    assert torch.equal(warper(None, scores).argmax(-1), scores.argmax(-1))
    assert (warper(None, scores).isfinite().sum(-1) == 1).all()


@DEVICES
def test_sparse_attention_is_dense_attention_over_the_same_keys(where, capsys):
    sparse_attention = load("sparse_attention")
    for context, keys in (("1000", "128"), ("300", "512")):
        assert sparse_attention.main(["--context", context, "--keys", keys, "--device", where]) < 1e-4
    assert "1000 keys, attended to 128" in capsys.readouterr().out


@DEVICES
def test_the_router_is_the_dense_layer(where):
    sizes = ["--tokens", "60", "--experts", "8", "--per-token", "3", "--balancing", "2"]
    assert load("moe").main([*sizes, "--device", where]) < 1e-4


@DEVICES
def test_beams_are_those_of_the_best_sequences(where):
    sizes = ["--beams", "3", "--vocabulary", "300", "--steps", "4"]
    assert load("beam_search").main([*sizes, "--device", where]).shape == (2, 3, 4)
