"""Blocks about people, things and places: owners, visits, relatives, causes and moved objects.

Each function adds one block to a scene: facts that hold, questions that they answer (recall,
tracking) and questions about something of the same sort that the text does not mention (unknown).
"""

from __future__ import annotations

from cerne.data.world_entities import (
    CAUSES,
    COLOURS,
    DAYS,
    EFFECTS,
    RELATIONS,
    Noun,
    Person,
)
from cerne.data.world_scenes import QUOTE, Block, Fact, NoCastError, Query, Scene, unknown
from cerne.data.world_wording import Slots


def owners(scene: Scene, count: int) -> Block:
    """`count` people who each own one thing of a colour."""
    draw = scene.draw
    colours = draw.some(COLOURS, count + 1)
    people: list[Person] = []
    things: list[Noun] = []
    for _ in range(count + 1):
        person = scene.person()
        people.append(person)
        things.append(scene.thing_where(lambda thing, name=person.name: ("owns", name, thing.en)))  # type: ignore[misc]
    facts: list[Fact] = []
    queries: list[Query] = []
    names = tuple(person.name for person in people[:count])
    colour_names = tuple(colour.en for colour in colours[:count])
    for person, thing, colour in zip(people[:count], things, colours, strict=False):
        slots: Slots = {"p": person, "t": thing, "c": colour}
        key = ("owns", person.name, thing.en)
        fact = Fact("owns", slots)
        facts.append(fact)
        queries.append(
            Query("recall", "colour", slots, QUOTE, "colour", colour.en, colour_names, key, fact)
        )
        queries.append(
            Query("recall", "owner", slots, QUOTE, "person", person.name, names, key, fact)
        )
    absent: Slots = {"p": people[-1], "t": things[-1], "c": colours[-1]}
    key = ("owns", people[-1].name, things[-1].en)
    unanswered = [
        unknown("colour", absent, colour_names, key),
        unknown("owner", absent, names, key),
    ]
    known = draw.pick(people[:count])
    key = ("owns", known.name, things[-1].en)
    if draw.allowed(key):
        unanswered.append(unknown("colour", {**absent, "p": known}, colour_names, draw.use(key)))
    return Block(facts, queries, unanswered)


def visits(scene: Scene, count: int) -> Block:
    """`count` people who each went to one place on one day."""
    days = scene.draw.some(DAYS, count + 1)
    people: list[Person] = []
    places: list[Noun] = []
    for _ in range(count + 1):
        person = scene.person()
        people.append(person)
        places.append(scene.place_where(lambda place, name=person.name: ("went", name, place.en)))  # type: ignore[misc]
    facts: list[Fact] = []
    queries: list[Query] = []
    place_names = tuple(place.en for place in places[:count])
    day_names = tuple(day.en for day in days[:count])
    for person, place, day in zip(people[:count], places, days, strict=False):
        slots: Slots = {"p": person, "l": place, "d": day}
        key = ("went", person.name, place.en)
        fact = Fact("went", slots)
        facts.append(fact)
        queries.append(
            Query("recall", "went_where", slots, QUOTE, "place", place.en, place_names, key, fact)
        )
        queries.append(
            Query("recall", "went_when", slots, QUOTE, "day", day.en, day_names, key, fact)
        )
    absent: Slots = {"p": people[-1], "l": places[-1], "d": days[-1]}
    key = ("went", people[-1].name, places[-1].en)
    unanswered = [
        unknown("went_where", absent, place_names, key),
        unknown("went_when", absent, day_names, key),
    ]
    return Block(facts, queries, unanswered)


def relatives(scene: Scene, count: int) -> Block:
    """`count` pairs of relatives."""
    facts: list[Fact] = []
    queries: list[Query] = []
    pairs: list[tuple[Person, Person]] = []
    for _ in range(count + 1):
        first = scene.person()
        second = scene.person_where(lambda other, name=first.name: _family(name, other.name))  # type: ignore[misc]
        pairs.append((first, second))
    names = tuple(person.name for person, _ in pairs[:count])
    asked: list[Query] = []
    for person, other in pairs:
        relation = scene.draw.pick([r for r in RELATIONS if r.gender == person.gender])
        slots: Slots = {"p": person, "q": other, "r": relation}
        key = _family(person.name, other.name)
        fact = Fact("family", slots)
        facts.append(fact)
        queries.append(
            Query("recall", "relative", slots, QUOTE, "person", person.name, names, key, fact)
        )
        asked.append(unknown("relative", slots, names, key))
    return Block(facts[:count], queries[:count], asked[count:])


def _family(first: str, second: str) -> tuple[str, ...]:
    return ("family", *sorted((first, second)))


def causes(scene: Scene, count: int) -> Block:
    """`count` people who each did something for a reason."""
    draw = scene.draw
    facts: list[Fact] = []
    queries: list[Query] = []
    chosen = draw.some(CAUSES, count)
    effects = draw.some(EFFECTS, len(EFFECTS))
    choices = tuple(cause.en for cause in chosen)
    for cause in chosen:
        fitting = [effect for effect in effects if draw.allowed(("cause", cause.en, effect.en))]
        if not fitting:
            raise NoCastError(cause)
        effect = fitting[0]
        effects.remove(effect)
        key = draw.use(("cause", cause.en, effect.en))
        slots: Slots = {"p": scene.person(), "cause": cause, "effect": effect}
        fact = Fact("cause", slots)
        facts.append(fact)
        queries.append(Query("recall", "why", slots, QUOTE, "cause", cause.en, choices, key, fact))
    effect = effects[0]
    person = scene.person_where(lambda someone: ("did", someone.name, effect.en))
    absent: Slots = {"p": person, "effect": effect}
    return Block(facts, queries, [unknown("why", absent, choices, ("did", person.name, effect.en))])


def moves(scene: Scene, things: int, count: int) -> Block:
    """Things that lie somewhere and are then carried about `count` times; each question asks where
    one ended up.
    """
    draw = scene.draw
    facts: list[Fact] = []
    where: dict[Noun, Noun] = {}
    movable = [scene.movable() for _ in range(things + 1)]
    people = [scene.person() for _ in range(2)]
    for step in range(things + count):
        thing = movable[step] if step < things else draw.pick(movable[:things])
        place = draw.pick(
            [place for place in scene.places_of(thing) if place is not where.get(thing)]
        )
        draw.use(("put", thing.en, place.en))
        where[thing] = place
        facts.append(
            Fact(
                "was_at" if step < things else "put",
                {"p": draw.pick(people), "t": thing, "l": place},
            )
        )
    choices = tuple(
        sorted({spot.en for fact in facts if isinstance(spot := fact.slots["l"], Noun)})
    )
    queries = [_where(thing, last, choices) for thing, last in where.items()]
    absent = movable[-1]
    key = draw.use(("put", absent.en, scene.places_of(absent)[0].en))
    return Block(facts, queries, [unknown("where_is", {"t": absent}, choices, key)])


def _where(thing: Noun, place: Noun, choices: tuple[str, ...]) -> Query:
    key = ("put", thing.en, place.en)
    return Query(
        "tracking",
        "where_is",
        {"t": thing, "l": place},
        "where_is",
        "place",
        place.en,
        choices,
        key,
    )
