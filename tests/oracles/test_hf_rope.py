"""Rotary frequencies and tables against transformers, kind by kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_tools import small_config

from cerne.model.rope import inverse_frequencies, rope_tables

modeling_rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
transformers = pytest.importorskip("transformers")

KINDS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
    {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 64,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
    },
    {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 256,
        "attention_factor": 1.3,
    },
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
]


def their_config(scaling: dict[str, Any] | None, theta: float, head_dim: int) -> Any:
    rope = {"rope_type": "default", "rope_theta": theta} | (scaling or {})
    return transformers.LlamaConfig(
        hidden_size=head_dim * 4,
        num_attention_heads=4,
        head_dim=head_dim,
        max_position_embeddings=1024,
        rope_parameters=rope,
    )


@pytest.mark.parametrize("scaling", KINDS, ids=lambda kind: f"{kind['rope_type']}-{len(kind)}")
@pytest.mark.parametrize(("theta", "head_dim"), [(10_000.0, 64), (1_000_000.0, 128), (500.0, 6)])
def test_frequencies_equal_transformers(
    scaling: dict[str, Any], theta: float, head_dim: int
) -> None:
    ours, factor = inverse_frequencies(
        small_config(rope_theta=theta, rope_scaling=scaling, head_dim=head_dim)
    )
    initialise = modeling_rope_utils.ROPE_INIT_FUNCTIONS[scaling["rope_type"]]
    theirs, their_factor = initialise(their_config(scaling, theta, head_dim), device="cpu")
    assert torch.equal(ours, theirs)
    assert factor == their_factor


def test_dynamic_frequencies_beyond_the_context() -> None:
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    config = small_config(rope_scaling=scaling, head_dim=64)
    theirs, _ = modeling_rope_utils.ROPE_INIT_FUNCTIONS["dynamic"](
        their_config(scaling, 10_000.0, 64), device="cpu", seq_len=3000
    )
    ours, _ = inverse_frequencies(config, 3000)
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, inverse_frequencies(config)[0])


@pytest.mark.parametrize(
    "scaling", [None, *KINDS], ids=lambda k: k["rope_type"] if k else "default"
)
def test_tables_equal_transformers_over_the_whole_context(scaling: dict[str, Any] | None) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    theirs = llama.LlamaRotaryEmbedding(their_config(scaling, 10_000.0, 64))
    cos, sin = theirs(torch.zeros(1, 1, 1), torch.arange(1024)[None])
    our_cos, our_sin = rope_tables(small_config(rope_scaling=scaling, head_dim=64), 1024)
    # Same float32 angle; the cosines may differ in their last bits.
    assert (our_cos - cos[0, :, :32]).abs().max() < 3e-7
    assert (our_sin - sin[0, :, :32]).abs().max() < 3e-7
