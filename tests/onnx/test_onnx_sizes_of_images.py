"""Images resized to sizes that the data decide, or of as many rows as they decide: as ONNX Runtime
resizes what there is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

IMAGE = (1, 2, 5, 4)
ROWS = {"a": 6, "b": 5}

#: `a.n` is how many numbers of `a` are above 0.
COUNTED = [
    made
    for name in ROWS
    for made in (
        node("Greater", [name, "zero"], [f"{name}.mask"]),
        node("NonZero", [f"{name}.mask"], [f"{name}.found"]),
        node("Shape", [f"{name}.found"], [f"{name}.shape"]),
        node("Slice", [f"{name}.shape", "one", "two", "first"], [f"{name}.n"]),
    )
]
NUMBERS: dict[str, Any] = {
    "zero": np.float32(0), "first": np.array([0]), "one": np.array([1]), "two": np.array([2]),
    "height": np.array([2]), "width": np.array([3]), "front": np.array([1, 2]), "both": [2, 3],
    "flat": np.array([1, 2, -1]),
}  # fmt: skip


def graph(seed: int) -> onnx.ModelProto:
    """A resize of the whole image, or of a part of as many rows and columns as count."""
    pick = random.Random(seed)
    nodes, given = list(COUNTED), dict(NUMBERS)

    def size(rows: str) -> str:
        kind, name = pick.randrange(4), f"size{len(nodes)}.{len(given)}"
        if kind == 0:
            given[name] = np.array([pick.randrange(1, 9)])
        elif kind == 1:
            nodes.append(node("Add", [f"{rows}.n", "one"], [name]))
        elif kind == 2:
            given[f"{name}.factor"] = np.array([pick.randrange(1, 4)])
            nodes.append(node("Mul", [f"{rows}.n", f"{name}.factor"], [name]))
        else:
            return f"{rows}.n"
        return name

    x = "image"
    for rows, axis in (("a", "height"), ("b", "width")):
        if pick.random() < 0.5:
            nodes.append(node("Slice", [x, "first", size(rows), axis], [f"{x}.{axis}"]))
            x = f"{x}.{axis}"
    sizes = [size(pick.choice("ab")) for _ in range(2)]
    if pick.random() < 0.2:  # the rows that there are
        nodes.append(node("Shape", [x], ["shape"]))
        nodes.append(node("Slice", ["shape", "height", "width", "first"], ["same"]))
        sizes[0] = "same"
    rules = {
        "mode": pick.choice(["linear", "nearest", "cubic"]),
        "coordinate_transformation_mode": pick.choice(
            ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
        ),
        "nearest_mode": pick.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    }
    nodes.append(node("Concat", ["front", *sizes], ["sizes"], axis=0))
    nodes.append(node("Resize", [x, "", "", "sizes"], ["large"], **rules))
    end = pick.randrange(3)
    if end == 0:
        nodes.append(node("Relu", ["large"], ["y"]))
    elif end == 1 and not {*given, "same"} & set(sizes):  # where the largest of a map is
        nodes.append(node("Reshape", ["large", "flat"], ["line"]))
        nodes.append(node("ArgMax", ["line"], ["place"], axis=2))
        nodes.append(node("Softmax", ["line"], ["share"]))
        nodes.append(node("GatherElements", ["share", "place"], ["y"], axis=2))
    else:
        nodes.append(node("ReduceSum", ["large", "both"], ["y"]))
    used = {name for made in nodes for name in made.input}
    arrays = {name: np.asarray(v) for name, v in given.items() if name in used}
    shapes = {"image": IMAGE} | {name: (size,) for name, size in ROWS.items()}
    return make(nodes, shapes, ["y"], arrays)


@pytest.mark.parametrize("seed", range(40))
def test_images_of_computed_sizes_are_resized_as_onnx_runtime_resizes_them(seed: int) -> None:
    proto = graph(seed)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    numbers = np.random.default_rng(seed)
    with qnnrt.Session(importer.load(proto)) as session:
        for turn in range(5):
            feeds = {
                name: numbers.standard_normal(shape).astype(np.float32)
                for name, shape in {"image": IMAGE, **{k: (v,) for k, v in ROWS.items()}}.items()
            }
            if turn == 1:
                feeds["a"], feeds["b"] = np.abs(feeds["a"]), np.abs(feeds["b"])
            feeds["a"][0] = feeds["b"][0] = 1  # ONNX Runtime resizes nothing of no size
            (wanted,) = reference.run(None, feeds)
            found = session.run({name: feeds[name] for name in session.inputs})
            counts = found.get("y.count", [])
            assert all(int(count) in wanted.shape for count in counts)
            ours = found["y"][tuple(slice(size) for size in wanted.shape)]
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)


#: As the masks of a segmentation become as large as the picture was.
MASKS = [
    node("Concat", ["front", "size"], ["sizes"], axis=0),
    node("Resize", ["image", "", "", "sizes"], ["y"], mode="linear"),
]


def masks() -> onnx.ModelProto:
    return make(
        MASKS, {"image": IMAGE, "size": (2,)}, ["y"], {"front": np.array([1, 2])},
        types={"size": TensorProto.INT64},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["size", "sizes"])
def test_a_capacity_is_the_most_that_a_side_of_an_image_can_be(name: str) -> None:
    reference = onnxruntime.InferenceSession(masks().SerializeToString())
    with qnnrt.Session(importer.load(masks(), capacities={name: 12})) as session:
        for sides in ((3, 7), (12, 12), (9, 1)):
            feeds = {
                "image": np.random.default_rng(0).random(IMAGE, np.float32),
                "size": np.array(sides),
            }
            found, (wanted,) = session.run(feeds), reference.run(None, feeds)
            assert found["y"].shape == (1, 2, 12, 12)
            assert found["y.count"].tolist() == list(sides)
            assert found[f"{name}.count"].tolist() == list(sides)
            ours = found["y"][:, :, : sides[0], : sides[1]]
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_without_one_the_refusal_says_so() -> None:
    with pytest.raises(UnsupportedOpError, match=r"capacities=\{'sizes': \.\.\.\}"):
        importer.load(masks())


@pytest.mark.parametrize(
    "rules",
    [
        {"mode": "cubic", "exclude_outside": 1},
        {"mode": "linear", "antialias": 1},
        {"mode": "linear", "keep_aspect_ratio_policy": "not_larger"},
    ],
)
def test_other_ways_to_resize_are_refused(rules: dict[str, Any]) -> None:
    nodes = [MASKS[0], node("Resize", ["image", "", "", "sizes"], ["y"], **rules)]
    proto = make(
        nodes, {"image": IMAGE, "size": (2,)}, ["y"], {"front": np.array([1, 2])},
        opset=18, types={"size": TensorProto.INT64},
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="resized to a size that the data decide"):
        importer.load(proto, capacities={"size": 9})
