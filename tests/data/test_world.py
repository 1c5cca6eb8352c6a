"""The small world: reproducible, answerable, bilingual, with honest baselines."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from cerne.data.world import SPLITS, TASKS, World, baselines, check_answer
from cerne.data.world_numbers import addition, subtraction
from cerne.errors import ConfigError

DIGEST_PROGRAM = """
import hashlib
from cerne.data.world import World
world = World(3)
text = "".join(world.story(i) + str(world.conversation(i).messages) for i in range(40))
print(hashlib.sha256(text.encode("utf-8")).hexdigest())
"""


def test_same_seed_and_index_give_the_same_text_in_every_process() -> None:
    digests = set()
    for hash_seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST_PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        digests.add(done.stdout.strip())
    world = World(3)
    for order in (range(40), reversed(range(40))):
        pages = {i: world.story(i) + str(world.conversation(i).messages) for i in order}
        text = "".join(pages[i] for i in range(40))
        digests.add(hashlib.sha256(text.encode("utf-8")).hexdigest())
    assert len(digests) == 1


def test_seeds_and_indices_differ() -> None:
    texts = {World(seed).story(index) for seed in range(3) for index in range(200)}
    assert len(texts) > 590


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("language", ["en", "pt"])
def test_reference_replies_are_right_and_other_answers_wrong(split: str, language: str) -> None:
    world = World(1, language)  # type: ignore[arg-type]
    for task in TASKS:
        for index in range(80):
            question = world.question(index, task, split)  # type: ignore[arg-type]
            assert question.task == task
            assert check_answer(question, question.reply), question
            assert question.answer in question.choices
            if question.answer != "unknown":
                assert not check_answer(question, "I do not know."), question
                assert not check_answer(question, "não sei"), question
            for wrong in question.choices:
                if wrong not in (question.answer, "unknown"):
                    assert not check_answer(question, f"I say {wrong}"), (question, wrong)


@pytest.mark.parametrize(
    ("kind", "answer", "right", "wrong"),
    [
        ("number", "42", ["42", "It is forty-two.", "QUARENTA E DOIS!", "so 42."], ["24", ""]),
        ("number", "7", ["Seven", "sete.", "07"], ["seventy", "17", "I do not know"]),
        ("number", "20", ["twenty", "vinte", "one more is 20"], ["twenty-one", "2 0"]),
        (
            "colour",
            "red",
            ["Red.", "vermelha", "VERMELHO!", "not blue but red"],
            ["redder", "red? blue"],
        ),
        ("person", "Ana", ["ana", "It is Ana."], ["Anabel", "Ana or Tom"]),
        ("place", "station", ["na estação", "at the STATION", "estacao"], ["attic"]),
        ("day", "Tuesday", ["terça", "na terça-feira.", "tuesday"], ["quarta-feira"]),
        ("cause", "it was cold", ["Porque estava frio.", "because it was cold"], ["it was hot"]),
        ("yes_no", "no", ["No.", "Não, não gosta.", "it does not, so no"], ["yes", "not"]),
        ("yes_no", "yes", ["Sim!", "Ana não gosta, então sim.", "YES"], ["no", "maybe"]),
        ("unknown", "unknown", ["I don't know.", "Não sei.", "nao sei"], ["red", "", "I know"]),
    ],
)  # fmt: skip
def test_answers_are_normalised(kind: str, answer: str, right: list[str], wrong: list[str]) -> None:
    base = World(0, "en").question(0, "recall")
    question = replace(base, answer_kind=kind, answer=answer)  # type: ignore[arg-type]
    assert [text for text in right if not check_answer(question, text)] == []
    assert [text for text in wrong if check_answer(question, text)] == []


def test_baselines_are_counted() -> None:
    questions = World(5).questions(100)
    found = baselines(questions)
    assert set(found) == set(TASKS)
    negation = [q for q in questions if q.task == "negation"]
    yes = sum(q.answer == "yes" for q in negation) / len(negation)
    assert found["negation"].majority == pytest.approx(max(yes, 1 - yes))
    assert found["negation"].guess == pytest.approx(0.5)
    assert found["comparison"].guess == pytest.approx(0.5)
    unknown = [q for q in questions if q.task == "unknown"]
    assert 0.35 < sum(q.answer == "unknown" for q in unknown) / len(unknown) < 0.65
    assert all(baseline.best < 0.66 for baseline in found.values())


def test_worked_sums() -> None:
    assert addition(47, 38) == ("7+8=15, 4+3=7, 7+1=8", 85)
    assert addition(5, 0) == ("5+0=5, 0+0=0", 5)
    assert subtraction(42, 35) == ("12-5=7, 4-3=1, 1-1=0", 7)
    assert subtraction(90, 90) == ("0-0=0, 9-9=0", 0)
    for n in range(100):
        for m in range(100):
            assert addition(n, m)[1] == n + m
            if m <= n:
                work, result = subtraction(n, m)
                units, *_, tens = (int(step.split("=")[1]) for step in work.split(", "))
                assert 10 * tens + units == result == n - m


def test_portuguese_agrees() -> None:
    """Articles, contractions and adjectives of a noun's gender; none of the other's."""
    world = World(2, "pt")
    text = "\n".join(world.story(index) for index in range(1500))
    for wrong in (
        "um bola", "uma livro", "o bola", "a livro", "no cozinha", "na jardim", "para o escola",
        "bola vermelho", "livro vermelha", "boneca preto", "caneta branco", "uma irmão",
        "quantos maçãs", "quantas ovos", "no segunda-feira", "na sábado", "um sacola",
    ):  # fmt: skip
        assert not re.search(rf"\b{wrong}\b", text, re.IGNORECASE), wrong
    for right in (
        "uma bola",
        "um livro",
        "na cozinha",
        "no jardim",
        "na segunda-feira",
        "no sábado",
    ):
        assert re.search(rf"\b{right}\b", text, re.IGNORECASE), right
    assert not re.search(r"\b(the|is|has|what|who)\b", text, re.IGNORECASE)


def test_conversations_take_turns_and_mix_languages() -> None:
    world = World(4)
    languages = set()
    for index in range(60):
        talk = world.conversation(index)
        languages.add(talk.language)
        roles = [message["role"] for message in talk.messages]
        assert roles == ["user", "assistant"] * len(talk.questions)
        assert talk.messages[0]["content"] == talk.questions[0].prompt
        for question, reply in zip(talk.questions, talk.messages[1::2], strict=True):
            assert check_answer(question, reply["content"])
    assert languages == {"en", "pt"}


def test_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigError, match="fr"):
        World(0, "fr")  # type: ignore[arg-type]
