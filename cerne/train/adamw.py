"""AdamW over named parameters (Loshchilov & Hutter 2019, arXiv:1711.05101).

One fused pass per step, the kernel of torch.optim.AdamW(fused=True), called directly: constructing
a torch.optim optimizer imports the compiler, seconds that a short run does not have. Decay is
decoupled and touches matrices only. Leaves out schedules.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter


class AdamW:
    """Moments are float tensors like the parameters; `step` counts updates, one for all.

    Args:
        named: name -> parameter.
        weight_decay: for parameters with two or more axes.
    """

    def __init__(
        self,
        named: dict[str, Parameter],
        *,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
    ) -> None:
        self.named = named
        self._beta1, self._beta2, self._eps = beta1, beta2, eps
        self._first = {n: torch.zeros_like(p, requires_grad=False) for n, p in named.items()}
        self._second = {n: torch.zeros_like(p, requires_grad=False) for n, p in named.items()}
        self._count = torch.zeros((), dtype=torch.int64)
        matrices = [n for n, p in named.items() if p.ndim >= 2]
        vectors = [n for n, p in named.items() if p.ndim < 2]
        self._groups = [(matrices, weight_decay), (vectors, 0.0)]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update; each parameter must have a gradient."""
        self._count += 1
        for names, decay in self._groups:
            if not names:
                continue
            parameters: list[Tensor] = [self.named[n] for n in names]
            count = self._count.to(parameters[0].device, torch.float32)
            torch._fused_adamw_(
                parameters,
                [_gradient(n, p) for n, p in zip(names, parameters, strict=True)],
                [self._first[n] for n in names],
                [self._second[n] for n in names],
                [],
                [count] * len(names),
                lr=lr,
                beta1=self._beta1,
                beta2=self._beta2,
                weight_decay=decay,
                eps=self._eps,
                amsgrad=False,
                maximize=False,
            )

    def state_tensors(self) -> dict[str, Tensor]:
        """The state by name: step, exp_avg.NAME, exp_avg_sq.NAME (the tensors themselves)."""
        return {
            "step": self._count,
            **{f"exp_avg.{n}": t for n, t in self._first.items()},
            **{f"exp_avg_sq.{n}": t for n, t in self._second.items()},
        }


def _gradient(name: str, parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise ValueError(f"{name} has no gradient")
    # The fused kernel pairs memory, not elements: a transposed gradient would be scrambled.
    same = parameter.grad.stride() == parameter.stride()
    return parameter.grad if same else torch.empty_like(parameter).copy_(parameter.grad)
