"""Ops in Python: shapes are checked, memory is the runtime's, an exception is that run's error."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt import errors
from qnnrt.importers import onnx as importer
from qnnrt.model import Quantization
from qnnrt.qnn import PYTHON_PACKAGE, Backend, Context, Graph, OpTensor, PythonOp

X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _no_ops_stay() -> Iterator[None]:
    yield
    for name in qnnrt.qnn.python_ops():
        qnnrt.qnn.unregister_op(name)


@pytest.fixture(params=["cpu", "htp"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with Backend.open(request.param) as opened:
        yield opened


def same(inputs: Any, **params: Any) -> tuple[int, ...]:
    return tuple(inputs[0].shape)


def scale(inputs: Any, outputs: Any, factor: float = 2.0) -> None:
    np.multiply(inputs[0], np.float32(factor), out=outputs[0])


def graph_of(context: Context, op: str, params: dict[str, Any] | None = None) -> Graph:
    graph = context.create_graph("net")
    x = graph.add_tensor("x", X.shape, "float32", type="app_write")
    y = graph.add_tensor("y", X.shape, "float32", type="app_read")
    graph.add_node("node", op, [x], [y], params, package=PYTHON_PACKAGE)
    return graph


def finalized(context: Context, op: str, params: dict[str, Any] | None = None) -> Graph:
    graph = graph_of(context, op, params)
    graph.finalize()
    return graph


def run(graph: Graph) -> np.ndarray:
    out = np.full_like(X, np.nan)
    graph.execute([X], [out])
    return out


def test_a_function_computes_and_is_counted(backend: Backend) -> None:
    op = qnnrt.qnn.register_op("Scale", same, scale)
    with backend.create_context() as context:
        graph = finalized(context, "Scale", {"factor": 3.0})
        for _ in range(3):
            np.testing.assert_array_equal(run(graph), X * 3)
    assert op.calls == 3
    assert op.seconds > 0
    assert f"{PYTHON_PACKAGE}::Scale" in backend.supported_ops


def test_arrays_are_the_callers_memory_on_cpu() -> None:
    seen: list[tuple[int, bool, int, bool]] = []

    def look(inputs: Any, outputs: Any) -> None:
        i, o = inputs[0], outputs[0]
        seen.append((i.ctypes.data, i.flags.writeable, o.ctypes.data, o.flags.writeable))
        o[...] = i

    qnnrt.qnn.register_op("Look", same, look)
    with Backend.open("cpu") as backend, backend.create_context() as context:
        graph = finalized(context, "Look")
        out = np.zeros_like(X)
        graph.execute([X], [out])
        assert seen == [(X.ctypes.data, False, out.ctypes.data, True)]
        np.testing.assert_array_equal(out, X)
        stats = backend.library.graph_stats(graph.handle)
        assert stats is not None
        assert stats["copied_bytes"] == 0


def test_params_come_as_they_were_given(backend: Backend) -> None:
    seen: dict[str, Any] = {}

    def keep(inputs: Any, **params: Any) -> tuple[int, ...]:
        seen.update(params)
        return tuple(inputs[0].shape)

    qnnrt.qnn.register_op("Keep", keep, lambda i, o, **params: None)
    given = {
        "count": 3,
        "below": -4,
        "ratio": 0.5,
        "on": True,
        "mode": "fast",
        "axes": [2, -1],
        "kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
        "small": np.int16(-7),
        "wide": np.float64(0.1),
    }
    with backend.create_context() as context:
        graph_of(context, "Keep", given)
    assert seen.keys() == given.keys()
    for name, value in given.items():
        np.testing.assert_array_equal(seen[name], value)
        assert isinstance(seen[name], np.ndarray) == isinstance(value, (list, np.ndarray))


def test_several_outputs_types_and_inputs_that_are_left_out(backend: Backend) -> None:
    def rule(inputs: Any) -> list[Any]:
        assert inputs[1] is None
        rows = inputs[0].shape[0]
        return [(rows,), OpTensor((rows, 1), np.dtype(np.int32))]

    def rows(inputs: Any, outputs: Any) -> None:
        assert inputs[1] is None
        outputs[0][:] = inputs[0].sum(axis=1)
        outputs[1][:, 0] = inputs[0].argmax(axis=1)

    qnnrt.qnn.register_op("Rows", rule, rows)
    with backend.create_context() as context:
        graph = context.create_graph("net")
        x = graph.add_tensor("x", X.shape, "float32", type="app_write")
        s = graph.add_tensor("s", (3,), "float32", type="app_read")
        a = graph.add_tensor("a", (3, 1), "int32", type="app_read")
        graph.add_node("node", "Rows", [x, None], [s, a], package=PYTHON_PACKAGE)
        graph.finalize()
        sums, places = np.zeros(3, np.float32), np.zeros((3, 1), np.int32)
        graph.execute([X], [sums, places])
        np.testing.assert_array_equal(sums, X.sum(axis=1))
        np.testing.assert_array_equal(places[:, 0], X.argmax(axis=1))


def refuse(inputs: Any) -> Any:
    raise ValueError("only on Sundays")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda i: (4, 3), r"is float32\[4, 3\] by its shape rule; declared is float32\[3"),
        (lambda i: OpTensor((3, 4), np.dtype(np.int8)), r"output 0 is int8\[3, 4\]"),
        (lambda i: [(3, 4), (3, 4)], "2 outputs by its shape rule; the node has 1"),
        (lambda i: "3x4", "has to give a shape"),
        (lambda i: [None], "has to give a shape"),
        (lambda i, j: (3, 4), "TypeError"),
        (refuse, "ValueError: only on Sundays"),
    ],
)
def test_a_node_has_the_shapes_of_the_rule(
    backend: Backend, rule: Callable[..., Any], words: str
) -> None:
    qnnrt.qnn.register_op("Op", rule, scale)
    with backend.create_context() as context:
        with pytest.raises(errors.GraphError, match=f"node.*{words}") as refused:
            graph_of(context, "Op")
        assert refused.value.code == 6005
        assert isinstance(refused.value.__cause__, Exception)


def test_an_exception_is_the_error_of_its_run_alone(backend: Backend) -> None:
    wrong = [True]

    def sometimes(inputs: Any, outputs: Any) -> None:
        if wrong[0]:
            raise ZeroDivisionError("of all numbers")
        outputs[0][:] = inputs[0]

    qnnrt.qnn.register_op("Sometimes", same, sometimes)
    with backend.create_context() as context:
        graph = finalized(context, "Sometimes")
        for wrong[0] in (True, False, True, False):
            if not wrong[0]:
                np.testing.assert_array_equal(run(graph), X)
                continue
            with pytest.raises(errors.GraphError) as failed:
                run(graph)
            assert re.search(r"'node'.*ZeroDivisionError: of all numbers", str(failed.value))
            assert isinstance(failed.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda i, o: i[0] * 2, "return None; it returned a ndarray"),
        (lambda i, o: i[0].__setitem__(0, 0), "read-only"),
        (lambda i, o: o[0].__setitem__(..., np.zeros(5)), "broadcast"),
    ],
)
def test_a_function_that_does_something_else_is_told(
    backend: Backend, fn: Callable[..., Any], words: str
) -> None:
    qnnrt.qnn.register_op("Op", same, fn)
    with backend.create_context() as context:
        graph = finalized(context, "Op")
        with pytest.raises(errors.GraphError, match=words):
            run(graph)


def test_an_array_that_is_kept_is_an_error(backend: Backend) -> None:
    kept: list[np.ndarray] = []
    qnnrt.qnn.register_op("Keeps", same, lambda i, o: kept.append(o[0]))
    with backend.create_context() as context:
        graph = finalized(context, "Keeps")
        with pytest.raises(errors.GraphError, match="kept one of its arrays"):
            run(graph)
        kept.clear()


def test_an_interrupt_in_a_function_is_an_interrupt(backend: Backend) -> None:
    def interrupted(inputs: Any, outputs: Any) -> None:
        raise KeyboardInterrupt

    qnnrt.qnn.register_op("Interrupted", same, interrupted)
    with backend.create_context() as context:
        graph = finalized(context, "Interrupted")
        with pytest.raises(KeyboardInterrupt):
            run(graph)


def test_a_function_may_execute_no_graph(backend: Backend) -> None:
    """It could wait for itself."""
    graphs: list[Graph] = []
    qnnrt.qnn.register_op("Again", same, lambda i, o: graphs[0].execute([X], [np.zeros_like(X)]))
    with backend.create_context() as context:
        graphs.append(finalized(context, "Again"))
        with pytest.raises(errors.GraphError, match="may execute no graph"):
            run(graphs[0])
        graphs.clear()


def test_threads_run_at_once_and_ask_meanwhile(backend: Backend) -> None:
    """A thread in a function of Python's holds the graph; others wait without the interpreter."""
    inside, go = threading.Event(), threading.Event()

    def wait(inputs: Any, outputs: Any) -> None:
        inside.set()
        assert go.wait(120)
        outputs[0][:] = inputs[0]

    op = qnnrt.qnn.register_op("Wait", same, wait)
    with backend.create_context() as context:
        graph = finalized(context, "Wait")
        results: list[Any] = []
        work = [
            lambda: results.append(run(graph)),
            lambda: results.append(run(graph)),
            lambda: results.append(backend.library.graph_stats(graph.handle)),
        ]
        threads = [threading.Thread(target=w) for w in work]
        threads[0].start()
        assert inside.wait(120)
        for thread in threads[1:]:
            thread.start()
        go.set()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert len(results) == 3
    assert op.calls == 2


def test_asynchronous_executions_enter_python_on_their_own_thread() -> None:
    seen: list[int] = []

    def note(inputs: Any, outputs: Any) -> None:
        seen.append(threading.get_ident())
        if inputs[0][0, 0] > 0:
            raise ValueError("too large")
        outputs[0][:] = inputs[0]

    qnnrt.qnn.register_op("Note", same, note)
    with Backend.open("htp") as backend, backend.create_context() as context:
        graph = finalized(context, "Note")
        outs = [np.zeros_like(X) for _ in range(3)]
        futures = [graph.execute_async([X], [out]) for out in outs]
        for future, out in zip(futures, outs, strict=True):
            future.result(120)
            np.testing.assert_array_equal(out, X)
        with pytest.raises(errors.GraphError, match="ValueError: too large"):
            graph.execute_async([X + 100], [outs[0]]).result(120)
    assert threading.get_ident() not in seen


def test_an_op_is_registered_once_and_goes(backend: Backend) -> None:
    op = qnnrt.qnn.register_op("Scale", same, scale)
    with pytest.raises(ValueError, match=r"already: unregister_op\('Scale'\)"):
        qnnrt.qnn.register_op("Scale", same, scale)
    assert qnnrt.qnn.python_ops() == {"Scale": op}
    with backend.create_context() as context:
        graph = finalized(context, "Scale")
        unfinished = context.create_graph("unfinished")
        x = unfinished.add_tensor("x", X.shape, "float32", type="app_write")
        y = unfinished.add_tensor("y", X.shape, "float32", type="app_read")
        unfinished.add_node("node", "Scale", [x], [y], package=PYTHON_PACKAGE)
        qnnrt.qnn.unregister_op("Scale")
        np.testing.assert_array_equal(run(graph), X * 2)  # it has what it needs
        with pytest.raises(errors.GraphError, match="no op 'Scale' is registered in Python any"):
            unfinished.finalize()
        later = context.create_graph("later")
        a = later.add_tensor("x", X.shape, "float32", type="app_write")
        b = later.add_tensor("y", X.shape, "float32", type="app_read")
        with pytest.raises(errors.GraphError, match="'Scale'"):
            later.add_node("node", "Scale", [a], [b], package=PYTHON_PACKAGE)
    with pytest.raises(KeyError, match="no op 'Scale'"):
        qnnrt.qnn.unregister_op("Scale")


@pytest.mark.parametrize("name", ["", "a::b", 3])
def test_a_name_is_a_name(name: Any) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        qnnrt.qnn.register_op(name, same, scale)
    with pytest.raises(TypeError, match="fn of op 'Op' has to be a function"):
        qnnrt.qnn.register_op("Op", same, None)  # type: ignore[arg-type]


def test_fixed_point_is_refused_with_what_to_do(backend: Backend) -> None:
    qnnrt.qnn.register_op("Scale", same, scale)
    with backend.create_context() as context:
        graph = context.create_graph("net")
        code = Quantization(0.5, 0)
        x = graph.add_tensor("x", X.shape, "uint8", type="app_write", quantization=code)
        y = graph.add_tensor("y", X.shape, "uint8", type="app_read", quantization=code)
        with pytest.raises(errors.GraphError, match=r"UFIXED_POINT_8.*Dequantize before the node"):
            graph.add_node("node", "Scale", [x], [y], package=PYTHON_PACKAGE)


@pytest.mark.parametrize("name", ["lpai", "fake"])
def test_backends_without_them_say_so(name: str, fake: Any) -> None:
    qnnrt.qnn.register_op("Scale", same, scale)
    words = "takes no op packages" if name == "lpai" else "qnnrt's own cpu and htp backends"
    with Backend.open(fake.path if name == "fake" else name) as backend:
        with pytest.raises(errors.BackendError, match=words) as refused:
            backend.use_package(PYTHON_PACKAGE)
        assert refused.value.code == 4003


def test_a_graph_lets_go_of_what_its_op_needs(backend: Backend) -> None:
    class Weights:
        pass

    alive = threading.Event()
    weights = Weights()
    import weakref

    weakref.finalize(weights, alive.set)

    def use(inputs: Any, outputs: Any, held: Any = weights) -> None:
        outputs[0][:] = inputs[0]

    qnnrt.qnn.register_op("Use", same, use)
    with backend.create_context() as context:
        graph = finalized(context, "Use")
        qnnrt.qnn.unregister_op("Use")
        del use, weights
        gc.collect()
        assert not alive.is_set()
        np.testing.assert_array_equal(run(graph), X)
    gc.collect()
    assert alive.is_set()


# ---- ONNX ----


def model(domain: str = "my.domain", op: str = "Blend") -> onnx.ModelProto:
    """y = blend(relu(x), c, 0.25) in NCHW, by an op of another domain, then Neg."""
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node(
            op, ["h", "c"], ["g"], domain=domain, name="blend", ratio=0.25, axes=[1, 2], mode="a"
        ),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    c = np.ones((1, 3, 4, 5), np.float32)
    shape = [1, 3, 4, 5]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(c, "c")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def blend_op(**more: Any) -> PythonOp:
    def blend(inputs: Any, outputs: Any, ratio: float, axes: Any, mode: str) -> None:
        assert (list(axes), mode) == ([1, 2], "a")
        outputs[0][:] = inputs[0] * (1 - ratio) + inputs[1] * ratio

    return qnnrt.qnn.register_op("Blend", same, blend, **more)


IMAGE = np.random.default_rng(1).standard_normal((1, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("kind", ["cpu", "htp"])
def test_onnx_nodes_of_other_domains_run_in_python(kind: str) -> None:
    op = blend_op(domain="my.domain")
    with qnnrt.Session(importer.load(model()), backend=kind) as session:
        (y,) = session.run({"x": IMAGE}).values()
        np.testing.assert_allclose(y, -(np.maximum(IMAGE, 0) * 0.75 + 0.25), rtol=1e-6)
    assert op.calls == 1
    loaded = importer.load(model())
    assert f"{PYTHON_PACKAGE}::Blend" in loaded.op_counts()


def test_onnx_nodes_of_no_registered_op_are_listed() -> None:
    with pytest.raises(errors.ModelError, match=r"my.domain.Blend"):
        importer.load(model())
    blend_op(domain="another.domain")
    with pytest.raises(errors.ModelError, match=r"my.domain.Blend"):
        importer.load(model())


def test_onnxs_own_ops_stay_onnxs() -> None:
    qnnrt.qnn.register_op("Relu", same, scale)
    one = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    proto = helper.make_model(one, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert importer.load(proto).op_counts() == {"Relu": 1}


def test_a_binary_with_ops_in_python_needs_them(tmp_path: Any) -> None:
    blend_op()
    path = tmp_path / "m.bin"
    with qnnrt.Session(importer.load(model())) as session:
        session.save_binary(path)
    with qnnrt.Session(path) as session:
        (y,) = session.run({"x": IMAGE}).values()
        np.testing.assert_allclose(y, -(np.maximum(IMAGE, 0) * 0.75 + 0.25), rtol=1e-6)
    qnnrt.qnn.unregister_op("Blend")
    with pytest.raises(errors.ContextError, match=r"node 'blend'.*'qnnrt.python'"):
        qnnrt.Session(path)
