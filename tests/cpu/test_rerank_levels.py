"""Reranking on the CPU compiled for every level of vector instructions, each run on this CPU where it can be:
results against float64, canaries behind every buffer, and both again under the sanitizers."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import compiler, oracle
from tests import rerank_reference as reference
from tests.cpu import test_levels

HERE = Path(__file__).resolve().parent
CANARY, GUARD = test_levels.CANARY, test_levels.GUARD


def build(folder: Path, level: str, *flags: str) -> Path:
    """All levels, on a CPU that seems to have nothing beyond `level`."""
    levels = test_levels.LEVELS
    higher = list(levels)[list(levels).index(level) + 1 :]
    hidden = " ".join(need for name in higher for need in levels[name][1] if need not in levels[level][1])
    pretend = f'-D__builtin_cpu_supports(name)=(!__builtin_strstr("{hidden}", name))'
    objects = [
        compiler.compile_object(
            compiler.CSRC / "cpu" / "rerank_queries.cpp",
            folder / f"rerank_queries_{name}.o",
            f"-DGPUTOPK_CPU_LEVEL={name}",
            *levels[name][0],
            *flags,
        )
        for name in levels
        if test_levels.X86 or name == "baseline"
    ]
    objects += [
        compiler.compile_object(source, folder / f"{source.stem}.o", pretend, *flags)
        for source in (compiler.CSRC / "cpu" / "rerank_cpu.cpp", HERE / "rerank_cpu_probe.cpp")
    ]
    return compiler.link_shared(objects, folder / "probe.so", *flags)


class Probe:
    """The compiled algorithm, called on copies of tensors with nothing but canaries behind them."""

    def __init__(self, path: Path | str, guard: int = GUARD):
        self.library = ctypes.CDLL(str(path))
        self.library.probe_workspace_bytes.restype = ctypes.c_int64
        self.library.probe_describe.restype = ctypes.c_char_p
        self.guard = guard

    def describe(self) -> str:
        return self.library.probe_describe().decode()

    def rerank(
        self, queries, vectors, ids, k: int, metric: str, threads: int, *,
        lengths=None, row_offsets=None, allow=None, scales=None,
    ):  # fmt: skip
        dtypes = [self.library.probe_dtype(oracle.name_of(t.dtype).encode()) for t in (vectors, queries)]
        ranges = lengths if row_offsets is None else row_offsets
        numbers = np.array(
            [
                *dtypes, reference.METRICS.index(metric), len(queries), len(vectors), max(ids.shape[-1], k),
                0 if row_offsets is None else len(ids), queries.shape[1], k,
                ids.shape[1] if ids.dim() == 2 else 0, ids.dtype == torch.int64,
                ranges is not None and ranges.dtype == torch.int64,
                0 if allow is None or allow.dtype == torch.bool else 3,
            ],
            np.int64,
        )  # fmt: skip
        request = numbers.ctypes.data_as(ctypes.c_void_p)
        tensors = (queries, vectors, ids, lengths, row_offsets, allow, scales)
        inputs = [None if tensor is None else oracle.bits_of(tensor).copy() for tensor in tensors]
        addresses = [None if copy is None else copy.ctypes.data for copy in inputs]
        outputs = {
            "distances": len(queries) * k * 4,
            "ids": len(queries) * k * ids.dtype.itemsize,
            "workspace": self.library.probe_workspace_bytes(request, threads),
        }
        buffers = {name: np.full(size + self.guard, CANARY, np.uint8) for name, size in outputs.items()}
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in buffers.values()]
        self.library.probe_rerank(request, threads, (ctypes.c_void_p * len(inputs))(*addresses), *pointers)
        for name, size in outputs.items():
            assert (buffers[name][size:] == CANARY).all(), f"written behind the {name}"
        for tensor, copy in zip(tensors, inputs, strict=True):
            assert tensor is None or (copy == oracle.bits_of(tensor)).all(), "an input was written to"
        results = (
            torch.from_numpy(buffers[name][: outputs[name]]).view(dtype).view(len(queries), k)
            for name, dtype in (("distances", torch.float32), ("ids", ids.dtype))
        )
        return tuple(results)


def fuzz(probe: Probe, examples: int, seed: int = 0) -> None:
    """Requests of every kind, each checked."""
    generator = random.Random(seed)
    for example in range(examples):
        dtype, query_dtype = generator.choice(reference.VECTOR_DTYPES), generator.choice(reference.DTYPES)
        dims = generator.choice([0, 1, 15, 16, 17, 63, 64, 65, generator.randint(1, 300)])
        queries, vectors = generator.randint(1, 4), generator.randint(1, 200)
        candidates = max(1, int(2 ** generator.uniform(0, 11)))
        k = generator.choice([1, candidates, generator.randint(1, candidates), min(10, candidates)])
        threads = generator.choice([1, 1, 2, 8])
        form = generator.choice(["matrix", "matrix", "one list", "offsets"])
        ids = reference.some_ids(
            queries if form == "matrix" else 1,
            candidates,
            vectors,
            generator.choice([torch.int32, torch.int64]),
            seed=example,
        )
        ids = ids if form == "matrix" else ids[0]
        options, plain = {}, {}
        range_dtype = generator.choice([torch.int32, torch.int64])
        if form == "offsets":
            offsets = [generator.randint(-5, candidates + 5) for _ in range(queries + 1)]
            options["row_offsets"] = plain["row_offsets"] = torch.tensor(offsets, dtype=range_dtype)
        elif generator.random() < 0.3:
            lengths = [generator.randint(-5, candidates + 5) for _ in range(queries)]
            options["lengths"] = plain["lengths"] = torch.tensor(lengths, dtype=range_dtype)
        if generator.random() < 0.3:
            plain["mask"] = mask = torch.tensor([generator.random() < 0.7 for _ in range(vectors)])
            bits = generator.choice([torch.uint8, torch.int32])
            options["allow"] = mask if generator.random() < 0.3 else reference.bits_of_mask(mask, bits)
        metric = generator.choice(reference.METRICS)
        exact = metric != "cosine" and generator.random() < 0.5
        make = reference.whole_numbers if exact else reference.any_numbers
        check = reference.assert_exact if exact else reference.assert_close
        rows, table = (
            make(queries, dims, query_dtype, seed=example),
            make(vectors, dims, dtype, seed=example + 1),
        )
        numbers = table
        if dtype in (torch.int8, torch.uint8) and generator.random() < 0.5:
            scales = [2.0 ** generator.randint(-2, 2) for _ in range(vectors)]
            options["scales"] = torch.tensor(scales)
            numbers = table * options["scales"][:, None]
        result = probe.rerank(rows, table, ids, k, metric, threads, **options)
        check(result, rows, numbers, reference.plain_ids(ids, queries, k, **plain), k, metric)


@pytest.mark.parametrize("level", test_levels.LEVELS)
def test_every_level_answers_and_stays_in_its_buffers(level, tmp_path, request):
    if not test_levels.has_level(level):
        pytest.skip(f"this CPU has no {level}")
    probe = Probe(build(tmp_path, level))
    assert f"{level} vectors" in probe.describe()
    fuzz(probe, request.config.getoption("--fuzz-examples") or 80)


UNDER_SANITIZERS = """
import sys
from tests.cpu.test_rerank_levels import Probe, fuzz
fuzz(Probe(sys.argv[1], guard=0), int(sys.argv[2]), seed=1)
print("clean")
"""


@pytest.mark.parametrize("level", test_levels.LEVELS)
def test_every_level_is_clean_under_the_sanitizers(level, tmp_path):
    if not test_levels.has_level(level):
        pytest.skip(f"this CPU has no {level}")
    runtimes = [test_levels.runtime_library(name) for name in ("libasan.so", "libubsan.so")]
    if None in runtimes:
        pytest.skip("the compiler has no sanitizer runtimes")
    path = build(tmp_path, level, *test_levels.SANITIZE)
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(HERE.parents[1]),
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNDER_SANITIZERS, str(path), "40"],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.strip() == "clean", done.stderr[-3000:]
