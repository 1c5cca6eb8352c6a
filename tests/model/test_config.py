"""ModelConfig: accounting equals the built module, and wrong numbers are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_tools import random_ids, small_config, small_model
from torch.utils.flop_counter import FlopCounterMode

from cerne.config import build
from cerne.errors import ConfigError
from cerne.model.cache import KVCache
from cerne.model.config import ModelConfig
from cerne.model.loss import cross_entropy_sum
from cerne.model.presets import PRESETS, preset
from cerne.model.transformer import Transformer


def built_parameters(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())


@pytest.mark.parametrize("name", list(PRESETS))
@pytest.mark.parametrize("tied", [True, False])
def test_num_parameters_equals_the_built_module(name: str, tied: bool) -> None:
    config = preset(name, tie_word_embeddings=tied)
    assert config.num_parameters() == built_parameters(config)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("nano", 0.9e6, 1.1e6),
        ("micro", 1e6, 6e6),
        ("tiny", 23e6, 27e6),
        ("small", 112e6, 122e6),
        ("medium", 345e6, 375e6),
        ("large", 1.25e9, 1.36e9),
    ],
)
def test_presets_have_the_size_they_promise(name: str, low: float, high: float) -> None:
    assert low <= preset(name).num_parameters() <= high


@pytest.mark.parametrize("name", ["tiny", "small", "medium", "large"])
def test_case72_row_widths_are_multiples_of_256(name: str) -> None:
    config = preset(name)
    widths = (config.hidden_size, config.intermediate_size, config.vocab_size)
    assert [width % 256 for width in widths] == [0, 0, 0]
    assert config.num_attention_heads * config.head_dim % 256 == 0


@pytest.mark.parametrize(
    "overrides",
    [
        {"attention_bias": True, "mlp_bias": True},
        {"architecture": "mistral", "sliding_window": 5},
        {"architecture": "qwen2", "tie_word_embeddings": False},
        {"architecture": "qwen3", "attention_bias": True},
        {"num_key_value_heads": 1, "head_dim": 10},
    ],
)
def test_num_parameters_of_every_family(overrides: dict[str, Any]) -> None:
    config = small_config(**overrides)
    assert config.num_parameters() == built_parameters(config)


def test_flops_per_token_equal_counted_matrix_products() -> None:
    # One block of queries per row: nothing above the diagonal can be skipped, so compare with the
    # full square, and count the causal half by the formula.
    model = small_model(attention_bias=False)
    tokens = 32
    ids = random_ids(2, tokens)
    model.attention_path = "plain"
    counter = FlopCounterMode(display=False)
    with counter:
        loss, _ = cross_entropy_sum(model, model(ids), ids)
        loss.backward()
    config = model.config
    weights = config.flops_per_token(tokens) - 12 * 2 * 4 * 8 * config.mean_keys(tokens)
    assert config.mean_keys(tokens) == (tokens + 1) / 2
    assert counter.get_total_flops() == 2 * tokens * (weights + 12 * 2 * 4 * 8 * tokens)


def test_mean_keys_with_a_window() -> None:
    config = small_config(architecture="mistral", sliding_window=3)
    # Rows of 5: 1, 2, 3, 3, 3 keys.
    assert config.mean_keys(5) == pytest.approx(12 / 5)


def test_kv_bytes_per_token_equal_the_cache() -> None:
    config = small_config()
    cache = KVCache(config, batch=3, capacity=7, dtype=torch.float16)
    total = sum(t.numel() * t.element_size() for t in cache.keys + cache.values)
    assert config.kv_bytes_per_token(2) * 3 * 7 == total


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"num_key_value_heads": 3}, ["num_attention_heads=4", "num_key_value_heads=3", "1, 2, 4"]),
        ({"head_dim": 7}, ["head_dim", "7", "even"]),
        ({"architecture": "qwen3", "qk_norm": False}, ["qwen3", "qk_norm"]),
        ({"architecture": "qwen2", "attention_bias": False}, ["qwen2", "attention_bias"]),
        ({"sliding_window": 8}, ["llama", "sliding_window=8"]),
        ({"eos_token_id": 61}, ["eos_token_id", "61", "0 to 60"]),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, ["longrope", "yarn"]),
        ({"rope_scaling": {"rope_type": "linear"}}, ["linear", "missing ['factor']"]),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta": 1}}, ["unknown ['beta']"]),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, ["factor", "0.5", ">= 1.0"]),
        (
            {"architecture": "qwen2", "sliding_window": 4, "layer_types": ("full_attention",)},
            ["1 entries for 2 layers"],
        ),
    ],
)
def test_wrong_numbers_are_named(overrides: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        small_config(**overrides)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_unknown_key_names_the_nearest() -> None:
    fields = small_config().model_dump() | {"hiden_size": 3}
    with pytest.raises(ConfigError, match="hidden_size"):
        build(ModelConfig, fields)


def test_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"nano.*large"):
        preset("huge")
