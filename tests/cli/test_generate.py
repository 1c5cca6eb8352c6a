"""`cerne generate` and `cerne chat` as commands: output, JSON, errors, exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import cerne
from cerne.cli import chat, generate
from cerne.cli.sampling_options import unescape
from cerne.errors import CerneError, InputError
from cerne.model.hf import save_model
from cerne.tokenizer.bpe import Tokenizer
from tests.engine.fakes import small_model

ONE = ("--threads", "1")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "model"
    tokenizer = Tokenizer.train(["Ana saw three blue boats near the old harbour. " * 30], 290)
    save_model(folder, small_model(vocab_size=tokenizer.vocab_size), tokenizer, {})
    return folder


def call(verb, *arguments, stdin=""):
    """Standard output of a verb; its deliberate errors are raised."""
    app = {"chat": chat.app, "generate": generate.app}[verb]
    done = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    if isinstance(done.exception, CerneError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_generate_equals_the_python_interface(model_dir):
    lm = cerne.load(model_dir, threads=1)
    options = ("--max-tokens", 12, "--seed", 5, "--top-k", 40, "--threads", 1)
    expected = lm.generate("Ana", max_tokens=12, seed=5, top_k=40)
    assert call("generate", model_dir, "Ana", *options) == expected.text + "\n"
    assert call("generate", model_dir, "Ana", *options, "--no-stream") == expected.text + "\n"
    assert call("generate", model_dir, *options, stdin="Ana") == expected.text + "\n"
    out = call("generate", model_dir, "-", *options, "--json", stdin="Ana")
    result = json.loads(out.splitlines()[-1])
    assert result["text"] == expected.text
    assert result["choices"][0]["tokens"] == expected.tokens
    assert result["choices"][0]["receipt"] == expected.receipt
    assert result["usage"]["total_tokens"] == expected.usage.total_tokens


def test_several_answers_beams_and_logprobs(model_dir):
    out = call(
        "generate", model_dir, "Ana", "--max-tokens", 4, "--n", 3, "--logprobs", 2, "--json", *ONE
    )
    result = json.loads(out.splitlines()[-1])
    assert [choice["index"] for choice in result["choices"]] == [0, 1, 2]
    assert all(len(entry["top"]) == 2 for entry in result["choices"][2]["logprobs"])
    assert "--- 3 of 3" in out
    assert "log-probabilities of answer 3" in out
    out = call("generate", model_dir, "Ana", "--max-tokens", 4, "--n", 2, "--beams", 3, *ONE)
    assert ", score -" in out


def test_a_message_goes_through_the_template(model_dir):
    lm = cerne.load(model_dir, threads=1)
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "Ana?"}]
    expected = lm.generate(messages, max_tokens=8, temperature=0.0)
    options = ("--chat", "--system", "s", "--max-tokens", 8, "--temperature", 0, *ONE)
    assert call("generate", model_dir, "Ana?", *options) == expected.text + "\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--top-p", 3), "top_p"),
        (("--system", "s"), "--system needs --chat"),
        (("--stream", "--n", 2), "--stream needs one answer"),
        (("--logit-bias", "x"), "not ID=NUMBER"),
        (("--logit-bias", "9999=1"), "outside the vocabulary"),
        (("--max-tokens", 400), "at most 256"),
        (("--stop", ""), "stop string is empty"),
    ],
    ids=str,
)
def test_wrong_options_are_explained(model_dir, arguments, message):
    with pytest.raises(CerneError, match=message) as caught:
        call("generate", model_dir, "Ana", "--threads", 1, *arguments)
    assert caught.value.exit_code == 2


def test_standard_input_that_is_not_text_is_an_error(model_dir):
    with pytest.raises(CerneError, match="not UTF-8 at byte 2"):
        call("generate", model_dir, *ONE, stdin=b"ab\xff")


def test_stop_strings_can_name_line_ends(model_dir):
    assert unescape(r"a\n\tb\\n") == "a\n\tb\\n"


def test_chat_through_a_pipe(model_dir):
    options = ("--max-tokens", 5, "--seed", 1, "--threads", 1, "--json")
    out = call("chat", model_dir, *options, stdin="Hi\nAnd then?\n")
    messages = json.loads(out.splitlines()[-1])["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    lm = cerne.load(model_dir, threads=1)
    first = lm.generate(messages[:1], max_tokens=5, temperature=0.7, seed=1)
    assert messages[1]["content"] == first.text


def test_constraints_come_from_files_and_options(model_dir, tmp_path):
    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.lark"
    schema.write_text('{"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}')
    grammar.write_text('start: "ol" /[aá]/')
    out = call("generate", model_dir, "Ana", "--json-schema", schema, *ONE)
    assert set(json.loads(out)) <= {1, 2}
    assert call("generate", model_dir, "Ana", "--grammar", grammar, *ONE) in ("ola\n", "olá\n")
    assert call("generate", model_dir, "Ana", "--regex", "yes|no", *ONE) in ("yes\n", "no\n")
    assert call("chat", model_dir, "--regex", "yes|no", *ONE, stdin="Hi\n") in ("yes\n", "no\n")
    for damaged in ("{", '{"a":' * 5000 + "1" + "}" * 5000):
        schema.write_text(damaged)
        with pytest.raises(InputError, match="--json-schema is not JSON"):
            call("generate", model_dir, "Ana", "--json-schema", schema, *ONE)
    with pytest.raises(InputError, match="cannot be read"):
        call("generate", model_dir, "Ana", "--grammar", tmp_path / "none", *ONE)
