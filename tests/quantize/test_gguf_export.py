"""Model directories as GGUF files: every family, read by the gguf package and by the engine."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from quantize_tools import LLAMA3, model_directory, small_tokenizer, torch_logits, world_text

from cerne.errors import CheckpointError, EnvironmentLack, InputError, ModelError
from cerne.model.hf import save_model
from cerne.native.gguf import GgufFile
from cerne.native.model import NativeContext, NativeModel
from cerne.quantize.gguf_export import neighbours_from_halves
from cerne.quantize.gguf_network import halves_from_neighbours, network_from_gguf
from cerne.quantize.run import convert
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.special import DEFAULT_SPECIALS

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-untied-biased": {
        "tie_word_embeddings": False,
        "attention_bias": True,
        "mlp_bias": True,
    },
    "llama3": {"rope_scaling": LLAMA3, "rope_theta": 500_000.0},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "yarn": {"rope_scaling": {**YARN, "attention_factor": 1.3}},
    "mistral": {"architecture": "mistral", "tie_word_embeddings": False},
    "qwen2": {"architecture": "qwen2"},
    "qwen3": {"architecture": "qwen3", "head_dim": 16},
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return small_tokenizer()


def native_logits(path: Path, ids: list[int]) -> np.ndarray:
    """Logits [T, V] by the native engine."""
    with NativeModel.open_gguf(path, 1) as model, NativeContext(model, {"threads": 1}) as context:
        sequence = context.start()
        return context.decode([sequence] * len(ids), ids, [True] * len(ids))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_computes_what_the_directory_computes(
    family: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    network = model_directory(tmp_path / "model", tokenizer, **FAMILIES[family])
    report = convert(tmp_path / "model", tmp_path / "m.gguf", "f32")
    assert report["weights"] >= network.config.num_parameters()
    ids = tokenizer.encode(world_text(3))[:96]
    wanted = torch_logits(network, ids)
    got = native_logits(tmp_path / "m.gguf", ids)
    assert np.abs(got - wanted).max() < 1e-3 * max(1.0, np.abs(wanted).max())
    if "rope_scaling" not in FAMILIES[family]:
        back = torch_logits(network_from_gguf(tmp_path / "m.gguf"), ids)
        np.testing.assert_array_equal(back, wanted)


def test_the_gguf_package_reads_metadata_and_tensors(tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(
        tmp_path / "tiny", tokenizer, rope_scaling=LLAMA3, rope_theta=500_000.0
    )
    convert(tmp_path / "tiny", tmp_path / "m.gguf", "f32")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    found = {key: field.contents() for key, field in reader.fields.items()}
    assert found["general.architecture"] == "llama"
    assert found["general.name"] == "tiny"
    assert found["general.file_type"] == 0
    assert found["llama.block_count"] == 2
    assert found["llama.attention.head_count_kv"] == 2
    assert found["llama.rope.freq_base"] == 500_000.0
    assert found["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-6)
    assert "llama.rope.scaling.type" not in found
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    factors = tensors["rope_freqs.weight"].data
    assert factors.shape == (16,) and factors[0] == 1.0 and factors[-1] == 8.0
    assert ((factors[1:] >= factors[:-1]) & (factors[1:] <= 8.0)).all()
    down = network.state_dict()["model.layers.1.mlp.down_proj.weight"].numpy()
    np.testing.assert_array_equal(tensors["blk.1.ffn_down.weight"].data, down)
    # Llama files pair neighbours: rows 0 and 1 of a head are its rows 0 and E/2 before.
    query = network.state_dict()["model.layers.0.self_attn.q_proj.weight"].numpy()
    stored = tensors["blk.0.attn_q.weight"].data
    np.testing.assert_array_equal(stored[[32, 33, 34]], query[[32, 48, 33]])
    assert "output.weight" not in tensors


def test_case74_tokenizer_metadata(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model_directory(tmp_path / "model", tokenizer, vocab_size=tokenizer.vocab_size + 3)
    convert(tmp_path / "model", tmp_path / "m.gguf", "f16")
    with GgufFile(tmp_path / "m.gguf") as file:
        tokens = file.value("tokenizer.ggml.tokens")
        types = file.value("tokenizer.ggml.token_type")
        assert isinstance(tokens, list) and isinstance(types, np.ndarray)
        assert len(tokens) == len(types) == tokenizer.vocab_size + 3
        for name in DEFAULT_SPECIALS:
            at = tokenizer.special_tokens[name]
            assert tokens[at] == name and types[at] == 3
        assert set(types[-3:]) == {5} and tokens[-1] == f"[PAD{tokenizer.vocab_size + 2}]"
        assert file.value("tokenizer.ggml.pre") == "qwen2"
        assert file.value("tokenizer.ggml.eos_token_id") == tokenizer.eos_token_id
        assert file.value("tokenizer.ggml.eot_token_id") == tokenizer.end_of_turn_id
        assert file.value("tokenizer.ggml.padding_token_id") == tokenizer.pad_token_id
        assert "tokenizer.ggml.bos_token_id" not in file
        assert file.value("tokenizer.ggml.add_bos_token") is False
        template = file.value("tokenizer.chat_template")
    assert isinstance(template, str) and "generation -" not in template
    again = Tokenizer.load(tmp_path / "m.gguf")
    text = world_text(5) + " <|end|> \t\n 1234 na\u00efve \U0001f600"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.special_tokens == tokenizer.special_tokens


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "qwen2", "smollm"])
def test_case71_pre_tokenizers_have_names(pattern: str, tmp_path: Path) -> None:
    tokenizer = small_tokenizer(pattern)
    model_directory(tmp_path / "model", tokenizer)
    convert(tmp_path / "model", tmp_path / "m.gguf", "f16")
    again = Tokenizer.load(tmp_path / "m.gguf")
    text = "It's 12345 o'clock,   says X\u00c9!\n\n  fin  "
    assert again.encode(text) == tokenizer.encode(text)


def test_half_weights_keep_their_bits(tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(tmp_path / "model", tokenizer, torch.bfloat16)
    report = convert(tmp_path / "model", tmp_path / "m.gguf", "bf16")
    assert set(report["types"]) == {"BF16", "F32"}
    back = network_from_gguf(tmp_path / "m.gguf")
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, back.get_parameter(name)), name


def test_window_narrower_than_the_context_is_told(
    tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_directory(tmp_path / "m", tokenizer, architecture="mistral", sliding_window=128)
    convert(tmp_path / "m", tmp_path / "m.gguf", "f32")
    assert "warning: llama.cpp knows no sliding window" in capsys.readouterr().err
    with GgufFile(tmp_path / "m.gguf") as file:
        assert file.value("llama.context_length") == 128


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "no GGUF form"),
        ({"rope_scaling": {**YARN, "truncate": False}}, "YaRN"),
        ({"architecture": "qwen2", "rope_scaling": LLAMA3}, "llama files only"),
        ({"architecture": "qwen3", "attention_bias": True}, "biases"),
    ],
)
def test_what_no_gguf_file_can_say_is_refused(
    overrides: dict[str, Any], message: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model_directory(tmp_path / "model", tokenizer, **overrides)
    with pytest.raises(ModelError, match=message):
        convert(tmp_path / "model", tmp_path / "m.gguf", "f16")
    assert not (tmp_path / "m.gguf").exists()


def test_an_existing_file_is_kept_without_force(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model_directory(tmp_path / "model", tokenizer)
    out = tmp_path / "m.gguf"
    out.write_bytes(b"precious")
    with pytest.raises(InputError, match=r"there already.*--force"):
        convert(tmp_path / "model", out, "f16")
    assert out.read_bytes() == b"precious"
    convert(tmp_path / "model", out, "f16", force=True)
    assert out.read_bytes()[:4] == b"GGUF"
    with pytest.raises(InputError, match=r"unknown target.*f16"):
        convert(tmp_path / "model", tmp_path / "n.gguf", "fp16")
    with pytest.raises(InputError, match="is a folder"):
        convert(tmp_path / "model", tmp_path, "f16")


def test_a_bad_weight_leaves_nothing_behind(tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(tmp_path / "model", tokenizer)
    with torch.no_grad():
        network.get_parameter("model.layers.1.mlp.up_proj.weight")[3, 7] = float("nan")
    save_model(tmp_path / "bad", network, tokenizer)
    with pytest.raises(ModelError, match=r"tensor blk\.1\.ffn_up\.weight: row 3, column 7 holds"):
        convert(tmp_path / "bad", tmp_path / "m.gguf", "f16")
    assert sorted(os.listdir(tmp_path)) == ["bad", "model"]


def test_a_full_disk_leaves_nothing_behind(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_directory(tmp_path / "model", tokenizer)
    written = []

    def write(writer: Any, tensor: Any) -> None:
        written.append(tensor.nbytes)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", write)
    (tmp_path / "m.gguf").write_bytes(b"old")
    with pytest.raises(EnvironmentLack, match="No space left on device"):
        convert(tmp_path / "model", tmp_path / "m.gguf", "f16", force=True)
    assert (tmp_path / "m.gguf").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["m.gguf", "model"]


def test_tensors_that_do_not_fit_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model_directory(tmp_path / "model", tokenizer)
    (tmp_path / "model" / "cerne.json").unlink()
    config = tmp_path / "model" / "config.json"
    text = config.read_text(encoding="utf-8")
    config.write_text(
        text.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'), encoding="utf-8"
    )
    with pytest.raises(CheckpointError, match=r"do not fit.*model\.layers\.2"):
        convert(tmp_path / "model", tmp_path / "m.gguf", "f16")


def test_order_of_rows_there_and_back() -> None:
    rows = np.arange(24, dtype=np.float32).reshape(24, 1)
    there = neighbours_from_halves(rows, 2)
    assert there[:6, 0].tolist() == [0, 6, 1, 7, 2, 8] and there[12, 0] == 12
    np.testing.assert_array_equal(halves_from_neighbours(there, 2), rows)
