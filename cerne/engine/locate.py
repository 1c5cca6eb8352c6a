"""From what a user calls MODEL to a model directory or a GGUF file.

A model directory or a GGUF file is taken as it is; a run directory stands for its newest model; a
name may be that of an installed model package. Everything else is an error that says what it is and
what would do.
"""

from __future__ import annotations

from pathlib import Path

from cerne.engine.packages import PACKAGES, package_model
from cerne.errors import ModelError, nearest
from cerne.model.gguf import is_gguf
from cerne.runs import RunDirectory

CONFIG = "config.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_ALLOWED = "a model directory, a run directory, a .gguf file or an installed model package"


def find_model(name: str | Path) -> Path:
    """The model directory or GGUF file that `name` stands for; what lies at a path comes first.

    Raises:
        ModelError: nothing there, or something that is not a model.
        EnvironmentLack: the name of a model package that is not installed.
    """
    path = Path(name)
    if path.is_dir():
        return _in_folder(path)
    if path.is_file() or path.suffix in _PICKLED:
        return _file(path)
    packaged = package_model(str(name))
    if packaged is not None:
        return packaged
    raise ModelError(
        "there is no such model",
        value=str(path),
        allowed=f"{_ALLOWED} ({', '.join(PACKAGES)})",
        hint=nearest(str(name), PACKAGES) or "cerne demo, which trains one into runs/demo",
    )


def find_model_directory(name: str | Path) -> Path:
    """As `find_model`, for what needs weights that can be trained: no GGUF file.

    Raises:
        ModelError: nothing there, or no model directory.
        EnvironmentLack: the name of a model package that is not installed.
    """
    found = find_model(name)
    if found.is_file():
        raise ModelError(
            "this needs a model directory; a GGUF file can only be run",
            value=str(found),
            allowed="a model directory with config.json, model.safetensors and tokenizer.json",
        )
    return found


def _file(path: Path) -> Path:
    if is_gguf(path):
        return path
    if path.suffix in _PICKLED:
        raise ModelError(
            "pickled weights are not read: opening them would run code from the file",
            value=str(path),
            allowed=_ALLOWED,
        )
    raise ModelError(
        "a model is a directory or a GGUF file, and this is neither",
        value=str(path),
        allowed=_ALLOWED,
        hint=str(path.parent) if (path.parent / CONFIG).is_file() else None,
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
