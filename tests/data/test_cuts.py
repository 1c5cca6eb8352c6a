"""Cuts between pieces: no character is torn, and tokens of pieces are tokens of the whole."""

from __future__ import annotations

import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerne.data.cuts import character_start, cut_bytes, cut_text
from cerne.tokenizer.bpe import Tokenizer


def test_the_cut_is_before_the_space_between_two_words() -> None:
    assert cut_text("some words and more", 12) == 10
    assert cut_bytes(b"some words and more", 12) == 10
    assert cut_bytes("слова и ещё слова".encode(), 14) == len("слова и".encode())


def test_without_words_the_cut_is_at_a_line_end_and_never_in_cr_lf() -> None:
    assert cut_text("12\n34\n56", 7) == 6
    assert cut_text("ab\r\ncd", 3) == 2
    assert cut_text("xxe\u0301", 3) == 2


@given(st.text(alphabet="ab é漢🙂\r\n\u0301", min_size=2, max_size=40), st.data())
def test_pieces_are_whole_characters(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8")
    limit = data.draw(st.integers(4, max(4, len(raw) - 1)))
    if limit < len(raw):
        cut = cut_bytes(raw, limit)
        assert 1 <= cut <= limit
        raw[:cut].decode("utf-8")
        raw[cut:].decode("utf-8")
    at = data.draw(st.integers(1, len(text) - 1))
    assert 1 <= cut_text(text, at) <= at


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "qwen2"])
def test_tokens_of_pieces_are_the_tokens_of_the_whole(shared_dir, pattern) -> None:
    texts = shared_dir / "data" / "text"
    for name in ("en_tinyshakespeare.txt.xz", "ru_books.jsonl.xz", "pt_books.jsonl.xz"):
        with lzma.open(texts / name) as handle:
            data = handle.read(300_000)
        data = data[: character_start(data, len(data) - 4)]
        tokenizer = Tokenizer.train([data[:60_000]], vocab_size=500, pattern=pattern)
        whole = tokenizer.encode(data)
        for limit in (4_999, 20_011, 65_537):
            ids, start = [], 0
            while start < len(data):
                piece = data[start : start + limit + 2]
                if len(piece) > limit:
                    piece = piece[: cut_bytes(piece, limit)]
                ids += tokenizer.encode(piece)
                start += len(piece)
            assert ids == whole
