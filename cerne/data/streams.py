"""Byte streams of source files: compression found by content, bounded memory, clear errors.

`open_bytes` gives a buffered reader of the decompressed bytes, which produces at most the block
asked for, so a small file that expands to gigabytes never sits in memory. A file that ends too
early or is damaged is a DataError, never a shorter text.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from cerne.errors import DataError

BLOCK_BYTES = 1 << 20
MAGIC = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}
# Share of control bytes in the first block above which a file is not text (noise has 10 %).
MAX_CONTROL_SHARE = 0.04
_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\r\f\v\b\x1b")


class _CountedFile(io.RawIOBase):
    """A raw file that tells how many bytes were taken from it."""

    def __init__(self, raw: io.FileIO, on_bytes: Callable[[int], None] | None) -> None:
        self._raw, self._on_bytes = raw, on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._raw.readinto(buffer) or 0
        if self._on_bytes is not None and count:
            self._on_bytes(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def compression_of(path: Path) -> str | None:
    """`gz`, `xz`, `zst` or None, from the first bytes of the file.

    Raises:
        DataError: unreadable, or the name promises a compression that the content is not.
    """
    try:
        with open(path, "rb") as handle:
            head = handle.read(8)
    except OSError as error:
        raise unreadable(path, error) from None
    for kind, magic in MAGIC.items():
        if head.startswith(magic):
            return kind
    promised = path.suffix.lower().lstrip(".")
    if promised in MAGIC and head:
        raise DataError(
            f"the file is not {promised} data although its name says so",
            value=str(path),
            hint="rename it, or download it again",
        )
    return None


@contextlib.contextmanager
def open_bytes(
    path: str | Path, on_bytes: Callable[[int], None] | None = None
) -> Iterator[BinaryIO]:
    """Open a plain or compressed file for reading decompressed bytes.

    Args:
        path: the file.
        on_bytes: called with the number of bytes taken from the disk, for a progress bar.
    Raises:
        DataError: unreadable, truncated or damaged.
    """
    path = Path(path)
    kind = compression_of(path)
    try:
        with _CountedFile(io.FileIO(path), on_bytes) as raw:
            yield _decompressed(raw, kind)
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise _damaged(path, error) from None
    except OSError as error:
        if kind is None:
            raise unreadable(path, error) from None
        raise _damaged(path, error) from None


def _decompressed(raw: _CountedFile, kind: str | None) -> BinaryIO:
    if kind is None:
        return io.BufferedReader(raw, BLOCK_BYTES)
    if kind == "zst":
        import pyarrow

        # Unlike zstandard's stream reader, Arrow's reports a truncated file.
        stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")
        return io.BufferedReader(stream, BLOCK_BYTES)
    buffered = io.BufferedReader(raw, BLOCK_BYTES)
    if kind == "gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered, mode="rb"))
    return cast(BinaryIO, lzma.LZMAFile(buffered, "rb"))


def refuse_binary(head: bytes, path: Path) -> None:
    """Raise DataError when the first block of a text file is plainly not UTF-8 text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(
            "the file is UTF-16, not UTF-8",
            value=str(path),
            hint=f"iconv -f UTF-16 -t UTF-8 {path.name} > converted.txt",
        )
    if head.startswith(b"PAR1"):
        raise DataError(
            "the file is Parquet although its name says text",
            value=str(path),
            hint="rename it to end in .parquet",
        )
    control = len(head) - len(head.translate(None, _CONTROL_BYTES))
    if control > MAX_CONTROL_SHARE * len(head):
        raise DataError(
            f"the file looks binary: {control} control bytes in its first {len(head)}",
            value=str(path),
            allowed="UTF-8 text, JSONL or Parquet, plain or .gz/.xz/.zst",
        )


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for a source file that the system does not give us."""
    return DataError(f"cannot read: {error.strerror or error}", value=str(path))


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"the compressed file is truncated or damaged ({error})",
        value=str(path),
        hint="copy or download it again",
    )
