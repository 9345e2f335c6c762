"""One node at a time: ours through Session.run(), against oneDNN's own primitive called directly.

    python benchmarks/kernels.py [--smoke] [--json FILE] [--threads N...] [--only TEXT]

Shapes are those of the nine networks of models.py, and of a small transformer. Each op in 8-bit
fixed point (activations unsigned, weights signed with a scale for each channel), in float32, and in
bfloat16 with everything of that type. The ratio of the primitive is what is left of our time
without the runtime around it: 0.9 says that the runtime adds a tenth. The primitive has the same
layouts, scales and numbers of threads, its weights packed beforehand; it is called in a loop in C++
(_primitives.cc, compiled here). It is called from Python, too, as ours is: what the interpreter
reads between two calls takes a part of the caches from either (and the call by ctypes 0.4 us, which
counts for nodes of a few). Nodes with 16-bit activations, which oneDNN does not have, are compared
with the same op in float between Dequantize and Quantize.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from _harness import Benchmark, Case, same

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

CONV, MATMUL, MAX_POOL, AVG_POOL, SOFTMAX, ADD = range(6)
SOURCE = Path(__file__).with_name("_primitives.cc")
FLOAT, BYTE, WIDE = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.uint16)
TYPES = {"f32": FLOAT, "bf16": np.dtype(ml_dtypes.bfloat16), "u8": BYTE, "u16": WIDE}
#: As _primitives.cc has them.
STORED = {"float32": 0, "uint8": 1, "bfloat16": 2, "uint16": 1}


@dataclass
class Op:
    """What is done to an image of n x h x w x c, or to n products of h x c by c x o."""

    name: str
    kind: int
    n: int = 1
    h: int = 1
    w: int = 1
    c: int = 1
    o: int = 1
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    group: int = 1
    static: bool = True  # the second operand

    def out(self, side: int) -> int:
        return (side + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def type(self) -> str:
        return {
            CONV: "DepthWiseConv2d" if self.group == self.c > 1 else "Conv2d",
            MATMUL: "FullyConnected" if self.static else "MatMul",
            MAX_POOL: "PoolMax2d",
            AVG_POOL: "PoolAvg2d",
            SOFTMAX: "Softmax",
            ADD: "ElementWiseAdd",
        }[self.kind]


def image(name: str, kind: int, side: int, channels: int, outputs: int = 0, **more: int) -> Op:
    return Op(name, kind, 1, side, side, channels, outputs or channels, **more)


OPS = [
    image("7x7 stride 2, 3 to 64, 224x224", CONV, 224, 3, 64, kernel=7, stride=2, pad=3),
    image("3x3, 64 to 64, 56x56", CONV, 56, 64, 64, kernel=3, pad=1),
    image("1x1, 64 to 256, 56x56", CONV, 56, 64, 256),
    image("1x1, 256 to 64, 56x56", CONV, 56, 256, 64),
    image("5x5, 96 to 256 in 2 groups, 27x27", CONV, 27, 96, 256, kernel=5, pad=2, group=2),
    image("3x3, 128 to 32, 28x28", CONV, 28, 128, 32, kernel=3, pad=1),
    image("1x1, 512 to 128, 28x28", CONV, 28, 512, 128),
    image("3x3, 512 to 512, 14x14", CONV, 14, 512, 512, kernel=3, pad=1),
    image("1x1, 16 to 64, 55x55", CONV, 55, 16, 64),
    image("1x1, 2048 to 512, 7x7", CONV, 7, 2048, 512),
    image("3x3, 112 channels, 56x56", CONV, 56, 112, 112, kernel=3, stride=2, pad=1, group=112),
    image("3x3, 136 channels, 28x28", CONV, 28, 136, 136, kernel=3, pad=1, group=136),
    image("3x3, 544 channels, 7x7", CONV, 7, 544, 544, kernel=3, pad=1, group=544),
    Op("1 row, 1024 to 1000", MATMUL, c=1024, o=1000),
    Op("1 row, 9216 to 4096", MATMUL, c=9216, o=4096),
    Op("128 rows, 384 to 1536", MATMUL, h=128, c=384, o=1536),
    Op("12 of 128x32 by 32x128", MATMUL, 12, 128, 1, 32, 128, static=False),
    image("3x3 stride 2, 64 channels, 112x112", MAX_POOL, 112, 64, kernel=3, stride=2),
    image("7x7, 2048 channels, 7x7", AVG_POOL, 7, 2048, kernel=7),
    image("256 channels, 56x56", ADD, 56, 256),
    Op("1000 classes", SOFTMAX, c=1000),
    Op("1536 rows of 128", SOFTMAX, n=1536, c=128),
]
SMOKE = {"3x3, 64 to 64, 56x56", "1 row, 1024 to 1000", "1000 classes"}


class Problem(ctypes.Structure):
    """As in _primitives.cc."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "stored", "threads", "static_weights")),
        *(
            (name, ctypes.c_int64)
            for name in ("n", "h", "w", "c", "o", "kernel", "stride", "pad", "group")
        ),
        *((name, ctypes.c_float) for name in ("src_scale", "src1_scale", "dst_scale")),
        *((name, ctypes.c_int32) for name in ("src_zero", "dst_zero")),
        *((name, ctypes.c_void_p) for name in ("weight_scales", "bias", "src", "weights")),
    ]


class Data:
    """Seeded values of an op in a type, and the encodings that they need."""

    def __init__(self, op: Op, dtype: np.dtype) -> None:
        rng = np.random.default_rng(5)
        self.op, self.dtype, self.fixed = op, dtype, dtype.kind == "u"
        top = np.iinfo(dtype).max if self.fixed else 0
        self.weights = self.bias = self.real_bias = self.weight_scales = None
        images = op.kind in (CONV, MAX_POOL, AVG_POOL, ADD)
        self.shape = (op.n, op.h, op.w, op.c) if images else (op.n * op.h, op.c)
        if op.kind == MATMUL and not op.static:
            self.shape = (op.n, op.h, op.c)
        self.src = self.values(rng, self.shape, dtype)
        # As behind a relu, in 8 bits: oneDNN's own zero points cost it up to half of its speed.
        self.src_zero, self.dst_zero = (top // 2 - 7, top // 2 + 3) if dtype == WIDE else (0, 0)
        self.src_scale, self.src1_scale, self.dst_scale = 8 / max(top, 1), 1.0, 8 / max(top, 1)
        if op.kind in (CONV, MATMUL):
            self.with_weights(rng, top)
        elif op.kind == SOFTMAX:
            self.output, self.dst_scale = self.shape, 1 / (top + 1)
        elif op.kind == ADD:
            self.output = self.shape
            self.weights = self.values(rng, self.shape, dtype)
            self.src1_scale, self.dst_scale = 0.7 * self.src_scale, 1.7 * self.src_scale
        else:
            self.output = (op.n, op.out(op.h), op.out(op.w), op.c)

    @staticmethod
    def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind != "u" and dtype.kind != "i":
            return rng.standard_normal(shape, np.float32).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)

    def with_weights(self, rng: np.random.Generator, top: int) -> None:
        op = self.op
        if op.kind == CONV:
            shape: tuple[int, ...] = (op.kernel, op.kernel, op.c // op.group, op.o)
            self.output: tuple[int, ...] = (op.n, op.out(op.h), op.out(op.w), op.o)
        else:
            shape = (op.o, op.c) if op.static else (op.n, op.c, op.o)
            self.output = (op.n * op.h, op.o) if op.static else (op.n, op.h, op.o)
        self.weights = self.values(rng, shape, np.dtype(np.int8) if self.fixed else self.dtype)
        depth = math.prod(shape) // op.o // (1 if op.static else op.n)
        if self.fixed:
            scales = rng.uniform(1.0, 2.0, op.o if op.static else 1) / 127 / math.sqrt(depth)
            self.weight_scales = scales.astype(np.float32)
            self.dst_scale = 8 * 8 / top
        if not op.static:
            return
        bias = rng.standard_normal(op.o, np.float32)
        if not self.fixed:
            self.bias = self.real_bias = bias.astype(self.dtype)
            return
        steps = self.weight_scales * np.float32(self.src_scale)
        self.bias = np.rint(bias / steps).astype(np.int32)
        self.real_bias = (self.bias * steps).astype(np.float32)

    # ---- ours --------------------------------------------------------------------------------

    def params(self) -> dict[str, object]:
        op = self.op
        pads = np.full((2, 2), op.pad, np.uint32)
        stride = np.full(2, op.stride, np.uint32)
        if op.kind == CONV:
            params = {"stride": stride, "pad_amount": pads, "dilation": np.ones(2, np.uint32)}
            return {**params, "group": np.uint32(op.group)} if op.type == "Conv2d" else params
        if op.kind in (MAX_POOL, AVG_POOL):
            return {
                "filter_size": np.full(2, op.kernel, np.uint32),
                "stride": stride,
                "pad_amount": pads,
            }
        if op.kind == SOFTMAX:
            return {"axis": np.uint32(1)}
        return {"transpose_in0": False, "transpose_in1": False} if op.type == "MatMul" else {}

    def model(self, in_float: bool = False) -> Model:
        """The node; `in_float`: between Dequantize and Quantize."""
        model = Model(self.op.name, inputs=["x"], outputs=["y"])

        def tensor(
            name: str,
            array: np.ndarray | tuple[int, ...],
            scale: Any,
            offset: Any,
            axis: int | None = None,
            data: bool = False,
            plain: bool = False,
        ) -> None:
            shape = array.shape if isinstance(array, np.ndarray) else array
            dtype = array.dtype if isinstance(array, np.ndarray) else self.dtype
            q = Quantization(scale, offset, axis) if self.fixed and not plain else None
            value = array if data and isinstance(array, np.ndarray) else None
            model.tensors[name] = Tensor(name, shape, FLOAT if plain else dtype, value, q)

        op = self.op
        tensor("x", self.src, self.src_scale, -self.src_zero)
        tensor("y", self.output, self.dst_scale, -self.dst_zero)
        names = ["x"]
        if op.kind == ADD and self.weights is not None:
            tensor("b", self.weights, self.src1_scale, 0)
        elif self.weights is not None and in_float and self.weight_scales is not None:
            axis = self.weights.ndim - 1 if op.kind == CONV else 0
            scales = self.weight_scales.reshape([-1] + [1] * (self.weights.ndim - 1 - axis))
            tensor("b", (self.weights * scales).astype(FLOAT), 0, 0, data=True, plain=True)
        elif self.weights is not None:
            axis = 3 if op.kind == CONV else 0
            scale: Any = self.weight_scales
            zeros: Any = np.zeros(op.o, np.int32)
            if not op.static and scale is not None:
                scale, zeros, axis = float(scale[0]), 0, None  # type: ignore[assignment]
            tensor("b", self.weights, scale, zeros, axis, data=op.static)
        if self.weights is not None:
            names.append("b")
            if model.tensors["b"].data is None:
                model.inputs.append("b")
        if self.bias is not None:
            names.append("bias")
            if in_float:
                tensor("bias", self.real_bias, 0, 0, data=True, plain=True)  # type: ignore[arg-type]
            else:
                steps = None if self.weight_scales is None else self.weight_scales
                scale = None if steps is None else steps * np.float32(self.src_scale)
                tensor("bias", self.bias, scale, np.zeros(op.o, np.int32), 0, data=True)
        if in_float:
            tensor("x real", self.src.shape, 0, 0, plain=True)
            tensor("y real", self.output, 0, 0, plain=True)
            model.nodes.append(Node("before", "Dequantize", ["x"], ["x real"]))
            model.nodes.append(
                Node("node", op.type, ["x real", *names[1:]], ["y real"], self.params())
            )
            model.nodes.append(Node("after", "Quantize", ["y real"], ["y"]))
        else:
            model.nodes.append(Node("node", op.type, names, ["y"], self.params()))
        return model

    # ---- the primitive -----------------------------------------------------------------------

    def problem(self, threads: int) -> Problem:
        """What points into this object's arrays."""
        op = self.op
        p = Problem(op.kind, STORED[self.dtype.name], threads, op.static)
        for name in ("n", "h", "w", "c", "o", "kernel", "stride", "pad", "group"):
            setattr(p, name, getattr(op, name))
        p.src_zero, p.dst_zero = self.src_zero, self.dst_zero
        # An add takes no scale for its result.
        result = self.dst_scale if op.kind == ADD else 1.0
        p.src_scale, p.src1_scale = self.src_scale / result, self.src1_scale / result
        p.dst_scale = self.dst_scale
        for name, array in (
            ("weight_scales", self.weight_scales),
            ("bias", self.real_bias),
            ("src", self.src),
            ("weights", self.weights),
        ):
            setattr(p, name, None if array is None else array.ctypes.data)
        return p


class Primitives:
    """_primitives.cc, as a library."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.make.restype = self.lib.result.restype = ctypes.c_void_p
        self.lib.run.restype = ctypes.c_double
        self.lib.run.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self.lib.result.argtypes = self.lib.destroy.argtypes = [ctypes.c_void_p]
        self.once = ctypes.PyDLL(str(path)).once
        self.once.argtypes = [ctypes.c_void_p]
        self.once.restype = None

    @contextmanager
    def primitive(
        self, data: Data, threads: int
    ) -> Iterator[tuple[Callable[[int], float] | None, Callable[[], None], np.ndarray, str]]:
        """Times itself; calls it once; its result; why there is none."""
        error = ctypes.create_string_buffer(200)
        problem = data.problem(threads)
        handle = self.lib.make(ctypes.byref(problem), error, ctypes.c_size_t(len(error)))
        if handle is None:
            yield None, lambda: None, np.empty(0), error.value.decode()
            return
        try:
            self.lib.run(handle, 1)
            size = math.prod(data.output) * data.dtype.itemsize
            bytes_ = ctypes.string_at(self.lib.result(handle), size)
            result = np.frombuffer(bytes_, data.dtype).reshape(data.output)
            call = ctypes.c_void_p(handle)
            yield lambda n: self.lib.run(handle, n), lambda: self.once(call), result, ""
        finally:
            self.lib.destroy(handle)


def compiled(folder: str) -> Primitives | str:
    """The library, or why there is none. Links to the oneDNN of the environment, ours too."""
    compiler = shutil.which("g++") or shutil.which("c++")
    include, lib = Path(sys.prefix, "include"), Path(sys.prefix, "lib")
    if not qnnrt._core.kernel_library().startswith("oneDNN"):
        return "oneDNN is not installed"
    if not (include / "oneapi/dnnl/dnnl.hpp").exists() or not (lib / "libdnnl.so.3").exists():
        return "not installed: onednn-devel-cpu-gomp"
    if compiler is None:
        return "no C++ compiler"
    path = Path(folder, "primitives.so")
    options = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fopenmp", f"-I{include}", f"-L{lib}"]
    options += ["-l:libdnnl.so.3", f"-Wl,-rpath,{lib}", "-o", str(path)]
    subprocess.run([compiler, str(SOURCE), *options], check=True)
    return Primitives(path)


def session(data: Data, threads: int, in_float: bool = False) -> qnnrt.Session:
    made = qnnrt.Session(data.model(in_float), threads=threads)
    made.inputs["x"].array[...] = data.src
    if "b" in made.inputs:
        made.inputs["b"].array[...] = data.weights
    made.run()
    return made


def integer_products() -> bool:
    """Without them oneDNN adds products of bytes in pairs of 16 bits, which saturate."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512_vnni" in flags or "avx_vnni" in flags


def steps_apart(got: np.ndarray, expected: np.ndarray) -> int:
    return int(np.abs(got.astype(np.int64) - expected.astype(np.int64)).max())


def alike(name: str, data: Data, got: np.ndarray, expected: np.ndarray) -> None:
    if data.fixed:
        apart = steps_apart(got, expected)
        assert apart <= 1, f"{name} computes something else: {apart} steps apart"
    else:
        unit = 1e-3 if data.dtype == FLOAT else 2**-7
        same(name, got.astype(FLOAT), expected.astype(FLOAT), rtol=unit)


def measure(bench: Benchmark, op: Op, kind: str, threads: int, library: Primitives | str) -> Case:
    data = Data(op, TYPES[kind])
    name = f"{op.type} {kind}, {op.name}, {threads} thread{'s' * (threads > 1)}"
    case = bench.case(name)
    ours = session(data, threads)
    result = next(iter(ours.outputs.values())).array
    case.add("qnnrt Session.run()", ours.run)
    if kind == "u16":
        other = session(data, threads, in_float=True)
        alike(name, data, next(iter(other.outputs.values())).array, result)
        case.add("in float, converted", other.run)
        case.measure()
        other.close()
    elif isinstance(library, str) or (op.kind == SOFTMAX and data.fixed):
        unscaled = "none: its 8-bit softmax does not scale what it reads"
        case.missing("oneDNN primitive", library if isinstance(library, str) else unscaled)
        case.measure()
    else:
        with library.primitive(data, threads) as (sample, once, expected, why):
            off = False
            if sample is None:
                case.missing("oneDNN primitive", why)
            elif data.dtype == np.uint8 and op.kind in (CONV, MATMUL) and not integer_products():
                # Ours does not: compared to the float product.
                with session(data, threads, in_float=True) as exact:
                    alike(name, data, result, next(iter(exact.outputs.values())).array)
                off = steps_apart(result, expected) > 1
            else:
                alike(name, data, result, expected)
            if sample is not None:
                case.sampled("oneDNN primitive" + ", sums saturate" * off, sample)
                case.add("oneDNN primitive from Python" + ", sums saturate" * off, once)
            case.measure()
    ours.close()
    return case


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--only", default="", help="cases whose names hold this text")


def main() -> None:
    bench = Benchmark("kernels", __doc__, rounds=15, sample_ms=10, more=arguments)
    cores = len(os.sched_getaffinity(0))
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        for threads in bench.options.threads or sorted({1, min(2, cores)}):
            for op in OPS:
                if bench.smoke and op.name not in SMOKE:
                    continue
                for kind in TYPES:
                    if kind == "u16" and (op.kind not in (CONV, MATMUL) or not op.static):
                        continue
                    if bench.options.only not in f"{op.type} {kind}, {op.name}":
                        continue
                    case = measure(bench, op, kind, threads, library)
                    rows = [row for row in case.rows() if "ratio" in row]
                    for row in rows[1:]:
                        key = f"{kind}, {row['name']}, {threads} thread{'s' * (threads > 1)}"
                        ratios.setdefault(key, []).append(row["ratio"])
    bench.means(ratios)
    bench.finish()


if __name__ == "__main__":
    main()
