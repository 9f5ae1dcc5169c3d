"""What the benches say without a clock: their points, and the arithmetic of the studies of delegate."""

from __future__ import annotations

import math

import pytest
import torch

import torch_topk
from bench import bench_topk, delegate_steps, shapes, studies
from tests import delegate_model, inputs


@pytest.mark.parametrize("name", shapes.SETS)
def test_the_points_of_a_set_can_be_asked_for(name):
    points = shapes.point_set(name)
    assert points
    for point in points:
        assert 1 <= point.k <= point.cols and point.rows >= 1
        assert inputs.applies(point.input, getattr(torch, point.dtype))
        assert {*point.algorithms} <= {*torch_topk.Algorithm.__members__}
        if point.goal is not None:
            assert point.goal.algorithm in point.algorithms
            assert (point.goal.x_floor is None) != (point.goal.x_torch is None)


@pytest.mark.parametrize("name", ["grid_select", "delegate"])
def test_an_algorithm_can_serve_the_points_that_it_has_goals_at(name):
    points = shapes.point_set(name)
    assert sum(point.goal is not None for point in points) >= 8
    for point in points:
        tensor = torch.empty((point.rows, point.cols), dtype=getattr(torch, point.dtype), device="meta")
        algorithm = int(torch_topk.Algorithm[name])
        assert torch.ops.gputopk._plan(tensor, point.k, sorted=False, algorithm=algorithm).startswith(name)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("order", [True, False])
def test_calls_are_written_without_what_has_its_defaults_value(largest, order):
    point = shapes.Point(1, 8, 3, largest=largest, sorted=order)
    call = bench_topk.caller(lambda *given, **options: (given, options), 3, bench_topk.order_options(point))
    given, options = call("x")
    assert given == ("x", 3)
    assert options == {n: False for n, flag in (("largest", largest), ("sorted", order)) if not flag}


@pytest.mark.parametrize("inner", [1, 2, 6])
def test_columns_hold_the_rows_that_they_are_checked_as(inner):
    point = shapes.Point(6, 5, 3, sorted=True, inner=inner)
    rows = inputs.make("normal", 6, 5)
    x = bench_topk.lay_out(rows, point)
    assert x.is_contiguous() and x.shape == {1: (6, 5), 2: (3, 5, 2), 6: (5, 6)}[inner]
    assert torch.equal(bench_topk.as_rows(x, point), rows)
    outputs = torch.topk(x, 3, **bench_topk.order_options(point))
    for got, want in zip(outputs, torch.topk(rows, 3), strict=True):
        assert torch.equal(bench_topk.as_rows(got, point), want)


@pytest.mark.parametrize("name", studies.STUDIES)
def test_a_study_has_points_and_the_variants_that_it_compares(name):
    study = studies.STUDIES[name]
    points = study.points()
    assert len(points) >= 5 and set(study.paper) <= set(study.inputs)
    for _, cols, k in points:
        variants = study.variants(cols, k)
        assert len(variants) >= 2 and set(study.pair or ()) <= set(variants)
        if study.axis == "alpha":
            beta = delegate_model.chosen_beta(k)
            assert str(delegate_model.rule_4(cols, k, torch.float32, beta)) in variants
    assert study.points((1,)) == []


def candidates_one_by_one(row: list[float], k: int, size: int, beta: int) -> dict[str, int]:
    """delegate_steps.workload, by loops over delegates and elements."""
    per_vector = 4
    delegates = []  # (value, position)
    lanes = []
    for start in range(0, len(row), size):
        subrange = row[start : start + size]
        ranked = sorted(subrange, reverse=True)
        delegates += [(value, len(delegates) + i) for i, value in enumerate(ranked[:beta])]
        holders = {i // per_vector % 32 for i, value in enumerate(subrange) if value == ranked[0]}
        lanes.append(holders)
    best_first = sorted(delegates, key=lambda delegate: (-delegate[0], delegate[1]))
    bound = best_first[k - 1][0]
    taken = {position for _, position in best_first[:k]}
    read = candidates = 0
    for number, holders in enumerate(lanes):
        of_subrange = [number * beta + i in taken for i in range(beta)]
        if not any(of_subrange):
            continue
        for i, value in enumerate(row[number * size : (number + 1) * size]):
            if all(of_subrange) or len(holders) > 1 or i // per_vector % 32 in holders:
                read += 1
                candidates += value >= bound
    return {"delegates": len(delegates), "read_again": read, "candidates": candidates}


@pytest.mark.parametrize("beta", [1, 2])
@pytest.mark.parametrize(
    "name", ["normal", "few_distinct", "increasing", "all_equal", "winners_in_one_subrange"]
)
def test_the_workload_is_that_of_the_rules_followed_one_by_one(name, beta):
    for alpha, cols in ((4, 1024), (5, 1024), (8, 8192)):
        x = inputs.make(name, 1, cols, seed=alpha)
        most = ((cols >> alpha) - 1) * beta
        for k in sorted({1, 2, 7, most // 2, most}):
            want = candidates_one_by_one(x[0].tolist(), k, 1 << alpha, beta)
            assert delegate_steps.workload(x, k, alpha, beta) == want, (alpha, k)


def test_workload_points_are_served_and_over_both_axes():
    points = delegate_steps.workload_points(None)
    for varies in (0, 1):
        assert len({point[varies] for point in points}) >= 5
    for cols, k in points:
        assert delegate_model.serves(cols, k, torch.float32)


def test_the_time_of_overlapping_kernels_is_counted_once():
    kernels = [
        ("Memset (Device)", 10.0, 11.0),
        ("void gputopk::make_delegates<float>", 12.0, 112.0),
        ("void gputopk::run_pass<float>", 60.0, 120.0),  # waits for the one before
        ("void gputopk::run_other_passes<float>", 110.0, 123.0),
        ("void gputopk::store_candidates<float>", 121.0, 130.0),
        ("void gputopk::run_other_passes<float>", 129.0, 134.0),
    ]
    times = delegate_steps.times_of_call(kernels[::-1], start=9.0)
    assert times == {
        "clearing": 2.0,
        "delegates": 101.0,
        "first selection": 11.0,
        "candidates": 7.0,
        "second selection": 4.0,
    }
    assert math.isclose(sum(times.values()), 134.0 - 9.0)
    with pytest.raises(ValueError, match="no step"):
        delegate_steps.times_of_call([("void other", 0.0, 1.0)], 0.0)
