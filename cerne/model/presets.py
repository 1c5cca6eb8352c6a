"""Named model sizes, from one that trains in seconds to one that needs a GPU.

In: a name and the tokenizer's vocabulary size, plus overrides. Out: a `ModelConfig`. From `tiny`
    up, hidden and feed-forward widths are multiples of 256 so that every k-quant format fits
    without a fallback (row width rule of the GGUF super-block). Leaves out: training settings,
    which live in recipes.
"""

from __future__ import annotations

from typing import Any

from cerne.errors import ConfigError
from cerne.model.config import ModelConfig

# name: (what it is for, default vocabulary, fields)
_PRESETS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "nano": (
        "about 1M parameters: tests and first runs",
        2048,
        {
            "hidden_size": 128,
            "intermediate_size": 352,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 1024,
        },
    ),
    "micro": (
        "about 2.5M parameters: minutes of training on your own text",
        4096,
        {
            "hidden_size": 192,
            "intermediate_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "max_position_embeddings": 1024,
        },
    ),
    "tiny": (
        "about 25M parameters: an evening on a laptop CPU",
        8192,
        {
            "hidden_size": 512,
            "intermediate_size": 1536,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "max_position_embeddings": 2048,
        },
    ),
    "small": (
        "about 117M parameters: GPT-2 small's place",
        32768,
        {
            "hidden_size": 768,
            "intermediate_size": 2048,
            "num_hidden_layers": 13,
            "num_attention_heads": 12,
            "num_key_value_heads": 12,
            "max_position_embeddings": 2048,
        },
    ),
    "medium": (
        "about 360M parameters: one GPU",
        32768,
        {
            "hidden_size": 1024,
            "intermediate_size": 2816,
            "num_hidden_layers": 26,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "max_position_embeddings": 4096,
        },
    ),
    "large": (
        "about 1.3B parameters: one large GPU, or several",
        32768,
        {
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "max_position_embeddings": 4096,
        },
    ),
}

PRESETS: dict[str, str] = {name: purpose for name, (purpose, _, _) in _PRESETS.items()}


def preset(name: str, vocab_size: int | None = None, **overrides: Any) -> ModelConfig:
    """The `ModelConfig` of a named size; `overrides` replace single fields.

    `vocab_size` None takes the size's own default (used for accounting and tests; a run passes its
    tokenizer's). Raises `ConfigError` for an unknown name and whatever `ModelConfig` raises for the
    fields.
    """
    if name not in _PRESETS:
        raise ConfigError("unknown model preset", value=name, allowed=", ".join(_PRESETS))
    _, default_vocab, fields = _PRESETS[name]
    size = default_vocab if vocab_size is None else vocab_size
    return ModelConfig(**{**fields, "vocab_size": size, **overrides})
