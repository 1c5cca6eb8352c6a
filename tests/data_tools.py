"""A tokenizer whose ids are bytes, so that data tests need no training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class ByteTokenizer:
    """Ids 0..255 are bytes, 256 is pad, 257 ends a document."""

    vocab_size = 258
    pad_token_id = 256
    eos_token_id = 257
    digest = "bytes"

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[np.ndarray]:
        raw = [t.encode("utf-8") if isinstance(t, str) else t for t in texts]
        return [np.frombuffer(t, np.uint8).astype(np.uint32) for t in raw]

    def decode(self, ids: list[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")
