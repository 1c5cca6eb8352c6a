"""The five-minute benchmark on a few kilobytes: variants, seeds, curve and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer.testing

from cerne.bench.shakespeare import run
from cerne.cli.app import app
from cerne.data.world import World
from cerne.errors import ConfigError, InputError


def test_an_unknown_variant_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dropout"):
        run(tmp_path / "text", recipe=tmp_path, runs=tmp_path, variants=["dropuot"])


def test_a_seed_that_is_no_number_is_refused(tmp_path: Path) -> None:
    done = typer.testing.CliRunner().invoke(
        app, ["bench", "shakespeare", str(tmp_path / "text"), "--seeds", "0,x"]
    )
    assert isinstance(done.exception, InputError)
    assert "0,x" in str(done.exception)


@pytest.mark.slow
def test_variants_and_seeds_are_trained_and_scored(tmp_path: Path, repo_dir: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(World(0, "en").stories(60)), encoding="utf-8")
    out = tmp_path / "shakespeare.json"
    command = ["bench", "shakespeare", str(text), "--seeds", "0,1", "--variants", "recipe,adamw"]
    command += ["--recipe", str(repo_dir / "recipes" / "shakespeare.toml"), "--out", str(out)]
    command += ["--runs", str(tmp_path / "runs"), "--json"]
    for key in ("train.steps=4", "train.val_every=2", "train.compile=off", "train.seq_len=64"):
        command += ["--set", key]
    command += ["--set", "tokenizer.vocab_size=320"]
    done = typer.testing.CliRunner().invoke(app, command, catch_exceptions=False)
    results = json.loads(done.stdout.splitlines()[-1])
    assert results == json.loads(out.read_text(encoding="utf-8"))
    assert list(results["variants"]) == ["recipe", "adamw"]
    scores = set()
    for variant in results["variants"].values():
        for found in variant["seeds"].values():
            assert found["steps"] == 4
            assert [point["step"] for point in found["curve"] if "val_bpb" in point] == [0, 2, 4]
            assert found["curve"][-1]["val_bpb"] == found["val_bpb"]
            assert found["val_bpb_overlapping"] < found["val_bpb"]
            scores.add(found["val_bpb"])
    assert len(scores) == 4
    assert results["baselines_bits_per_byte"]["ngram"] < results["baselines_bits_per_byte"]["bz2"]
