"""The `post_processor` of tokenizer.json: which control tokens stand before and after a text.

Read and written for one text at a time; what is said about pairs of texts is left out.
"""

from __future__ import annotations

from typing import Any

from cerne.errors import TokenizerError
from cerne.tokenizer.vocabulary import Vocabulary


def affixes_of(processor: Any) -> tuple[str | None, str | None]:
    """The control tokens (before, after) that the post-processor adds to a text.

    Raises:
        TokenizerError: it does something else.
    """
    steps = [] if processor is None else [processor]
    if isinstance(processor, dict) and processor.get("type") == "Sequence":
        steps = processor.get("processors", [])
    if not isinstance(steps, list):
        raise _refuse(processor)
    found: tuple[str | None, str | None] = (None, None)
    for step in steps:
        kind = step.get("type") if isinstance(step, dict) else None
        if kind == "TemplateProcessing" and found == (None, None):
            found = _template_affixes(step.get("single"))
        elif kind != "ByteLevel":
            raise _refuse(processor)
    return found


def _template_affixes(single: Any) -> tuple[str | None, str | None]:
    sides: tuple[list[str], list[str]] = ([], [])
    seen_text = 0
    for piece in single if isinstance(single, list) else []:
        if not isinstance(piece, dict) or len(piece) != 1:
            raise _refuse(single)
        kind, value = next(iter(piece.items()))
        name = value.get("id") if isinstance(value, dict) else None
        if kind == "Sequence":
            seen_text += 1
        elif kind == "SpecialToken" and isinstance(name, str):
            sides[min(seen_text, 1)].append(name)
        else:
            raise _refuse(single)
    if seen_text != 1 or len(sides[0]) > 1 or len(sides[1]) > 1:
        raise _refuse(single)
    before, after = ((side[0] if side else None) for side in sides)
    return before, after


def post_processor_json(vocabulary: Vocabulary) -> dict[str, Any] | None:
    """The `post_processor` object that adds what the roles say, or None."""
    roles = vocabulary.roles
    before = roles.bos if roles.add_bos else None
    after = roles.eos if roles.add_eos else None
    if before is None and after is None:
        return None

    def template(*texts: tuple[str, int]) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = []
        for text, type_id in texts:
            for kind, name in (
                ("SpecialToken", before),
                ("Sequence", text),
                ("SpecialToken", after),
            ):
                if name is not None:
                    pieces.append({kind: {"id": name, "type_id": type_id}})
        return pieces

    ids = {token.content: token.id for token in vocabulary.added}
    return {
        "type": "TemplateProcessing",
        "single": template(("A", 0)),
        "pair": template(("A", 0), ("B", 1)),
        "special_tokens": {
            name: {"id": name, "ids": [ids[name]], "tokens": [name]}
            for name in (before, after)
            if name is not None
        },
    }


def _refuse(value: Any) -> TokenizerError:
    return TokenizerError(
        "the post-processor is not supported",
        value=value,
        allowed="none, ByteLevel, or one token before and one after the text",
    )
