"""The real-text benchmark on a few kilobytes: same path, same figures as training logs."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
import typer.testing

from cerne.bench.real_text import run
from cerne.cli.app import app
from cerne.data.world import World
from cerne.errors import InputError


def test_a_missing_text_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"en_books\.jsonl\.xz"):
        run(tmp_path, recipe=Path("recipes/books.toml"), runs=tmp_path / "runs")


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    done = typer.testing.CliRunner().invoke(
        app, ["bench", "text", str(tmp_path), "--only", "pt,fr"]
    )
    assert isinstance(done.exception, InputError)
    assert "fr" in str(done.exception) and "en, pt, ru" in str(done.exception)


@pytest.mark.slow
def test_small_books_are_trained_and_scored(tmp_path: Path, repo_dir: Path) -> None:
    world = World(0, "pt")
    books = ["\n".join(world.story(i + 40 * book) for i in range(40)) for book in range(3)]
    with lzma.open(tmp_path / "pt_books.jsonl.xz", "wt", encoding="utf-8") as handle:
        for book in books:
            handle.write(json.dumps({"text": book}, ensure_ascii=False) + "\n")
    keys = ("train.steps=4", "train.compile=off", "tokenizer.vocab_size=320", "run.threads=1")
    keys = (*keys, "model.preset=nano", "train.seq_len=64")
    out = tmp_path / "real_text.json"
    command = ["bench", "text", str(tmp_path), "--only", "pt", "--minutes", "0.05"]
    command += ["--recipe", str(repo_dir / "recipes" / "books.toml"), "--out", str(out)]
    command += ["--runs", str(tmp_path / "runs"), "--json"]
    for key in keys:
        command += ["--set", key]
    done = typer.testing.CliRunner().invoke(app, command, catch_exceptions=False)
    results = json.loads(done.stdout.splitlines()[-1])
    assert results == json.loads(out.read_text(encoding="utf-8"))
    found = results["languages"]["pt"]
    size = sum(len(book.encode()) for book in books)
    held_out = found["held_out"]
    assert found["train_bytes"] + held_out["num_bytes"] == pytest.approx(size, abs=8)
    assert held_out["bits_per_byte"] == pytest.approx(found["curve"][-1]["val_bpb"], rel=1e-5)
    assert held_out["baselines"]["ngram"] < held_out["baselines"]["bz2"]
    assert len(found["samples"]) == 2
    assert "pt held-out" in done.stdout
