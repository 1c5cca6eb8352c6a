"""The shared library and its header: symbols, C99 and C++, sanitizers, what a caller gets wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cerne.errors import EnvironmentLack, TokenizerError
from cerne.native.library import cdef_of, check, installed_file, last_error, library

CC = shutil.which("cc")
CXX = shutil.which("c++")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a command and returns its output; its text is in the failure."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def listed_symbols(repo_dir: Path) -> list[str]:
    """The symbols that native/exported_symbols.txt promises."""
    text = (repo_dir / "native" / "exported_symbols.txt").read_text(encoding="ascii")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_library_exports_exactly_the_listed_symbols(repo_dir: Path) -> None:
    lines = run("nm", "-D", "--defined-only", library().path).splitlines()
    assert sorted(line.split()[-1] for line in lines) == listed_symbols(repo_dir)


def test_header_declares_exactly_the_listed_symbols(repo_dir: Path) -> None:
    header = (repo_dir / "native" / "include" / "cerne.h").read_text(encoding="ascii")
    declared = re.findall(r"CERNE_API[^;(]*?(cerne_\w+)\(", header)
    assert sorted(declared) == listed_symbols(repo_dir)


def test_installed_header_is_the_source_header(repo_dir: Path) -> None:
    source = (repo_dir / "native" / "include" / "cerne.h").read_bytes()
    assert installed_file("include/cerne.h").read_bytes() == source


PROGRAM = """
#include "cerne.h"
int main(void) {
  size_t length = 7;
  cerne_tokenizer* tokenizer = NULL;
  if (cerne_abi_version() != CERNE_ABI_VERSION) return 1;
  if (cerne_last_error(&length)[0] != 0 || length != 0) return 2;
  if (cerne_tokenizer_create(&tokenizer) != CERNE_OK) return 3;
  if (cerne_tokenizer_build(tokenizer) != CERNE_INVALID_ARGUMENT) return 4;
  if (cerne_last_error(&length)[0] == 0 || length == 0) return 5;
  cerne_tokenizer_destroy(tokenizer);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("compiler", "standard", "suffix"),
    [(CC, "c99", "c"), (CC, "c17", "c"), (CXX, "c++11", "cpp"), (CXX, "c++20", "cpp")],
)
def test_header_compiles_and_library_runs_from(
    compiler: str | None, standard: str, suffix: str, tmp_path: Path
) -> None:
    if compiler is None:
        pytest.skip(f"no compiler for {standard}")
    source = tmp_path / f"program.{suffix}"
    source.write_text(PROGRAM, encoding="ascii")
    # Linked to the file itself, so that it runs without the soname link.
    shutil.copy(library().path, tmp_path / "libcerne.so")
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-std={standard}"]
    include = installed_file("include/cerne.h").parent
    program = tmp_path / "program"
    run(compiler, *flags, f"-I{include}", source, tmp_path / "libcerne.so", "-o", program)
    major = library().lib.cerne_abi_version() // 100
    shutil.copy(library().path, tmp_path / f"libcerne.so.{major}")
    done = subprocess.run([str(program)], env={"LD_LIBRARY_PATH": str(tmp_path)}, check=False)
    assert done.returncode == 0


@pytest.mark.skipif(CC is None, reason="needs a C compiler")
def test_the_program_of_the_c_page_compiles_and_prints_what_it_says(
    repo_dir: Path, tmp_path: Path
) -> None:
    page = (repo_dir / "docs" / "c-abi.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    (tmp_path / "main.c").write_text(code, encoding="ascii")
    major = library().lib.cerne_abi_version() // 100
    shared = tmp_path / f"libcerne.so.{major}"
    shutil.copy(library().path, shared)
    include = installed_file("include/cerne.h").parent
    program = tmp_path / "program"
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{include}"]
    run(str(CC), *flags, tmp_path / "main.c", shared, f"-Wl,-rpath,{tmp_path}", "-o", program)
    assert run(program) == "4 merges\n"


def test_case94_soname_carries_the_hundreds_of_the_interface_version(repo_dir: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    major = library().lib.cerne_abi_version() // 100
    assert f"[libcerne.so.{major}]" in run("readelf", "-d", library().path)


def test_case94_no_struct_is_defined_in_the_header(repo_dir: Path) -> None:
    header = (repo_dir / "native" / "include" / "cerne.h").read_text(encoding="ascii")
    assert re.findall(r"struct\s+\w*\s*{", header) == []


@pytest.mark.skipif(CXX is None or shutil.which("cmake") is None, reason="needs a C++ compiler")
@pytest.mark.timeout(900)
def test_native_tests_pass_under_sanitizers(repo_dir: Path) -> None:
    build = repo_dir / "build" / "sanitized"
    generator = ["-G", "Ninja"] if shutil.which("ninja") is not None else []
    options = ["-DCERNE_SANITIZE=ON", "-DCERNE_TESTS=ON", "-DCERNE_WERROR=ON"]
    options.append("-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "-S", repo_dir / "native", "-B", build, *generator, *options)
    run("cmake", "--build", build, "--target", "cerne_tests", "--parallel", "2")
    # The instruction set changes how text is split and nothing else.
    for isa, tests in (("avx2", []), ("scalar", ["ids_equal_the_plain_definition"])):
        done = subprocess.run(
            [str(build / "cerne_tests"), *tests],
            env={**os.environ, "CERNE_ISA": isa},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"[1-9]\d* tests passed", done.stdout) is not None


def test_refusal_carries_the_sentence_of_the_core() -> None:
    _, lib, _ = library()
    with pytest.raises(TokenizerError, match="the tokenizer handle is null"):
        check(lib.cerne_tokenizer_build(library().ffi.NULL), TokenizerError)
    assert last_error() == "the tokenizer handle is null"


def test_header_without_marks_is_told() -> None:
    with pytest.raises(EnvironmentLack, match="cdef marks"):
        cdef_of("int x;")
