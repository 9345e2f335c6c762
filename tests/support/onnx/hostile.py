"""Single nodes that no operator allows, and how the importer takes them in a process of its own.

``python -m support.onnx.hostile NAME...`` loads those models and writes a line of JSON for each:
[name, class of what was raised (or ""), its text]. A node that ends the process leaves its line
out; the caller sees which.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from support.outside import limit_process

TESTS = Path(__file__).resolve().parents[2]

#: What a child may use: bytes of memory, seconds for one model.
MEMORY, SECONDS = 4 << 30, 600

Given = np.ndarray | tuple[int, ...] | None

I32, I64 = 2**31, 2**63 - 1


def single(
    op: str,
    inputs: Sequence[Given],
    attrs: dict[str, object] | Sequence[AttributeProto] = (),
    outputs: int = 1,
    opset: int = 21,
    types: dict[int, int] | None = None,
    domain: str = "",
) -> onnx.ModelProto:
    """A model of one node: arrays are constants, tuples shapes of inputs (float, or as `types`)."""
    made = [*attrs] if not isinstance(attrs, dict) else [attribute(k, v) for k, v in attrs.items()]
    names = ["" if x is None else f"i{at}" for at, x in enumerate(inputs)]
    found = [f"o{i}" for i in range(outputs)]
    node = onnx.NodeProto(op_type=op, input=names, output=found, name="bad", domain=domain)
    node.attribute.extend(made)
    given = list(zip(names, inputs, strict=True))
    kinds = {f"i{at}": t for at, t in (types or {}).items()}
    graph = helper.make_graph(
        [node],
        "hostile",
        [
            helper.make_tensor_value_info(k, kinds.get(k, TensorProto.FLOAT), x)
            for k, x in given
            if isinstance(x, tuple)
        ],
        [onnx.ValueInfoProto(name=o) for o in found],
        [numpy_helper.from_array(x, k) for k, x in given if isinstance(x, np.ndarray)],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def attribute(name: str, value: object) -> AttributeProto:
    """An attribute whose bytes are written as they are."""
    if isinstance(value, bytes):
        return AttributeProto(name=name, type=AttributeProto.STRING, s=value)
    return helper.make_attribute(name, value)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


W = np.ones((4, 2, 3, 3), np.float32)
X = (1, 2, 8, 8)
SMALL = (1, 4, 2, 2)


def cases() -> dict[str, onnx.ModelProto]:
    """Name -> model. Every one has to be refused with one ModelError that names the node."""
    f32 = np.float32
    found = {
        "split into one with two outputs": single("Split", [(4, 6)], {"num_outputs": 1}, 2),
        "split into 2**40": single("Split", [(4, 6)], {"num_outputs": 2**40}, 2),
        "split into none": single("Split", [(4, 6)], {"num_outputs": 0}, 2),
        "split sizes that wrap": single("Split", [(4, 6), ints(I64, 6 - I64)], {"axis": 1}, 2),
        "gathernd of negative batch": single("GatherND", [(2, 2), ints(0, 1)], {"batch_dims": -5}),
        "gathernd of a large batch": single("GatherND", [(2, 2), ints(0, 1)], {"batch_dims": 9}),
        "gathernd of wide indices": single("GatherND", [(2, 2), ints(0, 0, 0)]),
        "einsum of bytes": single("Einsum", [(2, 2), (2, 2)], {"equation": b"ij,jk->\xff\xfe"}),
        "einsum of other bytes": single("Einsum", [(2, 2), (2, 2)], {"equation": b"\xffj,jk->ik"}),
        "einsum of nothing": single("Einsum", [(2, 2), (2, 2)], {"equation": b""}),
        "einsum of symbols": single("Einsum", [(2, 2), (2, 2)], {"equation": b"i$,jk->ik"}),
        "einsum of sizes": single("Einsum", [(2, 2), (3, 2)], {"equation": b"ij,jk->ik"}),
        "einsum of two ellipses": single("Einsum", [(2, 2)], {"equation": b"......->..."}),
        "conv of stride 0": single("Conv", [X, W], {"strides": [0, 0]}),
        "conv of dilation 0": single("Conv", [X, W], {"dilations": [0, 1]}),
        "conv of group 0": single("Conv", [X, W], {"group": 0}),
        "conv of group -1": single("Conv", [X, W], {"group": -1}),
        "conv of long pads": single("Conv", [X, W], {"pads": [I32 - 1] * 4}),
        "conv of no such padding": single("Conv", [X, W], {"auto_pad": b"\xc3("}),
        "conv of three strides": single("Conv", [X, W], {"strides": [1, 1, 1]}),
        "conv of rank 1": single("Conv", [(4,), W]),
        "conv of scalar weights": single("Conv", [X, np.array(1, f32)]),
        "conv of another kernel": single("Conv", [X, W], {"kernel_shape": [5, 5]}),
        "pool of kernel 0": single("MaxPool", [X], {"kernel_shape": [0, 0]}),
        "pool of stride 0": single("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [0, 1]}),
        "pool of stride -1": single("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [-1, 1]}),
        "pool of p 0": single("LpPool", [X], {"kernel_shape": [2, 2], "p": 0}),
        "global pool of rank 0": single("GlobalAveragePool", [()]),
        "transposed conv of group 0": single("ConvTranspose", [X, W], {"group": 0}),
        "transposed conv that is lost": single("ConvTranspose", [SMALL, W], {"pads": [9] * 4}),
        "transposed conv of shapes": single("ConvTranspose", [SMALL, W], {"output_shape": [I64]}),
        "constant of no value": single("Constant", []),
        "constant of negative shape": single("ConstantOfShape", [ints(-1)]),
        "constant of huge shape": single("ConstantOfShape", [ints(I32, I32, I32)]),
        "constant of two values": single(
            "ConstantOfShape", [ints(2)], {"value": numpy_helper.from_array(np.ones(2, f32))}
        ),
        "expand that wraps": single("Expand", [(1, 1), ints(2**32, 2**32)]),
        "expand to -1": single("Expand", [(1, 1), ints(-1, 3)]),
        "tile that wraps": single("Tile", [(2, 2), ints(2**62, 2**62)]),
        "tile by -1": single("Tile", [(2, 2), ints(-1, -1)]),
        "reshape that wraps": single("Reshape", [(2, 2), ints(2**32, 2**32, 4)]),
        "reshape to -5": single("Reshape", [(2, 2), ints(-5, 4)]),
        "pad that wraps": single("Pad", [(2, 2), ints(I64, 0, I64, 0)]),
        "pad of what is not there": single("Pad", [(2, 2), ints(-3, 0, 3, 0)]),
        "pad along no axis": single("Pad", [(2, 2), ints(1, 1), None, ints(-I64)]),
        "slice of step 0": single("Slice", [(4,), ints(0), ints(4), ints(0), ints(0)]),
        "slice of two lengths": single("Slice", [(4,), ints(0, 1), ints(4), ints(0), ints(1)]),
        "slice along no axis": single("Slice", [(4,), ints(0), ints(4), ints(-I64), ints(1)]),
        "resize by nan": single("Resize", [X, None, np.array([1, 1, np.nan, 2], f32)]),
        "resize by infinity": single("Resize", [X, None, np.array([1, 1, np.inf, 2], f32)]),
        "resize by -1": single("Resize", [X, None, np.array([1, 1, -1, 2], f32)]),
        "resize that wraps": single("Resize", [X, None, None, ints(1, 2, I64, I64)]),
        "resize by two scales": single("Resize", [X, None, np.ones(2, f32)]),
        "one-hot of depth -1": single("OneHot", [(2,), ints(-1), np.ones(2, f32)], types={0: 7}),
        "one-hot of one value": single("OneHot", [(2,), ints(3), np.ones(1, f32)], types={0: 7}),
        "cast to no type": single("Cast", [(2,)], {"to": 999}),
        "cast to a negative type": single("Cast", [(2,)], {"to": -1}),
        "cast to 2**40": single("Cast", [(2,)], {"to": 2**40}),
        "transpose of a huge axis": single("Transpose", [(2, 2)], {"perm": [0, 2**40]}),
        "transpose twice along one": single("Transpose", [(2, 2)], {"perm": [1, 1]}),
        "blocks of 0": single("DepthToSpace", [X], {"blocksize": 0}),
        "blocks of 2**32": single("DepthToSpace", [X], {"blocksize": 2**32}),
        "space in blocks of 0": single("SpaceToDepth", [X], {"blocksize": 0}),
        "grid of rank 1": single("GridSample", [X, (4,)]),
        "normalization in 0 groups": single(
            "GroupNormalization", [X, np.ones(2, f32), np.ones(2, f32)], {"num_groups": 0}
        ),
        "normalization in no stash": single(
            "LayerNormalization", [X, np.ones(8, f32)], {"stash_type": 77}, 2
        ),
        "scatter of rank 0": single("ScatterND", [(), ints(0), (1,)]),
        "top of 2**62": single("TopK", [(4,), ints(2**62)], outputs=2),
        "top of -1": single("TopK", [(4,), ints(-1)], outputs=2),
        "lstm of another layout": single("LSTM", [(2, 2, 2), (1, 8, 2), (1, 8, 2)], {"layout": 9}),
        "lstm of no direction": single("LSTM", [(2, 2, 2), *[(1, 8, 2)] * 2], {"direction": "up"}),
        "gru of scalars": single("GRU", [(), (), ()]),
        "size with two outputs": single("Size", [(2,)], outputs=2),
        "shape with two outputs": single("Shape", [(2,)], outputs=2),
        "an attribute that is not known": single("Relu", [(2,)], {"alpha": 1.0}),
        "an attribute twice": single("Elu", [(2,)], [attribute("alpha", 1.0)] * 2),
        "an attribute of another type": single("Elu", [(2,)], {"alpha": 1}),
        "an attribute without a type": single("Elu", [(2,)], [AttributeProto(name="alpha", f=1)]),
        "an attribute of a function": single(
            "Elu", [(2,)], [AttributeProto(name="alpha", type=1, ref_attr_name="beta")]
        ),
        "an attribute left out": single("Concat", [(2,), (2,)]),
        "no input": single("Relu", []),
        "an input left out": single("Conv", [X, None, np.ones(4, f32)]),
        "an input of another type": single("Relu", [(2,)], types={0: TensorProto.BOOL}),
        "inputs of two types": single("Add", [(2,), (2,)], types={1: TensorProto.INT32}),
        "too many inputs": single("Relu", [(2,), (2,)]),
        "too many outputs": single("Relu", [(2,)], outputs=3),
        "sequences of two lengths": single("ReverseSequence", [(4, 4), ints(1, 2)]),
        "sequences along one axis": single(
            "ReverseSequence", [(4, 4), ints(1, 2, 3, 4)], {"batch_axis": 5, "time_axis": -9}
        ),
        "an eye of rank 1": single("EyeLike", [(4,)]),
        "a range without an end": single("Range", [ints(0).reshape(()), ints(5).reshape(()),
                                                   ints(0).reshape(())]),
        "a range of 2**62": single("Range", [ints(0).reshape(()), ints(2**62).reshape(()),
                                             ints(1).reshape(())]),
        "a product with a scalar": single("MatMul", [(), (2, 2)]),
        "a product of other sizes": single("MatMul", [(2, 3), (2, 3)]),
        "gemm of rank 3": single("Gemm", [(2, 2, 2), (2, 2)]),
        "codes along no axis": single("QuantizeLinear", [X, np.ones(5, f32)], {"axis": I32 - 1}),
        "blocks of -1": single("DequantizeLinear", [X, np.ones(5, f32)], {"block_size": -1},
                               types={0: TensorProto.INT8}),
        "regions of rank 1": single("RoiAlign", [X, (4,), ints(0)]),
        "regions of 2**31": single("RoiAlign", [X, (1, 4), ints(0)], {"output_height": I32 - 1,
                                                                     "output_width": I32 - 1}),
    }  # fmt: skip
    for axis in (2**31, -(2**31) - 1, -(2**63), 7, -9):
        for op, inputs in _AXIS.items():
            attrs = {"axis": axis} | _BESIDE.get(op, {})
            found[f"{op} along {axis}"] = single(op, inputs, attrs, _OUTPUTS.get(op, 1), 24)
        for op in ("ReduceSum", "Squeeze", "Unsqueeze"):
            found[f"{op} along {axis}"] = single(op, [(2, 1), ints(axis)])
    return found


_ONES = np.ones(4, np.float32)

#: Operators with an attribute `axis` -> inputs.
_AXIS: dict[str, list[Given]] = {
    "ArgMax": [(2, 4)],
    "Concat": [(2, 4), (2, 4)],
    "Flatten": [(2, 4)],
    "Gather": [(2, 4), ints(0)],
    "GatherElements": [(2, 4), ints(0, 0).reshape(1, 2)],
    "Hardmax": [(2, 4)],
    "LayerNormalization": [(2, 4), _ONES],
    "LogSoftmax": [(2, 4)],
    "LpNormalization": [(2, 4)],
    "QuantizeLinear": [(2, 4), _ONES],
    "RMSNormalization": [(2, 4), _ONES],
    "ScatterElements": [(2, 4), ints(0, 0).reshape(1, 2), (1, 2)],
    "Softmax": [(2, 4)],
    "Split": [(2, 4)],
    "TopK": [(2, 4), ints(1)],
}
_BESIDE: dict[str, dict[str, object]] = {"Split": {"num_outputs": 2}}
_OUTPUTS = {"LayerNormalization": 3, "Split": 2, "TopK": 2}


def outcomes(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name -> class and text of what loading raised; a death of the child is `died`."""
    left, found = list(names), {}
    while left:
        child = subprocess.run(
            [sys.executable, "-m", "support.onnx.hostile", *left],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
            capture_output=True,
            text=True,
            timeout=3600,
            check=False,
        )
        for line in child.stdout.splitlines():
            name, kind, text = json.loads(line)
            found[name] = (kind, text)
        rest = [name for name in left if name not in found]
        if len(rest) == len(left) and child.returncode > 0:
            raise AssertionError(child.stderr[-2000:])
        if rest:
            found[rest[0]] = ("died", f"exit status {child.returncode}")
        left = rest[1:]
    return found


def main(names: Sequence[str]) -> None:
    from qnnrt.importers import onnx as importer

    limit_process(MEMORY)
    known = cases()
    for name in names:
        signal.alarm(SECONDS)  # ends the process
        kind, text = "", ""
        try:
            importer.load(known[name].SerializeToString())
        except Exception as exc:
            kind, text = type(exc).__name__, str(exc)
        signal.alarm(0)
        print(json.dumps([name, kind, text[:1000]]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
