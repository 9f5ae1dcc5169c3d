"""What a form's numbers may be besides the plan's: for fuzzing, and to reach a form with short rows.

form_configs.h says which there are, and refuses what a form could not be asked.
"""

from __future__ import annotations

import random


def _air_many(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.randint(0, 6),
        "digit_bits": rng.choice((0, 0, 4, 7, 11, 14)),
        "adaptive": rng.random() < 0.8,
        "early_stop": rng.random() < 0.8,
        "buffer": rng.choice((-1, -1, 1, 64, 4096)),
    }


def _air_one_block(rng: random.Random) -> dict[str, int]:
    return {"threads": rng.choice((0, 64, 128, 256, 512)), "digit_bits": rng.choice((0, 0, 4, 6, 9, 11))}


def _air_cluster(rng: random.Random) -> dict[str, int]:
    return {
        "cluster": rng.choice((0, 1, 2, 4, 8, 16)),
        "threads": rng.choice((0, 64, 256, 512)),
        "digit_bits": rng.choice((0, 0, 4, 9, 11)),
    }


def _bitonic_many(rng: random.Random) -> dict[str, int]:
    return {"blocks": rng.choice((0, 1, 2, 3, 20))}


def _registers(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.choice((-1, 0, 1, 2, 3, 5)),
        "threads": rng.choice((0, 32, 64, 96, 128, 192, 256)),
        "thread_queues": rng.random() < 0.2,
    }


def _shared_list(rng: random.Random) -> dict[str, int]:
    return {"blocks": rng.choice((0, 1, 2, 3, 6, 40)), "threads": rng.choice((0, 64, 128, 256, 512))}


def _from_maxima(rng: random.Random) -> dict[str, int]:
    return {
        "alpha": rng.choice((0, 0, 3, 4, 5, 6, 8, 10)),
        "beta": rng.randint(0, 2),
        "buffer": rng.choice((-1, -1, 64, 300)),
        "likely_passes": rng.choice((-1, 0, 1, 2)),
    }


def _from_sample(rng: random.Random) -> dict[str, int]:
    return {
        "buffer": rng.choice((-1, -1, 64, 300)),
        "rank": rng.choice((-1, -1, 1, 9)),
        "upper_rank": rng.choice((-1, 0, 1, 5, 40)),
        "likely_passes": rng.choice((-1, 0, 1, 2)),
        "meet": rng.randint(0, 1),
        "dealt_share": rng.choice((0, 2, 3)),
    }


def _one_grid(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.choice((1, 2, 3)),
        "lines": rng.choice((1, 2, 4)),
        "group": rng.choice((8, 16, 32)),
        "rank": rng.choice((1, 9, 30, 60)),
        "buffer": rng.choice((64, 300, 5000, 40_000)),
        "counts": rng.random() < 0.6,
    }


def _grid_parts(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.choice((1, 2, 3)),
        "rank": rng.choice((1, 9, 60, 400, 4096)),
        "buffer": rng.choice((300, 5000, 20_000, 80_000)),
        "dealt": rng.choice((300, 5000, 20_000, 80_000)),
    }


def _two_bounds(rng: random.Random) -> dict[str, int]:
    return {
        "sample_blocks": rng.choice((1, 2, 8, 32)),
        "threads": rng.choice((64, 64, 128)),
        "rank": rng.choice((1, 9, 150, 257, 2000)),
        "upper_rank": rng.choice((0, 1, 9, 150, 256)),
        "place": rng.choice((0, 1, 5)),
        "buffer": rng.choice((0, 64, 300, 100_000)),
        "likely_passes": rng.choice((0, 1, 2)),
        "many": rng.randint(0, 1),
        "meet": rng.randint(0, 1),
    }


def _delegate_cluster(rng: random.Random) -> dict[str, int]:
    return {
        "cluster": rng.choice((1, 2, 4, 8, 16)),
        "threads": rng.choice((256, 256, 512)),
        "vectors": rng.choice((1, 1, 2, 4)),
        "rank": rng.choice((1, 3, 9, 200)),
        "room": rng.choice((64, 1024, 2048)),
    }


def _one_cluster(rng: random.Random) -> dict[str, int]:
    return _delegate_cluster(rng) | {"ahead": rng.choice((0, 1))}


def _resident_cluster(rng: random.Random) -> dict[str, int]:
    return {
        "cluster": rng.choice((1, 2, 4, 8, 16)),
        "threads": rng.choice((256, 256, 512)),
        "elements": rng.choice((16, 16, 32)),
        "rank": rng.choice((1, 9, 40, 256)),
        "room": rng.choice((64, 512, 1024)),
        "parts": rng.choice((0, 1)),
    }


def _resident_grid(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.choice((4, 5, 7)),
        "threads": rng.choice((256, 256, 512)),
        "elements": rng.choice((16, 16, 32)),
        "of_warp": rng.choice((1, 2, 4, 8)),
        "room": rng.choice((128, 512, 1024, 2048)),
        "parts": rng.choice((1, 2, 4)),
    }


def _air_resident_grid(rng: random.Random) -> dict[str, int]:
    return {
        "blocks": rng.choice((1, 2, 3, 5)),
        "ranked": rng.choice((1, 64, 300, 682)),
        "by_place": rng.choice((0, 1)),
    }


def _equal_shares(rng: random.Random) -> dict[str, int]:
    shares = {"blocks": rng.choice((1, 2, 3, 7)), "order_threads": rng.choice((256, 512, 1024))}
    return _delegate_cluster(rng) | shares


def _split_bucket(rng: random.Random) -> dict[str, int]:
    return {
        "threads": rng.choice((0, 128, 128, 256, 512)),
        "cutoff": rng.choice((0, 64, 64, 256, 1024)),
        "one_tree_a_row": rng.random() < 0.7,
        "best_buckets_first": rng.random() < 0.7,
    }


def _whole_rows(rng: random.Random) -> dict[str, int]:
    capacity = rng.choice((1024, 2048))
    sample_blocks = rng.choice((1, 1, 2, 4))
    return {
        "parts": rng.choice((1, 2, 5, 16)),
        "sample_blocks": sample_blocks,
        "sample_chunk": rng.choice((128, 256)) if sample_blocks > 1 else rng.choice((32, 64, 256)),
        "sample_threads": rng.choice((64, 256, 1024)),
        "capacity": capacity,
        "threads": capacity // 8,
        "blocks": rng.randint(1, 3),
    }


_DRAW = {
    "air.many_blocks": _air_many,
    "air.one_block": _air_one_block,
    "air.one_cluster": _air_cluster,
    "air.resident_grid": _air_resident_grid,
    "bitonic.many_blocks": _bitonic_many,
    "grid_select.registers": _registers,
    "grid_select.shared_list": _shared_list,
    "delegate.from_maxima": _from_maxima,
    "delegate.from_sample": _from_sample,
    "delegate.one_grid": _one_grid,
    "delegate.grid_parts": _grid_parts,
    "delegate.two_bounds": _two_bounds,
    "delegate.one_cluster": _one_cluster,
    "delegate.resident_cluster": _resident_cluster,
    "delegate.resident_grid": _resident_grid,
    "delegate.equal_shares": _equal_shares,
    "sort.whole_rows": _whole_rows,
    "split_bucket.radix": _split_bucket,
    "split_bucket.tree": _split_bucket,
}


def overrides_of(form: str, rng: random.Random) -> dict[str, int]:
    """Numbers for the form, which then runs though it might not serve; none: the plan's, where it serves."""
    if form not in _DRAW or rng.random() < 0.1:
        return {}
    drawn = {name: int(value) for name, value in _DRAW[form](rng).items()}
    return {"forced": 1, **{name: value for name, value in drawn.items() if rng.random() < 0.7}}
