"""Causal attention as matrix products over blocks of queries, with its own backward pass.

In: q [B, H, T, E], k and v [B, K, S, E], an additive bias [1 or B, 1, T, S] (causality included)
and for each block of queries the range of keys it may see. Out: [B, H, T, E]. Faster than torch's
fused kernel on CPUs at the lengths `attention.choose_path` names: a masked half is never
multiplied, and gradients are added in place instead of being padded with zeros block by block.
Keeps the weights of every block for the backward pass (about B*H*T*T/2 numbers), which is why long
rows go elsewhere. Leaves out: dropout on the weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Block = tuple[int, int, int, int]  # queries start:end see keys first:last


class BlockAttention(torch.autograd.Function):
    """softmax(q k^T * scale + bias) v over the listed blocks; float32 softmax at least."""

    @staticmethod
    def forward(
        ctx: Any,
        q_BHTE: Tensor,
        k_BKSE: Tensor,
        v_BKSE: Tensor,
        bias: Tensor | None,
        blocks: tuple[Block, ...],
        scale: float,
    ) -> Tensor:
        batch, heads, _, width = q_BHTE.shape
        k_NSE, v_NSE = k_BKSE.flatten(0, 1), v_BKSE.flatten(0, 1)
        q_BHTE = q_BHTE * scale
        mixed_BHTE = torch.empty_like(q_BHTE)
        weights: list[Tensor] = []
        for start, end, first, last in blocks:
            q_NRE = q_BHTE[:, :, start:end].reshape(k_NSE.shape[0], -1, width)
            scores = torch.bmm(q_NRE, k_NSE[:, first:last].transpose(1, 2))
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            scores = scores.view(batch, heads, end - start, last - first)
            if bias is not None:
                scores += bias[:, :, start:end, first:last]
            weights_NRS = (
                torch.softmax(scores, dim=-1).to(v_NSE.dtype).view(q_NRE.shape[0], -1, last - first)
            )
            mixed = torch.bmm(weights_NRS, v_NSE[:, first:last])
            mixed_BHTE[:, :, start:end] = mixed.view(batch, heads, end - start, width)
            weights.append(weights_NRS)
        ctx.save_for_backward(q_BHTE, k_NSE, v_NSE, *weights)
        ctx.blocks, ctx.scale, ctx.kv_shape = blocks, scale, k_BKSE.shape
        return mixed_BHTE

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHTE: Tensor) -> tuple[Tensor | None, ...]:
        q_BHTE, k_NSE, v_NSE, *weights = ctx.saved_tensors
        batch, heads, _, width = q_BHTE.shape
        grad_q, grad_k, grad_v = (
            torch.empty_like(q_BHTE),
            torch.zeros_like(k_NSE),
            torch.zeros_like(v_NSE),
        )
        for (start, end, first, last), weights_NRS in zip(ctx.blocks, weights, strict=True):
            grad_NRE = grad_BHTE[:, :, start:end].reshape(k_NSE.shape[0], -1, width)
            grad_v[:, first:last] += torch.bmm(weights_NRS.transpose(1, 2), grad_NRE)
            grad_weights = torch.bmm(grad_NRE, v_NSE[:, first:last].transpose(1, 2))
            wide = torch.promote_types(grad_weights.dtype, torch.float32)
            grad_scores = torch.ops.aten._softmax_backward_data(
                grad_weights.to(wide), weights_NRS.to(wide), -1, wide
            ).to(q_BHTE.dtype)
            grad_q[:, :, start:end] = torch.bmm(grad_scores, k_NSE[:, first:last]).view(
                batch, heads, end - start, width
            )
            q_NRE = q_BHTE[:, :, start:end].reshape(k_NSE.shape[0], -1, width)
            grad_k[:, first:last] += torch.bmm(grad_scores.transpose(1, 2), q_NRE)
        shape = ctx.kv_shape
        return grad_q * ctx.scale, grad_k.view(shape), grad_v.view(shape), None, None, None
