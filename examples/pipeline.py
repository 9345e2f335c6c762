"""Two sessions with one buffer between them: the output of the first is the input of the second."""

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Tensor


def elementwise(op: str, source: str, sink: str) -> Model:
    """A network of one op on 256 floats."""
    tensors = {name: Tensor(name, (1, 256), np.dtype(np.float32)) for name in (source, sink)}
    node = Node(op.lower(), op, [source], [sink], {})
    return Model(name=op, tensors=tensors, nodes=[node], inputs=[source], outputs=[sink])


with (
    qnnrt.Session(elementwise("Relu", "x", "middle"), strict=True) as first,
    qnnrt.Session(elementwise("Tanh", "middle", "y"), strict=True) as second,
):
    # One buffer, registered in both sessions.
    second.inputs["middle"].bind(first.outputs["middle"].buffer)
    x, y = first.inputs["x"].array, second.outputs["y"].array
    for step in range(3):
        x[...] = np.linspace(-1, 1, x.size, dtype=np.float32) * step
        first.run()
        second.run()
        np.testing.assert_allclose(y, np.tanh(np.maximum(x, 0)), rtol=1e-5)
        print(f"step {step}: max {y.max():.3f}")
    print(first.stats.copied_bytes + second.stats.copied_bytes, "bytes copied")
