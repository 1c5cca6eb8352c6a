"""The tree is read in walking order, and imports point only backwards (DESIGN 2)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

GROUND = ("errors", "config", "progress", "device", "runs")
ORDER = (
    *GROUND,
    *("native", "tokenizer", "data", "model", "kernels", "train", "engine", "tune", "quantize"),
    *("vision", "energy", "guard", "audit", "learn", "serve", "evaluate", "bench", "demo", "cli"),
)
LIGHT = ("torch", "numpy", "pyarrow", "jinja2", "matplotlib", "transformers")


def imported_parts(path: Path) -> set[str]:
    """The `cerne.X` parts that a file imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [node.module] if node.module != "cerne" else []
        parts |= {name.split(".")[1] for name in names if name.startswith("cerne.")}
    return parts


def test_imports_point_backwards(repo_dir: Path) -> None:
    package = repo_dir / "cerne"
    seen = 0
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in ORDER, f"{path}: folder {part} has no place in the walk"
        for other in imported_parts(path) - {part}:
            seen += 1
            assert ORDER.index(other) < ORDER.index(part), f"{path} imports {other}, which is later"
    assert seen > 10


def test_case8_every_text_open_names_its_encoding(repo_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--preview", "--select", "PLW1514", "cerne"],
        cwd=repo_dir,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_case7_import_and_help_are_light() -> None:
    code = f"import sys, cerne, cerne.cli.app; print([m for m in {LIGHT!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_stay_readable(repo_dir: Path) -> None:
    sources = [*repo_dir.glob("cerne/**/*.py"), *repo_dir.glob("native/src/**/*.cpp")]
    long = {
        str(p.relative_to(repo_dir)): n
        for p in sources
        if (n := p.read_text(encoding="utf-8").count("\n")) > 500 and "generated" not in p.name
    }
    assert not long


def test_no_pickle_no_eval(repo_dir: Path) -> None:
    banned = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal"}
    for path in repo_dir.glob("cerne/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}, path
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in banned, path
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("eval", "exec", "torch.load", "torch.save", "os.system"), path
                assert not any(
                    k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords
                ), path
