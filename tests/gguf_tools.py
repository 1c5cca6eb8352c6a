"""Bytes of small GGUF files, right and wrong ones, written without any library."""

from __future__ import annotations

import struct
from collections.abc import Sequence

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B"}
FORMATS |= {U64: "Q", I64: "q", F64: "d"}


def string(text: str | bytes) -> bytes:
    """A length and the bytes."""
    raw = text.encode("utf-8") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str | bytes, kind: int, value: object) -> bytes:
    """A metadata entry; a string or a number of the type `kind`."""
    body = string(value) if isinstance(value, (str, bytes)) else number(kind, value)
    return string(key) + struct.pack("<I", kind) + body


def array(key: str, element: int, values: Sequence[object], count: int | None = None) -> bytes:
    """A metadata entry that is an array; `count` may lie."""
    head = struct.pack("<IIQ", ARRAY, element, len(values) if count is None else count)
    items = (string(v) if isinstance(v, (str, bytes)) else number(element, v) for v in values)
    return string(key) + head + b"".join(items)


def number(kind: int, value: object) -> bytes:
    """One number or truth value."""
    return struct.pack("<" + FORMATS[kind], value)


def tensor(name: str | bytes, dims: Sequence[int], kind: int, offset: int) -> bytes:
    """An entry of the tensor table; dims[0] is the row width."""
    shape = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return string(name) + shape + struct.pack("<IQ", kind, offset)


def gguf_bytes(
    metadata: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    alignment: int = 32,
    head: bytes = b"GGUF" + struct.pack("<I", 3),
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A whole file. `counts` (tensors, metadata entries) may lie."""
    num_tensors, num_metadata = (len(tensors), len(metadata)) if counts is None else counts
    table = head + struct.pack("<QQ", num_tensors, num_metadata)
    table += b"".join(metadata) + b"".join(tensors)
    return table + bytes(-len(table) % alignment) + data
