"""`cerne bench cpu` against stand-in peers: the real worker, with a module that only waits."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from cerne.bench import cpu, cpu_limits, cpu_process, cpu_report, cpu_worker
from cerne.bench.report import Spread
from cerne.cli.app import app
from cerne.errors import EngineError, EnvironmentLack, InputError, ModelError
from tests.bench.tiny_gguf import FFN, LAYERS, VOCAB, WIDTH, write_tiny_gguf

# llama-cpp-python's functions, as far as the bench calls them: every decode is written down.
FAKE_LLAMA = """
import os, time
from types import SimpleNamespace as Struct

llama_log_callback = lambda function: function
llama_log_set = lambda callback, data: None
llama_backend_init = lambda: None
llama_model_default_params = Struct
llama_context_default_params = Struct
llama_print_system_info = lambda: b"a stand-in"
llama_synchronize = lambda context: None
llama_batch_free = lambda batch: None
llama_free = lambda context: None
llama_get_memory = lambda context: context
llama_model_load_from_file = lambda path, params: Struct(path=path)

def llama_init_from_model(model, params):
    return Struct(held=[0] * params.n_seq_max, room=params.n_ctx // params.n_seq_max)

def llama_memory_seq_rm(context, sequence, begin, end):
    context.held[sequence] = begin

def llama_batch_init(size, embedding, sequences):
    cells = lambda: [None] * size
    return Struct(token=cells(), pos=cells(), n_seq_id=cells(), logits=cells(),
                  seq_id=[[None] for _ in range(size)])

def llama_decode(context, batch):
    if os.environ.get("FAKE_LLAMA_FAILS_AT") == str(batch.n_tokens):
        os.abort()
    for i in range(batch.n_tokens):
        sequence = batch.seq_id[i][0]
        assert batch.pos[i] == context.held[sequence] < context.room
        context.held[sequence] += 1
    time.sleep(0.002)
    return 0
"""


@pytest.fixture
def model(tmp_path):
    return write_tiny_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def fake_peer(tmp_path, monkeypatch):
    """A folder on the worker's path that looks like llama-cpp-python 9.9."""
    folder = tmp_path / "peers"
    (folder / "llama_cpp_python-9.9.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: 9.9\n"
    (folder / "llama_cpp_python-9.9.dist-info" / "METADATA").write_text(metadata, encoding="utf-8")
    (folder / "llama_cpp.py").write_text(FAKE_LLAMA, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(cpu, "read_bandwidth", lambda threads: [2e9, 3e9, 4e9])
    monkeypatch.setattr(cpu, "matmul_peak", lambda threads: 1e11)
    return folder


def test_results_hold_what_others_rely_on(model, fake_peer, tmp_path):
    out = tmp_path / "cpu.json"
    arguments = ["bench", "cpu", "--model", str(model), "--peer", "llama.cpp", "--threads", "1,2"]
    arguments += ["--repetitions", "2", "--tokens", "8", "--out", str(out), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[-1])
    assert found == json.loads(out.read_text(encoding="utf-8"))
    assert set(found["ratios"]) == {"decode", "decode@1024", "prefill512", "batch8"}
    assert found["ratios_of_peers"] == {"llama.cpp": found["ratios"]}
    assert found["versions"]["llama.cpp"]["version"] == "9.9"
    assert found["versions"]["cerne"]["arithmetic"] == "cerne-1"
    assert found["limits"]["dram_read_bytes_s"]["1"]["median"] == 3e9
    tiny = found["models"]["tiny"]
    stage = tiny["threads"]["2"]
    decode = stage["cases"]["decode"]
    # The stand-in sleeps 2 ms a step, so it cannot be faster than 500 steps a second.
    peer = decode["engines"]["llama.cpp"]
    assert peer["rate_tok_s"]["high"] < 500 and peer["rate_tok_s"]["repetitions"] == 2
    share = decode["engines"]["cerne"]["share_of_dram_read"]
    rate = decode["engines"]["cerne"]["rate_tok_s"]["median"]
    assert share == pytest.approx(rate * tiny["bytes_per_token"] / 3e9, abs=1e-3)
    prompt = stage["cases"]["prefill512"]["engines"]["cerne"]
    operations_s = prompt["rate_tok_s"]["median"] * tiny["operations_per_token"]
    assert prompt["times_float32_matmul_peak"] == pytest.approx(operations_s / 1e11, abs=1e-3)
    batch = stage["cases"]["batch8"]["engines"]["llama.cpp"]["rate_tok_s"]
    assert batch["high"] < 8 * 500
    assert stage["starts"]["cerne"]["peak_rss_bytes"]["median"] > 1e6
    assert stage["starts"]["llama.cpp"]["first_token_s"]["repetitions"] == 2
    assert set(stage["chosen_settings"]["llama.cpp"]) == {"context 1016"}
    assert "cerne is x faster than" in done.output


def test_a_peer_that_crashes_is_left_out_from_there_on(model, fake_peer, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_LLAMA_FAILS_AT", "8")  # the batch of eight
    found = cpu.run([str(model)], threads=[1], repetitions=1, tokens=8)
    assert set(found["ratios"]) == {"decode", "decode@1024", "prefill512"}
    stage = found["models"]["tiny"]["threads"]["1"]
    assert "the process of llama.cpp ended" in stage["left_out"]["llama.cpp"]
    assert list(stage["cases"]["batch8"]["engines"]) == ["cerne"]
    assert "llama.cpp is left out" in capsys.readouterr().out


def test_a_case_beyond_the_context_is_left_out_with_the_reason(fake_peer, tmp_path):
    short = write_tiny_gguf(tmp_path / "short.gguf", context=600)
    found = cpu.run([str(short)], threads=[1], repetitions=1, tokens=8, long=True)
    assert set(found["ratios"]) == {"decode", "prefill512", "batch8"}
    left_out = found["models"]["short"]["threads"]["1"]["left_out"]
    assert left_out == dict.fromkeys(("decode@1024", "decode@4096"), "the model's context is 600")


def test_missing_peers(model, monkeypatch):
    pythons = dict.fromkeys(cpu_process.PEERS, sys.executable)
    monkeypatch.setattr(cpu_process, "PEERS", {"llama.cpp": ("no_such_module", "no-such")})
    with pytest.raises(EnvironmentLack, match=r"no peer is installed.*--peer-python"):
        cpu_process.find_peers([], pythons)
    with pytest.raises(EnvironmentLack, match=r"the peer llama\.cpp is not installed"):
        cpu_process.find_peers(["llama.cpp"], pythons)
    with pytest.raises(InputError, match=r"unknown peer.*vllm.*llama.cpp"):
        cpu_process.find_peers(["vllm"], pythons)


def test_peers_that_are_not_named_are_left_out_with_a_reason(fake_peer):
    pythons = dict.fromkeys(cpu_process.PEERS, sys.executable)
    found, missing = cpu_process.find_peers(["all"], pythons)
    assert [contender.name for contender in found][:1] == ["llama.cpp"]
    assert len(found) + len(missing) == len(cpu_process.PEERS)
    assert all("is not installed" in reason for reason in missing)
    assert cpu_process.find_peers(["llama.cpp"], pythons) == (found[:1], [])


def test_interpreters_of_peers(tmp_path):
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    chosen = cpu_process.parse_pythons([f"ik={other}", sys.executable])
    assert chosen["ik"] == str(other) and chosen["llama.cpp"] == sys.executable
    for wrong in (f"vllm={other}", str(tmp_path), "ik=/no/such/python"):
        with pytest.raises(InputError):
            cpu_process.parse_pythons([wrong])


def test_wrong_models_and_numbers(model, fake_peer, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:900])
    empty = tmp_path / "model"
    empty.mkdir()
    for wrong in (cut, empty, tmp_path / "absent.gguf"):
        with pytest.raises(ModelError):
            cpu.run([str(wrong)], threads=[1], repetitions=1)
    with pytest.raises(InputError, match="8 to 256"):
        cpu.run([str(model)], tokens=4)
    with pytest.raises(InputError, match="same name"):
        cpu.run([str(model), str(model)])
    done = CliRunner().invoke(app, ["bench", "cpu", "--model", str(model), "--threads", "0"])
    assert isinstance(done.exception, InputError)


def test_worker_says_what_went_wrong(model, tmp_path):
    contender = cpu_process.Contender("cerne", sys.executable)
    start = {"engine": "cerne", "model": str(tmp_path / "absent.gguf"), "threads": 1}
    start |= {"capacity": 64, "ids": [1, 2, 3], "shape": {}, "scratch": ""}
    worker = cpu_process.Worker(contender, 1)
    with pytest.raises(EngineError, match=r"cerne failed: ModelError: .*absent.gguf"):
        worker.ask(start)
    with pytest.raises(EngineError, match="the process of cerne ended"):
        worker.ask({"kind": "prefill", "tokens": 4})
    worker.close()
    worker = cpu_process.Worker(contender, 1)
    ready = worker.ask({**start, "model": str(model)})
    assert 0 < ready["load_s"] < ready["first_token_s"] and ready["peak_rss_bytes"] > 1e6
    steps = {"kind": "decode", "sequences": 3, "start": 5, "tokens": 9}
    assert len(worker.ask(steps)["times_s"]) == 9
    with pytest.raises(EngineError, match="cerne failed"):
        worker.ask({"kind": "prefill", "tokens": 65})
    assert len(worker.ask({"kind": "prefill", "tokens": 64})["times_s"]) == 1
    worker.close()


def test_cost_of_a_model(model):
    cost = cpu_limits.model_cost(model)
    assert cost.operations_per_token == 2 * LAYERS * WIDTH * (3 * WIDTH + 3 * FFN)
    assert cost.bytes_per_token == 4 * (VOCAB * WIDTH + WIDTH) + LAYERS * 8 * WIDTH + (
        2 * cost.operations_per_token
    )
    assert cost.vocab_size == VOCAB and cost.shape is not None
    assert cost.shape["head_width"] == WIDTH // 4 and cost.shape["ffn"] == FFN


def test_ratios_are_of_the_same_round_and_steps_are_medians():
    answers = [{"first_token_s": 0.1, "load_s": 0.1, "peak_rss_bytes": 1, "imported_rss_bytes": 1}]
    stage = cpu_report.Stage(
        starts={"cerne": answers, "slow": answers, "fast": answers},
        times={
            "batch8": {
                "cerne": [[1.0, 1.0, 9.0], [2.0, 2.0, 2.0], [4.0, 0.5, 4.0]],
                "slow": [[3.0, 3.0, 3.0], [8.0, 8.0, 8.0], [20.0, 20.0, 20.0]],
                "fast": [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]],
            }
        },
        units={"batch8": 8},
        chosen={},
        left_out={},
    )
    assert stage.ratio("batch8", "slow") == Spread(4.0, 3.0, 5.0, 3)
    assert stage.ratio("batch8", "fast") == Spread(1.5, 1.0, 2.0, 2)
    assert stage.rates("batch8", "cerne") == Spread(4.0, 2.0, 8.0, 3)
    assert stage.best_ratio("batch8", "fast") == 4.0
    cost = cpu_limits.ModelCost(100, 100, 100, 100, 100, None)
    results = cpu_report.stage_results(stage, cost, 1.0, 1.0)
    overall = cpu_report.overall_ratios({"m": {"threads": {"1": results, "2": results}}})
    assert overall["ratios"] == {"batch8": 1.5}
    assert overall["ratios_of_best_steps"] == {"batch8": 4.0}
    assert overall["ratios_of_peers"] == {"slow": {"batch8": 4.0}, "fast": {"batch8": 1.5}}
    assert "4.00 (3.00-5.00)" in cpu_report.stage_table(stage)


def test_bandwidth_counts_every_byte():
    rates = cpu_limits.read_bandwidth(2, passes=3, size_bytes=1 << 22)
    assert len(rates) == 3 and min(rates) > 1e7


class _Recorder(cpu_worker.Stepwise):
    """Writes down what it is asked."""

    def __init__(self) -> None:
        ids = list(range(1000))
        super().__init__(
            cpu_worker.Start(model="", threads=1, capacity=64, ids=ids, shape={}, scratch="")
        )
        self.log: list[tuple[object, ...]] = []

    @classmethod
    def prepare(cls, start):
        """Nothing to do."""

    def open(self, sequences, capacity, variant):
        self.log.append(("open", sequences, capacity))
        return self

    def read(self, sequence, ids):
        self.log.append(("read", sequence, list(ids)))

    def step(self, ids):
        self.log.append(("step", list(ids)))

    def truncate(self, length):
        self.log.append(("truncate", length))


def test_every_engine_is_fed_the_same_ids_at_the_same_positions():
    engine = _Recorder()
    assert len(engine.decode(2, 3, 8)) == 8
    prompt = [("read", 0, [0, 1, 2]), ("read", 1, [64, 65, 66])]
    steps = [("step", [p, 64 + p]) for p in range(3, 11)]
    assert engine.log == [
        ("open", 2, 11), *prompt, *steps[:2], ("truncate", 3), *steps, ("truncate", 3)
    ]  # fmt: skip
    engine.log.clear()
    engine.decode(2, 3, 8)
    assert engine.log == [*steps[:2], ("truncate", 3), *steps, ("truncate", 3)]
    engine.log.clear()
    engine.prefill(5)
    assert engine.log == [("open", 1, 64), ("truncate", 0), ("read", 0, [0, 1, 2, 3, 4])]
