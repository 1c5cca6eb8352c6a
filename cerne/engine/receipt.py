"""What a receipt of an answer says, so that somebody can try to reproduce it later.

A receipt names the model, the tokenizer and the arithmetic, the prompt by digest, every sampling
parameter as it was used, and the tokens that came out. With the native engine's arithmetic any
machine computes the same tokens again; with `torch` a receipt identifies an answer and promises no
more. Hashes of the hidden states are not part of this version.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cerne
from cerne.engine.interface import Choice, SamplingParams
from cerne.runs import sha256_file

RECEIPT_VERSION = 1


def model_digest(folder: str | Path) -> str:
    """SHA-256 of a GGUF file; of a folder, that of the lines that `sha256sum config.json
    *.safetensors` prints in it.
    """
    path = Path(folder)
    if path.is_file():
        return sha256_file(path)
    names = ["config.json", *sorted(p.name for p in path.glob("*.safetensors"))]
    lines = "".join(f"{sha256_file(path / name)}  {name}\n" for name in names)
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def tokens_digest(ids: Sequence[int]) -> str:
    """SHA-256 of token ids as little-endian 32-bit numbers."""
    return hashlib.sha256(np.asarray(ids, dtype="<u4").tobytes()).hexdigest()


def make_receipt(
    choice: Choice,
    *,
    prompt: Sequence[int],
    params: SamplingParams,
    max_tokens: int,
    stop_ids: Collection[int],
    model: str,
    tokenizer: str,
    arithmetic: str,
) -> dict[str, Any]:
    """The receipt of one choice, JSON-ready.

    Args:
        max_tokens: the limit that was used.
        stop_ids: every token id that would have ended the answer.
        model, tokenizer: their digests.
    """
    used = params.model_dump(mode="python") | {
        "max_tokens": max_tokens,
        "stop": list(params.stop),
        "stop_tokens": sorted(stop_ids),
        "logit_bias": {str(token): _number(bias) for token, bias in params.logit_bias.items()},
    }
    return {
        "receipt": RECEIPT_VERSION,
        "cerne": cerne.__version__,
        "model_sha256": model,
        "tokenizer_sha256": tokenizer,
        "arithmetic": arithmetic,
        "prompt_sha256": tokens_digest(prompt),
        "prompt_tokens": len(prompt),
        "params": used,
        "seed": params.seed,
        "choice": choice.index,
        "tokens": list(choice.tokens),
        "finish_reason": choice.finish_reason,
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
