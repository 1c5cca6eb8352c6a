"""The command line: verbs, help of each, exit codes, one error line."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.testing

from cerne.cli.app import VERBS, LazyVerbs


def cerne(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cerne", *arguments], capture_output=True, text=True, timeout=120
    )


def commands(command: object, name: str) -> list[tuple[str, object]]:
    """A command and its sub-commands with their full names."""
    found = [(name, command)]
    for child, sub in getattr(command, "commands", {}).items():
        found += commands(sub, f"{name} {child}")
    return found


def test_help_lists_every_verb_in_walking_order() -> None:
    done = cerne("--help")
    assert done.returncode == 0
    places = [done.stdout.index(f"\n  {verb} ") for verb in VERBS]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", VERBS)
def test_case7_every_verb_helps(verb: str) -> None:
    command = LazyVerbs(name="cerne").get_command(None, verb)
    for name, sub in commands(command, f"cerne {verb}"):
        with typer.testing.CliRunner().isolation(), pytest.raises(SystemExit) as stop:
            sub.main(["--help"], prog_name=name)  # type: ignore[attr-defined]
        assert stop.value.code == 0
        text = getattr(sub, "help", "") or ""
        assert len(text) > 20, f"{name} does not explain itself"


def test_unknown_verb_names_the_nearest() -> None:
    done = cerne("pretrian")
    assert done.returncode == 2
    assert "pretrain" in done.stderr


def test_version() -> None:
    done = cerne("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("cerne 0.")


def test_no_verb_shows_help() -> None:
    assert "cerne demo" in cerne().stdout + cerne().stderr


def test_doctor_reports_the_native_core_and_json() -> None:
    import json

    done = cerne("doctor", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    checks = {name: good for name, good, _ in facts["checks"]}
    assert checks["native core"] and checks["torch"]
    assert facts["machine"]["cores"] >= 1
