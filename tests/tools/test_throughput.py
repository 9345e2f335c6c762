"""throughput-net-run: threads at once, loops by time or count, what is printed and written."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnnrt.cli._io_sets import IoSet
from qnnrt.profile_log import ProfileLogContents
from support.outside import interruptible
from support.tool_cases import (
    EXPECTED,
    Capture,
    X,
    call,
    complaint,
    here,
    listed,
    numbers,
    onnx_model,
    python_model,
    raw,
    report,
    results,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here(tmp_path, monkeypatch, x=X, x2=2 * X)
    listed(tmp_path / "l", "x.raw", "x2.raw")
    python_model(tmp_path)


def thread(name: str, **keys: Any) -> dict[str, Any]:
    given = {"threadName": name, "backend": "b", "context": "c", "model": "net"}
    return given | {"interval": 0, "loopUnit": "count", "loop": 10} | keys


def config(
    *threads: dict[str, Any],
    backend: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    test: dict[str, Any] | None = None,
    **top: Any,
) -> Path:
    value = {
        "backends": [
            {"backendName": "b", "backendPath": "htp", "profilingLevel": "OFF"} | (backend or {})
        ],
        "models": [
            {
                "modelName": "net",
                "modelPath": "m.py",
                "loadFromCachedBinary": False,
                "inputPath": "l",
                "inputDataType": "FLOAT",
                "outputPath": "out",
                "outputDataType": "FLOAT_ONLY",
                "saveOutput": "NONE",
            }
            | (model or {})
        ],
        "contexts": [{"contextName": "c"}, {"contextName": "d"}],
        "testCase": {"iteration": 1, "logLevel": "error", "threads": list(threads)} | (test or {}),
    } | top
    path = Path("config.json")
    path.write_text(json.dumps(value))
    return path


def run(path: Path) -> tuple[str, ...]:
    return ("throughput-net-run", "--config", str(path))


def test_a_count_is_kept_and_a_time_is_filled(capsys: Capture) -> None:
    path = config(thread("few", loop=7), thread("long", loopUnit="second", loop=0.4))
    found = report(capsys, *run(path))
    few, long = found["threads"]
    assert few["executions"] == 7
    assert long["executions"] > 7
    assert found["total_us"] >= 400_000
    assert few["min_us"] <= few["average_us"] <= few["max_us"]
    assert few["wall_us"] < long["wall_us"]
    (graph,) = found["graphs"]  # one context and model: one graph for both
    assert graph["executions"] == few["executions"] + long["executions"]


def test_what_is_printed_can_be_parsed(capsys: Capture) -> None:
    assert call(*run(config(thread("t0", loop=5), thread("t 1", loop=3, context="d")))) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^TotalTime.*?(\d+)$", out, re.MULTILINE)
    assert re.findall(r"^(.+):graphExecute: (\d+) ", out, re.MULTILINE) == [
        ("t0", "5"),
        ("t 1", "3"),
    ]
    copied = re.findall(r"^(\w):m: (\d+) bytes copied per execution$", out, re.MULTILINE)
    assert copied == [("c", "128"), ("d", "128")]


@pytest.mark.parametrize("kind", ["ion", "dma_buf", "shared_buffer"])
def test_memory_handles_copy_nothing(kind: str, capsys: Capture) -> None:
    path = config(thread("t"), model={"ioTensorMemHandleType": kind})
    assert report(capsys, *run(path))["graphs"][0]["copied_bytes"] == 0


def test_the_whole_test_is_repeated(capsys: Capture) -> None:
    found = report(capsys, *run(config(thread("t", loop=4), test={"iteration": 3})))
    assert found["iterations"] == 3
    assert found["threads"][0]["executions"] == 12


def test_an_interval_lies_between_executions(capsys: Capture) -> None:
    found = report(capsys, *run(config(thread("t", loop=6, interval=20_000))))
    assert found["threads"][0]["executions"] == 6
    assert found["total_us"] >= 5 * 20_000


@pytest.mark.parametrize(
    ("save", "kinds", "loop", "expected"),
    [
        ("NONE", "FLOAT_ONLY", 4, {}),
        ("FIRST", "FLOAT_ONLY", 4, {"t/Result_0": {"out_y.raw"}}),
        ("LAST", "NATIVE_ONLY", 4, {"t/Result_1": {"out_y_native.raw"}}),
        ("LAST", "FLOAT_ONLY", 3, {"t/Result_0": {"out_y.raw"}}),
        (
            "ALL",
            "FLOAT_AND_NATIVE",
            4,
            {f"t/Result_{n}": {"out_y.raw", "out_y_native.raw"} for n in (0, 1)},
        ),
        ("NATIVE_ALL", "FLOAT_ONLY", 4, {f"t/Result_{n}": {"out_y_native.raw"} for n in (0, 1)}),
    ],
)
def test_outputs_are_saved_as_asked(
    save: str, kinds: str, loop: int, expected: dict[str, set[str]], tmp_path: Path
) -> None:
    path = config(thread("t", loop=loop), model={"saveOutput": save, "outputDataType": kinds})
    assert call(*run(path)) == 0
    assert results(tmp_path / "out") == expected
    for folder, files in expected.items():
        for name in files:
            factor = int(folder[-1]) + 1
            got = numbers(tmp_path / "out" / folder / name)
            np.testing.assert_array_equal(got, EXPECTED * factor)


def test_every_thread_gets_its_own_results(tmp_path: Path, capsys: Capture) -> None:
    """Eight threads with inputs of their own, on one graph and on two contexts."""
    threads = []
    models = []
    for n in range(8):
        raw(tmp_path / f"in{n}.raw", X + n)
        listed(tmp_path / f"l{n}", f"in{n}.raw")
        models.append(
            {
                "modelName": f"net{n}",
                "modelPath": f"m{n // 2}.py",
                "inputPath": f"l{n}",
                "outputPath": "out",
                "saveOutput": "LAST",
            }
        )
        threads.append(thread(f"t{n}", model=f"net{n}", context=f"c{n}", loop=200))
        python_model(tmp_path, f"m{n // 2}")
    contexts = [{"contextName": f"c{n}"} for n in range(8)]
    found = report(capsys, *run(config(*threads, models=models, contexts=contexts)))
    assert [t["executions"] for t in found["threads"]] == [200] * 8
    for n in range(8):
        got = numbers(tmp_path / f"out/t{n}/Result_0/out_y.raw")
        np.testing.assert_array_equal(got, -np.maximum(X + n, 0).ravel())


def test_threads_execute_at_the_same_time(capsys: Capture) -> None:
    """All of them are inside an execution at once: each waits there for the others."""
    inside = threading.Barrier(3, timeout=300)
    original = IoSet.run

    def wait_inside(self: IoSet) -> float:
        inside.wait()
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IoSet, "run", wait_inside)
        found = report(capsys, *run(config(*(thread(f"t{n}", loop=5) for n in range(3)))))
    assert [t["executions"] for t in found["threads"]] == [5, 5, 5]


def test_pythons_lock_is_free_while_a_thread_executes(tmp_path: Path) -> None:
    """A thread of Python goes on counting while the only execution takes its time."""
    size = 1 << 20
    text = (
        "import numpy as np\n"
        "def compose(graph):\n"
        f'    x = graph.add_tensor("x", (1, {size}), np.float32, type="app_write")\n'
        "    for i in range(12):\n"
        f'        y = graph.add_tensor(f"t{{i}}", (1, {size}), np.float32, '
        'type="app_read" if i == 11 else "native")\n'
        '        graph.add_node(f"n{i}", "ElementWiseSin", [x], [y])\n'
        "        x = y\n"
    )
    python_model(tmp_path, "slow", text)
    raw(tmp_path / "slow.raw", np.zeros(size))
    listed(tmp_path / "ls", "slow.raw")
    ticks = 0
    during = []
    original = IoSet.run
    done = threading.Event()

    def watched(self: IoSet) -> float:
        for _ in range(1000):  # again where the machine gave the other thread no time
            before = ticks
            took = original(self)
            if ticks != before:
                break
        during.append(ticks - before)
        return took

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.0005)

    counter = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    counter.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IoSet, "run", watched)
            # With the lock held no tick could come between: nobody is asked to let go of it.
            sys.setswitchinterval(1000)
            model = {"modelPath": "slow.py", "inputPath": "ls", "ioTensorMemHandleType": "ion"}
            assert call(*run(config(thread("t", loop=8), model=model))) == 0
    finally:
        sys.setswitchinterval(interval)
        done.set()
        counter.join()
    assert len(during) == 8
    assert all(during)


def test_context_binaries_and_profiles(tmp_path: Path, capsys: Capture) -> None:
    given = ["context-binary-generator", "--model", "m.py", "--backend", "htp"]
    assert call(*given, "--binary_file", "net", "--input_output_tensor_mem_type", "memhandle") == 0
    capsys.readouterr()
    cached = {
        "modelPath": "output/net.bin",
        "loadFromCachedBinary": True,
        "saveOutput": "LAST",
        "ioTensorMemHandleType": "shared_buffer",
    }
    path = config(thread("a"), thread("b"), backend={"profilingLevel": "BASIC"}, model=cached)
    found = report(capsys, *run(path))
    assert found["graphs"][0]["reserved_bytes"] == 0
    assert found["graphs"][0]["copied_bytes"] == 0
    for name in ("a", "b"):
        log = ProfileLogContents.read(tmp_path / "out" / name / "qnn-profiling-data_0.log")
        assert [m.method_name for m in log.messages] == ["execute"] * 10
        assert all(m.events for m in log.messages)
        got = numbers(tmp_path / "out" / name / "Result_1/out_y.raw")
        np.testing.assert_array_equal(got, 2 * EXPECTED)


def test_models_of_one_context_are_graphs_of_it(tmp_path: Path, capsys: Capture) -> None:
    onnx_model(tmp_path)
    raw(tmp_path / "a.raw", np.zeros(4))
    listed(tmp_path / "ab", "a.raw a.raw")
    models = [
        {"modelName": "net", "modelPath": "m.py", "inputPath": "l"},
        {"modelName": "sum", "modelPath": "sum.onnx", "inputPath": "ab"},
    ]
    path = config(thread("a"), thread("b", model="sum"), thread("c", model="sum"), models=models)
    found = report(capsys, *run(path))
    graphs = [(g["context"], g["name"], g["executions"]) for g in found["graphs"]]
    assert graphs == [("c", "m", 10), ("c", "sum", 20)]


def test_a_failing_thread_stops_the_others_and_is_the_error(capsys: Capture) -> None:
    original = IoSet.run
    calls = itertools.count(1)  # of three threads

    def fail(self: IoSet) -> float:
        if next(calls) == 20:
            raise OSError(5, "the disk is on fire", "device")
        return original(self)

    path = config(*(thread(f"t{n}", loopUnit="second", loop=600, interval=1000) for n in range(3)))
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IoSet, "run", fail)
        assert "device: the disk is on fire" in complaint(capsys, *run(path))
    assert time.monotonic() - start < 500


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"threads": []}, "there are no threads"),
        ({"threads": [thread("t", backend="z")]}, "t: no backend 'z'; there are b"),
        ({"threads": [thread("t", model="z")]}, "t: no model 'z'; there are net"),
        ({"threads": [thread("t", context="z")]}, "t: no context 'z'; there are c, d"),
        ({"threads": [thread("t"), thread("t")]}, "t: there is a thread of this name already"),
        ({"threads": [thread("t", loop=0)]}, "loop: expected a positive number, not 0"),
        ({"threads": [thread("t", loop=1.5)]}, "expected a whole number of executions, not 1.5"),
        ({"threads": [thread("t", loopUnit="hours")]}, "expected one of second, count"),
        ({"threads": [thread("t", interval=-1)]}, "interval: expected a whole number"),
        ({"threads": [thread("t", lop=3)]}, "unknown key 'lop'"),
        ({"threads": [{"threadName": "t"}]}, "'backend' is missing"),
        ({"iteration": 0, "threads": [thread("t")]}, "iteration: expected a whole number"),
        ({"logLevel": "LOUD", "threads": [thread("t")]}, "logLevel: expected one of ERROR"),
    ],
)
def test_a_bad_test_case_is_one_line_that_says_where(
    keys: dict[str, Any], words: str, capsys: Capture
) -> None:
    error = complaint(capsys, *run(config(test=keys)))
    assert words in error
    assert "config.json" in error


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"modelPath": "none.py"}, "none.py: no such file"),
        ({"modelPath": "none.bin", "loadFromCachedBinary": True}, "none.bin: no such file"),
        ({"modelPath": "m.py", "loadFromCachedBinary": True}, "m.py"),
        ({"inputPath": "none"}, "none: no such input list"),
        ({"inputPath": "l,l"}, "2 lists, but 1 graph"),
        ({"inputDataType": "DOUBLE"}, "expected one of FLOAT, NATIVE, not 'DOUBLE'"),
        ({"saveOutput": "SOME"}, "saveOutput: expected NONE, FIRST, LAST or ALL"),
    ],
)
def test_a_bad_model_is_one_line_that_says_what(
    model: dict[str, Any], words: str, capsys: Capture
) -> None:
    assert words in complaint(capsys, *run(config(thread("t"), model=model)))


def test_a_config_that_is_missing_is_named(capsys: Capture) -> None:
    assert "none.json: no such file" in complaint(capsys, *run(Path("none.json")))
    assert "'testCase' is missing" in complaint(capsys, *run(_written("{}\n", models=True)))


def _written(text: str, models: bool) -> Path:
    path = Path("short.json")
    value = json.loads(text) | ({"backends": [], "models": []} if models else {})
    path.write_text(json.dumps(value))
    return path


def test_an_interrupt_stops_every_thread(tmp_path: Path) -> None:
    threads = (thread(f"t{n}", loopUnit="second", loop=600, interval=1000) for n in range(2))
    path = config(*threads, model={"saveOutput": "FIRST"})
    command = [sys.executable, "-m", "qnnrt", *run(path)]
    started = interruptible(command)
    try:
        while len(results(tmp_path)) < 2 and started.poll() is None:
            time.sleep(0.05)
        started.send_signal(2)
        out, err = started.communicate(timeout=300)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130, (out, err)
    assert err == ""


def test_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "qnnrt", *run(config(thread("t"), thread("u")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("TotalTime (us): ")
