"""The kernels of csrc/cuda on the host: builds libgputopk_simt.so and calls it.

    from tests.simt import emulated
    emulated.check(tensor, k, form="air.one_block", device=emulated.Device(sm_count=2), seed=7)

A call runs the kernels over an emulated GPU whose blocks and lanes take turns by the seed. It raises Found
where the emulator has found what a GPU would not forgive, or might not (a race, a read of memory that nobody
wrote, lanes that part ways, a wait without end), and AssertionError where the result is not the oracle's.

    python -m tests.simt.emulated          builds, and says which forms there are
    python -m tests.simt.emulated "..."    runs the case of that line: see tests/cases.py
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from tests import oracle
from tests.cases import Case

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LARGEST_32_BIT = 0xFFFFFFFF
ALGORITHMS = ("auto", "air", "grid_select", "delegate", "bitonic", "split_bucket", "sort")
# Those that take windows; the plan's choice last.
VARLEN_FORMS = (
    "split_bucket.tree",
    "bitonic.one_warp",
    "delegate.one_cluster",
    "delegate.equal_shares",
    "air.one_block",
    "",
)

# csrc/core/problem.h's DType.
_DTYPES = {
    torch.bool: 0,
    torch.uint8: 1,
    torch.int8: 2,
    torch.uint16: 3,
    torch.int16: 4,
    torch.uint32: 5,
    torch.int32: 6,
    torch.uint64: 7,
    torch.int64: 8,
    torch.float8_e4m3fn: 9,
    torch.float8_e5m2: 10,
    torch.float16: 11,
    torch.bfloat16: 12,
    torch.float32: 13,
    torch.float64: 14,
}


class NotServed(Exception):
    """The form, or algorithm, does not serve the request."""


class Found(AssertionError):
    """What the emulator has found, with the plan that ran."""


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU of the test's making.

    cluster_room: the largest cluster that a launch finds room for, as in a part of a GPU;
    most_cols_of_32_bits: longer rows have indices of 64 bits.
    """

    sm_count: int = 4
    compute_capability: int = 90
    shared_bytes: int = 227 * 1024
    cluster_blocks: int = 8
    cluster_room: int = 16
    most_cols_of_32_bits: int = LARGEST_32_BIT


class _Device(ctypes.Structure):
    _fields_ = [
        ("sm_count", ctypes.c_int32),
        ("compute_capability", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("cluster_blocks", ctypes.c_int32),
        ("cluster_room", ctypes.c_int32),
        ("most_cols_of_32_bits", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
    ]


class _Topk(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in (
                "dtype",
                "algorithm",
                "largest",
                "sorted",
                "by_index",
                "last_alone",
                "magnitude",
                "wide_indices",
            )
        ),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "row_stride", "k")),
        ("form", ctypes.c_char_p),
        ("overrides", ctypes.c_char_p),
        ("input", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
    ]


class _Layout(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("inner", "outer_stride", "inner_stride", "col_stride")]


class _Strided(ctypes.Structure):
    _fields_ = [
        ("topk", _Topk),
        ("input", _Layout),
        ("outputs", _Layout),
        ("input_elements", ctypes.c_int64),
        ("panel_bytes", ctypes.c_int64),
        ("list_bytes", ctypes.c_int64),
    ]


class _Numbers(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("elements", "row_stride", "col_stride")),
        ("wide", ctypes.c_int32),
    ]


class _Condition(ctypes.Structure):
    _fields_ = [
        ("column", ctypes.c_void_p),
        ("thresholds", ctypes.c_void_p),
        *(
            (name, ctypes.c_int64)
            for name in ("column_elements", "thresholds_elements", "row_stride", "threshold_stride")
        ),
        ("dtype", ctypes.c_int32),
        ("comparison", ctypes.c_int32),
    ]


_MOST_CONDITIONS = 7


class _Varlen(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in ("dtype", "largest", "magnitude", "order", "wide_indices", "page_shift", "kth_alone")
        ),
        ("forms", ctypes.c_char_p),
        *(
            (name, ctypes.c_int64)
            for name in (
                "rows",
                "cols",
                "row_stride",
                "k",
                "max_length",
                "pad_index",
                "tables",
                "pages",
                "mask_row_stride",
                "mask_elements",
                "value_stride",
                "index_stride",
            )
        ),
        *(
            (name, _Numbers)
            for name in (
                "lengths",
                "starts",
                "row_k",
                "offsets",
                "ids",
                "page_table",
                "page_row",
                "page_start",
            )
        ),
        *((name, ctypes.c_void_p) for name in ("input", "mask", "values", "indices", "counts")),
        ("conditions", _Condition * _MOST_CONDITIONS),
        ("condition_count", ctypes.c_int64),
    ]


_NOTHING = ctypes.c_int64()


def _condition(column: torch.Tensor, comparison: int, thresholds: torch.Tensor) -> _Condition:
    """Of a column [rows, cols] or [cols], and a threshold a row, or one."""
    return _Condition(
        column=column.data_ptr(),
        thresholds=thresholds.data_ptr(),
        column_elements=column.numel(),
        thresholds_elements=thresholds.numel(),
        row_stride=column.stride(0) if column.dim() == 2 else 0,
        threshold_stride=thresholds.stride(0) if thresholds.dim() == 1 else 0,
        dtype=_DTYPES[column.dtype],
        comparison=comparison,
    )


def _numbers(table: torch.Tensor | None) -> _Numbers:
    """A number a row, a table of columns that rows share has stride 0. One without elements is there too."""
    if table is None:
        return _Numbers()
    return _Numbers(
        data=table.data_ptr() or ctypes.addressof(_NOTHING),
        elements=table.numel(),
        row_stride=table.stride(0),
        col_stride=table.stride(1) if table.dim() == 2 else 0,
        wide=table.dtype == torch.int64,
    )


class _Rerank(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in (
                "dtype", "query_dtype", "metric", "wide_ids", "wide_ranges", "allow_shift", "positions",
            )
        ),
        *(
            (name, ctypes.c_int64)
            for name in (
                "queries", "vectors", "candidates", "listed", "dims", "k", "query_stride", "vector_stride",
                "id_stride", "allow_bytes", "most_stored_bytes",
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "query_rows", "vector_rows", "scales", "ids", "lengths", "row_offsets", "allow", "distances",
                "ids_out",
            )
        ),
    ]  # fmt: skip


class _Sparsify(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in (
                "dtype",
                "add_dtype",
                "update",
                "wide_indices",
                "resident",
                "one_read",
                "two_sided",
            )
        ),
        *((name, ctypes.c_double) for name in ("alpha", "mu")),
        *(
            (name, ctypes.c_int64)
            for name in ("rows", "cols", "self_stride", "add_stride", "momentum_stride", "k")
        ),
        *((name, ctypes.c_void_p) for name in ("self", "add", "momentum", "values", "indices")),
    ]


class _Stage(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("dtype", "largest", "magnitude", "spare")),
        *((name, ctypes.c_int64) for name in ("rows", "places", "k")),
        *(
            (name, ctypes.c_void_p)
            for name in ("values", "counts", "needed", "sure", "left", "row_k", "last")
        ),
    ]


class _Mask(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("dtype", "largest", "magnitude", "equals", "keeps")),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "row_stride", "index_stride", "out_stride")),
        ("fill", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("input", "indices", "lengths", "out")),
    ]


class _Keep(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("dtype", "largest", "magnitude", "keeps")),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "row_stride", "k", "out_stride")),
        ("fill", ctypes.c_uint64),
        ("form", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("input", "out")),
    ]


def _sets_of_rows(tensor, written, largest: bool, magnitude: bool, fill: int, keeps: bool) -> dict[str, int]:
    """What both of them say of their rows."""
    return {
        "dtype": _DTYPES[tensor.dtype],
        "largest": largest,
        "magnitude": magnitude,
        "keeps": keeps,
        "rows": tensor.shape[0],
        "cols": tensor.shape[1],
        "row_stride": tensor.stride(0),
        "out_stride": written.stride(0),
        "fill": fill,
        "input": tensor.data_ptr(),
        "out": written.data_ptr(),
    }


_MOST_KEYS = 4


class _Join(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("keys", "order", "wide_indices")),
        *((name, _MOST_KEYS * ctypes.c_int32) for name in ("dtypes", "largest", "magnitude")),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "k", "most", "pad_index")),
        ("places", _MOST_KEYS * ctypes.c_int64),
        *((name, _MOST_KEYS * ctypes.c_void_p) for name in ("columns", "found", "counts", "values")),
        *((name, ctypes.c_void_p) for name in ("indices", "totals")),
    ]


def build(folder: Path = ROOT / "build" / "simt", csrc: Path | None = None, coverage: bool = True) -> Path:
    """Builds the library where it is older than its sources; returns it. MAX_JOBS compilers run at a time."""
    cmake, ninja = (
        shutil.which(tool, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
        for tool in ("cmake", "ninja")
    )
    configure = [cmake, "-S", HERE, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    configure += [f"-DSIMT_COVERAGE={'ON' if coverage else 'OFF'}"]
    configure += [f"-DCSRC={csrc}"] if csrc else []
    if not (folder / "build.ninja").exists():
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    jobs = os.environ.get("MAX_JOBS")
    subprocess.run(
        [cmake, "--build", folder, *(["-j", jobs] if jobs else [])], check=True, stdout=subprocess.DEVNULL
    )
    return folder / "libgputopk_simt.so"


def _flags(options: dict) -> dict:
    """Those of a call's options that the oracle knows."""
    return {
        name: options[name] for name in ("largest", "sorted", "magnitude", "index_dtype") if name in options
    }


def _topk_problem(got, tensor: torch.Tensor, k: int, dim: int, plan: str, options: dict) -> str | None:
    """What is wrong with outputs; where the last winner is asked for alone, and no step puts it in its place
    among the others, with that."""
    flags, last_alone = _flags(options), options.get("last_alone", False)
    problem = None
    if not last_alone or "the last in its place" in plan:
        problem = oracle.topk_problem(got, tensor, k, dim, **flags)
    if problem is None and last_alone:
        problem = oracle.topk_problem(got, tensor, k, dim, **flags, last_alone=True)
    return problem


class Library:
    """One build of the kernels."""

    def __init__(self, path: Path):
        self.lib = ctypes.CDLL(str(path))

    def forms(self) -> list[str]:
        text = ctypes.create_string_buffer(4096)
        self.lib.simt_forms(text, ctypes.c_size_t(len(text)))
        return text.value.decode().split()

    def counts(self) -> dict[str, int]:
        counts = (ctypes.c_uint64 * 3)()
        self.lib.simt_counts(counts)
        return dict(zip(("launches", "block_turns", "thread_turns"), counts, strict=True))

    def plant(self, mutant: int) -> None:
        """Puts a fault of mutants.py in force; 0: none."""
        self.lib.simt_plant(ctypes.c_int(mutant))

    def _run(self, function, call: ctypes.Structure, device: Device, seed: int) -> str:
        text = ctypes.create_string_buffer(2048)
        where = _Device(**dataclasses.asdict(device), seed=seed)
        result = function(ctypes.byref(call), ctypes.byref(where), text, ctypes.c_size_t(len(text)))
        message = text.value.decode(errors="replace")
        if result == -1:
            raise NotServed(message)
        if result != 0:
            raise Found(message if result == -2 else f"CUDA error {result} ({message})")
        return message

    def _call(self, function, tensor, k, values, indices, device, seed, options) -> str:
        return self._run(function, self._request(tensor, k, values, indices, options), device, seed)

    def _request(self, tensor, k, values, indices, options) -> _Topk:
        """Of a [rows, cols] tensor."""
        return _Topk(
            dtype=_DTYPES[tensor.dtype],
            algorithm=ALGORITHMS.index(options.pop("algorithm", "auto")),
            largest=options.pop("largest", True),
            sorted=options.pop("sorted", True),
            by_index=options.pop("by_index", False),
            last_alone=options.pop("last_alone", False),
            magnitude=options.pop("magnitude", False),
            wide_indices=indices is None or indices.dtype == torch.int64,
            rows=tensor.shape[0],
            cols=tensor.shape[1],
            row_stride=tensor.stride(0) if tensor.shape[0] > 1 else tensor.shape[1],
            k=k,
            form=options.pop("form", "").encode(),
            overrides=",".join(f"{name}={value}" for name, value in options.items()).encode(),
            input=tensor.data_ptr(),
            values=0 if values is None else values.data_ptr(),
            indices=0 if indices is None else indices.data_ptr(),
        )

    def plan(self, tensor: torch.Tensor, k: int, device: Device = Device(), **options) -> str:
        """The plan as text. `options`: as of topk."""
        return self._call(self.lib.simt_plan, tensor, k, None, None, device, 1, dict(options))

    def topk(
        self,
        tensor: torch.Tensor,
        k: int,
        device: Device = Device(),
        seed: int = 1,
        index_dtype=torch.int64,
        **options,
    ) -> tuple[torch.Tensor, torch.Tensor, str]:
        """(values, indices, plan) of a [rows, cols] tensor whose rows are adjacent elements.

        `algorithm` (a name) or `form` ("air.one_block"), `largest`, `sorted`, `by_index`, `last_alone`,
        `magnitude`; the rest are numbers of the form (form_configs.h has them); forced=1 runs a form also
        where it would not serve. Or `baseline`, a name of simt_baseline, and sorted=False.
        """
        assert tensor.dim() == 2 and (tensor.stride(1) == 1 or tensor.shape[1] == 1)
        values = torch.empty((tensor.shape[0], k), dtype=tensor.dtype)
        indices = torch.empty((tensor.shape[0], k), dtype=index_dtype)
        options, function = dict(options), self.lib.simt_topk
        if "baseline" in options:
            options["form"], function = options.pop("baseline"), self.lib.simt_baseline
        plan = self._call(function, tensor, k, values, indices, device, seed, options)
        return values, indices, plan

    def strided(
        self, tensor, k: int, dim_last: bool = False, index_dtype=torch.int64, panel_bytes: int = 0,
        list_bytes: int = 0, device: Device = Device(), seed: int = 1, **options,
    ):  # fmt: skip
        """(values, indices, plan) of a [outer, cols, inner] tensor of any strides over dim 1: outputs are
        [outer, k, inner], or with `dim_last` [outer, inner, k]. panel_bytes: panels of so many; 0: as
        planned. list_bytes: of the memory for candidates of rows that are read across."""
        outer, cols, inner = tensor.shape
        shape = (outer, inner, k) if dim_last else (outer, k, inner)
        values = torch.empty(shape, dtype=tensor.dtype)
        indices = torch.empty(shape, dtype=index_dtype)
        strides = tensor.stride()
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
        row_stride = strides[0] if inner == 1 else strides[2]
        plain = strides[1] == 1 and (inner == 1 or outer == 1 or strides[0] == inner * strides[2])
        call = _Strided(
            # Rows without memory: where they lie, the layout says.
            topk=self._request(tensor[:1, :, 0].expand(outer * inner, cols), k, values, indices, options),
            input=_Layout(1, row_stride, 0, 1)
            if plain
            else _Layout(inner, strides[0], strides[2], strides[1]),
            outputs=_Layout(1, k, 0, 1) if dim_last or inner == 1 else _Layout(inner, k * inner, 1, inner),
            input_elements=last + 1,
            panel_bytes=panel_bytes,
            list_bytes=list_bytes,
        )
        if plain:
            call.topk.row_stride = row_stride
        return values, indices, self._run(self.lib.simt_strided, call, device, seed)

    def rerank(
        self,
        queries,
        vectors,
        ids,
        k: int,
        metric: int,
        device: Device = Device(),
        seed: int = 1,
        *,
        lengths=None,
        row_offsets=None,
        allow=None,
        scales=None,
        positions: bool = False,
        most_stored_bytes: int = 2**28,
    ):
        """(distances, ids, plan), as of torch.ops.gputopk.rerank."""
        distances = torch.empty((queries.shape[0], k), dtype=torch.float32)
        ids_out = torch.empty((queries.shape[0], k), dtype=ids.dtype)
        ranges = lengths if row_offsets is None else row_offsets

        def address(tensor):
            return None if tensor is None else tensor.data_ptr()

        call = _Rerank(
            dtype=_DTYPES[vectors.dtype],
            query_dtype=_DTYPES[queries.dtype],
            metric=metric,
            wide_ids=ids.dtype == torch.int64,
            wide_ranges=ranges is not None and ranges.dtype == torch.int64,
            allow_shift=0 if allow is None or allow.dtype == torch.bool else 3,
            positions=positions,
            queries=queries.shape[0],
            vectors=vectors.shape[0],
            candidates=max(ids.shape[-1], k),
            listed=0 if row_offsets is None else ids.shape[0],
            dims=queries.shape[1],
            k=k,
            query_stride=queries.stride(0),
            vector_stride=vectors.stride(0),
            id_stride=ids.stride(0) if ids.dim() == 2 else 0,
            allow_bytes=0 if allow is None else allow.nbytes,
            most_stored_bytes=most_stored_bytes,
            query_rows=queries.data_ptr(),
            vector_rows=vectors.data_ptr(),
            scales=address(scales),
            ids=ids.data_ptr(),
            lengths=address(lengths),
            row_offsets=address(row_offsets),
            allow=address(allow),
            distances=distances.data_ptr(),
            ids_out=ids_out.data_ptr(),
        )
        return distances, ids_out, self._run(self.lib.simt_rerank, call, device, seed)

    def sparsify(
        self, tensor, k: int, add=None, alpha=1.0, momentum=None, mu=0.0, index_dtype=torch.int32,
        resident: bool | None = None, one_read: bool | None = None, two_sided: bool | None = None,
        device: Device = Device(), seed: int = 1,
    ):  # fmt: skip
        """(values, indices, plan), as of torch_topk.sparsify_; `tensor` and `momentum` are changed. resident:
        whether it is, where that serves, one_read, whether it is one, and two_sided, whether by two bounds;
        None: as planned."""
        rows, cols = tensor.shape
        values = torch.empty((rows, k), dtype=tensor.dtype)
        indices = torch.empty((rows, k), dtype=index_dtype)
        call = _Sparsify(
            dtype=_DTYPES[tensor.dtype],
            add_dtype=_DTYPES[tensor.dtype if add is None else add.dtype],
            update=0 if add is None else 3 if momentum is not None else 1 if alpha == 1 else 2,
            wide_indices=index_dtype == torch.int64,
            resident=-1 if resident is None else resident,
            one_read=-1 if one_read is None else one_read,
            two_sided=-1 if two_sided is None else two_sided,
            alpha=alpha,
            mu=mu,
            rows=rows,
            cols=cols,
            self_stride=tensor.stride(0),
            add_stride=0 if add is None else add.stride(0),
            momentum_stride=0 if momentum is None else momentum.stride(0),
            k=k,
            self=tensor.data_ptr(),
            add=0 if add is None else add.data_ptr(),
            momentum=0 if momentum is None else momentum.data_ptr(),
            values=values.data_ptr(),
            indices=indices.data_ptr(),
        )
        return values, indices, self._run(self.lib.simt_sparsify, call, device, seed)

    def settle_stage(
        self, values, counts, needed, k: int, spare: int, largest: bool, magnitude: bool,
        device: Device = Device(), seed: int = 1,
    ):  # fmt: skip
        """As gputopk::_settle_stage."""
        sure, left, row_k = (torch.empty_like(counts) for _ in range(3))
        last = torch.empty(len(values), dtype=values.dtype)
        call = _Stage(
            dtype=_DTYPES[values.dtype],
            largest=largest,
            magnitude=magnitude,
            spare=spare,
            rows=values.shape[0],
            places=values.shape[1],
            k=k,
            values=values.data_ptr(),
            counts=counts.data_ptr(),
            needed=0 if needed is None else needed.data_ptr(),
            sure=sure.data_ptr(),
            left=left.data_ptr(),
            row_k=row_k.data_ptr(),
            last=last.data_ptr(),
        )
        self._run(self.lib.simt_settle, call, device, seed)
        return sure, left, row_k, last

    def mask_of_kth(
        self, tensor, index, lengths=None, largest: bool = True, magnitude: bool = False,
        equals: bool = False, out=None, fill: int = 0, device: Device = Device(), seed: int = 1,
    ):  # fmt: skip
        """As gputopk::_mask_of_kth; lengths are int64, and rows of adjacent elements. Or to `out`, of
        tensor's dtype, maybe tensor itself: its elements, and `fill`, bits, in place of those that the mask
        has not."""
        written = torch.empty(tensor.shape, dtype=torch.bool) if out is None else out
        call = _Mask(
            **_sets_of_rows(tensor, written, largest, magnitude, fill, keeps=out is not None),
            equals=equals,
            index_stride=index.stride(0),
            indices=index.data_ptr(),
            lengths=0 if lengths is None else lengths.data_ptr(),
        )
        self._run(self.lib.simt_mask, call, device, seed)
        return written

    def keep_topk(
        self, tensor, k: int, largest: bool = True, magnitude: bool = False, out=None, fill: int = 0,
        form: str = "", device: Device = Device(), seed: int = 1,
    ):  # fmt: skip
        """(mask, plan), as of gputopk::_topk_mask; or (out, plan), as mask_of_kth has `out` and `fill`. form:
        by its name, where it serves the call and keeps winners in their places; as planned by default."""
        written = torch.empty(tensor.shape, dtype=torch.bool) if out is None else out
        call = _Keep(
            **_sets_of_rows(tensor, written, largest, magnitude, fill, keeps=out is not None),
            k=k,
            form=form.encode(),
        )
        return written, self._run(self.lib.simt_keep, call, device, seed)

    def join_stages(
        self, keys, found, counts, k: int, most: int, largest, magnitude, order: int, pad_index: int,
        device: Device = Device(), seed: int = 1,
    ):  # fmt: skip
        """As gputopk::_join_stages."""
        rows, cols = keys[0].shape
        values = [torch.empty((rows, k), dtype=key.dtype) for key in keys]
        indices = torch.empty((rows, k), dtype=found[0].dtype)
        totals = torch.empty_like(counts[0])

        def pointers(tensors):
            return (_MOST_KEYS * ctypes.c_void_p)(*(tensor.data_ptr() for tensor in tensors))

        call = _Join(
            keys=len(keys),
            order=order,
            wide_indices=indices.dtype == torch.int64,
            dtypes=(_MOST_KEYS * ctypes.c_int32)(*(_DTYPES[key.dtype] for key in keys)),
            largest=(_MOST_KEYS * ctypes.c_int32)(*largest),
            magnitude=(_MOST_KEYS * ctypes.c_int32)(*magnitude),
            rows=rows,
            cols=cols,
            k=k,
            most=most,
            pad_index=pad_index,
            places=(_MOST_KEYS * ctypes.c_int64)(*(indices.shape[1] for indices in found)),
            columns=pointers(keys),
            found=pointers(found),
            counts=pointers(counts),
            values=pointers(values),
            indices=indices.data_ptr(),
            totals=totals.data_ptr(),
        )
        self._run(self.lib.simt_join, call, device, seed)
        return values, indices, totals

    def varlen(self, tensor, k: int, device: Device = Device(), seed: int = 1, gap: int = 0, **options):
        """((values, indices, counts), plan), as of torch_topk.topk_varlen. Numbers, masks and ids are dense;
        ids and mask are [rows, cols]. gap: elements between rows of the outputs. form: by its name,
        where it serves. conditions: the operator's columns, comparisons and
        thresholds, one tuple each."""
        rows, cols = tensor.shape
        index_dtype = options.get("index_dtype", torch.int32)
        wide_values = torch.empty((rows, k + gap), dtype=tensor.dtype)
        wide_indices = torch.empty((rows, k + gap), dtype=index_dtype)
        counts = torch.empty(rows, dtype=torch.int32)
        return_values = options.get("return_values", True)
        mask, table = options.get("mask"), options.get("page_table")
        conditions = [_condition(*condition) for condition in options.get("conditions", ())]
        names = ("lengths", "starts", "row_k", "offsets", "ids", "page_table", "page_row", "page_start")
        call = _Varlen(
            dtype=_DTYPES[tensor.dtype],
            largest=options.get("largest", True),
            magnitude=options.get("magnitude", False),
            order=("any", "value", "index").index(options.get("order", "any")),
            wide_indices=index_dtype == torch.int64,
            page_shift=options.get("page_size", 1).bit_length() - 1,
            kth_alone=options.get("kth_alone", False),
            forms=options.get("form", "").encode(),
            rows=rows,
            cols=cols,
            row_stride=tensor.stride(0) if rows > 1 else cols,
            k=k,
            max_length=min(options.get("max_length", cols), cols),
            pad_index=options.get("pad_index", -1),
            tables=0 if table is None else table.shape[0],
            pages=0 if table is None else table.shape[1],
            mask_row_stride=0 if mask is None else mask.stride(0),
            mask_elements=0 if mask is None else mask.numel(),
            value_stride=k + gap,
            index_stride=k + gap,
            input=tensor.data_ptr(),
            mask=0 if mask is None else mask.data_ptr(),
            values=wide_values.data_ptr() if return_values else 0,
            indices=wide_indices.data_ptr(),
            counts=counts.data_ptr(),
            conditions=(_Condition * _MOST_CONDITIONS)(*conditions),
            condition_count=len(conditions),
            **{name: _numbers(options.get(name)) for name in names},
        )
        plan = self._run(self.lib.simt_varlen, call, device, seed)
        values = wide_values[:, :k] if return_values else None
        return (values, wide_indices[:, :k], counts), plan

    def probe(self, name: str, seed: int = 1) -> list[int]:
        """The output of a kernel of probes.cpp."""
        output = (ctypes.c_uint32 * 64)()
        text = ctypes.create_string_buffer(2048)
        where = _Device(**dataclasses.asdict(Device()), seed=seed)
        result = self.lib.simt_probe(
            name.encode(), ctypes.byref(where), output, text, ctypes.c_size_t(len(text))
        )
        if result != 0:
            raise Found(text.value.decode(errors="replace"))
        return list(output)

    def check(self, tensor: torch.Tensor, k: int, device: Device = Device(), seed: int = 1, **options) -> str:
        """Runs it and compares with the oracle; returns the plan."""
        values, indices, plan = self.topk(tensor, k, device, seed, **options)
        problem = _topk_problem((values, indices), tensor, k, 1, plan, options)
        if problem is None and options.get("by_index") and not (indices.diff(dim=1) > 0).all():
            problem = "not by index"
        assert problem is None, f"{problem} ({plan})"
        return plan

    def check_strided(self, tensor: torch.Tensor, k: int, dim_last: bool = False, **options) -> str:
        """The same of a [outer, cols, inner] tensor over dim 1; options as of `strided`."""
        values, indices, plan = self.strided(tensor, k, dim_last=dim_last, **options)
        # [outer, inner, k] of a [outer, inner, cols] tensor
        as_written = tensor.transpose(1, 2) if dim_last else tensor
        dim = 2 if dim_last else 1
        problem = _topk_problem((values, indices), as_written, k, dim, plan, options)
        assert problem is None, f"{problem} ({plan})"
        return plan


@functools.cache
def library() -> Library:
    """The working tree's, built where it has to be."""
    return Library(build())


def check(*arguments, **options) -> str:
    return library().check(*arguments, **options)


def columns_of(rows: torch.Tensor, inner: int) -> torch.Tensor:
    """[rows / inner, cols, inner], dense."""
    return rows.reshape(-1, inner, rows.shape[1]).transpose(1, 2).contiguous()


def run_case(case: Case, lib: Library | None = None) -> str:
    """One case of tests/cases.py, whose options are those of Library.topk and the fields of Device. inner: so
    many rows lie side by side, and the options are those of Library.strided."""
    options = dict(case.options)
    fields = {field.name for field in dataclasses.fields(Device)}
    device = Device(**{name: options.pop(name) for name in list(options) if name in fields})
    lib = lib or library()
    if "inner" in options:
        tensor = columns_of(case.tensor(), options.pop("inner"))
        return lib.check_strided(tensor, case.k, device=device, seed=case.seed, **options)
    return lib.check(case.tensor(), case.k, device, case.seed, **options)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(library().forms()))
    for line in sys.argv[1:]:
        print(run_case(Case.parse(line)))
