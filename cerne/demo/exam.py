"""The demo's exams: held-out questions for the base model as text and for the tuned one as a chat.

Input: a model and a number of items per task. Output: one `TaskResult` a task. The base model knows
no chat, only pages on which a question is followed by its answer; it is asked in that form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cerne.data.world import TASKS, Question, World, check_answer
from cerne.data.world_scenes import Task as WorldTask
from cerne.engine.session import LanguageModel
from cerne.evaluate.tasks import MAX_TOKENS, WORLD_SEED, TaskResult, ask, result_of, world_tasks
from cerne.progress import Progress

# Questions that are shown with their answers; another world than the exam's.
SHOWN_SEED = WORLD_SEED + 1
SHOWN_TASKS: tuple[WorldTask, ...] = (
    "recall",
    "tracking",
    "counting",
    "comparison",
    "arithmetic",
    "unknown",
)
_CHUNK = 32


@dataclass(frozen=True)
class Shown:
    """An unseen question and what the model answered."""

    task: str
    prompt: str
    answer: str
    expected: str
    right: bool


def chat_exam(model: LanguageModel, items: int) -> list[TaskResult]:
    """Held-out questions as a chat."""
    tasks = world_tasks(items)
    with Progress("exam", sum(len(task.items) for task in tasks), "questions") as bar:
        return [ask(model, task, bar=bar) for task in tasks]


def text_exam(model: LanguageModel, items: int) -> list[TaskResult]:
    """The same questions as a page to be continued; the answer is the rest of the line."""
    world = World(WORLD_SEED, "mix")
    results = []
    with Progress("exam", items * len(TASKS), "questions") as bar:
        for name, task in zip(TASKS, world_tasks(items), strict=True):
            questions = [world.question(index, name) for index in range(items)]
            results.append(result_of(task, _continue(model, questions, bar), None))
    return results


def _continue(model: LanguageModel, questions: Sequence[Question], bar: Progress) -> list[str]:
    answers: list[str] = []
    for begin in range(0, len(questions), _CHUNK):
        pages = [page(question) for question in questions[begin : begin + _CHUNK]]
        done = model.batch(pages, temperature=0.0, max_tokens=MAX_TOKENS, stop=["\n"])
        answers.extend(found.text for found in done)
        bar.advance(len(pages))
    return answers


def page(question: Question) -> str:
    """A question in the form of the pre-training text, which puts it on a line of its own."""
    return f"{question.text}\n{question.question}" if question.text else question.question


def show(model: LanguageModel) -> list[Shown]:
    """Six unseen questions of different tasks, in both languages, with the model's answers."""
    shown = []
    for index, task in enumerate(SHOWN_TASKS):
        question = World(SHOWN_SEED, "en" if index % 2 == 0 else "pt").question(0, task)
        answer = model.generate(question.messages, temperature=0.0, max_tokens=MAX_TOKENS).text
        right = check_answer(question, answer)
        shown.append(Shown(task, question.prompt, answer.strip(), question.answer, right))
    return shown
