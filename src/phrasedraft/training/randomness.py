"""Random numbers that depend on what they are for, so that a run goes on anywhere as if it had never stopped."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_of(*names: int | str) -> int:
    """A seed for the thing so named; seeds of different names have nothing in common.

    >>> seed_of(0, "step", 7) == seed_of(0, "step", 7) != seed_of(0, "step", 8)
    True
    """
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:8]) >> 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from `seed` inside, as they were outside."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` also asks for every kind of accelerator
        yield
