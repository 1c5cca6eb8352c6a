"""`cerne bench shakespeare`: held-out bits per byte of five-minute trainings, over seeds.

Each training is `cerne pretrain RECIPE data.path=TEXT` in a process of its own. The last tenth of
the text is held out; the score counts each of its bytes once, in windows that do not overlap (the
policy of cerne/train/validate.py), and the score with windows that overlap by half stands beside
it. The clock counts updates, not compilation, validation or saving. Variants change one thing each,
so that the table shows what it is worth.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cerne.bench.report import Spread, table, with_circumstances
from cerne.config import load_recipe
from cerne.data.corpus import Corpus
from cerne.data.prepare import open_prepared
from cerne.errors import ConfigError, InputError
from cerne.evaluate.baselines import baselines
from cerne.model.hf import load_model
from cerne.progress import say
from cerne.runs import RunDirectory
from cerne.train.pretrain import held_out_documents
from cerne.train.recipe import PretrainRecipe
from cerne.train.validate import score_documents

# What differs from the recipe. The first one is the recipe itself.
VARIANTS: dict[str, tuple[str, ...]] = {
    "recipe": (),
    "adamw": ("train.optimizer=adamw",),
    "adamw beta2 .999": ("train.optimizer=adamw", "train.beta2=0.999"),
    "beta2 .999": ("train.beta2=0.999",),
    "vocabulary 512": ("tokenizer.vocab_size=512",),
    "vocabulary 1024": ("tokenizer.vocab_size=1024",),
    "vocabulary 4096": ("tokenizer.vocab_size=4096",),
    "dropout .1": ("model.dropout=0.1",),
    "dropout .2": ("model.dropout=0.2",),
}
CURVE_FIELDS = ("step", "tokens", "time_s", "loss", "val_bpb")


def run(
    text: Path,
    *,
    recipe: Path,
    runs: Path,
    seeds: Sequence[int] = (0, 1, 2),
    variants: Sequence[str] = ("recipe",),
    time_limit_s: float | None = None,
    overrides: Sequence[str] = (),
    jobs: int = 1,
) -> dict[str, Any]:
    """Train every variant with every seed and print a table.

    Args:
        text: the whole text; its end is held out.
        recipe: the TOML recipe that the variants change.
        runs: run directories go here, one per variant and seed; an unfinished one is resumed.
        time_limit_s: seconds of updates; None: the recipe's.
        overrides: recipe keys for all.
        jobs: trainings at once, which share the cores; their times then say little.
    Returns:
        results with machine, commit and command, JSON-ready.
    Raises:
        ConfigError: an unknown variant. InputError: a training failed.
    """
    unknown = [name for name in variants if name not in VARIANTS]
    if unknown:
        raise ConfigError("unknown variant", value=unknown, allowed=", ".join(VARIANTS))
    common = [f"data.path={text}", *overrides]
    if time_limit_s is not None:
        common.append(f"train.time_limit_s={time_limit_s}")
    if jobs > 1:
        common.append(f"run.threads={max(1, (os.cpu_count() or 1) // jobs)}")
    results: dict[str, Any] = {}
    rows = [["", "bits per byte", "overlapping", "steps", "tok/s"]]
    tasks = [(variant, seed) for variant in variants for seed in seeds]

    def train(task: tuple[str, int]) -> dict[str, Any]:
        variant, seed = task
        return _train_one(recipe, runs, variant, seed, [*common, *VARIANTS[variant]])

    with ThreadPoolExecutor(jobs) as pool:
        by_task = dict(zip(tasks, pool.map(train, tasks), strict=True))
    for variant in variants:
        trained = [by_task[variant, seed] for seed in seeds]
        spread = Spread.of([found["val_bpb"] for found in trained])
        results[variant] = {
            "changes": [*overrides, *VARIANTS[variant]],
            "val_bpb": spread.to_json(),
            "seeds": dict(zip(map(str, seeds), trained, strict=True)),
        }
        overlapping = Spread.of([found["val_bpb_overlapping"] for found in trained])
        rates = Spread.of([found["rate_tok_s"] for found in trained])
        steps = "/".join(str(found["steps"]) for found in trained)
        rows.append([variant, spread.text(3), overlapping.text(3), steps, rates.text(0)])
    print(table(rows))
    first = _folder(runs, variants[0], seeds[0])
    return with_circumstances(
        {
            "recipe": load_recipe(PretrainRecipe, recipe).model_dump(mode="json"),
            "time_limit_s": time_limit_s,
            "jobs": jobs,
            "baselines_bits_per_byte": _baselines(first),
            "variants": results,
        }
    )


def _folder(runs: Path, variant: str, seed: int) -> Path:
    name = variant.replace(" ", "-").replace(".", "")
    return runs / f"shakespeare-{name}-{seed}"


def _train_one(
    recipe: Path, runs: Path, variant: str, seed: int, changes: Sequence[str]
) -> dict[str, Any]:
    folder = _folder(runs, variant, seed)
    command = [sys.executable, "-m", "cerne", "pretrain", str(recipe), *changes]
    command += [f"run.dir={folder}", f"run.seed={seed}", "--json"]
    if RunDirectory(folder).latest() is not None:
        command.append("--resume")
    elif folder.exists():
        shutil.rmtree(folder)
    say(f"{variant}, seed {seed}: {shlex.join(command[3:5])} ...")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"the training of {variant}, seed {seed} failed", value=done.returncode)
    answer = json.loads(done.stdout.splitlines()[-1])
    records = RunDirectory(folder).read_metrics()
    return {
        "val_bpb": answer["val_bpb"],
        "val_bpb_overlapping": _overlapping(folder, Path(answer["checkpoint"])),
        "steps": answer["step"],
        "tokens": answer["tokens"],
        "time_s": answer["time_s"],
        "rate_tok_s": answer["tokens"] / answer["time_s"] if answer["time_s"] > 0 else 0.0,
        "peak_rss_bytes": max(r.get("peak_rss_bytes", 0) for r in records),
        "curve": [{k: r[k] for k in CURVE_FIELDS if k in r} for r in records],
    }


def _overlapping(folder: Path, checkpoint: Path) -> float:
    """Bits per byte with windows that overlap by half: every target sees half a row or more."""
    recipe = load_recipe(PretrainRecipe, folder / "recipe.toml")
    val = open_prepared(folder / "data" / "tokens").val
    if val is None:
        raise InputError("nothing is held out", value=str(folder), hint="data.val_fraction=0.1")
    score = score_documents(
        load_model(checkpoint),
        held_out_documents(val),
        val.num_bytes,
        start_token=val.eos_token_id,
        seq_len=recipe.train.seq_len,
        stride=max(1, recipe.train.seq_len // 2),
    )
    return score.bits_per_byte


def _baselines(folder: Path) -> Mapping[str, Any]:
    corpus = Corpus(folder / "data" / "text")
    return baselines(corpus.text("val"), corpus.text("train")).to_json()
