"""The papers' figures: their data, the road from a tiny run to the page, and what the page computes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch

import torch_topk
from bench import ablation, bitonic_model, paper_calls, paper_figures, papers, papers_page, plot, timing
from bench.figure import FULL_BUCKETS, NARROW, REAL, THIRTY_BITS, Duel, Figure, Point, Ratio, quick
from bench.paper_figures import FIGURES, METHODS, PAPERS, TIMED
from tests import inputs

STUDY_NAMES = {
    name: {variant for _, cols, k in study.points() for variant in study.variants(cols, k)}
    for name, study in ablation.STUDIES.items()
}


def sources(figure: Figure) -> list[Figure]:
    return [FIGURES[name] for name in figure.of or (figure.name,)]


def points_of(figure: Figure) -> list[Point]:
    every = (point for source in sources(figure) for point in source.points)
    return [p for p in every if papers_page.matches(dataclasses.asdict(p), figure.where)]


# --- the figures' data ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_points_of_its_own_or_of_others(name):
    figure = FIGURES[name]
    assert figure.paper in PAPERS and figure.claim and figure.hardware and figure.number
    assert bool(figure.points) == bool(figure.contenders) == (name in TIMED)
    assert sum((bool(figure.points), bool(figure.of) and not figure.points, bool(figure.study))) == 1
    assert len(set(figure.points)) == len(figure.points)
    for point in figure.points:
        assert 1 <= point.k <= point.cols and point.elements <= 2**30
        if point.input not in (REAL, THIRTY_BITS, NARROW, FULL_BUCKETS):
            assert inputs.applies(point.input, getattr(torch, point.dtype))
    if figure.study:
        assert figure.study in ablation.NAMES
    else:
        assert points_of(figure)


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.ratios or figure.duels])
def test_what_a_figure_compares_is_timed_at_some_of_its_points(name):
    figure = FIGURES[name]
    if figure.study:
        timed = STUDY_NAMES[figure.study]
        inputs_here = set(ablation.STUDIES[figure.study].inputs)
    else:
        timed = set.intersection(*(set(source.contenders) for source in sources(figure)))
        inputs_here = {point.input for point in points_of(figure)}
    for ratio in figure.ratios:
        assert {ratio.ours, *ratio.base} <= timed
        assert ratio.where.get("input") in {None, *inputs_here}
        if not figure.study:
            assert any(papers_page.matches(dataclasses.asdict(p), ratio.where) for p in points_of(figure))
    assert all({duel.first, duel.second} <= timed for duel in figure.duels)


def test_every_contender_is_something_that_can_be_built_or_says_why_not():
    point = Point("uniform", 1, 64, 4)
    data = papers.Data([torch.rand(1, 64)], [torch.rand(1, 64)])
    for name in {name for figure in FIGURES.values() for name in figure.contenders}:
        try:
            assert callable(papers.call_of(name, point, data, selection=False))
        except paper_calls.NotOfferedError as error:
            assert str(error)
    with pytest.raises(paper_calls.NotOfferedError, match="no algorithm nothing"):
        papers.call_of("nothing", point, data, selection=False)


def test_what_the_study_build_is_asked_for(monkeypatch):
    def study_operator(name: str):
        return lambda x, *arguments, **options: (name, *arguments, options)

    monkeypatch.setattr(paper_calls, "study_operator", study_operator)
    x = torch.rand(1, 64)
    for name, want in {
        "air.many_blocks": ("_form", 4, "air.many_blocks", False, False, {}),
        "per-thread": ("_per_thread_topk", 4, False, False, {}),
        "per-thread registers": ("_per_thread_topk", 4, False, False, {"registers": True}),
        "bucket": ("_bucket_topk", 4, False, False, {}),
        "tree": ("_tree_topk", 4, False, False, {}),
        "TK_RdSP": ("_split_bucket", 4, False, False, {"rule": 1}),
        "TK_StSP": ("_split_bucket", 4, False, False, {"rule": 2, "task": False, "control_flow": False}),
        "TK_StSPT": ("_split_bucket", 4, False, False, {"rule": 2, "task": True, "control_flow": False}),
        "TK_StSPTC tile 8192": (
            "_split_bucket", 4, False, False, {"rule": 2, "task": True, "control_flow": True, "tile": 8192}
        ),
        "TK_RdSP cutoff 256": ("_split_bucket", 4, False, False, {"rule": 1, "cutoff": 256}),
    }.items():  # fmt: skip
        call = papers.call_of(name, Point("uniform", 1, 64, 4, largest=False), papers.Data([x], []), False)
        assert call(x) == want


def test_the_methods_are_timed_in_the_figures_that_their_wins_are_counted_in():
    for method in METHODS:
        assert method.paper in PAPERS
        figures = ("split-17", "split-19") if method.contender == "kth_value" else ("air-6", "air-7")
        assert all(method.contender in FIGURES[name].contenders for name in figures)


@pytest.mark.parametrize("name", TIMED)
def test_quick_points_are_few_and_small(name):
    points = quick(FIGURES[name].points)
    assert 1 <= len(points) <= 4 and len(set(points)) == len(points)
    assert all(point.k <= point.cols and point.elements <= 2**13 for point in points)


def test_the_inputs_of_the_papers_own():
    device = torch.device("cpu")
    few = paper_calls.make(Point(THIRTY_BITS, 1, 5000, 1, "int32"), device)
    assert few.dtype == torch.int32 and few.min() >= 0 and 2**29 < few.max() < 2**30
    narrow = paper_calls.make(Point(NARROW, 2, 5000, 1, "int32"), device).double()
    assert abs(narrow.mean() - 10**8) < 1 and 9 < narrow.std() < 11 and narrow.shape == (2, 5000)


def test_every_bucket_but_the_last_has_one_element_seven_times_over():
    x = paper_calls.make(Point(FULL_BUCKETS, 1, 5000, 1, "int32"), torch.device("cpu"))
    assert x.shape == (1, 5000) and x.dtype == torch.int32
    left = x[0].long() + 2**31
    for width in (16**power for power in range(7, 0, -1)):
        counts = torch.bincount((left - (2**32 - 16 * width)) // width, minlength=16).tolist()
        assert counts == [1] * 15 + [len(left) - 15]
        left = left[left >= 2**32 - width]
    assert left.unique().numel() == 16


def test_real_distances_are_those_of_patches_and_go_on_with_the_next_patch(monkeypatch):
    pytest.importorskip("sklearn")
    vectors = paper_calls.patches().numpy()
    assert vectors.shape == (531720, 192) and vectors.dtype == np.uint8
    for most, cols in ((None, 300), (100, 250)):
        some = vectors[: most or cols].astype(np.int64)
        monkeypatch.setattr(paper_calls, "patches", lambda some=some: torch.from_numpy(some.astype(np.uint8)))
        every = np.concatenate(
            [((some - some[-1 - i]) ** 2).sum(1) for i in range(math.ceil(cols / len(some)))]
        )
        got = paper_calls.patch_distances(cols, torch.device("cpu"))
        assert got.shape == (1, cols) and (got.numpy()[0] == every[:cols]).all()


# --- checks ---------------------------------------------------------------------------------------


def test_a_kth_element_must_be_the_right_one_of_those_that_are_equal():
    x = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0]])
    point = Point("uniform", 1, 5, 3)

    def problem(index: int) -> str | None:
        return papers.kth_problem((x[:, index : index + 1], torch.tensor([[index]])), x, point)

    assert problem(3) is None
    assert (
        problem(2) == "1 elements come before it, not 2" and problem(4) == "3 elements come before it, not 2"
    )
    wrong_value = (torch.tensor([[1.0]]), torch.tensor([[3]]))
    assert papers.kth_problem(wrong_value, x, point) == "index 3 does not hold the value"
    smallest = dataclasses.replace(point, largest=False)
    assert papers.kth_problem((x[:, 3:4], torch.tensor([[3]])), x, smallest) is None
    poisoned = (x[:, 3:4], torch.tensor([[-1]]))
    assert papers.kth_problem(poisoned, x, point) == "index -1 does not hold the value"


@pytest.mark.parametrize("largest", [True, False])
def test_several_keys_are_compared_one_after_the_other(largest):
    first = torch.tensor([[5.0, 5.0, 5.0, 1.0, 9.0]])
    second = torch.tensor([[1.0, 2.0, 2.0, 9.0, 0.0]])
    sign = 1 if largest else -1
    data = papers.Data([sign * first], [sign * second])
    point = Point("uniform", 1, 5, 2, largest=largest, columns=2)
    for winners, right in (([4, 1], True), ([1, 4], True), ([4, 2], False), ([4, 0], False)):
        outputs = (torch.zeros(1, 2), torch.tensor([winners]))
        assert (papers.several_keys_problem(outputs, data, point) is None) == right


def test_a_wrong_result_is_found_whoever_it_is_of():
    x = torch.tensor([[3.0, 1.0, 2.0, 2.0]])
    point, data = Point("uniform", 1, 4, 2), papers.Data([x], [])

    def timed(*indices: int) -> timing.Timing:
        at = torch.tensor([indices])
        return timing.Timing(outputs=(x.gather(1, at), at))

    first_wrong = papers.verify(
        {"auto": timed(0, 3), "air": timed(2, 0), "torch.topk": timed(0, 3)}, data, point
    )
    assert first_wrong["auto"] and first_wrong["air"] is None and first_wrong["torch.topk"] is None
    later_wrong = papers.verify(
        {"auto": timed(0, 2), "air": timed(3, 0), "torch.topk": timed(0, 1)}, data, point
    )
    assert later_wrong["auto"] is None and later_wrong["air"] == "another set than the exact one"
    assert later_wrong["torch.topk"] == "not the best values"
    other_values = timing.Timing(outputs=(torch.tensor([[3.0, 2.5]]), torch.tensor([[0, 2]])))
    assert papers.verify({"auto": timed(0, 2), "air": other_values}, data, point)["air"] == "other values"


@pytest.mark.parametrize("heeds", [True, False])
def test_what_a_filter_lets_pass_is_what_its_winners_are_of(monkeypatch, heeds):
    class Condition(NamedTuple):
        column: torch.Tensor
        comparison: str
        threshold: float

    def topk_where(score, mask, k, *, largest, order):
        assert mask.comparison == "<" and mask.threshold == 0.4
        passing = score.masked_fill(mask.column >= mask.threshold, -torch.inf) if heeds else score
        return (*passing.topk(k, largest=largest), None)

    monkeypatch.setattr(torch_topk, "Condition", Condition, raising=False)
    monkeypatch.setattr(torch_topk, "topk_where", topk_where, raising=False)
    point = Point("uniform", 1, 500, 20, columns=2, percent=40)
    data = papers.data_of(point, torch.device("cpu"), filtered=True)
    record = papers.run_point(FIGURES["bitonic-16"], point, data, papers.Spared())
    wrong = [failure.split(":")[0] for failure in record["failures"]]
    assert wrong == ([] if heeds else ["topk_where filtered"])
    verified = {c["name"]: c.get("verified") for c in record["contenders"]}
    assert verified["topk_where filtered"] == heeds and verified["masked_fill + auto"]
    assert verified["masked_fill + torch.topk"]


def test_who_is_slow_gives_up_and_is_spared_where_there_is_more_to_do(monkeypatch):
    monkeypatch.setattr(papers, "SLOW_US", 1000.0)
    monkeypatch.setattr(papers, "call_of", lambda name, *rest: lambda x: timing.time.sleep(0.003))
    figure = Figure("figure", "air", "", "", "", "", contenders=("auto",))
    point = Point("uniform", 1, 64, 4)
    spared = papers.Spared()
    record = papers.run_point(figure, point, papers.Data([torch.rand(1, 64)], []), spared)
    assert record["contenders"][-1] == {"name": "auto", "us": None, "reason": "more than 1 ms a call"}
    spared.learn(record)
    for change, is_spared in (
        ({"cols": 128}, True),
        ({"k": 5}, True),
        ({"cols": 32}, False),
        ({"k": 3}, False),
        ({"input": "normal"}, False),
    ):
        assert (
            spared.reason("figure", "auto", dataclasses.replace(point, **change)) is not None
        ) == is_spared
    assert spared.reason("other", "auto", point) is None


# --- the cost model -------------------------------------------------------------------------------

TITAN_X = (2**31, bitonic_model.PAPER_GLOBAL_RATE, bitonic_model.PAPER_SHARED_RATE)  # with the input's bytes


def test_the_model_gives_the_papers_own_numbers():
    size, global_rate, shared_rate = TITAN_X
    # Its first kernel at k = 32 is bound by shared memory: 12.1 ms, and 15.4 ms were measured for all.
    assert 12_100 < bitonic_model.bitonic_us(size, 32, global_rate, shared_rate) < 15_400
    # Without that bound by global memory: 8.96 ms for the first kernel, a sixteenth of it for the next...
    by_global = bitonic_model.bitonic_us(size, 32, global_rate, math.inf)
    assert by_global == pytest.approx(8_960 * 16 / 15, rel=0.02)


def test_the_model_is_monotonic_and_counts_what_each_pass_leaves():
    size, global_rate, shared_rate = TITAN_X
    times = [bitonic_model.bitonic_us(size, 2**power, global_rate, shared_rate) for power in range(3, 11)]
    assert all(after > 0.999 * before for before, after in itertools.pairwise(times))
    assert times[-1] > 2 * times[0]
    assert bitonic_model.radix_us(1000, 1, 0, (0.5, 0)) == (1000 + 1000 + 500) + (500 + 500)
    assert bitonic_model.radix_us(1000, 1, 0, (1,)) == 1000  # nothing to write: the same input again
    assert bitonic_model.radix_us(0, 1, 10, (0,)) == 3 * 64 * 10


# --- from a run to the page -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny run of all figures; its record and the page of it."""
    pytest.importorskip("sklearn")
    path = tmp_path_factory.mktemp("papers") / "papers-cpu.jsonl"
    assert papers.main(["--device", "cpu", "--quick", "--output", str(path)]) == 0
    page = path.with_name("papers.md")
    assert papers_page.main([str(path), "--output", str(page)]) == 0
    return path, page.read_text()


def test_a_run_times_every_figure_and_finds_no_mistake(run):
    header, *records, summary = map(json.loads, run[0].read_text().splitlines())
    assert header["quick"] and header["points"] == len(records) == summary["points"]
    assert summary["failed"] == [] and summary["not_run"] == 0 and summary["without_data"] == []
    assert {record["figure"] for record in records} == set(TIMED)
    for record in records:
        figure = FIGURES[record["figure"]]
        by_name = {c["name"]: c for c in record["contenders"]}
        assert list(by_name.keys() - {"floor"} - set(figure.contenders)) == []
        timed = [name for name in figure.contenders if by_name[name]["us"] is not None]
        assert timed or not {"auto", "kth_value"} & set(figure.contenders)  # all are of CUDA
        assert all(by_name[name]["verified"] for name in timed)
        assert all(by_name[name]["reason"] for name in figure.contenders if name not in timed)


def section(page: str, figure: Figure) -> str:
    paper = page.split(f"## {PAPERS[figure.paper].title}\n", 1)[1].split("\n## ", 1)[0]
    return paper.split(f"### {figure.number}: {figure.about}\n", 1)[1].split("\n### ", 1)[0]


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_tells_of_every_figure(run, name):
    figure = FIGURES[name]
    text = section(run[1], figure)
    assert figure.claim in text and figure.hardware in text and figure.differs in text
    measured = not figure.study and name != "air-12"  # of one size that a quick run has not
    assert ("**Here**: not measured." in text) != measured


def test_the_page_of_nothing_says_so_everywhere():
    page = papers_page.page(papers_page.Records())
    assert page.count("**Here**: not measured.") == len(FIGURES)
    assert page.count("| not measured |") == len(METHODS)


def test_the_page_in_the_repository_is_that_of_its_records():
    paths = [path for name in papers_page.DEFAULT if (path := papers_page.RESULTS / name).exists()]
    written = (papers_page.RESULTS / "papers.md").read_text()
    assert written == papers_page.page(papers_page.read(paths)), "python bench/papers_page.py"


def test_a_second_run_adds_what_is_missing_and_again_times_anew(run, tmp_path, capsys):
    path = tmp_path / "papers-cpu.jsonl"
    arguments = ["--device", "cpu", "--quick", "--output", str(path), "--figure"]
    assert papers.main([*arguments, "split-9"]) == 0
    count = len(quick(FIGURES["split-9"].points))
    assert papers.main([*arguments, "split-9"]) == 1
    assert f"nothing to time: {path} holds all of it" in capsys.readouterr().out
    assert papers.main([*arguments, "split-9", "split-15"]) == 0
    more = len(quick(FIGURES["split-15"].points))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["points"] for r in records if r["kind"] == "header"] == [count, more]
    assert papers.main([*arguments, "split-9", "--again"]) == 0
    data = papers_page.read([path])
    assert len(data.points["split-9"]) == count and len(data.points["split-15"]) == more
    last = [json.loads(line) for line in path.read_text().splitlines()][-count - 1 : -1]
    assert data.points["split-9"] == last


def test_no_time_is_no_points_and_the_next_run_goes_on(tmp_path, capsys):
    path = tmp_path / "papers-cpu.jsonl"
    arguments = ["--device", "cpu", "--quick", "--output", str(path), "--figure", "split-9"]
    assert papers.main([*arguments, "--time-limit", "0"]) == 0
    assert "points were not run: the time limit of 0 s" in capsys.readouterr().out
    assert papers.main(arguments) == 0


def test_time_is_shared_among_figures(monkeypatch):
    order = []

    def run_point(figure, point, data, spared):
        order.append((figure.name, point.cols))
        timing.time.sleep(0.02 if figure.name == "split-9" else 0.001)
        return {"figure": figure.name, "contenders": [], **dataclasses.asdict(point)}

    class Sink:
        def write(self, record):
            pass

    monkeypatch.setattr(papers, "run_point", run_point)
    monkeypatch.setattr(papers, "data_of", lambda point, device, filtered: papers.Data([], []))
    sizes = [256, 128, 512, 1024]
    todo = {name: [Point("uniform", 1, cols, 1) for cols in sizes] for name in ("split-9", "split-15")}
    run = papers.run_figures(todo, torch.device("cpu"), 60, papers.Spared(), Sink())
    assert len(run.records) == 8 and run.stopped_by is None
    # The cheap one is done before the dear one goes on; smaller data come first.
    assert order[:5] == [("split-9", 128), *(("split-15", cols) for cols in sorted(sizes))]
    assert order[5:] == [("split-9", cols) for cols in sorted(sizes)[1:]]


@pytest.mark.parametrize(
    "full, short",
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla V100S-PCIE-32GB", "v100s"),
        ("NVIDIA GeForce RTX 4090", "4090"),
    ],
)
def test_a_record_is_named_after_its_gpu(monkeypatch, full, short):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: full)
    assert papers.name_of(torch.device("cuda", 0)) == short


def test_a_file_of_another_kind_of_run_is_left_alone(tmp_path, capsys):
    path = tmp_path / "papers.jsonl"
    header = {"kind": "header", "device": "cuda", "gpu": "NVIDIA H200", "quick": False}
    path.write_text(json.dumps(header) + "\n")
    assert papers.main(["--device", "cpu", "--quick", "--output", str(path)]) == 1
    assert f"nothing timed: {path} is of NVIDIA H200, not of this device" in capsys.readouterr().out
    path.write_text(json.dumps({"kind": "header", "device": "cpu", "quick": False}) + "\n")
    assert papers.main(["--device", "cpu", "--quick", "--output", str(path)]) == 1
    assert f"nothing timed: {path} was written without --quick" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) == 1


def test_the_papers_sizes_are_not_for_a_cpu(capsys):
    with pytest.raises(SystemExit) as exit_:
        papers.main(["--device", "cpu"])
    assert exit_.value.code == 2
    assert (
        "error: --device cpu: the papers' sizes are for GPUs; elsewhere say --quick"
        in capsys.readouterr().err
    )


def test_no_record_no_page(tmp_path, capsys):
    page = tmp_path / "papers.md"
    assert papers_page.main([str(tmp_path / "none.jsonl"), "--output", str(page)]) == 1
    assert f"no page written: there is no {tmp_path / 'none.jsonl'}" in capsys.readouterr().out
    assert not page.exists()


# --- what the page computes -----------------------------------------------------------------------


def record(us: dict[str, float | None], **fields: object) -> dict:
    contenders = [{"name": name, "us": time, "reason": "why"} for name, time in us.items()]
    point = dataclasses.asdict(Point("uniform", 1, 2**20, 8)) | fields
    return {"kind": "paper", "figure": "air-6", **point, "floor_us": 1.0, "contenders": contenders}


def test_ratios_are_of_the_fastest_rival_and_say_how_many_lost():
    records = [
        record({"air": 2.0, "torch.topk": 9.0, "torch.sort": 4.0}),
        record({"air": 2.0, "torch.topk": 1.0, "torch.sort": None}),
        record({"air": None, "torch.topk": 1.0, "torch.sort": 1.0}),
        record({"air": 1.0, "torch.topk": 6.0, "torch.sort": 7.0}, rows=100),
    ]
    ratio = Ratio("air", paper_figures.LIBRARY, (None, 6.53), "of 20 bits")
    text = papers_page.ratio_line(ratio, records)
    assert "**0.50 to 6.00** times as fast (median 2.00, 3 points, slower at 1)" in text
    assert text.endswith("; the paper: up to 6.53 (of 20 bits): as there.")
    of_100 = papers_page.ratio_line(Ratio("air", ("torch.sort",), (1, 2), where={"rows": 100}), records)
    assert (
        of_100
        == "rows 100: `air` against `torch.sort`: **7.00** times as fast; the paper: 1.00 to 2.00: more here."
    )
    assert "not measured" in papers_page.ratio_line(Ratio("bitonic", ("air",)), records)


@pytest.mark.parametrize(
    "got, paper, verdict",
    [
        ([1.0, 1.5], (2, 3), "less here"),
        ([1.0, 2.0], (2, 3), "as there"),
        ([2.5], (2, 3), "as there"),
        ([3.2, 9.0], (2, 3), "as there"),
        ([3.4, 9.0], (2, 3), "more here"),
        ([0.5, 6.5], (None, 6.53), "as there"),
        ([0.5, 5.0], (None, 6.53), "less here"),
        ([0.5, 7.5], (None, 6.53), "more here"),
    ],
)
def test_ours_are_less_or_more_than_the_papers(got, paper, verdict):
    assert papers_page.verdict(got, paper) == verdict


def test_duels_are_counted_by_k():
    records = [
        record({"a": 1.0, "b": 2.0}),
        record({"a": 3.0, "b": 2.0}),
        record({"a": 1.0, "b": 2.0}, k=32768),
    ]
    text = papers_page.duel_line(Duel("a", "b", "below k = 16"), records)
    assert text == (
        "`a` is faster than `b` at **2** of 3 points: 1 of 2 at k = 8, 1 of 1 at k = 2^15; "
        "the paper: below k = 16."
    )
    assert (
        papers_page.duel_line(Duel("a", "b"), records[1:2])
        == "`a` is faster than `b` at **none** of 1 points."
    )
    assert papers_page.duel_line(Duel("a", "c"), records) == "`a` is faster than `c` where: not measured."


def test_the_worst_input_is_over_the_best_at_the_same_size():
    records = [
        record({"a": 1.0}),
        record({"a": 3.0}, input="normal"),
        record({"a": 50.0}, cols=2**21),
        record({"a": 60.0}, cols=2**21, input="normal"),
    ]
    assert (
        papers_page.inputs_line(["a", "b"], records)
        == "Slowest input over fastest at one size, at most: `a` 3.00."
    )
    assert papers_page.inputs_line(["a"], records[:1]) is None


def test_a_method_wins_where_it_is_the_fastest_algorithm():
    records = [
        record({"air": 1.0, "sort": 2.0, "auto": 0.5, "torch.topk": 0.1}),
        record({"air": 1.0, "sort": 2.0}, cols=2**25, k=32),
        record({"air": 3.0, "sort": 2.0}, rows=100),
        record({"sort": 2.0}, rows=100, k=16),
    ]
    data = papers_page.Records(points={"air-6": records})
    air = next(method for method in METHODS if method.contender == "air")
    assert papers_page.wins_text(air, data) == (
        "fastest of the algorithms at 2 of 3 points of air-6 and air-7; 1 row: 2, N 2^20 to 2^25, k 8 to 32"
    )


def test_the_model_stands_beside_the_times_it_is_about():
    header = {"set": "papers", "sms": 132, "sm_mhz": 1980}
    us = {"bitonic.many_blocks": 1200.0, "air.many_blocks": 1300.0}
    some = record(us, cols=2**29, k=32) | {"floor_us": 2**31 / 4.6e6}
    lines = papers_page.model_lines([some], papers_page.Records(headers=[header]))
    assert lines[0].startswith("Shared memory is 7.27 times as fast as global memory here, and 11.6 times")
    assert lines[2] == "Times in us, at 4.60 TB/s of global and 33.5 TB/s of shared memory:"
    predicted = bitonic_model.bitonic_us(2**31, 32, 4.6e6, 132 * 128 * 1980)
    assert lines[-1].startswith(f"| 32 | {predicted:.0f} | 1200 | ") and lines[-1].endswith(" | 1300 |")
    without = papers_page.model_lines([some], papers_page.Records(headers=[{**header, "sm_mhz": None}]))
    assert without == ["The record does not tell the GPU's clock, which the model needs."]


def test_the_figures_are_drawn(run, tmp_path):
    plot.plot_file(run[0], tmp_path)
    drawn = {path.stem.removeprefix("papers-cpu-") for path in tmp_path.glob("*.png")}
    assert drawn >= {"air-13", "bitonic-13", "split-9"} and drawn <= set(TIMED)
