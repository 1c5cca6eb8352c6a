"""How a language puts facts, questions and replies into words: the shape that English and
Portuguese fill in.

A wording is a `str.format` template over slots such as {p} (a person), {t_the} ("the ball") or
{l_in} ("in the park"). Question wordings are partitioned: `train` ones never occur in held-out
documents and the other way round. Leaves out: the sentences themselves (`world_english`,
`world_portuguese`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cerne.data.world_split import Draw, Split

LanguageName = Literal["en", "pt"]
Slots = Mapping[str, object]


@dataclass(frozen=True)
class Wordings:
    """The question wordings of one question form, by split."""

    train: tuple[str, ...]
    heldout: tuple[str, ...]

    def of(self, split: Split) -> tuple[str, ...]:
        return self.train if split == "train" else self.heldout


@dataclass(frozen=True)
class Language:
    """One language: templates and `forms`, which turns slots of entities into the strings that
    templates name.

    `leads` open a text, `again` its second telling, and `quote` a reply that repeats a sentence of
    it; a name after them is the same token as in the middle of the text.
    """

    name: LanguageName
    forms: Callable[[Slots], dict[str, str]]
    statements: Mapping[str, tuple[str, ...]]
    questions: Mapping[str, Wordings]
    replies: Mapping[str, tuple[str, ...]]
    leads: tuple[str, ...]
    again: str
    quote: str

    def say(self, template: str, slots: Slots) -> str:
        """Fills one template and starts it with a capital letter."""
        text = template.format_map(self.forms(slots))
        return text[:1].upper() + text[1:]

    def state(self, draw: Draw, form: str, slots: Slots) -> str:
        """A statement of the text, in one of its wordings."""
        return self.say(draw.pick(self.statements[form]), slots)

    def ask(self, draw: Draw, form: str, slots: Slots) -> tuple[str, str]:
        """A question in a wording of the draw's split, with the wording's name
        ("en/colour/heldout/1").
        """
        wordings = self.questions[form].of(draw.split)
        number = draw.between(0, len(wordings) - 1)
        return self.say(wordings[number], slots), f"{self.name}/{form}/{draw.split}/{number}"

    def reply(self, draw: Draw, form: str, slots: Slots) -> str:
        return self.say(draw.pick(self.replies[form]), slots)

    def fill(self, form: str, slots: Slots) -> str:
        """The first reply of a form, not capitalised: the end of a longer sentence."""
        return self.replies[form][0].format_map(self.forms(slots))
