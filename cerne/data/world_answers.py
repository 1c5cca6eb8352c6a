"""Checking answers: normalised text, numbers in digits or words, the last thing said of the right
kind.

Inputs: a reply and the expected answer with its kind. Output: a bool. The check looks at the final
answer: working that leads to it does not count for or against. Leaves out: partial credit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from cerne.data.world_entities import CAUSES, COLOURS, DAYS, PEOPLE, PLACES

AnswerKind = Literal["person", "place", "colour", "day", "cause", "number", "yes_no", "unknown"]

_UNITS_EN = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS_EN = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_UNITS_PT = [
    "zero",
    "um",
    "dois",
    "tres",
    "quatro",
    "cinco",
    "seis",
    "sete",
    "oito",
    "nove",
    "dez",
    "onze",
    "doze",
    "treze",
    "quatorze",
    "quinze",
    "dezesseis",
    "dezessete",
    "dezoito",
    "dezenove",
]
_TENS_PT = ["vinte", "trinta", "quarenta", "cinquenta", "sessenta", "setenta", "oitenta", "noventa"]
_UNITS: dict[str, int] = {
    **{word: number for words in (_UNITS_EN, _UNITS_PT) for number, word in enumerate(words)},
    "uma": 1,
    "duas": 2,
    "catorze": 14,
}
_TENS: dict[str, int] = {
    word: 10 * number
    for words in (_TENS_EN, _TENS_PT)
    for number, word in enumerate(words, start=2)
}
_YES_NO: dict[str, str] = {"yes": "yes", "sim": "yes", "no": "no", "nao": "no"}
_UNKNOWN: tuple[str, ...] = (
    "i do not know",
    "i don t know",
    "the text does not say",
    "it does not say",
    "nao sei",
    "o texto nao diz",
)


def normalise(text: str) -> str:
    """Lower case, no accents, punctuation as single spaces: "Não, É azul!" becomes "nao e azul"."""
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c)
    )
    return " ".join(re.findall(r"[a-z0-9]+", plain))


@lru_cache(maxsize=1)
def _surfaces() -> Mapping[str, Mapping[str, str]]:
    """For each kind of entity, every normalised surface form with the key that it stands for."""
    return {
        "person": {normalise(person.name): person.name for person in PEOPLE},
        "place": {normalise(form): place.en for place in PLACES for form in (place.en, place.pt)},
        "colour": {normalise(form): c.en for c in COLOURS for form in (c.en, c.pt_m, c.pt_f)},
        "day": {
            normalise(form): day.en
            for day in DAYS
            for form in (day.en, day.pt, day.pt.split("-")[0])
        },
        "cause": {normalise(form): cause.en for cause in CAUSES for form in (cause.en, cause.pt)},
    }


def _last_entity(kind: str, text: str) -> str | None:
    padded = f" {text} "
    found = [(padded.rfind(f" {form} "), key) for form, key in _surfaces()[kind].items()]
    position, key = max(found)
    return key if position >= 0 else None


def _last_number(text: str) -> int | None:
    """The last whole number in normalised text, in digits or in English or Portuguese words up to
    99.
    """
    number: int | None = None
    tens: int | None = None
    for word in text.split():
        if word.isdigit():
            number, tens = int(word[:9]), None
        elif word in _TENS:
            number = tens = _TENS[word]
        elif word in _UNITS:
            unit = _UNITS[word]
            number = tens + unit if tens is not None and 0 < unit < 10 else unit
            tens = None
        elif word != "e":
            tens = None
    return number


def _yes_no(text: str) -> str | None:
    """The verdict when it opens or ends the reply ("No, she does not." or "She does not, so
    no.").
    """
    words = text.split()
    if not words:
        return None
    return _YES_NO.get(words[0]) or _YES_NO.get(words[-1])


def admits_ignorance(text: str) -> bool:
    """True when the reply says that it does not know."""
    plain = normalise(text)
    return any(phrase in plain for phrase in _UNKNOWN)


def final_answer(kind: AnswerKind, text: str) -> str | None:
    """What a reply finally answers, as a language-independent key ("red", "42", "no"), or None.

    A reply that admits ignorance answers "unknown", whatever the kind.
    """
    if admits_ignorance(text):
        return "unknown"
    plain = normalise(text)
    if kind == "number":
        number = _last_number(plain)
        return None if number is None else str(number)
    if kind == "yes_no":
        return _yes_no(plain)
    return None if kind == "unknown" else _last_entity(kind, plain)
