"""Reconstruction error of the block encoders on a model's real weights, beside llama.cpp's.

In: a model, formats, and where llama.cpp lies (its libggml-base, from llama-cpp-python; optional).
Out: for each format the root mean square error of the decoded weights relative to the weights', and
the speed on one thread. A matrix whose rows the format cannot hold is cut into rows of 256 values.
Weights of a file that was quantized lie on that format's grid, so a second round mixes each 32 rows
with an orthonormal matrix, which takes them off the grid and leaves their size as it is.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.bench.report import with_circumstances
from cerne.errors import EnvironmentLack, InputError
from cerne.native.quantize import BLOCKS, quantize_rows
from cerne.progress import Progress
from cerne.quantize.mixture import is_matrix
from cerne.quantize.run import open_source
from cerne.quantize.source import Source, TensorInfo

FORMATS = ("Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL")
_ROUNDS = ("as stored", "rows mixed")
_FIND = (
    "import importlib.util as u;"
    "s = u.find_spec('llama_cpp'); print(s.submodule_search_locations[0] if s else '')"
)

Encoder = Callable[[npt.NDArray[np.float32], str], npt.NDArray[np.uint8]]


def run(model: str, formats: Sequence[str], every: int, peer_python: str | None) -> dict[str, Any]:
    """Measure and print; the result is JSON-ready.

    Args:
        every: only each n-th layer's matrices, and each n-th row of the embedding.
        peer_python: the interpreter that has llama-cpp-python; None: this one, if it has it.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or every < 1:
        raise InputError(
            "unknown format" if unknown else "--every is too small",
            value=unknown[0] if unknown else every,
            allowed=", ".join(FORMATS) if unknown else "1 or more",
        )
    encoders: dict[str, Encoder] = {"cerne": _ours}
    peer = _peer(peer_python)
    if peer is not None:
        encoders["llama.cpp"] = peer
    source = open_source(model)
    try:
        wanted = [t for t in source.tensors if is_matrix(t) and _is_chosen(t, every)]
        found: dict[str, Any] = {name: {kind: {} for kind in formats} for name in _ROUNDS}
        total = len(wanted) * len(formats) * len(_ROUNDS)
        with Progress("encoding", total=total, unit="matrices") as bar:
            for tensor in wanted:
                for name, values in _variants(source, tensor, every):
                    for kind in formats:
                        _measure(found[name][kind], values, kind, encoders)
                        bar.advance()
    finally:
        source.close()
    results = with_circumstances(
        {
            "model": model,
            "every": every,
            "matrices": len(wanted),
            "rounds": {
                name: {kind: _summary(sums) for kind, sums in by_kind.items()}
                for name, by_kind in found.items()
            },
        }
    )
    _print(results)
    return results


def _is_chosen(tensor: TensorInfo, every: int) -> bool:
    parts = tensor.name.split(".")
    return parts[0] != "blk" or int(parts[1]) % every == 0


def _variants(
    source: Source, tensor: TensorInfo, every: int
) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    values = source.values(tensor.name)
    if not tensor.name.startswith("blk."):
        values = values[: len(values) // every]
    values = values[: len(values) // 32 * 32]
    yield _ROUNDS[0], values
    mixed = _orthonormal(32) @ values.reshape(-1, 32, values.shape[1])
    yield _ROUNDS[1], mixed.reshape(values.shape).astype(np.float32)


def _orthonormal(size: int) -> npt.NDArray[np.float32]:
    """Hadamard's matrix of a power of two, its columns with fixed signs."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = np.where(np.random.default_rng(0).random(size) < 0.5, -1.0, 1.0)
    scaled: npt.NDArray[np.float32] = (matrix * signs / np.sqrt(size)).astype(np.float32)
    return scaled


def _measure(
    sums: dict[str, Any], values: npt.NDArray[np.float32], kind: str, encoders: dict[str, Encoder]
) -> None:
    from gguf import GGMLQuantizationType, quants

    block = BLOCKS[kind][0]
    rows = values
    if values.shape[1] % block:
        rows = values.reshape(-1)[: values.size // 256 * 256].reshape(-1, 256)
    sums["weights"] = sums.get("weights", 0) + rows.size
    sums["squares"] = sums.get("squares", 0.0) + float(np.sum(rows.astype(np.float64) ** 2))
    errors = {}
    for name, encode in encoders.items():
        start_s = time.perf_counter()
        blocks = encode(rows, kind)
        taken_s = time.perf_counter() - start_s
        off = quants.dequantize(blocks, GGMLQuantizationType[kind]) - rows
        errors[name] = float(np.sum(off.astype(np.float64) ** 2))
        own = sums.setdefault(name, {"error": 0.0, "time_s": 0.0})
        own["error"] += errors[name]
        own["time_s"] += taken_s
    if "llama.cpp" in errors:
        lost = errors["cerne"] > errors["llama.cpp"]
        sums["matrices_worse"] = sums.get("matrices_worse", 0) + int(lost)


def _summary(sums: dict[str, Any]) -> dict[str, Any]:
    summary: dict[str, Any] = {"weights": sums["weights"]}
    for name in ("cerne", "llama.cpp"):
        if name in sums:
            summary[name] = {
                "relative_rmse": float(np.sqrt(sums[name]["error"] / sums["squares"])),
                "rate_weights_s": round(sums["weights"] / sums[name]["time_s"]),
            }
    if "llama.cpp" in summary:
        theirs = summary["llama.cpp"]["relative_rmse"]
        ours = summary["cerne"]["relative_rmse"]
        summary["ratio"] = ours / theirs if theirs > 0 else None
        summary["matrices_worse"] = sums["matrices_worse"]
    return summary


def _print(results: dict[str, Any]) -> None:
    for name, by_kind in results["rounds"].items():
        print(f"\nroot mean square error relative to the weights, {name}")
        print(f"{'format':<8} {'cerne':>10} {'llama.cpp':>10} {'ratio':>7} {'Mweights/s':>11}")
        for kind, found in by_kind.items():
            peer = found.get("llama.cpp")
            theirs = "-" if peer is None else f"{peer['relative_rmse']:.6f}"
            ratio = "-" if found.get("ratio") is None else f"{found['ratio']:.4f}"
            ours = found["cerne"]
            rate = ours["rate_weights_s"] / 1e6
            print(f"{kind:<8} {ours['relative_rmse']:>10.6f} {theirs:>10} {ratio:>7} {rate:>11.1f}")


def _ours(rows: npt.NDArray[np.float32], kind: str) -> npt.NDArray[np.uint8]:
    return quantize_rows(rows, kind, threads=1)


def _peer(python: str | None) -> Encoder | None:
    """llama.cpp's own encoders, or None when it is not installed and was not asked for.

    Raises:
        EnvironmentLack: the interpreter that was named does not have it.
    """
    done = subprocess.run(
        [python if python is not None else sys.executable, "-c", _FIND],
        capture_output=True,
        text=True,
        check=False,
    )
    folder = Path(done.stdout.strip() or "nowhere") / "lib"
    library = next(iter(sorted(folder.glob("libggml-base.*"))), None)
    if library is None:
        if python is not None:
            raise EnvironmentLack(
                "llama-cpp-python is not installed there",
                value=python,
                hint=f"{python} -m pip install llama-cpp-python",
            )
        print("llama.cpp is left out: pip install llama-cpp-python, or --peer-python PATH")
        return None
    encode = ctypes.CDLL(str(library)).ggml_quantize_chunk
    encode.restype = ctypes.c_size_t
    encode.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3]
    encode.argtypes = [*encode.argtypes, ctypes.c_void_p]

    def theirs(rows: npt.NDArray[np.float32], kind: str) -> npt.NDArray[np.uint8]:
        from gguf import GGMLQuantizationType

        plain = np.ascontiguousarray(rows)
        values, size = BLOCKS[kind]
        blocks = np.empty((len(plain), plain.shape[1] // values * size), dtype=np.uint8)
        number = int(GGMLQuantizationType[kind])
        encode(number, plain.ctypes.data, blocks.ctypes.data, 0, *plain.shape, None)
        return blocks

    return theirs
