"""Devices, precision and errors."""

from __future__ import annotations

import pytest
import torch

from cerne import device, errors
from cerne.errors import ConfigError, EnvironmentLack


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_missing_cuda_says_what_is_missing(name: str) -> None:
    with pytest.raises(EnvironmentLack, match="cuda is not available") as caught:
        device.resolve_device(name)
    assert caught.value.exit_code == 3
    assert "--device cpu" in str(caught.value)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "", "cpu:1:2", "cpu:3", "cpu:", "auto:1"])
def test_unknown_device(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown device"):
        device.resolve_device(name)


def test_each_local_rank_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device.resolve_device("auto") == torch.device("cuda:1")
    assert device.resolve_device("cuda") == torch.device("cuda:1")
    assert device.resolve_device("cuda:0") == torch.device("cuda:0")
    assert device.resolve_device("cpu:0") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(EnvironmentLack, match="no such GPU; got 'cuda:2'; allowed: cuda:0 to"):
        device.resolve_device("auto")


def test_auto_precision_follows_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(device, "cpu_features", lambda: frozenset({"avx2"}))
    assert device.resolve_precision("auto", cpu)[0] is torch.float32
    monkeypatch.setattr(device, "cpu_features", lambda: frozenset({"avx512_bf16"}))
    assert device.resolve_precision("auto", cpu) == (torch.bfloat16, "the CPU has avx512_bf16")
    with pytest.raises(ConfigError):
        device.resolve_precision("fp8", cpu)


@pytest.mark.parametrize("number", [0, -1, 10_000])
def test_threads_out_of_range(number: int) -> None:
    with pytest.raises(ConfigError, match="threads"):
        device.set_threads(number)


def test_an_error_says_what_value_allowed_and_next_step() -> None:
    error = errors.DataError("bad file", value="x" * 500, allowed="text", hint="cerne data inspect")
    text = str(error)
    assert text.startswith("bad file; got 'xxx")
    assert "allowed: text" in text and "try: cerne data inspect" in text
    assert len(text) < 250


def test_machine_facts_name_the_code_and_the_machine() -> None:
    facts = device.machine_facts()
    assert facts["cores"] >= 1 and facts["memory_bytes"] > 1 << 28
    assert facts["torch"] == torch.__version__
