"""torch_topk.StreamingTopK on a GPU: chunks that are copied while others are selected from."""

from __future__ import annotations

import pytest
import torch

from tests import oracle
from torch_topk import StreamingTopK, topk

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(("shape", "k"), [((1 << 22,), 2048), ((3, 1 << 18), 100), ((1 << 20,), 1 << 18)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_as_all_at_once(dtype, shape, k, pinned):
    tensor = (torch.randn(shape) * 1000).to(dtype)
    want = topk(tensor, k)
    for size in (1 << 16, 100_003):
        stream = StreamingTopK(k, device="cuda")
        kept = []
        for begin in range(0, shape[-1], size):
            chunk = tensor[..., begin : begin + size].clone()
            if pinned:
                kept.append(chunk := chunk.pin_memory())
            stream.update(chunk)
            if not pinned:
                chunk.zero_()  # it may be changed
        values, indices = stream.result()
        assert torch.equal(oracle.as_ints(values.cpu()), oracle.as_ints(want.values))
        assert torch.equal(indices.cpu(), want.indices)


def test_on_another_stream_and_of_chunks_there():
    tensor = torch.randn(1 << 21)
    want = topk(tensor, 500)
    with torch.cuda.stream(torch.cuda.Stream()):
        stream = StreamingTopK(500, device="cuda").consume(tensor[: 1 << 20], chunk=1 << 18)
        stream.consume(tensor[1 << 20 :].cuda(), chunk=1 << 18)
        values, indices = stream.result()
        assert torch.equal(values.cpu(), want.values) and torch.equal(indices.cpu(), want.indices)
