"""Hostile and broken chat templates: a clear error, in bounded time and memory."""

from __future__ import annotations

import pytest

from cerne.errors import TokenizerError
from cerne.tokenizer.chat_sandbox import MAX_SOURCE_CHARS, compile_template
from cerne.tokenizer.chat_text import DATA, TEMPLATE, UNKNOWN, TrackedText, label, origins


def run(source: str) -> TrackedText:
    message = {"role": label("user", TEMPLATE), "content": label(" hi ", 0), "none": None}
    return compile_template(source)({"messages": [message]}, 4)


ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ messages.__class__.__mro__ }}",
    "{{ messages[0]['content'].__class__.__base__.__subclasses__() }}",
    "{{ raise_exception.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ dict.__class__ }}",
    "{{ self.__class__ }}",
    "{{ messages | attr('__class__') }}",
    "{{ messages.append(3) }}",
    "{{ '{0.__class__}'.format(messages) }}",
    "{{ messages[0].content.format() }}",
    "{{ '%s' % messages }}",
    "{{ messages[0].content._runs }}",
    "{{ lipsum.__globals__ }}",
    "{% include 'secret' %}",
    "{% import 'os' as os %}{{ os }}",
    "{{ cycler.__init__ }}",
]

BOMBS = [
    "{{ 'a' * 99999999999 }}",
    "{{ 'a' | indent(99999999) }}",
    "{{ 'a'.center(99999999999) }}",
    "{{ 'a'.zfill(99999999999) }}",
    "{{ (5).to_bytes(99999999999, 'big') }}",
    "{{ 2 ** 99999999999 }}",
    "{{ range(10 ** 9) }}",
    "{{ messages | tojson(indent=999999999) }}",
    "{{ ('a' * 10000) | replace('a', 'b' * 10000) }}",
    "{% set ns = namespace(x='a') %}{% for _ in range(90000) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for _ in range(90000) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=['a']) %}{% for _ in range(90000) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for _ in range(90000) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% macro f(n) %}{{ f(n - 1) }}{% endmacro %}{{ f(10) }}",
    "{% for x in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "{{" + "(" * 5000,
    "{# " + "x" * MAX_SOURCE_CHARS + " #}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_no_way_out_of_the_sandbox(source: str) -> None:
    with pytest.raises(TokenizerError):
        run(source)


@pytest.mark.parametrize("source", BOMBS)
def test_bombs_are_refused(source: str) -> None:
    with pytest.raises(TokenizerError):
        run(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_endless_work_stops(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerne.tokenizer.chat_sandbox.MAX_CPU_S", 0.2)
    with pytest.raises(TokenizerError, match="too long"):
        run(source)


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ x | nosuchfilter }}", "{% for %}", "{{ 'a", "{% generation %}"]
)
def test_syntax_errors_are_named(source: str) -> None:
    with pytest.raises(TokenizerError, match="cannot be compiled"):
        run(source)


@pytest.mark.parametrize(
    "source",
    ["{{ system_message }}", "{{ 'a' ~ nothing }}", "{{ messages[0].nothing }}",
     "{{ messages[0].none }}", "{{ messages[0].nothing | trim }}"],
)  # fmt: skip
def test_undefined_values_are_never_printed(source: str) -> None:
    with pytest.raises(TokenizerError):
        run(source)


def test_undefined_values_may_be_tested() -> None:
    source = "{% if nothing %}x{% elif messages[0].tool_calls is defined %}y{% endif %}z"
    assert run(source) == "z"


def test_origins_survive_what_templates_do() -> None:
    assert origins(run("<{{ messages[0].content | trim }}>")) == (
        (1, TEMPLATE, 0),
        (2, 0, 0),
        (1, TEMPLATE, 0),
    )
    built = run("{% set x %}[{{ messages[0].content }}]{% endset %}{{ '' ~ x + '!' }}")
    assert origins(built) == ((1, TEMPLATE, 0), (4, 0, 0), (2, TEMPLATE, 0))
    called = run("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(messages[0].content) | trim }}")
    assert origins(called) == ((1, TEMPLATE, 0), (4, 0, 0), (1, TEMPLATE, 0))
    assert origins(run("{{ ['a', messages[0].content] | join('-') }}"))[1:] == ((4, 0, 0),)
    assert origins(run("{% generation %}{{ messages[0].content }}{% endgeneration %}")) == (
        (4, 0, 1),
    )


def test_json_and_lost_text_are_never_template() -> None:
    assert {origin for _, origin, _ in origins(run("{{ messages | tojson }}"))} <= {0, DATA}
    assert {origin for _, origin, _ in origins(run("{{ messages | string }}"))} == {UNKNOWN}
    assert {origin for _, origin, _ in origins(run("{{ messages }}"))} == {UNKNOWN}


def test_white_space_rules_are_those_of_hugging_face() -> None:
    source = "  {% if true %}\n  a\n  {% endif %}\nb\n"
    assert run(source) == "  a\nb"
