"""Where a bench ran: what the header of a result file records."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from bench import peers
from tests.records import output_of, without_options


def commit() -> str | None:
    """The checked-out commit, with -dirty where tracked files other than results differ from it; None outside
    a checkout."""
    head = output_of("git", "rev-parse", "--short=12", "HEAD")
    if not head:
        return None
    changed = ("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return head + ("-dirty" if output_of(*changed) else "")


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu(device: torch.device) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    told = output_of(
        "nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader,nounits"
    )
    driver, clock = (told or ", ").splitlines()[0].split(", ")
    return {
        "gpu": properties.name,
        "sms": properties.multi_processor_count,
        "sm_mhz": int(clock) if clock.isdigit() else None,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
        "driver": driver or None,
    }


def header(device: torch.device, commit_name: str | None, **more: Any) -> dict[str, Any]:
    """The first record of a result file."""
    return {
        "kind": "header",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": without_options(["python", *sys.argv]),
        "commit": commit_name or commit(),
        "device": device.type,
        **(_gpu(device) if device.type == "cuda" else {}),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),  # of the last minute: CPU times on a busy machine say little
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "peers": {name: peers.version(name) or "not installed" for name in peers.NAMES},
        **more,
    }
