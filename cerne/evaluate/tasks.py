"""Tasks with checkable answers: ask a model, check each answer, keep which items were right.

A `Task` is a name, items and baselines; `world_tasks` makes those of the built-in world from
entities, numbers and wordings that training never saw. `ask` runs one task by greedy decoding in
batches through the engine, so a result depends on the model alone. Scores are exact matches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cerne.config import Config
from cerne.data.world import TASKS, Question, Split, World, check_answer
from cerne.data.world import baselines as world_baselines
from cerne.engine.interface import SamplingParams
from cerne.errors import InputError
from cerne.evaluate.bootstrap import interval
from cerne.progress import Progress

if TYPE_CHECKING:
    from cerne.engine.session import LanguageModel

# Apart from the seeds of training recipes, though the split alone keeps the items apart.
WORLD_SEED = 1_000_003
MAX_TOKENS = 64
CHUNK_ITEMS = 64
SAMPLES = 3


@dataclass(frozen=True)
class Item:
    """One question.

    Attributes:
        prompt: chat messages, or raw text for a model without chat template.
        expected: the right answer, for people.
        is_right: the check of an answer's text.
    """

    prompt: Sequence[Mapping[str, Any]] | str
    expected: str
    is_right: Callable[[str], bool]


@dataclass(frozen=True)
class Task:
    """Items of one kind, with what a model that does not read reaches on them."""

    name: str
    items: tuple[Item, ...]
    majority: float
    guess: float

    @property
    def digest(self) -> str:
        """Names the items: two results with the same digest can be compared item by item."""
        text = "\x1e".join(f"{item.prompt}\x1f{item.expected}" for item in self.items)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


class Sample(Config):
    """One question and what the model said."""

    prompt: str
    answer: str
    expected: str
    right: bool


class TaskResult(Config):
    """Score of one task.

    `right` has one character an item, 1 or 0, in the order of the items that `items_digest` names;
    `low` and `high` bound the 95 % bootstrap interval; `stopped` is the share of answers that
    ended by themselves (None where nothing is generated).
    """

    name: str
    accuracy: float
    low: float
    high: float
    items: int
    majority: float
    guess: float
    right: str
    items_digest: str
    stopped: float | None = None
    acc_norm: float | None = None
    samples: tuple[Sample, ...] = ()

    def values(self) -> list[float]:
        """1.0 or 0.0 per item."""
        return [float(c == "1") for c in self.right]


def world_tasks(
    count: int,
    language: Literal["en", "pt", "mix"] = "mix",
    split: Split = "heldout",
    seed: int = WORLD_SEED,
) -> list[Task]:
    """One task of `count` items for each kind of question of the built-in world."""
    world = World(seed, language)
    tasks = []
    for name in TASKS:
        questions = [world.question(index, name, split) for index in range(count)]
        known = world_baselines(questions)[name]
        items = tuple(_world_item(question) for question in questions)
        tasks.append(Task(f"world/{name}", items, known.majority, known.guess))
    return tasks


def ask(
    model: LanguageModel, task: Task, max_tokens: int = MAX_TOKENS, bar: Progress | None = None
) -> TaskResult:
    """Answer every item greedily and check the answers.

    Args:
        max_tokens: longest answer.
        bar: advanced by the number of items done.
    Raises:
        InputError: no items, or a prompt that does not fit the model's context.
    """
    if not task.items:
        raise InputError("the task has no items", value=task.name)
    prompts = [model.encode(_for_model(item.prompt, model)) for item in task.items]
    room = model.context - max(map(len, prompts))
    if room < 1:
        raise InputError(
            f"a question of {task.name} does not fit the model's context",
            value=f"{max(map(len, prompts))} tokens",
            allowed=f"at most {model.context - 1}",
            hint="train with a larger model.max_position_embeddings",
        )
    params = SamplingParams(temperature=0.0, max_tokens=min(max_tokens, room))
    stopped = 0
    # Prompts of like length share a batch; the answers do not depend on it.
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    texts: dict[int, str] = {}
    for begin in range(0, len(order), CHUNK_ITEMS):
        chunk = order[begin : begin + CHUNK_ITEMS]
        done = model.generate_batch([prompts[i] for i in chunk], params)
        for index, completion in zip(chunk, done, strict=True):
            texts[index] = completion.text
            stopped += completion.finish_reason == "stop"
        if bar is not None:
            bar.advance(len(chunk))
    answers = [texts[i] for i in range(len(prompts))]
    return result_of(task, answers, stopped / len(answers))


def result_of(task: Task, answers: Sequence[str], stopped: float | None) -> TaskResult:
    """Check the answers of all items, in order."""
    right = [item.is_right(answer) for item, answer in zip(task.items, answers, strict=True)]
    bounds = interval([float(r) for r in right])
    return TaskResult(
        name=task.name,
        accuracy=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        items=len(right),
        majority=task.majority,
        guess=task.guess,
        right="".join("1" if r else "0" for r in right),
        items_digest=task.digest,
        stopped=stopped,
        samples=tuple(
            Sample(
                prompt=prompt_text(item.prompt),
                answer=answer,
                expected=item.expected,
                right=ok,
            )
            for item, answer, ok in list(zip(task.items, answers, right, strict=True))[:SAMPLES]
        ),
    )


def prompt_text(prompt: Sequence[Mapping[str, Any]] | str) -> str:
    """The prompt for showing: the last message of a chat."""
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def _for_model(
    prompt: Sequence[Mapping[str, Any]] | str, model: LanguageModel
) -> Sequence[Mapping[str, Any]] | str:
    """A model without chat template gets the text of the question and has to go on."""
    if isinstance(prompt, str) or model.tokenizer.chat_template:
        return prompt
    return prompt_text(prompt)


def _world_item(question: Question) -> Item:
    return Item(
        prompt=tuple(question.messages),
        expected=question.answer,
        is_right=lambda answer: check_answer(question, answer),
    )
