"""Other people's tokenizers behind one small interface, for side-by-side measurement.

Each peer is called in its fastest way for one document in memory; a peer that is not installed is
left out of the tables.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.byte_level import to_characters
from cerne.tokenizer.patterns import REGEX
from cerne.tokenizer.training import VocabularyTrainer

GPT2_REGEX = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Encode = Callable[[str], Any]
Merges = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Encoder:
    """A library that encodes.

    Attributes:
        name: its package.
        load: a tokenizer folder -> a function of one text, with empty caches.
        ids: what that function returns -> the list of ids.
        slow: under 20 MB/s; measured on a part of the corpus.
    """

    name: str
    load: Callable[[Path], Encode]
    ids: Callable[[Any], list[int]]
    slow: bool = False


@dataclass(frozen=True)
class Trainer:
    """A library that trains GPT-2-style vocabularies.

    Attributes:
        name: its package.
        train: (text, vocabulary size) -> its own result, as fast as it can.
        merges: that result -> merges as pairs of bytes, or None when it does not tell them.
    """

    name: str
    train: Callable[[str, int], Any]
    merges: Callable[[Any], Merges | None]


def version(package: str) -> str:
    """The installed version of a package."""
    return importlib.metadata.version(package)


def encoders() -> list[Encoder]:
    """Ours first, then the peers that are installed."""
    known = [
        Encoder("cerne", lambda folder: Tokenizer.load(folder).encode_array, _array_ids),
        Encoder("gigatoken", _load_gigatoken, _array_ids),
        Encoder("fastokens", _load_fastokens, lambda encoding: list(encoding.ids)),
        Encoder("tiktoken", _load_tiktoken, _array_ids, slow=True),
        Encoder("tokenizers", _load_tokenizers, lambda encoding: list(encoding.ids), slow=True),
    ]
    return [encoder for encoder in known if importlib.util.find_spec(encoder.name) is not None]


def trainers() -> list[Trainer]:
    """Ours first, then the peers that are installed."""
    known = [
        Trainer("cerne", _train_cerne, _cerne_merges),
        Trainer("gigatoken", _train_gigatoken, lambda result: [(a, b) for a, b in result[1]]),
        Trainer("rustbpe", _train_rustbpe, lambda result: None),
        Trainer("tokenizers", _train_tokenizers, _tokenizers_merges),
    ]
    return [trainer for trainer in known if importlib.util.find_spec(trainer.name) is not None]


def _array_ids(ids: Any) -> list[int]:
    return [int(i) for i in ids]


def _load_gigatoken(folder: Path) -> Encode:
    import gigatoken

    encode: Encode = gigatoken.Tokenizer(str(folder / "tokenizer.json")).backend.encode
    return encode


def _load_fastokens(folder: Path) -> Encode:
    import fastokens

    encode: Encode = fastokens.Tokenizer.from_file(str(folder / "tokenizer.json")).encode
    return encode


def _load_tokenizers(folder: Path) -> Encode:
    import tokenizers

    twin = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    twin.encode_special_tokens = True
    encode: Encode = twin.encode
    return encode


def _load_tiktoken(folder: Path) -> Encode:
    import tiktoken

    ours = Tokenizer.load(folder)
    pattern = ours.vocabulary.pattern
    encoding = tiktoken.Encoding(
        "cerne-bench",
        pat_str=GPT2_REGEX if pattern == "gpt2" else REGEX[pattern],
        mergeable_ranks={token: i for i, token in enumerate(ours.vocabulary.token_bytes) if token},
        special_tokens=ours.special_tokens,
    )
    encode: Encode = encoding.encode_ordinary
    return encode


def _train_cerne(text: str, vocab_size: int) -> Any:
    trainer = VocabularyTrainer(vocab_size, "gpt2", special_tokens=(), threads=1)
    trainer.feed(text.encode())
    trainer.end_document()
    return trainer.train(allow_fewer=True)


def _cerne_merges(vocabulary: Any) -> Merges:
    tokens: Sequence[bytes] = vocabulary.token_bytes
    return [(tokens[a], tokens[b]) for a, b in vocabulary.merges.tolist()]


def _train_gigatoken(text: str, vocab_size: int) -> Any:
    import gigatoken

    return gigatoken.train_bpe(text.encode(), vocab_size, [], tie_breaking="huggingface")


def _train_rustbpe(text: str, vocab_size: int) -> Any:
    import rustbpe

    trainer = rustbpe.Tokenizer()
    trainer.train_from_iterator(iter([text]), vocab_size, pattern=GPT2_REGEX)
    return trainer


def _train_tokenizers(text: str, vocab_size: int) -> Any:
    import tokenizers

    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    twin = tokenizers.Tokenizer(tokenizers.models.BPE())
    twin.pre_tokenizer = byte_level
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    twin.train_from_iterator([text], trainer)
    return twin


def _tokenizers_merges(twin: Any) -> Merges:
    written = {to_characters(bytes([b])): bytes([b]) for b in range(256)}
    merges: Merges = []
    for left, right in json.loads(twin.to_str())["model"]["merges"]:
        merges.append((written[left], written[right]))
        written[left + right] = written[left] + written[right]
    return merges
