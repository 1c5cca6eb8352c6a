"""The core's sampler against the specification in Python: the same token, or the same refusal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cerne.engine import sampler
from cerne.engine.generation import native_sampler
from cerne.engine.interface import SamplingParams
from cerne.engine.sampler import History
from cerne.errors import EngineError
from cerne.native.sampler import NativeSampler

# Few values, so that ties are common; the last ones are hostile.
TIED = st.sampled_from([-2.0, -0.0, 0.0, 1e-45, 0.5, 1.0, 1.0, 3.0, -math.inf])
HOSTILE = st.sampled_from([math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, -1e-40, 0.0])
SMOOTH = st.floats(-30, 30, width=32)

PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 5e-324, 1e-3, 0.7, 1.0, 1.3, 100.0]),
        "top_k": st.sampled_from([0, 1, 2, 3, 7, 40, 10**30]),
        "top_p": st.sampled_from([1e-300, 0.1, 0.5, 0.9, 1 - 2**-53, 1.0]),
        "min_p": st.sampled_from([0.0, 1e-9, 0.05, 0.5, 0.999]),
        "repetition_penalty": st.sampled_from([1e-3, 0.8, 1.0, 1.1, 100.0]),
        "presence_penalty": st.sampled_from([-2.0, 0.0, 0.3, 2.0]),
        "frequency_penalty": st.sampled_from([-1.5, 0.0, 0.1, 2.0]),
        "logit_bias": st.dictionaries(
            st.integers(0, 12), st.sampled_from([-math.inf, -3.0, 0.5, 1e300, -1e300]), max_size=4
        ),
        "seed": st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1]),
    },
)


def outcome(choose) -> int | str:
    """The token, or the sentence of the refusal."""
    with np.errstate(all="ignore"):
        try:
            return choose()
        except EngineError as error:
            return str(error)


def both(logits, params, prompt, generated, choice=0, position=5):
    """What Python and the core make of the same input."""
    history = History.of(prompt, generated)
    native = native_sampler(params)
    native.accept(prompt, generated=False)
    native.accept(generated, generated=True)
    return (
        outcome(
            lambda: sampler.choose(
                logits, params, choice=choice, position=position, history=history
            )
        ),
        outcome(lambda: native.choose(logits, choice, position)),
    )


@settings(max_examples=600, deadline=None)
@given(
    st.one_of(
        st.lists(TIED, min_size=13, max_size=60),
        st.lists(SMOOTH, min_size=13, max_size=60),
        st.lists(st.one_of(SMOOTH, HOSTILE), min_size=13, max_size=20),
    ),
    PARAMS,
    st.lists(st.integers(0, 12), max_size=8),
    st.lists(st.integers(0, 12), max_size=8),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
@example([math.nan] * 13, {}, [], [], 0, 0)
@example([-math.inf] * 13, {"temperature": 0.0}, [], [], 0, 0)
@example([math.inf, math.nan, *[0.0] * 11], {"temperature": 0.0}, [], [], 0, 0)
def test_token_or_refusal_equals_the_specification(
    values, options, prompt, generated, choice, position
):
    logits = np.array(values, dtype=np.float32)
    params = SamplingParams.of(**options)
    expected, got = both(logits, params, prompt, generated, choice, position)
    assert got == expected


@pytest.mark.parametrize("scale", [0.01, 1.0, 6.0], ids=["flat", "medium", "peaked"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.0},
        {"top_k": 40},
        {"top_k": 5000, "temperature": 0.8},
        {"top_p": 0.9},
        {"top_p": 0.999, "temperature": 1.5},
        {"min_p": 0.05},
        {"top_k": 300, "top_p": 0.95, "min_p": 0.02, "temperature": 0.7},
        {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    ],
    ids=str,
)
def test_vocabularies_of_real_size(options, scale):
    """Sums of many weights in the stated order, long heads, cuts in the middle of ties."""
    generator = np.random.default_rng(7)
    params = SamplingParams.of(seed=11, **options)
    history = generator.integers(0, 8000, 30).tolist()
    for position in range(6):
        # Steps of 1/8 make ties on the even rounds.
        logits = (generator.normal(size=8000) * scale).astype(np.float32)
        if position % 2 == 0:
            logits = np.round(logits * 8) / 8
        expected, got = both(logits, params, history[:10], history[10:], position=position)
        assert got == expected


def test_bias_outside_the_vocabulary_is_refused_alike():
    params = SamplingParams.of(logit_bias={9: 1.0}, temperature=0.0)
    expected, got = both(np.zeros(9, dtype=np.float32), params, [], [])
    assert got == expected and "outside the vocabulary" in str(got)


@pytest.mark.parametrize(
    "numbers",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_p": 0.0},
        {"min_p": 1.0},
        {"repetition_penalty": 0.0},
        {"presence_penalty": 2.5},
        {"heat": 1.0},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(numbers):
    with pytest.raises(EngineError, match=r"allowed|known"):
        NativeSampler(numbers=numbers)


def test_forgetting_and_closing():
    native = NativeSampler(numbers={"temperature": 0.0, "frequency_penalty": 2.0})
    logits = np.array([1.0, 0.0], dtype=np.float32)
    native.accept([0], generated=True)
    assert native.choose(logits, 0, 0) == 1
    native.close()
    with pytest.raises(EngineError, match="closed"):
        native.choose(logits, 0, 0)
