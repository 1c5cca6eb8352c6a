"""Encoding and decoding: lossless, specials never from text, the same ids on every path."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.errors import TokenizerError
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.special import DEFAULT_SPECIALS

STORY = (
    "The fox's house had 12 doors, 345 windows and a café. Era uma vez uma raposa que não "
    "dormia; 狐は眠らない。 Жила-была лиса... <|end|> 👩‍💻\r\n\n"
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([STORY, Path(__file__)], vocab_size=420)


TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(st.sampled_from([*DEFAULT_SPECIALS, "<|", "|>", " the", "é", "👍"])).map("".join),
)


@settings(max_examples=150, deadline=None)
@given(data=st.one_of(st.binary(max_size=80), TEXTS.map(str.encode)))
def test_bytes_come_back_and_paths_agree(tokenizer: Tokenizer, data: bytes) -> None:
    ids = tokenizer.encode(data)
    assert tokenizer.decode_bytes(ids) == data
    assert all(i < tokenizer.special_tokens["<|pad|>"] for i in ids)
    assert tokenizer.encode_array(data).tolist() == ids
    assert [a.tolist() for a in tokenizer.encode_batch([data, b"", data])] == [ids, [], ids]
    same, offsets = tokenizer.encode_with_offsets(data)
    assert same == ids
    assert [data[a:b] for a, b in offsets] == [tokenizer.token_bytes(i) for i in ids]


@given(TEXTS)
def test_a_str_is_its_utf8(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == tokenizer.encode(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_lone_surrogate_is_text_too(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a\ud800b")
    assert tokenizer.decode_bytes(ids) == b"a\xed\xa0\x80b"
    assert tokenizer.decode(ids) == "a\ufffd\ufffd\ufffdb"


def test_control_tokens_show_only_when_asked(tokenizer: Tokenizer) -> None:
    end = tokenizer.special_tokens["<|end|>"]
    ids = [*tokenizer.encode("Hi"), end, *tokenizer.encode("你"), end]
    assert tokenizer.decode(ids) == "Hi<|end|>你<|end|>"
    assert tokenizer.decode(ids, skip_special=True) == "Hi你"
    assert tokenizer.token_bytes(end) == b""
    assert tokenizer.token_byte_lengths()[end] == 0


def test_the_layout_of_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 420
    assert tokenizer.special_tokens == {name: 413 + i for i, name in enumerate(DEFAULT_SPECIALS)}
    assert tokenizer.pad_token_id == 413
    assert tokenizer.eos_token_id == 414
    assert tokenizer.end_of_turn_id == 419
    assert tokenizer.bos_token_id is None
    assert tokenizer.encode_prompt("a") == tokenizer.encode("a")
    assert {tokenizer.token_bytes(i) for i in range(256)} == {bytes([b]) for b in range(256)}


@pytest.mark.parametrize("ids", [[420], [-1], [0, 2**40], np.array([419, 420])])
def test_ids_outside_the_vocabulary_are_refused(tokenizer: Tokenizer, ids: list[int]) -> None:
    with pytest.raises(TokenizerError, match="outside the vocabulary"):
        tokenizer.decode(ids)


def test_many_threads_share_one_tokenizer(tokenizer: Tokenizer) -> None:
    texts = [STORY[i:] for i in range(60)]
    expected = [tokenizer.encode(text) for text in texts]
    wrong: list[int] = []

    def work(first: int) -> None:
        for turn in range(200):
            index = (first + turn) % len(texts)
            if tokenizer.encode(texts[index]) != expected[index]:
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i * 7,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_digest_is_that_of_the_saved_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    import hashlib

    tokenizer.save(tmp_path / "new" / "folder")
    file = tmp_path / "new" / "folder" / "tokenizer.json"
    assert tokenizer.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    again = Tokenizer.load(file)
    assert again.digest == Tokenizer.load(file.parent).digest == tokenizer.digest
    assert again.encode(STORY) == tokenizer.encode(STORY)
    other = Tokenizer.train([STORY, "xyzxyz" * 40, Path(__file__)], vocab_size=420)
    assert other.digest != tokenizer.digest
