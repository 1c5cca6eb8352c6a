"""From what a user calls MODEL to a model directory.

A model directory is taken as it is; a run directory stands for its newest model. Everything else is
an error that says what it is and what would do.
"""

from __future__ import annotations

from pathlib import Path

from cerne.errors import ModelError
from cerne.runs import RunDirectory

CONFIG = "config.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def find_model(name: str | Path) -> Path:
    """The model directory that `name` stands for.

    Raises:
        ModelError: nothing there, or something that is not a model.
    """
    path = Path(name)
    if path.is_dir():
        return _in_folder(path)
    if path.suffix == ".gguf":
        raise ModelError(
            "this version does not run GGUF files",
            value=str(path),
            allowed="a model directory with config.json, model.safetensors and tokenizer.json",
        )
    if path.suffix in _PICKLED:
        raise ModelError(
            "pickled weights are not read: opening them would run code from the file",
            value=str(path),
            allowed="a model directory with model.safetensors",
        )
    if path.is_file():
        raise ModelError(
            "a model is a directory, not a file",
            value=str(path),
            allowed="a model directory or a run directory",
            hint=str(path.parent) if (path.parent / CONFIG).is_file() else None,
        )
    raise ModelError(
        "there is no such model",
        value=str(path),
        allowed="a model directory or a run directory",
        hint="cerne demo, which trains one into runs/demo",
    )


def _in_folder(path: Path) -> Path:
    if (path / CONFIG).is_file():
        return path
    if (path / "checkpoints").is_dir():
        latest = RunDirectory(path).latest()
        if latest is not None:
            return latest
        raise ModelError(
            "the run has no checkpoint yet", value=str(path), hint="train for longer, or resume it"
        )
    raise ModelError(
        "the folder holds no model",
        value=str(path),
        allowed="config.json (a model directory) or checkpoints/ (a run directory)",
    )
