"""Resize where a rounding, a border or a scale that no size shows decides which pixels are read."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def computed(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        return np.array(session.run({"x": x})["y"])


def resize(
    shape: tuple[int, ...], given: dict[str, np.ndarray], **rules: object
) -> onnx.ModelProto:
    inputs = ["x", *(name if name in given else "" for name in ("roi", "scales", "sizes"))]
    return make([node("Resize", inputs, ["y"], **rules)], {"x": shape}, ["y"], given)


@pytest.mark.parametrize("rule", ["round_prefer_ceil", "round_prefer_floor"])
@pytest.mark.parametrize("place", ["asymmetric", "align_corners", "pytorch_half_pixel"])
def test_a_middle_that_is_off_by_a_rounding_is_the_middle(place: str, rule: str) -> None:
    """4 / (8 / 7) is 3.4999998 in floats: ONNX Runtime and ONNX's evaluator take pixel 4 there."""
    for size, out in ((7, 8), (14, 8), (14, 31), (18, 39)):
        proto = resize(
            (size,), {"sizes": np.array([out])},
            mode="nearest", nearest_mode=rule, coordinate_transformation_mode=place,
        )  # fmt: skip
        x = np.arange(size, dtype=np.float32)
        wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
        np.testing.assert_array_equal(computed(proto, x), wanted)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_crop_beyond_the_border_has_the_value_for_it(mode: str) -> None:
    """The nearest pixel was taken, as if there were no extrapolation_value."""
    roi = np.array([0, -0.2, 0.02, 1, 0.7, 1.2], np.float32)
    proto = resize(
        (2, 5, 7), {"roi": roi, "sizes": np.array([2, 6, 9])}, mode=mode,
        extrapolation_value=2.5, coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    x = random(1, 2, 5, 7)
    wanted = ReferenceEvaluator(proto).run(None, {"x": x})[0]
    assert (wanted == 2.5).any()
    np.testing.assert_allclose(computed(proto, x), wanted, rtol=1e-5, atol=1e-6)


def test_a_scale_that_keeps_a_size_moves_its_pixels() -> None:
    """Three pixels by 1.3 stay three, further apart; where no size changes, nothing does."""
    x = random(2, 2, 3, 8)
    for scales, wanted_by in (([1, 1.3, 0.5], ReferenceEvaluator), ([1, 1.3, 1], None)):
        proto = resize(x.shape, {"scales": np.array(scales, np.float32)}, mode="linear")
        wanted = x if wanted_by is None else wanted_by(proto).run(None, {"x": x})[0]
        np.testing.assert_allclose(computed(proto, x), wanted, rtol=1e-5, atol=1e-6)


def regions(samples: int, opset: int, kind: int, mode: str | None) -> onnx.ModelProto:
    attrs = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "mode": "max"}
    attrs |= {} if mode is None else {"coordinate_transformation_mode": mode}
    of = onnx.helper.make_tensor_value_info
    inputs = [of("x", kind, (2, 3, 7, 9)), of("r", kind, (5, 4))]
    inputs.append(of("i", onnx.TensorProto.INT64, (5,)))
    n = onnx.helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=samples, **attrs)
    graph = onnx.helper.make_graph([n], "g", inputs, [of("y", kind, (5, 3, 3, 2))])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize(
    ("opset", "mode"), [(10, None), (16, "half_pixel"), (16, "output_half_pixel")]
)
@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE])
def test_the_largest_of_regions(samples: int, opset: int, mode: str | None, kind: int) -> None:
    proto = regions(samples, opset, kind, mode)
    rng = np.random.default_rng(samples)
    held = onnx.helper.tensor_dtype_to_np_dtype(kind)
    boxes = np.sort(rng.uniform(-4, 24, (5, 2, 2)), 1).reshape(5, 4)
    boxes[4] = (50, 50, 60, 60)  # outside of the image
    feeds = {"x": rng.standard_normal((2, 3, 7, 9)).astype(held), "r": boxes.astype(held)}
    feeds["i"] = np.array([0, 1, 1, 0, 1])
    wanted = ReferenceEvaluator(regions(samples, 16, kind, mode or "output_half_pixel"))
    with qnnrt.Session(importer.load(proto)) as session:
        found = session.run(feeds)["y"]
        np.testing.assert_allclose(found, wanted.run(None, feeds)[0], rtol=1e-5, atol=1e-5)
        for bad in (2, -1):
            with pytest.raises(qnnrt.QnnError, match="outside"):
                session.run(feeds | {"i": np.array([0, 1, bad, 0, 1])})


def test_the_largest_of_as_many_samples_as_the_regions_decide_is_refused() -> None:
    with pytest.raises(qnnrt.UnsupportedOpError, match="sampling_ratio 0"):
        importer.load(regions(0, 16, onnx.TensorProto.FLOAT, "half_pixel"))
