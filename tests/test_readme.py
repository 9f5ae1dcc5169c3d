"""The README's Python runs, and what it and the other pages link to is there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "bench/results/papers.md",
    *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
]


def test_the_recipes_run_one_after_the_other():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["next_tokens"].shape == (32, 1)
    assert names["scores"].requires_grad and names["weights"].requires_grad
    assert names["gradient"].count_nonzero() <= 10_000_000 - 10_000
    assert names["ids"].shape == (10, 10)


def prose_of(page: Path) -> str:
    """Without blocks of code, where a comment looks like a heading."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, no punctuation, hyphens for spaces; the second of equal
    ones ends in -1."""
    anchors: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#+ +(.+?)[ #]*$", prose_of(page), re.MULTILINE):
        shown = re.sub(r"\]\(.*?\)", "", heading)  # of a link only its text
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def broken_links(page: Path) -> list[str]:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", prose_of(page))
    broken = []
    for link in links:
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    assert broken_links(ROOT / page) == []


def test_a_link_to_no_file_or_no_heading_is_found(tmp_path):
    headings = "# A page\n## `topk_varlen`, and [more](other.md): a-b\n## Twice\n## Twice\n"
    good = [
        "#topk_varlen-and-more-a-b",
        "#a-page",
        "#twice",
        "#twice-1",
        "other.md",
        "other.md#there",
        "a.py",
    ]
    bad = ["#A-page", "#twice-2", "#code", "other.md#code", "other.md#twice", "none.md", "none.md#there"]
    (tmp_path / "a.py").touch()
    (tmp_path / "other.md").write_text("## There\n```\n# code\n```\n")
    page = tmp_path / "page.md"
    page.write_text(headings + " ".join(f"[x]({link})" for link in good + bad))
    assert broken_links(page) == bad
