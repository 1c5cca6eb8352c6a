"""Conversations as token ids with the mask of what the assistant wrote.

`encode_conversations` renders each conversation (tokenizer/chat.py), keeps it within a row's
length by the stated policy, and counts everything that was left out. A conversation is never cut
inside a message. `to_labels` makes the shifted labels that the loss takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cerne.data.conversations import (
    Conversation,
    TooLong,
    display_source,
    first_question,
)
from cerne.errors import DataError, TokenizerError
from cerne.progress import Progress
from cerne.tokenizer.chat import ChatTokenizer, render

IGNORE = -100


@dataclass(frozen=True, slots=True)
class EncodedConversation:
    """One conversation.

    Attributes:
        ids_T: token ids, uint32.
        mask_T: bool, True where the assistant wrote the token.
    """

    ids_T: NDArray[np.uint32]
    mask_T: NDArray[np.bool_]

    @property
    def num_supervised(self) -> int:
        """Tokens that are trained on: the masked ones, but for one at position 0."""
        return int(self.mask_T[1:].sum())


@dataclass
class EncodeReport:
    """What encoding kept, shortened and left out."""

    conversations: int = 0
    tokens: int = 0
    supervised_tokens: int = 0
    shortened: int = 0
    dropped_turns: int = 0
    skipped_too_long: int = 0
    skipped_without_answer: int = 0
    examples: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)

    def line(self) -> str:
        """One line for people."""
        share = self.supervised_tokens / self.tokens if self.tokens else 0.0
        text = (
            f"{self.conversations} conversations, {self.tokens} tokens,"
            f" {self.supervised_tokens} of them trained ({share:.0%})"
        )
        for count, what in (
            (self.shortened, "shortened"),
            (self.skipped_too_long, "skipped as too long"),
            (self.skipped_without_answer, "skipped without an answer"),
        ):
            if count:
                text += f"; {count} {what}"
        return text


def encode_conversations(
    conversations: Iterable[Conversation],
    tokenizer: ChatTokenizer,
    max_tokens: int,
    too_long: TooLong = "drop-turns",
    total: int | None = None,
    allow_none: bool = False,
) -> tuple[list[EncodedConversation], EncodeReport]:
    """Render and encode.

    Args:
        max_tokens: the longest result, in tokens.
        too_long: what happens to longer ones (see ConversationConfig).
        total: for the progress bar.
        allow_none: return an empty list when nothing is left.
    Raises:
        TokenizerError: a template that fails, or that never ends the assistant's turn.
        DataError: nothing is left.
    """
    report, encoded = EncodeReport(), []
    with Progress("encode conversations", total, "conversations") as bar:
        for conversation in conversations:
            example = _fit(conversation, tokenizer, max_tokens, too_long, report)
            bar.advance()
            if example is None:
                continue
            encoded.append(example)
            report.conversations += 1
            report.tokens += len(example.ids_T)
            report.supervised_tokens += example.num_supervised
    if not encoded and not allow_none:
        raise DataError(
            "no conversation is left to train on",
            value=report.to_json(),
            hint=f"raise train.seq_len above {max_tokens}, or use shorter conversations",
        )
    return encoded, report


def encode_conversation(
    conversation: Conversation, tokenizer: ChatTokenizer
) -> EncodedConversation:
    """Render and encode one conversation whole.

    Raises:
        TokenizerError: the template never ends the assistant's turn: a model trained on it
            would never stop.
    """
    rendered = render(conversation.as_dicts(), tokenizer)
    if not rendered.closed:
        raise TokenizerError(
            "the chat template writes no end-of-turn token after the assistant's answer, so a"
            " model trained with it would never stop",
            value=rendered.text[-60:],
            hint="end the assistant's message with a special token in chat_template",
        )
    return EncodedConversation(
        np.asarray(rendered.ids, np.uint32), np.asarray(rendered.mask, np.bool_)
    )


def to_labels(ids_T: NDArray[np.uint32], mask_T: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Labels already shifted: position t holds the id of t + 1 where the assistant wrote it."""
    labels_T = np.full(len(ids_T), IGNORE, np.int64)
    labels_T[:-1] = np.where(mask_T[1:], ids_T[1:].astype(np.int64), IGNORE)
    return labels_T


def is_held_out(conversation: Conversation, fraction: float) -> bool:
    """Whether the first question's hash falls into the held-out share."""
    digest = blake2b(first_question(conversation).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little") < fraction * 2.0**64


def _fit(
    conversation: Conversation,
    tokenizer: ChatTokenizer,
    max_tokens: int,
    too_long: TooLong,
    report: EncodeReport,
) -> EncodedConversation | None:
    shorter: Conversation | None = conversation
    dropped = 0
    while shorter is not None:
        example = encode_conversation(shorter, tokenizer)
        if example.num_supervised == 0:
            report.skipped_without_answer += 1
            return None
        if len(example.ids_T) <= max_tokens:
            report.dropped_turns += dropped
            report.shortened += dropped > 0
            return example
        shorter = shorter.without_last_turn() if too_long == "drop-turns" else None
        dropped += 1
    report.skipped_too_long += 1
    if len(report.examples) < 5:
        report.examples.append(f"{display_source(conversation)}: longer than {max_tokens} tokens")
    return None
