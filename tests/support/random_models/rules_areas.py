"""Rules of ops over areas: pools, resizing, sampling, normalizations, reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .growing import FIXED_ACTIVATIONS, INDICES, RULES, Growing, Plan, Shape, Unfit, rule
from .rules_move import axis_param, ints_param


def _out(g: Growing, x: str) -> str:
    return g.choice(FIXED_ACTIVATIONS) if g.is_fixed(x) and g.chance(0.15) else g.kind(x)


def _image(g: Growing, op: str, rank: int) -> str:
    def make() -> Shape:
        space = tuple(g.int(1, 9 if rank == 2 else 5) for _ in range(rank))
        return (g.choice((1, 1, 2)), *space, g.choice((1, 2, 3, 4, 8, 17)))

    return g.operand(g.types(op), rank + 2, rank + 2, make=make)


@rule("PoolMax2d", "PoolMax3d", "PoolAvg2d", "PoolAvg3d")
def pool(g: Growing, op: str) -> Plan:
    rank = int(op[-2])
    x = _image(g, op, rank)
    sizes, strides, pads = [], [], []
    for size in g.shape(x)[1:-1]:
        k = g.int(1, min(4, size + 1))
        before = g.int(0, (k - 1) // 1) if g.chance(0.5) else 0
        after = g.int(0, k - 1) if g.chance(0.5) else 0
        if size + before + after < k:
            k, before, after = size, 0, 0
        stride = g.int(1, 3)
        if g.chance(0.03):  # mostly padding; but the maximum of nothing is none
            k, stride = g.choice((1, 5, 30, 1000)), g.choice((1, 7, 50))
            before = g.int(0, k - 1)
            after = min(max(0, k - size - before) + g.int(0, 12), k - 1)
        sizes.append(k)
        strides.append(stride)
        pads.append([before, after])
    params: dict[str, Any] = {
        "filter_size": np.asarray(sizes, np.uint32), "stride": np.asarray(strides, np.uint32),
        "pad_amount": np.asarray(pads, np.uint32),
    }  # fmt: skip
    if g.chance(0.5):
        params["rounding_mode"] = np.uint32(g.int(0, 1))
    if "Avg" in op and g.chance(0.6):
        params["count_pad_for_edges"] = g.chance(0.5)
    return Plan([x], [g.kind(x) if "Max" in op else _out(g, x)], params)


def _resized(g: Growing, x: str) -> Shape:
    shape = list(g.shape(x))
    for i in range(1, len(shape) - 1):
        shape[i] = g.choice((shape[i], shape[i] * 2, g.int(1, 12)))
    return tuple(shape)


@rule("Resize")
def resize(g: Growing, op: str) -> Plan:
    x = _image(g, op, g.choice((1, 2, 2, 3)))
    interpolation = g.int(0, 2)
    params: dict[str, Any] = {
        "interpolation_mode": np.uint32(interpolation),
        "transformation_mode": np.uint32(g.int(0, 3)),
    }
    if interpolation == 0:
        params["nearest_mode"] = np.uint32(g.int(0, 3))
    if interpolation == 2:
        if g.chance(0.5):
            params["cubic_coeff"] = g.number(-1, -0.3)
        if g.chance(0.5):
            params["exclude_outside"] = g.chance(0.7)
    return Plan([x], [g.kind(x)], params, [_resized(g, x)])


@rule("ResizeBilinear", "ResizeNearestNeighbor")
def resize_image(g: Growing, op: str) -> Plan:
    x = _image(g, op, 2)
    flags = g.choice(({}, {"align_corners": True}, {"half_pixel_centers": True}))
    return Plan([x], [g.kind(x)], dict(flags), [_resized(g, x)])


@rule("GridSample")
def grid_sample(g: Growing, op: str) -> Plan:
    rank = g.choice((2, 2, 3))
    x = _image(g, op, rank)
    space = tuple(g.int(1, 5) for _ in range(rank))
    grid = g.like(x, (g.shape(x)[0], *space, rank), (-1.6, 1.6))
    params: dict[str, Any] = {}
    if g.chance(0.7):
        params |= {"mode": np.uint32(g.int(0, 1)), "padding_mode": np.uint32(g.int(0, 2))}
    if g.chance(0.5):
        params["align_corners"] = g.chance(0.6)
    return Plan([x, grid], [_out(g, x)], params)


@rule("RoiAlign")
def roi_align(g: Growing, op: str) -> Plan:
    x = _image(g, op, 2)
    n, h, w, _ = g.shape(x)
    count = g.int(1, 4)
    first = g.rng.uniform(-1, max(h, w), (count, 2))
    boxes = np.concatenate([first, first + g.rng.uniform(0, 6, (count, 2))], 1)
    if g.is_fixed(x):
        boxes_name = g.new(g.kind(x), (count, 4), (0, 8), private=True)
    else:
        boxes_name = g.add(g.kind(x), boxes, constant=g.chance(0.3), private=True)
    images = g.add(g.choice(INDICES), g.rng.integers(0, n, count), private=True)
    params: dict[str, Any] = {
        "img_size_ratio": np.asarray(g.choice(([1, 1], [2, 2], [1.5, 0.75])), np.float32)
    }
    if g.chance(0.6):
        params |= {f"num_samples_{d}": np.int32(g.choice((-1, 1, 2, 3))) for d in "yx"}
    if g.chance(0.5):
        params["aligned"] = g.chance(0.7)
    shape = (count, g.int(1, 4), g.int(1, 4), g.shape(x)[3])
    return Plan([x, boxes_name, images], [_out(g, x)], params, [shape])


def _axes(g: Growing, rank: int, least: int = 1) -> list[int]:
    count = g.int(min(least, rank), min(rank, 3))
    axes = g.rng.permutation(rank)[:count]
    return [int(a) for a in (np.sort(axes) if g.chance(0.8) else axes)]


@rule("Batchnorm")
def batchnorm(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    c = g.shape(x)[-1:]
    inputs = [x, g.like(x, c, (-2, 2), constant=g.chance(0.8))]
    if g.chance(0.7):
        inputs.append(g.like(x, c, constant=g.chance(0.8)))
    return Plan(inputs, [_out(g, x)])


def _affine(g: Growing, x: str, shape: Shape) -> list[str]:
    """gamma and beta, both optional."""
    if g.chance(0.2):
        return []
    gamma = g.like(x, shape, (0.3, 2), constant=g.chance(0.8))
    return [gamma] if g.chance(0.4) else [gamma, g.like(x, shape, constant=g.chance(0.8))]


@rule("LayerNorm", "RmsNorm")
def layer_norm(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    rank = g.rank(x)
    axes = [rank - 1] if g.chance(0.5) else _axes(g, rank)
    shape = tuple(g.shape(x)[a] for a in axes)
    params: dict[str, Any] = {"axes": ints_param(g, axes)}
    if g.chance(0.7):
        params["epsilon"] = g.number(1e-4, 1e-1)
    return Plan([x, *_affine(g, x, shape)], [_out(g, x)], params)


@rule("InstanceNorm")
def instance_norm(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 3, 5)
    c = g.shape(x)[-1:]
    inputs = [x, g.like(x, c, (0.3, 2), constant=g.chance(0.8))]
    if g.chance(0.6):
        inputs.append(g.like(x, c, constant=g.chance(0.8)))
    params: dict[str, Any] = {"epsilon": g.number(1e-3, 1e-1)}
    if g.chance(0.4):
        params["mode"] = np.uint32(g.int(0, 1))
    if g.chance(0.3):
        params["normalize_variance"] = g.chance(0.5)
    if g.chance(0.4):
        params["region"] = np.uint32(g.int(0, 2))
    return Plan(inputs, [_out(g, x)], params)


@rule("GroupNorm")
def group_norm(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 2, 5)
    c = g.shape(x)[-1]
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    params = {"epsilon": g.number(1e-3, 1e-1), "group": np.uint32(groups)}
    return Plan([x, *_affine(g, x, (c,))], [_out(g, x)], params)


@rule("L2Norm")
def l2_norm(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    rank = g.rank(x)
    if g.chance(0.5):
        params: dict[str, Any] = {"axis": axis_param(g, g.int(0, rank - 1), rank)}
    else:
        params = {"axes": ints_param(g, _axes(g, rank))}
    if g.chance(0.5):
        params["epsilon"] = g.number(1e-4, 1)
    return Plan([x], [_out(g, x)], params)


@rule("Lrn")
def lrn(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 4, 4)
    params: dict[str, Any] = {"radius": np.int32(g.int(0, 3))}
    for name, low, high in (("alpha", 0.01, 1), ("beta", 0.2, 1), ("bias", 0.5, 2)):
        if g.chance(0.6):
            params[name] = g.number(low, high)
    if g.chance(0.5):
        params["region"] = np.uint32(g.int(0, 1))
    return Plan([x], [_out(g, x)], params)


@rule("Softmax", "LogSoftmax")
def softmax(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    rank = g.rank(x)
    axis = rank - 1 if g.chance(0.6) else g.int(0, rank - 1)
    params: dict[str, Any] = {"axis": axis_param(g, axis, rank)}
    if op == "Softmax" and axis == rank - 1 and g.chance(0.3):
        del params["axis"]
    if g.chance(0.4):
        params["beta"] = g.number(0.2, 2)
    return Plan([x], [_out(g, x)], params)


def reduce(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5, domain=(-2, 2) if op == "ReduceProd" else None)
    axes = _axes(g, g.rank(x))
    if op == "ReduceProd" and math.prod(g.shape(x)[a] for a in axes) > 40:
        raise Unfit("a product of many")
    params: dict[str, Any] = {"axes": ints_param(g, axes)}
    if g.chance(0.6):
        params["keep_dims"] = g.chance(0.5)
    return Plan([x], [_out(g, x)], params)


for _name in ("Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    RULES[f"Reduce{_name}"] = reduce


@rule("Argmax", "Argmin")
def extreme(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    rank = g.rank(x)
    params: dict[str, Any] = {"axis": axis_param(g, g.int(0, rank - 1), rank)}
    if g.chance(0.6):
        params["keep_dims"] = g.chance(0.5)
    return Plan([x], [g.choice(g.types(op, 0, "outputs"))], params)


@rule("TopK")
def top_k(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    params: dict[str, Any] = {"k": np.uint32(g.int(1, g.shape(x)[-1]))}
    if g.chance(0.5):
        params["largest"] = g.chance(0.5)
    indices = g.choice(g.types(op, 1, "outputs"))
    return Plan([x], [g.kind(x), indices], params, encodings=[g.encoding(x)])


@rule("NonMaxSuppression")
def non_max_suppression(g: Growing, op: str) -> Plan:
    """With no box suppressed, which a rounding error could decide; test_ops_detection.py does."""
    scores = g.operand(g.types(op, 1), 3, 3)
    batches, _, count = g.shape(scores)
    boxes = g.new(g.pick_type(g.types(op)), (batches, count, 4), None)
    params: dict[str, Any] = {
        "iou_threshold": np.float32(1), "score_threshold": np.float32(-1e30),
        "max_boxes_selected": np.uint32(g.int(1, count + 2)),
    }  # fmt: skip
    return Plan([boxes, scores], [g.types(op, i, "outputs")[0] for i in (0, 1)], params)


@rule("CumulativeSum")
def cumulative_sum(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    rank = g.rank(x)
    params: dict[str, Any] = {"axis": axis_param(g, g.int(0, rank - 1), rank)}
    for name in ("exclusive", "reverse"):
        if g.chance(0.5):
            params[name] = g.chance(0.5)
    return Plan([x], [_out(g, x)], params)
