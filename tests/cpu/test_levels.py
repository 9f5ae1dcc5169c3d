"""csrc/cpu by itself, at each level of vector instructions that this machine has.

Each library is called through ctypes with buffers of exactly the sizes asked for: once with canaries behind
them, and once under the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import inputs, oracle
from tests.cpu import levels
from tests.cpu.levels import CANARY, GUARD, LEVELS


class Probe:
    """The compiled algorithm, called on NumPy arrays."""

    def __init__(self, path: Path | str, guard: int = GUARD):
        self.library = ctypes.CDLL(str(path))
        self.library.probe_workspace_bytes.restype = ctypes.c_int64
        self.library.probe_dtype_name.restype = ctypes.c_char_p
        self.guard = guard
        names = [self.library.probe_dtype_name(i).decode() for i in range(len(oracle.DTYPES))]
        self.dtype_numbers = {dtype: names.index(oracle.name_of(dtype)) for dtype in oracle.DTYPES}

    def describe(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.library.probe_describe(text, ctypes.c_int64(256))
        return text.value.decode()

    def _buffer(self, size: int) -> np.ndarray:
        return np.full(size + self.guard, CANARY, np.uint8)

    def _request(self, tensor: torch.Tensor, k: int, flags: tuple, dim: int) -> np.ndarray:
        cols = tensor.shape[dim]
        numbers = [self.dtype_numbers[tensor.dtype], tensor.numel() // cols, cols, k, *flags]
        layout = [dim % tensor.dim(), tensor.dim(), *tensor.shape, *tensor.stride()]
        return np.array(numbers + layout, np.int64)

    def workspace_bytes(self, tensor: torch.Tensor, k: int, threads: int, dim: int = -1) -> int:
        numbers = self._request(tensor, k, (True, True, False, True), dim)
        return self.library.probe_workspace_bytes(numbers.ctypes.data_as(ctypes.c_void_p), threads)

    def topk(
        self, tensor: torch.Tensor, k: int, threads: int, largest, sorted, magnitude, index_dtype, dim=-1
    ):
        """values and indices of a tensor of any strides, after a look at the canaries."""
        numbers = self._request(tensor, k, (largest, sorted, magnitude, index_dtype == torch.int64), dim)
        request = numbers.ctypes.data_as(ctypes.c_void_p)
        shape = list(tensor.shape)
        shape[dim] = k
        outputs = tensor.numel() // tensor.shape[dim] * k
        sizes = {
            "values": outputs * tensor.dtype.itemsize,
            "indices": outputs * index_dtype.itemsize,
            "workspace": self.library.probe_workspace_bytes(request, threads),
        }
        buffers = {name: self._buffer(size) for name, size in sizes.items()}
        # A copy of what the tensor spans, so that nothing but the last row lies behind it.
        span = 1 + sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        spanned = oracle.bits_of(tensor.as_strided((span,), (1,)))
        source = spanned.copy()
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (source, *buffers.values())]
        self.library.probe_topk(request, threads, *pointers)
        for name, size in sizes.items():
            assert (buffers[name][size:] == CANARY).all(), f"written behind the {name}"
        assert (source == spanned).all(), "the input was written to"
        values = buffers["values"][: sizes["values"]].view(f"u{tensor.dtype.itemsize}").reshape(shape)
        indices = buffers["indices"][: sizes["indices"]].view(f"i{index_dtype.itemsize}").reshape(shape)
        return oracle.from_bits(values, tensor.dtype), torch.from_numpy(indices)


# How a tensor of rows comes to lie otherwise: (the rows as they are to be, with the selected dimension last)
# -> (a tensor of other strides or shape, the selected dimension).
LAYOUTS = {
    "dense": lambda rows: (rows, -1),
    "columns": lambda rows: (rows.t().contiguous(), 0),
    "middle": lambda rows: (rows.unflatten(0, (1 if len(rows) % 2 else 2, -1)).mT.contiguous(), 1),
    "outputs only": lambda rows: (rows.t(), 0),  # the rows are dense, and the outputs columns
    "every third": lambda rows: (rows.repeat_interleave(3, 1)[:, ::3], 1),
    "part of columns": lambda rows: (torch.cat((rows, rows)).t().contiguous()[:, 1 : len(rows) + 1], 0),
    "two strides": lambda rows: (torch.stack((rows, rows), 1)[:, 1:].expand(-1, 2, -1), 2),
}


def fuzz(probe: Probe, examples: int, seed: int = 0) -> None:
    """Requests of every kind, each checked."""
    generator = random.Random(seed)
    for example in range(examples):
        dtype = generator.choice(oracle.DTYPES)
        cols = max(1, int(2 ** generator.uniform(0, 17)) + generator.randint(-2, 2))
        rows = generator.randint(1, max(1, min(generator.choice([6, 6, 6, 70]), (1 << 18) // cols)))
        k = min(cols, max(1, int(2 ** generator.uniform(0, 12))))
        k = generator.choice([k, k, max(1, cols - k), cols, 1])
        tensor = inputs.make(generator.choice(inputs.names_for(dtype)), rows, cols, dtype, seed=example)
        flags = [generator.random() < 0.5 for _ in range(3)]
        index_dtype = generator.choice([torch.int64, torch.int32])
        threads = generator.choice([1, 1, 2, 3, 8])
        tensor, dim = LAYOUTS[generator.choice(["dense", *LAYOUTS])](tensor)
        result = probe.topk(tensor, k, threads, *flags, index_dtype, dim)
        largest, order, magnitude = flags
        oracle.assert_topk(
            result, tensor, k, dim, largest, order, magnitude=magnitude, index_dtype=index_dtype
        )


libraries = levels.libraries_of("select_rows", "topk_cpu")


@pytest.fixture(scope="module", params=LEVELS)
def probe(request, libraries) -> Probe:
    level = request.param
    if level not in libraries:
        pytest.skip(f"this CPU has no {level}")
    probe = Probe(libraries[level])
    assert f"{level} vectors" in probe.describe()
    return probe


def test_every_level_answers_exactly_and_stays_in_its_buffers(probe, request):
    fuzz(probe, request.config.getoption("--fuzz-examples") or 300)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_level_answers_every_named_input_exactly(probe, dtype):
    for name in inputs.names_for(dtype):
        tensor = inputs.make(name, 2, 5000, dtype, seed=8)
        for k, (largest, order) in zip(
            (1, 33, 700, 4999), itertools.product((True, False), repeat=2), strict=True
        ):
            result = probe.topk(tensor, k, 1, largest, order, k == 33, torch.int64)
            oracle.assert_topk(result, tensor, k, -1, largest, order, magnitude=k == 33)


# Rows of a few elements have a kernel of their own, 64 bytes' worth of rows at a time, and short rows with
# few winners another: up to 1024 elements and k = 16, 16 rows at a time.
SHORT_COLS = [*range(1, 51), *range(61, 68), 100, *range(126, 131), 192, 200, 256, 1000, *range(1023, 1026)]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=oracle.name_of)
def test_every_level_answers_short_rows_exactly(probe, dtype):
    names = itertools.cycle(inputs.names_for(dtype))
    flags = itertools.cycle(itertools.product((True, False), repeat=3))
    index_dtypes = itertools.cycle([torch.int64, torch.int64, torch.int32])
    layouts = itertools.cycle(LAYOUTS.values())
    for cols in SHORT_COLS:
        rows = inputs.make(next(names), 1 + cols * 7 % 80, cols, dtype, seed=cols)
        for k in {1, 2, cols % 15 + 2, 16, 17, cols - 1, cols}:
            if not 1 <= k <= cols:
                continue
            (largest, order, magnitude), index_dtype = next(flags), next(index_dtypes)
            tensor, dim = next(layouts)(rows)
            result = probe.topk(tensor, k, 1, largest, order, magnitude, index_dtype, dim)
            oracle.assert_topk(
                result, tensor, k, dim, largest, order, magnitude=magnitude, index_dtype=index_dtype
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=oracle.name_of)
@pytest.mark.parametrize("columns", [1, 2, 15, 64, 65])
def test_every_level_answers_long_columns_exactly(probe, columns, dtype):
    """Longer than a panel of them, in one piece and in several, with floors from delegates and from cuts."""
    names = itertools.cycle(["normal", "increasing", "few_distinct", "decreasing", "all_equal", "mixed_rows"])
    cols = 33_001
    for k, threads, order in ((1, 1, True), (30, 2, False), (100, 3, True), (5000, 3, True), (cols, 1, True)):
        tensor, dim = LAYOUTS["columns"](inputs.make(next(names), columns, cols, dtype, seed=k))
        result = probe.topk(tensor, k, threads, True, order, False, torch.int64, dim)
        oracle.assert_topk(result, tensor, k, dim, True, order)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.uint64], ids=oracle.name_of)
def test_every_level_sorts_long_keys_that_differ_in_their_last_bits(probe, dtype):
    """Long keys are sorted by the first 32 bits of their range: here few or many agree in those."""
    generator = torch.Generator().manual_seed(3)
    for spread, bits in itertools.product((2, 1000, 2**33, 2**50), (0, 40, 62)):
        ordinals = torch.randint(0, spread, (2, 6000), generator=generator)
        ordinals[:, 7] += 2**bits
        tensor = ordinals.view(dtype)
        for k, order in ((5000, True), (3000, True), (3000, False)):
            for largest in (True, False):
                result = probe.topk(tensor, k, 1, largest, order, False, torch.int64)
                oracle.assert_topk(result, tensor, k, -1, largest, order)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32], ids=oracle.name_of)
def test_every_level_cuts_long_rows_of_few_values(probe, dtype):
    for values in (2, 3, 50):
        tensor = (inputs.make("few_distinct", 1, 150_000, torch.int64, seed=values) % values).to(dtype)
        tensor[0, 77] = 2**30
        for k in (75_000, 30_000):
            result = probe.topk(tensor, k, 1, True, True, False, torch.int64)
            oracle.assert_topk(result, tensor, k, -1)


def test_workspace_is_below_64_mb_a_thread(probe):
    """The input is read where it lies. (Meta tensors: only sizes and strides are asked.)"""
    for dtype, rows, cols, k, threads in itertools.product(
        (torch.int8, torch.float32, torch.float64),
        (1, 2, 64, 10**6),
        (8, 100, 5000, 10**6, 10**9),
        (1, 1000, 100_000),
        (1, 8),
    ):
        for dim, shape in ((0, (cols, rows)), (1, (rows, cols)), (1, (3, cols, rows))):
            tensor = torch.empty(1, dtype=dtype, device="meta").expand(shape)
            tensor = tensor.as_strided(shape, [math.prod(shape[i + 1 :]) for i in range(len(shape))])
            if k <= cols:
                assert probe.workspace_bytes(tensor, k, threads, dim) < threads * 64 * 2**20, (shape, k)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int64, torch.float16, torch.uint8], ids=oracle.name_of
)
def test_every_level_tells_short_rows_with_crowds_and_ties_from_others(probe, dtype):
    """Rows of which too much reaches any floor lie between rows that are ranked, and rows of many ties."""
    for cols, k in itertools.product((64, 640, 1024), (2, 5, 8, 16)):
        tensor = inputs.make("normal", 50, cols, dtype, seed=cols + k)
        for step, rows in ((8, slice(3, None, 7)), (16, slice(4, None, 7)), (64, slice(5, None, 7))):
            places = torch.arange(0, cols, step)
            tensor[rows, places] = (100 + places.flip(0) % 27).to(dtype)
        tensor[6::7] = tensor[0, 0]
        tensor[6::14, cols // 2 :: 3] = 99
        for largest, order in itertools.product((True, False), repeat=2):
            result = probe.topk(tensor, k, 1, largest, order, False, torch.int64)
            oracle.assert_topk(result, tensor, k, -1, largest, order)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int64, torch.bfloat16, torch.uint8], ids=oracle.name_of
)
def test_every_level_answers_rows_in_order_and_almost_in_order(probe, dtype):
    """Rows of up to 64 that lie in order are told from those that all but do: for equals, or for one step."""
    for cols, k in itertools.product((2, 17, 40, 63, 64, 65), (2, 3, 16)):
        if k > cols:
            continue
        ascending = (torch.arange(cols) + 1).repeat(9, 1)
        ascending[1, cols // 2] = ascending[1, cols // 2 - 1]  # equals in the middle
        ascending[2, -1] = ascending[2, -2]  # and at the end
        ascending[3, -1] = 0  # the last step goes down
        ascending[4, 0] = cols + 1  # the first does
        ascending[5] = 7
        ascending[6] = (ascending[6] - 1) // 2
        ascending[7, -1] += 9
        for tensor in (ascending.to(dtype), ascending.flip(1).to(dtype)):
            for largest in (True, False):
                result = probe.topk(tensor, k, 1, largest, True, False, torch.int64)
                oracle.assert_topk(result, tensor, k, -1, largest, True)


def test_the_canaries_are_looked_at(probe):
    """A library that asks for half its workspace is found out."""

    class Miser:
        def __getattr__(self, name):
            return getattr(probe.library, name)

        def probe_workspace_bytes(self, *arguments):
            return probe.library.probe_workspace_bytes(*arguments) // 2

    miser = Probe.__new__(Probe)
    miser.library, miser.dtype_numbers = Miser(), probe.dtype_numbers
    miser.guard = 1 << 25  # room for what lies behind the half
    tensor = inputs.make("increasing", 1, 300_000, torch.float64)
    with pytest.raises(AssertionError, match="behind the workspace"):
        miser.topk(tensor, 200_000, 1, True, True, False, torch.int64)


@pytest.mark.skipif(not levels.X86, reason="levels are x86's")
def test_the_library_takes_the_highest_level_that_this_cpu_has():
    import torch_topk  # noqa: F401  registers the operator

    highest = [level for level in LEVELS if levels.has_level(level)][-1]
    assert f"{highest} vectors" in torch.ops.gputopk._plan(torch.zeros(3, 100), 5)


# Under the sanitizers.


sanitized = levels.libraries_of("select_rows", "topk_cpu", *levels.SANITIZE)


@pytest.mark.parametrize("level", LEVELS)
def test_the_sanitizers_have_nothing_to_report(level, sanitized):
    if level not in sanitized:
        pytest.skip(f"this CPU has no {level}")
    levels.run_sanitized(__name__, sanitized[level], 100)
