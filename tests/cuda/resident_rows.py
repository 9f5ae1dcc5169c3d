"""What the tests of rows that registers or a grid hold share, whatever blocks hold them."""

from __future__ import annotations

import itertools

import torch

from tests import inputs, oracle
from tests.cuda.calls import FLAGS, check_forms


def check(form: str, tensor: torch.Tensor, k: int, **flags) -> bool:
    """False where the form does not serve."""
    return bool(check_forms(tensor, k, (form,), **flags))


def check_every_named_input(form: str, rows: int, cols: int, ks, dtype: torch.dtype, device) -> None:
    for seed, name in enumerate(inputs.names_for(dtype)):
        tensor = inputs.make(name, rows, cols, dtype, device, seed)
        for k, flags in zip(itertools.cycle(ks), FLAGS, strict=False):
            assert check(form, tensor, k, **flags)


def check_rows_that_begin_anywhere(
    form: str, rows: int, cols: int, ks, dtype: torch.dtype, device
) -> list[bool]:
    """A few elements more and fewer, and rows in the middle of a vector; which of them the form serves."""
    served = []
    for step in (-17, -1, 0, 1):
        wide = inputs.make("normal", rows, cols + step + 3, dtype, device, seed=cols)
        for begin in (0, 1, 3):
            served += [check(form, wide[:, begin : begin + cols + step], k) for k in ks]
    return served


def check_the_longest(form: str, cols: int, dtype: torch.dtype, device) -> None:
    whole = inputs.make("normal", 1, cols, dtype, device)
    assert check(form, whole, 100) and not check(form, torch.cat([whole, whole[:, :64]], 1), 100)


def check_ties_at_the_bound(form: str, cols: int, device) -> None:
    """As many above the bound as k, one less, and none; equals of it in every block."""
    for above, k in itertools.product((0, 1, 299, 300, 3000), (1, 300, 2048)):
        tensor = torch.zeros(3, cols, device=device)
        tensor[:, 7 : 7 + 43 * above : 43] = torch.arange(above, device=device) % 5 + 1.0
        assert check(form, tensor, k)


def check_graph_replays(form: str, cols: int, other_cols: int, device, k: int = 64, other_k: int = 5) -> None:
    """One capture, a thousand replays on changed rows, beside another stream's calls."""
    like = torch.randn(1, cols, device=device)
    run = torch.ops.gputopk._form
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        run(like, k, form, True, True)
        with torch.cuda.graph(graph, stream=stream):
            values, indices = run(like, k, form, True, True)
    for replay in range(1000):
        with torch.cuda.stream(stream):
            like.mul_(-1)
            graph.replay()
        run(like.new_ones(1, other_cols), other_k, form, True, True)
        if replay % 100 == 0:
            torch.cuda.synchronize()
            oracle.assert_topk_on_device((values, indices), like, k, sorted=True)
