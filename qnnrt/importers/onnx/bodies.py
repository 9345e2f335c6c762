"""Functions of other operators in place of a node: their tables, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onnx
from onnx import helper

from .nodes import TARGETS, Lowering, OnnxNode
from .patterns import OWN_DOMAIN
from .tables import Table
from .values import Value

MICROSOFT = "com.microsoft"
CLASSICAL = "ai.onnx.ml"

#: The same in every domain, and with the types that the newest operator set allows.
LINEAR = {"DequantizeLinear", "QuantizeLinear"}

BodyFn = Callable[[OnnxNode], onnx.FunctionProto]

#: Domain -> operator -> the body that replaces a node.
BODIES: dict[str, Table[BodyFn]] = {
    "": Table(
        {
            "attended": "Attention",
            "bits": "BitCast BitShift",
            "expanded": (
                "Bernoulli BitwiseNot Col2Im CumProd DFT MaxUnpool Multinomial STFT TensorScatter"
            ),
            "expanded_matrices": "Det",
            "expanded_sampling": "AffineGrid DeformConv",
            "fused": "SimplifiedLayerNormalization",
            "qlinear": "QLinearConv QLinearMatMul",
        }
    ),
    CLASSICAL: Table(
        {
            "classical": (
                "ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder "
                "LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier "
                "SVMRegressor Scaler"
            ),
            "trees": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
        }
    ),
    MICROSOFT: Table(
        {
            "blocks": "GatherBlockQuantized MatMulBnb4 MatMulNBits",
            "expanded_matrices": "CDist Inverse",
            "experts": "MoE QMoE",
            "fused": (
                "BiasAdd BiasGelu BiasSplitGelu EmbedLayerNormalization FastGelu FusedConv "
                "FusedGemm FusedMatMul Gelu GroupNorm NhwcConv NhwcFusedConv NhwcMaxPool "
                "QEmbedLayerNormalization QuickGelu SkipGroupNorm SkipLayerNormalization "
                "SkipSimplifiedLayerNormalization TransposeMatMul"
            ),
            "fused_attention": (
                "Attention GroupQueryAttention MultiHeadAttention QAttention RotaryEmbedding"
            ),
            "fused_linear": (
                "BranchwiseRMSNorm CausalConvWithState GatedAdd GatedRMSNorm LinearAttention "
                "LinearAttentionGate MRotaryEmbedding ScaledSiLU"
            ),
            "fused_older": "ExpandDims GatherND GridSample Pad Range Trilu UnfoldTensor",
            "qlinear": (
                "DynamicQuantizeLSTM DynamicQuantizeMatMul MatMulIntegerToFloat QGemm "
                "QLinearAdd QLinearAveragePool QLinearConcat QLinearConv "
                "QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean "
                "QLinearSigmoid QLinearSoftmax QLinearWhere"
            ),
        }
    ),
}

Direct = Callable[[Lowering, OnnxNode], Value | None]
#: Operator of com.microsoft -> what lowers a node, or gives None and leaves it to its body.
DIRECT: Table[Direct] = Table({"blocks": "MatMulNBits"})

#: Operator of ONNX -> the body of nodes that its lowering refuses.
OTHERWISE: Table[BodyFn] = Table(
    {
        "expanded": "BatchNormalization",
        "expanded_matrices": "Trilu",
        "expanded_norms": "LayerNormalization",
        "expanded_ragged": "GRU LSTM RNN ReverseSequence",
        "expanded_sampling": "GridSample RoiAlign",
    }
)


def body_of(domain: str, op: str) -> BodyFn | None:
    table = BODIES.get(domain)
    return None if table is None else table.get(op)


def has_body(domain: str, op: str) -> bool:
    return domain in BODIES and op in BODIES[domain]


class AsDefined(Exception):
    """A body has nothing for this node: it goes the way of nodes without one."""


class Body:
    """A function under construction. Inputs are called i0, i1, ..."""

    def __init__(self, node: OnnxNode) -> None:
        self.node = node
        self.nodes: list[onnx.NodeProto] = []

    def given(self, index: int) -> str:
        """The name of an input, "" when it is omitted."""
        return f"i{index}" if self.node.has(index) else ""

    def op(self, op: str, inputs: Iterable[str], domain: str = "", **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        proto = helper.make_node(op, list(inputs), [name], domain=domain, **attrs)
        self.nodes.append(proto)
        return name

    def like(self, op: str, inputs: Iterable[str], *left_out: str, **attrs: Any) -> str:
        """`op` with the attributes of the node itself."""
        name = self.op(op, inputs, "", **attrs)
        own = [a for a in self.node.written.attribute if a.name not in (*left_out, *attrs)]
        self.nodes[-1].attribute.extend(own)
        return name

    def number(self, value: float) -> str:
        # Older operator sets have no other way to say it.
        return self.op("Constant", [], value=helper.make_tensor("", 1, (), [value]))

    def real(self, index: int, *parameters: int, axis: int = 0) -> str:
        """Input `index`, of which the scale and the zero point are the inputs `parameters`."""
        scale, zero = parameters or (index + 1, index + 2)
        return self.decoded(self.given(index), self.given(scale), self.given(zero), axis)

    def decoded(self, x: str, scale: str, zero: str = "", axis: int = 0) -> str:
        return self.op("DequantizeLinear", [x, scale, zero], OWN_DOMAIN, axis=axis)

    def coded(self, x: str, scale: int) -> str:
        """`x` quantized; its scale is input `scale`, the zero point the one behind it."""
        inputs = [x, self.given(scale), self.given(scale + 1)]
        return self.op("QuantizeLinear", inputs, OWN_DOMAIN)

    def scaled(self, inputs: Iterable[str], scales: Iterable[str]) -> str:
        """A MatMulInteger of `inputs`, times the product of the scales."""
        sums = self.op("Cast", [self.op("MatMulInteger", inputs)], to=onnx.TensorProto.FLOAT)
        return self.op("Mul", [sums, self.op("Mul", scales)])

    def proto(self, *outputs: str, opset: int = 0) -> onnx.FunctionProto:
        inputs = [f"i{i}" for i in range(len(self.node.inputs))]
        imports = [helper.make_opsetid("", opset)] if opset else []
        return helper.make_function(OWN_DOMAIN, self.node.op, inputs, outputs, self.nodes, imports)


def body(domain: str, *ops: str, to: str = "") -> Callable[[BodyFn], BodyFn]:
    """Register the body of `ops`; `to` names their QNN operations for the documentation."""

    def register(fn: BodyFn) -> BodyFn:
        BODIES[domain].register(ops, fn)
        if to:
            TARGETS.update(dict.fromkeys(ops, to))
        return fn

    return register


def direct(op: str) -> Callable[[Direct], Direct]:
    """Register what lowers nodes of com.microsoft's `op` before their body is asked for."""

    def register(fn: Direct) -> Direct:
        DIRECT.register([op], fn)
        return fn

    return register


def otherwise(op: str) -> Callable[[BodyFn], BodyFn]:
    """Register the body of those nodes of an operator of ONNX that its lowering refuses."""

    def register(fn: BodyFn) -> BodyFn:
        OTHERWISE.register([op], fn)
        return fn

    return register


def first_channels(b: Body, x: str, rank: int) -> str:
    """[N, spatial..., C] as [N, C, spatial...]."""
    return b.op("Transpose", [x], perm=[0, rank - 1, *range(1, rank - 1)])


def last_channels(b: Body, x: str, rank: int) -> str:
    """[N, C, spatial...] as [N, spatial..., C]."""
    return b.op("Transpose", [x], perm=[0, *range(2, rank), 1])
