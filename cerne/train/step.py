"""One update: gradients of all micro-batches, the finite check, clipping, the optimizer.

The loss is summed cross-entropy divided once by the valid tokens of all micro-batches of all ranks,
so k micro-batches of any lengths give the gradient of one large batch. Clipping comes after the sum
over ranks. A non-finite loss or gradient stops before any weight changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cerne.errors import TrainingError
from cerne.train.config import TrainConfig
from cerne.train.distributed import Ranks
from cerne.train.objective import Objective, TrainBatch, seed_step
from cerne.train.optim import Optimizer
from cerne.train.schedule import lr_factor, momentum_at


@dataclass(frozen=True)
class StepResult:
    """What one update did, summed over ranks."""

    loss_sum: float
    tokens: int
    grad_norm: float
    lr: float


class NonFiniteError(TrainingError):
    """A loss or gradient was not finite; carries what to log. No weight has changed."""

    def __init__(self, step: int, tensor: str, result: StepResult) -> None:
        self.step, self.tensor, self.result = step, tensor, result
        super().__init__(
            f"non-finite {tensor} at step {step}; the update was not made and the weights are "
            "unchanged",
            value=result.loss_sum / result.tokens if tensor == "loss" else result.grad_norm,
            hint="resume from the last checkpoint with a lower train.lr, or look at the data",
        )


def update(
    step: int,
    batches: Sequence[TrainBatch],
    objective: Objective,
    optimizer: Optimizer,
    config: TrainConfig,
    ranks: Ranks,
    seed: int,
) -> StepResult:
    """Make update number `step` (0 is the first) from this rank's micro-batches.

    Raises:
        NonFiniteError: before anything changed. TrainingError: no token to train on.
    """
    tokens = int(ranks.sum_number(float(sum(batch.num_valid for batch in batches))))
    if tokens == 0:
        raise TrainingError(
            f"step {step + 1} has no token to train on", hint="check labels and seq_len"
        )
    optimizer.zero_grad()
    loss_sum = 0.0
    for micro, batch in enumerate(batches):
        seed_step(objective.device, seed, step, micro, ranks.rank)
        loss_sum += objective.backward(batch, 1.0 / tokens)
    loss_sum = ranks.sum_number(loss_sum)
    grads = _gradients(optimizer)
    ranks.sum_(list(grads.values()))
    norm = torch.nn.utils.get_total_norm(list(grads.values()))
    grad_norm = float(norm)
    factor = lr_factor(
        step,
        config.steps,
        schedule=config.schedule,
        warmup_fraction=config.warmup_fraction,
        decay_fraction=config.decay_fraction,
        final_factor=config.final_factor,
    )
    result = StepResult(loss_sum, tokens, grad_norm, config.lr * factor)
    if not math.isfinite(loss_sum):
        raise NonFiniteError(step + 1, "loss", result)
    if not math.isfinite(grad_norm):
        raise NonFiniteError(step + 1, _first_bad(grads), result)
    torch.nn.utils.clip_grads_with_norm_(optimizer.parameters, config.grad_clip, norm)
    momentum = momentum_at(step, final=config.muon_momentum, ramp_steps=config.muon_momentum_ramp)
    optimizer.step(factor, momentum)
    return result


def _gradients(optimizer: Optimizer) -> dict[str, Tensor]:
    grads = {}
    for name, parameter in optimizer.named.items():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        grads[name] = parameter.grad
    return grads


def _first_bad(grads: dict[str, Tensor]) -> str:
    for name, grad in grads.items():
        if not bool(torch.isfinite(grad).all()):
            return f"gradient of {name}"
    return "gradient norm"
