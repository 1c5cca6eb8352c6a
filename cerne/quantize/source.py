"""Where the weights of a conversion come from: GGUF metadata, and tensors read one by one.

In: a GGUF file. Out: a `Source`, whose tensors are float32 and fetched by name, so that memory
holds one at a time. Leaves out model directories (gguf_export.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cerne.errors import ModelError
from cerne.native.gguf import GgufFile

# Types that hold weights as they were trained; anything else was quantized before.
FLOAT_TYPES = ("F32", "F16", "BF16")
# What the writer sets itself, and how a file was cut into several, which ends here.
_NOT_COPIED = ("general.architecture", "general.file_type", "general.quantization_version")
_SPLIT = "split."


class Field(NamedTuple):
    """One metadata entry: `kind` names the type of the value or of the list's elements."""

    key: str
    value: Any
    kind: str
    is_list: bool = False


class TensorInfo(NamedTuple):
    """One tensor by its GGUF name: shape with the row width last, and the type it is stored in."""

    name: str
    shape: tuple[int, ...]
    kind: str


class Source(Protocol):
    """A model to be written as GGUF.

    Attributes:
        architecture: "llama", "qwen2", ...
        fields: the other metadata in order, but for those that depend on the types.
        tensors: in the order in which they are written.
        notes: sentences about what the file cannot say; printed as warnings.
    """

    architecture: str
    fields: Sequence[Field]
    tensors: Sequence[TensorInfo]
    notes: Sequence[str]

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor in its shape."""

    def close(self) -> None:
        """Release files."""


class GgufSource:
    """A GGUF file as a source; all its metadata are copied.

    Raises:
        ModelError: the file is damaged or names no architecture.
    """

    def __init__(self, path: Path) -> None:
        self._file = GgufFile(path)
        architecture = (
            self._file.value("general.architecture")
            if "general.architecture" in self._file
            else None
        )
        if not isinstance(architecture, str):
            self._file.close()
            raise ModelError("the GGUF file names no architecture", value=str(path))
        self.architecture = architecture
        self.fields: Sequence[Field] = [
            Field(key, self._plain(key), entry.type, entry.is_array)
            for key, entry in self._file.entries.items()
            if key not in _NOT_COPIED and not key.startswith(_SPLIT)
        ]
        self.tensors: Sequence[TensorInfo] = [
            TensorInfo(tensor.name, tensor.shape, tensor.type)
            for tensor in self._file.tensors.values()
        ]
        self.notes: Sequence[str] = [
            f"metadata {field.key} is an empty list and is left out"
            for field in self.fields
            if field.is_list and len(field.value) == 0
        ]

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor, decoded."""
        return self._file.dequantize(name)

    def close(self) -> None:
        """Unmap the file."""
        self._file.close()

    def _plain(self, key: str) -> Any:
        value = self._file.value(key)
        return value.tolist() if isinstance(value, np.ndarray) else value


def numbers_of(source: Source) -> Mapping[str, Any]:
    """The single numbers of the metadata, without the architecture in front of their keys."""
    start = source.architecture + "."
    return {
        field.key.removeprefix(start): field.value
        for field in source.fields
        if field.key.startswith(start) and not field.is_list and field.kind != "string"
    }
