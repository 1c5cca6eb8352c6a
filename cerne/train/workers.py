"""Gradients of one batch by one thread per core, each on its own rows.

For small models two cores waste much of their time at the barriers inside every operation. Here
each worker thread computes whole forward and backward passes of cache-sized chunks of rows on one
core, and the gradients are added in worker order, so a result depends on the number of workers and
on nothing else. Dropout stays reproducible: a forward pass seeds the generator by its chunk while
it holds a lock (the backward passes draw nothing and run meanwhile).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

ChunkT = TypeVar("ChunkT")
# A chunk's activations should stay in a core's share of the cache.
CHUNK_TOKENS = 1024
# Each worker holds a gradient of its own; above this, memory is worth more than the speed.
MOST_PARAMETERS = 32_000_000


def chunk_rows(batch_size: int, seq_len: int, workers: int) -> int | None:
    """Rows of a chunk, or None when the batch gives the workers no equal share.

    The most rows that divide the batch into a multiple of `workers` chunks of at most CHUNK_TOKENS.
    """
    for rows in range(max(1, CHUNK_TOKENS // seq_len), 0, -1):
        if batch_size % (rows * workers) == 0:
            return rows
    return None


class Workers(Generic[ChunkT]):
    """A pool of `count` threads that compute with one core each.

    Args:
        count: number of workers.
        forward: chunk -> scalar loss to differentiate; called in a worker.
        parameters: what gradients are wanted of.
        draws: whether a forward pass draws random numbers.
    """

    def __init__(
        self,
        count: int,
        forward: Callable[[ChunkT], Tensor],
        parameters: Sequence[Parameter],
        draws: bool,
    ) -> None:
        self.count = count
        self._forward, self._parameters, self._draws = forward, list(parameters), draws
        self._lock = threading.Lock()
        self._pool = core_pool(count)
        self._warm = False

    def add_gradients(self, chunks: Sequence[ChunkT], weight: float) -> float:
        """Add the gradient of weight * (summed loss of all chunks); return the summed loss."""
        seed = torch.default_generator.initial_seed()
        if not self._warm:
            # One thread compiles; the others then find the result.
            self._pool.submit(self._work, chunks[:1], 1, 0, weight, seed).result()
            self._warm = True
        jobs = [
            self._pool.submit(
                self._work, chunks[index :: self.count], self.count, index, weight, seed
            )
            for index in range(min(self.count, len(chunks)))
        ]
        loss_sum = 0.0
        for job in jobs:
            part, grads = job.result()
            loss_sum += part
            for parameter, grad in zip(self._parameters, grads, strict=True):
                if parameter.grad is None:
                    parameter.grad = grad
                else:
                    parameter.grad.add_(grad)
        return loss_sum

    def _work(
        self, chunks: Sequence[ChunkT], stride: int, first: int, weight: float, seed: int
    ) -> tuple[float, list[Tensor]]:
        loss_sum = 0.0
        total: list[Tensor] = []
        for turn, chunk in enumerate(chunks):
            if self._draws:
                with self._lock:
                    torch.default_generator.manual_seed(seed + 1 + first + turn * stride)
                    loss = self._forward(chunk)
            else:
                loss = self._forward(chunk)
            grads = torch.autograd.grad(loss * weight, self._parameters)
            loss_sum += float(loss.detach())
            if total:
                torch._foreach_add_(total, list(grads))
            else:
                total = list(grads)
        return loss_sum, total


@functools.lru_cache(maxsize=8)
def core_pool(count: int) -> ThreadPoolExecutor:
    """`count` threads whose tensor operations use one core each; made once per count."""
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, initializer=_use_one_core)
    meeting = threading.Barrier(count)
    list(pool.map(lambda _: meeting.wait(), range(count)))
    # The last setting is the default of threads made later, so give it back.
    torch.set_num_threads(threads)
    return pool


def _use_one_core() -> None:
    # Asked first because a thread's first question would reset it to the process default.
    torch.get_num_threads()
    torch.set_num_threads(1)
