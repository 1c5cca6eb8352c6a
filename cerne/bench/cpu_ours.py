"""cerne's native engine as `cerne bench cpu` runs it: the core's own interface, like the peers'."""

from __future__ import annotations

from collections.abc import Sequence

from cerne import __version__
from cerne.bench.cpu_worker import Start, Stepwise
from cerne.native.library import library
from cerne.native.model import NativeContext, NativeModel, arithmetic, isa

BATCH_TOKENS = 512


class Cerne(Stepwise):
    """A GGUF file on the native engine.

    Raises:
        ModelError: the file does not load.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.about = {"version": __version__, "isa": isa(), "arithmetic": arithmetic()}
        self._model = NativeModel.open_gguf(start.model, start.threads)

    @classmethod
    def prepare(cls, start: Start) -> None:
        """See `Engine.prepare`."""
        library()

    def open(self, sequences: int, capacity: int, variant: str) -> _Pool:
        """See `Stepwise.open`."""
        options = {
            "threads": self.start.threads,
            "capacity": capacity,
            "max_sequences": sequences,
            "batch_tokens": min(BATCH_TOKENS, max(capacity, sequences)),
        }
        return _Pool(NativeContext(self._model, options), sequences)


class _Pool:
    """Implements `Pool`."""

    def __init__(self, context: NativeContext, sequences: int) -> None:
        self._context = context
        self._sequences = [context.start() for _ in range(sequences)]
        self._wanted = [True] * sequences

    def read(self, sequence: int, ids: Sequence[int]) -> None:
        handle = self._sequences[sequence]
        for begin in range(0, len(ids), BATCH_TOKENS):
            piece = ids[begin : begin + BATCH_TOKENS]
            wanted = [False] * len(piece)
            wanted[-1] = begin + len(piece) == len(ids)
            self._context.decode([handle] * len(piece), piece, wanted)

    def step(self, ids: Sequence[int]) -> None:
        self._context.decode(self._sequences, ids, self._wanted)

    def truncate(self, length: int) -> None:
        for sequence in self._sequences:
            self._context.truncate(sequence, min(length, self._context.length(sequence)))

    def close(self) -> None:
        self._context.close()
