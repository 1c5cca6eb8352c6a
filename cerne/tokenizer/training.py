"""Training a vocabulary: reads files or texts, counts and merges in the native core, adds the
control tokens after the last merged id.

Memory is bounded whatever the size of the text: at most W = 4 Mi distinct pre-tokens of B = 64 MiB
together are held; past that the rarest half is dropped, with a line that says how many. Text is
counted in rounds of R = 4 MiB with at most N = R / 3 new pre-tokens, so that the peak is at most
168 (W + 2 N) + 4 B + 14 R = 1.5 GB while counting, then 20 (W + B) = 1.5 GB and about 90 bytes a
distinct pair while merging. Only text in which no letter ends a word for 4 MiB makes a longer
round, of up to 64 MiB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_NOT_PLAIN_TEXT = (".gz", ".xz", ".zst", ".bz2", ".zip", ".parquet")


class VocabularyTrainer:
    """Counts the documents it is fed, then trains a vocabulary once.

    Args:
        vocab_size: ids wanted, control tokens included.
        pattern: pre-tokenization, one of cerne.native.tokenizer.PATTERNS.
        special_tokens: control tokens, placed after the last merged id in this order.
        threads: threads that count; None: one per core. The result does not depend on it.
    Raises:
        TokenizerError: the size, the pattern or a control token is refused.
    """

    def __init__(
        self,
        vocab_size: int,
        pattern: str = "qwen2",
        special_tokens: Sequence[str] = DEFAULT_SPECIALS,
        threads: int | None = None,
    ) -> None:
        check_specials(special_tokens)
        lowest = 256 + len(special_tokens)
        if not lowest <= vocab_size <= MAX_TOKENS:
            raise TokenizerError(
                "the vocabulary size is out of range",
                value=vocab_size,
                allowed=f"{lowest} (256 bytes + {len(special_tokens)} special tokens) "
                f"to {MAX_TOKENS}",
            )
        self._size, self._pattern, self._specials = vocab_size, pattern, tuple(special_tokens)
        self._native = NativeTrainer(pattern, threads)

    def feed(self, text: bytes) -> None:
        """Add text to the current document; how a document is cut into calls does not matter."""
        self._native.feed(text)

    def end_document(self) -> None:
        """End the current document: no token reaches across."""
        self._native.end_document()

    def train(self, progress: bool = False, allow_fewer: bool = False) -> Vocabulary:
        """Merge until the vocabulary is full.

        Args:
            progress: show progress on standard error.
            allow_fewer: take a smaller vocabulary when the text supports no more merges.
        Raises:
            TokenizerError: there was no text, or more merges are wanted than are possible.
        """
        counted = self._native.statistics()
        if counted.text_bytes == 0:
            raise TokenizerError(
                "there is no text to train on", hint="name a file that is not empty"
            )
        if counted.pruned_words > 0:
            say(
                f"tokenizer: dropped {human_count(counted.pruned_words)} rare pre-tokens (seen at "
                f"most {counted.pruned_up_to} times, {human_count(counted.pruned_occurrences)} "
                "occurrences in all) to bound memory"
            )
        wanted = self._size - len(self._specials)
        trained = _merge(self._native, wanted, progress)
        self._native.close()
        found = len(trained.token_bytes)
        if found < wanted and not allow_fewer:
            raise TokenizerError(
                f"the text supports only {found - 256} merges",
                value=f"a vocabulary of {self._size}",
                allowed=f"at most {found + len(self._specials)} for this text",
                hint="a smaller vocabulary size, or more text",
            )
        return make_vocabulary(trained, self._pattern, self._specials)


def train_vocabulary(
    sources: Sources,
    vocab_size: int,
    pattern: str = "qwen2",
    special_tokens: Sequence[str] = DEFAULT_SPECIALS,
    threads: int | None = None,
    progress: bool = False,
    allow_fewer: bool = False,
) -> Vocabulary:
    """Trains on files or texts at hand; see VocabularyTrainer for the other arguments.

    Args:
        sources: a path, or any iterable of paths (Path, or str that names a file in a list),
            texts (str) and bytes. Each file and each text is one document.
    Raises:
        TokenizerError: see VocabularyTrainer; or a file cannot be read.
    """
    trainer = VocabularyTrainer(vocab_size, pattern, special_tokens, threads)
    items = [Path(sources)] if isinstance(sources, (str, Path)) else sources
    if progress:
        with Progress("counting words", unit="B") as bar:
            _feed_all(trainer, items, bar.advance)
    else:
        _feed_all(trainer, items, lambda size: None)
    return trainer.train(progress, allow_fewer)


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


def _merge(trainer: NativeTrainer, wanted: int, progress: bool) -> TrainedBpe:
    if not progress:
        return trainer.train(wanted)
    with Progress("merging pairs", total=wanted - 256, unit="merges") as bar:

        def show(done: int, total: int) -> None:
            bar.advance(done - 256 - bar.done)

        trained = trainer.train(wanted, show)
        bar.advance(len(trained.token_bytes) - 256 - bar.done)
    return trained


def _feed_all(
    trainer: VocabularyTrainer,
    items: Iterable[str | bytes | Path],
    on_bytes: Callable[[int], None],
) -> None:
    for document in _documents(items):
        for piece in document:
            trainer.feed(piece)
            on_bytes(len(piece))
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
    if path.suffix.lower() in _NOT_PLAIN_TEXT:
        raise TokenizerError(
            "this file is no plain text",
            value=str(path),
            hint="`cerne tokenizer train` reads it, or pass its texts",
        )
    try:
        with open(path, "rb") as handle:
            while piece := handle.read(_READ_BYTES):
                yield piece
    except OSError as error:
        raise TokenizerError(
            f"a file cannot be read: {error.strerror}", value=str(path), allowed="a text file"
        ) from error
