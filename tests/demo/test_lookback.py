"""Look-back heads: where fresh weights attend, and what that is worth before any training."""

from __future__ import annotations

import pytest
import torch

from cerne.demo.lookback import wire_look_back
from cerne.errors import ConfigError
from cerne.model.presets import preset
from cerne.model.rope import rotate
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
    assert _rank(_model()) < 0.05


@torch.no_grad()
@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_lower_heads_attend_one_two_and_three_tokens_back(head: int) -> None:
    model = _model()
    attention = model.model.layers[0].self_attn
    width = model.config.head_dim
    x_BTD = torch.randn(1, TOKENS, model.config.hidden_size)
    shared = model.prepare(torch.zeros(1, TOKENS, dtype=torch.long))

    def turned(projection: torch.nn.Module) -> torch.Tensor:
        lanes = projection(x_BTD)[:, :, head * width : (head + 1) * width]
        return rotate(lanes[:, None], shared.cos, shared.sin)[0, 0]

    scores = turned(attention.q_proj) @ turned(attention.k_proj).T / width**0.5
    scores = scores.masked_fill(torch.triu(torch.ones(TOKENS, TOKENS), 1).bool(), -torch.inf)
    back = head + 1
    best = scores.argmax(1)[back:]
    assert (best == torch.arange(TOKENS - back)).float().mean() > 0.95


@torch.no_grad()
def test_among_equal_matches_later_ones_win_more_often() -> None:
    generator = torch.Generator().manual_seed(3)
    told = torch.stack([torch.randperm(VOCAB, generator=generator)[:28] for _ in range(64)])
    sentence, early, late = told[:, :4], told[:, 4:5], told[:, 5:6]
    gap = told[:, 6:28]
    ids = torch.cat([sentence, early, gap, sentence, late, gap.flip(1), sentence], 1)
    logits = _model().project(_model()(ids))[:, -1]
    wins = logits.gather(1, late) > logits.gather(1, early)
    assert float(wins.float().mean()) > 0.6


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
