"""Constrained output: which tokens may come next so that the text fits a schema, regex or grammar.

In: a tokenizer and sampling parameters with `json_schema`, `regex` or `grammar`. Out: a mask over
the logits for each step. The grammar work is llguidance's (an optional package); the rule for ids
that are no text is here: control tokens are never allowed, and what ends an answer is allowed
exactly where the text so far is complete. Leaves out sampling (docs/sampling.md, step 0).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cerne.engine.interface import SamplingParams
from cerne.errors import ConfigError, EngineError, EnvironmentLack
from cerne.tokenizer.bpe import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# A line break with its indentation, or a space: endless white space would never end an answer.
JSON_OPTIONS = {"whitespace_flexible": False, "whitespace_pattern": r"( |\n {0,32})?"}
# Marks ids that are no text for llguidance; no UTF-8 text holds this byte.
NO_TEXT = b"\xff"


class Constraints:
    """Compiles the constraints of requests for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._table: LLTokenizer | None = None

    def compile(self, params: SamplingParams) -> Constraint | None:
        """The constraint of a request; None where it has none.

        Raises:
            ConfigError: the schema, regex or grammar cannot be used, and why.
            EnvironmentLack: the package llguidance is missing.
        """
        kind = params.constraint
        if kind is None:
            return None
        text = getattr(params, kind)
        package = _llguidance()
        if self._table is None:
            self._table = package.LLTokenizer(package.TokenizerWrapper(_Words(self._tokenizer)))
        matcher = package.LLMatcher
        try:
            if kind == "json_schema":
                made = matcher.grammar_from_json_schema(json.dumps(text), overrides=JSON_OPTIONS)
            elif kind == "regex":
                made = matcher.grammar_from_regex(text)
            else:
                made = matcher.grammar_from_lark(text)
        except ValueError as error:
            raise _unusable(kind, text, str(error)) from None
        first = matcher(self._table, made, log_level=0)
        if first.is_error():
            raise _unusable(kind, text, first.get_error())
        return Constraint(first, self._tokenizer.vocab_size)


class Constraint:
    """A compiled constraint; `start` gives a state to each answer."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher, self._vocab_size = matcher, vocab_size

    def start(self, stop_ids: Collection[int]) -> ConstraintState:
        """The state before the first token; `stop_ids` are the tokens that end the answer."""
        return ConstraintState(self._matcher.deep_copy(), self._vocab_size, stop_ids)


class ConstraintState:
    """Where one answer is in its grammar."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, stop_ids: Collection[int]) -> None:
        self._matcher, self._vocab_size = matcher, vocab_size
        self._stop_ids = sorted(stop_ids)

    @property
    def complete(self) -> bool:
        """Whether the text fits and nothing can follow it."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def masked(self, logits_V: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits with -inf at every token that may not come next, float32 [V] (a copy).

        Raises:
            EngineError: no token may come next, or the grammar is too complex at this place.
        """
        bits = self._matcher.compute_bitmask()
        self._check()
        known = min(self._vocab_size, logits_V.shape[0])
        allowed_V = np.zeros(logits_V.shape[0], dtype=bool)
        words = np.frombuffer(bits, dtype=np.uint8)
        allowed_V[:known] = np.unpackbits(words, bitorder="little", count=known)
        stops = [token for token in self._stop_ids if token < logits_V.shape[0]]
        allowed_V[stops] = self._matcher.is_accepting()
        if not allowed_V.any():
            raise EngineError(
                "no token can follow the text under its constraint",
                value="0 tokens allowed",
                hint="a grammar cannot ask for control tokens; without ignore_eos answers can end",
            )
        return np.where(allowed_V, logits_V, np.float32(-np.inf))

    def accept(self, token: int) -> None:
        """Go on by a token that `masked` allowed and that does not end the answer."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise EngineError(
                f"the constraint cannot be followed: {_first_line(self._matcher.get_error())}"
            )


class _Words:
    """A tokenizer as llguidance wants it: the bytes of each id, and one end token behind them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        size = tokenizer.vocab_size
        texts = [tokenizer.token_bytes(token) for token in range(size)]
        names = [NO_TEXT + f"<{token}>".encode() for token in range(size + 1)]
        self.tokens = [
            text if text and not text.startswith(NO_TEXT) else name
            for text, name in zip([*texts, b""], names, strict=True)
        ]
        self.special_token_ids = [i for i, name in enumerate(names) if self.tokens[i] == name]
        self.eos_token_id, self.bos_token_id = size, None

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode(text)


def _llguidance() -> Any:
    try:
        import llguidance
    except ImportError:
        raise EnvironmentLack(
            "constrained output needs the package llguidance",
            hint="pip install 'llguidance>=1.9,<2'",
        ) from None
    return llguidance


def _unusable(kind: str, text: object, reason: str) -> ConfigError:
    return ConfigError(f"{kind} cannot be used: {_first_line(reason)}", value=text)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"
