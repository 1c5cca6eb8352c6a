"""Removal of repeated documents: exact by hash, near by MinHash over word 5-grams.

The first of several like documents stays, in reading order, so the result is deterministic.
Exact: 16 bytes of BLAKE2b of the cleaned text. Near: 128 MinHash values, 16 bands of locality
sensitive hashing, each candidate checked against the threshold (Broder 1997; Leskovec et al. 2014).
Memory: about 100 bytes a document for exact, about 2 kB for near; text is not kept.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

import rensa

NUM_HASHES = 128
NUM_BANDS = 16
SHINGLE_WORDS = 5
# Chinese and Japanese write no spaces and Korean few, so there a character counts as a word.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")

Verdict = Literal["kept", "exact", "near"]


class Sketch:
    """The fingerprint of one document, fed piece by piece.

    Args:
        near: also compute MinHash values.
    """

    def __init__(self, near: bool) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.minhash = rensa.RMinHash(NUM_HASHES, 0) if near else None
        self._tail: list[str] = []
        self.has_words = False

    def update(self, text: str) -> None:
        """Add the next piece of the document's cleaned text."""
        self._hash.update(text.encode("utf-8", "surrogateescape"))
        if self.minhash is None:
            return
        words = self._tail + _WORD.findall(text.casefold())
        shifted = [words[i:] for i in range(SHINGLE_WORDS)]
        shingles = list(map(" ".join, zip(*shifted, strict=False)))
        if shingles:
            self.minhash.update(shingles)
            self.has_words = True
        self._tail = words[max(0, len(words) - SHINGLE_WORDS + 1) :]

    def digest(self) -> bytes:
        """16 bytes that name the exact text."""
        return self._hash.digest()

    def finish(self) -> None:
        """End the document; one shorter than a shingle is compared as a whole."""
        if self.minhash is not None and not self.has_words and self._tail:
            self.minhash.update([" ".join(self._tail)])
            self.has_words = True


class Deduplicator:
    """Decides document by document whether it repeats an earlier one.

    Args:
        mode: "none", "exact" or "near" (which includes exact).
        threshold: Jaccard similarity of word 5-grams from which two documents are alike.
    """

    def __init__(self, mode: Literal["none", "exact", "near"], threshold: float = 0.7) -> None:
        self.mode, self.threshold = mode, threshold
        self.removed: dict[str, int] = {"exact": 0, "near": 0}
        self._seen: set[bytes] = set()
        self._index = rensa.RMinHashLSH(threshold, NUM_HASHES, NUM_BANDS)
        self._sketches: list[rensa.RMinHash] = []

    def start(self) -> Sketch:
        """A sketch for the next document."""
        return Sketch(near=self.mode == "near")

    def admit(self, sketch: Sketch) -> Verdict:
        """Decide on a finished document; a kept one is remembered."""
        if self.mode == "none":
            return "kept"
        digest = sketch.digest()
        if digest in self._seen:
            self.removed["exact"] += 1
            return "exact"
        sketch.finish()
        if sketch.minhash is not None and sketch.has_words and self._is_near(sketch.minhash):
            self.removed["near"] += 1
            return "near"
        self._seen.add(digest)
        return "kept"

    def _is_near(self, minhash: rensa.RMinHash) -> bool:
        for key in self._index.query(minhash):
            if minhash.jaccard(self._sketches[key]) >= self.threshold:
                return True
        self._index.insert(len(self._sketches), minhash)
        self._sketches.append(minhash)
        return False
