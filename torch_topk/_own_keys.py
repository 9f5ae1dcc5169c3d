"""Leads a call of ``torch.topk`` to our kernels.

They stand behind ``aten::topk`` for two dispatch keys that no tensor has (csrc/binding/behind_aten.h): below
autograd and the version counters, above the devices. While a thread has one of the keys, its calls of
``torch.topk`` come to ours, after torch itself has seen to arguments, gradients and versions of outs, in
C++: a Python function for those takes microseconds. Other operators pass over the keys.
"""

from __future__ import annotations

import threading

import torch

_CPU, _CUDA = "FPGA", "CustomRNGKeyId"  # of backends that torch has given up

_others = [torch.library.Library("_", "IMPL", key) for key in (_CPU, _CUDA)]
for _library in _others:
    _library.fallback(torch.library.fallthrough_kernel)


class _OwnKeys(threading.local):
    """``with own_keys.cpu:`` and the same of CUDA. Within, a call of ``torch.topk`` and no more."""

    def __init__(self) -> None:
        guard, key = torch._C._IncludeDispatchKeyGuard, torch._C._dispatch_key_parse
        self.cpu = guard(key(_CPU))
        self.cuda = guard(key(_CUDA))


own_keys = _OwnKeys()
