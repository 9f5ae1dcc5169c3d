"""The ablations that time variants of an algorithm against each other: as data, for ablation.py.

A study is a product of inputs, cols and k; at each of its points the variants, which are options of one of
the study operators gputopk::_air, _grid_select and _delegate, are timed side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests import delegate_model, inputs

K = 2048  # of AIR's studies

Variants = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Study:
    figure: str
    operator: str  # of torch.ops.gputopk
    inputs: tuple[str, ...]
    cols: tuple[int, ...]
    ks: tuple[int, ...]
    variants: Callable[[int, int], Variants]  # of cols and k; none: not a point
    axis: str = "cols"  # what its curves go over: cols, k, or alpha, of which each variant has one
    pair: tuple[str, str] | None = None  # compared: the time of the second over that of the first
    paper: dict[str, str] = field(default_factory=dict)  # what its authors say of that, by input

    def points(self, cols: tuple[int, ...] | None = None) -> list[tuple[str, int, int]]:
        """(input, cols, k), with other cols than the study's where given; those on the same data adjoin."""
        every = itertools.product(self.inputs, cols or self.cols, self.ks)
        return [(name, c, k) for name, c, k in every if k <= c and self.variants(c, k)]


def _powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    return tuple(2**power for power in range(first, last + 1, step))


def _always(variants: Variants) -> Callable[[int, int], Variants]:
    return lambda cols, k: variants


def _betas(cols: int, k: int) -> Variants:
    """With rule 4's alpha each."""
    if not delegate_model.serves(cols, k, torch.float32):
        return {}
    return {"beta 1": {"beta": 1}, "beta 2": {"beta": 2}}


def _alphas(cols: int, k: int) -> Variants:
    if not delegate_model.serves(cols, k, torch.float32):
        return {}
    beta = delegate_model.chosen_beta(k)
    alphas = delegate_model.alphas(cols, k, torch.float32, beta)
    return {str(alpha): {"alpha": alpha, "beta": beta} for alpha in alphas}


def _bounds(cols: int, k: int) -> Variants:
    served = delegate_model.serves(cols, k, torch.float32)
    if not (served and delegate_model.is_sampled(1, cols, k, torch.float32)):
        return {}
    return {"sample": {}, "maxima": {"beta": delegate_model.chosen_beta(k)}}


STUDIES = {
    "adaptive": Study(
        "AIR, figure 9",
        "_air",
        ("ten_bit_prefix", "twelve_bit_random"),
        _powers(15, 28),
        (K,),
        _always({"on": {"adaptive": True}, "off": {"adaptive": False}}),
        pair=("on", "off"),
        paper={"ten_bit_prefix": "4.62 (A100)", "twelve_bit_random": "6.53 (A100)"},
    ),
    "early_stop": Study(
        "AIR, figure 10",
        "_air",
        ("uniform", "winners_share_a_digit"),
        _powers(15, 28),
        (K,),
        _always({"on": {"early_stop": True}, "off": {"early_stop": False}}),
        pair=("on", "off"),
        paper={"uniform": "1.187 (A100)"},
    ),
    "digit_bits": Study(
        "AIR, digit width",
        "_air",
        ("normal", "uniform", "twelve_bit_random"),
        _powers(16, 28, 4),
        (K,),
        _always({"plan": {}} | {f"{bits} bits": {"digit_bits": bits} for bits in (8, 11, 12, 13, 14)}),
    ),
    "spread": Study(
        "AIR, a row on one block, one cluster or the whole GPU",
        "_air",
        ("normal", "all_equal"),
        _powers(13, 20),
        (K,),
        _always(
            {
                "one block": {"threads": 512},
                "cluster of 8": {"cluster": 8},
                "cluster of 16": {"cluster": 16},
                "many blocks": {},
            }
        ),
        pair=("cluster of 16", "many blocks"),
    ),
    "queues": Study(
        "GridSelect, figure 11",
        "_grid_select",
        ("normal",),
        _powers(15, 28),
        (32, 64, 128, 256),
        _always({"shared": {"form": 1}, "a queue a thread": {"form": 1, "thread_queues": True}}),
        pair=("shared", "a queue a thread"),
        paper={"normal": "1.28 (A100)"},
    ),
    "beta": Study(
        "Dr. Top-k, figure 9",
        "_delegate",
        ("normal",),
        (2**28,),
        _powers(5, 20),
        _betas,
        axis="k",
        pair=("beta 2", "beta 1"),
        paper={"normal": "1.41, at k = 2^24 of 2^30 (V100S)"},
    ),
    "alpha": Study(
        "Dr. Top-k, figures 13 and 14",
        "_delegate",
        ("normal",),
        (2**28,),
        (32, 2048, 2**13, 2**15, 2**20),
        _alphas,
        axis="alpha",
    ),
    "bound": Study(
        "bound from a sample or from all maxima",
        "_delegate",
        ("normal", "uniform", "twelve_bit_random", "all_equal", "increasing", "winners_in_one_subrange"),
        (2**28,),
        (*_powers(5, 20, 3), 2**22),
        _bounds,
        axis="k",
        pair=("sample", "maxima"),
    ),
}


def winners_share_a_digit(cols: int, device: torch.device) -> torch.Tensor:
    """Uniform in [0.5, 1) but for K elements in [1, 1.25), whose first 11 bits are theirs alone."""
    x = inputs.make("uniform", 1, cols, device=device, seed=1) * 0.5 + 0.5
    x.clamp_(max=1 - 2.0**-24)
    here = torch.arange(K, device=device) * (cols // K)
    x[0, here] = (x[0, here] - 0.5) * 0.5 + 1
    return x


def make(name: str, cols: int, device: torch.device) -> torch.Tensor:
    if name == "winners_share_a_digit":
        return winners_share_a_digit(cols, device)
    return inputs.make(name, 1, cols, device=device, seed=1)
