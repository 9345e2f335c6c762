"""Files at the edge of what the delegate takes: names that clash, constants that move, activations
that TFLite's kernels leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import delegated
from support.tflite.builder import ModelBuilder
from support.tflite.case import SAME, TANH, Case, w, x

pytestmark = pytest.mark.foreign

F32, I8 = np.float32, np.int8


def two_layers(first: str, others: str) -> bytes:
    """CONV_2D twice; the input is called `first`, every other tensor `others`."""
    b = ModelBuilder()
    y = b.input((1, 5, 5, 3), name=first)
    for channels in (3, 4):
        weights = b.const(np.full((4, 3, 3, channels), 0.5), F32, name=others)
        bias = b.const(np.ones(4), F32, name=others)
        out = b.tensor((1, 5, 5, 4), name=others)
        [y] = b.op(
            "CONV_2D", [y, weights, bias], [out], "Conv2DOptions", padding=SAME, strideH=1,
            strideW=1,
        )  # fmt: skip
    b.output(y)
    return b.build()


@pytest.mark.parametrize(
    ("first", "others"),
    [("a", "a"), ("a.1", "a"), ("a.3", "a"), ("a.5", "a"), ("CONV_2D_0.stride", "a"), ("", "")],
)
def test_names_of_a_file_need_not_differ(first: str, others: str) -> None:
    feed = np.random.default_rng(1).standard_normal((1, 5, 5, 3)).astype(F32)
    counted = delegated.agree(two_layers(first, others), [feed])
    assert (counted.delegated, counted.partitions) == (2, 1)


def test_a_quantized_constant_is_decoded_behind_a_reshape() -> None:
    """The reshaped tensor is the delegate's alone: the interpreter never gives it memory."""
    b = ModelBuilder()
    given = b.input((1, 4), I8, scale=0.05, zero=0)
    constant = b.const(np.array([[[-20, 2, 3, 40]]], I8), scale=0.05, zero=0)
    [flat] = b.op(
        "SQUEEZE", [constant], [b.tensor((1, 4), I8, scale=0.05, zero=0)], "SqueezeOptions",
        squeezeDims=[0],
    )  # fmt: skip
    [bent] = b.op("GELU", [flat], [b.tensor((1, 4), I8, scale=0.05, zero=0)], "GeluOptions")
    out = b.tensor((1, 4), I8, scale=0.1, zero=0)
    b.output(*b.op("ADD", [given, bent], [out], "AddOptions"))
    counted = delegated.agree(b.build(), [np.array([[1, 2, 3, 4]], I8)])
    assert counted.delegated == 3


WINDOW = {"padding": SAME, "strideH": 1, "strideW": 1}
FUSED = {
    "ADD": Case("ADD", [x(2, 3), x(3)], "AddOptions"),
    "CONV_2D": Case("CONV_2D", [x(1, 4, 4, 2), w(3, 2, 2, 2), w(3)], "Conv2DOptions", WINDOW),
    "MAX_POOL_2D": Case(
        "MAX_POOL_2D", [x(1, 4, 4, 2)], "Pool2DOptions", {"filterHeight": 2, "filterWidth": 2}
    ),
}


@pytest.mark.parametrize("op", FUSED)
def test_a_fused_tanh_which_tflite_leaves_out_is_left_to_it(op: str) -> None:
    case = FUSED[op]
    fields: dict[str, Any] = {**WINDOW} if op != "ADD" else {}
    fields |= {**case.fields, "fusedActivationFunction": TANH}
    data, feeds = Case(op, case.inputs, case.options, fields).build()
    counted = delegated.agree(data, feeds)
    assert (counted.nodes, counted.delegated) == (1, 0)
    with pytest.raises(UnsupportedOpError, match="TANH, which TFLite's own kernels leave out"):
        importer.load(data)


def test_a_stride_beyond_the_dimension_takes_one_element() -> None:
    most = 2**31 - 1
    for begin, end, step in ((0, 5, most), (4, -6, -most), (1, 5, 1000)):
        b = ModelBuilder()
        given = b.input((5,), name="x")
        ranges = [b.const([v], np.int32) for v in (begin, end, step)]
        b.output(*b.op("STRIDED_SLICE", [given, *ranges], [((1,), F32)], "StridedSliceOptions"))
        counted = delegated.agree(b.build(), [np.arange(5, dtype=F32)])
        assert counted.delegated == 1
