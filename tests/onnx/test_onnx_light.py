"""The networks of the onnx package whose weights are made by ConstantOfShape: files of a few
kilobytes with the architecture of networks of up to 500 MB."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx import bombs
from support.onnx.hostile import ints
from support.outside import PATHS, run_script

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NETWORKS = sorted(path.stem for path in LIGHT.glob("*.onnx"))
#: Those of few nodes: following every allocation of the others takes seconds.
SHORT = [n for n in NETWORKS if "densenet" not in n and "inception" not in n]

pytestmark = pytest.mark.skipif(not NETWORKS, reason="the onnx package has no light networks")

_RUN = """
import json, sys
import numpy as np
import onnx
import qnnrt
from onnx.backend.test.runner import Runner

from support.outside import peak_memory

path = sys.argv[1]
proto = onnx.load(path)
known = {i.name for i in proto.graph.initializer}
name = path.rsplit("/", 1)[1]
feeds = {
    i.name: Runner.generate_dummy_data(i, seed=0, name=name, random=False)
    for i in proto.graph.input if i.name not in known
}
with qnnrt.Session(path, backend="cpu") as session:
    (y,) = session.run(feeds).values()
tensor = onnx.TensorProto()
with open(path.replace(".onnx", "_output_0.pb"), "rb") as file:
    tensor.ParseFromString(file.read())
wanted = onnx.numpy_helper.to_array(tensor)
print(json.dumps([float(np.abs(y - wanted).max()), float(np.abs(wanted).max()), peak_memory()]))
"""


@pytest.mark.parametrize("name", SHORT)
def test_weights_of_one_number_take_no_memory_when_they_are_loaded(name: str) -> None:
    tracemalloc.start()
    try:
        model = importer.load(LIGHT / f"{name}.onnx")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    weights = sum(t.data.nbytes for t in model.constants() if t.data is not None)
    assert weights > 4 << 20
    assert peak < 12 << 20, f"{peak} bytes for weights of {weights}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_light_networks_run_in_two_gigabytes(name: str, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(_RUN)
    done = run_script(script, str(LIGHT / f"{name}.onnx"), PYTHONPATH=PATHS)
    difference, largest, peak = json.loads(done.stdout.splitlines()[-1])
    assert difference <= 1e-3 * max(largest, 1)
    assert peak < 2 << 30


def test_one_number_through_every_form_of_a_product_is_what_a_full_array_gives() -> None:
    """Transposed, reshaped, scaled, gathered for a flattened input: Conv and Gemm."""
    nodes = [
        helper.make_node("ConstantOfShape", ["s0"], ["w"], value=_number(0.5)),
        helper.make_node("ConstantOfShape", ["s1"], ["g"], value=_number(0.25)),
        helper.make_node("Transpose", ["g"], ["t"], perm=[1, 0]),
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "t"], ["y"], transB=1, alpha=0.5),
    ]
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 4)).astype(np.float32)
    shapes = {"s0": ints(8, 3, 3, 3), "s1": ints(8 * 16, 10)}
    model = importer.load(bombs.network(nodes, shapes, {"x": x.shape}))
    held = [t.data for t in model.constants() if t.data is not None and t.data.nbytes > 256]
    assert len(held) == 2
    assert all(not any(data.strides) for data in held)
    with qnnrt.Session(model) as session:
        y = session.run({"x": x})["y"]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).sum(1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).sum((-1, -2)) * 0.5
    wanted = windows.sum((1, 2)) * 8 * 0.25 * 0.5
    np.testing.assert_allclose(y, np.repeat(wanted[:, None], 10, 1), rtol=1e-4, atol=1e-4)


def _number(value: float) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array([value], np.float32))
