"""tokenizer.json and tokenizer_config.json: read what others write, write what others read, refuse
what is damaged, hostile or of another kind.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.hf_json import vocabulary_from_json, vocabulary_to_json
from cerne.tokenizer.patterns import pattern_of, pre_tokenizer_json

tokenizers = pytest.importorskip("tokenizers")

TEXT = (
    "The fox's house had 12 doors,  345 windows and a cafe\u0301. Não dormia; 狐は眠らない。\r\n\n"
    "\u01c4 \u1e9b\u0323 x\u00b2 \u0664\u0665 I'LL it's don\u2019t    end  \t\n  "
)


@pytest.fixture(scope="module")
def root() -> dict[str, Any]:
    """A parsed tokenizer.json of ours, to bend."""
    return json.loads(
        vocabulary_to_json(Tokenizer.train([TEXT, Path(__file__)], vocab_size=400).vocabulary)
    )


def read(root: dict[str, Any]) -> Tokenizer:
    return Tokenizer(vocabulary_from_json(json.dumps(root).encode(), "test"))


def theirs(root: dict[str, Any]) -> Any:
    twin = tokenizers.Tokenizer.from_str(json.dumps(root))
    twin.encode_special_tokens = True
    return twin


@pytest.mark.parametrize("pattern", PATTERNS)
def test_written_files_give_equal_ids_in_tokenizers(pattern: str, tmp_path: Path) -> None:
    ours = Tokenizer.train([TEXT, Path(__file__)], vocab_size=380, pattern=pattern)
    ours.save(tmp_path)
    twin = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = [TEXT, "", " ", "a\n", TEXT[::-1], "x   ", "\n\n", "2024-01-02 \u00bd"]
    for text in texts:
        assert ours.encode(text) == twin.encode(text).ids
    assert twin.decode(ours.encode(TEXT)) == TEXT
    assert twin.get_vocab_size() == ours.vocab_size
    assert {name: twin.token_to_id(name) for name in ours.special_tokens} == ours.special_tokens
    # theirs reads special tokens out of text, ours never does
    assert twin.encode("<|end|>").ids == [ours.end_of_turn_id]
    assert len(ours.encode("<|end|>")) > 1


def test_transformers_loads_the_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = Tokenizer.train([TEXT, Path(__file__)], vocab_size=380)
    ours.save(tmp_path)
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert auto(TEXT).input_ids == ours.encode(TEXT)
    assert (auto.pad_token_id, auto.eos_token_id, auto.bos_token_id) == (
        ours.pad_token_id, ours.eos_token_id, None,
    )  # fmt: skip
    assert sorted(auto.all_special_ids) == sorted(ours.special_tokens.values())
    assert auto.chat_template == ours.chat_template
    assert len(auto) == ours.vocab_size
    shown = auto.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert shown == "<|user|>hi<|end|>"
    auto.save_pretrained(tmp_path / "theirs")
    back = Tokenizer.load(tmp_path / "theirs")
    assert back.encode(TEXT) == ours.encode(TEXT)
    assert back.special_tokens == ours.special_tokens
    assert back.vocabulary.roles == ours.vocabulary.roles
    assert back.chat_template == ours.chat_template


def test_old_merges_are_strings(root: dict[str, Any]) -> None:
    old = copy.deepcopy(root)
    old["model"]["merges"] = [" ".join(pair) for pair in root["model"]["merges"]]
    del old["model"]["type"]
    assert read(old).encode(TEXT) == read(root).encode(TEXT)


def test_form_c_is_applied_like_tokenizers_does(root: dict[str, Any]) -> None:
    nfc = {**root, "normalizer": {"type": "NFC"}}
    ours = read(nfc)
    assert ours.encode(TEXT) == theirs(nfc).encode(TEXT).ids != read(root).encode(TEXT)
    assert ours.encode("e\u0301") == ours.encode("\u00e9")
    assert ours.decode_bytes(ours.encode(b"\xffe\xcc\x81")) == "\u00e9".encode().join(
        [b"\xff", b""]
    )
    assert ours.encode_batch([TEXT, b"ab"])[0].tolist() == ours.encode(TEXT)
    assert read(json.loads(vocabulary_to_json(ours.vocabulary))).encode(TEXT) == ours.encode(TEXT)


def test_plain_added_tokens_are_text_and_specials_are_not(root: dict[str, Any]) -> None:
    bent = copy.deepcopy(root)
    size = 400
    for i, (content, special) in enumerate(
        [("<think>", False), ("<thinking", False), ("<x>", True)]
    ):
        bent["added_tokens"].append(
            {"id": size + i, "content": content, "special": special, "normalized": False,
             "single_word": False, "lstrip": False, "rstrip": False}
        )  # fmt: skip
    ours = read(bent)
    text = "a <think>b</think> <thinking> <x><think><think>"
    assert ours.encode(text) == theirs(bent).encode(text).ids
    assert [i for i in ours.encode(text) if i >= size] == [400, 401, 400, 400]
    assert ours.decode(ours.encode(text)) == text
    assert ours.decode(ours.encode(text), skip_special=True) == text
    assert [a.tolist() for a in ours.encode_batch([text, "<x>"])] == [
        ours.encode(text), ours.encode("<x>"),
    ]  # fmt: skip
    _, offsets = ours.encode_with_offsets(text)
    assert offsets[-1].tolist() == [len(text) - 7, len(text)]
    assert ours.token_bytes(400) == b"<think>"
    assert ours.token_bytes(402) == b""


def test_the_begin_of_text_rule(root: dict[str, Any], tmp_path: Path) -> None:
    bent = copy.deepcopy(root)
    text_a = {"Sequence": {"id": "A", "type_id": 0}}
    begin = {"SpecialToken": {"id": "<|tool|>", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [begin, text_a],
        "pair": [text_a, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|tool|>": {"id": "<|tool|>", "ids": [398], "tokens": ["<|tool|>"]}},
    }
    offsets_only = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": False,
        "use_regex": True,
    }
    bent["post_processor"] = {"type": "Sequence", "processors": [offsets_only, template]}
    ours = read(bent)
    assert ours.encode_prompt("Hi") == [398, *ours.encode("Hi")] == theirs(bent).encode("Hi").ids
    ours.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.bos_token_id == 398
    assert again.encode_prompt("Hi") == ours.encode_prompt("Hi")
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert written.encode("Hi").ids == ours.encode_prompt("Hi")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (config["bos_token"], config["add_bos_token"]) == ("<|tool|>", True)


def test_ignore_merges(root: dict[str, Any]) -> None:
    bent = copy.deepcopy(root)
    vocab = bent["model"]["vocab"]
    bent["added_tokens"] = []
    vocab["doors"] = len(vocab)
    assert len(read(bent).encode("doors")) > 1
    bent["model"]["ignore_merges"] = True
    assert read(bent).encode("doors") == theirs(bent).encode("doors").ids == [vocab["doors"]]


def test_holes_in_the_ids_survive(root: dict[str, Any], tmp_path: Path) -> None:
    bent = copy.deepcopy(root)
    bent["added_tokens"] = []
    bent["model"]["vocab"]["<|end|>"] = 450
    bent["added_tokens"] = [{"id": 450, "content": "<|end|>", "special": True}]
    ours = read(bent)
    ours.save(tmp_path)
    assert Tokenizer.load(tmp_path).special_tokens == {"<|end|>": 450}
    twin = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert twin.token_to_id("<|end|>") == 450
    with pytest.raises(TokenizerError, match="outside the vocabulary"):
        ours.decode([451])
    assert ours.decode([449]) == ""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_recognised(pattern: str) -> None:
    assert pattern_of(pre_tokenizer_json(pattern)) == pattern


def refused(root: dict[str, Any], *path: object, value: object) -> str:
    bent = copy.deepcopy(root)
    target: Any = bent
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(TokenizerError) as caught:
        read(bent)
    return str(caught.value)


def test_other_kinds_are_refused_by_name(root: dict[str, Any]) -> None:
    assert "model type is not supported; got 'Unigram'" in refused(
        root, "model", "type", value="Unigram"
    )
    assert "normalizer is not supported" in refused(root, "normalizer", value={"type": "NFKC"})
    assert "Metaspace" in refused(root, "pre_tokenizer", value={"type": "Metaspace"})
    assert "pre-tokenizer" in refused(root, "pre_tokenizer", value=None)
    spaced = {**pre_tokenizer_json("gpt2"), "add_prefix_space": True}
    assert "pre-tokenizer" in refused(root, "pre_tokenizer", value=spaced)
    near = copy.deepcopy(pre_tokenizer_json("qwen2"))
    near["pretokenizers"][0]["pattern"]["Regex"] += "|x"
    assert "pre-tokenizer" in refused(root, "pre_tokenizer", value=near)
    assert "decoder" in refused(root, "decoder", value={"type": "WordPiece"})
    assert "post-processor" in refused(root, "post_processor", value={"type": "BertProcessing"})
    assert "at random" in refused(root, "model", "dropout", value=0.1)
    assert "end_of_word_suffix" in refused(root, "model", "end_of_word_suffix", value="</w>")
    assert "unknown keys" in refused(root, "model", "new_rule", value=1)
    flag = {"id": 400, "content": "<m>", "special": False, "lstrip": True}
    assert "unsupported flag" in refused(root, "added_tokens", value=[flag])


def test_damaged_and_hostile_files_are_refused(root: dict[str, Any]) -> None:
    for data in (b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"nul"):
        with pytest.raises(TokenizerError, match="JSON"):
            vocabulary_from_json(data, "test")
    assert "no model object" in refused(root, "model", value=[1])
    assert "no vocabulary" in refused(root, "model", "vocab", value=[])
    assert "token id is wrong" in refused(root, "model", "vocab", "a", value="1")
    assert "token id is wrong" in refused(root, "model", "vocab", "a", value=True)
    assert "token id is wrong" in refused(root, "model", "vocab", "a", value=2**31)
    assert "same id" in refused(root, "model", "vocab", "a", value=5)
    assert "stands for no byte" in refused(root, "model", "vocab", "日", value=500)
    assert "no list" in refused(root, "model", "merges", value={})
    assert "vocabulary lacks" in refused(root, "model", "merges", 0, value=["zz", "a"])
    assert "no pair" in refused(root, "model", "merges", 0, value="a b c")
    assert "no pair" in refused(root, "model", "merges", 0, value=[1, 2])
    assert "no pair" in refused(root, "model", "merges", 0, value=None)
    assert "no content" in refused(root, "added_tokens", value=[3])
    assert "two ids" in refused(root, "added_tokens", value=[{"id": 420, "content": "a"}])
    assert "two tokens" in refused(root, "added_tokens", value=[{"id": 1, "content": "q"}])
    assert "no Unicode" in refused(root, "added_tokens", value=[{"id": 420, "content": "\ud800"}])
    assert "is no list" in refused(root, "added_tokens", value={})
    bent = copy.deepcopy(root)
    bent["model"]["merges"] = []
    del bent["model"]["vocab"]["Ā"]
    assert read(bent).vocabulary.missing_bytes == b"\x00"
    bent["model"]["vocab"] = {"Ġq": 0}
    with pytest.raises(TokenizerError, match="no token for any single byte"):
        read(bent)


def test_every_truncation_and_bit_flip_is_an_error_or_a_tokenizer(root: dict[str, Any]) -> None:
    data = json.dumps(root).encode()
    for i in range(0, len(data), 211):
        flipped = bytearray(data)
        flipped[i] ^= 1 << (i % 8)
        for broken in (data[:i], bytes(flipped)):
            try:
                read_back = Tokenizer(vocabulary_from_json(broken, "test"))
            except TokenizerError:
                continue
            assert read_back.decode(read_back.encode("abc")) == "abc"


def test_config_files(root: dict[str, Any], tmp_path: Path) -> None:
    def load(config: object, template: str | None = None) -> Tokenizer:
        (tmp_path / "tokenizer.json").write_text(json.dumps(root), encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        if template is not None:
            (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
        return Tokenizer.load(tmp_path)

    named = load({"eos_token": {"content": "<|end|>"}, "pad_token": None, "chat_template": "x"})
    assert (named.eos_token_id, named.pad_token_id, named.chat_template) == (399, None, "x")
    listed = load({"chat_template": [{"name": "tool", "template": "t"},
                                     {"name": "default", "template": "d"}]})  # fmt: skip
    assert listed.chat_template == "d"
    more = load({"added_tokens_decoder": {"400": {"content": "<new>", "special": True}}})
    assert more.special_tokens["<new>"] == 400
    for wrong, message in (
        ({"eos_token": "<none>"}, "eos token is not a special token"),
        ({"eos_token": 3}, "eos_token is no text"),
        ({"add_bos_token": True}, "add_bos is set, but there is no bos token"),
        ({"chat_template": 3}, "chat template is no text"),
        ([], "no JSON object"),
        ({"added_tokens_decoder": {"x": 1}}, "malformed"),
    ):
        with pytest.raises(TokenizerError, match=message):
            load(wrong)
    assert load({"chat_template": "x"}, "from the file").chat_template == "from the file"


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json.*cerne tokenizer train"):
        Tokenizer.load(tmp_path / "absent")
