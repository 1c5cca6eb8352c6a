"""Token shards: flat little-endian token arrays on disk, memory-mapped for reading.

A folder holds tokens-00000.bin, ... (uint16 or uint32 by vocabulary size), offsets.bin (int64
little-endian, where each document begins, and the end) and index.json (sizes, SHA-256 of every
file and of the index itself, tokenizer digest, counts). A document never spans two files. The
index, sizes and offsets are checked on opening, the files' hashes too when that is quick or asked
for, so a truncated or changed file is an error and never other text.
"""

from __future__ import annotations

import array
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from cerne.errors import DataError
from cerne.runs import atomic_directory, atomic_write, cannot_write, sha256_file

FORMAT = "cerne-shards"
VERSION = 1
SHARD_TOKENS = 1 << 28
# Up to this size opening verifies the hashes (about 0.2 s); `data inspect --verify` always does.
VERIFY_BYTES = 256 << 20
_COUNTS = ("num_tokens", "num_documents", "num_bytes", "vocab_size", "eos_token_id", "pad_token_id")


class TokenizerFacts(Protocol):
    """What the index records of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def eos_token_id(self) -> int | None: ...
    @property
    def pad_token_id(self) -> int | None: ...
    @property
    def digest(self) -> str: ...


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """uint16 up to 65,536 ids, else uint32; little-endian."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def index_digest(index: dict[str, Any]) -> str:
    """Hex SHA-256 of an index without its own `self_sha256`."""
    content = {key: value for key, value in index.items() if key != "self_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ShardWriter:
    """Writes documents piece by piece with bounded memory (8 bytes a document).

    Args:
        folder: an existing folder, usually the temporary one of atomic_directory.
        tokenizer: its vocabulary size decides the dtype.
        shard_tokens: a new file begins at the first document after this many tokens.
    """

    def __init__(
        self, folder: Path, tokenizer: TokenizerFacts, shard_tokens: int = SHARD_TOKENS
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise DataError(
                "the tokenizer has no end-of-document token",
                hint="give it an eos_token in tokenizer_config.json",
            )
        self.eos_token_id: int = tokenizer.eos_token_id
        # Padding is told by documents_BT, so any id may fill it; eos when there is no pad.
        pad = tokenizer.pad_token_id
        self.pad_token_id: int = self.eos_token_id if pad is None else pad
        self._folder, self._tokenizer, self._shard_tokens = folder, tokenizer, shard_tokens
        self._dtype = token_dtype(tokenizer.vocab_size)
        self._offsets = array.array("q", [0])
        self._shards: list[dict[str, Any]] = []
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._in_shard = 0
        self.num_tokens = 0

    def append(self, ids: npt.ArrayLike, end_document: bool = True) -> None:
        """Add token ids to the open document, and end it unless told otherwise.

        Raises:
            DataError: an id outside the vocabulary.
        """
        ids_T = np.asarray(ids)
        if ids_T.size:
            low, high = int(ids_T.min()), int(ids_T.max())
            if low < 0 or high >= self._tokenizer.vocab_size:
                raise DataError(
                    "a token id is outside the vocabulary",
                    value=low if low < 0 else high,
                    allowed=f"0 to {self._tokenizer.vocab_size - 1}",
                    hint="encode with the tokenizer that the shards are written for",
                )
            self._write(ids_T.astype(self._dtype).tobytes())
            self._in_shard += ids_T.size
            self.num_tokens += ids_T.size
        if end_document:
            self._offsets.append(self.num_tokens)
            if self._in_shard >= self._shard_tokens:
                self._close_shard()

    def finish(self, num_bytes: int, meta: dict[str, Any]) -> None:
        """Write offsets and index.

        Args:
            num_bytes: UTF-8 bytes of the text behind the tokens, for bits per byte.
            meta: anything else worth keeping (source digests, counts of bad rows, ...).
        """
        if self._offsets[-1] != self.num_tokens:
            self._offsets.append(self.num_tokens)
        self._close_shard()
        offsets = np.array(self._offsets, "<i8")
        payload = offsets.tobytes()
        atomic_write(self._folder / "offsets.bin", payload)
        index: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "dtype": self._dtype.name,
            "vocab_size": self._tokenizer.vocab_size,
            "eos_token_id": self.eos_token_id,
            "pad_token_id": self.pad_token_id,
            "tokenizer_digest": self._tokenizer.digest,
            "num_tokens": self.num_tokens,
            "num_documents": len(offsets) - 1,
            "num_bytes": num_bytes,
            "shards": self._shards,
            "offsets": {"file": "offsets.bin", "sha256": hashlib.sha256(payload).hexdigest()},
            "meta": meta,
        }
        index["self_sha256"] = index_digest(index)
        text = json.dumps(index, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        atomic_write(self._folder / "index.json", text)

    def _write(self, data: bytes) -> None:
        name = f"tokens-{len(self._shards):05d}.bin"
        try:
            if self._file is None:
                path = self._folder / name
                self._file = open(path, "wb")  # noqa: SIM115 - closed in _close_shard()
                self._hash = hashlib.sha256()
            self._file.write(data)
        except OSError as error:
            raise cannot_write(self._folder / name, error) from error
        self._hash.update(data)

    def _close_shard(self) -> None:
        if self._file is None:
            return
        name = Path(self._file.name).name
        try:
            self._file.close()
        except OSError as error:
            raise cannot_write(self._folder / name, error) from error
        self._shards.append(
            {"file": name, "num_tokens": self._in_shard, "sha256": self._hash.hexdigest()}
        )
        self._file, self._in_shard = None, 0


def write_shards(
    folder: str | Path,
    documents: Iterable[npt.ArrayLike],
    tokenizer: TokenizerFacts,
    num_bytes: int,
    meta: dict[str, Any] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> Shards:
    """Write whole documents of token ids to a new shard folder, atomically, and open it.

    Args:
        documents: one array of ids per document, end-of-document token included.
    Raises:
        DataError: an id outside the vocabulary.
        EnvironmentLack: the disk is full.
    """
    with atomic_directory(folder) as temporary:
        writer = ShardWriter(temporary, tokenizer, shard_tokens)
        for ids in documents:
            writer.append(ids)
        writer.finish(num_bytes, meta if meta is not None else {})
    return open_shards(folder)


class Shards:
    """An opened shard folder.

    Attributes:
        offsets: int64 [num_documents + 1], where each document begins in the whole token stream.
        digest: hex SHA-256 that names the tokens and documents, wherever the folder lies.
    """

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder, self.index = folder, index
        files = [entry["sha256"] for entry in (*index["shards"], index["offsets"])]
        key = " ".join([index["tokenizer_digest"], index["dtype"], *files])
        self.digest = hashlib.sha256(key.encode()).hexdigest()
        self.num_tokens: int = index["num_tokens"]
        self.num_documents: int = index["num_documents"]
        self.num_bytes: int = index["num_bytes"]
        self.vocab_size: int = index["vocab_size"]
        self.eos_token_id: int = index["eos_token_id"]
        self.pad_token_id: int = index["pad_token_id"]
        # A document begins after the end of another: the model sees eos before its first token.
        self.start_token_id: int | None = self.eos_token_id
        self.tokenizer_digest: str = index["tokenizer_digest"]
        self.meta: dict[str, Any] = index["meta"]
        dtype = token_dtype(self.vocab_size)
        self._tokens = [
            np.memmap(folder / shard["file"], dtype, "r", shape=(shard["num_tokens"],))
            for shard in index["shards"]
        ]
        sizes = [shard["num_tokens"] for shard in index["shards"]]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        self.offsets = np.fromfile(folder / "offsets.bin", "<i8").astype(np.int64)

    def document(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The token ids of one document (a copy)."""
        if not 0 <= index < self.num_documents:
            raise DataError(
                "no such document", value=index, allowed=f"0 to {self.num_documents - 1}"
            )
        return self.read(int(self.offsets[index]), int(self.offsets[index + 1]))

    def read(self, start: int, stop: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Token ids start..stop of the whole stream (a copy), across files where needed."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        if first < len(self._tokens) and stop <= self._starts[first + 1]:
            base = int(self._starts[first])
            return np.array(self._tokens[first][start - base : stop - base])
        parts = []
        for shard, base in zip(self._tokens[first:], self._starts[first:-1], strict=True):
            if base >= stop:
                break
            parts.append(shard[max(0, start - base) : stop - base])
        if not parts:
            return np.zeros(0, token_dtype(self.vocab_size))
        return np.concatenate(parts)

    def verify(self) -> None:
        """Compare the SHA-256 of every file with the index.

        Raises:
            DataError: a file was changed.
        """
        for entry in (*self.index["shards"], self.index["offsets"]):
            path = self.folder / entry["file"]
            found = sha256_file(path)
            if found != entry["sha256"]:
                raise DataError(
                    "the file was changed or damaged: its SHA-256 is not the index's",
                    value=str(path),
                    allowed=entry["sha256"][:16] + "...",
                    hint="delete the folder and run cerne data prepare again",
                )


def open_shards(folder: str | Path, verify: bool | None = None) -> Shards:
    """Open and check a shard folder.

    Args:
        verify: compare SHA-256 of all files; None does it up to 256 MiB.
    Raises:
        DataError: missing, truncated, of another format or version, or changed files.
    """
    folder = Path(folder)
    path = folder / "index.json"
    try:
        raw = path.read_bytes()
    except OSError as error:
        hint = None
        if (folder / "train" / "index.json").exists():
            hint = f"{folder / 'train'} or {folder / 'val'}"
        raise DataError(
            f"not a shard folder: cannot read its index ({error.strerror})",
            value=str(folder),
            hint=hint if hint is not None else "cerne data prepare",
        ) from None
    index = _checked_index(raw, path)
    _check_sizes(folder, index)
    shards = Shards(folder, index)
    offsets = shards.offsets
    ordered = len(offsets) == shards.num_documents + 1 and bool((np.diff(offsets) >= 0).all())
    if not ordered or offsets[0] != 0 or offsets[-1] != shards.num_tokens:
        raise _broken(folder / "offsets.bin", "its document offsets are not in order")
    size_bytes = shards.num_tokens * token_dtype(shards.vocab_size).itemsize
    if verify or (verify is None and size_bytes <= VERIFY_BYTES):
        shards.verify()
    return shards


def _checked_index(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        index = json.loads(raw)
    except ValueError as error:
        raise _broken(path, f"it is not valid JSON ({error})") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise _broken(path, f"its format is not {FORMAT}")
    if index.get("version") != VERSION:
        raise DataError(
            "the shards are of another format version",
            value=index.get("version"),
            allowed=str(VERSION),
            hint="run cerne data prepare again",
        )
    if index.get("self_sha256") != index_digest(index):
        raise _broken(path, "it was changed: its SHA-256 is not the one that it states")
    for count in _COUNTS:
        if type(index.get(count)) is not int or index[count] < 0:
            raise _broken(path, f"{count} is not a count")
    if index.get("dtype") != token_dtype(index["vocab_size"]).name:
        raise _broken(path, "dtype does not fit the vocabulary size")
    entries = index.get("shards")
    texts = (index.get("tokenizer_digest"),)
    if not isinstance(entries, list) or not all(isinstance(t, str) for t in texts):
        raise _broken(path, "it lacks shards or tokenizer_digest")
    for entry in [*entries, index.get("offsets")]:
        if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
            raise _broken(path, "a file entry is malformed")
        name: Any = entry.get("file")
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
            raise _broken(path, "a file name leads out of the folder")
    if index["offsets"]["file"] != "offsets.bin" or not isinstance(index.get("meta"), dict):
        raise _broken(path, "offsets or meta is malformed")
    if any(type(e.get("num_tokens")) is not int or e["num_tokens"] < 1 for e in entries):
        raise _broken(path, "num_tokens of a shard is not a count")
    if sum(e["num_tokens"] for e in entries) != index["num_tokens"]:
        raise _broken(path, "the shards' tokens do not sum to num_tokens")
    return index


def _check_sizes(folder: Path, index: dict[str, Any]) -> None:
    itemsize = token_dtype(index["vocab_size"]).itemsize
    expected = {e["file"]: e["num_tokens"] * itemsize for e in index["shards"]}
    expected["offsets.bin"] = (index["num_documents"] + 1) * 8
    for name, size_bytes in expected.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != size_bytes:
            state = "is missing" if found is None else f"has {found} bytes, not {size_bytes}"
            raise _broken(path, f"it {state}")


def _broken(path: Path, why: str) -> DataError:
    return DataError(
        f"the shard folder is damaged: {path.name}: {why}",
        value=str(path),
        hint="delete the folder and run cerne data prepare again",
    )
