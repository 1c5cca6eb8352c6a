"""A plain encoder of SentencePiece's BPE kind: the definition that the fast one must equal.

Text is a list of characters; one merge is done at a time, over the whole text.
"""

from __future__ import annotations

import itertools

SPACE = "\u2581"


def plain_encode(text: str, pieces: list[str], scores: list[float]) -> list[int]:
    """Ids of a text whose pieces are given as in a model file ("" for special tokens)."""
    ids = {piece: i for i, piece in enumerate(pieces) if piece and not piece.startswith("<0x")}
    symbols = list(text.replace(" ", SPACE))
    while True:
        pairs = [
            (-scores[ids[left + right]], at)
            for at, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in ids
        ]
        if not pairs:
            break
        _, at = min(pairs)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    out: list[int] = []
    for symbol in symbols:
        if symbol in ids:
            out.append(ids[symbol])
        else:
            out += [pieces.index(f"<0x{byte:02X}>") for byte in symbol.encode()]
    return out


def plain_cut(text: str, added: dict[str, int]) -> list[str | int]:
    """Text with added tokens cut out as llama.cpp does: all of the longest first."""
    parts: list[str | int] = [text]
    for content in sorted(added, key=lambda c: (-len(c.encode()), added[c])):
        cut: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                cut.append(part)
                continue
            for i, rest in enumerate(part.split(content)):
                cut += [added[content], rest] if i else [rest]
        parts = cut
    return [part for part in parts if part != ""]
