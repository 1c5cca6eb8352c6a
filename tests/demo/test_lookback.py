"""Look-back heads: where fresh weights attend, and what that is worth before any training."""

from __future__ import annotations

import pytest
import torch

from cerne.demo.lookback import wire_look_back
from cerne.errors import ConfigError
from cerne.model.presets import preset
from cerne.model.transformer import Transformer

VOCAB, TOKENS = 300, 64


def _model(wired: bool = True, **overrides: object) -> Transformer:
    shape = {
        "architecture": "qwen2",
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
        **overrides,
    }
    model = Transformer(preset("nano", VOCAB, **shape), seed=1)
    if wired:
        wire_look_back(model, 1, TOKENS)
    return model.eval()


def _told_twice(rows: int) -> torch.Tensor:
    """Eight sentences of four random tokens, then the same in another order."""
    generator = torch.Generator().manual_seed(2)
    told = torch.randint(VOCAB, (rows, 8, 4), generator=generator)
    order = torch.rand(rows, 8, generator=generator).argsort(1)
    again = told.gather(1, order[:, :, None].expand(-1, -1, 4))
    return torch.cat([told.flatten(1), again.flatten(1)], 1)


@torch.no_grad()
def _rank(model: Transformer) -> float:
    """Mean share of the vocabulary ranked above the right token inside repeated sentences."""
    ids = _told_twice(32)
    logits = model.project(model(ids))[:, TOKENS // 2 : -1]
    target = ids[:, TOKENS // 2 + 1 :]
    right = logits.gather(2, target[:, :, None])
    above = (logits > right).float().mean(2)
    inside = torch.arange(TOKENS // 2, TOKENS - 1) % 4 != 3
    return float(above[:, inside].mean())


def test_a_fresh_wired_model_ranks_what_followed_before_high() -> None:
    assert _rank(_model(wired=False)) > 0.4
    assert _rank(_model()) < 0.33


@torch.no_grad()
def test_the_lower_head_attends_to_the_previous_token() -> None:
    model = _model()
    attention = model.model.layers[0].self_attn
    width = model.config.head_dim
    x_TD = torch.randn(TOKENS, model.config.hidden_size)
    query = attention.q_proj(x_TD)[:, :width]
    key = attention.k_proj(x_TD)[:, :width]
    turns = model.config.rope_theta ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(TOKENS)[:, None] * turns

    def turned(v_TE: torch.Tensor) -> torch.Tensor:
        a, b = v_TE.chunk(2, 1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], 1)

    scores = turned(query) @ turned(key).T / width**0.5
    scores = scores.masked_fill(torch.triu(torch.ones(TOKENS, TOKENS), 1).bool(), -torch.inf)
    best = scores.argmax(1)[1:]
    assert (best == torch.arange(TOKENS - 1)).float().mean() > 0.95


def test_directions_follow_the_seed_and_feed_forward_stays_fresh() -> None:
    plain, wired, again = _model(wired=False), _model(), _model()
    assert all(
        torch.equal(a, b) for a, b in zip(wired.parameters(), again.parameters(), strict=True)
    )
    same = {
        name
        for name, value in plain.state_dict().items()
        if torch.equal(value, wired.state_dict()[name])
    }
    assert {name for name in same if "proj.weight" in name} == {
        f"model.layers.{layer}.mlp.{part}_proj.weight"
        for layer in (0, 1)
        for part in ("gate", "up", "down")
    }


def test_models_that_cannot_hold_them_are_refused() -> None:
    for change in (
        {"architecture": "llama"},
        {"tie_word_embeddings": True},
        {"num_attention_heads": 2, "num_key_value_heads": 2},
        {"num_hidden_layers": 1},
    ):
        with pytest.raises(ConfigError, match="look-back"):
            _model(**change)
