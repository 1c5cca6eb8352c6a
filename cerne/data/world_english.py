"""English wordings of the small world: statements, questions (train and held out) and replies.

Slots: p, q people; t thing; c its colour; l place; d day; f food; r relation; n, m numbers; u
things to count; cause, effect phrases; list and count for a row of things; task, work and
result for sums; x, lo and hi people whose numbers are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cerne.data.world_entities import Colour, Countable, Noun, Person, Phrase, Relation
from cerne.data.world_wording import Language, Slots, Wordings


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _noun(key: str, noun: Noun) -> dict[str, str]:
    return {
        key: noun.en,
        f"{key}_a": _a(noun.en),
        f"{key}_the": f"the {noun.en}",
        f"{key}_in": f"{noun.preposition_en} the {noun.en}",
        f"{key}_to": f"to the {noun.en}",
    }


@lru_cache(maxsize=4096)
def _entity(key: str, value: object) -> dict[str, str]:
    if isinstance(value, Person):
        he, his = ("she", "her") if value.gender == "f" else ("he", "his")
        return {
            key: value.name,
            f"{key}_pos": f"{value.name}'s",
            f"{key}_he": he,
            f"{key}_his": his,
        }
    if isinstance(value, Noun):
        return _noun(key, value)
    if isinstance(value, Colour):
        return {key: value.en, f"{key}_a": _a(value.en)}
    if isinstance(value, Relation):
        return {key: value.en, f"{key}_a": _a(value.en)}
    if isinstance(value, Phrase):
        return {key: value.en, f"{key}_base": value.en_base}
    if isinstance(value, Countable):
        return {key: value.en}
    return {key: str(value)}


def row(things: Sequence[Noun]) -> str:
    """ "a ball, a cup and a pen"."""
    names = [_a(thing.en) for thing in things]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def forms(slots: Slots) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in slots.items():
        if isinstance(value, tuple):
            out[key] = row(value)
        else:
            out.update(_entity(key, value))
    if "c" in slots and "t" in slots:
        out["t_ac"] = f"{out['c_a']} {out['t']}"
        out["t_thec"] = f"the {out['c']} {out['t']}"
    return out


# What a reply may quote puts the answer last among its kind: "Ana has an aunt called Clara."
STATEMENTS: dict[str, tuple[str, ...]] = {
    "owns": (
        "{p} has {t_ac}.",
        "{p_pos} {t} is {c}.",
        "{p} owns {t_ac}.",
        "{p} got {t_ac}.",
        "{p} bought {t_ac}.",
        "{p} keeps {t_ac}.",
    ),
    "went": (
        "{p} went {l_to} on {d}.",
        "{p} was {l_in} on {d}.",
        "{p} walked {l_to} on {d}.",
        "{p} spent {d} {l_in}.",
    ),
    "family": (
        "{q} has {r_a} called {p}.",
        "{q_pos} {r} is {p}.",
        "{q_pos} {r} is called {p}.",
        "{q} has {r_a}, {p}.",
    ),
    "cause": (
        "{p} {effect} because {cause}.",
        "{p} {effect} as {cause}.",
        "{p} {effect} since {cause}.",
    ),
    "was_at": ("{t_the} was {l_in}.", "at first {t_the} was {l_in}.", "{p} left {t_the} {l_in}."),
    "put": (
        "{p} put {t_the} {l_in}.",
        "{p} took {t_the} {l_to}.",
        "{p} moved {t_the} {l_to}.",
        "{p} carried {t_the} {l_to}.",
        "then {p} took {t_the} {l_to}.",
        "later {p} put {t_the} {l_in}.",
    ),
    "bag": (
        "{p} has {list}.",
        "{p} packed {list}.",
        "{p} bought {list}.",
        "{p} carries {list}.",
    ),
    "counted": ("{p} has {n} {u}.", "{p} found {n} {u}.", "{p} counted {n} {u}."),
    "age": ("{p} is {n} years old.", "{p} is {n}.", "{p} turned {n}."),
    "likes": ("{p} likes {f}.", "{p} enjoys {f}.", "{p} loves {f}."),
    "dislikes": ("{p} does not like {f}.", "{p} does not enjoy {f}.", "{p} never liked {f}."),
    "gave": (
        "{q} gave {p_his} {m} more.",
        "{p} got {m} more from {q}.",
        "then {p} found {m} more.",
    ),
    "lost": ("{p} gave {m} to {q}.", "{p} lost {m}.", "then {q} took {m} of them."),
}

QUESTIONS: dict[str, Wordings] = {
    "colour": Wordings(
        train=(
            "what colour is {p_pos} {t}?",
            "which colour is the {t} of {p}?",
            "what is the colour of {p_pos} {t}?",
            "tell me the colour of {p_pos} {t}.",
            "{p} has {t_a}. What colour is it?",
        ),
        heldout=("tell me what colour {p_pos} {t} is.", "which colour is {p_pos} {t}?"),
    ),
    "owner": Wordings(
        train=(
            "who has the {t}?",
            "who owns the {t}?",
            "to whom does the {t} belong?",
            "whose {t} is it?",
            "tell me who has the {t}.",
        ),
        heldout=("tell me who owns the {t}.", "whose is the {t}?"),
    ),
    "went_where": Wordings(
        train=(
            "where did {p} go on {d}?",
            "where was {p} on {d}?",
            "on {d}, where did {p} go?",
            "which place did {p} visit on {d}?",
            "tell me where {p} was on {d}.",
        ),
        heldout=("tell me where {p} went on {d}.", "on {d}, where was {p}?"),
    ),
    "went_when": Wordings(
        train=(
            "when did {p} go {l_to}?",
            "on which day did {p} go {l_to}?",
            "when was {p} {l_in}?",
            "tell me when {p} went {l_to}.",
            "on which day was {p} {l_in}?",
        ),
        heldout=("tell me on which day {p} went {l_to}.", "which day did {p} go {l_to}?"),
    ),
    "relative": Wordings(
        train=(
            "who is {q_pos} {r}?",
            "who is the {r} of {q}?",
            "what is the name of {q_pos} {r}?",
            "tell me who {q_pos} {r} is.",
        ),
        heldout=("tell me the name of {q_pos} {r}.", "what is {q_pos} {r} called?"),
    ),
    "why": Wordings(
        train=(
            "why did {p} {effect_base}?",
            "for what reason did {p} {effect_base}?",
            "tell me why {p} {effect}.",
            "{p} {effect}. Why?",
        ),
        heldout=("why was it that {p} {effect}?", "tell me for what reason {p} {effect}."),
    ),
    "where_is": Wordings(
        train=(
            "where is the {t}?",
            "where is the {t} now?",
            "in which place is the {t}?",
            "where did the {t} end up?",
            "tell me where the {t} is.",
        ),
        heldout=("tell me where the {t} is now.", "now, in which place is the {t}?"),
    ),
    "how_many_things": Wordings(
        train=(
            "how many things does {p} have?",
            "what is the number of things of {p}?",
            "count the things of {p}.",
            "tell me how many things {p} has.",
            "what number of things does {p} have?",
        ),
        heldout=(
            "tell me what number of things {p} has.",
            "count {p_pos} things. How many are there?",
        ),
    ),
    "more": Wordings(
        train=(
            "who has more {u}, {p} or {q}?",
            "{p} or {q}: who has more {u}?",
            "between {p} and {q}, who has more {u}?",
            "tell me who has more {u}, {p} or {q}.",
        ),
        heldout=("of {p} and {q}, who has more {u}?", "which one has more {u}, {p} or {q}?"),
    ),
    "fewer": Wordings(
        train=(
            "who has fewer {u}, {p} or {q}?",
            "{p} or {q}: who has fewer {u}?",
            "between {p} and {q}, who has fewer {u}?",
            "tell me who has fewer {u}, {p} or {q}.",
        ),
        heldout=("of {p} and {q}, who has fewer {u}?", "which one has fewer {u}, {p} or {q}?"),
    ),
    "older": Wordings(
        train=(
            "who is older, {p} or {q}?",
            "{p} or {q}: who is older?",
            "between {p} and {q}, who is older?",
            "tell me who is older, {p} or {q}.",
        ),
        heldout=("of {p} and {q}, who is older?", "which one is older, {p} or {q}?"),
    ),
    "younger": Wordings(
        train=(
            "who is younger, {p} or {q}?",
            "{p} or {q}: who is younger?",
            "between {p} and {q}, who is younger?",
            "tell me who is younger, {p} or {q}.",
        ),
        heldout=("of {p} and {q}, who is younger?", "which one is younger, {p} or {q}?"),
    ),
    "sum": Wordings(
        train=(
            "what is {n} + {m}?",
            "how much is {n} + {m}?",
            "add {n} and {m}.",
            "tell me the sum of {n} and {m}.",
        ),
        heldout=("what is the sum of {n} and {m}?", "tell me how much {n} + {m} is."),
    ),
    "difference": Wordings(
        train=(
            "what is {n} - {m}?",
            "how much is {n} - {m}?",
            "take {m} from {n}.",
            "tell me the difference of {n} and {m}.",
        ),
        heldout=("what is the difference of {n} and {m}?", "tell me how much {n} - {m} is."),
    ),
    "how_many_now": Wordings(
        train=(
            "how many {u} does {p} have now?",
            "how many {u} has {p} now?",
            "tell me how many {u} {p} has now.",
            "now, how many {u} does {p} have?",
        ),
        heldout=(
            "what number of {u} does {p} have now?",
            "tell me, how many {u} does {p} have now?",
        ),
    ),
    "does_like": Wordings(
        train=(
            "does {p} like {f}?",
            "is it true that {p} likes {f}?",
            "does {p} enjoy {f}?",
            "tell me if {p} likes {f}.",
        ),
        heldout=("tell me, does {p} like {f}?", "is it true that {p} enjoys {f}?"),
    ),
    "does_not_like": Wordings(
        train=(
            "is it true that {p} does not like {f}?",
            "{p} does not like {f}. Is that true?",
            "is it right that {p} does not like {f}?",
            "is it so that {p} does not like {f}?",
        ),
        heldout=(
            "is it true that {p} does not enjoy {f}?",
            "{p} does not like {f}. Is that right?",
        ),
    ),
}

# Other replies quote the statement that answers them (`QUOTE` and `COUNT` of `world_scenes`).
REPLIES: dict[str, tuple[str, ...]] = {
    "count": ("so {count}.",),
    "where_is": ("the {t} is {l_in}.",),
    "more": ("here {p} has {n} and {q} has {m}: {work}, {lo}<{hi}, so the one with more is {x}.",),
    "fewer": (
        "here {p} has {n} and {q} has {m}: {work}, {lo}<{hi}, so the one with fewer is {x}.",
    ),
    "older": ("here {p} is {n} and {q} is {m}: {work}, {lo}<{hi}, so the older one is {x}.",),
    "younger": ("here {p} is {n} and {q} is {m}: {work}, {lo}<{hi}, so the younger one is {x}.",),
    "sum": ("{task}: {work}, so {result}.",),
    "yes": ("the text says that {p} likes {f}, so yes.",),
    "no": ("the text says that {p} likes {f}, so no.",),
    "not_yes": ("the text says that {p} does not like {f}, so yes.",),
    "not_no": ("the text says that {p} does not like {f}, so no.",),
    "unknown": ("I do not know.",),
}

ENGLISH = Language(
    name="en",
    forms=forms,
    statements=STATEMENTS,
    questions=QUESTIONS,
    replies=REPLIES,
    leads=("A story:", "Listen:", "This is known:", "It was like this:", "Some facts:"),
    again="Again:",
    quote="It says:",
)
