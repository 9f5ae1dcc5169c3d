"""Training with sparse gradients, against dense ones: bytes sent, accuracy, time a step.

    python examples/sparse_training.py                  two processes on this machine, on the CPU with gloo
    torchrun --nproc-per-node 2 examples/sparse_training.py       GPUs with NCCL where there are any

A small convolutional net and a small transformer learn scikit-learn's digits, 1,797 real images of 8 x 8
pixels: once with DDP's dense all-reduce, and once with topk_hook, which sends the share --ratio of the
gradient and keeps the rest for later.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_topk import TopKState, topk_hook


class ConvNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 16, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )


class Transformer(nn.Module):
    """A row of the image is a token."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images.view(-1, 8, 8)) + self.places
        return self.head(self.layers(tokens).mean(1))


MODELS = {"conv": (ConvNet, 0.1), "transformer": (Transformer, 0.05)}


def train(name: str, ratio: float | None, steps: int, device: torch.device) -> dict[str, object]:
    """One run on this rank. ratio: None is dense."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32, device=device) / 16
    labels = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).to(device)
    test, rest = order[:400], order[400:]

    torch.manual_seed(0)
    make, rate = MODELS[name]
    model = make().to(device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=1)
    # What is not sent at once comes later, so the ratio comes down step by step.
    least = ratio or 1.0
    warmup = sorted([(steps // 10, max(0.25, least)), (steps // 5, max(0.05, least))])
    state = TopKState(ratio=least, warmup=warmup, parameters=model.parameters(), min_numel=1024)
    if ratio is not None:
        ddp.register_comm_hook(state, topk_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    generator = torch.Generator().manual_seed(1 + rank)
    times = []
    for _ in range(steps):
        some = rest[torch.randint(len(rest), (64,), generator=generator).to(device)]
        begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(images[some]), labels[some]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)

    model.eval()
    with torch.no_grad():
        right = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(parameters) for _ in range(ranks)]
    dist.all_gather(others, parameters)
    dense_bytes = parameters.numel() * parameters.element_size()
    sent = state.compression_stats().bytes_sent / steps if ratio is not None else dense_bytes
    return {
        "model": name,
        "gradients": "dense" if ratio is None else f"{ratio:.2%}",
        "parameters": parameters.numel(),
        "ranks": ranks,
        "device": device.type,
        "bytes_a_step": round(sent),
        "accuracy": round(right, 4),
        "ms_a_step": round(1e3 * sorted(times)[len(times) // 2], 3),
        "equal_on_all_ranks": all(torch.equal(other, parameters) for other in others),
    }


def work(local_rank: int, arguments: argparse.Namespace, meeting: str | None) -> None:
    on_gpu = arguments.device == "cuda"
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    where = {}  # torchrun has said it in the environment
    if meeting is not None:
        where = {"init_method": meeting, "rank": local_rank, "world_size": arguments.ranks}
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if on_gpu else "gloo", **where)
    try:
        for name in arguments.models:
            for ratio in (None, *arguments.ratios):
                row = train(name, ratio, arguments.steps, device)
                if dist.get_rank() == 0:
                    print(json.dumps(row), flush=True)
    finally:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--ratios", nargs="+", type=float, default=[0.01], metavar="R", help="shares to send")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=2, help="processes, where torchrun does not say")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    arguments = parser.parse_args()
    if arguments.device is None:
        enough = torch.cuda.is_available() and torch.cuda.device_count() >= arguments.ranks
        arguments.device = "cuda" if enough else "cpu"
    if "LOCAL_RANK" in os.environ:
        work(int(os.environ["LOCAL_RANK"]), arguments, None)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    # A process that was forked ends without an interpreter's shutdown, in which gloo's threads may abort as
    # they let go of the last tensors. It can have no GPU.
    method = "spawn" if arguments.device == "cuda" else "forkserver"
    torch.multiprocessing.start_processes(work, (arguments, meeting), arguments.ranks, start_method=method)


if __name__ == "__main__":
    main()
