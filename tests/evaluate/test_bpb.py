"""Bits per byte: every byte once, the stated window policy, the begin rule."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from chat_tools import default_tokenizer, family_tokenizer, with_vocabulary
from sft_tools import base_model, small_transformer

import cerne
from cerne.engine.session import LanguageModel
from cerne.errors import ConfigError, DataError, TokenizerError
from cerne.evaluate.bpb import TextFile, read_text_file, score_text, start_token, trained_length
from cerne.tokenizer.special import Roles

TEXT = (
    "the quick brown fox jumps over the lazy dog. O cachorro viu a a\u00e7\u00e3o \U0001f600. " * 6
)


def language_model() -> LanguageModel:
    return LanguageModel(small_transformer(seed=3).eval(), default_tokenizer())


def text_file(*documents: str) -> TextFile:
    return TextFile("x", tuple(d.encode() for d in documents))


def test_case31_bytes_are_those_of_the_file_and_each_token_is_scored_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode() + b"\xff\xfe raw \x80")
    found = read_text_file(str(path))
    result = score_text(language_model(), found, seq_len=32)
    ids = default_tokenizer().encode_array(path.read_bytes())
    assert result.num_bytes == path.stat().st_size
    assert result.num_tokens == len(ids)
    lengths = default_tokenizer().token_byte_lengths()[ids.astype(np.int64)]
    assert int(lengths.sum()) == result.num_bytes


def test_uniform_model_costs_log2_of_the_vocabulary_per_token() -> None:
    model = language_model()
    with torch.no_grad():
        model.network.output_weight.zero_()
    result = score_text(model, text_file(TEXT), seq_len=32)
    expected = math.log2(default_tokenizer().vocab_size) / result.bytes_per_token
    assert result.bits_per_byte == pytest.approx(expected, rel=1e-6)


def test_windows_equal_a_hand_written_loop() -> None:
    model, seq_len = language_model(), 16
    ids = [start_token(model.tokenizer), *model.tokenizer.encode(TEXT)]
    for stride in (16, 5):
        nats = 0.0
        for first in range(1, len(ids), stride):
            last = min(first + stride, len(ids))
            begin = max(0, first - 1 + stride - seq_len)
            logits_TV = torch.from_numpy(model.logits(ids[begin : last - 1])).double()
            logprobs_TV = torch.log_softmax(logits_TV, -1)
            for target in range(first, last):
                nats -= float(logprobs_TV[target - 1 - begin, ids[target]])
        result = score_text(model, text_file(TEXT), seq_len, stride)
        assert result.bits_per_byte == pytest.approx(
            nats / math.log(2) / len(TEXT.encode()), rel=1e-5
        )


def test_documents_do_not_see_each_other() -> None:
    model = language_model()
    both = score_text(model, text_file(TEXT, "hello world"), seq_len=64)
    alone = [score_text(model, text_file(part), seq_len=64) for part in (TEXT, "hello world")]
    total = sum(r.bits_per_byte * r.num_bytes for r in alone)
    assert both.bits_per_byte * both.num_bytes == pytest.approx(total, rel=1e-6)


def test_case34_begin_rule_is_that_of_the_tokenizer() -> None:
    llama = family_tokenizer("llama3")
    assert start_token(llama) == llama.bos_token_id
    own = default_tokenizer()
    assert start_token(own) == own.eos_token_id
    bos_unused = with_vocabulary(own, roles=Roles(bos="<|user|>", eos="<|endoftext|>"))
    assert start_token(bos_unused) == own.special_tokens["<|endoftext|>"]
    with pytest.raises(TokenizerError, match="begins or ends a document"):
        start_token(with_vocabulary(own, roles=Roles()))


def test_sources_text_json_lines_and_markers(tmp_path: Path) -> None:
    rows = tmp_path / "a.jsonl"
    rows.write_text(
        "".join(json.dumps({"text": t}) + "\n" for t in ("one", "two")), encoding="utf-8"
    )
    assert read_text_file(str(rows)).documents == (b"one", b"two")
    marked = tmp_path / "b.txt"
    marked.write_text("one<|endoftext|>two", encoding="utf-8")
    assert read_text_file(str(marked)).documents == (b"one", b"two")
    empty = tmp_path / "c.txt"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="no text to score"):
        read_text_file(str(empty))


def test_window_is_that_of_training_when_recorded(tmp_path: Path) -> None:
    model = cerne.load(base_model(tmp_path / "m"), threads=1)
    assert trained_length(model) == model.context
    about = tmp_path / "m" / "cerne.json"
    content = json.loads(about.read_text(encoding="utf-8"))
    content["recipe"] = {"train": {"seq_len": 48}}
    about.write_text(json.dumps(content), encoding="utf-8")
    assert trained_length(model) == 48
    with pytest.raises(ConfigError, match="seq_len"):
        score_text(model, text_file("x"), seq_len=100_000)
    with pytest.raises(ConfigError, match="stride"):
        score_text(model, text_file("x"), seq_len=8, stride=9)
