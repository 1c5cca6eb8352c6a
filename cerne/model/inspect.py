"""What a model directory holds, as one JSON-ready dictionary.

In: a folder. Out: configuration, parameters by part, stored dtypes and bytes, FLOPs, key/value
bytes, memory estimates, provenance and digests. Reads headers and digests only, never builds the
model. Leaves out: printing (cli/inspect.py) and the tokenizer.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cerne.model.config import ModelConfig
from cerne.model.hf import read_config, read_provenance, verify_digests
from cerne.model.weights import stored_tensors, weight_files
from cerne.runs import sha256_file

# AdamW in float32: weights, gradients and two moments of 4 bytes each.
TRAINING_BYTES_PER_PARAMETER = 16


def inspect_model(folder: str | Path, verify: bool = True) -> dict[str, Any]:
    """All facts about one model directory.

    Raises `CheckpointError` or `ModelError` like `load_model`, except that tensors are only named
    and measured, not read.
    """
    path = Path(folder)
    config = read_config(path)
    digests = verify_digests(path) if verify else {}
    tensors = stored_tensors(path)
    files = sorted(set(weight_files(path).values()))
    dtypes = Counter(dtype for dtype, _ in tensors.values())
    provenance = read_provenance(path)
    return {
        "folder": str(path),
        "config": config.model_dump(mode="json"),
        "parameters": {"total": config.num_parameters(), **config.parameters_by_part()},
        "stored": {
            "tensors": len(tensors),
            "dtypes": dict(dtypes),
            "tensor_bytes": sum(size for _, size in tensors.values()),
            "files": {file.name: file.stat().st_size for file in files},
            "sha256": {file.name: digests.get(file.name) or sha256_file(file) for file in files},
        },
        "digests_checked": sorted(digests),
        "cost": cost(config, sum(size for _, size in tensors.values())),
        "provenance": provenance,
    }


def cost(config: ModelConfig, weight_bytes: int) -> dict[str, Any]:
    """FLOPs per token, key/value bytes and memory; activations and libraries are not counted."""
    context = config.max_position_embeddings
    cache_bytes = config.kv_bytes_per_token(4) * context
    parameters = config.num_parameters()
    return {
        "training_flops_per_token": {
            str(tokens): config.flops_per_token(tokens) for tokens in (128, context)
        },
        "forward_flops_per_token": config.flops_per_token(context) / 3,
        "kv_bytes_per_token": {
            "float32": config.kv_bytes_per_token(4),
            "bfloat16": config.kv_bytes_per_token(2),
        },
        "kv_bytes_full_context_float32": cache_bytes,
        "inference_bytes": {
            "as_stored": weight_bytes + cache_bytes,
            "float32": 4 * parameters + cache_bytes,
        },
        "training_bytes_adamw_float32": TRAINING_BYTES_PER_PARAMETER * parameters,
    }
