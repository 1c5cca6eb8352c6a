"""Whole public tokenizers through our files: GPT-2's pair of files, Qwen2 written by us and read by
the `tokenizers` package, ids that llama.cpp expects.
"""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path

import numpy as np
import pytest

from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.gpt2_files import load_gpt2_files
from cerne.tokenizer.special import AddedToken, Roles
from cerne.tokenizer.vocabulary import Vocabulary
from tests.oracles.tokenizer_oracle import corpus_texts, fuzzed, qwen2

tokenizers = pytest.importorskip("tokenizers")


def expected_ids(shared_dir: Path, name: str) -> list[tuple[str, list[int]]]:
    file = shared_dir / "data" / "models" / "tokenizer_vectors.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], row["ids"]) for row in rows if row["vocab"] == name]


@pytest.fixture(scope="module")
def gpt2(shared_dir: Path) -> Tokenizer:
    models = shared_dir / "data" / "models"
    encoder = lzma.decompress((models / "gpt2_encoder.json.xz").read_bytes())
    return load_gpt2_files(encoder, lzma.decompress((models / "gpt2_vocab.bpe.xz").read_bytes()))


@pytest.fixture(scope="module")
def qwen(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    plain = qwen2(shared_dir, tmp_path_factory.mktemp("qwen"))
    size = 151643
    names = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True), ("<t>", False)]
    return Tokenizer(
        Vocabulary(
            token_bytes=[*plain.token_bytes[:size], *([b""] * len(names))],
            merges=np.array(plain.merges, dtype=np.uint32),
            pattern="qwen2",
            added=tuple(
                AddedToken(size + i, name, special) for i, (name, special) in enumerate(names)
            ),
            roles=Roles(pad="<|endoftext|>", eos="<|im_end|>", end_of_turn="<|im_end|>"),
            normalizer="nfc",
        )
    )


def test_gpt2_gives_the_ids_of_llama_cpp(gpt2: Tokenizer, shared_dir: Path) -> None:
    rows = expected_ids(shared_dir, "gpt-2")
    assert len(rows) == 47
    for text, ids in rows:
        assert gpt2.encode(text) == ids, text
    assert (gpt2.vocab_size, gpt2.eos_token_id) == (50257, 50256)


@pytest.mark.slow
def test_qwen2_gives_the_ids_of_llama_cpp(qwen: Tokenizer, shared_dir: Path) -> None:
    rows = expected_ids(shared_dir, "qwen2")
    assert len(rows) == 47
    for text, ids in rows:
        assert qwen.encode(text) == ids, text


@pytest.mark.parametrize("name", ["gpt2", pytest.param("qwen", marks=pytest.mark.slow)])
def test_saved_files_give_equal_ids_in_tokenizers(
    name: str, request: pytest.FixtureRequest, shared_dir: Path, tmp_path: Path
) -> None:
    ours: Tokenizer = request.getfixturevalue(name)
    ours.save(tmp_path)
    twin = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    twin.encode_special_tokens = True
    again = Tokenizer.load(tmp_path)
    assert again.digest == ours.digest
    rng = random.Random(8)
    texts = [fuzzed(rng) + rng.choice(["<t>", "e\u0301\u0323", "<|im_end|>"]) for _ in range(400)]
    texts += corpus_texts(shared_dir / "data" / "text" / "multi_udhr.jsonl.xz")[:4]
    for text, encoding in zip(texts, twin.encode_batch(texts), strict=True):
        assert again.encode(text) == encoding.ids, text
    assert [a.tolist() for a in ours.encode_batch(texts[:100])] == [
        ours.encode(text) for text in texts[:100]
    ]
