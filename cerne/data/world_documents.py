"""From a draw to a page of text: which blocks a document gets, how they are told, and how a story
goes on.

Inputs: a `Draw`, a `Language` and the task that the page must serve. Output: a `Page` (text and
open questions) and, for pre-training, a document that tells the page and then talks about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cerne.data import world_numbers as numbers
from cerne.data import world_stories as stories
from cerne.data.world_scenes import COUNT, QUOTE, TASKS, Block, Fact, Query, Scene, Task
from cerne.data.world_split import Draw
from cerne.data.world_wording import Language

# Facts that change an earlier one: their page is only ever told in order.
ORDERED = frozenset({"put", "gave", "lost"})


@dataclass(frozen=True)
class Page:
    """A told scene: its facts in order, their text, and the questions about it (the task's own
    first).
    """

    lead: str
    facts: list[Fact]
    sentences: list[str]
    queries: list[Query]

    @property
    def text(self) -> str:
        return " ".join([self.lead, *self.sentences]) if self.sentences else ""

    def reply(self, draw: Draw, language: Language, query: Query) -> str:
        """A good answer: the sentence that says it, or one in the language's own words."""
        if query.reply_form not in (QUOTE, COUNT):
            return language.reply(draw, query.reply_form, query.slots)
        said = next(
            sentence
            for fact, sentence in zip(self.facts, self.sentences, strict=True)
            if fact is query.fact
        )
        if query.reply_form == QUOTE:
            return f"{language.quote} {said}"
        return f"{language.quote} {said[:-1]}, {language.fill(COUNT, query.slots)}"


def _reading_block(scene: Scene, draw: Draw, count: int) -> Block:
    kind = draw.between(0, 3)
    if kind == 0:
        return stories.owners(scene, count)
    if kind == 1:
        return stories.visits(scene, count)
    if kind == 2:
        return stories.relatives(scene, count)
    return stories.causes(scene, count)


def _block(scene: Scene, draw: Draw, task: Task) -> Block:
    if task == "recall":
        return _reading_block(scene, draw, draw.between(2, 3))
    if task == "tracking":
        return stories.moves(scene, 2, draw.between(1, 3))
    if task == "counting":
        return numbers.bags(scene, 2)
    if task == "comparison":
        return numbers.counts(scene)
    if task == "arithmetic":
        return numbers.sums(scene, draw.between(2, 4))
    if task == "negation":
        return numbers.likes(scene, draw.between(2, 3))
    if draw.chance(0.3):
        return stories.moves(scene, 2, 1)
    return _reading_block(scene, draw, 2)


def page_for(draw: Draw, language: Language, task: Task | None) -> Page:
    """A page for one task (any if None), perhaps with a second block mixed in."""
    scene = Scene(draw)
    main: Task = draw.pick(TASKS) if task is None else task
    block = _block(scene, draw, main)
    queries = list(block.queries)
    draw.rng.shuffle(queries)
    if main == "unknown":
        # Half of these questions can be answered, so that always giving up is worth one half.
        asked = draw.pick(block.unanswered) if draw.chance(0.5) else _as_unknown(queries[0])
        queries = [asked, *queries]
    elif block.unanswered and draw.chance(0.5):
        queries.append(draw.pick(block.unanswered))
    facts = block.facts
    if draw.chance(0.35):
        # Two pairs of counts in one text would leave "who has more?" open.
        other = _block(
            scene, draw, draw.pick([t for t in TASKS if t != "comparison" or main != "comparison"])
        )
        facts = _riffle(draw, facts, other.facts)
        queries += other.queries
    if task is None:
        draw.rng.shuffle(queries)
    sentences = [language.state(draw, fact.form, fact.slots) for fact in facts]
    return Page(draw.pick(language.leads), facts, sentences, queries)


def _as_unknown(query: Query) -> Query:
    return replace(query, task="unknown", choices=(*query.choices, "unknown"))


def _riffle(draw: Draw, first: list[Fact], second: list[Fact]) -> list[Fact]:
    """Both lists mixed, each keeping its order."""
    mixed: list[Fact] = []
    left, right = list(first), list(second)
    while left or right:
        mixed.append((left if right == [] or (left and draw.chance(0.5)) else right).pop(0))
    return mixed


def story_text(draw: Draw, language: Language, page: Page) -> str:
    """The page's text, told again in the same words and talked about.

    Saying things twice is what makes a young model learn to look back early.
    """
    parts = []
    if page.facts:
        parts.append(page.text)
        again = list(page.sentences)
        if not any(fact.form in ORDERED for fact in page.facts):
            draw.rng.shuffle(again)
        parts.append(" ".join([language.again, *again]))
    for query in page.queries[:6]:
        question, _ = language.ask(draw, query.form, query.slots)
        parts.append(f"{question} {page.reply(draw, language, query)}")
    return "\n".join(parts)
