"""The engine on the native core: the same bits on every machine, whatever runs beside.

Implements `Engine` over `NativeModel`. Key/value memory is taken as sequences grow, so a pool of
long sequences costs what its tokens need. Leaves out text and sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from cerne.engine.interface import LogitsWanted
from cerne.errors import EngineError
from cerne.native.model import NativeContext, NativeModel, arithmetic, check_threads

PREFILL_CHUNK = 512
KV_BUDGET_BYTES = 1 << 30


class NativeEngine:
    """Implements `Engine` for a `NativeModel`.

    Args:
        model: the model; may be shared by several engines.
        threads: threads that compute; no result depends on them.
        context: tokens that a sequence can hold; None: what the model was made for.
        prefill_chunk: prompt tokens that one pass reads.
        kv_budget_bytes: key/value memory that `room` plans with.
    Raises:
        EngineError: a context longer than the model's, or a number of threads out of range.
    """

    def __init__(
        self,
        model: NativeModel,
        threads: int,
        context: int | None = None,
        prefill_chunk: int = PREFILL_CHUNK,
        kv_budget_bytes: int = KV_BUDGET_BYTES,
    ) -> None:
        limit = model.statistic("context")
        wanted = limit if context is None else context
        if not 1 <= wanted <= limit:
            raise EngineError(
                "context is outside the model's",
                value=wanted,
                allowed=f"1 to max_position_embeddings={limit}",
            )
        self.model = model
        self.threads = check_threads(threads)
        self.context = wanted
        self.prefill_chunk = prefill_chunk
        self.kv_budget_bytes = kv_budget_bytes
        self.vocab_size = model.statistic("vocab_size")
        self.arithmetic = arithmetic()

    def room(self, capacity: int) -> int:
        """Sequences of `capacity` tokens that fit the key/value budget, at least 1."""
        positions = self.model.statistic("page_positions")
        one_bytes = -(-capacity // positions) * self.model.statistic("page_bytes")
        return max(1, self.kv_budget_bytes // one_bytes)

    def embed(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Hidden states of a text's tokens behind the model's last norm, float32 [T, D].

        Raises:
            EngineError: no tokens, more than the context, or an id outside the vocabulary.
        """
        if not 1 <= len(ids) <= self.context:
            raise EngineError(
                "a text to embed has too few or too many tokens",
                value=len(ids),
                allowed=f"1 to {self.context}",
            )
        options = {
            "threads": self.threads,
            "capacity": len(ids),
            "batch_tokens": min(self.prefill_chunk, len(ids)),
        }
        with NativeContext(self.model, options) as context:
            return context.embed([context.start()] * len(ids), ids, [True] * len(ids))

    def open(self, sequences: int, capacity: int) -> NativeSequences:
        """A pool for `sequences` sequences of `capacity` tokens; see `Engine.open`."""
        return NativeSequences(self, sequences, capacity)


class NativeSequences:
    """Implements `Sequences` over a `NativeContext`."""

    def __init__(self, engine: NativeEngine, sequences: int, capacity: int) -> None:
        if not 1 <= capacity <= engine.context:
            raise EngineError(
                "a sequence cannot be that long", value=capacity, allowed=f"1 to {engine.context}"
            )
        self.capacity = capacity
        self._chunk = engine.prefill_chunk
        options = {
            "threads": engine.threads,
            "capacity": capacity,
            "max_sequences": sequences,
            "batch_tokens": min(self._chunk, max(capacity, sequences)),
        }
        self._context = NativeContext(engine.model, options)

    def start(self) -> int:
        """A new empty sequence; see `Sequences.start`."""
        return self._context.start()

    def length(self, sequence: int) -> int:
        """Tokens that the sequence holds."""
        return self._context.length(sequence)

    def prefill(
        self, sequence: int, ids: Sequence[int], logits: LogitsWanted = "last"
    ) -> NDArray[np.float32] | None:
        """Append tokens to one sequence; see `Sequences.prefill`. Nothing is kept of a failure."""
        if not ids:
            raise EngineError("there are no tokens to read", value=0, allowed="1 token or more")
        held = self._context.length(sequence)
        parts = []
        try:
            # In pieces, so that Ctrl-C is seen between two of them.
            for begin in range(0, len(ids), self._chunk):
                piece = ids[begin : begin + self._chunk]
                wanted = [logits == "all"] * len(piece)
                if logits == "last" and begin + len(piece) == len(ids):
                    wanted[-1] = True
                parts.append(self._context.decode([sequence] * len(piece), piece, wanted))
        except BaseException:
            self._context.truncate(sequence, held)
            raise
        if logits == "none":
            return None
        return parts[-1] if logits == "last" or len(parts) == 1 else np.concatenate(parts)

    def decode(self, sequences: Sequence[int], ids: Sequence[int]) -> NDArray[np.float32]:
        """Append one token to each of N sequences; see `Sequences.decode`."""
        return self._context.decode(sequences, ids, [True] * len(ids))

    def fork(self, sequence: int) -> int:
        """A copy that goes its own way; see `Sequences.fork`."""
        return self._context.fork(sequence)

    def drop(self, sequence: int) -> None:
        """Forget a sequence."""
        self._context.drop(sequence)

    def close(self) -> None:
        """Free the memory of the pool and end its threads."""
        self._context.close()

    def __enter__(self) -> NativeSequences:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
