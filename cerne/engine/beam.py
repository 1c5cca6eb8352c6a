"""Beam search: the most probable answers under the raw model, deterministic, no random numbers.

The rule is written down in docs/sampling.md; it is that of transformers with
`early_stopping="never"` (our default) or `True`. Leaves out: sampling and penalties, which have no
meaning here and are refused by `SamplingParams`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cerne.engine import sampler
from cerne.engine.generation import (
    Request,
    TextDecoder,
    completion_of,
    resolve_max_tokens,
    resolve_stop_ids,
)
from cerne.engine.interface import (
    Choice,
    Completion,
    Engine,
    SamplingParams,
    Sequences,
    TokenLogprob,
)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A beginning of an answer. `score` is the sum of raw log-probabilities."""

    tokens: tuple[int, ...]
    score: float
    logprobs: tuple[TokenLogprob, ...]
    ended: bool = False

    def normalised(self, length_penalty: float) -> float:
        """score / length ** length_penalty."""
        return self.score / float(len(self.tokens) ** length_penalty)


def beam_search(
    engine: Engine, text_decoder: TextDecoder, request: Request, stop_ids: Collection[int] = ()
) -> Completion:
    """The `params.n` best of `params.beams` hypotheses, best first.

    Raises:
        EngineError: the prompt does not fit, or the logits are not finite.
    """
    params = request.params
    max_tokens = resolve_max_tokens(len(request.prompt), params, engine.context)
    ends = resolve_stop_ids(params, stop_ids)
    with engine.open(params.beams, len(request.prompt) + max_tokens) as pool:
        handle = pool.start()
        logits_NV = pool.prefill(handle, request.prompt)
        assert logits_NV is not None
        running = [Hypothesis((), 0.0, ())]
        handles = [handle]
        finished: list[Hypothesis] = []
        for length in range(1, max_tokens + 1):
            parents, grown = _grow(running, logits_NV, params, ends)
            first = grown[: params.beams]
            done = [one for one in first if one.ended or length == max_tokens]
            finished = _best(finished + done, params)[: params.beams]
            kept = [i for i, one in enumerate(grown) if not one.ended][: params.beams]
            running = [grown[i] for i in kept]
            if (
                length == max_tokens
                or not running
                or _settled(running[0], finished, params, max_tokens)
            ):
                break
            handles = _follow(pool, handles, [parents[i] for i in kept])
            logits_NV = pool.decode(handles, [one.tokens[-1] for one in running])
    choices = [
        _choice(index, one, params, text_decoder)
        for index, one in enumerate(_best(finished, params)[: params.n])
    ]
    return completion_of(request, choices)


def _grow(
    running: Sequence[Hypothesis],
    logits_NV: NDArray[np.float32],
    params: SamplingParams,
    ends: Collection[int],
) -> tuple[list[int], list[Hypothesis]]:
    """The best continuations, best first, and the beam that each one continues.

    Ties go to the lower beam, then to the lower token id.
    """
    wanted = params.beams * (1 + max(1, len(ends)))
    options: list[tuple[float, int, int]] = []
    for beam, (one, row) in enumerate(zip(running, logits_NV, strict=True)):
        totals = one.score + sampler.raw_logprobs(row)
        options += [(-float(totals[t]), beam, int(t)) for t in sampler.top_k(totals, wanted)]
    options.sort()
    parents, grown = [], []
    for negated, beam, token in options[:wanted]:
        if negated == np.inf:
            break
        entry = (
            ()
            if params.logprobs is None
            else (sampler.token_logprob(logits_NV[beam], token, params.logprobs),)
        )
        one = running[beam]
        parents.append(beam)
        grown.append(
            Hypothesis((*one.tokens, token), -negated, (*one.logprobs, *entry), token in ends)
        )
    return parents, grown


def _best(hypotheses: list[Hypothesis], params: SamplingParams) -> list[Hypothesis]:
    """Best normalised score first; the earlier found first among equals."""
    return sorted(hypotheses, key=lambda one: -one.normalised(params.length_penalty))


def _settled(
    leader: Hypothesis, finished: Sequence[Hypothesis], params: SamplingParams, max_tokens: int
) -> bool:
    """Whether no running hypothesis can still enter the finished ones."""
    if len(finished) < params.beams:
        return False
    if params.early_stopping:
        return True
    # Scores only fall: the best case is no further loss over the most favourable length.
    length = max_tokens if params.length_penalty > 0 else len(leader.tokens)
    bound = leader.score / float(length**params.length_penalty)
    return bound <= finished[-1].normalised(params.length_penalty)


def _follow(pool: Sequences, handles: list[int], parents: list[int]) -> list[int]:
    """Handles of the new beams: parents without heirs are dropped, others forked as needed."""
    for beam, handle in enumerate(handles):
        if beam not in parents:
            pool.drop(handle)
    used: set[int] = set()
    heirs = []
    for parent in parents:
        heirs.append(pool.fork(handles[parent]) if parent in used else handles[parent])
        used.add(parent)
    return heirs


def _choice(
    index: int, one: Hypothesis, params: SamplingParams, text_decoder: TextDecoder
) -> Choice:
    text = text_decoder.decode(one.tokens[:-1] if one.ended else one.tokens)
    return Choice(
        index=index,
        text=text,
        tokens=one.tokens,
        finish_reason="stop" if one.ended else "length",
        logprobs=one.logprobs if params.logprobs is not None else None,
        score=one.normalised(params.length_penalty),
    )
