"""Networks for binaries that go from one kind of kernels to another, and the other's part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from support.binaries import MODELS, dense
from support.lpai_models import keyword, quantized_conv
from support.toy import tensors

Results = dict[str, np.ndarray]


def quantized_dense(bits: int) -> Model:
    """y = x @ w + b, of 8 or 16 bits, with a scale for each row of weights of 8 bits."""
    random = np.random.default_rng(bits)
    dtype, middle = np.dtype(f"uint{bits}"), -(1 << (bits - 1))
    step = 4.0 / (1 << bits)
    scales = random.uniform(0.002, 0.01, 48).astype(np.float32)
    weights = random.integers(-127, 128, (48, 192)).astype(np.int8)
    bias = random.integers(-10000, 10000, 48).astype(np.int32)
    zeros = np.zeros(48, np.int32)
    return Model(
        "dense",
        tensors(
            Tensor("x", (32, 192), dtype, quantization=Quantization(step, middle)),
            Tensor("w", weights.shape, weights.dtype, weights, Quantization(scales, zeros, axis=0)),
            Tensor("b", bias.shape, bias.dtype, bias, Quantization(step * scales, zeros, axis=0)),
            Tensor("y", (32, 48), dtype, quantization=Quantization(step * 8, middle)),
        ),
        [Node("dense", "FullyConnected", ["x", "w", "b"], ["y"])],
        ["x"],
        ["y"],
    )


def windows() -> Model:
    """Depthwise convolutions by windows of 5x5, 7x7 in steps of two and 3x3."""
    random = np.random.default_rng(0)
    parts, nodes = [Tensor("x0", (1, 28, 28, 40), np.dtype(np.float32))], []
    size = 28
    for at, (window, step) in enumerate([(5, 1), (7, 2), (3, 1)], 1):
        size //= step
        weights = random.standard_normal((window, window, 1, 40), np.float32) / window
        before, after = (window - step) // 2, (window - step + 1) // 2
        parts += [
            Tensor(f"w{at}", weights.shape, weights.dtype, weights),
            Tensor(f"x{at}", (1, size, size, 40), weights.dtype),
        ]
        pads = np.array([[before, after]] * 2, np.uint32)
        params = {"stride": np.array([step] * 2, np.uint32), "pad_amount": pads}
        inputs = [f"x{at - 1}", f"w{at}"]
        nodes.append(Node(f"conv{at}", "DepthWiseConv2d", inputs, [f"x{at}"], params))
    return Model("windows", tensors(*parts), nodes, ["x0"], ["x3"])


#: By backend and name.
NETWORKS: dict[tuple[str, str], Callable[[], Model]] = {
    **{("htp", name): MODELS[name] for name in ("conv", "mobilenet_v2")},
    ("cpu", "dense"): lambda: dense("dense", 128),
    ("cpu", "windows"): windows,
    ("htp", "conv of 8 bits"): quantized_conv,
    ("htp", "dense of 8 bits"): lambda: quantized_dense(8),
    ("htp", "dense of 16 bits"): lambda: quantized_dense(16),
    ("lpai", "conv of 8 bits"): quantized_conv,
    ("lpai", "lstm"): keyword,
}


def run(model: Model | Path, backend: str, binary: Path | None = None) -> Results:
    """Outputs for inputs that shapes and types say; the context's binary goes into a file."""
    random = np.random.default_rng(1)
    options = {} if isinstance(model, Path) else {"keep_constants": True}
    with qnnrt.Session(model, backend, options=options) as s:
        feeds = {}
        for name, t in s.inputs.items():
            if t.dtype.kind == "f":
                feeds[name] = random.standard_normal(t.shape, np.float32)
            else:
                feeds[name] = random.integers(0, 256, t.shape).astype(t.dtype)
        results = s.run(feeds)
        if binary is not None:
            s.save_binary(binary)
        return results


def run_there(backend: str, name: str, binary: str) -> None:
    """What a process does with a binary that others made: runs it, and the network itself. Beside
    it are then the results of both, and a binary of each."""
    made, output = Path(binary), Path(binary).parent
    np.savez(output / "loaded.npz", **run(made, backend, output / "loaded.bin"))
    network = NETWORKS[backend, name]()
    np.savez(output / "built.npz", **run(network, backend, output / "built.bin"))
