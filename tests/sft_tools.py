"""A small model to fine-tune and recipes for short runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chat_tools import default_tokenizer

from cerne.data.conversations import ConversationConfig
from cerne.model.config import ModelConfig
from cerne.model.hf import save_model
from cerne.model.transformer import Transformer
from cerne.train.config import TrainConfig
from cerne.train.recipe import RunConfig
from cerne.tune.recipe import SftRecipe, StartConfig


def small_transformer(seed: int = 0, **changes: Any) -> Transformer:
    """Two layers of width 32 for the default tokenizer of chat_tools."""
    tokenizer = default_tokenizer()
    fields: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 256,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return Transformer(ModelConfig(**{**fields, **changes}), seed=seed)


def base_model(folder: Path, **changes: Any) -> Path:
    """A model directory with fresh weights."""
    save_model(folder, small_transformer(**changes), default_tokenizer())
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    """A JSONL file."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return str(path)


def recipe(base: Path, data: str, run: Path, val_fraction: float = 0.0, **train: Any) -> SftRecipe:
    """A short eager run on one thread."""
    fields = {"steps": 4, "batch_size": 2, "seq_len": 64, "compile": "off", "log_every": 1}
    return SftRecipe(
        run=RunConfig(dir=str(run), threads=1, device="cpu", precision="fp32"),
        model=StartConfig(path=str(base)),
        data=ConversationConfig(path=data, val_fraction=val_fraction),
        train=TrainConfig(**{**fields, **train}),
    )
