"""Tasks, multiple choice, scorecards, comparison and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_tools import default_tokenizer
from sft_tools import base_model, small_transformer
from typer.testing import CliRunner

import cerne
from cerne.cli.app import app
from cerne.data.world import World
from cerne.engine.interface import Choice, Completion, SamplingParams, Usage
from cerne.engine.session import LanguageModel
from cerne.errors import ConfigError, DataError, InputError
from cerne.evaluate.bpb import TextResult
from cerne.evaluate.compare import compare
from cerne.evaluate.multiple_choice import read_choices, score_choices
from cerne.evaluate.scorecard import EvaluateOptions, Scorecard, average_of, evaluate
from cerne.evaluate.tasks import WORLD_SEED, ask, result_of, world_tasks


class Oracle:
    """Answers the world's questions rightly when `knows` says so, else with nonsense."""

    def __init__(self, replies: dict[str, str], knows: Any) -> None:
        self.tokenizer, self.context = default_tokenizer(), 100_000
        self.replies, self.knows = replies, knows

    def encode(self, prompt: Any) -> list[int]:
        return self.tokenizer.encode(prompt[-1]["content"])

    def generate_batch(self, prompts: Any, params: SamplingParams) -> list[Completion]:
        assert params.temperature == 0.0
        texts = []
        for ids in prompts:
            asked = self.tokenizer.decode(ids)
            texts.append(self.replies[asked] if self.knows(asked) else "xyzzy")
        choices = [Choice(0, text, (1,), "stop") for text in texts]
        return [Completion((choice,), Usage(1, 1)) for choice in choices]


def oracle(knows: Any, count: int = 12) -> Oracle:
    world = World(WORLD_SEED, "mix")
    tasks = world_tasks(count)
    questions = [
        world.question(index, task.name.removeprefix("world/"), "heldout")  # type: ignore[arg-type]
        for task in tasks
        for index in range(count)
    ]
    return Oracle({q.prompt: q.reply for q in questions}, knows)


def card(model: Any, count: int = 12) -> Scorecard:
    tasks = tuple(ask(model, task) for task in world_tasks(count))
    return Scorecard(model="m", parameters=1, tasks=tasks, average=average_of(tasks))


def test_world_tasks_are_held_out_fixed_and_of_all_kinds() -> None:
    tasks = world_tasks(5)
    assert [t.name for t in tasks] == [
        "world/recall", "world/tracking", "world/counting", "world/comparison",
        "world/arithmetic", "world/negation", "world/unknown",
    ]  # fmt: skip
    assert [t.digest for t in tasks] == [t.digest for t in world_tasks(5)]
    assert tasks[0].digest != world_tasks(5, seed=7)[0].digest
    assert all(0 < t.majority <= 1 and 0 < t.guess <= 1 for t in tasks)


def test_right_answers_count_and_wrong_ones_do_not() -> None:
    knowing = card(oracle(lambda asked: True))
    assert knowing.average is not None
    assert knowing.average.accuracy == 1.0
    assert {t.right for t in knowing.tasks} == {"1" * 12}
    ignorant = card(oracle(lambda asked: False))
    assert ignorant.average is not None
    assert ignorant.average.accuracy == 0.0
    some = card(oracle(lambda asked: len(asked) % 2 == 0))
    for task in some.tasks:
        assert task.accuracy == task.right.count("1") / 12
        assert task.low <= task.accuracy <= task.high
        assert task.stopped == 1.0


def test_comparison_counts_wins_and_losses_item_by_item() -> None:
    a, b = card(oracle(lambda asked: True)), card(oracle(lambda asked: len(asked) % 2 == 0))
    found = compare(a, b)
    assert found.average is not None
    for task, other in zip(found.tasks, b.tasks, strict=True):
        assert task.losses == 0
        assert task.wins == other.right.count("0")
        assert task.difference == pytest.approx(1.0 - other.accuracy)
    assert found.average.clear
    same = compare(b, b)
    assert same.average is not None
    assert (same.average.difference, same.average.clear) == (0.0, False)
    mirrored = compare(b, a)
    assert mirrored.average is not None
    assert mirrored.average.difference == pytest.approx(-found.average.difference)


def test_cards_of_other_items_are_not_compared() -> None:
    a, b = card(oracle(lambda asked: True)), card(oracle(lambda asked: True, 9), 9)
    found = compare(a, b)
    assert found.tasks == ()
    assert found.average is None
    assert set(found.not_comparable) == {t.name for t in a.tasks}


def test_a_text_of_only_one_card_is_named() -> None:
    bare = card(oracle(lambda asked: True))
    score = dict.fromkeys(("bits_per_byte", "nats_per_token", "bytes_per_token"), 1.0)
    score |= dict.fromkeys(("num_bytes", "num_tokens", "num_documents", "seq_len", "stride"), 1)
    text = TextResult(name="book", rate_tok_s=1.0, **score)
    with_text = bare.model_copy(update={"texts": (text,)})
    assert compare(with_text, bare).not_comparable == ("book",)
    assert compare(bare, with_text).not_comparable == ("book",)


def test_a_real_model_runs_and_batching_does_not_matter() -> None:
    model = LanguageModel(small_transformer(seed=2).eval(), default_tokenizer())
    (task,) = [t for t in world_tasks(6, "en") if t.name == "world/arithmetic"]
    result = ask(model, task, max_tokens=5)
    one_by_one = [
        model.generate(item.prompt, temperature=0.0, max_tokens=5).text for item in task.items
    ]
    assert [s.answer for s in result.samples] == one_by_one[:3]
    again = result_of(task, one_by_one, result.stopped)
    assert again == result


def test_a_question_beyond_the_context_is_a_clear_error() -> None:
    tiny = LanguageModel(small_transformer(max_position_embeddings=8).eval(), default_tokenizer())
    with pytest.raises(InputError, match="does not fit the model's context"):
        ask(tiny, world_tasks(2, "en")[0])


ROWS = [
    {"query": "Question: What is red?\n", "choices": ["the ball", "the dog"], "gold": 0},
    {"context_options": ["The fox saw the", "The dog saw the"], "continuation": "ball", "gold": 1},
    {"ctx": "the quick", "endings": ["brown fox", "lazy", "house"], "label": 0},
]


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return str(path)


def test_multiple_choice_equals_scoring_by_hand(tmp_path: Path) -> None:
    model = LanguageModel(small_transformer(seed=4).eval(), default_tokenizer())
    items = read_choices(write(tmp_path / "a.jsonl", ROWS))
    assert items[0].choices[1].context == "Question: What is red?\nAnswer:"
    result = score_choices(model, "choice/a", items)
    tokenizer = model.tokenizer
    right, normed = "", 0
    for item in items:
        scores = []
        for choice in item.choices:
            ids = [tokenizer.eos_token_id or 0, *tokenizer.encode(choice.context + choice.text)]
            begin = 1 + len(tokenizer.encode(choice.context))
            logprobs_TV = torch.log_softmax(torch.from_numpy(model.logits(ids)).double(), -1)
            scores.append(sum(float(logprobs_TV[t - 1, ids[t]]) for t in range(begin, len(ids))))
        right += "1" if scores.index(max(scores)) == item.gold else "0"
        per_char = [s / len(c.text) for s, c in zip(scores, item.choices, strict=True)]
        normed += per_char.index(max(per_char)) == item.gold
    assert result.right == right
    assert result.acc_norm == pytest.approx(normed / 3)
    assert result.guess == pytest.approx((1 / 2 + 1 / 2 + 1 / 3) / 3)
    assert result.stopped is None


def test_choices_beyond_the_context_are_counted_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = LanguageModel(small_transformer().eval(), default_tokenizer(), context=8)
    score_choices(model, "choice/a", read_choices(write(tmp_path / "a.jsonl", ROWS[:1])))
    assert "choice/a: 2 of 2 choices are longer than the context of 8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "row", [{"query": "a"}, {"query": "a", "choices": ["b", "c"], "gold": 2},
            {"query": "a", "choices": ["b"], "gold": 0}, {"text": "x"}, {"choices": 3, "query": 1}]
)  # fmt: skip
def test_other_rows_are_refused_with_their_line(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2"):
        read_choices(write(tmp_path / "a.jsonl", [ROWS[0], row]))


def test_files_of_the_shared_evaluation_sets_are_read(shared_dir: Path) -> None:
    folder = shared_dir / "data" / "eval"
    for name in ("core/arc_easy", "core/piqa", "core/winogrande", "hellaswag_val"):
        items = read_choices(str(folder / f"{name}.jsonl.xz"), 20)
        assert len(items) == 20
        assert all(choice.text.startswith(" ") for item in items for choice in item.choices)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_model(tmp_path_factory.mktemp("model") / "m", max_position_embeddings=2048)


def test_scorecard_reads_back_from_its_json(model_dir: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("hello world " * 9, encoding="utf-8")
    model = cerne.load(model_dir, threads=1)
    options = EvaluateOptions(texts=(str(text),), limit=2, max_tokens=4, seq_len=64)
    made = evaluate(model, options, "cerne evaluate m")
    made.save(tmp_path / "card.json")
    assert Scorecard.load(tmp_path / "card.json") == made
    assert made.parameters == model.network.config.num_parameters()
    assert len(made.tables()) == 2
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="not a scorecard"):
        Scorecard.load(tmp_path / "bad.json")
    with pytest.raises(InputError, match="nothing to evaluate"):
        evaluate(model, EvaluateOptions(tasks=()))
    with pytest.raises(InputError, match="no such task"):
        evaluate(model, EvaluateOptions(tasks=("nosuch",)))


def invoke(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("cerne.device.reexec_with_allocator", lambda: None)
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=False)


def test_command_line(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, choices = tmp_path / "a.txt", write(tmp_path / "c.jsonl", ROWS)
    text.write_text("hello world " * 9, encoding="utf-8")
    out = tmp_path / "card.json"
    done = invoke(
        model_dir, "--tasks", f"world,{choices}", "--text", text, "--limit", 2, "--max-tokens", 4,
        "--baselines", text, "--compare", model_dir, "--out", out, "--json", "--threads", 1,
        "--device", "cpu",
        monkeypatch=monkeypatch,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout.splitlines()[-1])
    assert len(shown["tasks"]) == 8
    assert shown["comparison"]["average"]["difference"] == 0.0
    assert shown["comparison"]["texts"][0]["difference"] == 0.0
    assert shown["baselines"][str(text)]["ngram"] > 0
    assert Scorecard.load(out).tasks[-1].name == "choice/c"
    again = invoke(
        model_dir, "--text", text, "--compare", out, "--threads", 1, monkeypatch=monkeypatch
    )
    assert again.exit_code == 0
    assert "a = " in again.stdout


def test_command_line_refuses_what_makes_no_sense(model_dir: Path, monkeypatch: Any) -> None:
    with pytest.raises(ConfigError, match="unknown world language"):
        invoke(model_dir, "--language", "fr", monkeypatch=monkeypatch)
    with pytest.raises(ConfigError, match="needs --text"):
        invoke(model_dir, "--baselines", "x", monkeypatch=monkeypatch)
