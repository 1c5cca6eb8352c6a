"""GPT-2's one-to-one map between bytes and printable characters, in which `tokenizer.json` and
`vocab.bpe` files write tokens.
"""

from __future__ import annotations

from cerne.errors import TokenizerError

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]

# Token ids 0-255 of a vocabulary that we train are the bytes in this order.
BYTE_ORDER = _PRINTABLE + sorted(set(range(256)) - set(_PRINTABLE))
CHAR_OF_BYTE = {
    byte: chr(byte) if i < len(_PRINTABLE) else chr(256 + i - len(_PRINTABLE))
    for i, byte in enumerate(BYTE_ORDER)
}
_CHARACTERS = frozenset(CHAR_OF_BYTE.values())
# Characters below 256 that stand for no byte become one outside latin-1, as all others are.
_LATIN1_OF_CHAR = dict.fromkeys(map(chr, range(256)), chr(0xFFFF))
_LATIN1_OF_CHAR |= {char: chr(byte) for byte, char in CHAR_OF_BYTE.items()}
_TO_LATIN1 = str.maketrans(_LATIN1_OF_CHAR)


def to_characters(token: bytes) -> str:
    """The written form of a token: b" the" -> "Ġthe"."""
    return token.decode("latin-1").translate(CHAR_OF_BYTE)


def is_written(text: str) -> bool:
    """Whether all characters stand for bytes, as `to_bytes` wants them."""
    return _CHARACTERS.issuperset(text)


def to_bytes(written: str) -> bytes:
    """The bytes of a written token.

    Raises:
        TokenizerError: a character stands for no byte.
    """
    try:
        return written.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError as error:
        raise TokenizerError(
            "a token holds a character that stands for no byte",
            value=written,
            allowed="byte-level BPE vocabularies",
        ) from error
