"""Merges equal those of the `tokenizers` package on real text and on hostile little corpora."""

from __future__ import annotations

import json
import random
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from cerne.native.tokenizer import PATTERNS
from cerne.native.trainer import NativeTrainer
from cerne.tokenizer.patterns import pre_tokenizer_json
from tests.oracles.tokenizer_oracle import corpus_texts

tokenizers = pytest.importorskip("tokenizers")


def reference_merges(pre_tokenizer: object, texts: list[str], vocab_size: int) -> list[list[int]]:
    """The merges of BpeTrainer as ids of a vocabulary that begins with the byte alphabet."""
    twin = tokenizers.Tokenizer(tokenizers.models.BPE())
    twin.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    twin.train_from_iterator(texts, trainer)
    model = json.loads(twin.to_str())["model"]
    ids = model["vocab"]
    return [[ids[left], ids[right]] for left, right in model["merges"]]


def pre_tokenizer_of(pattern: str) -> object:
    empty = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": pre_tokenizer_json(pattern),
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    return tokenizers.Tokenizer.from_str(json.dumps(empty)).pre_tokenizer


def our_merges(pattern: str, texts: list[str], vocab_size: int) -> list[list[int]]:
    with NativeTrainer(pattern) as trainer:
        for text in texts:
            trainer.feed(text.encode())
            trainer.end_document()
        return trainer.train(vocab_size).merges.tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_python_source_code(pattern: str) -> None:
    names = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    texts = [name.read_text(encoding="utf-8", errors="replace") for name in names[:24]]
    assert sum(map(len, texts)) > 300_000
    expected = reference_merges(pre_tokenizer_of(pattern), texts, 2500)
    assert our_merges(pattern, texts, 2500) == expected


@pytest.mark.parametrize("name", ["multi_udhr.jsonl.xz", "multi_genesis.jsonl.xz"])
def test_many_languages(name: str, shared_dir: Path) -> None:
    texts = corpus_texts(shared_dir / "data" / "text" / name)
    expected = reference_merges(pre_tokenizer_of("qwen2"), texts, 4000)
    assert our_merges("qwen2", texts, 4000) == expected


def _runs(rng: random.Random) -> str:
    return rng.choice("ab") * rng.randrange(1, 40)


def _mixed(rng: random.Random) -> str:
    return "".join(rng.choices("abcd"[: rng.randrange(2, 5)], k=rng.randrange(1, 24)))


@pytest.mark.parametrize("make", [_runs, _mixed])
def test_hostile_little_corpora(make: Callable[[random.Random], str]) -> None:
    """Runs that overlap with themselves, ties, and vocabularies that the words do not fill."""
    for seed in range(200):
        rng = random.Random(seed)
        words = {make(rng): rng.randrange(1, 6) for _ in range(rng.randrange(1, 14))}
        text = " ".join(word for word, count in words.items() for _ in range(count))
        vocab_size = 256 + rng.randrange(1, 60)
        splitter = tokenizers.pre_tokenizers.WhitespaceSplit()
        expected = reference_merges(splitter, [text], vocab_size)
        with NativeTrainer() as trainer:
            for word, count in words.items():
                trainer.add_word(word.encode(), count)
            assert trainer.train(vocab_size).merges.tolist() == expected, (seed, words)
