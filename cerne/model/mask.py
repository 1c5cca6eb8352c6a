"""Who may look at whom: causal, same document, inside the window.

In: sizes, optional document numbers of queries and keys, optional sliding window. Out: an additive
    bias [1 or B, 1, T, S] (0 where allowed, -inf elsewhere) or None where plain causality says
    everything. Built once a forward pass and shared by all layers of the same window. Leaves out:
    the attention arithmetic (attention.py).

Padding has document -1. Padding sees padding, so its rows stay finite; its labels are IGNORE, so it
costs nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor


class AttentionMask:
    """The mask of one forward pass over `num_queries` T new positions after `past` cached ones (S =
    past + T keys).
    """

    def __init__(
        self,
        num_queries: int,
        past: int,
        device: torch.device,
        dtype: torch.dtype,
        query_documents_BT: Tensor | None = None,
        key_documents_BS: Tensor | None = None,
    ) -> None:
        self.num_queries = num_queries
        self.past = past
        self.num_keys = past + num_queries
        self.device = device
        self.dtype = dtype
        self.query_documents_BT = query_documents_BT
        self.key_documents_BS = key_documents_BS
        self._biases: dict[int | None, Tensor | None] = {}

    def is_plain_causal(self, window: int | None) -> bool:
        """True when causality alone decides: no documents, and no key older than the window."""
        return self.query_documents_BT is None and (window is None or window >= self.num_keys)

    def bias(self, window: int | None) -> Tensor | None:
        """Additive bias [1 or B, 1, T, S]; None when every query may see every key (one query,
        plain causal).
        """
        if window is not None and window >= self.num_keys:
            window = None
        if window not in self._biases:
            self._biases[window] = self._build(window)
        return self._biases[window]

    def _build(self, window: int | None) -> Tensor | None:
        if self.num_queries == 1 and self.is_plain_causal(window):
            return None
        query = torch.arange(self.past, self.num_keys, device=self.device)[:, None]
        key = torch.arange(self.num_keys, device=self.device)[None, :]
        allowed = key <= query
        if window is not None:
            allowed = allowed & (key > query - window)
        allowed = allowed[None, None]
        if self.query_documents_BT is not None and self.key_documents_BS is not None:
            same = (
                self.query_documents_BT[:, None, :, None] == self.key_documents_BS[:, None, None, :]
            )
            allowed = allowed & same
        blocked = torch.full((), float("-inf"), dtype=self.dtype, device=self.device)
        return torch.where(allowed, torch.zeros((), dtype=self.dtype, device=self.device), blocked)
