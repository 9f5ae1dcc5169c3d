"""How calls are timed: several contenders on the same buffers, interleaved in one run.

On CUDA a contender's calls are captured into a CUDA graph and its replays are timed by events, so the host is
not in the figure; the eager time, which includes the host, stands beside it. The calls of one graph go round
several copies of an input of more than 1 MB, together more than three times the L2 cache, so every call finds
the cache cold. A contender that cannot be captured is timed by events around eager calls, one that runs on
streams of its own by the host's clock; `Timing.clock` says which. On the CPU all use the host's clock, one
buffer and the same number of threads.

Each figure is a median over rounds; in each round every contender has its turn. Outputs are poisoned before
the last round, and `Timing.outputs` holds what the timed calls wrote in it, so a check of them is a check of
what was timed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Outputs = tuple[torch.Tensor, ...]  # values and indices, or what else a call returns

ROUNDS = 9  # the median of at least 9
MIN_ROUNDS = 3  # for a contender so slow that 9 rounds do not fit the budget; Timing.rounds says so
ROTATE_BYTES = 2**20  # inputs up to 1 MB are reused: the protocol lets them stay in the cache
L2_TURNS = 3  # the copies of an input hold this many times the L2 cache
GRAPH_US = 500.0  # calls in one graph, together: the few us of its launch vanish in the rest
MAX_CALLS = 256  # in one graph
EAGER_US = 5000.0  # one eager sample
EAGER_MAX_US = 50000.0  # calls longer than this have no eager time: the host's part is nothing beside it
CPU_SAMPLE_US = 2000.0  # one CPU sample: 2,000 times the clock's resolution and more


@dataclass
class Contender:
    """Something that can be timed: `call` on each of the prepared inputs."""

    name: str
    call: Callable[[Any], Any]
    prepare: Callable[[torch.Tensor], Any] = lambda x: x  # once an input, not timed
    export: Callable[[Any], Outputs] | None = None  # what `call` returned, as tensors; None: no outputs
    wait: Callable[[Any], Any] | None = None  # blocks until an output is there: timed by the host's clock
    eager: bool = True  # take the eager time as well


def two_tensors(outputs: Any) -> Outputs:
    """The `export` of what returns values and indices, as a tuple or a named one."""
    return outputs[0], outputs[1]


@dataclass
class Timing:
    """One contender's result; `reason` says why there is none."""

    us: float | None = None
    reason: str | None = None
    clock: str = ""  # graph, events, host
    note: str | None = None
    rounds: int = 0
    calls: int = 0  # in one sample
    samples_us: list[float] = field(default_factory=list)
    eager_us: float | None = None
    host_us: float | None = None  # until the call returns, without waiting for the device
    outputs: Outputs | None = None

    @property
    def spread(self) -> float | None:
        """The distance between the quartiles over the median."""
        if len(self.samples_us) < 4:
            return None
        low, _, high = statistics.quantiles(self.samples_us, n=4)
        return (high - low) / self.us if self.us else None


def one_line(error: BaseException) -> str:
    """An exception's first line, for a table or a record."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def as_bytes(x: torch.Tensor) -> torch.Tensor:
    """A dense tensor's bytes, flat: fills and compares work on them whatever the dtype."""
    return x.reshape(-1).view(torch.uint8)


def poison(outputs: Outputs) -> None:
    """Overwrites outputs with bytes that no right answer holds, so stale results cannot pass: an index is
    negative, and not the -1 of padding."""
    for tensor in outputs:
        as_bytes(tensor).fill_(0xA5)


def copies_of(x: torch.Tensor, read_bytes: int | None = None) -> list[torch.Tensor]:
    """The tensor and as many clones as keep the L2 cache cold; only the tensor itself on the CPU. A call
    reads `read_bytes` of it, by default all."""
    size = x.numel() * x.element_size() if read_bytes is None else read_bytes
    if x.device.type != "cuda" or size <= ROTATE_BYTES:
        return [x]
    l2 = torch.cuda.get_device_properties(x.device).L2_cache_size
    return [x] + [x.clone() for _ in range(math.ceil(L2_TURNS * l2 / size) - 1)]


class HeldInput:
    """The input at hand: made once for all that is timed on it in a row."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._key: Hashable = None
        self._copies: list[torch.Tensor] = []

    def copies(self, key: Hashable, make: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
        """`copies_of` what `make` returns, or of what it returned for the same key just before."""
        if key != self._key:
            self._key, self._copies = None, []  # freed before the next ones are made
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self._copies = copies_of(make())
            self._key = key
        return self._copies


def measure(
    contenders: Sequence[Contender], copies: Sequence[torch.Tensor], budget_s: float
) -> dict[str, Timing]:
    """Times the contenders on the copies of one input; results by name, in the same order. `budget_s` bounds
    what one contender may take."""
    if copies[0].device.type == "cuda":
        timings = _measure_cuda(contenders, copies, budget_s)
    else:
        timings = _measure_cpu(contenders, copies[0], budget_s)
    return {contender.name: timing for contender, timing in zip(contenders, timings, strict=True)}


def _rounds(sample_us: float, budget_s: float) -> int:
    return int(min(ROUNDS, max(MIN_ROUNDS, budget_s * 1e6 // max(sample_us, 1.0))))


def _keep(contender: Contender, timing: Timing, returned: Any) -> None:
    if contender.export is not None:
        timing.outputs = contender.export(returned)


# --- CPU ------------------------------------------------------------------------------------------


def _measure_cpu(contenders: Sequence[Contender], x: torch.Tensor, budget_s: float) -> list[Timing]:
    timings = [Timing(clock="host") for _ in contenders]
    inputs: dict[int, Any] = {}
    for i, (contender, timing) in enumerate(zip(contenders, timings, strict=True)):
        try:
            native = contender.prepare(x)
            _host_seconds(contender, [native], 1)  # warm-up
            once_us = 1e6 * _host_seconds(contender, [native], 1)[0]
        except Exception as error:  # a contender that cannot serve the point says why
            timing.reason = one_line(error)
            continue
        inputs[i] = native
        timing.calls = max(1, math.ceil(CPU_SAMPLE_US / max(once_us, 0.1)))
        timing.rounds = _rounds(once_us * timing.calls, budget_s)
    for turn in range(ROUNDS):
        for i, native in inputs.items():
            timing = timings[i]
            if turn < timing.rounds:
                seconds, returned = _host_seconds(contenders[i], [native], timing.calls)
                timing.samples_us.append(1e6 * seconds / timing.calls)
                _keep(contenders[i], timing, returned)
    for i in inputs:
        timings[i].us = statistics.median(timings[i].samples_us)
    return timings


def _host_seconds(contender: Contender, inputs: Sequence[Any], calls: int) -> tuple[float, Any]:
    """The host's time for that many calls in a row, and what the last one returned."""
    call, returned = contender.call, None
    start = time.perf_counter()
    for i in range(calls):
        returned = call(inputs[i % len(inputs)])
    if contender.wait is not None:
        contender.wait(returned)
    return time.perf_counter() - start, returned


# --- CUDA -----------------------------------------------------------------------------------------


def _assert_device_alive(contender: Contender, error: Exception) -> None:
    """A contender may refuse a point; one that has left the device unusable ends the run."""
    try:
        torch.cuda.synchronize()
    except RuntimeError as lost:
        raise RuntimeError(f"{contender.name} lost the device: {one_line(lost)}") from error


class _CudaRunner:
    """One contender on the GPU: warmed up, captured where it can be, and then sampled turn by turn."""

    def __init__(self, contender: Contender, copies: Sequence[torch.Tensor], budget_s: float) -> None:
        self.contender = contender
        self.inputs = [contender.prepare(x) for x in copies]
        self.timing = Timing()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.pending: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.returned: Any = None
        once_us = self._warm_up()
        self._choose_calls(once_us)
        self.timing.rounds = _rounds(once_us * self.timing.calls, budget_s)
        if contender.wait is not None:
            self.timing.clock = "host"
        else:
            self._capture()

    def _warm_up(self) -> float:
        """Runs the call on a side stream, as capturing asks for; returns the us that one takes."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._synced_us(1)  # first use: modules are loaded, a peer compiles
            once_us = self._synced_us(1)
            if once_us < 1000:
                once_us = self._synced_us(10)  # shares the waiting's cost
        torch.cuda.current_stream().wait_stream(stream)
        return once_us

    def _synced_us(self, calls: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        _host_seconds(self.contender, self.inputs, calls)
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / calls

    def _choose_calls(self, once_us: float) -> None:
        """Whole turns through the copies, enough of them to fill a graph."""
        turns = max(1, min(MAX_CALLS, math.ceil(GRAPH_US / once_us)) // len(self.inputs))
        self.timing.calls = turns * len(self.inputs)

    def _calls(self) -> Any:
        returned = None
        for i in range(self.timing.calls):
            returned = self.contender.call(self.inputs[i % len(self.inputs)])
        return returned

    def _capture(self) -> None:
        """Captures the calls; the last one's outputs stay, the memory of the others is reused."""
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: a peer's own threads may allocate while this one captures.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.returned = self._calls()
        except Exception as error:
            self.returned = None
            _assert_device_alive(self.contender, error)
            self.timing.clock, self.timing.note = "events", f"not capturable: {one_line(error)}"
        else:
            self.graph, self.timing.clock = graph, "graph"

    def run(self) -> None:
        """One sample's calls, untimed."""
        if self.graph is not None:
            self.graph.replay()
        else:
            self.returned = self._calls()

    def poison(self) -> None:
        if self.graph is not None and self.contender.export is not None:
            poison(self.contender.export(self.returned))

    def sample(self) -> None:
        """One timed sample. Event times are read later, so that the GPU never waits for the host."""
        if self.contender.wait is not None:
            torch.cuda.synchronize()
            seconds, self.returned = _host_seconds(self.contender, self.inputs, self.timing.calls)
            self.timing.samples_us.append(1e6 * seconds / self.timing.calls)
            return
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run()
        end.record()
        self.pending.append((start, end))

    def finish(self) -> Timing:
        """Reads the clocks and takes the outputs of the last timed sample."""
        for start, end in self.pending:
            self.timing.samples_us.append(1e3 * start.elapsed_time(end) / self.timing.calls)
        self.timing.us = statistics.median(self.timing.samples_us)
        _keep(self.contender, self.timing, self.returned)
        return self.timing

    def measure_eager(self) -> None:
        """Calls in a row from Python: host_us until the last returns, eager_us until the device is done."""
        calls = int(min(50, max(2, EAGER_US // self.timing.us)))
        host, whole = [], []
        _host_seconds(self.contender, self.inputs, 1)
        for _ in range(3):
            torch.cuda.synchronize()
            start = time.perf_counter()
            seconds, _ = _host_seconds(self.contender, self.inputs, calls)
            torch.cuda.synchronize()
            host.append(1e6 * seconds / calls)
            whole.append(1e6 * (time.perf_counter() - start) / calls)
        self.timing.eager_us = statistics.median(whole)
        self.timing.host_us = statistics.median(host)


def _measure_cuda(
    contenders: Sequence[Contender], copies: Sequence[torch.Tensor], budget_s: float
) -> list[Timing]:
    """Prepares every contender, then takes the rounds, then the eager times."""
    timings: list[Timing] = []
    runners: list[_CudaRunner] = []
    for contender in contenders:
        try:
            runner = _CudaRunner(contender, copies, budget_s)
        except Exception as error:  # a contender that cannot serve the point says why
            _assert_device_alive(contender, error)
            timings.append(Timing(reason=one_line(error)))
        else:
            runners.append(runner)
            timings.append(runner.timing)
    if not runners:
        return timings
    for turn in range(ROUNDS):
        runners[0].run()  # untimed: the first timed sample of a round starts on a busy GPU as well
        for runner in runners:
            if turn == runner.timing.rounds - 1:
                runner.poison()
            if turn < runner.timing.rounds:
                runner.sample()
    torch.cuda.synchronize()
    for runner in runners:
        runner.finish()
    for runner in runners:
        if runner.contender.eager and runner.timing.us < EAGER_MAX_US:
            runner.measure_eager()
    # The outputs live in the graphs' memory, which torch keeps for as long as they are referenced.
    return timings
