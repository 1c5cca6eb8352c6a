"""Key/value memory for sequences of different lengths, behind the model's cache interface.

Each sequence owns a row; position p of a sequence lies at index p of its row, so rows are compared
and copied without offsets. One forward pass reads and writes the selected rows: either new tokens
of one row, or one token of each of several rows. Shorter rows are masked through the model's
document numbers: a key past a row's end has document -1. Leaves out: which row belongs to whom
(torch_engine.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cerne.model.cache import KVCache
from cerne.model.config import ModelConfig


class RowCache(KVCache):
    """A `KVCache` whose rows have lengths of their own; call `select` before each forward pass."""

    def __init__(
        self,
        config: ModelConfig,
        rows: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(config, rows, capacity, dtype, device)
        self.lengths = [0] * rows
        self._rows: list[int] = []
        self._index_N: Tensor | None = None
        self._ends_N: Tensor | None = None

    def select(self, rows: Sequence[int]) -> Tensor | None:
        """Choose the rows of the next forward pass; positions [N, 1] if lengths differ."""
        self._rows = list(rows)
        lengths = [self.lengths[row] for row in self._rows]
        self.length = max(lengths)
        device = self.keys[0].device
        in_order = self._rows == list(range(self._rows[0], self._rows[0] + len(self._rows)))
        ragged = min(lengths) != self.length
        self._index_N = None if in_order and not ragged else torch.tensor(rows, device=device)
        self._in_order = in_order
        self._ends_N = torch.tensor(lengths, device=device) if ragged else None
        return None if self._ends_N is None else self._ends_N[:, None]

    def update(self, layer: int, k_BKTE: Tensor, v_BKTE: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions of the selected rows; their k and v, [N, K, longest, E]."""
        end = self.length + k_BKTE.shape[2]
        return (
            self._write_and_read(self.keys[layer], k_BKTE, end),
            self._write_and_read(self.values[layer], v_BKTE, end),
        )

    def _write_and_read(self, memory: Tensor, new_NKTE: Tensor, end: int) -> Tensor:
        if self._ends_N is not None:
            memory[self._index_N, :, self._ends_N] = new_NKTE[:, :, 0]
        elif self._index_N is not None:
            memory[self._index_N, :, self.length : end] = new_NKTE
        else:
            first = self._rows[0]
            memory[first : first + len(self._rows), :, self.length : end] = new_NKTE
        if self._in_order:
            first = self._rows[0]
            return memory[first : first + len(self._rows), :, :end]
        assert self._index_N is not None
        return memory[:, :, :end].index_select(0, self._index_N)

    def documents(self, documents_BT: Tensor | None, new: int) -> Tensor | None:
        """Documents of all keys [N, longest]: 0 in a row, -1 past its end; None if all equal."""
        if self._ends_N is None:
            return None
        past_end = (
            torch.arange(self.length + new, device=self._ends_N.device) > self._ends_N[:, None]
        )
        return -past_end.to(torch.int64)

    def advance(self, new: int) -> None:
        """Count the new positions of the selected rows."""
        for row in self._rows:
            self.lengths[row] += new

    def copy_row(self, source: int, target: int) -> None:
        """Make row `target` equal to row `source`."""
        end = self.lengths[source]
        for memory in (*self.keys, *self.values):
            memory[target, :, :end] = memory[source, :, :end]
        self.lengths[target] = end
