"""`cerne data prepare` and `cerne data inspect`, end to end with a real tokenizer."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cerne.cli.data import app
from cerne.data.inspect import histogram, histogram_lines
from cerne.data.prepare import prepare
from cerne.errors import ConfigError, DataError
from cerne.tokenizer.bpe import Tokenizer


@pytest.fixture(scope="module")
def tokenizer_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    Tokenizer.train(["the cat and the hat " * 20], vocab_size=270).save(folder)
    return folder


def call(*arguments: object) -> tuple[str, dict]:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, json.loads(result.stdout.splitlines()[-1])


def test_prepare_then_inspect_shows_the_same_counts(tmp_path, tokenizer_dir) -> None:
    texts = [f"the cat number {i} sat on the hat" for i in range(30)] + ["the cat number 3 sat"] * 2
    lines = [json.dumps({"text": t}) for t in texts]
    lines.insert(5, "{broken")
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    arguments = [tmp_path / "a.jsonl", "-t", tokenizer_dir, "-o", tmp_path / "out"]
    with pytest.raises(DataError, match=r"1 of 33 rows.*a\.jsonl:6: invalid JSON"):
        call("prepare", *arguments, "--json")
    text, result = call("prepare", *arguments, "max_bad_fraction=0.1", "val_fraction=0", "--json")
    assert "wrote" in text and "val   none" in text
    assert result["train"]["documents"] == 31
    assert result["train"]["bytes"] == sum(len(t) for t in texts[:31])
    again = call("prepare", *arguments, "max_bad_fraction=0.1", "val_fraction=0", "--json")[1]
    assert again["reused"] is True and again["train"] == result["train"]

    text, shown = call("inspect", tmp_path / "out", "-t", tokenizer_dir, "--verify", "--json")
    facts = shown["parts"]["train"]
    assert {**facts, "sample": None} == {**result["train"], "sample": None}
    assert facts["sample"].startswith(texts[0])
    assert facts["bytes_per_token"] == pytest.approx(facts["bytes"] / facts["tokens"], abs=1e-4)
    assert sum(count for _, count in facts["histogram"]) == 31
    assert "rows: 32 good, 1 bad; duplicates removed: 1" in text
    assert "a.jsonl:6: invalid JSON" in text and "verified" in text
    _, part = call("inspect", tmp_path / "out" / "train", "--json")
    assert part["parts"]["train"]["tokens"] == facts["tokens"]


def test_inspect_shows_plain_text_without_a_tokenizer(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo words\n\none", encoding="utf-8")
    _, result = call(
        "inspect", tmp_path / "a.txt", "document=paragraph", "data.val_fraction=0", "--json"
    )
    facts = result["parts"]["train"]
    assert (facts["documents"], facts["bytes"], facts["longest_bytes"]) == (2, 12, 9)
    assert facts["sample"] == "one"
    assert result["report"]["duplicates"]["exact"] == 1


def test_mistakes_are_named(tmp_path, tokenizer_dir) -> None:
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean dedup"):
        call("inspect", tmp_path / "a.txt", "dedupe=near")
    with pytest.raises(DataError, match="no text to read"):
        call("inspect", "dedup=near")
    with pytest.raises(DataError, match="for a folder of shards"):
        call("inspect", tmp_path / "a.txt", "--verify")
    call("prepare", tmp_path / "a.txt", "-t", tokenizer_dir, "-o", tmp_path / "out", "--json")
    Tokenizer.train(["other text entirely"], vocab_size=266).save(tmp_path / "tok")
    with pytest.raises(DataError, match="another tokenizer"):
        call("inspect", tmp_path / "out", "-t", tmp_path / "tok")
    path = tmp_path / "out" / "train" / "tokens-00000.bin"
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="changed or damaged"):
        call("inspect", tmp_path / "out", "--verify")


def test_real_tokens_decode_to_the_text_and_their_bytes_sum_to_its_size(
    tmp_path, tokenizer_dir
) -> None:
    from cerne.data.config import DataConfig

    text = "the hat, é 漢字 🙂 and <|endoftexx|> " * 50
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    tokenizer = Tokenizer.load(tokenizer_dir)
    config = DataConfig(path=str(tmp_path / "a.txt"), val_fraction=0)
    train = prepare(config, tokenizer, tmp_path / "out", progress=False).train
    ids = train.document(0)
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(ids[:-1]) == text
    assert int(tokenizer.token_byte_lengths()[ids].sum()) == train.num_bytes == len(text.encode())


def test_histogram_counts_every_length_once() -> None:
    import numpy as np

    bars = histogram(np.array([0, 1, 2, 3, 4, 5, 100]))
    assert bars == [(1, 2), (2, 1), (4, 2), (8, 1), (16, 0), (32, 0), (64, 0), (128, 1)]
    assert histogram(np.zeros(0, np.int64)) == []
    assert histogram_lines([(1, 2), (2, 1)], "bytes")[0].endswith("#" * 40)
