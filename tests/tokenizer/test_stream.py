"""The streaming decoder: pieces together are the whole decode, and no character is split."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.stream import StreamDecoder


def streamed(pieces: list[bytes]) -> list[str]:
    decoder = StreamDecoder(pieces.__getitem__)
    return [*(decoder.push(i) for i in range(len(pieces))), decoder.flush()]


ODD = [
    "é👍日".encode(), "👩‍💻".encode(), b"\xf0\x9f\x91", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80",
    b"\xe6\x97a", b"\x80\x80", b"\xf4\x90\x80\x80", b"\xf0\x90\xf0\x9f\x91\x8d", b"a\xe2\x82",
]  # fmt: skip


@pytest.mark.parametrize("data", ODD)
def test_every_split_gives_the_whole_decode(data: bytes) -> None:
    whole = data.decode("utf-8", errors="replace")
    for cuts in itertools.product((False, True), repeat=len(data) - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(data)]
        parts = streamed([data[a:b] for a, b in itertools.pairwise(bounds)])
        assert "".join(parts) == whole
        if "\ufffd" not in whole:
            assert parts[-1] == ""
            assert not any("\ufffd" in part for part in parts)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=5), st.text(max_size=3).map(str.encode))))
def test_any_bytes_in_any_pieces(pieces: list[bytes]) -> None:
    assert "".join(streamed(pieces)) == b"".join(pieces).decode("utf-8", errors="replace")


def test_a_tail_is_flushed_once_and_the_stream_begins_anew() -> None:
    decoder = StreamDecoder([b"\xf0\x9f", b"ok"].__getitem__)
    assert decoder.push(0) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""
    assert decoder.push(1) == "ok"


def test_control_tokens_in_a_stream() -> None:
    tokenizer = Tokenizer.train(["some text"], vocab_size=266)
    end = tokenizer.special_tokens["<|end|>"]
    half = tokenizer.encode("é".encode()[:1])
    ids = [*tokenizer.encode("a"), *half, end, *tokenizer.encode("b")]
    for skip in (False, True):
        stream = tokenizer.stream(skip_special=skip)
        text = "".join(stream.push(i) for i in ids) + stream.flush()
        assert text == tokenizer.decode(ids, skip_special=skip)
    assert text == "a\ufffdb"
