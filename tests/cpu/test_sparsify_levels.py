"""Sparsification on the CPU compiled for every level of vector instructions, each run on this CPU where it
can be: exact results, canaries behind every buffer, and both again under the sanitizers."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import inputs, oracle
from tests import sparsify_reference as reference
from tests.cpu import levels
from tests.cpu.levels import CANARY, GUARD, LEVELS
from tests.sparsify_reference import ALPHA, MU


class Probe:
    """The compiled algorithm, called on copies of tensors with nothing but canaries behind them."""

    def __init__(self, path: Path | str, guard: int = GUARD):
        self.library = ctypes.CDLL(str(path))
        self.library.probe_workspace_bytes.restype = ctypes.c_int64
        self.library.probe_level.restype = ctypes.c_char_p
        self.guard = guard

    def level(self) -> str:
        return self.library.probe_level().decode()

    def sparsify(
        self, self_, k: int, threads: int, add=None, alpha=1.0, momentum=None, mu=0.0, index_dtype=torch.int32
    ):
        """As reference.check calls it."""
        rows, cols = self_.shape
        update = 0 if add is None else 3 if momentum is not None else 1 if alpha == 1 else 2
        numbers = np.array([update, rows, cols, k, index_dtype == torch.int64], np.int64)
        factors = np.array([alpha, mu], np.float64)
        names = [oracle.name_of(t.dtype).encode() for t in (self_, self_ if add is None else add)]
        request = [
            *names,
            numbers.ctypes.data_as(ctypes.c_void_p),
            factors.ctypes.data_as(ctypes.c_void_p),
            threads,
        ]
        workspace = self.library.probe_workspace_bytes(*request)
        tensors = {"self": self_, "add": add, "momentum": momentum}
        sizes = {name: 0 if t is None else t.numel() * t.element_size() for name, t in tensors.items()}
        sizes["values"] = rows * k * self_.element_size()
        sizes["indices"] = rows * k * index_dtype.itemsize
        sizes["workspace"] = workspace
        buffers = {name: np.full(size + self.guard, CANARY, np.uint8) for name, size in sizes.items()}
        for name, tensor in tensors.items():
            if tensor is not None:
                buffers[name][: sizes[name]] = oracle.bits_of(tensor).reshape(-1).view(np.uint8)
        pointers = [
            None if name in tensors and tensors[name] is None else buffer.ctypes.data_as(ctypes.c_void_p)
            for name, buffer in buffers.items()
        ]
        self.library.probe_sparsify(*request, *pointers)
        for name, size in sizes.items():
            assert (buffers[name][size:] == CANARY).all(), f"written behind the {name}"

        def result(name, dtype, shape):
            if sizes[name] == 0:
                return torch.empty(shape, dtype=dtype)
            return torch.from_numpy(buffers[name][: sizes[name]].copy()).view(dtype).view(shape)

        if add is not None:
            assert torch.equal(oracle.as_ints(result("add", add.dtype, add.shape)), oracle.as_ints(add))
        self_.copy_(result("self", self_.dtype, self_.shape))
        if momentum is not None:
            momentum.copy_(result("momentum", momentum.dtype, momentum.shape))
        return result("values", self_.dtype, (rows, k)), result("indices", index_dtype, (rows, k))


def fuzz(probe: Probe, examples: int, seed: int = 0) -> None:
    """Requests of every kind, each checked."""
    generator = random.Random(seed)
    for example in range(examples):
        dtype, add_dtype = generator.choice(reference.PAIRS)
        long_row = generator.random() < 0.25
        rows = generator.randint(1, 2 if long_row else 6)
        cols = generator.randint(16_380, 40_000) if long_row else max(1, int(2 ** generator.uniform(0, 11)))
        k = generator.choice([0, 1, cols, generator.randint(1, cols), min(cols, 40)])
        threads = generator.choice([1, 1, 2, 5])
        name = generator.choice(inputs.names_for(torch.float32))
        made = [inputs.make(name, rows, cols, torch.float32, seed=example + i) for i in range(3)]
        self, add, momentum = (t.to(d) for t, d in zip(made, (dtype, add_dtype, dtype), strict=True))
        options = generator.choice(
            [{}, {"add": add}, {"add": add, "alpha": ALPHA}, {"add": add, "momentum": momentum, "mu": MU}]
        )
        options["index_dtype"] = generator.choice([torch.int32, torch.int64])
        reference.check(lambda t, k, n=threads, **o: probe.sparsify(t, k, n, **o), self, k, **options)


libraries = levels.libraries_of("sparsify_rows", "sparsify_cpu")


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_answers_and_stays_in_its_buffers(level, libraries, request):
    if level not in libraries:
        pytest.skip(f"this CPU has no {level}")
    probe = Probe(libraries[level])
    assert probe.level() == level
    fuzz(probe, request.config.getoption("--fuzz-examples") or 120)


sanitized = levels.libraries_of("sparsify_rows", "sparsify_cpu", *levels.SANITIZE)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_clean_under_the_sanitizers(level, sanitized):
    if level not in sanitized:
        pytest.skip(f"this CPU has no {level}")
    levels.run_sanitized(__name__, sanitized[level], 40)
