"""Small model directories with a tokenizer, and what several tests ask of GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cerne.data.world import World
from cerne.model.config import ModelConfig
from cerne.model.hf import save_model
from cerne.model.transformer import Transformer
from cerne.tokenizer.bpe import Tokenizer

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def world_text(num_stories: int) -> str:
    """Text that is the same everywhere."""
    world = World(seed=3)
    return "\n".join(world.story(i) for i in range(num_stories))


def small_tokenizer(pattern: str = "qwen2") -> Tokenizer:
    """A vocabulary of 400 ids."""
    return Tokenizer.train([world_text(20)], vocab_size=400, pattern=pattern)


def model_directory(
    folder: Path, tokenizer: Tokenizer, dtype: torch.dtype = torch.float32, **overrides: Any
) -> Transformer:
    """Write a seeded model of width 256 whose norms and biases are not at their initial values."""
    fields: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "hidden_size": 256,
        "intermediate_size": 288,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "initializer_range": 0.1,
    }
    model = Transformer(ModelConfig(**{**fields, **overrides}), seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    save_model(folder, model.to(dtype), tokenizer)
    return model.float()


def torch_logits(model: Transformer, ids: list[int]) -> npt.NDArray[np.float32]:
    """Logits [T, V] of one row."""
    with torch.inference_mode():
        logits: npt.NDArray[np.float32] = model.project(model(torch.tensor([ids])))[0].numpy()
    return logits
