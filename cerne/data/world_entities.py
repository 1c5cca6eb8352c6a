"""What the small world is made of: people, things, places, colours, days, foods, causes and
effects.

Inputs: none, the tables are fixed. Outputs: frozen dataclasses with their English and Brazilian
Portuguese forms. Leaves out: sentences (`world_english`, `world_portuguese`) and which combinations
are held out (`world_split`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["f", "m"]


@dataclass(frozen=True)
class Person:
    """Somebody with a name that both languages use."""

    name: str
    gender: Gender


@dataclass(frozen=True)
class Noun:
    """A thing or a place: English and Portuguese singular, and the Portuguese gender."""

    en: str
    pt: str
    gender: Gender
    preposition_en: str = "in"


@dataclass(frozen=True)
class Countable:
    """Small things that people count: plural forms; `gender` is that of the Portuguese plural."""

    en: str
    pt: str
    gender: Gender


@dataclass(frozen=True)
class Colour:
    """A colour; Portuguese adjectives agree with the noun's gender."""

    en: str
    pt_m: str
    pt_f: str


@dataclass(frozen=True)
class Relation:
    """A family relation of a woman or a man (`gender` is that of the relative)."""

    en: str
    pt: str
    gender: Gender


@dataclass(frozen=True)
class Phrase:
    """A phrase that means the same in both languages; `en_base` is the form after "did"."""

    en: str
    pt: str
    en_base: str = ""


def _people(gender: Gender, names: str) -> tuple[Person, ...]:
    return tuple(Person(name, gender) for name in names.split())


PEOPLE: tuple[Person, ...] = _people(
    "f", "Ana Eva Mia Lara Rita Nina Clara Alice Sofia Marta Julia Helena"
) + _people("m", "Tom Leo Ben Hugo Otto Davi Bruno Pedro Lucas Paulo Rafael Daniel")

THINGS: tuple[Noun, ...] = (
    Noun("ball", "bola", "f"),
    Noun("book", "livro", "m"),
    Noun("cup", "copo", "m"),
    Noun("hat", "boné", "m"),
    Noun("key", "chave", "f"),
    Noun("pen", "caneta", "f"),
    Noun("lamp", "lanterna", "f"),
    Noun("coat", "casaco", "m"),
    Noun("doll", "boneca", "f"),
    Noun("kite", "pipa", "f"),
    Noun("drum", "tambor", "m"),
    Noun("bell", "sino", "m"),
    Noun("clock", "relógio", "m"),
    Noun("chair", "cadeira", "f"),
    Noun("map", "mapa", "m"),
    Noun("ring", "anel", "m"),
    Noun("bike", "bicicleta", "f"),
    Noun("spoon", "colher", "f"),
    Noun("rope", "corda", "f"),
    Noun("brush", "escova", "f"),
    Noun("mirror", "espelho", "m"),
    Noun("basket", "cesta", "f"),
    Noun("boat", "barco", "m"),
    Noun("blanket", "cobertor", "m"),
)

PLACES: tuple[Noun, ...] = (
    Noun("garden", "jardim", "m"),
    Noun("kitchen", "cozinha", "f"),
    Noun("park", "parque", "m"),
    Noun("school", "escola", "f", "at"),
    Noun("attic", "sótão", "m"),
    Noun("garage", "garagem", "f"),
    Noun("library", "biblioteca", "f"),
    Noun("market", "mercado", "m", "at"),
    Noun("beach", "praia", "f", "at"),
    Noun("museum", "museu", "m"),
    Noun("bedroom", "quarto", "m"),
    Noun("office", "escritório", "m"),
    Noun("station", "estação", "f", "at"),
    Noun("square", "praça", "f"),
    Noun("farm", "fazenda", "f", "at"),
    Noun("bakery", "padaria", "f", "at"),
)

COLOURS: tuple[Colour, ...] = (
    Colour("red", "vermelho", "vermelha"),
    Colour("blue", "azul", "azul"),
    Colour("green", "verde", "verde"),
    Colour("yellow", "amarelo", "amarela"),
    Colour("white", "branco", "branca"),
    Colour("black", "preto", "preta"),
    Colour("brown", "marrom", "marrom"),
    Colour("pink", "rosa", "rosa"),
    Colour("grey", "cinza", "cinza"),
    Colour("purple", "roxo", "roxa"),
)

DAYS: tuple[Phrase, ...] = (
    Phrase("Monday", "segunda-feira"),
    Phrase("Tuesday", "terça-feira"),
    Phrase("Wednesday", "quarta-feira"),
    Phrase("Thursday", "quinta-feira"),
    Phrase("Friday", "sexta-feira"),
    Phrase("Saturday", "sábado"),
    Phrase("Sunday", "domingo"),
)

FOODS: tuple[Noun, ...] = (
    Noun("milk", "leite", "m"),
    Noun("bread", "pão", "m"),
    Noun("rice", "arroz", "m"),
    Noun("soup", "sopa", "f"),
    Noun("cake", "bolo", "m"),
    Noun("cheese", "queijo", "m"),
    Noun("fish", "peixe", "m"),
    Noun("honey", "mel", "m"),
    Noun("juice", "suco", "m"),
    Noun("tea", "chá", "m"),
    Noun("salad", "salada", "f"),
    Noun("pasta", "macarrão", "m"),
)

COUNTABLES: tuple[Countable, ...] = (
    Countable("apples", "maçãs", "f"),
    Countable("coins", "moedas", "f"),
    Countable("shells", "conchas", "f"),
    Countable("stamps", "selos", "m"),
    Countable("cards", "cartas", "f"),
    Countable("stones", "pedras", "f"),
    Countable("eggs", "ovos", "m"),
    Countable("flowers", "flores", "f"),
    Countable("pencils", "lápis", "m"),
    Countable("stickers", "adesivos", "m"),
)

RELATIONS: tuple[Relation, ...] = (
    Relation("sister", "irmã", "f"),
    Relation("mother", "mãe", "f"),
    Relation("cousin", "prima", "f"),
    Relation("aunt", "tia", "f"),
    Relation("brother", "irmão", "m"),
    Relation("father", "pai", "m"),
    Relation("cousin", "primo", "m"),
    Relation("uncle", "tio", "m"),
)

CAUSES: tuple[Phrase, ...] = (
    Phrase("it was raining", "estava chovendo"),
    Phrase("it was cold", "estava frio"),
    Phrase("it was hot", "estava quente"),
    Phrase("it was dark", "estava escuro"),
    Phrase("it was late", "era tarde"),
    Phrase("the bus was late", "o ônibus atrasou"),
    Phrase("the shop was closed", "a loja estava fechada"),
    Phrase("the music was loud", "a música estava alta"),
    Phrase("the wind was strong", "o vento estava forte"),
    Phrase("there was a party", "havia uma festa"),
)

EFFECTS: tuple[Phrase, ...] = (
    Phrase("stayed at home", "ficou em casa", "stay at home"),
    Phrase("closed the window", "fechou a janela", "close the window"),
    Phrase("opened the door", "abriu a porta", "open the door"),
    Phrase("turned on the light", "acendeu a luz", "turn on the light"),
    Phrase("drank water", "bebeu água", "drink water"),
    Phrase("walked slowly", "andou devagar", "walk slowly"),
    Phrase("wore boots", "usou botas", "wear boots"),
    Phrase("sang a song", "cantou uma canção", "sing a song"),
    Phrase("went to bed", "foi dormir", "go to bed"),
    Phrase("called a friend", "ligou para um amigo", "call a friend"),
)
