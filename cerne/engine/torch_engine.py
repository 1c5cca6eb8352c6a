"""The engine on torch: any model of `cerne.model`, on a CPU or a GPU.

Prompts are read in chunks, one sequence at a time; then all running sequences step together. In
float32 a batch gives the tokens of single runs; its logits may differ in the last bits, because
torch's matrix products choose their kernels by shape. Bit-for-bit independence of batch, threads
and machine is what the design asks of a native engine, not of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cerne.engine.interface import LogitsWanted
from cerne.engine.row_cache import RowCache
from cerne.errors import EngineError
from cerne.model.transformer import Transformer

PREFILL_CHUNK = 512
# Rows of logits made at once when all are asked for: bounds memory at chunk * V.
LOGITS_CHUNK = 256
KV_BUDGET_BYTES = 1 << 30


class TorchEngine:
    """Implements `Engine` for a `Transformer`.

    Args:
        model: the model; its weights are used in place, whatever device they are on.
        context: tokens that a sequence can hold; None: the model's max_position_embeddings.
        prefill_chunk: prompt tokens that one forward pass reads.
        kv_budget_bytes: key/value memory that `room` plans with.
    Raises:
        EngineError: a context longer than the model's.
    """

    arithmetic = "torch"

    def __init__(
        self,
        model: Transformer,
        context: int | None = None,
        prefill_chunk: int = PREFILL_CHUNK,
        kv_budget_bytes: int = KV_BUDGET_BYTES,
    ) -> None:
        limit = model.config.max_position_embeddings
        wanted = limit if context is None else context
        if not 1 <= wanted <= limit:
            raise EngineError(
                "context is outside the model's",
                value=wanted,
                allowed=f"1 to max_position_embeddings={limit}",
            )
        self.model = model
        self.context = wanted
        self.prefill_chunk = prefill_chunk
        self.kv_budget_bytes = kv_budget_bytes
        # The model's mask counts a sliding window from the longest row: such rows step one by one.
        layers = range(model.config.num_hidden_layers)
        self.steps_together = all(model.config.window(layer) is None for layer in layers)

    @property
    def vocab_size(self) -> int:
        """V: the width of the logits."""
        return self.model.config.vocab_size

    def room(self, capacity: int) -> int:
        """Sequences of `capacity` tokens that fit the key/value budget, at least 1."""
        size = self.model.output_weight.element_size()
        one_bytes = capacity * self.model.config.kv_bytes_per_token(size)
        return max(1, self.kv_budget_bytes // one_bytes)

    def open(self, sequences: int, capacity: int) -> TorchSequences:
        """A pool for `sequences` sequences of `capacity` tokens; see `Engine.open`."""
        return TorchSequences(self, sequences, capacity)

    @torch.inference_mode()
    def forward(self, ids_BT: Tensor, cache: RowCache, positions_BT: Tensor | None) -> Tensor:
        """Hidden states [B, T, D]; dropout is off even when the model is being trained."""
        training = self.model.training
        if training:
            self.model.eval()
        try:
            return self.model(ids_BT, positions_BT=positions_BT, cache=cache)  # type: ignore[no-any-return]
        finally:
            if training:
                self.model.train()

    @torch.inference_mode()
    def logits(self, hidden_ND: Tensor) -> NDArray[np.float32]:
        """Logits float32 [N, V] on the host."""
        parts = [self.model.project(rows).cpu() for rows in hidden_ND.split(LOGITS_CHUNK)]
        result: NDArray[np.float32] = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
        return result


class TorchSequences:
    """Implements `Sequences`: handles are mapped to rows, and the used rows are kept in front."""

    def __init__(self, engine: TorchEngine, sequences: int, capacity: int) -> None:
        if not 1 <= capacity <= engine.context:
            raise EngineError(
                "a sequence cannot be that long", value=capacity, allowed=f"1 to {engine.context}"
            )
        self._engine = engine
        self.capacity = capacity
        self._limit = sequences
        weight = engine.model.output_weight
        # Grow the rotary table now: a table made in inference mode could not be trained with later.
        engine.model.rope(torch.zeros(1, dtype=torch.int64, device=weight.device), capacity)
        self._cache = RowCache(
            engine.model.config, sequences, capacity, weight.dtype, weight.device
        )
        self._rows: dict[int, int] = {}
        self._next_handle = 0

    def start(self) -> int:
        """A new empty sequence; see `Sequences.start`."""
        if len(self._rows) == self._limit:
            raise EngineError(
                "the pool of sequences is full", value=self._limit + 1, allowed=f"{self._limit}"
            )
        handle, row = self._next_handle, len(self._rows)
        self._next_handle += 1
        self._rows[handle] = row
        self._cache.lengths[row] = 0
        return handle

    def length(self, sequence: int) -> int:
        """Tokens that the sequence holds."""
        return self._cache.lengths[self._row(sequence)]

    def prefill(
        self, sequence: int, ids: Sequence[int], logits: LogitsWanted = "last"
    ) -> NDArray[np.float32] | None:
        """Append tokens to one sequence; see `Sequences.prefill`."""
        row = self._row(sequence)
        held = self._cache.lengths[row]
        if not ids:
            raise EngineError("there are no tokens to read", value=0, allowed="1 token or more")
        if held + len(ids) > self.capacity:
            raise EngineError(
                "the sequence is full",
                value=f"{held} + {len(ids)} tokens",
                allowed=f"at most {self.capacity}",
            )
        ids_1T = self._ids(ids)[None]
        outputs = []
        for chunk_1T in ids_1T.split(self._engine.prefill_chunk, dim=1):
            self._cache.select([row])
            hidden_1TD = self._engine.forward(chunk_1T, self._cache, None)
            if logits == "all":
                outputs.append(self._engine.logits(hidden_1TD[0]))
        if logits == "last":
            return self._engine.logits(hidden_1TD[0, -1:])
        return np.concatenate(outputs) if outputs else None

    def decode(self, sequences: Sequence[int], ids: Sequence[int]) -> NDArray[np.float32]:
        """Append one token to each of N sequences; see `Sequences.decode`."""
        rows = [self._row(sequence) for sequence in sequences]
        for row in rows:
            if self._cache.lengths[row] == self.capacity:
                raise EngineError(
                    "the sequence is full",
                    value=f"{self.capacity} + 1 tokens",
                    allowed=f"at most {self.capacity}",
                )
        ids_N1 = self._ids(ids)[:, None]
        if len(rows) > 1 and not self._engine.steps_together:
            hidden = [self._step([row], ids_N1[i : i + 1]) for i, row in enumerate(rows)]
            return self._engine.logits(torch.cat(hidden))
        order = sorted(range(len(rows)), key=rows.__getitem__)
        if order == list(range(len(rows))):
            return self._engine.logits(self._step(rows, ids_N1))
        hidden_ND = self._step([rows[i] for i in order], ids_N1[torch.tensor(order)])
        result = np.empty((len(rows), self._engine.vocab_size), dtype=np.float32)
        result[order] = self._engine.logits(hidden_ND)
        return result

    def fork(self, sequence: int) -> int:
        """A copy that goes its own way; see `Sequences.fork`."""
        source = self._row(sequence)
        handle = self.start()
        self._cache.copy_row(source, self._rows[handle])
        return handle

    def drop(self, sequence: int) -> None:
        """Forget a sequence; the last used row moves into its place."""
        row = self._row(sequence)
        del self._rows[sequence]
        last = len(self._rows)
        if row != last:
            mover = next(handle for handle, place in self._rows.items() if place == last)
            self._cache.copy_row(last, row)
            self._rows[mover] = row

    def close(self) -> None:
        """Free the memory of the pool."""
        self._rows.clear()
        self._cache.keys, self._cache.values = [], []

    def __enter__(self) -> TorchSequences:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self, rows: Sequence[int], ids_N1: Tensor) -> Tensor:
        """One token for each row (rows increasing); hidden states [N, D]."""
        positions_N1 = self._cache.select(rows)
        return self._engine.forward(ids_N1, self._cache, positions_N1)[:, -1]

    def _row(self, sequence: int) -> int:
        if sequence not in self._rows:
            raise EngineError("no such sequence", value=sequence, hint="was it dropped?")
        return self._rows[sequence]

    def _ids(self, ids: Sequence[int]) -> Tensor:
        vocab = self._engine.vocab_size
        if min(ids) < 0 or max(ids) >= vocab:
            bad = next(token for token in ids if not 0 <= token < vocab)
            raise EngineError(
                "a token id is outside the vocabulary", value=bad, allowed=f"0 to {vocab - 1}"
            )
        return torch.tensor(ids, dtype=torch.int64, device=self._engine.model.device)
