"""GGUF model files as Python objects: metadata, the table of tensors, decoded values.

The core maps the file and checks it; this module only turns its answers into Python values. Leaves
out what the metadata mean (cerne/model/gguf.py) and writing.
"""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerne.errors import ModelError, nearest
from cerne.native.handle import NativeHandle
from cerne.native.library import check

# Names and numpy types of the value types, by number; cerne.h lists the numbers.
_TYPES = {
    0: ("uint8", "u1"),
    1: ("int8", "i1"),
    2: ("uint16", "u2"),
    3: ("int16", "i2"),
    4: ("uint32", "u4"),
    5: ("int32", "i4"),
    6: ("float32", "f4"),
    7: ("bool", "?"),
    8: ("string", ""),
    9: ("array", ""),
    10: ("uint64", "u8"),
    11: ("int64", "i8"),
    12: ("float64", "f8"),
}
_STRING, _ARRAY = 8, 9

Value = int | float | bool | str | npt.NDArray[Any] | list[str]


class GgufEntry(NamedTuple):
    """What kind of value a metadata key has: `type` names the value's or the elements' type."""

    type: str
    is_array: bool
    length: int


class GgufTensor(NamedTuple):
    """One tensor: its type as stored ("Q4_K"), its shape with the row width last, its bytes."""

    name: str
    type: str
    shape: tuple[int, ...]
    num_bytes: int

    @property
    def num_values(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)


class GgufFile(NativeHandle):
    """An open GGUF file. Reading is thread-safe, except for `close`.

    `entries` maps each metadata key to the kind of its value, `tensors` each name to its tensor.

    Args:
        path: the file. It must not change while it is open.

    Raises:
        ModelError: the file cannot be opened or is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        name = os.fsencode(path)
        try:
            super().__init__("gguf", name, len(name), make="open", error=ModelError)
        except ModelError as error:
            raise ModelError(f"{path}: {error.what}") from error
        try:
            entries = [self._read_entry(i) for i in range(self.statistic("metadata"))]
            tensors = [self._read_tensor(i) for i in range(self.statistic("tensors"))]
        except BaseException:
            self.close()
            raise
        # Both in the order of the file, which is how the core counts them.
        self.entries = dict(entries)
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self._index = {key: i for i, key in enumerate(self.entries)}
        self._tensor_index = {name: i for i, name in enumerate(self.tensors)}

    def statistic(self, name: str) -> int:
        """A number about the file: version, alignment, file_bytes, data_offset, metadata or
        tensors (how many)."""
        value, key = self._ffi.new("uint64_t*"), name.encode()
        check(self._lib.cerne_gguf_statistic(self._open(), key, len(key), value), ModelError)
        return int(value[0])

    def __contains__(self, key: str) -> bool:
        return key in self._index

    def value(self, key: str) -> Value:
        """The value of a metadata key: int, float, bool, str; list of str or a numpy array.

        Bytes that are not UTF-8 become lone surrogates, as in file names, so nothing is lost.

        Raises:
            ModelError: there is no such key.
        """
        index = self._index.get(key)
        if index is None:
            raise ModelError(
                "the GGUF file has no such metadata key",
                value=key,
                hint=nearest(key, self._index),
            )
        entry = self.entries[key]
        if entry.type == "string":
            texts = self._strings(index, entry.length)
            return texts if entry.is_array else texts[0]
        numbers = self._numbers(index, entry)
        if entry.is_array:
            return numbers
        single: int | float | bool = numbers[0].item()
        return single

    def dequantize(
        self, name: str, first_row: int = 0, num_rows: int | None = None
    ) -> npt.NDArray[np.float32]:
        """The values of a tensor, float32: all of it in its shape, or with `num_rows` that many
        rows from `first_row` on, [num_rows, width].

        Raises:
            ModelError: there is no such tensor, its type has no decoder, or the rows are outside.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ModelError(
                "the GGUF file has no such tensor", value=name, hint=nearest(name, self.tensors)
            )
        width = tensor.shape[-1]
        total = tensor.num_values // width
        whole = first_row == 0 and num_rows is None
        rows = total - first_row if num_rows is None else num_rows
        if first_row < 0 or rows < 0 or first_row + rows > total:
            raise ModelError(
                f"rows of tensor {name!r} that are not there",
                value=(first_row, rows),
                allowed=f"first row and number of rows inside its {total}",
            )
        values = np.empty((rows, width), dtype=np.float32)
        status = self._lib.cerne_gguf_dequantize(
            self._open(),
            self._tensor_index[name],
            first_row,
            rows,
            self._ffi.cast("float*", values.ctypes.data),
            values.size,
            self._ffi.new("size_t*"),
        )
        check(status, ModelError)
        return values.reshape(tensor.shape) if whole else values

    def _read_entry(self, index: int) -> tuple[str, GgufEntry]:
        ffi = self._ffi
        key, length = ffi.new("const char**"), ffi.new("size_t*")
        kind, element, count = ffi.new("uint32_t*"), ffi.new("uint32_t*"), ffi.new("uint64_t*")
        status = self._lib.cerne_gguf_metadata(
            self._open(), index, key, length, kind, element, count
        )
        check(status, ModelError)
        type_name = _TYPES[element[0]][0]
        entry = GgufEntry(type_name, kind[0] == _ARRAY, int(count[0]))
        return _text(bytes(ffi.buffer(key[0], length[0]))), entry

    def _read_tensor(self, index: int) -> GgufTensor:
        ffi = self._ffi
        name, length, kind = ffi.new("const char**"), ffi.new("size_t*"), ffi.new("const char**")
        num_dims, dims = ffi.new("uint32_t*"), ffi.new("uint64_t[4]")
        num_bytes = ffi.new("uint64_t*")
        status = self._lib.cerne_gguf_tensor(
            self._open(), index, name, length, kind, num_dims, dims, num_bytes
        )
        check(status, ModelError)
        return GgufTensor(
            _text(bytes(ffi.buffer(name[0], length[0]))),
            ffi.string(kind[0]).decode("ascii"),
            tuple(int(dims[i]) for i in reversed(range(num_dims[0]))),
            int(num_bytes[0]),
        )

    def _numbers(self, index: int, entry: GgufEntry) -> npt.NDArray[Any]:
        dtype = next(dtype for name, dtype in _TYPES.values() if name == entry.type)
        numbers = np.empty(entry.length, dtype=np.dtype(dtype))
        status = self._lib.cerne_gguf_values(
            self._open(),
            index,
            self._ffi.cast("uint8_t*", numbers.ctypes.data),
            numbers.nbytes,
            self._ffi.new("size_t*"),
        )
        check(status, ModelError)
        return numbers

    def _strings(self, index: int, count: int) -> list[str]:
        ffi, size = self._ffi, self._ffi.new("size_t*")
        offsets = np.empty(count + 1, dtype=np.uint64)
        at = ffi.cast("uint64_t*", offsets.ctypes.data)
        # Asks for the size; refused as too small unless there is no text at all.
        self._lib.cerne_gguf_strings(self._open(), index, ffi.NULL, 0, size, at)
        text = bytearray(size[0])
        status = self._lib.cerne_gguf_strings(
            self._open(), index, ffi.from_buffer("uint8_t[]", text), len(text), size, at
        )
        check(status, ModelError)
        blob = bytes(text)
        bounds = itertools.pairwise(offsets.tolist())
        return [blob[a:b].decode("utf-8", "surrogateescape") for a, b in bounds]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
