"""Compressor and n-gram baselines against a plain dictionary implementation and known sizes."""

from __future__ import annotations

import bz2
import math
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.errors import InputError
from cerne.evaluate.baselines import baselines, ngram_bits_per_byte


def plain_ngram(train: bytes, text: bytes, order: int) -> float:
    """Witten-Bell with dictionaries, byte by byte."""
    counts: dict[bytes, Counter[int]] = defaultdict(Counter)
    for at, byte in enumerate(train):
        for length in range(min(order - 1, at) + 1):
            counts[train[at - length : at]][byte] += 1
    bits = 0.0
    for at, byte in enumerate(text):
        chance = 1 / 256
        for length in range(min(order - 1, at) + 1):
            seen = counts.get(text[at - length : at])
            if seen is not None:
                total, kinds = sum(seen.values()), len(seen)
                chance = (seen[byte] + kinds * chance) / (total + kinds)
        bits -= math.log2(chance)
    return bits / len(text)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.binary(min_size=1, max_size=40), st.integers(1, 7))
def test_ngram_equals_the_plain_implementation(train: bytes, text: bytes, order: int) -> None:
    expected = plain_ngram(train, text, order)
    assert ngram_bits_per_byte(train, text, order) == pytest.approx(expected, rel=1e-12)


def test_ngram_on_words_equals_the_plain_implementation() -> None:
    train = b"the cat sat on the mat. the dog sat on the log. " * 5
    text = b"the cat sat on the log. the frog sat on the dog."
    for order in (1, 3, 5, 7):
        expected = plain_ngram(train, text, order)
        assert ngram_bits_per_byte(train, text, order) == pytest.approx(expected, rel=1e-12)


def test_probabilities_sum_to_one() -> None:
    train, prefix = b"abracadabra", b"abra"
    total = 0.0
    for byte in range(256):
        whole = ngram_bits_per_byte(train, prefix + bytes([byte]), 3) * 5
        total += 2.0 ** (ngram_bits_per_byte(train, prefix, 3) * 4 - whole)
    assert total == pytest.approx(1.0, rel=1e-9)


def test_compressors_alone_and_after_the_training_text() -> None:
    text = b"the quick brown fox jumps over the lazy dog. " * 40
    alone = baselines(text)
    assert alone.bz2 == 8 * len(bz2.compress(text, 9)) / len(text)
    assert alone.ngram is None
    after = baselines(text, text)
    assert after.xz_after is not None and after.xz_after < 0.2 * alone.xz
    assert after.ngram is not None and after.ngram < 0.5
    assert after.ngram_order == 5


def test_bad_input() -> None:
    with pytest.raises(InputError, match="empty text"):
        baselines(b"")
    with pytest.raises(InputError, match="empty text"):
        ngram_bits_per_byte(b"a", b"")
    with pytest.raises(InputError, match="order"):
        ngram_bits_per_byte(b"a", b"a", 8)


def test_shakespeare_figures(shared_dir: object) -> None:
    import lzma
    from pathlib import Path

    path = Path(str(shared_dir)) / "data" / "text" / "en_tinyshakespeare.txt.xz"
    data = lzma.decompress(path.read_bytes())
    # The figures of other people's trials on the same split: 5-gram 2.408, 3-gram 2.956.
    train, text = data[:1_003_854], data[1_003_854:]
    assert ngram_bits_per_byte(train, text, 5) == pytest.approx(2.408, abs=5e-4)
    assert ngram_bits_per_byte(train, text, 3) == pytest.approx(2.956, abs=5e-4)
