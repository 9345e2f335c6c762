"""Networks for the saver: python saver_networks.py NAME LIBRARY OUTPUT builds and executes one on a
backend, and writes its context binary and its outputs into the folder OUTPUT if it can."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from qnnrt import errors
from qnnrt.model import Quantization
from qnnrt.qnn import Backend, Context, Graph

DUMMY = 4950  # for which the saver has no answer


def floats(context: Context) -> Graph:
    rng = np.random.default_rng(1)
    graph = context.create_graph('float "net"*/', priority="high")
    x = graph.add_tensor("x/1", (1, 6, 6, 3), "float32", type="app_write")
    weights = rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
    w = graph.add_tensor("w", weights.shape, "float32", type="static", data=weights)
    b = graph.add_tensor("b", (4,), "float32", type="static", data=np.float32([0, 1e-30, -2, 3]))
    c = graph.add_tensor("c", (1, 4, 4, 4), "float32")
    y = graph.add_tensor("y", (1, 4, 4, 4), "float32", type="app_read")
    params = {"stride": np.uint32([1, 1]), "pad_amount": np.zeros((2, 2), np.uint32)}
    graph.add_node("conv", "Conv2d", [x, w, b], [c], params)
    graph.add_node("elu", "Elu", [c], [y], {"alpha": np.float32(0.1)})
    return graph


def quantized(context: Context) -> Graph:
    rng = np.random.default_rng(2)
    graph = context.create_graph("quantized")
    in_, out = Quantization(0.02, -128), Quantization(0.1, -100)
    x = graph.add_tensor("x", (4, 16), "uint8", type="app_write", quantization=in_)
    scales = (np.arange(1, 9) / 100).astype(np.float32)
    for i, bits in enumerate((8, 4)):
        encoding = Quantization(scales, np.zeros(8, np.int32), axis=0, bitwidth=bits)
        most = 2 ** (bits - 1) - 1
        values = rng.integers(-most, most, (8, 16)).astype(np.int8)
        w = graph.add_tensor(
            f"w{bits}", values.shape, "int8", type="static", data=values, quantization=encoding
        )
        y = graph.add_tensor(f"y{bits}", (4, 8), "uint8", type="app_read", quantization=out)
        graph.add_node(f"dense{i}", "FullyConnected", [x, w], [y])
    return graph


def blocks(context: Context) -> Graph:
    rng = np.random.default_rng(3)
    graph = context.create_graph("blocks")
    x = graph.add_tensor(
        "x", (2, 8), "uint16", type="app_write", quantization=Quantization(1e-4, -32768)
    )
    encoding = Quantization(
        np.float32([0.01, 0.02, 0.03, 0.04]),
        np.zeros(4, np.int32),
        axis=0,
        bitwidth=4,
        block_scales=rng.integers(1, 15, (4, 2)).astype(np.uint8),
    )
    values = rng.integers(-7, 7, (4, 8)).astype(np.int8)
    w = graph.add_tensor(
        "w", values.shape, "int8", type="static", data=values, quantization=encoding
    )
    y = graph.add_tensor(
        "y", (2, 4), "uint16", type="app_read", quantization=Quantization(1e-4, -32768)
    )
    graph.add_node("dense", "FullyConnected", [x, w], [y])
    return graph


NETWORKS = {"floats": floats, "quantized": quantized, "blocks": blocks}


def main(name: str, library: str, output: str) -> None:
    with Backend.open(library) as backend, backend.create_context() as context:
        graph = NETWORKS[name](context)
        graph.finalize()
        rng = np.random.default_rng(4)
        for number in range(2):
            inputs, outputs = {}, {}
            for tensor in graph.inputs:
                dtype = np.dtype(tensor.dtype)
                values = rng.random(tensor.shape) * (255 if dtype.kind == "u" else 1)
                inputs[tensor.name] = values.astype(dtype)
            for tensor in graph.outputs:
                outputs[tensor.name] = np.zeros(tensor.shape, tensor.dtype)
            graph.execute(inputs, outputs)
            for one, values in outputs.items():
                values.tofile(Path(output, f"{graph.name}_{number}_{one}.raw".replace("/", "_")))
        try:
            binary = context.binary()
        except errors.Error as error:
            if error.code != DUMMY:
                raise
        else:
            Path(output, "context_0.bin").write_bytes(binary)


if __name__ == "__main__":
    main(*sys.argv[1:])
