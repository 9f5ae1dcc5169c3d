"""Costs of the plan, fitted or scaled: bench/fit_plan.py."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from bench import fit_plan
from tests.records import ROOT

HEADER = ROOT / "csrc" / "cuda" / "plan" / "costs_h200.h"
REQUESTS = [(1, 2**20, 64), (64, 2**15, 256), (1000, 10000, 100), (8, 2**17, 2048), (4096, 256, 8)]


@pytest.fixture
def samples():
    random = np.random.default_rng(0)
    work = np.exp(random.uniform(-2, 3, size=(40, len(fit_plan.TERMS))))
    of_sizes = random.uniform(0, 1, size=(40, fit_plan.BENDS))
    return work, of_sizes


COSTS = np.array([2.0, 0.3, 0.3, 0.2, 0.8, 0.2, 0.4, 0.1, *np.linspace(-0.2, 0.2, fit_plan.BENDS)])


def test_costs_are_those_that_the_header_has():
    text = HEADER.read_text()
    costs = fit_plan.costs_of(text)
    assert len(costs) == text.count('    {"') > 20
    first = re.search(r'\{"air\.one_block", 0,\n\s+\{\{([^{]*), \{([^}]*)\}\}', text)
    numbers = [float(n) for group in first.groups() for n in group.split(", ")]
    assert costs["air.one_block 0"][1].tolist() == numbers
    for of_widths in costs.values():
        assert sorted(of_widths) == [1, 2, 4, 8]


@pytest.mark.parametrize("parts", fit_plan.FACTORS)
def test_a_scale_finds_what_costs_more(samples, parts):
    dearer = COSTS.copy()
    dearer[parts] *= 1.5
    us = fit_plan.predicted(dearer, *samples)
    scaled = fit_plan.scale(COSTS, *samples, us, np.ones(len(us)))
    before, after = (np.abs(np.log(fit_plan.predicted(c, *samples) / us)).max() for c in (COSTS, scaled))
    assert after < 0.35 * before
    assert np.array_equal(scaled[len(fit_plan.PARTS) :], COSTS[len(fit_plan.PARTS) :])


def test_one_time_moves_a_scale_less_than_many(samples):
    us = 2 * fit_plan.predicted(COSTS, *samples)
    by_all = fit_plan.scale(COSTS, *samples, us, np.ones(len(us)))
    by_one = fit_plan.scale(COSTS, *(x[:1] for x in (*samples, us, np.ones(len(us)))))
    ratios = [(fit_plan.predicted(c, *samples) / us).mean() for c in (COSTS, by_one, by_all)]
    assert ratios[0] == pytest.approx(0.5)
    assert 0.5 < ratios[1] < ratios[2] - 0.05


def sweep_of(costs, times: float):
    """Records as of a GPU on which all takes so many times what the costs say."""
    yield {
        "kind": "header",
        "command": "sweep_plan.py",
        "commit": "0123456789abcdef",
        "date": "2026-01-02",
        "gpu": "Other",
        "driver": "1",
    }
    for number, (rows, cols, k) in enumerate(REQUESTS):
        for is_sorted in (True, False):
            sizes = {"rows": rows, "cols": cols, "k": k, "dtype": "float32", "sorted": is_sorted}
            point = {"kind": "plan", "point": number, "input": "normal", **sizes}
            points = fit_plan.Points([[{**point, "us": {}}]])
            [key] = points.forms
            forms = [form for form in points.forms[key] if form != fit_plan.ORDER]
            us = {form: times * fit_plan.estimate(costs, points, key, form) for form in forms}
            yield {**point, "us": {form: time for form, time in us.items() if np.isfinite(time)}}


def test_a_header_is_scaled_to_a_sweep(tmp_path, monkeypatch, capsys):
    text = HEADER.read_text()
    before = fit_plan.costs_of(text)
    sweep, output = tmp_path / "plan-other.jsonl", tmp_path / "costs_other.h"
    sweep.write_text("".join(json.dumps(record) + "\n" for record in sweep_of(before, 1.25)))
    command = ["fit_plan.py", "--scale", HEADER, "--bench", "--sweep", sweep, "--output", output]
    monkeypatch.setattr("sys.argv", list(map(str, command)))
    assert fit_plan.main() == 0
    assert "within 10 % of the best at 100.0%" in capsys.readouterr().out
    written = output.read_text()
    after = fit_plan.costs_of(written)
    assert after.keys() == before.keys()
    fixed = [after[name][4][0] / before[name][4][0] for name in ("bitonic.one_warp 0", "air.one_block 0")]
    assert all(1.02 < ratio < 1.3 for ratio in fixed)
    for name, of_widths in before.items():
        assert np.array_equal(after[name][2], of_widths[2])  # of a width that was not timed
    for line in text.splitlines():
        assert '"' in line or "{{" in line or "      {" in line or line in written
    assert "//   plan-other.jsonl, of commit 0123456789ab, 2026-01-02, Other, driver 1\n" in written


def cheaper(costs, name: str, factor: float):
    """The costs with all parts of one form in 4-byte dtypes times a factor."""
    own = costs[name][4].copy()
    own[: len(fit_plan.PARTS)] *= factor
    return {**costs, name: {**costs[name], 4: own}}


def test_costs_are_taken_where_the_choice_is_better():
    truth = fit_plan.costs_of(HEADER.read_text())
    points = fit_plan.Points([list(sweep_of(truth, 1.0))[1:]])
    [*_, (worst, _)] = sorted(fit_plan.regrets(points, [truth] * fit_plan.QUARTERS))
    assert worst == pytest.approx(1)
    # Of two forms that seem to take nothing, one is put right by the new costs, and one would go wrong.
    before = cheaper(truth, "grid_select.shared_list 0", 1e-3)
    anew = cheaper(truth, "air.many_blocks 0", 1e-3)
    assert max(fit_plan.regrets(points, [before] * fit_plan.QUARTERS))[0] > 1.5
    assert max(fit_plan.regrets(points, [anew] * fit_plan.QUARTERS))[0] > 1.5
    taken = fit_plan.where_better(points, before, anew)
    assert {name for name in truth if not fit_plan.same_costs(taken[name], before[name])} == {
        "grid_select.shared_list 0"
    }
    assert fit_plan.same_costs(taken["grid_select.shared_list 0"], truth["grid_select.shared_list 0"])


def test_no_costs_are_taken_that_slow_what_models_call_with():
    truth = fit_plan.costs_of(HEADER.read_text())
    before = cheaper(truth, "grid_select.shared_list 0", 1e-3)
    records = list(sweep_of(truth, 1.0))[1:]
    # There the form that seems to take nothing takes next to nothing.
    called = [{**r, "us": {**r["us"], "grid_select.shared_list": 0.1}} for r in records[:2]]
    taken = {}
    for weight in (1.0, fit_plan.CALLED):
        points = fit_plan.Points([called, records], [weight])
        taken[weight] = fit_plan.where_better(points, before, truth)["grid_select.shared_list 0"]
    assert fit_plan.same_costs(taken[1.0], truth["grid_select.shared_list 0"])
    assert fit_plan.same_costs(taken[fit_plan.CALLED], before["grid_select.shared_list 0"])


def test_what_is_not_better_stays_as_it_was(tmp_path, monkeypatch, capsys):
    sweep, output = tmp_path / "plan-other.jsonl", tmp_path / "costs_other.h"
    sweep.write_text(
        "".join(json.dumps(record) + "\n" for record in sweep_of(fit_plan.costs_of(HEADER.read_text()), 1.0))
    )
    output.write_text(HEADER.read_text())
    command = ["fit_plan.py", "--where-better", "--bench", "--sweep", sweep, "--output", output]
    monkeypatch.setattr("sys.argv", list(map(str, command)))
    assert fit_plan.main() == 0
    assert (
        "requests, by costs_other.h as it is: auto within 10 % of the best at 100.0%"
        in capsys.readouterr().out
    )
    assert fit_plan.rows_of(output.read_text()) == fit_plan.rows_of(HEADER.read_text())


def test_a_scale_is_of_all_forms(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fit_plan.py", "--scale", str(HEADER), "--forms", "air.one_block"])
    with pytest.raises(SystemExit):
        fit_plan.main()
    assert "--scale: of all forms, not of --forms" in capsys.readouterr().err
