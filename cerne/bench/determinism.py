"""Whether the native engine gives the same bits however it is run.

For each model, one greedy text is generated; then the same tokens are run again under other thread
counts, prompt chunks, batches with random neighbours, forks of a cached prefix and instruction
sets, and the SHA-256 of all logits is compared. In: models. Out: a JSON-ready dictionary and a
table. Leaves out speed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cerne.bench.report import table
from cerne.engine.interface import Sequences
from cerne.engine.native_engine import NativeEngine
from cerne.engine.session import LanguageModel, load
from cerne.errors import InputError
from cerne.native.model import isa
from cerne.progress import Progress

PROMPT = "The history of the town begins with a river. "
ISAS = ("scalar", "avx2")
THREADS = (1, 2, 3, 8)
CHUNKS = (1, 16, 64, 512)
BATCHES = (2, 7, 16)
ISA_TOKENS = 64  # the scalar kernels are the specification, not fast
ROWS_AT_ONCE = 512
NAN = np.uint32(0x7FC00000)


class LogitsDigest:
    """SHA-256 over rows of logits, little-endian, with every NaN the same."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, logits_NV: NDArray[np.float32]) -> None:
        """Append rows in order."""
        bits = np.where(np.isnan(logits_NV), NAN, logits_NV.view(np.uint32))
        self._sha.update(np.ascontiguousarray(bits, dtype="<u4").data)

    @property
    def value(self) -> str:
        """Hexadecimal digest of all rows."""
        return self._sha.hexdigest()


def generate(engine: NativeEngine, prompt: Sequence[int], tokens: int) -> tuple[list[int], str]:
    """A greedy text: all ids, and the digest of the logits after every one of them."""
    digest = LogitsDigest()
    ids = list(prompt)
    total = len(prompt) + tokens
    with engine.open(1, total) as pool, Progress("generate", total=tokens, unit="tok") as bar:
        sequence = pool.start()
        logits = pool.prefill(sequence, ids, "all")
        assert logits is not None
        digest.add(logits)
        while len(ids) < total:
            ids.append(int(np.argmax(logits[-1])))
            logits = pool.decode([sequence], ids[-1:])
            digest.add(logits)
            bar.advance(1)
    return ids, digest.value


def read_in_chunks(engine: NativeEngine, ids: Sequence[int]) -> str:
    """Digest of reading the ids as one prompt, cut as the engine cuts prompts."""
    digest = LogitsDigest()
    with engine.open(1, len(ids)) as pool:
        sequence = pool.start()
        for begin in range(0, len(ids), ROWS_AT_ONCE):
            logits = pool.prefill(sequence, ids[begin : begin + ROWS_AT_ONCE], "all")
            assert logits is not None
            digest.add(logits)
    return digest.value


def read_in_a_batch(engine: NativeEngine, ids: Sequence[int], batch: int, seed: int) -> str:
    """Digest of stepping through the ids among `batch` - 1 sequences of random tokens."""
    draw = random.Random(seed)
    digest = LogitsDigest()
    with engine.open(batch, len(ids)) as pool:
        mine = pool.start()
        others = [pool.start() for _ in range(batch - 1)]
        for other in others:
            _wander(pool, other, draw, engine.vocab_size, draw.randrange(1, len(ids) // 2))
        for token in ids:
            for i, other in enumerate(others):
                if pool.length(other) == pool.capacity:
                    pool.drop(other)
                    others[i] = pool.start()
            beside = [other for other in others if draw.random() < 0.9]
            place = draw.randrange(len(beside) + 1)
            sequences = [*beside[:place], mine, *beside[place:]]
            tokens = [draw.randrange(engine.vocab_size) for _ in sequences]
            tokens[place] = token
            digest.add(pool.decode(sequences, tokens)[place])
    return digest.value


def _wander(pool: Sequences, sequence: int, draw: random.Random, vocab: int, length: int) -> None:
    pool.prefill(sequence, [draw.randrange(vocab) for _ in range(length)], "none")


def read_from_a_fork(engine: NativeEngine, ids: Sequence[int]) -> str:
    """Digest where the second half continues a fork of a cached prefix that has gone elsewhere."""
    half = len(ids) // 2 + 5
    digest = LogitsDigest()
    with engine.open(2, len(ids)) as pool:
        cached = pool.start()
        head = pool.prefill(cached, ids[:half], "all")
        taken = pool.fork(cached)
        _wander(pool, cached, random.Random(5), engine.vocab_size, 20)
        tail = pool.prefill(taken, ids[half:], "all")
        assert head is not None and tail is not None
        digest.add(head)
        digest.add(tail)
    return digest.value


def cases(model: LanguageModel, ids: Sequence[int]) -> Iterator[tuple[str, Callable[[], str]]]:
    """Every way of running that must give the same digest: (name, what computes it)."""
    native = model.engine
    assert isinstance(native, NativeEngine)

    def engine(threads: int, chunk: int = 512) -> NativeEngine:
        return NativeEngine(native.model, threads, context=native.context, prefill_chunk=chunk)

    for threads in THREADS:
        yield f"threads {threads}", partial(read_in_chunks, engine(threads), ids)
    for chunk in CHUNKS:
        yield f"prompt in pieces of {chunk}", partial(read_in_chunks, engine(2, chunk), ids)
    yield "prompt in one piece", partial(read_in_chunks, engine(2, len(ids)), ids)
    yield "prefix from the cache", partial(read_from_a_fork, engine(2), ids)
    for batch in BATCHES:
        yield (
            f"batch of {batch}, random neighbours",
            partial(read_in_a_batch, engine(2), ids, batch, seed=batch),
        )


def digest_in_process(name: str, ids: Sequence[int], isa_name: str) -> dict[str, Any]:
    """The digest as another process computes it on another instruction set."""
    request = json.dumps({"model": name, "ids": list(ids)})
    done = subprocess.run(
        [sys.executable, "-m", "cerne.bench.determinism"],
        input=request,
        env={**os.environ, "CERNE_ISA": isa_name},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise InputError(f"the run with CERNE_ISA={isa_name} failed", value=done.stderr[-300:])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def run(names: Sequence[str], tokens: int, prompt: str = PROMPT) -> dict[str, Any]:
    """Check every model, with fewer tokens where its context is shorter.

    Raises:
        InputError: too few tokens, or a model that does not run natively.
    """
    if tokens < ISA_TOKENS:
        raise InputError("too few tokens", value=tokens, allowed=f"{ISA_TOKENS} or more")
    return {"models": {Path(name).name: _check(name, tokens, prompt) for name in names}}


def _check(name: str, tokens: int, prompt: str) -> dict[str, Any]:
    model = load(name, engine="native")
    native = model.engine
    assert isinstance(native, NativeEngine)
    start = model.tokenizer.encode(prompt)
    tokens = min(tokens, native.context - len(start))
    if tokens < ISA_TOKENS:
        raise InputError(
            "the model's context is too short",
            value=native.context,
            allowed=f"{len(start) + ISA_TOKENS} or more",
        )
    single = NativeEngine(native.model, 1, context=native.context)
    ids, expected = generate(single, start, tokens)
    results = [{"case": f"generated on {isa()}, one thread", "sha256": expected, "same": True}]
    for case, compute in cases(model, ids):
        value = compute()
        print(f"{name}: {case}: {'same' if value == expected else 'DIFFERENT'}", flush=True)
        results.append({"case": case, "sha256": value, "same": value == expected})
    short = ids[:ISA_TOKENS]
    head = digest_in_process(name, short, isa())
    for other in ISAS:
        answer = digest_in_process(name, short, other)
        ran = answer["isa"] == other
        results.append(
            {
                "case": f"CERNE_ISA={other}, first {len(short)} tokens",
                "sha256": answer["sha256"],
                "same": answer["sha256"] == head["sha256"],
                **({} if ran else {"note": f"this machine ran {answer['isa']}"}),
            }
        )
    return {
        "arithmetic": native.arithmetic,
        "tokens": len(ids),
        "sha256": expected,
        "all_same": all(result["same"] for result in results),
        "cases": results,
    }


def result_table(results: dict[str, Any]) -> str:
    """One line for each model and case."""
    rows = [["model", "case", "logits sha256", "same"]]
    for name, found in results["models"].items():
        for result in found["cases"]:
            rows.append(
                [name, result["case"], result["sha256"][:16], "yes" if result["same"] else "NO"]
            )
    return table(rows)


def _answer() -> None:
    """Another process's part: a request on standard input, the digest on standard output."""
    request = json.load(sys.stdin)
    model = load(request["model"], engine="native", threads=2)
    assert isinstance(model.engine, NativeEngine)
    value = read_in_chunks(model.engine, request["ids"])
    print(json.dumps({"isa": isa(), "sha256": value}))


if __name__ == "__main__":
    _answer()
