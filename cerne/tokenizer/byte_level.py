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
_BYTE_OF_CHAR = {char: byte for byte, char in CHAR_OF_BYTE.items()}


def to_characters(token: bytes) -> str:
    """The written form of a token: b" the" -> "Ġthe"."""
    return token.decode("latin-1").translate(CHAR_OF_BYTE)


def to_bytes(written: str) -> bytes:
    """The bytes of a written token.

    Raises:
        TokenizerError: a character stands for no byte.
    """
    try:
        return bytes([_BYTE_OF_CHAR[char] for char in written])
    except KeyError as error:
        raise TokenizerError(
            "a token holds a character that stands for no byte",
            value=written,
            allowed="byte-level BPE vocabularies",
        ) from error
