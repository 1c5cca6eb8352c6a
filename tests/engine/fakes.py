"""A byte-level stand-in tokenizer and small random models, so that engine tests stand alone."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

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
