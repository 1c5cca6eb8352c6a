"""Duplicate removal: exact and near, with its measured quality."""

from __future__ import annotations

import random

from cerne.data.dedup import Deduplicator

WORDS = [f"word{i}" for i in range(3000)]


def verdicts(dedup: Deduplicator, texts: list[str]) -> list[str]:
    found = []
    for text in texts:
        sketch = dedup.start()
        sketch.update(text)
        found.append(dedup.admit(sketch))
    return found


def text_of(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(WORDS) for _ in range(count)]


def mutated(rng: random.Random, words: list[str], share: float) -> list[str]:
    return [rng.choice(WORDS) if rng.random() < share else word for word in words]


def shingles(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def test_exact_keeps_the_first_and_counts_the_rest() -> None:
    dedup = Deduplicator("exact")
    assert verdicts(dedup, ["a b", "c", "a b", "a  b", "c"]) == [
        "kept",
        "kept",
        "exact",
        "kept",
        "exact",
    ]
    assert dedup.removed == {"exact": 2, "near": 0}


def test_none_keeps_everything() -> None:
    assert verdicts(Deduplicator("none"), ["a", "a"]) == ["kept", "kept"]


def test_planted_near_duplicates_are_found_and_distinct_texts_kept() -> None:
    rng = random.Random(3)
    originals = [text_of(rng, 250) for _ in range(300)]
    close = [mutated(rng, words, 0.008) for words in originals]
    far = [mutated(rng, words, 0.15) for words in originals]
    dedup = Deduplicator("near")
    assert verdicts(dedup, [" ".join(w) for w in originals]) == ["kept"] * 300
    assert verdicts(dedup, [" ".join(w).upper() for w in far]).count("kept") == 300
    similarities = [
        len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b))
        for a, b in zip(originals, close, strict=True)
    ]
    found = verdicts(dedup, [" ".join(w) for w in close])
    # True Jaccard similarity well above the threshold of 0.7: at least 99 % must be found.
    clear = [v for v, s in zip(found, similarities, strict=True) if s >= 0.85]
    assert len(clear) > 250
    assert sum(v != "kept" for v in clear) >= 0.99 * len(clear)


def test_the_sketch_does_not_depend_on_how_the_text_is_cut_into_pieces() -> None:
    words = text_of(random.Random(5), 400)
    whole, pieces = Deduplicator("near").start(), Deduplicator("near").start()
    whole.update(" ".join(words))
    for start in range(0, 400, 3):
        pieces.update(("" if start == 0 else " ") + " ".join(words[start : start + 3]))
    assert whole.digest() == pieces.digest()
    assert whole.minhash is not None and pieces.minhash is not None
    assert whole.minhash.digest() == pieces.minhash.digest()


def test_short_texts_and_texts_without_words_are_only_exact_duplicates() -> None:
    dedup = Deduplicator("near")
    texts = ["???", "!!!", "", "Yes.", "No.", "yes!", "Yes."]
    assert verdicts(dedup, texts) == ["kept", "kept", "kept", "kept", "kept", "near", "exact"]


def test_characters_count_as_words_where_no_spaces_are_written() -> None:
    rng = random.Random(2)
    text = "".join(chr(0x4E00 + rng.randint(0, 2000)) for _ in range(300))
    other = "".join(chr(0x4E00 + rng.randint(0, 2000)) for _ in range(300))
    dedup = Deduplicator("near")
    assert verdicts(dedup, [text, text[:150] + "龜" + text[151:], other]) == [
        "kept",
        "near",
        "kept",
    ]
