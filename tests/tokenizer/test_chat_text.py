"""TrackedText: the same characters as str, and the right origin for each of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerne.errors import TokenizerError
from cerne.tokenizer.chat_text import (
    MAX_CHARS,
    TEMPLATE,
    UNKNOWN,
    TrackedText,
    concat,
    cut,
    label,
    origins,
)

pieces = st.lists(
    st.tuples(st.text(alphabet="ab \n<|>x", max_size=6), st.integers(0, 3)), max_size=6
)


def tracked(parts: list[tuple[str, int]]) -> TrackedText:
    return concat(label(text, origin) for text, origin in parts)


def per_character(text: TrackedText) -> list[tuple[str, int]]:
    spread = [origin for length, origin, _ in origins(text) for _ in range(length)]
    assert len(spread) == len(text)
    return list(zip("".join((text,)), spread, strict=True))


@given(pieces, st.integers(-9, 9), st.integers(-9, 9))
def test_slices_keep_origins(parts: list[tuple[str, int]], start: int, stop: int) -> None:
    text = tracked(parts)
    assert per_character(text[start:stop]) == per_character(text)[start:stop]


@given(pieces)
def test_trimming_and_splitting_equal_str_and_keep_origins(parts: list[tuple[str, int]]) -> None:
    text, plain = tracked(parts), "".join(part for part, _ in parts)
    whole = per_character(text)
    assert text.strip() == plain.strip()
    lead = len(plain) - len(plain.lstrip())
    assert per_character(text.strip()) == whole[lead : lead + len(plain.strip())]
    for separator in ("a", "<|", "ab", None):
        assert text.split(separator) == plain.split(separator)
        assert text.rsplit(separator, 1) == plain.rsplit(separator, 1)
    assert text.splitlines() == plain.splitlines()
    assert text.splitlines(True) == plain.splitlines(True)
    assert text.partition("<|") == plain.partition("<|")
    assert text.rpartition("<|") == plain.rpartition("<|")
    assert text.replace("a", "xx") == plain.replace("a", "xx")
    assert text.upper() == plain.upper()
    position = 0
    for line in text.split("<|"):
        assert per_character(line) == whole[position : position + len(line)]
        position += len(line) + 2


@given(pieces, pieces)
def test_sums_and_products(left: list[tuple[str, int]], right: list[tuple[str, int]]) -> None:
    a, b = tracked(left), tracked(right)
    assert per_character(a + b) == per_character(a) + per_character(b)
    assert per_character(a * 3) == per_character(a) * 3
    assert per_character(b.join([a, a])) == per_character(a) + per_character(b) + per_character(a)


def test_plain_text_and_mixed_changes_are_unknown() -> None:
    mixed = label("ab", TEMPLATE) + "cd" + label("ef", 4)
    assert origins(mixed) == ((2, TEMPLATE, 0), (2, UNKNOWN, 0), (2, 4, 0))
    assert origins(mixed.upper()) == ((6, UNKNOWN, 0),)
    assert origins(label("ab", 4).upper()) == ((2, 4, 0),)
    assert cut(origins(mixed), 1, 5) == ((1, TEMPLATE, 0), (2, UNKNOWN, 0), (1, 4, 0))


def test_it_is_a_str_everywhere_else() -> None:
    text = label("role", 1)
    assert {"role": 3}[text] == 3
    assert json.dumps({"x": text}) == '{"x": "role"}'
    assert text == "role"
    assert "ol" in text


def test_runaway_sizes_are_refused() -> None:
    with pytest.raises(TokenizerError, match="too much text"):
        label("ab", TEMPLATE) * MAX_CHARS
