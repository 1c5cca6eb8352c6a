"""Which parameter is updated by what, and the optimizer's state as named tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter
from train_tools import tiny_model, train_config

from cerne.errors import CheckpointError
from cerne.train.optim import Optimizer, is_block_matrix


def test_muon_takes_the_matrices_of_the_blocks_and_nothing_else() -> None:
    model = tiny_model(tie_word_embeddings=False)
    taken = {n for n, p in model.named_parameters() if is_block_matrix(n, p)}
    assert "model.layers.0.self_attn.q_proj.weight" in taken
    assert len(taken) == 2 * 7
    optimizer = Optimizer(model.named_parameters(), train_config(optimizer="muon"))
    keys = optimizer.state_tensors().keys()
    assert {k.split(".", 2)[2] for k in keys if k.startswith("muon.")} == taken
    assert "adamw.exp_avg.lm_head.weight" in keys
    assert "adamw.exp_avg.model.layers.1.input_layernorm.weight" in keys


def test_frozen_parameters_have_no_state_and_do_not_move() -> None:
    model = tiny_model()
    model.model.embed_tokens.weight.requires_grad_(False)
    before = model.model.embed_tokens.weight.clone()
    optimizer = Optimizer(model.named_parameters(), train_config())
    for parameter in optimizer.parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(1.0, 0.9)
    assert torch.equal(before, model.model.embed_tokens.weight)
    assert not any("embed_tokens" in key for key in optimizer.state_tensors())


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_state_round_trip_continues_bit_for_bit(kind: str) -> None:
    def steps(model: torch.nn.Module, optimizer: Optimizer, seeds: range) -> None:
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            for parameter in optimizer.parameters:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimizer.step(0.5, 0.9)

    config = train_config(optimizer=kind)
    whole = tiny_model()
    optimizer = Optimizer(whole.named_parameters(), config)
    steps(whole, optimizer, range(3))
    state = {k: v.clone() for k, v in optimizer.state_tensors().items()}
    weights = {k: v.clone() for k, v in whole.state_dict().items()}
    steps(whole, optimizer, range(3, 6))

    again = tiny_model(seed=9)
    again.load_state_dict(weights)
    second = Optimizer(again.named_parameters(), config)
    second.load_state_tensors(state)
    steps(again, second, range(3, 6))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_state_of_another_optimizer_or_shape_is_refused() -> None:
    model = tiny_model()
    adam = Optimizer(model.named_parameters(), train_config(optimizer="adamw"))
    muon = Optimizer(model.named_parameters(), train_config(optimizer="muon"))
    with pytest.raises(CheckpointError, match="another optimizer"):
        muon.load_state_tensors(adam.state_tensors())
    state = dict(adam.state_tensors())
    state["adamw.exp_avg.model.norm.weight"] = torch.zeros(3)
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight.*\(3,\).*\(16,\)"):
        adam.load_state_tensors(state)


def test_vectors_are_never_decayed() -> None:
    named = {"w.weight": Parameter(torch.ones(2, 2)), "w.bias": Parameter(torch.ones(2))}
    optimizer = Optimizer(named.items(), train_config(lr=0.1, weight_decay=1.0))
    for parameter in named.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(1.0, 0.0)
    torch.testing.assert_close(named["w.weight"].data, torch.full((2, 2), 0.9))
    assert torch.equal(named["w.bias"].data, torch.ones(2))


def test_a_transposed_gradient_is_not_scrambled() -> None:
    """The fused AdamW of torch reads gradients in memory order, whatever their strides say."""
    grad = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    moved = []
    for value in (grad, grad.t().contiguous().t()):
        parameter = Parameter(torch.ones(5, 3))
        parameter.grad = value
        Optimizer([("embed", parameter)], train_config()).step(1.0, 0.9)
        moved.append(parameter.detach())
    assert torch.equal(*moved)
