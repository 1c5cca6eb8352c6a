"""CASES 30-37, 43 and 83: how other tokenizers failed."""

from __future__ import annotations

import itertools
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.native.trainer import NativeTrainer
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.special import DEFAULT_SPECIALS
from tests.oracles.tokenizer_oracle import corpus_texts


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return Tokenizer.train([folder / "argparse.py", "é 日本語 👍👩‍💻 не мир"], vocab_size=1500)


def test_case26_special_token_text_is_plain_text(tokenizer: Tokenizer) -> None:
    text = "a<|endoftext|>b" * 3
    ids = tokenizer.encode(text)
    assert max(ids) < min(tokenizer.special_tokens.values())
    assert tokenizer.decode(ids) == text


def test_case30_counts_do_not_overflow_32_bits() -> None:
    """With 32-bit counts "the" (2^32 + 5 times) would count 5 and vanish behind "zz"."""
    with NativeTrainer() as trainer:
        trainer.add_word(b" the", 2**32 + 5)
        trainer.add_word(b" the", 2**33)
        trainer.add_word(b"zz", 2**32 - 1)
        trainer.add_word(b"yy", 40)
        tokens = trainer.train(260).token_bytes[256:]
    assert tokens[2] == b" the"
    assert tokens[3] == b"zz"


def test_case30_memory_of_training_is_bounded_and_the_loss_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cerne.tokenizer import training

    limited = lambda pattern, threads: NativeTrainer(pattern, threads, {"max_words": 50})  # noqa: E731
    monkeypatch.setattr(training, "NativeTrainer", limited)
    text = " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)) + " the" * 99
    trained = Tokenizer.train([text], vocab_size=300, allow_fewer=True)
    assert "dropped" in capsys.readouterr().err
    assert b" the" in trained.vocabulary.token_bytes


@pytest.mark.parametrize("name", ["argparse.py", "this.py", "decimal.py"])
def test_case31_token_byte_lengths_add_up_to_the_file_size(tokenizer: Tokenizer, name: str) -> None:
    path = Path(sysconfig.get_paths()["stdlib"]) / name
    ids = tokenizer.encode_array(path.read_bytes())
    assert tokenizer.token_byte_lengths()[ids].sum() == path.stat().st_size


def test_case31_token_byte_lengths_add_up_on_corpora(
    tokenizer: Tokenizer, shared_dir: Path
) -> None:
    lengths = tokenizer.token_byte_lengths()
    for name in ("multi_udhr.jsonl.xz", "multi_genesis.jsonl.xz", "en_tinyshakespeare.txt.xz"):
        for text in corpus_texts(shared_dir / "data" / "text" / name):
            assert lengths[tokenizer.encode_array(text)].sum() == len(text.encode())


EDGES = [
    b"", b"?", "👩‍💻👍🏽".encode(), "日本語한국어".encode(), bytes(range(256)),
    b"\xed\xa0\x80\xed\xbf\xbf",
    b" a", b"\x00", b"\r\n\r", b"\xff" * 9, "e\u0301".encode(), b"\xf4\x90\x80\x80",
]  # fmt: skip


@pytest.mark.parametrize("data", EDGES)
def test_case32_encode_then_decode_is_identity(tokenizer: Tokenizer, data: bytes) -> None:
    assert tokenizer.decode_bytes(tokenizer.encode(data)) == data


def test_case32_every_single_byte_and_pair(tokenizer: Tokenizer) -> None:
    singles = [bytes([a]) for a in range(256)]
    pairs = [a + b for a, b in itertools.product(singles, singles[::5])]
    for data, ids in zip(pairs, tokenizer.encode_batch(pairs), strict=True):
        assert tokenizer.decode_bytes(ids) == data
    assert [tokenizer.decode_bytes(tokenizer.encode(a)) for a in singles] == singles


def test_case33_no_begin_or_end_token_is_added_or_lost(tokenizer: Tokenizer) -> None:
    specials = set(tokenizer.special_tokens.values())
    assert not specials & set(tokenizer.encode("x" * 5000))
    assert tokenizer.encode_prompt("x") == tokenizer.encode("x")
    end = tokenizer.eos_token_id
    assert end is not None
    assert tokenizer.decode([*tokenizer.encode("x"), end]) == "x<|endoftext|>"


def test_case34_the_bos_rule_travels_with_the_model_directory(tmp_path: Path) -> None:
    import dataclasses

    plain = Tokenizer.train(["some text"], vocab_size=266)
    roles = dataclasses.replace(plain.vocabulary.roles, bos="<|system|>", add_bos=True)
    ours = Tokenizer(dataclasses.replace(plain.vocabulary, roles=roles))
    ours.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    bos = ours.special_tokens["<|system|>"]
    assert again.bos_token_id == bos
    assert again.encode_prompt("some") == [bos, *plain.encode("some")]
    assert again.encode("some") == plain.encode("some")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*DEFAULT_SPECIALS, "<|im_end|>", "<|", "|>", "<|end", "|<|end|>|"]),
            st.text(max_size=4),
        ),
        max_size=8,
    ).map("".join)
)
def test_case36_no_text_can_yield_a_control_token(tokenizer: Tokenizer, text: str) -> None:
    first_special = min(tokenizer.special_tokens.values())
    assert all(i < first_special for i in tokenizer.encode(text))
    assert all((a < first_special).all() for a in tokenizer.encode_batch([text, text.encode()]))


def test_case43_pad_is_no_end_token(tokenizer: Tokenizer) -> None:
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.end_of_turn_id)
    assert None not in ids
    assert len(set(ids)) == 3


@pytest.mark.parametrize("text", ["👩‍💻👍🏽é", "日本語🎉", "не👍"])
def test_case83_streamed_pieces_equal_the_whole_for_every_split(
    tokenizer: Tokenizer, text: str
) -> None:
    """Every split into tokens that exist: by ids of single bytes joined in every way."""
    data = text.encode()
    id_of = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    byte_ids = [id_of[bytes([b])] for b in data]
    splits = [byte_ids, tokenizer.encode(text)]
    for cut in range(1, len(data)):
        splits.append([*byte_ids[:cut], *tokenizer.encode(data[cut:])])
        splits.append([*tokenizer.encode(data[:cut]), *byte_ids[cut:]])
    for ids in splits:
        stream = tokenizer.stream()
        deltas = [stream.push(i) for i in ids]
        assert stream.flush() == ""
        assert "".join(deltas) == tokenizer.decode(ids) == text
        assert not any("\ufffd" in delta for delta in deltas)
    for end in range(1, len(data)):
        stream = tokenizer.stream()
        deltas = [stream.push(i) for i in byte_ids[:end]]
        assert "".join(deltas) + stream.flush() == data[:end].decode("utf-8", "replace")
        assert stream.flush() == ""
    assert np.array_equal(tokenizer.encode_array(text), tokenizer.encode(text))
