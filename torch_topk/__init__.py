"""Exact top-k for PyTorch, close to the speed of reading the input once.

``torch_topk.topk`` takes the place of ``torch.topk``; the operator itself is ``torch.ops.gputopk.topk``.
``torch_topk.sparsify_`` takes the largest magnitudes out of a gradient that it accumulates.
``torch_topk.rerank`` keeps the best of the candidates of a nearest-neighbour search.
Importing this package loads the libraries that register it.
"""

from . import distributed
from ._elsewhere import backend
from ._libraries import has_cuda
from ._version import __version__
from .ops import Algorithm, topk
from .rerank import Metric, Reranked, rerank
from .sparsification import CompressionStats, TopKState, sparse_all_reduce_, sparse_sum, topk_hook
from .sparsify import Sparse, sparsify_
from .streaming import StreamingTopK

__all__ = [
    "Algorithm",
    "CompressionStats",
    "Metric",
    "Reranked",
    "Sparse",
    "StreamingTopK",
    "TopKState",
    "__version__",
    "backend",
    "distributed",
    "has_cuda",
    "rerank",
    "sparse_all_reduce_",
    "sparse_sum",
    "sparsify_",
    "topk",
    "topk_hook",
]
