"""From a model to a GGUF file: open, choose types, calibrate, write, and say what came of it.

The two verbs `cerne convert` and `cerne quantize` are thin around `convert` and `quantize`. Leaves
out printing tables (cli).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cerne.engine.locate import find_model
from cerne.errors import InputError, ModelError, nearest
from cerne.model.gguf import is_gguf
from cerne.native.quantize import row_bytes
from cerne.progress import Progress, say
from cerne.quantize.calibrate import Importance, importance_of
from cerne.quantize.gguf_export import DirectorySource
from cerne.quantize.gguf_write import check_target, write_gguf
from cerne.quantize.mixture import TARGETS, Choice, choose_types, float_types
from cerne.quantize.source import FLOAT_TYPES, GgufSource, Source, numbers_of

FLOATS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def convert(
    model: str | Path, out: Path, target: str, *, force: bool = False, threads: int | None = None
) -> dict[str, Any]:
    """Write a model's weights as F32, F16 or BF16 in one GGUF file.

    Args:
        model: a model directory, a run, a GGUF file or the name of an installed model package.
        target: "f32", "f16" or "bf16". Norms and biases are F32 always.
        force: write over an existing file.

    Returns:
        What was written; see `_report`.

    Raises:
        InputError, ModelError, CheckpointError, EnvironmentLack: see the parts.
    """
    _check_name(target, FLOATS)
    check_target(out, force)
    source = open_source(model)
    try:
        choices = float_types(source.tensors, FLOATS[target])
        return _write(source, out, choices, target, None, threads)
    finally:
        source.close()


def quantize(
    model: str | Path,
    out: Path,
    target: str,
    *,
    calibrate: Path | None = None,
    calibrate_tokens: int = 32_768,
    force: bool = False,
    threads: int | None = None,
) -> dict[str, Any]:
    """Write a model with smaller weights in one GGUF file.

    Args:
        model: as of `convert`. A GGUF file of quantized weights is warned about.
        target: a key of `TARGETS`.
        calibrate: a text; how strongly each column of a matrix is used on it weighs its errors.
        calibrate_tokens: tokens of it that are read.
        force: write over an existing file.

    Returns:
        What was written; see `_report`.

    Raises:
        InputError, ModelError, CheckpointError, EnvironmentLack: see the parts.
    """
    _check_name(target, TARGETS)
    check_target(out, force)
    source = open_source(model)
    try:
        _warn_of_quantized(source)
        importance = None
        if calibrate is not None:
            importance = importance_of(_find(model), calibrate, calibrate_tokens, threads)
        choices = choose_types(
            source.tensors, target, numbers_of(source), calibrated=importance is not None
        )
        return _write(source, out, choices, target, importance, threads)
    finally:
        source.close()


def open_source(model: str | Path) -> Source:
    """A model as a source of GGUF metadata and tensors.

    Raises:
        ModelError, CheckpointError: nothing there, damaged, or nothing GGUF files can say.
    """
    found = _find(model)
    return GgufSource(found) if found.is_file() else DirectorySource(found)


def _find(model: str | Path) -> Path:
    """The GGUF file or the model directory that a name stands for."""
    path = Path(model)
    return path if path.is_file() and is_gguf(path) else find_model(model)


def _check_name(target: str, known: dict[str, str]) -> None:
    if target not in known:
        raise InputError(
            "unknown target", value=target, allowed=", ".join(known), hint=nearest(target, known)
        )


def _warn_of_quantized(source: Source) -> None:
    kinds = Counter(tensor.kind for tensor in source.tensors if tensor.kind not in FLOAT_TYPES)
    if kinds:
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        say(
            f"warning: {sum(kinds.values())} tensors were quantized before ({listed}); what that "
            "lost stays lost. Start from the original weights where you can"
        )


def _write(
    source: Source,
    out: Path,
    choices: Sequence[Choice],
    target: str,
    importance: Importance | None,
    threads: int | None,
) -> dict[str, Any]:
    for note in source.notes:
        say(f"warning: {note}")
    for (wanted, kind, width), count in _fallbacks(source, choices).items():
        say(
            f"warning: {count} tensors have rows of {width} values, which {wanted} cannot hold: "
            f"{kind} instead"
        )
    if not any(len(tensor.shape) >= 2 for tensor in source.tensors):
        raise ModelError("the file has no matrices to write", value=len(source.tensors))
    total = sum(_size(tensor.shape) for tensor in source.tensors)
    with Progress(f"writing {target}", total=total, unit="weights") as bar:
        types = {choice.name: choice.kind for choice in choices}
        write_gguf(
            out,
            source,
            types,
            target,
            importance=importance,
            threads=threads,
            advance=bar.advance,
        )
    return _report(source, out, choices, target, importance)


def _fallbacks(source: Source, choices: Sequence[Choice]) -> dict[tuple[str, str, int], int]:
    return dict(
        Counter(
            (choice.wanted, choice.kind, tensor.shape[-1])
            for tensor, choice in zip(source.tensors, choices, strict=True)
            if choice.is_fallback
        )
    )


def _report(
    source: Source,
    out: Path,
    choices: Sequence[Choice],
    target: str,
    importance: Importance | None,
) -> dict[str, Any]:
    """What was written, JSON-ready: sizes, bits per weight, types and fallbacks."""
    types: dict[str, dict[str, int]] = {}
    for tensor, choice in zip(source.tensors, choices, strict=True):
        width = tensor.shape[-1]
        group = types.setdefault(choice.kind, {"tensors": 0, "weights": 0, "bytes": 0})
        group["tensors"] += 1
        group["weights"] += _size(tensor.shape)
        group["bytes"] += _size(tensor.shape) // width * row_bytes(choice.kind, width)
    weights = sum(group["weights"] for group in types.values())
    size = sum(group["bytes"] for group in types.values())
    return {
        "file": str(out),
        "target": target,
        "architecture": source.architecture,
        "file_bytes": out.stat().st_size,
        "weights": weights,
        "bits_per_weight": 8 * size / weights,
        "types": dict(sorted(types.items(), key=lambda item: -item[1]["bytes"])),
        "fallbacks": [
            {"wanted": wanted, "instead": kind, "row_width": width, "tensors": count}
            for (wanted, kind, width), count in _fallbacks(source, choices).items()
        ],
        "calibrated_tensors": 0 if importance is None else len(importance),
        "notes": list(source.notes),
    }


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size
