"""The tokenizer that everything uses: text to ids and back, without loss.

`Tokenizer.train` makes one from text, `Tokenizer.load` reads a Hugging Face folder, `save` writes
one. Encoding and merging run in the native core; control tokens, added tokens and files are here.
Leaves out: chat templates (chat.py renders them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.gguf import GgufFile
from cerne.runs import atomic_write
from cerne.tokenizer import hf_config, hf_json
from cerne.tokenizer.gguf import vocabulary_from_gguf
from cerne.tokenizer.segments import Segmenter
from cerne.tokenizer.special import DEFAULT_SPECIALS
from cerne.tokenizer.stream import Continuation, StreamDecoder
from cerne.tokenizer.training import Sources, train_vocabulary
from cerne.tokenizer.vocabulary import Vocabulary, native_tokenizer, pieces_digest

Ids = npt.NDArray[np.uint32]
IdsLike = Sequence[int] | npt.NDArray[np.integer[Any]]
FILE_NAME = "tokenizer.json"


class Tokenizer:
    """A tokenizer: byte-level BPE, or SentencePiece from a GGUF file. Immutable and thread-safe.

    Text is str or bytes. A str is taken as UTF-8 (a lone surrogate becomes its three bytes); bytes
    may be anything. Encoding never yields a control token, whatever the text says.

    Args:
        vocabulary: see Vocabulary; `train` and `load` make one.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._native = native_tokenizer(vocabulary)
        self._strips = vocabulary.pieces is not None and vocabulary.pieces.space_prefix
        self._added = {token.id: token for token in vocabulary.added}
        self._ids_of_added = {i: np.array([i], dtype=np.uint32) for i in self._added}
        plain = [token for token in vocabulary.added if not token.special]
        self._segmenter = Segmenter(
            plain, vocabulary.normalizer == "nfc", vocabulary.longest_first, self._strips
        )
        self._is_added = np.zeros(self.vocab_size, dtype=bool)
        self._is_added[list(self._added)] = True
        self.special_tokens: dict[str, int] = {
            token.content: token.id for token in vocabulary.added if token.special
        }

    @classmethod
    def train(
        cls,
        sources: Sources,
        vocab_size: int = 4096,
        pattern: str = "qwen2",
        special_tokens: Sequence[str] = DEFAULT_SPECIALS,
        threads: int | None = None,
        progress: bool = False,
        allow_fewer: bool = False,
    ) -> Tokenizer:
        """Trains on files or on texts; see training.train_vocabulary."""
        return cls(
            train_vocabulary(
                sources, vocab_size, pattern, special_tokens, threads, progress, allow_fewer
            )
        )

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Reads a folder with tokenizer.json (and tokenizer_config.json), or the file itself; or
        the tokenizer inside a GGUF file.

        Raises:
            TokenizerError: there is none, it is damaged, or of a kind that is not supported.
            ModelError: the GGUF file itself is damaged.
        """
        file = Path(path)
        if file.suffix == ".gguf":
            with GgufFile(file) as opened:
                return cls(vocabulary_from_gguf(opened))
        if file.is_dir():
            file = file / FILE_NAME
        if not file.is_file():
            raise TokenizerError(
                "there is no tokenizer.json",
                value=str(path),
                hint="cerne tokenizer train FILES --out FOLDER",
            )
        if file.stat().st_size > hf_json.MAX_FILE_BYTES:
            raise TokenizerError(
                "tokenizer.json is too large",
                value=file.stat().st_size,
                allowed=f"{hf_json.MAX_FILE_BYTES} bytes",
            )
        vocabulary = hf_json.vocabulary_from_json(file.read_bytes(), str(file))
        return cls(hf_config.with_config(vocabulary, file.parent))

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json and tokenizer_config.json into the folder, which may be new.

        Raises:
            TokenizerError: it has pieces, for which there is only the GGUF file.
        """
        atomic_write(Path(folder) / FILE_NAME, self._json)
        atomic_write(Path(folder) / hf_config.FILE_NAME, hf_config.config_to_json(self.vocabulary))

    @cached_property
    def _json(self) -> bytes:
        return hf_json.vocabulary_to_json(self.vocabulary)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of tokenizer.json as `save` writes it, or of what stands in its place."""
        if self.vocabulary.pieces is not None:
            return pieces_digest(self.vocabulary, self.vocabulary.pieces)
        return hashlib.sha256(self._json).hexdigest()

    @property
    def vocab_size(self) -> int:
        """Number of ids, control tokens included."""
        return len(self.vocabulary.token_bytes)

    @property
    def chat_template(self) -> str | None:
        """Jinja source of the chat template, or None."""
        return self.vocabulary.chat_template

    @property
    def pad_token_id(self) -> int | None:
        """Fills rows; never the end token in a tokenizer that we train."""
        return self._role(self.vocabulary.roles.pad)

    @property
    def eos_token_id(self) -> int | None:
        """Ends a document."""
        return self._role(self.vocabulary.roles.eos)

    @property
    def bos_token_id(self) -> int | None:
        """Begins a text; None in a tokenizer that we train."""
        return self._role(self.vocabulary.roles.bos)

    @property
    def end_of_turn_id(self) -> int | None:
        """Ends a turn of a conversation."""
        return self._role(self.vocabulary.roles.end_of_turn)

    def _role(self, name: str | None) -> int | None:
        return None if name is None else self.special_tokens[name]

    def encode(self, text: str | bytes) -> list[int]:
        """Ids of a text. Control tokens never occur, and nothing is added around it."""
        ids: list[int] = self.encode_array(text).tolist()
        return ids

    def encode_prompt(self, text: str | bytes) -> list[int]:
        """Ids of a text as the model expects one: with the begin (and end) token, if that is the
        rule of the model. Training, evaluation and generation on raw text all use this."""
        roles = self.vocabulary.roles
        ids = self.encode(text)
        if roles.add_bos and self.bos_token_id is not None:
            ids.insert(0, self.bos_token_id)
        if roles.add_eos and self.eos_token_id is not None:
            ids.append(self.eos_token_id)
        return ids

    def encode_array(self, text: str | bytes) -> Ids:
        """The same as `encode`, as uint32 [T]: faster for long texts."""
        data = to_utf8(text)
        if self._segmenter.is_trivial:
            return self._native.encode(data)
        return self._encode_split([list(self._segmenter.split(data))], 1)[0]

    def encode_batch(self, texts: Iterable[str | bytes], threads: int | None = None) -> list[Ids]:
        """Ids of each text, uint32. `threads` None: one per core; the ids do not depend on it."""
        if self._segmenter.is_trivial:
            return self._native.encode_batch(map(to_utf8, texts), threads)
        split = [list(self._segmenter.split(to_utf8(text))) for text in texts]
        return self._encode_split(split, threads)

    def _encode_split(self, split: list[list[bytes | int]], threads: int | None) -> list[Ids]:
        stretches = (piece for pieces in split for piece in pieces if isinstance(piece, bytes))
        encoded = iter(self._native.encode_batch(stretches, threads))
        parts = (
            [self._ids_of_added[p] if isinstance(p, int) else next(encoded) for p in pieces]
            for pieces in split
        )
        nothing = np.empty(0, dtype=np.uint32)
        return [np.concatenate(arrays) if arrays else nothing for arrays in parts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Ids and the byte range (begin, end) of each in the UTF-8 text, int64 [T, 2].

        Where the tokenizer changes text first (form C, a space before it, bytes that it lacks),
        ranges are of the changed text.
        """
        ids = self.encode_array(text)
        ends = np.cumsum(self.token_byte_lengths()[ids.astype(np.int64)], dtype=np.int64)
        return ids.tolist(), np.stack([np.append(0, ends[:-1])[: len(ids)], ends], axis=1)

    def decode(self, ids: IdsLike, skip_special: bool = False, continues: bool = False) -> str:
        """Text of ids; bytes that are no UTF-8 become U+FFFD. Control tokens show as their name
        unless they are skipped. What `continues` other text keeps the space at its beginning that
        some tokenizers put before each text.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        data = self.decode_bytes(ids, skip_special, continues)
        return data.decode("utf-8", errors="replace")

    def decode_bytes(
        self, ids: IdsLike, skip_special: bool = False, continues: bool = False
    ) -> bytes:
        """Bytes of ids: the inverse of `encode`, where they do not continue other text.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        array = self._checked(ids)
        marks = np.flatnonzero(self._is_added[array])
        parts: list[bytes] = []
        start = 0
        for at in (*marks, len(array)):
            if at > start:
                text = self._native.decode(array[start:at].astype(np.uint32))
                stays = continues and start == 0
                parts.append(text.removeprefix(b" ") if self._strips and not stays else text)
            if at < len(array):
                parts.append(self._text_of_added(int(array[at]), skip_special))
            start = at + 1
        return b"".join(parts)

    def _checked(self, ids: IdsLike) -> npt.NDArray[np.int64]:
        array = np.asarray(ids, dtype=np.int64).reshape(-1)
        wrong = np.flatnonzero((array < 0) | (array >= self.vocab_size))
        if wrong.size:
            raise TokenizerError(
                f"the id at position {wrong[0]} is outside the vocabulary",
                value=int(array[wrong[0]]),
                allowed=f"0 to {self.vocab_size - 1}",
            )
        return array

    def _text_of_added(self, token_id: int, skip_special: bool) -> bytes:
        token = self._added[token_id]
        return b"" if token.special and skip_special else token.content.encode("utf-8")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of text that an id stands for; b"" for control tokens.

        Raises:
            TokenizerError: the id is outside the vocabulary.
        """
        index = int(self._checked([token_id])[0])
        if index in self._added:
            return self._text_of_added(index, skip_special=True)
        return self.vocabulary.token_bytes[index]

    def token_byte_lengths(self) -> npt.NDArray[np.int32]:
        """len(token_bytes(i)) for every id, int32 [V]: the sum over an encoding is its size."""
        lengths: npt.NDArray[np.int32] = self._lengths.copy()
        return lengths

    @cached_property
    def _lengths(self) -> npt.NDArray[np.int32]:
        lengths = np.array([len(token) for token in self.vocabulary.token_bytes], dtype=np.int32)
        for token_id in self._added:
            lengths[token_id] = len(self._text_of_added(token_id, skip_special=True))
        return lengths

    def stream(self, skip_special: bool = False, continues: bool = False) -> StreamDecoder:
        """A decoder for ids that arrive one by one; its pieces together equal `decode`."""
        strips = self._strips and not continues

        def bytes_of(token_id: int) -> bytes:
            nonlocal strips
            if token_id in self._added:
                strips = self._strips
                return self._text_of_added(token_id, skip_special)
            text = self.token_bytes(token_id)
            strip, strips = strips, False
            return text.removeprefix(b" ") if strip else text

        return StreamDecoder(bytes_of)

    @cached_property
    def continuation(self) -> Continuation:
        """Decodes answers, which continue their prompts."""
        return Continuation(
            lambda ids: self.decode(ids, continues=True), lambda: self.stream(continues=True)
        )


def to_utf8(text: str | bytes) -> bytes:
    """The bytes of a text; lone surrogates become their three bytes instead of an error."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
