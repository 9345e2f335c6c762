"""ONNX nodes one by one in numpy, in float64: the onnx package's evaluator, and what it lacks."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from qnnrt.dtypes import is_float

from .onnx_recurrent import recurrent

Own = Callable[[dict[str, Any], list[Any]], Any]


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if is_float(x.dtype) else x


def _reduced(
    of: Callable[[np.ndarray], np.ndarray], after: Callable[[np.ndarray], np.ndarray]
) -> Own:
    def reduce(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
        x = widened(inputs[0])
        axes = attrs.get("axes") if len(inputs) < 2 or inputs[1] is None else inputs[1].tolist()
        if axes is None or not len(axes):
            axes = range(x.ndim)
        keep = bool(attrs.get("keepdims", 1))
        return after(np.asarray(of(x).sum(tuple(axes), keepdims=keep)))

    return reduce


def _group_norm(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    x, scale, bias = inputs
    groups = attrs["num_groups"]
    split = x.reshape(x.shape[0], groups, -1)
    mean, variance = split.mean(-1, keepdims=True), split.var(-1, keepdims=True)
    y = ((split - mean) / np.sqrt(variance + attrs.get("epsilon", 1e-5))).reshape(x.shape)
    each = (1, -1, *[1] * (x.ndim - 2))
    times = 1 if len(scale) == x.shape[1] else x.shape[1] // groups
    return np.asarray(
        y * np.repeat(scale, times).reshape(each) + np.repeat(bias, times).reshape(each)
    )


def _rms_norm(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    x, scale = inputs
    axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = (x * x).mean(axes, keepdims=True)
    return np.asarray(x / np.sqrt(mean + attrs.get("epsilon", 1e-5)) * scale)


def _mean_variance(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    (x,) = inputs
    axes = tuple(attrs.get("axes", (0, 2, 3)))
    return np.asarray((x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9))


def _global_lp(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    (x,) = inputs
    p = attrs.get("p", 2)
    return np.asarray(
        (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
    )  # fmt: skip


def _window_sums(attrs: dict[str, Any], values: np.ndarray, ones: bool = False) -> np.ndarray:
    """Sums over windows: what lies in the padding, or behind it, adds nothing; with `ones`, how
    many elements and pads a window has, those behind the padding left out."""
    kernel, rank = attrs["kernel_shape"], values.ndim - 2
    strides = attrs.get("strides", [1] * rank)
    dilations = attrs.get("dilations", [1] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto, pads = attrs.get("auto_pad", b"NOTSET").decode(), attrs.get("pads", [0] * 2 * rank)
    shape = values.shape
    for i, (size, r, step) in enumerate(zip(shape[2:], reach, strides, strict=True)):
        before, after = (0, 0) if auto == "VALID" else (pads[i], pads[i + rank])
        if auto.startswith("SAME"):
            both = max((-(-size // step) - 1) * step + r - size, 0)
            before, after = sorted((both // 2, both - both // 2), reverse=auto == "SAME_LOWER")
        room = size + before + after - r
        count = (-(-room // step) if attrs.get("ceil_mode") else room // step) + 1
        if (count - 1) * step >= size + before:  # it would begin in the padding at the end
            count -= 1
        behind = max((count - 1) * step + r - size - before, 0)
        wide = np.moveaxis(values, i + 2, 0)
        edge = wide[:1] if ones else wide[:1] * 0
        parts = [edge] * before + [wide] + [edge] * min(after, behind)
        parts += [wide[:1] * 0] * (behind - min(after, behind))
        wide = np.concatenate(parts)
        taps = range(0, r, dilations[i])
        total = sum(wide[t : t + (count - 1) * step + 1 : step] for t in taps)
        values = np.moveaxis(np.asarray(total), 0, i + 2)
    return values


def _lp_pool(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    p = attrs.get("p", 2)
    return np.asarray(_window_sums(attrs, np.abs(inputs[0]) ** p) ** (1 / p))


def _average_pool(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    """onnx's evaluator counts what hangs over the padding in some versions."""
    (x,) = inputs
    counts = _window_sums(attrs, np.ones_like(x), ones=bool(attrs.get("count_include_pad")))
    return np.asarray(_window_sums(attrs, x) / counts)


def _softmax(attrs: dict[str, Any], inputs: list[Any], opset: int, op: str) -> np.ndarray:
    (x,) = inputs
    axis = attrs.get("axis", 1 if opset < 13 else -1) % max(x.ndim, 1)
    # Before opset 13 all dimensions from the axis on are one.
    flat = x.reshape(math.prod(x.shape[:axis]), -1) if opset < 13 else np.moveaxis(x, axis, -1)
    logs = flat - flat.max(-1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
    if op == "Hardmax":
        y = np.arange(flat.shape[-1]) == flat.argmax(-1)[..., None]
    else:
        y = logs if op == "LogSoftmax" else np.exp(logs)
    y = np.asarray(y, np.float64)
    return y.reshape(x.shape) if opset < 13 else np.moveaxis(y, -1, axis)


def _lrn(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    (x,) = inputs
    size, channels = attrs["size"], x.shape[1]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    around = [
        (x * x)[:, max(0, c - before) : c + after + 1].sum(1) for c in range(channels)
    ]  # fmt: skip
    scale = attrs.get("bias", 1.0) + attrs.get("alpha", 1e-4) / size * np.stack(around, 1)
    return np.asarray(x / scale ** attrs.get("beta", 0.75))


def _batch_norm(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    each = (1, -1, *[1] * (inputs[0].ndim - 2))
    x, (scale, bias, mean, variance) = inputs[0], (v.reshape(each) for v in inputs[1:])
    return np.asarray((x - mean) / np.sqrt(variance + attrs.get("epsilon", 1e-5)) * scale + bias)


def _conv_transpose(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    """Every element of the input times the kernel of its channel, added up where it lies."""
    x, w, *rest = inputs
    rank, groups = x.ndim - 2, attrs.get("group", 1)
    strides, extra = (attrs.get(k, [v] * rank) for k, v in (("strides", 1), ("output_padding", 0)))
    pads, kernel, each = attrs.get("pads", [0] * 2 * rank), w.shape[2:], w.shape[1]
    full = [(d - 1) * s + k + e for d, s, k, e in zip(x.shape[2:], strides, kernel, extra,
                                                      strict=True)]  # fmt: skip
    y = np.zeros((x.shape[0], each * groups, *full))
    inner = x.shape[1] // groups
    for group in range(groups):
        ins, outs = (slice(group * n, group * n + n) for n in (inner, each))
        for at in np.ndindex(*kernel):
            where = [slice(t, t + (d - 1) * s + 1, s)
                     for t, d, s in zip(at, x.shape[2:], strides, strict=True)]  # fmt: skip
            taps = w[(ins, slice(None), *at)]
            y[(slice(None), outs, *where)] += np.einsum("ni...,io->no...", x[:, ins], taps)
    kept = [slice(b, n - e) for b, e, n in zip(pads[:rank], pads[rank:], full, strict=True)]
    y = y[(slice(None), slice(None), *kept)]
    if rest and rest[0] is not None:
        y = y + rest[0].reshape(-1, *[1] * rank)
    return np.asarray(y)


def _global_max(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    return np.asarray(inputs[0].max(tuple(range(2, inputs[0].ndim)), keepdims=True))


def _lp_normalization(attrs: dict[str, Any], inputs: list[Any]) -> np.ndarray:
    (x,) = inputs
    p = attrs.get("p", 2)
    norm = (np.abs(x) ** p).sum(attrs.get("axis", -1), keepdims=True) ** (1 / p)
    return np.asarray(np.divide(x, norm, out=np.zeros_like(x), where=norm != 0))


#: What onnx's evaluator (1.23) does not know, or has wrong, and how:
#: GlobalLpPool, RMSNormalization, GroupNormalization: no implementation, or it fails.
#: MeanVarianceNormalization, ReduceLogSum, ReduceLogSumExp: refuse doubles, integers, no axes.
#: GlobalMaxPool: other shapes when there are not two spatial dimensions.
#: LRN: the window ends at channel 5 of any tensor, or behind the last one.
#: BatchNormalization: before opset 14 a tuple, or epsilon left out. LpNormalization: no absolute
#: values for p = 1. LpPool: the average over what a partial window holds times all of the kernel
#: (with ceil_mode). ConvTranspose: groups of one channel. LSTM, GRU, RNN: one direction alone,
#: input_forget and clip without effect. Softmax and its kin, below: the flattening of opsets before
#: 13 is missing. RoiAlign before opset 16, further below: coordinates as later ones have them.
OWN: dict[str, Own] = {
    "AveragePool": _average_pool,
    "ConvTranspose": _conv_transpose, "GlobalLpPool": _global_lp, "GroupNormalization": _group_norm,
    "MeanVarianceNormalization": _mean_variance, "RMSNormalization": _rms_norm,
    "LRN": _lrn, "BatchNormalization": _batch_norm, "GlobalMaxPool": _global_max,
    "LpNormalization": _lp_normalization, "LpPool": _lp_pool,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "ReduceLogSum": _reduced(lambda x: x, np.log), "ReduceLogSumExp": _reduced(np.exp, np.log),
}  # fmt: skip


def _elsewhere(node: onnx.NodeProto, opset: int) -> tuple[onnx.NodeProto, int]:
    """The same operation where the evaluator knows it."""
    if node.op_type == "Scatter":
        other = onnx.NodeProto()
        other.CopyFrom(node)
        other.op_type = "ScatterElements"
        return other, 11
    if node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        return node, max(opset, 21)
    if node.op_type == "RoiAlign" and opset < 16:  # before there was a choice
        other = onnx.NodeProto()
        other.CopyFrom(node)
        other.attribute.append(
            helper.make_attribute("coordinate_transformation_mode", "output_half_pixel")
        )
        return other, 16
    if node.op_type == "Upsample":
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return helper.make_node(
            "Resize", [node.input[0], "", "scales"], list(node.output),
            mode=attrs.get("mode", b"nearest").decode(), nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ), 13  # fmt: skip
    return node, opset


class OneNode:
    """A node's evaluation; types: of its operands, for what refuses wider ones."""

    def __init__(self, node: onnx.NodeProto, opset: int, types: Mapping[str, str]) -> None:
        self.node, self.types = node, {n: types[n] for n in node.input if n}
        self.attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.evaluator: ReferenceEvaluator | None = None
        self.own: Own | None = OWN.get(node.op_type)
        if node.op_type in ("Softmax", "LogSoftmax", "Hardmax"):
            self.own = functools.partial(_softmax, opset=opset, op=node.op_type)
        if self.own is not None:
            self.attrs["op"] = node.op_type
            return
        asked, opset = _elsewhere(node, opset)
        graph = helper.make_graph(
            [asked], "one",
            [helper.make_empty_tensor_value_info(n) for n in dict.fromkeys(asked.input) if n],
            [helper.make_empty_tensor_value_info(n) for n in asked.output if n],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        self.evaluator = ReferenceEvaluator(model)

    def __call__(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = {n: values[n] for n in self.node.input if n}
        names = [n for n in self.node.output if n]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.own is not None:
                found = self.own(self.attrs, [given[n] if n else None for n in self.node.input])
                every = found if isinstance(found, list) else [found]
                return {n: y for n, y in zip(self.node.output, every, strict=False) if n}
            return dict(zip(names, map(widened, self._evaluated(given)), strict=True))

    def _evaluated(self, given: dict[str, np.ndarray]) -> Sequence[np.ndarray]:
        assert self.evaluator is not None
        if self.node.op_type == "Upsample":
            scales = given.get(self.node.input[1]) if len(self.node.input) > 1 else None
            if scales is None:
                scales = np.asarray(self.attrs["scales"], np.float32)
            given = {self.node.input[0]: given[self.node.input[0]],
                     "scales": scales.astype(np.float32)}  # fmt: skip
            return [np.asarray(y) for y in self.evaluator.run(None, given)]
        try:
            found = self.evaluator.run(None, given)
        except Exception:
            narrow = {n: x.astype(self.types[n]) for n, x in given.items()}
            found = self.evaluator.run(None, narrow)
        return [np.asarray(y) for y in found]
