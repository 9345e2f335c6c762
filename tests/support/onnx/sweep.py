"""Every operator of the importer by itself, on every element type that its schema allows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - numpy learns the narrow types
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qnnrt.importers.onnx.nodes import TABLE

#: Of one tensor of a recipe: a shape, an array that is a constant, or None for one left out.
Given = tuple[int, ...] | np.ndarray | None

NEWEST = onnx.defs.onnx_opset_version()


@dataclass
class Recipe:
    """What an operator is given, whatever the types.

    Attributes:
        inputs: shapes of data, or constants of a type of their own.
        attrs: its attributes.
        outputs: how many.
        opset: of the default domain.
        low, high: of the data, where not every number is one that it takes.
        whole: data of an index: from 0 to that, without the end.
    """

    inputs: Sequence[Given]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = min(NEWEST, 21)
    low: float | None = None
    high: float | None = None
    whole: Mapping[int, int] = field(default_factory=dict)


def k(*values: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


_X = (2, 3, 4)
_IMAGE = (1, 4, 6, 6)
_ROW: Given = (4,)
_UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax Mish Neg Not Reciprocal Relu
    Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu
    Flatten Transpose Dropout LpNormalization Swish
""".split()  # noqa: SIM905 - a line for each would hide them
_BINARY = """
    Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max
    Mean Min Mod Mul Or Pow Sub Sum Xor PRelu
""".split()  # noqa: SIM905
_REDUCE = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
_DOMAINS = {
    "Acos": (-1.0, 1.0), "Asin": (-1.0, 1.0), "Acosh": (1.0, 9.0), "Atanh": (-0.9, 0.9),
    "Log": (0.1, 9.0), "Sqrt": (0.0, 9.0), "Reciprocal": (1.0, 9.0), "Tan": (-1.0, 1.0),
    "Div": (1.0, 9.0), "Mod": (1.0, 9.0), "Pow": (0.0, 3.0),
    "Shrink": (-99.0, 99.0), "CastLike": (0.0, 99.0),
}  # fmt: skip


def recipes() -> dict[str, list[Recipe]]:
    """At least one for every operator of the importer's table."""
    found: dict[str, list[Recipe]] = {}

    def add(op: str, *inputs: Given, **more: Any) -> None:
        fields = {n: more.pop(n) for n in ("outputs", "opset", "low", "high", "whole") if n in more}
        if op in _DOMAINS:
            fields.setdefault("low", _DOMAINS[op][0])
            fields.setdefault("high", _DOMAINS[op][1])
        found.setdefault(op, []).append(Recipe(inputs, more, **fields))

    for op in _UNARY:
        add(op, _X, **({"opset": NEWEST} if op == "Swish" else {}))
    for op in _BINARY:
        add(op, _X, (3, 4) if op != "PRelu" else (3, 1))
    add("Mod", _X, (3, 4), fmod=1)
    for kind in _REDUCE:
        op, wide = f"Reduce{kind}", 2 if kind == "Prod" else 99
        limits = {"low": 1.0 if kind == "LogSum" else -wide, "high": wide}
        add(op, _X, k(1), keepdims=0, **limits)
        add(op, _X, **limits)
        if kind != "Sum":
            add(op, _X, axes=[1], opset=13, **limits)
    for op in ("ArgMax", "ArgMin"):
        add(op, _X, axis=1)
        add(op, _X, axis=2, select_last_index=1, keepdims=0)
    for op in ("AveragePool", "MaxPool", "LpPool"):
        add(op, _IMAGE, kernel_shape=[2, 2], strides=[2, 2])
        add(op, (1, 4, 6), kernel_shape=[2])
    add("MaxPool", _IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], outputs=2)
    for op in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"):
        add(op, _IMAGE)
    add("BatchNormalization", _IMAGE, _ROW, _ROW, _ROW, _ROW, low=0.5, high=2.0)
    add("CastLike", _X, (1,))
    add("Clip", _X)
    add("Clip", _X, (), ())
    add("Compress", _X, np.array([True, False]), axis=0)
    add("Concat", _X, _X, axis=1)
    add("Conv", _IMAGE, (2, 4, 3, 3), (2,))
    add("ConvInteger", _IMAGE, (2, 4, 3, 3))
    add("ConvInteger", _IMAGE, (2, 4, 3, 3), (), (2,))
    add("ConvTranspose", _IMAGE, (4, 2, 3, 3), (2,))
    add("CumSum", _X, np.array(1))
    add("CumSum", _X, np.array(1), exclusive=1, reverse=1)
    add("DepthToSpace", _IMAGE, blocksize=2)
    add("SpaceToDepth", _IMAGE, blocksize=2)
    add("DequantizeLinear", _X, (), (), low=1.0, high=4.0)
    add("DequantizeLinear", _X, (), low=1.0, high=4.0)
    add("QuantizeLinear", _X, (), (), low=1.0, high=4.0)
    add("DynamicQuantizeLinear", _X, outputs=3)
    add("Einsum", (2, 3), (3, 4), equation="ij,jk->ik", low=-99, high=99)
    add("Einsum", (2, 3), equation="ij->j", low=-99, high=99)
    add("Expand", (3, 1), k(2, 3, 4))
    for dims in ((2, 3), (3,)):
        add("Gather", _X, dims, axis=1, whole={1: 3})
    add("GatherElements", _X, (2, 2, 4), axis=1, whole={1: 3})
    add("GatherND", _X, (5, 2), whole={1: 2})
    add("Gemm", (2, 3), (3, 4), (4,))
    add("Gemm", (3, 2), (4, 3), (2, 1), transA=1, transB=1)
    add("Gemm", (2, 3), (3, 4), alpha=2.0)
    add("Gemm", (2, 3), (3, 4), (4,), alpha=2.0, beta=3.0)
    add("Gemm", (2, 3), np.zeros(0))
    found["Gemm"].pop()
    add("MatMulInteger", (2, 3), (3, 4))
    add("MatMulInteger", (2, 3), (3, 4), (2,), (4,))
    add("GridSample", _IMAGE, (1, 3, 3, 2), low=-1.0, high=1.0)
    add("GroupNormalization", _IMAGE, (4,), (4,), num_groups=2)
    add("InstanceNormalization", _IMAGE, (4,), (4,))
    add("LRN", _IMAGE, size=3)
    add("LayerNormalization", _X, (4,), (4,))
    add("RMSNormalization", _X, (4,), opset=NEWEST)
    add("MeanVarianceNormalization", _IMAGE)
    add("MatMul", (2, 3), (3, 4))
    add("MatMul", (2, 2, 3), (3, 4))
    add("MatMul", (3,), (2, 3, 4))
    add("MatMul", (3,), (3,))
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        add(op, (2, 1, 3), (1, 4 * gates, 3), (1, 4 * gates, 4), outputs=2, hidden_size=4)
    add("OneHot", (2, 3), np.array(4), (2,), whole={0: 4})
    add("Pad", _X, k(0, 1, 0, 0, 0, 1))
    add("Pad", _X, k(0, 1, 0, 0, 0, 1), mode="reflect")
    add("Pad", _X, k(0, 1, 0, 0, 0, 1), mode="edge")
    add("Pad", _X, k(0, 1, 0, 0, 0, 1), ())
    add("Reshape", _X, k(4, 6))
    add("Resize", _IMAGE, None, k(1, 1, 2, 2, dtype=np.float32))
    add("Resize", _IMAGE, None, k(1, 1, 2, 2, dtype=np.float32), mode="linear")
    add("Resize", _IMAGE, None, k(1, 1, 2, 2, dtype=np.float32), mode="cubic")
    add("Upsample", _IMAGE, k(1, 1, 2, 2, dtype=np.float32), opset=9)
    add("ReverseSequence", (4, 2, 3), k(2, 3), time_axis=0, batch_axis=1)
    add("RoiAlign", _IMAGE, (2, 4), k(0, 0), output_height=2, output_width=2, low=0.0, high=5.0)
    add("Scatter", _X, (1, 2, 4), (1, 2, 4), axis=1, opset=10, whole={1: 2})
    for kind in ("none", "add", "mul", "max", "min"):
        add("ScatterElements", _X, k([[0, 2, 1, 0]]), (1, 1, 4), axis=1, reduction=kind)
        add("ScatterND", _X, k([1], [0]), (2, 3, 4), reduction=kind)
    add("RandomNormal", shape=[2, 3], seed=1.0)
    add("RandomUniform", shape=[2, 3], seed=1.0)
    add("RandomNormalLike", _X, seed=1.0)
    add("RandomUniformLike", _X, seed=1.0)
    add("RotaryEmbedding", (1, 2, 3, 4), (1, 3, 2), (1, 3, 2), opset=NEWEST)
    add("ScatterElements", _X, (1, 1, 4), (1, 1, 4), axis=1, whole={1: 2})
    add("ScatterND", _X, (2, 1), (2, 3, 4), whole={1: 2})
    add("Slice", _X, k(0), k(2), k(1))
    add("Slice", _X, k(3), k(-5), k(2), k(-2))
    add("Split", (2, 4), outputs=2, axis=1, num_outputs=2)
    add("Squeeze", (2, 1, 3), k(1))
    add("Unsqueeze", (2, 3), k(1))
    add("Tile", _X, k(1, 2, 1))
    add("TopK", _X, k(2), outputs=2)
    add("TopK", _X, k(2), outputs=2, largest=0, axis=1)
    add("Trilu", _X)
    add("Trilu", _X, np.array(1), upper=0)
    add("Where", _X, _X, (3, 1))
    add("IsInf", _X, detect_negative=0)
    add("Softmax", _X, axis=1, opset=12)
    add("Cast", _X)
    found["Cast"] = [
        Recipe([_X], {"to": to}, low=0.0, high=100.0)
        for to in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)
    ]
    return found


@dataclass
class Case:
    """A model of one node, and how its inputs are filled."""

    label: str
    model: onnx.ModelProto
    types: dict[str, np.dtype[Any]]
    recipe: Recipe
    shapes: dict[str, tuple[int, ...]]

    def feeds(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {
            name: _data(rng, self.types[name], shape, self.recipe, int(name[1:]))
            for name, shape in self.shapes.items()
        }


def _data(
    rng: np.random.Generator,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    recipe: Recipe,
    index: int,
) -> np.ndarray:
    if index in recipe.whole:
        return rng.integers(0, recipe.whole[index], shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    low, high = recipe.low, recipe.high
    if dtype.kind in "iu":
        least = np.iinfo(dtype).min if low is None else max(int(np.ceil(low)), np.iinfo(dtype).min)
        most = np.iinfo(dtype).max if high is None else int(high)
        return rng.integers(least, most, shape, dtype, endpoint=True)
    return rng.uniform(-3 if low is None else low, 3 if high is None else high, shape).astype(dtype)


def cases(ops: Sequence[str] | None = None) -> Iterator[Case]:
    """All of them, or those of some operators."""
    table = recipes()
    for op in sorted(ops or TABLE):
        for number, recipe in enumerate(table[op]):
            yield from _typed(op, number, recipe)


def _typed(op: str, number: int, recipe: Recipe) -> Iterator[Case]:
    schema = onnx.defs.get_schema(op, recipe.opset)
    allowed = {c.type_param_str: _dtypes(c.allowed_type_strs) for c in schema.type_constraints}
    slots = []
    for i, given in enumerate(recipe.inputs):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        slots.append(formal.type_str)
        if isinstance(given, np.ndarray) and formal.type_str in allowed:
            allowed[formal.type_str] = [given.dtype]
        elif given is not None:
            allowed.setdefault(formal.type_str, _dtypes([formal.type_str]))
    names = sorted({s for s, g in zip(slots, recipe.inputs, strict=True) if g is not None})
    if op == "Max" or op == "Min" or op == "Sum" or op == "Mean" or op == "Concat":
        names = names[:1]
    for combination in itertools.product(*(allowed[name] for name in names)):
        chosen = dict(zip(names, combination, strict=True))
        types = {
            f"x{i}": chosen[slot]
            for i, (slot, g) in enumerate(zip(slots, recipe.inputs, strict=True))
            if isinstance(g, tuple)
        }
        label = f"{op}-{number}-" + "-".join(t.name for t in chosen.values())
        yield Case(
            label,
            _model(op, recipe, types),
            types,
            recipe,
            {f"x{i}": g for i, g in enumerate(recipe.inputs) if isinstance(g, tuple)},
        )


def _dtypes(texts: Sequence[str]) -> list[np.dtype[Any]]:
    found = []
    for text in sorted(texts):
        name = text.removeprefix("tensor(").removesuffix(")").upper()
        if not text.startswith("tensor(") or name in ("STRING", "COMPLEX64", "COMPLEX128"):
            continue
        code = getattr(TensorProto, name)
        found.append(np.dtype(helper.tensor_dtype_to_np_dtype(code)))
    return found


def _model(op: str, recipe: Recipe, types: Mapping[str, np.dtype[Any]]) -> onnx.ModelProto:
    inputs, constants, names = [], [], []
    for i, given in enumerate(recipe.inputs):
        name = "" if given is None else f"x{i}"
        names.append(name)
        if isinstance(given, np.ndarray):
            constants.append(numpy_helper.from_array(given, name))
        elif given is not None:
            code = helper.np_dtype_to_tensor_dtype(types[name])
            inputs.append(helper.make_tensor_value_info(name, code, given))
    outputs = [f"y{i}" for i in range(recipe.outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, name="node", **recipe.attrs)],
        op,
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", recipe.opset)])
    model.ir_version = 10
    return onnx.shape_inference.infer_shapes(model)
