"""Cleaning steps: pure, counted, idempotent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerne.data.clean import STEPS, Cleaner, control, newlines, nfc, trailing_space


def test_each_step_changes_only_its_own_concern() -> None:
    assert newlines("a\r\nb\rc\u2028d\n") == ("a\nb\nc\nd\n", 3)
    assert control("a\x00b\x1b[0m\tc\n\ufeffd\x7f") == ("ab[0m\tc\nd", 4)
    assert nfc("e\u0301 a") == ("é a", 1)
    assert nfc("é a") == ("é a", 0)
    assert trailing_space("a \t\n b\n  \nc ") == ("a\n b\n\nc", 3)


def test_the_order_is_fixed_and_changes_are_counted() -> None:
    clean = Cleaner(["trailing-space", "newlines"])
    assert clean("a \r\nb\r\n") == "a\nb\n"
    assert clean.counts == {"newlines": 2, "trailing-space": 1}
    assert Cleaner([])("a \r\x00") == "a \r\x00"


@pytest.mark.parametrize("name", sorted(STEPS))
@given(text=st.text(alphabet="a \t\r\n\x00\u0301\u2028é", max_size=30))
def test_steps_are_idempotent(name: str, text: str) -> None:
    once, _ = STEPS[name](text)
    assert STEPS[name](once) == (once, 0)


def test_trailing_space_is_linear_on_a_long_run() -> None:
    # A quadratic pattern would need 10^12 steps here.
    text = " " * 1_000_000 + "x" + "\t" * 1_000_000
    assert trailing_space(text) == (" " * 1_000_000 + "x", 1)
