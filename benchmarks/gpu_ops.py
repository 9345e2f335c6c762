"""The gpu backend, op by op: bytes a second, and how many of a copy's that is.

    python benchmarks/gpu_ops.py [--smoke] [--json FILE] [--ops NAME...] [--elements N...]

Every op that has a kernel, alone in a graph, on 32-bit floats on the device, at three sizes; some
with several layouts. The bytes are those of its inputs and outputs, each once. Beside it, in the
same rounds, the driver's copy of a buffer that moves as many: the ratio says how much longer the op
takes. The table at the end has the slowest first. Ops that do more arithmetic than they move bytes
are marked. Results of the smallest size are compared with the cpu backend. QNNRT_GPU_DEVICE chooses
the OpenCL device.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from _gpu import OnDevice
from _harness import Benchmark, optional, same

import qnnrt
from qnnrt import gpu
from qnnrt._native.op_table import op_table
from qnnrt.gpu.ops import table
from qnnrt.gpu.ops.formulas import ELEMENTWISE
from qnnrt.model import Model, Node, Quantization, Tensor

SIZES = {"gpu": (1 << 16, 1 << 21, 1 << 26), "cpu": (1 << 12, 1 << 16, 1 << 20)}
F32, F16, I32 = (np.dtype(t) for t in ("float32", "float16", "int32"))
BYTE = Quantization(1 / 255, 0)
#: Ops that only passes make -> ONNX operators that they are found in.
FOUND = {
    "ElementWiseErf": [("Erf", "x", {})],
    "GeluTanh": [("Gelu", "x", {"approximate": "tanh"})],
    "Mish": [("Mish", "x", {})],
    "Swish": [("Sigmoid", "x", {}), ("Mul", "x gate", {})],
}
PRODUCTS = "products: bound by arithmetic, see benchmarks/gpu.py"
WINDOWS = "each element is read by many windows"
#: Why an op cannot be as fast as a copy of its bytes.
MORE_THAN_BYTES = {
    **dict.fromkeys(
        ("Conv1d", "Conv2d", "Conv3d", "FullyConnected", "MatMul", "TransposeConv2d",
         "TransposeConv3d"),
        PRODUCTS,
    ),
    **dict.fromkeys(("Gru", "Lstm"), "products, a step of time after the other"),
    "GridSample": "points are anywhere",
    "HadamardTransform": "rounds over all of the memory",
    "TopK": "a row is searched once for each of the best",
    **dict.fromkeys(("DepthWiseConv1d", "DepthWiseConv2d", "PoolAvg3d", "PoolMax3d"), WINDOWS),
    "GatherElements": "single elements are anywhere",
    "ScatterElements": "single elements are anywhere, and the last update of each is found first",
}  # fmt: skip


@dataclass
class Trial:
    """A node: arrays that are fed, or constants where ``static`` has their number."""

    op: str
    inputs: list[np.ndarray]
    outputs: list[tuple[int, ...]]
    params: dict[str, Any] = field(default_factory=dict)
    static: tuple[int, ...] = ()
    dtypes: tuple[Any, ...] = ()  # of the outputs, input 0's where not given
    layout: str = ""
    encodings: dict[str, Quantization] = field(default_factory=dict)

    def model(self) -> tuple[Model, dict[str, np.ndarray]]:
        """The graph, and what it is fed."""
        if self.op in FOUND:
            return _from_onnx(self.op, self.inputs[0])
        model, feeds = Model(self.op), {}
        names = [f"in{i}" for i in range(len(self.inputs))]
        for i, (name, array) in enumerate(zip(names, self.inputs, strict=True)):
            data = array if i in self.static else None
            encoding = self.encodings.get(name)
            model.tensors[name] = Tensor(name, array.shape, array.dtype, data, encoding)
            if data is None:
                feeds[name] = array
        for i, shape in enumerate(self.outputs):
            name = f"out{i}"
            dtype = np.dtype(self.dtypes[i] if self.dtypes else self.inputs[0].dtype)
            model.tensors[name] = Tensor(name, shape, dtype, None, self.encodings.get(name))
            model.outputs.append(name)
        model.nodes.append(Node("node", self.op, names, list(model.outputs), dict(self.params)))
        model.inputs = list(feeds)
        return model, feeds


def _from_onnx(op: str, x: np.ndarray) -> tuple[Model, dict[str, np.ndarray]]:
    helper: Any = importlib.import_module("onnx.helper")
    importer: Any = importlib.import_module("qnnrt.importers.onnx")
    *first, (last, taken, attributes) = FOUND[op]
    nodes = [helper.make_node(t, ins.split(), ["gate"], **a) for t, ins, a in first]
    nodes.append(helper.make_node(last, taken.split(), ["y"], **attributes))
    ends = [helper.make_tensor_value_info(n, 1, x.shape) for n in "xy"]
    graph = helper.make_graph(nodes, op, ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 20)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return importer.load(proto), {"x": x}


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


class Size:
    """Arrays of about ``n`` elements, numbers between 0 and 1, made once."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.one = np.random.default_rng(n).random(n, F32) * F32.type(0.8) + F32.type(0.1)
        self.columns = min(1024, 1 << (n.bit_length() // 2))
        self.rows = n // self.columns
        self.channels = 32
        self.side = max(8, math.isqrt(n // self.channels) // 8 * 8)

    def array(self, *shape: int, dtype: Any = F32) -> np.ndarray:
        values = np.resize(self.one, shape)
        return values if dtype == F32 else (values * 100).astype(dtype)

    @property
    def matrix(self) -> np.ndarray:
        return self.array(self.rows, self.columns)

    @property
    def image(self) -> np.ndarray:
        return self.array(1, self.side, self.side, self.channels)


def elementwise(size: Size) -> Iterator[Trial]:
    x, shape = size.matrix, (size.rows, size.columns)
    positive = {"ReluMinMax": {"min_value": 0.2, "max_value": 0.7}}
    special = {
        "Cast": Trial("Cast", [x], [shape], dtypes=(F16,)),
        "Convert": Trial("Convert", [x], [shape], dtypes=(F16,)),
        "Quantize": Trial("Quantize", [x], [shape], dtypes=(np.uint8,), encodings={"out0": BYTE}),
        "Dequantize": Trial("Dequantize", [(x * 255).astype(np.uint8)], [shape], dtypes=(F32,),
                            encodings={"in0": BYTE}),
        "ElementWiseSelect": Trial("ElementWiseSelect", [x > 0.5, x, x], [shape], dtypes=(F32,)),
        "Prelu": Trial("Prelu", [x, x[0].copy()], [shape], static=(1,)),
    }  # fmt: skip
    for op in sorted(set(ELEMENTWISE) & set(table())):
        if op in special:
            yield special[op]
            continue
        if op in FOUND:
            if optional("onnx") is not None:
                yield Trial(op, [x], [shape])
            continue
        record = op_table()[op]
        types = record["inputs"][0]["types"]
        given = x if "FLOAT_32" in types else x > 0.5
        out = record["outputs"][0]["types"]
        dtype = given.dtype if "FLOAT_32" in out else np.dtype(bool)
        params = positive.get(op, {})
        if any(p["name"] == "operation" for p in record["params"]):
            params = {"operation": 0}
        count = len([i for i in record["inputs"] if i["count"] == "one"])
        yield Trial(op, [given] * count, [shape], params, dtypes=(dtype,))
    row = Trial("ElementWiseAdd", [x, x[0].copy()], [shape], layout="a row to each")
    column = Trial("ElementWiseAdd", [x, x[:, :1].copy()], [shape], layout="a column to each")
    yield from (row, column)


def reductions(size: Size) -> Iterator[Trial]:
    x, (rows, columns) = size.matrix, (size.rows, size.columns)
    image = size.image
    c = size.channels
    for op in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
               "ReduceSumSquare"):  # fmt: skip
        yield Trial(op, [x], [()], {"axes": u32(0, 1)}, layout="all")
        yield Trial(op, [x], [(rows,)], {"axes": u32(1)}, layout="rows")
        yield Trial(op, [x], [(columns,)], {"axes": u32(0)}, layout="columns")
        yield Trial(op, [image], [(c,)], {"axes": u32(0, 1, 2)}, layout="pixels")
        thin = size.array(columns, rows // 8, 8)
        yield Trial(op, [thin], [(rows // 8,)], {"axes": u32(0, 2)}, layout="first and last")
    long = size.array(1, size.n)
    for op in ("Argmax", "Argmin"):
        yield Trial(op, [long], [(1,)], {"axis": 1}, dtypes=(I32,), layout="a long row")
        yield Trial(op, [x], [(rows,)], {"axis": 1}, dtypes=(I32,), layout="rows")
        yield Trial(op, [x], [(columns,)], {"axis": 0}, dtypes=(I32,), layout="columns")
    for layout, axis, of in (("a long row", 1, long), ("rows", 1, x), ("columns", 0, x)):
        yield Trial("CumulativeSum", [of], [of.shape], {"axis": axis}, layout=layout)
        yield Trial("Softmax", [of], [of.shape], {"axis": axis}, layout=layout)
        yield Trial("LogSoftmax", [of], [of.shape], {"axis": axis}, layout=layout)
    yield Trial("TopK", [x], [(rows, 4)] * 2, {"k": 4}, dtypes=(F32, I32))


def norms(size: Size) -> Iterator[Trial]:
    x, image = size.matrix, size.image
    long = size.array(1, size.n)
    scale, channel = x[0].copy(), size.array(size.channels)
    yield Trial("Batchnorm", [image, channel, channel], [image.shape], static=(1, 2))
    for op in ("LayerNorm", "RmsNorm"):
        yield Trial(op, [x, scale], [x.shape], {"axes": u32(1)}, static=(1,), layout="rows")
        yield Trial(op, [long], [long.shape], {"axes": u32(1)}, layout="a long row")
    yield Trial("L2Norm", [x], [x.shape], {"axes": u32(1)}, layout="rows")
    yield Trial("L2Norm", [x], [x.shape], {"axes": u32(0)}, layout="columns")
    yield Trial("L2Norm", [long], [long.shape], {"axes": u32(1)}, layout="a long row")
    small = {"epsilon": 1e-5}
    yield Trial("InstanceNorm", [image, channel], [image.shape], small, static=(1,))
    for groups in (1, 4):
        params = {"group": groups, **small}
        yield Trial("GroupNorm", [image], [image.shape], params, layout=f"{groups} groups")
    yield Trial("Lrn", [image], [image.shape], {"radius": 2, "alpha": 0.1})


def moves(size: Size) -> Iterator[Trial]:
    x, image = size.matrix, size.image
    rows, columns, side, c = size.rows, size.columns, size.side, size.channels
    half = side // 2
    two = {"block_size": u32(2, 2)}
    yield Trial("BatchToSpace", [size.array(4, half, half, c)], [(1, side, side, c)], two)
    yield Trial("SpaceToBatch", [image], [(4, half, half, c)], two)
    yield Trial("DepthToSpace", [image], [(1, 2 * side, 2 * side, c // 4)], two)
    yield Trial("SpaceToDepth", [image], [(1, half, half, 4 * c)], two)
    yield Trial("ChannelShuffle", [image], [image.shape], {"num_groups": 4})
    yield Trial("Concat", [x[:, ::2].copy(), x[:, 1::2].copy()], [x.shape], {"axis": 1})
    yield Trial("Pack", [x[: rows // 2].copy()] * 2, [(2, rows // 2, columns)], {"axis": 0})
    yield Trial(
        "UnPack", [x.reshape(2, rows // 2, columns)], [(rows // 2, columns)] * 2, {"axis": 0}
    )
    yield Trial(
        "Split", [x], [(rows, columns // 2)] * 2, {"axis": 1, "split_index": u32(columns // 2)}
    )
    for op, shape, params in (
        ("ExpandDims", (1, *x.shape), {"axis": 0}),
        ("Reshape", (columns, rows), {}),
    ):
        yield Trial(op, [x], [shape], params)
    yield Trial("Squeeze", [size.array(1, size.n)], [(size.n,)], {"axes": u32(0)})
    yield Trial(
        "Pad",
        [image],
        [(1, side + 2, side + 2, c)],
        {"scheme": 0, "pad_amount": np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.uint32)},
    )
    ranges = np.array([[0, rows, 2], [0, columns, 1]], np.int32)
    yield Trial("StridedSlice", [x], [(-(-rows // 2), columns)], {"ranges": ranges})
    yield Trial(
        "Tile", [x[: rows // 2].copy()], [(rows // 2 * 2, columns)], {"multiples": u32(2, 1)}
    )
    for perm in ((1, 0), (0, 1)):
        if perm == (1, 0):
            yield Trial("Transpose", [x], [(columns, rows)], {"perm": u32(*perm)})
    yield Trial("Transpose", [image], [(1, c, side, side)], {"perm": u32(0, 3, 1, 2)},
                layout="NHWC to NCHW")  # fmt: skip


def gathers(size: Size) -> Iterator[Trial]:
    x, (rows, columns) = size.matrix, (size.rows, size.columns)
    r = np.random.default_rng(3)
    which = r.permutation(rows).astype(I32)
    each = r.integers(0, rows, (rows, columns)).astype(I32)
    yield Trial("Gather", [x, which], [x.shape], {"axis": 0})
    yield Trial("GatherElements", [x, each], [x.shape], {"axis": 0})
    yield Trial("GatherNd", [x, which[:, None].copy()], [x.shape])
    yield Trial("ScatterElements", [x, each[: rows // 4], x[: rows // 4]], [x.shape], {"axis": 0})
    yield Trial("ScatterNd", [x, which[: rows // 2, None].copy(), x[: rows // 2]], [x.shape])
    yield Trial("OneHot", [which % 16], [(rows, columns)],
                {"depth": columns, "axis": -1, "on_value": 1.0, "off_value": 0.0},
                dtypes=(F32,))  # fmt: skip


def windows(size: Size) -> Iterator[Trial]:
    x, side, c = size.image, size.side, size.channels
    half = side // 2
    pads2, pads3 = np.zeros((2, 2), np.uint32), np.zeros((3, 2), np.uint32)
    pool = {"filter_size": u32(2, 2), "stride": u32(2, 2), "pad_amount": pads2}
    for op in ("PoolAvg2d", "PoolMax2d"):
        yield Trial(op, [x], [(1, half, half, c)], pool)
    deep = size.array(1, 8, max(4, side // 4), max(4, side // 4), c)
    quarter = deep.shape[2] // 2
    pool3 = {"filter_size": u32(2, 2, 2), "stride": u32(2, 2, 2), "pad_amount": pads3}
    for op in ("PoolAvg3d", "PoolMax3d"):
        yield Trial(op, [deep], [(1, 4, quarter, quarter, c)], pool3)
    double = (1, 2 * side, 2 * side, c)
    yield Trial("Resize", [x], [double], {"interpolation_mode": 1})
    yield Trial("ResizeBilinear", [x], [double])
    yield Trial("ResizeNearestNeighbor", [x], [double])
    boxes = np.tile(np.array([[0, 0, side / 2, side / 2]], F32), (16, 1))
    yield Trial("RoiAlign", [x, boxes, np.zeros(16, I32)], [(16, 7, 7, c)],
                {"img_size_ratio": np.ones(2, F32), "num_samples_y": 2, "num_samples_x": 2},
                static=(1, 2))  # fmt: skip
    grid = np.random.default_rng(4).random((1, side, side, 2), F32) * F32.type(2) - F32.type(1)
    yield Trial("GridSample", [x, grid], [x.shape])
    line = size.array(1, size.rows, c)
    one = {"stride": 1, "pad_amount": u32(1, 1)}
    ring2 = {"stride": u32(1, 1), "pad_amount": np.ones((2, 2), np.uint32)}
    ring3 = {"stride": u32(1, 1, 1), "pad_amount": np.ones((3, 2), np.uint32)}
    yield Trial("Conv1d", [line, size.array(3, c, c)], [line.shape], one, static=(1,))
    yield Trial("DepthWiseConv1d", [line, size.array(3, 1, c)], [line.shape], one, static=(1,))
    yield Trial("Conv2d", [x, size.array(3, 3, c, c)], [x.shape], ring2, static=(1,))
    yield Trial("DepthWiseConv2d", [x, size.array(3, 3, 1, c)], [x.shape], ring2, static=(1,))
    yield Trial("Conv3d", [deep, size.array(3, 3, 3, c, c)], [deep.shape], ring3, static=(1,))
    yield Trial("TransposeConv2d", [x, size.array(3, 3, c, c)], [x.shape], ring2, static=(1,))
    yield Trial("TransposeConv3d", [deep, size.array(3, 3, 3, c, c)], [deep.shape], ring3,
                static=(1,))  # fmt: skip


def products(size: Size) -> Iterator[Trial]:
    n = max(16, math.isqrt(size.n) // 4)
    a, b = size.array(n, n), size.array(n, n)
    yield Trial("MatMul", [a, b], [(n, n)])
    yield Trial("FullyConnected", [a, b], [(n, n)], static=(1,))
    heads, width = 8, 64
    length = max(2, size.n // heads // width)
    x = size.array(1, heads, length, width)
    angles = [size.array(1, length, width // 2) for _ in range(2)]
    yield Trial("RotaryEmbedding", [x, *angles], [x.shape])
    yield Trial("HadamardTransform", [size.matrix], [(size.rows, size.columns)])


def recurrent(size: Size) -> Iterator[Trial]:
    steps = features = 16
    batch = max(1, size.n // steps // features)
    x = size.array(steps, batch, features)
    w, bias = size.array(features, features) / F32.type(16), size.array(features)
    ends = [(steps, batch, features), *[(batch, features)] * 2]
    yield Trial("Lstm", [x, *[w] * 6, *[bias] * 3], ends, {"time_major": True}, tuple(range(1, 10)))
    yield Trial("Gru", [x, *[w] * 6], ends[:2], static=tuple(range(1, 7)))


GROUPS: tuple[Callable[[Size], Iterator[Trial]], ...] = (
    elementwise, reductions, norms, moves, gathers, windows, products, recurrent,
)  # fmt: skip


def copy_of(backend: qnnrt.qnn.Backend, nbytes: int) -> tuple[Callable[[], None], list[Any]]:
    """The driver's copy, which reads and writes so many bytes altogether."""
    cl: Any = importlib.import_module("pyopencl")
    library: Any = backend.library
    half = max(4, nbytes // 2)
    ends = [cl.Buffer(library.cl_context, cl.mem_flags.READ_WRITE, half) for _ in range(2)]

    def run() -> None:
        cl.enqueue_copy(library.cl_queue, ends[1], ends[0], byte_count=half)
        library.cl_queue.finish()

    run()
    return run, ends


def checked(trial: Trial, model: Model, feeds: dict[str, Any], ours: OnDevice) -> None:
    if trial.op == "CumulativeSum":  # the cpu backend's, in 32 bits, grows no more from 2^24 on
        wanted = np.cumsum(trial.inputs[0], int(trial.params["axis"]), np.float64)
    else:
        with qnnrt.Session(model, "cpu") as cpu:
            wanted = next(iter(cpu.run(feeds).values()))
    got = ours.result()
    if wanted.dtype.kind == "f" and wanted.size:
        same(trial.op, got.astype(np.float64), wanted.astype(np.float64), rtol=2e-3)
    elif not np.array_equal(got, wanted) and trial.op != "Quantize":
        raise AssertionError(f"{trial.op} computes something else")


def measured(
    bench: Benchmark, backend: qnnrt.qnn.Backend, trial: Trial, n: int, check: bool
) -> dict[str, Any]:
    model, feeds = trial.model()
    ours = OnDevice(model, backend, feeds)
    ours.session.run()
    if check:
        checked(trial, model, feeds, ours)
    tensors = (model.tensors[name] for name in (*model.inputs, *model.outputs))
    moved = sum(int(np.prod(t.shape)) * t.dtype.itemsize for t in tensors)
    moved += sum(t.data.nbytes for t in model.tensors.values() if t.data is not None)
    name = f"{trial.op}, {trial.layout}" if trial.layout else trial.op
    case = bench.case(f"{name}, {n} elements", moved=moved)
    copy, kept = copy_of(backend, moved)
    case.add("copy", copy)
    case.add("qnnrt, handles", ours.session.run)
    case.measure()
    ours.close()
    for buffer in kept:
        buffer.release()
    row = next(row for row in case.rows() if row["name"] != "copy")
    return {
        "op": trial.op,
        "layout": trial.layout,
        "elements": n,
        "bytes": moved,
        "microseconds": row["seconds"]["median"] * 1e6,
        "gigabytes_per_second": row["gigabytes_per_second"],
        "fraction_of_copy": 1 / row["ratio"],
        "reason": MORE_THAN_BYTES.get(trial.op, ""),
    }


def show(found: list[dict[str, Any]]) -> None:
    """The slowest first, each size by itself."""
    for n in sorted({row["elements"] for row in found}, reverse=True):
        print(f"\n{n} elements: bytes a second as a fraction of a copy's, the least first")
        rows = [row for row in found if row["elements"] == n]
        for row in sorted(rows, key=lambda row: row["fraction_of_copy"]):
            name = f"{row['op']}, {row['layout']}" if row["layout"] else row["op"]
            line = f"  {name:34}{row['fraction_of_copy']:8.3f}"
            line += f"{row['gigabytes_per_second']:10.1f} GB/s{row['microseconds']:12.1f} us"
            print(f"{line}  {row['reason']}".rstrip())


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ops", nargs="+", choices=sorted(table()), metavar="NAME")
    parser.add_argument("--elements", nargs="+", type=int, metavar="N", help="sizes of the inputs")


def main() -> None:
    bench = Benchmark("gpu_ops", __doc__ or "", rounds=7, sample_ms=20, more=arguments)
    if reason := gpu.why_not():
        bench.case("everything").missing("qnnrt", reason)
        bench.finish()
        return
    found: list[dict[str, Any]] = []
    with qnnrt.qnn.Backend.open("gpu") as backend:
        device = backend.library.device
        bench.machine["opencl"] = f"{device}, {device.version}, driver {device.raw.driver_version}"
        print(bench.machine["opencl"])
        usual = (1 << 10,) if bench.smoke else SIZES["cpu" if device.kind == "cpu" else "gpu"]
        for n in bench.options.elements or usual:
            size = Size(n)
            for group in GROUPS:
                trials = [t for t in group(size) if t.op in (bench.options.ops or table())]
                if bench.smoke and not bench.options.ops:
                    trials = trials[:2]
                for trial in trials:
                    check = n == min(bench.options.elements or usual)
                    try:
                        found.append(measured(bench, backend, trial, n, check))
                    except qnnrt.errors.QnnError as e:  # the device has not as much memory
                        bench.case(f"{trial.op}, {n} elements").missing("qnnrt", str(e))
                        print(f"{trial.op}, {trial.layout}: {e}", file=sys.stderr)
    bench.extra["ops"] = found
    show(found)
    if not bench.smoke and not bench.options.ops:
        left = sorted(set(table()) - {row["op"] for row in found})
        bench.extra["not_measured"] = left
        print("\nnot measured:", ", ".join(left) or "none")
    bench.finish()


if __name__ == "__main__":
    main()
