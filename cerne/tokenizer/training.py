"""Training a vocabulary: reads files or texts, counts and merges in the native core, adds the
control tokens after the last merged id.

Memory is bounded whatever the size of the text: at most 4 Mi distinct pre-tokens of 64 MiB
together are held; past that the rarest half is dropped, with a line that says how many.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from cerne.errors import TokenizerError
from cerne.native.trainer import NativeTrainer, TrainedBpe
from cerne.progress import Progress, human_count, say
from cerne.tokenizer.chat_template import DEFAULT_CHAT_TEMPLATE
from cerne.tokenizer.special import (
    DEFAULT_SPECIALS,
    AddedToken,
    Roles,
    check_specials,
    default_roles,
)
from cerne.tokenizer.vocabulary import MAX_TOKENS, Vocabulary

Sources = str | Path | Iterable[str | bytes | Path]

_READ_BYTES = 1 << 22
_LOOKS_LIKE_PATH = re.compile(r"\S*(/\S*|\.\w{1,8})")


def train_vocabulary(
    sources: Sources,
    vocab_size: int,
    pattern: str = "qwen2",
    special_tokens: Sequence[str] = DEFAULT_SPECIALS,
    threads: int | None = None,
    progress: bool = False,
    allow_fewer: bool = False,
) -> Vocabulary:
    """Trains a byte-level BPE vocabulary.

    Args:
        sources: a path, or any iterable of paths (Path, or str that names a file in a list),
            texts (str) and bytes. Each file and each text is one document.
        vocab_size: ids wanted, control tokens included.
        pattern: pre-tokenization, one of cerne.tokenizer.patterns.PATTERNS.
        special_tokens: control tokens, placed after the last merged id in this order.
        threads: threads that count; None: one per core. The result does not depend on it.
        progress: show progress on standard error.
        allow_fewer: take a smaller vocabulary when the text supports no more merges.
    Raises:
        TokenizerError: no text, a size out of range or more merges wanted than are possible.
    """
    check_specials(special_tokens)
    lowest = 256 + len(special_tokens)
    if not lowest <= vocab_size <= MAX_TOKENS:
        raise TokenizerError(
            "the vocabulary size is out of range",
            value=vocab_size,
            allowed=f"{lowest} (256 bytes + {len(special_tokens)} special tokens) to {MAX_TOKENS}",
        )
    wanted = vocab_size - len(special_tokens)
    with NativeTrainer(pattern, threads) as trainer:
        _feed(trainer, sources, progress)
        trained = _merge(trainer, wanted, progress)
    found = len(trained.token_bytes)
    if found < wanted and not allow_fewer:
        raise TokenizerError(
            f"the text supports only {found - 256} merges",
            value=f"a vocabulary of {vocab_size}",
            allowed=f"at most {found + len(special_tokens)} for this text",
            hint="a smaller vocabulary size, more text, or allow_fewer",
        )
    return make_vocabulary(trained, pattern, special_tokens)


def make_vocabulary(
    trained: TrainedBpe, pattern: str, special_tokens: Sequence[str] = DEFAULT_SPECIALS
) -> Vocabulary:
    """A vocabulary from merged tokens and control tokens, with our chat template if it fits."""
    first = len(trained.token_bytes)
    complete = set(DEFAULT_SPECIALS) <= set(special_tokens)
    roles: Roles = default_roles(special_tokens)
    return Vocabulary(
        token_bytes=[*trained.token_bytes, *([b""] * len(special_tokens))],
        merges=np.ascontiguousarray(trained.merges),
        pattern=pattern,
        added=tuple(
            AddedToken(first + i, name, special=True) for i, name in enumerate(special_tokens)
        ),
        roles=roles,
        chat_template=DEFAULT_CHAT_TEMPLATE if complete else None,
    )


def _feed(trainer: NativeTrainer, sources: Sources, progress: bool) -> None:
    items = [Path(sources)] if isinstance(sources, (str, Path)) else sources
    documents = _documents(items)
    if not progress:
        for _ in _feed_all(trainer, documents):
            pass
    else:
        with Progress("counting words", unit="B") as bar:
            for size in _feed_all(trainer, documents):
                bar.advance(size)
    counted = trainer.statistics()
    if counted.text_bytes == 0:
        raise TokenizerError("there is no text to train on", hint="name a file that is not empty")
    if counted.pruned_words > 0:
        say(
            f"tokenizer: dropped {human_count(counted.pruned_words)} rare pre-tokens (seen at most "
            f"{counted.pruned_up_to} times, {human_count(counted.pruned_occurrences)} occurrences "
            "in all) to bound memory"
        )


def _merge(trainer: NativeTrainer, wanted: int, progress: bool) -> TrainedBpe:
    if not progress:
        return trainer.train(wanted)
    with Progress("merging pairs", total=wanted - 256, unit="merges") as bar:

        def show(done: int, total: int) -> None:
            bar.advance(done - 256 - bar.done)

        trained = trainer.train(wanted, show)
        bar.advance(len(trained.token_bytes) - 256 - bar.done)
    return trained


def _feed_all(trainer: NativeTrainer, documents: Iterable[Iterable[bytes]]) -> Iterator[int]:
    for document in documents:
        for piece in document:
            trainer.feed(piece)
            yield len(piece)
        trainer.end_document()


def _documents(items: Iterable[str | bytes | Path]) -> Iterator[Iterable[bytes]]:
    """Each source as the pieces of its bytes."""
    number = len(items) if isinstance(items, (list, tuple)) else None
    for item in items:
        if isinstance(item, bytes):
            yield (item,)
        elif isinstance(item, Path) or (number is not None and _is_path(item, number)):
            yield _read_pieces(Path(item))
        else:
            yield (item.encode("utf-8", "surrogatepass"),)


def _is_path(text: str, number: int) -> bool:
    """Whether a str of a list names a file. A short list of what looks like paths names files even
    if they are missing: a mistyped name must not become the training text."""
    if len(text) > 4096 or "\n" in text:
        return False
    try:
        if os.path.exists(text):
            return True
    except ValueError:
        return False
    return number <= 64 and _LOOKS_LIKE_PATH.fullmatch(text) is not None


def _read_pieces(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as handle:
            while piece := handle.read(_READ_BYTES):
                yield piece
    except OSError as error:
        raise TokenizerError(
            f"a file cannot be read: {error.strerror}", value=str(path), allowed="a text file"
        ) from error
