"""Exact top-k for PyTorch, close to the speed of reading the input once.

``torch_topk.topk`` takes the place of ``torch.topk``; the operator itself is ``torch.ops.gputopk.topk``.
``torch_topk.rerank`` keeps the best of the candidates of a nearest-neighbour search.
Importing this package loads the libraries that register it.
"""

from ._elsewhere import backend
from ._libraries import has_cuda
from ._version import __version__
from .knn import knn
from .ops import Algorithm, topk
from .rerank import Metric, Reranked, RerankedPositions, rerank

__all__ = [
    "Algorithm",
    "Metric",
    "Reranked",
    "RerankedPositions",
    "__version__",
    "backend",
    "has_cuda",
    "knn",
    "rerank",
    "topk",
]
