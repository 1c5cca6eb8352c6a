"""Tokenizers with the chat templates of well-known model families, for tests."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.special import Roles

TEMPLATES = Path(__file__).parent / "tokenizer" / "templates"
TEXT = [
    "the quick brown fox jumps over the lazy dog. What colour is the ball? The ball is red.",
    "user assistant system tool hello world answer question\n\nYou are a helpful assistant.\n",
    "O cachorro correu para a casa. [INST] <think>\n\n</think>\n\n def f(x):\n    return x + 1\n",
] * 20

# template file -> (control tokens, roles, pattern)
FAMILIES: dict[str, tuple[tuple[str, ...], Roles, str]] = {
    "chatml": (
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        Roles(pad="<|im_end|>", eos="<|im_end|>", end_of_turn="<|im_end|>"),
        "gpt2",
    ),
    "llama3": (
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        Roles(bos="<|begin_of_text|>", eos="<|eot_id|>", end_of_turn="<|eot_id|>", add_bos=True),
        "llama3",
    ),
    "qwen3": (
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        Roles(pad="<|endoftext|>", eos="<|im_end|>", end_of_turn="<|im_end|>"),
        "qwen2",
    ),
    "mistral": (("<s>", "</s>"), Roles(bos="<s>", eos="</s>", add_bos=True), "gpt2"),
    "zephyr": (
        ("<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>"),
        Roles(bos="<s>", eos="</s>"),
        "gpt2",
    ),
    "gemma": (
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        Roles(bos="<bos>", eos="<eos>", end_of_turn="<end_of_turn>", add_bos=True),
        "gpt4",
    ),
    "generation_marks": (
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        Roles(pad="<|endoftext|>", eos="<|endoftext|>", end_of_turn="<|im_end|>"),
        "qwen2",
    ),
}


@functools.cache
def default_tokenizer() -> Tokenizer:
    """Our own kind, with the default template."""
    return Tokenizer.train(TEXT, vocab_size=400, allow_fewer=True, threads=1)


@functools.cache
def family_tokenizer(name: str) -> Tokenizer:
    """A small tokenizer with one family's control tokens and chat template."""
    if name == "default":
        return default_tokenizer()
    specials, roles, pattern = FAMILIES[name]
    plain = Tokenizer.train(
        TEXT, vocab_size=400, pattern=pattern, special_tokens=specials, allow_fewer=True, threads=1
    )
    template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    return with_vocabulary(plain, roles=roles, chat_template=template)


def with_vocabulary(tokenizer: Tokenizer, **changes: Any) -> Tokenizer:
    """The same tokenizer with other roles or another template."""
    return Tokenizer(dataclasses.replace(tokenizer.vocabulary, **changes))


def with_template(template: str) -> Tokenizer:
    """The default tokenizer with another template."""
    return with_vocabulary(default_tokenizer(), chat_template=template)


def chat(*contents: str, system: str | None = None) -> list[dict[str, str]]:
    """Messages: user, assistant, user, ... with these contents."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    return messages if system is None else [{"role": "system", "content": system}, *messages]
