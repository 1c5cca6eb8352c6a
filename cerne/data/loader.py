"""Loaders: an endless, resumable stream of batches whose order depends only on (seed, epoch).

All rows of epoch 0, then of epoch 1, ... form one stream; step k of rank r takes rows
(k * world_size + r) * batch_size onwards. So ranks are disjoint, their union is complete, a batch
is always full (three rows of data fill a batch of eight by going round), and the state is the place
in that stream: it stays valid when batch size or number of ranks change.
What it leaves out: threads; a batch of 2,048 tokens takes well under a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cerne.data.memory import MemoryStore
from cerne.data.packing import Batch, Rows, TokenStore, build_batch, join_rows
from cerne.data.plan import Mode, Planner
from cerne.errors import DataError


class PackedLoader:
    """Batches of packed rows from a token store.

    Args:
        shards: Shards, or any TokenStore.
        seq_len: T, tokens of a row.
        batch_size: B, rows of a batch on this rank.
        packing: "best-fit", "stream", or "auto": stream when the mean document exceeds a row.
        shuffle: False keeps the documents' order (within the packing) in every epoch.
    Raises:
        DataError: nothing to learn from (no document has a pair), or a size below 1.
    """

    def __init__(
        self,
        shards: TokenStore,
        seq_len: int,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        packing: Mode = "auto",
    ) -> None:
        if seq_len < 1 or batch_size < 1 or seed < 0 or not 0 <= rank < world_size:
            raise DataError(
                "a loader size is out of range",
                value={"seq_len": seq_len, "batch_size": batch_size, "seed": seed, "rank": rank},
                allowed=f"seq_len, batch_size >= 1, seed >= 0, 0 <= rank < {world_size}",
            )
        self.store, self.seq_len, self.batch_size = shards, seq_len, batch_size
        self.seed, self.rank, self.world_size, self.shuffle = seed, rank, world_size, shuffle
        self._planner = Planner(shards, seq_len, seed, shuffle, packing)
        self.packing = self._planner.packing
        self._epoch = self._window = self._row = 0

    @property
    def epoch(self) -> int:
        """The epoch of the next unread row, from 0."""
        return self._epoch

    @property
    def pairs_per_epoch(self) -> int:
        """Targets of one epoch before any mask, at most (see Planner on document begins)."""
        return self._planner.num_pairs

    def next(self) -> Batch:
        """The next batch of this rank, [B, T]."""
        self._take(self.rank * self.batch_size)
        rows = join_rows(self._take(self.batch_size))
        self._take((self.world_size - self.rank - 1) * self.batch_size)
        return build_batch(self.store, rows, self.seq_len)

    def state(self) -> dict[str, Any]:
        """Where the stream stands: small, JSON, the same on all ranks.

        `position` is [window, row]: the packing window of the epoch and the next row in it.
        """
        return {
            "epoch": self._epoch,
            "position": [self._window, self._row],
            "seed": self.seed,
            "digest": self._planner.digest,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a state() of the same data, seq_len, packing and seed.

        Raises:
            DataError: the state is of other data or malformed.
        """
        try:
            epoch, (window, row) = int(state["epoch"]), (int(x) for x in state["position"])
            seed, digest = int(state["seed"]), str(state["digest"])
        except (KeyError, TypeError, ValueError):
            raise DataError("the loader state is malformed", value=state) from None
        if digest != self._planner.digest or seed != self.seed:
            raise DataError(
                "the loader state is of other data, seq_len, packing or seed",
                value={"seed": seed, "digest": digest[:16]},
                allowed=f"seed {self.seed}, digest {self._planner.digest[:16]}",
                hint="resume with the same [data] and seed, or start anew with --init-from",
            )
        if epoch < 0 or not 0 <= window < self._planner.num_windows(epoch) or row < 0:
            raise DataError("the loader state is out of range", value=state)
        if row > self._planner.rows(epoch, window).num_rows:
            raise DataError("the loader state is out of range", value=state)
        self._epoch, self._window, self._row = epoch, window, row

    def _take(self, count: int) -> list[Rows]:
        """The next `count` rows of the global stream."""
        taken = []
        while count > 0:
            rows = self._planner.rows(self._epoch, self._window)
            stop = min(rows.num_rows, self._row + count)
            taken.append(rows.slice(self._row, stop))
            count -= stop - self._row
            self._row = stop
            if stop == rows.num_rows:
                self._row, self._window = 0, self._window + 1
                if self._window == self._planner.num_windows(self._epoch):
                    self._window, self._epoch = 0, self._epoch + 1
        return taken


def iterate_once(
    store: TokenStore,
    seq_len: int,
    batch_size: int,
    rank: int = 0,
    world_size: int = 1,
    packing: Mode = "auto",
) -> Iterator[Batch]:
    """Every row exactly once in a fixed order, for validation; the last batch may have fewer rows.

    Every token is a target once (the first of a document only if the store has a start token).

    Rank r yields batches r, r + world_size, ...
    """
    planner = Planner(store, seq_len, seed=0, shuffle=False, packing=packing)
    batches = _whole_batches(planner, batch_size)
    for index, rows in enumerate(batches):
        if index % world_size == rank:
            yield build_batch(store, rows, seq_len)


def _whole_batches(planner: Planner, batch_size: int) -> Iterator[Rows]:
    waiting: list[Rows] = []
    count = 0
    for window in range(planner.num_windows(0)):
        rows, first = planner.rows(0, window), 0
        while first < rows.num_rows:
            stop = min(rows.num_rows, first + batch_size - count)
            waiting.append(rows.slice(first, stop))
            count, first = count + stop - first, stop
            if count == batch_size:
                yield join_rows(waiting)
                waiting, count = [], 0
    if waiting:
        yield join_rows(waiting)


class ConversationLoader(PackedLoader):
    """Packed batches of tokenised conversations; only masked-in tokens are targets.

    A conversation longer than a row is cut to its first seq_len + 1 tokens, and one without a
    target (after the cut) is left out; both are counted, for the caller to report.

    Args:
        examples: (ids, mask) per conversation; mask marks the tokens to be learned.
    Attributes:
        num_truncated, num_unsupervised: how many conversations were cut, left out.
        num_supervised: targets of one epoch.
    """

    def __init__(
        self,
        examples: Sequence[tuple[Sequence[int], Sequence[bool]]],
        seq_len: int,
        batch_size: int,
        pad_token_id: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        vocab_size: int | None = None,
    ) -> None:
        self.num_truncated = self.num_unsupervised = self.num_supervised = 0
        kept = []
        for ids, mask in examples:
            if len(ids) > seq_len + 1:
                self.num_truncated += 1
                ids, mask = ids[: seq_len + 1], mask[: seq_len + 1]
            targets = sum(map(bool, mask[1:]))
            if targets == 0:
                self.num_unsupervised += 1
                continue
            self.num_supervised += targets
            kept.append((ids, mask))
        if not kept:
            raise DataError(
                "no conversation has a token to learn",
                value=f"{len(examples)} conversations, seq_len {seq_len}",
                hint="check the roles of the messages, or raise train.seq_len",
            )
        store = MemoryStore(kept, pad_token_id, vocab_size)
        super().__init__(
            store, seq_len, batch_size, seed, rank, world_size, shuffle, packing="best-fit"
        )
