"""Fresh weights that can already look back: heads wired to find what followed an earlier match.

Reading a story is looking things up in it, which a decoder does with two heads one above the other:
the lower one writes the previous token into the stream, the upper one seeks a place whose previous
token is the present one and copies what stands there (Olsson et al. 2022, "In-context learning and
induction heads", arXiv:2209.11895). Ordinary random weights need more updates to find this pair
than a five-minute run has; here some heads of the first two layers start as such pairs, in random
directions, and everything stays trainable. They know no token and no fact. The idea of starting
attention in a useful shape is that of Trockman & Kolter 2023 ("Mimetic initialization of
self-attention layers", arXiv:2305.09828).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cerne.errors import ConfigError
from cerne.model.layers import Attention
from cerne.model.transformer import Transformer

# How sharply the lower head attends to the previous token, and the upper one to a match.
PREVIOUS_SHARPNESS = 6.0
MATCH_SHARPNESS = 2.0
# What the lower and the upper head write, relative to the embeddings' scale.
NOTE_SCALE = 1.0
COPY_SCALE = 8.0
# Rotary pairs that turn less than this over a whole row can compare far tokens, in radians.
SLOW_TURN = 1.5


@torch.no_grad()
def wire_look_back(model: Transformer, seed: int, heads: int, row_tokens: int) -> None:
    """Turn `heads` heads of the first two layers into look-back pairs.

    Args:
        model: fresh, with biases on q and k (architecture qwen2) and at least two layers.
        seed: of the random directions.
        heads: pairs to make.
        row_tokens: how far a match may lie.
    Raises:
        ConfigError: the model cannot hold such pairs.
    """
    config = model.config
    if not config.attention_bias or config.num_key_value_heads != config.num_attention_heads:
        raise ConfigError(
            "look-back heads need biases on q and k and one key head per query head",
            value=config.architecture,
            allowed="architecture qwen2 with num_key_value_heads = num_attention_heads",
        )
    if not 0 <= heads <= config.num_attention_heads or config.num_hidden_layers < 2:
        raise ConfigError(
            "too many look-back heads", value=heads, allowed=f"0 to {config.num_attention_heads}"
        )
    lower, upper = (layer.self_attn for layer in list(model.model.layers)[:2])
    width = config.head_dim
    turns = config.rope_theta ** (-torch.arange(0, width, 2) / width)
    slow = [pair for pair in range(width // 2) if float(turns[pair]) * row_tokens < SLOW_TURN]
    lanes = [*slow, *(pair + width // 2 for pair in slow)]
    generator = torch.Generator().manual_seed(seed)
    for head in range(heads):
        begin = head * width
        read_ED, write_ED, copy_ED = (
            _directions(config.hidden_size, width, generator) for _ in range(3)
        )
        _attend_to_previous(lower, begin, turns)
        lower.v_proj.weight[begin : begin + width] = read_ED
        lower.o_proj.weight[:, begin : begin + width] = (
            NOTE_SCALE * config.initializer_range * write_ED.T
        )
        for projection, source_ED in ((upper.q_proj, read_ED), (upper.k_proj, write_ED)):
            projection.weight[begin : begin + width] = 0.0
            rows = [begin + lane for lane in lanes]
            projection.weight[rows] = MATCH_SHARPNESS * source_ED[: len(lanes)]
        upper.v_proj.weight[begin : begin + width] = copy_ED
        upper.o_proj.weight[:, begin : begin + width] = (
            COPY_SCALE * config.initializer_range * copy_ED.T
        )


def _attend_to_previous(attention: Attention, begin: int, turns: Tensor) -> None:
    """Biases whose rotary score is largest one token back, whatever the tokens are."""
    width = 2 * len(turns)
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight[begin : begin + width] *= 0.1
    key_E = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)])
    query_E = torch.cat([torch.cos(turns), -torch.sin(turns)])
    attention.k_proj.bias[begin : begin + width] = PREVIOUS_SHARPNESS * key_E
    attention.q_proj.bias[begin : begin + width] = PREVIOUS_SHARPNESS * query_E


def _directions(hidden_size: int, width: int, generator: torch.Generator) -> Tensor:
    """`width` orthonormal random directions of the stream, [E, D]."""
    noise_DD = torch.randn(hidden_size, hidden_size, generator=generator) / math.sqrt(hidden_size)
    return torch.linalg.qr(noise_DD)[0][:width]
