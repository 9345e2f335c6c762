"""Operators that move, select and resize, each in several configurations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from support.tflite.case import BOOL, F32, I32, I64, Case, k, v, w, x


def shape_cases() -> Iterator[Case]:
    for shape in ([6, 4], [-1], [2, -1, 3], [1, 24], [2, 3, 4]):
        yield Case("RESHAPE", [x(2, 3, 4), k(shape)], "ReshapeOptions")
        yield Case("RESHAPE", [x(2, 3, 4)], "ReshapeOptions", {"newShape": shape})
    yield Case("RESHAPE", [x(1, 1), k(np.empty(0, np.int32))], "ReshapeOptions")
    for dims in ([], [0], [0, 2], [-2]):
        yield Case("SQUEEZE", [x(1, 3, 1, 4)], "SqueezeOptions", {"squeezeDims": dims})
    for axis in (0, 1, 2, -1):
        yield Case("EXPAND_DIMS", [x(3, 4), k(axis)])
    for perm in ([1, 0, 2], [2, 1, 0], [0, 1, 2], [2, 0, 1]):
        yield Case("TRANSPOSE", [x(2, 3, 4), k(perm)])
    for axis in (0, 1, -1):
        shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
        shapes[1][axis] = 5
        parts = [x(*s) for s in shapes]
        yield Case("CONCATENATION", parts, "ConcatenationOptions", {"axis": axis})
        mixed = [*parts[:1], w(2, 3, 4)]
        yield Case("CONCATENATION", mixed, "ConcatenationOptions", {"axis": axis})
        yield Case("PACK", [x(2, 3)] * 3, "PackOptions", {"axis": axis, "valuesCount": 3})
        count = (2, 3, 4)[axis]
        fields = {"axis": axis, "num": count}
        yield Case("UNPACK", [x(2, 3, 4)], "UnpackOptions", fields, outputs=[F32] * count)
        fields = {"numSplits": 2}
        yield Case("SPLIT", [k(axis), x(4, 6, 2)], "SplitOptions", fields, outputs=[F32] * 2)
        sizes = k([1, -1, 2])
        yield Case(
            "SPLIT_V",
            [x(5, 6, 4), sizes, k(axis)],
            "SplitVOptions",
            {"numSplits": 3},
            outputs=[F32] * 3,
        )
    for begin, size in (([0, 1, 2], [2, 2, 1]), ([1, 0, 0], [-1, -1, -1]), ([0, 0, 0], [2, 3, 4])):
        yield Case("SLICE", [x(2, 3, 4), k(begin), k(size)])
    yield from _strided_slices()
    for axes in ([0], [1], [2]):
        yield Case("REVERSE_V2", [x(2, 3, 4), k(axes)])
    for pads in ([[0, 0], [1, 2], [0, 3]], [[1, 0], [0, 0], [2, 1]]):
        yield Case("PAD", [x(2, 3, 4), k(pads)])
        yield Case("PADV2", [x(2, 3, 4), k(pads), k(1.5, F32)])
        yield Case("PADV2", [x(2, 3, 4), k(pads), v(1.5, F32)])
    for shape in ((2, 0), (2, 3)):
        pads = k([[1, 1], [0, 2]])
        given = [x(*shape, dtype=I64), pads, v([7], I64)]
        yield Case("PADV2", given, outputs=(I64,), empty=0 in shape)
    yield Case("PAD", [x(2, 3, dtype=I32), k([[1, 1], [0, 2]])], outputs=(I32,))
    for mode in (0, 1):
        pads = k([[0, 0], [1, 2], [2, 0]])
        yield Case("MIRROR_PAD", [x(2, 3, 4), pads], "MirrorPadOptions", {"mode": mode})
    for times in ([2, 3], [0, 3]):
        yield Case("TILE", [x(2, 3), k(times)], empty=0 in times)
    yield Case("BROADCAST_TO", [x(3, 1), k([2, 3, 4])], version=2)
    for block in (2, 3):
        fields = {"blockSize": block}
        yield Case("SPACE_TO_DEPTH", [x(2, 6, 12, 3)], "SpaceToDepthOptions", fields)
        deep = x(2, 2, 3, 5 * block * block)
        yield Case("DEPTH_TO_SPACE", [deep], "DepthToSpaceOptions", fields)
    for pads in ([[0, 0], [0, 0]], [[1, 1], [0, 3]]):
        yield Case("SPACE_TO_BATCH_ND", [x(2, 4, 6, 3), k([2, 3]), k(pads)])
        yield Case("BATCH_TO_SPACE_ND", [x(12, 4, 6, 3), k([2, 3]), k(pads)])
    yield Case("SPACE_TO_BATCH_ND", [x(2, 4, 3), k([2]), k([[0, 2]])])
    yield Case("BATCH_TO_SPACE_ND", [x(4, 4, 3), k([2]), k([[0, 1]])])
    for kind in (I32, I64):
        code = {"outType": 2 if kind is I32 else 4}
        yield Case("SHAPE", [x(2, 3, 4)], "ShapeOptions", code, outputs=(kind,))
    yield Case("RANK", [x(2, 3, 4)], outputs=(I32,))
    yield Case("FILL", [k([2, 3]), k(1.5, F32)])
    for kind in (F32, I32, I64, BOOL):
        for shape in ([2, 3], [], [2, 0]):
            yield Case("FILL", [k(shape), v(1, kind)], outputs=(kind,))
    yield Case("BROADCAST_ARGS", [k([3, 1, 2]), k([4, 1])], outputs=(I32,))
    yield Case("RANGE", [k(1), k(9), k(3)], outputs=(I32,))
    yield Case("RANGE", [k(1, F32), k(-2, F32), k(-0.5, F32)])


def _strided_slices() -> Iterator[Case]:
    full = ([0, 0, 0], [4, 5, 6], [1, 1, 1])
    for begin, end, strides, fields in (
        (*full, {}),
        ([1, 0, 2], [3, 5, 6], [1, 2, 3], {}),
        ([-1, 4, 5], [-5, 0, 1], [-1, -2, -1], {}),
        ([1, 1, 1], [2, 2, 2], [1, 1, 1], {"shrinkAxisMask": 1}),
        ([1, -2, 1], [2, 5, 2], [1, 1, 1], {"shrinkAxisMask": 6}),
        ([2, 1, 1], [3, 3, 3], [1, 1, 1], {"beginMask": 3, "endMask": 5}),
        ([3, 4, 5], [0, 0, 0], [-1, -1, -2], {"endMask": 7}),
        ([1], [3], [1], {}),
        ([1, 2], [3, 4], [1, 1], {"ellipsisMask": 1}),
        ([0, 1, 2], [0, 3, 4], [1, 1, 1], {"ellipsisMask": 1}),
        ([0, 0, 2], [0, 0, 4], [1, 1, 1], {"newAxisMask": 1, "ellipsisMask": 2}),
        ([0, 1, 0], [4, 3, 0], [1, 1, 1], {"newAxisMask": 4}),
        ([1, 1, 1], [2, 2, 2], [1, 1, 1], {"offset": True}),
        ([-2, -9, -1], [2, 2, 1], [1, 1, 1], {"offset": True}),
        ([1, 2, 3], [2, 3, 2], [1, 1, 1], {"offset": True, "beginMask": 1}),
        ([3, -1, 1], [-2, -3, 2], [-1, -2, 1], {"offset": True}),
        ([2, 3, 4], [3, 4, 5], [1, 1, 1], {"shrinkAxisMask": 7}),
        ([2, -9, 1], [4, -9, 2], [1, -1, 1], {"shrinkAxisMask": 4}),
    ):
        yield Case(
            "STRIDED_SLICE",
            [x(4, 5, 6), k(begin), k(end), k(strides)],
            "StridedSliceOptions",
            fields,
            version=8 if fields.get("offset") else 1,
        )


def gather_cases() -> Iterator[Case]:
    for axis, index in itertools.product((0, 1, -1), (2, [0, 2, 1, 1], [[0, 1], [2, 0]])):
        for kind in (I32, I64):
            yield Case("GATHER", [x(3, 4, 5), v(index, kind)], "GatherOptions", {"axis": axis})
    yield Case("GATHER", [x(3, 4, 5), k([2, 0])], "GatherOptions", {"axis": 1})
    for axis in (1, 2, 3):
        fields = {"axis": axis, "batchDims": 1}
        index = v([[0, 1], [2, 0]])
        yield Case("GATHER", [x(2, 3, 4, 5), index], "GatherOptions", fields)
    fields = {"axis": 2, "batchDims": 2}
    yield Case("GATHER", [x(2, 3, 4, 5), v([[0, 1, 3], [2, 0, 0]])], "GatherOptions", fields)
    for axis, batch in ((1, 1), (2, 1), (2, -1)):  # of constants
        fields = {"axis": axis, "batchDims": batch}
        yield Case("GATHER", [w(2, 3, 4), k([[0, 1, 2], [2, 0, 0]])], "GatherOptions", fields)
    for index in ([[0], [2]], [[0, 1], [2, 3]], [[[0, 1, 4]], [[2, 3, 0]]]):
        yield Case("GATHER_ND", [x(3, 4, 5), v(index)])
    yield Case("SCATTER_ND", [v([[4], [1], [4]]), x(3, 2), k([6, 2])])
    yield Case("SCATTER_ND", [k([[0, 1], [2, 3]]), x(2, 5), k([3, 4, 5])])
    yield Case(
        "SCATTER_ND",
        [v([[4], [1], [4]]), x(3, dtype=I32, low=-9, high=9), k([6])],
        outputs=(I32,),
    )
    twice = v([[1, 1], [0, 2], [1, 1]])
    yield Case("SCATTER_ND", [twice, x(3, 2, dtype=BOOL), k([3, 4, 2])], outputs=(BOOL,))
    for axis in (-1, 0, 1):
        for on, off, kind in ((1, 0, F32), (2.5, -1, F32), (7, 3, I32), (True, False, BOOL)):
            yield Case(
                "ONE_HOT",
                [v([[0, 2, -1], [3, 9, -5]]), k(4), k(on, kind), k(off, kind)],
                "OneHotOptions",
                {"axis": axis},
                outputs=(kind,),
            )
    for place, values in ((k(3), x()), (k([0, 2, 5]), x(3)), (v([[0, 1], [2, 3]]), x(2))):
        shape = [6] if len(place.shape) < 2 else [3, 4]
        for each in (values, k(2.5, F32)):
            yield Case("SPARSE_TO_DENSE", [place, k(shape), each, k(-1, F32)])
    for a in ((3,), (2, 3), (2, 2, 4)):
        yield Case("MATRIX_DIAG", [x(*a)])
    for a, b in (((3, 3), (3,)), ((2, 3, 4), (2, 3)), ((2, 4, 3), (2, 3))):
        yield Case("MATRIX_SET_DIAG", [x(*a), x(*b)])
    yield Case("SEGMENT_SUM", [x(5, 3), k([0, 0, 1, 2, 2])])
    for kind in ("SUM", "PROD", "MIN", "MAX"):
        for ids in ([2, 0, 1, 0, 2], [0, 3, -1, 0, 3]):
            op, table = f"UNSORTED_SEGMENT_{kind}", f"UnsortedSegment{kind.title()}Options"
            yield Case(op, [x(5, 3), k(ids), k(4)], table)
            yield Case(op, [x(5, dtype=I32), v(ids), k(4)], table, outputs=(I32,))
    for steps in ([1, 1], [2, 1], [3, 2]):
        yield Case("DILATE", [x(3, 4), k(steps), k(0.5, F32)], "DilateOptions")
    for low, high, inner in (
        ([0, 1], [2, 0], [0, 0]),
        ([1, 0], [0, 2], [2, 1]),
        ([-1, 2], [1, -2], [0, 1]),
    ):
        yield Case(
            "STABLEHLO_PAD",
            [x(3, 4), k(0.5, F32)],
            "StablehloPadOptions",
            {"edgePaddingLow": low, "edgePaddingHigh": high, "interiorPadding": inner},
        )
    fields = {"offsetDims": [1], "collapsedSliceDims": [0], "startIndexMap": [0],
              "indexVectorDim": 1, "sliceSizes": [1, 4]}  # fmt: skip
    for given in (k, v):  # rows: LiteRT's kernel ends the process on most others
        yield Case("STABLEHLO_GATHER", [x(5, 4), given([[1], [4], [0]])],
                   "StablehloGatherOptions", fields, shape=(3, 4))  # fmt: skip
    for start in ([0, 0], [1, 2], [9, 1]):
        yield Case("DYNAMIC_UPDATE_SLICE", [x(4, 5), x(2, 3), k(start)])
    for seq, batch in ((1, 0), (0, 1), (2, 0)):
        yield Case(
            "REVERSE_SEQUENCE",
            [x(3, 3, 4), k([2, 3, 1])],
            "ReverseSequenceOptions",
            {"seqDim": seq, "batchDim": batch},
        )


def resize_cases() -> Iterator[Case]:
    for (op, table), align, half in itertools.product(
        (
            ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
            ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
        ),
        (False, True),
        (False, True),
    ):
        if align and half and op == "RESIZE_BILINEAR":
            continue
        # 9 to 111, and with aligned corners 2 to 111: single floats miss the exact pixel.
        for size in ((3, 5), (7, 9), (14, 6), (1, 1), (13, 28), (5, 111)):
            yield Case(
                op,
                [x(2, 7, 9, 3), k(size)],
                table,
                {"alignCorners": align, "halfPixelCenters": half},
                version=3,
            )
    aligned = {"alignCorners": True}
    table = "ResizeNearestNeighborOptions"
    yield Case("RESIZE_NEAREST_NEIGHBOR", [x(1, 2, 30, 3), k([111, 111])], table, aligned)
