"""A target of tests/fuzz.py: the kernels of topk_varlen and kth_value over the emulated GPU, asked for what
tests/fuzz_ragged.py draws, on devices of all kinds."""

from __future__ import annotations

import dataclasses
import random

import torch
from torch import Tensor

from tests.cases import Case
from tests.fuzz_ragged import Ragged
from tests.simt import emulated
from torch_topk import KthValue, TopKVarlen

_DEVICE = {field.name for field in dataclasses.fields(emulated.Device)}


def in_rows(tensor: Tensor) -> Tensor:
    """As the binding does: elements of a row are adjacent."""
    return tensor if tensor.stride(1) == 1 else tensor.contiguous()


class Kernels:
    """The functions as the case's device has them. Tables are dense there."""

    def __init__(self, case: Case):
        self.device = emulated.Device(**{name: x for name, x in case.options if name in _DEVICE})
        self.seed = case.seed

    def topk_varlen(
        self, input: Tensor, k: int, *, out: tuple[Tensor | None, Tensor] | None = None, **options
    ) -> TopKVarlen:
        for name, tensor in options.items():
            if isinstance(tensor, Tensor):
                shape = input.shape if name in ("mask", "ids") else tensor.shape
                options[name] = tensor.expand(shape).contiguous()
        gap = 0 if out is None else 3
        options["form"] = emulated.VARLEN_FORMS[self.seed % len(emulated.VARLEN_FORMS)]
        run = emulated.library().varlen
        (values, indices, counts), _ = run(in_rows(input), k, self.device, self.seed, gap, **options)
        return TopKVarlen(values, indices, counts)

    def kth_value(
        self, input: Tensor, k: int | Tensor, *, dim: int = 1, lengths: Tensor | None = None, **options
    ) -> KthValue:
        rows = input.t() if dim == 0 else input
        ks = torch.as_tensor(k).expand(rows.shape[0]).contiguous()
        options |= {"row_k": ks, "index_dtype": torch.int64, "kth_alone": True}
        if lengths is not None:
            options["lengths"] = lengths.expand(rows.shape[0]).contiguous()
        run = emulated.library().varlen
        (values, indices, _), _ = run(in_rows(rows), 1, self.device, self.seed, **options)
        return KthValue(values.t(), indices.t()) if dim == 0 else KthValue(values, indices)


class EmulatedRagged(Ragged):
    def __init__(self) -> None:
        super().__init__("cpu", ("topk_varlen", "kth_value"))
        self.calls = 6
        emulated.library()

    def functions(self, case: Case) -> Kernels:
        return Kernels(case)

    def draw(self, rng: random.Random) -> Case:
        case = self.drawn_input(rng, rng.choice((300, 3000, 3000, 20000)), 8000, 12)
        case = dataclasses.replace(case, rows=max(case.rows, 1))  # of none no kernel runs
        return case.with_options(
            sm_count=rng.randint(1, 6),
            cluster_blocks=rng.choice((1, 2, 4, 8, 16)),
            cluster_room=rng.choice((16, 16, 2, 1)),
            **({"most_cols_of_32_bits": 0} if rng.random() < 0.3 else {}),
        )
