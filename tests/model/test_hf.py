"""Model directories: what is written, and what each kind of damage says."""

from __future__ import annotations

import errno
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from model_tools import random_ids, small_config, small_model

from cerne.errors import CheckpointError, EnvironmentLack, InputError, ModelError
from cerne.model.hf import load_model, parent_of, read_config, read_provenance, save_model
from cerne.model.hf_config import config_from_hf, config_to_hf
from cerne.runs import sha256_file

WEIGHTS = "model.safetensors"


class FakeTokenizer:
    """The surface save_model uses."""

    vocab_size = 60
    pad_token_id = 53
    eos_token_id = 54
    bos_token_id = None
    end_of_turn_id = 59

    def save(self, folder: Any) -> None:
        (Path(folder) / "tokenizer.json").write_text("{}", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path / "model", small_model(tie_word_embeddings=False))
    return tmp_path / "model"


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the tensors as a foreign tool would: no digests to check."""
    tensors = safetensors.torch.load_file(folder / WEIGHTS)
    change(tensors)
    safetensors.torch.save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / "cerne.json").unlink()


def edit_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**content, **changes}), encoding="utf-8")
    (folder / "cerne.json").unlink(missing_ok=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_case19_round_trip_keeps_every_bit_and_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    model = small_model(architecture="qwen3", dropout=0.1).to(dtype)
    save_model(tmp_path / "m", model)
    loaded = load_model(tmp_path / "m", dtype=None)
    assert loaded.config == model.config
    assert not loaded.training
    for name, value in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == dtype
        assert torch.equal(loaded.state_dict()[name], value), name
    assert {p.dtype for p in load_model(tmp_path / "m").parameters()} == {torch.float32}
    ids = random_ids(1, 20)
    with torch.no_grad():
        assert torch.equal(loaded(ids), model.eval()(ids))


@pytest.mark.parametrize("tied", [True, False])
def test_case22_file_size_is_the_sum_of_the_tensors(tmp_path: Path, tied: bool) -> None:
    model = small_model(hidden_size=256, intermediate_size=512, tie_word_embeddings=tied)
    # A view of a larger storage must not drag that storage along.
    model.model.norm.weight.data = torch.ones(4, 256)[1]
    save_model(tmp_path / "m", model)
    wanted = sum(p.numel() * p.element_size() for p in model.parameters())
    assert (tmp_path / "m" / WEIGHTS).stat().st_size == pytest.approx(wanted, rel=0.01)


def test_case18_keys_are_the_same_compiled_or_not(tmp_path: Path) -> None:
    model = small_model()
    plain = set(model.state_dict())
    save_model(tmp_path / "wrapped", torch.compile(model))
    model.model.layers[0] = torch.compile(model.model.layers[0])
    save_model(tmp_path / "inside", model)
    for name in ("wrapped", "inside"):
        assert set(safetensors.torch.load_file(tmp_path / name / WEIGHTS)) == plain


def test_provenance_is_recorded_and_checked(tmp_path: Path) -> None:
    model = small_model()
    save_model(tmp_path / "base", model)
    parent = parent_of(tmp_path / "base")
    meta = {"parents": [parent], "recipe": {"train": {"steps": 3}}, "data": {"a.txt": "00"}}
    save_model(tmp_path / "tuned", model, FakeTokenizer(), meta)
    content = read_provenance(tmp_path / "tuned")
    assert content["format_version"] == 1
    assert content["parents"] == [
        {"name": "base", "sha256": sha256_file(tmp_path / "base" / WEIGHTS)}
    ]
    assert content["recipe"]["train"]["steps"] == 3
    assert content["data"] == {"a.txt": "00"}
    assert content["code"]["version"]
    assert content["sha256"][WEIGHTS] == sha256_file(tmp_path / "tuned" / WEIGHTS)
    assert set(content["sha256"]) == {
        WEIGHTS,
        "config.json",
        "generation_config.json",
        "tokenizer.json",
    }


def test_the_tokenizers_ids_reach_both_configurations(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_model(), FakeTokenizer())
    config = read_config(tmp_path / "m")
    assert (config.pad_token_id, config.eos_token_id, config.bos_token_id) == (53, 54, None)
    generation = json.loads((tmp_path / "m/generation_config.json").read_text(encoding="utf-8"))
    assert generation == {"eos_token_id": [54, 59], "pad_token_id": 53}
    # Loaded and saved again without the tokenizer, the stops survive.
    save_model(tmp_path / "again", load_model(tmp_path / "m"))
    again = json.loads((tmp_path / "again/generation_config.json").read_text(encoding="utf-8"))
    assert again == generation


def test_further_ids_that_end_generation_stay(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_model(eos_token_id=(54, 50)))
    path = tmp_path / "m" / "generation_config.json"
    path.write_text('{"eos_token_id": [54, 50, 51]}', encoding="utf-8")
    save_model(tmp_path / "again", load_model(tmp_path / "m", verify=False), FakeTokenizer())
    again = json.loads((tmp_path / "again/generation_config.json").read_text(encoding="utf-8"))
    assert again["eos_token_id"] == [54, 59, 50, 51]
    with pytest.raises(ModelError, match=r"tokenizer 60, model vocab_size=50"):
        save_model(tmp_path / "small", small_model(vocab_size=50), FakeTokenizer())


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_a_truncated_file_is_an_error(folder: Path, cut: int) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:cut])
    with pytest.raises(CheckpointError, match=r"model.safetensors.*cut"):
        load_model(folder)
    (folder / "cerne.json").unlink()
    with pytest.raises(CheckpointError, match=r"model.safetensors is cut short or damaged"):
        load_model(folder)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "generation_config.json"])
@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_one_flipped_bit_is_an_error(folder: Path, name: str, place: float) -> None:
    data = bytearray((folder / name).read_bytes())
    data[int(len(data) * place)] ^= 1
    (folder / name).write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=f"{name}.*SHA-256"):
        load_model(folder)


def test_flipped_bits_in_the_header_never_escape_as_other_errors(folder: Path) -> None:
    (folder / "cerne.json").unlink()
    data = (folder / WEIGHTS).read_bytes()
    header = int.from_bytes(data[:8], "little")
    refused = 0
    for at in range(0, header + 8, 41):
        for bit in (0, 6):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            (folder / WEIGHTS).write_bytes(bytes(changed))
            try:
                load_model(folder)
            except CheckpointError:
                refused += 1
    assert refused > header // 41


def test_missing_extra_and_misshapen_tensors_are_named(folder: Path, tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    changes: list[tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = [
        (lambda t: t.pop(name), rf"lacks.*{name} \[40, 24\]"),
        (lambda t: t.update({"extra.weight": torch.ones(3)}), r"extra.weight \[3\]"),
        (lambda t: t.update({name: torch.ones(24, 40)}), rf"{name}.*\[24, 40\].*\[40, 24\]"),
        (lambda t: t.update({name: torch.ones(40, 24, dtype=torch.int8)}), rf"{name}.*int8"),
    ]
    for i, (change, message) in enumerate(changes):
        copy = tmp_path / str(i)
        shutil.copytree(folder, copy)
        rewrite(copy, change)
        with pytest.raises(CheckpointError, match=message):
            load_model(copy)


def test_weights_of_another_architecture_are_refused(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=3)
    with pytest.raises(CheckpointError, match=r"lacks.*model.layers.2.*and \d+ more"):
        load_model(folder)
    edit_config(folder, num_hidden_layers=2, hidden_size=32)
    with pytest.raises(CheckpointError, match=r"wrong shape"):
        load_model(folder)
    edit_config(folder, hidden_size=24, model_type="gpt2")
    with pytest.raises(ModelError, match=r"gpt2.*llama, mistral, qwen2, qwen3"):
        load_model(folder)


def test_tied_models_accept_an_equal_head_only(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_model())
    rewrite(
        tmp_path / "m",
        lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}),
    )
    load_model(tmp_path / "m")
    save_model(tmp_path / "n", small_model())
    rewrite(
        tmp_path / "n", lambda t: t.update({"lm_head.weight": 2 * t["model.embed_tokens.weight"]})
    )
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs"):
        load_model(tmp_path / "n")


def test_old_rotary_buffers_are_skipped(folder: Path) -> None:
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    before = load_model(folder).state_dict()
    rewrite(folder, lambda tensors: tensors.update(extra))
    after = load_model(folder).state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_case96_pickle_is_refused_by_content(folder: Path, protocol: int) -> None:
    (folder / WEIGHTS).write_bytes(pickle.dumps({"weight": [1.0]}, protocol=protocol))
    for _ in range(2):
        with pytest.raises(CheckpointError, match="pickle"):
            load_model(folder)
        (folder / "cerne.json").unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "consolidated.pth"])
def test_case96_torch_files_are_refused_by_name(folder: Path, name: str) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "cerne.json").unlink()
    torch.save({"a": torch.ones(2)}, folder / name)
    with pytest.raises(CheckpointError, match=rf"pickle.*{name}.*safetensors"):
        load_model(folder)
    with pytest.raises(CheckpointError, match="pickle"):
        load_model(folder / name)


def test_shards_outside_the_folder_and_missing_shards_are_refused(folder: Path) -> None:
    (folder / "cerne.json").unlink()
    tensors = safetensors.torch.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).rename(folder.parent / "outside.safetensors")
    index = folder / "model.safetensors.index.json"
    for name, message in (
        ("../outside.safetensors", "outside the folder"),
        ("gone.safetensors", "shard is missing"),
    ):
        index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, name)}), encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            load_model(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not readable JSON"), ("[1]", "not a JSON object"), ("\x00\x01", "not readable JSON")],
)
def test_unreadable_configuration(folder: Path, text: str, message: str) -> None:
    (folder / "cerne.json").unlink()
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"config.json.*{message}"):
        load_model(folder)


def test_absent_models_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model there"):
        load_model(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match=r"config.json"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"new_field": 3}, ["new_field", "3"]),
        ({"hidden_act": "gelu"}, ["hidden_act", "gelu", "silu"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor", "0.5"]),
        ({"quantization_config": {"bits": 4}}, ["quantization_config", "bits"]),
        ({"architectures": ["LlamaForSequenceClassification"]}, ["LlamaForSequenceClassification"]),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2}}, ["longrope"]),
        ({"sliding_window": 16}, ["sliding window", "16"]),
        ({"vocab_size": None}, ["lacks", "vocab_size"]),
        ({"num_key_value_heads": 3}, ["num_key_value_heads=3"]),
    ],
)
def test_unmapped_fields_and_values_are_named(changes: dict[str, Any], words: list[str]) -> None:
    content = config_to_hf(small_config(), "float32") | changes
    with pytest.raises(InputError) as caught:
        config_from_hf(content)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_full_disk_keeps_what_was_saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(tensors: Any, path: Path, metadata: Any = None) -> None:
        path.write_bytes(b"partial")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(EnvironmentLack, match="No space left"):
        save_model(folder, small_model(seed=9, tie_word_embeddings=False))
    with pytest.raises(EnvironmentLack, match="No space left"):
        save_model(folder.parent / "new", small_model())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    load_model(folder)


def test_a_torn_overwrite_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New weights, then a kill before the provenance: the digests disagree."""
    monkeypatch.setattr(
        "cerne.model.hf.sha256_file", lambda path: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        save_model(folder, small_model(seed=9, tie_word_embeddings=False))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="SHA-256"):
        load_model(folder)
