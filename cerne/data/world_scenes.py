"""What a document of the small world is made of before any language: facts, questions and the cast
still free.

Inputs: a `Draw` of one split. Outputs: `Fact`, `Query` and `Block` values over entities; `Scene`
hands out people, things and places so that no two blocks of a document speak of the same ones.
Leaves out: the blocks themselves (`world_stories`, `world_numbers`) and words (`world_wording` and
the languages).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from cerne.data.world_answers import AnswerKind
from cerne.data.world_entities import COUNTABLES, PEOPLE, PLACES, THINGS, Countable, Noun, Person
from cerne.data.world_split import Combination, Draw
from cerne.data.world_wording import Slots

Task = Literal["recall", "tracking", "counting", "comparison", "arithmetic", "negation", "unknown"]
TASKS: tuple[Task, ...] = (
    "recall",
    "tracking",
    "counting",
    "comparison",
    "arithmetic",
    "negation",
    "unknown",
)

# Replies that quote the statement of the query's fact; COUNT adds "so 3" to it.
QUOTE = "quote"
COUNT = "count"

T = TypeVar("T")


class NoCastError(Exception):
    """No free entity forms a combination of the split; the caller starts the document again with
    another draw.
    """


@dataclass(frozen=True)
class Fact:
    """One statement of the text: its form (a key of the languages' statements) and its slots."""

    form: str
    slots: Slots


@dataclass(frozen=True)
class Query:
    """One question with its answer.

    `choices` are the answers that the text makes plausible (for the chance level); `fact` is the
    statement that a quoting reply repeats.
    """

    task: Task
    form: str
    slots: Slots
    reply_form: str
    answer_kind: AnswerKind
    answer: str
    choices: tuple[str, ...]
    combination: Combination
    fact: Fact | None = None


@dataclass(frozen=True)
class Block:
    """Facts in their order, the questions that they answer, and questions that the text leaves
    open.
    """

    facts: list[Fact]
    queries: list[Query]
    unanswered: list[Query]


def unknown(form: str, slots: Slots, choices: tuple[str, ...], combination: Combination) -> Query:
    """A question whose right answer is "I do not know"; `choices` are what the text would tempt one
    to say.
    """
    return Query(
        "unknown", form, slots, "unknown", "unknown", "unknown", (*choices, "unknown"), combination
    )


class Scene:
    """The entities still free in one document."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self._people = draw.some(PEOPLE, len(PEOPLE))
        self._things = draw.some(THINGS, len(THINGS))
        self._places = draw.some(PLACES, len(PLACES))
        self._countables = draw.some(COUNTABLES, len(COUNTABLES))

    def person(self) -> Person:
        if not self._people:
            raise NoCastError("person")
        return self._people.pop()

    def person_where(self, combination: Callable[[Person], Combination]) -> Person:
        """A free person whose combination belongs to the split."""
        return self._take(self._people, combination)

    def thing_where(self, combination: Callable[[Noun], Combination]) -> Noun:
        return self._take(self._things, combination)

    def place_where(self, combination: Callable[[Noun], Combination]) -> Noun:
        return self._take(self._places, combination)

    def countable(self) -> Countable:
        return self._countables.pop()

    def things_where(
        self, count: int, combination: Callable[[tuple[Noun, ...]], Combination]
    ) -> tuple[Noun, ...]:
        """`count` free things whose combination as a whole belongs to the split."""
        if count > len(self._things):
            raise NoCastError("things")
        things = self.draw.until(lambda: tuple(self.draw.some(self._things, count)), combination)
        self._things = [thing for thing in self._things if thing not in things]
        return things

    def movable(self) -> Noun:
        """A free thing that may lie in at least two places of the split."""
        for index, thing in enumerate(self._things):
            if len(self.places_of(thing)) >= 2:
                return self._things.pop(index)
        raise NoCastError("thing")

    def places_of(self, thing: Noun) -> list[Noun]:
        """Every place in which the split lets a thing lie."""
        return [place for place in PLACES if self.draw.allowed(("put", thing.en, place.en))]

    def _take(self, items: list[T], combination: Callable[[T], Combination]) -> T:
        for index, item in enumerate(items):
            key = combination(item)
            if self.draw.allowed(key):
                self.draw.use(key)
                return items.pop(index)
        raise NoCastError(combination)
