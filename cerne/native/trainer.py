"""BPE training in the core as a Python object: bytes in, tokens and merges out.

Files, special tokens and progress bars live in cerne/tokenizer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.handle import NativeHandle
from cerne.native.library import STOPPED, check

# One native call takes at most this much, so that Ctrl-C is answered in between.
_PIECE_BYTES = 1 << 24

Progress = Callable[[int, int], bool | None]


class TrainedBpe(NamedTuple):
    """The result of a training.

    Attributes:
        token_bytes: bytes of each id; ids 0-255 are the single bytes in GPT-2's order.
        merges: pairs of ids in order of priority, uint32 [M, 2].
        stopped: the progress function asked to stop early; the result is whole all the same.
    """

    token_bytes: list[bytes]
    merges: npt.NDArray[np.uint32]
    stopped: bool


class TrainerStatistics(NamedTuple):
    """What the trainer has counted so far.

    Attributes:
        documents, text_bytes: what was fed.
        words, word_bytes: distinct pre-tokens that are held, and their bytes together.
        pruned_words, pruned_occurrences: distinct pre-tokens that were dropped to stay within
            max_words and max_word_bytes (one may count again when it came back), and how often
            they occurred in the text.
        pruned_up_to: the highest count that was dropped.
    """

    documents: int
    text_bytes: int
    words: int
    word_bytes: int
    pruned_words: int
    pruned_occurrences: int
    pruned_up_to: int


class NativeTrainer(NativeHandle):
    """Counts pre-tokens of fed text, then trains once. Not thread-safe.

    Args:
        pattern: pre-tokenization, one of cerne.native.tokenizer.PATTERNS.
        threads: threads that count; None: one per core. The result does not depend on it.
        options: whole-number options of the core: "max_words", "max_word_bytes", "min_count".

    Raises:
        TokenizerError: the pattern or an option is refused.
    """

    def __init__(
        self,
        pattern: str = "qwen2",
        threads: int | None = 1,
        options: dict[str, int] | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise TokenizerError(
                "the number of threads is too small", value=threads, allowed=">= 1"
            )
        super().__init__("trainer")
        try:
            name = pattern.encode()
            status = self._lib.cerne_trainer_set_string(
                self._handle, b"pattern", 7, name, len(name)
            )
            check(status, TokenizerError)
            numbers = {"threads": 0 if threads is None else threads}
            numbers.update(options if options is not None else {})
            for option, value in numbers.items():
                key = option.encode()
                status = self._lib.cerne_trainer_set_integer(self._handle, key, len(key), value)
                check(status, TokenizerError)
        except BaseException:
            self.close()
            raise

    def feed(self, text: bytes) -> None:
        """Adds text to the current document; how a document is cut into calls does not matter."""
        if len(text) <= _PIECE_BYTES:
            check(self._lib.cerne_trainer_feed(self._open(), text, len(text)), TokenizerError)
            return
        for start in range(0, len(text), _PIECE_BYTES):
            self.feed(text[start : start + _PIECE_BYTES])

    def end_document(self) -> None:
        """Ends the current document: no pre-token reaches across."""
        check(self._lib.cerne_trainer_end_document(self._open()), TokenizerError)

    def add_word(self, word: bytes, count: int) -> None:
        """Counts one ready pre-token `count` times (0 to 2^64 - 1)."""
        status = self._lib.cerne_trainer_add_word(self._open(), word, len(word), count)
        check(status, TokenizerError)

    def train(self, vocab_size: int, progress: Progress | None = None) -> TrainedBpe:
        """Merges the most frequent pairs until there are `vocab_size` tokens (256 to 2^24) or no
        pair is left. Equal counts: the pair of smaller ids first.

        Args:
            progress: called now and then with (tokens so far, tokens wanted); True stops. What it
                raises is raised here.
        """
        if not 256 <= vocab_size <= 1 << 24:
            raise TokenizerError(
                "the vocabulary size is out of range", value=vocab_size, allowed="256 to 2^24"
            )
        failure: list[BaseException] = []

        def call(user: Any, done: int, total: int) -> int:
            try:
                return int(progress is not None and progress(done, total) is True)
            except BaseException as error:
                failure.append(error)
                return 1

        # Also without a progress function: Python sees Ctrl-C only while it runs.
        callback = self._ffi.callback("int32_t(void*, uint64_t, uint64_t)", call)
        status = self._lib.cerne_trainer_train(self._open(), vocab_size, callback, self._ffi.NULL)
        if failure:
            raise failure[0]
        if status != STOPPED:
            check(status, TokenizerError)
        return self._result(status == STOPPED)

    def statistics(self) -> TrainerStatistics:
        """What has been counted so far."""
        return TrainerStatistics(*(self._statistic(n) for n in TrainerStatistics._fields))

    def _statistic(self, name: str) -> int:
        value, key = self._ffi.new("uint64_t*"), name.encode()
        status = self._lib.cerne_trainer_statistic(self._open(), key, len(key), value)
        check(status, TokenizerError)
        return int(value[0])

    def _result(self, stopped: bool) -> TrainedBpe:
        ffi, handle = self._ffi, self._open()
        merges = np.empty((self._statistic("merges"), 2), dtype=np.uint32)
        check(self._lib.cerne_trainer_merges(handle, ffi.from_buffer("uint32_t[]", merges)))
        blob = bytearray(self._statistic("token_bytes"))
        offsets = np.empty(self._statistic("tokens") + 1, dtype=np.uint64)
        status = self._lib.cerne_trainer_tokens(
            handle, ffi.from_buffer("uint8_t[]", blob), ffi.from_buffer("uint64_t[]", offsets)
        )
        check(status, TokenizerError)
        data, bounds = bytes(blob), offsets.tolist()
        tokens = [data[a:b] for a, b in itertools.pairwise(bounds)]
        return TrainedBpe(tokens, merges, stopped)
