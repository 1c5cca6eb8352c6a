"""Cases of generation: stopping, streaming, stop strings, batches, overflow, determinism."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch

import cerne
from cerne.engine.generation import Request, complete, run
from cerne.engine.session import LanguageModel
from cerne.engine.torch_engine import TorchEngine
from cerne.errors import InputError
from cerne.model.config import ModelConfig
from cerne.model.loss import IGNORE, cross_entropy_sum
from cerne.model.transformer import Transformer
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.chat import render
from tests.engine.fakes import ScriptedEngine, small_model

QUESTIONS = {"cat?": "meow", "dog?": "woof woof", "cow?": "moo", "owl?": "hoo hoo hoo"}
STRINGS = [
    "\U0001f40b\U0001f468\u200d\U0001f469",
    "\u65e5\u672c\u8a9e",
    "na\u00efve caf\u00e9 \u0438",
]


@pytest.fixture(scope="module")
def tokenizer():
    text = " ".join([*QUESTIONS, *QUESTIONS.values(), *STRINGS])
    return Tokenizer.train([text * 30], vocab_size=300, allow_fewer=True)


@pytest.fixture(scope="module")
def trained(tokenizer):
    """A model that has learned four question-answer pairs, end of turn included."""
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model = Transformer(config, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    chats = [render(conversation(q, a), tokenizer) for q, a in QUESTIONS.items()]
    width = max(len(chat.ids) for chat in chats)
    ids = torch.zeros(len(chats), width, dtype=torch.int64)
    labels = torch.full((len(chats), width), IGNORE)
    for row, chat in enumerate(chats):
        ids[row, : len(chat.ids)] = torch.tensor(chat.ids)
        for t in range(len(chat.ids) - 1):
            if chat.mask[t + 1]:
                labels[row, t] = chat.ids[t + 1]
    for _ in range(50):
        loss, count = cross_entropy_sum(model, model(ids), labels)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return LanguageModel(model.eval(), tokenizer)


def conversation(question, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.fixture(scope="module")
def random_lm(tokenizer):
    """Random weights: long, varied answers."""
    return LanguageModel(small_model(vocab_size=tokenizer.vocab_size), tokenizer)


def test_case34_generation_sees_the_ids_of_training(random_lm, tokenizer):
    assert random_lm.encode("cat? <|end|>") == tokenizer.encode_prompt("cat? <|end|>")
    whole = render(conversation("cat?", "meow"), tokenizer).ids
    prompt = random_lm.encode(conversation("cat?", "meow")[:1])
    assert whole[: len(prompt)] == prompt


def test_case43_a_model_trained_on_turns_stops_by_itself(trained, tokenizer):
    assert tokenizer.pad_token_id not in trained.stop_ids
    for question, answer in QUESTIONS.items():
        done = trained.generate(conversation(question, "")[:1], temperature=0.0, max_tokens=30)
        assert done.text == answer
        assert done.finish_reason == "stop"
        assert done.tokens[-1] == tokenizer.end_of_turn_id


def test_case45_chat_in_a_stream_ends_with_the_turn(trained):
    pieces = list(trained.stream(conversation("dog?", "")[:1], temperature=0.0, max_tokens=30))
    assert "".join(piece.text for piece in pieces) == "woof woof"
    assert [piece.finish_reason for piece in pieces].count("stop") == 1


def scripted(tokenizer, tokens, **options):
    """Pieces and completion of an answer that consists of these tokens."""
    engine = ScriptedEngine([*tokens, tokenizer.eos_token_id], tokenizer.vocab_size)
    params = cerne.SamplingParams.of(temperature=0.0, max_tokens=len(tokens) + 1, **options)
    requests = [Request([0], params)]
    ends = (tokenizer.eos_token_id,)
    pieces = [piece for _, piece in run(engine, tokenizer, requests, ends, stream=True)]
    return pieces, complete(engine, tokenizer, requests, ends)[0]


def tokenizations(tokenizer, text, count):
    """Different ways to write a text in tokens: its own, byte by byte, and random mixtures."""
    known = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    data = text.encode("utf-8")
    rng = random.Random(0)
    yield tokenizer.encode(text)
    yield [known[bytes([byte])] for byte in data]
    for _ in range(count):
        tokens, at = [], 0
        while at < len(data):
            sizes = [n for n in range(1, 9) if data[at : at + n] in known and at + n <= len(data)]
            size = rng.choice(sizes)
            tokens.append(known[data[at : at + size]])
            at += size
        yield tokens


@pytest.mark.parametrize("text", STRINGS, ids=ascii)
def test_case83_every_split_of_characters_into_tokens_streams_whole_characters(tokenizer, text):
    for tokens in tokenizations(tokenizer, text, 40):
        pieces, done = scripted(tokenizer, tokens)
        assert "".join(piece.text for piece in pieces) == done.text == text
        assert not any("\ufffd" in piece.text for piece in pieces)


def test_case83_a_truncated_character_is_flushed_once(tokenizer):
    known = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    tokens = [known[bytes([byte])] for byte in "a\U0001f40b".encode()[:-1]]
    pieces, done = scripted(tokenizer, tokens)
    assert done.text == "".join(piece.text for piece in pieces) == "a\ufffd"


def test_case84_stop_strings_at_every_token_split(tokenizer):
    text = "owl? hoo hoo\u65e5\u672c\u8a9e hoo"
    cases = [("hoo h", "owl? "), ("\u672c", "owl? hoo hoo\u65e5"), ("hoo\u65e5", "owl? hoo ")]
    for stop, expected in cases:
        for tokens in tokenizations(tokenizer, text, 40):
            pieces, done = scripted(tokenizer, tokens, stop=[stop, "never"])
            assert "".join(piece.text for piece in pieces) == done.text == expected
            assert done.finish_reason == "stop"
    for tokens in tokenizations(tokenizer, text, 40):
        pieces, done = scripted(tokenizer, tokens, stop=["hoo!", " hoo hoo hoo"])
        assert "".join(piece.text for piece in pieces) == done.text == text
        assert tokenizer.eos_token_id == done.tokens[-1]


def test_case85_an_empty_stop_string_is_an_error(random_lm):
    with pytest.raises(InputError, match="empty"):
        random_lm.generate("cat?", stop=[""])


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"seed": 3, "top_k": 50}], ids=str)
def test_case87_batch_of_n_equals_n_singles(random_lm, options):
    prompts = ["cat? " * k + "owl?" for k in (1, 7, 2, 12, 5, 1, 3)]
    together = random_lm.batch(prompts, max_tokens=40, **options)
    for prompt, done in zip(prompts, together, strict=True):
        assert done.tokens == random_lm.generate(prompt, max_tokens=40, **options).tokens


def test_case87_an_interrupted_stream_leaves_nothing_behind(random_lm):
    expected = random_lm.generate("dog?", max_tokens=30, seed=1).tokens
    stream = random_lm.stream("cat?", max_tokens=30)
    next(stream)
    stream.close()
    assert random_lm.generate("dog?", max_tokens=30, seed=1).tokens == expected


def test_case89_a_prompt_that_does_not_fit_is_an_error_with_both_numbers(random_lm):
    long = random_lm.encode("cat? " * 300)
    with pytest.raises(InputError, match=rf"{len(long)} \+ 4 = {len(long) + 4} .*at most 256"):
        random_lm.generate("cat? " * 300, max_tokens=4)


def test_case90_greedy_tokens_do_not_depend_on_batch_chunk_or_threads(random_lm):
    prompt = random_lm.encode("cat? meow dog? woof woof cow? moo ")
    params = cerne.SamplingParams(temperature=0.0, max_tokens=16, ignore_eos=True)
    seen = set()
    before = torch.get_num_threads()
    try:
        for threads, chunk, size in [*itertools.product((1,), (1, 16, 512), (1, 2, 7)), (2, 16, 2)]:
            torch.set_num_threads(threads)
            engine = TorchEngine(random_lm.network, prefill_chunk=chunk)
            others = [[i + 1] * (3 * i + 1) for i in range(size - 1)]
            requests = [Request(ids, params) for ids in [prompt, *others]]
            done = complete(engine, random_lm.tokenizer, requests)
            seen.add(tuple(done[0].tokens))
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 1


def test_case90_ties_go_to_the_lowest_id_in_a_whole_run(tokenizer):
    engine = ScriptedEngine([5] * 20, tokenizer.vocab_size)
    tied = cerne.SamplingParams(temperature=0.0, max_tokens=3, logit_bias={9: 50.0, 4: 50.0})
    assert complete(engine, tokenizer, [Request([0], tied)])[0].tokens == [4, 4, 4]
    one = cerne.SamplingParams(top_k=1, max_tokens=3, logit_bias={9: 50.0, 4: 50.0})
    assert complete(engine, tokenizer, [Request([0], one)])[0].tokens == [4, 4, 4]


def test_case91_samples_differ_from_their_first_token_on(random_lm):
    done = random_lm.generate("cat?", n=8, max_tokens=6, seed=2, ignore_eos=True)
    first = [choice.tokens[0] for choice in done.choices]
    assert len(set(first)) > 2
    assert len({choice.tokens for choice in done.choices}) == 8
    seeds = {tuple(random_lm.generate("cat?", max_tokens=6, seed=s).tokens) for s in range(8)}
    assert len(seeds) == 8


def test_case82_logprobs_are_the_models_whatever_the_sampler(random_lm):
    plain = random_lm.generate("cat?", max_tokens=1, temperature=0.0, logprobs=5)
    for options in ({"temperature": 5.0}, {"top_k": 1}, {"top_p": 0.1}, {"logit_bias": {3: 9.0}}):
        done = random_lm.generate("cat?", max_tokens=1, logprobs=5, **options)
        assert done.logprobs[0].top == plain.logprobs[0].top
    assert np.exp(plain.logprobs[0].logprob) < 1.0
