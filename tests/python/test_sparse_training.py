"""examples/sparse_training.py, run small: real training with sparse gradients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_digits_are_learned_with_a_tenth_of_the_bytes():
    command = [
        sys.executable,
        "examples/sparse_training.py",
        "--device",
        "cpu",
        "--steps",
        "300",
        "--ratios",
        "0.02",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["model"], row["gradients"]) for row in rows] == [
        ("conv", "dense"), ("conv", "2.00%"), ("transformer", "dense"), ("transformer", "2.00%"),
    ]  # fmt: skip
    for dense, sparse in zip(rows[::2], rows[1::2], strict=True):
        assert dense["equal_on_all_ranks"] and sparse["equal_on_all_ranks"]
        # Dense first steps and warm-up included.
        assert sparse["bytes_a_step"] < dense["bytes_a_step"] / 10
        assert sparse["accuracy"] > 0.9 and sparse["accuracy"] > dense["accuracy"] - 0.03
