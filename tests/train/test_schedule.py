"""Learning-rate and momentum schedules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerne.train.schedule import lr_factor, momentum_at, warmup_steps


def test_cosine_has_the_textbook_values() -> None:
    factors = [lr_factor(s, 101, schedule="cosine", final_factor=0.1) for s in range(101)]
    assert factors[0] == 1.0
    assert factors[50] == pytest.approx(0.55)
    assert factors[25] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 4)))
    assert factors[100] == pytest.approx(0.1)


def test_wsd_is_flat_then_linear_to_the_final_factor() -> None:
    factors = [
        lr_factor(s, 100, schedule="wsd", warmup_fraction=0.1, decay_fraction=0.2)
        for s in range(100)
    ]
    assert factors[:3] == pytest.approx([1 / 11, 2 / 11, 3 / 11])
    assert factors[10:81] == [1.0] * 71
    assert factors[90] == pytest.approx(1 - 10 / 19)
    assert factors[99] == 0.0


def test_constant_after_warmup() -> None:
    assert lr_factor(99, 100, schedule="constant", warmup_fraction=0.5) == 1.0


@given(
    total=st.integers(1, 3000),
    where=st.floats(0, 1),
    warmup=st.floats(0, 0.99),
    decay=st.floats(0.01, 1),
    final=st.floats(0, 1),
    schedule=st.sampled_from(["cosine", "wsd", "constant"]),
)
def test_factor_is_in_range_and_never_zero_before_the_end(
    total: int, where: float, warmup: float, decay: float, final: float, schedule: str
) -> None:
    step = round(where * (total - 1))
    factor = lr_factor(
        step,
        total,
        schedule=schedule,  # type: ignore[arg-type]
        warmup_fraction=warmup,
        decay_fraction=decay,
        final_factor=final,
    )
    assert 0 <= factor <= 1
    if step < total - 1:
        assert factor > 0
    if step < warmup_steps(total, warmup):
        assert factor < 1


def test_momentum_rises_to_its_final_value() -> None:
    values = [momentum_at(s, final=0.95, ramp_steps=10) for s in (0, 5, 10, 99)]
    assert values == pytest.approx([0.85, 0.90, 0.95, 0.95])
    assert momentum_at(0, final=0.9) == 0.9
