"""Names and initial values of the parameters."""

from __future__ import annotations

import math

import pytest
import torch
from model_tools import small_config

from cerne.model.presets import preset
from cerne.model.transformer import Transformer


def test_parameter_names_are_hugging_faces() -> None:
    names = set(Transformer(small_config(num_hidden_layers=1, architecture="qwen3")).state_dict())
    layer = "model.layers.0."
    assert names == {
        "model.embed_tokens.weight",
        "model.norm.weight",
        *(layer + f"self_attn.{n}_proj.weight" for n in "qkvo"),
        *(layer + f"self_attn.{n}_norm.weight" for n in "qk"),
        *(layer + f"mlp.{n}_proj.weight" for n in ("gate", "up", "down")),
        layer + "input_layernorm.weight",
        layer + "post_attention_layernorm.weight",
    }
    assert "lm_head.weight" in Transformer(small_config(tie_word_embeddings=False)).state_dict()


def test_initial_values_follow_the_table() -> None:
    model = Transformer(preset("nano", attention_bias=True), seed=3)
    std, writer = 0.02, 0.02 / math.sqrt(2 * 4)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert torch.equal(parameter, torch.zeros_like(parameter)), name
        elif parameter.ndim == 1:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            wanted = writer if name.endswith(("o_proj.weight", "down_proj.weight")) else std
            assert parameter.std().item() == pytest.approx(wanted, rel=0.05), name
            assert abs(parameter.mean().item()) < 5 * wanted / math.sqrt(parameter.numel()), name


def test_the_seed_decides_the_weights_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    first = Transformer(small_config(), seed=4).state_dict()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = Transformer(small_config(), seed=4).state_dict()
    other = Transformer(small_config(), seed=5).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
    assert torch.equal(state, torch.get_rng_state())


def test_first_loss_is_that_of_a_uniform_guess() -> None:
    from cerne.model.loss import cross_entropy_sum

    model = Transformer(preset("nano"), seed=0)
    ids = torch.randint(0, 2048, (2, 64), generator=torch.Generator().manual_seed(0))
    loss, count = cross_entropy_sum(model, model(ids), ids.roll(-1, 1))
    assert loss.item() / count == pytest.approx(math.log(2048), abs=0.1)
