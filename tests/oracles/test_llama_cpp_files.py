"""llama.cpp reads the files that convert and quantize write, and computes what the engine does.

Needs llama-cpp-python, which compiles for minutes: pip install llama-cpp-python, make test-all.
"""

from __future__ import annotations

import ctypes
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from quantize_tools import LLAMA3, model_directory, small_tokenizer, torch_logits, world_text
from real_models import smollm2

from cerne.native.model import NativeContext, NativeModel
from cerne.quantize.mixture import TARGETS
from cerne.quantize.run import convert, quantize
from cerne.tokenizer.bpe import Tokenizer

llama_cpp = pytest.importorskip("llama_cpp", reason="pip install llama-cpp-python")
pytestmark = pytest.mark.slow

Logits = npt.NDArray[np.float32]
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
    "llama3": {"rope_scaling": LLAMA3, "rope_theta": 500_000.0},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "yarn": {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 128,
            "attention_factor": 1.3,
        }
    },
    "mistral": {"architecture": "mistral"},
    "qwen2": {"architecture": "qwen2"},
    "qwen3": {"architecture": "qwen3", "head_dim": 64},
}


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Any:
    """Keep llama.cpp's log out of the report."""
    callback = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return small_tokenizer()


def peer(path: Path) -> Any:
    """A file in llama.cpp."""
    return llama_cpp.Llama(str(path), n_ctx=512, logits_all=True, verbose=False, n_threads=2)


def peer_logits(model: Any, ids: list[int]) -> Logits:
    model.reset()
    model.eval(ids)
    logits: Logits = np.array(model.scores[: len(ids)], dtype=np.float32)
    return logits


def native_logits(path: Path, rows: list[list[int]]) -> list[Logits]:
    options = {"threads": 2, "capacity": 512, "max_sequences": len(rows)}
    with NativeModel.open_gguf(path, 2) as model, NativeContext(model, options) as context:
        return [
            context.decode([context.start()] * len(ids), ids, [True] * len(ids)) for ids in rows
        ]


def perplexity(logits: list[Logits], rows: list[list[int]]) -> float:
    """Of each row's tokens after its first."""
    losses = []
    for logits_TV, ids in zip(logits, rows, strict=True):
        wide = logits_TV[:-1].astype(np.float64)
        wide -= wide.max(axis=1, keepdims=True)
        losses.append(np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(wide)), ids[1:]])
    return float(np.exp(np.concatenate(losses).mean()))


@pytest.mark.parametrize("family", FAMILIES)
def test_float_files_of_every_family(family: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(tmp_path / "model", tokenizer, **FAMILIES[family])
    convert(tmp_path / "model", tmp_path / "m.gguf", "f32")
    ids = tokenizer.encode(world_text(3))[:96]
    wanted = torch_logits(network, ids)
    # llama.cpp keeps keys and values in float16.
    assert (
        np.abs(peer_logits(peer(tmp_path / "m.gguf"), ids) - wanted).max()
        < 0.02 * np.abs(wanted).max()
    )


def test_case71_tokenizers_give_the_same_ids(tmp_path: Path) -> None:
    texts = [
        world_text(4),
        "It's 12345 o'clock,   says X\u00c9!\n\n  fin  ",
        "\t\u4f60\u597d \U0001f600",
    ]
    for pattern in ("gpt2", "llama3", "qwen2", "smollm"):
        tokenizer = small_tokenizer(pattern)
        model_directory(tmp_path / pattern, tokenizer)
        convert(tmp_path / pattern, tmp_path / f"{pattern}.gguf", "f16")
        model = peer(tmp_path / f"{pattern}.gguf")
        for text in texts:
            theirs = model.tokenize(text.encode("utf-8"), add_bos=False, special=False)
            assert theirs == tokenizer.encode(text)
        special = model.tokenize(b"<|user|>Hi<|end|>", add_bos=False, special=True)
        assert special[0] == tokenizer.special_tokens["<|user|>"]
        assert special[-1] == tokenizer.end_of_turn_id


@pytest.mark.parametrize("target", TARGETS)
def test_quantized_smollm2_has_the_same_perplexity(
    target: str, shared_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m.gguf"
    quantize(smollm2(), out, target)
    packed = shared_dir / "data" / "text" / "en_wikitext2_test.txt.xz"
    ids = Tokenizer.load(out).encode(lzma.decompress(packed.read_bytes())[:24_000])
    # The engines round activations differently, which evens out over some thousand tokens.
    rows = [ids[i : i + 512] for i in range(0, 2048, 512)]
    ours = perplexity(native_logits(out, rows), rows)
    model = peer(out)
    theirs = perplexity([peer_logits(model, row) for row in rows], rows)
    assert ours == pytest.approx(theirs, rel=0.005)
    assert ours < 40
