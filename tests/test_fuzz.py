"""The fuzzer: its order is the oracle's, a fault is found, shrunk and printed, counts are recorded."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from tests import fuzz, gpu_record, inputs, oracle
from tests.cases import Case, number_near, shrink


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("largest", [True, False])
def test_the_order_is_the_oracles(dtype, largest, magnitude):
    for name in ("mixed_rows", "random_bits"):
        tensor = inputs.make(name, 60, 100, dtype, "cpu", 3)
        got = fuzz.best_first(tensor, largest, magnitude).numpy()
        np.testing.assert_array_equal(
            got, oracle.best_first(oracle.bits_of(tensor), dtype, largest, magnitude)
        )


def test_the_cpu_operator_passes():
    outcome = fuzz.fuzz("cpu", fuzz.Operators("cpu"), seed=1, minutes=0, most_cases=500)
    assert outcome.cases >= 500
    assert outcome.failed == 0


class Faulty(fuzz.Operators):
    """Wrong where rows are long and k is not small."""

    def wrong(self, case, tensor, order):
        if case.cols < 100 or case.k < 5:
            return torch.tensor(False)
        return torch.tensor(True)


def test_a_fault_is_found_shrunk_and_printed(capsys):
    outcome = fuzz.fuzz("cpu", Faulty("cpu"), seed=1, minutes=0, most_cases=10**6, most_failures=1)
    assert outcome.failed >= 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "python -m" in line)
    small = Case.parse(line.split('"')[1].split(":", 1)[1])
    assert (small.rows, small.cols, small.k) == (1, 100, 5)


def test_a_line_runs_again(capsys):
    assert fuzz.main(["cpu: float32 normal 3x50 k=4 seed=9 largest=0"]) == 0
    assert "passed" in capsys.readouterr().out


def test_shrinking_ends_at_what_still_fails():
    case = Case(torch.float32, "normal", 9, 500, 100, offset=3, gap=2)
    small = shrink(case, lambda c: c.cols >= 37 and c.k >= 3)
    assert (small.rows, small.cols, small.k, small.offset, small.gap) == (1, 37, 3, 0, 0)


def test_numbers_near_reach_all_kinds():
    drawn = {number_near(random.Random(i), 1000) for i in range(3000)}
    assert {1, 2, 999, 1000, 256, 511, 513} <= drawn
    assert min(drawn) >= 1 and max(drawn) <= 1000


def test_counts_and_seeds_are_recorded(tmp_path):
    file = tmp_path / "record.json"
    file.write_text(json.dumps({"passed": 3}))
    fuzz.record([fuzz.Outcome("cuda", seed=5, cases=10, rows=40)], file)
    known = json.loads(file.read_text())
    assert known["passed"] == 3
    for seed in (6, 7):
        fuzz.record([fuzz.Outcome("cuda-ragged", seed=seed)], file)
    known = json.loads(file.read_text())
    assert known["fuzz cuda"]["found"]["seed"] == 5 and known["fuzz cuda"]["found"]["cases"] == 10
    assert known["fuzz cuda-ragged"]["found"]["seed"] == 7
    assert known["fuzz cuda"]["source_hash"] == gpu_record.source_hash()
