"""Fine-tuning runs: files, counts, resume, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sft_tools import base_model, recipe, write_rows
from typer.testing import CliRunner

from cerne.cli.app import app
from cerne.errors import CheckpointError, ConfigError, DataError, TokenizerError
from cerne.model.hf import load_model, read_provenance, save_model
from cerne.runs import RunDirectory, sha256_file
from cerne.tokenizer.bpe import Tokenizer
from cerne.tune.sft import load_data, run_sft

ROWS = [{"prompt": f"hello {i}", "response": f"world {i}"} for i in range(40)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_model(tmp_path_factory.mktemp("base") / "model")


def test_a_run_writes_a_model_directory_that_names_its_parent(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    result = run_sft(recipe(base, rows, tmp_path / "run", steps=4, val_fraction=0.2))
    assert result.step == 4
    assert result.validation["val_loss"] > 0
    written = read_provenance(result.checkpoint)
    assert written["parents"][0]["sha256"] == sha256_file(base / "model.safetensors")
    assert written["data"]["rows"]["good_rows"] == 40
    counts = [written["data"][part]["conversations"] for part in ("train", "val")]
    assert sum(counts) == 40
    assert min(counts) > 0
    assert Tokenizer.load(result.checkpoint).chat_template == Tokenizer.load(base).chat_template
    first = RunDirectory(tmp_path / "run").read_metrics()[0]
    assert first["step"] == 0


def test_resume_equals_an_uninterrupted_run_bit_for_bit(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    # About four batches an epoch: step 6 is in the second one.
    options = {"steps": 6, "save_every": 2, "keep_last": 0}
    whole = run_sft(recipe(base, rows, tmp_path / "whole", **options))
    run_sft(recipe(base, rows, tmp_path / "cut", **options))
    RunDirectory(tmp_path / "cut").set_latest("step-000002")
    resumed = run_sft(recipe(base, rows, tmp_path / "cut", **options), resume=True)
    for name in ("model.safetensors", "trainer/optimizer.safetensors"):
        assert sha256_file(whole.checkpoint / name) == sha256_file(resumed.checkpoint / name)
    losses = [
        [(r["step"], r.get("loss")) for r in RunDirectory(tmp_path / n).read_metrics()]
        for n in ("whole", "cut")
    ]
    assert losses[0] == losses[1]


def test_a_changed_recipe_or_nothing_to_resume_is_an_error(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        run_sft(recipe(base, rows, tmp_path / "run"), resume=True)
    run_sft(recipe(base, rows, tmp_path / "run2", steps=2))
    with pytest.raises(ConfigError, match="already holds a run"):
        run_sft(recipe(base, rows, tmp_path / "run2", steps=2))
    with pytest.raises(ConfigError, match="lr was"):
        run_sft(recipe(base, rows, tmp_path / "run2", steps=2, lr=1e-5), resume=True)


def test_context_and_template_are_checked_before_training(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(ConfigError, match="longer than the model's context"):
        run_sft(recipe(base, rows, tmp_path / "a", seq_len=4096))
    bare = tmp_path / "bare"
    tokenizer = Tokenizer.train(
        ["hello world"] * 9, 300, special_tokens=("<|pad|>", "<|endoftext|>"), allow_fewer=True
    )
    save_model(bare, load_model(base), tokenizer)
    with pytest.raises(TokenizerError, match="no chat template"):
        run_sft(recipe(bare, rows, tmp_path / "b"))


def test_three_rows_train(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS[:3])
    assert run_sft(recipe(base, rows, tmp_path / "run", steps=3, batch_size=8)).step == 3


def test_one_row_that_is_held_out_is_one_clear_error(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS[:1])
    with pytest.raises(DataError, match=r"data\.val_fraction=0"):
        run_sft(recipe(base, rows, tmp_path / "run", val_fraction=0.999))


def test_held_out_rows_that_are_all_too_long_leave_training_without_validation(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    long = write_rows(tmp_path / "long.jsonl", [{"prompt": "hello " * 90, "response": "x " * 90}])
    chosen = recipe(base, rows, tmp_path / "run", steps=2)
    data = chosen.data.model_copy(update={"val_path": long, "too_long": "skip"})
    found = load_data(data, Tokenizer.load(base), chosen.train.seq_len)
    assert (len(found.train), found.val) == (40, [])
    assert found.report["val"]["skipped_too_long"] == 1
    assert "no held-out conversation fits" in capsys.readouterr().err


def test_number_of_trained_tokens_is_the_mask_count(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    chosen = recipe(base, rows, tmp_path / "run", steps=5, batch_size=64, val_fraction=0.0)
    tokenizer = Tokenizer.load(base)
    data = load_data(chosen.data, tokenizer, chosen.train.seq_len)
    per_epoch = sum(len(tokenizer.encode(row["response"])) + 1 for row in ROWS)
    assert sum(e.num_supervised for e in data.train) == per_epoch
    assert data.report["train"]["supervised_tokens"] == per_epoch
    result = run_sft(chosen)
    whole_rounds = result.tokens // per_epoch
    assert whole_rounds >= 5  # 64 rows a step go round the few rows of an epoch many times


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["sft", *map(str, arguments)], catch_exceptions=False)


def test_command_line_dry_run_shows_what_is_trained(base: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [{"prompt": "hello", "response": "world"}])
    file = tmp_path / "r.toml"
    file.write_text("", encoding="utf-8")
    done = invoke(
        file, f"model.path={base}", f"data.path={rows}", "data.val_fraction=0",
        "train.seq_len=64", "--dry-run", "--json", "--device", "cpu",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["recipe"]["run"]["device"] == "cpu"
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["first"] == "<|user|>hello<|end|><|assistant|>[[world<|end|>]]"
    assert shown["data"]["train"]["supervised_tokens"] > 1


def test_command_line_names_an_unknown_key(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"did you mean format"):
        invoke(file, "data.formt=prompt")
