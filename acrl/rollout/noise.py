"""Random numbers that belong to what they are for, not to when they are drawn.

Every stream is seeded by (seed, purpose, ids…), so micro-batches, ranks, evaluation and resuming cannot shift it, and
the global generators are never touched.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def stream(seed: int, purpose: str, *ids: int) -> torch.Generator:
    """Return a CPU generator that belongs to (seed, purpose, ids)."""
    key = repr((seed, purpose, *ids)).encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def row_uniforms(seed: int, purpose: str, iteration: int, refill_round: int, rows: range, length: int) -> Tensor:
    """Return one uniform number in [0, 1) per global row and token, [len(rows), length], float64."""
    numbers = [
        torch.rand(length, generator=stream(seed, purpose, iteration, refill_round, row), dtype=torch.float64)
        for row in rows
    ]
    return torch.stack(numbers)


def permutation(size: int, seed: int, purpose: str, *ids: int) -> Tensor:
    """Return a permutation of 0 … size−1 that belongs to (seed, purpose, ids), [size]."""
    return torch.randperm(size, generator=stream(seed, purpose, *ids))
