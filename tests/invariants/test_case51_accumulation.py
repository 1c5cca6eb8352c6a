"""Cases 10, 25, 51 to 54: accumulation, non-finite numbers, clipping order; case 12: memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_tools import (
    ListLoader,
    ragged_batch,
    tiny_model,
    train_config,
    trainer_in,
    weights_digest,
)

from cerne.data.packing import Batch
from cerne.errors import TrainingError
from cerne.runs import RunDirectory
from cerne.train.distributed import Ranks
from cerne.train.objective import Objective
from cerne.train.optim import Optimizer
from cerne.train.step import NonFiniteError, update

CPU = torch.device("cpu")
LENGTHS = [16, 1, 5, 0, 16, 9, 3, 2]


def joined(batches: list[Batch]) -> Batch:
    fields = ("ids_BT", "labels_BT", "positions_BT", "documents_BT")
    return Batch(*(np.concatenate([getattr(b, name) for b in batches]) for name in fields))


def gradients(batches: list[Batch]) -> tuple[dict[str, torch.Tensor], float]:
    """Gradients of one update before clipping changes them, in float64."""
    model = tiny_model(dropout=0.0).double()
    config = train_config(grad_clip=1e9, lr=1e-9)
    optimizer = Optimizer(model.named_parameters(), config)
    objective = Objective(model, CPU, torch.float32)
    result = update(0, batches, objective, optimizer, config, Ranks(), 0)
    return {n: p.grad for n, p in optimizer.named.items()}, result.loss_sum / result.tokens


@pytest.mark.parametrize("sizes", [[2, 2, 2, 2], [4, 4], [1] * 8, [5, 3], [7, 1]])
def test_case51_accumulating_ragged_batches_equals_one_batch(sizes: list[int]) -> None:
    """The last window of [5, 3] and [7, 1] is partial; one row has no label at all."""
    rows = [ragged_batch([length], 16, seed) for seed, length in enumerate(LENGTHS)]
    parts, at = [], 0
    for size in sizes:
        parts.append(joined(rows[at : at + size]))
        at += size
    whole, whole_loss = gradients([joined(rows)])
    split, split_loss = gradients(parts)
    assert split_loss == pytest.approx(whole_loss, abs=1e-6)
    for name, grad in whole.items():
        assert float((grad - split[name]).abs().max()) < 1e-6, name
        assert float(grad.abs().max()) > 0, name


def test_case25_an_update_is_one_step_whatever_the_accumulation(tmp_path: Path) -> None:
    loader = ListLoader([ragged_batch([16, 16], 16, seed) for seed in range(3)])
    result = trainer_in(tmp_path, train_config(steps=4, accumulate=3), loader=loader).train()
    assert result.step == 4
    assert loader.place == 12
    assert result.tokens == 4 * 3 * 32


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_case52_nonfinite_gradient_stops_before_the_update(tmp_path: Path, bad: float) -> None:
    trainer = trainer_in(tmp_path, train_config(steps=4))
    name = "model.layers.1.mlp.up_proj.weight"
    parameter = dict(trainer.model.named_parameters())[name]
    calls = 0

    def poison(grad: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls < 3:
            return grad
        digests.append(weights_digest(trainer.model))
        return torch.full_like(grad, bad)

    digests: list[str] = []
    parameter.register_hook(poison)
    with pytest.raises(NonFiniteError, match=rf"gradient of {name} at step 3.*unchanged"):
        trainer.train()
    assert weights_digest(trainer.model) == digests[0]
    moments = trainer.optimizer.state_tensors()
    assert all(bool(torch.isfinite(t).all()) for t in moments.values())
    assert int(moments["adamw.step"]) == 2


def test_case54_the_nan_is_logged(tmp_path: Path) -> None:
    model = tiny_model()
    trainer = trainer_in(tmp_path, model=model)
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    before = weights_digest(model)
    with pytest.raises(TrainingError, match="non-finite loss at step 1"):
        trainer.train()
    assert weights_digest(model) == before
    record = RunDirectory(tmp_path).read_metrics()[-1]
    assert record["loss"] == "nan"
    assert record["step"] == 1
    assert "non-finite loss at step 1" in record["stopped"]


def test_clipping_scales_the_whole_gradient_to_the_limit() -> None:
    batch = ragged_batch([16, 9], 16)
    free, _ = gradients([batch])
    norm = sum(float(g.double().square().sum()) for g in free.values()) ** 0.5
    model = tiny_model(dropout=0.0).double()
    config = train_config(grad_clip=norm / 4, lr=1e-9)
    optimizer = Optimizer(model.named_parameters(), config)
    result = update(0, [batch], Objective(model, CPU, torch.float32), optimizer, config, Ranks(), 0)
    assert result.grad_norm == pytest.approx(norm, rel=1e-5)
    for name, parameter in optimizer.named.items():
        torch.testing.assert_close(parameter.grad, free[name] / 4, rtol=1e-4, atol=1e-9)


def test_case12_memory_is_flat_over_200_steps(tmp_path: Path) -> None:
    sizes: list[int] = []
    trainer = trainer_in(tmp_path, train_config(steps=220, log_every=50))
    original: Any = trainer._update

    def watched() -> Any:
        with open("/proc/self/statm", encoding="ascii") as handle:
            sizes.append(int(handle.read().split()[1]) * resource.getpagesize())
        return original()

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    trainer._update = watched  # type: ignore[method-assign]
    trainer.train()
    assert max(sizes[20:]) - sizes[20] < 2 << 20
