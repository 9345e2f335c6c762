"""Why results of the vendor's simulator and ours lie further than one step apart."""

from __future__ import annotations

import re

_COPIES = (
    r"(Reshape|Squeeze|ExpandDims|Transpose|ChannelShuffle|DepthToSpace|SpaceToDepth|BatchToSpace|"
    r"SpaceToBatch|Split|UnPack|Tile|StridedSlice|ResizeNearestNeighbor|Pad|Pack|Gather|"
    r"GatherElements|GatherNd|ScatterNd|ScatterElements).*, other encoding"
)

_FUNCTIONS = (
    r".*(Softmax|Sigmoid|Tanh|Gelu|Elu|HardSwish|Softplus|HardSigmoid|Exp|Sin|Cos|Asin|Atan|Log|"
    r"SquareRoot|Rsqrt|Logit|Power|Norm)"
)

#: Name -> what happens, in words; the page lists them under these names.
TEXTS = {
    "low bits": (
        "With 16-bit activations the simulator's sum of products is cut down to a multiple of "
        "256 before it is requantized (the integers 0 to 255 times a weight of 1 give 0, those "
        "from 256 to 511 give 256). The smaller the weights are as integers, the more of the "
        "result that is. Here the sum is exact."
    ),
    "byte products": (
        "Products of two 16-bit numbers are put together from products of their bytes, and the "
        "simulator cuts low-order bits off those with a low byte: where all numbers are below "
        "256, results are 6 % too small. Here the sum is exact."
    ),
    "approximation": (
        "In 16 bits the simulator approximates the function, with errors that swing around the "
        "exact curve. Here the function is evaluated in float and rounded once."
    ),
    "division": (
        "In 16 bits the simulator's quotient is approximate. Here the division is done in float "
        "and rounded once."
    ),
    "two roundings": (
        "The simulator's error is that of an intermediate result rounded to the element type. "
        "Here the result is rounded once."
    ),
    "integers copied": (
        "Where input and output encodings differ, the simulator copies the integers as they "
        "are, so that the real numbers change. QNN's op is defined on real numbers: here they "
        "are requantized. Use equal encodings, or a Convert."
    ),
    "cast": (
        "A Cast on the simulator reads and writes the stored integers of u8. Of s8 and s16 it "
        "takes the stored integer plus 128 or 32768, or the real number, depending on the other "
        "type, and from u16 to 8 bits it requantizes. Here a Cast reads and writes the stored "
        "integers of every fixed-point type, and beside INT_64 the real numbers, which "
        "the simulator rounds and this library cuts off. A Convert is what changes the encoding."
    ),
    "whole quotient": (
        "Where the quotient is exactly a whole number, the simulator's floor can be the next "
        "lower one."
    ),
    "broadcast": (
        "A defect of the simulator: with operands that are broadcast along a middle dimension "
        "its results are unrelated to the operands."
    ),
    "4 bits along channels": (
        "A defect of the simulator: with unsigned 4-bit weights that have a scale for each "
        "channel its results are unrelated to the operands."
    ),
    "limited sum": (
        "A sum that is beyond the range of the simulator's intermediate result is cut off before "
        "it is divided by the root of the size. Here the result is limited once."
    ),
    "mean": ("In 16 bits the simulator's mean is approximate. Here the mean is rounded once."),
}

#: (name, op with its form, weights, types): regular expressions that match all of the text.
RULES = [
    ("4 bits along channels", r"(Transpose)?Conv3d", r"u4 per channel", r".*"),
    ("byte products", r".*(Conv2d|Conv3d|FullyConnected|MatMul|Batchnorm).*", r"[us]16.*", r".*"),
    ("byte products", r"MatMul", r"", r"[us]16"),
    ("low bits", r".*(Conv2d|Conv3d|FullyConnected|MatMul).*", r".*", r"[us]16"),
    ("limited sum", r"HadamardTransform", r"", r"[us]16"),
    ("approximation", r"Gru", r".*", r"[us]16"),
    ("two roundings", r"GridSample.*|CumulativeSum", r".*", r"[us]16"),
    ("two roundings", r".*SquaredDifference|.*Prelu|Scatter.*multiply.*", r".*", r".*"),
    ("integers copied", _COPIES, r".*", r".*"),
    ("cast", r"Cast", r".*", r".*"),
    ("whole quotient", r".*FloorDiv", r".*", r".*"),
    ("broadcast", r"ElementWisePower", r".*", r".*"),
    ("division", r".*Divide|.*Reciprocal", r".*", r"[us]16"),
    ("mean", r"ReduceMean", r".*", r"[us]16"),
    (
        "approximation",
        _FUNCTIONS,
        r".*",
        r"[us]16",
    ),
]


def reason(label: str, weights: str, type: str) -> str | None:
    """The name of the reason; None when there is none."""
    for name, *patterns in RULES:
        texts = (label, weights, type)
        if all(re.fullmatch(p, t) for p, t in zip(patterns, texts, strict=True)):
            return name
    return None
