"""What GGUF files call things: pre-tokenizers (`tokenizer.ggml.pre`) and tokens that are control
tokens whatever the file says. Names and their meaning are llama.cpp's.

Left out: pre-tokenizers whose expression is none of ours (`default`, falcon, deepseek, tekken,
gpt-4o, qwen35, ...): a near miss would give other ids without a word.
"""

from __future__ import annotations

from typing import NamedTuple

from cerne.errors import TokenizerError, nearest
from cerne.tokenizer.special import END_OF_TURN_NAMES


class PreTokenizer(NamedTuple):
    """What a name stands for.

    Attributes:
        pattern: one of cerne.native.tokenizer.PATTERNS.
        ignore_merges: a pre-token that is a whole token is emitted as it is.
        add_bos: what holds when the file does not say it.
    """

    pattern: str
    ignore_merges: bool = False
    add_bos: bool = False


_GPT2 = PreTokenizer("gpt2")
_DIGITS = PreTokenizer("smollm")
_LLAMA3 = PreTokenizer("llama3", ignore_merges=True, add_bos=True)
_LLAMA3_MERGED = PreTokenizer("llama3")
_GLM4 = PreTokenizer("llama3", ignore_merges=True)
_QWEN2 = PreTokenizer("qwen2")

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **dict.fromkeys(("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo"), _GPT2),
    **dict.fromkeys(("jais", "trillion", "granite-docling", "exaone4"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS),
    **dict.fromkeys(("exaone", "minerva-7b", "mellum2"), _DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1"), _LLAMA3),
    **dict.fromkeys(("pixtral", "midm-2.0", "lfm2"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), _LLAMA3_MERGED),
    **dict.fromkeys(("glm4", "glm5"), _GLM4),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2"), _QWEN2),
    **dict.fromkeys(("hunyuan", "solar-open", "megrez", "grok-2"), _QWEN2),
}

# Some files mark these as plain tokens, and any text could then end a turn.
ALWAYS_CONTROL = frozenset(END_OF_TURN_NAMES) | {
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<|im_start|>", "<start_of_turn>",
    "<|return|>", "<|call|>", "<end_of_utterance>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
}  # fmt: skip


def pre_tokenizer(name: str | None) -> PreTokenizer:
    """What `tokenizer.ggml.pre` stands for.

    Raises:
        TokenizerError: it is missing or has no pattern here.
    """
    if name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    raise TokenizerError(
        "the file names no pre-tokenizer" if name is None else "the pre-tokenizer is not supported",
        value=name,
        allowed=", ".join(sorted(PRE_TOKENIZERS)),
        hint="convert the model again" if name is None else nearest(name, PRE_TOKENIZERS),
    )
