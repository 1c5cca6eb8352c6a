"""Muon: momentum whose update is orthogonalised by a Newton-Schulz iteration.

Follows K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024):
B = lerp(B, g, 1 - mu); u = lerp(g, B, mu) (Nesterov); W = (1 - lr * decay) * W
- lr * sqrt(max(1, rows / columns)) * orthogonal(u). Matrices of one shape (a tall one counts as its
transpose) are stacked and iterated in one batched product, in float32, which at small widths costs
far less than one small product after the other. Embeddings, heads, norms and biases belong to AdamW
(optim.py).
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

QUINTIC = (3.4445, -4.7750, 2.0315)
EPSILON = 1e-7


def orthogonalize(x_NRC: Tensor, steps: int = 5) -> Tensor:
    """Push all singular values of each matrix towards 1 (into about 0.7 to 1.2).

    Args:
        x_NRC: stacked matrices with R <= C rows, float.
        steps: Newton-Schulz iterations of the quintic a*x + b*x^3 + c*x^5.
    Returns:
        A new tensor of the same shape. A zero matrix stays zero.
    """
    x_NRC = x_NRC / torch.linalg.matrix_norm(x_NRC, keepdim=True).clamp_min(EPSILON)
    _, rows, columns = x_NRC.shape
    return _by_gram(x_NRC, steps) if columns >= 2 * rows else _direct(x_NRC, steps)


def _direct(x_NRC: Tensor, steps: int) -> Tensor:
    a, b, c = QUINTIC
    for _ in range(steps):
        gram_NRR = torch.bmm(x_NRC, x_NRC.mT)
        poly_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, poly_NRR, x_NRC, beta=a)
    return x_NRC


def _by_gram(x_NRC: Tensor, steps: int) -> Tensor:
    """The same for wide matrices: every step is a symmetric R x R factor, which commutes with the
    others, so the wide matrix is needed only at both ends."""
    a, b, c = QUINTIC
    gram_NRR = torch.bmm(x_NRC, x_NRC.mT)
    total_NRR = None
    for step in range(steps):
        factor_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        factor_NRR.diagonal(dim1=1, dim2=2).add_(a)
        total_NRR = factor_NRR if total_NRR is None else torch.bmm(factor_NRR, total_NRR)
        if step + 1 < steps:
            gram_NRR = torch.bmm(torch.bmm(factor_NRR, gram_NRR), factor_NRR)
    return x_NRC if total_NRR is None else torch.bmm(total_NRR, x_NRC)


def _shares(names: list[str], count: int) -> list[list[str]]:
    size = -(-len(names) // count)
    return [names[start : start + size] for start in range(0, len(names), size)]


@dataclass
class _Stack:
    """Matrices that share one oriented shape, with their momentum as one tensor."""

    names: list[str]
    parameters: list[Parameter]
    momentum_NRC: Tensor

    def transposed(self, parameter: Parameter) -> bool:
        return parameter.shape[0] > parameter.shape[1]


class Muon:
    """Muon over named 2-D parameters.

    Args:
        named: name -> matrix; order decides nothing but the order of the state.
        weight_decay: decoupled decay.
        steps: Newton-Schulz iterations.
        shares: each stack is cut into so many (at most), to be updated at the same time.
    """

    def __init__(
        self,
        named: dict[str, Parameter],
        *,
        weight_decay: float = 0.0,
        steps: int = 5,
        shares: int = 1,
    ) -> None:
        self.weight_decay = weight_decay
        self.steps = steps
        groups: dict[tuple[int, int], list[str]] = {}
        for name, parameter in named.items():
            if parameter.ndim != 2:
                raise ValueError(f"Muon takes matrices, {name} has shape {tuple(parameter.shape)}")
            rows, columns = sorted(parameter.shape)
            groups.setdefault((rows, columns), []).append(name)
        self.stacks = [
            _Stack(
                names,
                [named[name] for name in names],
                torch.zeros(
                    len(names), *shape, device=named[names[0]].device, dtype=named[names[0]].dtype
                ),
            )
            for shape, group in groups.items()
            for names in _shares(group, shares)
        ]

    def step(self, lr: float, momentum: float, pool: Executor | None = None) -> None:
        """One update of every matrix; each must have a gradient.

        Args:
            pool: where stacks are updated at the same time; None: here, one after the other.
        """
        jobs = [(stack, lr, momentum) for stack in self.stacks]
        if pool is None:
            for job in jobs:
                self._update(*job)
        else:
            list(pool.map(lambda job: self._update(*job), jobs))

    @torch.no_grad()
    def _update(self, stack: _Stack, lr: float, momentum: float) -> None:
        grads = []
        for name, parameter in zip(stack.names, stack.parameters, strict=True):
            if parameter.grad is None:
                raise ValueError(f"{name} has no gradient")
            grads.append(parameter.grad.mT if stack.transposed(parameter) else parameter.grad)
        grad_NRC = torch.stack(grads)
        stack.momentum_NRC.lerp_(grad_NRC, 1 - momentum)
        grad_NRC.lerp_(stack.momentum_NRC, momentum)
        update_NRC = orthogonalize(grad_NRC, self.steps)
        for parameter, update_RC in zip(stack.parameters, update_NRC, strict=True):
            rows, columns = parameter.shape
            parameter.mul_(1 - lr * self.weight_decay)
            parameter.add_(
                update_RC.mT if stack.transposed(parameter) else update_RC,
                alpha=-lr * math.sqrt(max(1.0, rows / columns)),
            )

    def state_tensors(self) -> dict[str, Tensor]:
        """Momentum by parameter name, in the parameter's own orientation."""
        tensors = {}
        for stack in self.stacks:
            for index, (name, parameter) in enumerate(
                zip(stack.names, stack.parameters, strict=True)
            ):
                momentum_RC = stack.momentum_NRC[index]
                tensors[name] = momentum_RC.mT if stack.transposed(parameter) else momentum_RC
        return tensors
