"""What benches time beside their own contenders, one read of the input, and what records say of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from bench import timing
from bench.report import Record
from bench.timing import Contender, Timing
from tests import study_library

FLOOR_SCRATCH_BYTES = 2**20


def has_read_kernel(device: torch.device) -> bool:
    return device.type == "cuda" and study_library.loaded


def floor_name(device: torch.device) -> str:
    """For the header."""
    return "gputopk._read_floor" if has_read_kernel(device) else "torch.amax of the bytes as integers"


def floor_contender(x: torch.Tensor) -> Contender:
    """One read of the input: the project's own read kernel on CUDA, torch's fastest reduction elsewhere."""
    if has_read_kernel(x.device):
        scratch = torch.empty(FLOOR_SCRATCH_BYTES, dtype=torch.uint8, device=x.device)
        return Contender("floor", lambda x: torch.ops.gputopk._read_floor(x, scratch), eager=False)
    size = x.numel() * x.element_size()
    word = next(t for t in (torch.int64, torch.int32, torch.int16, torch.uint8) if size % t.itemsize == 0)
    return Contender(
        "floor", torch.amax, prepare=lambda x: timing.as_bytes(x).view(word), eager=x.device.type == "cpu"
    )


def works_of(request: Record, device: str, order: bool) -> dict[str, str]:
    """Of each form that serves a request of a sweep there, what its time is estimated from:
    "in_order 1 bytes 4e6 ...". The request has rows, cols, k, dtype and, of rows side by side, inner."""
    rows, cols, inner = request["rows"], request["cols"], request.get("inner", 1)
    shape = (rows, cols) if inner == 1 else (rows // inner, cols, inner)
    like = torch.empty(shape, dtype=getattr(torch, request["dtype"]), device=device)
    text = torch.ops.gputopk._forms(like, request["k"], 1, sorted=order)
    return {name: work for name, _, work in (line.split("; ") for line in text.splitlines())}


def rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def contender_record(name: str, t: Timing, floor_us: float | None, torch_us: float | None) -> Record:
    record: Record = {"name": name, "us": rounded(t.us)}
    if t.us is None:
        return {**record, "reason": t.reason}
    record |= {
        "x_floor": rounded(t.us / floor_us) if floor_us else None,
        "x_torch": rounded(torch_us / t.us) if torch_us else None,
        "min_us": rounded(min(t.samples_us)),
        "spread": rounded(t.spread),
        "clock": t.clock,
        "rounds": t.rounds,
        "calls": t.calls,
        "eager_us": rounded(t.eager_us),
        "host_us": rounded(t.host_us),
    }
    return record | ({"note": t.note} if t.note else {})


def verdict(problem: str | None) -> Record:
    """What a check has found, for the record of what was checked."""
    return {"verified": problem is None, "problem": problem}


def print_reasons(points: Sequence[Record]) -> None:
    """Why contenders are missing, each reason once with the number of points."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for p in points:
        for c in p["contenders"]:
            if c["us"] is None:
                counts[c["name"], c["reason"]] += 1
    for (name, reason), count in counts.items():
        print(f"no time for {name} at {count} of {len(points)} points: {reason}")
