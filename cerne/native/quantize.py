"""The block encoders of the core as one function: float rows in, the bytes of a GGUF tensor out.

Leaves out files, the choice of types (cerne/quantize) and decoding (gguf.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import InputError, ModelError, nearest
from cerne.native.library import STOPPED, check, library

# Values and bytes of a block, for the types that have an encoder.
BLOCKS: dict[str, tuple[int, int]] = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q8_0": (32, 34),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "IQ4_NL": (32, 18),
}

Progress = Callable[[int, int], None]


def row_bytes(kind: str, width: int) -> int:
    """Bytes of an encoded row of `width` values.

    Raises:
        InputError: there is no such type, or the width is no whole number of its blocks.
    """
    if kind not in BLOCKS:
        raise InputError(
            "there is no encoder of this type",
            value=kind,
            allowed=", ".join(BLOCKS),
            hint=nearest(kind, BLOCKS),
        )
    values, size = BLOCKS[kind]
    if width % values or width < 1:
        raise InputError(
            f"a row of this width cannot be {kind}", value=width, allowed=f"a multiple of {values}"
        )
    return width // values * size


def quantize_rows(
    values_NK: npt.NDArray[np.float32],
    kind: str,
    importance_K: npt.NDArray[np.float32] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> npt.NDArray[np.uint8]:
    """Encode rows, uint8 [N, row_bytes(kind, K)]. The bytes do not depend on threads or machine.

    Args:
        values_NK: float32, finite; all but F32 and BF16 hold magnitudes up to 65504.
        importance_K: weight of each column's squared error, >= 0; None: all alike.
        threads: None: one per core.
        progress: called now and then with rows done and wanted; what it raises is raised here.

    Raises:
        InputError: an unknown type or a width that it cannot hold.
        ModelError: a value that is not finite or too large, named by row and column.
    """
    values = np.ascontiguousarray(values_NK, dtype=np.float32)
    num_rows, width = values.shape
    blocks = np.empty((num_rows, row_bytes(kind, width)), dtype=np.uint8)
    weights = importance_K
    if weights is not None:
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        if weights.shape != (width,):
            raise InputError(
                "the importance has another length than the rows",
                value=weights.shape,
                allowed=f"({width},)",
            )
    if threads is not None and not 1 <= threads <= 1024:
        raise InputError(
            "the number of threads is out of range", value=threads, allowed="1 to 1024"
        )
    ffi, lib, _ = library()
    failure: list[BaseException] = []

    def call(user: Any, done: int, total: int) -> int:
        try:
            if progress is not None:
                progress(done, total)
        except BaseException as error:
            failure.append(error)
        return len(failure)

    # Also without a progress function: Python sees Ctrl-C only while it runs.
    callback = ffi.callback("int32_t(void*, uint64_t, uint64_t)", call)
    name = kind.encode("ascii")
    status = lib.cerne_quantize_rows(
        name,
        len(name),
        ffi.cast("float*", values.ctypes.data),
        num_rows,
        width,
        ffi.NULL if weights is None else ffi.cast("float*", weights.ctypes.data),
        0 if threads is None else threads,
        callback,
        ffi.NULL,
        ffi.cast("uint8_t*", blocks.ctypes.data),
        blocks.size,
        ffi.new("size_t*"),
    )
    if failure:
        raise failure[0]
    if status != STOPPED:
        check(status, ModelError)
    return blocks
