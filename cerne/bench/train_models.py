"""The training loops that `cerne bench train` compares, each a function that makes one update.

- cerne: cerne.train.step.update as `cerne pretrain` calls it.
- nanogpt-style: a GPT-2 decoder (LayerNorm, GELU, learned positions, tied head, no biases) with the
  plain fp32 loop of nanoGPT's CPU path, written from its public description.
- transformers: LlamaForCausalLM of the same shape with AdamW.
All see the same tokens, 16 rows of 256, clip to norm 1 and use AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cerne.data.packing import Batch
from cerne.errors import EnvironmentLack
from cerne.model.config import ModelConfig
from cerne.model.transformer import Transformer
from cerne.train.config import TrainConfig
from cerne.train.distributed import Ranks
from cerne.train.objective import Objective
from cerne.train.optim import Optimizer
from cerne.train.step import update

ROWS, TOKENS = 16, 256
SHAPES = {
    "micro": ModelConfig(
        vocab_size=2048, hidden_size=128, intermediate_size=352, num_hidden_layers=4,
        num_attention_heads=2, max_position_embeddings=1024,
    ),
    "tiny": ModelConfig(
        vocab_size=8192, hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
        num_attention_heads=8, max_position_embeddings=1024,
    ),
}  # fmt: skip
Step = Callable[[], None]


@dataclass(frozen=True)
class Contender:
    """One way to train.

    Attributes:
        build: shape -> a function that makes one update.
        allocator: whether its process gets the allocator settings of `cerne`.
        note: how it is set up, for the table's legend.
    """

    build: Callable[[ModelConfig], Step]
    allocator: bool
    note: str


def token_rows(shape: ModelConfig) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The same random tokens for all: int64 [ROWS, TOKENS + 1]."""
    return np.random.default_rng(0).integers(0, shape.vocab_size, (ROWS, TOKENS + 1))


def cerne_step(shape: ModelConfig, compiled: bool, dtype: torch.dtype = torch.float32) -> Step:
    """Our update: AdamW, workers per core where they pay, chunked loss."""
    rows = token_rows(shape)
    positions = np.broadcast_to(np.arange(TOKENS), (ROWS, TOKENS)).copy()
    batch = Batch(rows[:, :-1].copy(), rows[:, 1:].copy(), positions, np.zeros_like(positions))
    model = Transformer(shape, seed=0).train()
    config = TrainConfig(steps=1_000_000, batch_size=ROWS, seq_len=TOKENS, lr=1e-3)
    objective = Objective(model, torch.device("cpu"), dtype, compiled=compiled)
    optimizer = Optimizer(model.named_parameters(), config)
    count = iter(range(1_000_000))

    def step() -> None:
        update(next(count), [batch], objective, optimizer, config, Ranks(), 0)

    return step


def transformers_step(
    shape: ModelConfig, compiled: bool, dtype: torch.dtype = torch.float32, fused: bool = False
) -> Step:
    """transformers' Llama with torch's AdamW."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        raise EnvironmentLack(
            "transformers is not installed", hint="pip install 'cerne[bench]'"
        ) from None
    torch.manual_seed(0)
    fields = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
              "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
              "tie_word_embeddings")  # fmt: skip
    values = {name: getattr(shape, name) for name in fields}
    module = LlamaForCausalLM(LlamaConfig(**values, use_cache=False)).train()
    tokens = torch.from_numpy(token_rows(shape))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def loss() -> Tensor:
        logits = module(input_ids=inputs).logits
        return F.cross_entropy(logits.float().view(-1, shape.vocab_size), targets)

    return _plain_loop(module, torch.compile(loss, dynamic=False) if compiled else loss,
                       dtype, fused)  # fmt: skip


def nanogpt_step(shape: ModelConfig) -> Step:
    """A GPT-2 style model and the plain fp32 loop."""
    torch.manual_seed(0)
    module = Gpt(shape).train()
    tokens = torch.from_numpy(token_rows(shape))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def loss() -> Tensor:
        return F.cross_entropy(module(inputs).view(-1, shape.vocab_size), targets)

    return _plain_loop(module, loss, torch.float32, fused=False)


def _plain_loop(
    module: nn.Module, loss: Callable[[], Tensor], dtype: torch.dtype, fused: bool
) -> Step:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=fused)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class GptBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); fused q, k, v; 4 D wide GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width, bias=False)
        self.norm_2 = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        batch, tokens, width = x_BTD.shape
        parts = self.qkv(self.norm_1(x_BTD)).split(width, dim=2)
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        hidden: Tensor = self.down(F.gelu(self.up(self.norm_2(x_BTD))))
        return x_BTD + hidden


class Gpt(nn.Module):
    """Token and position embeddings, blocks, a norm, a head tied to the token embedding."""

    def __init__(self, shape: ModelConfig) -> None:
        super().__init__()
        width = shape.hidden_size
        self.tokens = nn.Embedding(shape.vocab_size, width)
        self.positions = nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList(
            GptBlock(width, shape.num_attention_heads) for _ in range(shape.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(width, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Logits [B, T, V]."""
        x_BTD = self.tokens(ids_BT) + self.positions.weight[: ids_BT.shape[1]]
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return F.linear(self.norm(x_BTD), self.tokens.weight)
