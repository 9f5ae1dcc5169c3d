"""``import gputopk`` is ``import torch_topk``, by the name that is installed."""

import sys

from torch_topk import *  # noqa: F403
from torch_topk import __all__, __version__  # noqa: F401

# Its modules too, which are the same: a second copy would register all operators again.
for _name, _module in list(sys.modules.items()):
    _package, _, _rest = _name.partition(".")
    if _package == "torch_topk" and _rest and not _rest.startswith("_"):
        sys.modules[f"{__name__}.{_rest}"] = _module
        globals().setdefault(_rest, _module)  # functions keep their names, as in torch_topk
