"""Rotation: the property it exists for, table growth and dtype."""

from __future__ import annotations

import pytest
import torch
from model_tools import random_ids, small_config, small_model

from cerne.errors import ConfigError, EngineError, ModelError
from cerne.model.cache import KVCache
from cerne.model.rope import RopeScaling, RotaryTable, rope_tables, rotate


def test_scores_depend_on_the_distance_only() -> None:
    cos, sin = rope_tables(small_config(head_dim=16), 64)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 16, generator=generator, dtype=torch.float64)
    cos, sin = cos.double(), sin.double()

    def score(at: int, other: int) -> float:
        return float(
            (
                rotate(q, cos[at][None], sin[at][None])
                * rotate(k, cos[other][None], sin[other][None])
            ).sum()
        )

    assert score(9, 4) == pytest.approx(score(59, 54), abs=1e-6)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)


def test_rotation_keeps_length_and_pairs_halves() -> None:
    cos, sin = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    turned = rotate(torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), cos, sin)
    # The first pair (1, 3) turns by 90 degrees to (-3, 1); the second (2, 4) stays.
    assert turned.flatten().tolist() == [-3.0, 2.0, 1.0, 4.0]


def test_table_grows_and_stays_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RotaryTable, "initial_rows", 8)
    model = small_model()
    ids = random_ids(1, 40)
    with torch.no_grad():
        grown = model(ids)
    assert 40 <= model.rope.cos.shape[0] <= 1024
    monkeypatch.undo()
    with torch.no_grad():
        assert torch.equal(grown, small_model()(ids))
    model.to(torch.bfloat16)
    assert model.rope.cos.dtype == torch.float32
    assert torch.equal(model.rope.cos[:40], rope_tables(model.config, 40)[0])


def test_the_context_limit_names_both_numbers() -> None:
    model = small_model(max_position_embeddings=16)
    with pytest.raises(ModelError, match=r"17 tokens.*max_position_embeddings=16"):
        model(random_ids(1, 17))
    with pytest.raises(ModelError, match="without tokens"):
        model(random_ids(1, 0))


def test_dynamic_scaling_goes_beyond_the_context_and_back() -> None:
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    model = small_model(max_position_embeddings=16, rope_scaling=scaling)
    short, long = random_ids(1, 12), random_ids(1, 40)
    with torch.no_grad():
        before, far, after = model(short), model(long), model(short)
        plain = small_model(max_position_embeddings=16)(short)
        undone = small_model(max_position_embeddings=64)(long)
    assert torch.equal(before, after)
    assert torch.equal(before, plain)
    assert (far - undone).abs().max() > 1e-3
    with pytest.raises(EngineError):
        KVCache(model.config, 1, 17)


def test_both_spellings_of_the_kind_and_no_contradiction() -> None:
    assert RopeScaling.parse({"type": "linear", "factor": 2}, 8).kind == "linear"
    assert RopeScaling.parse({"rope_type": "default"}, 8).kind == "default"
    with pytest.raises(ConfigError, match="two kinds"):
        RopeScaling.parse({"type": "linear", "rope_type": "yarn", "factor": 2}, 8)
