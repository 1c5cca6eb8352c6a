"""From weights to the native engine: a model directory or a network in memory.

In: a folder, or a configuration with tensors under Hugging Face's names. Out: a `NativeModel` whose
    weights keep the precision they are stored in. GGUF files are opened by the core itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cerne.errors import CheckpointError
from cerne.model.config import ModelConfig
from cerne.model.gguf_names import (
    NotNativeError,
    gguf_architecture,
    gguf_metadata,
    gguf_tensor_name,
)
from cerne.model.hf import read_config, verify_digests
from cerne.model.transformer import Transformer
from cerne.model.weights import iterate_tensors
from cerne.native.model import NativeModel, Progress

__all__ = ["NotNativeError", "native_from_folder", "native_from_network", "native_from_tensors"]

_TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def native_from_folder(
    folder: str | Path, threads: int, progress: Progress | None = None
) -> NativeModel:
    """Load a model directory; its digests are checked where it records them.

    Raises:
        CheckpointError: missing, cut or altered files. ModelError: unsupported architecture,
            scaling or pattern of windows, or tensors that do not fit config.json.
    """
    path = Path(folder)
    verify_digests(path)
    config = read_config(path)
    return native_from_tensors(config, iterate_tensors(path), threads, progress)


def native_from_network(model: Transformer, threads: int) -> NativeModel:
    """The same network for the native engine; later changes of the weights are not seen."""
    return native_from_tensors(model.config, model.named_parameters(), threads)


def native_from_tensors(
    config: ModelConfig,
    tensors: Iterable[tuple[str, Tensor]],
    threads: int,
    progress: Progress | None = None,
) -> NativeModel:
    """Build a model from named tensors of any floating-point type.

    Raises:
        CheckpointError, ModelError: as of `native_from_folder`.
    """
    numbers, texts = gguf_metadata(config)
    architecture = gguf_architecture(config)
    stored = _stored(tensors, config.tie_word_embeddings)
    return NativeModel.from_tensors(architecture, numbers, texts, stored, threads, progress)


def _stored(
    tensors: Iterable[tuple[str, Tensor]], tied: bool
) -> Iterator[tuple[str, str, tuple[int, ...], np.ndarray]]:
    head: Tensor | None = None
    embedding: Tensor | None = None
    for name, tensor in tensors:
        if not tensor.dtype.is_floating_point:
            raise CheckpointError(f"{name} is not a floating-point tensor", value=str(tensor.dtype))
        if name == "model.embed_tokens.weight":
            embedding = tensor
        if tied and name == "lm_head.weight":
            head = tensor
            continue
        plain = tensor.detach().cpu()
        if plain.dtype not in _TYPES:
            plain = plain.float()
        flat = plain.contiguous().reshape(-1).view(torch.uint8).numpy()
        yield gguf_tensor_name(name), _TYPES[plain.dtype], tuple(tensor.shape), flat
    if head is not None and (embedding is None or not torch.equal(head, embedding)):
        raise CheckpointError(
            "tie_word_embeddings is true but lm_head.weight differs from the embedding",
            value=f"lm_head.weight {list(head.shape)}",
            allowed="equal tensors, or tie_word_embeddings=false in config.json",
        )
