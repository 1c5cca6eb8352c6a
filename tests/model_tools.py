"""Small models and batches for the model tests."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import torch
from torch import Tensor

from cerne.model.config import ModelConfig
from cerne.model.transformer import Transformer

VOCAB = 61


def small_config(**overrides: Any) -> ModelConfig:
    """A two-layer model with grouped heads, small enough for float64 work."""
    fields: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 1024,
        "initializer_range": 0.15,
    }
    return ModelConfig(**{**fields, **overrides})


def small_model(seed: int = 0, **overrides: Any) -> Transformer:
    """A seeded model in eval mode whose norms and biases are not at their initial values."""
    model = Transformer(small_config(**overrides), seed=seed).eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


def random_ids(rows: int, tokens: int, seed: int = 0) -> Tensor:
    """Token ids, int64 [rows, tokens]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCAB, (rows, tokens), generator=generator)


def packed(lengths: list[int], padding: int = 0) -> tuple[Tensor, Tensor]:
    """Positions and documents [1, T] of documents of the given lengths, then padding."""
    positions = [torch.arange(n) for n in lengths] + [torch.zeros(padding, dtype=torch.int64)]
    documents = [torch.full((n,), i) for i, n in enumerate(lengths)] + [torch.full((padding,), -1)]
    return torch.cat(positions)[None], torch.cat(documents)[None]


def near(ours: Tensor, wanted: Tensor, tolerance: float = 1e-6) -> bool:
    """Largest difference within `tolerance` of the largest value (of 1 when all are smaller)."""
    scale = max(1.0, float(wanted.detach().abs().max()))
    return float((ours - wanted).detach().abs().max()) <= tolerance * scale


def run_inspect(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`cerne inspect ...` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cerne", "inspect", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
