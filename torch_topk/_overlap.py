"""Whether tensors share memory, as csrc/binding/overlap.h has it, for outs that no operator writes to."""

from __future__ import annotations

from torch import Tensor

# A part of an address: stride times any of 0 .. count - 1.
_Term = tuple[int, int]

_MOST_STEPS = 1 << 14  # some ten milliseconds


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether two elements of the tensor are one."""
    if tensor.is_contiguous() or tensor.numel() == 0 or not _address(tensor):
        return False
    dims = _terms_of(tensor)
    behind = _reach(dims)
    for i, (stride, count) in enumerate(dims):
        behind -= stride * (count - 1)
        if stride > behind:  # this dimension's step clears all behind it
            continue
        if stride == 0:
            return True
        # The difference of two positions: positive here, anything behind, where it is shifted by ``behind``.
        differences = [(stride, count - 1), *((inner, 2 * many - 1) for inner, many in dims[i + 1 :])]
        if _can_lie_in(differences, behind - stride, behind - stride):
            return True
    return False


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether an element of ``a`` and one of ``b`` share a byte."""
    if a.device != b.device or a.numel() == 0 or b.numel() == 0:
        return False
    address_a, address_b = _address(a), _address(b)
    if not (address_a and address_b):
        return False
    if a.is_contiguous() and b.is_contiguous():
        return address_a < address_b + b.nbytes and address_b < address_a + a.nbytes
    terms_a, terms_b = _terms_of(a), _terms_of(b)
    # Address in a - address in b, with b walked from its last element back, is a sum of multiples less
    # ``shift``.
    shift = address_b - address_a + _reach(terms_b)
    low, high = shift - a.element_size() + 1, shift + b.element_size() - 1
    if high < 0 or low > _reach(terms_a) + _reach(terms_b):
        return False
    counts: dict[int, int] = {}
    for stride, count in terms_a + terms_b:  # multiples of one stride add up
        counts[stride] = counts.get(stride, 1) + count - 1
    return _can_lie_in(sorted(counts.items(), reverse=True), low, high)


def _address(tensor: Tensor) -> int:
    """0: it has none, as tensors of transforms and tracers, and of devices without kernels of ours."""
    if tensor.device.type not in ("cpu", "cuda"):
        return 0
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0


def _terms_of(tensor: Tensor) -> list[_Term]:
    """The dimensions that move an address, in bytes, largest strides first."""
    size = tensor.element_size()
    terms = [(stride * size, count) for stride, count in zip(tensor.stride(), tensor.shape, strict=True)]
    return sorted((term for term in terms if term[1] > 1), reverse=True)


def _reach(terms: list[_Term]) -> int:
    return sum(stride * (count - 1) for stride, count in terms)


def _can_lie_in(terms: list[_Term], low: int, high: int) -> bool:
    """Whether low <= a sum of one multiple of each term <= high. With the largest strides first, what the
    terms behind can reach leaves each term few multiples. Gives up on layouts made to defeat it, and then
    says yes."""
    behind = [_reach(terms[i + 1 :]) for i in range(len(terms))]
    steps = 0

    def lies(i: int, low: int, high: int) -> bool:
        nonlocal steps
        if high < 0:
            return False
        if low <= 0:  # all multiples are zero
            return True
        if i == len(terms):
            return False
        steps += 1
        if steps > _MOST_STEPS:
            return True
        stride, count = terms[i]
        first = max(-((behind[i] - low) // stride), 0)
        last = min(count - 1, high // stride)
        return any(lies(i + 1, low - n * stride, high - n * stride) for n in range(first, last + 1))

    return lies(0, low, high)
