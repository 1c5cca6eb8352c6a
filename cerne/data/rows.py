"""Rows of JSONL, JSON and Parquet files, plain or compressed, in bounded memory.

`iterate_rows` yields each usable row with its line; an unusable one (invalid JSON, not an object,
invalid UTF-8) goes to the report with file and line. `row_text` takes the text out of a row.
Conversations and pre-training text both read their rows here.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from cerne.data.config import Errors
from cerne.data.report import RowReport
from cerne.data.streams import BLOCK_BYTES, compression_of, open_bytes, refuse_binary, unreadable
from cerne.data.text import decode_row
from cerne.errors import DataError, shorten
from cerne.runs import cannot_write

MAX_ROW_BYTES = 256 << 20
MAX_JSON_BYTES = 512 << 20
PARQUET_BATCH_ROWS = 256
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file; `line` counts from 1 (rows of Parquet and JSON lists too)."""

    value: dict[str, Any]
    source: str
    line: int


def iterate_rows(
    path: str | Path,
    kind: str,
    report: RowReport,
    errors: Errors = "strict",
    columns: tuple[str, ...] | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """The rows of one file.

    Args:
        path: the file.
        kind: "jsonl", "json" or "parquet".
        report: receives every unusable row.
        columns: for Parquet, read only these columns.
    Raises:
        DataError: unreadable or damaged file, a missing column, a row longer than 256 MiB.
        EnvironmentLack: no room to expand a compressed Parquet file.
    """
    path = Path(path)
    if kind == "parquet":
        yield from _parquet_rows(path, report, errors, columns, on_bytes)
        return
    with open_bytes(path, on_bytes) as stream:
        # Many .json files hold one object a line; a list starts with a bracket.
        if kind == "json" and _peek(stream).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            yield from _json_rows(stream, path, report, errors)
        else:
            yield from _json_lines(stream, path, report, errors)


def row_text(row: Row, field: str, report: RowReport) -> str | None:
    """The text of a row, or None after the row was reported as bad.

    A string is taken as it is; a list of messages becomes `Role: content` paragraphs.
    """
    value = row.value.get(field)
    if field not in row.value:
        names = ", ".join(sorted(map(str, row.value))) or "none"
        report.add_bad(row.source, row.line, f"no field {field!r}", f"the row has: {names}")
        return None
    text = _messages_text(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        kind = type(value).__name__
        report.add_bad(row.source, row.line, f"field {field!r} is not text", f"it is {kind}")
        return None
    if not text.strip():
        report.add_bad(row.source, row.line, f"field {field!r} is empty")
        return None
    report.add_good()
    return text


def _peek(stream: BinaryIO) -> bytes:
    # Every stream of open_bytes is buffered and can look ahead, which BinaryIO does not say.
    return bytes(stream.peek(64))[:64]  # type: ignore[attr-defined]


def _messages_text(messages: list[Any]) -> str | None:
    parts = []
    for message in messages:
        if not isinstance(message, dict):
            return None
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        parts.append(f"{role.capitalize()}: {content}")
    return "\n\n".join(parts)


def _json_lines(stream: BinaryIO, path: Path, report: RowReport, errors: Errors) -> Iterator[Row]:
    line = 0
    while data := stream.readline(MAX_ROW_BYTES + 1):
        line += 1
        if len(data) > MAX_ROW_BYTES:
            raise DataError(f"{path}:{line}: the row is longer than {MAX_ROW_BYTES >> 20} MiB")
        if line == 1:
            refuse_binary(data[:BLOCK_BYTES], path)
            data = data.removeprefix(b"\xef\xbb\xbf")
        if not data.strip():
            continue
        try:
            value = json.loads(decode_row(data, errors, report))
        except UnicodeDecodeError as error:
            report.add_bad(str(path), line, "invalid UTF-8", f"at byte {error.start} of the line")
        except json.JSONDecodeError as error:
            report.add_bad(str(path), line, "invalid JSON", f"{error.msg} at column {error.colno}")
        except ValueError as error:
            report.add_bad(str(path), line, "invalid JSON", shorten(str(error), 60))
        except RecursionError:
            report.add_bad(str(path), line, "invalid JSON", "nested too deeply")
        else:
            # Only a \u escape can make a lone surrogate out of valid UTF-8.
            escaped = b"\\u" in data
            yield from _checked(value, path, line, report, errors, escaped)
    if line == 0:
        report.add_empty(str(path))


def _json_rows(stream: BinaryIO, path: Path, report: RowReport, errors: Errors) -> Iterator[Row]:
    data = stream.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise DataError(
            f"{path}: a JSON list may have at most {MAX_JSON_BYTES >> 20} MiB",
            hint="write one object a line and name the file .jsonl",
        )
    refuse_binary(data[:BLOCK_BYTES], path)
    try:
        values = json.loads(decode_row(data, errors, report).removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not valid JSON: {error}",
            allowed="a list of objects; one object a line goes in a .jsonl file",
        ) from None
    escaped = b"\\u" in data
    for index, value in enumerate(values, start=1):
        yield from _checked(value, path, index, report, errors, escaped)


def _checked(
    value: Any, path: Path, line: int, report: RowReport, errors: Errors, escaped: bool
) -> Iterator[Row]:
    if not isinstance(value, dict):
        report.add_bad(str(path), line, "not an object", shorten(value, 40))
        return
    if escaped:
        pattern = _ESCAPED_SURROGATE if errors == "keep-bytes" else _SURROGATE
        mended = _without_surrogates(value, pattern)
        if mended != value:
            if errors == "strict":
                report.add_bad(str(path), line, "lone surrogate", "an escape that is no character")
                return
            report.note("rows with lone surrogates replaced")
            value = mended
    yield Row(value, str(path), line)


def _without_surrogates(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item, pattern) for item in value]
    if isinstance(value, dict):
        return {
            pattern.sub("\ufffd", key): _without_surrogates(item, pattern)
            for key, item in value.items()
        }
    return value


def _parquet_rows(
    path: Path,
    report: RowReport,
    errors: Errors,
    columns: tuple[str, ...] | None,
    on_bytes: Callable[[int], None] | None,
) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    line = 0
    try:
        with _seekable(path) as handle, pyarrow.parquet.ParquetFile(handle) as file:
            _check_columns(path, file.schema_arrow.names, columns)
            size = path.stat().st_size
            total = max(1, file.metadata.num_rows)
            for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=columns):
                for value in _batch_rows(batch, path, line, report, errors):
                    line += 1
                    if value is not None:
                        yield Row(value, str(path), line)
                if on_bytes is not None:
                    on_bytes(size * len(batch) // total)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise unreadable(path, error) from None
        raise DataError(
            f"the Parquet file is truncated or damaged ({shorten(str(error), 100)})",
            value=str(path),
            hint="copy or download it again",
        ) from None
    if line == 0:
        report.add_empty(str(path))


def _seekable(path: Path) -> BinaryIO:
    """Parquet is read from its end, so a compressed one is expanded to a temporary file first."""
    if compression_of(path) is None:
        return open(path, "rb")
    with _writing_temporary_file():
        handle = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    try:
        with open_bytes(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                with _writing_temporary_file():
                    handle.write(block)
        with _writing_temporary_file():
            handle.flush()
    except BaseException:
        # Closing writes what is left, which fails again when the disk is full.
        with contextlib.suppress(OSError):
            handle.close()
        raise
    return handle


@contextlib.contextmanager
def _writing_temporary_file() -> Iterator[None]:
    """A full disk is no fault of the file that is read."""
    try:
        yield
    except OSError as error:
        raise cannot_write(Path(tempfile.gettempdir()), error) from error


def _check_columns(path: Path, present: list[str], columns: tuple[str, ...] | None) -> None:
    for name in columns or ():
        if name not in present:
            raise DataError(
                f"{path} has no column {name!r}",
                allowed=", ".join(present),
                hint=f"data.field={present[0]}" if present else None,
            )


def _batch_rows(
    batch: Any, path: Path, line: int, report: RowReport, errors: Errors
) -> Iterator[dict[str, Any] | None]:
    """Rows of an Arrow batch; None for a row that was reported as bad."""
    import pyarrow

    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        # Read as bytes, so that invalid UTF-8 follows the policy and not Arrow.
        is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
        if is_text:
            column = column.cast(pyarrow.large_binary())
        columns.append((name, column, is_text))
    for index in range(len(batch)):
        value: dict[str, Any] | None = {}
        for name, column, is_text in columns:
            try:
                item = column[index].as_py()
                if is_text and item is not None:
                    item = decode_row(item, errors, report)
            except UnicodeDecodeError as error:
                where = f"at byte {error.start} of column {name!r}"
                report.add_bad(str(path), line + index + 1, "invalid UTF-8", where)
                value = None
                break
            value[name] = item  # type: ignore[index]
        yield value
