"""Random requests against the exact order: on the CPU, on the emulated kernels, on a GPU.

    make fuzz MINUTES=10                         each target that this machine has, an equal share of the time
    python -m tests.fuzz --targets simt --minutes 5 --seed 7
    python -m tests.fuzz --targets cuda --cases 200000 --record tests/gpu_record.json
    python -m tests.fuzz "simt: float32 normal 3x1000 k=10 seed=5 form=air.one_block sm_count=2"

A failure is shrunk and printed as a line that the last form runs again. Targets `cpu`, `simt` and `cuda` are
topk; `ragged`, `simt-ragged` and `cuda-ragged` what stands beside it (tests/fuzz_ragged.py). Many calls share
an input, whose rows are put in order once, stably, and a call's result is compared with that.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from tests import gpu_record, inputs, oracle
from tests.cases import Case, number_near, shrink
from tests.conftest import why_no_gpu
from tests.records import commit_named
from tests.simt import forms

FLAGS = ("largest", "sorted", "magnitude")


# The exact order, on any device.


def ordinals(tensor: torch.Tensor, magnitude: bool) -> torch.Tensor:
    """int64 numbers in the order of the elements: equal where they are, NaN above all."""
    ints = oracle.as_ints(tensor)
    if tensor.dtype in oracle.FLOAT_DTYPES:
        # The bits of a magnitude ascend with it.
        sizes = ints.to(torch.int64) & (2 ** (8 * tensor.dtype.itemsize - 1) - 1)
        numbers = sizes if magnitude else torch.where(ints < 0, -sizes, sizes)
        greatest = inputs._FLOATS[tensor.dtype][3]
        return numbers.masked_fill(sizes > greatest, 2**63 - 1)
    if tensor.dtype in oracle.SIGNED_DTYPES:
        wide = ints.to(torch.int64)
        if not magnitude:
            return wide
        # |INT64_MIN| wraps to itself, which this maps to the top.
        return wide.abs() ^ -(2**63) if tensor.dtype == torch.int64 else wide.abs()
    if tensor.dtype == torch.uint64:
        return ints ^ -(2**63)
    return ints.to(torch.int64) & (2 ** (8 * tensor.dtype.itemsize) - 1)


def best_first(tensor: torch.Tensor, largest: bool, magnitude: bool) -> torch.Tensor:
    """The positions of each row, best element first, equal elements by position."""
    numbers = ordinals(tensor, magnitude)
    return torch.sort(~numbers if largest else numbers, dim=1, stable=True).indices


# A request of the operators.


def operator_case(rng: random.Random, most: int) -> Case:
    """An input; k and the flags are drawn for each call of it."""
    dtype = rng.choice(oracle.DTYPES)
    cols = number_near(rng, most)
    rows = number_near(rng, max(1, min(200, 2 * most // cols)))
    name = rng.choice([*inputs.names_for(dtype), *["mixed_rows"] * 8])
    gap = rng.choice((0, 0, 0, 1, 7, 16))
    return Case(dtype, name, rows, cols, 1, rng.choice((0, 0, 1, 3, 5)), gap, rng.randrange(2**31))


def calls_of(
    rng: random.Random, case: Case, algorithms: tuple[str, ...], count: int, by_index: bool
) -> list[Case]:
    cases = []
    for _ in range(count):
        options: dict[str, object] = {flag: rng.random() < 0.5 for flag in FLAGS}
        options["magnitude"] = rng.random() < 0.25
        if by_index and not options["sorted"] and rng.random() < 0.4:
            options["by_index"] = True
        if rng.random() < 0.3:
            options["index_dtype"] = torch.int32
        algorithm = rng.choice(algorithms)
        if algorithm != "auto":
            options["algorithm"] = algorithm
        if rng.random() < 0.25:
            # The operator is given the transpose, or a dense copy of that, and dim 0.
            options["columns"] = rng.choice((1, 2))
        k = number_near(rng, case.cols)
        cases.append(dataclasses.replace(case, k=k, options=tuple(options.items())))
    return cases


ALGORITHMS = ("auto", "air", "grid_select", "delegate", "bitonic", "split_bucket", "sort")


class Operators:
    """torch.ops.gputopk.topk on a device, whose answers are compared there and asked for once a batch."""

    def __init__(self, device: str):
        import torch_topk  # noqa: F401 (loads the operators)

        self.device = device
        self.topk = torch.ops.gputopk.topk
        self.algorithms = (
            ("auto",)
            if device == "cpu"
            else ("auto", "auto", "air", "grid_select", "delegate", "bitonic", "split_bucket", "sort")
        )
        self.most = 3000 if device == "cpu" else 70000
        self.calls = 24 if device == "cpu" else 96
        self.by_index = device != "cpu"  # there any order is by index

    def served(self, case: Case, tensor: torch.Tensor) -> bool:
        options = dict(case.options)
        algorithm = options.pop("algorithm", "auto")
        options.pop("columns", None)
        options.pop("by_index", None)
        if algorithm == "auto":
            return True
        try:
            torch.ops.gputopk._plan(
                tensor.to("meta"), case.k, algorithm=ALGORITHMS.index(algorithm), **options
            )
        except (RuntimeError, NotImplementedError):
            return False
        return True

    def wrong(self, case: Case, tensor: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """A bool on the device: whether the call's result is not the first k of `order`."""
        options = dict(case.options)
        algorithm = ALGORITHMS.index(options.pop("algorithm", "auto"))
        columns = options.pop("columns", 0)
        is_sorted, by_index = options.get("sorted", True), options.pop("by_index", False)
        topk = self.topk
        if by_index:
            topk = torch.ops.gputopk._topk_by_index
            del options["sorted"]
        if columns:
            columned = tensor.t() if columns == 1 else tensor.t().contiguous()
            values, indices = topk(columned, case.k, 0, algorithm=algorithm, **options)
            values, indices = values.t(), indices.t()
        else:
            values, indices = topk(tensor, case.k, algorithm=algorithm, **options)
        wanted, got = order[:, : case.k], indices.to(torch.int64)
        bad_values = (
            oracle.as_ints(tensor).gather(1, got.clamp(0, case.cols - 1)) != oracle.as_ints(values)
        ).any()
        if not is_sorted:
            wanted = wanted.sort(1).values
        if not is_sorted and not by_index:
            got = got.sort(1).values
        return (wanted != got).any() | bad_values

    def run(self, case: Case) -> None:
        tensor = case.tensor(self.device)
        options = dict(case.options)
        order = best_first(tensor, options.get("largest", True), options.get("magnitude", False))
        if self.served(case, tensor) and bool(self.wrong(case, tensor, order)):
            raise AssertionError("the result is not the oracle's")

    def batch(self, rng: random.Random) -> Iterator[tuple[Case, str | None]]:
        """Cases of one input, with what is wrong."""
        case = operator_case(rng, self.most)
        tensor = case.tensor(self.device)
        orders: dict[tuple, torch.Tensor] = {}
        cases, answers = [], []
        for call in calls_of(rng, case, self.algorithms, self.calls, self.by_index):
            if not self.served(call, tensor):
                continue
            options = dict(call.options)
            way = (options["largest"], options["magnitude"])
            if way not in orders:
                orders[way] = best_first(tensor, *way)
            cases.append(call)
            answers.append(self.wrong(call, tensor, orders[way]))
        for call, wrong in zip(cases, torch.stack(answers).tolist() if answers else [], strict=True):
            yield call, "the result is not the oracle's" if wrong else None


class Emulated:
    """The kernels over an emulated GPU: any form, whether it would serve or not, on devices of all kinds."""

    def __init__(self, forms: Sequence[str] = ()):
        from tests.simt import emulated

        self.emulated = emulated
        self.forms = list(forms) or emulated.library().forms()

    def draw(self, rng: random.Random) -> Case:
        dtype = rng.choice(oracle.DTYPES)
        most = rng.choice((300, 3000, 3000, 20000))
        cols = number_near(rng, most)
        rows = number_near(rng, max(1, min(12, 8000 // cols)))
        name = rng.choice([*inputs.names_for(dtype), *["mixed_rows"] * 8])
        k = number_near(rng, cols)
        options: dict[str, object] = {flag: rng.random() < 0.5 for flag in FLAGS}
        options["magnitude"] = rng.random() < 0.25
        if not options["sorted"] and rng.random() < 0.4:
            options["by_index"] = True
        if rng.random() < 0.3:
            options["index_dtype"] = torch.int32
        if rng.random() < 0.7:
            options["form"] = rng.choice(self.forms)
            options.update(forms.overrides_of(options["form"], rng))
        elif rng.random() < 0.5:
            options["algorithm"] = rng.choice(ALGORITHMS[1:])
        if "form" not in options and rng.random() < 0.3:
            options["inner"] = number_near(rng, 40)
            options["dim_last"] = rng.random() < 0.5
            rows = options["inner"] * rng.randint(1, 3)
            if rng.random() < 0.5:
                options["panel_bytes"] = number_near(rng, 100_000)
            cols, k = (min(number, 60_000 // rows + 1) for number in (cols, k))
        if options.get("form") == "delegate.from_sample":  # a sample takes so many bytes of a row
            rows, cols = 1, 70000 // dtype.itemsize + rng.randint(0, 20000)
        if options.get("form") == "delegate.two_bounds":  # samples of 256 elements and more
            rows, cols = rng.randint(1, 2), rng.randint(256, 40_000)
            k = number_near(rng, cols)
        options["sm_count"] = rng.randint(1, 6)
        options["cluster_blocks"] = rng.choice((1, 2, 4, 8, 16))
        options["cluster_room"] = rng.choice((16, 16, 16, 2, 1))
        if rng.random() < 0.3:
            options["most_cols_of_32_bits"] = 0
        return Case(
            dtype,
            name,
            rows,
            cols,
            k,
            rng.choice((0, 0, 1, 3, 5)),
            rng.choice((0, 0, 0, 1, 7)),
            rng.randrange(2**31),
            tuple(options.items()),
        )

    def run(self, case: Case) -> None:
        with contextlib.suppress(self.emulated.NotServed):
            self.emulated.run_case(case)

    def batch(self, rng: random.Random) -> Iterator[tuple[Case, str | None]]:
        case = self.draw(rng)
        try:
            self.emulated.run_case(case)
        except self.emulated.NotServed:
            return
        except AssertionError as error:
            yield case, str(error)
            return
        yield case, None


def ragged(device: str):
    """What stands beside topk."""
    from tests.fuzz_ragged import Ragged
    from tests.fuzz_ragged_simt import EmulatedRagged

    return EmulatedRagged() if device == "simt" else Ragged(device)


TARGETS = {
    "cpu": lambda: Operators("cpu"),
    "ragged": lambda: ragged("cpu"),
    "simt": Emulated,
    "simt-ragged": lambda: ragged("simt"),
    "cuda": lambda: Operators("cuda"),
    "cuda-ragged": lambda: ragged("cuda"),
}


def targets_here() -> list[str]:
    return [
        "cpu",
        "ragged",
        "simt",
        "simt-ragged",
        *(["cuda", "cuda-ragged"] if why_no_gpu() is None else []),
    ]


@dataclasses.dataclass
class Outcome:
    target: str
    seed: int
    cases: int = 0
    rows: int = 0
    failed: int = 0
    seconds: float = 0.0


def fuzz(
    name: str, target, seed: int, minutes: float, most_cases: int | None, most_failures: int = 5
) -> Outcome:
    outcome = Outcome(name, seed)
    begin = time.monotonic()
    batch = 0
    while outcome.failed < most_failures:
        outcome.seconds = round(time.monotonic() - begin, 1)
        if outcome.seconds >= 60 * minutes if most_cases is None else outcome.cases >= most_cases:
            break
        for case, problem in target.batch(random.Random(f"{seed} {batch}")):
            outcome.cases += 1
            outcome.rows += case.rows
            if problem is None:
                continue
            outcome.failed += 1
            print(f"FAILED {name}: {case}\n  {problem}", flush=True)
            small = shrink(case, lambda candidate: fails(target, candidate))
            print(f'  python -m tests.fuzz "{name}: {small}"', flush=True)
        batch += 1
    return outcome


def fails(target, case: Case) -> bool:
    if not (case.name == inputs.MIXED or inputs.applies(case.name, case.dtype)):
        return False
    try:
        target.run(case)
    except AssertionError:
        return True
    return False


def record(outcomes: list[Outcome], file: Path, commit: str | None = None) -> None:
    """Puts counts and seeds into the record of GPU tests; other targets' stay."""
    for outcome in outcomes:
        gpu_record.add(f"fuzz {outcome.target}", dataclasses.asdict(outcome), commit, file)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", nargs="*", help="cases to run again: target, colon, case")
    parser.add_argument("--targets", nargs="+", choices=sorted(TARGETS), default=None)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--cases", type=int, default=None, help="so many a target instead")
    parser.add_argument("--seed", type=int, default=None, help="default: of the clock")
    parser.add_argument("--record", type=Path, default=None, help="a JSON file to note counts and seeds in")
    parser.add_argument("--commit", type=commit_named, help="for the record, where this is not a checkout")
    args = parser.parse_args(arguments)
    for line in args.lines:
        name, text = line.split(":", 1)
        TARGETS[name]().run(Case.parse(text))
        print(f"{line}: passed")
    if args.lines:
        return 0
    names = args.targets or targets_here()
    seed = time.time_ns() % 2**31 if args.seed is None else args.seed
    outcomes = []
    for name in names:
        outcome = fuzz(name, TARGETS[name](), seed, args.minutes / len(names), args.cases)
        rate = outcome.cases / max(outcome.seconds, 1e-9) * 3600
        counts = f"{outcome.cases} cases, {outcome.rows} rows, {outcome.failed} failed in {outcome.seconds} s"
        print(f"{name}: {counts} ({rate:.0f} an hour), seed {seed}", flush=True)
        outcomes.append(outcome)
    if args.record:
        record(outcomes, args.record, args.commit)
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
