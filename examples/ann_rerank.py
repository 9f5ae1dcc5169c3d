"""An approximate search over real vectors, made exact at its end: `python examples/ann_rerank.py`.

The vectors are patches of the two photographs that scikit-learn ships, 8 x 8 pixels of 3 colours each, as
uint8. A FAISS index of product-quantised vectors (IVF-PQ) finds candidates; `torch_topk.rerank` orders them
by exact distance, as FAISS's own IndexRefineFlat does; `torch_topk.knn` says who the nearest really are. Then
the same with the vectors on several shards, and with a filter. Needs faiss-cpu, scikit-learn and pillow.

Exit status: 0, or 1 where an answer is not the one that it should be, or reranking did not help.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import torch_topk

SIDE = 8  # of a patch, in pixels


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--stride", type=int, default=2, help="pixels between patches (default %(default)s)")
    parser.add_argument("--queries", type=int, default=1000, help="(default %(default)s)")
    parser.add_argument("--candidates", type=int, default=200, help="of a query (default %(default)s)")
    parser.add_argument("--k", type=int, default=10, help="neighbours of a query (default %(default)s)")
    parser.add_argument("--shards", type=int, default=3, help="(default %(default)s)")
    parser.add_argument(
        "--device", default="cpu", help="of rerank and knn: cpu or cuda (default %(default)s)"
    )
    return parser.parse_args(arguments)


class Patches(NamedTuple):
    vectors: torch.Tensor  # [n, 192] uint8, no two alike
    photograph: torch.Tensor  # [n], which of the two a patch is from
    queries: torch.Tensor  # [q, 192] float32: patches between those


def patches(stride: int, queries: int) -> Patches:
    from sklearn.datasets import load_sample_images

    grids, others = [], []
    for image in load_sample_images().images:
        every = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE), axis=(0, 1))
        rows, columns = every.shape[:2]
        flat = np.ascontiguousarray(every).reshape(rows, columns, -1)
        grids.append(flat[::stride, ::stride].reshape(-1, flat.shape[2]))
        others.append(flat[1::stride, 1::stride].reshape(-1, flat.shape[2]))
    photograph = np.repeat(np.arange(len(grids)), [len(grid) for grid in grids])
    vectors, first = np.unique(np.concatenate(grids), axis=0, return_index=True)
    order = np.random.default_rng(0).permutation(len(vectors))
    between = np.random.default_rng(1).permutation(np.concatenate(others))[:queries]
    return Patches(
        torch.from_numpy(vectors[order]),
        torch.from_numpy(photograph[first][order]),
        torch.from_numpy(between).float(),
    )


class Found(NamedTuple):
    distances: torch.Tensor
    ids: torch.Tensor


def recall(ids: torch.Tensor, truth: torch.Tensor) -> float:
    """The share of the true neighbours that are among those found."""
    return (ids[:, :, None] == truth[:, None, :]).any(1).double().mean().item()


def same_neighbours(ours: Found, theirs: Found) -> bool:
    """Equal distances, and equal ids but where equal distances leave a choice: there FAISS has no order."""

    def by_distance_and_id(found: Found) -> torch.Tensor:
        # The last may have equals that were left out.
        ids = torch.where(found.distances < found.distances[:, -1:], found.ids, -1)
        by_id = ids.argsort(dim=1, stable=True)
        order = by_id.gather(1, found.distances.gather(1, by_id).argsort(dim=1, stable=True))
        return ids.gather(1, order)

    same_distances = torch.equal(ours.distances, theirs.distances)
    return same_distances and torch.equal(by_distance_and_id(ours), by_distance_and_id(theirs))


def median_seconds(run: Callable[[], Any], device: torch.device, runs: int = 5) -> float:
    times = []
    for _ in range(runs + 1):  # the first warms up
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


class Index:
    """A FAISS IVF-PQ index of all patches, with and without its refinement by exact distances."""

    def __init__(self, vectors: torch.Tensor) -> None:
        import faiss

        faiss.omp_set_num_threads(torch.get_num_threads())
        rows = vectors.float().numpy()
        dims, lists = rows.shape[1], max(16, int(len(rows) ** 0.5))
        self.quantised = faiss.index_factory(dims, f"IVF{lists},PQ{dims // 8}x8")
        for clustering in (self.quantised.cp, self.quantised.pq.cp):
            clustering.min_points_per_centroid = 1  # of small samples no warnings
            clustering.niter = 10
        self.quantised.do_polysemous_training = False  # for Hamming distances, and slow
        self.quantised.train(rows[: 40 * lists])
        self.quantised.add(rows)
        self.quantised.nprobe = 16
        self.refined = faiss.IndexRefineFlat(self.quantised, faiss.swig_ptr(rows))
        self.rows = rows  # which the index points into

    def search(self, queries: np.ndarray, count: int) -> Found:
        return Found(*map(torch.from_numpy, self.quantised.search(queries, count)))

    def refine(self, queries: np.ndarray, k: int, candidates: int) -> Found:
        """The k best of as many candidates, by FAISS."""
        self.refined.k_factor = candidates / k
        return Found(*map(torch.from_numpy, self.refined.search(queries, k)))


def search_shards(
    queries: torch.Tensor, vectors: torch.Tensor, ids: torch.Tensor, k: int, shards: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same where each of several places has some rows of the vectors alone."""
    distances, winners = [], []
    for first, part in zip(
        range(0, len(vectors), -(-len(vectors) // shards)), vectors.chunk(shards), strict=True
    ):
        # A row that another shard has is out of range here: a missing candidate.
        own = torch.arange(first, first + len(part), device=part.device)
        found = torch_topk.rerank(queries, part, ids - first, k, payload=own)
        distances.append(found.distances)
        winners.append(found.ids)
    return torch_topk.merge_topk(distances, winners, k, largest=False)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    k, device = options.k, torch.device(options.device)
    data = patches(options.stride, options.queries)
    rows = data.queries.numpy()
    queries, vectors = data.queries.to(device), data.vectors.to(device)
    print(f"{len(vectors)} patches of {vectors.shape[1]} bytes, {len(queries)} queries, k = {k}, {device}")

    truth = torch_topk.knn(queries, vectors, k)
    index = Index(data.vectors)
    found = index.search(rows, options.candidates)
    ids = found.ids.to(device)
    ours = torch_topk.rerank(queries, vectors, ids, k)
    theirs = index.refine(rows, k, options.candidates)
    before, after = (recall(some, truth.ids) for some in (ids[:, :k], ours.ids))
    print(f"recall@{k}: {before:.3f} as IVF-PQ orders them, {after:.3f} reranked, of {options.candidates}")

    only = data.photograph.to(device) == 0
    filtered = torch_topk.rerank(queries, vectors, ids, k, allow=only)
    nearest = torch_topk.knn(queries, vectors, k, allow=only)
    ranked = torch_topk.rerank(queries, vectors, ids, options.candidates).ids
    ranked = torch.where(only[ranked.clamp(min=0)], ranked, -1)
    first_allowed = ranked.gather(1, (ranked < 0).int().argsort(dim=1, stable=True)[:, :k])
    print(
        f"recall@{k} among one photograph's, of the same candidates: {recall(filtered.ids, nearest.ids):.3f}"
    )
    sharded = search_shards(queries, vectors, ids, k, options.shards)

    checks = {
        "the k best that FAISS's own refinement has": same_neighbours(
            Found(*(t.cpu() for t in ours)), theirs
        ),
        f"the same from {options.shards} shards, merged": same_neighbours(ours, Found(*sharded)),
        "with the filter, what is left of a whole ranking": torch.equal(filtered.ids, first_allowed),
        "reranking helps": after > before,
    }
    for what, holds in checks.items():
        print(f"  {what}: {'yes' if holds else 'NO'}")

    search_s = median_seconds(lambda: index.search(rows, options.candidates), device)
    refined_s = median_seconds(lambda: index.refine(rows, k, options.candidates), device)
    ours_s = median_seconds(lambda: torch_topk.rerank(queries, vectors, ids, k), device)
    print(f"IVF-PQ {1e3 * search_s:.1f} ms, with FAISS's refinement of float32 {1e3 * refined_s:.1f} ms;")
    print(f"rerank of uint8 {1e3 * ours_s:.1f} ms")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
