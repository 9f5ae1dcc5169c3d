"""Nearest neighbours in real images, by exact top-k: `python -m torch_topk.demo`, or `make demo`.

Takes scikit-learn's 1,797 handwritten digits, finds the k nearest of every image with
`torch_topk.topk(largest=False)` and with `torch_topk.rerank`, classifies every image by their vote, checks
the answer against torch.topk and torch.sort, times a few shapes against torch.topk and draws what it found.

Exit status: 0, or 1 where a result differs from torch's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torch_topk import rerank, topk
from torch_topk._libraries import why_no_cuda

TIMED_SECONDS = 1.0  # a shape, at most; each side gets 5 runs or more
QUERIES = 6  # rows of the picture


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torch_topk.demo", description=__doc__.split("\n\n")[0])
    default_device = "cpu" if why_no_cuda() else "cuda"
    parser.add_argument("--device", default=default_device, help="cuda or cpu (default here: %(default)s)")
    parser.add_argument("--k", type=int, default=10, help="neighbours of an image (default %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("demo_out/neighbours.png"), help="%(default)s")
    options = parser.parse_args(arguments)
    if options.device.startswith("cuda") and (missing := why_no_cuda()):
        parser.error(f"--device {options.device}: {missing}")
    if not 1 <= options.k <= 1796:
        parser.error("--k must be from 1 to 1796: an image has 1,796 others")
    return options


def squared_distances(images: torch.Tensor) -> torch.Tensor:
    """[n, n] float32, exact as pixels are integers from 0 to 16. An image is no neighbour of itself."""
    norms = (images * images).sum(dim=1)
    distances = norms[:, None] + norms[None, :] - 2 * (images @ images.T)
    return distances.fill_diagonal_(float("inf"))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def check_against_torch(
    distances: torch.Tensor, k: int, values: torch.Tensor, indices: torch.Tensor
) -> list[tuple[str, bool]]:
    """The values of torch.topk to the bit; and, as those leave ties open, a stable sort's indices."""
    expected = torch.topk(distances, k, largest=False).values
    by_sorting = torch.sort(distances, dim=-1, stable=True).indices[:, :k]
    return [
        ("values equal torch.topk's, bit for bit", same_bits(values, expected)),
        ("the input at the indices equals the values", same_bits(distances.gather(1, indices), values)),
        ("of equal distances the lower index, as a stable sort", indices.equal(by_sorting)),
    ]


def median_times(runs: list[Callable[[], Any]], device: torch.device) -> list[float]:
    """Median seconds of each run, taken turn by turn so that a slow moment of the machine hits them all."""

    def seconds(run: Callable[[], Any]) -> float:
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    for run in runs:
        seconds(run)
    times: list[list[float]] = [[] for _ in runs]
    start = time.perf_counter()
    while len(times[0]) < 5 or (time.perf_counter() - start < TIMED_SECONDS and len(times[0]) < 200):
        for run, samples in zip(runs, times, strict=True):
            samples.append(seconds(run))
    return [statistics.median(samples) for samples in times]


@dataclass
class Timing:
    name: str
    torch_s: float
    ours_s: float
    equal: bool

    @property
    def speedup(self) -> float:
        return self.torch_s / self.ours_s


def time_shapes(distances: torch.Tensor, k: int) -> list[Timing]:
    device = distances.device
    generator = torch.Generator(device).manual_seed(0)

    def normal(rows: int, cols: int) -> torch.Tensor:
        return torch.randn(rows, cols, device=device, generator=generator)

    rows = distances.shape[0]
    timings = []
    for name, x, x_k, largest in [
        (f"digits, {rows} x {rows}, k = {k}", distances, k, False),
        ("logits, 32 x 50257, k = 50", normal(32, 50257), 50, True),
        ("one long row, 1 x 2^22, k = 1000", normal(1, 2**22), 1000, True),
    ]:
        theirs = partial(torch.topk, x, x_k, -1, largest)
        ours = partial(topk, x, x_k, -1, largest)
        timings.append(Timing(name, *median_times([theirs, ours], device), same_bits(ours()[0], theirs()[0])))
    return timings


def draw(
    path: Path,
    images: torch.Tensor,
    labels: torch.Tensor,
    predicted: torch.Tensor,
    indices: torch.Tensor,
    timings: list[Timing],
    device_name: str,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Images classified wrongly first, as those have something to show.
    wrong = predicted != labels
    queries = torch.cat([wrong.nonzero()[:, 0][: QUERIES // 2], (~wrong).nonzero()[:, 0]])[:QUERIES]
    columns = min(indices.shape[1], 8)
    figure = pyplot.figure(figsize=(13, 5.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[3, 2])

    left.suptitle(f"A digit and its nearest {columns}: right label (green), wrong label (red)")
    axes = left.subplots(len(queries), columns + 1, squeeze=False)
    for row, query in zip(axes, queries.tolist(), strict=True):
        shown = [query, *indices[query, :columns].tolist()]
        for position, (axis, image) in enumerate(zip(row, shown, strict=True)):
            axis.imshow(images[image].reshape(8, 8), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
            colour = "black" if position == 0 else "green" if labels[image] == labels[query] else "red"
            for spine in axis.spines.values():
                spine.set(color=colour, linewidth=2)
        row[0].set_ylabel(f"{labels[query]} as {predicted[query]}", rotation=0, ha="right", va="center")

    right.suptitle(f"Times as fast as torch.topk, {device_name}")
    axis = right.subplots()
    bars = axis.barh([t.name.replace(", ", "\n", 1) for t in timings], [t.speedup for t in timings])
    axis.bar_label(bars, [f"{t.speedup:.1f}" for t in timings], padding=3)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xlim(0, 1.15 * max(1.0, *(t.speedup for t in timings)))
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("The demo takes its images from scikit-learn: pip install scikit-learn")

    device = torch.device(options.device)
    device_name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    threads = f", {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    pixels, label_list = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32, device=device)
    labels = torch.tensor(label_list, device=device)
    print(f"{len(images)} images of digits, on {device_name}{threads}")

    distances = squared_distances(images)
    values, indices = topk(distances, options.k, largest=False)
    others = torch.arange(len(images), device=device).repeat(len(images), 1).fill_diagonal_(-1)
    reranked = rerank(images, images, others, options.k)
    votes = torch.nn.functional.one_hot(labels[indices], 10).sum(dim=1)
    predicted = votes.argmax(dim=1)
    accuracy = (predicted == labels).double().mean().item()
    print(f"The {options.k} nearest others of each, by vote: {100 * accuracy:.2f} % classified rightly\n")

    checks = check_against_torch(distances, options.k, values, indices)
    same = same_bits(reranked.distances, values) and reranked.ids.equal(indices)
    checks.append(("rerank, without a matrix of distances, finds the same", same))
    print(f"{values.numel()} neighbours, checked:")
    for what, passed in checks:
        print(f"  {what}: {'yes' if passed else 'NO'}")
    differ = (torch.topk(distances, options.k, largest=False).indices != indices).sum().item()
    print(f"  torch.topk, which may take any of equals, names another image {differ} times")

    timings = time_shapes(distances, options.k)
    print(f"\n{'float32, median times':<34}{'torch.topk':>12}{'gputopk':>12}{'ratio':>8}  same values")
    for t in timings:
        milliseconds = f"{1e3 * t.torch_s:>9.3f} ms{1e3 * t.ours_s:>9.3f} ms"
        print(f"{t.name:<34}{milliseconds}{t.speedup:>8.1f}  {'yes' if t.equal else 'NO'}")

    try:
        found = (tensor.cpu() for tensor in (images, labels, predicted, indices))
        draw(options.output, *found, timings, device_name)
        print(f"\nPlot: {options.output}")
    except ImportError:
        print("\nNo plot: pip install matplotlib for one")
    return 0 if all(passed for _, passed in checks) and all(t.equal for t in timings) else 1


if __name__ == "__main__":
    sys.exit(main())
