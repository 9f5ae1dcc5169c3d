"""The plots drop nothing, and their axes can be read."""

from __future__ import annotations

import pytest

from bench import plot


@pytest.mark.parametrize("count", [0, 1, 16, 17, 33, 323])
def test_everything_is_on_one_page(count):
    pages = list(plot._pages(list(range(count)), 16))
    assert [thing for _, page in pages for thing in page] == list(range(count))
    assert all(0 < len(page) <= 16 for _, page in pages)
    assert len({suffix for suffix, _ in pages}) == len(pages)


@pytest.mark.parametrize("low, high", [(1, 1.9), (0.9, 2.2), (2.7, 14), (1, 60), (3, 4e5), (1e-3, 1e3)])
def test_a_log_axis_has_three_labels_or_more(low, high):
    pyplot = plot._pyplot()
    figure, axes = pyplot.subplots()
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    plot._number_ticks(axes.yaxis)
    labels = [t.get_text() for t in axes.yaxis.get_ticklabels() if low <= t.get_position()[1] <= high]
    pyplot.close(figure)
    assert len(labels) >= 3 and len(set(labels)) == len(labels)


def test_the_readme_chart_is_drawn_from_what_was_recorded(tmp_path):
    grids = sorted(plot.RESULTS.glob("grid*-h200.jsonl"))
    assert grids
    plot.plot_readme(grids, tmp_path / "readme.png")
    assert (tmp_path / "readme.png").read_bytes()[1:4] == b"PNG"


def test_each_study_and_set_gets_its_plots(tmp_path):
    plot.plot_file(plot.RESULTS / "rerank-h200.jsonl", tmp_path)
    plot.plot_file(plot.RESULTS / "goals-h200.jsonl", tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn >= {"rerank-h200-rerank.png", "goals-h200-points.png", "goals-h200-time.png"}
