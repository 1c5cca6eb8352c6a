"""The built-in text: a seeded small world that writes stories and conversations whose answers can
be checked.

Inputs: a world seed, a language ("en", "pt" or "mix") and document indices; the same (seed, index)
gives the same text on every machine. Outputs: pre-training documents (`World.story`), multi-turn
conversations (`World.conversation`) and single questions with a story to read (`World.question`).
Training documents never contain a held-out combination or question wording, and held-out documents
contain only those (see `world_split` and `world_wording`). Leaves out: tokens, training and scoring
of models.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cerne.data.world_answers import AnswerKind, final_answer
from cerne.data.world_documents import Page, page_for, story_text
from cerne.data.world_drills import drill_text
from cerne.data.world_english import ENGLISH
from cerne.data.world_portuguese import PORTUGUESE
from cerne.data.world_scenes import TASKS, NoCastError, Query, Task
from cerne.data.world_split import SPLITS, Combination, Draw, Split
from cerne.data.world_wording import Language, LanguageName
from cerne.errors import ConfigError

__all__ = [
    "SPLITS",
    "TASKS",
    "Conversation",
    "Question",
    "Split",
    "Task",
    "World",
    "baselines",
    "check_answer",
]

Message = dict[str, str]
_LANGUAGES: dict[str, tuple[Language, ...]] = {
    "en": (ENGLISH,),
    "pt": (PORTUGUESE,),
    "mix": (ENGLISH, PORTUGUESE),
}
_RETRIES = 1000
DRILL_SHARE = 0.35


@dataclass(frozen=True)
class Question:
    """One question about `text` (empty for bare sums).

    `reply` is a good full answer and `answer` its checkable core ("red", "42", "no", "unknown");
    `choices` are the answers that the text makes plausible; `combination` and `wording` name what
    the split keeps apart.
    """

    task: Task
    language: LanguageName
    split: Split
    text: str
    question: str
    reply: str
    answer: str
    answer_kind: AnswerKind
    choices: tuple[str, ...]
    combination: Combination
    wording: str

    @property
    def prompt(self) -> str:
        """What the user says: the text to read and the question."""
        return f"{self.text} {self.question}" if self.text else self.question

    @property
    def messages(self) -> list[Message]:
        return [{"role": "user", "content": self.prompt}]


@dataclass(frozen=True)
class Conversation:
    """A story and several questions about it, as chat messages; the first user message carries the
    story.
    """

    messages: list[Message]
    questions: tuple[Question, ...]
    combinations: frozenset[Combination]
    language: LanguageName
    split: Split


@dataclass(frozen=True)
class Baseline:
    """What a model without reading reaches on a task: the commonest answer, or a guess among the
    choices.
    """

    majority: float
    guess: float

    @property
    def best(self) -> float:
        return max(self.majority, self.guess)


class World:
    """A small world: `seed` chooses its documents, `language` is "en", "pt" or "mix" (about half of
    each).
    """

    def __init__(self, seed: int = 0, language: Literal["en", "pt", "mix"] = "mix") -> None:
        if language not in _LANGUAGES:
            raise ConfigError(
                "unknown world language", value=language, allowed=", ".join(_LANGUAGES)
            )
        self.seed = seed
        self.language = language

    def story(self, index: int) -> str:
        """A pre-training document of the training split: a told page or, one in three, a drill."""
        language, draw, page = self._page("story", index, "train", None)
        if draw.chance(DRILL_SHARE):
            return drill_text(draw, language.name)
        return story_text(draw, language, page)

    def stories(self, count: int, start: int = 0) -> Iterator[str]:
        return (self.story(index) for index in range(start, start + count))

    def conversation(self, index: int, split: Split = "train", turns: int = 6) -> Conversation:
        """A conversation of up to `turns` questions about one story."""
        language, draw, page = self._page("conversation", index, split, None)
        questions = tuple(self._ask(draw, language, page, query) for query in page.queries[:turns])
        messages: list[Message] = []
        for number, question in enumerate(questions):
            content = question.prompt if number == 0 else question.question
            messages.append({"role": "user", "content": content})
            messages.append({"role": "assistant", "content": question.reply})
        return Conversation(messages, questions, frozenset(draw.used), language.name, split)

    def question(self, index: int, task: Task, split: Split = "heldout") -> Question:
        """One question of a task, with the text to read."""
        language, draw, page = self._page(f"question {task}", index, split, task)
        return self._ask(draw, language, page, next(q for q in page.queries if q.task == task))

    def questions(self, count: int, split: Split = "heldout") -> list[Question]:
        """`count` questions of every task."""
        return [self.question(index, task, split) for task in TASKS for index in range(count)]

    def _page(
        self, use: str, index: int, split: Split, task: Task | None
    ) -> tuple[Language, Draw, Page]:
        languages = _LANGUAGES[self.language]
        for attempt in range(_RETRIES):
            draw = Draw(split, use, self.seed, index, attempt)
            language = draw.pick(languages)
            try:
                return language, draw, page_for(draw, language, task)
            except NoCastError:
                continue
        raise AssertionError(f"no document for {use} {index}")

    def _ask(self, draw: Draw, language: Language, page: Page, query: Query) -> Question:
        question, wording = language.ask(draw, query.form, query.slots)
        return Question(
            task=query.task,
            language=language.name,
            split=draw.split,
            text=page.text,
            question=question,
            reply=page.reply(draw, language, query),
            answer=query.answer,
            answer_kind=query.answer_kind,
            choices=query.choices,
            combination=query.combination,
            wording=wording,
        )


def check_answer(question: Question, text: str) -> bool:
    """True when the reply's final answer is right, whatever its case, punctuation, or number
    words.
    """
    return final_answer(question.answer_kind, text) == question.answer


def baselines(questions: Iterable[Question]) -> dict[Task, Baseline]:
    """Per task, the accuracy of always giving the commonest answer and of guessing among the
    plausible ones.
    """
    by_task: dict[Task, list[Question]] = defaultdict(list)
    for question in questions:
        by_task[question.task].append(question)
    result: dict[Task, Baseline] = {}
    for task, asked in by_task.items():
        commonest = Counter(question.answer for question in asked).most_common(1)[0][1]
        guess = sum(1 / len(question.choices) for question in asked) / len(asked)
        result[task] = Baseline(commonest / len(asked), guess)
    return result
