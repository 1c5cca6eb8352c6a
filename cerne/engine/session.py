"""The public object: a model with its tokenizer, prompts in, completions out.

    model = cerne.load("runs/demo")
    done = model.generate("Once upon a time", max_tokens=64, temperature=0.0)

A string is a raw prompt (encoded as text, with the document start token where the tokenizer has
one); a list of messages goes through the chat template. Keyword arguments are the fields of
`SamplingParams`. Finding and opening the model is the business of locate.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from cerne.device import resolve_device, resolve_precision, set_threads
from cerne.engine.beam import beam_search
from cerne.engine.constrain import Constraints
from cerne.engine.generation import (
    MAX_BATCH,
    Request,
    complete,
    resolve_max_tokens,
    resolve_stop_ids,
    run,
)
from cerne.engine.interface import Choice, Completion, Engine, Piece, SamplingParams
from cerne.engine.locate import find_model
from cerne.engine.native_engine import NativeEngine
from cerne.engine.receipt import make_receipt, model_digest
from cerne.engine.torch_engine import TorchEngine
from cerne.errors import ConfigError, InputError, TokenizerError
from cerne.model.hf import load_model
from cerne.model.native import NotNativeError, native_from_folder
from cerne.model.transformer import Transformer
from cerne.model.weights import read_json
from cerne.native.model import NativeModel
from cerne.progress import say
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.chat import render, template_facts

Prompt = str | Sequence[Mapping[str, Any]]


EngineName = Literal["auto", "native", "torch"]
Pooling = Literal["mean", "last"]


def load(
    model: str | Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    precision: str = "fp32",
    context: int | None = None,
    engine: EngineName = "auto",
) -> LanguageModel:
    """Open a model.

    Args:
        model: a model directory, a run directory (its newest model), a .gguf file, or the name of
            an installed model package (`smollm2`).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: compute threads; None: all cores the process may use.
        precision: `fp32`, `bf16` or `auto`: what torch computes in. The native engine keeps the
            precision that the weights are stored in.
        context: tokens that a sequence may hold; None: what the model was made for.
        engine: `native` has the same bits on every machine; `torch` runs on GPUs and in bf16;
            `auto` takes the native one where it can.
    Raises:
        InputError: no model there, damaged files, an unsupported architecture.
        EnvironmentLack: the device or the package is missing.
    """
    place = resolve_device(device)
    found = find_model(model)
    native = _runs_natively(engine, place, precision, found)
    count = set_threads(threads)
    if found.is_file():
        return _open_gguf(found, count, context)
    if native:
        opened = _open_folder(found, count, context, engine == "native")
        if opened is not None:
            return opened
    dtype, _ = resolve_precision(precision, place)
    weights = load_model(found, device=place, dtype=dtype)
    return LanguageModel(weights, Tokenizer.load(found), folder=found, context=context)


def _runs_natively(engine: EngineName, place: torch.device, precision: str, found: Path) -> bool:
    if engine not in get_args(EngineName):
        raise ConfigError("unknown engine", value=engine, allowed=", ".join(get_args(EngineName)))
    able = place.type == "cpu" and precision == "fp32"
    if engine == "native" and not able:
        raise ConfigError(
            "the native engine computes on the CPU, in the precision of the weights",
            value=f"device={place}, precision={precision}",
            allowed="device=cpu, precision=fp32",
            hint="engine=torch",
        )
    if found.is_file() and (engine == "torch" or not able):
        raise ConfigError(
            "GGUF files run on the native engine",
            value=f"engine={engine}, device={place}, precision={precision}",
            allowed="engine=native, device=cpu, precision=fp32",
        )
    return able and engine != "torch"


def _open_folder(
    folder: Path, threads: int, context: int | None, required: bool
) -> LanguageModel | None:
    """A model directory on the native engine; None where that has no form for the model."""
    try:
        model = native_from_folder(folder, threads)
    except NotNativeError as error:
        if required:
            raise
        say(f"the torch engine runs this model: {error}")
        return None
    made = NativeEngine(model, threads, context=context)
    return LanguageModel(None, Tokenizer.load(folder), folder=folder, engine=made)


def _open_gguf(file: Path, threads: int, context: int | None) -> LanguageModel:
    tokenizer = Tokenizer.load(file)
    model = NativeModel.open_gguf(file, threads)
    made = NativeEngine(model, threads, context=context)
    return LanguageModel(None, tokenizer, folder=file, engine=made)


class LanguageModel:
    """A model ready to answer; made by `load`, or from a model and a tokenizer in memory.

    Args:
        model: the network, used in place; None when `engine` runs something else.
        tokenizer: the tokenizer it was trained with.
        folder: the model directory or file that receipts name; None: answers carry no receipt.
        context: tokens that a sequence may hold; None: the model's own.
        engine: what runs the model; None: torch, on the network.
    """

    def __init__(
        self,
        model: Transformer | None,
        tokenizer: Tokenizer,
        *,
        folder: Path | None = None,
        context: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        if engine is None:
            if model is None:
                raise ConfigError("a language model needs a network or an engine", value=None)
            engine = TorchEngine(model, context=context)
        self.engine = engine
        self.tokenizer = tokenizer
        self.folder = folder
        self._network = model
        self._constraints = Constraints(tokenizer)
        self.stop_ids = _stop_ids(self._generation_config(), tokenizer)

    def _generation_config(self) -> Mapping[str, Any]:
        if self._network is not None:
            return self._network.generation_config
        path = None if self.folder is None else self.folder / "generation_config.json"
        return read_json(path) if path is not None and path.is_file() else {}

    @property
    def network(self) -> Transformer:
        """The torch network, for whoever needs more than logits; loaded when first asked for.

        Raises:
            InputError: a GGUF file, which has no torch form.
        """
        if self._network is None:
            if self.folder is None or self.folder.is_file():
                raise InputError(
                    "this needs the model as a torch network",
                    value=str(self.folder),
                    allowed="a model directory",
                )
            self._network = load_model(self.folder)
        return self._network

    @property
    def context(self) -> int:
        """Tokens that prompt and answer can have together."""
        return self.engine.context

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Raw logits after each token, float32 [T, V].

        Raises:
            EngineError: no tokens, more than the context, or an id outside the vocabulary.
        """
        with self.engine.open(1, max(1, len(ids))) as pool:
            result = pool.prefill(pool.start(), ids, "all")
        assert result is not None
        return result

    def embed(self, texts: Sequence[str], pooling: Pooling = "mean") -> NDArray[np.float32]:
        """One vector for each text from the last hidden states, float32 [N, D].

        Args:
            pooling: the mean over a text's tokens, or the state of its last token.
        Raises:
            InputError: one string in place of a list, or another pooling.
            ConfigError: the model runs on torch.
            EngineError: a text without tokens, or with more than the context.
        """
        if isinstance(texts, (str, bytes)):
            raise InputError("embed needs a list of texts", value=texts)
        if pooling not in get_args(Pooling):
            allowed = ", ".join(get_args(Pooling))
            raise InputError("unknown pooling", value=pooling, allowed=allowed)
        native = self.engine
        if not isinstance(native, NativeEngine):
            raise ConfigError("embed needs the native engine", value="torch", allowed="native")
        states = [native.embed(self.tokenizer.encode_prompt(text)) for text in texts]
        rows = [one[-1] if pooling == "last" else one.mean(axis=0) for one in states]
        width = native.model.statistic("width")
        return np.array(rows, dtype=np.float32).reshape(len(rows), width)

    def encode(self, prompt: Prompt) -> list[int]:
        """The token ids of a prompt as `generate` sees them.

        Raises:
            InputError: neither text nor messages. TokenizerError: no chat template.
        """
        if isinstance(prompt, str):
            return self.tokenizer.encode_prompt(prompt)
        return render(prompt, self.tokenizer, add_generation_prompt=True).ids

    def generate(
        self, prompt: Prompt, params: SamplingParams | None = None, **options: Any
    ) -> Completion:
        """Continue a prompt.

        Args:
            prompt: text, or a list of messages for the chat template.
            params: sampling parameters; `options` are set on top of them.
        Raises:
            ConfigError: an unknown option (the nearest one is named) or a value out of range.
            EngineError: prompt and max_tokens exceed the context (both numbers are named).
        """
        return self.batch([prompt], params, **options)[0]

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, **options: Any
    ) -> Iterator[Piece]:
        """Continue a prompt piece by piece; the texts of the pieces, joined, are the text.

        The last piece of each choice has `finish_reason` and `choice` (with the receipt). Closing
        the iterator stops the work. Arguments and errors as in `generate`, raised at once.
        """
        chosen = SamplingParams.of(params, **options)
        if chosen.beams > 1:
            raise ConfigError(
                "beam search cannot be streamed", value=f"beams={chosen.beams}", allowed="beams=1"
            )
        request = Request(self.encode(prompt), chosen, self._constraints.compile(chosen))
        resolve_max_tokens(len(request.prompt), chosen, self.context)
        return self._pieces(request)

    def batch(
        self, prompts: Sequence[Prompt], params: SamplingParams | None = None, **options: Any
    ) -> list[Completion]:
        """Continue several prompts together; the tokens are those of one by one (in float32)."""
        if isinstance(prompts, (str, bytes)):
            raise InputError("batch needs a list of prompts", value=prompts)
        chosen = SamplingParams.of(params, **options)
        rule = self._constraints.compile(chosen)
        requests = [Request(self.encode(prompt), chosen, rule) for prompt in prompts]
        return [
            replace(one, choices=tuple(self._signed(request, choice) for choice in one.choices))
            for request, one in zip(requests, self._complete(requests, MAX_BATCH), strict=True)
        ]

    def generate_batch(
        self,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        max_batch: int = MAX_BATCH,
    ) -> list[Completion]:
        """Continue many prompts given as token ids, as evaluation and rollouts do; no receipts."""
        rule = self._constraints.compile(params)
        return self._complete([Request(ids, params, rule) for ids in prompts], max_batch)

    def _complete(self, requests: Sequence[Request], max_batch: int) -> list[Completion]:
        answers = self.tokenizer.continuation
        if requests and requests[0].params.beams > 1:
            return [beam_search(self.engine, answers, r, self.stop_ids) for r in requests]
        return complete(self.engine, answers, requests, self.stop_ids, max_batch)

    def _pieces(self, request: Request) -> Iterator[Piece]:
        stream = run(
            self.engine, self.tokenizer.continuation, [request], self.stop_ids, stream=True
        )
        with contextlib.closing(stream):
            for _, piece in stream:
                if piece.choice is None:
                    yield piece
                else:
                    yield replace(piece, choice=self._signed(request, piece.choice))

    def _signed(self, request: Request, choice: Choice) -> Choice:
        """The choice with its receipt, when the model has files to name."""
        if self._digests is None:
            return choice
        model, tokenizer = self._digests
        receipt = make_receipt(
            choice,
            prompt=request.prompt,
            params=request.params,
            max_tokens=resolve_max_tokens(len(request.prompt), request.params, self.context),
            stop_ids=resolve_stop_ids(request.params, self.stop_ids),
            model=model,
            tokenizer=tokenizer,
            arithmetic=self.engine.arithmetic,
        )
        return replace(choice, receipt=receipt)

    @functools.cached_property
    def _digests(self) -> tuple[str, str] | None:
        return None if self.folder is None else (model_digest(self.folder), self.tokenizer.digest)


def _stop_ids(generation_config: Mapping[str, Any], tokenizer: Tokenizer) -> frozenset[int]:
    """Ids that end an answer: of the tokenizer, of generation_config.json, of the template."""
    listed = generation_config.get("eos_token_id", [])
    ids = {tokenizer.eos_token_id, tokenizer.end_of_turn_id}
    ids |= set(listed) if isinstance(listed, list) else {listed}
    if tokenizer.chat_template:
        # A broken template is reported when messages are rendered; raw prompts work without it.
        with contextlib.suppress(TokenizerError):
            ids |= template_facts(tokenizer).end_of_turn_ids
    return frozenset(token for token in ids if token is not None)
