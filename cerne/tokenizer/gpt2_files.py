"""GPT-2's original pair of files: encoder.json (token -> id) and vocab.bpe (merges)."""

from __future__ import annotations

import json
from pathlib import Path

from cerne.errors import TokenizerError
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.hf_json import parse_object, vocabulary_from_json
from cerne.tokenizer.patterns import pre_tokenizer_json
from cerne.tokenizer.special import END_OF_TEXT


def load_gpt2_files(encoder_json: str | Path | bytes, vocab_bpe: str | Path | bytes) -> Tokenizer:
    """A tokenizer from the two files, each given as a path or as its content.

    Raises:
        TokenizerError: a file is missing or damaged.
    """
    vocab = parse_object(_content(encoder_json), "encoder.json")
    try:
        lines = _content(vocab_bpe).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError("vocab.bpe is no UTF-8 text") from error
    if END_OF_TEXT not in vocab:
        raise TokenizerError("encoder.json has no end of text", allowed=END_OF_TEXT)
    added = {"id": vocab[END_OF_TEXT], "content": END_OF_TEXT, "special": True}
    root = {
        "added_tokens": [added],
        "pre_tokenizer": pre_tokenizer_json("gpt2"),
        "decoder": {"type": "ByteLevel"},
        "model": {
            "vocab": vocab,
            "merges": [line for line in lines if line and not line.startswith("#version")],
        },
    }
    text = json.dumps(root, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Tokenizer(vocabulary_from_json(text, "encoder.json and vocab.bpe"))


def _content(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    if not Path(source).is_file():
        raise TokenizerError("there is no such file", value=str(source))
    return Path(source).read_bytes()
