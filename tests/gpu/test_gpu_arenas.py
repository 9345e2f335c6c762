"""What further sessions of a backend cost: memory of intermediates, constants and programs, to the
byte; and the ways in which executions start and wait."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_gpu_plan import WIDTH, X, expected, layers

import qnnrt
from qnnrt.gpu.device import Device
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401

pytestmark = pytest.mark.foreign  # OpenCL drivers are

NONE = {"bytes": 0, "buffers": 0, "sets": 0}


@pytest.fixture
def backend(opencl_is_up: None) -> Iterator[qnnrt.qnn.Backend]:  # noqa: F811
    with qnnrt.qnn.Backend.open("gpu") as found:
        yield found
        assert arenas(found) == NONE


def library(backend: qnnrt.qnn.Backend) -> Any:
    return backend.library


def arenas(backend: qnnrt.qnn.Backend) -> dict[str, int]:
    found: dict[str, int] = library(backend).arenas.counts()
    return found


def stats(s: qnnrt.Session) -> dict[str, int]:
    found: dict[str, int] = library(s.backend).graph_stats(s.graph.handle)
    return found


def counts(s: qnnrt.Session) -> dict[str, int]:
    found: dict[str, int] = library(s.backend).gpu_counts(s.graph.handle)
    return found


def run(s: qnnrt.Session, y: np.ndarray) -> None:
    np.testing.assert_allclose(s.run({"x": X})["y"], y, rtol=1e-5, atol=1e-5)


#: Every node has its kernel, so there is much between them.
UNFUSED = {"gpu": {"node_optimizations": False}}


def test_ten_sessions_that_run_in_turn_have_the_arenas_constants_and_programs_of_one(
    backend: qnnrt.qnn.Backend,
) -> None:
    model = layers()
    y = expected(model)
    sessions = [qnnrt.Session(model, backend, options=UNFUSED)]
    there = arenas(backend)  # before the first run, which allocates nothing
    assert there["bytes"] == stats(sessions[0])["arena_bytes"] > 0
    assert there["sets"] == 1
    run(sessions[0], y)
    assert stats(sessions[0])["weight_bytes"] >= 4 * WIDTH * WIDTH * 4
    for _ in range(9):
        sessions.append(qnnrt.Session(model, backend, options=UNFUSED))
        run(sessions[-1], y)
        run(sessions[0], y)
        assert stats(sessions[-1])["weight_bytes"] == 0
        programs = json.loads(sessions[-1].graph.describe() or "")["programs"]
        assert (programs["built"], programs["disk"]) == (0, 0)
        assert programs["memory"] > 0
        assert arenas(backend) == there
    sessions[0].close()
    run(sessions[1], y)
    assert arenas(backend) == there
    for s in sessions:
        s.close()


def test_constants_are_one_where_the_device_has_memory_of_its_own(
    backend: qnnrt.qnn.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_memory = replace(library(backend).device, shared=False)
    monkeypatch.setattr(library(backend), "device", own_memory)
    model = layers()
    found = []
    for _ in range(3):
        s = qnnrt.Session(model, backend, io="raw")
        run(s, expected(model))
        found.append(s)
    assert [stats(s)["weight_bytes"] > 0 for s in found] == [True, False, False]
    for s in found:
        s.close()
    with qnnrt.qnn.Backend.open("gpu", gpu={"weight_sharing": False}) as own:
        one, two = (qnnrt.Session(model, own) for _ in range(2))
        assert stats(one)["weight_bytes"] == stats(two)["weight_bytes"] > 0
        one.close()
        two.close()


def test_options_of_contexts_and_graphs_need_no_backend_of_their_own() -> None:
    model = layers()
    with qnnrt.Session(model, "gpu") as first:
        given: dict[str, Any]
        for given in ({"precision": "fp32"}, {"perf_hint": "low"}, UNFUSED["gpu"], {}):
            with qnnrt.Session(model, "gpu", options={"gpu": given}) as s:
                assert s.backend is first.backend
                run(s, expected(model))
        for given in ({"kernel_profiling": False}, {"wait": "sleep"}, {"weight_sharing": False}):
            with qnnrt.Session(model, "gpu", options={"gpu": given}) as s:
                assert s.backend is not first.backend
                s.close()
                s.backend.close()


def test_a_larger_graph_takes_its_share_with_it(backend: qnnrt.qnn.Backend) -> None:
    small, large = layers(2), layers(6, seed=3)
    with qnnrt.Session(small, backend, options=UNFUSED) as first:
        run(first, expected(small))
        before = arenas(backend)
        off = {"gpu": {"node_optimizations": False, "memory_optimizations": False}}
        with qnnrt.Session(large, backend, options=off) as second:
            most = arenas(backend)
            assert most["bytes"] >= stats(second)["arena_bytes"] > before["bytes"]
            for _ in range(2):
                run(second, expected(large))
                run(first, expected(small))
            assert arenas(backend) == most
        run(first, expected(small))
        assert arenas(backend)["bytes"] <= before["bytes"]


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("given", [None, {"queue": "each"}])
def test_sessions_at_a_time_do_not_disturb_one_another(
    overlaps: bool, given: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Device.of
    monkeypatch.setattr(Device, "of", lambda raw: replace(of(raw), overlaps=overlaps))
    models = [layers(3, seed) for seed in range(3)]
    wanted = [expected(model) for model in models]
    with qnnrt.qnn.Backend.open("gpu", gpu=given) as backend:
        sessions = [qnnrt.Session(model, backend, options=UNFUSED) for model in models]
        one = arenas(backend)
        wrong: list[float] = []

        def work(s: qnnrt.Session, y: np.ndarray) -> None:
            wrong.append(max(np.abs(s.run({"x": X})["y"] - y).max() for _ in range(30)))

        threads = [
            threading.Thread(target=work, args=pair) for pair in zip(sessions, wanted, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wrong) == 3
        assert max(wrong) < 1e-5
        after = arenas(backend)
        assert 1 <= after["sets"] <= 3
        assert after["bytes"] == after["sets"] * one["bytes"]
        for s in sessions:
            s.close()
        assert arenas(backend) == NONE


def test_a_run_that_sleeps_computes_the_same() -> None:
    model = layers()
    with qnnrt.Session(model, "gpu", options={"gpu": {"wait": "sleep"}}) as s:
        for _ in range(3):
            run(s, expected(model))
        s.backend.close()
    with pytest.raises(ValueError, match="wait is one of driver, sleep, not 'spin'"):
        qnnrt.Session(model, "gpu", options={"gpu": {"wait": "spin"}})
    with (
        qnnrt.qnn.Backend.open("gpu") as backend,
        pytest.raises(ValueError, match="the backend is open already"),
    ):
        qnnrt.Session(model, backend, options={"gpu": {"wait": "sleep"}})


def test_arguments_are_set_when_they_change(backend: qnnrt.qnn.Backend) -> None:
    model = layers()
    with qnnrt.Session(model, backend, options=UNFUSED) as s:
        run(s, expected(model))
        first = counts(s)["arguments"]
        assert first > 0
        for _ in range(3):
            run(s, expected(model))
        assert counts(s)["arguments"] == first


def test_a_list_is_recorded_where_the_device_can(backend: qnnrt.qnn.Backend) -> None:
    model = layers()
    can = library(backend).device.records
    for options, recorded in ((UNFUSED, 3 if can else 0), (OFF, 0)):
        with qnnrt.Session(model, backend, options=options) as s:
            for _ in range(4):
                run(s, expected(model))
            assert counts(s)["recorded"] == recorded
            assert counts(s)["kernels"] == 4 * stats(s)["num_steps"]


OFF = {"gpu": {"node_optimizations": False, "queue_recording": False}}
