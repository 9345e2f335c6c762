"""Networks whose batch, length or size is open, at three shapes each: as ONNX Runtime has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import onnxruntime as ort

import qnnrt
from architectures import NETWORKS, made
from export_networks import exported

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
]

#: Those that the exporter writes for the batch that it traces.
OF_ONE_BATCH = {"swin_tiny"}
#: Input -> names of open dimensions beyond the batch, by place.
MORE: dict[str, dict[str, dict[int, str]]] = {
    "bert_base": {name: {1: "n"} for name in ("ids", "mask", "kinds")},
    "gpt2_small": {"ids": {1: "n"}},
    "llama_6": {"ids": {1: "n"}},
    "t5_small": {"ids": {1: "n"}, "decoder_ids": {1: "m"}},
    "unet": {"image": {2: "height", 3: "width"}},
    "espcn": {"image": {2: "height", 3: "width"}},
}
#: Batches, and how much shorter open dimensions are; a multiple of what a network halves.
SHAPES = ((1, 0), (2, 1), (3, 2))
STEP = {"unet": 4, "espcn": 3}
#: Of the largest value of an output.
TOLERANCE = 2e-5


def fed(
    feeds: dict[str, np.ndarray], axes: dict[str, dict[int, str]], batch: int, less: int
) -> dict[str, np.ndarray]:
    found = {}
    for name, array in feeds.items():
        for axis in axes[name]:
            if axis:
                array = np.take(array, range(array.shape[axis] - less), axis)
        rows = [np.roll(array, row, -1) for row in range(batch)] if array.ndim > 1 else [array]
        found[name] = np.concatenate(rows * (batch if array.ndim == 1 else 1))
    return found


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - OF_ONE_BATCH))
def test_a_network_of_open_shapes_agrees_with_onnx_runtime(name: str, tmp_path: Path) -> None:
    network = made(name, tiny=True)
    feeds = network.feeds(1)
    more = MORE.get(name, {})
    axes = {n: {0: "batch", **more.get(n, {})} for n in feeds}
    path = exported(network, tmp_path / f"{name}.onnx", axes=axes)
    theirs = ort.InferenceSession(path)
    with qnnrt.Session(qnnrt.load(path, shapes="any"), threads=1) as session:
        for batch, turn in SHAPES:
            given = fed(feeds, axes, batch, turn * STEP.get(name, 1))
            found = session.run(given)
            for ours, expected in zip(found.values(), theirs.run(None, given), strict=True):
                assert ours.shape == expected.shape
                error = np.abs(ours - expected).max() / np.abs(expected).max()
                assert error < TOLERANCE
        assert len(session.shapes) == len(SHAPES)
