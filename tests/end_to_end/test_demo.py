"""`cerne demo` in a tiny form: killed in the middle, continued, and its report read."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "cerne", "demo", "--minutes", "0.02", "--threads", "1"]
LIMIT_S = 250


def _wait_for(stage: str, folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the demo's state file names the stage as done."""
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        path = folder / "demo.json"
        if path.exists() and stage in json.loads(path.read_text(encoding="utf-8"))["results"]:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.2)
    raise AssertionError(f"{stage} was not reached")


def _start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, str, bytes]:
    """A demo killed after pre-training and resumed: folder, JSON, output, base weights before."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    process = _start(folder)
    _wait_for("pretrain", folder, process)
    process.kill()
    process.communicate()
    name = (folder / "pretrain" / "latest").read_text(encoding="utf-8").strip()
    weights = (folder / "pretrain" / "checkpoints" / name / "model.safetensors").read_bytes()
    again = _start(folder)
    assert again.wait(timeout=LIMIT_S) == 2
    assert "--resume" in again.communicate()[1]
    process = _start(folder, "--resume", "--json")
    out, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, errors
    return folder, json.loads(out.splitlines()[-1]), out + errors, weights


def test_resume_keeps_what_was_done(finished: tuple[Path, dict, str, bytes]) -> None:
    folder, numbers, text, weights = finished
    name = (folder / "pretrain" / "latest").read_text(encoding="utf-8").strip()
    kept = folder / "pretrain" / "checkpoints" / name / "model.safetensors"
    assert kept.read_bytes() == weights
    assert "stage 1 of" not in text and "stage 2 of" not in text
    assert "stage 4 of" in text
    assert numbers["times_s"]["pretrain"] > 0


def test_numbers_are_complete(finished: tuple[Path, dict, str, bytes]) -> None:
    folder, numbers, _, _ = finished
    assert set(numbers["tasks"]) == {"after pre-training", "after fine-tuning"}
    for tasks in numbers["tasks"].values():
        assert len(tasks) == 7
        for score in tasks.values():
            assert 0.0 <= score["low"] <= score["accuracy"] <= score["high"] <= 1.0
    accuracies = [s["accuracy"] for s in numbers["tasks"]["after fine-tuning"].values()]
    assert numbers["average"]["accuracy"] == pytest.approx(sum(accuracies) / 7)
    assert len(numbers["questions"]) == 6
    metrics = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(metrics[-1])["step"] == numbers["sft"]["steps"]


def test_report_is_one_file_with_its_figures(finished: tuple[Path, dict, str, bytes]) -> None:
    folder, numbers, _, _ = finished
    page = (folder / "report.html").read_text(encoding="utf-8")
    figures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(figures) == 3
    files = {path.read_bytes() for path in (folder / "plots").glob("*.png")}
    assert {base64.b64decode(figure) for figure in figures} == files
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for task in ("recall", "tracking", "counting", "comparison", "arithmetic", "negation"):
        assert f"<td>{task}</td>" in page
    assert f"{100 * numbers['average']['accuracy']:.1f} %" in page


def test_the_result_answers_in_a_chat(finished: tuple[Path, dict, str, bytes]) -> None:
    folder, _, _, _ = finished
    done = subprocess.run(
        [sys.executable, "-m", "cerne", "chat", str(folder), "--max-tokens", "4", "--json"],
        input="What is 2 + 2?\nWho is Ana?\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "error:" not in done.stderr
    # So small a model may end its answer at once; that is said, and the question is not kept.
    turns = json.loads(done.stdout.splitlines()[-1])["messages"]
    answered = 2 - done.stderr.count("(no answer")
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * answered
    assert {turn["content"] for turn in turns[::2]} <= {"What is 2 + 2?", "Who is Ana?"}
    assert all(turn["content"] for turn in turns)


def test_other_settings_and_missing_demos_are_refused(
    finished: tuple[Path, dict, str, bytes], tmp_path: Path
) -> None:
    folder, _, _, _ = finished
    for where, options, word in (
        (folder, ("--resume", "--seed", "5"), "seed"),
        (tmp_path / "none", ("--resume",), "no demo to resume"),
        (tmp_path / "long", ("--minutes", "0"), "minutes"),
    ):
        process = _start(where, *options)
        _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 2, errors
        assert word in errors
