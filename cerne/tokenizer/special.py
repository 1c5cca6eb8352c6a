"""Tokens that merging does not make: control tokens, which no text can become, and the plain added
tokens of other people's tokenizers, which text does become.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from cerne.errors import TokenizerError

PAD = "<|pad|>"
END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|end|>"
DEFAULT_SPECIALS = (
    PAD,
    END_OF_TEXT,
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    END_OF_TURN,
)
# How known models name the token that ends a turn; a model has at most one of them.
END_OF_TURN_NAMES = (END_OF_TURN, "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|eot|>")


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token beside the merges.

    Attributes:
        id: its token id.
        content: its text.
        special: a control token: encoding text never yields it.
        normalized: a plain token is looked for in the normalised text, else in the raw text.
    """

    id: int
    content: str
    special: bool
    normalized: bool = False


@dataclasses.dataclass(frozen=True)
class Roles:
    """Which control token has which task, by content; None: the tokenizer has none.

    Attributes:
        add_bos: a text for the model begins with `bos`.
        add_eos: a text for the model ends with `eos`.
    """

    pad: str | None = None
    eos: str | None = None
    bos: str | None = None
    end_of_turn: str | None = None
    add_bos: bool = False
    add_eos: bool = False

    def with_affixes(self, before: str | None, after: str | None) -> Roles:
        """The same with what a post-processor puts before and after a text."""
        return dataclasses.replace(
            self,
            bos=self.bos if before is None else before,
            eos=self.eos if after is None else after,
            add_bos=before is not None,
            add_eos=after is not None,
        )


def default_roles(specials: Iterable[str]) -> Roles:
    """The roles that well-known names have, as far as they are there."""
    there = set(specials)

    def known(name: str) -> str | None:
        return name if name in there else None

    end_of_turn = next((name for name in END_OF_TURN_NAMES if name in there), None)
    return Roles(pad=known(PAD), eos=known(END_OF_TEXT), end_of_turn=end_of_turn)


def check_specials(specials: Sequence[str]) -> None:
    """Refuses control tokens that would make a tokenizer ambiguous.

    Raises:
        TokenizerError: one is empty or occurs twice.
    """
    if not all(isinstance(name, str) and name for name in specials):
        raise TokenizerError("a special token is empty", value=list(specials))
    for name in specials:
        if specials.count(name) > 1:
            raise TokenizerError("a special token occurs twice", value=name)
