"""The decoder-only transformer that everything in this project trains, tunes, evaluates and
exports.

In: token ids [B, T] (and optionally positions, documents, a cache). Out: final-normed hidden states
    [B, T, D]; `project` turns hidden states into float32 logits. Parameter names are Hugging
    Face's, so `state_dict()` is the content of ``model.safetensors``. Leaves out: the loss
    (loss.py) and files (hf.py).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cerne.errors import ModelError
from cerne.model.attention import AttentionPath
from cerne.model.cache import KVCache
from cerne.model.config import ModelConfig
from cerne.model.layers import Block, BlockInputs, RMSNorm
from cerne.model.mask import AttentionMask
from cerne.model.rope import RotaryTable


class Decoder(nn.Module):
    """Embedding, blocks and final norm: the part Hugging Face calls ``model``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Block(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Transformer(nn.Module):
    """A decoder-only language model.

    Run-time switches (not saved): `attention_path` chooses the attention kernel,
    `gradient_checkpointing` trades one more forward pass for not keeping activations.
    """

    def __init__(self, config: ModelConfig, seed: int | None = None) -> None:
        """Build and initialise; `seed` None draws from torch's global generator."""
        super().__init__()
        self.config = config
        device = torch.get_default_device()
        # Built without values first: torch's own initial values would be thrown away, and would
        # advance its global generator.
        with torch.device("meta"):
            self.model = Decoder(config)
            if not config.tie_word_embeddings:
                self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if device.type != "meta":
            self.to_empty(device=device)
        self.rope = RotaryTable(config)
        self.attention_path: AttentionPath = "auto"
        self.gradient_checkpointing = False
        self.generation_config: dict[str, Any] = {}
        if device.type != "meta":
            self.init_weights(seed)

    @property
    def output_weight(self) -> Tensor:
        """The [V, D] matrix of the output projection: the embedding's when tied."""
        return (
            self.model.embed_tokens.weight
            if self.config.tie_word_embeddings
            else self.lm_head.weight
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output_weight.device

    @torch.no_grad()
    def init_weights(self, seed: int | None = None) -> None:
        """Draw fresh weights, the same for the same seed.

        | parameter                              | distribution                               |
        |----------------------------------------|--------------------------------------------|
        | embed_tokens, lm_head                  | normal(0, initializer_range)               |
        | q_proj, k_proj, v_proj, gate, up       | normal(0, initializer_range)               |
        | o_proj, down_proj (write to the stream)| normal(0, initializer_range / sqrt(2 L))   |
        | norms (also q_norm, k_norm)            | 1                                          |
        | biases                                 | 0                                          |

        The smaller scale of the two writers keeps the variance of the residual stream independent
        of depth (Radford et al. 2019, GPT-2, section 2.3).
        """
        generator = None
        if seed is not None:
            generator = torch.Generator(device=self.device).manual_seed(seed)
        std = self.config.initializer_range
        writer_std = std / math.sqrt(2 * self.config.num_hidden_layers)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                nn.init.constant_(parameter, 0.0 if name.endswith("bias") else 1.0)
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.normal_(parameter, 0.0, writer_std, generator=generator)
            else:
                nn.init.normal_(parameter, 0.0, std, generator=generator)

    def forward(
        self,
        ids_BT: Tensor,
        positions_BT: Tensor | None = None,
        documents_BT: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Hidden states after the final norm, [B, T, D].

        Args:
            ids_BT: token ids, int64 [B, T].
            positions_BT: rotary positions, int64 [B, T]; None counts up from the cache's length
                (from 0 without).
                Every position must be below cache length + T.
            documents_BT: document numbers, int64 [B, T]; a token sees only its own document; -1 is
                padding.
            cache: keys and values of earlier positions; extended by this call.
        Raises:
            ModelError: T is 0, or longer than the model's context.
            EngineError: the cache is full.
        """
        shared = self.prepare(ids_BT, positions_BT, documents_BT, cache)
        hidden_BTD = self.run(ids_BT, shared)
        if cache is not None:
            cache.advance(ids_BT.shape[1])
        return hidden_BTD

    def run(self, ids_BT: Tensor, shared: BlockInputs) -> Tensor:
        """`forward` after `prepare`: the part that is worth compiling."""
        x_BTD = F.embedding(ids_BT, self.model.embed_tokens.weight)
        if self.training and self.config.dropout > 0.0:
            x_BTD = F.dropout(x_BTD, self.config.dropout)
        for block in self.model.layers:
            if self.gradient_checkpointing and self.training:
                x_BTD = checkpoint(block, x_BTD, shared, use_reentrant=False)
            else:
                x_BTD = block(x_BTD, shared)
        hidden_BTD: Tensor = self.model.norm(x_BTD)
        return hidden_BTD

    def project(self, hidden: Tensor) -> Tensor:
        """Logits [.., V] of hidden states [.., D]: float32 (float64 for a float64 model)."""
        logits = F.linear(hidden, self.output_weight)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def prepare(
        self,
        ids_BT: Tensor,
        positions_BT: Tensor | None = None,
        documents_BT: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> BlockInputs:
        """Rotation tables and mask, computed once for all layers; arguments as for `forward`."""
        tokens, device = ids_BT.shape[1], ids_BT.device
        past = self._check_length(tokens, cache)
        if positions_BT is None:
            cos, sin = self.rope(torch.arange(past, past + tokens, device=device), past + tokens)
        else:
            cos, sin = self.rope(positions_BT, past + tokens)
            cos, sin = cos[:, None], sin[:, None]
        key_documents_BS = documents_BT
        if cache is not None:
            key_documents_BS = cache.documents(documents_BT, tokens)
            if documents_BT is None and key_documents_BS is not None:
                documents_BT = torch.zeros_like(ids_BT)
        dtype = self.model.embed_tokens.weight.dtype
        wide = torch.promote_types(dtype, torch.float32)
        mask = AttentionMask(tokens, past, device, wide, documents_BT, key_documents_BS)
        return BlockInputs(cos.to(wide), sin.to(wide), mask, self.attention_path, cache)

    def _check_length(self, tokens: int, cache: KVCache | None) -> int:
        """Number of cached positions; raises when the row does not fit."""
        past = 0 if cache is None else cache.length
        limit = self.config.max_position_embeddings
        if tokens == 0:
            raise ModelError(
                "the model got a row without tokens", value=0, allowed="1 token or more"
            )
        if cache is not None:
            cache.require(tokens)
        elif tokens > limit and not self.rope.dynamic:
            raise ModelError(
                "the row is longer than the model's context",
                value=f"{tokens} tokens",
                allowed=f"at most max_position_embeddings={limit}",
                hint="shorten the text, or raise max_position_embeddings and set rope_scaling",
            )
        return past
