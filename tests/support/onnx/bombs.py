"""Small files that ask for more memory, time or depth than any file may take, or whose names, data
files and functions are wrong; and how they are loaded in a process of its own.

``python -m support.onnx.bombs NAME...`` loads those models and writes a line of JSON for each:
[name, class of what was raised (or ""), its text, seconds, peak of the process in bytes].
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.outside import limit_process, peak_memory

from .hostile import TESTS, ints, single

#: What a child may use: bytes of address space, seconds on the clock for one model.
MEMORY, SECONDS = 2 << 30, 600

MANY = 2**29
I64MIN = -(2**63)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def network(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, np.ndarray] | None = None,
    inputs: dict[str, tuple[int, ...]] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    sparse: Sequence[onnx.SparseTensorProto] = (),
) -> onnx.ModelProto:
    """A model with the output y."""
    graph = helper.make_graph(
        list(nodes),
        "bomb",
        [
            helper.make_tensor_value_info(k, TensorProto.FLOAT, shape)
            for k, shape in (inputs or {"x": (2,)}).items()
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
        sparse_initializer=list(sparse),
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def function(
    name: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str] = ("a",)
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, list(inputs), ["b"], list(nodes), opsets)


def call(name: str, x: str, y: str) -> onnx.NodeProto:
    return helper.make_node(name, [x], [y], domain="own")


def doubled(depth: int, leaf: onnx.NodeProto) -> onnx.ModelProto:
    """Functions that each call the one before twice."""
    made = [function("f0", [leaf])]
    made += [
        function(f"f{i}", [call(f"f{i - 1}", "a", "t"), call(f"f{i - 1}", "t", "b")])
        for i in range(1, depth)
    ]
    return network([call(f"f{depth - 1}", "x", "y")], functions=made)


def chained(depth: int) -> onnx.ModelProto:
    made = [function("f0", [helper.make_node("Relu", ["a"], ["b"])])]
    made += [function(f"f{i}", [call(f"f{i - 1}", "a", "b")]) for i in range(1, depth)]
    return network([call(f"f{depth - 1}", "x", "y")], functions=made)


def uniform(
    shape: Sequence[int], then: Sequence[onnx.NodeProto], **more: np.ndarray
) -> onnx.ModelProto:
    """`then` on a constant c of one value: its shape is all that the file has of it."""
    first = helper.make_node(
        "ConstantOfShape", ["shape"], ["c"], value=numpy_helper.from_array(np.ones(1, np.float32))
    )
    return network([first, *then], {"shape": ints(*shape), **more})


def sparse(dims: Sequence[int], index: np.ndarray, values: np.ndarray) -> onnx.ModelProto:
    tensor = onnx.SparseTensorProto(dims=dims)
    tensor.values.CopyFrom(numpy_helper.from_array(values, "s"))
    tensor.indices.CopyFrom(numpy_helper.from_array(index, "si"))
    return network([helper.make_node("Add", ["x", "s"], ["y"])], sparse=[tensor])


def branch(then: onnx.NodeProto) -> onnx.ModelProto:
    """An If of which one branch is taken."""
    graphs = {
        f"{kind}_branch": helper.make_graph([then], kind, [], [onnx.ValueInfoProto(name="z")])
        for kind in ("then", "else")
    }
    node = helper.make_node("If", ["yes"], ["y"], **graphs)
    return network([node], {"yes": np.array(True), "n": ints(MANY), "two": np.ones(2, np.float32)})


#: Products of constants are left to the graph: nothing is computed while they are loaded.
LEFT_TO_GRAPH = {"resize", "transposed convolution"}


def memory_bombs() -> dict[str, Callable[[], onnx.ModelProto]]:
    """Name -> model, each of which asks for gigabytes."""
    f32 = np.float32
    one, two = np.ones(1, np.int8), np.array([1, 2], f32)
    image = np.arange(4, dtype=f32).reshape(1, 1, 2, 2)
    node = helper.make_node
    wide = {"axis": 0}
    return {
        "range": lambda: single("Range", [scalar(0), scalar(MANY), scalar(1)]),
        "range of floats": lambda: single("Range", [np.array(v, f32) for v in (0, 1, 1e-9)]),
        "tile": lambda: single("Tile", [two, ints(MANY)]),
        "expand": lambda: single("Expand", [two, ints(MANY, 2)]),
        "expand and add": lambda: network(
            [node("Expand", ["two", "n"], ["e"]), node("Add", ["e", "x"], ["y"])],
            {"two": two, "n": ints(MANY, 2)},
        ),
        "pad": lambda: single("Pad", [two, ints(0, MANY)]),
        "pad by edges": lambda: single("Pad", [two, ints(0, MANY)], {"mode": b"edge"}),
        "pad that wraps around": lambda: single("Pad", [(2,), ints(0, 2**30)], {"mode": b"wrap"}),
        "transposed convolution": lambda: single(
            "ConvTranspose", [image, np.ones((1, 1, 1, 1), f32)], {"strides": [23000, 23000]}
        ),
        "resize": lambda: single("Resize", [image, None, None, ints(1, 1, 23000, 23000)]),
        "weights of a resize": lambda: single(
            "Resize", [(1, 1, 40000, 2), None, None, ints(1, 1, 39999, 2)],
            {"mode": b"cubic", "antialias": 1},
        ),
        "hann window": lambda: single("HannWindow", [scalar(MANY)]),
        "blackman window": lambda: single("BlackmanWindow", [scalar(MANY)]),
        "mel weights": lambda: single(
            "MelWeightMatrix",
            [scalar(20000), scalar(60000), scalar(8000), np.array(0, f32), np.array(4000, f32)],
        ),
        "eye": lambda: single("EyeLike", [(23000, 23000)]),
        "mask of a triangle": lambda: single("Trilu", [(40000, 40000)]),
        "mask of a dropout": lambda: network(
            [node("Dropout", ["x"], ["d", "m"]), node("Cast", ["m"], ["y"], to=1)],
            inputs={"x": (MANY,)},
        ),
        "argmax": lambda: uniform((2**31 - 1,), [node("ArgMax", ["c"], ["y"], **wide)]),
        "arithmetic on one value": lambda: uniform((MANY,), [node("Exp", ["c"], ["y"])]),
        "cumulated sum": lambda: uniform(
            (MANY,), [node("CumSum", ["c", "axis"], ["y"])], axis=ints(0)
        ),
        "softmax": lambda: uniform((MANY,), [node("Softmax", ["c"], ["y"])]),
        "top": lambda: uniform((MANY,), [node("TopK", ["c", "k"], ["y", "i"])], k=ints(1)),
        "non-zero": lambda: uniform((MANY,), [node("NonZero", ["c"], ["y"])]),
        "unique": lambda: uniform((MANY,), [node("Unique", ["c"], ["y"])]),
        "compress": lambda: uniform(
            (2**15, 2**14), [node("Compress", ["c", "b"], ["y"])], b=np.ones(2**15, bool)
        ),
        "one-hot": lambda: single("OneHot", [ints(0, 1), ints(MANY), two]),
        "product": lambda: uniform(
            (23000, 1), [node("Transpose", ["c"], ["t"]), node("MatMul", ["c", "t"], ["y"])]
        ),
        "einsum": lambda: uniform(
            (30000,), [node("Einsum", ["c", "c"], ["y"], equation="i,j->ij")]
        ),
        "sum of a row and a column": lambda: network(
            [
                node("ConstantOfShape", ["r"], ["a"]),
                node("Range", ["zero", "n", "one"], ["b"]),
                node("Cast", ["b"], ["c"], to=1),
                node("Add", ["a", "c"], ["y"]),
            ],
            {"r": ints(30000, 1), "zero": scalar(0), "n": scalar(30000), "one": scalar(1)},
        ),
        "gather": lambda: network(
            [
                node("Expand", ["zero", "n"], ["i"]),
                node("Gather", ["two", "i"], ["y"]),
            ],
            {"zero": ints(0, 1), "n": ints(MANY, 2), "two": two},
        ),
        "gathernd": lambda: network(
            [node("Expand", ["zero", "n"], ["i"]), node("GatherND", ["two", "i"], ["y"])],
            {"zero": ints(0), "n": ints(MANY, 1), "two": two},
        ),
        "codes": lambda: network(
            [
                node("ConstantOfShape", ["n"], ["c"], value=numpy_helper.from_array(one)),
                node("DequantizeLinear", ["c", "s"], ["y"]),
            ],
            {"n": ints(MANY), "s": np.array(0.5, f32)},
        ),
        "sparse": lambda: sparse([MANY], ints(0, 1), two),
        "branch": lambda: branch(node("Tile", ["two", "n"], ["z"])),
        "dilated weights": lambda: single(
            "ConvTranspose", [(1, 1, 4, 4), np.ones((1, 1, 2, 2), f32)],
            {"dilations": [23000, 23000], "pads": [100] * 4},
        ),
        "windows": lambda: single(
            "AveragePool", [(1, 1, 20000, 20000)],
            {"kernel_shape": [3, 3], "dilations": [2, 2], "ceil_mode": 1},
        ),
        "a thousand constants": lambda: network(
            [node("Tile", ["two", "n"], [f"t{i}"]) for i in range(1000)]
            + [node("Concat", [f"t{i}" for i in range(1000)], ["y"], axis=0)],
            {"two": two, "n": ints(2**22)},
        ),
        "a constant in doubled functions": lambda: doubled(
            30,
            node("Add", ["a", "a"], ["b"]),
        ),
        "product of integers": lambda: network(
            [
                node("Range", ["zero", "n", "one"], ["r"]),
                node("Reshape", ["r", "s"], ["m"]),
                node("MatMul", ["m", "m"], ["p"]),
                node("MatMul", ["p", "m"], ["q"]),
                node("Cast", ["q"], ["y"], to=1),
            ],
            {"zero": scalar(0), "n": scalar(2048**2), "one": scalar(1), "s": ints(2048, 2048)},
        ),
    }  # fmt: skip


def other_cases() -> dict[str, Callable[[], onnx.ModelProto | bytes]]:
    """Name -> model that hangs, crashes, or is wrong in another way."""
    f32 = np.float32
    node = helper.make_node
    return {
        "gather elements far before": lambda: single(
            "GatherElements", [np.ones((2, 2), f32), ints(I64MIN, 0, 0, 0).reshape(2, 2)]
        ),
        "gather elements of another rank": lambda: single(
            "GatherElements", [np.ones((2, 2), f32), ints(0, 0)]
        ),
        "gather far before": lambda: single("Gather", [np.ones(2, f32), ints(I64MIN)]),
        "scatter far before": lambda: single(
            "ScatterElements", [np.ones(2, f32), ints(I64MIN), np.ones(1, f32)]
        ),
        "regular expression": lambda: network(
            [
                node("RegexFullMatch", ["s"], ["m"], pattern="(a|aa)+(a|aa)+$"),
                node("Cast", ["m"], ["y"], to=1),
            ],
            {"s": np.array(["a" * 60 + "b"], object)},
        ),
        "doubled functions": lambda: doubled(40, node("Relu", ["a"], ["b"])),
        "doubled empty functions": lambda: doubled(60, node("Identity", ["a"], ["b"])),
        "deep functions": lambda: chained(400),
        "function that calls itself": lambda: network(
            [call("f", "x", "y")], functions=[function("f", [call("f", "a", "b")])]
        ),
        "functions that call each other": lambda: network(
            [call("f", "x", "y")],
            functions=[function("f", [call("g", "a", "b")]), function("g", [call("f", "a", "b")])],
        ),
        "sparse out of range": lambda: sparse([4], ints(0, 7), np.ones(2, f32)),
        "sparse before": lambda: sparse([4], ints(-9), np.ones(1, f32)),
        "sparse of another rank": lambda: sparse([4], ints(0, 0, 0).reshape(1, 3), np.ones(1, f32)),
        "sparse of a shape that wraps": lambda: sparse(
            [2**32, 2**32], ints(0, 0).reshape(1, 2), np.ones(1, f32)
        ),
        "erf without inputs": lambda: network([node("Erf", [], ["y"])]),
        "product of one input behind erf": lambda: network(
            [
                node("Mul", ["x", "x"], ["m"]),
                node("Erf", ["m"], ["e"]),
                node("Add", ["e", "half"], ["p"]),
                node("Mul", ["p"], ["y"]),
            ],
            {"half": np.array(1, f32)},
        ),
        "division of one input before erf": lambda: network(
            [node("Div", ["x"], ["m"]), node("Erf", ["m"], ["y"])]
        ),
        "size with a second output": lambda: network([node("Size", ["x"], ["y", "z"])]),
        "name with a NUL": lambda: network(
            [node("Relu", ["x"], ["a\0b"]), node("Relu", ["a\0b"], ["y"])]
        ),
        "name of a node with a NUL": lambda: network([node("Relu", ["x"], ["y"], name="a\0b")]),
        "name in a function with a NUL": lambda: network(
            [call("f", "x", "y")],
            functions=[function("f", [node("Relu", ["a"], ["c\0"]), node("Relu", ["c\0"], ["b"])])],
        ),
        "a text as output": lambda: network(
            [node("Identity", ["s"], ["y"])], {"s": np.array(["a"], object)}
        ),
        "a name that is no text": lambda: (
            network([node("Relu", ["x"], ["q"]), node("Relu", ["q"], ["y"])])
            .SerializeToString()
            .replace(b"\x01q", b"\x01\xff")
        ),
        "a long name": lambda: network([node("Relu", ["z" * 2**20], ["y"])]),
        "a long list": lambda: single("Reshape", [(2,), np.arange(2**17, dtype=np.int64)]),
        "a long operator": lambda: network([node("R" * 2**20, ["x"], ["y"])]),
    }


def external(location: str, entries: dict[str, str], dims: int = 2) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[dims])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def places(tensor: onnx.TensorProto) -> dict[str, onnx.ModelProto]:
    """Models that have `tensor` in each place where a tensor can lie."""
    node = helper.make_node
    constant = node("Constant", [], ["w"])
    attr = constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attr.t.CopyFrom(tensor)
    add = node("Add", ["a", "w"], ["b"])
    plain = network([node("Add", ["x", "w"], ["y"])])
    plain.graph.initializer.add().CopyFrom(tensor)
    graphs = {
        f"{kind}_branch": helper.make_graph(
            [constant, node("Identity", ["w"], ["z"])], kind, [], [onnx.ValueInfoProto(name="z")]
        )
        for kind in ("then", "else")
    }
    inside = node("If", ["yes"], ["y"], **graphs)
    listed = node("Constant", [], ["w"])
    listed.attribute.add(name="value", type=onnx.AttributeProto.TENSORS).tensors.add().CopyFrom(
        tensor
    )
    return {
        "an initializer": plain,
        "a node": network([constant, node("Add", ["x", "w"], ["y"])]),
        "a function": network([call("f", "x", "y")], functions=[function("f", [constant, add])]),
        "a branch": network([inside], {"yes": np.array(True)}),
        "a list": network([listed, node("Add", ["x", "w"], ["y"])]),
    }


def outcomes(names: Sequence[str]) -> dict[str, tuple[str, str, float, int]]:
    """Name -> class and text of what loading raised, seconds of the processor and peak; `died` for
    a child's end."""
    left, found = list(names), {}
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    while left:
        try:
            child = subprocess.run(
                [sys.executable, "-m", "support.onnx.bombs", *left],
                env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=3600,
                check=False,
            )
            output, code = child.stdout, child.returncode
        except subprocess.TimeoutExpired as exc:
            output, code = (exc.stdout or b"").decode(), -9
        for line in output.splitlines():
            name, *rest = json.loads(line)
            found[name] = tuple(rest)
        missing = [name for name in left if name not in found]
        if len(missing) == len(left) and code > 0:
            raise AssertionError(child.stderr[-2000:])
        if missing:
            found[missing[0]] = ("died", f"exit status {code}", 0.0, 0)
        left = missing[1:]
    return found


def main(names: Sequence[str]) -> None:
    from qnnrt.importers import onnx as importer

    with contextlib.suppress(ImportError):  # there is none in older versions
        from qnnrt.importers.onnx import child

        child._SECONDS = 3.0
    limit_process(MEMORY)
    known = memory_bombs() | other_cases()
    os.chdir(tempfile.gettempdir())
    for name in names:
        made = known[name]()
        data = made if isinstance(made, bytes) else made.SerializeToString()
        signal.alarm(SECONDS)  # ends the process
        kind, text, started = "", "", time.process_time()
        try:
            importer.load(data)
        except BaseException as exc:
            kind, text = type(exc).__name__, str(exc)
        signal.alarm(0)
        peak = peak_memory()
        text = f"{len(text)}:{text[:2000]}"
        print(json.dumps([name, kind, text, time.process_time() - started, peak]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
