"""Executions that end early, since a blocking Buffer waits for more frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt import _core, qnn
from qnnrt.errors import EarlyTermination
from support.recurrent_cases import N, U, X, gru_inputs
from support.state_cases import NEVER, steps_of, stream

NAME = "QNN_GRAPH_ERROR_EARLY_TERMINATION"


def test_later_steps_are_not_run_when_an_execution_ends_early() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = stream(context)
        for i in range(5):
            x = np.full((1, 4), i, np.float32)
            z, y = np.full((1, 4), 77, np.float32), np.full((3, 4), 77, np.float32)
            if i < 2:
                with pytest.raises(EarlyTermination, match="again with the next frames") as ended:
                    graph.execute([x], [z, y])
                assert (ended.value.code, ended.value.name) == (6038, NAME)
                assert np.all(y == 77)
            else:
                graph.execute([x], [z, y])
                np.testing.assert_allclose(y[:, 0], np.tanh([i - 2, i - 1, i]), atol=1e-6)
            np.testing.assert_array_equal(z, x + 1)  # what came before it


def test_what_keeps_state_beside_a_buffer_sees_every_execution() -> None:
    """Two delays and a running state of one stream stay in step with each other."""
    rest = gru_inputs(7)[1:]
    params = {"buffer_dim": np.uint32(0)}
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")

        def tensor(name: str, rows: int, kind: str = "native") -> Any:
            return graph.add_tensor(name, (rows, N, X), np.float32, type=kind)

        x, first, second = tensor("x", 1, "app_write"), tensor("first", 3), tensor("second", 2)
        changed, late = tensor("changed", 1), tensor("late", 2)
        y, z = tensor("y", 3, "app_read"), tensor("z", 2, "app_read")
        h = graph.add_tensor("h", (1, N, U), np.float32, type="app_read")
        graph.add_node("b0", "Buffer", [x], [first], {**params, "buffer_size": np.uint32(3)})
        graph.add_node("y", "Tanh", [first], [y])
        graph.add_node("change", "ElementWiseNeg", [x], [changed])
        graph.add_node("b1", "Buffer", [changed], [second], {**params, "buffer_size": np.uint32(2)})
        graph.add_node("late", "ElementWiseNeg", [second], [late])
        graph.add_node("z", "Tanh", [late], [z])
        static = [
            graph.add_tensor(f"c{i}", a.shape, a.dtype, type="static", data=a)
            for i, a in enumerate([*rest, NEVER])
        ]
        graph.add_node("gru", "Gru", [x, *static], [h])
        graph.finalize()
        frames = np.random.default_rng(4).standard_normal((6, 1, N, X), np.float32)
        with steps_of("Gru", ((1, N, X), np.float32), [*rest, NEVER], [(1, N, U)], {}) as run:
            states = run.all(frames)
        for i, x_now in enumerate(frames):
            outs = [np.full(t.shape, 77, np.float32) for t in (y, z, h)]
            if i < 2:
                with pytest.raises(EarlyTermination):
                    graph.execute([x_now], outs)
            else:
                graph.execute([x_now], outs)
                np.testing.assert_allclose(outs[0], np.tanh(frames[i - 2 : i + 1, 0]), atol=1e-5)
                np.testing.assert_allclose(outs[1], np.tanh(frames[i - 1 : i + 1, 0]), atol=1e-5)
            np.testing.assert_array_equal(outs[2], states[i])


@pytest.mark.parametrize("backend_name", ["cpu", "htp"])
def test_an_execution_that_ends_early_is_profiled_and_no_error_in_the_log(
    backend_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        qnn.Backend.open(backend_name, log_level="info") as backend,
        backend.create_context() as context,
        backend.create_profile("detailed") as profile,
    ):
        graph = stream(context)
        x, z, y = (np.zeros(s, np.float32) for s in ((1, 4), (1, 4), (3, 4)))
        with pytest.raises(EarlyTermination):
            graph.execute([x], [z, y], profile=profile)
        events = [e.identifier for e in profile.events()]
        assert "execute" in events, events
    assert "error" not in capfd.readouterr().err.lower()


def test_an_asynchronous_execution_ends_early_too() -> None:
    with qnn.Backend.open("htp") as backend, backend.create_context() as context:
        graph = stream(context, size=2)
        frames = [np.full((1, 4), i, np.float32) for i in range(6)]
        z = [np.zeros((1, 4), np.float32) for _ in frames]
        y = [np.full((2, 4), 77, np.float32) for _ in frames]
        futures = [graph.execute_async([frames[i]], [z[i], y[i]]) for i in range(6)]
        assert isinstance(futures[0].exception(), EarlyTermination)
        assert np.all(y[0] == 77)
        for i in range(1, 6):
            futures[i].result()
            np.testing.assert_allclose(y[i][:, 0], np.tanh([i - 1, i]), atol=1e-6)


def test_ending_early_allocates_nothing() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = stream(context, size=1000)
        x, z, y = (np.zeros(s, np.float32) for s in ((1, 4), (1, 4), (1000, 4)))

        def run() -> None:
            with pytest.raises(EarlyTermination):
                graph.execute([x], [z, y])

        run()
        before = _core.debug_allocations()
        for _ in range(100):
            run()
        assert _core.debug_allocations() == before
