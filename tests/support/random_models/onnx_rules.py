"""Rules of ONNX operators that take elements one by one, reduce, or multiply matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .growing import Range, Shape, Unfit
from .onnx_growing import (
    FLOATS,
    NUMBERS,
    RULES,
    SIGNED,
    UNSIGNED,
    OnnxGrowing,
    Plan,
    divisors,
    onnx_type,
    product,
    rule,
)

#: Where a function is defined, and not too steep.
UNARY: dict[str, Range | None] = {
    "Acos": (-0.95, 0.95), "Acosh": (1.05, 8), "Asin": (-0.95, 0.95), "Asinh": None, "Atan": None,
    "Atanh": (-0.9, 0.9), "Ceil": None, "Cos": None, "Cosh": (-4, 4), "Erf": None, "Exp": (-6, 5),
    "Floor": None, "HardSwish": None, "Log": (0.05, 8), "Mish": None, "Reciprocal": (0.2, 5),
    "Round": None, "Sigmoid": None, "Sin": None, "Sinh": (-4, 4), "Softplus": None,
    "Softsign": None, "Sqrt": (0, 9), "Tan": (-1.2, 1.2), "Tanh": None,
}  # fmt: skip


def _unary(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x(domain=UNARY[op])])


for _name in UNARY:
    RULES[_name] = _unary

#: Attributes of functions of one number, and their ranges.
SHAPED: dict[str, dict[str, Range]] = {
    "Celu": {"alpha": (0.3, 2)}, "Elu": {"alpha": (0.3, 2)},
    "HardSigmoid": {"alpha": (0.1, 0.6), "beta": (0.2, 0.8)}, "LeakyRelu": {"alpha": (0.01, 0.9)},
    "Selu": {"alpha": (1, 2), "gamma": (0.5, 2)}, "Shrink": {"bias": (0, 1), "lambd": (0.1, 1)},
    "ThresholdedRelu": {"alpha": (0.1, 1.5)}, "Swish": {"alpha": (0.3, 2)},
}  # fmt: skip


@rule(*SHAPED)
def shaped(g: OnnxGrowing, op: str) -> Plan:
    attrs = {k: float(g.number(*r)) for k, r in SHAPED[op].items() if g.chance(0.6)}
    return Plan([g.x(("float32",) if op == "Celu" else ("float32", "float16", "float64"))], attrs)


@rule("Gelu")
def gelu(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x()], {"approximate": g.choice((None, "none", "tanh"))})


@rule("Abs", "Neg", "Sign", "Relu", "Identity")
def numbers(g: OnnxGrowing, op: str) -> Plan:
    kinds = {"Identity": (*NUMBERS, "bool"), "Abs": NUMBERS, "Sign": NUMBERS}
    return Plan([g.x(kinds.get(op, (*FLOATS, *SIGNED)))])


@rule("Not")
def logical_not(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x(("bool",))])


@rule("IsNaN", "IsInf")
def special(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32",))
    attrs = {f"detect_{k}": g.int(0, 1) for k in ("negative", "positive") if op == "IsInf"}
    return Plan([x], attrs if g.chance(0.5) else {})


def _pair(g: OnnxGrowing, types: tuple[str, ...], second: Range | None = None) -> list[str]:
    a = g.x(types)
    if second is None and g.chance(0.1):
        return [a, a]
    b = g.like(a, g.broadcast_to(g.shape(a)), second)
    return [b, a] if second is None and g.chance(0.4) else [a, b]


@rule("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Equal", "Greater", "Less", "GreaterOrEqual",
      "LessOrEqual", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Or", "PRelu",
      "Xor")  # fmt: skip
def binary(g: OnnxGrowing, op: str) -> Plan:
    if op in ("And", "Or", "Xor"):
        return Plan(_pair(g, ("bool",)))
    if op.startswith("Bitwise"):
        return Plan(_pair(g, (*SIGNED, *UNSIGNED)))
    if op == "Div":
        low, high = g.choice(((1, 5), (1, 5)))
        return Plan(_pair(g, NUMBERS, (low, high)))
    if op == "Pow":
        a = g.x(("float32", "float32", "int32", "int64"), domain=(0.2, 3))
        return Plan([a, g.like(a, g.broadcast_to(g.shape(a)), (0, 3))])
    if op == "Mod":
        pair = _pair(g, NUMBERS, (1, 4))
        return Plan(pair, {"fmod": 1} if g.types[pair[0]] in FLOATS or g.chance(0.4) else {})
    if op == "PRelu":
        a = g.x()
        shape = g.broadcast_to(g.shape(a))
        return Plan([a, g.like(a, shape, (-0.5, 0.5))])
    kinds = (*NUMBERS, "bool") if op == "Equal" else NUMBERS
    return Plan(_pair(g, kinds))


@rule("Max", "Min", "Mean", "Sum")
def variadic(g: OnnxGrowing, op: str) -> Plan:
    a = g.x(NUMBERS if op in ("Max", "Min") else ("float32", "float64", "float16"))

    def shape() -> Shape:
        return g.broadcast_to(g.shape(a)) if g.opset >= 8 else g.shape(a)

    rest = [g.like(a, shape()) for _ in range(g.int(0, 3))]
    return Plan([a, *rest])


@rule("Where")
def where(g: OnnxGrowing, op: str) -> Plan:
    a = g.x((*NUMBERS, "bool"))
    b = g.like(a, g.broadcast_to(g.shape(a)))
    condition = g.new("bool", g.broadcast_to(g.shape(a)))
    return Plan([condition, *([a, b] if g.chance(0.5) else [b, a])])


@rule("Clip")
def clip(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(NUMBERS if g.opset >= 12 else FLOATS)
    low = g.number(-2, 0.5)
    high = low + g.number(0, 3)
    if g.opset < 11:
        limits = {"min": float(low), "max": float(high)}
        return Plan([x], {k: v for k, v in limits.items() if g.chance(0.8)})
    kind = g.types[x]
    if kind in UNSIGNED:
        low, high = 1, 4
    ends = [g.const(np.asarray(v).astype(kind)) if g.chance(0.8) else "" for v in (low, high)]
    while ends and not ends[-1]:
        ends.pop()
    return Plan([x, *ends])


@rule("Cast", "CastLike")
def cast(g: OnnxGrowing, op: str) -> Plan:
    x = g.x((*NUMBERS, "bool"))
    to = g.choice((*NUMBERS, "bool"))
    if to in UNSIGNED and g.types[x] not in (*UNSIGNED, "bool") and g.values[x].min() <= -1:
        raise Unfit("a negative number to an unsigned type")
    if op == "Cast":
        return Plan([x], {"to": onnx_type(to)})
    return Plan([x, g.new(to, (2,), constant=g.chance(0.5))])


# ---- along axes


def axis_of(g: OnnxGrowing, rank: int, axis: int | None = None) -> int:
    axis = g.int(0, rank - 1) if axis is None else axis
    return axis - rank if g.opset >= 11 and g.chance(0.3) else axis


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(low=1)
    return Plan([x], {"axis": axis_of(g, g.rank(x)) if g.rank(x) == 1 or g.chance(0.8) else None})


REDUCE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@rule(*(f"Reduce{name}" for name in REDUCE))
def reduce(g: OnnxGrowing, op: str) -> Plan:
    domain = {"ReduceProd": (-2, 2), "ReduceLogSum": (0.1, 9)}.get(op)
    kinds = ("float32",) * 6 + ("float64", "int32", "int64")
    x = g.x(kinds, low=1, domain=domain)  # type: ignore[arg-type]
    rank = g.rank(x)
    axes = sorted(g.rng.permutation(rank)[: g.int(1, min(rank, 3))].tolist())
    if op == "ReduceProd" and product([g.shape(x)[a] for a in axes]) > 40:
        raise Unfit("a product of many")
    attrs: dict[str, Any] = {"keepdims": g.choice((None, 0, 1))}
    named = g.opset >= (13 if op == "ReduceSum" else 18)
    if g.opset >= 11 and g.chance(0.2):
        axes = [a - rank for a in axes]
    if g.chance(0.15):
        return Plan([x], attrs)
    return Plan([x, g.const(axes, "int64")], attrs) if named else Plan([x], attrs | {"axes": axes})


@rule("ArgMax", "ArgMin")
def extreme(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int32"), low=1)
    last = g.choice((None, 0, 1)) if g.opset >= 12 else None
    attrs = {"axis": axis_of(g, g.rank(x)), "keepdims": g.choice((None, 0, 1))}
    return Plan([x], attrs | {"select_last_index": last})


@rule("TopK")
def top_k(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int64"), low=1)
    axis = g.int(0, g.rank(x) - 1)
    k = g.int(1, g.shape(x)[axis])
    attrs: dict[str, Any] = {"axis": axis}
    if g.opset < 10:
        return Plan([x], attrs | {"k": k}, 2)
    if g.opset >= 11:
        attrs["largest"] = g.choice((None, 0, 1))
    return Plan([x, g.const([k], "int64")], attrs, 2)


@rule("CumSum")
def cum_sum(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int32", "float64"), low=1)
    attrs = {k: g.choice((None, 0, 1)) for k in ("exclusive", "reverse")}
    return Plan([x, g.const(axis_of(g, g.rank(x)), "int64")], attrs)


@rule("LpNormalization")
def lp_normalization(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(low=1)
    return Plan([x], {"axis": axis_of(g, g.rank(x)), "p": g.choice((None, 1, 2))})


@rule("MeanVarianceNormalization")
def mean_variance(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x(("float32",), low=4, high=4)])


@rule("LayerNormalization", "RMSNormalization")
def layer_norm(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32",), low=1)
    axis = g.int(0, g.rank(x) - 1)
    shape = g.shape(x)[axis:]
    inputs = [x, g.like(x, shape, (0.3, 2))]
    if op == "LayerNormalization" and g.chance(0.6):
        inputs.append(g.like(x, shape))
    return Plan(
        inputs, {"axis": axis_of(g, g.rank(x), axis), "epsilon": float(g.number(1e-3, 0.1))}
    )


@rule("BatchNormalization")
def batch_norm(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32",), low=2)
    c = (g.shape(x)[1],)
    inputs = [x, g.like(x, c, constant=True), g.like(x, c, constant=True),
              g.like(x, c, constant=True), g.like(x, c, (0.3, 2), constant=True)]  # fmt: skip
    return Plan(inputs, {"epsilon": float(g.number(1e-3, 0.1))})


@rule("InstanceNormalization", "GroupNormalization")
def instance_norm(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32",), low=3)
    channels = g.shape(x)[1]
    attrs: dict[str, Any] = {"epsilon": float(g.number(1e-3, 0.1))}
    size = channels
    if op == "GroupNormalization":
        attrs["num_groups"] = g.choice(divisors(channels))
        size = attrs["num_groups"] if g.opset < 21 else channels
    return Plan([x, g.like(x, (size,), (0.3, 2)), g.like(x, (size,))], attrs)


@rule("LRN")
def lrn(g: OnnxGrowing, op: str) -> Plan:
    attrs: dict[str, Any] = {"size": g.choice((1, 3, 5))}
    for name, low, high in (("alpha", 0.01, 1.0), ("beta", 0.2, 1), ("bias", 0.5, 2)):
        if g.chance(0.6):
            attrs[name] = float(g.number(low, high))
    return Plan([g.x(("float32",), low=4, high=4)], attrs)


# ---- products


@rule("MatMul")
def matmul(g: OnnxGrowing, op: str) -> Plan:
    a = g.x(("float32",) * 8 + ("float64", "float16", "int32"), low=1, high=4)
    inner = g.shape(a)[-1]
    if g.chance(0.15):
        return Plan([a, g.like(a, (inner,), (-2, 2))])
    lead = g.shape(a)[:-2]
    kept = [1 if g.chance(0.3) else d for d in lead[g.int(0, len(lead)) :]]
    b = g.like(a, (*(kept if g.chance(0.5) else ()), inner, g.choice((1, 2, 5, 8, 17))), (-2, 2))
    return Plan([a, b])


@rule("Gemm")
def gemm(g: OnnxGrowing, op: str) -> Plan:
    a = g.x(("float32",) * 8 + ("float64",), low=2, high=2)
    attrs: dict[str, Any] = {}
    rows, inner = g.shape(a)
    if g.chance(0.4):
        attrs["transA"] = 1
        rows, inner = inner, rows
    columns = g.choice((1, 2, 5, 8, 17))
    shape = (inner, columns)
    if g.chance(0.4):
        attrs["transB"] = 1
        shape = (columns, inner)
    for name in ("alpha", "beta"):
        if g.chance(0.3):
            attrs[name] = float(g.number(0.3, 2))
    inputs = [a, g.like(a, shape, (-2, 2))]
    if g.opset < 11 or g.chance(0.7):
        bias = g.choice(((columns,), (1, columns), (rows, 1), (rows, columns), (1,), ()))
        inputs.append(g.like(a, bias))
    return Plan(inputs, attrs)


@rule("Einsum")
def einsum(g: OnnxGrowing, op: str) -> Plan:
    letters = {c: g.int(1, 5) for c in "abijk"}
    text = g.choice(("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "ij,ij->", "i,j->ij",
                     "bij,kj->bik", "abij,abkj->abik", "ij,jk", "aibj,abjk->iak"))  # fmt: skip
    terms = text.split("->")[0].split(",")
    inputs = [g.new("float32", tuple(letters[c] for c in term)) for term in terms]
    return Plan(inputs, {"equation": text})


@rule("LSTM", "GRU", "RNN")
def recurrent(g: OnnxGrowing, op: str) -> Plan:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    x = g.x(("float32",), low=3, high=3, fits=lambda s: s[0] <= 8 and s[1] <= 8,
            make=lambda: (g.int(1, 5), g.int(1, 3), g.int(1, 6)))  # fmt: skip
    _, batch, width = g.shape(x)
    units, direction = g.int(1, 5), g.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1

    def weights(*shape: int) -> str:
        return g.new("float32", shape, (-0.8, 0.8), constant=True)

    inputs = [x, weights(n, gates * units, width), weights(n, gates * units, units)]
    inputs.append(weights(n, 2 * gates * units) if g.chance(0.7) else "")
    inputs.append("")
    inputs.append(weights(n, batch, units) if g.chance(0.4) else "")
    attrs: dict[str, Any] = {"hidden_size": units, "direction": direction}
    if op == "LSTM":
        inputs.append(weights(n, batch, units) if g.chance(0.4) else "")
        inputs.append(weights(n, 3 * units) if g.chance(0.3) else "")
        if g.chance(0.15):
            attrs["input_forget"] = 1
    if op == "GRU":
        attrs["linear_before_reset"] = g.choice((None, 0, 1))
    if g.chance(0.15):
        attrs["clip"] = float(g.number(0.5, 3))
    while not inputs[-1]:
        inputs.pop()
    outputs = [True, g.chance(0.6), *([g.chance(0.6)] if op == "LSTM" else [])]
    return Plan(inputs, attrs, outputs)


@rule("DequantizeLinear", "QuantizeLinear")
def quantize(g: OnnxGrowing, op: str) -> Plan:
    kind = g.choice(("uint8", "int8"))
    per_axis = g.opset >= 13 and g.chance(0.3)
    x = g.x((kind,) if op.startswith("D") else ("float32",), low=1)
    axis = g.int(0, g.rank(x) - 1)
    count = (g.shape(x)[axis],) if per_axis else ()
    scale = g.const(g.rng.uniform(0.01, 0.2, count).astype(np.float32))
    info = np.iinfo(kind)
    zero = g.const(np.asarray(g.rng.integers(info.min // 2, info.max // 2, count)).astype(kind))
    return Plan([x, scale, zero], {"axis": axis} if g.opset >= 13 and per_axis else {})


def _zero_points(g: OnnxGrowing, kinds: tuple[str, str], columns: int) -> list[str]:
    """None, the first one's, or both; that of the second may be one for each column."""
    points = []
    for which, kind in enumerate(kinds[: g.int(0, 2)]):
        info = np.iinfo(kind)
        count = (columns,) if which and columns and g.chance(0.3) else ()
        points.append(g.const(np.asarray(g.rng.integers(info.min, info.max, count)).astype(kind)))
    return points


@rule("MatMulInteger")
def matmul_integer(g: OnnxGrowing, op: str) -> Plan:
    a = g.x(("uint8", "int8"), low=2, high=4)
    kind, columns = g.choice(("uint8", "int8")), g.choice((1, 2, 5, 8, 17))
    lead = g.shape(a)[:-2] if g.chance(0.3) else ()
    info = np.iinfo(kind)
    shape = (*lead, g.shape(a)[-1], columns)
    b = g.const(np.asarray(g.rng.integers(info.min, info.max + 1, shape)).astype(kind))
    return Plan([a, b, *_zero_points(g, (g.types[a], kind), 0 if lead else columns)])


@rule("DynamicQuantizeLinear")
def dynamic_quantize(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x(("float32",))], {}, [True, True, True])
