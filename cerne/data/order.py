"""Shuffled orders that are a pure function of (seed, epoch, salt).

The order is the stable sort of SplitMix64 values, so it does not depend on a library's random
generator, its version or the machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(*values: int) -> int:
    """One 64-bit number from several, by SplitMix64's finaliser."""
    state = 0
    for value in values:
        state = _finalise((state + (value + 1) * _GOLDEN) & _MASK)
    return state


def shuffled(count: int, *key: int) -> npt.NDArray[np.int64]:
    """A permutation of 0..count-1 that depends only on `count` and `key`."""
    return np.argsort(hashed(count, *key), kind="stable")


def hashed(count: int, *key: int) -> npt.NDArray[np.uint64]:
    """One 64-bit value for each of 0..count-1, from `key`."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(mix(*key))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _finalise(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
