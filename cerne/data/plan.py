"""The plan of an epoch: which rows there are and in which order, from (seed, epoch) alone.

Spans are shuffled, taken in windows of WINDOW_SPANS, packed, and the rows of each window shuffled
again. A window is recomputed when it is needed, so a resumed run finds its row at once.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np

from cerne.data.order import hashed, mix, shuffled
from cerne.data.packing import Int64, Rows, TokenStore, document_spans, pack_best_fit, pack_stream
from cerne.errors import DataError

Mode = Literal["auto", "best-fit", "stream"]
# Spans packed together; more would pack a little tighter and cost memory and time.
WINDOW_SPANS = 1 << 14
_START_SALT = 1 << 40


class Planner:
    """The rows of each (epoch, window), recomputed on demand; the last window is kept.

    When shuffling documents whole, a random half of them begins with the start token in each epoch:
    the model learns both to begin a text and to go on from a bare prompt. Windows over a stream
    begin anywhere, so there every document may begin with it; unshuffled, all do.

    Memory: 32 bytes a span.
    """

    def __init__(
        self, store: TokenStore, seq_len: int, seed: int, shuffle: bool, packing: Mode
    ) -> None:
        lengths = np.diff(store.offsets)
        self._has_start = store.start_token_id is not None
        least = 1 if self._has_start else 2
        self.num_pairs = int((lengths - (least - 1))[lengths >= least].sum())
        if self.num_pairs == 0:
            raise DataError(
                f"the data hold nothing to learn: no document has {least} tokens",
                value=f"{len(lengths)} documents, {store.num_tokens} tokens",
            )
        if packing == "auto":
            packing = "stream" if store.num_tokens > seq_len * len(lengths) else "best-fit"
        self.packing: Mode = packing
        self._store, self._seq_len, self._seed, self._shuffle = store, seq_len, seed, shuffle
        self._lengths = lengths
        self._cached: tuple[int, int] | None = None
        self._rows: Rows | None = None
        self._spans: tuple[int, Int64, Int64] | None = None
        key = f"{store.digest} {seq_len} {packing} {shuffle} {WINDOW_SPANS} {store.start_token_id}"
        self.digest = hashlib.sha256(key.encode()).hexdigest()

    def num_windows(self, epoch: int) -> int:
        """Packing windows of an epoch."""
        if self.packing == "stream":
            return 1
        return -(-len(self._epoch_spans(epoch)[0]) // WINDOW_SPANS)

    def rows(self, epoch: int, window: int) -> Rows:
        """The rows of one window in the order in which they are read."""
        if self._cached != (epoch, window) or self._rows is None:
            self._rows = self._plan(epoch, window)
            self._cached = (epoch, window)
        return self._rows

    def _plan(self, epoch: int, window: int) -> Rows:
        if self.packing == "stream":
            first, stop = 0 if self._has_start else 1, self._store.num_tokens
            phase = mix(self._seed, epoch) % self._seq_len if self._shuffle else 0
            rows = pack_stream(first, stop, self._seq_len, min(phase, stop - first - 1))
        else:
            starts, stops = self._epoch_spans(epoch)
            low, high = window * WINDOW_SPANS, (window + 1) * WINDOW_SPANS
            rows = pack_best_fit(starts[low:high], stops[low:high], self._seq_len)
        if self._shuffle:
            rows = rows.select(shuffled(rows.num_rows, self._seed, epoch, window + 1))
        return rows

    def _epoch_spans(self, epoch: int) -> tuple[Int64, Int64]:
        """Spans of the epoch in the order in which they are packed."""
        if self._spans is None or (self._shuffle and self._spans[0] != epoch):
            started = np.full(len(self._lengths), self._has_start)
            if self._has_start and self._shuffle:
                half = hashed(len(self._lengths), self._seed, epoch, _START_SALT) >> np.uint64(63)
                # A document of one token has no other pair.
                started = (half == 1) | (self._lengths == 1)
            starts, stops = document_spans(self._store.offsets, self._seq_len, started)
            if self._shuffle:
                order = shuffled(len(starts), self._seed, epoch, 0)
                starts, stops = starts[order], stops[order]
            self._spans = (epoch, starts, stops)
        return self._spans[1], self._spans[2]
