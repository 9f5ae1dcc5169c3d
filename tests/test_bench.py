"""What the benches say without a clock: their points, and the arithmetic of the studies of delegate."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

import torch_topk
from bench import bench_topk, delegate_steps, peers, shapes, studies
from bench.timing import HeldInput, Timing
from tests import delegate_model, inputs


@pytest.mark.parametrize("name", shapes.SETS)
def test_the_points_of_a_set_can_be_asked_for(name):
    points = shapes.point_set(name)
    assert points
    for point in points:
        assert 1 <= point.k <= point.cols and point.rows >= 1
        assert inputs.applies(point.input, getattr(torch, point.dtype))
        assert {*point.algorithms} <= {*torch_topk.Algorithm.__members__}
        assert point.algorithms or point.orders
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


def test_dims_are_those_of_five_requests_and_a_grid_around_them():
    points = shapes.point_set("dims")
    assert len(set(points)) == len(points)
    assert all(point.sorted and point.inner > 1 and point.rows % point.inner == 0 for point in points)
    first = [(p.rows // p.inner, p.cols, p.inner, p.k) for p in points[:5]]
    assert first[0] == (64, 256, 3136, 10) and first[2] == (1, 32, 1_000_000, 3)
    grid = points[5:]
    assert all(2**16 <= point.elements <= 2**28 for point in grid)
    for values, wanted in (
        ({p.rows // p.inner for p in grid}, {1, 32}),
        ({p.inner for p in grid}, {7, 49, 1000}),
        ({p.cols for p in grid}, {16, 100, 1000, 10_000, 100_000}),
        ({p.k for p in grid}, {3, 32}),
        ({p.dtype for p in grid}, {"float32", "bfloat16"}),
    ):
        assert values == wanted


@pytest.mark.parametrize("name", peers.NAMES)
def test_peers_are_not_given_columns(name):
    with pytest.raises(peers.NotOfferedError, match="last dimension"):
        peers.contender(name, shapes.Point(6, 500, 3, inner=2))


def time_and_check(point):
    """Its record; times are not looked at."""
    return bench_topk.run_point(point, HeldInput(torch.device("cpu")), (), 0.0)


@pytest.mark.parametrize(("rows", "inner"), [(14, 7), (7, 7)])
def test_columns_are_timed_and_checked(rows, inner, capsys):
    record = time_and_check(shapes.Point(rows, 300, 4, dtype="bfloat16", sorted=True, inner=inner))
    assert record["failures"] == [] and record["bytes"] == rows * 300 * 2
    checked = {c["name"]: c["verified"] for c in record["contenders"] if "verified" in c}
    assert checked == {"torch": True, "ours:auto": True, "aten-op": True}
    bench_topk.print_table([record])
    assert f"sorted, inner {inner}" in capsys.readouterr().out


@pytest.mark.parametrize("rows", [14, 7])
def test_a_wrong_winner_in_a_column_is_found(rows):
    point = shapes.Point(rows, 300, 4, sorted=True, inner=7)
    x = bench_topk.data_of(point, torch.device("cpu"))
    values, indices = torch_topk.topk(x, 4, dim=-2)
    timings = {"ours:auto": Timing(outputs=(values, indices))}
    assert bench_topk.verify(timings, x, point) == {"ours:auto": None}
    values[..., 1, 3] = values[..., 0, 3]
    problem = bench_topk.verify(timings, x, point)["ours:auto"]
    assert problem == f"values are not input[indices] in {rows // 7} places, first at [3, 1]"


def test_orders_are_timed_and_checked_side_by_side(capsys):
    points = shapes.point_set("order")
    assert len({(p.rows, p.cols, p.k) for p in points}) == len(points) == 12
    assert all(point.orders == ("value", "index", "any") for point in points)
    assert {(1024, 12_000, 2048), (10_000, 1000, 32), (1, 10**7, 10**5)} <= {
        (p.rows, p.cols, p.k) for p in points
    }
    record = time_and_check(dataclasses.replace(points[0], rows=5, cols=300, k=20, index_dtype="int32"))
    ours = {c["name"]: c for c in record["contenders"] if c["name"].startswith("ours:")}
    assert list(ours) == ["ours:order=value", "ours:order=index", "ours:order=any"]
    assert record["failures"] == [] and all(c["verified"] and c["plan"] for c in ours.values())
    bench_topk.print_table([record])
    bench_topk.print_findings([record])
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[8:12] == ["torch", "order=value", "order=index", "order=any"]
    assert "order=index: " in printed and "order=any: " in printed


def ordered(name, x, k):
    """Winners as a contender of that order might wrongly return them."""
    values, indices = torch_topk.topk(x, k, order="value" if name == "best first" else "index")
    values, indices = values.clone(), indices.clone()
    if name == "another winner":
        indices[2, 0] = x[2].argmin()
        values[2, 0] = x[2].min()
    elif name == "a winner twice":
        indices[2, 1], values[2, 1] = indices[2, 0], values[2, 0]
    return values, indices


@pytest.mark.parametrize(
    ("order", "name", "words"),
    [
        ("index", "right", None),
        ("index", "best first", "indices do not ascend"),
        ("index", "another winner", "better elements left out"),
        ("index", "a winner twice", "an index twice"),
        ("value", "by index", "output out of order"),
        ("value", "best first", None),
        ("any", "best first", None),
        ("any", "by index", None),
        ("any", "another winner", "better elements left out"),
    ],
)
def test_each_order_is_held_to_what_it_promises(order, name, words):
    point = shapes.Point(3, 200, 9, sorted=True, algorithms=(), orders=(order,))
    x = inputs.make("normal", 3, 200, seed=2)
    contender = f"ours:order={order}"
    problem = bench_topk.verify({contender: Timing(outputs=ordered(name, x, 9))}, x, point)[contender]
    assert problem is None if words is None else problem.startswith(words)


def test_an_order_that_is_refused_is_a_failure(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("no such order")

    monkeypatch.setattr(torch_topk, "topk", refuse)
    record = time_and_check(shapes.Point(3, 200, 9, sorted=True, orders=("index",)))
    assert record["failures"] == ["ours:order=index: no such order"]


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
