"""The tokenizer of a model as GGUF metadata: tokens, types, merges, special ids, chat template.

In: a `Tokenizer` and the number of rows of the embedding. Out: `Field`s from which llama.cpp, and
cerne/tokenizer/gguf.py, give the same ids. Leaves out vocabularies of pieces, which no model
directory has.
"""

from __future__ import annotations

import re

from cerne.errors import ModelError
from cerne.quantize.source import Field
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.byte_level import to_characters
from cerne.tokenizer.vocabulary import Vocabulary

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
# llama.cpp's name of a pre-tokenizer, by pattern and ignore_merges.
_PRE = {
    ("gpt2", False): "gpt-2",
    ("smollm", False): "smollm",
    ("qwen2", False): "qwen2",
    ("llama3", True): "llama-bpe",
    ("llama3", False): "dbrx",
}
# Training marks what the assistant writes with this pair, which other template engines do not know.
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")


def tokenizer_fields(tokenizer: Tokenizer, vocab_size: int) -> tuple[list[Field], list[str]]:
    """The metadata, and notes about what they cannot say.

    Args:
        vocab_size: rows of the embedding; ids beyond the tokenizer's become unused tokens.

    Raises:
        ModelError: GGUF files have no name for this pre-tokenizer, or there are too few rows.
    """
    vocabulary = tokenizer.vocabulary
    pre = _PRE.get((vocabulary.pattern, vocabulary.ignore_merges))
    if pre is None:
        raise ModelError(
            "GGUF files have no name for this pre-tokenizer",
            value=f"{vocabulary.pattern}, ignore_merges={vocabulary.ignore_merges}",
            allowed=", ".join(f"{p} (ignore_merges={m})" for p, m in _PRE),
        )
    if tokenizer.vocab_size > vocab_size:
        raise ModelError(
            "the tokenizer has more ids than the embedding has rows",
            value=tokenizer.vocab_size,
            allowed=f"at most {vocab_size}",
        )
    texts, types = _tokens(vocabulary, vocab_size)
    merges = [f"{texts[a]} {texts[b]}" for a, b in vocabulary.merges.tolist()]
    fields = [
        Field("tokenizer.ggml.model", "gpt2", "string"),
        Field("tokenizer.ggml.pre", pre, "string"),
        Field("tokenizer.ggml.tokens", texts, "string", is_list=True),
        Field("tokenizer.ggml.token_type", types, "int32", is_list=True),
        Field("tokenizer.ggml.merges", merges, "string", is_list=True),
        *_special_ids(tokenizer),
    ]
    if tokenizer.chat_template is not None:
        template = _GENERATION.sub(r"{#\1 \2#}", tokenizer.chat_template)
        fields.append(Field("tokenizer.chat_template", template, "string"))
    notes = []
    if vocabulary.normalizer == "nfc":
        notes.append("GGUF files cannot ask for Unicode form C: text that is not in it differs")
    return fields, notes


def _tokens(vocabulary: Vocabulary, vocab_size: int) -> tuple[list[str], list[int]]:
    added = {token.id: token for token in vocabulary.added}
    texts, types = [], []
    for i in range(vocab_size):
        raw = vocabulary.token_bytes[i] if i < len(vocabulary.token_bytes) else b""
        if i in added:
            texts.append(added[i].content)
            types.append(_CONTROL if added[i].special else _USER_DEFINED)
        elif raw:
            texts.append(to_characters(raw))
            types.append(_NORMAL)
        else:
            texts.append(f"[PAD{i}]")
            types.append(_UNUSED)
    return texts, types


def _special_ids(tokenizer: Tokenizer) -> list[Field]:
    ids = {
        "bos": tokenizer.bos_token_id,
        "eos": tokenizer.eos_token_id,
        "eot": tokenizer.end_of_turn_id,
        "padding": tokenizer.pad_token_id,
    }
    found = [
        Field(f"tokenizer.ggml.{name}_token_id", i, "uint32")
        for name, i in ids.items()
        if i is not None
    ]
    roles = tokenizer.vocabulary.roles
    return [
        *found,
        Field("tokenizer.ggml.add_bos_token", roles.add_bos, "bool"),
        Field("tokenizer.ggml.add_eos_token", roles.add_eos, "bool"),
    ]
