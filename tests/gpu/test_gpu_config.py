"""Configs of the gpu backend and what they change, as options of a session and as C structs."""

from __future__ import annotations

import ctypes
import json
import logging
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import qnnrt
from qnnrt.gpu import configs, tune
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import add_model, relu_model
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def described(s: qnnrt.Session) -> dict[str, Any]:
    return json.loads(s.backend.library.graph_describe(s.graph.handle))


def session(**options: Any) -> qnnrt.Session:
    return qnnrt.Session(add_model(), "gpu", options={"gpu": options})


def check(s: qnnrt.Session) -> None:
    """It computes, whatever it was told."""
    s.inputs["a"].array[...] = 2
    s.inputs["b"].array[...] = -5
    s.run()
    assert (s.outputs["w"].array == -3).all()
    assert (s.outputs["z"].array == 0).all()


def test_options_and_structs_say_the_same(tmp_path: Path) -> None:
    """Options of Python's go through QNN's structs, as those of C clients."""
    every = gpu.Options(
        precision="fp16",
        tuning=True,
        cache_dir=tmp_path / "cache",
        invalidate_cache=True,
        kernel_repo_dir=tmp_path / "kernels",
        invalidate_kernel_repo=True,
        weight_sharing=False,
        kernel_profiling=False,
        perf_hint="low",
        memory_optimizations=False,
        node_optimizations=False,
        queue_recording=False,
    )
    with qnnrt.Session(add_model(), "gpu", options={"gpu": every}) as s:
        library = s.backend.library
        found = configs.Configs.of(library, s.graph.handle)
        assert found.backend == {
            "ENABLE_TUNING_MODE": True,
            "PERFORMANCE_CACHE_DIR": str(tmp_path / "cache"),
            "INVALIDATE_PERFORMANCE_CACHE": True,
            "WEIGHT_SHARING_ENABLED": False,
            "DISABLE_KERNEL_PROFILING": True,
        }
        assert found.context == {
            "PERF_HINT": "low",
            "KERNEL_REPO_DIR": str(tmp_path / "kernels"),
            "INVALIDATE_KERNEL_REPO": True,
        }
        assert found.graph == {
            "precision": "fp16",
            "disableMemoryOptimizations": True,
            "disableNodeOptimizations": True,
            "disableQueueRecording": True,
            "RELEASE_CONSTANTS": True,  # a session's
            "SHARE_WEIGHTS": "PROCESS",
        }
        target = found.target(library.device)
        assert target.precision == described(s)["precision"] == "fp16"
        assert target.compute_half == library.device.half
        assert (target.tuning, target.weight_sharing, target.rebuild) == (True, False, True)
        assert (target.memory_optimizations, target.node_optimizations) == (False, False)
        assert not target.queue_recording
        assert (target.tuning_cache, target.program_cache) == (
            tmp_path / "cache",
            tmp_path / "kernels",
        )
        check(s)
        s.close()
        s.backend.close()


def test_structs_of_a_client_have_the_same_effect(tmp_path: Path) -> None:
    """As bytes: what a C client would lay out."""
    no_profiling = struct.pack("=IxxxxQ", 4, 1)
    no_fusion = struct.pack("=IBBBx", 3, 0, 1, 0)
    with qnnrt.qnn.Backend.open("gpu", options=[(0, no_profiling)]) as backend:
        options = {"graph_config": [no_fusion]}
        with qnnrt.Session(add_model(), backend, options=options) as s:
            assert [step["fused"] for step in described(s)["steps"]] == [[], []]
            assert s.profile()[-1].events == ()


def test_bytes_that_are_a_switch_are_0_or_1() -> None:
    for value in (0, 1):
        qnnrt.qnn.Backend.open("gpu", options=[(0, struct.pack("=IIQ", 0, 0, value))]).close()
    for value in (2, 255):
        with pytest.raises(qnnrt.QnnError, match=f"it is 0 or 1, got {value}"):
            qnnrt.qnn.Backend.open("gpu", options=[(0, struct.pack("=IIQ", 0, 0, value))])


def test_names_end_with_the_last_one() -> None:
    """Precisions, which a graph has, and performance hints, which a context has."""
    with qnnrt.qnn.Backend.open("gpu") as backend:
        for hint in (3, 2**32 - 1):
            with pytest.raises(qnnrt.QnnError, match=f"it is from 0 to 2, got {hint}"):
                backend.create_context(custom=[struct.pack("=IIQ", 0, 0, hint)])
        with backend.create_context(custom=[struct.pack("=IIQ", 0, 0, 2)]) as context:
            for precision in (4, 2**32 - 1):
                with pytest.raises(qnnrt.QnnError, match=f"it is from 0 to 3, got {precision}"):
                    context.create_graph("g", custom=[struct.pack("=I4x", precision)])
            context.create_graph("g", custom=[struct.pack("=I4x", 3)])


def test_without_a_word_everything_is_optimized() -> None:
    with qnnrt.Session(add_model(), "gpu") as s:
        library = s.backend.library
        target = configs.Configs.of(library, s.graph.handle).target(library.device)
        assert (target.memory_optimizations, target.node_optimizations) == (True, True)
        assert target.queue_recording
        assert target.weight_sharing


def test_a_folder_of_programs_has_a_name() -> None:
    empty = ctypes.create_string_buffer(b"")
    for address in (0, ctypes.addressof(empty)):
        with pytest.raises(qnnrt.QnnError, match="the path must not be null or empty"):
            qnnrt.qnn.Backend.open("gpu", options=[(0, struct.pack("=IIQ", 1, 0, address))])


def test_what_a_backend_was_opened_with_is_for_its_sessions(tmp_path: Path) -> None:
    told = {"precision": "fp16", "kernel_repo_dir": tmp_path}
    with qnnrt.qnn.Backend.open("gpu", gpu=told) as backend:
        with qnnrt.Session(add_model(), backend) as s:
            assert described(s)["precision"] == "fp16"
            assert list(tmp_path.glob("*.bin"))
        with qnnrt.Session(add_model(), backend, options={"gpu": {}}) as s:  # options of its own
            assert described(s)["precision"] == "user"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"context": 5}, r"context is a pyopencl\.Context, not a int"),
        ({"queue": 7}, r"queue is a pyopencl\.CommandQueue, not a int"),
        ({"tuning": "yes"}, "tuning is True or False, not 'yes'"),
        ({"device": 3}, "device is a part of its name, not 3"),
        ({"cache_dir": 5}, "cache_dir is the path of a folder, not 5"),
        ({"kernel_repo_dir": ""}, "kernel_repo_dir is the path of a folder, not ''"),
        (5, "gpu options are Options or a mapping, not a int"),
    ],
)
def test_values_that_no_option_has(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        qnnrt.Session(add_model(), "gpu", options={"gpu": given})


def test_a_device_is_not_named_beside_a_context_that_has_one() -> None:
    context = cl.Context([gpu.choose().raw])
    with pytest.raises(ValueError, match="the device is that of 'context'"):
        session(device=str(gpu.choose()), context=context)


def test_options_of_contexts_and_graphs_are_for_open_backends_too() -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend:
        options = {"gpu": {"precision": "hybrid"}}
        with qnnrt.Session(add_model(), backend, options=options) as s:
            assert described(s)["precision"] == "hybrid"
        for late in ({"tuning": True}, {"device": "x"}):
            with pytest.raises(ValueError, match="the backend is open already: give 'gpu'"):
                qnnrt.Session(add_model(), backend, options={"gpu": late})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "fp64"}, "precision is one of fp32, fp16, hybrid, user, tf32, not 'fp64'"),
        ({"perf_hint": 3}, "perf_hint is one of high, normal, low, not 3"),
        ({"tunning": True}, "unknown gpu option 'tunning'"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        session(**options)


def test_threads_are_refused() -> None:
    with pytest.raises(qnnrt.GraphError, match="NUM_THREADS is not supported") as e:
        qnnrt.Session(relu_model(), "gpu", threads=2)
    assert e.value.code == 1000


def test_portable_kernels_are_those_that_nobody_measured() -> None:
    with qnnrt.Session(relu_model(), "gpu", options={"kernels": "portable"}) as s:
        found = configs.Configs.of(s.backend.library, s.graph.handle)
        assert found.target(s.backend.library.device).portable
        s.close()
        s.backend.close()


def test_programs_are_kept_in_the_folder_that_is_said(tmp_path: Path) -> None:
    cache, kernels = tmp_path / "cache", tmp_path / "kernels"
    with session(cache_dir=cache) as s:
        s.close()
        s.backend.close()
    programs = sorted(p.name for p in cache.glob("*.bin"))
    assert programs
    with session(cache_dir=cache, kernel_repo_dir=kernels) as s:
        s.close()
        s.backend.close()
    assert sorted(p.name for p in kernels.glob("*.bin")) == programs
    seen = []
    for invalidate in (False, True):
        with session(kernel_repo_dir=kernels, invalidate_kernel_repo=invalidate) as s:
            seen.append(described(s)["programs"])
            check(s)
            s.close()
            s.backend.close()
    n = len(programs)
    assert seen == [
        {"built": 0, "disk": n, "memory": 0},
        {"built": n, "disk": 0, "memory": 0},
    ]


def test_measurements_can_be_forgotten(tmp_path: Path) -> None:
    kept = tmp_path / tune.FILE
    other = tmp_path / "other.json"
    for invalidate in (False, True):
        kept.write_text("{}")
        other.write_text("{}")
        with session(cache_dir=tmp_path, invalidate_cache=invalidate) as s:
            s.close()
            s.backend.close()
        assert kept.exists() != invalidate
        assert other.exists()


def test_a_hint_that_the_device_does_not_take_is_said(caplog) -> None:
    class Plain:
        raw = SimpleNamespace(extensions="cl_khr_fp16")

        def __str__(self) -> str:
            return "Some platform: plain"

    device: Any = Plain()
    with caplog.at_level(logging.INFO, "qnnrt"):
        assert configs.context_queue("context", device, "high") is None
    assert "Some platform: plain takes no performance hints: 'high' changes" in caplog.text
    with session(perf_hint="high") as s:
        check(s)
        s.close()
        s.backend.close()


@pytest.mark.parametrize(
    ("extensions", "hint", "properties"),
    [
        ("cl_khr_priority_hints", "high", [0x1096, 1]),
        ("cl_khr_throttle_hints", "low", [0x1097, 4]),
        ("cl_khr_priority_hints cl_khr_throttle_hints", "low", [0x1096, 4, 0x1097, 4]),
    ],
)
def test_a_hint_becomes_properties_of_the_contexts_queue(
    monkeypatch: pytest.MonkeyPatch, extensions: str, hint: str, properties: list[int]
) -> None:
    made: list[Any] = []

    def queue(*args: Any, **given: Any) -> str:
        made.append((args, given))
        return "the queue"

    monkeypatch.setattr(configs, "pyopencl", lambda: SimpleNamespace(CommandQueue=queue))
    raw = SimpleNamespace(extensions=extensions)
    device: Any = SimpleNamespace(raw=raw)
    assert configs.context_queue("context", device, hint) == "the queue"
    assert made == [(("context", raw), {"properties": properties})]
    assert configs.context_queue("context", device, "normal") is None


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_a_context_with_a_hint_runs_in_its_own_queue(monkeypatch, io: str) -> None:
    made: list[Any] = []

    def queue(context: Any, device: Any, hint: str) -> Any:
        assert hint == "high"
        made.append(cl.CommandQueue(context, device.raw))
        return made[-1]

    from qnnrt.gpu import library

    monkeypatch.setattr(library, "context_queue", queue)
    options = {"gpu": {"perf_hint": "high"}}
    with qnnrt.Session(add_model(), "gpu", io=io, options=options) as s:
        check(s)
        s.profile()
        check(s)
        assert s.backend.library._queues == {s.context.handle: made[0]}
        held = s.backend.library
        s.close()
        assert held._queues == {}
        s.backend.close()


def test_another_makers_backend_gets_the_structs(fake: Any) -> None:
    """And none of the objects that only qnnrt's own backend can share."""
    fake.library.fake_gpu()
    with pytest.raises(ValueError, match="takes no gpu option 'device'"):
        qnnrt.qnn.Backend.open(fake.path, gpu={"device": "x"})
    fake.journal()
    told = {"tuning": True, "precision": "hybrid", "node_optimizations": False, "perf_hint": "low"}
    with qnnrt.Session(relu_model(), fake.path, options={"gpu": told}) as s:
        given = dict(line.split(" gpu=") for line in fake.journal() if " gpu=" in line)
        s.backend.close()
    assert given == {
        "backendCreate": struct.pack("=IIQ", 0, 0, 1).hex(),  # ENABLE_TUNING_MODE
        "contextCreate": struct.pack("=IIQ", 0, 0, 2).hex(),  # PERF_HINT
        "graphCreate": struct.pack("=IBBBB", 2, 0, 1, 0, 0).hex(),
    }
    with pytest.raises(ValueError, match="is not qnnrt's own: it has no 'tf32'"):
        qnnrt.Session(relu_model(), fake.path, options={"gpu": {"precision": "tf32"}})
    with pytest.raises(ValueError, match="'gpu' is for the backend 'gpu', which cpu is not"):
        qnnrt.qnn.Backend.open("cpu", gpu={"tuning": True})


def test_the_vendors_library_reads_our_structs() -> None:
    """On x86 it wants its tuning mode, and with it a device at the other end of a line."""
    path = vendor_library("libQnnGpu.so")
    codes = []
    for options in (None, {"tuning": True}):
        with pytest.raises(qnnrt.BackendError) as e:
            qnnrt.qnn.Backend.open(path, log_level="error", gpu=options)
        codes.append(e.value.code)
    assert codes == [4000, 4012]
