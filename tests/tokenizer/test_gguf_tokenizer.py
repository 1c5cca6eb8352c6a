"""The tokenizer of a GGUF file: hand-made vocabularies of both kinds, one error for each fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_tokenizer_tools import (
    BYTES,
    SPM_PIECES,
    SPM_SCORES,
    bpe_fields,
    key,
    spm_fields,
    write,
)
from gguf_tools import BOOL, F32, F64, I32, STRING, U32, array, entry
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_spm import plain_cut, plain_encode

from cerne.errors import ModelError, TokenizerError
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.gguf_names import PRE_TOKENIZERS

Fields = dict[str, bytes]
X, END = SPM_PIECES.index("[x]"), SPM_PIECES.index("<end_of_turn>")


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Fields], Tokenizer]:
    """Writes the fields into a file and loads it."""
    return lambda fields: Tokenizer.load(write(tmp_path / "small.gguf", **fields))


def test_bpe_file_becomes_a_tokenizer(load: Callable[[Fields], Tokenizer]) -> None:
    tokenizer = load(bpe_fields())
    assert tokenizer.vocab_size == 264
    assert tokenizer.encode("hey hey") == [258, 257, ord("y")]
    assert tokenizer.eos_token_id == tokenizer.end_of_turn_id == 259
    assert tokenizer.bos_token_id == 260
    assert tokenizer.pad_token_id is None
    assert tokenizer.special_tokens == {"<|im_end|>": 259, "<s>": 260}
    assert tokenizer.chat_template == "{{ messages[0].content }}"
    assert tokenizer.encode_prompt("he") == [256]
    # Control tokens and filling are no text; text of every kind comes back.
    for text in ("<|im_end|>", "<s>", "[PAD263]", "h\u00e9 [x] \x00"):
        ids = tokenizer.encode(text)
        assert not {259, 260, 263} & set(ids)
        assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes(263) == b""


def test_user_defined_tokens_are_cut_out_the_longest_first_wherever_they_are(
    load: Callable[[Fields], Tokenizer],
) -> None:
    fields = bpe_fields()
    tokens = [*BYTES, "he", "Ġhe", "hey", "<|im_end|>", "<s>", "ab", "bcd", "[PAD263]"]
    fields["tokens"] = array(key("tokens"), STRING, tokens)
    tokenizer = load(fields)
    # From left to right it would be "ab", "c", "d".
    assert tokenizer.encode("abcd") == [ord("a"), 262]
    assert tokenizer.encode("abab bcd") == [261, 261, ord(" "), 262]
    assert [ids.tolist() for ids in tokenizer.encode_batch(["abcd", "", "ab"])] == [
        [ord("a"), 262],
        [],
        [261],
    ]


def test_the_rules_of_a_pre_tokenizer_come_with_its_name(
    load: Callable[[Fields], Tokenizer],
) -> None:
    fields = bpe_fields()
    fields["pre"] = entry(key("pre"), STRING, "llama-bpe")
    tokenizer = load(fields)
    assert tokenizer.vocabulary.pattern == "llama3"
    assert tokenizer.vocabulary.ignore_merges
    assert tokenizer.encode_prompt("he") == [260, 256]
    fields["add_bos"] = entry(key("add_bos_token"), BOOL, False)
    assert load(fields).encode_prompt("he") == [256]
    for name in PRE_TOKENIZERS:
        fields["pre"] = entry(key("pre"), STRING, name)
        assert load(fields).encode("he") == [256]


def test_a_vocabulary_may_lack_bytes(load: Callable[[Fields], Tokenizer], tmp_path: Path) -> None:
    fields = bpe_fields()
    tokens = [*BYTES, "he", "Ġhe", "hey", "<|im_end|>", "<s>", "[x]", "x]y", "[PAD263]"]
    tokens[1] = "unused"
    fields["tokens"] = array(key("tokens"), STRING, tokens)
    tokenizer = load(fields)
    assert tokenizer.vocabulary.missing_bytes == b"\x01"
    assert tokenizer.encode("h\x01e\x01") == [ord("h"), ord("e")]
    # tokenizer.json holds it, too.
    tokenizer.save(tmp_path / "saved")
    saved = Tokenizer.load(tmp_path / "saved")
    assert saved.encode("h\x01e\x01") == tokenizer.encode("h\x01e\x01")


def test_end_of_turn_names_are_control_tokens_whatever_the_file_says(
    load: Callable[[Fields], Tokenizer],
) -> None:
    fields = bpe_fields()
    fields["token_type"] = array(key("token_type"), I32, [1] * 259 + [4, 3, 4, 4, 5])
    del fields["eos"]
    tokenizer = load(fields)
    assert tokenizer.end_of_turn_id == 259
    assert 259 not in tokenizer.encode("<|im_end|>")


def test_a_common_token_as_unused_begin_is_not_taken_from_text(
    load: Callable[[Fields], Tokenizer],
) -> None:
    fields = bpe_fields()
    fields["bos"] = entry(key("bos_token_id"), U32, ord(","))
    tokenizer = load(fields)
    assert tokenizer.bos_token_id is None
    assert tokenizer.encode(",") == [ord(",")]


def test_spm_file_becomes_a_tokenizer(load: Callable[[Fields], Tokenizer]) -> None:
    tokenizer = load(spm_fields())
    at = SPM_PIECES.index
    assert tokenizer.encode("hey he") == [at("hey"), at("\u2581he")]
    assert tokenizer.encode("z\u00e9") == [at("<0x7A>"), at("\u00e9")]
    assert tokenizer.encode("a[x]b") == [at("a"), X, at("b")]
    # Equal scores: the leftmost pair.
    assert tokenizer.encode("abc") == [at("ab"), at("c")]
    assert tokenizer.end_of_turn_id == END
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert tokenizer.encode_prompt("he") == [1, at("he")]
    for text in ("<end_of_turn>", "<s>", "<0x41>", "<unk>", "  \x00\U0001f600 "):
        ids = tokenizer.encode(text)
        assert not {0, 1, 2, END} & set(ids)
        assert tokenizer.decode(ids) == text
    assert tokenizer.decode(tokenizer.encode("a\u2581b")) == "a b"


def test_spm_space_before_text_comes_and_goes(load: Callable[[Fields], Tokenizer]) -> None:
    fields = spm_fields()
    del fields["add_space_prefix"]
    tokenizer = load(fields)
    at = SPM_PIECES.index
    assert tokenizer.encode("he") == [at("\u2581he")]
    assert tokenizer.encode("") == []
    # Also behind an added token, as llama.cpp does.
    assert tokenizer.encode("he[x]he") == [at("\u2581he"), X, at("\u2581he")]
    for text in ("he", " he", "he[x]he [x] ", "[x][x]", "  "):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        stream = tokenizer.stream()
        assert "".join(map(stream.push, ids)) + stream.flush() == text
    assert [ids.tolist() for ids in tokenizer.encode_batch(["he", ""])] == [[at("\u2581he")], []]
    # An answer continues its prompt: its space is one.
    ids = tokenizer.encode("he[x]he")
    assert tokenizer.continuation.decode(ids) == " he[x]he"
    stream = tokenizer.continuation.stream()
    assert "".join(map(stream.push, ids)) == " he[x]he"


def test_spm_digest_changes_with_whatever_changes_ids(
    load: Callable[[Fields], Tokenizer], tmp_path: Path
) -> None:
    digests = {load(spm_fields()).digest, load(spm_fields()).digest}
    assert len(digests) == 1
    other = {
        "scores": array(key("scores"), F32, [*SPM_SCORES[:-1], -8.0]),
        "add_space_prefix": None,
        "tokens": array(key("tokens"), STRING, [*SPM_PIECES[:-1], "d"]),
        "bos": entry(key("bos_token_id"), U32, 2),
        "template": entry("tokenizer.chat_template", STRING, "x"),
    }
    for name, value in other.items():
        digests.add(load(changed(spm_fields(), name, value)).digest)
    assert len(digests) == 1 + len(other)
    with pytest.raises(TokenizerError, match="keep it in its GGUF file"):
        load(spm_fields()).save(tmp_path / "folder")


@settings(max_examples=150)
@given(st.text(st.sampled_from("hey abc\u00e9\u2581z[x]\n"), max_size=70))
def test_spm_ids_equal_the_plain_definition(spm: Tokenizer, text: str) -> None:
    special = {0, 1, 2, END, X}
    pieces = ["" if i in special else piece for i, piece in enumerate(SPM_PIECES)]
    expected: list[int] = []
    for part in plain_cut(text, {"[x]": X}):
        expected += [part] if isinstance(part, int) else plain_encode(part, pieces, SPM_SCORES)
    assert spm.encode(text) == expected


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The hand-made pieces, no space before text."""
    return Tokenizer.load(write(tmp_path_factory.mktemp("spm") / "spm.gguf", **spm_fields()))


def changed(fields: Fields, name: str, value: bytes | None) -> Fields:
    """The fields with one replaced or left out."""
    rest = {k: v for k, v in fields.items() if k != name}
    return rest if value is None else {**rest, name: value}


FAULTS = {
    "no tokenizer": ("model", None, "has no tokenizer"),
    "another kind": ("model", entry(key("model"), STRING, "t5"), "not supported; got 't5'"),
    "no pre-tokenizer": ("pre", None, "names no pre-tokenizer"),
    "another pre-tokenizer": ("pre", entry(key("pre"), STRING, "qwen"), "try: qwen2"),
    "no tokens": ("tokens", None, "lacks the list of texts tokenizer.ggml.tokens"),
    "tokens of numbers": ("tokens", array(key("tokens"), U32, [1]), "lacks the list of texts"),
    "no merges": ("merges", None, "lacks the list of texts tokenizer.ggml.merges"),
    "too few types": ("token_type", array(key("token_type"), I32, [1] * 9), "another length"),
    "types that are no ids": (
        "token_type",
        array(key("token_type"), F32, [1.0] * 264),
        "no list of whole numbers",
    ),
    "unknown token in a merge": (
        "merges",
        array(key("merges"), STRING, ["h e", "q z"]),
        "merge 1 names an unknown token; got 'qz'",
    ),
    "merge into a control token": (
        "eos",
        entry(key("eos_token_id"), U32, 257),
        "merge 1 names a control or user-defined token",
    ),
    "merge that is no pair": ("merges", array(key("merges"), STRING, ["he"]), "no pair of tokens"),
    "eos outside": ("eos", entry(key("eos_token_id"), U32, 264), "outside the vocabulary; got 264"),
    "bos of another type": ("bos", entry(key("bos_token_id"), STRING, "x"), "wrong type"),
    "bos that is a truth value": ("bos", entry(key("bos_token_id"), BOOL, True), "wrong type"),
    "template that is no text": (
        "template",
        entry("tokenizer.chat_template", U32, 1),
        "chat_template is no text",
    ),
    "a token twice": (
        "tokens",
        array(key("tokens"), STRING, [*BYTES[:255], *(["h"] * 9)]),
        "occurs twice; got 'h'",
    ),
    "control token that is no text": (
        "tokens",
        array(key("tokens"), STRING, [*BYTES, "he", "Ġhe", "hey", b"\xff", *"abcd"]),
        "not valid UTF-8",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_bpe_metadata_is_one_error(
    fault: str, load: Callable[[Fields], Tokenizer]
) -> None:
    name, value, message = FAULTS[fault]
    with pytest.raises(TokenizerError) as caught:
        load(changed(bpe_fields(), name, value))
    assert message in str(caught.value)
    assert "small.gguf" in str(caught.value)


SPM_FAULTS = {
    "no scores": ("scores", None, "lacks the list of numbers tokenizer.ggml.scores"),
    "too few scores": ("scores", array(key("scores"), F32, [0.0] * 7), "another length"),
    "a score that is no number": (
        "scores",
        array(key("scores"), F64, [float("nan"), *SPM_SCORES[1:]]),
        "scores are not one number a token",
    ),
    "a byte token missing": (
        "tokens",
        array(key("tokens"), STRING, [p if p != "<0x41>" else "q" for p in SPM_PIECES]),
        "1 of the 256 byte tokens are missing",
    ),
    "no space": (
        "tokens",
        array(key("tokens"), STRING, [p if p != "\u2581" else "q" for p in SPM_PIECES]),
        "no token for the space",
    ),
    "a piece twice": (
        "tokens",
        array(key("tokens"), STRING, [p if p != "hey" else "he" for p in SPM_PIECES]),
        "are the same piece",
    ),
    "a prefix that is no truth value": (
        "add_space_prefix",
        entry(key("add_space_prefix"), U32, 1),
        "wrong type",
    ),
}


@pytest.mark.parametrize("fault", SPM_FAULTS)
def test_malformed_spm_metadata_is_one_error(
    fault: str, load: Callable[[Fields], Tokenizer]
) -> None:
    name, value, message = SPM_FAULTS[fault]
    with pytest.raises(TokenizerError) as caught:
        load(changed(spm_fields(), name, value))
    assert message in str(caught.value)


@pytest.mark.parametrize("fields", [bpe_fields, spm_fields])
def test_every_truncation_and_bit_flip_is_an_error_or_a_tokenizer(
    fields: Callable[[], Fields], tmp_path: Path
) -> None:
    whole = write(tmp_path / "whole.gguf", **fields()).read_bytes()
    damaged = tmp_path / "damaged.gguf"
    worked = refused = 0
    for at in range(0, len(whole), 29):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        for data in (whole[:at], bytes(flipped)):
            damaged.write_bytes(data)
            try:
                tokenizer = Tokenizer.load(damaged)
            except (TokenizerError, ModelError):
                refused += 1
            else:
                worked += 1
                assert isinstance(tokenizer.decode(tokenizer.encode("hey [x] \u00e9")), str)
    assert worked > 20
    assert refused > 100
