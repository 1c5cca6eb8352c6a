"""Random small Llama, Mistral, Qwen2 and Qwen3 models: our logits are transformers', both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from model_tools import random_ids, small_model

from cerne.errors import InputError
from cerne.model.cache import KVCache
from cerne.model.hf import load_model, read_config, save_model
from cerne.model.hf_config import _IGNORED, config_from_hf, config_to_hf

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 5000.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 500_000.0,
}
LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}

# (model type, differences from SIZES)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    ("llama", {"num_key_value_heads": 1, "rope_parameters": LLAMA3, "rms_norm_eps": 1e-3}),
    ("llama", {"rope_parameters": YARN, "tie_word_embeddings": True}),
    ("llama", {"rope_parameters": LINEAR}),
    ("llama", {"rope_parameters": DYNAMIC, "max_position_embeddings": 20}),
    ("mistral", {"sliding_window": None}),
    ("mistral", {"sliding_window": 6, "head_dim": 16, "tie_word_embeddings": True}),
    ("mistral", {"sliding_window": 1, "num_key_value_heads": 1}),
    ("qwen2", {}),
    ("qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 4, "rope_parameters": YARN}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    ("qwen3", {"head_dim": 16}),
    ("qwen3", {"head_dim": 8, "attention_bias": True, "tie_word_embeddings": True}),
    (
        "qwen3",
        {
            "head_dim": 6,
            "use_sliding_window": True,
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
]
IDS = [f"{family}-{i}" for i, (family, _) in enumerate(CASES)]


def their_model(family: str, overrides: dict[str, Any]) -> Any:
    """A transformers model with values large enough to make every term count."""
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **overrides})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            centre = 1.0 if parameter.ndim == 1 else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize(("family", "overrides"), CASES, ids=IDS)
def test_logits_equal_both_ways(family: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    theirs = their_model(family, overrides)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    save_model(tmp_path / "ours", ours)
    again = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", attn_implementation="eager"
    ).eval()
    ids = random_ids(2, 47)
    with torch.no_grad():
        wanted = theirs(ids).logits
        for path in ("plain", "blocks", "sdpa"):
            ours.attention_path = path
            assert (ours.project(ours(ids)) - wanted).abs().max() < 1e-5
        assert (again(ids).logits - wanted).abs().max() < 1e-6
    for name, value in theirs.config.to_dict().items():
        if name not in ("architectures", "dtype", "transformers_version", "_name_or_path"):
            assert getattr(again.config, name) == value or _same(name, value, again.config), name


def _same(name: str, value: Any, config: Any) -> bool:
    """Fields that may be spelled out or meaningless: sizes derived, windows that no layer uses."""
    if name == "head_dim":
        return value is None
    if name == "max_window_layers":
        return bool(config.layer_types)
    return False


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_model_made_here_loads_in_transformers(family: str, tmp_path: Path) -> None:
    model = small_model(architecture=family, eos_token_id=(3, 5), pad_token_id=0)
    save_model(tmp_path, model)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = random_ids(2, 30)
    with torch.no_grad():
        assert (theirs(ids).logits - model.project(model(ids))).abs().max() < 1e-5
    assert theirs.config.eos_token_id == [3, 5]
    assert set(theirs.state_dict()) - {"lm_head.weight"} == set(model.state_dict())


def test_cached_steps_equal_transformers_generation(tmp_path: Path) -> None:
    theirs = their_model("qwen3", {"head_dim": 8})
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    ids = random_ids(1, 5)
    wanted = theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=20,
        do_sample=False,
        eos_token_id=-1,
    )
    cache = KVCache(ours.config, 1, 25)
    with torch.no_grad():
        new, row = ids, ids
        for _ in range(20):
            new = ours.project(ours(new, cache=cache)[:, -1:]).argmax(-1)
            row = torch.cat((row, new), 1)
    assert torch.equal(row, wanted)


def test_bfloat16_weights_are_at_least_as_exact_as_theirs(tmp_path: Path) -> None:
    theirs = their_model("llama", {}).to(torch.bfloat16)
    theirs.save_pretrained(tmp_path)
    ours, exact = load_model(tmp_path, dtype=None), load_model(tmp_path, dtype=torch.float64)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    ids = random_ids(4, 60)
    with torch.no_grad():
        wanted = exact.project(exact(ids))
        our_error = (ours.project(ours(ids)) - wanted).square().mean()
        their_error = (theirs(ids).logits - wanted).square().mean()
    assert 0 < our_error < 1.3 * their_error


def test_sharded_checkpoints_load(tmp_path: Path) -> None:
    theirs = their_model("llama", {})
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    ours = load_model(tmp_path)
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


def test_case73_every_field_of_every_family_is_read_fixed_or_ignored() -> None:
    """A changed field changes our configuration, is refused, or is on the list of reasons."""
    windows = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        extra = windows if family.startswith("qwen") else {}
        content = transformers.AutoConfig.for_model(family, **SIZES, **extra).to_dict()
        before = config_from_hf(content)
        for name, value in content.items():
            # max_window_layers only fills in layer_types, which is given here.
            if name in _IGNORED or name in ("model_type", "max_window_layers"):
                continue
            try:
                after = config_from_hf({**content, name: _other(name, value)})
            except InputError:
                continue
            assert after != before, (family, name)


def _other(name: str, value: Any) -> Any:
    if name == "rope_parameters":
        return {"rope_type": "default", "rope_theta": 77.0}
    if name == "layer_types":
        return ["sliding_attention"] * 3
    if name in ("sliding_window", "pad_token_id", "bos_token_id", "eos_token_id"):
        return 7
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 2 if value else 0.5
    return "other"


def test_case73_theta_in_every_spelling(tmp_path: Path) -> None:
    base = {"model_type": "llama", **SIZES}
    v4 = {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}
    v5 = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}}
    for spelling in (v4, v5):
        config = config_from_hf({**base, **spelling})
        assert config.rope_theta == 1e6
        assert config.rope_scaling is not None
        assert config.rope_scaling["factor"] == 2.0
        (tmp_path / "config.json").write_text(
            json.dumps(config_to_hf(config, "float32")), encoding="utf-8"
        )
        theirs = transformers.AutoConfig.from_pretrained(tmp_path)
        assert theirs.rope_parameters["rope_theta"] == 1e6
        assert theirs.rope_parameters["rope_type"] == "linear"
        assert theirs.rope_parameters["factor"] == 2.0
        assert read_config(tmp_path).rope_theta == 1e6
