"""Compiles a module that calls torch_topk.topk ahead of time, for run_package.cpp to load without Python.

python examples/cpp/make_package.py model.pt2
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from torch_topk import topk


class Best(torch.nn.Module):
    """The sum of the three best of each row, and where they are."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = topk(x * 2, 3)
        return values.sum(-1), indices


def main(path: str) -> None:
    rows = torch.export.Dim("rows", min=2, max=1024)
    example = torch.zeros(8, 1000)
    program = torch.export.export(Best(), (example,), dynamic_shapes={"x": {0: rows}})
    torch._inductor.aoti_compile_and_package(program, package_path=path)


if __name__ == "__main__":
    main(sys.argv[1])
