"""Keys and values of the tokens already read, so that a new token costs one position of work.

In: rotated keys and values of new positions, layer by layer. Out: views over all positions so far.
    Capacity is fixed at construction; running past it is an `EngineError` with both numbers. Also
    remembers document numbers when a caller gives them (left padding of ragged batches). Leaves
    out: paging and prefix sharing, the engine's business.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cerne.errors import EngineError
from cerne.model.config import ModelConfig


class KVCache:
    """Fixed-capacity cache: per layer k and v [B, K, capacity, E]; `length` positions are
    filled.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not 0 < capacity <= config.max_position_embeddings:
            raise EngineError(
                "cache capacity is outside the model's context",
                value=capacity,
                allowed=f"1 to max_position_embeddings={config.max_position_embeddings}",
            )
        shape = (batch, config.num_key_value_heads, capacity, config.head_dim)
        self.capacity = capacity
        self.length = 0
        self.keys = [
            torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)
        ]
        self.values = [
            torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)
        ]
        self._documents_BS: Tensor | None = None

    @property
    def batch(self) -> int:
        """Number of rows B."""
        return self.keys[0].shape[0]

    def require(self, new: int) -> None:
        """Raise `EngineError` unless `new` more positions fit."""
        if self.length + new > self.capacity:
            raise EngineError(
                "the context is full",
                value=f"{self.length} cached + {new} new = {self.length + new} positions",
                allowed=f"at most {self.capacity}",
                hint="shorten the prompt, lower max_tokens, or use a model with a longer context",
            )

    def update(self, layer: int, k_BKTE: Tensor, v_BKTE: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions of one layer; returns k and v of all positions so far, [B, K, length
        + T, E].
        """
        end = self.length + k_BKTE.shape[2]
        self.keys[layer][:, :, self.length : end] = k_BKTE
        self.values[layer][:, :, self.length : end] = v_BKTE
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def documents(self, documents_BT: Tensor | None, new: int) -> Tensor | None:
        """Remember the new positions' documents; returns those of all positions [B, length + T],
        None if never given.
        """
        if documents_BT is None and self._documents_BS is None:
            return None
        if self._documents_BS is None:
            self._documents_BS = torch.zeros(
                self.batch, self.capacity, dtype=torch.int64, device=self.keys[0].device
            )
        end = self.length + new
        # Positions without a number continue document 0.
        self._documents_BS[:, self.length : end] = 0 if documents_BT is None else documents_BT
        return self._documents_BS[:, :end]

    def advance(self, new: int) -> None:
        """Count `new` positions as filled, after every layer has written them."""
        self.length += new

    def truncate(self, length: int) -> None:
        """Forget everything from position `length` on."""
        if not 0 <= length <= self.length:
            raise EngineError(
                "cannot truncate the cache there", value=length, allowed=f"0 to {self.length}"
            )
        self.length = length

    def select_rows(self, rows: Tensor) -> None:
        """Make row i of the batch what row `rows[i]` was (beam search; may change the batch
        size).
        """
        self.keys = [keys.index_select(0, rows) for keys in self.keys]
        self.values = [values.index_select(0, rows) for values in self.values]
        if self._documents_BS is not None:
            self._documents_BS = self._documents_BS.index_select(0, rows)
