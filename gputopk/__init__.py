"""``import gputopk`` is ``import torch_topk``, by the name that is installed."""

from torch_topk import *  # noqa: F403
from torch_topk import __all__, __version__  # noqa: F401
