"""Fresh weights that can already look back: attention heads that start as look-ups.

Reading a story is looking things up in it. A decoder does that with two heads, one above the other:
the lower one notes the previous token in the stream, the upper one seeks a place that matches and
copies what stands there (Olsson et al. 2022, "In-context learning and induction heads",
arXiv:2209.11895). Ordinary random weights need more updates to find such pairs than a five-minute
run has. Here they are the starting point, in random directions; they know no token and no fact, and
everything stays trainable. Starting attention in a useful shape follows Trockman & Kolter 2023
("Mimetic initialization of self-attention layers", arXiv:2305.09828).

| layer | head    | seeks a place where                     | and copies          |
|-------|---------|-----------------------------------------|---------------------|
| 0     | 0, 1, 2 | is the 1st, 2nd, 3rd token before       | it, as a note       |
| 1     | 0       | the 1st note is the present token       | its token           |
| 1     | 1       | the 2nd note is the present 1st note    | its token           |
| 1     | 2       | the 3rd note is the present 2nd note    | its token           |
| 1     | 3       | the token is the present token          | its 1st note        |
| 2 ... | all     | (random)                                | its token           |

Heads 0 to 2 of layer 1 vote together for what followed the longest same run of words, and among
equal runs for the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from cerne.errors import ConfigError
from cerne.model.config import ModelConfig
from cerne.model.layers import Attention, Block
from cerne.model.transformer import Transformer

# How sharply the lower heads attend to one earlier token, and the upper ones to a match.
PREVIOUS_SHARPNESS = 6.0
MATCH_SHARPNESS = 4.0
# How much of a match a later place is worth.
RECENCY = 3.0
# What the heads write, relative to the embeddings' scale of 1.
NOTE_SCALE = 0.6
COPY_SCALE = 3.0
DEEP_COPY_SCALE = 0.3
# Size of embeddings where the notes go, so that a note stands out.
FAINT = 0.15
# Output rows start as small copies of the embeddings: what is copied is what is said.
HEAD_SCALE = 0.06
# Rotary pairs that turn less than this over a whole row can compare far tokens, in radians.
SLOW_TURN = 1.5


@torch.no_grad()
def wire_look_back(model: Transformer, seed: int, row_tokens: int) -> None:
    """Replace fresh weights of embeddings, output and attention by the shapes above.

    Args:
        model: fresh; architecture qwen2 (biases on q and k), untied, four heads with a key head
            each, two layers or more.
        seed: of the random directions.
        row_tokens: how far a match may lie.
    Raises:
        ConfigError: the model cannot hold such heads.
    """
    config = model.config
    _check(config)
    generator = torch.Generator().manual_seed(seed)
    noise_DD = torch.randn(config.hidden_size, config.hidden_size, generator=generator)
    token_ED, *notes = torch.linalg.qr(noise_DD)[0].split(config.head_dim)
    embed_VD = model.model.embed_tokens.weight
    embed_VD.normal_(0.0, 1.0, generator=generator)
    for note_ED in notes:
        embed_VD -= (1.0 - FAINT) * embed_VD @ note_ED.T @ note_ED
    model.lm_head.weight.copy_(HEAD_SCALE * embed_VD)
    turns = config.rope_theta ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
    blocks = cast("list[Block]", list(model.model.layers))
    lower, upper, *deeper = (block.self_attn for block in blocks)
    for head, note_ED in enumerate(notes):
        _attend_to_previous(lower, head, turns, head + 1)
        _carry(lower, head, token_ED, NOTE_SCALE * note_ED)
    run = list(zip([token_ED, *notes[:-1]], notes, strict=True))
    for head, pairs in enumerate([run, run, run[:1], [(token_ED, token_ED)]]):
        _attend_to_match(upper, head, turns, row_tokens, pairs)
        _carry(upper, head, notes[0] if head == 3 else token_ED, COPY_SCALE * token_ED)
    for attention in deeper:
        for head in range(config.num_attention_heads):
            _carry(attention, head, token_ED, DEEP_COPY_SCALE * token_ED)


def _attend_to_previous(attention: Attention, head: int, turns: Tensor, back: int) -> None:
    """Biases whose rotary score is largest `back` tokens back, whatever the tokens are."""
    rows = _rows(turns, head)
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight[rows] *= 0.1
    key_E = torch.cat([torch.ones_like(turns), torch.zeros_like(turns)])
    query_E = torch.cat([torch.cos(back * turns), -torch.sin(back * turns)])
    attention.k_proj.bias[rows] = PREVIOUS_SHARPNESS * key_E
    attention.q_proj.bias[rows] = PREVIOUS_SHARPNESS * query_E


def _attend_to_match(
    attention: Attention,
    head: int,
    turns: Tensor,
    row_tokens: int,
    pairs: Sequence[tuple[Tensor, Tensor]],
) -> None:
    """Slowly turning lanes compare what two places carry; the fastest of them prefers late ones."""
    half, rows = len(turns), _rows(turns, head)
    first, *slow = (pair for pair in range(half) if float(turns[pair]) * row_tokens < SLOW_TURN)
    lanes = [rows.start + lane for pair in slow for lane in (pair, pair + half)]
    each = len(lanes) // len(pairs)
    attention.q_proj.weight[rows] = 0.0
    attention.k_proj.weight[rows] = 0.0
    for number, (query_ED, key_ED) in enumerate(pairs):
        group = lanes[number * each : (number + 1) * each]
        # Other heads compare other directions of the same subspace.
        chosen = slice(head * each % half, head * each % half + each)
        attention.q_proj.weight[group] = MATCH_SHARPNESS * query_ED[chosen]
        attention.k_proj.weight[group] = MATCH_SHARPNESS * key_ED[chosen]
    # A quarter turn apart, their product falls with the distance from the start.
    attention.k_proj.bias[rows.start + first] = RECENCY
    attention.q_proj.bias[rows.start + first + half] = RECENCY


def _rows(turns: Tensor, head: int) -> slice:
    """The rows of one head in a projection."""
    return slice(2 * len(turns) * head, 2 * len(turns) * (head + 1))


def _carry(attention: Attention, head: int, read_ED: Tensor, write_ED: Tensor) -> None:
    """The head reads along some directions of the stream and writes along others."""
    width = len(read_ED)
    rows = slice(head * width, (head + 1) * width)
    attention.v_proj.weight[rows] = read_ED
    attention.o_proj.weight[:, rows] = write_ED.T


def _check(config: ModelConfig) -> None:
    fits = (
        config.attention_bias
        and not config.tie_word_embeddings
        and config.num_key_value_heads == config.num_attention_heads == 4
        and config.num_hidden_layers >= 2
    )
    if not fits:
        raise ConfigError(
            "the model cannot hold look-back heads",
            value=config.architecture,
            allowed="architecture qwen2, tie_word_embeddings false, two layers or more, four heads"
            " with a key head each",
        )
