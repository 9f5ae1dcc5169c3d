"""examples/ann_rerank.py, on fewer patches: FAISS's candidates reranked as FAISS's own refinement does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from examples import ann_rerank

EXAMPLE = Path(ann_rerank.__file__)


def test_the_example_agrees_with_faiss():
    pytest.importorskip("faiss")
    # One thread: FAISS's OpenBLAS spins at its barriers where other processes have the cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(EXAMPLE.parents[1]), os.environ.get("PYTHONPATH", "")])
    arguments = ["--stride", "7", "--queries", "60", "--candidates", "100"]
    done = subprocess.run(
        [sys.executable, EXAMPLE, *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": yes") == 4 and ": NO" not in done.stdout
    found = re.search(r"recall@10: ([0-9.]+) as IVF-PQ orders them, ([0-9.]+) reranked", done.stdout)
    before, after = map(float, found.groups())
    assert after > before + 0.1 and after > 0.9


def test_other_neighbours_are_noticed():
    data = ann_rerank.patches(9, 20)
    ours = ann_rerank.torch_topk.knn(data.queries, data.vectors, 5)
    found = ann_rerank.Found(*ours)
    assert ann_rerank.same_neighbours(found, ann_rerank.Found(*ours))
    swapped = ours.ids.clone()
    swapped[3, [0, 1]] = swapped[3, [1, 0]]
    moved = ours.distances.clone()
    moved[4, 2] += 1
    assert not ann_rerank.same_neighbours(found, ann_rerank.Found(ours.distances, swapped))
    assert not ann_rerank.same_neighbours(found, ann_rerank.Found(moved, ours.ids))
