"""Ids and pre-tokens equal those of `tokenizers` (and tiktoken, llama.cpp's vectors).

Public vocabularies: GPT-2, Qwen2, SmolLM2 (when its package is installed). Texts: every corpus of
the shared folder and fuzzed strings. `tokenizers` is slow, so by default a sample of each is
compared; `-m slow` compares everything.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import tokenizer_oracle as oracle
from real_models import smollm2

from cerne.native.tokenizer import PATTERNS, NativeTokenizer, pretokenize

NUM_FUZZED = 20_000


def native(vocabulary: oracle.Vocabulary, **options: int) -> NativeTokenizer:
    """The native tokenizer of a vocabulary."""
    return NativeTokenizer(vocabulary.token_bytes, vocabulary.merges, vocabulary.pattern, options)


@pytest.fixture(scope="module", params=["gpt2", "qwen2", "smollm"])
def vocabulary(
    request: pytest.FixtureRequest, shared_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> oracle.Vocabulary:
    """Each public vocabulary in turn."""
    if request.param == "gpt2":
        return oracle.gpt2(shared_dir)
    if request.param == "qwen2":
        return oracle.qwen2(shared_dir, tmp_path_factory.mktemp("qwen2"))
    return oracle.from_gguf(smollm2(), "smollm")


def check_texts(vocabulary: oracle.Vocabulary, texts: Iterator[str], **options: int) -> None:
    """Ids equal the reference on every text.

    A byte that a vocabulary lacks parts its neighbours here and in llama.cpp; `tokenizers` drops it
    before it merges, so texts go without.
    """
    held = {token for token in vocabulary.token_bytes if len(token) == 1}
    lacking = {byte: None for byte in range(128) if bytes([byte]) not in held}
    reference = oracle.reference(vocabulary, ignore_merges=options.get("ignore_merges", 0) == 1)
    with native(vocabulary, **options) as tokenizer:
        for text in (text.translate(lacking) for text in texts):
            ids = tokenizer.encode(text.encode("utf-8"))
            expected = reference.encode(text, add_special_tokens=False).ids
            assert ids.tolist() == expected, repr(text[:200])


def fuzzed_texts(count: int) -> Iterator[str]:
    """The first `count` of the seeded hostile strings."""
    rng = random.Random(20_261_201)
    return (oracle.fuzzed(rng) for _ in range(count))


def corpus_pieces(shared: Path, limit: int | None) -> Iterator[str]:
    """Documents of every corpus, cut to `limit` characters a corpus from its middle."""
    paths = sorted((shared / "data" / "text").glob("*.xz"))
    assert len(paths) >= 10
    for path in paths:
        texts = oracle.corpus_texts(path)
        if limit is None:
            yield from texts
        else:
            whole = "\n\n".join(texts[: 1 + len(texts) // 3])
            start = max(0, len(whole) // 2 - limit // 2)
            yield whole[start : start + limit]


def test_ids_equal_on_fuzzed_strings(vocabulary: oracle.Vocabulary) -> None:
    check_texts(vocabulary, fuzzed_texts(NUM_FUZZED // 10))


@pytest.mark.slow
def test_ids_equal_on_all_fuzzed_strings(vocabulary: oracle.Vocabulary) -> None:
    check_texts(vocabulary, fuzzed_texts(NUM_FUZZED))


def test_ids_equal_on_a_piece_of_every_corpus(
    vocabulary: oracle.Vocabulary, shared_dir: Path
) -> None:
    check_texts(vocabulary, corpus_pieces(shared_dir, 30_000))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ids_equal_on_every_corpus(vocabulary: oracle.Vocabulary, shared_dir: Path) -> None:
    check_texts(vocabulary, corpus_pieces(shared_dir, None))


def test_ids_equal_when_whole_tokens_come_first(vocabulary: oracle.Vocabulary) -> None:
    # Without its later merges a vocabulary has tokens that merging no longer reaches.
    cut = oracle.Vocabulary(vocabulary.token_bytes, vocabulary.merges[:3000], vocabulary.pattern)
    check_texts(cut, fuzzed_texts(500), ignore_merges=1)
    check_texts(cut, fuzzed_texts(500), ignore_merges=0)


def test_ids_equal_when_the_cache_keeps_nothing(vocabulary: oracle.Vocabulary) -> None:
    check_texts(vocabulary, fuzzed_texts(300), cache_bytes=0)


def test_ids_equal_llama_cpp_vectors(shared_dir: Path, tmp_path: Path) -> None:
    lines = (shared_dir / "data" / "models" / "tokenizer_vectors.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in lines.splitlines()]
    for name, vocabulary in (
        ("gpt-2", oracle.gpt2(shared_dir)),
        ("qwen2", oracle.qwen2(shared_dir, tmp_path)),
    ):
        cases = [row for row in rows if row["vocab"] == name]
        assert len(cases) == 47
        with native(vocabulary) as tokenizer:
            for row in cases:
                assert tokenizer.encode(row["text"].encode("utf-8")).tolist() == row["ids"], row


# Around each code point: beside letters, digits, marks, white space, itself and an apostrophe.
CONTEXT = "a{0}b 1{0}2{0}! {0}{0} x'{0} \n{0} \r\n{0}"
# Unicode 17 numbers, which `Digits` of `tokenizers` knows already and its regex engine does not.
NEWER_DIGITS = set(range(0x11DE0, 0x11DEA)) | {0x16FF4, 0x16FF5, 0x16FF6}


def different_points(pattern: str, points: Iterator[int]) -> list[int]:
    """Code points whose context is split otherwise than by `tokenizers`."""
    reference = oracle.pre_tokenizer(pattern)
    different = []
    for point in points:
        text = CONTEXT.format(chr(point))
        expected = [piece for piece, _ in reference.pre_tokenize_str(text)]
        if [piece.decode("utf-8") for piece in pretokenize(pattern, text.encode())] != expected:
            different.append(point)
    return different


def all_points() -> Iterator[int]:
    """Every code point that is a character."""
    return (point for point in range(0x110000) if not 0xD800 <= point < 0xE000)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pretokens_equal_on_a_sample_of_code_points(pattern: str) -> None:
    points = (p for p in all_points() if p < 0x180 or p % 251 == 7 or 0x2000 <= p < 0x2070)
    assert set(different_points(pattern, points)) <= (
        NEWER_DIGITS if pattern == "smollm" else set()
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_pretokens_equal_on_every_code_point(pattern: str) -> None:
    expected = sorted(NEWER_DIGITS) if pattern == "smollm" else []
    assert different_points(pattern, all_points()) == expected


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pretokens_equal_on_fuzzed_strings(pattern: str) -> None:
    reference = oracle.pre_tokenizer(pattern)
    for text in fuzzed_texts(2000):
        expected = [piece for piece, _ in reference.pre_tokenize_str(text)]
        pieces = [piece.decode("utf-8") for piece in pretokenize(pattern, text.encode("utf-8"))]
        assert pieces == expected, repr(text)


def test_gpt4_ids_equal_tiktoken(shared_dir: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    vocabulary = oracle.gpt2(shared_dir)
    ranks = {token: index for index, token in enumerate(vocabulary.token_bytes) if token}
    encoding = tiktoken.Encoding(
        "cl100k-like", pat_str=oracle.TIKTOKEN_GPT4, mergeable_ranks=ranks, special_tokens={}
    )
    gpt4 = oracle.Vocabulary(vocabulary.token_bytes, vocabulary.merges, "gpt4")
    with native(gpt4) as tokenizer:
        for text in fuzzed_texts(3000):
            expected = encoding.encode_ordinary(text)
            assert tokenizer.encode(text.encode("utf-8")).tolist() == expected, repr(text)
