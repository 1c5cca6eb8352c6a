"""The public Python interface, frozen: a change here is a change for every user.

If this test fails because the interface was meant to grow, add to the lists. Names and parameters
that are listed are not renamed or removed.
"""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import cerne
from cerne.engine import interface
from cerne.engine.session import LanguageModel

SIGNATURES = {
    "load": "(model: 'str | Path', *, device: 'str' = 'cpu', threads: 'int | None' = None, "
    "precision: 'str' = 'fp32', context: 'int | None' = None, "
    "engine: 'EngineName' = 'auto') -> 'LanguageModel'",
    "generate": "(self, prompt: 'Prompt', params: 'SamplingParams | None' = None, "
    "**options: 'Any') -> 'Completion'",
    "stream": "(self, prompt: 'Prompt', params: 'SamplingParams | None' = None, "
    "**options: 'Any') -> 'Iterator[Piece]'",
    "batch": "(self, prompts: 'Sequence[Prompt]', params: 'SamplingParams | None' = None, "
    "**options: 'Any') -> 'list[Completion]'",
    "generate_batch": "(self, prompts: 'Sequence[Sequence[int]]', params: 'SamplingParams', "
    "max_batch: 'int' = 64) -> 'list[Completion]'",
    "logits": "(self, ids: 'Sequence[int]') -> 'NDArray[np.float32]'",
    "embed": "(self, texts: 'Sequence[str]', pooling: 'Pooling' = 'mean') -> 'NDArray[np.float32]'",
    "encode": "(self, prompt: 'Prompt') -> 'list[int]'",
}
DEFAULTS = {
    "max_tokens": None,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": {},
    "stop": (),
    "stop_tokens": (),
    "ignore_eos": False,
    "seed": 0,
    "logprobs": None,
    "n": 1,
    "beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
    "json_schema": None,
    "regex": None,
    "grammar": None,
}
RESULTS = {
    "Completion": ["choices", "usage"],
    "Choice": ["index", "text", "tokens", "finish_reason", "logprobs", "score", "receipt"],
    "Piece": ["text", "tokens", "index", "logprobs", "finish_reason", "choice"],
    "TokenLogprob": ["token", "logprob", "top"],
    "Usage": ["prompt_tokens", "completion_tokens"],
}
PROPERTIES = {
    "Completion": {"text", "tokens", "logprobs", "finish_reason", "receipt"},
    "Usage": {"total_tokens"},
}
TOKENIZER = {
    "train": ["sources", "vocab_size"],
    "load": ["path"],
    "save": ["folder"],
    "encode": ["text"],
    "decode": ["ids", "skip_special"],
    "decode_bytes": ["ids", "skip_special"],
}


def test_names_of_the_package():
    assert cerne.__all__ == ["SamplingParams", "Tokenizer", "__version__", "errors", "load"]
    for name in cerne.__all__:
        assert getattr(cerne, name) is not None
        assert name in dir(cerne)


def test_signatures():
    functions = {"load": cerne.load}
    functions |= {name: getattr(LanguageModel, name) for name in SIGNATURES if name != "load"}
    got = {name: str(inspect.signature(function)) for name, function in functions.items()}
    assert got == SIGNATURES


def test_everything_public_on_the_model_is_listed():
    public = {name for name in vars(LanguageModel) if not name.startswith("_")}
    assert public == (SIGNATURES.keys() - {"load"}) | {"context", "network"}


def test_sampling_parameters_and_their_defaults():
    assert cerne.SamplingParams().model_dump() == DEFAULTS


def test_fields_of_results():
    for name, fields in RESULTS.items():
        kind = getattr(interface, name)
        assert [field.name for field in dataclasses.fields(kind)] == fields
        properties = {k for k, v in vars(kind).items() if isinstance(v, property)}
        assert properties == PROPERTIES.get(name, set())


def test_tokenizer_methods_of_the_design():
    for name, parameters in TOKENIZER.items():
        known = inspect.signature(getattr(cerne.Tokenizer, name)).parameters
        assert [p for p in known if p != "self"][: len(parameters)] == parameters


def test_case7_import_costs_no_torch_and_an_unknown_name_is_an_error():
    code = (
        "import sys, cerne; dir(cerne); assert 'torch' not in sys.modules\n"
        "try: cerne.lod\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "module 'cerne' has no attribute 'lod'"
