"""Recipes: what is allowed, what is refused, what may change on a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cerne.config import load_recipe
from cerne.errors import ConfigError
from cerne.train.config import HARMLESS_KEYS, TrainConfig
from cerne.train.recipe import PretrainRecipe, check_unchanged


def recipe(*overrides: str) -> PretrainRecipe:
    return load_recipe(PretrainRecipe, None, overrides)


def test_every_recipe_in_the_repository_of_this_kind_is_valid(repo_dir: Path) -> None:
    names = ["nano", "shakespeare", "text", "books"]
    for name in names:
        found = load_recipe(PretrainRecipe, repo_dir / "recipes" / f"{name}.toml")
        assert found.run.dir == f"runs/{name}"


def test_every_key_is_described() -> None:
    for section in PretrainRecipe.model_fields.values():
        fields = section.annotation.model_fields  # type: ignore[union-attr]
        assert all(field.description for field in fields.values()), section.annotation


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.lr=-1", "train.lr in options is not acceptable.*got -1"),
        ("train.steps=0", "train.steps.*greater than or equal to 1"),
        ("train.beta2=1", "train.beta2.*less than 1"),
        ("train.batch_size=two", "train.batch_size.*got 'two'"),
        ("train.schedule=linear", "train.schedule.*'cosine', 'wsd' or 'constant'"),
        ("train.val_stride=999", "val_stride is 999 but at most seq_len = 256"),
        ("train.seq_len=4096", "seq_len is longer.*got 4096.*model.max_position_embeddings"),
        ("model.preset=huge", "unknown model preset; got 'huge'"),
        ("model.num_attention_heads=3", "num_key_value_heads"),
        ("tokenizer.vocab_size=10", "tokenizer.vocab_size.*264"),
        ("train.stepz=5", "unknown key train.stepz.*did you mean steps"),
    ],
)
def test_wrong_values_are_refused_with_the_key(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(override)


def test_model_section_changes_the_preset() -> None:
    found = recipe("model.architecture=qwen3", "model.dropout=0.2", "model.num_hidden_layers=3")
    config = found.model.resolve(128, vocab_size=512)
    assert (config.architecture, config.qk_norm, config.dropout) == ("qwen3", True, 0.2)
    assert (config.num_hidden_layers, config.hidden_size, config.vocab_size) == (3, 128, 512)


@pytest.mark.parametrize(
    "change",
    [
        "train.steps=2000", "train.save_every=7", "train.log_every=1", "train.keep_last=0",
        "run.dir=elsewhere", "run.threads=1", "train.tensorboard=true",
    ],
)  # fmt: skip
def test_harmless_changes_may_be_made_on_a_resume(change: str) -> None:
    check_unchanged(recipe(), recipe(change))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("train.lr=0.1", "train.lr was 0.003, now 0.1"),
        ("train.batch_size=3", "train.batch_size was 16, now 3"),
        ("run.seed=4", "run.seed was 0, now 4"),
        ("data.val_fraction=0.3", "data.val_fraction was 0.1, now 0.3"),
        ("model.dropout=0.5", "model.dropout was None, now 0.5"),
        ("tokenizer.vocab_size=300", "tokenizer.vocab_size was 4096, now 300"),
    ],
)
def test_other_changes_are_named(change: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        check_unchanged(recipe(), recipe("train.steps=9", change))


def test_harmless_keys_exist() -> None:
    assert TrainConfig.model_fields.keys() >= HARMLESS_KEYS
    assert not {"lr", "batch_size", "schedule", "accumulate", "compile"} & HARMLESS_KEYS


def test_tokens_per_step() -> None:
    config = TrainConfig(batch_size=3, seq_len=10, accumulate=4)
    assert config.tokens_per_step == 120
    values: dict[str, Any] = config.model_dump()
    assert TrainConfig(**values) == config
