"""torchvision's detectors with random weights by which pictures differ, and their ONNX files."""

from __future__ import annotations

import functools
import importlib.util
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: name -> (arguments that its maker takes beside the weights, size of its pictures).
DETECTORS: dict[str, tuple[dict[str, int], int]] = {
    "ssdlite320_mobilenet_v3_large": ({}, 320),
    "ssd300_vgg16": ({}, 300),
    "retinanet_resnet50_fpn": ({"min_size": 128, "max_size": 128}, 128),
    "fasterrcnn_mobilenet_v3_large_320_fpn": ({"min_size": 160, "max_size": 160}, 160),
    "fasterrcnn_resnet50_fpn": ({"min_size": 128, "max_size": 128}, 128),
}
#: Those with a further head for each box, behind which their exports have a Loop.
HEADS: dict[str, tuple[dict[str, int], int]] = {
    "maskrcnn_resnet50_fpn": ({"min_size": 128, "max_size": 128}, 128),
    "keypointrcnn_resnet50_fpn": ({"min_size": 128, "max_size": 128}, 128),
}
ALL = DETECTORS | HEADS
CLASSES = 91


def _nms(boxes: torch.Tensor, scores: torch.Tensor, overlap: float) -> torch.Tensor:
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    gone = torch.zeros(len(scores), dtype=torch.bool)
    kept = []
    for i in torch.sort(scores, descending=True, stable=True)[1].tolist():
        if gone[i]:
            continue
        kept.append(i)
        low = torch.maximum(boxes[i, :2], boxes[:, :2])
        both = (torch.minimum(boxes[i, 2:], boxes[:, 2:]) - low).clamp(min=0).prod(1)
        gone |= both / (areas[i] + areas - both) > overlap
    return torch.tensor(kept, dtype=torch.int64)


def _roi_align(
    x: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, *_: Any
) -> torch.Tensor:
    """Something of the shape: a trace has the operator, not what it gave."""
    means = x.mean((2, 3))[rois[:, 0].long()]
    return means[:, :, None, None].expand(-1, -1, height, width) + rois.sum() * 0


@functools.cache
def load_torchvision() -> Any:
    """torchvision, also beside a torch for which its own operators were not built: those that
    detectors are traced with are in Python then."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None
    assert spec.origin is not None
    try:
        for library in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(library)
    except OSError:
        _define()
    import torchvision

    return torchvision


def _define() -> None:
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
        "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
    )
    library.impl("nms", _nms, "CPU")
    library.impl("roi_align", _roi_align, "CPU")
    torch.library.register_fake("torchvision::roi_align", _roi_align, lib=library)
    _define.library = library  # type: ignore[attr-defined]  # it lives as long as its operators
    register = torch.library.register_fake
    ours = "torchvision::nms"

    def forgiving(name: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(name, str) and name.startswith("torchvision::") and name != ours:
            return lambda function: function
        return register(name, *rest, **options)

    torch.library.register_fake = forgiving  # type: ignore[assignment]
    import torchvision.ops.boxes
    import torchvision.ops.roi_align

    torch.library.register_fake = register
    # The package has a function of the module's name.
    regions = importlib.import_module("torchvision.ops.roi_align")
    for module in (torchvision.extension, torchvision.ops.boxes, regions):
        module._assert_has_ops = _nothing  # type: ignore[attr-defined]
        module._has_ops = _yes  # type: ignore[attr-defined]


# torch compiles them into its scripts, which lambdas cannot be.
def _nothing() -> None:
    pass


def _yes() -> bool:
    return True


def made(name: str) -> torch.nn.Module:
    """A detector that finds something in noise, and nothing in a picture that is its mean."""
    how, size = ALL[name]
    make: Callable[..., torch.nn.Module] = getattr(load_torchvision().models.detection, name)
    module = make(weights=None, weights_backbone=None, **how).eval()
    random = torch.Generator().manual_seed(1)
    done: set[torch.nn.Module] = set()

    def spread(layer: str) -> tuple[float, float | None]:
        """Of its results, and the bias of all of them, or of the background."""
        if "cls_score" in layer or "classification_head" in layer:
            return (0.8, -6) if "retinanet" in name else (2.5, None)
        if layer.endswith("rpn.head.cls_logits"):
            return 2.0, -2
        return (0.5 if "bbox" in layer or "regression" in layer else 1.0), 0

    def scaled(layer: torch.nn.Module, results: torch.Tensor, wanted: float) -> torch.Tensor | None:
        if layer in done or results.numel() < 2:
            return None
        done.add(layer)
        factor = wanted / (results.std() + 1e-9)
        layer.weight.data *= factor
        return results * factor

    hooks, biases = [], []
    for layer_name, layer in module.named_modules():
        if not isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            continue
        deviation = math.sqrt(1.5 / layer.weight[0].numel())
        layer.weight.data = torch.randn(layer.weight.shape, generator=random) * deviation
        wanted, bias = spread(layer_name)
        if layer.bias is not None:
            layer.bias.data.zero_()
            if bias is None and len(layer.bias) % CLASSES == 0:
                biases.append((layer.bias.data.view(-1, CLASSES)[:, 0], 10.0))
            elif bias is not None and layer_name.endswith("cls_logits"):
                biases.append((layer.bias.data, bias))

        def hook(
            layer: torch.nn.Module, _: Any, results: torch.Tensor, wanted: float = wanted
        ) -> torch.Tensor | None:
            return scaled(layer, results, wanted)

        hooks.append(layer.register_forward_hook(hook))
    with torch.no_grad():
        module([torch.rand(3, size, size, generator=random)])
    for one in hooks:
        one.remove()
    for tensor, value in biases:
        tensor.fill_(value)
    return module


def pictures(name: str, module: Any) -> list[np.ndarray]:
    """Two of noise, and one in which nothing is."""
    size = ALL[name][1]
    mean = np.array(module.transform.image_mean, np.float32).reshape(3, 1, 1)
    noise = [np.random.default_rng(i).random((3, size, size), np.float32) for i in (0, 5)]
    return [*noise, np.broadcast_to(mean, (3, size, size)).copy()]


def _batched_nms(
    boxes: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, overlap: float
) -> torch.Tensor:
    """Boxes of each label apart from the others, whatever their number."""
    apart = 4096.0 * labels.to(boxes)
    found: torch.Tensor = torch.ops.torchvision.nms(boxes + apart[:, None], scores, overlap)
    return found


def _pooled(
    levels: list[torch.Tensor],
    boxes: list[torch.Tensor],
    size: tuple[int, int],
    sampling: int,
    scales: list[float],
    mapper: Any,
) -> torch.Tensor:
    """All boxes on every level, of which each takes its own."""
    regions = load_torchvision().ops.poolers._convert_to_roi_format(boxes)
    own = mapper(boxes)[:, None, None, None]
    pooled = None
    for i, (level, scale) in enumerate(zip(levels, scales, strict=True)):
        one = torch.ops.torchvision.roi_align(level, regions, scale, *size, sampling, False)
        pooled = one if pooled is None else torch.where(own == i, one, pooled)
    assert pooled is not None
    return pooled


def exported(name: str, module: torch.nn.Module, path: Path, dynamo: bool = False) -> Path:
    """`dynamo`: by torch.export, for which the two functions of torchvision's that ask for the
    number of boxes are written as computations."""
    size, ops = ALL[name][1], load_torchvision().ops
    before = ops.boxes.batched_nms, ops.poolers._multiscale_roi_align
    if dynamo:
        ops.boxes.batched_nms, ops.poolers._multiscale_roi_align = _batched_nms, _pooled
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, ([torch.rand(3, size, size)],), str(path), dynamo=dynamo,
                opset_version=18 if dynamo else 17, input_names=["image"], verbose=False,
            )  # fmt: skip
    finally:
        ops.boxes.batched_nms, ops.poolers._multiscale_roi_align = before
    return path
