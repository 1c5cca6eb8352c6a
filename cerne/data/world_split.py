"""Seeded randomness and the train/held-out split of the small world.

A combination of entities or numbers (for example ("owns", "Ana", "ball")) belongs to exactly one
split, decided by a hash of its names alone: the same for every world seed, language, process and
machine. `Draw` is a random stream that only hands out combinations of one split, so disjointness
holds by construction. Leaves out: wordings; `world_wording.Wordings` lists those of each split.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeVar

from cerne.errors import DataError

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")
Combination = tuple[str, ...]

HELD_OUT_PERCENT = 20
_ATTEMPTS = 10_000

T = TypeVar("T")


def stable_number(*parts: object) -> int:
    """A 64-bit hash of the parts' text, the same in every process (unlike `hash`)."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


@lru_cache(maxsize=1 << 17)
def split_of(combination: Combination) -> Split:
    """The one split in which a combination may occur."""
    return (
        "heldout"
        if stable_number("cerne world split 1", *combination) % 100 < HELD_OUT_PERCENT
        else "train"
    )


class Draw:
    """A random stream for one document of one split.

    `allowed(combination)` says whether the split may use it; `pick`, `some` and `until` draw from
    the stream. Combinations that were used are collected in `used`.
    """

    def __init__(self, split: Split, *seed: object) -> None:
        self.split: Split = split
        self.rng = random.Random(stable_number(split, *seed))
        self.used: set[Combination] = set()

    def allowed(self, combination: Combination) -> bool:
        return split_of(combination) == self.split

    def use(self, combination: Combination) -> Combination:
        """Records a combination that the document states or asks about."""
        self.used.add(combination)
        return combination

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.random() * len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items in random order."""
        return self.rng.sample(items, count)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self.rng.random() * (high - low + 1))

    def until(self, make: Callable[[], T], combination: Callable[[T], Combination]) -> T:
        """Draws until the combination of the drawn value belongs to this split, and records it.

        Raises DataError when none turns up, which means that a table is too small for the split.
        """
        for _ in range(_ATTEMPTS):
            value = make()
            key = combination(value)
            if self.allowed(key):
                self.use(key)
                return value
        raise DataError(
            "no combination of this split was found",
            value=self.split,
            hint="enlarge the entity tables",
        )
