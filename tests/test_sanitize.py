"""What `make sanitize` makes of what a tool prints."""

from __future__ import annotations

import pytest

from tests import sanitize

SUMMARY = "========= ERROR SUMMARY: 0 errors"
FINDING = """========= Invalid __global__ read of size 4 bytes
=========     at void gputopk::cuda::air::select_row<unsigned int>(T1)+0x10
========="""
OTHERS = FINDING.replace("gputopk::cuda::air::select_row", "at::native::gatherTopK")


@pytest.mark.parametrize(
    ("lines", "status", "errors", "clean"),
    [
        (["runs: 9", SUMMARY], 0, 0, True),
        (["runs: 9"], 0, 0, False),
        ([SUMMARY], 0, 0, False),
        (["runs: 9", SUMMARY], 1, 0, False),
        ([FINDING, "runs: 9", SUMMARY], sanitize.ERRORS, 1, False),
        ([OTHERS, "runs: 9", SUMMARY], sanitize.ERRORS, 0, True),
    ],
    ids=["clean", "looked at nothing", "ran nothing", "failed", "ours", "another library's"],
)
def test_a_tool_is_clean_where_it_looked_and_found_nothing_of_ours(tmp_path, lines, status, errors, clean):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("\n".join(["#!/bin/sh", "cat <<'END'", *lines, "END", f"exit {status}", ""]))
    tool.chmod(0o755)
    found = sanitize.run_tool("memcheck", str(tool))
    assert (found["errors"], found["clean"]) == (errors, clean)


def test_the_operators_that_the_tools_look_at_serve_their_cases_on_the_cpu_too():
    """So that a case which an operator refuses is found without a GPU."""
    assert sanitize.run_other_operators("cpu") > 50
