"""What generation is made of: parameters, results, and the interface every engine implements.

An `Engine` turns token ids into logits and keeps the key/value memory of the sequences it runs; it
knows neither text nor sampling. `generation.py`, `beam.py` and `session.py` are written against it
alone. This module imports neither torch nor a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol

import numpy as np
import pydantic
from numpy.typing import NDArray

from cerne.config import Config, build
from cerne.errors import EngineError

DEFAULT_MAX_TOKENS = 512
MAX_LOGPROBS = 100

FinishReason = Literal["stop", "length"]
LogitsWanted = Literal["none", "last", "all"]


class ContextOverflowError(EngineError):
    """Prompt and output do not fit the context.

    Args:
        prompt_tokens: tokens of the prompt.
        max_tokens: tokens asked for; None when they were not limited.
        context: what a sequence can hold.
    """

    def __init__(self, prompt_tokens: int, max_tokens: int | None, context: int) -> None:
        self.prompt_tokens, self.max_tokens, self.context = prompt_tokens, max_tokens, context
        left = context - prompt_tokens
        wanted = 1 if max_tokens is None else max_tokens
        super().__init__(
            "the prompt and max_tokens do not fit the model's context",
            value=f"{prompt_tokens} + {wanted} = {prompt_tokens + wanted} tokens",
            allowed=f"at most {context}",
            hint=f"max_tokens={left} or less" if left > 0 else "a shorter prompt",
        )


class SamplingParams(Config):
    """How to continue a prompt. Defaults draw from the model's own distribution.

    The order of the transforms and the random numbers are specified in docs/sampling.md.
    """

    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Tokens to generate at most; None: what fits the context, at most 512."""
    temperature: float = pydantic.Field(default=1.0, ge=0.0, le=100.0, allow_inf_nan=False)
    """Divides the logits; 0 is greedy decoding, exactly."""
    top_k: int = pydantic.Field(default=0, ge=0)
    """Keep the k most probable tokens; 0 keeps all."""
    top_p: float = pydantic.Field(default=1.0, gt=0.0, le=1.0)
    """Keep the smallest head of the distribution that holds this probability; 1 keeps all."""
    min_p: float = pydantic.Field(default=0.0, ge=0.0, lt=1.0)
    """Keep tokens at least this probable relative to the most probable one; 0 keeps all."""
    repetition_penalty: float = pydantic.Field(default=1.0, gt=0.0, le=100.0, allow_inf_nan=False)
    """Divides positive (multiplies negative) logits of tokens in prompt or output; 1 is off."""
    presence_penalty: float = pydantic.Field(default=0.0, ge=-2.0, le=2.0)
    """Subtracted once from the logits of tokens already generated."""
    frequency_penalty: float = pydantic.Field(default=0.0, ge=-2.0, le=2.0)
    """Subtracted from the logits of generated tokens once per occurrence."""
    logit_bias: dict[int, float] = pydantic.Field(default_factory=dict)
    """Token id -> number added to its logit; -inf forbids the token."""
    stop: tuple[str, ...] = ()
    """Strings that end the text; they are not part of it. A single string is accepted."""
    stop_tokens: tuple[int, ...] = ()
    """Token ids that end the output, besides those of the model (document end, end of turn)."""
    ignore_eos: bool = False
    """Go on past the model's own stop tokens."""
    seed: int = pydantic.Field(default=0, ge=0, lt=2**64)
    """Key of the random numbers: the same seed gives the same text."""
    logprobs: int | None = pydantic.Field(default=None, ge=0, le=MAX_LOGPROBS)
    """None: none; k: the raw log-probability of each token and of the k most probable ones."""
    n: int = pydantic.Field(default=1, ge=1, le=1024)
    """Independent choices for the prompt (with beams: the n best)."""
    beams: int = pydantic.Field(default=1, ge=1, le=256)
    """Width of beam search; 1 is ordinary decoding."""
    length_penalty: float = pydantic.Field(default=1.0, ge=-10.0, le=10.0)
    """Beam search divides the log-probability by length ** length_penalty."""
    early_stopping: bool = False
    """Beam search ends as soon as `beams` answers are complete, not when none can be beaten."""
    json_schema: dict[str, Any] | None = None
    """The text is JSON that fits this schema (needs the package llguidance)."""
    regex: str | None = None
    """The whole text matches this regular expression (needs llguidance)."""
    grammar: str | None = None
    """The whole text is a sentence of this grammar in Lark's notation (needs llguidance)."""

    @pydantic.field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @pydantic.field_validator("stop")
    @classmethod
    def _no_empty_stop(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise ValueError("a stop string is empty; give one character or more")
        return value

    @pydantic.field_validator("logit_bias")
    @classmethod
    def _usable_bias(cls, value: dict[int, float]) -> dict[int, float]:
        for token, bias in value.items():
            if token < 0 or math.isnan(bias) or bias == math.inf:
                raise ValueError(f"token {token}: {bias} (ids from 0; finite numbers or -inf)")
        return value

    @pydantic.model_validator(mode="after")
    def _one_constraint(self) -> SamplingParams:
        given = [name for name in _CONSTRAINTS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other; give one of them")
        return self

    @pydantic.model_validator(mode="after")
    def _beams_are_not_samples(self) -> SamplingParams:
        if self.beams == 1:
            return self
        if self.n > self.beams:
            raise ValueError(f"n = {self.n} is more than beams = {self.beams}")
        defaults = SamplingParams.model_fields
        for name in _SAMPLING_ONLY:
            value = getattr(self, name)
            plain = value == defaults[name].get_default(call_default_factory=True)
            if not plain and not (name == "temperature" and value == 0.0):
                raise ValueError(f"beam search does not use {name}; leave it out")
        return self

    @property
    def constraint(self) -> str | None:
        """The name of the field that constrains the text; None: the text is free."""
        return next((name for name in _CONSTRAINTS if getattr(self, name) is not None), None)

    @property
    def shifts_logits(self) -> bool:
        """Whether bias or penalties change the logits."""
        return bool(self.logit_bias) or self.needs_history

    @property
    def needs_history(self) -> bool:
        """Whether a penalty looks at the tokens so far."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @classmethod
    def of(cls, params: SamplingParams | None = None, **options: Any) -> SamplingParams:
        """`params` with `options` on top.

        Raises:
            ConfigError: unknown name (the nearest known one is named) or value out of range.
        """
        base = params.model_dump(exclude_unset=True) if params is not None else {}
        return build(cls, {**base, **options}, source="sampling")


_CONSTRAINTS = ("json_schema", "regex", "grammar")
_SAMPLING_ONLY = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "stop",
    "seed",
    *_CONSTRAINTS,
)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural log-probability of a token under the raw model, and the most probable tokens."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; `completion_tokens` sums all choices and includes stop tokens."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer. `tokens` has every drawn token, the one that ended it included; `text` has
    neither the stop token nor the stop string. `score` is beam search's normalised log-probability.
    """

    index: int
    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None = None
    score: float | None = None
    receipt: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one prompt: `n` choices; the properties are those of the first one."""

    choices: tuple[Choice, ...]
    usage: Usage

    @property
    def text(self) -> str:
        """Text without stop token or stop string."""
        return self.choices[0].text

    @property
    def tokens(self) -> list[int]:
        """Every drawn token, the stop token included."""
        return list(self.choices[0].tokens)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """One entry a token when asked for, else None."""
        return self.choices[0].logprobs

    @property
    def finish_reason(self) -> FinishReason:
        """`stop` (stop token or string) or `length` (max_tokens)."""
        return self.choices[0].finish_reason

    @property
    def receipt(self) -> dict[str, Any] | None:
        """See cerne/engine/receipt.py; None when the model was not loaded from files."""
        return self.choices[0].receipt


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a streamed answer. The last piece of a choice has a finish reason and the choice.

    The texts of a choice's pieces, joined, are its text; the same holds for tokens and logprobs.
    """

    text: str
    tokens: tuple[int, ...]
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    choice: Choice | None = None


class Sequences(Protocol):
    """A pool of token sequences with their key/value memory. Close it, or use it in a `with`."""

    @property
    def capacity(self) -> int:
        """Tokens that each sequence can hold."""

    def start(self) -> int:
        """A new empty sequence; returns its handle."""

    def length(self, sequence: int) -> int:
        """Tokens that the sequence holds."""

    def prefill(
        self, sequence: int, ids: Sequence[int], logits: LogitsWanted = "last"
    ) -> NDArray[np.float32] | None:
        """Append tokens to one sequence; logits [1, V] or [len(ids), V] where asked, else None.

        Raises:
            EngineError: more tokens than the capacity (both numbers), or an id out of range.
        """

    def decode(self, sequences: Sequence[int], ids: Sequence[int]) -> NDArray[np.float32]:
        """Append one token to each of N different sequences; logits [N, V].

        Raises:
            EngineError: a sequence is full, or an id is out of range.
        """

    def fork(self, sequence: int) -> int:
        """A copy that goes its own way; returns its handle."""

    def drop(self, sequence: int) -> None:
        """Forget a sequence and free its place."""

    def close(self) -> None:
        """Free the memory of the pool."""

    def __enter__(self) -> Sequences: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Engine(Protocol):
    """Runs a model on token ids. Implementations: `NativeEngine`, `TorchEngine`."""

    @property
    def arithmetic(self) -> str:
        """Name of the arithmetic for receipts; `torch` promises no equal bits across machines."""

    @property
    def vocab_size(self) -> int:
        """V: the width of the logits."""

    @property
    def context(self) -> int:
        """Tokens that a sequence can hold at most."""

    def room(self, capacity: int) -> int:
        """How many sequences of `capacity` tokens the engine's memory budget holds, at least 1."""

    def open(self, sequences: int, capacity: int) -> Sequences:
        """A pool for at most `sequences` sequences of at most `capacity` tokens each.

        Raises:
            EngineError: capacity above `context`.
        """
