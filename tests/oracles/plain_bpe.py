"""A plain byte-pair-encoding trainer and encoder: the definition that the fast ones must equal.

Every step recounts every pair of every word. Ids 0-255 are the bytes in GPT-2's order.
"""

from __future__ import annotations

import itertools
from collections import Counter

Merge = tuple[int, int]

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES_IN_ORDER = _PRINTABLE + [b for b in range(256) if b not in _PRINTABLE]
ID_OF_BYTE = {byte: index for index, byte in enumerate(BYTES_IN_ORDER)}


def plain_train(words: dict[bytes, int], vocab_size: int) -> list[Merge]:
    """Merges of the most frequent pair, the smallest pair of ids where counts are equal."""
    split = {word: [ID_OF_BYTE[b] for b in word] for word in words}
    merges: list[Merge] = []
    while 256 + len(merges) < vocab_size:
        counts: Counter[Merge] = Counter()
        for word, ids in split.items():
            for pair in itertools.pairwise(ids):
                counts[pair] += words[word]
        counts = +counts
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        for word, ids in split.items():
            split[word] = plain_merge(ids, best, 256 + len(merges))
        merges.append(best)
    return merges


def plain_merge(ids: list[int], pair: Merge, new_id: int) -> list[int]:
    """Each occurrence of the pair from left to right becomes the new id."""
    out: list[int] = []
    i = 0
    while i < len(ids):
        if tuple(ids[i : i + 2]) == pair:
            out.append(new_id)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def plain_encode(word: bytes, merges: list[Merge]) -> list[int]:
    """The ids of one pre-token: every merge in order of rank."""
    ids = [ID_OF_BYTE[b] for b in word]
    for rank, pair in enumerate(merges):
        ids = plain_merge(ids, pair, 256 + rank)
    return ids
