"""A network built by hand, run over shared buffers: y = softmax(x @ w + b)."""

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Tensor

random = np.random.default_rng(0)
weights = random.standard_normal((10, 64), dtype=np.float32)
bias = np.zeros(10, np.float32)

model = Model(name="hello")
for tensor in (
    Tensor("x", (1, 64), np.dtype(np.float32)),
    Tensor("w", (10, 64), np.dtype(np.float32), weights),
    Tensor("b", (10,), np.dtype(np.float32), bias),
    Tensor("logits", (1, 10), np.dtype(np.float32)),
    Tensor("y", (1, 10), np.dtype(np.float32)),
):
    model.tensors[tensor.name] = tensor
model.nodes = [
    Node("dense", "FullyConnected", ["x", "w", "b"], ["logits"], {}),
    Node("classes", "Softmax", ["logits"], ["y"], {}),
]
model.inputs, model.outputs = ["x"], ["y"]

with qnnrt.Session(model, strict=True) as session:
    x, y = session.inputs["x"], session.outputs["y"]
    for _ in range(3):
        random.standard_normal(out=x.array, dtype=np.float32)  # written where the kernels read it
        session.run()
        expected = np.exp(x.array @ weights.T + bias)
        np.testing.assert_allclose(y.array, expected / expected.sum(), rtol=1e-5, atol=1e-7)
        print("class", y.array.argmax(), "with", y.array.max().round(3))
    print(session.stats.executes, "runs,", session.stats.copied_bytes, "bytes copied")
