"""Times rerank against what callers write in PyTorch without it: gather, batched distance, topk.

    python bench/bench_rerank.py                     # on the GPU if there is one; writes bench/results
    python bench/bench_rerank.py --device cpu --set goals
    python bench/bench_rerank.py --set few           # few queries, and rows of odd lengths
    python bench/bench_rerank.py --set grid --time-limit 300  # as many of its 694 shapes as that allows

Every figure is a ratio to something timed in the same run: "x torch", the time of the fastest of PyTorch's
formulations over ours, and "x floor", our time over that of a kernel that reads as many bytes as the
candidates' vectors have, one after the other (from the cache, where they fit there). The formulations, in
eager mode, all write q x c x d gathered elements first; where one uses the vectors' norms, those are computed
beforehand and not timed:

    subtract    ((gathered - queries) ** 2).sum(-1)                      l2
    bmm         products by torch.bmm, then norms added or divided by    all metrics
    cdist       torch.cdist                                              l2, float32

On the CPU FAISS is timed too, where it is installed, for float32 by l2 and inner product: the distances of a
flat index to a subset of its vectors, which is what its own refinement of an index calls, and the k best.

Our results are checked in float64 on a sample of the queries, the others' distances against ours where they
are float32. Exit status 1 if one of ours fails. No time makes it fail.

The goal is 1.15 times the floor, or 8 us more than it where it is 20 us or less.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import torch_topk
from bench import points, report, timing
from bench.contenders import floor_contender
from bench.points import Bench, contender_of
from bench.report import Record, number_text, size_text
from bench.timing import Contender, Outputs, two_tensors
from tests import rerank_reference as reference

VECTORS = {"cuda": 1_000_000, "cpu": 200_000}  # more than any cache holds
CHECKED_QUERIES = 50
OURS = "ours:rerank"
FAISS = "faiss"
MOST_GATHERED = 8 << 30  # bytes of a grid's point: what PyTorch's formulations write is several times that
FLOOR_RATIO, SHORT_US, MORE_US = 1.15, 20, 8  # the goal


@dataclass(frozen=True)
class Point:
    """One rerank request on random candidates."""

    queries: int
    candidates: int
    dims: int
    k: int
    metric: str = "l2"
    dtype: str = "float32"
    goal: float | None = None  # at least this many times as fast as PyTorch

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    @property
    def query_dtype(self) -> torch.dtype:
        return self.torch_dtype if self.torch_dtype.is_floating_point else torch.float32

    @property
    def gathered_bytes(self) -> int:
        return self.queries * self.candidates * self.dims * self.torch_dtype.itemsize

    @property
    def text(self) -> str:
        size = f"{self.queries} x {size_text(self.candidates)} x {self.dims}"
        return f"{size} k {self.k} {self.metric} {self.dtype}"


GOALS = [Point(1000, 1000, 128, k, goal=3.0) for k in (10, 100)]
MORE = [
    *(Point(1000, 1000, 128, 10, "l2", dtype) for dtype in ("float16", "bfloat16")),
    *(Point(1000, 1000, 128, 10, metric) for metric in ("inner_product", "cosine")),
    *(Point(1000, 1000, 128, k) for k in (1, 256, 300)),
    *(Point(1000, 1000, dims, 10) for dims in (32, 100, 129)),
    Point(1000, 200, 768, 10, "cosine", "float16"),
    Point(1000, 200, 768, 10, "inner_product"),
    Point(10_000, 100, 96, 10),
    Point(100, 10_000, 128, 100),
    Point(1, 100_000, 128, 100),
]
# Few queries, as one user's request has, and rows that 16-byte words do not fit.
FEW = [
    Point(1, 1000, 768, 10),
    Point(1, 1000, 1024, 10, "l2", "float16"),
    Point(8, 1000, 768, 10),
    Point(1, 1000, 128, 10),
    Point(1, 1000, 128, 500),
    Point(1, 10_000, 768, 100),
    Point(32, 1000, 768, 10),
    Point(100, 1000, 128, 10),
    Point(132, 256, 768, 10),
    Point(200, 200, 768, 10),
    Point(300, 10_000, 128, 10),
    Point(1000, 1000, 100, 10, "l2", "float16"),
    Point(1000, 1000, 300, 10, "cosine", "float16"),
    Point(1000, 1000, 129, 10, "l2", "float16"),
    Point(1, 1000, 100, 10, "l2", "float16"),
]


def grid() -> list[Point]:
    """Every shape with every dtype, and one k after another, in random order: a part of it is a sample."""
    shapes = itertools.product(
        (1, 8, 32, 132, 300, 1000, 10_000),
        (100, 1000, 10_000),
        (32, 96, 100, 128, 129, 300, 768, 1024, 1536),
        ("float32", "float16", "bfloat16", "int8"),
    )
    ks = itertools.cycle((10, 64, 100, 500, 10))  # five, so that they do not go round with the dtypes
    points = [
        Point(queries, candidates, dims, min(k, candidates), "l2", dtype)
        for (queries, candidates, dims, dtype), k in zip(shapes, ks, strict=False)
    ]
    points = [point for point in points if point.gathered_bytes <= MOST_GATHERED]
    random.Random(1).shuffle(points)
    return points


SETS = {"goals": GOALS, "few": FEW, "grid": grid(), "all": GOALS + MORE + FEW}


@dataclass(frozen=True)
class Data:
    """A point's tensors but for the vectors, which the timing hands in."""

    queries: torch.Tensor
    ids: torch.Tensor
    norms: torch.Tensor  # of the vectors, squared, float32


def torch_contenders(point: Point, data: Data) -> list[Contender]:
    """What callers write, with ids and distances as rerank returns them."""
    q, ids, larger = data.queries, data.ids, point.metric != "l2"
    widens = q.dtype != point.torch_dtype

    def best(distances: torch.Tensor) -> Outputs:
        values, positions = torch.topk(distances, point.k, -1, larger)
        return values, ids.gather(1, positions)

    def gathered(vectors: torch.Tensor) -> torch.Tensor:
        return vectors[ids].to(q.dtype) if widens else vectors[ids]

    def subtract(vectors: torch.Tensor) -> Outputs:
        return best(((gathered(vectors) - q[:, None]) ** 2).sum(-1))

    def cdist(vectors: torch.Tensor) -> Outputs:
        values, winners = best(torch.cdist(q[:, None], gathered(vectors)).squeeze(1))
        return values**2, winners

    def bmm(vectors: torch.Tensor) -> Outputs:
        products = torch.bmm(gathered(vectors), q[:, :, None]).squeeze(-1)
        if point.metric == "inner_product":
            return best(products)
        own = (q.float() ** 2).sum(-1, keepdim=True)
        if point.metric == "cosine":
            return best(products * torch.rsqrt(data.norms[ids] * own))
        return best(data.norms[ids] - 2 * products + own)

    calls: dict[str, Callable[[torch.Tensor], Outputs]] = {"bmm": bmm}
    if point.metric == "l2":
        calls["subtract"] = subtract
        if q.dtype == torch.float32:
            calls["cdist"] = cdist
    return points.torch_contenders(calls)


def faiss_contender(point: Point, data: Data) -> Contender | None:
    """FAISS's refinement, of an index that holds the vectors; None where it does not serve the point."""
    if data.ids.is_cuda or point.dtype != "float32" or point.metric == "cosine":
        return None
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(torch.get_num_threads())
    Index = faiss.IndexFlatL2 if point.metric == "l2" else faiss.IndexFlatIP

    def index_of(vectors: torch.Tensor) -> Any:
        index = Index(point.dims)
        index.add(vectors.numpy())
        return index

    queries, ids = faiss.swig_ptr(data.queries.numpy()), faiss.swig_ptr(data.ids.numpy())

    def call(index: Any) -> Outputs:
        distances = torch.empty(data.ids.shape)
        to = faiss.swig_ptr(distances.numpy())
        index.compute_distance_subset(point.queries, queries, point.candidates, to, ids)
        values, positions = torch.topk(distances, point.k, -1, point.metric != "l2")
        return values, data.ids.gather(1, positions)

    return Contender(FAISS, call, prepare=index_of, export=two_tensors, eager=False)


def our_contender(point: Point, data: Data) -> Contender:
    metric = int(torch_topk.Metric[point.metric])

    def call(vectors: torch.Tensor) -> Outputs:
        return torch.ops.gputopk.rerank(data.queries, vectors, data.ids, point.k, metric)

    return Contender(OURS, call, export=two_tensors)


def gather_floor(point: Point, device: torch.device) -> Contender:
    """A read of as many bytes as the candidates' vectors have."""
    gathered = torch.zeros(point.gathered_bytes, dtype=torch.uint8, device=device)
    floor = floor_contender(gathered)
    prepared = floor.prepare(gathered)
    return Contender("floor", lambda _: floor.call(prepared), eager=False)


def problem_of(outputs: Outputs, point: Point, data: Data, vectors: torch.Tensor) -> str | None:
    """What is wrong with our results, in float64 on a sample of the queries."""
    rows = torch.linspace(0, point.queries - 1, min(point.queries, CHECKED_QUERIES)).long().to(vectors.device)
    ids = data.ids[rows]
    # The vectors that these queries meet, and the ids among them.
    used, local_ids = torch.unique(ids, return_inverse=True)
    distances, winners = (tensor[rows] for tensor in outputs)
    local_winners = torch.searchsorted(used, winners.contiguous()).clamp(max=len(used) - 1)
    if not torch.equal(used[local_winners], winners):
        return "an id that is not a candidate's"
    result = (distances.contiguous(), local_winners.contiguous())
    try:
        reference.assert_close(result, data.queries[rows], vectors[used], local_ids, point.k, point.metric)
    except AssertionError as error:
        return timing.one_line(error)
    return None


def agrees(outputs: Outputs, ours: Outputs) -> bool:
    scale = ours[0].abs().max().clamp(min=1)
    return bool((outputs[0] - ours[0]).abs().max() <= 1e-3 * scale)


def run(point: Point, device: torch.device, budget_s: float) -> Record:
    """Times and checks one point; its record."""
    dtype, vector_count = point.torch_dtype, VECTORS[device.type]
    generator = torch.Generator(device).manual_seed(1)

    def normal(rows: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(rows, point.dims, dtype=dtype, device=device, generator=generator)

    if dtype.is_floating_point:
        vectors = normal(vector_count, dtype)
    else:
        size = (vector_count, point.dims)
        vectors = torch.randint(-128, 128, size, dtype=dtype, device=device, generator=generator)
    shape = (point.queries, point.candidates)
    ids = torch.randint(0, vector_count, shape, device=device, generator=generator)
    norms = torch.cat(
        [torch.linalg.vector_norm(rows.float(), dim=-1) ** 2 for rows in vectors.split(1 << 16)]
    )
    data = Data(normal(point.queries, point.query_dtype), ids, norms)
    contenders = [gather_floor(point, device), our_contender(point, data), *torch_contenders(point, data)]
    contenders += filter(None, [faiss_contender(point, data)])
    timings = timing.measure(contenders, timing.copies_of(vectors), budget_s)
    best_name, best_us = points.best_of_torch(timings)
    records = points.records_of(timings, OURS, best_us, lambda t: problem_of(t.outputs, point, data, vectors))
    ours = timings[OURS]
    for record in records:
        outputs = timings[record["name"]].outputs
        comparable = record["name"] != OURS and point.dtype == "float32"
        if comparable and outputs is not None and ours.outputs is not None:
            record["agrees"] = agrees(outputs, ours.outputs)
    return {
        "kind": "rerank",
        "queries": point.queries,
        "candidates": point.candidates,
        "dims": point.dims,
        "vectors": vector_count,
        "k": point.k,
        "metric": point.metric,
        "dtype": point.dtype,
        "goal_x_torch": point.goal,
        "plan": torch.ops.gputopk._rerank_plan(
            data.queries, vectors, ids, point.k, int(torch_topk.Metric[point.metric])
        ),
        "floor_us": timings["floor"].us,
        "best_torch": best_name,
        "contenders": records,
    }


def holds_goal(record: Record) -> bool:
    us, floor_us = contender_of(record, OURS)["us"], record["floor_us"]
    most = FLOOR_RATIO * floor_us if floor_us > SHORT_US else floor_us + MORE_US
    return us is not None and us <= most


def print_table(records: Sequence[Record]) -> None:
    rows = []
    for record in records:
        ours = contender_of(record, OURS)
        faiss_us = next((c["us"] for c in record["contenders"] if c["name"] == FAISS), None)
        x_faiss = faiss_us / ours["us"] if faiss_us and ours["us"] else None
        goal = record["goal_x_torch"]
        rows.append(
            [
                f"{record['queries']} x {size_text(record['candidates'])} x {record['dims']}",
                str(record["k"]),
                record["metric"],
                record["dtype"],
                number_text(ours["us"]),
                number_text(ours.get("x_floor")),
                "yes" if holds_goal(record) else "no",
                number_text(ours.get("x_torch")),
                (record["best_torch"] or "-").removeprefix(points.TORCH),
                number_text(goal),
                number_text(x_faiss),
            ]
        )
    columns = ["queries x candidates x dims", "k", "metric", "dtype", "us", "x floor", "held", "x torch"]
    print(report.table([*columns, "best", "goal", "x FAISS"], rows))
    held = sum(map(holds_goal, records))
    print(
        f"at most {FLOOR_RATIO} x floor, or {MORE_US} us more than it up to {SHORT_US} us: "
        f"held at {held} of {len(records)}"
    )


BENCH = Bench("rerank", __doc__, OURS, SETS, run, {"cuda": 1.5, "cpu": 5.0}, print_table, has_plot=True)


def main(arguments: Sequence[str] | None = None) -> int:
    return points.main(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
