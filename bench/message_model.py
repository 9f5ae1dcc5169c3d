"""What torch_topk.distributed.topk sends, and how long it takes by that: the model of docs/distributed.md.

    T = T_local(k, n) + T_agree + sum over the other messages of (L(R) + bytes / B) + T_merge(entries)

with L(R) = L(2) log2 R. Bytes are those that a rank receives, with winners spread evenly over the ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from torch_topk import distributed

INDEX_BYTES = 8
RANKS = (2, 4, 16, 64, 512, 4096)


@dataclass(frozen=True)
class Request:
    """Rows of float32 over so many ranks."""

    ranks: int
    k: int
    local_elements: int  # of a row, on a rank
    rows: int = 1
    gather: str = "all"
    device: str = "cuda"

    @property
    def entries(self) -> int:
        """Of a rank's list of a row."""
        return min(self.k, self.local_elements)

    @property
    def gathered_bytes(self) -> int:
        return self.rows * self.entries * (4 + INDEX_BYTES)

    @property
    def counted_bytes(self) -> int:
        """The counts of all passes."""
        return self.rows * distributed.passes_of(4) * (8 << distributed._DIGIT_BITS)

    @property
    def narrows(self) -> bool:
        """Which way the code takes."""
        return distributed._saves_by_narrowing(
            self.ranks * self.gathered_bytes, self.counted_bytes, torch.device(self.device)
        )

    def messages(self, narrows: bool) -> list[float]:
        """Bytes that a rank receives in each, after the agreement."""
        others = self.ranks - 1
        if not narrows:
            return [others * self.gathered_bytes]
        passes = distributed.passes_of(4)
        pass_bytes = 2 * self.counted_bytes / passes * others / self.ranks
        winners = -(-self.k // self.ranks) * self.rows * (4 + INDEX_BYTES)
        sent = [] if self.gather == "none" else [float(others * winners)]
        return [pass_bytes] * passes + [16.0 * self.rows * others] + sent

    def merged_entries(self, narrows: bool) -> int:
        if narrows:
            return 0 if self.gather == "none" else self.k
        return self.ranks * self.entries


@dataclass(frozen=True)
class Constants:
    """Of two ranks, as measured."""

    latency_us: float  # of one small collective, those before and behind it being queued
    bytes_per_us: float  # that a rank receives
    agreement_us: float
    merge_us: dict[int, float]  # by entries

    @classmethod
    def of(cls, record: dict[str, Any]) -> Constants:
        merge_us = {int(entries): us for entries, us in record["merge_us"].items()}
        return cls(record["latency_us"], record["bytes_per_us"], record["agreement_us"], merge_us)

    def merge(self, entries: int) -> float:
        """As of the nearest measured number of entries; of more than all of them, in proportion."""
        if entries == 0:
            return 0.0
        nearest = min(self.merge_us, key=lambda measured: abs(math.log(measured / entries)))
        return self.merge_us[nearest] * max(1.0, entries / nearest)


def predicted_us(
    request: Request, local_us: float, constants: Constants, narrows: bool | None = None
) -> float:
    narrows = request.narrows if narrows is None else narrows
    latency = constants.latency_us * math.log2(request.ranks) if request.ranks > 1 else 0.0
    sent = sum(latency + size / constants.bytes_per_us for size in request.messages(narrows))
    return local_us + constants.agreement_us + sent + constants.merge(request.merged_entries(narrows))
