"""`cerne bench tokenizer`: encoding and training speed beside the peers, on one core in one run.

Encoding is measured on documents of 4 Ki characters: "unseen" is the first pass of a fresh
tokenizer after a warm-up on other documents, "again" the second pass over the same documents.
Training is GPT-2 pre-tokenization to 8,192 tokens. Ids and merges are compared with those of
`tokenizers`. Leaves out: many threads, decoding.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cerne.bench import peers
from cerne.bench.corpus import mixed_text
from cerne.bench.report import (
    Spread,
    alternate,
    pinned_to_one_core,
    silenced,
    table,
    timed_s,
    with_circumstances,
)
from cerne.device import peak_rss_bytes
from cerne.errors import InputError
from cerne.progress import Progress, say
from cerne.tokenizer.bpe import Tokenizer

REFERENCE = "tokenizers"
VOCABULARIES = (("8k qwen2", 8192, "qwen2"), ("32k gpt2", 32768, "gpt2"))
TRAIN_VOCAB_SIZE = 8192
RUN_CHARACTERS = ("a", " ", "0", "\n", "日", "👍")
_DOCUMENT_CHARS = 4096
_WARM_SHARE = 0.05
_SLOW_SHARE = 0.2


def run(
    files: Sequence[str] = (), size_bytes: int = 5_000_000, repetitions: int = 5
) -> dict[str, Any]:
    """Measures everything and prints tables.

    Args:
        files: text files for six tenths of the corpus; without any it is the built-in world.
        size_bytes: of the corpus.
        repetitions: of every timing; at least 1, 5 for numbers to publish.
    Returns:
        the results with machine, commit and command, JSON-ready.
    Raises:
        InputError: an argument is out of range.
    """
    if repetitions < 1 or size_bytes < 100_000:
        raise InputError(
            "the benchmark is too small",
            value={"repetitions": repetitions, "size_bytes": size_bytes},
            allowed="repetitions >= 1 and at least 100,000 bytes",
        )
    # Thread pools of the peers read these when they start.
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text, sizes = mixed_text(files, size_bytes)
    with tempfile.TemporaryDirectory() as scratch, pinned_to_one_core() as core:
        folders = {name: Path(scratch) / name.split()[0] for name, _, _ in VOCABULARIES}
        for name, vocab_size, pattern in VOCABULARIES:
            trained = Tokenizer.train(
                [text.encode()], vocab_size, pattern, threads=1, allow_fewer=True
            )
            trained.save(folders[name])
        results: dict[str, Any] = {
            "corpus": {"bytes": len(text.encode()), "sources": sizes},
            "core": core,
            "threads": 1,
            "versions": {e.name: peers.version(e.name) for e in peers.encoders()}
            | {t.name: peers.version(t.name) for t in peers.trainers()},
            "encode": {
                name: measure_encoding(folder, text, repetitions, name)
                for name, folder in folders.items()
            },
            "train": measure_training(text, repetitions),
            "runs": measure_runs(folders[VOCABULARIES[0][0]]),
        }
    print_results(results)
    return with_circumstances(results)


def measure_encoding(folder: Path, text: str, repetitions: int, label: str) -> dict[str, Any]:
    """MB/s of each encoder on unseen and on seen documents, and how many documents are exact."""
    documents = [text[i : i + _DOCUMENT_CHARS] for i in range(0, len(text), _DOCUMENT_CHARS)]
    warm = documents[: max(1, int(len(documents) * _WARM_SHARE))]
    measured = documents[len(warm) :]
    encoders = peers.encoders()
    parts = {
        e.name: measured[: max(1, int(len(measured) * (_SLOW_SHARE if e.slow else 1)))]
        for e in encoders
    }
    megabytes = {name: sum(len(d.encode()) for d in part) / 1e6 for name, part in parts.items()}
    seconds: dict[str, list[tuple[float, float]]] = {e.name: [] for e in encoders}

    def pass_over(encode: peers.Encode, part: Sequence[str]) -> Callable[[], None]:
        def work() -> None:
            for document in part:
                encode(document)

        return work

    def once(encoder: peers.Encoder, bar: Progress) -> Callable[[], float]:
        def work() -> float:
            encode = encoder.load(folder)
            pass_over(encode, warm)()
            part = parts[encoder.name]
            first_s = timed_s(pass_over(encode, part))
            second_s = timed_s(pass_over(encode, part))
            seconds[encoder.name].append((first_s, second_s))
            bar.advance()
            return first_s

        return work

    with Progress(f"encoding, {label}", total=repetitions * len(encoders), unit="run") as bar:
        alternate({e.name: once(e, bar) for e in encoders}, repetitions)
    exact = _exact_documents(folder, measured, encoders)
    return {
        e.name: {
            "unseen_mb_s": Spread.of([megabytes[e.name] / a for a, _ in seconds[e.name]]).to_json(),
            "again_mb_s": Spread.of([megabytes[e.name] / b for _, b in seconds[e.name]]).to_json(),
            "exact_documents": exact.get(e.name),
            "documents": len(measured),
            "megabytes": round(megabytes[e.name], 3),
        }
        for e in encoders
    }


def _exact_documents(
    folder: Path, documents: Sequence[str], encoders: Sequence[peers.Encoder]
) -> dict[str, int]:
    by_name = {e.name: e for e in encoders}
    if REFERENCE not in by_name:
        say(f"note: {REFERENCE} is not installed, so ids are not compared")
        return {}
    reference = by_name[REFERENCE]
    encode = reference.load(folder)
    expected = [reference.ids(encode(document)) for document in documents]
    exact: dict[str, int] = {}
    for encoder in encoders:
        encode = encoder.load(folder)
        exact[encoder.name] = sum(
            encoder.ids(encode(document)) == ids
            for document, ids in zip(documents, expected, strict=True)
        )
    return exact


def measure_training(text: str, repetitions: int) -> dict[str, Any]:
    """Seconds and peak memory of each trainer, and whether the merges are the reference's."""
    trainers = peers.trainers()

    def once(trainer: peers.Trainer, bar: Progress) -> Callable[[], float]:
        def work() -> float:
            with silenced():
                taken_s = timed_s(lambda: trainer.train(text, TRAIN_VOCAB_SIZE))
            bar.advance()
            return taken_s

        return work

    with Progress("training", total=repetitions * len(trainers), unit="run") as bar:
        seconds = alternate({t.name: once(t, bar) for t in trainers}, repetitions)
    with silenced():
        merges = {t.name: t.merges(t.train(text, TRAIN_VOCAB_SIZE)) for t in trainers}
    expected = merges.get(REFERENCE)
    memory = _training_memory(text, [t.name for t in trainers])
    return {
        t.name: {
            "seconds": Spread.of(seconds[t.name]).to_json(),
            "same_merges": None
            if expected is None or merges[t.name] is None
            else merges[t.name] == expected,
            "peak_rss_above_text_bytes": memory[t.name],
        }
        for t in trainers
    }


def _training_memory(text: str, names: Sequence[str]) -> dict[str, int]:
    context = multiprocessing.get_context("spawn")
    memory = {}
    for name in names:
        with context.Pool(1) as pool:
            memory[name] = pool.apply(train_in_fresh_process, (name, text))
    return memory


def train_in_fresh_process(name: str, text: str) -> int:
    """Bytes by which training raises this process's peak memory; the package is loaded before."""
    trainer = next(t for t in peers.trainers() if t.name == name)
    with silenced():
        trainer.train(text[:20_000], 300)
        before = peak_rss_bytes()
        trainer.train(text, TRAIN_VOCAB_SIZE)
    return peak_rss_bytes() - before


def measure_runs(folder: Path) -> dict[str, Any]:
    """Milliseconds for 1 MB of one character, for each encoder and character; None: it failed."""
    texts = {
        f"U+{ord(char):04X}": char * (1_000_000 // len(char.encode())) for char in RUN_CHARACTERS
    }
    encoders = peers.encoders()
    result: dict[str, dict[str, float | None]] = {e.name: {} for e in encoders}
    with Progress("1 MB of one character", total=len(texts) * len(encoders), unit="run") as bar:
        for encoder in encoders:
            encode = encoder.load(folder)
            encode("warm up")
            for name, run_text in texts.items():
                result[encoder.name][name] = _run_ms(encode, run_text)
                bar.advance()
    return result


def _run_ms(encode: peers.Encode, text: str) -> float | None:
    try:
        with silenced():
            return round(timed_s(lambda: encode(text)) * 1e3, 2)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of a Rust package is no Exception
        return None


def print_results(results: dict[str, Any]) -> None:
    """The tables for people."""
    for name, measured in results["encode"].items():
        print(f"\nencode, {name}, {results['corpus']['bytes'] / 1e6:.1f} MB, one core, MB/s")
        best = _best_peer({k: v["unseen_mb_s"]["median"] for k, v in measured.items()}, max)
        rows = [["library", "unseen", "again", "ours/unseen", "exact"]]
        for peer, row in measured.items():
            unseen, again = Spread(**row["unseen_mb_s"]), Spread(**row["again_mb_s"])
            ratio = measured["cerne"]["unseen_mb_s"]["median"] / unseen.median
            exact = "-" if row["exact_documents"] is None else str(row["exact_documents"])
            rows.append(
                [
                    f"{peer}{' (fastest peer)' if peer == best else ''}",
                    unseen.text(),
                    again.text(),
                    f"{ratio:.2f}x",
                    f"{exact}/{row['documents']}",
                ]
            )
        print(table(rows))
    print(f"\ntrain {TRAIN_VOCAB_SIZE} tokens, gpt2 pre-tokenization, one core")
    trained = results["train"]
    best = _best_peer({k: v["seconds"]["median"] for k, v in trained.items()}, min)
    rows = [["library", "ms", "theirs/ours", "same merges", "peak MB above text"]]
    for peer, row in trained.items():
        taken = {k: v * (1 if k == "repetitions" else 1e3) for k, v in row["seconds"].items()}
        rows.append(
            [
                f"{peer}{' (fastest peer)' if peer == best else ''}",
                Spread(**taken).text(),
                f"{row['seconds']['median'] / trained['cerne']['seconds']['median']:.2f}x",
                {None: "-", True: "yes", False: "no"}[row["same_merges"]],
                f"{row['peak_rss_above_text_bytes'] / 1e6:.0f}",
            ]
        )
    print(table(rows))
    print("\n1 MB of one character, ms")
    names = list(results["runs"]["cerne"])
    rows = [["library", *names]]
    for peer, row in results["runs"].items():
        rows.append([peer, *("failed" if row[n] is None else f"{row[n]:.1f}" for n in names)])
    print(table(rows))


def _best_peer(medians: dict[str, float], choose: Callable[[Sequence[float]], float]) -> str | None:
    others = {name: value for name, value in medians.items() if name != "cerne"}
    if not others:
        return None
    wanted = choose(list(others.values()))
    return next(name for name, value in others.items() if value == wanted)
