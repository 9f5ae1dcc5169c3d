"""What the steps of delegate top-k work on, and how long each takes: the studies `workload` and `steps`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from tests import delegate_model

# --- workload: figures 20 and 21, without a clock ---------------------------------------------------


def workload(x: torch.Tensor, k: int, alpha: int, beta: int) -> dict[str, int]:
    """How many elements each selection works on: `delegates` the first, `candidates` the second; and
    `read_again` between them. `x`: one row of floats, 16-byte aligned, of whole subranges, without NaN.

    The rules of csrc/cuda/delegate/from_maxima.cu, step by step. That they lose no winner is checked.
    """
    subranges = x.reshape(-1, 1 << alpha)
    best = subranges.argmax(1, keepdim=True)
    delegates = subranges.gather(1, best)
    if beta == 2:
        rest = subranges.scatter(1, best, -torch.inf)
        delegates = torch.cat([delegates, rest.amax(1, keepdim=True)], 1)
        del rest
    flat = delegates.flatten()
    bound = flat.topk(k).values[-1]  # of ties the first are taken
    taken = flat > bound
    ties = (flat == bound).nonzero().flatten()
    taken[ties[: k - int(taken.sum())]] = True
    taken = taken.view(delegates.shape)

    whole = taken.all(1)
    again = subranges[whole]
    read, candidates = again.numel(), int((again >= bound).sum())
    better = int((again > bound).sum())
    if beta == 2:
        # Of the others, the vectors of the lane that holds the best; all where several lanes do.
        partly = taken[:, 0] & ~whole
        again, first = subranges[partly], delegates[partly, :1]
        lane = torch.arange(1 << alpha, device=x.device) // (16 // x.element_size()) % 32
        holder = lane[best[partly]]
        several = ((again == first) & (lane != holder)).any(1, keepdim=True)
        is_read = several | (lane == holder)
        read += int(is_read.sum())
        candidates += int((is_read & (again >= bound)).sum())
        better += int((is_read & (again > bound)).sum())
    assert candidates >= k and better == int((x > bound).sum()), "a winner was lost"
    return {"delegates": flat.numel(), "read_again": read, "candidates": candidates}


WORKLOAD_INPUT = "normal"
# Over k at the first cols, and over cols at the last k, as the paper.
WORKLOAD_POINTS = (
    [(2**28, 2**power) for power in range(3, 24)] + [(2**power, 2**19) for power in range(24, 31)]
)  # fmt: skip


def workload_points(cols: Sequence[int] | None) -> list[tuple[int, int]]:
    points = [(c, k) for c in cols for k in (32, 2048, 2**15, 2**19)] if cols else WORKLOAD_POINTS
    return sorted({(c, k) for c, k in points if delegate_model.serves(c, k, torch.float32)})


def workload_of_point(x: torch.Tensor, k: int) -> dict[str, Any]:
    """With the plan's beta and rule 4's alpha."""
    cols, beta = x.shape[1], delegate_model.chosen_beta(k)
    alpha = delegate_model.rule_4(cols, k, x.dtype, beta)
    return {"alpha": alpha, "beta": beta, **workload(x, k, alpha, beta)}


# --- steps: figures 6, 7, 10 and 15 -----------------------------------------------------------------

STEPS_INPUT = "normal"
STEPS_COLS = (2**28,)
STEPS_KS = (2**5, 2**8, 2**11, 2**13, 2**15, 2**17, 2**18, 2**20, 2**22)
FORMS: dict[str, dict[str, Any]] = {"beta 1": {"beta": 1}, "beta 2": {"beta": 2}, "sample": {}}
STEPS = ("clearing", "sample", "delegates", "first selection", "candidates", "second selection")
CALLS = 9
_SPIN_CYCLES = 4_000_000  # 2 ms, in which the host queues a call


def forms_of(cols: int, k: int) -> dict[str, dict[str, Any]]:
    if not delegate_model.serves(cols, k, torch.float32):
        return {}
    sampled = delegate_model.is_sampled(1, cols, k, torch.float32)
    return {form: options for form, options in FORMS.items() if form != "sample" or sampled}


def steps_points(cols: Sequence[int] | None) -> list[tuple[int, int]]:
    return [(c, k) for c in (cols or STEPS_COLS) for k in STEPS_KS if forms_of(c, k)]


def step_of(kernel: str, after_candidates: bool) -> str:
    """The step that a kernel belongs to, by its name and place."""
    selection = "second selection" if after_candidates else "first selection"
    for name, step in (
        ("make_delegates", "delegates"),
        ("take_sample", "sample"),
        ("store_candidates", "candidates"),
        ("run_pass", selection),
        ("run_other_passes", selection),
        ("zero_vectors", "clearing"),
        ("memset", "clearing"),
    ):
        if name in kernel.lower():
            return step
    raise ValueError(f"no step of delegate has a kernel {kernel}")


def times_of_call(kernels: Sequence[tuple[str, float, float]], start: float) -> dict[str, float]:
    """Microseconds by step, of one call's (name, start, end). A kernel may start while the one before it
    ends, and wait; so its time is counted from the end of the one before, and the times add up."""
    times: dict[str, float] = defaultdict(float)
    after_candidates = False
    for name, _, end in sorted(kernels, key=lambda kernel: kernel[1]):
        step = step_of(name, after_candidates)
        times[step] += max(0.0, end - start)
        start = max(start, end)
        after_candidates = after_candidates or step == "candidates"
    return dict(times)


def profile_steps(x: torch.Tensor, k: int, options: dict[str, Any]) -> tuple[dict[str, float], Any]:
    """The median time of each step over some calls, and the last call's outputs. Each call is queued behind a
    kernel that waits, so that no step's time is the host's."""
    from torch.profiler import ProfilerActivity, profile

    def call() -> Any:
        return torch.ops.gputopk._delegate(x, k, True, False, **options)

    for _ in range(2):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            torch.cuda._sleep(_SPIN_CYCLES)
            outputs = call()
            torch.cuda.synchronize()
    kernels = sorted(
        (event.time_range.start, event.time_range.end, event.name)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    calls: list[tuple[float, list[tuple[str, float, float]]]] = []
    for start, end, name in kernels:
        if "spin_kernel" in name:
            calls.append((end, []))
        elif calls and ("gputopk" in name or "memset" in name.lower()):
            calls[-1][1].append((name, start, end))
    if len(calls) != CALLS:
        raise RuntimeError(f"the profiler saw {len(calls)} calls of {CALLS}")
    by_call = [times_of_call(seen, start) for start, seen in calls]
    return {step: statistics.median(times.get(step, 0.0) for times in by_call) for step in STEPS}, outputs
