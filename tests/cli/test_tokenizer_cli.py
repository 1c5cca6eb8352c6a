"""`cerne tokenizer`: what it prints, writes and refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cerne.cli.tokenizer import app
from cerne.errors import CerneError
from cerne.tokenizer.bpe import Tokenizer

STORY = "A little fox had 12 doors. Uma raposa não dormia. Жила-была лиса.\n" * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tok")
    (folder / "a.txt").write_text(STORY, encoding="utf-8")
    with gzip.open(folder / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"text": "more words in a row"}) + "\n")
    run("train", folder / "a.txt", folder / "b.jsonl.gz", "-v", 320, "--out", folder / "out")
    return folder


def run(*arguments: object, text: str | None = None) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def last_json(output: str) -> dict[str, Any]:
    return json.loads(output.splitlines()[-1])


def test_train_writes_what_the_library_writes(folder: Path, tmp_path: Path) -> None:
    texts = iter([STORY, "more words in a row"])
    expected = Tokenizer.train(texts, vocab_size=320)
    assert Tokenizer.load(folder / "out").digest == expected.digest
    args = (folder / "a.txt", folder / "b.jsonl.gz", "-v", 320, "--threads", 2, "-o", tmp_path)
    result = last_json(run("train", *args, "--json"))
    assert result["digest"] == expected.digest
    assert result["vocab_size"] == 320
    assert result["special_tokens"]["<|end|>"] == 319


def test_encode_shows_ids_pieces_and_offsets(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder / "out")
    ids = tokenizer.encode("raposa лиса")
    out = folder / "out"
    assert run("encode", out, "raposa лиса").split() == [str(i) for i in ids]
    assert run("encode", out, text="raposa лиса").split() == [str(i) for i in ids]
    lines = run("encode", out, "raposa é", "--pieces").splitlines()
    assert lines[-1].split() == [str(tokenizer.encode(" é")[-1]), "'\\xa9'"]
    result = last_json(run("encode", out, "raposa лиса", "--offsets", "--json"))
    assert result["ids"] == ids
    assert result["offsets"][-1][1] == result["bytes"] == len("raposa лиса".encode())
    file = folder / "raw.bin"
    file.write_bytes(b"\xff\x00<|end|>")
    assert last_json(run("encode", out, "--file", file, "--json"))["ids"] == tokenizer.encode(
        file.read_bytes()
    )


def test_inspect_measures_files(folder: Path) -> None:
    out = run("inspect", folder / "out", folder / "a.txt", "--json")
    assert "'" + "<|pad|>" not in out
    result = last_json(out)
    tokenizer = Tokenizer.load(folder / "out")
    (row,) = result["files"]
    assert row["bytes"] == len(STORY.encode())
    assert row["tokens"] == len(tokenizer.encode(STORY))
    scripts = {row["script"]: row for row in result["scripts"]}
    assert scripts["cyrillic"]["words"] == 2 * 4
    assert scripts["latin"]["words"] == 9 * 4
    assert scripts["other"]["words"] == 4
    per_word = len(tokenizer.encode(" Жила-была")) + len(tokenizer.encode(" лиса."))
    assert scripts["cyrillic"]["tokens_per_word"] == per_word / 2
    used = set(tokenizer.encode(STORY)) | set(tokenizer.special_tokens.values())
    assert result["unused_tokens"] == tokenizer.vocab_size - len(used)
    assert result["eos_token_id"] == tokenizer.eos_token_id


def test_errors_are_one_clear_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    for arguments, message in (
        (("train", tmp_path / "absent.txt", "-o", tmp_path / "x"), "absent.txt"),
        (("train", tmp_path / "empty.txt", "-o", tmp_path / "x"), "no text to train on"),
        (("train", folder / "a.txt", "-v", 9000, "-o", tmp_path / "x"), "supports only"),
        (("train", folder / "a.txt", "-v", 20, "-o", tmp_path / "x"), "out of range"),
        (("encode", tmp_path, "text"), r"no tokenizer\.json"),
        (("encode", folder / "out", "text", "--pieces", "--offsets"), "choose one"),
        (("encode", folder / "out", "text", "--file", folder / "a.txt"), "not both"),
    ):
        with pytest.raises(CerneError, match=message) as caught:
            run(*arguments)
        assert caught.value.exit_code == 2
    assert not (tmp_path / "x").exists()
