"""Blocks about numbers and polarity: bags of things, pairs of counts, sums, and what people like or
do not like.

Each function adds one block to a scene. Replies to sums carry their working digit by digit, since
the final answer is what `final_answer` looks at.
"""

from __future__ import annotations

from cerne.data.world_answers import AnswerKind
from cerne.data.world_entities import FOODS, Noun, Person
from cerne.data.world_scenes import COUNT, Block, Fact, Query, Scene, Task, unknown
from cerne.data.world_split import Combination, Draw
from cerne.data.world_wording import Slots

MAX_COUNTED = 5
MAX_NUMBER = 99


def bags(scene: Scene, count: int) -> Block:
    """`count` people who each carry one to five things; the question is how many."""
    facts: list[Fact] = []
    queries: list[Query] = []
    choices = tuple(str(number) for number in range(1, MAX_COUNTED + 1))
    for _ in range(count):
        things = scene.things_where(scene.draw.between(1, MAX_COUNTED), _bag)
        slots: Slots = {"p": scene.person(), "list": things, "count": len(things)}
        fact = Fact("bag", slots)
        facts.append(fact)
        number = str(len(things))
        query = Query(
            "counting",
            "how_many_things",
            slots,
            COUNT,
            "number",
            number,
            choices,
            _bag(things),
            fact,
        )
        queries.append(query)
    return Block(facts, queries, [])


def _bag(things: tuple[Noun, ...]) -> Combination:
    return ("bag", *sorted(thing.en for thing in things))


def counts(scene: Scene) -> Block:
    """Two people with different counts of one sort of thing, or different ages: who has more, who
    is older.
    """
    draw = scene.draw
    first, second = scene.person(), scene.person()
    ages = draw.chance(0.4)
    n, m = draw.until(lambda: _two_numbers(draw), lambda pair: ("compare", *map(str, sorted(pair))))
    shared: Slots = {
        "p": first,
        "q": second,
        "n": n,
        "m": m,
        "u": scene.countable(),
        "work": ordering(n, m),
    }
    form = "age" if ages else "counted"
    facts = [Fact(form, shared), Fact(form, {**shared, "p": second, "n": m})]
    key = ("compare", *map(str, sorted((n, m))))
    larger, smaller = (first, second) if n > m else (second, first)
    shared = {**shared, "lo": smaller, "hi": larger}
    forms = ("older", "younger") if ages else ("more", "fewer")
    queries = [
        _compare(form, shared, who, key) for form, who in zip(forms, (larger, smaller), strict=True)
    ]
    return Block(facts, queries, [])


def _two_numbers(draw: Draw) -> tuple[int, int]:
    n, m = draw.between(1, MAX_NUMBER), draw.between(1, MAX_NUMBER - 1)
    return n, m + (m >= n)


def _compare(form: str, shared: Slots, who: Person, key: Combination) -> Query:
    names = tuple(
        person.name for person in (shared["p"], shared["q"]) if isinstance(person, Person)
    )
    return Query("comparison", form, {**shared, "x": who}, form, "person", who.name, names, key)


def likes(scene: Scene, count: int) -> Block:
    """`count` people who like one food or do not; questions with and without a negation."""
    draw = scene.draw
    facts: list[Fact] = []
    queries: list[Query] = []
    foods = draw.some(FOODS, count + 1)
    for food in foods[:count]:
        person = scene.person_where(lambda someone, food=food: ("likes", someone.name, food.en))  # type: ignore[misc]
        liked = draw.chance(0.5)
        slots: Slots = {"p": person, "f": food}
        key = ("likes", person.name, food.en)
        facts.append(Fact("likes" if liked else "dislikes", slots))
        queries.append(_polar("does_like", slots, "yes" if liked else "not_no", key))
        queries.append(_polar("does_not_like", slots, "no" if liked else "not_yes", key))
    food = foods[-1]
    person = scene.person_where(lambda someone: ("likes", someone.name, food.en))
    return Block(
        facts,
        queries,
        [
            unknown(
                "does_like",
                {"p": person, "f": food},
                ("yes", "no"),
                ("likes", person.name, food.en),
            )
        ],
    )


def _polar(form: str, slots: Slots, reply: str, key: Combination) -> Query:
    answer = "yes" if reply.endswith("yes") else "no"
    return Query("negation", form, slots, reply, "yes_no", answer, ("yes", "no"), key)


def sums(scene: Scene, count: int) -> Block:
    """`count` sums or differences, numbers and results 0 to 99; perhaps one more as a story."""
    block = Block([], [], [])
    for _ in range(count):
        _add_sum(block, scene, told=False)
    if scene.draw.chance(0.5):
        _add_sum(block, scene, told=True)
    return block


def _add_sum(block: Block, scene: Scene, told: bool) -> None:
    draw = scene.draw
    adding = draw.chance(0.6)

    def combination(pair: tuple[int, int]) -> Combination:
        return ("add", *map(str, sorted(pair))) if adding else _minus(pair)

    n, m = draw.until(lambda: _terms(draw, adding), combination)
    work, result = addition(n, m) if adding else subtraction(n, m)
    task = f"{n}{'+' if adding else '-'}{m}"
    slots: Slots = {"n": n, "m": m, "task": task, "work": work, "result": result}
    form = "sum" if adding else "difference"
    if told:
        slots = {**slots, "p": scene.person(), "q": scene.person(), "u": scene.countable()}
        form = "how_many_now"
        block.facts.extend([Fact("counted", slots), Fact("gave" if adding else "lost", slots)])
    block.queries.append(_sum(form, slots, result, combination((n, m))))


def _minus(pair: tuple[int, int]) -> Combination:
    return ("subtract", str(pair[0]), str(pair[1]))


def _terms(draw: Draw, adding: bool) -> tuple[int, int]:
    first = draw.between(0, MAX_NUMBER)
    second = draw.between(0, MAX_NUMBER - first if adding else first)
    return (second, first) if adding and draw.chance(0.5) else (first, second)


def _sum(form: str, slots: Slots, result: int, key: Combination) -> Query:
    task: Task = "arithmetic"
    kind: AnswerKind = "number"
    return Query(
        task,
        form,
        slots,
        "sum",
        kind,
        str(result),
        tuple(str(number) for number in range(100)),
        key,
    )


def ordering(n: int, m: int) -> str:
    """The working of a comparison: tens, then units if those are equal ("3<7", "7=7, 2>1")."""
    tens, units = compared(n // 10, m // 10), compared(n % 10, m % 10)
    return tens if "=" not in tens else f"{tens}, {units}"


def compared(n: int, m: int) -> str:
    """ "3<7"."""
    return f"{n}{'<' if n < m else '>' if n > m else '='}{m}"


def addition(n: int, m: int) -> tuple[str, int]:
    """The working and the result of n + m: units, tens, then the carry ("7+5=12, 4+3=7, 7+1=8").

    Every step adds two numbers, so all steps are facts of one small table.
    """
    units, tens = n % 10 + m % 10, n // 10 + m // 10
    carry = f", {tens}+1={tens + 1}" if units >= 10 else ""
    return f"{n % 10}+{m % 10}={units}, {n // 10}+{m // 10}={tens}{carry}", n + m


def subtraction(n: int, m: int) -> tuple[str, int]:
    """The working and the result of n - m, perhaps borrowing a ten ("12-5=7, 4-3=1, 1-1=0")."""
    borrow = n % 10 < m % 10
    units, tens = n % 10 + 10 * borrow, n // 10 - m // 10
    payback = f", {tens}-1={tens - 1}" if borrow else ""
    return f"{units}-{m % 10}={units - m % 10}, {n // 10}-{m // 10}={tens}{payback}", n - m
