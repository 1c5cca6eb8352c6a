"""Beam search against brute force on a tiny vocabulary, and its documented properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from cerne.engine.beam import beam_search
from cerne.engine.generation import Request, complete
from cerne.engine.interface import SamplingParams
from cerne.engine.torch_engine import TorchEngine
from tests.engine.fakes import small_model

V, END, LENGTH = 6, 5, 4


class Letters:
    """Ids 0-5 as letters."""

    def decode(self, ids):
        return "".join("abcdef"[i] for i in ids)

    def stream(self):
        raise AssertionError("beam search decodes at the end")


@pytest.fixture(scope="module")
def engine():
    return TorchEngine(small_model(seed=3, scale=3.0, vocab_size=V))


def search(engine, prompt, **options):
    params = SamplingParams(max_tokens=LENGTH, **options)
    return beam_search(engine, Letters(), Request(prompt, params), (END,))


def every_answer(engine, prompt, length_penalty):
    """All complete answers with their normalised scores, best first."""
    scored = []
    for length in range(1, LENGTH + 1):
        for tokens in itertools.product(range(V), repeat=length):
            if END in tokens[:-1] or (tokens[-1] != END and length < LENGTH):
                continue
            scored.append(tokens)
    rows = torch.tensor([[*prompt, *t, *[0] * (LENGTH - len(t))] for t in scored])
    with torch.no_grad():
        logprobs = torch.log_softmax(engine.model.project(engine.model(rows)).double(), -1).numpy()
    start = len(prompt) - 1
    totals = [
        sum(logprobs[i, start + k, token] for k, token in enumerate(tokens))
        / len(tokens) ** length_penalty
        for i, tokens in enumerate(scored)
    ]
    order = np.argsort(-np.array(totals), kind="stable")
    return [(scored[i], totals[i]) for i in order]


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("prompt", [[0], [3, 1, 4], [2, 2]])
def test_wide_beams_find_what_brute_force_finds(engine, prompt, length_penalty):
    expected = every_answer(engine, prompt, length_penalty)
    done = search(engine, prompt, beams=250, n=5, length_penalty=length_penalty)
    assert [choice.tokens for choice in done.choices] == [tokens for tokens, _ in expected[:5]]
    for choice, (tokens, score) in zip(done.choices, expected, strict=False):
        assert choice.score == pytest.approx(score, abs=1e-4)
        assert choice.finish_reason == ("stop" if tokens[-1] == END else "length")
        assert choice.text == Letters().decode(t for t in tokens if t != END)


def test_wider_beams_are_never_worse(engine):
    scores = [search(engine, [1, 2], beams=b).choices[0].score for b in (2, 4, 16, 64)]
    assert all(wide >= narrow - 1e-6 for narrow, wide in itertools.pairwise(scores))


def test_two_beams_beat_greedy_where_greedy_is_trapped():
    """A model whose best first token leads to a bad second one."""
    model = small_model(seed=3, scale=3.0, vocab_size=V)
    engine = TorchEngine(model)
    better = 0
    for prompt in itertools.product(range(V), repeat=2):
        params = SamplingParams(max_tokens=LENGTH, temperature=0.0, logprobs=0)
        greedy = complete(engine, Letters(), [Request(prompt, params)], (END,))[0]
        greedy_score = sum(entry.logprob for entry in greedy.logprobs) / len(greedy.tokens)
        beam = search(engine, prompt, beams=3).choices[0]
        assert beam.score >= greedy_score - 1e-6 or beam.finish_reason == "stop"
        better += beam.score > greedy_score + 1e-6
    assert better > 0


def test_beam_search_is_deterministic_and_gives_raw_logprobs(engine):
    first = search(engine, [1, 2], beams=4, n=4, logprobs=2)
    assert first == search(engine, [1, 2], beams=4, n=4, logprobs=2)
    for choice in first.choices:
        total = sum(entry.logprob for entry in choice.logprobs)
        assert choice.score == pytest.approx(total / len(choice.tokens), abs=1e-9)
        assert [entry.token for entry in choice.logprobs] == list(choice.tokens)


def test_early_stopping_stops_at_the_first_full_set(engine):
    early = search(engine, [1, 2], beams=2, n=2, early_stopping=True)
    patient = search(engine, [1, 2], beams=2, n=2)
    assert patient.choices[0].score >= early.choices[0].score
