"""A tiny model, loaders over lists and a short training run, for the tests of training."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cerne.data.loader import PackedLoader
from cerne.data.memory import MemoryStore
from cerne.data.packing import Batch
from cerne.model.config import ModelConfig
from cerne.model.loss import IGNORE
from cerne.model.transformer import Transformer
from cerne.runs import RunDirectory
from cerne.train.config import TrainConfig
from cerne.train.loop import Trainer

VOCAB = 61


def tiny_model(seed: int = 0, **changes: Any) -> Transformer:
    """Two layers of width 16, float32."""
    fields: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "dropout": 0.1,
    }
    return Transformer(ModelConfig(**{**fields, **changes}), seed=seed)


def tiny_loader(batch_size: int = 2, seq_len: int = 16, even: bool = False) -> PackedLoader:
    """Nine documents of different lengths, or (even) twenty that fill a row each."""
    generator = np.random.default_rng(5)
    lengths = [seq_len + 1] * 20 if even else generator.integers(8, 30, 9).tolist()
    examples = []
    for length in lengths:
        ids = generator.integers(0, VOCAB, length).tolist()
        examples.append((ids, [True] * length))
    store = MemoryStore(examples, pad_token_id=0, vocab_size=VOCAB)
    return PackedLoader(store, seq_len, batch_size, seed=3, packing="best-fit")


def train_config(**changes: Any) -> TrainConfig:
    """Short runs in eager mode."""
    fields = {"steps": 8, "batch_size": 2, "seq_len": 16, "compile": "off", "log_every": 1}
    return TrainConfig(**{**fields, **changes})


def ragged_batch(lengths: Sequence[int], seq_len: int, seed: int = 0) -> Batch:
    """One row per length; the labels after it are ignored."""
    generator = np.random.default_rng(seed)
    shape = (len(lengths), seq_len)
    ids = generator.integers(0, VOCAB, shape)
    labels = generator.integers(0, VOCAB, shape)
    documents = np.zeros(shape, np.int64)
    for row, length in enumerate(lengths):
        labels[row, length:] = IGNORE
        documents[row, length:] = -1
    positions = np.broadcast_to(np.arange(seq_len), shape).copy()
    return Batch(ids, labels, positions, documents)


class ListLoader:
    """Gives the batches of a list, round and round."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches, self.place = list(batches), 0

    def next(self) -> Batch:
        batch = self.batches[self.place % len(self.batches)]
        self.place += 1
        return batch

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state(self, state: dict[str, Any]) -> None:
        self.place = int(state["place"])


def trainer_in(folder: Path, config: TrainConfig | None = None, **options: Any) -> Trainer:
    """A trainer of the tiny model; options may replace its model and loader."""
    config = train_config() if config is None else config
    model = options.pop("model", None)
    loader = options.pop("loader", None)
    return Trainer(
        tiny_model() if model is None else model,
        tiny_loader(batch_size=config.batch_size, seq_len=config.seq_len)
        if loader is None
        else loader,
        config,
        RunDirectory(folder),
        **options,
    )


def weights_digest(model: Transformer) -> str:
    """SHA-256 over the bits of all weights."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
