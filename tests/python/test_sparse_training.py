"""examples/sparse_training.py, run small: real training with sparse gradients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_digits_are_learned_with_a_fiftieth_of_the_bytes():
    command = [
        sys.executable,
        "examples/sparse_training.py",
        "--device",
        "cpu",
        "--steps",
        "150",
        "--ratios",
        "0.02",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["model"], row["gradients"]) for row in rows] == [
        ("conv", "dense"), ("conv", "2.00%"), ("transformer", "dense"), ("transformer", "2.00%"),
    ]  # fmt: skip
    for dense, sparse in zip(rows[::2], rows[1::2], strict=True):
        assert dense["equal_on_all_ranks"] and sparse["equal_on_all_ranks"]
        # Warm-up included.
        assert sparse["bytes_a_step"] < dense["bytes_a_step"] / 5
        assert sparse["accuracy"] > 0.85 and sparse["accuracy"] > dense["accuracy"] - 0.08
