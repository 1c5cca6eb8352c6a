"""Pre-tokenization patterns by name, and how `tokenizer.json` writes and names each.

The exact machines are in native/src/pretokenize.h. A pre-tokenizer of a file is recognised only
when it is one of these forms to the letter: a near miss would give other ids without a word.
"""

from __future__ import annotations

from typing import Any

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

# The regular expressions of the patterns that are written as a Split.
REGEX = {
    "llama3": _CONTRACTIONS + _WORDS + r"|\p{N}{1,3}" + _OTHERS + _SPACES,
    "qwen2": _CONTRACTIONS + _WORDS + r"|\p{N}" + _OTHERS + _SPACES,
    # cl100k_base: white space at the end of the text is one piece.
    "gpt4": _CONTRACTIONS + _WORDS + r"|\p{N}{1,3}" + _OTHERS + r"|\s+\z" + _SPACES,
}
# Other spellings of the same machine that files contain.
_SPELLINGS = {
    r"'(?i:[sdmt]|ll|ve|re)" + _WORDS + r"|\p{N}{1,3}" + _OTHERS + _SPACES: "llama3",
    r"'(?i:[sdmt]|ll|ve|re)" + _WORDS + r"|\p{N}" + _OTHERS + _SPACES: "qwen2",
    **{regex: name for name, regex in REGEX.items()},
}


def pre_tokenizer_json(pattern: str) -> dict[str, Any]:
    """The `pre_tokenizer` object of tokenizer.json."""
    if pattern == "gpt2":
        return _byte_level(use_regex=True)
    if pattern == "smollm":
        digits = {"type": "Digits", "individual_digits": True}
        return _sequence(digits, _byte_level(use_regex=True))
    split = {
        "type": "Split",
        "pattern": {"Regex": REGEX[pattern]},
        "behavior": "Isolated",
        "invert": False,
    }
    return _sequence(split, _byte_level(use_regex=False))


def pattern_of(pre_tokenizer: Any) -> str:
    """The name of the pattern that a `pre_tokenizer` object stands for.

    Raises:
        TokenizerError: it is none of ours.
    """
    steps = _steps(pre_tokenizer)
    found = None
    if len(steps) == 1 and _is_byte_level(steps[0], use_regex=True):
        found = "gpt2"
    elif len(steps) == 2 and _is_byte_level(steps[1], use_regex=True):
        if steps[0] == {"type": "Digits", "individual_digits": True}:
            found = "smollm"
    elif len(steps) == 2 and _is_byte_level(steps[1], use_regex=False):
        found = _SPELLINGS.get(_split_regex(steps[0]))
    if found is None:
        raise TokenizerError(
            "the pre-tokenizer of this tokenizer.json is not supported",
            value=pre_tokenizer,
            allowed="the byte-level forms of " + ", ".join(PATTERNS),
        )
    return found


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _steps(pre_tokenizer: Any) -> list[dict[str, Any]]:
    if not isinstance(pre_tokenizer, dict):
        return []
    if pre_tokenizer.get("type") != "Sequence":
        return [pre_tokenizer]
    steps = pre_tokenizer.get("pretokenizers")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    return steps


def _is_byte_level(step: dict[str, Any], use_regex: bool) -> bool:
    # trim_offsets only moves offsets; use_regex was born later and means true when absent.
    return (
        step.get("type") == "ByteLevel"
        and step.get("add_prefix_space") is False
        and step.get("use_regex", True) is use_regex
    )


def _split_regex(step: dict[str, Any]) -> str:
    """The expression of a Split that keeps every match as a piece, else ""."""
    pattern = step.get("pattern")
    # Each of our expressions matches all of the text, so removing what does not match is the same.
    keeps = (step.get("behavior"), step.get("invert", False)) in (
        ("Isolated", False),
        ("Removed", True),
    )
    if step.get("type") != "Split" or not keeps or not isinstance(pattern, dict):
        return ""
    regex = pattern.get("Regex")
    return regex if isinstance(regex, str) else ""
