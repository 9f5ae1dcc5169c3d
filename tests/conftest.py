"""pytest's set-up: the gpu marker and its visible skips, and hypothesis' profile.

--fuzz-examples N   examples a hypothesis test; the default suits CI. Given, examples are drawn from a seed
                    (--hypothesis-seed) instead of being the same every time.
"""

from __future__ import annotations

import hypothesis
import pytest
import torch

DEFAULT_EXAMPLES = 400
# First, so that where two files run at a time none of these is left over at the end: they compile, or start
# processes, for minutes.
LONGEST = (
    "tests/simt/test_kernels.py",
    "tests/test_packaging.py",
    "tests/cpu/test_levels.py",
    "tests/cpu/test_rerank_levels.py",
    "tests/python/test_dtensor.py",
)


def why_no_gpu() -> str | None:
    """None where the CUDA operator can run."""
    if not torch.cuda.is_available():
        return "no GPU"
    import torch_topk  # noqa: F401  loads the libraries

    if not torch._C._dispatch_has_kernel_for_dispatch_key("gputopk::topk", "CUDA"):
        return "no GPU: the CUDA library is not loaded"
    from tests import study_library

    return None if study_library.loaded else "no study library: make study"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-examples", type=int, default=None, help="examples a hypothesis test")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU; skipped, visibly, without one")
    examples = config.getoption("--fuzz-examples")
    hypothesis.settings.register_profile(
        "gputopk",
        max_examples=examples or DEFAULT_EXAMPLES,
        derandomize=examples is None,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )
    hypothesis.settings.load_profile("gputopk")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if gpu_items else None
    if reason:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))
    config.stash[_SKIPPED] = (len(gpu_items), reason) if reason else None
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(LONGEST)))


_SKIPPED = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    skipped = config.stash.get(_SKIPPED, None)
    if skipped:
        terminalreporter.write_line(f"gpu tests: {skipped[0]} skipped: {skipped[1]}", yellow=True)


@pytest.fixture
def device() -> torch.device:
    """The GPU of a gpu test."""
    return torch.device("cuda", torch.cuda.current_device())
