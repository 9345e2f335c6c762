"""Nodes like earlier ones become what they would become by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx import alike, lower
from support.onnx.native_inference import each_by_itself

_RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Any, Any]]:
    """Those of this test alone."""
    found: dict[Any, Any] = {}
    monkeypatch.setattr(alike, "_RECIPES", found)
    return found  # type: ignore[return-value]


def _array(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


def _model(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    inputs: dict[str, tuple[int, ...]] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (inputs or {"x": (1, 4, 6, 6)}).items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _contents(model: qnnrt.Model) -> list[Any]:
    def param(value: Any) -> Any:
        return (value.dtype.str, value.tolist()) if hasattr(value, "dtype") else value

    def encoding(q: qnnrt.Quantization | None) -> Any:
        return None if q is None else (param(q.scale), param(q.offset), q.axis, q.bitwidth)

    tensors = [
        (t.name, t.shape, t.dtype.str, None if t.data is None else t.data.tolist(),
         encoding(t.quantization))
        for t in model.tensors.values()
    ]  # fmt: skip
    nodes = [
        (n.name, n.type, n.inputs, n.outputs, {k: param(v) for k, v in n.params.items()})
        for n in model.nodes
    ]
    return [tensors, nodes, model.inputs, model.outputs]


def _check(*models: onnx.ModelProto) -> None:
    """Each model, loaded twice behind the others, is what it is by itself."""
    with each_by_itself():
        wanted = [_contents(importer.load(model)) for model in models]
    for _ in range(2):
        for model, contents in zip(models, wanted, strict=True):
            assert _contents(importer.load(model)) == contents


node = helper.make_node


def test_a_second_model_follows_the_recipes_of_the_first(recipes: dict[Any, Any]) -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w", "b"], ["d"], pads=[1, 1, 1, 1]),
        node("Add", ["r", "d"], ["y"]),
    ]
    first, second = (
        _model(nodes, ["y"], {"w": _array(4, 4, 3, 3), "b": _array(4)}) for _ in range(2)
    )
    _check(first, second)
    # The image of the first one is transposed.
    assert sorted(key[0] for key in recipes) == ["Add", "Conv", "Conv", "Relu"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (node("Conv", ["x", "w"], ["y"]), node("Conv", ["x", "w"], ["y"], strides=[2, 2])),
        (node("Conv", ["x", "w"], ["y"]), node("Conv", ["x", "w", "b"], ["y"])),
        (node("Mul", ["x", "x"], ["y"]), node("Mul", ["x", "z"], ["y"])),
        (node("Mul", ["x", "z"], ["y"]), node("Mul", ["x", "x"], ["y"])),
        (node("Sub", ["x", "z"], ["y"]), node("Sub", ["z", "x"], ["y"])),
        (node("Sub", ["x", "p"], ["y"]), node("Sub", ["x", "q"], ["y"])),
        (node("Sub", ["p", "x"], ["y"]), node("Sub", ["x", "p"], ["y"])),
        (node("Where", ["t", "x", "z"], ["y"]), node("Where", ["t", "z", "x"], ["y"])),
        (node("Where", ["t", "p", "p2"], ["y"]), node("Where", ["t", "p", "q"], ["y"])),
        (node("Clip", ["x", "low", "high"], ["y"]), node("Clip", ["x", "low"], ["y"])),
        (node("Clip", ["x", "low", "high"], ["y"]), node("Clip", ["x", "low", "higher"], ["y"])),
        (node("Clip", ["x", "", "high"], ["y"]), node("Clip", ["x", "low"], ["y"])),
        (node("Reshape", ["x", "flat"], ["y"]), node("Reshape", ["x", "pairs"], ["y"])),
        (node("Split", ["x"], ["y", "u"], axis=1), node("Split", ["x"], ["y", ""], axis=1)),
        (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]),
         node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2])),
        (node("LeakyRelu", ["x"], ["y"], alpha=0.1), node("LeakyRelu", ["x"], ["y"], alpha=0.2)),
    ],
)  # fmt: skip
def test_a_node_that_differs_is_not_taken_for_another(a: onnx.NodeProto, b: onnx.NodeProto) -> None:
    zeros = np.zeros((1, 1, 6, 6), np.float32)  # more than are known by their elements
    constants = {
        "w": _array(4, 4, 3, 3), "b": _array(4), "p": zeros, "p2": zeros.copy(), "q": zeros + 1,
        "low": np.array(-1, np.float32), "high": np.array(1, np.float32),
        "higher": np.array(2, np.float32), "t": _RNG.random((1, 4, 6, 6)) < 0.5,
        "flat": np.array([1, -1]), "pairs": np.array([2, -1]),
    }  # fmt: skip
    inputs = {"x": (1, 4, 6, 6), "z": (1, 4, 6, 6)}
    first, second = (
        _model([n], ["y"], {k: v for k, v in constants.items() if k in n.input}, inputs)
        for n in (a, b)
    )
    _check(first, second)
    alike._RECIPES.clear()
    _check(second, first)


def test_the_order_of_dimensions_counts() -> None:
    """What a convolution gives lies with its channels last; the model's input does not."""
    w = {"w": _array(4, 4, 1, 1)}
    behind = [node("Conv", ["x", "w"], ["c"]), node("Softmax", ["c"], ["y"], axis=1)]
    before = [node("Softmax", ["x"], ["s"], axis=1), node("Conv", ["s", "w"], ["y"])]
    twice = [node("Conv", ["x", "w"], ["c"]), node("Conv", ["c", "w"], ["y"])]
    _check(*(_model(nodes, ["y"], w) for nodes in (behind, before, twice)))


def test_convolutions_of_one_dimension_and_what_reads_them() -> None:
    constants = {"w": _array(4, 4, 3), "v": _array(4, 4, 3), "flat": np.array([1, -1])}
    nodes = [
        node("Conv", ["x", "w"], ["a"], dilations=[2], pads=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "v"], ["c"], dilations=[2], pads=[2, 2]),
        node("Relu", ["c"], ["d"]),
        node("Add", ["d", "b"], ["e"]),
        node("Reshape", ["e", "flat"], ["f"]),
        node("Reshape", ["e", "flat"], ["g"]),
        node("Add", ["f", "g"], ["y"]),
    ]
    _check(_model(nodes, ["y", "e"], constants, {"x": (1, 4, 10)}))


def test_a_transposed_product() -> None:
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["x", "t"], ["a"]),
        node("MatMul", ["t", "x"], ["b"]),
        node("MatMul", ["a", "w"], ["c"]),
        node("Add", ["c", "b"], ["d"]),
        node("Transpose", ["d"], ["e"], perm=[0, 1, 3, 2]),
        node("Relu", ["e"], ["f"]),
        node("Concat", ["f", "d"], ["y"], axis=1),
    ]
    _check(_model(nodes, ["y"], {"w": _array(6, 6)}))


@pytest.mark.parametrize("channels", [2, 40])  # in one, constants are known by their elements
def test_norms_whose_statistics_differ(recipes: dict[Any, Any], channels: int) -> None:
    def norm(x: str, y: str, part: str) -> onnx.NodeProto:
        inputs = [x, *(f"{part}{i}" for i in range(4))]
        return node("BatchNormalization", inputs, [y], epsilon=1e-3)

    shapes = {"x": (1, channels, 5, 5)}
    constants = {f"{part}{i}": _array(channels) ** 2 for part in "pq" for i in range(4)}
    nodes = [norm("x", "a", "p"), norm("a", "b", "q"), norm("b", "y", "p")]
    _check(_model(nodes, ["y", "a"], constants, shapes))
    assert [key[0] for key in recipes] == ["BatchNormalization"] * 2
    layer = [
        node("LayerNormalization", ["x", "s", "o"], ["a"]),
        node("LayerNormalization", ["a", "t", "o"], ["y"]),
    ]
    constants = {name: _array(5) for name in "sto"}
    _check(_model(layer, ["y"], constants, shapes))
    # One number for all, which is written out.
    _check(*(_model(layer[:1], ["a"], {"s": _array(1), "o": _array(5)}, shapes) for _ in range(2)))


def test_moves_that_cancel_and_moves_that_do_not() -> None:
    """What a transposed tensor was before decides what a node that wants it otherwise reads."""
    w = {"w": _array(6, 6), "v": _array(6, 6)}
    there, back = [0, 3, 1, 2], [0, 2, 3, 1]
    product = [node("MatMul", ["x", "w"], ["a"]), node("Transpose", ["a"], ["b"], perm=there)]
    returned = [*product, node("Transpose", ["b"], ["c"], perm=back)]
    models = [
        [*product, node("MatMul", ["b", "v"], ["y"])],
        [*returned, node("MatMul", ["c", "v"], ["y"])],
        [*product, node("Relu", ["b"], ["c"]), node("MatMul", ["c", "v"], ["y"])],
        [*product, node("MatMul", ["b", "v"], ["c"]), node("MatMul", ["b", "w"], ["d"]),
         node("Add", ["c", "d"], ["y"])],
        [*returned, node("Softmax", ["b"], ["s"], axis=1), node("Softmax", ["c"], ["t"], axis=1),
         node("Transpose", ["t"], ["u"], perm=there), node("Sub", ["s", "u"], ["y"])],
    ]  # fmt: skip
    inputs = {"x": (1, 6, 6, 6)}
    built = [_model(n, ["y"], {k: a for k, a in w.items() if any(k in m.input for m in n)}, inputs)
             for n in models]  # fmt: skip
    _check(*built)
    alike._RECIPES.clear()
    _check(*built[::-1])


def test_reshapes_that_wait_for_an_order(recipes: dict[Any, Any]) -> None:
    """Of channels that a convolution leaves last: they are shuffled, or become columns."""
    shuffle = [
        node("Conv", ["x", "w"], ["a"]),
        node("Reshape", ["a", "pairs"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["c", "image"], ["d"]),
        node("Conv", ["d", "w"], ["e"]),
        node("Reshape", ["e", "flat"], ["f"]),
    ]
    ends = [
        [node("Relu", ["f"], ["y"])],
        [node("Reshape", ["f", "image"], ["g"]), node("Conv", ["g", "w"], ["y"])],
        [node("Reshape", ["f", "rows"], ["g"]), node("Mul", ["g", "f"], ["y"])],
        [node("MatMul", ["f", "m"], ["y"])],
        [node("Gemm", ["f", "n"], ["y"])],
    ]

    def model(end: list[onnx.NodeProto]) -> onnx.ModelProto:
        constants = {
            "w": _array(4, 4, 1, 1), "pairs": np.array([1, 2, 2, 2, 2]),
            "image": np.array([1, 4, 2, 2]), "flat": np.array([1, -1]), "rows": np.array([16, 1]),
            "m": _array(16, 3), "n": _array(16, 1),
        }  # fmt: skip
        nodes = [*shuffle, *end]
        read = {name for n in nodes for name in n.input}
        kept = {name: a for name, a in constants.items() if name in read}
        return _model(nodes, ["y"], kept, {"x": (1, 4, 2, 2)})

    _check(*(model(end) for end in ends for _ in range(2)))
    assert "Gemm" not in {key[0] for key in recipes}  # whose weights are put into that order


def test_small_results_of_large_constants() -> None:
    """Whose elements are not what a node is known by."""
    nodes = [node("LessOrEqual", ["a", "b"], ["t"]), node("Where", ["t", "x", "z"], ["y"])]
    a, b = np.arange(25.0).reshape(5, 5), np.full((5, 5), 7.0)
    inputs = {"x": (5, 5), "z": (5, 5)}
    _check(*(_model(nodes, ["y"], {"a": c, "b": d}, inputs) for c, d in ((a, b), (b, a))))


def test_shapes_that_are_computed(recipes: dict[Any, Any]) -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"]),
        node("Unsqueeze", ["n", "zero"], ["rows"]),
        node("Add", ["rows", "rows"], ["twice"]),
        node("Cast", ["rows"], ["real"], to=TensorProto.FLOAT),
        node("Concat", ["twice", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["r"]),
        node("Unsqueeze", ["weights", "zero"], ["wide"]),
        node("Mul", ["r", "real"], ["s"]),
        node("Squeeze", ["wide", "zero"], ["narrow"]),
        node("MatMul", ["s", "narrow"], ["y"]),
    ]

    def model(first: int, size: int) -> onnx.ModelProto:
        constants = {
            "first": np.array(first), "zero": np.array([0]), "rest": np.array([-1, 6]),
            "weights": _array(6, size),
        }  # fmt: skip
        return _model(nodes, ["y"], constants, {"x": (1, 4, 6, 6)})

    _check(model(0, 5), model(0, 5), model(1, 5), model(0, 7), model(-3, 5))
    assert {"Shape", "Gather", "Cast", "Concat", "Unsqueeze", "Squeeze"} <= {k[0] for k in recipes}


def test_transposed_convolutions_with_gaps_between_weights() -> None:
    nodes = [
        node("ConvTranspose", ["x", "v"], ["a"], dilations=[2, 2]),
        node("ConvTranspose", ["a", "w"], ["y"], dilations=[2, 2]),
    ]
    _check(*(_model(nodes, ["y"], {"v": _array(1, 1, 2, 2), "w": _array(1, 1, 2, 2)},
                    {"x": (1, 1, 6, 6)}) for _ in range(2)))  # fmt: skip


def test_a_model_that_is_changed_is_its_own() -> None:
    model = _model(
        [
            node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("LeakyRelu", ["p"], ["y"], alpha=0.25),
        ],
        ["y"],
    )
    with each_by_itself():
        wanted = _contents(importer.load(model))
    for _ in range(3):
        found = importer.load(model)
        assert _contents(found) == wanted
        for n in found.nodes:
            for value in n.params.values():
                if isinstance(value, np.ndarray):
                    value[...] = 7
        for t in found.constants():
            assert t.data is not None
            t.data = np.full_like(t.data, 7)


def test_the_oldest_recipe_goes_first(
    recipes: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alike, "_MOST", 2)
    names = ["Relu", "Sigmoid", "Tanh"]
    for op in names:
        importer.load(_model([node(op, ["x"], ["y"])], ["y"]))
    assert [key[0] for key in recipes] == names[1:]


def test_an_error_names_the_node_that_it_is_of() -> None:
    good = [node("Conv", ["x", "w"], ["y"], name="one")]
    bad = [node("Conv", ["x", "w"], ["c"], name="one"), node("Conv", ["c", "w"], ["y"], name="two")]
    w = {"w": _array(4, 4, 4, 4)}
    importer.load(_model(good, ["y"], w))
    with pytest.raises(qnnrt.ModelError, match=r"node 'two' .*does not fit into 3"):
        importer.load(_model(bad, ["y"], w))


@pytest.mark.parametrize(
    ("product", "bias"),
    [
        ({"transB": 1}, (4,)),
        ({"transB": 1, "alpha": 0.5, "beta": 2.0}, (4,)),
        ({"beta": 2.0}, (1, 4)),
        ({}, ()),
        ({}, (1,)),
    ],
)
def test_small_weights_in_another_form_stay_those_of_their_node(
    product: dict[str, Any], bias: tuple[int, ...]
) -> None:
    """As few as a kind of nodes may have as constants of its own."""
    constants = {"v": _array(4, 4), "w": _array(4, 4), "a": _array(*bias), "b": _array(*bias)}
    nodes = [
        node("Gemm", ["x", "v", "a"], ["h"], **product),
        node("Gemm", ["h", "w", "b"], ["y"], **product),
    ]
    _check(_model(nodes, ["y"], constants, {"x": (3, 4)}))


#: How else the elements of a constant might decide what becomes of a node.
ELEMENTS = {
    "zeros": np.zeros, "ones": np.ones, "negative": lambda s: -np.ones(s),
    "infinite": lambda s: np.full(s, -np.inf), "different": lambda s: _array(*s),
}  # fmt: skip


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "PRelu", "MatMul", "Concat"])
@pytest.mark.parametrize("shape", [(1, 4, 6, 6), (1, 1, 6, 6), (1,)])
def test_elements_of_a_constant_do_not_come_from_another_node(
    op: str, shape: tuple[int, ...]
) -> None:
    if op in ("MatMul", "Concat") and shape[2:] != (6, 6):
        shape = (1, 4, 6, 6)
    attrs = {"axis": 1} if op == "Concat" else {}
    _check(
        *(
            _model([node(op, ["x", "c"], ["y"], **attrs)], ["y"], {"c": np.float32(made(shape))})
            for made in ELEMENTS.values()
        )
    )


def _quantized(scale: float, zero: int, weights: float) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["r"], axis=0),
        node("Conv", ["d", "r"], ["y"]),
    ]
    constants = {
        "s": np.array(scale, np.float32), "z": np.array(zero, np.uint8),
        "w": _RNG.integers(-99, 99, (4, 4, 3, 3)).astype(np.int8),
        "ws": np.linspace(weights, 1, 4).astype(np.float32), "wz": np.zeros(4, np.int8),
    }  # fmt: skip
    return _model(nodes, ["y"], constants)


def test_nodes_that_quantize_are_checked_once_whatever_their_scales(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = _quantized(0.5, 3, 0.25), _quantized(0.125, 200, 0.75)
    _check(first, second)
    alike._RECIPES.clear()
    importer.load(first)
    checked: list[str] = []
    infer = lower.infer
    monkeypatch.setattr(lower, "infer", lambda n: checked.append(n.op) or infer(n))
    importer.load(second)
    assert not [op for op in checked if "uantizeLinear" in op]


def test_scales_are_refused_behind_good_ones_of_their_kind() -> None:
    importer.load(_quantized(0.5, 3, 0.25))
    with pytest.raises(qnnrt.ModelError, match="scales have to be finite"):
        importer.load(_quantized(np.inf, 3, 0.25))


def _decoded(op: str, seed: int, *, whole: bool = False, rank: int = 4) -> onnx.ModelProto:
    """A node that reads constants which are held as integers, twice."""
    rng = np.random.default_rng(seed)
    size = () if whole else (4,)
    scales, zeros = np.float32(0.01 * rng.random(size) + 0.001), np.zeros(size, np.int8)
    shape = (4, 4, *[3] * (rank - 2)) if op == "Conv" else (4,)
    names = ["w", "b", "m", "v"][: 2 if op == "Conv" else 4]
    constants = {name: rng.integers(1, 99, (4,)).astype(np.int8) for name in names}
    constants |= {"w": rng.integers(1, 99, shape).astype(np.int8), "s": scales, "z": zeros}
    decoded = [node("DequantizeLinear", [n, "s", "z"], [f"{n}.real"], axis=0) for n in names]
    attrs = {"pads": [1] * 2 * (rank - 2)} if op == "Conv" else {}
    reals = [f"{n}.real" for n in names]
    nodes = [
        *decoded,
        node(op, ["x", *reals], ["a"], **attrs),
        node(op, ["a", *reals], ["c"], **attrs),
        node("QuantizeLinear", ["c", "step", "point"], ["q"]),
        node("DequantizeLinear", ["q", "step", "point"], ["y"]),
    ]
    constants |= {"step": np.array(0.1 + seed, np.float32), "point": np.array(9, np.uint8)}
    return _model(nodes, ["y"], constants, {"x": (1, 4, *[6] * (rank - 2))})


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("op", ["Conv", "BatchNormalization"])
def test_constants_that_are_held_as_integers_are_those_of_their_node(
    op: str, rank: int, recipes: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [
        _decoded(op, seed, whole=whole, rank=rank) for seed in (0, 1) for whole in (False, True)
    ]
    _check(*models)
    lowered: list[str] = []
    infer = lower.infer
    monkeypatch.setattr(lower, "infer", lambda n: lowered.append(n.op) or infer(n))
    for model in models:
        importer.load(model)
    assert not lowered
