"""Each transform against a plain second implementation; draws against their distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.engine import sampler
from cerne.engine.interface import SamplingParams
from cerne.engine.sampler import History, candidates, choose, token_logprob
from cerne.errors import EngineError

LOGITS = np.array([1.5, -0.5, 3.0, 0.25, 3.0, 2.0, -4.0, 2.0, 0.0, 1.0], dtype=np.float32)
# 99.9 % points of the chi-square distribution by degrees of freedom.
CHI_SQUARE_999 = {
    1: 10.83,
    2: 13.82,
    3: 16.27,
    4: 18.47,
    5: 20.52,
    6: 22.46,
    7: 24.32,
    8: 26.12,
    9: 27.88,
}


def plain_probabilities(logits, params, prompt=(), generated=()):
    """The specification in slow, separate code: a list of (token, probability)."""
    values = [float(x) for x in logits]
    for token, bias in params.logit_bias.items():
        values[token] += bias
    for token in set(prompt) | set(generated):
        r = params.repetition_penalty
        values[token] = values[token] / r if values[token] > 0 else values[token] * r
    for token in set(generated):
        count = list(generated).count(token)
        values[token] -= count * params.frequency_penalty
        values[token] -= params.presence_penalty
    values = [v / params.temperature for v in values]
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    if params.top_k:
        order = order[: params.top_k]
    total = math.fsum(math.exp(values[i]) for i in order)
    shares = {i: math.exp(values[i]) / total for i in order}
    kept, mass = [], 0.0
    for i in order:
        if mass >= params.top_p and params.top_p < 1:
            break
        kept.append(i)
        mass += shares[i]
    kept = [i for i in kept if shares[i] >= params.min_p * shares[order[0]] * (1 - 1e-12)]
    total = math.fsum(shares[i] for i in kept)
    return {i: shares[i] / total for i in sorted(kept)}


def probabilities(logits, params, prompt=(), generated=()):
    options = candidates(logits, params, History.of(prompt, generated))
    shares = options.weights / options.weights.sum()
    return dict(zip(options.ids.tolist(), shares.tolist(), strict=True))


FROZEN_DRAWS = [
    211,
    61,
    259,
    151,
    90,
    27,
    239,
    157,
    222,
    53,
    272,
    121,
    43,
    127,
    195,
    276,
    274,
    3,
    20,
    21,
    283,
    240,
    48,
    119,
    189,
    227,
    241,
    98,
    34,
    2,
    50,
    94,
    278,
    209,
    63,
    94,
    239,
    9,
    196,
    82,
]

SETTINGS = [
    {},
    {"temperature": 0.5},
    {"temperature": 3.0},
    {"top_k": 3},
    {"top_p": 0.7},
    {"min_p": 0.3},
    {"repetition_penalty": 1.7},
    {"presence_penalty": 1.5},
    {"frequency_penalty": 0.9},
    {"logit_bias": {2: -float("inf"), 6: 6.0}},
    {"temperature": 0.8, "top_k": 6, "top_p": 0.9, "min_p": 0.1, "presence_penalty": 0.5},
]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_distribution_of_every_transform(options):
    params = SamplingParams(**options)
    prompt, generated = (0, 2), (5, 5, 8)
    expected = plain_probabilities(LOGITS, params, prompt, generated)
    got = probabilities(LOGITS, params, prompt, generated)
    possible = {token: p for token, p in expected.items() if p > 0}
    assert {t for t, p in got.items() if p > 0} == set(possible)
    for token, probability in possible.items():
        assert got[token] == pytest.approx(probability, rel=1e-12)

    draws = 6000
    history = History.of(prompt, generated)
    counts = dict.fromkeys(possible, 0)
    for position in range(draws):
        counts[choose(LOGITS, params, choice=0, position=position, history=history)] += 1
    chi_square = sum((counts[t] - draws * p) ** 2 / (draws * p) for t, p in possible.items())
    assert chi_square < CHI_SQUARE_999[len(possible) - 1]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-6, 6), min_size=2, max_size=40),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.integers(0, 12),
    st.sampled_from([0.2, 0.5, 0.93, 1.0]),
    st.sampled_from([0.0, 0.05, 0.6]),
)
def test_candidates_equal_the_plain_rule_with_many_ties(values, temperature, k, p, m):
    logits = np.array(values, dtype=np.float32) / 2
    params = SamplingParams(temperature=temperature, top_k=k, top_p=p, min_p=m)
    expected = plain_probabilities(logits, params)
    got = probabilities(logits, params)
    # At an exact boundary of top-p the slow sum may round the other way: one token more or less.
    assert abs(len(got) - len(expected)) <= (1 if p < 1 else 0)
    if len(got) == len(expected):
        assert list(got) == list(expected)


def test_case90_ties_go_to_the_lowest_id():
    assert choose(LOGITS, SamplingParams(temperature=0.0), choice=0, position=0) == 2
    assert candidates(LOGITS, SamplingParams(top_k=1)).ids.tolist() == [2]
    assert candidates(LOGITS, SamplingParams(top_k=3)).ids.tolist() == [2, 4, 5]
    assert candidates(LOGITS, SamplingParams(top_p=0.01)).ids.tolist() == [2]
    flat = np.zeros(9, dtype=np.float32)
    assert candidates(flat, SamplingParams(top_k=4)).ids.tolist() == [0, 1, 2, 3]
    assert candidates(flat, SamplingParams(top_p=0.5)).ids.tolist() == [0, 1, 2, 3, 4]
    assert token_logprob(flat, 5, 3).top[2][0] == 2


@pytest.mark.parametrize("seed", range(8))
def test_case90_top_k_1_equals_greedy_on_ties(seed):
    rng = np.random.default_rng(seed)
    logits = rng.integers(0, 3, 50).astype(np.float32)
    one = choose(logits, SamplingParams(top_k=1, seed=seed), choice=0, position=seed)
    assert one == choose(logits, SamplingParams(temperature=0.0), choice=0, position=0)
    assert one == int(np.flatnonzero(logits == logits.max())[0])


def test_case91_temperature_zero_is_greedy_for_every_seed():
    logits = np.array([0.0, 1e-6, -1.0], dtype=np.float32)
    tokens = {
        choose(logits, SamplingParams(temperature=0.0, seed=seed), choice=seed, position=seed)
        for seed in range(50)
    }
    assert tokens == {1}


def test_greedy_respects_bias_and_penalties():
    params = SamplingParams(temperature=0.0, logit_bias={2: -5.0})
    assert choose(LOGITS, params, choice=0, position=0) == 4
    params = SamplingParams(temperature=0.0, presence_penalty=2.0)
    assert choose(LOGITS, params, choice=0, position=0, history=History.of((), (2, 4))) == 5


def test_penalties_see_what_they_should():
    history = History.of(prompt=(0, 1), generated=(2, 2, 3))
    raw = LOGITS.astype(np.float64)
    got = sampler.apply_bias_and_penalties(LOGITS, SamplingParams(repetition_penalty=2.0), history)
    assert got[:4].tolist() == [0.75, -1.0, 1.5, 0.125]
    assert got[4:].tolist() == raw[4:].tolist()
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    got = sampler.apply_bias_and_penalties(LOGITS, params, history)
    assert got[:4].tolist() == [1.5, -0.5, 3.0 - 0.5 - 0.5, 0.25 - 0.25 - 0.5]


def test_logprobs_are_the_log_softmax_of_the_raw_logits():
    got = token_logprob(LOGITS, 7, 4)
    values = LOGITS.astype(np.float64)
    expected = values - np.log(np.exp(values).sum())
    assert got.logprob == pytest.approx(expected[7], abs=1e-12)
    assert [token for token, _ in got.top] == [2, 4, 5, 7]
    assert got.top[0][1] == pytest.approx(expected[2], abs=1e-12)


def test_exp_is_within_one_ulp_and_zero_far_below():
    x = -np.concatenate((np.linspace(0, 40, 40001), np.linspace(40, 699, 5000)))
    got = sampler.exp(x)
    assert np.max(np.abs(got - np.exp(x)) / np.spacing(np.exp(x))) <= 1.0
    assert sampler.exp(np.array([0.0, -701.0, -np.inf])).tolist() == [1.0, 0.0, 0.0]


def test_the_same_logits_give_the_same_bits():
    """Frozen draws: a change of order or formula in the sampler changes them."""
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((40, 300)) * 2).astype(np.float32)
    params = SamplingParams(temperature=0.9, top_k=80, top_p=0.95, min_p=0.01, seed=2**40 + 3)
    tokens = [choose(logits[i], params, choice=i % 3, position=i) for i in range(40)]
    assert tokens == FROZEN_DRAWS


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_without_a_distribution_are_an_error(bad, temperature):
    logits = LOGITS.copy()
    logits[3] = bad
    with pytest.raises(EngineError, match="do not define a distribution"):
        choose(logits, SamplingParams(temperature=temperature), choice=0, position=0)


def test_forbidding_every_token_is_an_error():
    params = SamplingParams(logit_bias=dict.fromkeys(range(10), -math.inf))
    with pytest.raises(EngineError, match="at least one finite logit"):
        choose(LOGITS, params, choice=0, position=0)


def test_a_bias_outside_the_vocabulary_is_an_error():
    with pytest.raises(EngineError, match="allowed: 0 to 9"):
        choose(LOGITS, SamplingParams(logit_bias={10: 1.0}), choice=0, position=0)


def test_forbidden_tokens_are_never_drawn():
    params = SamplingParams(logit_bias=dict.fromkeys(range(9), -math.inf))
    drawn = {choose(LOGITS, params, choice=0, position=p) for p in range(50)}
    assert drawn == {9}


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.99, 0.999999])
@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_top_p_of_a_large_vocabulary_equals_sorting_everything(p, spread):
    logits = np.random.default_rng(1).standard_normal(3000) * spread
    logits[::7] = logits[0]
    weights = sampler.exp(logits - logits.max())
    order = sorted(range(3000), key=lambda i: (-logits[i], i))
    total = float(np.add.accumulate(weights)[-1])
    kept, reached = [], 0.0
    for i in order:
        kept.append(i)
        reached += float(weights[i])
        if reached >= p * total:
            break
    assert sampler.top_p(logits, weights, p).tolist() == sorted(kept)
