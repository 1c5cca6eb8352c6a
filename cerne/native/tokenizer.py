"""The native tokenizer as a Python object: bytes in, numpy ids out.

Knows bytes, ids, merges and scores only; text, control tokens and files are in cerne/tokenizer.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.handle import NativeHandle
from cerne.native.library import BUFFER_TOO_SMALL, check, library

Ids = npt.NDArray[np.uint32]

PATTERNS = ("gpt2", "gpt4", "llama3", "qwen2", "smollm")

# Scratch that one thread keeps for short texts; longer texts get their own and give it back.
_KEPT_SCRATCH_IDS = 1 << 18
# One native batch call takes texts of about this many bytes together.
_BATCH_BYTES = 1 << 26


class NativeTokenizer(NativeHandle):
    """An encoder: byte-level BPE, or SentencePiece when it has scores. Thread-safe, except for
    `close`.

    Args:
        token_bytes: bytes of each id, or pieces as model files hold them when there are scores.
            b"" marks an id that text never yields (a special token).
        merges: pairs of ids in order of priority; none when there are scores.
        pattern: pre-tokenization, one of PATTERNS; not used when there are scores.
        options: whole-number options of the core: "ignore_merges" (0 or 1), "cache_bytes".
        scores: of each id: neighbours that together have the highest score merge first.

    Raises:
        TokenizerError: the vocabulary, the merges or an option is refused.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        merges: Sequence[tuple[int, int]] | npt.NDArray[np.integer[Any]],
        pattern: str = "gpt2",
        options: Mapping[str, int] | None = None,
        scores: npt.NDArray[np.float32] | None = None,
    ) -> None:
        super().__init__("tokenizer")
        self._uint32s = self._ffi.typeof("uint32_t[]")
        self._uint64s = self._ffi.typeof("uint64_t[]")
        self._local = threading.local()
        try:
            kind = ("pattern", pattern) if scores is None else ("model", "spm")
            self._fill(token_bytes, kind, options if options is not None else {})
            if scores is None:
                self._set_merges(merges)
            else:
                self._set_scores(scores)
            check(self._lib.cerne_tokenizer_build(self._handle), TokenizerError)
        except BaseException:
            self.close()
            raise
        self.vocab_size = len(token_bytes)
        self.pattern = pattern

    def _fill(
        self, token_bytes: Sequence[bytes], kind: tuple[str, str], options: Mapping[str, int]
    ) -> None:
        lib, handle = self._lib, self._handle
        name, value = (text.encode() for text in kind)
        status = lib.cerne_tokenizer_set_string(handle, name, len(name), value, len(value))
        check(status, TokenizerError)
        for option, number in options.items():
            key = option.encode()
            check(lib.cerne_tokenizer_set_integer(handle, key, len(key), number), TokenizerError)
        blob, offsets = _join(token_bytes)
        status = lib.cerne_tokenizer_set_vocabulary(
            handle, blob, self._ffi.from_buffer(self._uint64s, offsets), len(token_bytes)
        )
        check(status, TokenizerError)

    def _set_merges(self, merges: Sequence[tuple[int, int]] | npt.NDArray[np.integer[Any]]) -> None:
        pairs = np.asarray(merges, dtype=np.int64).reshape(-1, 2)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= 2**32):
            raise TokenizerError("a merge names a negative or huge id", allowed="0 to 2^32 - 1")
        pairs_u32 = np.ascontiguousarray(pairs, dtype=np.uint32)
        status = self._lib.cerne_tokenizer_set_merges(
            self._handle, self._ffi.from_buffer(self._uint32s, pairs_u32), len(pairs_u32)
        )
        check(status, TokenizerError)

    def _set_scores(self, scores: npt.NDArray[np.float32]) -> None:
        values = np.ascontiguousarray(scores, dtype=np.float32)
        status = self._lib.cerne_tokenizer_set_scores(
            self._handle, self._ffi.from_buffer("float[]", values), len(values)
        )
        check(status, TokenizerError)

    def encode(self, text: bytes) -> Ids:
        """Ids of `text`, uint32 [T]. decode(encode(text)) == text, but for what the vocabulary
        cannot hold: bytes without a token, U+2581 in the text of a SentencePiece vocabulary."""
        size = len(text)
        try:
            scratch, pointer, capacity, num_ids = self._local.scratch
            if size > capacity:
                scratch, pointer, num_ids = self._new_scratch(size)
        except AttributeError:
            scratch, pointer, num_ids = self._new_scratch(size)
        status = self._lib.cerne_tokenizer_encode(
            self._open(), text, size, pointer, len(scratch), num_ids
        )
        if status:
            check(status, TokenizerError)
        ids: Ids = scratch[: num_ids[0]].copy()
        return ids

    def _new_scratch(self, size: int) -> tuple[Ids, Any, Any]:
        scratch = np.empty(max(size, 4096), dtype=np.uint32)
        pointer = self._ffi.from_buffer(self._uint32s, scratch)
        num_ids = self._ffi.new("size_t*")
        if len(scratch) <= _KEPT_SCRATCH_IDS:
            self._local.scratch = (scratch, pointer, len(scratch), num_ids)
        return scratch, pointer, num_ids

    def encode_batch(self, texts: Iterable[bytes], threads: int | None = None) -> list[Ids]:
        """Ids of each text, in order. `threads` None: one per core. The ids do not depend on it."""
        num_threads = _thread_count(threads)
        out: list[Ids] = []
        group: list[bytes] = []
        size = 0
        for text in texts:
            group.append(text)
            size += len(text)
            if size >= _BATCH_BYTES:
                out += self._encode_group(group, num_threads)
                group, size = [], 0
        if group:
            out += self._encode_group(group, num_threads)
        return out

    def _encode_group(self, texts: Sequence[bytes], num_threads: int) -> list[Ids]:
        blob, offsets = _join(texts)
        ids = np.empty(max(len(blob), 1), dtype=np.uint32)
        counts = np.empty(len(texts), dtype=np.uint64)
        status = self._lib.cerne_tokenizer_encode_batch(
            self._open(),
            blob,
            self._ffi.from_buffer(self._uint64s, offsets),
            len(texts),
            num_threads,
            self._ffi.from_buffer(self._uint32s, ids),
            self._ffi.from_buffer(self._uint64s, counts),
        )
        check(status, TokenizerError)
        starts = offsets[:-1].tolist()
        return [
            ids[start : start + count].copy()
            for start, count in zip(starts, counts.tolist(), strict=True)
        ]

    def encode_with_offsets(self, text: bytes) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Ids and the byte range of each in `text`, int64 [T, 2] (begin, end)."""
        ids = self.encode(text)
        ends = np.cumsum(self.token_lengths(ids), dtype=np.int64)
        offsets = np.empty((len(ids), 2), dtype=np.int64)
        offsets[:, 1] = ends
        offsets[:1, 0] = 0
        offsets[1:, 0] = ends[:-1]
        return ids, offsets

    def token_lengths(self, ids: Ids | Sequence[int]) -> Ids:
        """Byte length of each id's token, uint32 [T].

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        ids_u32 = _as_ids(ids)
        lengths = np.empty(len(ids_u32), dtype=np.uint32)
        status = self._lib.cerne_tokenizer_token_lengths(
            self._open(),
            self._ffi.from_buffer(self._uint32s, ids_u32),
            len(ids_u32),
            self._ffi.from_buffer(self._uint32s, lengths),
        )
        check(status, TokenizerError)
        return lengths

    def decode(self, ids: Ids | Sequence[int]) -> bytes:
        """The bytes of `ids`; special tokens give nothing.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        ids_u32 = _as_ids(ids)
        pointer = self._ffi.from_buffer(self._uint32s, ids_u32)
        num_bytes = self._ffi.new("size_t*")
        capacity = 8 * len(ids_u32) + 64
        while True:
            buffer = bytearray(capacity)
            status = self._lib.cerne_tokenizer_decode(
                self._open(),
                pointer,
                len(ids_u32),
                self._ffi.from_buffer("uint8_t[]", buffer),
                capacity,
                num_bytes,
            )
            if status != BUFFER_TOO_SMALL:
                break
            capacity = num_bytes[0]
        check(status, TokenizerError)
        return bytes(memoryview(buffer)[: num_bytes[0]])


def pretokenize(pattern: str, text: bytes) -> list[bytes]:
    """The pre-tokens of `text`; joined they are `text`.

    Raises:
        TokenizerError: the pattern is unknown.
    """
    ffi, lib, _ = library()
    ends = np.empty(max(len(text), 1), dtype=np.uint64)
    num_ends = ffi.new("size_t*")
    name = pattern.encode()
    status = lib.cerne_pretokenize(
        name, len(name), text, len(text), ffi.from_buffer("uint64_t[]", ends), len(text), num_ends
    )
    check(status, TokenizerError)
    bounds = [0, *ends[: num_ends[0]].tolist()]
    return [text[a:b] for a, b in itertools.pairwise(bounds)]


def _join(pieces: Sequence[bytes]) -> tuple[bytes, npt.NDArray[np.uint64]]:
    offsets = np.zeros(len(pieces) + 1, dtype=np.uint64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return b"".join(pieces), offsets


def _as_ids(ids: Ids | Sequence[int]) -> Ids:
    if isinstance(ids, np.ndarray) and ids.dtype == np.uint32:
        return np.ascontiguousarray(ids)
    wide = np.asarray(ids, dtype=np.int64).reshape(-1)
    if wide.size and (wide.min() < 0 or wide.max() >= 2**32):
        bad = int(wide[(wide < 0) | (wide >= 2**32)][0])
        raise TokenizerError("an id is outside the vocabulary", value=bad)
    return wide.astype(np.uint32)


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return 0
    if threads < 1:
        raise TokenizerError("the number of threads is too small", value=threads, allowed=">= 1")
    return threads
