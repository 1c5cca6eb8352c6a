"""The determinism check: it passes on the real engine, and notices a single wrong bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cerne.bench import determinism
from cerne.cli.app import app
from cerne.engine.native_engine import NativeSequences
from cerne.errors import InputError
from cerne.model.hf import save_model
from cerne.tokenizer.bpe import Tokenizer
from tests.engine.fakes import small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("determinism") / "model"
    tokenizer = Tokenizer.train(["The history of the town begins with a river. " * 9], 280)
    save_model(path, small_model(vocab_size=tokenizer.vocab_size), tokenizer, {})
    return path


def test_every_case_gives_the_same_digest(folder, tmp_path):
    out = tmp_path / "determinism.json"
    arguments = ["bench", "determinism", str(folder), "--tokens", "70", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = json.loads(out.read_text(encoding="utf-8"))
    found = written["models"]["model"]
    assert found["all_same"] and found["arithmetic"] == "cerne-1" and found["tokens"] > 70
    names = " ".join(case["case"] for case in found["cases"])
    for part in ("threads 8", "pieces of 16", "batch of 16", "cache", "CERNE_ISA=scalar"):
        assert part in names
    assert written["machine"]["date"] and "command" in written


def test_a_wrong_bit_is_noticed(folder, tmp_path, monkeypatch):
    plain = NativeSequences.decode

    def flawed(self, sequences, ids):
        logits = plain(self, sequences, ids)
        if len(sequences) > 5:
            logits.view(np.uint32)[:, 3] ^= 1
        return logits

    monkeypatch.setattr(NativeSequences, "decode", flawed)
    found = determinism.run([str(folder)], 64)["models"]["model"]
    assert not found["all_same"]
    wrong = [case["case"] for case in found["cases"] if not case["same"]]
    assert wrong == ["batch of 7, random neighbours", "batch of 16, random neighbours"]


def test_digest_knows_one_kind_of_nan():
    a, b = determinism.LogitsDigest(), determinism.LogitsDigest()
    a.add(np.array([[1.0, np.nan]], dtype=np.float32))
    b.add(np.array([[0x3F800000, 0xFFC00001]], dtype=np.uint32).view(np.float32))
    assert a.value == b.value


def test_too_few_tokens_and_too_short_a_context(folder):
    with pytest.raises(InputError, match="64 or more"):
        determinism.run([str(folder)], 5)
    with pytest.raises(InputError, match="context is too short"):
        determinism.run([str(folder)], 64, prompt="The history of the town. " * 40)
