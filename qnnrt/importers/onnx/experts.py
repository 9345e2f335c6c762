"""ONNX Runtime's mixtures of experts: networks of two layers, of which each token takes the k that
its router likes best.

Few tokens gather the weights of their experts; of more tokens than that all experts compute all,
and what a token has not chosen counts 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from .blocks import unpacked
from .bodies import MICROSOFT, Body, body
from .expanded import OPSET, array, ints, reshaped
from .fused import total_of, typed
from .nodes import OnnxNode, Unsupported

_MOST = 1024


class _Experts(Body):
    """The nodes of both operators."""

    #: Of the layers fc1, fc2 and fc3, where a node has them; its own shares of experts.
    weights: tuple[int, ...] = (2, 4, 6)
    biases: tuple[int, ...] = (3, 5, 7)
    shares_given: int | None = None
    #: So many experts are multiplied by in the time that gathering one takes.
    gathered_as = 1

    def __init__(self, node: OnnxNode) -> None:
        super().__init__(node)
        n = node
        if n.integer("use_sparse_mixer"):
            raise Unsupported("use_sparse_mixer")
        if n.input(1).rank != 2 or any(n.input(i).rank != 3 for i in self.weights if n.has(i)):
            raise ValueError("router_probs has to be a matrix, and weights to have 3 dimensions")
        self.hidden = n.input(0).shape[-1]
        self.tokens, self.experts = n.input(1).shape
        if self.experts > _MOST:
            raise Unsupported(f"{self.experts} experts, up to {_MOST}")
        self.k = n.integer("k", 1)
        if not 1 <= self.k <= self.experts:
            raise ValueError(f"k is {self.k}, of {self.experts} experts")
        if math.prod(n.input(0).shape[:-1]) != self.tokens:
            raise ValueError(f"{self.tokens} rows of router_probs for {list(n.input(0).shape)}")
        self.few = self.tokens * self.k * self.gathered_as <= self.experts
        self.chosen, self.shares = self._route()

    def _route(self) -> tuple[str, str]:
        """[tokens, k]: the experts of each token, and how much each counts."""
        n, scores, every = self.node, self.given(1), ints(self, [self.k])
        normal = bool(n.integer("normalize_routing_weights"))
        given = "" if self.shares_given is None else self.given(self.shares_given)
        best = self.two("TopK", [scores, every], axis=-1)
        if given:  # as they are, but for their sum
            shares = self.op("GatherElements", [given, best[1]], axis=-1)
            if normal:
                total = self.op("ReduceSum", [shares, ints(self, [-1])], keepdims=1)
                shares = self.op("Div", [shares, total])
        elif normal or self.shares_given is not None:  # QMoE's on processors always are
            shares = self.op("Softmax", [best[0]], axis=-1)
        else:
            every_share = self.op("Softmax", [scores], axis=-1)
            shares = self.op("GatherElements", [every_share, best[1]], axis=-1)
        return best[1], shares

    def two(self, op: str, inputs: list[str], **attrs: Any) -> tuple[str, str]:
        name = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name, name + "b"], **attrs))
        return name, name + "b"

    def activated(self, x: str, other: str) -> str:
        """The last dimension of `x` by the activation; `other` is what fc3 makes."""
        n, kind = self.node, self.node.text("activation_type", "relu")
        if kind != "swiglu":
            if kind == "relu":
                x = self.op("Relu", [x])
            elif kind == "gelu":  # by tanh, as ONNX Runtime's
                x = self.op("FastGelu", [x], MICROSOFT)
            elif kind == "silu":
                x = self.op("Mul", [x, self.op("Sigmoid", [x])])
            elif kind != "identity":
                raise Unsupported(f"activation_type={kind!r}")
            return self.op("Mul", [x, other]) if other else x
        fusion = n.integer("swiglu_fusion")
        if (fusion == 0) != bool(other):
            raise Unsupported(f"swiglu_fusion={fusion} with" + ("" if other else "out") + " fc3")
        gate, linear = x, other
        if fusion:
            width = n.input(self.weights[0]).shape[1] // 2
            where = (np.arange(2 * width).reshape(width, 2).T if fusion == 1
                     else np.arange(2 * width).reshape(2, width))  # fmt: skip
            gate, linear = (self.op("Gather", [x, array(self, w)], axis=-1) for w in where)
        if "swiglu_limit" in n.attrs:
            limit = n.number("swiglu_limit")
            low, high = typed(self, -limit), typed(self, limit)
            gate = self.op("Min", [gate, high])
            linear = self.op("Clip", [linear, low, high])
        alpha, beta = n.number("activation_alpha", 1.0), n.number("activation_beta", 0.0)
        inner = gate if alpha == 1 else self.op("Mul", [gate, typed(self, alpha)])
        if beta:
            linear = self.op("Add", [linear, typed(self, beta)])
        return self.op("Mul", [self.op("Mul", [gate, self.op("Sigmoid", [inner])]), linear])

    def by_expert(self) -> str:
        """[tokens, experts]: how much each counts, 0 where it is not chosen."""
        zeros = np.zeros((self.tokens, self.experts), self.node.input(0).dtype)
        return self.op("ScatterElements", [array(self, zeros), self.chosen, self.shares], axis=1)

    def layer(self, x: str, at: int) -> str:
        """Layer `at` (fc1, fc2, fc3) of all experts, [experts, tokens, width], or of those that are
        chosen, [tokens, k, 1, width]; x has the same dimensions, or 1 for the experts."""
        y = self.chosen_products(x, at) if self.few else self.all_products(x, at)
        bias = self.given(self.biases[at])
        if bias and self.few:
            bias = self.op("Gather", [bias, self.chosen], axis=0)
        return total_of(self, y, bias and self.op("Unsqueeze", [bias, ints(self, [-2])]))

    def chosen_products(self, x: str, at: int) -> str:
        weights = self.op("Gather", [self.given(self.weights[at]), self.chosen], axis=0)
        return self.op("MatMul", [x, self.op("Transpose", [weights], perm=[0, 1, 3, 2])])

    def all_products(self, x: str, at: int) -> str:
        weights = self.given(self.weights[at])
        return self.op("MatMul", [x, self.op("Transpose", [weights], perm=[0, 2, 1])])

    def network(self) -> onnx.FunctionProto:
        x = reshaped(self, self.given(0), [self.tokens, 1, 1, self.hidden] if self.few
                     else [1, self.tokens, self.hidden])  # fmt: skip
        first = self.layer(x, 0)
        third = self.layer(x, 2) if self.given(self.weights[2]) else ""
        y = self.layer(self.activated(first, third), 1)
        shares, axes, over = self.shares, [2, 3], 1
        if not self.few:
            shares, axes, over = self.op("Transpose", [self.by_expert()], perm=[1, 0]), [2], 0
        each = self.op("Mul", [y, self.op("Unsqueeze", [shares, ints(self, axes)])])
        total = self.op("ReduceSum", [each, ints(self, [over])], keepdims=0)
        return self.proto(reshaped(self, total, list(self.node.input(0).shape)), opset=OPSET)


class _NarrowExperts(_Experts):
    """With weights of few bits, which are only made real numbers for those that are chosen."""

    weights, biases = (2, 5, 8), (4, 7, 10)
    shares_given = 14
    gathered_as = 24  # gathered weights are made real numbers

    def _matrices(self, at: int) -> tuple[int, dict[str, int], list[np.ndarray]]:
        """Of layer `at`: columns, and how codes, scales and zero points of all experts lie."""
        n, name, index = self.node, f"fc{at + 1}", self.weights[at]
        bits = n.integer(f"{name}_expert_weight_bits") or n.integer("expert_weight_bits", 4)
        codes, scales, zeros = (
            n.const_input(i, f"{name}_{what}")
            for i, what in (
                (index, "experts_weights"), (index + 1, "scales"), (11 + at, "zero_points"),
            )
        )  # fmt: skip
        if codes is None or scales is None:
            raise ValueError(f"{name} has no weights, or no scales")
        experts, rows, columns = *codes.shape[:2], codes.shape[2] * 8 // bits
        size = n.integer("block_size") or columns
        scales = scales.reshape(experts, rows, -1)
        if zeros is not None and zeros.ndim == 2:  # the rows lie in bytes together
            zeros = unpacked(zeros, bits)[:, :rows, None]
        how = {"bits": bits, "block_size": size}
        return columns, how, [codes, scales, *([] if zeros is None else [zeros])]

    def chosen_products(self, x: str, at: int) -> str:
        _, how, (codes, *rest) = self._matrices(at)
        inputs = [array(self, codes), self.chosen, *(array(self, v) for v in rest)]
        weights = self.op(
            "GatherBlockQuantized", inputs, MICROSOFT, gather_axis=0, quantize_axis=2, **how
        )
        return self.op("MatMul", [x, self.op("Transpose", [weights], perm=[0, 1, 3, 2])])

    def all_products(self, x: str, at: int) -> str:
        columns, how, given = self._matrices(at)
        experts, rows = given[0].shape[:2]
        how |= {"K": columns, "accuracy_level": self.node.integer("accuracy_level")}
        if at != 1:  # the same x for all: one product
            inputs = [array(self, v.reshape(experts * rows, *v.shape[2:])) for v in given]
            y = self.op("MatMulNBits", [x, *inputs], MICROSOFT, N=experts * rows, **how)
            y = reshaped(self, y, [self.tokens, experts, rows])
            return self.op("Transpose", [y], perm=[1, 0, 2])
        found = []
        for e in range(experts):
            one = self.op("Gather", [x, ints(self, [e])], axis=0)
            inputs = [array(self, v[e]) for v in given]
            found.append(self.op("MatMulNBits", [one, *inputs], MICROSOFT, N=rows, **how))
        return self.op("Concat", found, axis=0)


@body(MICROSOFT, "MoE", to="TopK, Softmax, Gather, MatMul and elementwise")
def _experts(n: OnnxNode) -> onnx.FunctionProto:
    return _Experts(n).network()


@body(MICROSOFT, "QMoE", to="TopK, Softmax, Gather, MatMul of narrow weights and elementwise")
def _narrow_experts(n: OnnxNode) -> onnx.FunctionProto:
    if n.text("quant_type", "int") != "int":
        raise Unsupported(f"quant_type={n.text('quant_type')!r}")
    if n.integer("weights_prepacked", -1) == 1:
        raise Unsupported("weights_prepacked=1")
    return _NarrowExperts(n).network()
