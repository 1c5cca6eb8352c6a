"""`cerne bench text`: train on books of three languages, score held-out parts, beside compressors.

The folder holds en_books, pt_books and ru_books (.jsonl.xz, one book a row) and en_wikitext2_test
(.txt.xz). For each language one model is trained by recipes/books.toml in a process of its own;
the recipe holds out the end of the text. Found for each: bits per byte of the held-out part and
(English) of WikiText-2's test text, with bz2, xz and a byte 5-gram model of the same training text,
tokens/s, peak memory, the curve and samples.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cerne.bench.report import table, with_circumstances
from cerne.data.corpus import Corpus
from cerne.engine.session import LanguageModel, load
from cerne.errors import InputError
from cerne.evaluate.baselines import baselines
from cerne.evaluate.bpb import TextFile, read_text_file, score_text
from cerne.progress import say
from cerne.runs import RunDirectory, read_jsonl

WIKITEXT = "en_wikitext2_test.txt.xz"
SAMPLE_SEED = 0
SAMPLE_TOKENS = 80


@dataclass(frozen=True)
class Language:
    """One language's books and the beginnings of its samples."""

    name: str
    books: str
    prompts: tuple[str, ...]
    others: tuple[str, ...] = ()


LANGUAGES = (
    Language("en", "en_books.jsonl.xz", ("It was a", "She looked at him and said"), (WIKITEXT,)),
    Language("pt", "pt_books.jsonl.xz", ("Era uma", "Um dia, o")),
    Language("ru", "ru_books.jsonl.xz", ("Он был", "В это время")),
)


def run(
    folder: Path,
    *,
    recipe: Path,
    runs: Path,
    minutes: float = 5.0,
    languages: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Train and score the languages and print a table.

    Args:
        folder: where the texts are.
        recipe: the TOML recipe of every training.
        runs: run directories go to runs/real-text-LANGUAGE, which must not exist.
        minutes: of training per language.
        languages: names out of LANGUAGES; None: all.
        overrides: recipe keys for every language.
    Returns:
        results by language with machine, commit and command, JSON-ready.
    Raises:
        InputError: an unknown language, a missing text, or a training run that failed.
    """
    chosen = _chosen(languages)
    for language in chosen:
        for name in (language.books, *language.others):
            if not (folder / name).is_file():
                hint = f"{folder} must hold it; --only names the languages to run"
                raise InputError("a text is missing", value=name, hint=hint)
    found = {}
    for language in chosen:
        run_dir = runs / f"real-text-{language.name}"
        seconds = f"train.time_limit_s={minutes * 60:g}"
        prompts = "train.sample_prompts=" + json.dumps(language.prompts[:1], ensure_ascii=False)
        keys = (seconds, prompts, "train.sample_every=500", *overrides)
        _train(recipe, folder / language.books, run_dir, keys)
        found[language.name] = _score(language, folder, run_dir)
        say(f"{language.name}: {json.dumps(found[language.name]['held_out'])}")
    results = {"minutes": minutes, "recipe": recipe.name, "languages": found}
    print(result_table(results))
    return with_circumstances(results)


def _chosen(names: Sequence[str] | None) -> tuple[Language, ...]:
    known = [language.name for language in LANGUAGES]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError("unknown language", value=unknown, allowed=", ".join(known))
    return tuple(found for found in LANGUAGES if names is None or found.name in names)


def _train(recipe: Path, books: Path, run: Path, keys: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "cerne", "pretrain", str(recipe), f"data.path={books}"]
    done = subprocess.run([*command, f"run.dir={run}", *keys], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise InputError("training failed; its message is above", value=done.returncode)


def _score(language: Language, folder: Path, run: Path) -> dict[str, Any]:
    model = load(run)
    corpus = Corpus(run / "data" / "text")
    seen = corpus.text("train")
    documents = tuple(corpus.document("val", i) for i in range(corpus.num_documents("val")))
    held_out = TextFile("held-out", documents)
    records = RunDirectory(run).read_metrics()
    updates = [r for r in records if r["step"] > 0]
    config = model.network.config
    result: dict[str, Any] = {
        "books": language.books,
        "train_bytes": len(seen),
        "vocab_size": config.vocab_size,
        "parameters": config.num_parameters(),
        "steps": updates[-1]["step"],
        "train_tokens": updates[-1]["tokens"],
        "train_time_s": round(updates[-1]["time_s"], 1),
        "rate_tok_s": round(statistics.median(r["rate_tok_s"] for r in updates), 1),
        "peak_rss_bytes": max(r["peak_rss_bytes"] for r in updates),
        "curve": [
            {"step": r["step"], "time_s": r.get("time_s", 0.0), "val_bpb": r["val_bpb"]}
            for r in records
            if "val_bpb" in r
        ],
        "held_out": _beside(model, held_out, seen),
        "samples": _samples(model, language),
        "samples_during_training": read_jsonl(run / "samples.jsonl"),
    }
    for name in language.others:
        result[name] = _beside(model, read_text_file(str(folder / name)), seen)
    return result


def _beside(model: LanguageModel, text: TextFile, seen: bytes) -> dict[str, Any]:
    """Bits per byte of the model and of everything that needs no network."""
    score = score_text(model, text)
    whole = score.model_dump(mode="json", exclude={"name"})
    known = baselines(text.joined(), seen).to_json()
    return {**whole, "baselines": known}


def _samples(model: LanguageModel, language: Language) -> list[dict[str, str]]:
    prompts = language.prompts
    done = model.batch(prompts, max_tokens=SAMPLE_TOKENS, temperature=0.8, seed=SAMPLE_SEED)
    return [{"prompt": p, "text": d.text} for p, d in zip(prompts, done, strict=True)]


def result_table(results: dict[str, Any]) -> str:
    """Bits per byte of every scored text beside the baselines."""
    rows = [["text", "cerne", "5-gram", "bz2 after", "xz after", "bz2", "xz", "tok/s"]]
    for name, language in results["languages"].items():
        scored = {"held-out": language["held_out"]}
        scored |= {k: v for k, v in language.items() if isinstance(v, dict) and "baselines" in v}
        scored.pop("held_out")
        for text, score in scored.items():
            known = score["baselines"]
            columns = ("ngram", "bz2_after", "xz_after", "bz2", "xz")
            figures = [f"{known[column]:.3f}" for column in columns]
            rate = f"{language['rate_tok_s']:.0f}"
            rows.append([f"{name} {text}", f"{score['bits_per_byte']:.3f}", *figures, rate])
    return table(rows)
