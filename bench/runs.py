"""How a bench goes through its points: showing where it is, until its time is over or something stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from bench import timing
from bench.report import Progress, Record

T = TypeVar("T")


@dataclass
class Run:
    """The records of the points that were run, and why the others were not."""

    records: list[Record] = field(default_factory=list)
    stopped_by: str | None = None
    broken: bool = False  # stopped by an error that no contender survives, such as a lost device
    at: str = ""  # the point at hand, or the last one

    def through(self, points: Sequence[T], text_of: Callable[[T], str], limit_s: float | None) -> Iterator[T]:
        """The points one by one; after so many seconds no other is begun."""
        progress, start = Progress(len(points)), time.monotonic()
        try:
            for point in points:
                if limit_s and time.monotonic() - start > limit_s:
                    self.stopped_by = f"the time limit of {limit_s:g} s"
                    return
                self.at = text_of(point)
                progress.show(self.at)
                yield point
                progress.advance()
        finally:
            progress.close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What stops the run ends this block and is noted: its records stay, and can be written."""
        try:
            yield
        except KeyboardInterrupt:
            self.stopped_by = "the keyboard"
        except RuntimeError as error:
            self.stopped_by, self.broken = f"an error at {self.at}: {timing.one_line(error)}", True
