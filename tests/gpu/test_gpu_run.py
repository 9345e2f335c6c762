"""The loop that runs a command list: order, many tensors, steps of Python's, failing drivers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import _core, cli
from qnnrt.gpu import ir, library
from qnnrt.gpu.ops import table
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from qnnrt.session.build import add_model as add_model_to
from support.gpu.opencl import cl, gpu, on_shared_memory, opencl_is_up  # noqa: F401
from support.toy import F32, add_model, relu_model, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def wide(n: int) -> Model:
    """y0 = relu(x0), y1 = relu(x1)...: 2 n inputs and outputs."""
    names = [f"{side}{i}" for i in range(n) for side in "xy"]
    return Model(
        "wide",
        tensors(*(Tensor(name, (1, 16), F32) for name in names)),
        [Node(f"relu{i}", "Relu", [f"x{i}"], [f"y{i}"]) for i in range(n)],
        [f"x{i}" for i in range(n)],
        [f"y{i}" for i in range(n)],
    )


def check_wide(s: qnnrt.Session) -> None:
    for i, t in enumerate(s.inputs.values()):
        t.array[...] = i - 5
    s.run()
    for i, t in enumerate(s.outputs.values()):
        assert (t.array == max(i - 5, 0)).all(), i


def test_a_graph_may_have_hundreds_of_inputs_and_outputs() -> None:
    with qnnrt.Session(wide(150), "gpu") as s:
        check_wide(s)
        s.backend.close()


@on_shared_memory
def test_tensors_are_matched_by_id_in_any_order() -> None:
    with qnnrt.Session(add_model(), "gpu") as s:
        s.inputs["a"].array[...] = 3
        s.inputs["b"].array[...] = -5
        handles = {n: t.handle for n, t in (*s.inputs.items(), *s.outputs.items())}
        given = {n: handles[n] for n in ("b", "a")}, {n: handles[n] for n in ("z", "w")}
        s.graph.execute(*given)
        assert (s.outputs["w"].array == -2).all()
        assert (s.outputs["z"].array == 0).all()
        s.backend.close()


def test_a_clients_queue_without_order_gets_its_commands_in_order() -> None:
    """Each command waits for the event of the one before."""
    context = cl.Context([gpu.devices()[0].raw])
    flags = cl.command_queue_properties
    for more in (0, flags.PROFILING_ENABLE):
        queue = cl.CommandQueue(context, properties=flags.OUT_OF_ORDER_EXEC_MODE_ENABLE | more)
        if not queue.properties & flags.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            pytest.skip("the device has no queues without order")
        chain = [f"t{i}" for i in range(21)]
        model = Model(
            "chain",
            tensors(*(Tensor(n, (1, 4096), F32) for n in chain)),
            [
                Node(f"n{i}", "ElementWiseAdd", [chain[i], chain[0]], [chain[i + 1]])
                for i in range(20)
            ],
            chain[:1],
            chain[-1:],
        )
        options = {"gpu": {"queue": queue, "node_optimizations": False}}
        for io in ("memhandle", "raw"):
            with qnnrt.Session(model, "gpu", io=io, options=options) as s:
                for value in range(1, 6):
                    s.inputs["t0"].array[...] = value
                    s.run()
                    assert (s.outputs["t20"].array == 21 * value).all()
                s.profile()
                assert (s.outputs["t20"].array == 105).all()
                s.close()
                s.backend.close()


def gpu_configs(s: qnnrt.Session) -> Any:
    from qnnrt.gpu.configs import Configs

    return Configs.of(s.backend.library, s.graph.handle)


@pytest.fixture
def python_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``python_step(call, names)``: those nodes, which are Relu, are a call's in the place of a
    kernel."""
    known = table()
    kernel = known["Relu"]

    def use(call: Callable[[int, list[int]], object], names: tuple[str, ...] = ("relu",)) -> None:
        def make(node: ir.Node, target: Target) -> list[ir.Launch]:
            if node.name not in names:
                return kernel(node, target)
            args = node.inputs[0], node.outputs[0]
            return [ir.Launch("library", "routine", (), (1,), args, call=call)]

        monkeypatch.setitem(known, "Relu", make)

    return use


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_a_step_of_pythons_stands_between_steps_in_c(
    python_step: Callable[..., None], io: str
) -> None:
    """It is called with the queue and its memories, also of inputs and outputs bound later."""
    seen: list[int] = []

    def double(queue: int, memories: list[int]) -> None:
        seen.append(len(memories))
        x, y = (cl.Buffer.from_int_ptr(n, retain=True) for n in memories)
        array = np.empty((1, 16), np.float32)
        q = cl.CommandQueue.from_int_ptr(queue, retain=True)
        cl.enqueue_copy(q, array, x)
        cl.enqueue_copy(q, y, array * 2)

    python_step(double, ("relu1",))
    with qnnrt.Session(wide(3), "gpu", io=io) as s:
        for value in (1, 2):
            for t in s.inputs.values():
                t.array[...] = value
            s.run()
            s.run_async().result()
            assert [float(t.array[0, 0]) for t in s.outputs.values()] == [value, 2 * value, value]
        if io == "memhandle":
            other = qnnrt.alloc(64)
            other.array((1, 16), np.float32)[...] = 7
            s.inputs["x1"].bind(other)
            s.run()
            assert (s.outputs["y1"].array == 14).all()
        assert [e.identifier for e in s.profile()[-1].events if e.type == 404] == [
            "relu0",
            "relu1",
            "relu2",
        ]
        assert set(seen) == {2}
        s.close()
        s.backend.close()


def test_what_a_step_of_pythons_raises_is_the_runs_error(python_step) -> None:
    def fail(queue: int, memories: list[int]) -> None:
        raise ValueError("no such tile")

    python_step(fail)
    with qnnrt.Session(relu_model(), "gpu") as s:
        for run in (s.run, lambda: s.run_async().result()):
            with pytest.raises(
                qnnrt.QnnError, match=r"step 0, node 'relu', kernel routine: .*no such tile"
            ) as e:
                run()
            assert e.value.code == 1100
        s.close()
        s.backend.close()


def test_steps_of_pythons_and_threads_do_not_wait_for_each_other(python_step) -> None:
    """A run that waits for its turn does not hold the interpreter, which the step needs."""
    import threading

    def copy(queue: int, memories: list[int]) -> None:
        x, y = (cl.Buffer.from_int_ptr(n, retain=True) for n in memories)
        cl.enqueue_copy(cl.CommandQueue.from_int_ptr(queue, retain=True), y, x)

    python_step(copy)
    with qnnrt.Session(relu_model(), "gpu") as s:

        def many() -> None:
            for _ in range(100):
                s.run()

        threads = [threading.Thread(target=many) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert s.stats.executes == 300
        s.close()
        s.backend.close()


@on_shared_memory
def test_what_was_given_twice_or_not_at_all_is_named() -> None:
    with qnnrt.Session(add_model(), "gpu") as s:
        a, w, z = s.inputs["a"].handle, s.outputs["w"].handle, s.outputs["z"].handle
        with pytest.raises(qnnrt.GraphError, match="'b': it was not given") as e:
            s.graph.execute({"a": a}, {"w": w, "z": z})
        assert e.value.code == 6004
        assert "the handle is for" not in str(e.value)  # there is none
        s.run()
        s.backend.close()


def test_a_graph_is_finalized_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one waits, and comes too late: what the runtime was given stays."""
    real, errors = library.compile_graph, []
    with qnnrt.Session(relu_model(), "gpu") as s:

        def finalize() -> None:
            try:
                graph.finalize()
            except qnnrt.GraphError as e:
                errors.append(e.code)

        def compile_graph(*args: Any) -> Any:
            threads.append(threading.Thread(target=finalize))
            threads[0].start()
            threads[0].join(0.05)
            assert threads[0].is_alive()
            return real(*args)

        threads: list[threading.Thread] = []
        monkeypatch.setattr(library, "compile_graph", compile_graph)
        graph = s.context.create_graph("again")
        model = relu_model()
        add_model_to(graph, model, dict.fromkeys((*model.inputs, *model.outputs), "memhandle"))
        finalize()
        threads[0].join()
        assert errors == [6024]
        s.backend.close()


@on_shared_memory
def test_handles_of_another_context_are_refused() -> None:
    """Of the same OpenCL context, and of another one."""
    with qnnrt.Session(relu_model(), "gpu") as s:
        y = s.outputs["y"].handle
        for backend in (s.backend, "gpu"):
            options = None if backend is s.backend else {"gpu": {"kernel_profiling": False}}
            with qnnrt.Session(relu_model(), backend, options=options) as other:
                with pytest.raises(qnnrt.GraphError, match=r"'x': .*another context") as e:
                    s.graph.execute([other.inputs["x"].handle], [y])
                assert e.value.code == 6004
                other.close()
                if options:
                    other.backend.close()
        s.run()
        s.close()
        s.backend.close()


def test_a_state_that_is_not_there_is_reset() -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.reset_state()
        s.backend.close()


@on_shared_memory
def test_strict_graphs_refuse_memory_that_would_be_copied() -> None:
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        x, y = (np.zeros((1, 16), np.float32) for _ in range(2))
        with pytest.raises(qnnrt.GraphError, match="'x': its RAW memory would be copied") as e:
            s.graph.execute([x], [y])
        assert e.value.code == 6004
        s.backend.close()


def test_net_run_executes_on_the_device_and_writes_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")]
    x, y = (onnx.helper.make_tensor_value_info(n, 1, (1, 16)) for n in "xy")
    graph = onnx.helper.make_graph(nodes, "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "m.onnx")
    np.arange(-8, 8, dtype=np.float32).tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    common = ["net-run", "--model", "m.onnx", "--backend", "gpu", "--input_list", "list.txt"]
    for mode in ("--synchronous", "--asynchronous"):
        assert cli.main([*common, mode, "--profiling_level", "detailed"]) == 0
        found = np.fromfile("output/Result_0/y.raw", np.float32)
        np.testing.assert_array_equal(found, np.maximum(np.arange(-8, 8), 0))
    capsys.readouterr()
    log = "output/qnn-profiling-data_0.log"
    assert cli.main(["profile-viewer", "--input_log", log]) == 0
    assert "relu" in capsys.readouterr().out
    assert cli.main([*common, "--shared_buffer"]) != 0
    assert "takes no memory handles of type shared_buffer" in capsys.readouterr().err


@on_shared_memory
def test_command_lists_and_handles_are_given_back() -> None:
    before = _core.gpu_counts()
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.run()
        held = _core.gpu_counts()
        assert held["lists"] == before["lists"] + 1
        assert held["handles"] == before["handles"] + 2
        s.close()
        s.backend.close()
    assert _core.gpu_counts() == before
