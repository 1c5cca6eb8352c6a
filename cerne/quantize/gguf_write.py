"""Writing one GGUF v3 file: a temporary name, tensors one after the other, sync, rename.

In: a `Source` and the type of each tensor. Out: the file, whole or not at all. The container is the
gguf package's; the bytes of the tensors are the core's. Leaves out the choice of types
(mixture.py).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cerne.errors import InputError, ModelError
from cerne.native.quantize import quantize_rows, row_bytes
from cerne.quantize.source import Field, Source, TensorInfo
from cerne.runs import cannot_write, fsync_directory, fsync_file

if TYPE_CHECKING:
    from gguf import GGUFWriter

# `general.file_type`: what most of the weights are, by llama.cpp's numbers.
FILE_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18,
    "iq4_nl": 25, "bf16": 32,
}  # fmt: skip
QUANTIZATION_VERSION = 2


def check_target(path: Path, force: bool) -> None:
    """Refuse to write over a file, before any work.

    Raises:
        InputError: the file is there, or the name is a folder's.
    """
    if path.is_dir():
        raise InputError("the output is a folder", value=str(path), allowed="a name such as M.gguf")
    if path.exists() and not force:
        raise InputError(
            "the output file is there already", value=str(path), hint="another name, or --force"
        )


def write_gguf(
    path: Path,
    source: Source,
    types: Mapping[str, str],
    file_type: str,
    *,
    importance: Mapping[str, npt.NDArray[np.float32]] | None = None,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda num_values: None,
) -> None:
    """Write `source` with tensor `name` as `types[name]`.

    Args:
        file_type: a key of FILE_TYPES, for the metadata.
        importance: by tensor name, one number a column.
        advance: told of values as they are done.

    Raises:
        EnvironmentLack: the disk is full or the folder is not writable; nothing is left behind.
        ModelError: a value that the type cannot hold, with the tensor's name.
    """
    with _temporary(path) as temporary:
        writer = _writer(temporary, source, types, file_type)
        try:
            for tensor in source.tensors:
                writer.write_tensor_data(
                    _encoded(source, tensor, types[tensor.name], importance, threads, advance)
                )
            writer.flush()
        finally:
            writer.close()


def _encoded(
    source: Source,
    tensor: TensorInfo,
    kind: str,
    importance: Mapping[str, npt.NDArray[np.float32]] | None,
    threads: int | None,
    advance: Callable[[int], None],
) -> npt.NDArray[np.uint8]:
    values_NK = source.values(tensor.name).reshape(-1, tensor.shape[-1])
    weights = importance.get(tensor.name) if importance is not None else None
    told = 0

    def progress(rows: int, total: int) -> None:
        nonlocal told
        advance((rows - told) * values_NK.shape[1])
        told = rows

    try:
        return quantize_rows(values_NK, kind, weights, threads, progress)
    except ModelError as error:
        raise ModelError(f"tensor {tensor.name}: {error.what}") from error


def _writer(path: Path, source: Source, types: Mapping[str, str], file_type: str) -> GGUFWriter:
    """The container, with everything but the tensors' data written."""
    from gguf import GGMLQuantizationType, GGUFWriter

    writer = GGUFWriter(path, source.architecture)
    for field in source.fields:
        if field.key == "general.alignment":
            writer.add_custom_alignment(field.value)
        elif not (field.is_list and len(field.value) == 0):
            _add(writer, field)
    writer.add_file_type(FILE_TYPES[file_type])
    writer.add_quantization_version(QUANTIZATION_VERSION)
    for tensor in source.tensors:
        kind = types[tensor.name]
        row = row_bytes(kind, tensor.shape[-1])
        shape = (*tensor.shape[:-1], row)
        size = int(np.prod(shape, dtype=np.int64))
        writer.add_tensor_info(
            tensor.name, shape, np.dtype(np.uint8), size, GGMLQuantizationType[kind]
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer


def _add(writer: GGUFWriter, field: Field) -> None:
    from gguf import GGUFValueType

    kind = GGUFValueType[field.kind.upper()]
    value: Any = field.value
    if field.kind == "string":
        # Bytes of a file that are not UTF-8 go through as they are.
        encode = _bytes_of
        value = [encode(text) for text in value] if field.is_list else encode(value)
    if field.is_list:
        writer.add_key_value(field.key, value, GGUFValueType.ARRAY, kind)
    else:
        writer.add_key_value(field.key, value, kind)


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A name in the same folder that becomes `path` at the end, or goes."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(descriptor)
        temporary = Path(name)
        # mkstemp makes files that only their owner may read.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        yield temporary
        fsync_file(temporary)
        os.replace(temporary, path)
        fsync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
