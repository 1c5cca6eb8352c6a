"""CASES 1 to 3: importing needs no compiler and no extra, and the build needs no torch."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPTIONAL = (
    *("transformers", "tokenizers", "tensorboard", "gigatoken", "fastokens", "tiktoken"),
    *("rustbpe", "regex", "hypothesis", "pytest"),
)
# Packages whose source builds need a compiler or CUDA at installation.
BUILT_AT_INSTALLATION = {"flash-attn", "xformers", "bitsandbytes", "deepspeed", "triton", "apex"}

# Absent means absent: find_spec says None, and import fails as for a package never installed.
ABSENT = """
import sys

class Without:
    def __init__(self, finders, names):
        self.finders, self.names = finders, names
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return None
        specs = (f.find_spec(name, path, target) for f in self.finders if hasattr(f, "find_spec"))
        return next((spec for spec in specs if spec is not None), None)

sys.meta_path[:] = [Without(list(sys.meta_path), set(sys.argv[1].split(",")))]
"""
IMPORT_ALL = """
import importlib, importlib.util, json, pkgutil, sys
import cerne

names = [m.name for m in pkgutil.walk_packages(cerne.__path__, "cerne.")]
names = [name for name in names if name != "cerne.__main__"]
for name in names:
    importlib.import_module(name)
from cerne.native.library import library
library()
found = [n for n in sys.argv[1].split(",") if n in sys.modules or importlib.util.find_spec(n)]
print(json.dumps({"imported": names, "optional": found}))
"""
RUN_WITHOUT = """
import json, pathlib, sys
from cerne.errors import EnvironmentLack
from cerne.bench import peers, train_models
from cerne.model.presets import preset
from cerne.train.hooks import Hooks, TensorBoardHooks

lacks = []
for call in (
    lambda: train_models.transformers_step(preset("micro", vocab_size=512), False),
    lambda: TensorBoardHooks(Hooks(), pathlib.Path("unused")),
):
    try:
        call()
    except EnvironmentLack as error:
        lacks.append(str(error))
kept = [p.name for p in (*peers.encoders(), *peers.trainers())]
print(json.dumps({"lacks": lacks, "peers": kept}))
"""


@pytest.fixture(scope="module")
def project(repo_dir: Path) -> dict[str, Any]:
    """pyproject.toml."""
    content: dict[str, Any] = tomllib.loads((repo_dir / "pyproject.toml").read_text("utf-8"))
    return content


def bare(script: str, names: tuple[str, ...], folder: Path) -> Any:
    """Run a script where `names` are not installed and PATH holds no program."""
    done = subprocess.run(
        [sys.executable, "-c", ABSENT + script, ",".join(names)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PATH": str(folder), "CC": "absent", "CXX": "absent"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def package(requirement: str) -> str:
    """The normalised name in a requirement."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_case1_and_2_every_module_imports_without_extras_and_without_a_compiler(
    repo_dir: Path, tmp_path: Path
) -> None:
    result = bare(IMPORT_ALL, OPTIONAL, tmp_path)
    assert result["optional"] == []
    files = (repo_dir / "cerne").rglob("*.py")
    parts = {p.relative_to(repo_dir).with_suffix("").parts for p in files} - {("cerne", "__main__")}
    modules = {".".join(p).removesuffix(".__init__") for p in parts} - {"cerne"}
    assert set(result["imported"]) == modules


def test_case2_what_needs_an_extra_says_so_when_it_runs(tmp_path: Path) -> None:
    result = bare(RUN_WITHOUT, OPTIONAL, tmp_path)
    assert [text.split(";")[0] for text in result["lacks"]] == [
        "transformers is not installed",
        "train.tensorboard needs the package tensorboard",
    ]
    assert "pip install 'cerne[bench]'" in result["lacks"][0]
    assert "pip install 'cerne[tensorboard]'" in result["lacks"][1]
    assert result["peers"] == ["cerne", "cerne"]
    assert not (tmp_path / "unused").exists()


def test_case1_nothing_that_compiles_at_installation_is_required(project: dict[str, Any]) -> None:
    required = {package(line) for line in project["project"]["dependencies"]}
    assert "torch" in required
    assert not required & (BUILT_AT_INSTALLATION | set(OPTIONAL))
    installed = importlib.metadata.requires("cerne") or []
    base = {package(line) for line in installed if "extra ==" not in line}
    assert base - {"tomli"} == required - {"tomli"}


def test_case1_one_wheel_serves_every_python(project: dict[str, Any]) -> None:
    wheel = importlib.metadata.distribution("cerne").read_text("WHEEL")
    assert wheel is not None
    tags = [line.removeprefix("Tag: ") for line in wheel.splitlines() if line.startswith("Tag: ")]
    assert tags and all(tag.startswith("py3-none-") for tag in tags)
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == "py3"


def test_case3_the_build_does_not_import_torch(repo_dir: Path, project: dict[str, Any]) -> None:
    assert {package(line) for line in project["build-system"]["requires"]} == {"scikit-build-core"}
    assert project["build-system"]["build-backend"] == "scikit_build_core.build"
    # The version is read as text: importing the package to ask it would need what it needs.
    provider = project["tool"]["scikit-build"]["metadata"]["version"]["provider"]
    assert provider == "scikit_build_core.metadata.regex"
    cmake = (repo_dir / "native" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert not re.search(r"torch|Python|CUDA", cmake)
