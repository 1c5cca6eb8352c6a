"""What the tokenizer oracle tests share: public vocabularies, `tokenizers` twins, fuzzed text.

A vocabulary is (token_bytes, merges, pattern); `reference` makes the `tokenizers` object that has
the same vocabulary, merges and pre-tokenization.
"""

from __future__ import annotations

import json
import lzma
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# cl100k_base as tiktoken writes it, and for the engine of `tokenizers`, where {1,3}+ repeats.
TIKTOKEN_GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
GPT4 = TIKTOKEN_GPT4.replace(r"\p{N}{1,3}+", r"\p{N}{1,3}")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE vocabulary; special tokens have empty bytes."""

    token_bytes: list[bytes]
    merges: list[tuple[int, int]]
    pattern: str


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable character of each byte, as in openai/gpt-2 encoder.py."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {
        byte: chr(256 + index) for index, byte in enumerate(rest)
    }


def pre_tokenizer(pattern: str) -> Any:
    """The pre-tokenizer of `tokenizers` that `pattern` names, before the byte alphabet."""
    if pattern == "gpt2":
        return pre_tokenizers.Split(Regex(GPT2), "isolated")
    if pattern == "smollm":
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.Split(Regex(GPT2), "isolated"),
            ]
        )
    regex = {"llama3": LLAMA3, "gpt4": GPT4, "qwen2": QWEN2}[pattern]
    return pre_tokenizers.Split(Regex(regex), "isolated")


def reference(vocabulary: Vocabulary, *, ignore_merges: bool = False) -> Tokenizer:
    """The `tokenizers` object with this vocabulary. Special tokens are left out."""
    alphabet = byte_alphabet()
    names = ["".join(alphabet[byte] for byte in token) for token in vocabulary.token_bytes]
    model = models.BPE(
        vocab={name: index for index, name in enumerate(names) if name},
        merges=[(names[left], names[right]) for left, right in vocabulary.merges],
        ignore_merges=ignore_merges,
    )
    tokenizer = Tokenizer(model)
    if vocabulary.pattern in ("gpt2", "smollm"):
        steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
        if vocabulary.pattern == "smollm":
            steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    else:
        steps = [
            pre_tokenizer(vocabulary.pattern),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    return tokenizer


def from_names(names: list[str], merges: list[str], pattern: str) -> Vocabulary:
    """A vocabulary from printable names; names outside the byte alphabet are special tokens."""
    to_byte = {char: byte for byte, char in byte_alphabet().items()}
    ids = {name: index for index, name in enumerate(names)}
    pairs = [(ids[left], ids[right]) for left, _, right in (m.partition(" ") for m in merges)]
    reachable = {ids[names[left] + names[right]] for left, right in pairs}
    token_bytes = [
        bytes(to_byte[char] for char in name)
        if (len(name) == 1 and name in to_byte) or index in reachable
        else b""
        for index, name in enumerate(names)
    ]
    return Vocabulary(token_bytes, pairs, pattern)


def gpt2(shared: Path) -> Vocabulary:
    """GPT-2 from OpenAI's two files."""
    models_dir = shared / "data" / "models"
    with lzma.open(models_dir / "gpt2_encoder.json.xz", "rt", encoding="utf-8") as file:
        ids = json.load(file)
    with lzma.open(models_dir / "gpt2_vocab.bpe.xz", "rt", encoding="utf-8") as file:
        merges = file.read().split("\n")[1:-1]
    return from_names(sorted(ids, key=ids.__getitem__), merges, "gpt2")


def from_gguf(path: Path, pattern: str) -> Vocabulary:
    """The vocabulary inside a GGUF file (xz-packed or plain)."""
    import gguf

    reader = gguf.GGUFReader(str(path))

    def strings(key: str) -> list[str]:
        field = reader.fields[key]
        return [bytes(field.parts[index]).decode("utf-8") for index in field.data]

    return from_names(strings("tokenizer.ggml.tokens"), strings("tokenizer.ggml.merges"), pattern)


def qwen2(shared: Path, scratch: Path) -> Vocabulary:
    """Qwen2 from llama.cpp's vocabulary-only GGUF."""
    unpacked = scratch / "qwen2.gguf"
    packed = shared / "data" / "models" / "ggml-vocab-qwen2.gguf.xz"
    unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
    return from_gguf(unpacked, "qwen2")


def corpus_texts(path: Path) -> list[str]:
    """The texts of one corpus: the lines' "text" or "story" of JSONL, else the whole file."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        content = file.read()
    if ".jsonl" not in path.name:
        return [content]
    rows = [json.loads(line) for line in content.splitlines() if line]
    return [str(row["text"] if "text" in row else row["story"]) for row in rows]


_CONTRACTIONS = ["'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'\u017f", "'", "''", "'x"]
_SPACES = [
    *[" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", " \t ", "\r", "\x0b", "\x0c"],
    *["\x85", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff"],
]
_SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F),
    (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF),
    (0x2000, 0x206F), (0x2070, 0x209F), (0x2150, 0x218F), (0x2190, 0x22FF), (0x3040, 0x30FF),
    (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF), (0x1E900, 0x1E95F), (0x20000, 0x200FF), (0xE0100, 0xE01EF), (0x660, 0x669),
]  # fmt: skip
_WORDS = [
    "the",
    "of",
    "and",
    "hello",
    "World",
    "THE",
    "print",
    "return",
    "não",
    "coração",
    "привет",
    "мир",
    "你好",
    "日本語",
    "हिन्दी",
]
_ASCII_MARKS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'


def fuzzed(rng: random.Random) -> str:
    """One hostile string: scripts, white space, contractions, digits, marks, emoji, controls."""
    kinds = [
        lambda: rng.choice(_CONTRACTIONS),
        lambda: rng.choice(_SPACES),
        lambda: " ",
        lambda: rng.choice(_WORDS),
        lambda: " " + rng.choice(_WORDS),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 12))),
        lambda: rng.choice(_ASCII_MARKS) * rng.randrange(1, 4),
        lambda: chr(rng.randrange(0x20)) * rng.randrange(1, 3),
        lambda: "".join(
            chr(rng.randint(*rng.choice(_SCRIPTS))) for _ in range(rng.randrange(1, 9))
        ),
        lambda: "".join(
            chr(rng.randint(*span)) for span in [rng.choice(_SCRIPTS)] for _ in range(6)
        ),
        lambda: rng.choice("\U0001f468\U0001f469") + "\u200d\U0001f4bb\ufe0f",
        lambda: rng.choice("aA b1.\n\u00e9\u0430") * rng.randrange(1, 70),
    ]
    return "".join(rng.choice(kinds)() for _ in range(rng.randrange(1, 24)))
