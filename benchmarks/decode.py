"""Products of one row, and a few, with weights beyond the caches: against the memory's bandwidth.

    python benchmarks/decode.py [--smoke] [--json FILE]

The decode step of a language model reads each weight once. Weights are twice as large as the last
cache of the machine, so that none holds them from one run to the next. For every width of weights:
qnnrt, the same model in ONNX Runtime (which rounds the activations of int8 weights to 8 bits; qnnrt
does not), and a loop that only reads as many bytes (_read.c, compiled here), whose ratio is the
part of the bandwidth that the product reaches.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from _harness import Benchmark, same
from _runtimes import Missing, in_onnxruntime
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer

SOURCE = Path(__file__).with_name("_read.c")
DEPTH = 4096
#: Weights in MiB, unless twice the last cache is more.
SIZE = 64


def product(
    inputs: list[np.ndarray], rows: int, columns: int, node: onnx.NodeProto, *more: onnx.NodeProto
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [*more, node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(a, f"w{i}") for i, a in enumerate(inputs)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def floats(rows: int, columns: int) -> onnx.ModelProto:
    w = np.random.default_rng(0).standard_normal((DEPTH, columns), np.float32)
    return product([w], rows, columns, helper.make_node("MatMul", ["x", "w0"], ["y"]))


def channels(rows: int, columns: int) -> onnx.ModelProto:
    """INT8, a scale for each column."""
    rng = np.random.default_rng(0)
    w = rng.integers(-128, 128, (DEPTH, columns), np.int8)
    scales = rng.uniform(0.01, 0.02, columns).astype(np.float32)
    real = helper.make_node("DequantizeLinear", ["w0", "w1"], ["w"], axis=1)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return product([w, scales], rows, columns, node, real)


def blocks(rows: int, columns: int, bits: int, size: int, level: int = 0) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    w = rng.integers(0, 256, (columns, DEPTH // size, size * bits // 8), np.uint8)
    scales = rng.uniform(0.01, 0.02, columns * (DEPTH // size)).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "w0", "w1"], ["y"], domain="com.microsoft", K=DEPTH, N=columns,
        bits=bits, block_size=size, accuracy_level=level,
    )  # fmt: skip
    return product([w, scales], rows, columns, node)


def last_cache() -> int:
    """Bytes of the largest cache of a processor, 0 where the system does not say."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(p.read_text().strip().rstrip("K")) << 10 for p in sizes), default=0)


def weight_bytes(model: onnx.ModelProto) -> int:
    return sum(len(t.raw_data) for t in model.graph.initializer)


def reader(folder: Path) -> ctypes.CDLL:
    target = folder / "read.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-w"]
    subprocess.run([*compiler, *flags, str(SOURCE), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.read_all.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.read_all.restype = ctypes.c_uint64
    library.read_by.argtypes = [ctypes.c_int, *library.read_all.argtypes]
    library.read_by.restype = ctypes.c_uint64
    return library


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
        parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 128])
        parser.add_argument("--only", default="", help="widths with this in the name")
        parser.add_argument(
            "--mib", type=int, default=0, help="of weights; unless given, twice the last cache"
        )

    bench = Benchmark("decode", __doc__ or "", rounds=9, sample_ms=60, more=more)
    size = (bench.options.mib or (1 if bench.smoke else SIZE)) << 20
    if not bench.smoke and not bench.options.mib:
        size = max(size, 2 * last_cache() // DEPTH * DEPTH)
    columns = size // DEPTH  # of bytes
    print(f"weights of {size >> 20} MiB, the last cache has {last_cache() >> 20}")
    widths = {
        "float32": (lambda m: floats(m, columns // 4), {}),
        "bfloat16": (lambda m: floats(m, columns // 2), {"precision": "bfloat16"}),
        "int8, scales of columns": (lambda m: channels(m, columns), {}),
        "8 bits in blocks of 32": (lambda m: blocks(m, columns, 8, 32), {}),
        "4 bits in blocks of 32": (lambda m: blocks(m, 2 * columns, 4, 32), {}),
        "4 bits in blocks of 128": (lambda m: blocks(m, 2 * columns, 4, 128), {}),
    }
    memory = np.ones(2 * size, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        library = reader(Path(folder))
        for name, (make, options) in widths.items():
            if bench.options.only not in name:
                continue
            for rows in bench.options.rows:
                model = make(rows)
                read = weight_bytes(model) // (2 if "precision" in options else 1)
                x = np.random.default_rng(1).standard_normal((rows, DEPTH), np.float32)
                for threads in bench.options.threads:
                    case = bench.case(f"{name}, {rows} rows, {threads} threads", "ms", read)
                    with qnnrt.Session(importer.load(model), threads=threads, **options) as session:
                        session.inputs["x"].array[...] = x
                        session.run()
                        mine = session.outputs["y"].array
                        case.add("qnnrt", session.run)
                        for way in in_onnxruntime(model, {"x": x}, threads):
                            if isinstance(way, Missing):
                                case.missing(way.name, way.reason)
                                continue
                            way.call()
                            if not options and "int8" not in name:  # there it rounds x to 8 bits
                                same(way.name, mine, np.asarray(way.result()), 1e-3)
                            case.add(way.name, way.call)
                        case.add(
                            "reading the bytes",
                            lambda r=read, t=threads: library.read_all(memory.ctypes.data, r, t),
                        )
                        case.measure()
                        medians = {
                            r["name"]: r["seconds"]["median"] for r in case.rows() if "seconds" in r
                        }
                        part = medians["reading the bytes"] / medians["qnnrt"]
                        print(f"  {part:.0%} of the bandwidth")
    bench.finish()


if __name__ == "__main__":
    main()
