"""What the benches share: how a run goes and is stopped, and how contenders are compared and judged."""

from __future__ import annotations

import pytest
import torch

from bench import points, runs
from bench.contenders import print_reasons
from bench.runs import Run
from bench.timing import Timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    return now


def test_no_point_is_begun_after_the_time_limit(clock):
    run, seen = Run(), []
    for point in run.through([3, 1, 2], "point {}".format, limit_s=5.0):
        seen.append((point, run.at))
        clock[0] += 2.6
    assert seen == [(3, "point 3"), (1, "point 1")]
    assert run.stopped_by == "the time limit of 5 s" and not run.broken


def test_without_a_limit_all_points_are_run(clock):
    run = Run()
    for _ in run.through([1, 2], str, limit_s=None):
        clock[0] += 1e9
    assert run.at == "2" and run.stopped_by is None


@pytest.mark.parametrize(
    ("error", "words", "broken"),
    [
        (KeyboardInterrupt(), "the keyboard", False),
        (RuntimeError("lost\nthe device"), "an error at b: lost", True),
    ],
)
def test_what_stops_a_run_is_noted_and_its_records_stay(error, words, broken):
    run = Run()
    with run.kept():
        for point in run.through("abc", str, None):
            if point == "b":
                raise error
            run.records.append({"point": point})
    assert run.records == [{"point": "a"}] and (run.stopped_by, run.broken) == (words, broken)


def test_a_mistake_of_the_bench_itself_is_not_kept():
    with pytest.raises(KeyError), Run().kept():
        raise KeyError("no such name")


def timing_of(us):
    return Timing(us=us, samples_us=[us]) if us is not None else Timing(reason="not served")


def test_the_fastest_of_torch_is_chosen_among_those_that_were_served():
    calls = points.torch_contenders({"fill": torch.neg, "sort": torch.neg, "pack": torch.neg})
    times = dict(zip((c.name for c in calls), map(timing_of, (5.0, None, 3.0)), strict=True))
    assert points.best_of_torch({"ours": timing_of(1.0), **times}) == ("torch:pack", 3.0)
    assert points.best_of_torch({"ours": timing_of(1.0), "torch:sort": timing_of(None)}) == (None, None)


def test_ratios_are_of_those_that_were_timed():
    assert points.ratio_of(timing_of(3.0), timing_of(7.0)) == 0.4286
    assert points.ratio_of(None, timing_of(7.0)) is points.ratio_of(timing_of(3.0), timing_of(None)) is None


def test_ours_alone_is_judged_and_where_it_was_served(capsys):
    timings = {"floor": timing_of(1.0), "ours": timing_of(2.0), "torch:sort": timing_of(8.0)}
    floor, ours, torchs = points.records_of(timings, "ours", 8.0, lambda t: f"{t.us} is wrong")
    assert (ours["x_floor"], ours["x_torch"]) == (2.0, 4.0)
    assert (ours["verified"], ours["problem"]) == (False, "2.0 is wrong")
    assert "verified" not in floor and "verified" not in torchs
    timings["ours"] = timing_of(None)
    records = points.records_of(timings, "ours", 8.0, lambda t: pytest.fail("checked"))
    assert points.failure_of({"contenders": records}, "ours") == "not served: not served"
    print_reasons([{"contenders": records}])
    assert "no time for ours at 1 of 1 points: not served" in capsys.readouterr().out
