"""An op in Python: an ONNX node that no runtime knows, and a node of a graph made by hand.

The function works on numpy views of the runtime's own memory; what it costs is counted.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

import qnnrt
from qnnrt import qnn


def shapes(inputs: Sequence[qnn.OpTensor], **params: object) -> tuple[int, ...]:
    """The output has the input's shape."""
    return inputs[0].shape


def quantile_clip(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], keep: float) -> None:
    """Cut off what is beyond a quantile of the absolute values."""
    limit = np.quantile(np.abs(inputs[0]), keep)
    np.clip(inputs[0], -limit, limit, out=outputs[0])


op = qnn.register_op("QuantileClip", shapes, quantile_clip, domain="my.ops")

# An ONNX file with such a node between two of ONNX's own.
shape = [1, 1000]
nodes = [
    helper.make_node("Neg", ["x"], ["h"]),
    helper.make_node("QuantileClip", ["h"], ["g"], domain="my.ops", keep=0.9),
    helper.make_node("Abs", ["g"], ["y"]),
]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
graph = helper.make_graph(nodes, "clipped", ends[:1], ends[1:])
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "clipped.onnx")

x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
with qnnrt.Session("clipped.onnx") as session:
    y = session.run({"x": x})["y"]
    print(f"largest before {np.abs(x).max():.3f}, after {y.max():.3f}")

# The same op, node by node, as a C client does it.
with qnn.Backend.open("htp") as backend, backend.create_context() as context:
    by_hand = context.create_graph("by hand")
    a = by_hand.add_tensor("a", shape, "float32", type="app_write")
    b = by_hand.add_tensor("b", shape, "float32", type="app_read")
    by_hand.add_node("clip", op.name, [a], [b], {"keep": 0.9}, package=qnn.PYTHON_PACKAGE)
    by_hand.finalize()
    out = np.empty_like(x)
    by_hand.execute([x], [out])
    assert np.array_equal(np.abs(out), y)

print(f"{op.calls} calls in Python took {op.seconds * 1e6:.0f} us")
