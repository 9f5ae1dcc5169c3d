"""torch_topk.StreamingTopK on the CPU, against topk of all chunks at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests import inputs, oracle
from tests.python import gloo
from torch_topk import StreamingTopK, streaming, topk


def assert_same(got, want):
    assert torch.equal(oracle.as_ints(got[0]), oracle.as_ints(want[0])) and got[0].dtype == want[0].dtype
    assert torch.equal(got[1], want[1])


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_as_all_at_once(dtype):
    for seed, name in enumerate(("random_bits", "few_distinct", "increasing", "decreasing")):
        tensor = inputs.make(name, 3, 1000, dtype, seed=seed)
        cuts = [0, 1, 1, 300, 310, 990, 1000]
        for k in (1, 20, 400, 1000):
            for flags in ({}, {"largest": False}, {"magnitude": True}):
                stream = StreamingTopK(k, **flags)
                for begin, end in itertools.pairwise(cuts):
                    stream.update(tensor[:, begin:end])
                assert_same(stream.result(), topk(tensor, k, **flags))


def test_sources(tmp_path):
    row = torch.randn(10_007)
    want = topk(row, 50)
    file = tmp_path / "row.bin"
    row.numpy().tofile(file)
    sources = {
        "tensor": row,
        "memory-mapped by torch": torch.from_file(str(file), size=10_007),
        "memory-mapped by numpy": np.memmap(file, np.float32, "r"),
        "generator": (row[i : i + 1000] for i in range(0, 10_007, 1000)),
        "list of arrays": [row[:4000].numpy(), row[4000:].numpy()],
    }
    for source in sources.values():
        done = []
        stream = StreamingTopK(50, progress=done.append).consume(source, chunk=1000)
        assert_same(stream.result(), want)
        assert sum(done) == stream.position == 10_007 and len(done) > 1


def test_fewer_than_k_and_what_is_left_out():
    stream = StreamingTopK(5)
    stream.update(torch.tensor([3.0, 1.0]))
    assert stream.result().values.tolist() == [3.0, 1.0]
    stream.update(torch.tensor([2.0, 4.0]), offset=100)
    assert stream.result().indices.tolist() == [101, 0, 100, 1] and stream.position == 102
    stream.update(torch.zeros(0))
    stream.result().values.zero_()  # a copy
    assert stream.result().values.tolist() == [4.0, 3.0, 2.0, 1.0]


def test_a_state_goes_on():
    row = torch.randn(2, 5000).bfloat16()
    whole = StreamingTopK(70, magnitude=True).consume(row, chunk=600)
    part = StreamingTopK(70, magnitude=True).consume(row[:, :1800], chunk=600)
    later = StreamingTopK(70, magnitude=True)
    later.load_state_dict(part.state_dict())
    part.update(torch.zeros(2, 9).bfloat16())  # the state was a copy
    assert_same(later.consume(row[:, 1800:], chunk=600).result(), whole.result())
    fresh = StreamingTopK(70, magnitude=True)
    fresh.load_state_dict(StreamingTopK(70, magnitude=True).state_dict())
    assert_same(fresh.consume(row).result(), whole.result())
    with pytest.raises(RuntimeError, match=r"'k': 70.* cannot go on with .*'k': 71"):
        StreamingTopK(71, magnitude=True).load_state_dict(part.state_dict())


def test_refusals():
    stream = StreamingTopK(3)
    with pytest.raises(RuntimeError, match="no chunk yet"):
        stream.result()
    stream.update(torch.zeros(2, 4))
    for chunk, offset, words in (
        (torch.zeros(2, 4), 3, "a chunk at 3 begins before the end of those before, 4"),
        (
            torch.zeros(2, 4).int(),
            None,
            r"torch.int32 \[2, 4\], but those before were torch.float32 \[2, 'any",
        ),
        (torch.zeros(3, 4), None, r"\[3, 4\], but those before"),
        (torch.zeros(()), None, "1 dimension or more"),
    ):
        with pytest.raises(RuntimeError, match=words):
            stream.update(chunk, offset)
    for k, error in ((0, RuntimeError), (1.5, TypeError)):
        with pytest.raises(error, match="k"):
            StreamingTopK(k)
    with pytest.raises(TypeError, match="source must be"):
        stream.consume(7)
    with pytest.raises(RuntimeError, match="chunk must be at least 1, but is 0"):
        stream.consume(torch.zeros(2, 4), chunk=0)


def test_a_chunk_that_is_refused_leaves_the_stream_as_it_was(monkeypatch):
    stream = StreamingTopK(2)
    for chunk in (torch.zeros(3, dtype=torch.complex64), torch.zeros(0, dtype=torch.complex64)):
        with pytest.raises(NotImplementedError, match=r"StreamingTopK: not implemented for torch.complex64"):
            stream.update(chunk)
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "topk", lambda *arguments, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.update(torch.zeros(3, 4, dtype=torch.int32), offset=7)
    assert stream.position == 0
    with pytest.raises(RuntimeError, match="no chunk yet"):
        stream.result()
    stream.update(torch.tensor([1.0, 3.0, 2.0]))
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "topk", lambda *arguments, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.update(torch.tensor([9.0]))
    assert stream.position == 3 and stream.result().values.tolist() == [3.0, 2.0]


def test_a_source_without_elements_is_a_chunk_and_one_without_dimensions_is_none():
    for source in (torch.zeros(4, 0), np.zeros((4, 0), dtype=np.float32)):
        stream = StreamingTopK(2).consume(source)
        assert stream.position == 0 and stream.result().values.shape == (4, 0)
        with pytest.raises(RuntimeError, match=r"but those before were torch\.float32"):
            stream.update(torch.zeros(5, 3))
    for source in (torch.tensor(1.0), np.float32(1), np.array(1.0)):
        with pytest.raises(RuntimeError, match="a chunk must have 1 dimension or more, but has 0"):
            StreamingTopK(2).consume(source)


def of_ranks(rank):
    row = torch.randint(0, 50, (2, 900), generator=torch.Generator().manual_seed(3)).float()
    cuts = [0, 333, 900]
    results = []
    for k in (1, 40, 500, 900, 2000):
        stream = StreamingTopK(k, device=gloo.device())
        begin, end = cuts[1 - rank], cuts[2 - rank]  # not in the order of the ranks
        for at in range(begin, end, 100):
            stream.update(row[:, at : min(at + 100, end)], offset=at)
        results.append((stream.result_of_ranks(), topk(row, min(k, 900))))
    half = StreamingTopK(40, device=gloo.device()).consume(row if rank == 0 else row[:, :0])
    results.append((half.result_of_ranks(), topk(row, 40)))
    empty = StreamingTopK(3, device=gloo.device())
    if rank == 0:
        empty.update(row)
    try:
        empty.result_of_ranks()
    except RuntimeError as error:
        return results, str(error)
    return results, "nothing"


def test_streams_of_several_ranks():
    check_ranks(gloo.run(2, of_ranks))


def check_ranks(of_each):
    (zero, told), (one, tells) = of_each
    for results in (zero, one):
        for got, want in results:
            assert_same(got, want)
    assert "rank 1 was called with" in told and "there has been no chunk yet" in tells
