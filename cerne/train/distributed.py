"""Data parallel training: who this process is, and sums over all processes.

`torchrun --nproc-per-node N -m cerne pretrain ...` starts N processes; each reads its own part of
the data and gradients are summed in one flat all-reduce. Without torchrun there is one rank and
every call is free. Leaves out sharding of weights (FSDP) and overlap with the backward pass.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cerne.device import cpu_count
from cerne.errors import EnvironmentLack


@dataclass(frozen=True)
class Ranks:
    """This process's rank among `size` processes."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Add up each tensor over all ranks, in place, with one all-reduce."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat)
        offset = 0
        for tensor in tensors:
            tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
            offset += tensor.numel()

    def sum_number(self, value: float) -> float:
        """A number added up over all ranks (in float64)."""
        if self.size == 1:
            return value
        total = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(total)
        return float(total)

    def any_true(self, value: bool) -> bool:
        """Whether the value is true on at least one rank."""
        return self.sum_number(float(value)) > 0

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Give every rank the first rank's values."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def gather(self, value: Any) -> list[Any]:
        """Each rank's JSON-like value, by rank, on every rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def wait(self) -> None:
        """Return when every rank has come here."""
        self.sum_number(0.0)  # on the CPU: a barrier of nccl would need a GPU for every rank


def join_ranks() -> Ranks:
    """Join the process group that torchrun describes in the environment; alone without it.

    Raises:
        EnvironmentLack: torchrun's variables are there but torch has no distributed backend.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks()
    if not dist.is_available():
        raise EnvironmentLack("this torch has no distributed support", value=f"WORLD_SIZE={size}")
    if not dist.is_initialized():
        # Numbers and objects are summed on the CPU, gradients where they are.
        nccl = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if nccl else "gloo")
    return Ranks(dist.get_rank(), dist.get_world_size())


def fair_threads() -> int:
    """This process's share of the cores: torchrun starts LOCAL_WORLD_SIZE processes here."""
    return max(1, cpu_count() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def leave_ranks() -> None:
    """Leave the process group, if any."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
