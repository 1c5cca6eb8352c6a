"""Drills of the small world: groups of words said again in another order, and sums and
comparisons of digits.

A group such as "ball red garden" means nothing; saying it again is only possible by looking back,
which is the first thing a model has to learn before it can answer questions about a text. Groups
are drawn from all the world's words, and no two words of a group form a held-out combination.
"""

from __future__ import annotations

from collections.abc import Sequence

from cerne.data.world_entities import COLOURS, DAYS, FOODS, PEOPLE, PLACES, THINGS
from cerne.data.world_numbers import compared
from cerne.data.world_split import Combination, Draw
from cerne.data.world_wording import LanguageName

Word = tuple[str, str]  # kind and English key
_KINDS: dict[str, tuple[str, ...]] = {
    "person": tuple(person.name for person in PEOPLE),
    "thing": tuple(thing.en for thing in THINGS),
    "place": tuple(place.en for place in PLACES),
    "food": tuple(food.en for food in FOODS),
    "colour": tuple(colour.en for colour in COLOURS),
    "day": tuple(day.en for day in DAYS),
    "number": tuple(str(number) for number in range(10, 100)),
}
# Which relation of the world a pair of kinds could be mistaken for.
_RELATIONS = {
    ("person", "thing"): "owns",
    ("person", "place"): "went",
    ("person", "food"): "likes",
    ("thing", "place"): "put",
}
_PORTUGUESE: dict[Word, str] = {
    **{("thing", noun.en): noun.pt for noun in THINGS},
    **{("place", noun.en): noun.pt for noun in PLACES},
    **{("food", noun.en): noun.pt for noun in FOODS},
    **{("colour", colour.en): colour.pt_m for colour in COLOURS},
    **{("day", day.en): day.pt for day in DAYS},
}
_FEMININE = {("thing", thing.en) for thing in THINGS if thing.gender == "f"}
_COLOURS_F = {colour.en: colour.pt_f for colour in COLOURS}
_HEADS: dict[LanguageName, tuple[str, str, str]] = {
    "en": ("Words", "Again", "Backwards"),
    "pt": ("Palavras", "De novo", "De trás para a frente"),
}


def drill_text(draw: Draw, language: LanguageName) -> str:
    """A word drill or, two times in three, sums and comparisons of digits."""
    return _sums(draw) if draw.chance(2 / 3) else _words(draw, language)


def _sums(draw: Draw) -> str:
    """Sums, differences and comparisons as they occur column by column in larger ones."""
    parts: list[str] = []
    while len(parts) < 12:
        n, m = draw.between(0, 9), draw.between(0, 9)
        kind = draw.pick(("add", "subtract", "compare"))
        if kind == "add":
            if draw.allowed(("add", *sorted((str(n), str(m))))):
                parts.append(f"{n}+{m}={n + m}")
        elif kind == "subtract":
            first = n + 10 * (n < m)
            if draw.allowed(("subtract", str(first), str(m))):
                parts.append(f"{first}-{m}={first - m}")
        elif draw.allowed(("compare", *sorted((str(n), str(m))))):
            parts.append(compared(n, m))
    return ", ".join(parts) + "."


def _words(draw: Draw, language: LanguageName) -> str:
    """Groups of two to four words, told, told again in another order, and told backwards."""
    groups = [_group(draw) for _ in range(draw.between(4, 7))]
    names = [_say(group, language) for group in groups]
    head, again, backwards = _HEADS[language]
    lines = [_line(head, names)]
    draw.rng.shuffle(names)
    lines.append(_line(again, names))
    draw.rng.shuffle(names)
    lines.append(_line(backwards, [name[::-1] for name in names]))
    return "\n".join(lines)


def _line(head: str, groups: Sequence[Sequence[str]]) -> str:
    return f"{head}: " + "; ".join(" ".join(group) for group in groups) + "."


def _say(group: Sequence[Word], language: LanguageName) -> list[str]:
    """The words in a language; Portuguese colours agree with the group's thing."""
    if language == "en":
        return [key for _, key in group]
    feminine = any(word in _FEMININE for word in group)
    return [
        _COLOURS_F[key] if kind == "colour" and feminine else _PORTUGUESE.get((kind, key), key)
        for kind, key in group
    ]


def _group(draw: Draw) -> list[Word]:
    """Two to four words of different kinds."""
    while True:
        kinds = draw.some(tuple(_KINDS), draw.between(2, 4))
        group = [(kind, draw.pick(_KINDS[kind])) for kind in kinds]
        if all(draw.allowed(key) for key in _combinations(group)):
            return group


def _combinations(group: Sequence[Word]) -> list[Combination]:
    """What pairs of the group would be if the text stated them, in either order."""
    return [
        (_RELATIONS[a[0], b[0]], a[1], b[1])
        for a in group
        for b in group
        if (a[0], b[0]) in _RELATIONS
    ]
