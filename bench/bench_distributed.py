"""Times top-k over several GPUs of one host, sparse gradients over them, and streams from the host.

    python bench/bench_distributed.py                           # NCCL on two GPUs; writes bench/results
    python bench/bench_distributed.py --backend gloo --set quick            # two processes on the CPU
    python bench/bench_distributed.py --parts topk model
    python bench/bench_distributed.py --report bench/results/distributed-nccl.jsonl     # its tables, Markdown

It starts its own processes. Its parts, each with figures relative to something timed in the same run:

    model       the constants of docs/distributed.md: latency and bandwidth of collectives, agreement, merges
    topk        distributed.topk beside one rank's topk of its own elements; goals 1.05, 1.15, 1.3 x local
    roads       lists gathered whole and narrowed, where the code changes from the one to the other
    scaling     one rank and all of them, on as many elements in all (strong) and on as many a rank (weak)
    sparse      sparse_all_reduce_ at 1 % density beside a dense all-reduce, and its two halves alone
    stream      StreamingTopK from the host against the link's rate (goal 0.9), and on the device against one
                read (goal 1.15)

A time is the host's from a barrier until the slowest rank's device is done, the median of nine rounds in
which all that is compared has its turn. Results are checked by counting (bench/exact.py). Sizes that do not
fit are halved, and the table says so. Exit status 1 if a result is wrong, or a part fails. No time makes it
fail.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from bench import environment, message_model, report
from bench.distributed_parts import PARTS, SIZES
from bench.message_model import Constants, Request
from bench.ranks import join
from bench.report import Record, number_text, ratio_text, size_text
from tests.records import commit_named
from torch_topk._libraries import why_no_cuda


def run_parts(
    rank: int, count: int, backend: str, folder: str, set_name: str, parts: list[str], output: Path
):
    """One process: measures the parts in turn; rank 0 writes the records."""
    ranks = join(rank, count, backend, f"{folder}/meeting")
    out = report.JsonLines(output, append=True) if rank == 0 else None
    progress = report.Progress(len(parts)) if rank == 0 else None
    for part in parts:
        start = time.monotonic()
        for timed, record in enumerate(PARTS[part](ranks, SIZES[set_name]), 1):
            if out is not None and progress is not None:
                out.write(record)
                progress.show(f"{part}, {timed} timed")
        ranks.barrier()
        ranks.release()
        if out is not None and progress is not None:
            out.write({"kind": "part", "part": part, "seconds": round(time.monotonic() - start, 2)})
            progress.advance()
    dist.destroy_process_group()


def run(options: argparse.Namespace, output: Path) -> list[str]:
    """Measures the parts; what became of those that failed. A part that fails ends its processes, so new ones
    go on behind it."""
    failures, todo = [], list(options.parts)
    while todo:
        with tempfile.TemporaryDirectory() as folder:
            arguments = (options.ranks, options.backend, folder, options.set, todo, output)
            try:
                mp.start_processes(run_parts, arguments, options.ranks, start_method="spawn")
            except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
                done = [record["part"] for record in report.read(output) if record["kind"] == "part"]
                failed = next((part for part in todo if part not in done), todo[-1])
                failures.append(f"{failed}: {str(error).strip().splitlines()[-1][:300]}")
                print(error, file=sys.stderr)
                todo = todo[todo.index(failed) + 1 :]
            else:
                todo = []
    return failures


# --- the report -----------------------------------------------------------------------------------


def model_of(records: Sequence[Record]) -> Record | None:
    """The constants, where there were two ranks or more to measure them on."""
    return next((record for record in records if record["kind"] == "model" and record["ranks"] > 1), None)


def topk_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    model, rows = model_of(records), []
    for r in (r for r in records if r["kind"] == "topk"):
        request = Request(r["ranks"], r["k"], r["local_elements"], gather=r["gather"])
        predicted = None
        if model is not None and r["gather"] != "root":
            predicted = message_model.predicted_us(request, r["local_us"], Constants.of(model))
        scaled = "" if r["elements"] == r["wanted_elements"] else f", for {size_text(r['wanted_elements'])}"
        rows.append(
            [
                size_text(r["elements"]) + scaled,
                size_text(r["k"]),
                r["gather"],
                "narrowed" if r["narrows"] else "gathered",
                number_text(r["us"]),
                number_text(r["local_us"]),
                ratio_text(r["x_local"], r["goal_x_local"]),
                number_text(r["goal_x_local"]),
                number_text(predicted),
            ]
        )
    columns = ["elements", "k", "gather", "lists", "us", "local us", "x local ", "goal", "model us"]
    return columns, rows


def roads_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            str(r["rows"]),
            size_text(r["k"]),
            r["gather"],
            number_text(r["gathered_per_counted"]),
            number_text(r["gathered_us"]),
            number_text(r["narrowed_us"]),
            number_text(r["gathered_us"] / r["narrowed_us"]),
        ]
        for r in records
        if r["kind"] == "roads"
    ]
    return ["rows", "k", "gather", "gathered bytes / counted", "gathered us", "narrowed us", "x"], rows


def switch_sentences(records: Sequence[Record]) -> list[str]:
    """For each `gather`, from how many times the counts' bytes on narrowed lists were the faster, and up to
    how many the slower. torch_topk.distributed narrows lists of more than both `_GATHERED_PER_COUNTED` times
    those bytes and, by the device's type, `_GATHERED_BYTES`: these are the sentences to choose the first by,
    and where none was faster, to raise the second."""
    sentences = []
    for gather in ("all", "none"):
        timed = [r for r in records if r["kind"] == "roads" and r["gather"] == gather]
        slower = [r["gathered_per_counted"] for r in timed if r["narrowed_us"] >= r["gathered_us"]]
        faster = [r["gathered_per_counted"] for r in timed if r["narrowed_us"] < r["gathered_us"]]
        if timed:
            sentences.append(
                f"gather {gather}: narrowed is faster from {number_text(min(faster, default=None))} times "
                f"the counts' bytes on, slower up to {number_text(max(slower, default=None))} times"
            )
    return sentences


def scaling_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            r["scaling"],
            size_text(r["elements"]),
            size_text(r["k"]),
            number_text(r["one_us"]),
            number_text(r["us"]),
            f"{100 * r['efficiency']:.1f} %",
        ]
        for r in records
        if r["kind"] == "scaling"
    ]
    return ["scaling", "elements", "k", "1 rank us", "all us", "efficiency"], rows


def sparse_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            f"{r['elements']:,}",
            r["dtype"],
            number_text(r["dense_us"]),
            number_text(r["step_us"]),
            number_text(r["exchange_us"]),
            number_text(r["sparsify_us"]),
            number_text(r["x_dense"]),
            number_text(r["dense_bytes"] / r["sent_bytes"]),
        ]
        for r in records
        if r["kind"] == "sparse"
    ]
    columns = ["elements", "dtype", "dense us", "step us", "exchange us", "sparsify us", "x dense", "x bytes"]
    return columns, rows


def stream_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for r in (r for r in records if r["kind"] == "stream"):
        rows.append(
            [
                r["source"],
                size_text(r["elements"]),
                size_text(r["chunk"]),
                str(r["k"]),
                number_text(r["gb_s"]),
                number_text(r.get("link_gb_s")),
                ratio_text(r.get("x_link"), r.get("goal_x_link"), at_least=True),
                ratio_text(r.get("x_floor"), r.get("goal_x_floor")),
            ]
        )
    columns = ["source", "elements", "chunk", "k", "GB/s", "link GB/s", "x link ", "x floor "]
    return columns, rows


def model_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for r in (r for r in records if r["kind"] == "model"):
        rows += [
            ["L(2), all_gather: queued, waited for, us", r["gather_queued_us"], r["gather_us"]],
            ["L(2), all_reduce: queued, waited for, us", r["reduce_queued_us"], r["reduce_us"]],
            ["T_agree, us", r["agreement_us"], None],
            ["B: all_gather, all_reduce, GB/s", r["bytes_per_us"] / 1e3, r["reduce_bytes_per_us"] / 1e3],
        ]
        rows += [[f"T_merge of {size_text(int(n))}, us", us, None] for n, us in r["merge_us"].items()]
    return ["constant", "", ""], [[name, *map(number_text, numbers)] for name, *numbers in rows]


def prediction_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """By the model: x local on more ranks than there are here, each with as many elements."""
    model = model_of(records)
    timed = [r for r in records if r["kind"] == "topk" and r["gather"] == "all"]
    rows = []
    for r in [] if model is None else timed:
        local_us = r["local_us"]
        requests = [Request(count, r["k"], r["local_elements"]) for count in message_model.RANKS]
        us = [message_model.predicted_us(request, local_us, Constants.of(model)) for request in requests]
        rows.append([size_text(r["k"]), *(number_text(each / local_us) for each in us)])
    return ["k", *(f"{count} ranks" for count in message_model.RANKS)], rows


TABLES: dict[str, Callable[[Sequence[Record]], tuple[list[str], list[list[str]]]]] = {
    "Constants of the model": model_rows,
    "distributed.topk": topk_rows,
    "x local by the model, as many elements on each rank": prediction_rows,
    "Lists: the time gathered over that narrowed": roads_rows,
    "Scaling": scaling_rows,
    "Sparse gradients": sparse_rows,
    "StreamingTopK": stream_rows,
}


def markdown_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n" + "\n".join(report.markdown_table(columns, rows))


def print_report(records: Sequence[Record], text_of: Callable[..., str] = report.table) -> None:
    for title, rows_of in TABLES.items():
        columns, rows = rows_of(records)
        if rows:
            print(f"\n{title}\n{text_of(columns, rows)}")
    for sentence in switch_sentences(records):
        print(f"\n{sentence}")
    parts = [f"{r['part']} {r['seconds']:.0f} s" for r in records if r["kind"] == "part"]
    print(f"\nparts: {', '.join(parts)}")


def failures_of(records: Sequence[Record]) -> list[str]:
    names = ("elements", "rows", "k", "gather", "dtype", "source", "chunk")
    return [
        f"{record['kind']} {[record[name] for name in names if name in record]}: {record['problem']}"
        for record in records
        if record.get("verified") is False
    ]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2, help="processes, with NCCL one a GPU (default: 2)")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--set", choices=SIZES, default="full")
    parser.add_argument("--commit", type=commit_named, help="for the header, where this is not a checkout")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--report", type=Path, metavar="FILE", help="print a record's tables, time nothing")
    options = parser.parse_args(arguments)
    if options.report is not None:
        return options
    if options.ranks < 1:
        parser.error(f"--ranks must be at least 1, but is {options.ranks}")
    if options.backend == "nccl":
        missing = why_no_cuda()
        if missing is None and torch.cuda.device_count() < options.ranks:
            missing = f"{options.ranks} GPUs are wanted, and {torch.cuda.device_count()} found"
        if missing:
            parser.error(f"--backend nccl: {missing}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.report is not None:
        print_report(report.read(options.report), markdown_text)
        return 0
    device = torch.device("cuda", 0) if options.backend == "nccl" else torch.device("cpu")
    output = options.output or report.RESULTS / f"distributed-{options.backend}.jsonl"
    out = report.JsonLines(output)
    more = {"ranks": options.ranks, "backend": options.backend, "parts": options.parts}
    if options.backend == "nccl":
        more["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    out.write(environment.header(device, options.commit, set=f"distributed-{options.set}", **more))
    out.close()
    start = time.monotonic()
    failures = run(options, output)
    records = report.read(output)
    failures += failures_of(records)
    seconds = time.monotonic() - start
    out = report.JsonLines(output, append=True)
    out.write({"kind": "summary", "failed": failures, "seconds": round(seconds, 1)})
    out.close()
    print_report(records)
    checked = sum(record.get("verified") is True for record in records)
    print(f"{checked} results checked, {seconds:.0f} s, written to {output}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
