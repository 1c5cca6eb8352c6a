"""Ids of tokenizers from GGUF files equal llama.cpp's, and those of sentencepiece.

llama.cpp's answers are files: its vectors of hard strings, and llama_cpp_ids.json with a digest for
each corpus (llama-cpp-python 0.3.36). Real models: SmolLM2 and, only where somebody installed it,
Gemma 3 270M, whose terms forbid passing it on.
"""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path

import llama_cpp_ids
import pytest
import tokenizer_oracle as oracle
from real_models import gemma3, smollm2

from cerne.native.gguf import GgufFile
from cerne.tokenizer.bpe import Tokenizer


@pytest.mark.parametrize("name", ["gpt-2", "qwen2"])
def test_ids_equal_llama_cpp_vectors(name: str, shared_dir: Path, tmp_path: Path) -> None:
    models = shared_dir / "data" / "models"
    file = tmp_path / "vocab.gguf"
    file.write_bytes(lzma.decompress((models / f"ggml-vocab-{name}.gguf.xz").read_bytes()))
    tokenizer = Tokenizer.load(file)
    lines = (models / "tokenizer_vectors.jsonl").read_text("utf-8").splitlines()
    cases = [row for row in map(json.loads, lines) if row["vocab"] == name]
    assert len(cases) == 47
    for row in cases:
        assert tokenizer.encode(row["text"]) == row["ids"], row


def check_corpora(tokenizer: Tokenizer, name: str, shared: Path) -> None:
    """Every corpus of the shared folder."""
    record = json.loads(llama_cpp_ids.RECORD.read_text(encoding="ascii"))[name]
    assert len(record) >= 10
    assert llama_cpp_ids.digests(shared, tokenizer.encode_array) == record


def test_ids_of_smollm2_equal_llama_cpp_on_every_corpus(shared_dir: Path) -> None:
    tokenizer = Tokenizer.load(smollm2())
    assert tokenizer.vocabulary.missing_bytes[:6] == b"\x04\x06\x13\x14\x16\x1d"
    assert tokenizer.eos_token_id == tokenizer.end_of_turn_id == 2
    assert tokenizer.encode_prompt("<|im_end|> hi") == tokenizer.encode("<|im_end|> hi")
    assert 2 not in tokenizer.encode("<|im_end|>")
    check_corpora(tokenizer, "smollm2", shared_dir)


@pytest.fixture(scope="module")
def gemma() -> Path:
    """The file of Gemma 3 270M."""
    return gemma3()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ids_of_gemma_equal_llama_cpp_on_every_corpus(gemma: Path, shared_dir: Path) -> None:
    tokenizer = Tokenizer.load(gemma)
    assert tokenizer.encode_prompt("hi")[0] == tokenizer.bos_token_id == 2
    check_corpora(tokenizer, "gemma3-270m", shared_dir)


@pytest.mark.slow
def test_ids_of_gemma_equal_sentencepiece(gemma: Path) -> None:
    tokenizer = Tokenizer.load(gemma)
    reference = sentencepiece_twin(gemma)
    rng = random.Random(20_261_201)
    for _ in range(3000):
        # Without what user-defined tokens cut out: sentencepiece cuts from left to right.
        text = oracle.fuzzed(rng)
        for piece in ("\n", "\t", "  ", "\u2581", "\x00"):
            text = text.replace(piece, " a")
        if any(token.content in text for token in tokenizer.vocabulary.added):
            continue
        assert tokenizer.encode(text) == reference.encode(text), repr(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def sentencepiece_twin(path: Path) -> object:
    """A sentencepiece processor with the pieces of a GGUF file."""
    spm = pytest.importorskip("sentencepiece")
    proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    model = proto.ModelProto()
    with GgufFile(path) as file:
        pieces, scores, types = (
            file.value(f"tokenizer.ggml.{name}") for name in ("tokens", "scores", "token_type")
        )
    for piece, score, kind in zip(pieces, scores.tolist(), types.tolist(), strict=True):
        written = piece.replace(" ", "\u2581")
        # Its own kinds have the numbers of token_type; only one unknown token is allowed.
        model.pieces.add(piece=written, score=score, type=2 if piece == "<unk>" else kind)
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return spm.SentencePieceProcessor(model_proto=model.SerializeToString())
