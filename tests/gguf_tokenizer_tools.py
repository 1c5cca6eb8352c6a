"""Small GGUF files that hold a tokenizer, right and wrong ones."""

from __future__ import annotations

from pathlib import Path

from gguf_tools import BOOL, F32, I32, STRING, U32, array, entry, gguf_bytes

from cerne.tokenizer.byte_level import CHAR_OF_BYTE

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BYTES = [CHAR_OF_BYTE[byte] for byte in range(256)]
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


def write(path: Path, **fields: bytes) -> Path:
    """A file with these metadata entries."""
    path.write_bytes(gguf_bytes(list(fields.values())))
    return path


def key(name: str) -> str:
    """The metadata key of a tokenizer field."""
    return name if name == "tokenizer.chat_template" else f"tokenizer.ggml.{name}"


def bpe_fields() -> dict[str, bytes]:
    """Bytes in order, three merges, `<|im_end|>` (259), `<s>` (260), two user-defined tokens (261,
    262) and one that fills the vocabulary up (263)."""
    extra = ["he", "Ġhe", "hey", "<|im_end|>", "<s>", "[x]", "x]y", "[PAD263]"]
    kinds = [NORMAL] * 259 + [CONTROL, CONTROL, USER_DEFINED, USER_DEFINED, UNUSED]
    return {
        "model": entry(key("model"), STRING, "gpt2"),
        "pre": entry(key("pre"), STRING, "gpt-2"),
        "tokens": array(key("tokens"), STRING, BYTES + extra),
        "token_type": array(key("token_type"), I32, kinds),
        "merges": array(key("merges"), STRING, ["h e", "Ġ he", "he y", "h e"]),
        "bos": entry(key("bos_token_id"), U32, 260),
        "eos": entry(key("eos_token_id"), U32, 259),
        "pad": entry(key("padding_token_id"), U32, 2**32 - 1),
        "template": entry("tokenizer.chat_template", STRING, "{{ messages[0].content }}"),
    }


SPM_PIECES = [
    "<unk>", "<s>", "</s>", *BYTE_PIECES, "\u2581", "h", "e", "y", "he", "\u2581he", "hey",
    "\u00e9", "\u2581\u2581", "[x]", "<end_of_turn>", "a", "ab", "b", "bc", "c",
]  # fmt: skip
SPM_SCORES = [0.0] * 259 + [
    -9.0, -9.0, -9.0, -9.0, -2.0, -1.0, -3.0, -9.0, -4.0, 0.0, 0.0, -9.0, -5.0, -9.0, -5.0, -9.0,
]  # fmt: skip


def spm_fields() -> dict[str, bytes]:
    """The pieces above; `[x]` is user-defined, `<end_of_turn>` control."""
    special = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "[x]": USER_DEFINED}
    special |= {"<end_of_turn>": CONTROL} | dict.fromkeys(BYTE_PIECES, BYTE)
    kinds = [special.get(piece, NORMAL) for piece in SPM_PIECES]
    return {
        "model": entry(key("model"), STRING, "llama"),
        "tokens": array(key("tokens"), STRING, SPM_PIECES),
        "scores": array(key("scores"), F32, SPM_SCORES),
        "token_type": array(key("token_type"), I32, kinds),
        "add_space_prefix": entry(key("add_space_prefix"), BOOL, False),
    }
