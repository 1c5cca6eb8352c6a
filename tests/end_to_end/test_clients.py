"""The C and Go clients against Python: the same prompts give the same ids, bytes and logits."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from quantize_tools import model_directory, small_tokenizer

from cerne.engine.generation import native_sampler
from cerne.engine.interface import SamplingParams
from cerne.native.library import library
from cerne.native.model import NativeContext, NativeModel
from cerne.quantize.run import convert, quantize
from cerne.tokenizer.bpe import Tokenizer

REQUESTS = [
    ("Once upon a time", SamplingParams(max_tokens=40, temperature=0.0)),
    ("\u00e9t\u00e9 \u65e5\u672c <|end|> 1234\n", SamplingParams(max_tokens=60, seed=2**64 - 1)),
    ("a", SamplingParams(max_tokens=60, temperature=0.7, top_k=40, top_p=0.9, seed=7)),
]


class Golden(NamedTuple):
    """What a client says about one request."""

    prompt: str
    answer: str
    text: str
    logits: str


@pytest.fixture(scope="module", params=["f32", "q8_0"])
def model_file(request, tmp_path_factory) -> Path:
    """A small random model with a trained tokenizer, in one GGUF file."""
    folder = tmp_path_factory.mktemp("clients")
    model_directory(folder / "model", small_tokenizer())
    file = folder / "model.gguf"
    if request.param == "f32":
        convert(folder / "model", file, "f32")
    else:
        quantize(folder / "model", file, request.param)
    return file


@pytest.fixture(scope="module")
def package(tmp_path_factory, repo_dir) -> Path:
    """A folder with the library that Python has loaded and its header."""
    folder = tmp_path_factory.mktemp("package")
    for part in ("lib", "include"):
        (folder / part).mkdir()
    shutil.copy(library().path, folder / "lib" / "libcerne.so")
    # Programs look for the soname.
    shutil.copy(library().path, folder / "lib" / "libcerne.so.1")
    shutil.copy(repo_dir / "native" / "include" / "cerne.h", folder / "include")
    return folder


@pytest.fixture(scope="module")
def c_programs(package, repo_dir) -> Path:
    """The folder of the compiled C programs."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("needs cc and make")
    command = ["make", "-B", f"CERNE={package}", f"OUT={package}", "CFLAGS=-O1 -Werror"]
    subprocess.run(command, cwd=repo_dir / "clients" / "c", check=True, capture_output=True)
    return package


@pytest.fixture(scope="module")
def go_programs(package, repo_dir) -> Path:
    """The folder of the compiled Go programs."""
    if shutil.which("go") is None:
        pytest.skip("needs go: apt-get install golang-go")
    folder = package / "go"
    command = ["go", "build", "-o", f"{folder}/", "./cmd/golden", "./cmd/chat"]
    subprocess.run(
        command, cwd=repo_dir / "clients" / "go", check=True, env=go_environment(package)
    )
    return folder


def go_environment(package: Path) -> dict[str, str]:
    """Where Go finds the core; it fetches nothing."""
    return {
        **os.environ,
        "CGO_CFLAGS": f"-I{package}/include",
        "CGO_LDFLAGS": f"-L{package}/lib -Wl,-rpath,{package}/lib",
        "GOPROXY": "off",
        "GOCACHE": os.environ.get("GOCACHE", f"{package}/cache"),
        "GOFLAGS": "-mod=mod",
    }


def python_golden(file: Path, prompt: str, params: SamplingParams) -> Golden:
    """The decoding loop in Python over the core's logits."""
    tokenizer = Tokenizer.load(file)
    ids = tokenizer.encode_prompt(prompt)
    assert params.max_tokens is not None
    answer: list[int] = []
    logits = hashlib.sha256()
    with (
        NativeModel.open_gguf(file, 1) as model,
        NativeContext(model, {"threads": 1, "batch_tokens": 3}) as context,
    ):
        sequence, draws, fresh = context.start(), native_sampler(params), ids
        while True:
            wanted = [False] * (len(fresh) - 1) + [True]
            row = context.decode([sequence] * len(fresh), fresh, wanted)[0]
            logits.update(row.astype("<f4").tobytes())
            answer.append(draws.choose(row, 0, len(ids) + len(answer)))
            fresh = answer[-1:]
            if answer[-1] == tokenizer.eos_token_id or len(answer) == params.max_tokens:
                break
    said = [token for token in answer if token != tokenizer.eos_token_id]
    return Golden(
        " ".join(map(str, ids)),
        " ".join(map(str, answer)),
        tokenizer.decode_bytes(said, skip_special=True).hex(),
        logits.hexdigest(),
    )


def client_golden(
    program: Path, file: Path, prompt: str, params: SamplingParams, folder: Path
) -> Golden:
    """What a client's golden program prints and writes."""
    logits = folder / "logits"
    numbers = (params.seed, params.temperature, params.top_k, params.top_p, params.max_tokens)
    command = [program, file, prompt, *map(str, numbers), logits]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    prompt_ids, answer, text = done.stdout.splitlines()
    return Golden(prompt_ids, answer, text, hashlib.sha256(logits.read_bytes()).hexdigest())


@pytest.mark.parametrize(("prompt", "params"), REQUESTS)
@pytest.mark.parametrize("client", ["c", "go"])
def test_clients_give_the_ids_bytes_and_logits_of_python(
    client, prompt, params, model_file, request, tmp_path
):
    folder = request.getfixturevalue(f"{client}_programs")
    got = client_golden(folder / "golden", model_file, prompt, params, tmp_path)
    assert got == python_golden(model_file, prompt, params)


@pytest.mark.parametrize("client", ["c", "go"])
def test_chat_programs_answer_every_line(client, model_file, request):
    folder = request.getfixturevalue(f"{client}_programs")
    done = subprocess.run(
        [folder / "chat", model_file], input=b"hello\nand now?\n", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"> ") >= 3


@pytest.mark.parametrize("client", ["c", "go"])
def test_clients_name_the_file_that_they_cannot_open(client, request, tmp_path):
    folder = request.getfixturevalue(f"{client}_programs")
    done = subprocess.run(
        [folder / "chat", tmp_path / "none.gguf"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "none.gguf" in done.stderr and "cannot open" in done.stderr


def test_go_package_tests(go_programs, package, model_file, repo_dir):
    """Cancellation, writers that fail, closed objects: the Go tests of the package."""
    environment = {**go_environment(package), "CERNE_TEST_MODEL": str(model_file)}
    for command in (["go", "vet", "./..."], ["go", "test", "-count=1", "./..."]):
        done = subprocess.run(
            command,
            cwd=repo_dir / "clients" / "go",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
