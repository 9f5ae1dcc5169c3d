"""``gputopk``: another name of ``torch_topk``, with its modules."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import torch_topk

ROOT = Path(torch_topk.__file__).parents[1]
# The demo is a program, and loaded by whoever runs it.
PUBLIC = [m.name for m in pkgutil.iter_modules(torch_topk.__path__) if m.name[0] != "_" and m.name != "demo"]


def test_these_are_its_modules():
    assert {"distributed", "knn", "merge", "ops", "sampling", "streaming", "varlen"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_module_is_the_same_by_both_names(name):
    ours, theirs = (importlib.import_module(f"{package}.{name}") for package in ("gputopk", "torch_topk"))
    assert ours is theirs
    assert getattr(importlib.import_module("gputopk"), name) is getattr(torch_topk, name)


def test_modules_are_there_in_a_process_that_imports_nothing_else():
    words = "; ".join(f"import gputopk.{name}" for name in PUBLIC)
    check = "from gputopk.knn import knn; assert knn is gputopk.knn and callable(gputopk.distributed.topk)"
    subprocess.run([sys.executable, "-c", f"{words}; {check}"], cwd=ROOT, check=True)
