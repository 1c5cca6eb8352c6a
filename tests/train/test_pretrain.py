"""Pre-training from a recipe to a run directory: contents, resume, init-from, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from train_tools import weights_digest

from cerne.config import build, load_recipe
from cerne.errors import CheckpointError, ConfigError, DataError
from cerne.model.hf import load_model, read_provenance
from cerne.runs import RunDirectory, sha256_file
from cerne.tokenizer.bpe import Tokenizer
from cerne.train.pretrain import run_pretrain
from cerne.train.recipe import PretrainRecipe

TEXT = "the cat sat on a mat and the dog ran to the old red barn while rain fell on it"
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 12)) for i in range(400)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def recipe(text: Path, run_dir: Path, **train: Any) -> PretrainRecipe:
    settings = {"steps": 4, "batch_size": 2, "seq_len": 32, "compile": "off", "log_every": 1}
    values = {
        "run": {"dir": str(run_dir), "threads": 1, "device": "cpu", "precision": "fp32"},
        "data": {"path": str(text)},
        "tokenizer": {"vocab_size": 300},
        "model": {"preset": "nano", "hidden_size": 32, "intermediate_size": 64,
                  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1},
        "train": {**settings, **train},
    }  # fmt: skip
    return build(PretrainRecipe, values)


@pytest.fixture(scope="module")
def done(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[PretrainRecipe, Path]:
    given = recipe(text, tmp_path_factory.mktemp("run") / "r")
    return given, run_pretrain(given).checkpoint


def test_run_directory_holds_everything(done: tuple[PretrainRecipe, Path]) -> None:
    given, checkpoint = done
    run = Path(given.run.dir)
    assert load_recipe(PretrainRecipe, run / "recipe.toml") == given
    records = RunDirectory(run).read_metrics()
    assert [r["step"] for r in records] == [0, 1, 2, 3, 4]
    assert records[-1]["val_bpb"] < records[0]["val_bpb"]
    tokenizer = Tokenizer.load(checkpoint)
    assert load_model(checkpoint).config.vocab_size == tokenizer.vocab_size
    provenance = read_provenance(checkpoint)
    assert provenance["recipe"]["train"]["steps"] == 4
    assert provenance["data"]["sources"] == [sha256_file(given.data.paths[0])]


def test_init_from_keeps_weights_and_tokenizer_but_not_the_place(
    done: tuple[PretrainRecipe, Path], text: Path, tmp_path: Path
) -> None:
    _, parent = done
    again = recipe(text, tmp_path / "new", lr=1e-12, warmup_fraction=0.0)
    result = run_pretrain(again, init_from=parent)
    # A learning rate of nothing leaves the parent's weights as they were.
    saved, old = load_model(result.checkpoint), load_model(parent)
    for name, value in old.state_dict().items():
        assert float((value - saved.state_dict()[name]).abs().max()) < 1e-9, name
    assert result.step == 4
    assert Tokenizer.load(result.checkpoint).digest == Tokenizer.load(parent).digest
    assert read_provenance(result.checkpoint)["parents"] == [
        {"name": parent.name, "sha256": sha256_file(parent / "model.safetensors")}
    ]


def test_resume_of_a_longer_run_goes_on(text: Path, tmp_path: Path) -> None:
    first = run_pretrain(recipe(text, tmp_path / "a", schedule="constant"))
    longer = recipe(text, tmp_path / "a", schedule="constant", steps=7)
    resumed = run_pretrain(longer, resume=True)
    whole = run_pretrain(recipe(text, tmp_path / "b", schedule="constant", steps=7))
    assert (first.step, resumed.step) == (4, 7)
    assert weights_digest(load_model(resumed.checkpoint)) == weights_digest(
        load_model(whole.checkpoint)
    )
    assert resumed.tokens == whole.tokens


def test_a_run_from_a_parent_of_another_shape_resumes_and_keeps_its_parents(
    done: tuple[PretrainRecipe, Path], text: Path, tmp_path: Path
) -> None:
    _, parent = done
    given = recipe(text, tmp_path / "r", save_every=2, keep_last=0)
    model = given.model.model_copy(update={"hidden_size": 64, "num_hidden_layers": 2})
    given = given.model_copy(update={"model": model})
    whole = run_pretrain(given, init_from=parent)
    digest = weights_digest(load_model(whole.checkpoint))
    RunDirectory(tmp_path / "r").set_latest("step-000002")
    resumed = run_pretrain(given, resume=True)
    assert weights_digest(load_model(resumed.checkpoint)) == digest
    assert load_model(resumed.checkpoint).config.hidden_size == 32
    assert read_provenance(resumed.checkpoint)["parents"] == [
        {"name": parent.name, "sha256": sha256_file(parent / "model.safetensors")}
    ]


@pytest.mark.parametrize("change", ["gone", "other"])
def test_resume_needs_only_the_shards_it_began_with(
    text: Path, tmp_path: Path, change: str
) -> None:
    source = tmp_path / "text.txt"
    source.write_text(text.read_text(encoding="utf-8"), encoding="utf-8")
    given = recipe(source, tmp_path / "r", save_every=2, keep_last=0)
    whole = weights_digest(load_model(run_pretrain(given).checkpoint))
    if change == "gone":
        source.unlink()
    else:
        source.write_text("quite another text\n" * 300, encoding="utf-8")
    RunDirectory(tmp_path / "r").set_latest("step-000002")
    resumed = run_pretrain(given, resume=True)
    assert weights_digest(load_model(resumed.checkpoint)) == whole


def test_resume_says_what_a_new_length_or_time_limit_does(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_pretrain(recipe(text, tmp_path / "r"))
    assert run_pretrain(recipe(text, tmp_path / "r", steps=6), resume=True).step == 6
    assert "train.steps was 4 and is 6" in capsys.readouterr().err
    limited = recipe(text, tmp_path / "r", time_limit_s=5.0, steps=9)
    assert run_pretrain(limited, resume=True).step in (4, 6)
    assert "this one keeps its" in capsys.readouterr().err


def test_refusals(done: tuple[PretrainRecipe, Path], text: Path, tmp_path: Path) -> None:
    given, checkpoint = done
    with pytest.raises(ConfigError, match="--resume and --init-from exclude each other"):
        run_pretrain(given, resume=True, init_from=checkpoint)
    with pytest.raises(ConfigError, match=r"already holds a run.*--resume continues it"):
        run_pretrain(given)
    with pytest.raises(CheckpointError, match="no checkpoint to resume"):
        run_pretrain(recipe(text, tmp_path / "nothing"), resume=True)
    changed = recipe(text, Path(given.run.dir), lr=0.5)
    with pytest.raises(ConfigError, match=r"train\.lr was 0\.003, now 0\.5"):
        run_pretrain(changed, resume=True)
    assert sha256_file(checkpoint / "config.json")


def test_damaged_checkpoint_falls_back_only_when_asked(text: Path, tmp_path: Path) -> None:
    given = recipe(text, tmp_path / "r", save_every=2)
    last = run_pretrain(given).checkpoint
    whole = sha256_file(last / "model.safetensors")
    data = bytearray((last / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (last / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*--fallback"):
        run_pretrain(given, resume=True)
    result = run_pretrain(given, resume=True, fallback=True)
    assert result.checkpoint == last
    assert sha256_file(last / "model.safetensors") == whole


def test_time_limit_is_written_down_as_steps_and_kept_on_resume(text: Path, tmp_path: Path) -> None:
    given = recipe(text, tmp_path / "r", time_limit_s=0.3)
    result = run_pretrain(given)
    saved = load_recipe(PretrainRecipe, tmp_path / "r" / "recipe.toml")
    assert saved.train.steps == result.step
    assert run_pretrain(given, resume=True).step == result.step


def test_case28_no_held_out_text_trains(text: Path, tmp_path: Path) -> None:
    given = recipe(text, tmp_path / "r")
    given = given.model_copy(update={"data": given.data.model_copy(update={"val_fraction": 0.0})})
    result = run_pretrain(given)
    assert result.validation == {}
    assert "val_bpb" not in RunDirectory(tmp_path / "r").read_metrics()[-1]


def test_case29_three_rows_train(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"text": f"row {word} of the three rows that there are"} for word in WORDS[:3]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = recipe(path, tmp_path / "r")
    given = given.model_copy(
        update={"tokenizer": given.tokenizer.model_copy(update={"vocab_size": 270})}
    )
    assert run_pretrain(given).step == 4


def test_empty_text_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError):
        run_pretrain(recipe(path, tmp_path / "r"))
