"""torchvision's detectors as they are exported, beside ONNX Runtime."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("torch")
if importlib.util.find_spec("torchvision") is None:
    pytest.skip("the package torchvision is not installed", allow_module_level=True)

from detectors import DETECTORS, HEADS, exported, made, pictures

import qnnrt
from qnnrt.importers import onnx as importer

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
]


#: Those that torch.export takes a minute for.
BY_TORCH_EXPORT = ("retinanet_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn")


@pytest.mark.parametrize(
    ("name", "backend", "dynamo"),
    [
        *((name, backend, False) for name in DETECTORS for backend in ("cpu", "htp")),
        *((name, "cpu", True) for name in BY_TORCH_EXPORT),
    ],
)
def test_a_detector_finds_what_onnx_runtime_finds(
    name: str, backend: str, dynamo: bool, tmp_path: Path
) -> None:
    module = made(name)
    path = exported(name, module, tmp_path / "detector.onnx", dynamo)
    reference = onnxruntime.InferenceSession(path)
    outputs = [o.name for o in reference.get_outputs()]
    counts = []
    with qnnrt.Session(path, backend) as session:
        for picture in pictures(name, module):
            found = session.run({"image": picture})
            wanted = reference.run(None, {"image": picture})
            counts.append(len(wanted[0]))
            ours = {}
            for output, theirs in zip(outputs, wanted, strict=True):
                (count,) = found[f"{output}.count"]
                assert count == len(theirs)
                assert found[output].dtype == theirs.dtype
                ours[output] = found[output][:count]
            compare(list(ours.values()), wanted)
    assert min(counts[:2]) > 5
    assert counts[2] == 0


def compare(ours: list[np.ndarray], theirs: list[np.ndarray]) -> list[int]:
    """Of two scores that differ by rounding alone, either may be the first. Which one of theirs
    each of ours is."""
    boxes, labels, scores = (
        next(i for i, x in enumerate(theirs) if kind(x))
        for kind in (
            lambda x: x.ndim == 2, lambda x: x.dtype == np.int64,
            lambda x: x.ndim == 1 and x.dtype == np.float32,
        )
    )  # fmt: skip
    np.testing.assert_allclose(ours[scores], theirs[scores], atol=1e-4)
    left, order = list(range(len(theirs[boxes]))), []
    for box, label, score in zip(ours[boxes], ours[labels], ours[scores], strict=True):
        same = next(
            (
                i for i in left
                if theirs[labels][i] == label and abs(theirs[scores][i] - score) < 1e-4
                and np.abs(theirs[boxes][i] - box).max() < 0.05
            ),
            None,
        )  # fmt: skip
        assert same is not None, (box, label, score)
        left.remove(same)
        order.append(same)
    return order


@pytest.mark.parametrize("name", HEADS)
def test_heads_for_each_box_give_what_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    """Masks, and the maps of key points: what is between them and the picture is a Loop."""
    module = made(name)
    path = exported(name, module, tmp_path / "detector.onnx")
    proto = onnx.load(path)
    if name.startswith("mask"):
        head = [node for node in proto.graph.node if node.op_type == "Pad"][-1].input[0]
    else:
        head = [node for node in proto.graph.node if node.op_type == "Resize"][-1].output[0]
    outputs = [*(o.name for o in proto.graph.output[:3]), head]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=output) for output in outputs)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(qnnrt.load(path, outputs=outputs), "cpu") as session:
        for picture in pictures(name, module)[:2]:
            found = session.run({"image": picture})
            *wanted, maps = reference.run(None, {"image": picture})
            ours = [found[o][: found[f"{o}.count"][0]] for o in outputs]
            assert len(maps) > 5
            assert ours[3].shape == maps.shape
            order = compare(ours[:3], wanted)
            np.testing.assert_allclose(ours[3], maps[order], atol=1e-3)


def test_key_points_are_found_in_maps_as_large_as_their_boxes(tmp_path: Path) -> None:
    """The whole of Keypoint R-CNN: how large a box may be is a capacity."""
    name = "keypointrcnn_resnet50_fpn"
    module = made(name)
    path = exported(name, module, tmp_path / "detector.onnx")
    (loop,) = (node for node in onnx.load(path).graph.node if node.op_type == "Loop")
    (body,) = (a.g for a in loop.attribute if a.name == "body")
    (sizes,) = (node.input[3] for node in body.node if node.op_type == "Resize")
    reference = onnxruntime.InferenceSession(path)
    outputs = [o.name for o in reference.get_outputs()]
    picture = pictures(name, module)[0]
    with qnnrt.Session(qnnrt.load(path, capacities={sizes: 160}), "cpu") as session:
        found = session.run({"image": picture})
        wanted = reference.run(None, {"image": picture})
        assert found[f"{sizes}.count"].max() <= 160
        ours = [found[o][: found[f"{o}.count"][0]] for o in outputs]
        order = compare(ours[:3], wanted[:3])
        points, scores = ours[3:]
        assert len(points) > 5
        np.testing.assert_allclose(scores, wanted[4][order], atol=1e-3)
        np.testing.assert_allclose(points, wanted[3][order], atol=0.05)


def test_where_no_region_is_left_nothing_is_found(tmp_path: Path) -> None:
    """ONNX Runtime fails there, in a Reshape of the file to [0, -1]."""
    name = "fasterrcnn_mobilenet_v3_large_320_fpn"
    module = made(name)
    proto = onnx.load(exported(name, module, tmp_path / "detector.onnx"))
    (bias,) = (t for t in proto.graph.initializer if t.name.endswith("rpn.head.cls_logits.bias"))
    low = np.full(bias.dims, -20, np.float32)
    bias.CopyFrom(onnx.numpy_helper.from_array(low, bias.name))
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        for picture in pictures(name, module):
            found = session.run({"image": picture})
            counts = [x for output, x in found.items() if output.endswith(".count")]
            assert len(counts) == 3
            assert not any(counts)
