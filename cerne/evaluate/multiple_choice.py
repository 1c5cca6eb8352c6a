"""Multiple choice by log-probability, on files in llm-foundry's format.

Rows: {"query", "choices", "gold"} (arc, piqa, copa, ...), {"context_options", "continuation",
"gold"} (winograd, winogrande) or {"ctx", "endings", "label"} (hellaswag). Question and choice are
tokenised together; the choice's tokens are those after the question's own encoding. `accuracy`
takes the choice with the highest log-probability, `acc_norm` the highest per character of the
choice (as EleutherAI's harness does). For context_options the continuation is scored, so both
figures are equal by definition of the lengths. What exceeds the context loses its beginning; how
many choices that concerns is said.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from cerne.data.report import RowReport
from cerne.data.rows import Row, iterate_rows
from cerne.data.sources import find_sources
from cerne.errors import DataError
from cerne.evaluate.bootstrap import interval
from cerne.evaluate.bpb import start_token
from cerne.evaluate.tasks import Sample, TaskResult
from cerne.model.loss import IGNORE, token_logprobs
from cerne.progress import Progress, say

if TYPE_CHECKING:
    from cerne.engine.session import LanguageModel

ROW_TOKENS = 8192


@dataclass(frozen=True)
class Choice:
    """A context and the text whose probability counts."""

    context: str
    text: str


@dataclass(frozen=True)
class ChoiceItem:
    """The choices of one question, and the index of the right one."""

    choices: tuple[Choice, ...]
    gold: int


@dataclass(frozen=True)
class _Encoded:
    ids: list[int]
    scored: int
    cut: bool


def read_choices(path: str, limit: int | None = None) -> list[ChoiceItem]:
    """The questions of a file, the first `limit` of them.

    Raises:
        DataError: unreadable, or a row of another format (with its line).
    """
    report = RowReport(0.0, hint="correct the rows")
    items: list[ChoiceItem] = []
    for source in find_sources((path,)):
        for row in iterate_rows(source.name, source.kind, report, "strict"):
            if limit is not None and len(items) >= limit:
                break
            items.append(_parse(row))
            report.add_good()
    report.check()
    if not items:
        raise DataError("the file has no questions", value=path)
    return items


def score_choices(
    model: LanguageModel,
    name: str,
    items: Sequence[ChoiceItem],
    dtype: torch.dtype = torch.float32,
    bar: Progress | None = None,
) -> TaskResult:
    """Accuracy of choosing by log-probability; see the module's text for the rules."""
    encoded = [_encode(model, choice) for item in items for choice in item.choices]
    cut = sum(one.cut for one in encoded)
    if cut:
        say(
            f"note: {name}: {cut} of {len(encoded)} choices are longer than the context of "
            f"{model.context} tokens; their beginning is cut"
        )
    logprobs = _sum_logprobs(model, encoded, dtype, bar)
    plain, normed, position = [], [], 0
    for item in items:
        scores = logprobs[position : position + len(item.choices)]
        position += len(item.choices)
        lengths = np.array([max(1, len(choice.text)) for choice in item.choices])
        plain.append(int(np.argmax(scores)) == item.gold)
        normed.append(int(np.argmax(scores / lengths)) == item.gold)
    bounds = interval([float(r) for r in plain])
    gold = Counter(item.gold for item in items)
    return TaskResult(
        name=name,
        accuracy=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        items=len(items),
        majority=gold.most_common(1)[0][1] / len(items),
        guess=float(np.mean([1 / len(item.choices) for item in items])),
        right="".join("1" if r else "0" for r in plain),
        items_digest=_digest(items),
        acc_norm=float(np.mean(normed)),
        samples=(
            Sample(
                prompt=items[0].choices[0].context,
                answer=items[0].choices[int(np.argmax(logprobs[: len(items[0].choices)]))].text,
                expected=items[0].choices[items[0].gold].text,
                right=plain[0],
            ),
        ),
    )


def choice_name(path: str) -> str:
    """The task's name of a file: arc_easy.jsonl.xz is choice/arc_easy."""
    return f"choice/{Path(path).name.split('.')[0]}"


def _parse(row: Row) -> ChoiceItem:
    value = row.value
    try:
        if "choices" in value:
            items = _query_choices(str(value["query"]), value["choices"])
            gold = int(value["gold"])
        elif "context_options" in value:
            items = tuple(
                Choice(context, " " + value["continuation"].lstrip())
                for context in value["context_options"]
            )
            gold = int(value["gold"])
        else:
            items = tuple(Choice(value["ctx"], " " + e.lstrip()) for e in value["endings"])
            gold = int(value["label"])
        if not 0 <= gold < len(items) or len(items) < 2:
            raise ValueError("gold is outside the choices")
        return ChoiceItem(items, gold)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{row.source}:{row.line}: not a multiple-choice row ({type(error).__name__}: {error})",
            allowed='{"query", "choices", "gold"}, {"context_options", "continuation", "gold"} or'
            ' {"ctx", "endings", "label"}',
        ) from None


def _query_choices(query: str, choices: list[str]) -> tuple[Choice, ...]:
    query = query.rstrip()
    if query.startswith("Question:"):
        query += "\nAnswer:"
    return tuple(Choice(query, " " + choice.strip()) for choice in choices)


def _encode(model: LanguageModel, choice: Choice) -> _Encoded:
    """Ids of context and choice together, and how many of the last ones are the choice's."""
    tokenizer = model.tokenizer
    together = tokenizer.encode(choice.context + choice.text)
    context = tokenizer.encode(choice.context)
    shared = 0
    while shared < min(len(context), len(together) - 1) and together[shared] == context[shared]:
        shared += 1
    scored = len(together) - shared
    ids = [start_token(tokenizer), *together]
    kept = min(len(ids), model.context + 1)
    return _Encoded(ids[-kept:], min(scored, kept - 1), kept < len(ids))


def _sum_logprobs(
    model: LanguageModel, rows: Sequence[_Encoded], dtype: torch.dtype, bar: Progress | None
) -> NDArray[np.float64]:
    """Summed log-probability of the scored tokens of each row."""
    sums = np.zeros(len(rows))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    for batch in _batches(order, rows):
        sums[batch] = _score_batch(model, [rows[i] for i in batch], dtype)
        if bar is not None:
            bar.advance(len(batch))
    return sums


def _batches(order: Sequence[int], rows: Sequence[_Encoded]) -> Iterator[list[int]]:
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * len(rows[index].ids) > ROW_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@torch.no_grad()
def _score_batch(
    model: LanguageModel, rows: Sequence[_Encoded], dtype: torch.dtype
) -> NDArray[np.float64]:
    width = max(len(row.ids) for row in rows) - 1
    ids_BT = np.zeros((len(rows), width), np.int64)
    labels_BT = np.full((len(rows), width), IGNORE, np.int64)
    for index, row in enumerate(rows):
        length = len(row.ids) - 1
        ids_BT[index, :length] = row.ids[:-1]
        labels_BT[index, length - row.scored : length] = row.ids[-row.scored :]
    network = model.network
    device = next(network.parameters()).device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden_BTD = network(torch.from_numpy(ids_BT).to(device))
        logprobs_BT = token_logprobs(network, hidden_BTD, torch.from_numpy(labels_BT).to(device))
    sums: NDArray[np.float64] = logprobs_BT.double().sum(1).cpu().numpy()
    return sums


def _digest(items: Sequence[ChoiceItem]) -> str:
    shown = "\x1e".join(f"{c.context}\x1f{c.text}\x1f{i.gold}" for i in items for c in i.choices)
    return hashlib.sha256(shown.encode("utf-8")).hexdigest()
