"""Bootstrap intervals: reproducible, and as wide as theory says."""

from __future__ import annotations

import numpy as np
import pytest

from cerne.errors import InputError
from cerne.evaluate.bootstrap import interval, macro_interval, paired_interval


def test_interval_is_that_of_the_normal_law_for_many_items() -> None:
    values = [1.0] * 700 + [0.0] * 300
    bounds = interval(values)
    half = 1.96 * (0.7 * 0.3 / 1000) ** 0.5
    assert bounds.mean == 0.7
    assert bounds.low == pytest.approx(0.7 - half, abs=0.004)
    assert bounds.high == pytest.approx(0.7 + half, abs=0.004)


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    values = np.random.default_rng(3).normal(size=57)
    assert interval(values, 5) == interval(values, 5)
    assert interval(values, 5) != interval(values, 6)


def test_coverage_over_many_samples() -> None:
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        bounds = interval(generator.normal(0.3, 1.0, 60), trial)
        hits += bounds.low <= 0.3 <= bounds.high
    assert 176 <= hits <= 200  # 95 % of 200, within three standard deviations and small-sample bias


def test_macro_mean_gives_each_group_the_same_weight() -> None:
    assert macro_interval([[1.0] * 10, [0.0] * 990]).mean == 0.5
    constant = macro_interval([[1.0] * 10, [0.0] * 5])
    assert (constant.low, constant.high) == (0.5, 0.5)


def test_paired_intervals_are_narrow_where_models_agree() -> None:
    generator = np.random.default_rng(1)
    a = (generator.random(400) < 0.6).astype(float)
    b = a.copy()
    b[:20] = 1 - b[:20]
    paired = paired_interval(a, b)
    separate = interval(a)
    assert paired.high - paired.low < 0.6 * (separate.high - separate.low)
    assert paired_interval(a, a).mean == paired_interval(a, a).high == 0.0


def test_many_items_and_no_items() -> None:
    assert interval(np.ones(30_000)).low == 1.0
    for bad in ([], [[]], [[1.0], []]):
        with pytest.raises(InputError):
            macro_interval(bad)
    with pytest.raises(InputError, match="same items"):
        paired_interval([1.0], [1.0, 0.0])
