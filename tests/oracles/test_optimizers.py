"""The optimizer against torch's: AdamW to the last digits, Muon to bfloat16's, as torch rounds."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

from cerne.train.config import TrainConfig
from cerne.train.optim import Optimizer

SHAPES = {
    "model.embed_tokens.weight": (11, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.mlp.down_proj.weight": (8, 20),
    "model.layers.0.mlp.up_proj.weight": (20, 8),
    "model.layers.0.self_attn.q_proj.bias": (8,),
    "model.norm.weight": (8,),
}


def pair() -> tuple[dict[str, Parameter], dict[str, Parameter]]:
    generator = torch.Generator().manual_seed(0)
    values = {n: torch.randn(s, generator=generator) for n, s in SHAPES.items()}
    ours = {n: Parameter(v.clone()) for n, v in values.items()}
    theirs = {n: Parameter(v.clone()) for n, v in values.items()}
    return ours, theirs


def give_gradients(step: int, *sets: dict[str, Parameter]) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for name, shape in SHAPES.items():
        grad = torch.randn(shape, generator=generator)
        for parameters in sets:
            parameters[name].grad = grad.clone()


def test_adamw_equals_torch_with_decay_on_matrices_only() -> None:
    ours, theirs = pair()
    config = TrainConfig(lr=0.01, weight_decay=0.3, optimizer="adamw")
    optimizer = Optimizer(ours.items(), config)
    matrices = [p for p in theirs.values() if p.ndim == 2]
    vectors = [p for p in theirs.values() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": 0.3},
        {"params": vectors, "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    for step in range(5):
        give_gradients(step, ours, theirs)
        factor = 1.0 - 0.1 * step
        for group in reference.param_groups:
            group["lr"] = 0.01 * factor
        optimizer.step(factor, 0.0)
        reference.step()
    for name in SHAPES:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=1e-6)


def test_muon_equals_torch_on_block_matrices() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    ours, theirs = pair()
    config = TrainConfig(
        optimizer="muon", lr=0.01, muon_lr=0.05, muon_weight_decay=0.1, weight_decay=0.0
    )
    optimizer = Optimizer(ours.items(), config)
    blocks = [n for n in SHAPES if ".layers." in n and len(SHAPES[n]) == 2]
    muon = torch.optim.Muon([theirs[n] for n in blocks], lr=0.05, momentum=0.95, weight_decay=0.1)
    rest = [p for n, p in theirs.items() if n not in blocks]
    adam = torch.optim.AdamW(rest, lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(4):
        give_gradients(step, ours, theirs)
        optimizer.step(1.0, 0.95)
        muon.step()
        adam.step()
    for name in SHAPES:
        if name in blocks:
            # Four updates of about lr each; torch iterates in bfloat16 (3 digits).
            torch.testing.assert_close(ours[name], theirs[name], atol=0.004, rtol=0)
        else:
            torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=1e-6)
