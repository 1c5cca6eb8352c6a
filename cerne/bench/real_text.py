"""Real text: train on books of three languages, score held-out parts, beside compressors.

    python -m cerne.bench.real_text FOLDER --minutes 5

FOLDER holds en_books, pt_books and ru_books (.jsonl.xz, one book a row) and en_wikitext2_test
(.txt.xz). For each language one model is trained by recipes/books.toml in a process of its own;
the recipe holds out the end of the text. Written to docs/results/real_text.json: bits per byte of
the held-out part and (English) of WikiText-2's test text, with bz2, xz and a byte 5-gram model of
the same training text, tokens/s, peak memory, the curve and samples.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cerne.bench.report import table, with_circumstances, write_results
from cerne.data.corpus import Corpus
from cerne.engine.session import LanguageModel, load
from cerne.errors import CerneError, InputError
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

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def run_real_text(
    folder: Path,
    runs: Path,
    minutes: float,
    recipe: Path,
    languages: tuple[Language, ...] = LANGUAGES,
    overrides: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Train and score all languages.

    Args:
        folder: where the texts are.
        runs: run directories go to runs/real-text-LANGUAGE, which must not exist.
        minutes: of training per language.
        overrides: recipe keys for every language.
    Returns:
        Results by language, JSON-ready.
    Raises:
        InputError: a text is missing, or a training run failed.
    """
    for language in languages:
        for name in (language.books, *language.others):
            if not (folder / name).is_file():
                raise InputError("a text is missing", value=name, hint="see the first lines here")
    found = {}
    for language in languages:
        run = runs / f"real-text-{language.name}"
        seconds = f"train.time_limit_s={minutes * 60:g}"
        prompts = "train.sample_prompts=" + json.dumps(language.prompts[:1], ensure_ascii=False)
        keys = (seconds, prompts, "train.sample_every=500", *overrides)
        _train(recipe, folder / language.books, run, keys)
        found[language.name] = _score(language, folder, run)
        say(f"{language.name}: {json.dumps(found[language.name]['held_out'])}")
    return {"minutes": minutes, "recipe": recipe.name, "languages": found}


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
    config = model.engine.model.config
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


@app.command()
def real_text(
    folder: Path = typer.Argument(..., help="Holds the books and WikiText-2's test text."),
    minutes: float = typer.Option(5.0, "--minutes", help="Training time of each language."),
    only: str = typer.Option(None, "--only", metavar="LANGUAGES", help="For example pt or en,ru."),
    runs: Path = typer.Option(Path("runs"), "--runs", help="Where the run directories go."),
    recipe: Path = typer.Option(Path("recipes/books.toml"), "--recipe", help="Of the training."),
    out: Path = typer.Option(Path("docs/results/real_text.json"), "--out", help="The result file."),
    overrides: list[str] = typer.Option(None, "--set", metavar="KEY=VALUE", help="Recipe keys."),
) -> None:
    """Train on books in three languages and score their held-out ends and WikiText-2's test."""
    wanted = only.split(",") if only is not None else [found.name for found in LANGUAGES]
    chosen = tuple(language for language in LANGUAGES if language.name in wanted)
    if len(chosen) != len(wanted):
        raise InputError("unknown language", value=only, allowed="en, pt, ru")
    keys = tuple(overrides) if overrides is not None else ()
    results = with_circumstances(run_real_text(folder, runs, minutes, recipe, chosen, keys))
    write_results(out, results)
    print(result_table(results))


if __name__ == "__main__":
    try:
        app()
    except CerneError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
