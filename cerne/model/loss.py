"""Log-probabilities of labels and their sum: the one place where logits become a training signal.

In: hidden states [B, T, D] of `Transformer` and labels [B, T] that are ALREADY SHIFTED (the label
    at t is the token after position t, or `IGNORE`). Out: float32 log-probabilities, or the summed
    cross-entropy with its count. Positions are taken in chunks, so the B x T x V logits never exist
    at once, and ignored positions cost nothing. Leaves out: averaging, which needs the count over
    all micro-batches and belongs to the trainer.

Both functions run eagerly (they skip ignored rows, a data-dependent shape): compile the model's
forward pass, not the loss.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORE = -100
# Logits of one chunk: large enough that small problems are one chunk, small beside the weights of
# large ones. Narrow chunks are slower, because each adds into the whole weight gradient.
CHUNK_BYTES = 1 << 27


class HasHead(Protocol):
    """What the loss needs of a model: the [V, D] matrix of its output projection."""

    @property
    def output_weight(self) -> Tensor:
        """The [V, D] matrix."""


def token_logprobs(
    model: HasHead, hidden_BTD: Tensor, labels_BT: Tensor, chunk_tokens: int | None = None
) -> Tensor:
    """Log-probability of every label, float32 [B, T] (float64 for a float64 model); 0 at `IGNORE`.

    Differentiable with any upstream gradient; the backward pass computes each chunk's logits again.
    """
    chunk = chunk_rows(model.output_weight) if chunk_tokens is None else chunk_tokens
    flat_N = labels_BT.reshape(-1)
    where_M = _valid(flat_N)
    hidden_ND = hidden_BTD.reshape(-1, hidden_BTD.shape[-1])
    if where_M is None:
        logprobs_N: Tensor = _Logprobs.apply(hidden_ND, model.output_weight, flat_N, chunk)
        return logprobs_N.view(labels_BT.shape)
    logprobs_M = _Logprobs.apply(hidden_ND[where_M], model.output_weight, flat_N[where_M], chunk)
    zeros_N = torch.zeros(flat_N.shape, dtype=logprobs_M.dtype, device=flat_N.device)
    return zeros_N.index_put((where_M,), logprobs_M).view(labels_BT.shape)


def cross_entropy_sum(
    model: HasHead, hidden_BTD: Tensor, labels_BT: Tensor, chunk_tokens: int | None = None
) -> tuple[Tensor, int]:
    """Sum of -log p(label) in nats over labels that are not `IGNORE`, and how many there are.

    Equal to ``-token_logprobs(...).sum()``. Gradients are formed chunk by chunk in the forward
    pass, while the logits are at hand, so nothing is computed twice. A batch that is all `IGNORE`
    gives 0 with zero gradients.
    """
    chunk = chunk_rows(model.output_weight) if chunk_tokens is None else chunk_tokens
    flat_N = labels_BT.reshape(-1)
    where_M = _valid(flat_N)
    hidden_ND = hidden_BTD.reshape(-1, hidden_BTD.shape[-1])
    if where_M is not None:
        hidden_ND, flat_N = hidden_ND[where_M], flat_N[where_M]
    loss = _CrossEntropySum.apply(hidden_ND, model.output_weight, flat_N, chunk)
    return loss, flat_N.numel()


def chunk_rows(weight_VD: Tensor) -> int:
    """Rows of one chunk: as many as fit CHUNK_BYTES in float32, at least 256."""
    return max(256, CHUNK_BYTES // (4 * weight_VD.shape[0]))


def _valid(labels_N: Tensor) -> Tensor | None:
    """Indices of labels that count, or None when all do."""
    keep_N = labels_N != IGNORE
    return None if bool(keep_N.all()) else torch.nonzero(keep_N).squeeze(1)


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """The dtype of the matrix products: autocast's when it is on."""
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def _log_softmax(hidden_CD: Tensor, weight_VD: Tensor) -> Tensor:
    """Log-probabilities [C, V] of one chunk, in at least float32."""
    logits_CV = torch.mm(hidden_CD, weight_VD.t())
    wide = torch.promote_types(logits_CV.dtype, torch.float32)
    return torch.log_softmax(logits_CV, dim=-1, dtype=wide)


class _Logprobs(torch.autograd.Function):
    """log softmax(hidden @ weight^T)[label] for every row."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, chunk: int
    ) -> Tensor:
        dtype = _compute_dtype(hidden_ND)
        ctx.save_for_backward(hidden_ND, weight_VD, labels_N)
        ctx.chunk, ctx.dtype = chunk, dtype
        with torch.autocast(hidden_ND.device.type, enabled=False):
            rows_ND, columns_VD = hidden_ND.to(dtype), weight_VD.to(dtype)
            parts = [
                _log_softmax(rows_CD, columns_VD).gather(1, labels_C[:, None]).squeeze(1)
                for rows_CD, labels_C in zip(
                    rows_ND.split(chunk), labels_N.split(chunk), strict=True
                )
            ]
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor | None, ...]:
        hidden_ND, weight_VD, labels_N = ctx.saved_tensors
        sums = _GradientSums(hidden_ND, weight_VD, ctx.dtype)
        for start in range(0, labels_N.numel(), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            log_CV = _log_softmax(sums.rows_ND[rows], sums.columns_VD)
            sums.add(rows, log_CV, labels_N[rows], grad_N[rows, None])
        return (*sums.result(hidden_ND, weight_VD), None, None)


class _CrossEntropySum(torch.autograd.Function):
    """Sum over rows of -log softmax(hidden @ weight^T)[label]."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, chunk: int
    ) -> Tensor:
        needed = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        dtype = _compute_dtype(hidden_ND)
        total = torch.zeros((), dtype=torch.float64, device=hidden_ND.device)
        with torch.autocast(hidden_ND.device.type, enabled=False):
            sums = _GradientSums(hidden_ND, weight_VD, dtype)
            for start in range(0, labels_N.numel(), chunk):
                rows = slice(start, start + chunk)
                log_CV = _log_softmax(sums.rows_ND[rows], sums.columns_VD)
                total -= log_CV.gather(1, labels_N[rows, None]).sum(dtype=torch.float64)
                if needed:
                    sums.add(rows, log_CV, labels_N[rows], None)
            if needed:
                ctx.save_for_backward(*sums.result(hidden_ND, weight_VD))
        return total.to(torch.promote_types(hidden_ND.dtype, torch.float32))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden_ND, grad_weight_VD = ctx.saved_tensors
        return (
            grad_hidden_ND * grad.to(grad_hidden_ND.dtype),
            grad_weight_VD * grad.to(grad_weight_VD.dtype),
            None,
            None,
        )


class _GradientSums:
    """Collects the gradients of hidden and weight over chunks of rows."""

    def __init__(self, hidden_ND: Tensor, weight_VD: Tensor, dtype: torch.dtype) -> None:
        self.rows_ND, self.columns_VD = hidden_ND.to(dtype), weight_VD.to(dtype)
        self.grads_ND: list[Tensor] = []
        self.grad_weight_VD: Tensor | None = None

    def add(self, rows: slice, log_CV: Tensor, labels_C: Tensor, grad_C1: Tensor | None) -> None:
        """Add one chunk. `log_CV` is overwritten; `grad_C1` None means -1 for every row (a
        loss).
        """
        slope_CV = log_CV.exp_()  # d(-log p)/d(logits) = softmax - onehot
        slope_CV.scatter_add_(1, labels_C[:, None], torch.full_like(slope_CV[:, :1], -1.0))
        if grad_C1 is not None:
            slope_CV.mul_(-grad_C1)
        slope_CV = slope_CV.to(self.columns_VD.dtype)
        self.grads_ND.append(torch.mm(slope_CV, self.columns_VD))
        rows_CD = self.rows_ND[rows]
        if self.grad_weight_VD is None:
            # Sums over chunks are kept in float32 at least.
            part_VD = torch.mm(slope_CV.t(), rows_CD)
            self.grad_weight_VD = part_VD.to(torch.promote_types(part_VD.dtype, torch.float32))
        elif self.grad_weight_VD.dtype == slope_CV.dtype:
            self.grad_weight_VD.addmm_(slope_CV.t(), rows_CD)
        else:
            self.grad_weight_VD += torch.mm(slope_CV.t(), rows_CD)

    def result(self, hidden_ND: Tensor, weight_VD: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients in the dtypes of hidden and weight; zeros when there was no row."""
        if self.grad_weight_VD is None:
            return torch.zeros_like(hidden_ND), torch.zeros_like(weight_VD)
        grad_hidden_ND = self.grads_ND[0] if len(self.grads_ND) == 1 else torch.cat(self.grads_ND)
        return grad_hidden_ND.to(hidden_ND.dtype), self.grad_weight_VD.to(weight_VD.dtype)
