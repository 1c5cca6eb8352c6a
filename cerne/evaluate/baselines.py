"""What a text costs without a neural network: bz2, xz and a byte n-gram model, in bits per byte.

Each is measured alone and, when a training text is given, with it: for the compressors
size(train + text) - size(train), which is what they gain from having seen it; for the n-gram
model, trained on it, the summed log-loss of the text. The n-gram model is interpolated by
Witten-Bell (1991): P(b|c) = (n(c b) + t(c) P(b|shorter c)) / (n(c) + t(c)), t(c) the number of
different bytes seen after context c, down to a uniform 1/256.
"""

from __future__ import annotations

import bz2
import lzma
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from cerne.errors import InputError

ORDER = 5
MAX_ORDER = 7


@dataclass(frozen=True)
class Baselines:
    """Bits per byte of one text; `_after` means after the training text, None without one."""

    bz2: float
    xz: float
    bz2_after: float | None = None
    xz_after: float | None = None
    ngram: float | None = None
    ngram_order: int | None = None

    def to_json(self) -> dict[str, float | int | None]:
        """A plain dictionary."""
        return asdict(self)


def baselines(text: bytes, train: bytes | None = None, order: int = ORDER) -> Baselines:
    """All baselines of a text.

    Args:
        text: the bytes to be scored.
        train: the bytes a model was trained on, for the conditional figures.
        order: n of the n-gram model: n - 1 bytes of context.
    Raises:
        InputError: an empty text, or an order outside 1..7.
    """
    if not text:
        raise InputError("an empty text has no bits per byte")
    alone = Baselines(_bits(_bz2(text), text), _bits(_xz(text), text))
    if not train:
        return alone
    return Baselines(
        alone.bz2,
        alone.xz,
        _bits(_bz2(train + text) - _bz2(train), text),
        _bits(_xz(train + text) - _xz(train), text),
        ngram_bits_per_byte(train, text, order),
        order,
    )


def ngram_bits_per_byte(train: bytes, text: bytes, order: int = ORDER) -> float:
    """Bits per byte of `text` under a byte n-gram model of `train`, interpolated by Witten-Bell.

    Raises:
        InputError: an empty text, or an order outside 1..7.
    """
    if not 1 <= order <= MAX_ORDER:
        raise InputError("n-gram order is out of range", value=order, allowed=f"1 to {MAX_ORDER}")
    if not text:
        raise InputError("an empty text has no bits per byte")
    seen = np.frombuffer(train, np.uint8)
    scored = np.frombuffer(text, np.uint8)
    chances = np.full(len(scored), 1.0 / 256.0)
    for length in range(min(order - 1, len(scored) - 1) + 1):
        if len(seen) <= length:
            break
        chances[length:] = _interpolate(seen, scored, length, chances[length:])
    return float(-np.log2(chances).sum() / len(scored))


def _interpolate(
    seen: NDArray[np.uint8],
    scored: NDArray[np.uint8],
    length: int,
    shorter: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Chances of scored[length:] from contexts of `length` bytes, given those of shorter ones."""
    pairs, pair_counts = np.unique(_keys(seen, length), return_counts=True)
    contexts, first, types = np.unique(pairs >> np.uint64(8), return_index=True, return_counts=True)
    totals = np.add.reduceat(pair_counts, first)
    wanted = _keys(scored, length)
    count = _look_up(pairs, pair_counts, wanted)
    total = _look_up(contexts, totals, wanted >> np.uint64(8))
    kinds = _look_up(contexts, types, wanted >> np.uint64(8))
    known = total > 0
    mixed = (count + kinds * shorter) / np.where(known, total + kinds, 1)
    return np.where(known, mixed, shorter)


def _keys(data: NDArray[np.uint8], length: int) -> NDArray[np.uint64]:
    """Context and next byte as one number, for every position from `length` on."""
    keys = np.zeros(len(data) - length, np.uint64)
    for offset in range(length + 1):
        keys = (keys << np.uint64(8)) | data[offset : len(data) - length + offset]
    return keys


def _look_up(
    keys: NDArray[np.uint64], values: NDArray[np.int64], wanted: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """values[key] for each wanted key, 0 for those not there; keys are sorted."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def _bits(size_bytes: int, text: bytes) -> float:
    return 8.0 * size_bytes / len(text)


def _bz2(data: bytes) -> int:
    return len(bz2.compress(data, 9))


def _xz(data: bytes) -> int:
    # The dictionary covers the whole input, so that the training text stays in reach.
    size = max(1 << 20, min(1 << 30, 1 << max(1, len(data) - 1).bit_length()))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size}]
    return len(lzma.compress(data, format=lzma.FORMAT_XZ, filters=filters))
