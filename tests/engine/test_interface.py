"""Sampling parameters: ranges, nearest names, combinations that make no sense."""

from __future__ import annotations

import pytest

from cerne.engine.interface import SamplingParams
from cerne.errors import ConfigError

OUT_OF_RANGE = [
    {"temperature": -0.1},
    {"temperature": float("nan")},
    {"temperature": float("inf")},
    {"top_k": -1},
    {"top_p": 0.0},
    {"top_p": 1.1},
    {"min_p": 1.0},
    {"repetition_penalty": 0.0},
    {"presence_penalty": 2.5},
    {"frequency_penalty": float("nan")},
    {"logit_bias": {1: float("nan")}},
    {"logit_bias": {1: float("inf")}},
    {"logit_bias": {-1: 1.0}},
    {"max_tokens": 0},
    {"seed": -1},
    {"seed": 2**64},
    {"logprobs": 101},
    {"n": 0},
    {"beams": 0},
    {"stop": ["a", ""]},
    {"stop": ""},
    {"max_tokens": "many"},
]


@pytest.mark.parametrize("options", OUT_OF_RANGE, ids=str)
def test_values_out_of_range_are_refused_by_name(options):
    with pytest.raises(ConfigError, match=f"{next(iter(options))}.* is not acceptable"):
        SamplingParams.of(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.9},
        {"seed": 3},
        {"stop": "x"},
        {"logit_bias": {1: 1.0}},
        {"presence_penalty": 0.1},
    ],
    ids=str,
)
def test_case21_beam_search_refuses_what_it_would_ignore(options):
    with pytest.raises(ConfigError, match=f"does not use {next(iter(options))}"):
        SamplingParams.of(beams=3, **options)
    assert SamplingParams.of(beams=3, temperature=0.0).beams == 3


def test_more_answers_than_beams_are_refused():
    with pytest.raises(ConfigError, match="n = 5 is more than beams = 3"):
        SamplingParams.of(beams=3, n=5)


def test_options_go_on_top_of_parameters():
    base = SamplingParams(temperature=0.5, stop="x")
    both = SamplingParams.of(base, temperature=0.0, top_k=3)
    assert (both.temperature, both.top_k, both.stop) == (0.0, 3, ("x",))
    with pytest.raises(ConfigError, match="did you mean top_k"):
        SamplingParams.of(base, topk=3)


def test_case81_temperature_zero_is_kept():
    assert SamplingParams.of(temperature=0).temperature == 0.0
    assert SamplingParams.of(SamplingParams(temperature=0.0), top_k=1).temperature == 0.0
