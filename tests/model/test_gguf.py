"""The facts of a GGUF file, and what `cerne inspect` prints of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import gguf_tools as make
import pytest
from model_tools import run_inspect

from cerne.errors import ModelError
from cerne.model.gguf import inspect_gguf, is_gguf

METADATA = [
    make.entry("general.architecture", make.STRING, "llama"),
    make.entry("general.name", make.STRING, "Tiny\x1b[2J\n"),
    make.entry("llama.context_length", make.U32, 8192),
    make.entry("llama.block_count", make.U32, 1),
    make.array("llama.attention.head_count_kv", make.I32, [3, 1]),
    make.entry("llama.rope.freq_base", make.F32, float("inf")),
    make.entry("tokenizer.ggml.model", make.STRING, "gpt2"),
    make.entry("tokenizer.ggml.pre", make.STRING, "smollm"),
    make.array("tokenizer.ggml.tokens", make.STRING, ["a", "b", "c"]),
    make.array("tokenizer.ggml.merges", make.STRING, ["a b"]),
    make.entry("tokenizer.ggml.bos_token_id", make.U32, 1),
    make.entry("tokenizer.ggml.add_bos_token", make.BOOL, False),
    make.entry("tokenizer.chat_template", make.STRING, "{{ messages }}"),
]
# Q8_0 [2, 64], Q4_K [1, 256], Q8_0 [1, 32], F32 [8]: 136, 144, 34 and 32 bytes.
TENSORS = [
    make.tensor("a", [64, 2], 8, 0),
    make.tensor("b", [256], 12, 160),
    make.tensor("c", [32], 8, 320),
    make.tensor("d", [8], 0, 384),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small file of a whole model's shape."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(make.gguf_bytes(METADATA, TENSORS, bytes(416)))
    return path


def test_facts(model: Path) -> None:
    facts = inspect_gguf(model)
    assert (facts["architecture"], facts["context"]) == ("llama", 8192)
    sizes = {"block_count": 1, "attention.head_count_kv": [3, 1], "rope.freq_base": "inf"}
    assert facts["sizes"] == sizes
    weights = facts["weights"]
    assert list(weights["types"]) == ["Q8_0", "Q4_K", "F32"]
    q8 = {"tensors": 2, "weights": 160, "bytes": 170, "bits_per_weight": 8.5}
    assert weights["types"]["Q8_0"] == q8
    assert weights["types"]["Q4_K"]["bits_per_weight"] == 4.5
    assert (weights["tensors"], weights["weights"], weights["bytes"]) == (4, 424, 346)
    assert weights["bits_per_weight"] == 8 * 346 / 424
    assert facts["tokenizer"] == {
        "kind": "gpt2",
        "pre": "smollm",
        "vocab_size": 3,
        "merges": 1,
        "ids": {"bos": 1},
        "adds_bos": False,
        "adds_eos": None,
        "has_chat_template": True,
    }
    assert facts["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert inspect_gguf(model, verify=False)["sha256"] is None


def test_command_prints_the_facts(model: Path) -> None:
    done = run_inspect(str(model), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == inspect_gguf(model)
    assert "Q8_0" in done.stdout
    assert "2 tensors, 160 weights, 170 B, 8.50 bits per weight" in done.stdout
    assert "gpt2, pre-tokenizer smollm" in done.stdout
    # The file's text is shown, not obeyed.
    assert r"Tiny\x1b[2J\n" in done.stdout
    assert "\x1b" not in done.stdout


def test_command_refuses_a_damaged_file(model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-100])
    done = run_inspect(str(model))
    assert done.returncode == 2
    assert "tiny.gguf: the data of tensor 'c' need 34 bytes at offset 320;" in done.stderr
    assert "allowed: inside the 316 bytes of data in the file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_without_weights_and_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(make.gguf_bytes())
    facts = inspect_gguf(tmp_path / "x.gguf")
    assert facts["architecture"] is None
    assert facts["weights"]["bits_per_weight"] is None
    assert facts["tokenizer"] is None
    done = run_inspect(str(tmp_path / "x.gguf"))
    assert done.returncode == 0, done.stderr
    assert "the file has no tokenizer" in done.stdout


def test_what_counts_as_gguf(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(model.read_bytes())
    text = tmp_path / "text.txt"
    text.write_text("GGU", encoding="ascii")
    assert is_gguf(model)
    assert is_gguf(other)
    assert not is_gguf(text)
    assert not is_gguf(tmp_path)
    (tmp_path / "folder.gguf").mkdir()
    assert not is_gguf(tmp_path / "folder.gguf")
    assert not is_gguf(tmp_path / "missing")
    assert is_gguf(tmp_path / "missing.gguf")
    with pytest.raises(ModelError, match=r"missing\.gguf: cannot open the file"):
        inspect_gguf(tmp_path / "missing.gguf")
