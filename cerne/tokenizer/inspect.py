"""What a tokenizer holds and how well it fits texts: numbers for `cerne tokenizer inspect`."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from cerne.tokenizer.bpe import Tokenizer

# The word counts of the fertility table stop growing here, so that any file can be inspected.
MAX_WORDS = 200_000
_SHOWN = 10


def readable(token: bytes) -> str:
    """A token for people: text where it is UTF-8, \\xNN where not, no line breaks."""
    text = token.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Size, control tokens, pattern and the longest tokens."""
    lengths = tokenizer.token_byte_lengths()
    longest = np.argsort(-lengths, kind="stable")[:_SHOWN].tolist()
    vocabulary = tokenizer.vocabulary
    return {
        "vocab_size": tokenizer.vocab_size,
        "merges": len(vocabulary.merges),
        "pattern": vocabulary.pattern,
        "missing_bytes": len(vocabulary.missing_bytes),
        "normalizer": vocabulary.normalizer,
        "digest": tokenizer.digest,
        "special_tokens": tokenizer.special_tokens,
        "added_tokens": {t.content: t.id for t in vocabulary.added if not t.special},
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "end_of_turn_id": tokenizer.end_of_turn_id,
        "adds_bos": vocabulary.roles.add_bos,
        "adds_eos": vocabulary.roles.add_eos,
        "chat_template": tokenizer.chat_template is not None,
        "mean_token_bytes": float(lengths[lengths > 0].mean()),
        "longest_tokens": [[i, readable(tokenizer.token_bytes(i))] for i in longest],
    }


class TextMeasure:
    """Adds up how a tokenizer encodes texts.

    Args:
        tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._used = np.zeros(tokenizer.vocab_size, dtype=bool)
        self._words: Counter[str] = Counter()
        self.files: list[dict[str, Any]] = []

    def add(self, name: str, texts: Iterable[bytes]) -> None:
        """Measure one file, given in pieces."""
        num_bytes = num_tokens = 0
        for text in texts:
            ids = self._tokenizer.encode_array(text)
            self._used[ids] = True
            num_bytes += len(text)
            num_tokens += len(ids)
            for word in text.decode("utf-8", "replace").split():
                if word in self._words or len(self._words) < MAX_WORDS:
                    self._words[word] += 1
        self.files.append(
            {
                "file": name,
                "bytes": num_bytes,
                "tokens": num_tokens,
                "bytes_per_token": num_bytes / num_tokens if num_tokens else None,
            }
        )

    def result(self) -> dict[str, Any]:
        """Per file: bytes, tokens, bytes per token; per script: words and fertility (tokens per
        word, with the space before it); ids that no text used."""
        ordinary = self._tokenizer.token_byte_lengths() > 0
        unused = np.flatnonzero(~self._used & ordinary).tolist()
        return {
            "files": self.files,
            "scripts": self._scripts(),
            "unused_tokens": len(unused),
            "unused_examples": [
                [i, readable(self._tokenizer.token_bytes(i))] for i in unused[-_SHOWN:]
            ],
        }

    def _scripts(self) -> list[dict[str, Any]]:
        words, tokens, size = Counter[str](), Counter[str](), Counter[str]()
        distinct = list(self._words)
        spaced = [f" {word}".encode() for word in distinct]
        for word, text, ids in zip(
            distinct, spaced, self._tokenizer.encode_batch(spaced), strict=True
        ):
            name, count = script_of(word), self._words[word]
            words[name] += count
            tokens[name] += count * len(ids)
            size[name] += count * len(text)
        return [
            {
                "script": name,
                "words": count,
                "tokens_per_word": tokens[name] / count,
                "bytes_per_token": size[name] / tokens[name],
            }
            for name, count in words.most_common()
        ]


def script_of(word: str) -> str:
    """The script of a word's first letter, by the first part of its Unicode name: "latin",
    "cyrillic", "cjk"; "other" when there is no letter."""
    for char in word:
        if char.isalpha():
            return unicodedata.name(char, "other").split()[0].split("-")[0].lower()
    return "other"
