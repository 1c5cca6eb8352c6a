"""Seeded percentile bootstrap: how far a score could be off because of the items drawn.

`interval` is for a mean over items, `macro_interval` for a mean of task means (items are resampled
within each task), `paired_interval` for the difference of two models on the same items. The same
values and seed give the same interval everywhere. Efron and Tibshirani (1993), chapter 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cerne.errors import InputError

RESAMPLES = 2000
CONFIDENCE = 0.95
# Resampled indices held at once, so that memory stays small for many items.
_BLOCK_ITEMS = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds of its confidence interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | NDArray[np.floating], seed: int = 0) -> Interval:
    """The mean of the values with its 95 % percentile interval.

    Raises:
        InputError: no values.
    """
    return macro_interval([values], seed)


def macro_interval(
    groups: Sequence[Sequence[float] | NDArray[np.floating]], seed: int = 0
) -> Interval:
    """The mean of the groups' means, each group resampled on its own.

    Raises:
        InputError: no group, or an empty one.
    """
    arrays = [np.asarray(group, np.float64) for group in groups]
    if not arrays or any(array.size == 0 for array in arrays):
        raise InputError("nothing to average", value=[a.size for a in arrays])
    generator = np.random.Generator(np.random.PCG64(seed))
    means = np.mean([_resampled_means(array, generator) for array in arrays], axis=0)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(np.mean([a.mean() for a in arrays])), float(low), float(high))


def paired_interval(
    left: Sequence[float] | NDArray[np.floating],
    right: Sequence[float] | NDArray[np.floating],
    seed: int = 0,
) -> Interval:
    """mean(left - right) over the same items with its interval; 0 inside: no clear difference.

    Raises:
        InputError: different lengths, or no items.
    """
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    if a.shape != b.shape:
        raise InputError("paired values need the same items", value=(a.size, b.size))
    return interval(a - b, seed)


def _resampled_means(
    values: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    count = values.size
    rows = max(1, _BLOCK_ITEMS // count)
    means = []
    for begin in range(0, RESAMPLES, rows):
        picks = generator.integers(0, count, (min(rows, RESAMPLES - begin), count))
        means.append(values[picks].mean(axis=1))
    return np.concatenate(means)
