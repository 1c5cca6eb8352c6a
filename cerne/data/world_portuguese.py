"""Brazilian Portuguese wordings of the small world: statements, questions (train and held out) and
replies.

The slots are those of `world_english`; articles, contractions and adjectives agree with the noun's
gender.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cerne.data.world_entities import Colour, Countable, Noun, Person, Phrase, Relation
from cerne.data.world_wording import Language, Slots, Wordings


def _a(noun: Noun) -> str:
    return f"{'uma' if noun.gender == 'f' else 'um'} {noun.pt}"


def _noun(key: str, noun: Noun) -> dict[str, str]:
    feminine = noun.gender == "f"
    article = "a" if feminine else "o"
    return {
        key: noun.pt,
        f"{key}_a": _a(noun),
        f"{key}_the": f"{article} {noun.pt}",
        f"{key}_of": f"d{article} {noun.pt}",
        f"{key}_in": f"n{article} {noun.pt}",
        f"{key}_to": f"para {article} {noun.pt}",
        f"{key}_it": "ela" if feminine else "ele",
        f"{key}_o": article,
    }


@lru_cache(maxsize=4096)
def _entity(key: str, value: object) -> dict[str, str]:
    if isinstance(value, Person):
        he, ending = ("ela", "a") if value.gender == "f" else ("ele", "o")
        return {key: value.name, f"{key}_he": he, f"{key}_o": ending, f"{key}_his": f"d{he}"}
    if isinstance(value, Noun):
        return _noun(key, value)
    if isinstance(value, Relation):
        feminine = value.gender == "f"
        return {
            key: value.pt,
            f"{key}_a": f"{'uma' if feminine else 'um'} {value.pt}",
            f"{key}_the": f"{'a' if feminine else 'o'} {value.pt}",
            f"{key}_o": "a" if feminine else "o",
        }
    if isinstance(value, Phrase):
        # Weekdays ending in "feira" are feminine, "sábado" and "domingo" masculine.
        contraction = "na" if value.pt.endswith("feira") else "no"
        return {key: value.pt, f"{key}_on": f"{contraction} {value.pt}"}
    if isinstance(value, Countable):
        return {key: value.pt, f"{key}_how_many": "quantas" if value.gender == "f" else "quantos"}
    return {key: str(value)}


def row(things: Sequence[Noun]) -> str:
    """ "uma bola, um copo e uma caneta"."""
    names = [_a(thing) for thing in things]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " e " + names[-1]


def forms(slots: Slots) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in slots.items():
        if isinstance(value, tuple):
            out[key] = row(value)
        elif not isinstance(value, Colour):
            out.update(_entity(key, value))
    thing, colour = slots.get("t"), slots.get("c")
    if isinstance(thing, Noun) and isinstance(colour, Colour):
        out["c"] = colour.pt_f if thing.gender == "f" else colour.pt_m
        out["t_ac"] = f"{out['t_a']} {out['c']}"
        out["t_thec"] = f"{out['t_the']} {out['c']}"
    first, second = slots.get("p"), slots.get("q")
    if isinstance(first, Person) and isinstance(second, Person):
        women = first.gender == second.gender == "f"
        out["of_two"], out["two_o"] = ("das duas", "a") if women else ("dos dois", "o")
    return out


STATEMENTS: dict[str, tuple[str, ...]] = {
    "owns": (
        "{p} tem {t_ac}.",
        "{p} ganhou {t_ac}.",
        "{p} comprou {t_ac}.",
        "{p} guarda {t_ac}.",
        "{p} recebeu {t_ac}.",
    ),
    "went": (
        "{p} foi {l_to} {d_on}.",
        "{p} esteve {l_in} {d_on}.",
        "{p} caminhou {l_to} {d_on}.",
        "{p} ficou {l_in} {d_on}.",
    ),
    "family": (
        "{q} tem {r_a} que se chama {p}.",
        "{q} tem {r_a}, {p}.",
        "{q} tem {r_a} de nome {p}.",
    ),
    "cause": (
        "{p} {effect} porque {cause}.",
        "{p} {effect}, pois {cause}.",
        "{p} {effect} já que {cause}.",
    ),
    "was_at": (
        "{t_the} estava {l_in}.",
        "no começo {t_the} estava {l_in}.",
        "{p} deixou {t_the} {l_in}.",
    ),
    "put": (
        "{p} pôs {t_the} {l_in}.",
        "{p} levou {t_the} {l_to}.",
        "{p} moveu {t_the} {l_to}.",
        "{p} carregou {t_the} {l_to}.",
        "então {p} levou {t_the} {l_to}.",
        "depois {p} pôs {t_the} {l_in}.",
    ),
    "bag": (
        "{p} tem {list}.",
        "{p} guardou {list}.",
        "{p} comprou {list}.",
        "{p} leva {list}.",
    ),
    "counted": ("{p} tem {n} {u}.", "{p} achou {n} {u}.", "{p} contou {n} {u}."),
    "age": ("{p} tem {n} anos.", "{p} fez {n} anos.", "a idade de {p} é {n} anos."),
    "likes": ("{p} gosta de {f}.", "{p} gosta muito de {f}.", "{p} adora {f}."),
    "dislikes": ("{p} não gosta de {f}.", "{p} não gosta nada de {f}.", "{p} nunca gostou de {f}."),
    "gave": (
        "{q} deu mais {m} para {p}.",
        "{p} ganhou mais {m} de {q}.",
        "depois {p} achou mais {m}.",
    ),
    "lost": ("{p} deu {m} para {q}.", "{p} perdeu {m}.", "depois {q} pegou {m}."),
}

QUESTIONS: dict[str, Wordings] = {
    "colour": Wordings(
        train=(
            "qual é a cor {t_of} de {p}?",
            "de que cor é {t_the} de {p}?",
            "que cor tem {t_the} de {p}?",
            "diga a cor {t_of} de {p}.",
            "{p} tem {t_a}. De que cor {t_it} é?",
        ),
        heldout=("diga de que cor é {t_the} de {p}.", "{t_the} de {p} é de que cor?"),
    ),
    "owner": Wordings(
        train=(
            "quem tem {t_the}?",
            "de quem é {t_the}?",
            "{t_the} é de quem?",
            "a quem pertence {t_the}?",
            "diga quem tem {t_the}.",
        ),
        heldout=("diga de quem é {t_the}.", "{t_the} pertence a quem?"),
    ),
    "went_where": Wordings(
        train=(
            "para onde {p} foi {d_on}?",
            "onde {p} esteve {d_on}?",
            "{d_on}, para onde {p} foi?",
            "em que lugar {p} esteve {d_on}?",
            "diga onde {p} esteve {d_on}.",
        ),
        heldout=("diga para onde {p} foi {d_on}.", "{d_on}, onde {p} esteve?"),
    ),
    "went_when": Wordings(
        train=(
            "quando {p} foi {l_to}?",
            "em que dia {p} foi {l_to}?",
            "quando {p} esteve {l_in}?",
            "diga quando {p} foi {l_to}.",
            "em que dia {p} esteve {l_in}?",
        ),
        heldout=("diga em que dia {p} foi {l_to}.", "{p} foi {l_to} em que dia?"),
    ),
    "relative": Wordings(
        train=(
            "quem é {r_the} de {q}?",
            "qual é o nome d{r_the} de {q}?",
            "como se chama {r_the} de {q}?",
            "diga quem é {r_the} de {q}.",
        ),
        heldout=("diga o nome d{r_the} de {q}.", "{r_the} de {q} é quem?"),
    ),
    "why": Wordings(
        train=(
            "por que {p} {effect}?",
            "por qual motivo {p} {effect}?",
            "diga por que {p} {effect}.",
            "{p} {effect}. Por quê?",
        ),
        heldout=("por que foi que {p} {effect}?", "diga por qual motivo {p} {effect}."),
    ),
    "where_is": Wordings(
        train=(
            "onde está {t_the}?",
            "onde está {t_the} agora?",
            "em que lugar está {t_the}?",
            "onde ficou {t_the}?",
            "diga onde está {t_the}.",
        ),
        heldout=("diga onde está {t_the} agora.", "agora, em que lugar está {t_the}?"),
    ),
    "how_many_things": Wordings(
        train=(
            "quantas coisas {p} tem?",
            "que número de coisas {p} tem?",
            "conte as coisas de {p}.",
            "diga quantas coisas {p} tem.",
            "qual é o número de coisas de {p}?",
        ),
        heldout=(
            "diga qual é o número de coisas de {p}.",
            "conte as coisas de {p}. Quantas são?",
        ),
    ),
    "more": Wordings(
        train=(
            "quem tem mais {u}, {p} ou {q}?",
            "qual {of_two}, {p} ou {q}, tem mais {u}?",
            "de {p} e {q}, quem tem mais {u}?",
            "diga quem tem mais {u}, {p} ou {q}.",
        ),
        heldout=("entre {p} e {q}, quem tem mais {u}?", "{p} ou {q}: quem tem mais {u}?"),
    ),
    "fewer": Wordings(
        train=(
            "quem tem menos {u}, {p} ou {q}?",
            "qual {of_two}, {p} ou {q}, tem menos {u}?",
            "de {p} e {q}, quem tem menos {u}?",
            "diga quem tem menos {u}, {p} ou {q}.",
        ),
        heldout=("entre {p} e {q}, quem tem menos {u}?", "{p} ou {q}: quem tem menos {u}?"),
    ),
    "older": Wordings(
        train=(
            "quem é mais velh{two_o}, {p} ou {q}?",
            "qual {of_two}, {p} ou {q}, é mais velh{two_o}?",
            "de {p} e {q}, quem é mais velh{two_o}?",
            "diga quem é mais velh{two_o}, {p} ou {q}.",
        ),
        heldout=(
            "entre {p} e {q}, quem é mais velh{two_o}?",
            "{p} ou {q}: quem é mais velh{two_o}?",
        ),
    ),
    "younger": Wordings(
        train=(
            "quem é mais nov{two_o}, {p} ou {q}?",
            "qual {of_two}, {p} ou {q}, é mais nov{two_o}?",
            "de {p} e {q}, quem é mais nov{two_o}?",
            "diga quem é mais nov{two_o}, {p} ou {q}.",
        ),
        heldout=("entre {p} e {q}, quem é mais nov{two_o}?", "{p} ou {q}: quem é mais nov{two_o}?"),
    ),
    "sum": Wordings(
        train=(
            "quanto é {n} + {m}?",
            "qual é o valor de {n} + {m}?",
            "some {n} e {m}.",
            "diga a soma de {n} e {m}.",
        ),
        heldout=("qual é a soma de {n} e {m}?", "diga quanto é {n} + {m}."),
    ),
    "difference": Wordings(
        train=(
            "quanto é {n} - {m}?",
            "qual é o valor de {n} - {m}?",
            "tire {m} de {n}.",
            "diga a diferença entre {n} e {m}.",
        ),
        heldout=("qual é a diferença entre {n} e {m}?", "diga quanto é {n} - {m}."),
    ),
    "how_many_now": Wordings(
        train=(
            "{u_how_many} {u} {p} tem agora?",
            "com {u_how_many} {u} {p} ficou?",
            "diga {u_how_many} {u} {p} tem agora.",
            "agora, {u_how_many} {u} {p} tem?",
        ),
        heldout=("{p} tem {u_how_many} {u} agora?", "diga com {u_how_many} {u} {p} ficou."),
    ),
    "does_like": Wordings(
        train=(
            "{p} gosta de {f}?",
            "é verdade que {p} gosta de {f}?",
            "{p} adora {f}?",
            "diga se {p} gosta de {f}.",
        ),
        heldout=("diga, {p} gosta de {f}?", "é verdade que {p} adora {f}?"),
    ),
    "does_not_like": Wordings(
        train=(
            "é verdade que {p} não gosta de {f}?",
            "{p} não gosta de {f}. É verdade?",
            "é certo que {p} não gosta de {f}?",
            "diga se é verdade que {p} não gosta de {f}.",
        ),
        heldout=(
            "{p} não gosta de {f}. Isso é certo?",
            "diga se é certo que {p} não gosta de {f}.",
        ),
    ),
}

REPLIES: dict[str, tuple[str, ...]] = {
    "count": ("então {count}.",),
    "where_is": ("{t_the} está {l_in}.",),
    "more": ("aqui {p} tem {n} e {q} tem {m}: {work}, {lo}<{hi}, então quem tem mais é {x}.",),
    "fewer": ("aqui {p} tem {n} e {q} tem {m}: {work}, {lo}<{hi}, então quem tem menos é {x}.",),
    "older": ("aqui {p} tem {n} e {q} tem {m}: {work}, {lo}<{hi}, então quem é mais velho é {x}.",),
    "younger": (
        "aqui {p} tem {n} e {q} tem {m}: {work}, {lo}<{hi}, então quem é mais novo é {x}.",
    ),
    "sum": ("{task}: {work}, então {result}.",),
    "yes": ("o texto diz que {p} gosta de {f}, então sim.",),
    "no": ("o texto diz que {p} gosta de {f}, então não.",),
    "not_yes": ("o texto diz que {p} não gosta de {f}, então sim.",),
    "not_no": ("o texto diz que {p} não gosta de {f}, então não.",),
    "unknown": ("não sei.",),
}

PORTUGUESE = Language(
    name="pt",
    forms=forms,
    statements=STATEMENTS,
    questions=QUESTIONS,
    replies=REPLIES,
    leads=("Uma história:", "Escute:", "Sabe-se isto:", "Foi assim:", "Alguns fatos:"),
    again="De novo:",
    quote="O texto diz:",
)
