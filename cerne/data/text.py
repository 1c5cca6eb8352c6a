"""Plain text files as a stream of document pieces, in bounded memory.

`read_text` decodes UTF-8 block by block, cuts at the chosen separator, and hands out a document
longer than PIECE_CHARS in several pieces (the last one is marked), so that neither a 50 MB line nor
a 50 GB file has to fit in memory. Line numbers and byte offsets are kept for reports.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cerne.data.config import Errors
from cerne.data.cuts import cut_text
from cerne.data.report import RowReport
from cerne.data.streams import BLOCK_BYTES, open_bytes, refuse_binary
from cerne.errors import DataError

PIECE_CHARS = 4 << 20
_PARAGRAPH = re.compile(r"(\r?\n(?:[ \t\r]*\n)+)")
_LINE = re.compile(r"(\r?\n)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A whole document, or one piece of a long one; `last` ends the document.

    `text` may hold lone surrogates U+DC80..U+DCFF that stand for kept invalid bytes
    (PEP 383, `surrogateescape`); `line` is where the piece begins, counted from 1.
    """

    text: str
    source: str
    line: int
    last: bool = True


def read_text(
    path: Path,
    document: str,
    errors: Errors,
    report: RowReport,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Piece]:
    """The documents of one text file.

    Args:
        document: "file", "paragraph", "line" or the literal text between documents.
        errors: what to do with invalid UTF-8.
        report: counts replaced or kept bytes; an empty file is reported.
    Raises:
        DataError: binary, UTF-16, invalid UTF-8 under "strict" (with its byte offset), damaged.
    """
    separator = _separator(document)
    source, line, empty = str(path), 1, True
    buffer, started, after_separator = "", False, False
    with open_bytes(path, on_bytes) as stream:
        for chunk in _decoded(stream, path, errors, report):
            empty = False
            buffer += chunk
            if separator is not None:
                *parts, buffer = separator.split(buffer)
                for text, mark in zip(parts[::2], parts[1::2], strict=True):
                    body = _trimmed(text, after_separator and not started, True)
                    if body or started:
                        yield Piece(body, source, line, last=True)
                    line += text.count("\n") + mark.count("\n")
                    started, after_separator = False, True
            while len(buffer) > PIECE_CHARS + len(document):
                cut = cut_text(buffer, PIECE_CHARS)
                body = _trimmed(buffer[:cut], after_separator and not started, False)
                yield Piece(body, source, line, last=False)
                line += buffer.count("\n", 0, cut)
                buffer, started = buffer[cut:], True
    body = _trimmed(buffer, after_separator and not started, after_separator)
    if body or started:
        yield Piece(body, source, line, last=True)
    if empty:
        report.add_empty(source)


def decode_row(data: bytes, errors: Errors, report: RowReport) -> str:
    """Decode one row; kept or replaced bytes are counted.

    Raises:
        UnicodeDecodeError: invalid UTF-8 under "strict".
    """
    return _decode_block(data, errors, report, final=True)[0]


def _separator(document: str) -> re.Pattern[str] | None:
    if document == "file":
        return None
    if document == "paragraph":
        return _PARAGRAPH
    if document == "line":
        return _LINE
    return re.compile(f"({re.escape(document)})")


def _trimmed(text: str, left: bool, right: bool) -> str:
    """Without the line ends that only set a separator apart."""
    if left:
        text = text.lstrip("\r\n")
    return text.rstrip("\r\n") if right else text


def _decoded(stream: BinaryIO, path: Path, errors: Errors, report: RowReport) -> Iterator[str]:
    offset, pending, first = 0, b"", True
    while block := stream.read(BLOCK_BYTES):
        if first:
            refuse_binary(block, path)
            if block.startswith(codecs.BOM_UTF8):
                block, offset = block[3:], 3
            first = False
        data = pending + block
        try:
            text, used = _decode_block(data, errors, report, final=False)
        except UnicodeDecodeError as error:
            raise _invalid(path, data, offset, error) from None
        offset, pending = offset + used, data[used:]
        if text:
            yield text
    if pending:
        try:
            yield _decode_block(pending, errors, report, final=True)[0]
        except UnicodeDecodeError as error:
            raise _invalid(path, pending, offset, error) from None


def _decode_block(data: bytes, errors: Errors, report: RowReport, final: bool) -> tuple[str, int]:
    try:
        return codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError:
        if errors == "strict":
            raise
    kept, used = codecs.utf_8_decode(data, "surrogateescape", final)
    invalid = sum(1 for char in kept if "\udc80" <= char <= "\udcff")
    report.note(f"invalid UTF-8 bytes ({errors})", invalid)
    if errors == "keep-bytes":
        return kept, used
    return codecs.utf_8_decode(data, "replace", final)


def _invalid(path: Path, data: bytes, offset: int, error: UnicodeDecodeError) -> DataError:
    return DataError(
        f"{path}: invalid UTF-8 at byte offset {offset + error.start}",
        value=bytes(data[error.start : error.start + 4]),
        allowed="UTF-8 text",
        hint="convert the file with iconv, or set data.errors=replace or data.errors=keep-bytes",
    )
