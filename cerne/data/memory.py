"""A token store in memory: ids and target masks of tokenised examples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import DataError


class MemoryStore:
    """Token ids and target masks of examples held in memory.

    Args:
        examples: (ids, mask) per example; mask[t] says whether token t may be a target.
        vocab_size: ids must be below it; None takes the largest id.
        start_token_id: the input before each example's first token; None: that is only input.
    Raises:
        DataError: ids and mask of different length, or an id out of range.
    """

    def __init__(
        self,
        examples: Sequence[tuple[Sequence[int], Sequence[bool]]],
        pad_token_id: int,
        vocab_size: int | None = None,
        start_token_id: int | None = None,
    ) -> None:
        for index, (ids, mask) in enumerate(examples):
            if len(ids) != len(mask):
                raise DataError(
                    f"example {index}: ids and mask have different lengths",
                    value=(len(ids), len(mask)),
                )
        lengths = [len(ids) for ids, _ in examples]
        self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.num_tokens = int(self.offsets[-1])
        self._ids = _joined([ids for ids, _ in examples], np.int64)
        self._mask = _joined([mask for _, mask in examples], np.bool_)
        high = int(self._ids.max(initial=0))
        self.vocab_size = vocab_size if vocab_size is not None else high + 1
        if high >= self.vocab_size or int(self._ids.min(initial=0)) < 0:
            raise DataError(
                "a token id is outside the vocabulary",
                value=high,
                allowed=f"0 to {self.vocab_size - 1}",
            )
        self.pad_token_id = pad_token_id
        self.start_token_id = start_token_id
        digest = hashlib.sha256(self._ids.astype("<i8").tobytes())
        digest.update(self._mask.tobytes())
        digest.update(self.offsets.astype("<i8").tobytes())
        self.digest = digest.hexdigest()

    def read(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Token ids start..stop."""
        return self._ids[start:stop]

    def read_mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Whether tokens start..stop may be targets."""
        return self._mask[start:stop]


def _joined(parts: Sequence[Sequence[Any]], dtype: Any) -> npt.NDArray[Any]:
    arrays = [np.asarray(part, dtype) for part in parts]
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype)
