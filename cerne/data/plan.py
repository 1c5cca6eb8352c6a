"""The plan of an epoch: which rows there are and in which order, from (seed, epoch) alone.

Spans are shuffled, taken in windows of WINDOW_SPANS, packed, and the rows of each window shuffled
again. A window is recomputed when it is needed, so a resumed run finds its row at once.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import numpy.typing as npt

from cerne.data.order import mix, shuffled
from cerne.data.packing import Rows, TokenStore, document_spans, pack_best_fit, pack_stream
from cerne.errors import DataError

Mode = Literal["auto", "best-fit", "stream"]
# Spans packed together; more would pack a little tighter and cost memory and time.
WINDOW_SPANS = 1 << 14


class Planner:
    """The rows of each (epoch, window), recomputed on demand; the last window is kept.

    Memory: 16 bytes a span plus 8 for the epoch's order.
    """

    def __init__(
        self, store: TokenStore, seq_len: int, seed: int, shuffle: bool, packing: Mode
    ) -> None:
        lengths = np.diff(store.offsets)
        self.num_pairs = int(np.maximum(lengths - 1, 0).sum())
        if self.num_pairs == 0:
            raise DataError(
                "the data hold nothing to learn: no document has two tokens",
                value=f"{len(lengths)} documents, {store.num_tokens} tokens",
            )
        if packing == "auto":
            packing = "stream" if store.num_tokens > seq_len * len(lengths) else "best-fit"
        self.packing: Mode = packing
        self._store, self._seq_len, self._seed, self._shuffle = store, seq_len, seed, shuffle
        self._cached: tuple[int, int] | None = None
        self._rows: Rows | None = None
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None
        self.num_windows = 1
        if packing == "best-fit":
            self._starts, self._stops = document_spans(store.offsets, seq_len)
            self.num_windows = -(-len(self._starts) // WINDOW_SPANS)
        key = f"{store.digest} {seq_len} {packing} {shuffle} {WINDOW_SPANS}"
        self.digest = hashlib.sha256(key.encode()).hexdigest()

    def rows(self, epoch: int, window: int) -> Rows:
        """The rows of one window in the order in which they are read."""
        if self._cached != (epoch, window) or self._rows is None:
            self._rows = self._plan(epoch, window)
            self._cached = (epoch, window)
        return self._rows

    def _plan(self, epoch: int, window: int) -> Rows:
        if self.packing == "stream":
            phase = mix(self._seed, epoch) % self._seq_len if self._shuffle else 0
            phase = min(phase, max(0, self._store.num_tokens - 2))
            rows = pack_stream(self._store.num_tokens, self._seq_len, phase)
        else:
            chosen = self._epoch_order(epoch)[window * WINDOW_SPANS : (window + 1) * WINDOW_SPANS]
            rows = pack_best_fit(self._starts[chosen], self._stops[chosen], self._seq_len)
        if self._shuffle:
            rows = rows.select(shuffled(rows.num_rows, self._seed, epoch, window + 1))
        return rows

    def _epoch_order(self, epoch: int) -> npt.NDArray[np.int64]:
        if not self._shuffle:
            return np.arange(len(self._starts))
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, shuffled(len(self._starts), self._seed, epoch, 0))
        return self._order[1]
