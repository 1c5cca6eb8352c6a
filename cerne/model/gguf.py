"""What a GGUF file holds, as one JSON-ready dictionary.

In: a file. Out: architecture, sizes, tensor types with their bits per weight, tokenizer, digest.
Reads the tables of the file, never the weights. Leaves out printing (cli/inspect_gguf.py) and
turning the file into a model.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from cerne.native.gguf import GgufFile
from cerne.runs import sha256_file

MAGIC = b"GGUF"
# Keys behind the architecture's name that say how large the model is.
SIZES = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.sliding_window",
    "rope.freq_base",
    "expert_count",
)
_TOKENIZER_IDS = ("bos", "eos", "eot", "unknown", "padding")


def is_gguf(path: str | Path) -> bool:
    """Whether `path` says that it is a GGUF file, by its name or by its first bytes."""
    file = Path(path)
    if file.suffix == ".gguf":
        return not file.is_dir()
    try:
        with open(file, "rb") as handle:
            return handle.read(len(MAGIC)) == MAGIC
    except OSError:
        # A directory, or nothing that can be read: not for this module to explain.
        return False


def inspect_gguf(path: str | Path, verify: bool = True) -> dict[str, Any]:
    """All facts about one GGUF file; with `verify` also its SHA-256, which reads all of it.

    Raises:
        ModelError: the file is damaged.
    """
    with GgufFile(path) as file:
        architecture = _plain(file, "general.architecture")
        return {
            "file": str(path),
            "version": file.statistic("version"),
            "file_bytes": file.statistic("file_bytes"),
            "alignment": file.statistic("alignment"),
            "sha256": sha256_file(Path(path)) if verify else None,
            "architecture": architecture,
            "name": _plain(file, "general.name"),
            "license": _plain(file, "general.license"),
            "context": _plain(file, f"{architecture}.context_length"),
            "sizes": _sizes(file, str(architecture)),
            "weights": _weights(file),
            "tokenizer": _tokenizer(file),
            "metadata_keys": len(file.entries),
        }


def _sizes(file: GgufFile, architecture: str) -> dict[str, Any]:
    found = {name: _plain(file, f"{architecture}.{name}") for name in SIZES}
    return {name: value for name, value in found.items() if value is not None}


def _weights(file: GgufFile) -> dict[str, Any]:
    types: dict[str, dict[str, Any]] = {}
    for tensor in file.tensors.values():
        group = types.setdefault(tensor.type, {"tensors": 0, "weights": 0, "bytes": 0})
        group["tensors"] += 1
        group["weights"] += tensor.num_values
        group["bytes"] += tensor.num_bytes
    total = {
        key: sum(group[key] for group in types.values()) for key in ("tensors", "weights", "bytes")
    }
    for group in (*types.values(), total):
        group["bits_per_weight"] = _bits_per_weight(group)
    by_bytes = sorted(types.items(), key=lambda item: -item[1]["bytes"])
    return {**total, "types": dict(by_bytes)}


def _bits_per_weight(group: dict[str, Any]) -> float | None:
    # A file of a vocabulary only has no weights.
    return 8 * group["bytes"] / group["weights"] if group["weights"] > 0 else None


def _tokenizer(file: GgufFile) -> dict[str, Any] | None:
    if "tokenizer.ggml.model" not in file:
        return None
    return {
        "kind": _plain(file, "tokenizer.ggml.model"),
        "pre": _plain(file, "tokenizer.ggml.pre"),
        "vocab_size": _count(file, "tokenizer.ggml.tokens"),
        "merges": _count(file, "tokenizer.ggml.merges"),
        "ids": {
            name: _plain(file, f"tokenizer.ggml.{name}_token_id")
            for name in _TOKENIZER_IDS
            if f"tokenizer.ggml.{name}_token_id" in file
        },
        "adds_bos": _plain(file, "tokenizer.ggml.add_bos_token"),
        "adds_eos": _plain(file, "tokenizer.ggml.add_eos_token"),
        "has_chat_template": "tokenizer.chat_template" in file,
    }


def _count(file: GgufFile, key: str) -> int:
    entry = file.entries.get(key)
    return entry.length if entry is not None and entry.is_array else 0


def _plain(file: GgufFile, key: str) -> Any:
    """A metadata value as JSON can hold it, None when it is absent."""
    if key not in file:
        return None
    value = file.value(key)
    if isinstance(value, np.ndarray):
        return [_finite(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return _readable(value) if isinstance(value, str) else _finite(value)


def _finite(value: float) -> float | str:
    # JSON has no infinity and no NaN.
    return value if math.isfinite(value) else str(value)


def _readable(text: str) -> str:
    """Bytes of the file that are not UTF-8 written out."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
