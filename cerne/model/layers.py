"""The parts of one decoder block: RMSNorm, attention with its projections, SwiGLU, and the block
itself.

    x -> input_layernorm -> q,k,v -> (q_norm,k_norm) -> rotate -> attend -> o_proj -> + x
      -> post_attention_layernorm -> silu(gate) * up -> down_proj -> + x

Sub-module names are Hugging Face's, so a state dict needs no renaming. In and out: [B, T, D].
Leaves out: the attention arithmetic (attention.py) and the stack (transformer.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cerne.model.attention import AttentionPath, attend
from cerne.model.cache import KVCache
from cerne.model.config import ModelConfig
from cerne.model.mask import AttentionMask
from cerne.model.rope import rotate


@dataclass
class BlockInputs:
    """What every block of one forward pass shares."""

    cos: Tensor  # [T, E/2] or [B, 1, T, E/2]
    sin: Tensor
    mask: AttentionMask
    path: AttentionPath
    cache: KVCache | None


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019,
    arXiv:1910.07467).
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[.., width] -> [.., width]; the mean is taken in at least float32, the dtype of `x` is
        kept.
        """
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight * normal).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query self-attention with rotary positions."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        self.window = config.window(layer)
        self.dropout = config.attention_dropout
        width, bias = config.hidden_size, config.attention_bias
        q_width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(width, q_width, bias=bias)
        self.k_proj = nn.Linear(width, kv_width, bias=bias)
        self.v_proj = nn.Linear(width, kv_width, bias=bias)
        self.o_proj = nn.Linear(q_width, width, bias=config.output_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.qk_norm = config.qk_norm

    def forward(self, x_BTD: Tensor, shared: BlockInputs) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        batch, tokens, _ = x_BTD.shape
        q_BTHE = self.q_proj(x_BTD).view(batch, tokens, -1, self.head_dim)
        k_BTKE = self.k_proj(x_BTD).view(batch, tokens, -1, self.head_dim)
        v_BKTE = self.v_proj(x_BTD).view(batch, tokens, -1, self.head_dim).transpose(1, 2)
        if self.qk_norm:
            q_BTHE, k_BTKE = self.q_norm(q_BTHE), self.k_norm(k_BTKE)
        q_BHTE = rotate(q_BTHE.transpose(1, 2), shared.cos, shared.sin)
        k_BKTE = rotate(k_BTKE.transpose(1, 2), shared.cos, shared.sin)
        if shared.cache is not None:
            k_BKSE, v_BKSE = shared.cache.update(self.layer, k_BKTE, v_BKTE)
            # The cache may be kept in another dtype than the arithmetic.
            k_BKTE, v_BKTE = k_BKSE.to(q_BHTE.dtype), v_BKSE.to(q_BHTE.dtype)
        dropout = self.dropout if self.training else 0.0
        mixed_BHTE = attend(shared.path, q_BHTE, k_BKTE, v_BKTE, shared.mask, self.window, dropout)
        out_BTD: Tensor = self.o_proj(mixed_BHTE.transpose(1, 2).reshape(batch, tokens, -1))
        return out_BTD


class MLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)) (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, hidden, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(width, hidden, bias=bias)
        self.up_proj = nn.Linear(width, hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, width, bias=bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        out_BTD: Tensor = self.down_proj(F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD))
        return out_BTD


class Block(nn.Module):
    """One decoder layer: attention and MLP, each behind a norm and added to the stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.dropout = config.dropout

    def forward(self, x_BTD: Tensor, shared: BlockInputs) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        x_BTD = x_BTD + self._drop(self.self_attn(self.input_layernorm(x_BTD), shared))
        return x_BTD + self._drop(self.mlp(self.post_attention_layernorm(x_BTD)))

    def _drop(self, x_BTD: Tensor) -> Tensor:
        return F.dropout(x_BTD, self.dropout) if self.training and self.dropout > 0.0 else x_BTD
