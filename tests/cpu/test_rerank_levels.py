"""Reranking on the CPU compiled for every level of vector instructions, each run on this CPU where it can be:
results against float64, canaries behind every buffer, and both again under the sanitizers."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import oracle
from tests import rerank_reference as reference
from tests.cpu import levels
from tests.cpu.levels import CANARY, GUARD, LEVELS


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


libraries = levels.libraries_of("rerank_queries", "rerank_cpu")


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_answers_and_stays_in_its_buffers(level, libraries, request):
    if level not in libraries:
        pytest.skip(f"this CPU has no {level}")
    probe = Probe(libraries[level])
    assert f"{level} vectors" in probe.describe()
    fuzz(probe, request.config.getoption("--fuzz-examples") or 80)


sanitized = levels.libraries_of("rerank_queries", "rerank_cpu", *levels.SANITIZE)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_clean_under_the_sanitizers(level, sanitized):
    if level not in sanitized:
        pytest.skip(f"this CPU has no {level}")
    levels.run_sanitized(__name__, sanitized[level], 40)
