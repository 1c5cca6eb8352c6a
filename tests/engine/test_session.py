"""The public object: prompts, streams, batches, receipts, and what MODEL may be."""

from __future__ import annotations

import hashlib
import json
import subprocess

import numpy as np
import pytest
import torch

import cerne
from cerne.engine.session import LanguageModel
from cerne.errors import ConfigError, EnvironmentLack, InputError, ModelError
from cerne.model.loss import token_logprobs
from cerne.runs import RunDirectory
from cerne.tokenizer.chat import render

CHAT = [{"role": "user", "content": "Where is Ana? <|end|> {braces}"}]


def test_the_example_of_the_design_works(model_dir):
    model = cerne.load(str(model_dir), device="cpu", threads=1)
    ids = model.tokenizer.encode("Ana saw <|end|>")
    assert model.tokenizer.decode(ids) == "Ana saw <|end|>"
    assert model.tokenizer.decode_bytes(ids) == b"Ana saw <|end|>"
    assert model.tokenizer.end_of_turn_id not in ids
    logits = model.logits(ids)
    assert logits.shape == (len(ids), model.tokenizer.vocab_size)
    assert logits.dtype == np.float32
    done = model.generate("Ana", max_tokens=16, temperature=0.0, seed=1, stop=["\n"], logprobs=5)
    assert isinstance(done.text, str)
    assert isinstance(done.tokens, list)
    assert len(done.logprobs) == len(done.tokens)
    assert len(done.logprobs[0].top) == 5
    assert done.finish_reason in ("stop", "length")
    assert done.usage.total_tokens == len(model.tokenizer.encode("Ana")) + len(done.tokens)
    assert done.receipt["seed"] == 1
    text = "".join(
        piece.text for piece in model.stream([{"role": "user", "content": "Hi"}], max_tokens=16)
    )
    assert text == model.generate([{"role": "user", "content": "Hi"}], max_tokens=16).text
    both = model.batch(["Ana", "The cat"], max_tokens=16)
    assert [one.tokens for one in both] == [
        model.generate(prompt, max_tokens=16).tokens for prompt in ("Ana", "The cat")
    ]


def test_logits_equal_a_plain_forward_pass(lm):
    ids = lm.tokenizer.encode("The dog runs after the ball")
    with torch.no_grad():
        expected = lm.network.project(lm.network(torch.tensor([ids])))[0].numpy()
    assert np.abs(lm.logits(ids) - expected).max() < 2e-4


def test_one_log_probability_for_training_and_generation(lm):
    done = lm.generate("The cat", max_tokens=24, seed=3, logprobs=0, ignore_eos=True)
    ids = torch.tensor([lm.encode("The cat") + done.tokens])
    with torch.no_grad():
        hidden = lm.network(ids[:, :-1])
        expected = token_logprobs(lm.network, hidden, ids[:, 1:])[0, -24:]
    got = [entry.logprob for entry in done.logprobs]
    assert got == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_string_is_raw_text_and_messages_are_rendered(lm):
    assert lm.encode("Ana <|end|>") == lm.tokenizer.encode_prompt("Ana <|end|>")
    assert lm.encode(CHAT) == render(CHAT, lm.tokenizer, add_generation_prompt=True).ids
    assert lm.encode(CHAT)[-1] == lm.tokenizer.special_tokens["<|assistant|>"]
    assert lm.encode(CHAT).count(lm.tokenizer.end_of_turn_id) == 1


def test_case44_answers_end_at_the_end_of_turn_and_the_end_of_document(lm):
    assert lm.stop_ids == {lm.tokenizer.eos_token_id, lm.tokenizer.end_of_turn_id}
    for token in lm.stop_ids:
        done = lm.generate(CHAT, max_tokens=9, temperature=0.0, logit_bias={token: 1e4})
        assert done.tokens == [token]
        assert done.text == ""
        assert done.finish_reason == "stop"


def test_stop_ids_of_generation_config_are_used(model_dir, tmp_path):
    for file in model_dir.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "cerne.json").unlink()
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}', encoding="utf-8")
    assert {7, 9} < cerne.load(tmp_path, threads=1).stop_ids


@pytest.mark.parametrize("seed", range(6))
def test_case83_stream_joined_is_the_text_with_a_real_tokenizer(lm, seed):
    # Raising single bytes of multi-byte characters makes torn characters likely.
    bias = {
        i: 3.0 for i in range(lm.tokenizer.vocab_size) if lm.tokenizer.token_bytes(i) >= b"\x80"
    }
    options = {"max_tokens": 60, "seed": seed, "logit_bias": bias, "ignore_eos": True}
    done = lm.generate("\u65e5", **options)
    pieces = list(lm.stream("\u65e5", **options))
    assert "".join(piece.text for piece in pieces) == done.text
    assert done.text == lm.tokenizer.decode(done.tokens)
    assert pieces[-1].choice.receipt == done.receipt


def test_receipt_names_what_is_needed_to_do_it_again(lm, model_dir):
    done = lm.generate("Ana", max_tokens=7, seed=5, top_k=20, n=2, logit_bias={3: -np.inf})
    receipt = done.choices[1].receipt
    json.dumps(receipt, allow_nan=False)
    listing = subprocess.run(
        "sha256sum config.json *.safetensors", shell=True, cwd=model_dir, capture_output=True
    ).stdout
    assert receipt["model_sha256"] == hashlib.sha256(listing).hexdigest()
    assert receipt["tokenizer_sha256"] == lm.tokenizer.digest
    assert receipt["arithmetic"] == "cerne-1"
    ids = lm.encode("Ana")
    packed = b"".join(token.to_bytes(4, "little") for token in ids)
    assert receipt["prompt_sha256"] == hashlib.sha256(packed).hexdigest()
    assert receipt["tokens"] == list(done.choices[1].tokens)
    assert receipt["params"]["max_tokens"] == 7
    assert receipt["params"]["logit_bias"] == {"3": "-inf"}
    assert receipt["params"]["stop_tokens"] == sorted(lm.stop_ids)
    again = {**receipt["params"], "logit_bias": {3: -np.inf}}
    replayed = lm.generate("Ana", **again)
    assert list(replayed.choices[receipt["choice"]].tokens) == receipt["tokens"]


def test_a_model_in_memory_gives_no_receipt(lm):
    memory = LanguageModel(lm.network, lm.tokenizer)
    done = memory.generate("Ana", max_tokens=3)
    assert done.receipt is None
    assert done.tokens == lm.generate("Ana", max_tokens=3).tokens


def test_generate_batch_takes_ids_and_keeps_order(lm):
    prompts = [lm.encode("Ana " * k) for k in (5, 1, 9, 2)]
    params = cerne.SamplingParams(max_tokens=6, temperature=0.0)
    got = lm.generate_batch(prompts, params, max_batch=2)
    for ids, one in zip(prompts, got, strict=True):
        assert one.usage.prompt_tokens == len(ids)
        assert one.tokens == lm.generate_batch([ids], params)[0].tokens


def test_beams_and_n_through_the_public_object(lm):
    done = lm.generate("Ana", max_tokens=8, beams=4, n=3)
    scores = [choice.score for choice in done.choices]
    assert scores == sorted(scores, reverse=True)
    assert len(done.choices) == 3
    assert done.receipt["params"]["beams"] == 4
    with pytest.raises(ConfigError, match="cannot be streamed"):
        lm.stream("Ana", beams=2)


def test_an_unknown_keyword_names_the_nearest(lm):
    with pytest.raises(ConfigError, match="did you mean temperature"):
        lm.generate("Ana", temprature=0.5)
    with pytest.raises(ConfigError, match="did you mean max_tokens"):
        lm.stream("Ana", max_token=5)


def test_errors_of_a_stream_come_at_once(lm):
    with pytest.raises(InputError, match="do not fit"):
        lm.stream("Ana", max_tokens=10_000)


@pytest.mark.parametrize("prompt", [b"bytes", 7, [], [{"role": "robot", "content": "x"}]], ids=str)
def test_a_prompt_of_another_kind_is_an_error(lm, prompt):
    with pytest.raises(InputError):
        lm.generate(prompt, max_tokens=3)


def test_batch_of_a_single_string_is_an_error(lm):
    with pytest.raises(InputError, match="list of prompts"):
        lm.batch("Ana")


def test_a_shorter_context_can_be_chosen(model_dir):
    model = cerne.load(model_dir, threads=1, context=8)
    assert model.context == 8
    with pytest.raises(InputError, match="at most 8"):
        model.generate("Ana", max_tokens=8)
    with pytest.raises(InputError, match="max_position_embeddings=256"):
        cerne.load(model_dir, threads=1, context=300)


def test_a_run_directory_stands_for_its_newest_model(model_dir, tmp_path):
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(ModelError, match="no checkpoint yet"):
        cerne.load(run.path)
    target = run.checkpoint_path(30)
    target.mkdir()
    for file in model_dir.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    run.set_latest(target.name)
    assert cerne.load(run.path, threads=1).folder == target


def test_what_is_not_a_model_is_refused_with_a_reason(tmp_path, model_dir):
    for name, reason in (
        ("x.gguf", "there is no such model"),
        ("x.pt", "pickled weights are not read"),
        ("missing", "there is no such model"),
    ):
        with pytest.raises(ModelError, match=reason):
            cerne.load(tmp_path / name)
    with pytest.raises(ModelError, match="holds no model"):
        cerne.load(tmp_path)
    with pytest.raises(ModelError, match="a directory or a GGUF file"):
        cerne.load(model_dir / "model.safetensors")


def test_devices_and_threads_are_checked(model_dir):
    with pytest.raises(ConfigError, match="threads out of range"):
        cerne.load(model_dir, threads=0)
    if not torch.cuda.is_available():
        with pytest.raises(EnvironmentLack, match="cuda"):
            cerne.load(model_dir, device="cuda")


def test_bf16_weights_generate(model_dir):
    model = cerne.load(model_dir, threads=1, precision="bf16")
    assert model.logits([1, 2]).dtype == np.float32
    assert len(model.generate("Ana", max_tokens=4, ignore_eos=True).tokens) == 4
