"""A byte-level stand-in tokenizer and small random models, so that engine tests stand alone."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import numpy as np
import torch

from cerne.model.config import ModelConfig
from cerne.model.transformer import Transformer

EOS = 256
END_OF_TURN = 257
VOCAB = 260


class ByteStream:
    """UTF-8 bytes to text, never splitting a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        if token < 256:
            return self._decoder.decode(bytes([token]))
        return self._decoder.decode(b"", final=True) + f"<{token}>"

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class ByteTokenizer:
    """Token = byte; ids from 256 are special and shown as <id>."""

    eos_token_id = EOS
    end_of_turn_id = END_OF_TURN
    bos_token_id = None
    vocab_size = VOCAB

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def stream(self) -> ByteStream:
        return ByteStream()

    def decode(self, ids: Sequence[int]) -> str:
        stream = self.stream()
        return "".join([*(stream.push(token) for token in ids), stream.flush()])


def small_model(seed: int = 0, scale: float = 6.0, **overrides: object) -> Transformer:
    """A random model whose logits are spread enough that choices are not near ties."""
    fields: dict[str, object] = {
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
    }
    model = Transformer(ModelConfig(**{**fields, **overrides}), seed=seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale)
    return model


class ScriptedEngine:
    """An engine that wants exactly the given tokens after any prompt: tests text handling alone."""

    arithmetic = "scripted"
    context = 100_000

    def __init__(self, script: Sequence[int], vocab_size: int) -> None:
        self.script, self.vocab_size = list(script), vocab_size

    def room(self, capacity: int) -> int:
        return 8

    def open(self, sequences: int, capacity: int) -> ScriptedSequences:
        return ScriptedSequences(self)


class ScriptedSequences:
    """Counts how far each sequence is in the script."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._at: dict[int, int] = {}

    def start(self) -> int:
        self._at[len(self._at)] = 0
        return len(self._at) - 1

    def prefill(self, sequence: int, ids: Sequence[int], logits: str = "last") -> np.ndarray:
        return self._next([sequence])

    def decode(self, sequences: Sequence[int], ids: Sequence[int]) -> np.ndarray:
        return self._next(sequences)

    def _next(self, sequences: Sequence[int]) -> np.ndarray:
        logits = np.zeros((len(sequences), self._engine.vocab_size), dtype=np.float32)
        for row, sequence in enumerate(sequences):
            logits[row, self._engine.script[self._at[sequence]]] = 50.0
            self._at[sequence] += 1
        return logits

    def drop(self, sequence: int) -> None:
        self._at[sequence] = -1

    def __enter__(self) -> ScriptedSequences:
        return self

    def __exit__(self, *_: object) -> None:
        self._at.clear()
