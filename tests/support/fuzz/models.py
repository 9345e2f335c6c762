"""Models that more than one mutator begins with."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def relu_onnx() -> bytes:
    """y = max(x, 0) of float32[1, 16]."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def onnx_graphs() -> list[onnx.ModelProto]:
    """Small graphs of several nodes: networks, QDQ, constants that are computed, functions,
    branches, loops, sequences, sparse initializers."""
    from support.onnx.models import recurrent, small_network, transformer_encoder

    return [
        small_network(),
        transformer_encoder(0, layers=1, width=8, heads=2, length=4),
        recurrent("LSTM", "forward", 0),
        recurrent("GRU", "bidirectional", 0),
        *(_graph(nodes, consts, opset) for nodes, consts, opset in _written()),
        _with_function(),
        _with_loop(),
        _with_sparse(),
    ]


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model


def _graph(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], opset: int
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 6])
    y = helper.make_empty_tensor_value_info("y")
    kept = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return _model(helper.make_graph(nodes, "g", [x], [y], kept), opset)


def _written() -> list[tuple[list[onnx.NodeProto], dict[str, np.ndarray], int]]:
    node, rng = helper.make_node, np.random.default_rng(0)
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    out = helper.make_empty_tensor_value_info("b")
    branch = [helper.make_graph([node(op, ["x"], ["b"])], op, [], [out]) for op in ("Relu", "Neg")]
    scale, zero = np.float32(0.1), np.uint8(128)
    return [
        (  # a shape that is computed, and a reshape by it
            [
                node("Shape", ["x"], ["s"]),
                node("Gather", ["s", "i"], ["n"], axis=0),
                node("Concat", ["n", "m"], ["t"], axis=0),
                node("Reshape", ["x", "t"], ["y"]),
            ],
            {"i": np.array([0], np.int64), "m": np.array([-1], np.int64)},
            17,
        ),
        (  # a gelu, as exporters write it
            [
                node("Div", ["x", "r"], ["a"]),
                node("Erf", ["a"], ["b"]),
                node("Add", ["b", "one"], ["c"]),
                node("Mul", ["x", "c"], ["d"]),
                node("Mul", ["d", "h"], ["y"]),
            ],
            {"r": np.float32(1.4142135), "one": np.float32(1), "h": np.float32(0.5)},
            17,
        ),
        (  # QDQ around a convolution
            [
                node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
                node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
                node("DequantizeLinear", ["w", "ws"], ["wd"], axis=0),
                node("Conv", ["xd", "wd"], ["c"], pads=[1] * 4),
                node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
                node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
            ],
            {
                "s": scale,
                "z": zero,
                "w": rng.integers(-9, 9, (3, 4, 3, 3)).astype(np.int8),
                "ws": np.full(3, 0.05, np.float32),
            },
            17,
        ),
        (  # a branch by an initializer
            [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
            {"c": np.array(True)},
            17,
        ),
        (  # constants that are computed from others
            [
                node("Range", ["a", "b", "d"], ["r"]),
                node("Cast", ["r"], ["f"], to=1),
                node("Tile", ["f", "t"], ["g"]),
                node("ReduceSum", ["g"], ["k"], keepdims=0),
                node("Add", ["x", "k"], ["y"]),
            ],
            {"a": np.int64(0), "b": np.int64(9), "d": np.int64(2), "t": np.array([3], np.int64)},
            17,
        ),
        (
            [
                node("Expand", ["v", "e"], ["w"]),
                node("Pad", ["w", "p"], ["q"]),
                node("Slice", ["q", "s0", "s1", "ax", "st"], ["u"]),
                node("Mul", ["x", "u"], ["y"]),
            ],
            {
                "v": f(1, 1),
                "e": np.array([6, 6], np.int64),
                "p": np.array([0, 0, 0, 2], np.int64),
                "s0": np.array([0], np.int64),
                "s1": np.array([6], np.int64),
                "ax": np.array([1], np.int64),
                "st": np.array([1], np.int64),
            },
            17,
        ),
        (  # layer normalization, written out
            [
                node("ReduceMean", ["x"], ["m"], axes=[-1]),
                node("Sub", ["x", "m"], ["d"]),
                node("Pow", ["d", "two"], ["p"]),
                node("ReduceMean", ["p"], ["v"], axes=[-1]),
                node("Add", ["v", "e"], ["ve"]),
                node("Sqrt", ["ve"], ["sd"]),
                node("Div", ["d", "sd"], ["n"]),
                node("Mul", ["n", "g"], ["ng"]),
                node("Add", ["ng", "b"], ["y"]),
            ],
            {"two": np.float32(2), "e": np.float32(1e-5), "g": f(6), "b": f(6)},
            17,
        ),
    ]


def _with_function() -> onnx.ModelProto:
    opset = [helper.make_opsetid("", 17)]
    inner = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opset
    )
    call = [
        helper.make_node("Twice", [i], [o], domain="local") for i, o in (("x", "h"), ("h", "y"))
    ]
    model = _graph(call, {}, 17)
    model.functions.append(inner)
    model.opset_import.add(domain="local", version=1)
    return model


def _with_loop() -> onnx.ModelProto:
    """A list that a loop makes longer, and a scan of what it is in the end."""
    node, info = helper.make_node, helper.make_tensor_value_info
    turn, on = info("turn", TensorProto.INT64, []), info("on", TensorProto.BOOL, [])
    lists = [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in ("l", "m")]
    longer = helper.make_graph(
        [node("SequenceInsert", ["l", "x"], ["m"]), node("Less", ["turn", "two"], ["on2"])],
        "longer", [turn, on, lists[0]], [info("on2", TensorProto.BOOL, []), lists[1]],
    )  # fmt: skip
    values = [helper.make_empty_tensor_value_info(n) for n in ("s", "v", "s2", "r")]
    step = helper.make_graph(
        [node("Add", ["s", "v"], ["s2"]), node("Neg", ["s2"], ["r"])],
        "step",
        values[:2],
        values[2:],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"], dtype=TensorProto.FLOAT),
        node("Loop", ["four", "", "none"], ["all"], body=longer),
        node("ConcatFromSequence", ["all"], ["c"], axis=0),
        node("Scan", ["zero", "c"], ["last", "y"], body=step, num_scan_inputs=1),
    ]
    constants = {"four": np.array(4), "two": np.array(2), "zero": np.zeros((4, 6, 6), np.float32)}
    return _graph(nodes, constants, 17)


def _with_sparse() -> onnx.ModelProto:
    model = _graph([helper.make_node("MatMul", ["x", "w"], ["y"])], {}, 17)
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    places = numpy_helper.from_array(np.array([1, 8], np.int64), "w_at")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [6, 2]))
    return model
