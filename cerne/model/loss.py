"""Log-probabilities of labels and their sum: the one place where logits become a training signal.

In: hidden states [B, T, D] of `Transformer` and labels [B, T] that are ALREADY SHIFTED (the label at t is the token
after position t, or `IGNORE`). Out: float32 log-probabilities, or the summed cross-entropy with its count.
The B x T x V logits never exist at once: positions are taken in chunks. Leaves out: averaging, which needs the
count over all micro-batches and belongs to the trainer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cerne.model.transformer import Transformer

IGNORE = -100


class _ChunkedLogprobs(torch.autograd.Function):
    """log softmax(hidden @ weight^T)[label] chunk by chunk; the backward pass recomputes each chunk's logits."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, chunk: int
    ) -> Tensor:
        logprobs_N = torch.empty(labels_N.shape, dtype=torch.float32, device=hidden_ND.device)
        for start in range(0, labels_N.numel(), chunk):
            rows = slice(start, start + chunk)
            log_NV = torch.log_softmax(_logits(hidden_ND[rows], weight_VD), dim=-1)
            logprobs_N[rows] = log_NV.gather(1, labels_N[rows, None]).squeeze(1)
        ctx.save_for_backward(hidden_ND, weight_VD, labels_N)
        ctx.chunk = chunk
        return logprobs_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_ND, weight_VD, labels_N = ctx.saved_tensors
        grad_hidden_ND, grad_weight_VD = torch.empty_like(hidden_ND), torch.zeros_like(weight_VD)
        for start in range(0, labels_N.numel(), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            grad_NV = torch.softmax(_logits(hidden_ND[rows], weight_VD), dim=-1).mul_(
                -grad_N[rows, None]
            )
            grad_NV.scatter_add_(1, labels_N[rows, None], grad_N[rows, None].to(grad_NV.dtype))
            grad_NV = grad_NV.to(hidden_ND.dtype)
            torch.mm(grad_NV, weight_VD.to(hidden_ND.dtype), out=grad_hidden_ND[rows])
            grad_weight_VD.addmm_(
                grad_NV.t().to(weight_VD.dtype), hidden_ND[rows].to(weight_VD.dtype)
            )
        return grad_hidden_ND, grad_weight_VD, None, None


def _logits(hidden_ND: Tensor, weight_VD: Tensor) -> Tensor:
    logits_NV = F.linear(hidden_ND, weight_VD.to(hidden_ND.dtype))
    return logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()


def token_logprobs(
    model: Transformer, hidden_BTD: Tensor, labels_BT: Tensor, chunk_tokens: int = 1024
) -> Tensor:
    """Log-probability of every label, float32 [B, T]; 0 where the label is `IGNORE`. Differentiable."""
    flat_N = labels_BT.reshape(-1)
    where_M = torch.nonzero(flat_N != IGNORE).squeeze(1)
    hidden_ND = hidden_BTD.reshape(-1, hidden_BTD.shape[-1])
    result_N = torch.zeros(flat_N.shape, dtype=torch.float32, device=hidden_BTD.device)
    if where_M.numel() == 0:
        return (result_N + 0.0 * hidden_ND.sum(-1)).view(labels_BT.shape)
    logprobs_M = _ChunkedLogprobs.apply(
        hidden_ND[where_M], model.output_weight, flat_N[where_M], chunk_tokens
    )
    return result_N.index_put((where_M,), logprobs_M).view(labels_BT.shape)


def cross_entropy_sum(
    model: Transformer, hidden_BTD: Tensor, labels_BT: Tensor
) -> tuple[Tensor, int]:
    """Sum of -log p(label) in nats over labels that are not `IGNORE`, and how many there are."""
    num_valid = int((labels_BT != IGNORE).sum())
    return -token_logprobs(model, hidden_BTD, labels_BT).sum(), num_valid
