"""The command line is frozen: frozen_cli.txt lists every verb with its arguments and options.

A line that goes or changes breaks somebody's script. Where that is meant, write the file anew and
tell of it in CHANGELOG.md: `python tests/cli/test_frozen.py > tests/cli/frozen_cli.txt`.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import typer

from cerne.cli.app import VERBS, LazyVerbs, app

FROZEN = Path(__file__).with_name("frozen_cli.txt")


def parameter_line(parameter: Any) -> str:
    """`  FILES... required` of an argument, `  --out, -o VALUE` of an option."""
    many = "..." if parameter.multiple or parameter.nargs == -1 else ""
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
    else:
        name = ", ".join([*parameter.opts, *parameter.secondary_opts])
        name += "" if parameter.is_flag else " VALUE"
    return f"  {name}{many}{' required' if parameter.required else ''}"


def command_lines(command: Any, name: str) -> list[str]:
    """A command, its arguments in order, its options, and the same of its sub-commands."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p not in arguments and p.name != "help"]
    lines = [name, *map(parameter_line, arguments), *sorted(map(parameter_line, options))]
    children = {} if isinstance(command, LazyVerbs) else getattr(command, "commands", {})
    for child in sorted(children):
        lines += command_lines(children[child], f"{name} {child}")
    return lines


def command_line() -> list[str]:
    """The whole command line in walking order."""
    lines = command_lines(typer.main.get_command(app), "cerne")
    for verb in VERBS:
        lines += command_lines(LazyVerbs(name="cerne").get_command(None, verb), f"cerne {verb}")
    return lines


def test_the_command_line_is_the_frozen_one() -> None:
    frozen = FROZEN.read_text(encoding="utf-8").splitlines()
    changes = difflib.unified_diff(frozen, command_line(), "frozen", "now", lineterm="", n=1)
    assert not (text := "\n".join(changes)), f"{__doc__}\n{text}"


if __name__ == "__main__":
    print("\n".join(command_line()))
