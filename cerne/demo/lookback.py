"""Fresh weights that can already look back: attention heads that start as look-ups.

Reading a story is looking things up in it. A decoder does that with two heads, one above the other:
the lower one notes the previous token in the stream, the upper one seeks a place that matches and
copies what stands there (Olsson et al. 2022, "In-context learning and induction heads",
arXiv:2209.11895). Ordinary random weights need more updates to find such pairs than a five-minute
run has. Here they are the starting point, in random directions; they know no token and no fact, and
everything stays trainable. Starting attention in a useful shape follows Trockman & Kolter 2023
("Mimetic initialization of self-attention layers", arXiv:2305.09828).

| layer | head  | seeks a place where              | and copies        |
|-------|-------|----------------------------------|-------------------|
| 0     | 0, 1  | is the previous token            | (into the note)   |
| 1     | 0     | the note is the present token    | its token         |
| 1     | 1     | the note is the present note     | its token         |
| 1     | 2     | the token is the present note    | its note          |
| 1     | 3     | the token is the present token   | its note          |
| 2 ... | all   | (random)                         | its token         |
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from cerne.errors import ConfigError
from cerne.model.config import ModelConfig
from cerne.model.layers import Attention, Block
from cerne.model.transformer import Transformer

# How sharply the lower heads attend to the previous token, and the upper ones to a match.
PREVIOUS_SHARPNESS = 6.0
MATCH_SHARPNESS = 2.0
# What the heads write, relative to the embeddings' scale of 1.
NOTE_SCALE = 1.0
COPY_SCALE = 2.0
DEEP_COPY_SCALE = 1.0
# Output rows start as small copies of the embeddings: what is copied is what is said.
HEAD_SCALE = 0.04
# Rotary pairs that turn less than this over a whole row can compare far tokens, in radians.
SLOW_TURN = 1.5
NOTES = 2


class _LookUp(NamedTuple):
    """What a head of layer 1 compares and copies: the token of a place, or the note on it."""

    query: str
    key: str
    value: str


_LOOK_UPS = (
    _LookUp("token", "note", "token"),
    _LookUp("note", "note", "token"),
    _LookUp("note", "token", "note"),
    _LookUp("token", "token", "note"),
)


@torch.no_grad()
def wire_look_back(model: Transformer, seed: int, row_tokens: int) -> None:
    """Replace fresh weights of embeddings, output and attention by the shapes above.

    Args:
        model: fresh; architecture qwen2 (biases on q and k), untied, one key head per query head,
            at least four heads and two layers.
        seed: of the random directions.
        row_tokens: how far a match may lie.
    Raises:
        ConfigError: the model cannot hold such heads.
    """
    config = model.config
    _check(config)
    generator = torch.Generator().manual_seed(seed)
    embed_VD = model.model.embed_tokens.weight
    embed_VD.normal_(0.0, 1.0, generator=generator)
    model.lm_head.weight.copy_(HEAD_SCALE * embed_VD)
    width = config.head_dim
    blocks = cast("list[Block]", list(model.model.layers))
    lower, upper, *deeper = (block.self_attn for block in blocks)
    turns = config.rope_theta ** (-torch.arange(0, width, 2) / width)
    slow = [pair for pair in range(width // 2) if float(turns[pair]) * row_tokens < SLOW_TURN]
    lanes = [*slow, *(pair + width // 2 for pair in slow)]
    # One pair of directions per lower head: how it reads a token, and where it notes it.
    sides: list[dict[str, Tensor]] = []
    for head in range(NOTES):
        read_ED, note_ED = (_directions(config, generator) for _ in range(2))
        sides.append({"token": read_ED, "note": note_ED})
        _attend_to_previous(lower, head, turns)
        _carry(lower, head, read_ED, NOTE_SCALE * note_ED)
    for head, look_up in enumerate(_LOOK_UPS):
        side = sides[head % NOTES]
        rows = [head * width + lane for lane in lanes]
        for projection, what in ((upper.q_proj, look_up.query), (upper.k_proj, look_up.key)):
            projection.weight[head * width : (head + 1) * width] = 0.0
            projection.weight[rows] = MATCH_SHARPNESS * side[what][: len(lanes)]
        if look_up.value == "token":
            copy_ED = _directions(config, generator)
            _carry(upper, head, copy_ED, COPY_SCALE * copy_ED)
        else:
            _carry(upper, head, side["note"], COPY_SCALE * side["token"])
    for attention in deeper:
        for head in range(config.num_attention_heads):
            copy_ED = _directions(config, generator)
            _carry(attention, head, copy_ED, DEEP_COPY_SCALE * copy_ED)


def _attend_to_previous(attention: Attention, head: int, turns: Tensor) -> None:
    """Biases whose rotary score is largest one token back, whatever the tokens are."""
    width = 2 * len(turns)
    rows = slice(head * width, (head + 1) * width)
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight[rows] *= 0.1
    key_E = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)])
    query_E = torch.cat([torch.cos(turns), -torch.sin(turns)])
    attention.k_proj.bias[rows] = PREVIOUS_SHARPNESS * key_E
    attention.q_proj.bias[rows] = PREVIOUS_SHARPNESS * query_E


def _carry(attention: Attention, head: int, read_ED: Tensor, write_ED: Tensor) -> None:
    """The head reads along some directions of the stream and writes along others."""
    width = len(read_ED)
    rows = slice(head * width, (head + 1) * width)
    attention.v_proj.weight[rows] = read_ED
    attention.o_proj.weight[:, rows] = write_ED.T


def _directions(config: ModelConfig, generator: torch.Generator) -> Tensor:
    """Orthonormal random directions of the stream, [E, D]."""
    noise_DD = torch.randn(config.hidden_size, config.hidden_size, generator=generator)
    orthogonal_DD: Tensor = torch.linalg.qr(noise_DD)[0]
    return orthogonal_DD[: config.head_dim]


def _check(config: ModelConfig) -> None:
    fits = (
        config.attention_bias
        and not config.tie_word_embeddings
        and config.num_key_value_heads == config.num_attention_heads >= len(_LOOK_UPS)
        and config.num_hidden_layers >= 2
    )
    if not fits:
        raise ConfigError(
            "the model cannot hold look-back heads",
            value=config.architecture,
            allowed="architecture qwen2, tie_word_embeddings false, two layers or more, four heads"
            " or more with a key head each",
        )
