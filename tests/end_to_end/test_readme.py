"""The README's commands run as they stand there; only `cerne demo` is shortened."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHORTENED = {"cerne demo": "cerne demo --minutes 0.1 --no-chat"}


def blocks(readme: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, repo_dir: Path) -> Path:
    """A folder with the recipes and a text of the user's own, as a reader would have."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(repo_dir / "recipes", folder / "recipes")
    paragraph = "The heart of the tree is called cerne. It is hard, dark and it lasts.\n\n"
    (folder / "book.txt").write_text(
        "".join(f"{n}. {paragraph}" for n in range(400)), encoding="utf-8"
    )
    return folder


def run(command: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=280,
        env=dict(os.environ, PATH=path),
    )


@pytest.mark.timeout(600)
def test_case5_the_readme_runs(repo_dir: Path, workplace: Path) -> None:
    readme = (repo_dir / "README.md").read_text(encoding="utf-8")
    commands = [line for block in blocks(readme, "sh") for line in block.splitlines() if line]
    assert len(commands) >= 8
    for command in commands:
        if command.startswith(("make ", "git ", "cd ")):
            continue
        assert command.startswith("cerne "), command
        done = run(SHORTENED.get(command, command), workplace, stdin="Where is Ana?\n")
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    for program in blocks(readme, "python"):
        (workplace / "program.py").write_text(program, encoding="utf-8")
        done = run("python program.py", workplace)
        assert done.returncode == 0, f"{program}\n{done.stderr}"


def test_every_figure_stands_in_its_results_file(repo_dir: Path) -> None:
    """A row ends in a file and a key; the figure is that value, rounded."""
    readme = (repo_dir / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\|[^|]*\| ([\d.,]+) ?([%x]?)[^|]*\| \[[^|]*\]\((docs/results/\w+\.json)\) `([^`]+)` \|$",
        readme,
        flags=re.MULTILINE,
    )
    assert len(rows) >= 8
    for text, unit, path, keys in rows:
        value = json.loads((repo_dir / path).read_text(encoding="utf-8"))
        for key in keys.split("/"):
            value = value[int(key)] if isinstance(value, list) else value[key]
        shown = text.replace(",", "")
        decimals = len(shown.partition(".")[2])
        wanted = f"{value * (100 if unit == '%' else 1):.{decimals}f}"
        assert shown == wanted, f"{path} {keys}: README says {text}, the file {value}"


def test_the_readme_names_real_make_targets_and_results(repo_dir: Path) -> None:
    readme = (repo_dir / "README.md").read_text(encoding="utf-8")
    makefile = (repo_dir / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make ([a-z-]+)", readme))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for path in set(re.findall(r"docs/[\w./-]+", readme)):
        assert (repo_dir / path).exists(), path


def test_the_readme_tree_names_every_folder(repo_dir: Path) -> None:
    readme = (repo_dir / "README.md").read_text(encoding="utf-8")
    for folder in sorted((repo_dir / "cerne").iterdir()):
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert f"{folder.name}/" in readme, folder.name
