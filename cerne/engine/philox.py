"""Philox4x32-10: random numbers that are a pure function of a counter and a key.

A draw depends only on (seed, choice, position, draw), never on batch slot, time or what else runs,
so a resumed, batched or streamed generation draws the same numbers. Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The layout of the counter is part of the
sampling specification (docs/sampling.md). Not for cryptography.
"""

from __future__ import annotations

MASK_32 = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

Words4 = tuple[int, int, int, int]


def philox4x32(counter: Words4, key: tuple[int, int]) -> Words4:
    """Four 32-bit words from a 128-bit counter and a 64-bit key (least significant word first)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        product_0 = MULTIPLIERS[0] * c0
        product_1 = MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product_1 >> 32) ^ c1 ^ k0,
            product_1 & MASK_32,
            (product_0 >> 32) ^ c3 ^ k1,
            product_0 & MASK_32,
        )
        k0 = (k0 + KEY_STEPS[0]) & MASK_32
        k1 = (k1 + KEY_STEPS[1]) & MASK_32
    return c0, c1, c2, c3


def uniform(seed: int, choice: int, position: int, draw: int = 0) -> float:
    """A number in [0, 1) with 53 random bits.

    Args:
        seed: the request's seed, 0 <= seed < 2**64: the Philox key.
        choice: index of the choice when n > 1, 0 <= choice < 2**32.
        position: absolute position of the token to draw (prompt tokens count), < 2**64.
        draw: number of this draw at this position, for samplers that need several.
    """
    words = philox4x32(
        (position & MASK_32, position >> 32, choice, draw), (seed & MASK_32, seed >> 32)
    )
    return ((words[0] >> 5) * 67108864.0 + (words[1] >> 6)) / 9007199254740992.0
