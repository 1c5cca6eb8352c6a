"""A llama of two layers as a GGUF file, small enough to measure in a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.gguf_tools import F32, STRING, U32, entry, gguf_bytes, tensor

VOCAB, WIDTH, HEADS, KV_HEADS, FFN, LAYERS = 96, 64, 4, 2, 96, 2
KV_WIDTH = WIDTH // HEADS * KV_HEADS


def write_tiny_gguf(path: Path, context: int = 1100) -> Path:
    """Write the file with random F32 weights; the embedding is the head too."""
    shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (KV_WIDTH, WIDTH),
            "attn_v": (KV_WIDTH, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (FFN, WIDTH),
            "ffn_up": (FFN, WIDTH),
            "ffn_down": (WIDTH, FFN),
        }.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape
    draw = np.random.default_rng(0)
    entries, data = [], b""
    for name, shape in shapes.items():
        entries.append(tensor(name, shape[::-1], 0, len(data)))
        data += draw.standard_normal(shape, dtype=np.float32).tobytes()
    numbers = {
        "context_length": context,
        "embedding_length": WIDTH,
        "block_count": LAYERS,
        "feed_forward_length": FFN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    metadata = [
        entry("general.architecture", STRING, "llama"),
        *(entry(f"llama.{key}", U32, value) for key, value in numbers.items()),
        entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
    ]
    path.write_bytes(gguf_bytes(metadata, entries, data))
    return path
