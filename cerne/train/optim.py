"""The optimizer of a training run: AdamW, or Muon for the matrices of the blocks + AdamW.

AdamW's decay is decoupled and touches matrices only (never norms or biases). State is read and
written as named tensors, so that a checkpoint holds it as safetensors. Frozen parameters take no
part. Leaves out schedules: the caller passes the learning-rate factor and the momentum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from cerne.errors import CheckpointError
from cerne.train.adamw import AdamW
from cerne.train.config import TrainConfig
from cerne.train.muon import Muon
from cerne.train.workers import core_pool


class Optimizer:
    """Updates named parameters in place from their gradients.

    Args:
        named_parameters: (name, parameter) pairs; those without requires_grad are left alone.
        config: optimizer, learning rates, betas, decays.
    """

    def __init__(
        self, named_parameters: Iterable[tuple[str, Parameter]], config: TrainConfig
    ) -> None:
        self.config = config
        self.named = {name: p for name, p in named_parameters if p.requires_grad}
        use_muon = config.optimizer == "muon"
        matrices = {n: p for n, p in self.named.items() if use_muon and is_block_matrix(n, p)}
        # Small matrices on several cores at once waste most of the time waiting for each other.
        self._pool = None
        count = torch.get_num_threads()
        if matrices and count > 1 and all(p.device.type == "cpu" for p in matrices.values()):
            self._pool = core_pool(count)
        self._muon = Muon(
            matrices,
            weight_decay=config.muon_weight_decay,
            shares=1 if self._pool is None else count,
        )
        self._adam = AdamW(
            {n: p for n, p in self.named.items() if n not in matrices},
            beta1=config.beta1,
            beta2=config.beta2,
            eps=config.eps,
            weight_decay=config.weight_decay,
        )

    @property
    def parameters(self) -> list[Parameter]:
        """Every parameter that is trained."""
        return list(self.named.values())

    def step(self, factor: float, momentum: float) -> None:
        """One update.

        Args:
            factor: multiplies the peak learning rates.
            momentum: of Muon.
        """
        self._adam.step(self.config.lr * factor)
        self._muon.step(self.config.muon_lr * factor, momentum, self._pool)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.named.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """The whole state as named tensors (views; copy before the next update)."""
        tensors = {f"adamw.{name}": value for name, value in self._adam.state_tensors().items()}
        momentum = self._muon.state_tensors()
        return tensors | {f"muon.momentum.{name}": value for name, value in momentum.items()}

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a state written from `state_tensors`.

        Raises:
            CheckpointError: a tensor is missing, unknown or of another shape or dtype.
        """
        own = self.state_tensors()
        odd = sorted(own.keys() ^ tensors.keys())
        if odd:
            raise CheckpointError(
                "the optimizer state is of another optimizer or model",
                value=f"{len(odd)} tensors differ, first {odd[0]}",
                hint="resume with the recipe of that run, or start anew with --init-from",
            )
        for name, value in own.items():
            saved = tensors[name]
            if saved.shape != value.shape or saved.dtype != value.dtype:
                raise CheckpointError(
                    f"optimizer tensor {name} has another form",
                    value=f"{tuple(saved.shape)} {saved.dtype}",
                    allowed=f"{tuple(value.shape)} {value.dtype}",
                )
            value.copy_(saved)


def is_block_matrix(name: str, parameter: Tensor) -> bool:
    """Whether Muon takes this parameter: a matrix inside a block, not an embedding or a head."""
    return parameter.ndim == 2 and ".layers." in name
