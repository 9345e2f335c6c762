"""Rules of ops that take elements one by one: functions, arithmetic, comparisons, conversions."""

from __future__ import annotations

import numpy as np

from .growing import FIXED, FLOATS, INTS, RULES, Growing, Plan, Range, rule

#: Where a function is defined, and not too steep.
DOMAINS: dict[str, Range] = {
    "Asin": (-1, 1), "Log": (0.05, 8), "Rsqrt": (0.1, 6), "SquareRoot": (0, 9), "Sqrt": (0, 9),
    "Logit": (0.05, 0.95), "Exp": (-6, 5), "Reciprocal": (0.2, 5),
}  # fmt: skip


def unary(g: Growing, op: str) -> Plan:
    domain = DOMAINS.get(op.removeprefix("ElementWise"))
    x = g.operand(g.types(op), domain=domain)
    params = {}
    if op == "Elu" and g.chance(0.5):
        params["alpha"] = g.number(0.2, 2)
    if op == "ReluMinMax":
        params = _limits(g)
    return Plan([x], [g.kind(x)], params)


for _name in ("Abs", "Asin", "Atan", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Not", "Round",
              "Rsqrt", "Sign", "Sin", "SquareRoot"):  # fmt: skip
    RULES[f"ElementWise{_name}"] = unary
for _name in ("Elu", "Gelu", "HardSwish", "Logit", "Relu", "Relu1", "Relu6", "ReluMinMax",
              "Sigmoid", "Tanh"):  # fmt: skip
    RULES[_name] = unary


def _limits(g: Growing) -> dict[str, object]:
    low = g.number(-2, 1)
    return {"min_value": low, "max_value": np.float32(low + g.number(0, 3))}


@rule("ElementWiseUnary")
def numbered_unary(g: Growing, op: str) -> Plan:
    names = ("Abs", "Asin", "Atan", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Not",
             "Reciprocal", "Round", "Rsqrt", "Sign", "Sin", "Sqrt")  # fmt: skip
    name = g.choice(names)
    types = g.types(op)
    if name == "Not":
        types = ["BOOL_8"]
    elif name in ("Abs", "Neg", "Sign"):
        types.remove("BOOL_8")
    else:
        types = [t for t in types if t in FLOATS or t in FIXED]
    x = g.operand(types, domain=DOMAINS.get(name))
    return Plan([x], [g.kind(x)], {"operation": np.uint32(names.index(name))})


@rule("ElementWiseNeuron")
def neuron(g: Growing, op: str) -> Plan:
    names = ("elu", "gelu", "hard_sigmoid", "hard_swish", "relu", "relu_min_max", "sigmoid",
             "softplus", "tanh")  # fmt: skip
    name = g.choice(names)
    types = g.types(op)
    if name not in ("relu", "relu_min_max"):
        types = [t for t in types if t not in INTS]
    x = g.operand(types)
    params: dict[str, object] = {"operation": np.uint32(names.index(name))}
    if name in ("elu", "hard_sigmoid") and g.chance(0.7):
        params["alpha"] = g.number(0.1, 2)
    if name in ("hard_sigmoid", "softplus") and g.chance(0.7):
        params["beta"] = g.number(0.2, 2)
    if name == "softplus" and g.chance(0.5):
        params["threshold"] = g.number(0.5, 20)
    if name == "relu_min_max":
        params |= {k: v for k, v in _limits(g).items() if g.chance(0.8)}
    return Plan([x], [g.kind(x)], params)


_COMPARE = ("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual")
_DIVIDE = ("Divide", "FloorDiv", "Mod", "Fmod")


def _operands(g: Growing, name: str, types: list[str]) -> list[str]:
    """Two that broadcast, in either order, perhaps the same one twice."""
    if name in _DIVIDE:
        a = g.operand(types)
        low, high = (0.3, 4.0) if g.chance(0.5) or g.kind(a).startswith("U") else (-4.0, -0.3)
        if g.kind(a) in INTS:
            low, high = (1, 5) if low > 0 else (-5, -1)
        if "FIXED" in g.kind(a):
            # Zero is always one of the integers: what is kept away from it is a constant.
            b = g.like(a, g.broadcast_to(g.shape(a)), (low, high), constant=True)
        else:
            b = g.like(a, g.broadcast_to(g.shape(a)), (low, high))
        return [a, b]
    if name == "Power":
        a = g.operand(types, domain=(0.2, 3))
        integer = g.kind(a) in INTS
        b = g.like(a, g.broadcast_to(g.shape(a)), (0, 3) if integer else (-2, 3))
        return [a, b]
    a = g.operand(types)
    if g.chance(0.1):
        return [a, a]
    shape = g.shape(a)
    if g.chance(0.15):  # both are broadcast
        given = tuple(g.int(2, 4) if d == 1 and g.chance(0.5) else d for d in shape)
        b = g.like(a, g.broadcast_to(given))
    else:
        b = g.like(a, g.broadcast_to(shape))
    return [b, a] if g.chance(0.4) else [a, b]


def binary(g: Growing, op: str) -> Plan:
    name = op.removeprefix("ElementWise")
    inputs = _operands(g, name, g.types(op))
    return Plan(inputs, ["BOOL_8" if name in _COMPARE else g.kind(inputs[0])])


for _name in ("Add", "And", "Divide", "FloorDiv", "Maximum", "Minimum", "Mod", "Multiply", "Or",
              "Power", "SquaredDifference", "Subtract", "Xor", *_COMPARE):  # fmt: skip
    RULES[f"ElementWise{_name}"] = binary


@rule("ElementWiseBinary")
def numbered_binary(g: Growing, op: str) -> Plan:
    names = ("Add", "And", "Divide", "Equal", "FloorDiv", "Fmod", "Greater", "GreaterEqual",
             "Less", "LessEqual", "Maximum", "Minimum", "Mod", "Multiply", "NotEqual", "Or",
             "Power", "SquaredDifference", "Subtract", "Xor")  # fmt: skip
    name = g.choice(names)
    types = [t for t in g.types(op) if t != "BOOL_8"]
    if name in ("And", "Or", "Xor"):
        types = ["BOOL_8", *INTS]
    inputs = _operands(g, name, types)
    kind = "BOOL_8" if name in _COMPARE else g.kind(inputs[0])
    return Plan(inputs, [kind], {"operation": np.uint32(names.index(name))})


@rule("Prelu")
def prelu(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op))
    shape = g.shape(x)
    slope = shape[-1:] if g.chance(0.5) else g.broadcast_to(shape)
    return Plan([x, g.like(x, slope, (-0.5, 0.5))], [g.kind(x)])


@rule("ElementWiseSelect")
def select(g: Growing, op: str) -> Plan:
    a = g.operand(g.types(op, 1))
    b = g.like(a, g.broadcast_to(g.shape(a)))
    shape = g.broadcast_to(g.shape(a))
    found = g.existing(["BOOL_8"], (0, 8), None, lambda s: s in (shape, g.shape(a)))
    condition = g.choice(found) if found else g.new("BOOL_8", shape)
    return Plan([condition, *([b, a] if g.chance(0.5) else [a, b])], [g.kind(a)])


@rule("IsNan", "IsInf")
def special(g: Growing, op: str) -> Plan:
    kind = g.pick_type([t for t in g.types(op) if t != "FLOAT_64"])
    if kind in FIXED:
        x = g.operand([kind])
    else:
        values = np.asarray(
            g.rng.choice([1.0, -2.0, np.nan, np.inf, -np.inf], g.random_shape(0, 4))
        )
        x = g.add(kind, values, private=True)
    params = {}
    if op == "IsInf":
        for name in ("detect_negative", "detect_positive"):
            if g.chance(0.5):
                params[name] = g.chance(0.5)
    return Plan([x], ["BOOL_8"], params)


@rule("Cast")
def cast(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op))
    return Plan([x], [g.pick_type([t for t in g.types(op, 0, "outputs") if t not in FIXED])])


@rule("Convert", "Quantize", "Dequantize")
def convert(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op))
    types = [t for t in g.types(op, 0, "outputs") if t != "SFIXED_POINT_32"]
    if op == "Convert" and g.kind(x) in (*INTS, "BOOL_8", "FLOAT_64"):
        return Plan([x], [g.kind(x)])
    if op == "Convert":
        types = [t for t in types if t in (*FIXED, "FLOAT_16", "BFLOAT_16", "FLOAT_32")]
    if op == "Dequantize":
        types = [t for t in types if t in FLOATS]
    return Plan([x], [g.pick_type(types)])
