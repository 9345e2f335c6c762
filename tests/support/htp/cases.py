"""Nodes for every op of the op table: shapes, ranges and params, without types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from support.htp.moves import joins, moves
from support.htp.spec import IMAGE, SMALL, Act, Bias, Plain, Spec, Weight
from support.one_node import pairs, u32
from support.reference.elementwise import ARITHMETIC, COMPARE, NUMBER, UNARY, UNARY_OPS


def unary(op: str, low: float = -4, high: float = 4, **k: Any) -> list[Spec]:
    params = k.pop("params", {})
    return [Spec(op, [Act(s, low, high)], [s], params, **k) for s in (IMAGE, SMALL, (37,))]


def binary(op: str, a: Any = (-4, 4), b: Any = (-3, 5), out: Any = None, **k: Any) -> list[Spec]:
    """Alike shapes, a broadcast one, a constant."""
    forms = [
        (IMAGE, IMAGE, False),
        (SMALL, (3,), False),
        ((2, 5, 1, 3), (5, 7, 1), False),
        (IMAGE, (16,), True),
    ]
    specs = []
    for sa, sb, static in forms:
        shape = np.broadcast_shapes(sa, sb)
        made = [(shape, out)] if out else [shape]
        specs.append(Spec(op, [Act(sa, *a), Act(sb, *b, static)], made, **k))
    return specs


def conv() -> list[Spec]:
    def one(op: str, x: Any, w: Any, y: Any, bias: bool, axis: int, **p: Any) -> Spec:
        inputs: list[Any] = [Act(x), Weight(w, axis)]
        if bias:
            inputs.append(Bias((y[-1],)))
        return Spec(op, inputs, [y], p)

    given = partial(Weight, static=False)
    two = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    s2 = {"stride": u32(2, 2), "pad_amount": pairs((1, 1), (1, 1))}
    no = {"stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    up = {"stride": u32(2, 2), "pad_amount": pairs((0, 0), (0, 0))}
    line = {"stride": 1, "pad_amount": u32(0, 0)}
    up3 = {"stride": u32(2, 2, 2), "pad_amount": pairs((0, 0, 0), (0, 0, 0))}
    three = {"stride": u32(1, 1, 1), "pad_amount": pairs((0, 0, 0), (0, 0, 0))}
    return [
        one("Conv2d", (1, 8, 8, 16), (3, 3, 16, 32), (1, 8, 8, 32), True, 3, **two),
        one("Conv2d", (1, 9, 9, 8), (3, 3, 8, 16), (1, 5, 5, 16), False, 3, **s2),
        one("Conv2d", (1, 6, 6, 32), (1, 1, 32, 8), (1, 6, 6, 8), True, 3, **no),
        one("Conv2d", (1, 6, 6, 16), (3, 3, 4, 16), (1, 6, 6, 16), True, 3, group=4, **two),
        one("DepthWiseConv2d", (1, 8, 8, 32), (3, 3, 1, 32), (1, 8, 8, 32), True, 3, **two),
        one("DepthWiseConv2d", (1, 9, 9, 16), (3, 3, 1, 16), (1, 5, 5, 16), False, 3, **s2),
        one("TransposeConv2d", (1, 5, 5, 16), (2, 2, 16, 8), (1, 10, 10, 8), True, 3, **up),
        one("Conv3d", (1, 6, 6, 6, 4), (3, 3, 3, 4, 8), (1, 4, 4, 4, 8), True, 4, **three),
        one("TransposeConv3d", (1, 3, 3, 3, 8), (2, 2, 2, 8, 4), (1, 6, 6, 6, 4), True, 4, **up3),
        one("Conv1d", (1, 9, 8), (3, 8, 16), (1, 7, 16), True, 2, **line),
        one("DepthWiseConv1d", (1, 9, 8), (3, 1, 8), (1, 7, 8), True, 2, **line),
        one("FullyConnected", (4, 64), (32, 64), (4, 32), True, 0),
        one("FullyConnected", (1, 1, 100), (10, 100), (1, 10), False, 0),
        # A scale for each channel crashes the simulator; one test asks for that on purpose.
        Spec("MatMul", [Act((2, 8, 32)), Weight((32, 16))], [(2, 8, 16)]),
        Spec("MatMul", [Act((2, 8, 32)), Act((2, 32, 16), -1, 1)], [(2, 8, 16)]),
        Spec("MatMul", [Act((3, 8, 32)), Act((3, 16, 32))], [(3, 8, 16)], {"transpose_in1": True}),
        *(
            replace(spec, note="weights as an input")
            for spec in (
                Spec("MatMul", [Act((2, 8, 32)), given((2, 32, 16))], [(2, 8, 16)]),
                Spec("FullyConnected", [Act((4, 64)), given((32, 64))], [(4, 32)]),
                Spec("Conv2d", [Act((1, 6, 6, 16)), given((3, 3, 16, 8))], [(1, 6, 6, 8)], two),
            )
        ),
    ]


def pools() -> list[Spec]:
    two = {"filter_size": u32(2, 2), "stride": u32(2, 2), "pad_amount": pairs((0, 0), (0, 0))}
    three = {"filter_size": u32(3, 3), "stride": u32(2, 2), "pad_amount": pairs((1, 1), (1, 1))}
    whole = {"filter_size": u32(8, 8), "stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    specs = []
    for op in ("PoolAvg2d", "PoolMax2d"):
        for params, side in ((two, 4), (three, 4), (whole, 1)):
            specs.append(Spec(op, [Act(IMAGE)], [(1, side, side, 16)], params, same=True))
    specs.append(
        Spec(
            "PoolAvg2d",
            [Act(IMAGE)],
            [(1, 4, 4, 16)],
            {**three, "count_pad_for_edges": True},
            same=True,
        )
    )
    v3 = {
        "filter_size": u32(2, 2, 2),
        "stride": u32(2, 2, 2),
        "pad_amount": pairs((0, 0, 0), (0, 0, 0)),
    }
    deep = Spec("PoolAvg3d", [Act((1, 4, 8, 8, 16))], [(1, 2, 4, 4, 16)], v3, same=True)
    return [*specs, deep, replace(deep, op="PoolMax3d")]


def norms() -> list[Spec]:
    c = (16,)
    return [
        Spec("Batchnorm", [Act(IMAGE), Weight(c), Bias(c)], [IMAGE]),
        Spec("InstanceNorm", [Act(IMAGE), Weight(c), Bias(c)], [IMAGE], {"epsilon": 1e-5}),
        Spec(
            "LayerNorm",
            [Act((1, 4, 8, 16)), Weight(c), Bias(c)],
            [(1, 4, 8, 16)],
            {"epsilon": 1e-5, "axes": u32(3)},
        ),
        Spec("GroupNorm", [Act(IMAGE), Weight(c), Bias(c)], [IMAGE], {"epsilon": 1e-5, "group": 4}),
        Spec(
            "RmsNorm",
            [Act((1, 4, 8, 16)), Weight(c), Bias(c)],
            [(1, 4, 8, 16)],
            {"epsilon": 1e-5, "axes": u32(3)},
        ),
        Spec(
            "RmsNorm",
            [Act((1, 4, 8, 16)), Weight(c)],
            [(1, 4, 8, 16)],
            {"epsilon": 1e-5, "axes": u32(3)},
        ),
        Spec("L2Norm", [Act(IMAGE)], [IMAGE], {"axis": 3, "epsilon": 1e-6}),
        Spec(
            "Lrn",
            [Act(IMAGE)],
            [IMAGE],
            {"alpha": 1e-2, "beta": 0.75, "bias": 1.0, "radius": np.int32(2)},
        ),
    ]


def softmaxes() -> list[Spec]:
    return [
        Spec("Softmax", [Act((1, 4, 16), -8, 8)], [(1, 4, 16)], {"axis": 2}, range=(0, 1)),
        Spec("Softmax", [Act((2, 1, 8, 1000), -8, 8)], [(2, 1, 8, 1000)], range=(0, 1)),
        Spec("Softmax", [Act((1, 8, 8, 21), -3, 3)], [(1, 8, 8, 21)], {"beta": 2.0}, range=(0, 1)),
        Spec("LogSoftmax", [Act((1, 4, 16), -8, 8)], [(1, 4, 16)], {"axis": 2}),
        Spec("LogSoftmax", [Act((2, 1, 8, 100), -8, 8)], [(2, 1, 8, 100)], {"axis": 3}),
    ]


def neuron(operation: int, note: str, **k: Any) -> Spec:
    return Spec(
        "ElementWiseNeuron", [Act(IMAGE)], [IMAGE], {"operation": operation, **k}, note=note
    )


def activations() -> list[Spec]:
    specs = []
    for op, params in (
        ("Relu", {}),
        ("Relu1", {}),
        ("Relu6", {}),
        ("HardSwish", {}),
        ("Gelu", {}),
        ("Elu", {"alpha": 1.0}),
        ("ReluMinMax", {"min_value": -1.5, "max_value": 2.5}),
    ):
        specs += unary(op, -8, 8, params=params)
    specs += unary("Sigmoid", -8, 8, range=(0, 1))
    specs += unary("Tanh", -4, 4, range=(-1, 1))
    for number, note in enumerate(
        (
            "Elu",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "Relu",
            "ReluMinMax",
            "Sigmoid",
            "Softplus",
            "Tanh",
        )
    ):
        k = {"min_value": -1.0, "max_value": 2.0} if note == "ReluMinMax" else {}
        if note == "HardSigmoid":
            k = {"alpha": 0.2, "beta": 0.5}
        specs.append(neuron(number, note, **k))
    specs += [
        Spec("Prelu", [Act(IMAGE), Weight((16,))], [IMAGE]),
        Spec("Prelu", [Act(SMALL), Weight((1,))], [SMALL]),
    ]
    return specs


def elementwise() -> list[Spec]:
    specs = []
    for op in ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "SquaredDifference"):
        specs += binary("ElementWise" + op)
    specs += binary("ElementWiseDivide", b=(0.5, 4))
    specs += binary("ElementWiseFloorDiv", b=(0.5, 4))
    specs += binary("ElementWiseMod", b=(0.5, 4))
    specs += binary("ElementWisePower", a=(0, 3), b=(0, 2))
    for op in COMPARE:
        specs += binary("ElementWise" + op, b=(-4, 4), out="bool")
    for note in ARITHMETIC:
        b = (0.5, 4) if note in ("Divide", "FloorDiv", "Mod", "Fmod") else (-3, 5)
        a = (-4, 4)
        if note == "Power":
            a, b = (0, 3), (0, 2)
        specs.append(
            Spec(
                "ElementWiseBinary",
                [Act(IMAGE, *a), Act(IMAGE, *b)],
                [IMAGE],
                {"operation": NUMBER[note]},
                note=note,
            )
        )
    for note in COMPARE:
        specs.append(
            Spec(
                "ElementWiseBinary",
                [Act(IMAGE), Act(IMAGE)],
                [(IMAGE, "bool")],
                {"operation": NUMBER[note]},
                note=note,
            )
        )
    ranges = {
        "Asin": (-1, 1),
        "Log": (0.1, 8),
        "Rsqrt": (0.1, 8),
        "SquareRoot": (0, 8),
        "Exp": (-4, 2),
        "Logit": (0.02, 0.98),
        "Reciprocal": (0.25, 4),
    }
    for op in UNARY_OPS:
        specs += unary("ElementWise" + op, *ranges.get(op, (-4, 4)))
    specs += unary("Logit", 0.02, 0.98)
    for note in UNARY:
        if note != "Not":
            specs.append(
                Spec(
                    "ElementWiseUnary",
                    [Act(IMAGE, *ranges.get(note, (-4, 4)))],
                    [IMAGE],
                    {"operation": NUMBER[note]},
                    note=note,
                )
            )
    truth = np.arange(1024).reshape(IMAGE) % 3 == 0
    for same in (True, False):
        specs.append(
            Spec(
                "ElementWiseSelect",
                [Plain(truth, False, "bool"), Act(IMAGE), Act(IMAGE)],
                [IMAGE],
                same=same,
            )
        )
    specs += [
        Spec("IsNan", [Act(IMAGE)], [(IMAGE, "bool")]),
        Spec("IsInf", [Act(IMAGE)], [(IMAGE, "bool")]),
    ]
    return specs


def reductions() -> list[Spec]:
    specs = []
    for op in ("Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        bounds = (0.5, 1.5) if op == "Prod" else (-4, 4)
        specs += [
            Spec(
                "Reduce" + op,
                [Act(IMAGE, *bounds)],
                [(1, 1, 1, 16)],
                {"axes": u32(1, 2), "keep_dims": True},
            ),
            Spec("Reduce" + op, [Act((2, 5, 7, 12), *bounds)], [(2, 5, 7)], {"axes": u32(3)}),
        ]
    for op in ("Argmax", "Argmin"):
        for kind in ("i32", "ui32"):
            specs.append(
                Spec(op, [Act((2, 5, 7, 12), distinct=True)], [((2, 5, 7), kind)], {"axis": 3})
            )
    specs.append(  # no box is suppressed: test_boxes_are_suppressed_as_by_the_simulator
        Spec(
            "NonMaxSuppression",
            [Act((1, 30, 4)), Act((1, 3, 30), distinct=True)],
            [((18, 3), "i32"), ((1,), "ui32")],
            {"iou_threshold": 1.0, "score_threshold": -1e4, "max_boxes_selected": np.uint32(6)},
        )
    )
    for kind in ("i32", "ui32"):
        specs.append(
            Spec(
                "TopK",
                [Act((2, 5, 50), distinct=True)],
                [(2, 5, 3), ((2, 5, 3), kind)],
                {"k": 3},
                same=True,
            )
        )
    specs += [
        Spec(
            "CumulativeSum",
            [Act((1, 4, 8), -1, 1)],
            [(1, 4, 8)],
            {"axis": 2, "exclusive": False, "reverse": False},
        ),
        Spec(
            "CumulativeSum",
            [Act((2, 3, 8, 16), -1, 1)],
            [(2, 3, 8, 16)],
            {"axis": 1, "exclusive": True, "reverse": True},
        ),
    ]
    return specs


def recurrent() -> list[Spec]:
    """One step of 8 inputs and 16 units, with biases and an initial state."""
    w, r, b = Weight((16, 8), high=0.5), Weight((16, 16), high=0.5), Bias((16,))
    gru = [Act((1, 1, 8), -1, 1), w, w, w, r, r, r, *[b] * 6, Act((1, 1, 16), -1, 1)]
    how = {"direction": 0, "linear_before_reset": 1}
    state = Act((1, 16), -1, 1)
    lstm = [Act((1, 8), -1, 1), w, w, w, r, r, r, b, b, b, state, state]
    lstm += [None] * 4 + [w, r, None, None, None, b]
    return [
        Spec("Gru", gru, [(1, 1, 16), (1, 1, 16)], how, range=(-1, 1)),
        Spec("Lstm", lstm, [(1, 16), (1, 16), (1, 16)], {"direction": 0}, range=(-1, 1)),
    ]


def transforms() -> list[Spec]:
    angles = [Act((2, 6, 4), -1, 1), Act((2, 6, 4), -1, 1)]
    specs = [
        Spec("HadamardTransform", [Act((2, 3, 16))], [(2, 3, 16)]),
        Spec("HadamardTransform", [Act((1, 1, 5, 64))], [(1, 1, 5, 64)], {"scale": 0.5}),
        Spec("NonZero", [Act(IMAGE)], [((1024, 4), "i32")]),
    ]
    for interleaved, note in ((False, "halves"), (True, "neighbours")):
        how = {"interleaved": interleaved, "rotary_embedding_dim": np.uint32(8)}
        for size in (8, 12):
            x = (2, 3, 6, size)
            specs.append(Spec("RotaryEmbedding", [Act(x), *angles], [x], how, note=note))
    return specs


def all_specs() -> list[Spec]:
    return [
        *conv(),
        *pools(),
        *norms(),
        *softmaxes(),
        *activations(),
        *elementwise(),
        *reductions(),
        *moves(),
        *joins(),
        *recurrent(),
        *transforms(),
    ]
