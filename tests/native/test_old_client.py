"""A program built against interface version 100 runs with the library of today."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cerne.native.library import library

SOURCE = Path(__file__).parent / "old_client.c"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")


@pytest.fixture(scope="module")
def old_client(tmp_path_factory) -> Path:
    """The program, linked to the soname of version 1 that an empty library claims.

    So it is bound to nothing that today's build decides but names and soname, as a binary that was
    compiled back then is.
    """
    folder = tmp_path_factory.mktemp("old")
    names = set(re.findall(r"\b(cerne_\w+)\(", SOURCE.read_text(encoding="ascii")))
    stub = folder / "stub.c"
    stub.write_text("".join(f"void {name}(void) {{}}\n" for name in names), encoding="ascii")
    old = folder / "old" / "libcerne.so.1"
    old.parent.mkdir()
    compile_with(*("-shared", "-fPIC", "-Wl,-soname,libcerne.so.1", stub, "-o", old))
    program = folder / "program"
    compile_with("-std=c99", "-Wall", "-Wextra", "-Werror", SOURCE, old, "-o", program)
    return program


def compile_with(*arguments: str | Path) -> None:
    """Runs the C compiler; its text is in the failure."""
    done = subprocess.run(["cc", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_old_program_runs_and_gives_the_same_ids(old_client, tmp_path):
    shutil.copy(library().path, tmp_path / "libcerne.so.1")
    done = subprocess.run(
        [old_client],
        env={"LD_LIBRARY_PATH": str(tmp_path), "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # low, " lowe", r, " lowe", s, t
    assert done.stdout.split() == ["257", "259", "81", "259", "82", "83"]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_soname_is_that_of_version_1():
    done = subprocess.run(
        ["readelf", "-d", library().path], capture_output=True, text=True, check=True
    )
    assert "[libcerne.so.1]" in done.stdout
