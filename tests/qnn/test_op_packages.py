"""Op packages from Python: libraries that backends register, and what their nodes do in graphs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnnrt import errors
from qnnrt.qnn import Backend, Context, Graph
from qnnrt.qnn.options import precision_config
from support.building import WARNINGS, Builder

SOURCE = Path(__file__).resolve().parents[1] / "clients/op_package.cc"
X = np.array([[-2, -1, 0], [1, 2, 3]], np.float32)
SHIFT = np.array([0, 1, 2], np.float32)


class Package:
    """The library of the tests' packages, and what it counts."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._library = ctypes.CDLL(self.path)

    def count(self, what: str) -> int:
        return int(getattr(self._library, f"test_ops_{what}")())


@pytest.fixture(scope="module")
def package(builder: Builder) -> Package:
    return Package(builder.library(SOURCE, *WARNINGS, name="libTestOps.so"))


@pytest.fixture(params=["cpu", "htp"])
def backend(request: pytest.FixtureRequest, package: Package) -> Iterator[Backend]:
    with Backend.open(request.param) as opened:
        opened.register_op_package(package.path, "TestOps", "CPU")
        yield opened
    gc.collect()
    assert package.count("live") == 0
    assert package.count("initialized") == 0


def one_node(
    context: Context, type: str, params: dict[str, Any] | None = None, outputs: int = 1
) -> Graph:
    graph = context.create_graph(f"net {type} {params and sorted(params)}")
    x = graph.add_tensor("x", X.shape, "float32", type="app_write")
    ys = [graph.add_tensor(f"y{i}", X.shape, "float32", type="app_read") for i in range(outputs)]
    graph.add_node("node", type, [x], ys, params, package="test.ops")
    return graph


def scaled(context: Context) -> Graph:
    return one_node(context, "ScaleShift", {"scale": 2.0, "shift": SHIFT})


def run(graph: Graph, outputs: int = 1) -> list[np.ndarray]:
    ys = [np.full(X.shape, np.nan, np.float32) for _ in range(outputs)]
    graph.execute({"x": X}, {f"y{i}": y for i, y in enumerate(ys)})
    return ys


def test_an_op_with_params_and_scratch_computes(backend: Backend) -> None:
    with backend.create_context() as context:
        graph = scaled(context)
        graph.finalize()
        np.testing.assert_array_equal(run(graph)[0], X * 2 + SHIFT)
        assert backend.has_capability("op_package")


def test_an_op_has_two_outputs_and_one_may_be_left_out(backend: Backend) -> None:
    with backend.create_context() as context:
        graph = one_node(context, "Split", outputs=2)
        graph.finalize()
        positive, negative = run(graph, 2)
        np.testing.assert_array_equal(positive, np.maximum(X, 0))
        np.testing.assert_array_equal(negative, np.minimum(X, 0))
        half = context.create_graph("half")
        x = half.add_tensor("x", X.shape, "float32", type="app_write")
        y = half.add_tensor("y", X.shape, "float32", type="app_read")
        half.add_node("node", "Split", [x], [None, y], package="test.ops")
        half.finalize()
        out = np.zeros_like(X)
        half.execute([X], [out])
        np.testing.assert_array_equal(out, np.minimum(X, 0))


def test_one_name_in_two_packages_is_two_ops(backend: Backend) -> None:
    with backend.create_context() as context:
        graph = context.create_graph("both")
        x = graph.add_tensor("x", X.shape, "float32", type="app_write")
        h = graph.add_tensor("h", X.shape, "float32")
        y = graph.add_tensor("y", X.shape, "float32", type="app_read")
        graph.add_node("theirs", "Relu", [x], [h], package="test.ops")
        graph.add_node("ours", "Relu", [h], [y])
        graph.finalize()
        out = np.zeros_like(X)
        graph.execute([X], [out])
        np.testing.assert_array_equal(out, np.maximum(X + 1, 0))
        assert {"Relu", "test.ops::Relu", "test.ops::Split"} <= set(backend.supported_ops)


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("validate", 3200, "validateOpConfig failed: as asked"),
        ("silently", 3110, "validateOpConfig failed: 1003"),
    ],
)
def test_a_node_that_a_package_refuses_is_refused(
    backend: Backend, where: str, code: int, words: str
) -> None:
    with backend.create_context() as context:
        graph = context.create_graph("net")
        x = graph.add_tensor("x", X.shape, "float32", type="app_write")
        y = graph.add_tensor("y", X.shape, "float32", type="app_read")
        with pytest.raises(errors.QnnError, match=words) as refused:
            backend.validate_op("Fails", [x], [y], {"where": where}, package="test.ops")
        assert refused.value.code == code
        with pytest.raises(errors.GraphError, match=words) as refused:
            graph.add_node("node", "Fails", [x], [y], {"where": where}, package="test.ops")
        assert refused.value.code == 6005


@pytest.mark.parametrize(
    ("where", "words"),
    [("create", "createOpImpl failed: not today"), ("nothing", "createOpImpl gives no execute")],
)
def test_an_op_that_cannot_be_made_fails_finalize(
    backend: Backend, package: Package, where: str, words: str
) -> None:
    with backend.create_context() as context:
        graph = one_node(context, "Fails", {"where": where})
        with pytest.raises(errors.GraphError, match=words) as failed:
            graph.finalize()
        assert failed.value.code == 6022
        assert package.count("live") == 0


def test_an_op_that_fails_fails_its_execution_alone(backend: Backend) -> None:
    with backend.create_context() as context:
        bad, good = one_node(context, "Fails", {"where": "execute"}), scaled(context)
        bad.finalize()
        good.finalize()
        for _ in range(2):
            with pytest.raises(errors.GraphError, match=r"'node'.*did not please") as e:
                run(bad)
            assert e.value.code == 1100
            np.testing.assert_array_equal(run(good)[0], X * 2 + SHIFT)


def test_a_package_that_is_not_there_is_named(backend: Backend) -> None:
    with backend.create_context() as context:
        graph = context.create_graph("net")
        x = graph.add_tensor("x", X.shape, "float32", type="app_write")
        y = graph.add_tensor("y", X.shape, "float32", type="app_read")
        with pytest.raises(errors.GraphError, match=r"'other' is not registered.*test.ops"):
            graph.add_node("node", "Relu", [x], [y], package="other")
        with pytest.raises(errors.GraphError, match=r"has no op 'Tanh'; it has ScaleShift"):
            graph.add_node("node", "Tanh", [x], [y], package="test.ops")
        with pytest.raises(errors.GraphError, match=r"in package qti.aisw"):
            graph.add_node("node", "test.ops::Relu", [x], [y])


@pytest.mark.parametrize(
    ("path", "provider", "target", "code", "words"),
    [
        (None, "TestOps", None, 4009, "'test.ops' already"),
        (None, "TestHandles", "HTP", 4004, "target 'HTP' is not supported"),
        ("libNone.so", "TestOps", None, 4005, "libNone.so"),
        (None, "Nobody", None, 4006, "'Nobody'"),
        (None, "FailingInit", None, 4007, "init failed: no licence"),
        (None, "FailingInfo", None, 4007, "getInfo failed: 3001, .*not initialized"),
        (None, "Nameless", None, 4007, "no name"),
        (None, "Incomplete", None, 4007, "lacks one of getInfo, createOpImpl"),
        (None, "Failing", None, 4007, "interface provider failed: 3200"),
        (None, "LikeBuiltIn", None, 4009, "'qti.aisw' already"),
        (None, "Newer", None, 4008, "version 3.4"),
        ("libm.so.6", "cos", None, 4008, "compile it with qnnrt_op_package.h"),
    ],
)
def test_what_is_wrong_with_a_package_is_said(
    backend: Backend,
    package: Package,
    path: str | None,
    provider: str,
    target: str | None,
    code: int,
    words: str,
) -> None:
    with pytest.raises(errors.BackendError, match=words) as refused:
        backend.register_op_package(path or package.path, provider, target)
    assert refused.value.code == code
    assert package.count("initialized") == 1  # nothing of what failed stays


@pytest.mark.parametrize("name", ["lpai"])
def test_other_backends_say_that_they_take_none(package: Package, name: str) -> None:
    with (
        Backend.open(name) as backend,
        pytest.raises(errors.BackendError, match=r"takes no op packages.*cpu and htp") as refused,
    ):
        backend.register_op_package(package.path, "TestOps")
    assert refused.value.code == 4003
    assert package.count("initialized") == 0


def test_a_package_is_initialized_once_for_all_backends(package: Package) -> None:
    with Backend.open("cpu") as one, Backend.open("htp") as two:
        one.register_op_package(package.path, "TestOps")
        two.register_op_package(package.path, "TestOps")
        assert package.count("initialized") == 1
        one.close()
        assert package.count("initialized") == 1
        with two.create_context() as context:
            graph = scaled(context)
            graph.finalize()
            np.testing.assert_array_equal(run(graph)[0], X * 2 + SHIFT)
    assert package.count("initialized") == 0


def test_a_package_of_the_handle_interface_has_its_state(package: Package) -> None:
    with Backend.open("cpu") as backend:
        backend.register_op_package(package.path, "TestHandles")
        with backend.create_context() as context:
            graph = context.create_graph("net")
            y = graph.add_tensor("y", (1,), "uint32", type="app_read")
            graph.add_node("node", "Count", [], [y], package="test.handles")
            graph.finalize()
            out = np.zeros(1, np.uint32)
            for expected in (1, 2, 3):
                graph.execute([], [out])
                assert out[0] == expected
    assert package.count("live") == package.count("initialized") == 0


def test_log_levels_reach_a_package(package: Package) -> None:
    with Backend.open("cpu", log_level="warn") as backend:
        backend.register_op_package(package.path, "TestOps")
        assert package.count("level") == 2
        backend.set_log_level("debug")
        assert package.count("level") == 5


def test_a_binary_has_its_ops_made_anew_where_the_package_is(
    backend: Backend, package: Package
) -> None:
    with backend.create_context() as context:
        graph = scaled(context)
        graph.finalize()
        name, saved = graph.name, context.binary()
    with Context.from_binary(backend, saved) as loaded:
        np.testing.assert_array_equal(run(loaded.graph(name))[0], X * 2 + SHIFT)
        assert loaded.binary() == saved
    kind = "cpu" if backend.id == 3 else "htp"
    with Backend.open(kind) as bare:
        with pytest.raises(errors.ContextError, match=r"node 'node'.*not registered") as refused:
            Context.from_binary(bare, saved)
        assert refused.value.code == 5008
    with (
        Backend.open("lpai") as lpai,
        pytest.raises(errors.ContextError, match="takes no op packages"),
    ):
        Context.from_binary(lpai, saved, persistent_binary=True)


def test_floats_around_a_package_stay_what_it_was_asked_about(package: Package) -> None:
    """Where floats between nodes are stored in 16 bits, those of its nodes are not."""
    with Backend.open("cpu") as backend:
        backend.register_op_package(package.path, "TestOps")
        with backend.create_context() as context:
            custom = precision_config(backend.library, "bfloat16")
            graph = context.create_graph("net", custom=custom)
            x = graph.add_tensor("x", X.shape, "float32", type="app_write")
            h, g = (graph.add_tensor(n, X.shape, "float32") for n in "hg")
            y = graph.add_tensor("y", X.shape, "float32", type="app_read")
            graph.add_node("before", "ElementWiseAbs", [x], [h])
            graph.add_node("node", "Relu", [h], [g], package="test.ops")
            graph.add_node("behind", "ElementWiseAbs", [g], [y])
            graph.finalize()
            out = np.zeros_like(X)
            graph.execute([X], [out])
            np.testing.assert_array_equal(out, np.abs(X) + 1)
