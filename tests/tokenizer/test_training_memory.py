"""The peak memory of training stays under the bound that cerne/tokenizer/training.py states."""

from __future__ import annotations

import json
import subprocess
import sys

MAX_WORDS, MAX_WORD_BYTES, ROUND_BYTES = 1 << 12, 1 << 16, 1 << 22
PIECES = 40  # of 1 MiB with 131,072 words, nearly all distinct

SCRIPT = """
import json, resource, sys
import numpy as np
from cerne.native.trainer import NativeTrainer

max_words, max_word_bytes, pieces = map(int, sys.argv[1:])
limits = {"max_words": max_words, "max_word_bytes": max_word_bytes}
trainer = NativeTrainer("qwen2", 1, limits)
letters = np.random.default_rng(0)

def piece():
    text_T = letters.integers(97, 123, 1 << 20, dtype=np.uint8)
    text_T[::8] = 32
    return text_T.tobytes()

def peak_bytes():
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024

piece()
before = peak_bytes()
for _ in range(pieces):
    trainer.feed(piece())
trainer.end_document()
facts = trainer.statistics()
trainer.train(1000)
print(json.dumps({"peak": peak_bytes() - before, **facts._asdict()}))
"""


def test_peak_memory_is_within_the_stated_bound_on_text_of_ever_new_words() -> None:
    numbers = [str(n) for n in (MAX_WORDS, MAX_WORD_BYTES, PIECES)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *numbers], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    # Unbounded, five million words would take 480 MB in the table of words alone.
    assert found["words"] + found["pruned_words"] > 5_000_000
    assert found["words"] <= MAX_WORDS and found["word_bytes"] <= MAX_WORD_BYTES
    new_words = ROUND_BYTES // 3
    bound = 168 * (MAX_WORDS + new_words) + 4 * MAX_WORD_BYTES + 10 * ROUND_BYTES
    assert bound < 300_000_000
    assert found["peak"] < bound
