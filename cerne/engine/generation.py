"""The decoding loop: requests in, pieces of text out; one path for one prompt, many, or a stream.

Running sequences take one step together; a finished one gives its place to the next waiting
request. Which sequences share a step does not change a draw (counter-based random numbers). Leaves
out: prompts as text and receipts (session.py), beam search (beam.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cerne.engine import sampler
from cerne.engine.constrain import Constraint
from cerne.engine.interface import (
    DEFAULT_MAX_TOKENS,
    Choice,
    Completion,
    ContextOverflowError,
    Engine,
    FinishReason,
    Piece,
    SamplingParams,
    Sequences,
    TokenLogprob,
    Usage,
)
from cerne.engine.stops import StopMatcher
from cerne.errors import EngineError
from cerne.native.sampler import NativeSampler

Floats32 = NDArray[np.float32]
MAX_BATCH = 64
_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)


class StreamDecoder(Protocol):
    """Token ids to text, one at a time, never splitting a character."""

    def push(self, token: int, /) -> str:
        """Text that became complete."""

    def flush(self) -> str:
        """What is left at the end."""


class TextDecoder(Protocol):
    """What the loop needs of a tokenizer."""

    def decode(self, ids: Sequence[int], /) -> str:
        """The text of a list of ids."""

    def stream(self) -> StreamDecoder:
        """A fresh streaming decoder whose joined output equals `decode`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and how to continue it; `constraint` is what constrain.py made of the params."""

    prompt: Sequence[int]
    params: SamplingParams
    constraint: Constraint | None = None


def resolve_max_tokens(prompt_tokens: int, params: SamplingParams, context: int) -> int:
    """The number of tokens to generate at most.

    Raises:
        EngineError: an empty prompt. ContextOverflowError: it does not fit.
    """
    if prompt_tokens == 0:
        raise EngineError("the prompt has no tokens", value="", allowed="1 token or more")
    left = context - prompt_tokens
    if left < (1 if params.max_tokens is None else params.max_tokens):
        raise ContextOverflowError(prompt_tokens, params.max_tokens, context)
    return min(DEFAULT_MAX_TOKENS, left) if params.max_tokens is None else params.max_tokens


def resolve_stop_ids(params: SamplingParams, model_stop_ids: Collection[int]) -> frozenset[int]:
    """Every token id that ends the answer."""
    own = frozenset() if params.ignore_eos else frozenset(model_stop_ids)
    return own | frozenset(params.stop_tokens)


def native_sampler(params: SamplingParams) -> NativeSampler:
    """The core's sampler for a request: the same tokens as `sampler.choose`, sooner."""
    numbers = {name: getattr(params, name) for name in _NUMBERS}
    return NativeSampler(params.seed, params.top_k, numbers, params.logit_bias)


class Answer:
    """One choice while it grows: draws tokens, builds text, knows when it is done."""

    def __init__(
        self,
        request: Request,
        index: int,
        max_tokens: int,
        stop_ids: Collection[int],
        text_decoder: TextDecoder,
        stream: bool,
    ) -> None:
        params = request.params
        self.params, self.index, self.max_tokens = params, index, max_tokens
        self.position = len(request.prompt)
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish_reason: FinishReason | None = None
        self._sampler = native_sampler(params)
        self._remembers = params.needs_history
        if self._remembers:
            self._sampler.accept(request.prompt, generated=False)
        self._stop_ids = stop_ids
        constraint = request.constraint
        self._constraint = None if constraint is None else constraint.start(stop_ids)
        self._text_decoder = text_decoder
        # Text is decoded once at the end when nobody needs it earlier.
        self._decoder = text_decoder.stream() if stream or params.stop else None
        self._stops = StopMatcher(params.stop)
        self._text: list[str] = []
        self._shown_text = self._shown_tokens = 0

    def take(self, logits_V: Floats32) -> None:
        """Choose the next token from its logits [V]."""
        allowed_V = logits_V if self._constraint is None else self._constraint.masked(logits_V)
        token = self._sampler.choose(allowed_V, self.index, self.position)
        if self.params.logprobs is not None:
            self.logprobs.append(sampler.token_logprob(logits_V, token, self.params.logprobs))
        if self._remembers:
            self._sampler.accept((token,), generated=True)
        self.tokens.append(token)
        self.position += 1
        self._extend_text(token)

    def _extend_text(self, token: int) -> None:
        ended = token in self._stop_ids
        if ended:
            self.finish_reason = "stop"
        else:
            if self._decoder is not None:
                self._text.append(self._stops.push(self._decoder.push(token)))
            if self._constraint is not None:
                self._constraint.accept(token)
                if self._constraint.complete:
                    self.finish_reason = "stop"
        if self.finish_reason is None and not self._stops.stopped:
            if len(self.tokens) < self.max_tokens:
                return
            self.finish_reason = "length"
        if self._decoder is None:
            self._text.append(self._text_decoder.decode(self.tokens[:-1] if ended else self.tokens))
            return
        self._text.append(self._stops.push(self._decoder.flush()))
        self._text.append(self._stops.flush())
        if self._stops.stopped:
            self.finish_reason = "stop"

    def piece(self) -> Piece | None:
        """What is new since the last piece; None while no text came out and it is not done."""
        text = "".join(self._text[self._shown_text :])
        if not text and self.finish_reason is None:
            return None
        start = self._shown_tokens
        self._shown_text, self._shown_tokens = len(self._text), len(self.tokens)
        wanted = self.params.logprobs is not None
        return Piece(
            text=text,
            tokens=tuple(self.tokens[start:]),
            index=self.index,
            logprobs=tuple(self.logprobs[start:]) if wanted else None,
            finish_reason=self.finish_reason,
            choice=None if self.finish_reason is None else self._choice(self.finish_reason),
        )

    def _choice(self, reason: FinishReason) -> Choice:
        return Choice(
            index=self.index,
            text="".join(self._text),
            tokens=tuple(self.tokens),
            finish_reason=reason,
            logprobs=tuple(self.logprobs) if self.params.logprobs is not None else None,
        )


def run(
    engine: Engine,
    text_decoder: TextDecoder,
    requests: Sequence[Request],
    stop_ids: Collection[int] = (),
    stream: bool = False,
    max_batch: int = MAX_BATCH,
) -> Generator[tuple[int, Piece], None, None]:
    """Serve all requests; yields (index of the request, piece) as they come.

    Args:
        stop_ids: the model's own stop tokens, used unless a request ignores them.
        stream: yield text as it grows; else one piece for each finished choice.
        max_batch: sequences that step together at most (fewer when memory is short).
    Raises:
        EngineError: a prompt does not fit; checked for all requests before any work.
    """
    limits = [resolve_max_tokens(len(r.prompt), r.params, engine.context) for r in requests]
    # Neighbours of like length waste the least on masked keys.
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt))
    waiting = deque((i, choice) for i in order for choice in range(requests[i].params.n))
    if not waiting:
        return
    needed = max(len(r.prompt) + limit for r, limit in zip(requests, limits, strict=True))
    places = min(len(waiting), max_batch, engine.room(needed))

    def answer(i: int, choice: int) -> Answer:
        ids = resolve_stop_ids(requests[i].params, stop_ids)
        return Answer(requests[i], choice, limits[i], ids, text_decoder, stream)

    with engine.open(places, needed) as pool:
        running: list[tuple[int, int, Answer]] = []
        while waiting or running:
            fresh = _admit(pool, requests, waiting, places - len(running))
            batch = [(i, handle, answer(i, choice), row) for i, choice, handle, row in fresh]
            if running:
                handles = [handle for _, handle, _ in running]
                logits_NV = pool.decode(handles, [a.tokens[-1] for _, _, a in running])
                batch += [(*one, row) for one, row in zip(running, logits_NV, strict=True)]
            running = []
            for i, handle, growing, row in batch:
                growing.take(row)
                if growing.finish_reason is None:
                    running.append((i, handle, growing))
                else:
                    pool.drop(handle)
                if stream or growing.finish_reason is not None:
                    piece = growing.piece()
                    if piece is not None:
                        yield i, piece


def _admit(
    pool: Sequences,
    requests: Sequence[Request],
    waiting: deque[tuple[int, int]],
    free: int,
) -> list[tuple[int, int, int, Floats32]]:
    """Read prompts into free places: (request, choice, handle, logits [V]) of each.

    Choices of one request that start together share one reading of the prompt.
    """
    admitted: list[tuple[int, int, int, Floats32]] = []
    for _ in range(min(free, len(waiting))):
        i, choice = waiting.popleft()
        if admitted and admitted[-1][0] == i:
            _, _, sibling, row = admitted[-1]
            admitted.append((i, choice, pool.fork(sibling), row))
            continue
        handle = pool.start()
        logits_1V = pool.prefill(handle, requests[i].prompt)
        assert logits_1V is not None
        admitted.append((i, choice, handle, logits_1V[0]))
    return admitted


def complete(
    engine: Engine,
    text_decoder: TextDecoder,
    requests: Sequence[Request],
    stop_ids: Collection[int] = (),
    max_batch: int = MAX_BATCH,
) -> list[Completion]:
    """Serve all requests and return their completions in order; arguments as in `run`."""
    choices: list[list[Choice]] = [[] for _ in requests]
    for i, piece in run(engine, text_decoder, requests, stop_ids, max_batch=max_batch):
        assert piece.choice is not None
        choices[i].append(piece.choice)
    return [completion_of(request, done) for request, done in zip(requests, choices, strict=True)]


def completion_of(request: Request, choices: Sequence[Choice]) -> Completion:
    """Choices in the order of their index, with the token counts."""
    ordered = tuple(sorted(choices, key=lambda choice: choice.index))
    usage = Usage(len(request.prompt), sum(len(choice.tokens) for choice in ordered))
    return Completion(ordered, usage)
