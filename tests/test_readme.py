"""The README's Python runs, and what it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text())
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []
