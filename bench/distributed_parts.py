"""What bench_distributed.py measures: each part is a function of the ranks that yields records."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bench import exact
from bench.contenders import floor_contender, verdict
from bench.message_model import Request
from bench.ranks import Ranks
from bench.report import Record
from torch_topk import StreamingTopK, TopKState, distributed, sparse_all_reduce_, sparse_sum, sparsify_, topk
from torch_topk._messages import all_gather_single, exchange, pack, unpack

GOALS = {2048: 1.05, 2**20: 1.15, 2**26: 1.3}  # x local, by k
LINK_GOAL, STREAM_FLOOR_GOAL = 0.9, 1.15
DENSITY = 0.01  # of sparse gradients
QUEUED = 20  # collectives one behind the other, for the latency that is not the host's
BYTES_EACH = 6.5  # of memory, for an element of float32 that is selected from: itself and a workspace


@dataclass(frozen=True)
class Sizes:
    local_elements: int  # of the row, on each rank
    ks: tuple[int, ...]
    roads: tuple[tuple[int, int], ...]  # rows and k of lists that are joined either way
    large_bytes: int  # of the message that bandwidth is measured by
    gradients: tuple[int, ...]
    host_elements: int  # streamed from the host
    host_chunks: tuple[int, ...]
    device_chunk: int


SIZES = {
    "full": Sizes(
        2**32,
        tuple(GOALS),
        (*((1, 2**n) for n in range(10, 21)), *((64, 2**n) for n in range(9, 17))),
        2**28,
        (25_000_000, 350_000_000),
        2**29,
        (2**24, 2**26),
        2**28,
    ),
    "quick": Sizes(2**15, (64, 2**10, 2**14), ((1, 64), (3, 2**10)), 2**20, (5000,), 2**15, (2**12,), 2**13),
}


# --- distributed.topk -----------------------------------------------------------------------------


def topk_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """Every k and way to gather, beside the local top-k of the same run."""
    n = ranks.elements_that_fit(sizes.local_elements, BYTES_EACH)
    local = ranks.randn(n)
    for k in (k for k in sizes.ks if k <= n):
        calls: dict[str, Callable[[], Any]] = {"local": lambda k=k: topk(local, k)}
        for gather in ("all", "root", "none"):
            calls[gather] = functools.partial(distributed.topk, local, k, gather=gather)
        us = ranks.medians(calls)
        for gather in ("all", "root", "none"):
            problem = problem_of(ranks, local, k, gather)
            yield {
                "kind": "topk",
                "elements": n * ranks.count,
                "wanted_elements": sizes.local_elements * ranks.count,
                "local_elements": n,
                "ranks": ranks.count,
                "k": k,
                "gather": gather,
                "narrows": Request(ranks.count, k, n).narrows,
                "us": us[gather],
                "local_us": us["local"],
                "x_local": us[gather] / us["local"],
                "goal_x_local": GOALS.get(k),
                **verdict(problem),
            }


def problem_of(ranks: Ranks, local: Tensor, k: int, gather: str) -> str | None:
    """What is wrong with a result, on whichever rank; by counting, as no rank could sort the whole row."""
    values, indices, counts = distributed.topk(local, k, gather=gather)
    n, begin = local.numel(), ranks.rank * local.numel()
    problem = None
    if gather == "root":
        if ranks.rank != 0:
            problem = None if values.numel() + int(counts) == 0 else "a result on a rank that is not the root"
            values, indices = values.new_empty(k), indices.new_empty(k)
        for tensor in (values, indices):
            dist.broadcast(tensor, 0)
    if gather != "none":
        for tensor in (values, indices):
            of_rank_0 = tensor.clone()
            dist.broadcast(of_rank_0, 0)
            if not torch.equal(of_rank_0, tensor):
                problem = "not what rank 0 has"
        if not exact.in_order(values, indices, "value"):
            problem = "not best first, or an index twice"
        mine = (indices >= begin) & (indices < begin + n)
        values, indices = values[mine], indices[mine]
    found = exact.problem_of(local, values, indices, k, begin=begin, reduce=ranks.reduce)
    return ranks.first_problem(problem or found)


def roads_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """Lists that are there, gathered whole and narrowed: where the one becomes faster than the other."""
    for rows, k in sizes.roads:
        values = ranks.randn(rows, k).sort(-1, descending=True).values
        begin = ranks.rank * k
        indices = torch.arange(begin, begin + k, device=ranks.device).expand(rows, -1).contiguous()
        shards = distributed.Shards([k] * ranks.count, [r * k for r in range(ranks.count)])
        request = Request(ranks.count, k, k, rows)
        join = functools.partial(
            distributed.select_of_lists, distributed._Lists(values, indices), k, shards, None
        )
        for gather in ("all", "none"):
            calls = {
                name: functools.partial(join, gather=gather, narrows=narrows)
                for name, narrows in (("gathered", False), ("narrowed", True))
            }
            us = ranks.medians(calls)
            one, other = (call() for call in calls.values())
            same = all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
            problem = None if same else "the two ways differ"
            for row in range(rows):
                of_row = one.indices[row]
                mine = (of_row >= begin) & (of_row < begin + k)
                found = exact.problem_of(
                    values[row], one.values[row][mine], of_row[mine], k, begin=begin, reduce=ranks.reduce
                )
                problem = problem or found
            problem = ranks.first_problem(problem)
            yield {
                "kind": "roads",
                "rows": rows,
                "k": k,
                "ranks": ranks.count,
                "gather": gather,
                "gathered_per_counted": ranks.count * request.gathered_bytes / request.counted_bytes,
                "gathered_us": us["gathered"],
                "narrowed_us": us["narrowed"],
                **verdict(problem),
            }


def scaling_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """Rank 0 alone and all of them: on as many elements in all, and on as many a rank."""
    n = ranks.elements_that_fit(sizes.local_elements, BYTES_EACH)
    local = ranks.randn(n)
    for k in (k for k in sizes.ks if k <= n // ranks.count):
        part = local[: n // ranks.count]

        def one(k: int = k) -> None:
            if ranks.rank == 0:
                distributed.topk(local, k, group=ranks.first)

        calls = {
            "one": one,
            "strong": lambda k=k, part=part: distributed.topk(part, k),
            "weak": lambda k=k: distributed.topk(local, k),
        }
        us = ranks.medians(calls)
        for scaling, elements in (("strong", n), ("weak", n * ranks.count)):
            yield {
                "kind": "scaling",
                "scaling": scaling,
                "ranks": ranks.count,
                "elements": elements,
                "k": k,
                "one_us": us["one"],
                "us": us[scaling],
                # Of what so many ranks could do at best.
                "efficiency": us["one"] / us[scaling] / (ranks.count if scaling == "strong" else 1),
            }


def model_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """The constants of docs/distributed.md's model."""
    device, count = ranks.device, ranks.count
    small, counts = (
        torch.zeros(15, dtype=torch.int64, device=device),
        torch.zeros(2**11, device=device).long(),
    )
    large = torch.zeros(sizes.large_bytes, dtype=torch.uint8, device=device)
    wide = large.view(torch.int64)
    x = ranks.randn(1000)
    agree = functools.partial(distributed._agree, x, 5, None, None, True, False, True, "all")

    def queued(call: Callable[[], Any]) -> Callable[[], None]:
        def calls() -> None:
            for _ in range(QUEUED):
                call()

        return calls

    us = ranks.medians(
        {
            "agreement": agree,
            "gather": lambda: exchange(small, None),
            "gathers": queued(lambda: exchange(small, None)),
            "reduce": lambda: dist.all_reduce(counts),
            "reduces": queued(lambda: dist.all_reduce(counts)),
            "large_gather": lambda: exchange(large, None),
            "large_reduce": lambda: dist.all_reduce(wide),
        }
    )
    merge_us = {}
    for k in sizes.ks:
        lists = distributed._Lists(
            ranks.randn(1, k).sort(-1, descending=True).values, torch.arange(k, device=device)[None]
        )
        shards = distributed.Shards([k] * count, [r * k for r in range(count)])
        for won in {k, -(-k // count)}:  # of each list: gathered whole, or winners alone
            numbers = None if won == k else torch.full((count, 1), won, device=device)
            gathered = [distributed._Lists(lists.values[:, :won], lists.indices[:, :won])] * count
            merge = functools.partial(distributed._merge, gathered, numbers, k, shards, True, False, True)
            merge_us[won * count] = ranks.medians({"merge": merge})["merge"]
    yield {
        "kind": "model",
        "ranks": count,
        "latency_us": max(us["gathers"], us["reduces"]) / QUEUED,
        "gather_us": us["gather"],  # the host waiting for it
        "gather_queued_us": us["gathers"] / QUEUED,
        "reduce_us": us["reduce"],
        "reduce_queued_us": us["reduces"] / QUEUED,
        "agreement_us": us["agreement"],
        "bytes_per_us": (count - 1) * sizes.large_bytes / us["large_gather"],
        "reduce_bytes_per_us": 2 * (count - 1) / count * sizes.large_bytes / us["large_reduce"],
        "large_bytes": sizes.large_bytes,
        "merge_us": merge_us,
    }


# --- sparse gradients -----------------------------------------------------------------------------


def sparse_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """One gradient, its mean over ranks: dense, and of the largest elements with the rest kept."""
    for elements in sizes.gradients:
        for dtype in (torch.float32, torch.bfloat16):
            gradient = ranks.randn(elements, dtype=dtype)
            work, residual = gradient.clone(), torch.zeros_like(gradient)
            state = TopKState(ratio=DENSITY, start_iter=0, min_numel=1)
            k = state.k_of(elements, 0)
            mine = sparsify_(residual.clone(), k, add=gradient)

            def exchange_alone(mine=mine, work=work) -> None:
                packed = pack(mine)
                gathered = packed.new_empty(ranks.count * packed.numel())
                all_gather_single(gathered, packed)
                values, indices = unpack(gathered.view(ranks.count, -1), mine)
                sparse_sum(values, indices, work.numel(), out=work, scale=1 / ranks.count)

            us = ranks.medians(
                {
                    "dense": lambda work=work: dist.all_reduce(work),
                    "step": lambda work=work, state=state: sparse_all_reduce_(work, state, 0),
                    "exchange": exchange_alone,
                    "sparsify": lambda r=residual, k=k, work=work: sparsify_(r, k, add=work),
                },
                before=lambda work=work, gradient=gradient: work.copy_(gradient),
            )
            problem = problem_of_mean(ranks, gradient, k)
            yield {
                "kind": "sparse",
                "ranks": ranks.count,
                "elements": elements,
                "dtype": str(dtype).removeprefix("torch."),
                "k": k,
                "dense_us": us["dense"],
                "step_us": us["step"],
                "exchange_us": us["exchange"],
                "sparsify_us": us["sparsify"],
                "x_dense": us["dense"] / us["step"],
                "sent_bytes": pack(mine).numel(),
                "dense_bytes": elements * dtype.itemsize,
                **verdict(problem),
            }
            del gradient, work, residual, state, mine, exchange_alone
            ranks.release()


def problem_of_mean(ranks: Ranks, gradient: Tensor, k: int) -> str | None:
    """Of a first step: what a rank has sent is what its residual lacks, and must be its k largest; the mean
    is that of what was sent, added rank by rank."""
    state = TopKState(k=k, start_iter=0, min_numel=1)
    mean = gradient.clone()
    sparse_all_reduce_(mean, state, 0)
    left = state.state_dict()["residuals"][0]
    indices = (left != gradient).nonzero().flatten()
    problem = exact.problem_of(gradient, gradient[indices], indices, k, magnitude=True, order="index")
    if problem is None and left[indices].count_nonzero() > 0:
        problem = "what was sent is not zero behind it"
    sent = torch.zeros(gradient.shape, device=gradient.device).index_copy_(
        0, indices, gradient[indices].float()
    )
    sent *= 1 / ranks.count
    total = torch.zeros_like(sent)
    for rank in range(ranks.count):
        theirs = sent.clone()
        dist.broadcast(theirs, rank)
        total += theirs
    if problem is None and not torch.equal(mean, total.to(mean.dtype)):
        problem = "not the mean of what was sent"
    return ranks.first_problem(problem)


# --- streams --------------------------------------------------------------------------------------


def stream_part(ranks: Ranks, sizes: Sizes) -> Iterator[Record]:
    """On rank 0, the others having nothing to do: from the host against its link, and on the device against
    one read."""
    k = sizes.ks[0]
    n = sizes.host_elements
    with tempfile.TemporaryDirectory() as folder:
        if ranks.rank == 0:
            sources = host_sources(ranks, n, Path(folder))
            on_device = torch.empty(n, device=ranks.device)
            best = sources.get("pinned", sources["pageable"])
        calls: dict[str, Callable[[], Any]] = {"link": lambda: on_device.copy_(best, non_blocking=True)}
        names = ("pinned", "pageable", "file") if ranks.device.type == "cuda" else ("pageable", "file")
        cases = [(name, chunk) for name in names for chunk in sizes.host_chunks]
        for name, chunk in cases:
            calls[f"{name} {chunk}"] = lambda name=name, chunk=chunk: stream(ranks, sources[name], k, chunk)
        us = ranks.medians({name: on_rank_0(ranks, call) for name, call in calls.items()})
        for name, chunk in cases:
            problem = None
            if ranks.rank == 0:
                found = stream(ranks, sources[name], k, chunk)
                problem = exact.problem_of(on_device.copy_(sources[name]), *found, k)
            problem = ranks.first_problem(problem)
            took, link_us = us[f"{name} {chunk}"], us["link"]
            yield {
                "kind": "stream",
                "source": name,
                "elements": n,
                "chunk": chunk,
                "k": k,
                "us": took,
                "gb_s": 4e-3 * n / took,
                "link_gb_s": 4e-3 * n / link_us,
                "x_link": link_us / took,
                "goal_x_link": LINK_GOAL,
                **verdict(problem),
            }
        if ranks.rank == 0:
            del sources, on_device, best
    yield device_stream(ranks, sizes, k)


def device_stream(ranks: Ranks, sizes: Sizes, k: int) -> Record:
    ranks.release()
    n = ranks.elements_that_fit(sizes.local_elements, BYTES_EACH)
    chunk = min(n, sizes.device_chunk)
    if ranks.rank == 0:
        x = ranks.randn(n)
        floor = floor_contender(x)
        prepared = floor.prepare(x)
    calls = {"floor": lambda: floor.call(prepared), "stream": lambda: stream(ranks, x, k, chunk)}
    us = ranks.medians({name: on_rank_0(ranks, call) for name, call in calls.items()})
    problem = exact.problem_of(x, *stream(ranks, x, k, chunk), k) if ranks.rank == 0 else None
    problem = ranks.first_problem(problem)
    return {
        "kind": "stream",
        "source": "device",
        "elements": n,
        "chunk": chunk,
        "k": k,
        "us": us["stream"],
        "gb_s": 4e-3 * n / us["stream"],
        "x_floor": us["stream"] / us["floor"],
        "goal_x_floor": STREAM_FLOOR_GOAL,
        **verdict(problem),
    }


def on_rank_0(ranks: Ranks, call: Callable[[], Any]) -> Callable[[], Any]:
    return call if ranks.rank == 0 else lambda: None


def stream(ranks: Ranks, source: Tensor, k: int, chunk: int) -> tuple[Tensor, Tensor]:
    return StreamingTopK(k, device=ranks.device).consume(source, chunk=chunk).result()


def host_sources(ranks: Ranks, n: int, folder: Path) -> dict[str, Tensor]:
    """The same numbers in memory that is pinned, where there is a GPU, in memory that is not, in a file."""
    pageable = ranks.randn(n).cpu()
    file = torch.from_file(str(folder / "row"), shared=True, size=n, dtype=torch.float32)
    file.copy_(pageable)
    found = {"pageable": pageable, "file": file}
    return {"pinned": pageable.pin_memory(), **found} if ranks.device.type == "cuda" else found


PARTS: dict[str, Callable[[Ranks, Sizes], Iterator[Record]]] = {
    "model": model_part,
    "topk": topk_part,
    "roads": roads_part,
    "scaling": scaling_part,
    "sparse": sparse_part,
    "stream": stream_part,
}
