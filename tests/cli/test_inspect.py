"""`cerne inspect`: the facts of a model directory, and one sentence when it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

from model_tools import run_inspect, small_config, small_model

from cerne.model.hf import parent_of, save_model
from cerne.model.inspect import cost, inspect_model
from cerne.runs import sha256_file


def test_facts_and_json_line(tmp_path: Path) -> None:
    save_model(tmp_path / "base", small_model())
    model = small_model(architecture="qwen3", tie_word_embeddings=False)
    parents = [parent_of(tmp_path / "base")]
    save_model(tmp_path / "m", model, None, {"parents": parents, "recipe": {"steps": 7}})
    done = run_inspect(str(tmp_path / "m"), "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["parameters"]["total"] == sum(p.numel() for p in model.parameters())
    assert facts["parameters"]["head"] == 61 * 24
    assert facts["stored"]["tensor_bytes"] == 4 * facts["parameters"]["total"]
    digest = sha256_file(tmp_path / "m" / "model.safetensors")
    assert facts["stored"]["sha256"] == {"model.safetensors": digest}
    assert facts["provenance"]["parents"] == parents
    assert facts["tokenizer"] is None
    assert digest in done.stdout
    assert parents[0]["sha256"] in done.stdout
    assert "no tokenizer.json" in done.stdout


def test_a_run_directory_stands_for_its_newest_model(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "step-000007"
    save_model(checkpoint, small_model())
    done = run_inspect(str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["folder"] == str(checkpoint)


def test_a_damaged_model_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_model())
    with open(tmp_path / "m" / "model.safetensors", "r+b") as handle:
        handle.truncate(100)
    done = run_inspect(str(tmp_path / "m"))
    assert done.returncode == 2
    assert "model.safetensors" in done.stderr
    assert "Traceback" not in done.stderr


def test_cost_is_that_of_the_configuration() -> None:
    config = small_config()
    facts = cost(config, weight_bytes=10)
    assert facts["inference_bytes"]["as_stored"] == 10 + 1024 * config.kv_bytes_per_token(4)
    assert facts["training_bytes_adamw_float32"] == 16 * config.num_parameters()


def test_a_foreign_directory_without_provenance(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_model())
    (tmp_path / "m" / "cerne.json").unlink()
    facts = inspect_model(tmp_path / "m")
    assert facts["provenance"] == {}
    assert facts["digests_checked"] == []
    assert set(facts["stored"]["sha256"]) == {"model.safetensors"}
