"""Nodes of the ops that move elements: shapes and params, without types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from support.htp.spec import IMAGE, Act, Plain, Spec
from support.one_node import pairs, u32


def _alike(spec: Spec) -> list[Spec]:
    """With equal encodings, and with an output that has its own."""
    note = f"{spec.note}, other encoding" if spec.note else "other encoding"
    return [replace(spec, same=True), replace(spec, note=note, range=(-6, 5))]


def moves() -> list[Spec]:
    def one(op: str, x: Any, y: Any, note: str = "", **p: Any) -> list[Spec]:
        outs = y if isinstance(y, list) else [y]
        return _alike(Spec(op, [Act(x)], outs, p, note=note, exact=note != "integer"))

    two = u32(2, 2)
    part = np.array([[0, 2, 1], [0, 6, 2], [0, 8, 1]], np.int32)
    edges = {"pad_amount": pairs((0, 1, 1, 0), (0, 1, 2, 0))}
    modes = {"transformation_mode": 0, "nearest_mode": 0}
    plain = {"align_corners": False, "half_pixel_centers": False}
    half = {**plain, "half_pixel_centers": True}
    corners = {**plain, "align_corners": True}
    specs = [
        *one("Reshape", (2, 3, 8), (6, 8)),
        *one("Squeeze", (1, 3, 8), (3, 8)),
        *one("ExpandDims", (3, 8), (1, 3, 8), axis=0),
        *one("Transpose", (2, 3, 4, 8), (2, 4, 8, 3), perm=u32(0, 2, 3, 1)),
        *one("ChannelShuffle", IMAGE, IMAGE, num_groups=4, axis=3),
        *one("DepthToSpace", IMAGE, (1, 16, 16, 4), block_size=two, mode=0),
        *one("SpaceToDepth", IMAGE, (1, 4, 4, 64), block_size=two),
        *one("BatchToSpace", (4, 4, 4, 8), (1, 8, 8, 8), block_size=two),
        *one("SpaceToBatch", (1, 8, 8, 8), (4, 4, 4, 8), block_size=two),
        *one("Split", (1, 4, 12), [(1, 4, 4), (1, 4, 8)], axis=2, split_index=u32(4)),
        *one("UnPack", (2, 3, 8), [(3, 8), (3, 8)], axis=0),
        *one("Tile", (2, 3, 8), (2, 6, 16), multiples=u32(1, 2, 2)),
        *one("StridedSlice", (2, 6, 8), (2, 3, 8), ranges=part),
        *one("ResizeNearestNeighbor", (1, 4, 4, 8), (1, 8, 8, 8), **plain),
        *one("ResizeBilinear", (1, 4, 4, 8), (1, 8, 8, 8), **half),
        *one("ResizeBilinear", (1, 5, 5, 8), (1, 9, 12, 8), **corners),
    ]
    for scheme, note in enumerate(("constant", "symmetric", "reflect", "edge")):
        value = {"pad_constant_value": 1.0} if scheme == 0 else {}
        specs += one("Pad", (1, 6, 6, 8), (1, 8, 9, 8), note, scheme=scheme, **edges, **value)
    number = {"pad_constant_value": np.int32(7)}
    specs += one("Pad", (1, 6, 6, 8), (1, 8, 9, 8), "integer", scheme=0, **edges, **number)
    specs += one("Pad", (1, 6, 6, 8), (1, 8, 9, 8), "no constant", scheme=0, **edges)
    for mode, note in ((0, "nearest"), (1, "linear"), (2, "cubic")):
        specs += one("Resize", (1, 4, 4, 8), (1, 8, 8, 8), note, interpolation_mode=mode, **modes)
    return specs


def joins() -> list[Spec]:
    def many(op: str, xs: Any, y: Any, **p: Any) -> list[Spec]:
        acts = [Act(x, -3 - i, 4 + 2 * i) for i, x in enumerate(xs)]
        return _alike(Spec(op, acts, [y], p))

    specs = many("Concat", [(1, 4, 4, 8), (1, 4, 4, 16)], (1, 4, 4, 24), axis=3)
    specs += many("Pack", [(3, 8), (3, 8)], (2, 3, 8), axis=0)
    index = np.array([3, 0, 2, 1], np.int32)
    tiled = np.tile(index[:, None], (1, 8))
    table = Act((4, 8))
    zero = np.int32(0)
    specs += [
        *_alike(Spec("Gather", [table, Plain(index)], [(4, 8)], {"axis": zero})),
        *_alike(Spec("GatherElements", [table, Plain(tiled)], [(4, 8)], {"axis": 0})),
        *_alike(Spec("GatherNd", [table, Plain(index[:, None])], [(4, 8)], {"batch_dims": 0})),
        Spec(
            "OneHot",
            [Plain(index, False)],
            [(4, 8)],
            {"depth": 8, "axis": 1},
            range=(0, 1),
            exact=False,
        ),
    ]
    for reduction, note in enumerate(("none", "add", "multiply", "max")):
        inputs = [table, Plain(tiled[:2]), Act((2, 8))]
        how = {"axis": 0, "reduction": reduction}
        specs += _alike(Spec("ScatterElements", inputs, [(4, 8)], how, note=note))
        if note != "max":
            inputs = [table, Plain(index[:2, None], type="ui32"), Act((2, 8))]
            how = {"reduction": reduction}
            specs += _alike(Spec("ScatterNd", inputs, [(4, 8)], how, note=note))
    for mode, note in enumerate(("bilinear", "nearest")):
        how = {"align_corners": False, "mode": mode, "padding_mode": 0}
        inputs = [Act(IMAGE), Act((1, 4, 4, 2), -1, 1)]
        specs.append(Spec("GridSample", inputs, [(1, 4, 4, 16)], how, note=note))
    images = Plain(np.zeros(3, np.int32))
    how = {"img_size_ratio": np.array([2, 2], np.float32), "num_samples_y": np.int32(2)}
    how |= {"num_samples_x": np.int32(2), "aligned": False}
    specs.append(Spec("RoiAlign", [Act(IMAGE), Act((3, 4), 0, 15), images], [(3, 2, 2, 16)], how))
    return specs
