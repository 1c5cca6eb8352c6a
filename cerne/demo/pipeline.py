"""The demo's stages in order: tokenizer, pre-train, exam, fine-tune, exam, questions, quantize.

Input: a `DemoPlan`. Output: `DemoResult`, and in the folder: pretrain/ and the fine-tuning run
(both as `cerne pretrain` and `cerne sft` write them), demo.json, report.html and plots/. A stage
that is done is not run again; an interrupted one continues from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cerne.data.world import TASKS, World
from cerne.demo.exam import chat_exam, show, text_exam
from cerne.demo.lookback import wire_look_back
from cerne.demo.plan import SEQ_LEN, VOCAB_SIZE, DemoPlan
from cerne.demo.smaller import compare_sizes
from cerne.demo.state import DemoState
from cerne.engine.session import LanguageModel, load
from cerne.evaluate.scorecard import average_of
from cerne.evaluate.tasks import WORLD_SEED, TaskResult
from cerne.model.hf import save_model
from cerne.model.transformer import Transformer
from cerne.progress import human_time, say
from cerne.runs import RunDirectory
from cerne.tokenizer.bpe import Tokenizer
from cerne.train.hooks import Hooks
from cerne.train.loop import TrainResult
from cerne.train.pretrain import run_pretrain
from cerne.tune.sft import run_sft

STAGES = ("tokenizer", "pretrain", "pretrain exam", "sft", "sft exam", "questions", "quantize")
SAMPLE_TOKENS = 48


@dataclass(frozen=True)
class DemoResult:
    """Everything that the report tells; `stages` and `times_s` are keyed by STAGES."""

    plan: DemoPlan
    stages: Mapping[str, Any]
    times_s: Mapping[str, float]

    @property
    def model(self) -> Path:
        """What `cerne chat` takes."""
        return self.plan.folder

    def exam(self, stage: str) -> list[TaskResult]:
        return [TaskResult.model_validate(task) for task in self.stages[stage]]


def run_demo(plan: DemoPlan, *, resume: bool = False) -> DemoResult:
    """Run the stages that are not done yet.

    Raises:
        ConfigError, CheckpointError: the folder is in use, or there is nothing to resume.
        Interrupted: Ctrl-C in a training stage, with a checkpoint saved.
    """
    facts = {"seed": plan.seed, "minutes": plan.minutes}
    state = (DemoState.resume if resume else DemoState.begin)(plan.folder, facts)
    work: dict[str, Callable[[], Any]] = {
        "tokenizer": lambda: _start(plan),
        "pretrain": lambda: _trained(_pretrain(plan)),
        "pretrain exam": lambda: _exam(
            text_exam, plan.pretrain_dir, plan, (plan.exam_items + 1) // 2
        ),
        "sft": lambda: _trained(_sft(plan)),
        "sft exam": lambda: _exam(chat_exam, plan.folder, plan, plan.exam_items),
        "questions": lambda: [asdict(shown) for shown in show(_load(plan.folder, plan))],
        "quantize": lambda: compare_sizes(plan.folder, plan.threads),
    }
    for number, stage in enumerate(STAGES, start=1):
        if state.done(stage):
            continue
        say(f"\nstage {number} of {len(STAGES)}: {stage}")
        with state.timed(stage):
            result = work[stage]()
        state.finish(stage, result)
        say(f"{stage}: {human_time(state.times_s[stage])}")
    return DemoResult(plan, state.results, state.times_s)


def _start(plan: DemoPlan) -> dict[str, Any]:
    """Train the tokenizer, and save it with fresh weights as the model to start from."""
    world = World(plan.seed, "mix")
    count = plan.tokenizer_texts()
    texts = [world.story(index) for index in range(count)]
    for index in range(count):
        messages = world.conversation(index).messages
        texts.append("\n".join(message["content"] for message in messages))
    tokenizer = Tokenizer.train(texts, vocab_size=VOCAB_SIZE, allow_fewer=True)
    config = plan.model_config(tokenizer.vocab_size, tokenizer.eos_token_id, tokenizer.pad_token_id)
    model = Transformer(config, seed=plan.seed)
    wire_look_back(model, plan.seed, SEQ_LEN)
    save_model(plan.start_dir, model, tokenizer)
    size_bytes = sum(len(text.encode("utf-8")) for text in texts)
    tokens = sum(len(ids) for ids in tokenizer.encode_batch(texts))
    say(f"vocabulary {tokenizer.vocab_size}: {size_bytes / tokens:.2f} bytes per token")
    return {"vocab_size": tokenizer.vocab_size, "bytes_per_token": size_bytes / tokens}


def _pretrain(plan: DemoPlan) -> TrainResult:
    recipe = plan.pretrain_recipe()
    resume = RunDirectory(plan.pretrain_dir).latest() is not None
    start = None if resume else plan.start_dir
    return run_pretrain(recipe, resume=resume, init_from=start, hooks=StorySamples(plan))


def _sft(plan: DemoPlan) -> TrainResult:
    recipe = plan.sft_recipe()
    resume = RunDirectory(plan.folder).latest() is not None
    return run_sft(recipe, resume=resume, hooks=ChatSamples(plan))


def _trained(result: TrainResult) -> dict[str, Any]:
    return {
        "steps": result.step,
        "tokens": result.tokens,
        "loss": result.loss,
        "time_s": result.time_s,
        **result.validation,
    }


def _load(folder: Path, plan: DemoPlan) -> LanguageModel:
    return load(str(folder), device="cpu", threads=plan.threads)


def _exam(
    exam: Callable[[LanguageModel, int], list[TaskResult]], folder: Path, plan: DemoPlan, items: int
) -> list[dict[str, Any]]:
    results = exam(_load(folder, plan), items)
    average = average_of(results)
    assert average is not None
    say(f"held-out average {average.accuracy:.1%} ({average.low:.1%} to {average.high:.1%})")
    return [task.model_dump(mode="json") for task in results]


class StorySamples(Hooks):
    """Pages that the model continues now and then while it learns."""

    def __init__(self, plan: DemoPlan) -> None:
        world = World(WORLD_SEED + 2, "mix")
        questions = [world.question(0, task) for task in ("recall", "tracking", "arithmetic")]
        self._prompts = [f"{q.text}\n{q.question}".strip() for q in questions]
        self._seed = plan.seed

    def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
        done = LanguageModel(model, tokenizer).batch(
            self._prompts, max_tokens=SAMPLE_TOKENS, temperature=0.0, seed=self._seed, stop=["\n"]
        )
        pairs = zip(self._prompts, done, strict=True)
        return [{"prompt": prompt, "text": found.text} for prompt, found in pairs]


class ChatSamples(Hooks):
    """The same questions as a chat."""

    def __init__(self, plan: DemoPlan) -> None:
        world = World(WORLD_SEED + 2, "mix")
        self._questions = [world.question(0, task) for task in TASKS]
        self._seed = plan.seed

    def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
        done = LanguageModel(model, tokenizer).batch(
            [q.messages for q in self._questions],
            max_tokens=SAMPLE_TOKENS,
            temperature=0.0,
            seed=self._seed,
        )
        pairs = zip(self._questions, done, strict=True)
        return [{"prompt": question.prompt, "text": found.text} for question, found in pairs]
