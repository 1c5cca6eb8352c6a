"""From logits to a token: transforms in a fixed order, then one counter-based draw.

Order: logit bias, repetition penalty, presence and frequency penalties, temperature, top-k, top-p,
min-p, draw. Everything is IEEE binary64 in plain multiplications, additions and divisions and in a
stated order (docs/sampling.md), so that another engine can return the same token from the same
logits. Equal logits are ordered by token id, the lowest first. Log-probabilities are those of the
raw model distribution, before any transform.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cerne.engine.interface import SamplingParams, TokenLogprob
from cerne.engine.philox import uniform
from cerne.errors import EngineError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# exp() of fdlibm: one Cody-Waite step and a rational approximation, below 1 ulp.
LOG2_E = 1.44269504088896338700
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to an integer
EXP_P = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
EXP_FLOOR = -700.0


@dataclass(slots=True)
class History:
    """Which tokens a sequence holds: for the penalties. `counts` has generated tokens only."""

    seen: set[int] = field(default_factory=set)
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, prompt: Iterable[int], generated: Iterable[int] = ()) -> History:
        """The history of a prompt and what was generated after it."""
        history = cls(set(prompt))
        for token in generated:
            history.add(token)
        return history

    def add(self, token: int) -> None:
        """Count one generated token."""
        self.seen.add(token)
        self.counts[token] += 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """What survives the transforms: token ids in increasing order and their weights.

    The most probable candidate has weight 1; a probability is weight / sum of weights, where the
    sum runs in the order of the ids.
    """

    ids: Ids
    weights: Floats


def exp(x: Floats) -> Floats:
    """e**x for x <= 0, the same bits everywhere; 0 below -700 (float64 in, float64 out)."""
    x = np.asarray(x, dtype=np.float64)
    tiny = x < EXP_FLOOR
    clipped = np.where(tiny, 0.0, x)
    n = (clipped * LOG2_E + ROUNDER) - ROUNDER
    high = clipped - n * LN2_HIGH
    low = n * LN2_LOW
    r = high - low
    t = r * r
    p1, p2, p3, p4, p5 = EXP_P
    c = r - t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5))))
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    result: Floats = np.ldexp(y, n.astype(np.int32))
    result[tiny] = 0.0
    return result


def sum_in_order(values: Floats) -> float:
    """The sum from the first to the last element, one addition at a time."""
    return float(np.add.accumulate(values)[-1])


def greedy(logits_V: NDArray[np.floating]) -> int:
    """The token with the highest logit; the lowest id among equals."""
    token = int(np.argmax(logits_V))
    check_finite(float(logits_V[token]))
    return token


def check_finite(highest: float) -> None:
    """Refuse logits whose maximum is not a finite number.

    Raises:
        EngineError: a NaN or +inf among the logits, or every token is forbidden.
    """
    if not np.isfinite(highest):
        raise EngineError(
            "the logits do not define a distribution",
            value=highest,
            allowed="no NaN, no +inf, and at least one finite logit",
            hint="check the model's weights and logit_bias",
        )


def apply_bias_and_penalties(
    logits_V: NDArray[np.floating], params: SamplingParams, history: History
) -> Floats:
    """Logit bias, repetition, presence and frequency penalties; returns float64 [V] (a copy).

    The repetition penalty (Keskar et al. 2019) looks at prompt and generated tokens; the presence
    and frequency penalties (OpenAI's) at generated tokens only.
    Raises:
        EngineError: a biased token is not in the vocabulary.
    """
    logits = np.array(logits_V, dtype=np.float64)
    for token, bias in params.logit_bias.items():
        if token >= logits.shape[0]:
            raise EngineError(
                "logit_bias names a token outside the vocabulary",
                value=token,
                allowed=f"0 to {logits.shape[0] - 1}",
            )
        logits[token] += bias
    if params.repetition_penalty != 1.0 and history.seen:
        ids = np.fromiter(history.seen, dtype=np.int64)
        values, penalty = logits[ids], params.repetition_penalty
        logits[ids] = np.where(values > 0.0, values / penalty, values * penalty)
    if (params.presence_penalty != 0.0 or params.frequency_penalty != 0.0) and history.counts:
        ids = np.fromiter(history.counts.keys(), dtype=np.int64)
        counts = np.fromiter(history.counts.values(), dtype=np.float64)
        logits[ids] = (logits[ids] - counts * params.frequency_penalty) - params.presence_penalty
    return logits


def candidates(
    logits_V: NDArray[np.floating], params: SamplingParams, history: History | None = None
) -> Candidates:
    """The tokens that may be drawn, with their weights; needs temperature > 0."""
    adjusted = apply_bias_and_penalties(logits_V, params, history or History())
    scaled = adjusted / params.temperature
    check_finite(float(np.max(scaled)))
    ids = top_k(scaled, params.top_k)
    kept = scaled[ids]
    weights = exp(kept - kept.max())
    if params.top_p < 1.0:
        inside = top_p(kept, weights, params.top_p)
        ids, weights = ids[inside], weights[inside]
    if params.min_p > 0.0:
        inside = np.flatnonzero(weights >= params.min_p)
        ids, weights = ids[inside], weights[inside]
    return Candidates(ids, weights)


def top_k(logits_V: Floats, k: int) -> Ids:
    """Ids (increasing) of the k highest logits, the lowest ids among equals; 0 keeps all."""
    size = logits_V.shape[0]
    if k == 0 or k >= size:
        return np.arange(size, dtype=np.int64)
    threshold = np.partition(logits_V, size - k)[size - k]
    above = np.flatnonzero(logits_V > threshold)
    equal = np.flatnonzero(logits_V == threshold)[: k - above.shape[0]]
    return np.sort(np.concatenate((above, equal)))


def top_p(logits_N: Floats, weights_N: Floats, p: float) -> Ids:
    """Indices (increasing) of the smallest head of the distribution that holds at least `p`.

    The head is taken in the order (logit descending, index ascending); Holtzman et al. 2019.
    """
    needed = p * sum_in_order(weights_N)
    # A short head usually holds enough; sorting everything is most of the work otherwise.
    for size in (256, logits_N.shape[0]):
        head = top_k(logits_N, size)
        order = head[np.argsort(-logits_N[head], kind="stable")]
        reached = np.add.accumulate(weights_N[order])
        if reached[-1] >= needed:
            break
    count = int(np.searchsorted(reached, needed, side="left")) + 1
    return np.sort(order[:count])


def draw(options: Candidates, number: float) -> int:
    """The candidate at which the running sum of weights first exceeds number * total."""
    reached = np.add.accumulate(options.weights)
    index = int(np.searchsorted(reached, number * float(reached[-1]), side="right"))
    return int(options.ids[min(index, options.ids.shape[0] - 1)])


def choose(
    logits_V: NDArray[np.floating],
    params: SamplingParams,
    *,
    choice: int,
    position: int,
    history: History | None = None,
) -> int:
    """The next token: greedy at temperature 0, else a draw keyed (seed, choice, position).

    Args:
        logits_V: raw logits of the model, [V].
        choice: index of the choice (0 .. n-1).
        position: absolute position that the token will take.
        history: tokens so far; needed when a penalty is set.
    """
    if params.temperature == 0.0:
        if params.shifts_logits:
            logits_V = apply_bias_and_penalties(logits_V, params, history or History())
        return greedy(logits_V)
    options = candidates(logits_V, params, history)
    return draw(options, uniform(params.seed, choice, position))


def raw_logprobs(logits_V: NDArray[np.floating]) -> Floats:
    """log softmax of the raw logits, float64 [V]."""
    logits = np.asarray(logits_V, dtype=np.float64)
    highest = float(logits.max())
    check_finite(highest)
    shifted = logits - highest
    result: Floats = shifted - np.log(sum_in_order(exp(shifted)))
    return result


def token_logprob(logits_V: NDArray[np.floating], token: int, alternatives: int) -> TokenLogprob:
    """The raw log-probability of `token` and the `alternatives` most probable tokens."""
    logprobs = raw_logprobs(logits_V)
    best: Sequence[int] = ()
    if alternatives > 0:
        ids = top_k(logprobs, alternatives)
        best = ids[np.argsort(-logprobs[ids], kind="stable")].tolist()
    return TokenLogprob(
        token=token,
        logprob=float(logprobs[token]),
        top=tuple((other, float(logprobs[other])) for other in best),
    )
