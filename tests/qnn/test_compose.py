"""A model's tensors and nodes, handed to a graph in one call."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.qnn.backend import Backend
from qnnrt.qnn.graph import Graph
from qnnrt.session.build import add_model
from support.toy import conv_model

F32 = np.dtype(np.float32)


def made(backend: Backend) -> Graph:
    return backend.create_context().create_graph("g")


def prepared(model: Model) -> dict[str, str]:
    return dict.fromkeys((*model.inputs, *model.outputs), "raw")


def many_kinds() -> Model:
    """Constants as rows and with strides, large and small; scalars of all kinds and arrays."""
    rng = np.random.default_rng(5)
    model = Model("g", inputs=["x"], outputs=["y", "top"])
    weights = rng.standard_normal((96, 16), np.float32)

    def tensor(name: str, shape: tuple[int, ...], data: np.ndarray | None = None) -> None:
        dtype = F32 if data is None else data.dtype
        model.tensors[name] = Tensor(name, shape, dtype, data)

    tensor("x", (4, 96))
    tensor("turned", (16, 96), weights.T)
    tensor("bias", (16,), rng.standard_normal(32, np.float32)[::2])
    for name in ("a", "b", "c", "y"):
        tensor(name, (4, 16))
    tensor("top", (4, 16))
    model.nodes = [
        Node("product", "FullyConnected", ["x", "turned", "bias"], ["a"], {}),
        Node("clip", "ReluMinMax", ["a"], ["b"], {"min_value": np.float32(0), "max_value": 6.0}),
        Node("softmax", "Softmax", ["b"], ["c"], {"axis": np.uint32(1), "beta": 1.0}),
        Node("turn", "Transpose", ["c"], ["y"], {"perm": np.array([0, 1], np.uint32)}),
        Node("pad", "Pad", ["c"], ["top"],
             {"scheme": 0, "pad_amount": [[0, 0], [0, 0]], "pad_constant_value": np.float32(1)}),
    ]  # fmt: skip
    return model


def in_fixed_point() -> Model:
    """Encodings of whole tensors and along an axis, of rows and of what lies with strides."""
    rng = np.random.default_rng(6)
    model = Model("g", inputs=["x"], outputs=["y"])
    codes = rng.integers(-127, 128, (128, 64)).astype(np.int8)
    scales, none = np.linspace(0.001, 0.002, 64), np.zeros(64, np.int32)

    def tensor(name: str, n: int, scale: float) -> None:
        q = Quantization(scale, -128)
        model.tensors[name] = Tensor(name, (4, n), np.dtype(np.uint8), None, q)

    for name, n, scale in (("x", 128, 0.01), ("a", 64, 0.05), ("b", 64, 0.05), ("y", 64, 0.1)):
        tensor(name, n, scale)
    model.tensors["w"] = Tensor("w", (64, 128), codes.dtype, codes.T, Quantization(scales, none, 0))
    bias = Quantization(scales * 0.01, none, 0)
    model.tensors["bias"] = Tensor("bias", (64,), np.dtype(np.int32), none + 7, bias)
    model.tensors["one"] = Tensor("one", (1,), np.dtype(np.uint8), np.array([3], np.uint8),
                                  Quantization(0.5, 0))  # fmt: skip
    model.nodes = [
        Node("product", "FullyConnected", ["x", "w", "bias"], ["a"], {}),
        Node("clip", "ReluMinMax", ["a"], ["b"], {"min_value": 0.0, "max_value": 6.0}),
        Node("sum", "ElementWiseAdd", ["b", "one"], ["y"], {}),
    ]
    return model


def one_by_one(graph: Graph, model: Model) -> None:
    """What ``add_model`` does, by ``add_tensor`` and ``add_node``."""
    types = dict.fromkeys(model.inputs, "app_write") | dict.fromkeys(model.outputs, "app_read")
    names = [*model.inputs, *model.outputs, *sorted(model.tensors.keys() - types.keys())]
    for name in names:
        t = model.tensors[name]
        kind = types.get(name, "native" if t.data is None else "static")
        graph.add_tensor(
            name, t.shape, t.dtype, type=kind, data=t.data, quantization=t.quantization, copy=False
        )
    for node in model.nodes:
        ins, outs = ([graph.tensors.get(n) for n in names] for names in (node.inputs, node.outputs))
        graph.add_node(node.name, node.type, ins, outs, node.params)


MODELS = {"conv": conv_model, "kinds": many_kinds, "fixed": in_fixed_point}


@pytest.mark.parametrize("model", [make() for make in MODELS.values()], ids=MODELS)
def test_a_model_in_one_call_is_what_its_parts_make_one_by_one(model):
    binaries = []
    with Backend.open("cpu") as backend:
        for add in (one_by_one, lambda graph, m: add_model(graph, m, prepared(m))):
            graph = made(backend)
            add(graph, model)
            graph.finalize()
            binaries.append(graph.context.binary())
            graph.context.close()
    assert binaries[0] == binaries[1]


@pytest.mark.parametrize("make", [many_kinds, in_fixed_point])
def test_a_graph_knows_the_tensors_that_came_with_a_model(make):
    model = make()
    with Backend.open("cpu") as backend:
        graph, other = made(backend), made(backend)
        add_model(graph, model, prepared(model))
        one_by_one(other, model)
        assert graph.tensors.keys() == model.tensors.keys()
        for name, t in other.tensors.items():
            found = graph.tensors[name]
            for what in ("id", "shape", "data_type", "type", "dtype", "quantization"):
                assert getattr(found, what) == getattr(t, what), (name, what)
        assert graph.tensors["b"] is graph.tensors["b"]
        t = model.tensors["b"]
        z = graph.add_tensor("z", t.shape, t.dtype, quantization=t.quantization)
        graph.add_node("more", "Relu", [graph.tensors["b"]], [z])  # as operands, too


def test_tensors_with_encodings_have_no_object_of_their_own(monkeypatch):
    added: list[str] = []
    add = Graph.add_tensor

    def noted(self, name, *args, **given):
        added.append(name)
        return add(self, name, *args, **given)

    monkeypatch.setattr(Graph, "add_tensor", noted)
    model = in_fixed_point()
    with Backend.open("cpu") as backend:
        add_model(made(backend), model, prepared(model))
    assert added == ["x", "y"]


def test_what_a_backend_refuses_is_named():
    model = many_kinds()
    model.nodes[2].params["axis"] = np.uint32(7)
    with (
        Backend.open("cpu") as backend,
        pytest.raises(qnnrt.GraphError, match="Softmax 'softmax'"),
    ):
        add_model(made(backend), model, prepared(model))
    model = many_kinds()
    model.tensors["a"].shape = (1,) * 17
    with Backend.open("cpu") as backend, pytest.raises(qnnrt.TensorError, match="'a'"):
        add_model(made(backend), model, prepared(model))


@pytest.mark.parametrize("what", ["a tensor's name", "an op's name", "a parameter's name"])
def test_names_are_whole(what):
    """A NUL would cut them short."""
    model = many_kinds()
    if what == "a tensor's name":
        model.tensors["a\0b"] = Tensor("a\0b", (4, 16), F32)
        model.nodes[0].outputs = ["a\0b"]
    elif what == "an op's name":
        model.nodes[0].name = "n\0"
    else:
        model.nodes[0].params["p\0"] = np.uint32(1)
    with Backend.open("cpu") as backend, pytest.raises(ValueError, match=f"{what} must not cont"):
        add_model(made(backend), model, prepared(model))


def test_encodings_go_with_their_tensors():
    q = Quantization(0.5, -3)
    model = Model("g", inputs=["x"], outputs=["y"])
    model.tensors = {n: Tensor(n, (2, 4), np.dtype(np.uint8), None, q) for n in ("x", "m", "y")}
    model.nodes = [Node("r", "Relu", ["x"], ["m"]), Node("s", "Relu", ["m"], ["y"])]
    with Backend.open("cpu") as backend:
        graph = made(backend)
        add_model(graph, model, prepared(model))
        assert graph.tensors["m"].quantization == q
        graph.finalize()


def test_constants_are_let_go_when_the_graph_is_finalized():
    import weakref

    model = many_kinds()
    with Backend.open("cpu") as backend:
        graph = made(backend)
        add_model(graph, model, prepared(model))
        large = weakref.ref(model.tensors["turned"].data.base)
        model.tensors.clear()
        assert large() is not None  # the graph reads it yet
        graph.finalize()
        assert large() is None


def test_a_consumed_model_gives_large_constants_away_at_once():
    model = many_kinds()
    model.tensors["turned"].data = np.ascontiguousarray(model.tensors["turned"].data)
    with Backend.open("cpu") as backend:
        graph = made(backend)
        add_model(graph, model, prepared(model), consume=True)
        assert model.tensors["turned"].data is None
        graph.finalize()
