"""Running a chat template that nobody has to trust.

`compile_template` turns Jinja source into a function from variables to TrackedText. The environment
is Jinja's immutable sandbox, narrowed: a short list of filters and methods, no formatting, bounded
loops, text and processor time. The syntax tree is rewritten so that every literal of the template
carries the TEMPLATE origin and `~`, loops and blocks keep origins. Trimming rules, variables and
`{% generation %}` equal those of Hugging Face. What a template gets to see is chat.py's business.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import BuiltinMethodType, MethodType
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from cerne.errors import TokenizerError
from cerne.tokenizer.chat_text import (
    CHARS_LEFT,
    DATA,
    TEMPLATE,
    UNKNOWN,
    TrackedText,
    as_tracked,
    charge,
    concat,
    label,
    origins,
    with_span,
)

MAX_SOURCE_CHARS = 1 << 17
MAX_LOOP_ITEMS = 100_000
MAX_CPU_S = 2.0
CHARS_ALLOWANCE = 1 << 26

_KEPT_FILTERS = tuple(
    "abs count d default dictsort first float int items last length list map max min reject"  # noqa: SIM905
    " rejectattr replace reverse round select selectattr sort sum trim unique lower upper".split()
)
_SAFE_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "strip lstrip rstrip split rsplit splitlines partition rpartition startswith endswith"  # noqa: SIM905
        " removeprefix removesuffix replace join find rfind index rindex count lower upper title"
        " capitalize isdigit isalpha isalnum isspace islower isupper isnumeric isdecimal".split()
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("index", "count")),
    tuple: frozenset(("index", "count")),
}
_PLAIN_TYPES = (bool, int, float, bytes, range, type(None))

_STATE: ContextVar[_State | None] = ContextVar("chat_render_state", default=None)


class _State:
    """What one render has used."""

    def __init__(self) -> None:
        self.num_spans = 0
        self.deadline_s = time.thread_time() + MAX_CPU_S


class _LoudUndefined(jinja2.Undefined):
    """May be tested, never printed: an undefined variable must not become silent text."""

    def __str__(self) -> str:
        self._fail_with_undefined_error()


class _Items(list[Any]):
    """Loop items that look at the clock at each step."""

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            _check_clock()
            yield item


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(concat)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise SecurityError("the % operator on text is not available in chat templates")
        if operator in ("*", "**"):
            _check_product(operator, left, right)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return concat((left, right))
        if operator == "+" and isinstance(left, (list, tuple)) and isinstance(right, type(left)):
            charge(len(left) + len(right))
        if operator == "*" and isinstance(left, str):
            left = as_tracked(left)
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, _PLAIN_TYPES):
            return False
        for kind, allowed in _SAFE_METHODS.items():
            if isinstance(obj, kind):
                return attr in allowed
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Let `is_safe_attribute` refuse str.format instead of offering Jinja's own."""

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        _check_clock()
        if isinstance(__obj, (MethodType, BuiltinMethodType)) and type(__obj.__self__) is str:
            __obj = getattr(TrackedText(__obj.__self__), __obj.__name__)
        return super().call(__context, __obj, *args, **kwargs)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: the text inside is what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012 - the attribute is Jinja's

    def parse(self, parser: Any) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(lineno)

    def _mark(self, caller: Callable[[], str]) -> TrackedText:
        text, state = caller(), _STATE.get()
        if state is None:
            return as_tracked(text)
        state.num_spans += 1
        return with_span(text, state.num_spans)


class _KeepOrigins(NodeTransformer):
    """Rewrite literals, `~` and loops so that they go through the filters below."""

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return _filtered(nodes.Const(node.data), "_literal", node)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        return _filtered(node, "_literal", node) if isinstance(node.value, str) else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes), "_concat", node)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_items", node)
        return node


def _filtered(value: nodes.Node, name: str, at: nodes.Node) -> nodes.Filter:
    made = nodes.Filter(value, name, [], [], None, None)
    made.set_lineno(at.lineno)
    return made


def _check_clock() -> None:
    state = _STATE.get()
    if state is not None and time.thread_time() > state.deadline_s:
        raise TokenizerError(
            "the chat template runs too long", allowed=f"{MAX_CPU_S} s of processor time"
        )


def _check_product(operator: str, left: Any, right: Any) -> None:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, (list, tuple)) and isinstance(times, int):
            charge(len(value) * max(0, times))
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * right if operator == "**" else left.bit_length()
        if max(bits, right.bit_length()) > 256:
            raise SecurityError("numbers this large are not available in chat templates")


@functools.lru_cache(maxsize=4096)
def _template_text(text: str) -> TrackedText:
    return label(text, TEMPLATE)


@pass_context
def _literal(context: Any, text: str) -> TrackedText:
    return _template_text(text)


@pass_context
def _concat_filter(context: Any, parts: list[Any]) -> TrackedText:
    return concat(parts)


@pass_context
def _items(context: Any, values: Any) -> _Items:
    items = _Items()
    for item in values:
        if len(items) >= MAX_LOOP_ITEMS:
            raise TokenizerError(
                "the chat template loops too often", allowed=f"{MAX_LOOP_ITEMS} items"
            )
        items.append(item)
    return items


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> TrackedText:
    """JSON of a value, all of it with the origin of its strings: never a control token."""
    if indent is not None and not 0 <= indent <= 16:
        raise SecurityError("tojson takes an indent of 0 to 16")
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    charge(len(text))
    found = _origins_in(value) - {TEMPLATE}
    return label(text, found.pop() if len(found) == 1 and UNKNOWN not in found else DATA)


def _origins_in(value: Any) -> set[int]:
    if isinstance(value, str):
        return {origin for _, origin, _ in origins(value)}
    if isinstance(value, dict):
        return set().union(*(_origins_in(k) | _origins_in(v) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_origins_in, value))
    return set()


def _join(values: Any, d: str = "", attribute: str | None = None) -> TrackedText:
    parts = [value.get(attribute, "") for value in values] if attribute else list(values)
    return as_tracked(d).join(p if isinstance(p, str) else str(p) for p in parts)


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> TrackedText:
    if not 0 <= width <= 64:
        raise SecurityError("indent takes a width of 0 to 64")
    pad = _template_text(" " * width)
    lines = as_tracked(text).split("\n")
    padded = [
        pad + line if (i or first) and (line or blank) else line for i, line in enumerate(lines)
    ]
    return _template_text("\n").join(padded)


def _string(value: Any) -> TrackedText:
    return as_tracked(value if isinstance(value, str) else str(value))


def _printable(value: Any) -> Any:
    if value is None:
        raise jinja2.UndefinedError("the template would print None")
    return value


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


@functools.lru_cache(maxsize=1)
def _environment() -> _Environment:
    made = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=_LoudUndefined,
        finalize=_printable,
        extensions=[_Generation, "jinja2.ext.loopcontrols"],
    )
    own = {"_literal": _literal, "_concat": _concat_filter, "_items": _items, "tojson": _to_json}
    own |= {"join": _join, "indent": _indent, "string": _string, "safe": _string}
    own["title"] = lambda text: as_tracked(text).title()
    own["capitalize"] = lambda text: as_tracked(text).capitalize()
    made.filters = {name: FILTERS[name] for name in _KEPT_FILTERS} | own
    made.globals = {
        "range": made.globals["range"],
        "namespace": Namespace,
        "dict": lambda *pairs, **values: dict(*pairs, **values),
        "raise_exception": _refuse,
    }
    return made


CompiledTemplate = Callable[[Mapping[str, Any], int], TrackedText]
"""(variables, number of characters in them) -> the rendered text."""


@functools.lru_cache(maxsize=64)
def compile_template(source: str) -> CompiledTemplate:
    """Compile a chat template.

    Raises:
        TokenizerError: a syntax error, an unknown filter or tag, or a source beyond
            MAX_SOURCE_CHARS; from the returned function: whatever stops the rendering.
    """
    if len(source) > MAX_SOURCE_CHARS:
        raise TokenizerError(
            "the chat template is too long",
            value=len(source),
            allowed=f"{MAX_SOURCE_CHARS} characters",
        )
    environment = _environment()
    try:
        tree = _KeepOrigins().visit(environment.parse(source))
        code = environment.compile(tree, "chat_template", "chat_template")
        template = jinja2.Template.from_code(environment, code, environment.make_globals(None))
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, OverflowError) as error:
        raise TokenizerError(f"the chat template cannot be compiled: {_reason(error)}") from None

    def run(variables: Mapping[str, Any], num_chars: int) -> TrackedText:
        state_token = _STATE.set(_State())
        chars_token = CHARS_LEFT.set([CHARS_ALLOWANCE + 64 * num_chars])
        try:
            context = template.new_context(dict(variables))
            return concat(template.root_render_func(context))
        except TokenizerError:
            raise
        except SecurityError as error:
            raise TokenizerError(f"the chat template does something unsafe: {error}") from None
        except jinja2.TemplateError as error:
            raise TokenizerError(
                f"the chat template refuses these messages: {_reason(error)}"
            ) from None
        except (RecursionError, MemoryError, ArithmeticError, LookupError, TypeError) as error:
            raise TokenizerError(f"the chat template fails: {_reason(error)}") from None
        except (ValueError, AttributeError) as error:
            raise TokenizerError(f"the chat template fails: {_reason(error)}") from None
        finally:
            CHARS_LEFT.reset(chars_token)
            _STATE.reset(state_token)

    return run


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
