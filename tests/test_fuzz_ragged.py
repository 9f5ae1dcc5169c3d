"""The fuzzer of what stands beside topk: planted faults are found, shrunk and printed, and the line fails."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

import torch_topk
from tests import fuzz, fuzz_ragged, oracle
from tests.cases import Case
from tests.fuzz_ragged_simt import EmulatedRagged
from tests.simt import emulated
from torch_topk import TopKVarlen


def test_the_functions_pass():
    outcome = fuzz.fuzz("ragged", fuzz_ragged.Ragged("cpu"), seed=1, minutes=0, most_cases=1500)
    assert outcome.cases >= 1500
    assert outcome.failed == 0


WIDTHS = ("int32", "int64")


def drawn(count: int) -> list[Case]:
    target, cases = fuzz_ragged.Ragged("cpu"), []
    for i in range(count):
        rng = random.Random(f"drawn {i}")
        source = target.draw(rng)
        ops = fuzz_ragged.ops_of(source)
        cases += [fuzz_ragged.drawn_request(rng, source, rng.choice(ops)) for _ in range(5)]
    return cases


def test_a_case_is_its_line():
    for case in drawn(400):
        again = Case.parse(str(case))
        assert str(again) == str(case)
        assert dataclasses.replace(again, options=()) == dataclasses.replace(case, options=())
        assert dict(again.options) == dict(case.options)


def test_requests_are_of_every_kind():
    cases = [case for case in drawn(1500) if case.rows]
    assert {case.dtype for case in cases} == {*oracle.DTYPES}
    options = [dict(case.options) for case in cases]
    assert {x["op"] for x in options} == {*fuzz_ragged.PROBLEMS}
    names = {name for x in options for name in x}
    assert names >= {
        "lengths", "starts", "row_k", "mask", "offsets", "ids", "page_table", "page_size", "page_row",
        "page_start", "largest", "magnitude", "order", "return_values", "pad_index", "index_dtype",
        "max_length", "out", "layout", "k_of", "ties", "fill", "dim", "p", "min_p", "p_of", "min_p_of",
        "by", "where",
    }  # fmt: skip
    for name in ("lengths", "starts", "row_k", "offsets", "k_of"):
        words = {x.get(name) for x in options} - {None, "none"}
        assert words == {
            f"{dtype}/{kind}" for dtype in ("int32", "int64") for kind in fuzz_ragged.NUMBER_KINDS
        }
    assert any(case.k == 0 for case in cases) and any(case.k > case.cols for case in cases)


def test_hostile_numbers_are_beyond_the_row():
    case = Case(torch.float32, "normal", 500, 60, 3, options=(("lengths", "int64/hostile"),))
    drawn = fuzz_ragged.numbers(case, "lengths", 60, "cpu").tolist()
    assert {-1, -60, 61, 2**40, 2**63 - 1, -(2**63), 0, 60} <= {*drawn}
    assert fuzz_ragged.numbers(dataclasses.replace(case, rows=7), "lengths", 60, "cpu").tolist() == drawn[:7]


def test_what_a_call_is_given_is_made_on_its_device():
    for case in drawn(60):
        given = fuzz_ragged.varlen_options(case, "meta")
        if dict(case.options).get("k_of") != "none":
            given["k"] = fuzz_ragged.numbers(case, "k_of", case.cols, "meta", scalar=True)
        given |= {name: fuzz_ragged.shares(case, name, "meta") for name in ("p", "min_p")}
        assert {x.device.type for x in given.values() if isinstance(x, torch.Tensor)} <= {"meta"}


# Planted faults, each with the options that a shrunk case may have.

RIGHT = {name: getattr(torch_topk, name) for name in fuzz_ragged.PROBLEMS}


def topk_varlen(input, k, **options):
    return RIGHT["topk_varlen"](input, k, **options)


def starts_are_ignored(input, k, starts=None, **options):
    return topk_varlen(input, k, **options)


def negative_lengths_are_the_whole_row(input, k, lengths=None, **options):
    if lengths is not None:
        lengths = torch.where(lengths < 0, input.shape[1], lengths)
    return topk_varlen(input, k, lengths=lengths, **options)


def lengths_lose_their_high_bits(input, k, lengths=None, **options):
    if lengths is not None:
        lengths = (lengths % 2**32).to(lengths.dtype) if lengths.dtype == torch.int64 else lengths
    return topk_varlen(input, k, lengths=lengths, **options)


def row_k_is_ignored(input, k, row_k=None, **options):
    return topk_varlen(input, k, **options)


HAVE_INFINITY = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def an_infinite_winner_is_padding(input, k, pad_index=-1, **options):
    result = topk_varlen(input, k, pad_index=pad_index, **options)
    if result.values is not None and input.dtype in HAVE_INFINITY:
        result.indices[result.values == -torch.inf] = pad_index
    return result


def values_do_not_stand_at_their_indices(input, k, **options):
    result = topk_varlen(input, k, **options)
    if options.get("order", "any") == "any" and result.values is not None and k > 1:
        result.values.copy_(oracle.as_ints(result.values).flip(1).view(input.dtype))
    return result


def ties_go_to_the_higher_position(input, k, **options):
    result = topk_varlen(input, k, **options)
    others = {"lengths", "starts", "row_k", "mask", "ids", "offsets", "page_table"}
    if k < input.shape[1] and not others & {*options}:
        ints = oracle.as_ints(input)
        alike = (ints == ints[:, :1]).all(1, keepdim=True)
        result.indices.add_(alike & (result.indices == k - 1))
    return result


def rows_lie_side_by_side_in_outs(input, k, out=None, **options):
    result = topk_varlen(input, k, out=out, **options)
    if out is not None and out[1].numel():
        out[1].as_strided((1,), (1,), out[1].storage_offset() + k).zero_()
    return result


def ids_wrap(input, k, ids=None, **options):
    result = topk_varlen(input, k, ids=ids, **options)
    return result if ids is None else TopKVarlen(result.values, result.indices % 2**20, result.counts)


def pages_outside_are_the_first(input, k, page_start=None, **options):
    if page_start is not None:
        page_start = page_start.clamp(min=0)
    return topk_varlen(input, k, page_start=page_start, **options)


def a_refusal(input, k, max_length=None, **options):
    if max_length is not None and max_length > input.shape[1]:
        raise RuntimeError("max_length is out of range")
    return topk_varlen(input, k, max_length=max_length, **options)


def lengths_of_one_element_are_none(input, k, *, lengths=None, **options):
    if lengths is not None:
        lengths = torch.where(lengths == 1, 0, lengths)
    return RIGHT["kth_value"](input, k, lengths=lengths, **options)


def the_kth_from_zero(input, k, **options):
    return RIGHT["kth_value"](input, k + 1 if isinstance(k, torch.Tensor) else k, **options)


def all_ties_are_too_many(input, k, *, ties="index", **options):
    return RIGHT["topk_mask"](input, k, **options)


def a_negative_k_keeps_nothing(input, k, **options):
    mask = RIGHT["topk_mask"](input, k, **options)
    return mask & ~torch.tensor(isinstance(k, int) and k < 0)


def zero_is_kept(input, k, fill, **options):
    return RIGHT["keep_topk"](input, k, 0, **options)


def what_lies_between_rows_is_filled(input, k, fill, **options):
    kept = RIGHT["keep_topk_"](input, k, fill, **options)
    ints = oracle.as_ints(input)
    if ints.stride(0) > input.shape[1]:
        ints.as_strided((1,), (1,), ints.storage_offset() + input.shape[1]).bitwise_not_()
    return kept


def a_copy_is_returned(input, k, fill, **options):
    return RIGHT["keep_topk"](input, k, fill, **options)


def p_counts_the_whole_row(logits, k, p, min_p, *, fill):
    if p is None or k is None:
        return RIGHT["top_k_top_p_filter_"](logits, k, p, min_p, fill=fill)
    before = logits.clone()
    RIGHT["top_k_top_p_filter_"](logits, k, fill=fill)
    alone = RIGHT["top_k_top_p_filter_"](before.clone(), None, p, min_p, fill=fill)
    return logits.copy_(torch.where(oracle.as_ints(alone) != oracle.as_ints(before), fill, logits))


def min_p_is_a_float32(logits, k, p, min_p, *, fill):
    min_p = float(torch.tensor(min_p)) if isinstance(min_p, float) else min_p
    return RIGHT["top_k_top_p_filter_"](logits, k, p, min_p, fill=fill)


FAULTS = [
    ("topk_varlen", starts_are_ignored, {"starts"}),
    ("topk_varlen", negative_lengths_are_the_whole_row, {"lengths"}),
    ("topk_varlen", lengths_lose_their_high_bits, {"lengths"}),
    ("topk_varlen", row_k_is_ignored, {"row_k"}),
    ("topk_varlen", an_infinite_winner_is_padding, {"starts"}),
    ("topk_varlen", values_do_not_stand_at_their_indices, {"mask"}),
    ("topk_varlen", ties_go_to_the_higher_position, set()),
    ("topk_varlen", rows_lie_side_by_side_in_outs, {"out"}),
    ("topk_varlen", ids_wrap, {"ids"}),
    ("topk_varlen", pages_outside_are_the_first, {"page_table", "page_start", "page_row"}),
    ("topk_varlen", a_refusal, {"max_length"}),
    ("kth_value", lengths_of_one_element_are_none, {"lengths"}),
    ("kth_value", the_kth_from_zero, {"k_of"}),
    ("topk_mask", all_ties_are_too_many, {"ties"}),
    ("topk_mask", a_negative_k_keeps_nothing, set()),
    ("keep_topk", zero_is_kept, {"fill", "k_of"}),
    ("keep_topk_", what_lies_between_rows_is_filled, set()),
    ("keep_topk_", a_copy_is_returned, set()),
    ("top_k_top_p_filter_", p_counts_the_whole_row, {"p", "p_of", "k_of"}),
    ("top_k_top_p_filter_", min_p_is_a_float32, {"min_p", "k_of"}),
]


def found(op: str, fault, monkeypatch, capsys) -> str:
    """The line that the fuzzer prints of a faulty function."""
    monkeypatch.setattr(torch_topk, op, fault)
    target = fuzz_ragged.Ragged("cpu", [op])
    outcome = fuzz.fuzz("ragged", target, seed=1, minutes=0, most_cases=20000, most_failures=1)
    assert outcome.failed >= 1
    return next(line for line in capsys.readouterr().out.splitlines() if "python -m" in line).split('"')[1]


@pytest.mark.parametrize(("op", "fault", "needed"), FAULTS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_fault_is_found_shrunk_and_printed(op, fault, needed, monkeypatch, capsys):
    line = found(op, fault, monkeypatch, capsys)
    with pytest.raises(AssertionError):
        fuzz.main([line])
    small = Case.parse(line.split(":", 1)[1])
    assert small.rows * small.cols <= 400
    assert {*dict(small.options)} <= {"op", *needed}
    monkeypatch.undo()
    assert fuzz.main([line]) == 0


def test_what_is_printed_is_the_smallest(monkeypatch, capsys):
    def wrong(input, k, **options):
        result = topk_varlen(input, k, **options)
        if k >= 3 and input.shape[1] >= 20 and "mask" in options and options.get("order") == "value":
            result.counts.sub_(1)
        return result

    line = found("topk_varlen", wrong, monkeypatch, capsys)
    small = Case.parse(line.split(":", 1)[1])
    assert (small.rows, small.cols, small.k, small.offset, small.gap) == (1, 20, 3, 0, 0)
    assert {*dict(small.options)} == {"op", "mask", "order"}


def test_the_emulated_kernels_pass():
    outcome = fuzz.fuzz("simt-ragged", EmulatedRagged(), seed=1, minutes=0, most_cases=150)
    assert outcome.cases >= 150
    assert outcome.failed == 0


def test_a_fault_of_emulated_kernels_is_found(monkeypatch, capsys):
    """Of clusters of 4 blocks, which the line names."""
    right = emulated.Library.varlen

    def wrong(self, tensor, k, device, seed, gap=0, **options):
        result, plan = right(self, tensor, k, device, seed, gap, **options)
        if device.cluster_blocks == 4 and options.get("kth_alone"):
            result[1].sub_(1)
        return result, plan

    monkeypatch.setattr(emulated.Library, "varlen", wrong)
    outcome = fuzz.fuzz("simt-ragged", EmulatedRagged(), 1, minutes=0, most_cases=5000, most_failures=1)
    assert outcome.failed >= 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "python -m" in line).split('"')[1]
    small = Case.parse(line.split(":", 1)[1])
    assert (small.rows, small.cols, small.k) == (1, 1, 1)
    assert dict(small.options) == {"cluster_blocks": 4, "op": "kth_value"}
    with pytest.raises(AssertionError):
        fuzz.main([line])
    monkeypatch.undo()
    assert fuzz.main([line]) == 0
