"""The cleaned text of a run on disk: one file of UTF-8 bytes and the ranges of its documents.

`CorpusWriter` appends documents piece by piece; `Corpus` maps the file and hands out the documents
of the "train" or "val" part as pieces of bytes. Tokenizer training, encoding and the bits-per-byte
baselines read the same bytes here. A range that ends inside a document (the cut between the train
and the held-out part) is marked, so that no end-of-document token is put there.

Files: text.bin, train.ranges.bin and val.ranges.bin (int64 little-endian [N, 2]: start, stop),
corpus.json (format version, digest of sources and options, counts, report).
"""

from __future__ import annotations

import array
import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cerne.data.cuts import character_start, cut_bytes
from cerne.errors import DataError
from cerne.runs import atomic_write, cannot_write

FORMAT = "cerne-corpus"
VERSION = 1
PIECE_BYTES = 1 << 20
Part = Literal["train", "val"]
PARTS: tuple[Part, ...] = ("train", "val")


class CorpusWriter:
    """Appends documents to text.bin; the last one can be taken back.

    Args:
        folder: an existing folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "text.bin"
        self._file = open(self._path, "wb")  # noqa: SIM115 - closed in close()
        self._start = self._end = 0
        self.starts = array.array("q")
        self.stops = array.array("q")
        self.hashes = array.array("Q")

    def write(self, data: bytes) -> None:
        """Add bytes to the open document."""
        try:
            self._file.write(data)
        except OSError as error:
            raise cannot_write(self._path, error) from error
        self._end += len(data)

    def keep(self, hash64: int) -> None:
        """End the open document and keep it; `hash64` decides its side of a split by document."""
        self.starts.append(self._start)
        self.stops.append(self._end)
        self.hashes.append(hash64)
        self._start = self._end

    def drop(self) -> None:
        """Take the open document back."""
        if self._end > self._start:
            self._file.seek(self._start)
            self._file.truncate()
            self._end = self._start

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()

    def character_start(self, position: int) -> int:
        """The start of the character that covers byte `position` of the closed file."""
        with open(self._path, "rb") as handle:
            low = max(0, position - 4)
            handle.seek(low)
            return low + character_start(handle.read(8), position - low)


def write_ranges(folder: Path, part: Part, ranges: npt.NDArray[np.int64]) -> None:
    """Write the [N, 2] document ranges of one part."""
    atomic_write(folder / f"{part}.ranges.bin", ranges.astype("<i8").tobytes())


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write corpus.json, which makes the folder a corpus."""
    body = {"format": FORMAT, "version": VERSION, **manifest}
    atomic_write(folder / "corpus.json", json.dumps(body, ensure_ascii=False, indent=1) + "\n")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """corpus.json of a folder, or None when it is not a corpus of this version."""
    try:
        manifest = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None
    return manifest if manifest.get("version") == VERSION else None


class Corpus:
    """A corpus folder opened for reading.

    Args:
        folder: as written by collect().
    Raises:
        DataError: not a corpus, or its files do not fit together.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        manifest = read_manifest(self.folder)
        if manifest is None:
            raise DataError("not a corpus folder", value=str(folder), hint="cerne data prepare")
        self.manifest: dict[str, Any] = manifest
        self.digest = str(manifest["digest"])
        self.report: dict[str, Any] = manifest["report"]
        self._text = _map(self.folder / "text.bin")
        self._ranges = {part: self._read_ranges(part) for part in PARTS}

    def num_documents(self, part: Part) -> int:
        """Documents of a part (a document cut by the split counts in both)."""
        return len(self._ranges[part])

    def num_bytes(self, part: Part) -> int:
        """UTF-8 bytes of a part's text."""
        ranges = self._ranges[part]
        return int((ranges[:, 1] - ranges[:, 0]).sum())

    def document_bytes(self, part: Part) -> npt.NDArray[np.int64]:
        """The length of each document in bytes, int64 [num_documents]."""
        ranges = self._ranges[part]
        return ranges[:, 1] - ranges[:, 0]

    def document(self, part: Part, index: int) -> bytes:
        """The bytes of one document."""
        start, stop = (int(x) for x in self._ranges[part][index])
        return bytes(self._text[start:stop])

    def text(self, part: Part) -> bytes:
        """All bytes of a part, documents one after the other (held in memory)."""
        return b"".join(piece for piece, _ in self.pieces(part))

    def pieces(self, part: Part, limit_bytes: int | None = None) -> Iterator[tuple[bytes, bool]]:
        """The text in pieces of at most 1 MiB, cut where tokens end; True marks a document's end.

        Args:
            limit_bytes: stop after about this many bytes.
        """
        cut_last = bool(self.manifest["cut"].get(part, False))
        ranges, total = self._ranges[part], 0
        for index, (start, stop) in enumerate(ranges.tolist()):
            whole = not (cut_last and index == len(ranges) - 1)
            while start < stop:
                piece = self._text[start : min(stop, start + PIECE_BYTES + 2)]
                if len(piece) > PIECE_BYTES:
                    piece = piece[: cut_bytes(piece, PIECE_BYTES)]
                start += len(piece)
                total += len(piece)
                yield piece, whole and start == stop
                if limit_bytes is not None and total >= limit_bytes:
                    return

    def texts(self, part: Part, limit_bytes: int | None = None) -> Iterator[bytes]:
        """The pieces alone, for example to train a tokenizer."""
        for piece, _ in self.pieces(part, limit_bytes):
            yield piece

    def _read_ranges(self, part: Part) -> npt.NDArray[np.int64]:
        path = self.folder / f"{part}.ranges.bin"
        data = path.read_bytes() if path.exists() else b""
        if len(data) % 16:
            raise DataError("the corpus file is damaged", value=str(path))
        ranges = np.frombuffer(data, "<i8").astype(np.int64).reshape(-1, 2)
        bounded = ranges.size == 0 or (
            ranges.min() >= 0
            and ranges.max() <= len(self._text)
            and bool((ranges[:, 0] <= ranges[:, 1]).all())
        )
        if not bounded:
            raise DataError(
                "the corpus files do not fit together",
                value=str(self.folder),
                hint="delete the folder and prepare again",
            )
        return ranges


def _map(path: Path) -> mmap.mmap | bytes:
    try:
        with open(path, "rb") as handle:
            if path.stat().st_size == 0:
                return b""
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DataError(f"cannot read: {error.strerror}", value=str(path)) from None
