"""Targets of tests/fuzz.py: requests of topk_varlen, topk_where, kth_value, topk_mask, keep_topk and
top_k_top_p_filter_.

    python -m tests.fuzz "ragged: float32 normal 3x50 k=4 seed=9 op=topk_varlen lengths=int64/hostile"

A case's options are the arguments of its op. One that is a tensor is drawn from the seed by words:
    lengths, starts, row_k, offsets, page_row, page_start    dtype/kind, of NUMBER_KINDS: a number a row
    k_of                 dtype/kind: k, where it is a tensor; `same` is a number for all rows; or none: no k
    mask                 layout/share, of COLUMN_LAYOUTS: so many are set
    ids                  layout/dtype/share: so many are negative
    page_table           tables x pages
    p_of, min_p_of       dtype/kind: where these are tensors
    by                   dtype+dtype..: of further keys
    where                dtype/comparison/kind+..: conditions, of a threshold a row (`own`) or of one
Besides: layout, of the input (INPUT_LAYOUTS); dim=0, which is given the transpose; out=1, slices of wider
buffers.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Collection, Iterator

import numpy as np
import torch

import torch_topk
from tests import inputs, oracle, selection_oracle, varlen_oracle
from tests.cases import Case, number_near
from tests.where_oracle import COMPARISONS, assert_where
from torch_topk import Condition

# Tensors from words ------------------------------------------------------------------------------------


def number_of(rng: random.Random, kind: str, row: int, near: int, info: torch.iinfo) -> int:
    """A number about 0 .. near. A row takes the same numbers of `rng` whatever the others are."""
    edges = [0, 1, 2, near - 1, near, near + 1, near // 2, -1, -near, 2**40]
    edges += [info.min, info.max, info.max - near, info.min + near]
    edge, within, at_edge = rng.choice(edges), rng.randint(0, max(near, 0)), rng.random() < 0.5
    if kind == "hostile" and at_edge:
        return min(max(edge, info.min), info.max)
    if kind == "unequal":
        return near if row == 0 else within // 100
    return min(within, 8) if kind == "few" else within


NUMBER_KINDS = ("within", "hostile", "hostile", "few", "unequal", "same", "apart")


def numbers(case: Case, name: str, near: int, device: str, scalar: bool = False) -> torch.Tensor | None:
    """[rows], or of no dimension, where all have the same and `scalar`."""
    if name not in dict(case.options):
        return None
    dtype_name, kind = dict(case.options)[name].split("/")
    dtype = getattr(torch, dtype_name)
    rng = random.Random(f"{case.seed} {name}")
    rows = 1 if kind == "same" else case.rows
    drawn = [number_of(rng, kind, r, near, torch.iinfo(dtype)) for r in range(rows)]
    if name == "offsets":  # their sum with a position fits int64
        drawn = [min(max(number, -(2**62)), 2**62) for number in drawn]
    if kind == "same":
        one = torch.tensor(drawn[0], dtype=dtype, device=device)
        return one if scalar else one.expand(case.rows)
    tensor = torch.tensor(drawn, dtype=dtype, device=device)
    return tensor.repeat_interleave(2)[::2] if kind == "apart" else tensor


COLUMN_LAYOUTS = ("columns", "rows", "rows", "strided", "same")


def columns(case: Case, name: str, device: str) -> torch.Tensor | None:
    """mask or ids, [rows, cols] or [cols]."""
    if name not in dict(case.options):
        return None
    layout, *kind, share = dict(case.options)[name].split("/")
    shape = (1 if layout in ("columns", "same") else case.rows, case.cols)
    dtype = getattr(torch, kind[0]) if kind else torch.int32
    bits = inputs.make("random_bits", *shape, dtype, device, case.seed + len(name))
    chosen = (bits >> 8) % 1000 < 1000 * float(share)
    if name == "ids":
        ids = bits & torch.iinfo(dtype).max
        chosen = torch.where(chosen, ~ids, ids)
    if layout == "strided":
        return chosen.t().contiguous().t()
    if layout == "same":
        return chosen.expand(case.rows, case.cols)
    return chosen[0] if layout == "columns" else chosen


def page_table(case: Case, device: str) -> torch.Tensor:
    tables, pages = map(int, dict(case.options)["page_table"].split("x"))
    bits = inputs.make("random_bits", tables, pages + 1, torch.int32, device, case.seed + 1)
    page = (bits & torch.iinfo(torch.int32).max) >> bits % 24  # small ones too
    return torch.where(bits % 8 == 0, ~page, page)[:, :pages]


SHARES = (0.0, 0.1, 0.5, 0.9, 0.999, 1.0, 1.5, -0.5)


def shares(case: Case, name: str, device: str) -> float | torch.Tensor | None:
    """p or min_p."""
    options = dict(case.options)
    if f"{name}_of" not in options:
        return options.get(name)
    dtype_name, kind = options[f"{name}_of"].split("/")
    rng = random.Random(f"{case.seed} {name}")
    drawn = [rng.choice((*SHARES, rng.random())) for _ in range(case.rows)]
    tensor = torch.tensor(drawn, dtype=getattr(torch, dtype_name), device=device)
    return tensor[0] if kind == "same" else tensor


# The input ---------------------------------------------------------------------------------------------

INPUT_LAYOUTS = ("transposed", "every_second", "one_row")


class Source:
    """An input on the device, its bits for the oracle, and each order of it, put in order once."""

    def __init__(self, case: Case, device: str):
        self.device = device
        tensor = case.tensor(device)
        layout = dict(case.options).get("layout")
        ints = oracle.as_ints(tensor)
        if layout == "transposed":
            ints = ints.t().contiguous().t()
        elif layout == "every_second":
            ints = ints.repeat_interleave(2, 1)[:, ::2]
        elif layout == "one_row":
            ints = ints[:1].expand(case.rows, case.cols)
        self.tensor = ints.view(case.dtype)
        self.bits = oracle.bits_of(self.tensor).copy()
        self.on_cpu = oracle.from_bits(self.bits, case.dtype)
        self.rankings: dict[tuple[bool, bool], np.ndarray] = {}

    def ranking(self, case: Case) -> np.ndarray:
        """[rows, cols], best first."""
        options = dict(case.options)
        way = options.get("largest", True), options.get("magnitude", False)
        if way not in self.rankings:
            self.rankings[way] = oracle.best_first(self.bits, case.dtype, *way)
        return self.rankings[way]

    def twin(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A copy to be written to, of the same strides, and all of its storage."""
        ints = oracle.as_ints(self.tensor)
        storage = ints.as_strided((ints.untyped_storage().nbytes() // ints.itemsize,), (1,), 0).clone()
        return storage.as_strided(ints.shape, ints.stride(), ints.storage_offset()), storage


# Answers, and what is wrong with them ------------------------------------------------------------------

FLAGS = ("largest", "magnitude")


def taken(case: Case, *names: str) -> dict:
    return {name: value for name, value in case.options if name in names}


def with_dim(case: Case, tensor: torch.Tensor) -> tuple[torch.Tensor, dict]:
    """The input as a function with `dim` gets it."""
    return (tensor.t(), {"dim": 0}) if "dim" in dict(case.options) else (tensor, {})


def varlen_options(case: Case, device: str) -> dict:
    drawn = dict(case.options)
    options = taken(case, *FLAGS, "order", "return_values", "pad_index", "index_dtype", "max_length")
    near = {"lengths": case.cols, "starts": case.cols, "row_k": case.k, "offsets": 1000}
    if "page_table" in drawn:
        table = page_table(case, device)
        options |= {"page_table": table, **taken(case, "page_size")}
        near |= {"page_row": table.shape[0], "page_start": table.shape[1]}
    options |= {name: numbers(case, name, most, device) for name, most in near.items()}
    options |= {name: columns(case, name, device) for name in ("mask", "ids")}
    if options["ids"] is not None and options["ids"].dtype == torch.int64:
        options["index_dtype"] = torch.int64
    return {name: value for name, value in options.items() if value is not None}


def varlen_problem(case: Case, source: Source, functions) -> str | None:
    options = varlen_options(case, source.device)
    index_dtype = options.get("index_dtype", torch.int32)
    wide: list[torch.Tensor] = []
    out = None
    if dict(case.options).get("out"):
        shape = case.rows, case.k + 5
        wide = [
            inputs.make("random_bits", *shape, t, source.device, case.seed) for t in (case.dtype, index_dtype)
        ]
        before = [oracle.bits_of(buffer).copy() for buffer in wide]
        values, indices = (buffer[:, 2 : 2 + case.k] for buffer in wide)
        out = (values if options.get("return_values", True) else None, indices)
    result = functions.topk_varlen(source.tensor, case.k, **options, out=out)
    result = [None if x is None else x.cpu() for x in result]
    on_cpu = {name: x.cpu() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    problem = varlen_oracle.problem_of(result, source.on_cpu, case.k, on_cpu, source.ranking(case))
    for i, buffer in enumerate(wide):
        beside = np.ones(buffer.shape, bool)
        beside[:, 2 : 2 + case.k] = out[i] is None
        if (oracle.bits_of(buffer) != before[i])[beside].any():
            problem = problem or "something beside the outs was written to"
    return problem


def where_problem(case: Case, source: Source, functions) -> str | None:
    """Of further keys and columns, which are drawn on the device, the oracle has copies on the host."""
    drawn = dict(case.options)

    def beside(dtype_name: str, seed: int) -> torch.Tensor:
        dtype = getattr(torch, dtype_name)
        tensor = inputs.make("few_distinct", case.rows, case.cols, dtype, source.device, case.seed + seed)
        return with_dim(case, tensor)[0]

    tensor, dim = with_dim(case, source.tensor)
    on_cpu = with_dim(case, source.on_cpu)[0]
    keys = [beside(name, i) for i, name in enumerate(drawn.get("by", "").split("+"), 10) if name]
    mask = columns(case, "mask", source.device)
    wheres = [] if mask is None else [mask.t() if dim and mask.dim() == 2 else mask]
    for i, words in enumerate(drawn.get("where", "").split("+"), 20):
        if not words:
            continue
        dtype_name, comparison, kind = words.split("/")
        column = beside(dtype_name, i)
        threshold = (
            oracle.as_ints(column).select(dim.get("dim", 1), case.cols // 2).clone().view(column.dtype)
        )
        threshold = threshold if kind == "own" else oracle.as_ints(threshold)[-1].view(column.dtype)
        wheres.append(Condition(column, list(COMPARISONS)[int(comparison)], threshold))
    options = {**dim, **taken(case, *FLAGS, "order", "pad_index", "index_dtype")}
    result = functions.topk_where((tensor, *keys), wheres, case.k, **options)
    result = type(result)(tuple(x.cpu() for x in result.values), result.indices.cpu(), result.counts.cpu())
    wheres = [
        Condition(where.column.cpu(), where.comparison, where.threshold.cpu())
        if isinstance(where, Condition)
        else where.cpu()
        for where in wheres
    ]
    try:
        assert_where(result, (on_cpu, *(key.cpu() for key in keys)), wheres, case.k, **options)
    except AssertionError as error:
        return str(error)
    return None


def own_numbers(case: Case, name: str, otherwise: int | None, device: str) -> tuple:
    """An argument, and the number of each row."""
    given = numbers(case, name, case.cols, device, scalar=True)
    if given is None:
        return otherwise, [otherwise] * case.rows
    return given, given.expand(case.rows).tolist()


def kth_value_problem(case: Case, source: Source, functions) -> str | None:
    k, ks = own_numbers(case, "k_of", case.k, source.device)
    lengths, sizes = own_numbers(case, "lengths", None, source.device)
    tensor, dim = with_dim(case, source.tensor)
    kth = functions.kth_value(tensor, k, **dim, lengths=lengths, **taken(case, *FLAGS))
    values, indices = (x.t() if dim else x for x in kth)
    if values.dtype != case.dtype or indices.dtype != torch.int64:
        return f"the result has dtypes {values.dtype} and {indices.dtype}"
    if values.shape != (case.rows, 1) or indices.shape != (case.rows, 1):
        return f"the result has shapes {list(values.shape)} and {list(indices.shape)}"
    largest, magnitude = (dict(case.options).get(flag, flag == "largest") for flag in FLAGS)
    worst = varlen_oracle.pad_bits(case.dtype, largest, magnitude)
    got = zip(indices[:, 0].tolist(), oracle.bits_of(values)[:, 0].tolist(), strict=True)
    for r, (found, ranking) in enumerate(zip(got, source.ranking(case), strict=True)):
        column = selection_oracle.kth_column(ranking, ks[r], sizes[r])
        wanted = column, worst if column < 0 else int(source.bits[r, column])
        if found != wanted:
            return f"row {r} has index and bits {found}, expected {wanted}"
    return None


def kept_sets(case: Case, source: Source, ks: list, sizes: list) -> np.ndarray:
    options = dict(case.options)
    largest, ties = options.get("largest", True), options.get("ties", "index")
    ranks = source.bits
    if ties == "all":
        ranks = oracle.ranks(ranks.ravel(), case.dtype, options.get("magnitude", False)).reshape(ranks.shape)
    rows = zip(source.ranking(case), ranks, ks, sizes, strict=True)
    kept = [selection_oracle.kept(*row, largest, ties) for row in rows]
    return np.stack(kept) if kept else np.ones(source.bits.shape, bool)


def first_difference(what: str, got: np.ndarray, want: np.ndarray) -> str | None:
    if (got == want).all():
        return None
    places = np.argwhere(got != want)
    at = tuple(places[0].tolist())
    return f"{what} differ in {len(places)} places, first at {at}: got {got[at]}, expected {want[at]}"


def topk_mask_problem(case: Case, source: Source, functions) -> str | None:
    k, ks = own_numbers(case, "k_of", case.k, source.device)
    tensor, dim = with_dim(case, source.tensor)
    mask = functions.topk_mask(tensor, k, **dim, **taken(case, *FLAGS, "ties"))
    mask = mask.t() if dim else mask
    if mask.dtype != torch.bool or mask.shape != tuple(source.bits.shape):
        return f"the mask is {mask.dtype} {list(mask.shape)}"
    return first_difference("masks", mask.cpu().numpy(), kept_sets(case, source, ks, [None] * case.rows))


def fill_of(case: Case) -> float:
    least = 0 if case.dtype not in oracle.FLOAT_DTYPES or case.dtype == torch.float8_e4m3fn else -math.inf
    return dict(case.options).get("fill", least)


def fill_bits(fill: float, dtype: torch.dtype) -> int:
    """Of fills that the dtype holds exactly."""
    if dtype in oracle.FLOAT_DTYPES:
        return int(oracle.bits_of(torch.tensor([fill], dtype=torch.float64).to(dtype))[0])
    return int(fill) % 2 ** (8 * dtype.itemsize)


def keep_topk_problem(case: Case, source: Source, functions) -> str | None:
    k, ks = own_numbers(case, "k_of", case.k, source.device)
    lengths, sizes = own_numbers(case, "lengths", None, source.device)
    options = {"fill": fill_of(case), "lengths": lengths, **taken(case, *FLAGS, "ties")}
    kept = kept_sets(case, source, ks, sizes)
    if dict(case.options)["op"] == "keep_topk_":

        def run(tensor: torch.Tensor) -> torch.Tensor:
            given, dim = with_dim(case, tensor)
            return functions.keep_topk_(given, k, **dim, **options)

        return in_place_problem(case, source, run, kept)
    tensor, dim = with_dim(case, source.tensor)
    got = functions.keep_topk(tensor, k, **dim, **options)
    want = np.where(kept, source.bits, source.bits.dtype.type(fill_bits(options["fill"], case.dtype)))
    return first_difference("bits", oracle.bits_of(got.t() if dim else got), want)


def in_place_problem(
    case: Case, source: Source, run: Callable[[torch.Tensor], torch.Tensor], kept: np.ndarray
) -> str | None:
    """Compares all of the storage: what lies between rows has to stay."""
    ints, storage = source.twin()
    wanted_ints, wanted = source.twin()
    given = ints.view(case.dtype)
    got = run(given)
    if got.data_ptr() != given.data_ptr():
        return "the result is another tensor"
    filled = oracle.from_bits(np.array(fill_bits(fill_of(case), case.dtype)), case.dtype, source.device)
    mask = torch.from_numpy(kept).to(source.device)
    wanted_ints.copy_(torch.where(mask, wanted_ints, oracle.as_ints(filled)))
    problem = first_difference("bits", oracle.bits_of(given), oracle.bits_of(wanted_ints))
    if problem is None and not torch.equal(storage, wanted):
        problem = "something beside the rows was written to"
    return problem


def filter_problem(case: Case, source: Source, functions) -> str | None:
    no_k = dict(case.options).get("k_of") == "none"
    k, ks = (None, [None] * case.rows) if no_k else own_numbers(case, "k_of", case.k, source.device)
    given = [shares(case, name, source.device) for name in ("p", "min_p")]
    ps, min_ps = (x.tolist() if isinstance(x, torch.Tensor) else x for x in given)
    ps, min_ps = (x if isinstance(x, list) else [x] * case.rows for x in (ps, min_ps))
    ranking = source.ranking(case)
    best = torch.from_numpy(ranking[:, 0].copy()).to(source.device)
    weights = selection_oracle.weights(source.tensor, best)
    rows = zip(ranking, weights, ks, ps, min_ps, strict=True)
    kept = np.stack([selection_oracle.sampled(*row) for row in rows])

    def run(tensor: torch.Tensor) -> torch.Tensor:
        return functions.top_k_top_p_filter_(tensor, k, *given, fill=fill_of(case))

    return in_place_problem(case, source, run, kept)


PROBLEMS = {
    "topk_varlen": varlen_problem,
    "topk_where": where_problem,
    "kth_value": kth_value_problem,
    "topk_mask": topk_mask_problem,
    "keep_topk": keep_topk_problem,
    "keep_topk_": keep_topk_problem,
    "top_k_top_p_filter_": filter_problem,
}

# Requests ----------------------------------------------------------------------------------------------

_INTEGERS = ("int32", "int64")


def drawn_varlen(rng: random.Random, case: Case) -> dict:
    def word(kinds: tuple[str, ...] = NUMBER_KINDS, dtypes: tuple[str, ...] = _INTEGERS) -> str:
        return f"{rng.choice(dtypes)}/{rng.choice(kinds)}"

    options: dict[str, object] = {"order": rng.choice(("any", "value", "index"))}
    dtype = (rng.choice(_INTEGERS),)  # of both
    for name in ("lengths", "starts"):
        if rng.random() < 0.6:
            options[name] = word(dtypes=dtype)
    if rng.random() < 0.3:
        options["row_k"] = word()
    if rng.random() < 0.25:
        options["mask"] = f"{rng.choice(COLUMN_LAYOUTS)}/{rng.choice((0, 0.01, 0.5, 0.99, 1))}"
    if rng.random() < 0.3:
        options["index_dtype"] = torch.int64
    becomes = rng.choice(("", "", "offsets", "ids", "page_table"))
    if becomes == "offsets":
        options["offsets"] = word()
    elif becomes == "ids":
        share = rng.choice((0, 0.1, 0.5, 1))
        options["ids"] = f"{rng.choice(COLUMN_LAYOUTS)}/{rng.choice(_INTEGERS)}/{share}"
    elif becomes == "page_table":
        size = 1 << rng.choice((0, 1, 4, 6, 6, rng.randint(0, 30)))
        tables = rng.choice((case.rows, case.rows, 1, 0, 7))
        pages = rng.choice((case.cols // size + 1, 1, 0, rng.randint(0, 40)))
        options |= {"page_table": f"{tables}x{min(pages, 1000)}", "page_size": size}
        for name in ("page_row", "page_start"):
            if rng.random() < 0.5:
                options[name] = word(dtypes=("int32",))
    if rng.random() < 0.25:
        options["return_values"] = False
    if rng.random() < 0.3:
        options["pad_index"] = rng.choice((-7, 0, 1, -(2**31), 2**31 - 1))
    if rng.random() < 0.3:
        options["max_length"] = rng.choice((0, 2**40, number_near(rng, max(case.cols, 1))))
    if rng.random() < 0.25:
        options["out"] = 1
    return options


def drawn_where(rng: random.Random, case: Case) -> dict:
    def dtypes(most: int) -> list[str]:
        return [oracle.name_of(rng.choice(oracle.DTYPES)) for _ in range(rng.randint(0, most))]

    options: dict[str, object] = {"order": rng.choice(("any", "value", "index"))}
    if rng.random() < 0.5:
        options["by"] = "+".join(dtypes(3))
    if rng.random() < 0.6:
        words = [f"{name}/{rng.randrange(6)}/{rng.choice(('own', 'one'))}" for name in dtypes(4)]
        options["where"] = "+".join(words)
    options = {name: option for name, option in options.items() if option}
    if rng.random() < 0.4:
        options["mask"] = f"rows/{rng.choice((0, 0.01, 0.5, 0.99, 1))}"
    if rng.random() < 0.25:
        options["dim"] = 0
    if rng.random() < 0.3:
        options["pad_index"] = rng.choice((-7, 0, 2**31 - 1))
    options["index_dtype"] = rng.choice((torch.int32, torch.int64))
    return options


def drawn_selection(rng: random.Random, case: Case, op: str) -> dict:
    options: dict[str, object] = {}
    if rng.random() < 0.4:
        options["k_of"] = f"{rng.choice(_INTEGERS)}/{rng.choice(NUMBER_KINDS)}"
    if op != "topk_mask" and rng.random() < 0.4:
        options["lengths"] = f"{rng.choice(_INTEGERS)}/{rng.choice(NUMBER_KINDS)}"
    if op != "kth_value" and rng.random() < 0.3:
        options["ties"] = "all"
    if rng.random() < 0.25:
        options["dim"] = 0
    if op.startswith("keep"):
        options["fill"] = rng.choice(fills(case.dtype))
    return options


def fills(dtype: torch.dtype) -> tuple:
    if dtype in oracle.FLOAT_DTYPES:
        infinite = () if dtype == torch.float8_e4m3fn else (-math.inf, math.inf)
        return (0, 1.5, -2.0, *infinite)
    if dtype == torch.bool:
        return (0, 1)
    info = torch.iinfo(dtype)
    return (0, 1, info.min, info.max)


def drawn_filter(rng: random.Random, case: Case) -> dict:
    options: dict[str, object] = {}
    kind = rng.random()
    if kind < 0.3:
        options["k_of"] = f"{rng.choice(_INTEGERS)}/{rng.choice(NUMBER_KINDS)}"
    elif kind < 0.6:
        options["k_of"] = "none"
    for name, chance in (("p", 0.75), ("min_p", 0.35)):
        if rng.random() > chance:
            continue
        if rng.random() < 0.4:
            dtype, kind = rng.choice(("float32", "float64")), rng.choice(("own", "own", "same"))
            options[f"{name}_of"] = f"{dtype}/{kind}"
        else:
            weight = math.exp(-rng.randint(1, 4))  # of a logit so much below the best
            options[name] = rng.choice((rng.choice(SHARES), rng.random(), weight))
    options["fill"] = rng.choice((-math.inf, -math.inf, 0.0, 1.5))
    return options


def ops_of(case: Case) -> list[str]:
    """Those that take the input, as often as they are to be drawn."""
    ops = ["topk_varlen"] * 6
    if case.rows and case.cols:
        ops += ["topk_where"] * 3
        ops += ["kth_value", "topk_mask", "keep_topk"]
        in_place = dict(case.options).get("layout") != "one_row"
        logits = case.dtype in oracle.FLOAT_DTYPES and case.dtype.itemsize > 1
        ops += ["keep_topk_"] * in_place + ["top_k_top_p_filter_"] * (4 * in_place * logits)
    return ops


def drawn_request(rng: random.Random, case: Case, op: str) -> Case:
    """A case of the same input."""
    k = number_near(rng, max(case.cols, 1))
    if op in ("topk_varlen", "topk_where") and rng.random() < 0.2:
        k = rng.choice((0, case.cols + 1, case.cols + rng.randint(1, 100)))
    elif op not in ("topk_varlen", "topk_where", "kth_value") and rng.random() < 0.1:
        k = rng.choice((0, -3, case.cols + 9, 2**40))
    options: dict[str, object] = {"op": op}
    if op == "topk_varlen":
        options |= drawn_varlen(rng, case)
    elif op == "topk_where":
        options |= drawn_where(rng, case)
    elif op == "top_k_top_p_filter_":
        options |= drawn_filter(rng, case)
    else:
        options |= drawn_selection(rng, case, op)
    if op != "top_k_top_p_filter_":
        options |= {"largest": rng.random() < 0.5, "magnitude": rng.random() < 0.25}
    return dataclasses.replace(case, k=k).with_options(**options)


class Ragged:
    """The functions on a device, each answer compared with the oracle's on the host."""

    def __init__(self, device: str, ops: Collection[str] = tuple(PROBLEMS)):
        self.device = device
        self.ops = ops
        self.sizes = (300, 3000, 3000, 3000) if device == "cpu" else (300, 3000, 20000, 70000)
        self.calls = 24

    def functions(self, case: Case):
        """What has the functions as attributes."""
        return torch_topk

    def draw(self, rng: random.Random) -> Case:
        # Now and then so much that threads share a row of the CPU's.
        most = 300_000 if rng.random() < 0.02 else rng.choice(self.sizes)
        return self.drawn_input(rng, most, 2 * most, 100)

    @staticmethod
    def drawn_input(rng: random.Random, most_cols: int, most_elements: int, most_rows: int) -> Case:
        dtype = rng.choice(oracle.DTYPES)
        cols = 0 if rng.random() < 0.01 else number_near(rng, most_cols)
        most = max(1, min(most_rows, most_elements // max(cols, 1)))
        rows = 0 if rng.random() < 0.01 else number_near(rng, most)
        name = rng.choice([*inputs.names_for(dtype), *["mixed_rows"] * 8])
        options = (("layout", rng.choice(INPUT_LAYOUTS)),) if rng.random() < 0.2 else ()
        offset, gap = rng.choice((0, 0, 1, 3, 5)), rng.choice((0, 0, 0, 1, 7, 16))
        return Case(dtype, name, rows, cols, 1, offset, gap, rng.randrange(2**31), options)

    def problem(self, case: Case, source: Source) -> str | None:
        try:
            problem = PROBLEMS[dict(case.options)["op"]](case, source, self.functions(case))
        except Exception as error:  # none of these requests may be refused
            return f"{type(error).__name__}: {error}"
        return problem or first_difference("bits of the input", oracle.bits_of(source.tensor), source.bits)

    def run(self, case: Case) -> None:
        problem = self.problem(case, Source(case, self.device))
        if problem is not None:
            raise AssertionError(problem)

    def batch(self, rng: random.Random) -> Iterator[tuple[Case, str | None]]:
        """Cases of one input, with what is wrong."""
        case = self.draw(rng)
        ops = [op for op in ops_of(case) if op in self.ops]
        if not ops:
            return
        source = Source(case, self.device)
        for _ in range(self.calls):
            request = drawn_request(rng, case, rng.choice(ops))
            yield request, self.problem(request, source)
