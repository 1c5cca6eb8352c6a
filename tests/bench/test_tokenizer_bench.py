"""The tokenizer benchmark: its parts measure what they say, and its result file is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cerne.bench import peers
from cerne.bench import tokenizer as bench
from cerne.bench.corpus import mixed_text
from cerne.bench.report import Spread, alternate, table
from cerne.cli.bench import app
from cerne.errors import InputError

FAST = ("cerne", "tokenizers")


def test_alternate_rotates_the_order() -> None:
    order: list[str] = []

    def note(name: str, value: float) -> float:
        order.append(name)
        return value

    contenders = {"a": lambda: note("a", 1.0), "b": lambda: note("b", 2.0)}
    assert alternate(contenders, 3) == {"a": [1.0, 1.0, 1.0], "b": [2.0, 2.0, 2.0]}
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_spread_and_table() -> None:
    spread = Spread.of([3.0, 1.0, 2.0])
    assert (spread.median, spread.low, spread.high, spread.repetitions) == (2.0, 1.0, 3.0, 3)
    assert Spread(**spread.to_json()) == spread  # type: ignore[arg-type]
    assert spread.text() == "2.0 (1.0-3.0)"
    assert table([["name", "x"], ["a", "10"]]) == "name   x\na     10"


def test_the_corpus_has_the_size_it_says(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("words é " * 20_000, encoding="utf-8")
    text, sizes = mixed_text([str(tmp_path / "mine.txt")], 200_000)
    assert sizes["mine.txt"] == pytest.approx(120_000, abs=4)
    assert sizes["python"] == pytest.approx(60_000, abs=4)
    assert len(text.encode()) == sum(sizes.values())


def test_a_small_run_writes_a_whole_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(bench, "RUN_CHARACTERS", ("a",))
    monkeypatch.setattr(bench, "TRAIN_VOCAB_SIZE", 400)
    encoders, trainers = peers.encoders(), peers.trainers()
    monkeypatch.setattr(peers, "encoders", lambda: [e for e in encoders if e.name in FAST])
    monkeypatch.setattr(peers, "trainers", lambda: [t for t in trainers if t.name in FAST])
    monkeypatch.setattr(bench, "_training_memory", lambda text, names: dict.fromkeys(names, 1))
    out = tmp_path / "tokenizer.json"
    arguments = ["tokenizer", "--megabytes", "0.1", "--repetitions", "2", "-o", str(out), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = json.loads(out.read_text(encoding="utf-8"))
    assert json.loads(done.stdout.splitlines()[-1]) == written
    for measured in written["encode"].values():
        for row in measured.values():
            assert row["exact_documents"] == row["documents"] > 0
            assert row["unseen_mb_s"]["repetitions"] == 2
    assert written["train"]["cerne"]["same_merges"] is True
    assert set(written["runs"]["cerne"]) == {"U+0061"}
    assert {"date", "commit", "cpu"} <= set(written["machine"])
    assert "MB/s" in done.stdout


def test_training_memory_is_of_training_alone() -> None:
    # About 1.2 MB of distinct words need at least their slots (8 bytes a byte).
    text = " ".join(f"w{i:x}{i * 7919 % 10007}" for i in range(120_000))
    used = bench._training_memory(text, ["cerne"])["cerne"]
    assert 8 * 1_000_000 < used < 400 * 1_000_000


def test_a_benchmark_that_is_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="too small"):
        bench.run((), 5_000_000, 0)
    with pytest.raises(InputError, match="too small"):
        bench.run((), 10, 5)
