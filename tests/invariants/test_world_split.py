"""Held-out questions use combinations and wordings that no training document contains."""

from __future__ import annotations

import pytest

from cerne.data.world import SPLITS, TASKS, World
from cerne.data.world_english import ENGLISH
from cerne.data.world_entities import PEOPLE, PLACES, THINGS
from cerne.data.world_portuguese import PORTUGUESE
from cerne.data.world_split import HELD_OUT_PERCENT, split_of


def test_no_combination_and_no_wording_occurs_in_both_splits() -> None:
    combinations: dict[str, set[tuple[str, ...]]] = {split: set() for split in SPLITS}
    wordings: dict[str, set[str]] = {split: set() for split in SPLITS}
    questions: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split in SPLITS:
        for index in range(1500):
            talk = World(index % 3).conversation(index, split)
            combinations[split] |= talk.combinations
            asked = [q.combination for q in talk.questions]
            assert set(asked) <= talk.combinations
            wordings[split] |= {q.wording for q in talk.questions}
            questions[split] |= {q.question for q in talk.questions}
    assert len(combinations["heldout"]) > 1000
    assert not combinations["train"] & combinations["heldout"]
    assert not wordings["train"] & wordings["heldout"]
    assert not questions["train"] & questions["heldout"]
    for split in SPLITS:
        assert all(split_of(combination) == split for combination in combinations[split])


def test_training_stories_ask_no_held_out_question() -> None:
    lines = {line for i in range(800) for line in World(0).story(i).split("\n")}
    for task in TASKS:
        for index in range(100):
            question = World(0).question(index, task)
            assert f"{question.question} {question.reply}" not in lines


@pytest.mark.parametrize("language", [ENGLISH, PORTUGUESE], ids=lambda language: language.name)
def test_wordings_are_partitioned(language) -> None:  # type: ignore[no-untyped-def]
    for form, wordings in language.questions.items():
        assert len(wordings.train) >= 4, form
        assert len(wordings.heldout) >= 2, form
        assert not set(wordings.train) & set(wordings.heldout), form
    train = [text for wordings in language.questions.values() for text in wordings.train]
    heldout = [text for wordings in language.questions.values() for text in wordings.heldout]
    assert not set(train) & set(heldout)


def test_both_languages_have_the_same_forms() -> None:
    assert set(ENGLISH.questions) == set(PORTUGUESE.questions)
    assert set(ENGLISH.statements) == set(PORTUGUESE.statements)
    assert set(ENGLISH.replies) == set(PORTUGUESE.replies)


def test_split_is_stable_and_of_the_stated_size() -> None:
    pairs = [("add", str(n), str(m)) for n in range(100) for m in range(n, 100)]
    share = sum(split_of(pair) == "heldout" for pair in pairs) / len(pairs)
    assert share == pytest.approx(HELD_OUT_PERCENT / 100, abs=0.02)
    # Written down once: another value would move questions that models were trained on.
    held_out = [m for m in range(1, 13) if split_of(("add", "1", str(m))) == "heldout"]
    assert held_out == [6, 7, 11]


def test_drills_put_no_held_out_pair_together() -> None:
    """Words of one group never form a combination of the held-out split."""
    things = {thing.en for thing in THINGS} | {thing.pt for thing in THINGS}
    english = {noun.pt: noun.en for noun in (*THINGS, *PLACES)}
    pairs = set()
    for index in range(6000):
        first = World(1).story(index).split("\n")[0]
        if first.startswith(("Words: ", "Palavras: ")):
            for group in first.split(": ")[1].rstrip(".").split("; "):
                words = group.split(" ")
                found = [word for word in words if word in things]
                for person in {p.name for p in PEOPLE} & set(words):
                    pairs |= {("owns", person, english.get(thing, thing)) for thing in found}
    assert len(pairs) > 200
    assert {split_of(pair) for pair in pairs} == {"train"}
