"""What gputopk::sparsify_ must do, in NumPy: exact arithmetic, the oracle's order. NaN's payload is open."""

from __future__ import annotations

import numpy as np
import torch

from tests import oracle

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
PAIRS = (
    *((dtype, dtype) for dtype in DTYPES),
    (torch.float32, torch.float16),
    (torch.float32, torch.bfloat16),
)


# Exact in few bits: what the reference needs of float64.
ALPHA, MU = -0.37109375, 0.8984375
UPDATES = ("none", "add", "scaled", "momentum")


def options_of(update: str, add: torch.Tensor, momentum: torch.Tensor) -> dict[str, object]:
    """sparsify_'s arguments for one of UPDATES."""
    return {
        "none": {},
        "add": {"add": add},
        "scaled": {"add": add, "alpha": ALPHA, "index_dtype": torch.int64},
        "momentum": {"add": add, "momentum": momentum, "mu": MU},
    }[update]


def _fma(a: torch.Tensor, b: torch.Tensor | float, c: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """round(a * b + c), of numbers short enough for 64 bits of mantissa to hold a * b."""
    wide = dtype if dtype == torch.float64 else torch.float32
    number = np.float64 if wide == torch.float64 else np.float32
    with np.errstate(all="ignore"):
        factor = np.asarray(b, number) if not isinstance(b, torch.Tensor) else b.to(wide).numpy()
        product = a.to(wide).numpy().astype(np.longdouble) * factor.astype(np.longdouble)
        addend = c.to(wide).numpy().astype(np.longdouble)
        total = product + addend
        # What that has lost, exactly; where it is something, the last bit is made odd, so that rounding once
        # more does not take the total for halfway between two numbers.
        part = total - product
        lost = (product - (total - part)) + (addend - part)
        odd = np.ascontiguousarray(total).view(np.uint64).reshape(*total.shape, -1)[..., 0] & 1
        nudged = np.nextafter(total, np.where(lost > 0, np.longdouble(np.inf), np.longdouble(-np.inf)))
        total = np.where((lost != 0) & np.isfinite(lost) & (odd == 0), nudged, total)
        return torch.from_numpy(total.astype(number)).to(dtype)


def accumulated(self, add=None, alpha=1.0, momentum=None, mu=0.0):
    """(self, momentum) before anything is taken."""
    if add is None:
        return self.clone(), None
    if momentum is None:
        return _fma(add, alpha, self, self.dtype), None
    momentum = _fma(momentum, mu, add, self.dtype)
    return _fma(momentum, 1.0, self, self.dtype), momentum


def _best_first(after: torch.Tensor) -> np.ndarray:
    rows = after.view(-1, after.shape[-1])
    return oracle.best_first(oracle.bits_of(rows), rows.dtype, True, True)


def _after_taking(after, kept, best, index_dtype):
    """(values, indices, self, momentum), where of accumulated sums those at `best`, [rows, k], are taken."""
    after, kept = after.clone(), None if kept is None else kept.clone()
    rows = after.view(-1, after.shape[-1])
    indices = torch.from_numpy(np.sort(best, axis=-1).astype(np.int64))
    values = rows.gather(1, indices)
    taken = torch.zeros(rows.shape, dtype=torch.bool).scatter_(1, indices, True)
    if best.shape[1] > 0:
        taken |= ~values.isfinite().any(1, keepdim=True) & ~rows.isfinite()
    taken = taken.view(after.shape)
    after[taken] = 0
    if kept is not None:
        kept[taken] = 0
    shape = (*after.shape[:-1], best.shape[1])
    return values.view(shape), indices.to(index_dtype).view(shape), after, kept


def expected(self, k, index_dtype=torch.int32, **options):
    """(values, indices, self, momentum), as they are afterwards. `self`, `momentum`: as they are before."""
    after, kept = accumulated(self, **options)
    return _after_taking(after, kept, _best_first(after)[:, :k], index_dtype)


def assert_same(got: torch.Tensor | None, want: torch.Tensor | None, what: str) -> None:
    """To the bit, but for the payload of NaN."""
    if want is None:
        assert got is None, what
        return
    assert got.dtype == want.dtype and got.shape == want.shape, f"{what}: {got.dtype} {list(got.shape)}"
    if not want.is_floating_point():
        assert torch.equal(got, want), what
        return
    assert torch.equal(got.isnan(), want.isnan()), f"{what}: NaN"
    one = torch.ones((), dtype=want.dtype)
    same = oracle.as_ints(torch.where(got.isnan(), one, got)) == oracle.as_ints(
        torch.where(want.isnan(), one, want)
    )
    assert same.all(), (
        f"{what} differs at {(~same).nonzero()[:5].tolist()}: {got[~same][:5]}, {want[~same][:5]}"
    )


def check(function, self, *ks, **options) -> None:
    """Runs `function` (self is changed) for each k and compares all that it leaves."""
    check_each([function], self, *ks, **options)


def check_each(functions, self, *ks, **options) -> None:
    """The same of several functions, beside one reference."""
    sums = {name: value for name, value in options.items() if name != "index_dtype"}
    after, kept = accumulated(self, **sums)
    best = _best_first(after)
    for k in ks:
        want = _after_taking(after, kept, best[:, :k], options.get("index_dtype", torch.int32))
        for function in functions:
            left = self.clone()
            own = dict(options)
            if own.get("momentum") is not None:
                own["momentum"] = own["momentum"].clone()
            values, indices = function(left, k, **own)
            for got, wanted, what in zip(
                (values, indices, left, own.get("momentum")), want, ("values", "indices", "self", "momentum"),
                strict=True,
            ):  # fmt: skip
                assert_same(got, wanted, what)
