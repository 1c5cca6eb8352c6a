"""The loss of one micro-batch, forward and backward: autocast, compilation, checkpointing.

Input: a packed batch (numpy) and a weight; output: the summed cross-entropy, with gradients of
weight * sum added to the parameters. The model itself is never wrapped, so parameter names are the
same compiled or not. Randomness (dropout) is a function of (seed, step, micro-batch, rank).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cerne.model.attention import choose_path
from cerne.model.loss import cross_entropy_sum
from cerne.model.transformer import Transformer
from cerne.progress import say
from cerne.train.workers import MOST_PARAMETERS, Workers, chunk_rows

# Below this, compiling costs more than it saves.
COMPILE_WORTH_S = 120.0
# What one core does in an eager step; only decides whether to compile.
ASSUMED_FLOPS_PER_CORE = 50e9


class TrainBatch(Protocol):
    """What the trainer needs of a batch (cerne.data.packing.Batch): int64 arrays [B, T]."""

    @property
    def ids_BT(self) -> NDArray[np.int64]: ...

    @property
    def labels_BT(self) -> NDArray[np.int64]: ...

    @property
    def positions_BT(self) -> NDArray[np.int64]: ...

    @property
    def documents_BT(self) -> NDArray[np.int64]: ...

    @property
    def num_valid(self) -> int:
        """Labels that are trained on."""
        ...


Inputs = tuple[Tensor | None, ...]


class Objective:
    """Forward and backward of micro-batches.

    Args:
        model: the transformer; its parameters receive the gradients.
        device: where to compute.
        dtype: float32, or bfloat16 for autocast over float32 parameters.
        compiled: compile forward and backward (a notice and eager mode when that is impossible).
        checkpointing: recompute each block in the backward pass.
    """

    def __init__(
        self,
        model: Transformer,
        device: torch.device,
        dtype: torch.dtype,
        *,
        compiled: bool = False,
        checkpointing: bool = False,
    ) -> None:
        self.model, self.device, self.dtype = model, device, dtype
        self._layers = model.config.num_hidden_layers
        self.compiled = compiled and can_compile()
        model.gradient_checkpointing = checkpointing
        self._hidden: Callable[..., Tensor] = model.run
        if self.compiled:
            # The model itself stays as it is, so that state-dict keys do not change.
            # Random numbers from torch's own kernels: the compiler's are drawn one by one.
            options: dict[str, str | int | bool | Callable[..., object]] = {"fallback_random": True}
            self._hidden = torch.compile(model.run, dynamic=False, options=options)
        self._workers: Workers[Inputs] | None = None
        threads = torch.get_num_threads()
        small = sum(p.numel() for p in model.parameters()) <= MOST_PARAMETERS
        if device.type == "cpu" and threads > 1 and small and not checkpointing:
            config = model.config
            self._workers = Workers(
                threads,
                self._loss_sum,
                [p for p in model.parameters() if p.requires_grad],
                draws=max(config.dropout, config.attention_dropout) > 0,
            )

    def forward(self, batch: TrainBatch) -> Tensor:
        """The summed cross-entropy in nats of one micro-batch, a differentiable scalar."""
        return self._loss_sum(self._inputs(batch))

    def backward(self, batch: TrainBatch, weight: float) -> float:
        """Add the gradient of weight * (summed loss) to the parameters; return the summed loss."""
        rows = None if self._workers is None else self._rows(batch)
        if self._workers is not None and rows is not None:
            parts = [None if x is None else x.split(rows) for x in self._inputs(batch)]
            count = len(batch.ids_BT) // rows
            chunks = [tuple(None if p is None else p[i] for p in parts) for i in range(count)]
            return self._workers.add_gradients(chunks, weight)
        loss_sum = self.forward(batch)
        (loss_sum * weight).backward()
        return float(loss_sum.detach())

    def _rows(self, batch: TrainBatch) -> int | None:
        assert self._workers is not None
        return chunk_rows(batch.ids_BT.shape[0], batch.ids_BT.shape[1], self._workers.count)

    def _inputs(self, batch: TrainBatch) -> Inputs:
        """ids, labels, positions, documents; the last two None where plain causality is exact.

        Compiled matrix products take a mask anyway: one graph then serves every batch.
        """
        tokens = batch.ids_BT.shape[1]
        path = choose_path(self.model.attention_path, tokens, tokens, self.device)
        if is_plain(batch) and not (self.compiled and path == "blocks"):
            return self._tensor(batch.ids_BT), self._tensor(batch.labels_BT), None, None
        return (
            self._tensor(batch.ids_BT),
            self._tensor(batch.labels_BT),
            self._tensor(batch.positions_BT),
            self._tensor(batch.documents_BT),
        )

    def _loss_sum(self, inputs: Inputs) -> Tensor:
        ids_BT, labels_BT, positions_BT, documents_BT = inputs
        assert ids_BT is not None and labels_BT is not None
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.dtype == torch.bfloat16
        ):
            hidden_BTD = self._call(ids_BT, positions_BT, documents_BT)
            return cross_entropy_sum(self.model, hidden_BTD, labels_BT)[0]

    def _call(
        self, ids_BT: Tensor, positions_BT: Tensor | None, documents_BT: Tensor | None
    ) -> Tensor:
        shared = self.model.prepare(ids_BT, positions_BT, documents_BT)
        try:
            if self.compiled:
                # Built here: inside, the compiler would build the mask again in every layer.
                for window in {self.model.config.window(i) for i in range(self._layers)}:
                    shared.mask.bias(window)
            return self._hidden(ids_BT, shared)
        except Exception as error:
            if not self.compiled or not isinstance(error, _compile_errors()):
                raise
            reason = str(error).strip().splitlines()[0][:160]
            say(f"torch.compile failed, training goes on without it: {reason}")
            self.compiled, self._hidden = False, self.model.run
            return self.model.run(ids_BT, shared)

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def _compile_errors() -> tuple[type[BaseException], ...]:
    """What torch.compile raises when it cannot compile (imported late: it takes seconds)."""
    import torch._dynamo.exc
    import torch._inductor.exc

    names = ("InductorError", "CppCompileError", "InvalidCxxCompiler")
    found = [getattr(torch._inductor.exc, name, None) for name in names]
    return (torch._dynamo.exc.BackendCompilerFailed, *(e for e in found if isinstance(e, type)))


def is_plain(batch: TrainBatch) -> bool:
    """Whether each row is one document from position 0, so that plain causal attention is exact.

    Padding after the document is fine: it comes later and its labels are ignored.
    """
    documents_BT, positions_BT = batch.documents_BT, batch.positions_BT
    padding_BT = documents_BT < 0
    if (documents_BT > 0).any() or (padding_BT[:, :-1] & ~padding_BT[:, 1:]).any():
        return False
    arange_T = np.arange(documents_BT.shape[1])
    return bool((padding_BT | (positions_BT == arange_T)).all())


def can_compile() -> bool:
    """Whether torch.compile has the C++ compiler it needs on a CPU; says so when it has not."""
    candidates = [os.environ["CXX"]] if "CXX" in os.environ else ["g++", "clang++"]
    if any(shutil.which(name) for name in candidates):
        return True
    say(f"no C++ compiler ({', '.join(candidates)}): training goes on without torch.compile")
    return False


def worth_compiling(setting: str, expected_s: float, on_gpu: bool) -> bool:
    """The decision for train.compile = on | off | auto; auto: long runs on a CPU."""
    if setting != "auto":
        return setting == "on"
    return not on_gpu and expected_s > COMPILE_WORTH_S


def expected_seconds(training_flops: float, threads: int) -> float:
    """A rough length of eager training.

    Counted from floating-point operations, not measured, so that the same recipe on the same
    number of threads always makes the same choice.
    """
    return training_flops / (ASSUMED_FLOPS_PER_CORE * threads)


def seed_step(device: torch.device, seed: int, step: int, micro: int, rank: int) -> None:
    """Set torch's generators for one micro-batch, from counters alone.

    Nothing that draws random numbers between two steps (samples, hooks) can then change training,
    and a resumed run needs no generator state.
    """
    text = f"{seed}/{step}/{micro}/{rank}".encode("ascii")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(number)
