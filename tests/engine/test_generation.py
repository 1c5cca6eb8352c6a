"""The decoding loop: batch = singles, stream = text, stops, limits, choices, log-probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerne.engine.generation import Request, complete, run
from cerne.engine.interface import ContextOverflowError, SamplingParams
from cerne.engine.sampler import raw_logprobs
from cerne.engine.torch_engine import TorchEngine
from cerne.errors import EngineError
from tests.engine.fakes import END_OF_TURN, EOS, ByteTokenizer, small_model

TOKENIZER = ByteTokenizer()
STOPS = (EOS, END_OF_TURN)


@pytest.fixture(scope="module")
def engine():
    return TorchEngine(small_model())


@pytest.fixture(scope="module")
def utf8_engine():
    """A model that writes bytes of multi-byte characters most of the time."""
    model = small_model(seed=4)
    with torch.no_grad():
        model.lm_head.weight[list(range(0xC2, 0xF5)) + list(range(0x80, 0xC0))] *= 2.0
    return TorchEngine(model)


def prompts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, int(n)).tolist() for n in rng.integers(1, 40, count)]


def one(engine, prompt, **options):
    return complete(engine, TOKENIZER, [Request(prompt, SamplingParams(**options))], STOPS)[0]


def recomputed(model, prompt, count):
    """Greedy tokens without a cache."""
    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(model.project(model(torch.tensor([ids]))[:, -1])[0].argmax()))
    return ids[len(prompt) :]


def test_greedy_equals_recomputation_without_cache(engine):
    done = one(engine, [1, 2, 3], temperature=0.0, max_tokens=40, ignore_eos=True)
    assert done.tokens == recomputed(engine.model, [1, 2, 3], 40)
    assert done.finish_reason == "length"
    assert done.usage.prompt_tokens == 3
    assert done.usage.completion_tokens == 40
    assert done.usage.total_tokens == 43


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_p": 0.9, "presence_penalty": 1.0}])
@pytest.mark.parametrize("max_batch", [3, 64])
def test_case87_batch_of_n_equals_n_singles(engine, options, max_batch):
    params = SamplingParams(max_tokens=20, seed=5, logprobs=2, **options)
    requests = [Request(ids, params) for ids in prompts(12)]
    together = complete(engine, TOKENIZER, requests, STOPS, max_batch)
    for request, done in zip(requests, together, strict=True):
        alone = complete(engine, TOKENIZER, [request], STOPS)[0]
        assert done.tokens == alone.tokens
        assert done.text == alone.text
        assert done.finish_reason == alone.finish_reason
        got = [entry.logprob for entry in done.logprobs]
        assert got == pytest.approx([entry.logprob for entry in alone.logprobs], abs=1e-4)


def test_different_parameters_run_side_by_side(engine):
    kinds = [
        SamplingParams(max_tokens=3 + i, seed=i, temperature=i / 4, top_k=i, stop=("a",) * (i % 2))
        for i in range(8)
    ]
    requests = [Request(ids, kind) for ids, kind in zip(prompts(8), kinds, strict=True)]
    for request, done in zip(
        requests, complete(engine, TOKENIZER, requests, STOPS, 4), strict=True
    ):
        assert done.tokens == complete(engine, TOKENIZER, [request], STOPS)[0].tokens


def test_case91_choices_are_independent_and_each_is_its_own_run(engine):
    done = one(engine, [9, 8, 7], n=6, max_tokens=12, seed=3, ignore_eos=True)
    assert [choice.index for choice in done.choices] == list(range(6))
    assert len({choice.tokens for choice in done.choices}) == 6
    assert len({choice.tokens[0] for choice in done.choices}) > 1
    assert done.usage.completion_tokens == 72
    fewer = one(engine, [9, 8, 7], n=2, max_tokens=12, seed=3, ignore_eos=True)
    assert fewer.choices == done.choices[:2]
    split = complete(
        engine,
        TOKENIZER,
        [Request([9, 8, 7], SamplingParams(n=6, max_tokens=12, seed=3, ignore_eos=True))],
        STOPS,
        max_batch=2,
    )[0]
    assert [c.tokens for c in split.choices] == [c.tokens for c in done.choices]


def test_a_stopped_generation_continues_as_if_it_had_not_been_stopped(engine):
    whole = one(engine, [5, 6], max_tokens=30, seed=11, ignore_eos=True).tokens
    rest = one(engine, [5, 6, *whole[:13]], max_tokens=17, seed=11, ignore_eos=True).tokens
    assert whole[13:] == rest


@pytest.mark.parametrize("seed", range(12))
def test_case83_stream_equals_text_and_never_splits_a_character(utf8_engine, seed):
    params = SamplingParams(max_tokens=60, seed=seed, stop=("\u00e9",), logprobs=0)
    request = Request(list("héllo".encode()), params)
    pieces = [piece for _, piece in run(utf8_engine, TOKENIZER, [request], STOPS, stream=True)]
    done = complete(utf8_engine, TOKENIZER, [request], STOPS)[0]
    assert "".join(piece.text for piece in pieces) == done.text == pieces[-1].choice.text
    assert [t for piece in pieces for t in piece.tokens] == done.tokens
    assert [x for piece in pieces for x in piece.logprobs] == list(done.logprobs)
    assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].finish_reason == done.finish_reason
    ended = 1 if done.tokens[-1] in STOPS else 0
    whole = TOKENIZER.decode(done.tokens[: len(done.tokens) - ended])
    assert whole.startswith(done.text)
    assert "\u00e9" not in done.text


def test_case84_stop_strings_cut_the_text_at_their_first_place(engine):
    ascii_only = dict.fromkeys(range(128, 260), -float("inf"))
    options = {"temperature": 0.0, "max_tokens": 60, "logit_bias": ascii_only}
    free = one(engine, [1, 2, 3], **options)
    for start in range(40):
        stop = free.text[start : start + 3]
        done = one(engine, [1, 2, 3], stop=["never\0", stop], **options)
        assert done.text == free.text[: free.text.index(stop)]
        assert done.finish_reason == "stop"
        assert tuple(done.tokens) == tuple(free.tokens[: len(done.tokens)])
        assert stop in TOKENIZER.decode(done.tokens)
        assert stop not in TOKENIZER.decode(done.tokens[:-1])


def test_case84_a_partial_stop_at_the_end_is_flushed(engine):
    free = one(engine, [1, 2, 3], temperature=0.0, max_tokens=20, ignore_eos=True)
    stop = free.text[-3:] + "\0never"
    done = one(engine, [1, 2, 3], temperature=0.0, max_tokens=20, ignore_eos=True, stop=stop)
    assert done.text == free.text
    assert done.finish_reason == "length"


def test_case45_stop_tokens_end_the_answer_and_stay_out_of_the_text(engine):
    free = one(engine, [1, 2, 3], temperature=0.0, max_tokens=30, ignore_eos=True)
    last = free.tokens[10]
    first = free.tokens.index(last)
    options = {"temperature": 0.0, "max_tokens": 30, "ignore_eos": True}
    done = one(engine, [1, 2, 3], stop_tokens=(last,), **options)
    assert done.tokens == free.tokens[: first + 1]
    assert done.text == TOKENIZER.decode(free.tokens[:first])
    assert done.finish_reason == "stop"
    request = Request([1, 2, 3], SamplingParams(temperature=0.0, max_tokens=30))
    as_eos = complete(engine, TOKENIZER, [request], (last,))[0]
    assert as_eos.tokens == done.tokens
    assert as_eos.text == done.text


def test_a_stop_token_that_is_the_last_allowed_one_counts_as_stop(engine):
    free = one(engine, [1, 2, 3], temperature=0.0, max_tokens=20, ignore_eos=True)
    count = next(n for n in range(5, 20) if free.tokens[n - 1] not in free.tokens[: n - 1])
    last = free.tokens[count - 1]
    done = one(
        engine,
        [1, 2, 3],
        temperature=0.0,
        max_tokens=count,
        stop_tokens=(last,),
        ignore_eos=True,
    )
    assert len(done.tokens) == count
    assert done.finish_reason == "stop"


def test_case89_prompt_and_max_tokens_beyond_the_context_name_both_numbers(engine):
    with pytest.raises(ContextOverflowError, match=r"250 \+ 7 = 257 tokens.*at most 256.*=6"):
        one(engine, [1] * 250, max_tokens=7)
    with pytest.raises(ContextOverflowError, match=r"300 \+ 1 = 301.*a shorter prompt"):
        one(engine, [1] * 300)
    assert len(one(engine, [1] * 250, max_tokens=6, ignore_eos=True).tokens) == 6
    assert len(one(engine, [1] * 250, ignore_eos=True).tokens) == 6
    with pytest.raises(EngineError, match="no tokens"):
        one(engine, [])


def test_one_prompt_too_long_is_found_before_any_work(engine):
    params = SamplingParams(max_tokens=10)
    requests = [Request([1], params), Request([1] * 250, params)]
    with pytest.raises(ContextOverflowError):
        next(run(engine, TOKENIZER, requests, STOPS))


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 3.0, "top_k": 5},
        {"top_p": 0.3, "repetition_penalty": 1.5, "logit_bias": {7: 5.0}},
    ],
    ids=str,
)
def test_case82_logprobs_are_of_the_raw_model_for_every_sampler(engine, options):
    done = one(engine, [1, 2, 3], max_tokens=15, logprobs=3, seed=2, ignore_eos=True, **options)
    ids = [1, 2, 3, *done.tokens]
    with torch.no_grad():
        logits = engine.model.project(engine.model(torch.tensor([ids])))[0].numpy()
    assert len(done.logprobs) == 15
    for i, entry in enumerate(done.logprobs):
        expected = raw_logprobs(logits[2 + i])
        assert entry.token == done.tokens[i]
        assert entry.logprob == pytest.approx(expected[entry.token], abs=1e-3)
        assert [t for t, _ in entry.top] == np.argsort(-expected, kind="stable")[:3].tolist()


def test_penalties_and_bias_reach_the_loop(engine):
    banned = one(engine, [1, 2, 3], temperature=0.0, max_tokens=1).tokens[0]
    done = one(
        engine, [1, 2, 3], temperature=0.0, max_tokens=20, logit_bias={banned: -float("inf")}
    )
    assert banned not in done.tokens
    done = one(
        engine, [1, 2, 3], temperature=0.0, max_tokens=40, ignore_eos=True, repetition_penalty=100.0
    )
    assert len(set(done.tokens)) == 40


def test_closing_a_stream_frees_the_pool(engine):
    request = Request([1, 2], SamplingParams(max_tokens=100, ignore_eos=True))
    closed = []

    class Watched:
        vocab_size, context, room = engine.vocab_size, engine.context, engine.room

        def open(self, sequences, capacity):
            pool = engine.open(sequences, capacity)
            close = pool.close
            pool.close = lambda: (closed.append(True), close())
            return pool

    stream = run(Watched(), TOKENIZER, [request], STOPS, stream=True)
    next(stream)
    assert not closed
    stream.close()
    assert closed == [True]


def test_no_requests_give_no_completions(engine):
    assert complete(engine, TOKENIZER, [], STOPS) == []


@pytest.mark.parametrize("count", [1_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_long_output_takes_constant_memory_and_no_second_reading(count):
    """Work per token must not grow with what was generated: one position a step, fixed buffers."""
    model = small_model(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=10_240,
    )
    engine = TorchEngine(model)
    seen = []
    forward = engine.forward
    engine.forward = lambda ids_BT, *rest: (seen.append(ids_BT.numel()), forward(ids_BT, *rest))[1]
    buffers = set()
    open_pool = engine.open

    def watched(sequences, capacity):
        pool = open_pool(sequences, capacity)
        decode = pool.decode

        def step(*arguments):
            result = decode(*arguments)
            buffers.add((pool._cache.keys[0].data_ptr(), pool._cache.keys[0].numel()))
            return result

        pool.decode = step
        return pool

    engine.open = watched
    done = one(
        engine, [1, 2, 3], max_tokens=count, temperature=0.0, ignore_eos=True, stop="\0never"
    )
    assert len(done.tokens) == count
    assert seen == [3] + [1] * (count - 1)
    assert len(buffers) == 1
