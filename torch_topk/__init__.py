"""Exact top-k for PyTorch, close to the speed of reading the input once.

``topk`` takes the place of ``torch.topk``, and ``install`` puts it behind ``torch.topk`` itself; the operator
is ``torch.ops.gputopk.topk``. What stands around it:

- ``topk_varlen``: ragged rows. ``kth_value``, ``topk_mask``, ``keep_topk``: the set without a list.
  ``top_k_top_p_filter_``: what to sample from.
- ``merge_topk``, ``topk_sharded``, ``distributed.topk``, ``StreamingTopK``: rows that lie in several places.
- ``topk_where``: a query's filter and ranking, by one key or several.
- ``sparsify_``, ``TopKState``, ``topk_hook``: gradients that are sent in part.
- ``rerank``, ``knn``: nearest neighbours.

Importing this package loads the libraries that register the operators.
"""

from . import distributed
from ._elsewhere import backend
from ._install import install, installed, uninstall
from ._libraries import has_cuda
from ._version import __version__
from ._where import Condition, TopKWhere, topk_where
from .knn import knn
from .merge import Merged, merge_topk, topk_sharded
from .ops import Algorithm, topk
from .rerank import Metric, Reranked, RerankedPositions, rerank
from .sampling import top_k_top_p_filter_
from .selection import KthValue, keep_topk, keep_topk_, kth_value, topk_mask
from .sparsification import CompressionStats, TopKState, sparse_all_reduce_, sparse_sum, topk_hook
from .sparsify import Sparse, sparsify_
from .streaming import StreamingTopK
from .varlen import TopKVarlen, topk_varlen

__all__ = [
    "Algorithm",
    "CompressionStats",
    "Condition",
    "KthValue",
    "Merged",
    "Metric",
    "Reranked",
    "RerankedPositions",
    "Sparse",
    "StreamingTopK",
    "TopKState",
    "TopKVarlen",
    "TopKWhere",
    "__version__",
    "backend",
    "distributed",
    "has_cuda",
    "install",
    "installed",
    "keep_topk",
    "keep_topk_",
    "knn",
    "kth_value",
    "merge_topk",
    "rerank",
    "sparse_all_reduce_",
    "sparse_sum",
    "sparsify_",
    "top_k_top_p_filter_",
    "topk",
    "topk_hook",
    "topk_mask",
    "topk_sharded",
    "topk_varlen",
    "topk_where",
    "uninstall",
]
