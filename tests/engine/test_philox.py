"""Philox against Random123's known answers, and its independence of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from cerne.engine.philox import philox4x32, uniform

ONES = 0xFFFFFFFF
# The lines "philox4x32 10" of Random123's tests/kat_vectors.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers_of_random123(counter, key, expected):
    assert philox4x32(counter, key) == expected


def test_uniform_uses_the_documented_words():
    x0, x1, _, _ = philox4x32((7, 1, 3, 0), (5, 2))
    assert (
        uniform(seed=5 + (2 << 32), choice=3, position=7 + (1 << 32))
        == ((x0 >> 5) * 2**26 + (x1 >> 6)) / 2**53
    )


def test_uniform_is_uniform_and_never_one():
    numbers = np.array([uniform(1, 0, position) for position in range(20000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    observed, _ = np.histogram(numbers, bins=50, range=(0, 1))
    chi_square = ((observed - 400) ** 2 / 400).sum()
    assert chi_square < 85.4  # 99.9 % point of chi-square with 49 degrees of freedom


def test_case91_choices_positions_and_seeds_draw_independent_numbers():
    numbers = {
        (seed, choice, position): uniform(seed, choice, position)
        for seed in range(12)
        for choice in range(12)
        for position in range(12)
    }
    assert len(set(numbers.values())) == 12**3
    first = [numbers[0, choice, 0] for choice in range(12)]
    assert np.std(first) > 0.15
