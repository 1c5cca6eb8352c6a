"""Figures about prepared shards or plain text: counts, lengths, a histogram, a sample.

Returns plain dictionaries; the command line prints them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cerne.data.corpus import Corpus, Part
from cerne.data.shards import Shards
from cerne.errors import DataError

SAMPLE_TOKENS = 64
SAMPLE_BYTES = 240
BAR_WIDTH = 40


class Decoder(Protocol):
    """The part of a tokenizer that a sample needs."""

    @property
    def digest(self) -> str: ...
    def decode(self, ids: Any) -> str: ...


def describe_shards(shards: Shards, tokenizer: Decoder | None = None) -> dict[str, Any]:
    """Counts and lengths of one shard folder, with a decoded sample when a tokenizer is given.

    Raises:
        DataError: the tokenizer is not the one that made the shards.
    """
    lengths = np.diff(shards.offsets)
    ids = shards.read(0, min(SAMPLE_TOKENS, shards.num_tokens)).tolist()
    facts: dict[str, Any] = {
        "documents": shards.num_documents,
        "tokens": shards.num_tokens,
        "bytes": shards.num_bytes,
        "bytes_per_token": round(shards.num_bytes / max(1, shards.num_tokens), 4),
        "vocab_size": shards.vocab_size,
        "dtype": shards.index["dtype"],
        "files": len(shards.index["shards"]),
        "tokenizer_digest": shards.tokenizer_digest,
        **_lengths(lengths, "tokens"),
        "sample_ids": ids[:16],
    }
    if tokenizer is not None:
        if tokenizer.digest != shards.tokenizer_digest:
            raise DataError(
                "the shards were made with another tokenizer",
                value=tokenizer.digest[:16],
                allowed=shards.tokenizer_digest[:16],
            )
        facts["sample"] = tokenizer.decode(ids)
    return facts


def describe_corpus(corpus: Corpus, part: Part) -> dict[str, Any]:
    """Counts and lengths of one part of a corpus, in bytes, with a sample."""
    lengths = corpus.document_bytes(part)
    start = corpus.document(part, 0)[:SAMPLE_BYTES] if len(lengths) else b""
    return {
        "documents": len(lengths),
        "bytes": corpus.num_bytes(part),
        **_lengths(lengths, "bytes"),
        "sample": start.decode("utf-8", "ignore"),
    }


def histogram(lengths: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """(upper bound, count) for lengths up to 1, 2, 4, 8, ...; empty ends are left out."""
    if not len(lengths):
        return []
    power = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    counts = np.bincount(power)
    first = int(np.flatnonzero(counts)[0])
    return [(1 << k, int(counts[k])) for k in range(first, len(counts))]


def histogram_lines(bars: list[tuple[int, int]], unit: str) -> list[str]:
    """The histogram as text, one line a bar."""
    most = max((count for _, count in bars), default=1)
    return [
        f"  up to {bound:>10,} {unit}  {count:>9,}  {'#' * -(-count * BAR_WIDTH // most)}"
        for bound, count in bars
    ]


def _lengths(lengths: npt.NDArray[np.int64], unit: str) -> dict[str, Any]:
    some = lengths if len(lengths) else np.zeros(1, np.int64)
    return {
        f"longest_{unit}": int(some.max()),
        f"shortest_{unit}": int(some.min()),
        f"mean_{unit}": round(float(some.mean()), 2),
        f"median_{unit}": float(np.median(some)),
        "histogram": [list(bar) for bar in histogram(lengths)],
    }
