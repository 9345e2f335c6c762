"""Convolutions whose tiles add and limit what they store, and write into what Concat joins."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.one_node import KERNELS
from support.onnx.models import GraphMaker
from support.outside import PATHS, printed

SIDE = 11
#: Channels in, out, and outputs of the branch beside: whole and partial tiles.
CHANNELS = [(16, 32, 16), (13, 17, 5)]
#: What is behind the first convolution. The last two are no work for tiles.
BEHIND = ["", "Relu", "Clip", "Add", "Add Relu", "Add Clip", "Relu Add", "Tanh"]
GEOMETRIES = [
    {"kernel_shape": [1, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "pads": [3, 0, 1, 1], "dilations": [2, 1]},
]


def _has_avx2() -> bool:
    return "avx2" in Path("/proc/cpuinfo").read_text().split()


def _network(
    channels: tuple[int, int, int], behind: str, geometry: dict[str, list[int]]
) -> onnx.ModelProto:
    cin, cout, beside = channels
    g = GraphMaker(cin)
    side = [SIDE, SIDE]
    x = g("Relu", "x")
    taps = geometry["kernel_shape"]
    y = g("Conv", x, g.weight(cout, cin, *taps), g.weight(cout), **geometry)
    for op in behind.split():
        more = {"Clip": [g.const(-0.25), g.const(0.5)], "Add": ["r"]}.get(op, [])
        y = g(op, y, *more)
    z = g("Relu", g("Conv", x, g.weight(beside, cin, 1, 1), kernel_shape=[1, 1]))
    joined = g("Concat", y, z, axis=1)
    last = g("Conv", joined, g.weight(19, cout + beside, 1, 1), kernel_shape=[1, 1])
    float_ = onnx.TensorProto.FLOAT
    given = {"x": (float_, (2, cin, *side))}
    if "Add" in behind:
        given["r"] = (float_, (2, cout, *side))
    return g.model(given, {"y": last}, 17)


def found(kernels: str) -> dict[str, float]:
    """Of each network the largest error, of the largest value, and how many concats are left."""
    errors, concats = {}, 0
    for channels in CHANNELS:
        for behind in BEHIND:
            for i, geometry in enumerate(GEOMETRIES):
                proto = _network(channels, behind, geometry)
                r = np.random.default_rng(i)
                feeds = {
                    v.name: r.standard_normal(
                        [d.dim_value for d in v.type.tensor_type.shape.dim], np.float32
                    )
                    for v in proto.graph.input
                }
                (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
                options = {"kernels": kernels}
                with qnnrt.Session(importer.load(proto), options=options, threads=1 + i % 2) as s:
                    steps = json.loads(s.graph.describe())["steps"]
                    concats += sum(step["op"] == "Concat" for step in steps)
                    (got,) = s.run(feeds).values()
                name = f"{channels} {behind} {i}"
                errors[name] = float(np.abs(got - wanted).max() / np.abs(wanted).max())
    return {"concats": concats, **errors}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
def test_what_is_behind_a_convolution_is_part_of_its_tiles(isa: str, kernels: str) -> None:
    code = "import json\nfrom ops import test_ops_conv_tiles as t\n"
    sets = {"PYTHONPATH": PATHS, "QNNRT_ISA": isa}
    errors = json.loads(printed(f"{code}print(json.dumps(t.found({kernels!r})))", **sets))
    concats = errors.pop("concats")
    assert len(errors) == len(CHANNELS) * len(BEHIND) * len(GEOMETRIES)
    assert {k: error for k, error in errors.items() if error > 5e-6} == {}
    # There convolutions write rows with a pitch, wherever the arena does not grow by that.
    assert (concats < len(errors)) == (isa == "avx2" and _has_avx2())
