"""Operations of the gpu backend that move elements: equal to the cpu backend's, bit by bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import choose
from qnnrt.model import Model, Node, Quantization, Tensor
from support import reference
from support.gpu.cases import against_cpu, launches, loops_and_lanes, on_gpu, one_backend  # noqa: F401
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.one_node import case, pairs, u32
from support.slices import random_slice, values

pytestmark = pytest.mark.foreign  # OpenCL drivers are

#: One for each width that kernels move, and the types that look different from outside.
TYPES = ("uint8", "bool", "float16", "float32", "int64")


both = pytest.mark.usefixtures("loops_and_lanes")


@pytest.mark.slow
@both
def test_transposes() -> None:
    against_cpu(
        *(case("Transpose", [values((40, 70), t)], [(70, 40)], {"perm": u32(1, 0)}) for t in TYPES),
        case("Transpose", [values((3, 33, 4, 9))], [(9, 4, 33, 3)], {"perm": u32(3, 2, 1, 0)}),
        case("Transpose", [values((2, 12, 11, 4))], [(2, 11, 12, 4)], {"perm": u32(0, 2, 1, 3)}),
        case("Transpose", [values((2, 3, 65))], [(3, 65, 2)], {"perm": u32(1, 2, 0)}),
        case("Transpose", [values((2, 3, 2, 3, 2, 3))], [(3, 2, 3, 2, 3, 2)],
             {"perm": u32(5, 4, 3, 2, 1, 0)}),
        case("Transpose", [values((2, 3, 4))], [(2, 3, 4)], {"perm": u32(0, 1, 2)}),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_tensors_are_joined_and_cut() -> None:
    parts = [values((3, k, 5), seed=k) for k in (1, 4, 2)]
    halves = [values((2, 3), "float16", k) for k in range(3)]
    against_cpu(
        case("Concat", parts, [(3, 7, 5)], {"axis": 1}),
        case("Concat", [values((4, k), "uint8") for k in (8, 24)], [(4, 32)]),
        case("Concat", [values((k, 3), "int64") for k in (1, 2)], [(3, 3)], {"axis": 0}),
        case("Split", [values((2, 7, 6))], [(2, 1, 6), (2, 4, 6), (2, 2, 6)],
             {"axis": 1, "split_index": u32(1, 5)}),
        case("Pack", halves, [(2, 3, 3)], {"axis": 2}),
        case("Pack", halves, [(3, 2, 3)], {"axis": 0}),
        case("UnPack", [values((2, 3, 4), "bool")], [(2, 4)] * 3, {"axis": 1}),
        case("Tile", [values((3, 1, 4))], [(6, 3, 16)], {"multiples": u32(2, 3, 4)}),
        case("Tile", [values((2,) * 5, "uint8")], [(4,) * 5], {"multiples": u32(2, 2, 2, 2, 2)}),
    )  # fmt: skip


def test_up_to_eight_slices_are_one_kernel() -> None:
    for count, kernels in ((1, 1), (2, 1), (8, 1), (9, 2), (17, 3)):
        parts = [values((2, 1 + k % 3, 6), seed=k) for k in range(count)]
        together = np.concatenate(parts, 1)
        cuts = np.cumsum([part.shape[1] for part in parts])[:-1]
        joined = case("Concat", parts, [together.shape], {"axis": 1})
        split = case("Split", [together], [part.shape for part in parts],
                     {"axis": 1, "split_index": u32(*cuts)})  # fmt: skip
        for each in (joined, split) if count > 1 else (joined,):
            got, started = on_gpu(each.model, each.feeds)
            assert started == kernels
            whole = [got["out0"]] if each is joined else [got[f"out{k}"] for k in range(count)]
            np.testing.assert_array_equal(np.concatenate(whole, 1), together)


@pytest.mark.slow
@both
def test_slices_are_those_of_the_cpu() -> None:
    r = np.random.default_rng(3)
    cases = []
    while len(cases) < 20:
        shape = tuple(int(n) for n in r.integers(1, 7, r.integers(1, 5)))
        x = values(shape, TYPES[len(cases) % len(TYPES)])
        params = random_slice(r, shape)
        out = reference.of("StridedSlice", [x], params)
        if out.size:
            cases.append(case("StridedSlice", [x], [out.shape], params))
    against_cpu(*cases)


@pytest.mark.slow
@both
def test_pads_in_all_schemes() -> None:
    cases = []
    for scheme in range(4):
        params = {"scheme": scheme, "pad_constant_value": 1}
        for shape, before, after, t in [
            ((4, 5, 3), (1, 0, 2), (2, 1, 1), "float32"),
            ((2, 4, 4, 4), (0, 1, 2, 0), (0, 1, 1, 0), "uint8"),
            ((6,), (2,), (3,), "float16"),
        ]:
            out = tuple(map(sum, zip(shape, before, after, strict=True)))
            padded = params | {"pad_amount": pairs(before, after)}
            cases.append(case("Pad", [values(shape, t)], [out], padded))
    against_cpu(
        *cases,
        case("Pad", [values((2, 3), "int64")], [(3, 3)],
             {"scheme": 0, "pad_amount": pairs((0, 0), (1, 0)), "pad_constant_value": -7}),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_blocks_and_channels() -> None:
    deep, flat = values((2, 3, 4, 12)), values((2, 6, 8, 4), "uint8")
    crops = {"block_size": u32(2, 3), "crops": u32(1, 0, 2, 1)}
    against_cpu(
        *(case("DepthToSpace", [deep], [(2, 6, 12, 2)], {"block_size": u32(2, 3), "mode": m})
          for m in (0, 1)),
        *(case("SpaceToDepth", [flat], [(2, 3, 4, 16)], {"block_size": u32(2, 2), "mode": m})
          for m in (0, 1)),
        case("BatchToSpace", [values((12, 3, 4, 5))], [(2, 6, 12, 5)], {"block_size": u32(2, 3)}),
        case("BatchToSpace", [values((12, 3, 4, 5))], [(2, 5, 9, 5)], crops),
        case("SpaceToBatch", [flat], [(8, 3, 4, 4)], {"block_size": u32(2, 2)}),
        case("SpaceToBatch", [flat], [(8, 4, 5, 4)],
             {"block_size": u32(2, 2), "pad_amount": u32(1, 1, 0, 2)}),
        case("ChannelShuffle", [values((2, 3, 12))], [(2, 3, 12)], {"num_groups": 3}),
        case("ChannelShuffle", [values((2, 6, 4))], [(2, 6, 4)], {"num_groups": 2, "axis": 1}),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_elements_are_gathered() -> None:
    x = values((4, 5, 8))
    r = np.random.default_rng(1)
    picks = r.integers(-5, 5, (3, 2))
    against_cpu(
        case("Gather", [x, picks.astype(np.int32)], [(4, 3, 2, 8)], {"axis": 1}),
        case("Gather", [values((4, 5), "uint8"), picks], [(4, 3, 2)], {"axis": 1}),
        case("Gather", [values((7, 3), "float16"), u32(6, 0)], [(2, 3)], {"axis": 0}, static=[1]),
        case("GatherElements", [x, r.integers(-5, 5, (3, 7, 2))], [(3, 7, 2)], {"axis": 1}),
        case("GatherNd", [x, r.integers(0, 4, (3, 2)).astype(np.int32)], [(3, 8)]),
        case("GatherNd", [x, r.integers(-5, 5, (4, 2, 1)).astype(np.int32)], [(4, 2, 8)],
             {"batch_dims": 1}),
        case("GatherNd", [values((3, 4), "int64"), np.int32([[1, -1], [2, 0]])], [(2,)]),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_elements_are_scattered_in_their_order() -> None:
    x, updates = values((4, 5, 3)), values((6, 3), seed=1)
    rows = np.int32([[0, 1], [3, -1], [0, 1], [2, 2], [0, 1], [3, 4]])  # some twice
    places = np.random.default_rng(2).integers(-5, 5, (3, 4, 2))
    parts = values((3, 4, 2), seed=3)
    whole = values((9,), "int8")
    against_cpu(
        *(case("ScatterNd", [x, rows, updates], [x.shape], {"reduction": k}) for k in range(4)),
        *(case("ScatterElements", [x, places, parts], [x.shape], {"axis": 1, "reduction": k})
          for k in range(4)),
        case("ScatterNd", [whole, u32([3], [3], [8]), np.int8([100, 101, 5])], [(9,)],
             {"reduction": 1}),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_the_last_of_many_updates_stays() -> None:
    r = np.random.default_rng(4)
    x = values((6, 5, 8))
    rows = r.integers(-6, 6, (40, 1)).astype(np.int32)
    pairs = r.integers(0, 5, (40, 2)).astype(np.uint32)
    thin = values((9, 1, 3, 1), "int8")
    against_cpu(
        case("ScatterNd", [x, rows, values((40, 5, 8), seed=1)], [x.shape]),
        case("ScatterNd", [x, pairs, values((40, 8), seed=2)], [x.shape]),
        case("ScatterNd", [values((7,), "int8"), u32(*[[n % 7] for n in range(30)]),
                           values((30,), "int8", seed=3)], [(7,)]),
        *(case("ScatterElements", [x, r.integers(-x.shape[axis], x.shape[axis], shape),
                                   values(shape, seed=5)], [x.shape], {"axis": axis})
          for axis, shape in enumerate([(14, 5, 3), (2, 12, 8), (6, 1, 20)])),
        case("ScatterElements", [thin, r.integers(0, 9, (30, 1, 2, 1)).astype(np.int32),
                                 values((30, 1, 2, 1), "int8", seed=6)], [thin.shape], {"axis": 0}),
    )  # fmt: skip


@both
def test_one_hot() -> None:
    x = np.int32([[1, -1, 7], [0, 3, -9]])
    against_cpu(
        case("OneHot", [x], [(2, 3, 4)], {"depth": 4}, dtype=np.float32),
        case("OneHot", [x], [(2, 3, 6)], {"depth": 6, "on_value": 7}, dtype=np.uint8),
        case("OneHot", [x], [(2, 3, 5)], {"depth": 5}, dtype=np.float32),
        case("OneHot", [x.astype(np.int64)], [(2, 4, 3)],
             {"depth": 4, "axis": 1, "on_value": 5, "off_value": -3}, dtype=np.int64),
        case("OneHot", [x.astype(np.uint32)], [(4, 2, 3)], {"depth": 4, "axis": 0},
             dtype=np.bool_),
        case("OneHot", [x], [(2, 3, 4)], {"depth": 4, "on_value": 0.5}, dtype=np.float16),
    )  # fmt: skip


def picked(x: np.ndarray, indices: np.ndarray) -> tuple[Model, dict[str, np.ndarray]]:
    """Rows of x."""
    tensors = [
        Tensor("x", x.shape, x.dtype),
        Tensor("i", indices.shape, indices.dtype),
        Tensor("y", (*indices.shape, *x.shape[1:]), x.dtype),
    ]
    nodes = [Node("pick", "Gather", ["x", "i"], ["y"], {"axis": 0})]
    model = Model("pick", {t.name: t for t in tensors}, nodes, ["x", "i"], ["y"])
    return model, {"x": x, "i": indices}


def test_neighbours_are_moved_together() -> None:
    """A slice of whole rows is one kernel of 16 bytes a work item, with the part behind it."""
    x = values((8, 16))
    cut = case("Split", [x], [(8, 4), (8, 12)], {"axis": 1, "split_index": u32(4)})
    with qnnrt.Session(cut.model, "gpu") as s:
        (step,) = json.loads(s.graph.describe() or "")["steps"]
    assert step["defines"]["UNIT"] == "uint4"
    (total,) = step["total"]
    assert total == 64 if choose().kind == "cpu" else total in range(32, 257)  # 32 units in groups


def test_fixed_point_numbers_are_moved_in_one_encoding() -> None:
    q = Quantization(0.5, 0)
    x = values((2, 3), "uint8")
    both = dict.fromkeys(("in0", "out0"), q)
    turned = {"perm": u32(1, 0)}
    pad = {"pad_amount": pairs((0, 1), (0, 1))}
    against_cpu(
        case("Transpose", [x], [(3, 2)], turned, encodings=both),
        case("Concat", [x, x], [(4, 3)], {"axis": 0}, encodings=both | {"in1": q}),
        case("Gather", [x, np.int32([1])], [(1, 3)], {"axis": 0}, encodings=both),
        case("Pad", [x], [(2, 5)], pad | {"scheme": 3}, encodings=both),
    )
