"""Bad input through the command line: one clear sentence, the documented exit code, nothing lost.

One small run is trained once per session and copied by the tests that damage it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cerne.cli.app import main

TINY = (
    "train.steps=4",
    "train.save_every=2",
    "train.seq_len=32",
    "train.batch_size=2",
    "tokenizer.vocab_size=300",
)


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def error(self) -> str:
        """The one error line."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0]


class Runner:
    """Runs the command line in this process, which saves importing torch each time."""

    def __init__(self, repo: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.recipe = str(repo / "recipes" / "nano.toml")
        self._capture = capture

    def __call__(self, *arguments: str) -> Result:
        before, sys.argv = sys.argv, ["cerne", *arguments]
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            sys.argv = before
        out, err = self._capture.readouterr()
        assert "Traceback" not in err
        return Result(code, out, err)

    def pretrain(self, text: Path | str, run: Path, *more: str) -> Result:
        return self("pretrain", self.recipe, f"data.path={text}", f"run.dir={run}", *TINY, *more)


@pytest.fixture()
def cerne(
    repo_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    monkeypatch.setenv("CERNE_ALLOCATOR", "on")  # no restart inside the tests' process
    return Runner(repo_dir, capsys)


@pytest.fixture(scope="session")
def trained(repo_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of four updates on the built-in world."""
    run = tmp_path_factory.mktemp("trained") / "run"
    command = ["pretrain", str(repo_dir / "recipes" / "nano.toml"), f"run.dir={run}", *TINY]
    done = subprocess.run(
        [sys.executable, "-m", "cerne", *command, "data.path=world:en?documents=50"],
        capture_output=True,
        text=True,
        env=dict(os.environ, CERNE_ALLOCATOR="on"),
    )
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture()
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (bytes(range(256)) * 40, "binary"),
        (b"plain text\n\xff\xfe broken\n" * 20, "UTF-8"),
    ],
    ids=["empty", "binary noise", "invalid UTF-8"],
)
def test_unusable_text(cerne: Runner, tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    result = cerne.pretrain(path, tmp_path / "run")
    assert result.code == 2
    assert expected.lower() in result.error.lower()
    assert str(path) in result.error


def test_case29_three_rows_train(cerne: Runner, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [json.dumps({"text": f"Row {n} tells a short story of a tree."}) for n in range(3)]
    path.write_text("\n".join(rows), encoding="utf-8")
    result = cerne.pretrain(
        path, tmp_path / "run", "tokenizer.vocab_size=270", "data.val_fraction=0"
    )
    assert result.code == 0, result.err


def test_bad_rows_are_named(cerne: Runner, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "good"}\n{"text": 3}\nnot json\n', encoding="utf-8")
    result = cerne.pretrain(path, tmp_path / "run")
    assert result.code == 2
    assert f"{path}:2: field 'text' is not text" in result.error


def test_vocabulary_larger_than_the_text_supports(cerne: Runner, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("ab ab ab\n" * 20, encoding="utf-8")
    result = cerne.pretrain(path, tmp_path / "run", "tokenizer.vocab_size=5000")
    assert result.code == 2
    assert "5000" in result.error


def test_a_50_mb_line(cerne: Runner, tmp_path: Path, trained: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("a tree and a stone " * (50_000_000 // 19), encoding="utf-8")
    result = cerne(
        "data", "prepare", str(path), "-t", str(trained / "tokenizer"), "-o", str(tmp_path / "out")
    )
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.stepz=3", ("train.stepz", "steps")),
        ("train.steps=0", ("train.steps", "0")),
        ("train.steps=many", ("train.steps", "many")),
        ("train.lr=-1", ("train.lr", "-1")),
        ("model.preset=huge", ("huge", "micro")),
        ("tokenizer.vocab_size=3", ("tokenizer.vocab_size", "3")),
        ("data.val_fraction=1.5", ("data.val_fraction", "1.5")),
        ("run.threads=0", ("threads", "0")),
        ("run.threads=10000", ("threads", "10000")),
        ("run.device=gpu", ("gpu", "cpu")),
        ("data.path=no/such/file.txt", ("no/such/file.txt",)),
    ],
)
def test_recipe_errors(cerne: Runner, tmp_path: Path, override: str, words: tuple[str]) -> None:
    result = cerne("pretrain", cerne.recipe, f"run.dir={tmp_path / 'run'}", *TINY, override)
    assert result.code == 2
    for word in words:
        assert word in result.error


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_cuda(cerne: Runner, tmp_path: Path, trained: Path) -> None:
    for arguments in (
        ("pretrain", cerne.recipe, f"run.dir={tmp_path / 'run'}", "--device", "cuda"),
        ("generate", str(trained), "Ana", "--device", "cuda"),
    ):
        result = cerne(*arguments)
        assert result.code == 3
        assert "cuda is not available" in result.error and "--device cpu" in result.error


@pytest.mark.parametrize("how", ["truncated", "flipped"])
def test_damaged_weights(cerne: Runner, run: Path, how: str) -> None:
    weights = run / "checkpoints" / "step-000004" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    if how == "truncated":
        data = data[: len(data) // 2]
    else:
        data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    resume = ("data.path=world:en?documents=50", "train.steps=6", "--resume")
    for arguments in (
        ("generate", str(run), "Ana", "--max-tokens", "2"),
        ("pretrain", cerne.recipe, f"run.dir={run}", *TINY, *resume),
    ):
        result = cerne(*arguments)
        assert result.code == 2
        assert "model.safetensors" in result.error
    assert (run / "checkpoints" / "step-000002" / "model.safetensors").is_file()


@pytest.mark.parametrize("name", ["optimizer.safetensors", "state.json"])
def test_damaged_trainer_state(cerne: Runner, run: Path, name: str) -> None:
    path = run / "checkpoints" / "step-000004" / "trainer" / name
    path.write_bytes(path.read_bytes()[:-20])
    result = cerne(
        *("pretrain", cerne.recipe, f"run.dir={run}", *TINY, "data.path=world:en?documents=50"),
        *("train.steps=6", "--resume"),
    )
    assert result.code == 2
    assert name in result.error


def test_checkpoint_of_another_architecture(cerne: Runner, run: Path) -> None:
    config = run / "checkpoints" / "step-000004" / "config.json"
    (config.parent / "cerne.json").unlink()  # whose digests would notice the edit first
    values = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(
        json.dumps(values | {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}),
        encoding="utf-8",
    )
    result = cerne("generate", str(run), "Ana")
    assert result.code == 2
    assert "gpt2" in result.error.lower()
    config.write_text(
        json.dumps(values | {"hidden_size": values["hidden_size"] * 2}), encoding="utf-8"
    )
    result = cerne("generate", str(run), "Ana")
    assert result.code == 2


def test_case96_pickle_is_refused(cerne: Runner, run: Path) -> None:
    folder = run / "checkpoints" / "step-000004"
    (folder / "model.safetensors").unlink()
    (folder / "cerne.json").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04\x95 pickle")
    result = cerne("generate", str(run), "Ana")
    assert result.code == 2
    assert "pickle" in result.error.lower()


def test_full_disk_while_saving_loses_nothing(repo_dir: Path, run: Path) -> None:
    """A real limit on file size stands in for the full disk: every larger write fails."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
        "sys.argv[0] = 'cerne'; from cerne.cli.app import main; main()"
    )
    command = ["pretrain", str(repo_dir / "recipes" / "nano.toml"), f"run.dir={run}", *TINY]
    command += ["data.path=world:en?documents=50", "train.steps=8", "--resume"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env=dict(os.environ, CERNE_ALLOCATOR="on"),
    )
    assert done.returncode == 3, done.stderr
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr
    assert (run / "latest").read_text(encoding="utf-8").strip() == "step-000004"
    left = sorted(p.name for p in (run / "checkpoints").iterdir())
    assert left == ["step-000002", "step-000004"]


def test_no_model_there(cerne: Runner, tmp_path: Path) -> None:
    for model in (str(tmp_path), str(tmp_path / "none"), "no-such-model"):
        result = cerne("generate", model, "Ana")
        assert result.code == 2
        assert model in result.error


def test_resume_without_a_run_and_a_new_run_over_an_old_one(
    cerne: Runner, tmp_path: Path, run: Path
) -> None:
    result = cerne("pretrain", cerne.recipe, f"run.dir={tmp_path / 'new'}", *TINY, "--resume")
    assert result.code == 2
    before = sorted(p.name for p in (run / "checkpoints").iterdir())
    result = cerne("pretrain", cerne.recipe, f"run.dir={run}", *TINY)
    assert result.code == 2
    assert "--resume" in result.error
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == before
