"""What nodes of ONNX Runtime's operators may have: onnx has no schemas of them.

Written from ONNX Runtime's documentation of its contrib operators.
"""

from __future__ import annotations

import onnx

from .checks import ELEMENT_TYPES, Formal, Spec

_INT, _INTS = int(onnx.AttributeProto.INT), int(onnx.AttributeProto.INTS)
_FLOAT, _STRING = int(onnx.AttributeProto.FLOAT), int(onnx.AttributeProto.STRING)
_FLOATS, _STRINGS = int(onnx.AttributeProto.FLOATS), int(onnx.AttributeProto.STRINGS)

_ANY = frozenset(ELEMENT_TYPES.values())

#: The attributes of each kind of operator; those with a mark have to be there.
_POOL = {
    "auto_pad": _STRING, "ceil_mode": _INT, "channels_last": _INT, "count_include_pad": _INT,
    "kernel_shape!": _INTS, "pads": _INTS, "strides": _INTS,
}  # fmt: skip

#: Operator -> its inputs ("?" may be left out, "*" repeats the last three), and its attributes.
_OPERATORS: dict[str, tuple[str, dict[str, int]]] = {
    "DynamicQuantizeLSTM": (
        "X W R B? sequence_lens? h? c? P? W_scale W_zero_point R_scale R_zero_point",
        {
            "activation_alpha": _FLOATS,
            "activation_beta": _FLOATS,
            "activations": _STRINGS,
            "clip": _FLOAT,
            "direction": _STRING,
            "hidden_size": _INT,
            "input_forget": _INT,
        },
    ),
    "DynamicQuantizeMatMul": ("A B b_scale b_zero_point? bias?", {}),
    "MatMulIntegerToFloat": ("A B a_scale b_scale a_zero_point? b_zero_point? bias?", {}),
    "MatMulNBits": (
        "A B scales zero_points? g_idx? bias?",
        {"K!": _INT, "N!": _INT, "accuracy_level": _INT, "bits": _INT, "block_size!": _INT},
    ),
    "QGemm": (
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
        {"alpha": _FLOAT, "transA": _INT, "transB": _INT},
    ),
    "QLinearAdd": ("A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", {}),
    "QLinearAveragePool": ("X x_scale x_zero_point? y_scale y_zero_point?", _POOL),
    "QLinearConcat": ("Y_scale Y_zero_point X x_scale x_zero_point*", {"axis!": _INT}),
    "QLinearGlobalAveragePool": (
        "X x_scale x_zero_point? y_scale y_zero_point?",
        {"channels_last": _INT},
    ),
    "QLinearLeakyRelu": ("X X_scale X_zero_point? Y_scale Y_zero_point?", {"alpha": _FLOAT}),
    "QLinearMul": ("A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", {}),
    "QLinearReduceMean": (
        "data data_scale data_zero_point? reduced_scale reduced_zero_point?",
        {"axes": _INTS, "keepdims": _INT},
    ),
    "QLinearSigmoid": ("X X_scale X_zero_point? Y_scale Y_zero_point?", {}),
    "QLinearSoftmax": (
        "X X_scale x_zero_point? y_scale y_zero_point?",
        {"axis": _INT, "opset!": _INT},
    ),
    "QLinearWhere": (
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        {},
    ),
}

#: How many outputs a node has; one, where nothing is said.
_OUTPUTS = {"DynamicQuantizeLSTM": (0, 3)}


def _spec(op: str, inputs: str, attributes: dict[str, int]) -> Spec:
    names = inputs.split()
    repeats = names[-1].endswith("*")
    formals = tuple(Formal(n.rstrip("?*"), "", _ANY, not n.endswith("?")) for n in names)
    least = max(i for i, f in enumerate(formals, 1) if f.required)
    return Spec(
        op,
        1,
        None,
        formals,
        (),
        repeats,
        (least, 2**31 if repeats else len(names)),
        _OUTPUTS.get(op, (1, 1)),
        {k.rstrip("!"): kind for k, kind in attributes.items()},
        tuple(k.rstrip("!") for k in attributes if k.endswith("!")),
        {},
    )


#: Operator of the domain com.microsoft -> what its nodes may have.
CONTRIB = {op: _spec(op, *entry) for op, entry in _OPERATORS.items()}
