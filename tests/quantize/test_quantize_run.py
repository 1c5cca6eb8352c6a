"""cerne quantize from end to end: directories and GGUF files in, files that the engine runs out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quantize_tools import model_directory, small_tokenizer, torch_logits, world_text
from typer.testing import CliRunner

from cerne.cli.app import app
from cerne.errors import InputError, ModelError
from cerne.model.transformer import Transformer
from cerne.native.gguf import GgufFile
from cerne.quantize.calibrate import measure
from cerne.quantize.gguf_network import network_from_gguf
from cerne.quantize.run import convert, quantize
from cerne.tokenizer.bpe import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return small_tokenizer()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text(world_text(40), encoding="utf-8")
    return path


def kinds(path: Path) -> Counter[str]:
    """Types of the matrices of a file."""
    with GgufFile(path) as file:
        return Counter(t.type for t in file.tensors.values() if len(t.shape) == 2)


def run_cli(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_sizes_types_and_errors_follow_the_target(tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(tmp_path / "model", tokenizer)
    ids = tokenizer.encode(world_text(3))[:64]
    wanted = torch_logits(network, ids)
    found = {}
    for target in ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq4_nl", "q4_0"):
        out = tmp_path / f"{target}.gguf"
        report = quantize(tmp_path / "model", out, target)
        assert report["file_bytes"] == out.stat().st_size
        got = torch_logits(network_from_gguf(out), ids)
        found[target] = (report["bits_per_weight"], float(np.abs(got - wanted).mean()))
    assert found["q8_0"][0] < 8.7 and found["q4_k_m"][0] < 6.0
    for finer, coarser in (("q8_0", "q6_k"), ("q6_k", "q5_k_m"), ("q5_k_m", "q4_k_m")):
        assert found[finer][0] > found[coarser][0] and found[finer][1] < found[coarser][1]


def test_case72_fallbacks_are_named_counted_and_reported(
    tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_directory(tmp_path / "model", tokenizer)
    report = quantize(tmp_path / "model", tmp_path / "m.gguf", "q4_k_m")
    # Width 256 fits; the feed-forward outputs have rows of 288. Both layers take more bits.
    warned = capsys.readouterr().err
    assert "warning: 1 tensors have rows of 288 values, which Q6_K cannot hold: Q8_0" in warned
    assert report["fallbacks"] == [
        {"wanted": kind, "instead": instead, "row_width": 288, "tensors": 1}
        for kind, instead in (("Q4_K", "Q5_0"), ("Q6_K", "Q8_0"))
    ]
    assert kinds(tmp_path / "m.gguf") == {"Q4_K": 11, "Q6_K": 2, "Q5_0": 1, "Q8_0": 1}
    size = sum(group["bytes"] for group in report["types"].values())
    assert report["bits_per_weight"] == pytest.approx(8 * size / report["weights"])


def test_a_file_from_a_float_file_is_that_from_the_directory(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model_directory(tmp_path / "model", tokenizer)
    convert(tmp_path / "model", tmp_path / "f32.gguf", "f32")
    quantize(tmp_path / "model", tmp_path / "a.gguf", "q4_k_m")
    quantize(tmp_path / "f32.gguf", tmp_path / "b.gguf", "q4_k_m", threads=2)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_quantizing_again_is_warned_about(
    tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_directory(tmp_path / "model", tokenizer)
    quantize(tmp_path / "model", tmp_path / "q8.gguf", "q8_0")
    assert "quantized before" not in capsys.readouterr().err
    quantize(tmp_path / "q8.gguf", tmp_path / "q4.gguf", "q4_0")
    assert "warning: 15 tensors were quantized before (15 Q8_0)" in capsys.readouterr().err


def test_importance_is_the_mean_square_of_the_inputs(tokenizer: Tokenizer, tmp_path: Path) -> None:
    network = model_directory(tmp_path / "model", tokenizer, tie_word_embeddings=False)
    ids = torch.tensor(tokenizer.encode(world_text(10))[:192]).reshape(3, 64)
    found = measure(network, ids)
    assert len(found) == 2 * 7 + 1 and "output.weight" in found
    with torch.inference_mode():
        hidden = network(ids)
        embedded = network.model.embed_tokens(ids)
        first = network.model.layers[0].input_layernorm(embedded)
    wanted = {"output.weight": hidden, "blk.0.attn_q.weight": first, "blk.0.attn_v.weight": first}
    for name, inputs in wanted.items():
        mean = inputs.double().square().mean((0, 1)).float().numpy()
        np.testing.assert_allclose(found[name], mean, rtol=1e-5)
    assert found["blk.1.ffn_down.weight"].shape == (288,)


def test_calibration_lowers_the_error_of_the_products(
    tokenizer: Tokenizer, text: Path, tmp_path: Path
) -> None:
    network = model_directory(tmp_path / "model", tokenizer)
    # Columns of very different size, as trained models have.
    scale = torch.exp(2 * torch.randn(256, generator=torch.Generator().manual_seed(5)))
    with torch.no_grad():
        for layer in network.model.layers:
            layer.input_layernorm.weight.mul_(scale)
            layer.post_attention_layernorm.weight.mul_(scale)
    folder = tmp_path / "uneven"
    from cerne.model.hf import save_model

    save_model(folder, network, tokenizer)
    for target in ("q4_k_m", "iq4_nl"):
        quantize(folder, tmp_path / "plain.gguf", target, force=True)
        report = quantize(
            folder, tmp_path / "cal.gguf", target, calibrate=text, calibrate_tokens=2048, force=True
        )
        assert report["calibrated_tensors"] == 15
        errors = [
            product_error(network, network_from_gguf(tmp_path / name), tokenizer)
            for name in ("plain.gguf", "cal.gguf")
        ]
        assert errors[1] < 0.8 * errors[0]


def product_error(network: Transformer, other: Transformer, tokenizer: Tokenizer) -> float:
    """Mean squared error of the first feed-forward's product on other text than the calibration."""
    ids = torch.tensor([tokenizer.encode(world_text(60)[-3000:])[:256]])
    with torch.inference_mode():
        block = network.model.layers[0]
        x = block.post_attention_layernorm(network.model.embed_tokens(ids))
        theirs = other.model.layers[0].mlp.up_proj(x)
        return float((block.mlp.up_proj(x) - theirs).square().mean())


def test_wrong_input_is_told_in_one_sentence(
    tokenizer: Tokenizer, text: Path, tmp_path: Path
) -> None:
    model_directory(tmp_path / "model", tokenizer)
    out = tmp_path / "m.gguf"
    with pytest.raises(InputError, match=r"unknown target.*q4_k_m"):
        quantize(tmp_path / "model", out, "q4km")
    short = tmp_path / "short.txt"
    short.write_text("too short", encoding="utf-8")
    with pytest.raises(InputError, match="calibration text is too short"):
        quantize(tmp_path / "model", out, "q4_0", calibrate=short)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(ModelError, match=r"bad\.gguf"):
        quantize(tmp_path / "bad.gguf", out, "q4_0")
    assert not out.exists()


def test_the_verbs_print_the_real_bits_and_json(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model_directory(tmp_path / "model", tokenizer)
    out = tmp_path / "m.gguf"
    done = run_cli("quantize", tmp_path / "model", out, "--to", "q4_k_m", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.splitlines()[-1])
    assert f"{report['bits_per_weight']:.2f} bits per weight (rows of 2 tensors" in done.stdout
    assert report["types"]["Q4_K"]["tensors"] == 11
    done = run_cli("convert", out, tmp_path / "f16.gguf", "--to", "f16", "--json")
    assert json.loads(done.stdout.splitlines()[-1])["bits_per_weight"] == pytest.approx(16, abs=0.1)
    done = run_cli("quantize", tmp_path / "model", out)
    assert isinstance(done.exception, InputError)
    done = run_cli("quantize", tmp_path / "model", tmp_path / "n.gguf", "--calibrate", "nowhere")
    assert isinstance(done.exception, InputError)
