"""Greedy, beam search and the sampler's cuts against transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerne.engine.beam import beam_search
from cerne.engine.generation import Request, complete
from cerne.engine.interface import SamplingParams
from cerne.engine.sampler import History, candidates
from cerne.engine.torch_engine import TorchEngine
from cerne.model.hf import save_model
from tests.engine.fakes import EOS, ByteTokenizer, small_model

transformers = pytest.importorskip("transformers")

TOKENIZER = ByteTokenizer()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Our engine and transformers' model with the same weights."""
    folder = tmp_path_factory.mktemp("model") / "m"
    model = small_model(seed=1, scale=2.5)
    save_model(folder, model)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return TorchEngine(model), theirs.eval()


def reference(theirs, prompt, **options):
    ids = torch.tensor([prompt])
    return theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )


@pytest.mark.parametrize("prompt", [[1], [10, 20, 30, 40], list(range(60, 90))])
def test_greedy_equals_transformers(pair, prompt):
    engine, theirs = pair
    params = SamplingParams(temperature=0.0, max_tokens=25)
    done = complete(engine, TOKENIZER, [Request(prompt, params)], (EOS,))[0]
    expected = reference(theirs, prompt, max_new_tokens=25, eos_token_id=EOS).sequences[
        0, len(prompt) :
    ]
    assert done.tokens == expected.tolist()


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("prompt", [[1], [10, 20, 30, 40]])
def test_beam_search_equals_transformers(pair, prompt, early, length_penalty):
    engine, theirs = pair
    free = SamplingParams(max_tokens=12, beams=4)
    # An end token that the beams do reach, so that answers of several lengths compete.
    end = beam_search(engine, TOKENIZER, Request(prompt, free)).choices[0].tokens[5]
    params = SamplingParams(
        max_tokens=12, beams=4, n=3, length_penalty=length_penalty, early_stopping=early
    )
    done = beam_search(engine, TOKENIZER, Request(prompt, params), (end,))
    expected = reference(
        theirs,
        prompt,
        eos_token_id=end,
        max_new_tokens=12,
        num_beams=4,
        num_return_sequences=3,
        length_penalty=length_penalty,
        early_stopping=True if early else "never",
    )
    for choice, row, score in zip(
        done.choices, expected.sequences, expected.sequences_scores, strict=True
    ):
        got = list(choice.tokens)
        assert got == row[len(prompt) :][: len(got)].tolist()
        assert choice.score == pytest.approx(float(score), abs=1e-3)
    if length_penalty == 0.0:
        assert any(choice.finish_reason == "stop" for choice in done.choices)


@pytest.mark.parametrize("seed", range(5))
def test_cuts_equal_transformers_logits_processors(seed):
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(200).astype(np.float32) * 3
    prompt, generated = rng.integers(0, 200, 20).tolist(), rng.integers(0, 200, 10).tolist()
    params = SamplingParams(
        repetition_penalty=1.3, temperature=0.7, top_k=60, top_p=0.85, min_p=0.02
    )
    ids = torch.tensor([prompt + generated])
    scores = torch.tensor(logits)[None]
    for step in (
        transformers.RepetitionPenaltyLogitsProcessor(1.3),
        transformers.TemperatureLogitsWarper(0.7),
        transformers.TopKLogitsWarper(60),
        transformers.TopPLogitsWarper(0.85),
        transformers.MinPLogitsWarper(0.02),
    ):
        scores = step(ids, scores)
    expected = torch.softmax(scores[0], -1).numpy()
    options = candidates(logits, params, History.of(prompt, generated))
    assert options.ids.tolist() == np.flatnonzero(expected).tolist()
    shares = options.weights / options.weights.sum()
    assert np.abs(shares - expected[options.ids]).max() < 1e-5
