"""Grouped-query attention arithmetic, three ways with one result.

In: q [B, H, T, E], k and v [B, K, S, E] (H a multiple of K), an `AttentionMask`. Out: [B, H, T, E].
`plain` is the definition; `sdpa` is torch's fused kernel; `blocks` multiplies blocks of 128 queries
only with the keys they may see. Tests hold the three to each other. Leaves out: projections,
rotation and the cache (layers.py).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cerne.model.block_attention import BlockAttention
from cerne.model.mask import AttentionMask

AttentionPath = Literal["auto", "plain", "sdpa", "blocks"]

BLOCK_QUERIES = 128
# Measured on CPU: matrix products beat torch's fused kernel up to here, and lose above.
LONGEST_FOR_BLOCKS = 512


def choose_path(
    wanted: AttentionPath, num_queries: int, num_keys: int, device: torch.device
) -> AttentionPath:
    """The path for `auto`: on CPU `plain` for one query, `blocks` up to 512 keys, `sdpa` above;
    elsewhere `sdpa`.
    """
    if wanted != "auto":
        return wanted
    if device.type != "cpu":
        return "sdpa"
    if num_queries == 1:
        return "plain"
    return "blocks" if num_keys <= LONGEST_FOR_BLOCKS else "sdpa"


def attend(
    path: AttentionPath,
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    mask: AttentionMask,
    window: int | None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention by the named path ("auto" is resolved here); `dropout` acts on the weights."""
    path = choose_path(path, q_BHTE.shape[2], k_BKSE.shape[2], q_BHTE.device)
    if path == "sdpa":
        return _sdpa(q_BHTE, k_BKSE, v_BKSE, mask, window, dropout)
    if path == "blocks":
        return _blocks(q_BHTE, k_BKSE, v_BKSE, mask, window, dropout)
    return _plain(q_BHTE, k_BKSE, v_BKSE, mask.bias(window), dropout)


def _plain(
    q_BHTE: Tensor, k_BKSE: Tensor, v_BKSE: Tensor, bias: Tensor | None, dropout: float
) -> Tensor:
    """softmax(q k^T / sqrt(E) + bias) v, with the queries of one key/value head stacked as rows."""
    batch, heads, queries, width = q_BHTE.shape
    kv_heads, keys = k_BKSE.shape[1], k_BKSE.shape[2]
    rows = heads // kv_heads * queries
    q = q_BHTE.reshape(batch, kv_heads, rows, width)
    scores = torch.matmul(q * (1.0 / math.sqrt(width)), k_BKSE.transpose(2, 3))
    if bias is not None:
        scores = (scores.view(batch, heads, queries, keys) + bias).view(batch, kv_heads, rows, keys)
    weights = torch.softmax(
        scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)
    ).to(v_BKSE.dtype)
    if dropout > 0.0:
        weights = F.dropout(weights, dropout)
    return torch.matmul(weights, v_BKSE).view(batch, heads, queries, width)


def _blocks(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    mask: AttentionMask,
    window: int | None,
    dropout: float,
) -> Tensor:
    """Blocks of queries, each with the keys between its window's start and its own end."""
    if dropout > 0.0:
        return _plain(q_BHTE, k_BKSE, v_BKSE, mask.bias(window), dropout)
    blocks = []
    for start in range(0, mask.num_queries, BLOCK_QUERIES):
        end = min(start + BLOCK_QUERIES, mask.num_queries)
        first = 0 if window is None else max(0, mask.past + start - window + 1)
        blocks.append((start, end, first, mask.past + end))
    scale = 1.0 / math.sqrt(q_BHTE.shape[3])
    mixed: Tensor = BlockAttention.apply(
        q_BHTE, k_BKSE, v_BKSE, mask.bias(window), tuple(blocks), scale
    )
    return mixed


def _sdpa(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    mask: AttentionMask,
    window: int | None,
    dropout: float,
) -> Tensor:
    """torch's fused kernel; key/value heads are repeated, which keeps the flash kernel on every
    device.
    """
    groups = q_BHTE.shape[1] // k_BKSE.shape[1]
    if groups > 1:
        k_BKSE, v_BKSE = (
            k_BKSE.repeat_interleave(groups, dim=1),
            v_BKSE.repeat_interleave(groups, dim=1),
        )
    causal = mask.is_plain_causal(window) and mask.past == 0
    bias = None if causal else mask.bias(window)
    if bias is not None:
        bias = bias.to(q_BHTE.dtype)
    return F.scaled_dot_product_attention(
        q_BHTE,
        k_BKSE,
        v_BKSE,
        attn_mask=bias,
        dropout_p=dropout,
        is_causal=causal and mask.num_queries > 1,
    )
