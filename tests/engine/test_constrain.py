"""Constrained output: a model that wants anything else still answers what the constraint allows."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

from cerne.engine.constrain import Constraints
from cerne.engine.interface import SamplingParams
from cerne.engine.session import LanguageModel
from cerne.errors import ConfigError, EngineError, EnvironmentLack
from cerne.tokenizer.bpe import Tokenizer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "ção"]}, "maxItems": 3},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "tags", "ok"],
    "additionalProperties": False,
}
GRAMMAR = 'start: greeting " " NAME\ngreeting: "hello" | "olá"\nNAME: /[A-Z][a-z]{1,5}/\n'


@pytest.fixture(scope="module", params=["native", "torch"])
def model(request, lm):
    if request.param == "native":
        return lm
    return LanguageModel(lm.network, lm.tokenizer)


def check_schema(text):
    """What SCHEMA says, without a validator."""
    value = json.loads(text)
    assert set(value) == {"name", "age", "tags", "ok"}
    assert isinstance(value["name"], str) and len(value["name"]) <= 8
    assert isinstance(value["age"], int) and 0 <= value["age"] <= 150
    assert len(value["tags"]) <= 3 and set(value["tags"]) <= {"a", "b", "ção"}
    assert isinstance(value["ok"], bool)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 100.0])
def test_every_answer_fits_the_schema(model, temperature):
    options = {"json_schema": SCHEMA, "max_tokens": 180, "temperature": temperature, "n": 6}
    done = model.generate("Ana", seed=3, **options)
    ended = [choice for choice in done.choices if choice.finish_reason == "stop"]
    assert ended
    for choice in ended:
        check_schema(choice.text)


def test_white_space_cannot_go_on_without_end(lm):
    """A model that always prefers white space still gets to the end of its JSON."""
    size = lm.tokenizer.vocab_size
    words = {i: lm.tokenizer.token_bytes(i) for i in range(size)}
    bias = {i: 1e6 for i, word in words.items() if word and not word.strip()}
    assert {words[i] for i in bias} >= {b" ", b"\n"}
    two = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}
    done = lm.generate("Ana", json_schema=two, max_tokens=200, temperature=0.0, logit_bias=bias)
    assert done.finish_reason == "stop"
    assert set(json.loads(done.text)) <= {1, 2}
    assert done.text.count(" ") > 3


def test_control_tokens_never_appear_inside(model):
    inside = [i for i in model.tokenizer.special_tokens.values() if i not in model.stop_ids]
    bias = dict.fromkeys(model.tokenizer.special_tokens.values(), 1e6)
    assert inside
    done = model.generate("Ana", json_schema=SCHEMA, max_tokens=180, n=4, logit_bias=bias)
    for choice in done.choices:
        assert not set(choice.tokens) & set(model.tokenizer.special_tokens.values())
        if choice.finish_reason == "stop":
            check_schema(choice.text)


def test_the_end_is_allowed_exactly_where_the_text_is_complete(model):
    end = model.tokenizer.eos_token_id
    wants_end = {end: 1e6}
    fewest = model.generate("Ana", regex="a{2,5}", max_tokens=20, logit_bias=wants_end)
    assert fewest.text == "aa"
    assert fewest.tokens[-1] == end
    assert fewest.finish_reason == "stop"
    avoids_end = dict.fromkeys(model.stop_ids, -np.inf)
    most = model.generate("Ana", regex="a{2,5}", max_tokens=20, logit_bias=avoids_end)
    assert most.text == "aaaaa"
    assert end not in most.tokens
    assert most.finish_reason == "stop"


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"regex": "(\\+55 )?[0-9]{2} 9[0-9]{4}-?"}, r"(\+55 )?[0-9]{2} 9[0-9]{4}-?"),
        ({"regex": "[á-ú]{3}(日本|🐋)"}, "[á-ú]{3}(日本|🐋)"),
        ({"grammar": GRAMMAR}, "(hello|olá) [A-Z][a-z]{1,5}"),
    ],
    ids=["digits", "multi-byte", "grammar"],
)
def test_regex_and_grammar_hold_for_the_whole_text(model, options, pattern):
    done = model.generate("Ana", max_tokens=60, seed=1, n=8, temperature=2.0, **options)
    for choice in done.choices:
        assert choice.finish_reason == "stop"
        assert re.fullmatch(pattern, choice.text), choice.text
    assert len({choice.text for choice in done.choices}) > 1


def test_batch_stream_and_single_give_the_same_text(lm):
    options = {"json_schema": SCHEMA, "max_tokens": 120, "seed": 9}
    prompts = ["Ana", "The cat sleeps; the dog", "a"]
    together = lm.batch(prompts, **options)
    for prompt, one in zip(prompts, together, strict=True):
        assert one.tokens == lm.generate(prompt, **options).tokens
        pieces = list(lm.stream(prompt, **options))
        assert "".join(piece.text for piece in pieces) == one.text
        assert pieces[-1].choice.tokens == one.choices[0].tokens


def test_ids_that_only_the_logits_have_are_forbidden(lm):
    rule = Constraints(lm.tokenizer).compile(SamplingParams(regex="a+"))
    size = lm.tokenizer.vocab_size
    masked = rule.start(lm.stop_ids).masked(np.zeros(size + 64, dtype=np.float32))
    allowed = np.flatnonzero(masked == 0.0)
    assert allowed.size
    assert all(set(lm.tokenizer.token_bytes(int(i))) == {ord("a")} for i in allowed)


@pytest.mark.parametrize(
    "options",
    [
        {"json_schema": {"type": "nonsense"}},
        {"json_schema": {"properties": {"a": {"$ref": "#/nowhere"}}}},
        {"regex": "(a"},
        {"grammar": "start: missing"},
        {"grammar": "no grammar at all"},
    ],
    ids=str,
)
def test_a_bad_constraint_is_one_clear_error(lm, options):
    name = next(iter(options))
    for call in (lm.generate, lm.stream):
        with pytest.raises(ConfigError, match=f"{name} cannot be used: ") as caught:
            call("Ana", max_tokens=5, **options)
        assert "\n" not in caught.value.args[0].split("\n")[0]


def test_a_grammar_cannot_ask_for_control_tokens(lm):
    with pytest.raises((ConfigError, EngineError)):
        lm.generate("Ana", max_tokens=5, grammar="start: <|assistant|>")


def test_what_excludes_a_constraint(lm):
    with pytest.raises(ConfigError, match="exclude each other"):
        lm.generate("Ana", regex="a", grammar=GRAMMAR)
    with pytest.raises(ConfigError, match="beam search does not use regex"):
        lm.generate("Ana", regex="a", beams=2)


def test_the_missing_package_is_named_with_its_command(lm, monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(EnvironmentLack, match="pip install 'llguidance"):
        lm.generate("Ana", regex="a")
    assert lm.generate("Ana", max_tokens=2).tokens


def test_words_that_begin_like_a_mark_are_no_text():
    tokenizer = Tokenizer.train(["abab " * 20], vocab_size=264)
    rule = Constraints(tokenizer).compile(SamplingParams(regex="(?s:.)+"))
    masked = rule.start(()).masked(np.zeros(tokenizer.vocab_size, dtype=np.float32))
    byte = next(i for i in range(tokenizer.vocab_size) if tokenizer.token_bytes(i) == b"\xff")
    assert masked[byte] == -np.inf
