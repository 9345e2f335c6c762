"""The nine networks that onnx ships give on OpenCL devices what they give on the cpu backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.gpu.cases import one_backend  # noqa: F401
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from zoo import networks

SEED = 20261121

pytestmark = [pytest.mark.foreign, pytest.mark.slow]  # OpenCL drivers are foreign

#: Units of the hidden layers whose 4096 are gigabytes of weights without a new kernel
HIDDEN = dict.fromkeys(("bvlc_alexnet", "vgg19", "zfnet512"), 256)


def network(name: str) -> Model:
    """With random weights: those that are shipped would hide an order of dimensions."""
    return importer.load(networks.randomized(name, SEED, HIDDEN.get(name, 4096)))


def on_cpu(model: Model) -> dict[str, np.ndarray]:
    with qnnrt.Session(model, "cpu") as s:
        return s.run({model.inputs[0]: networks.image(SEED)})


def distance(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    assert got.shape == expected.shape
    wide = expected.astype(np.float64)
    return float(np.abs(got - wide).max() / np.abs(wide).max())


@pytest.mark.parametrize("name", networks.NAMES)
def test_a_network_in_opencl_buffers_gives_what_the_cpu_gives(name: str) -> None:
    """And nothing is read, written or copied between host and device: all ends are handles."""
    model = network(name)
    expected = on_cpu(model)
    with qnnrt.Session(model, "gpu") as s:
        context, access = s.backend.cl_context, cl.mem_flags.READ_WRITE
        ends: dict[str, Any] = {**s.inputs, **s.outputs}
        for end in ends.values():
            nbytes = int(np.prod(end.shape)) * end.dtype.itemsize
            end.bind(cl.Buffer(context, access, nbytes))
        with s.inputs[model.inputs[0]].handle.map(read=False) as x:
            x[...] = networks.image(SEED)
        for _ in range(2):
            s.run()
        for key in model.outputs:
            with s.outputs[key].handle.map(write=False) as y:
                assert distance(y, expected[key]) < 1e-4, key
        counts = s.backend.library.gpu_counts(s.graph.handle)
        assert (counts["writes"], counts["reads"]) == (0, 0)
        assert counts["kernels"] > 0
        assert s.stats.copied_bytes == 0


@pytest.mark.parametrize("name", ["inception_v1", "squeezenet"])
def test_a_network_with_16_bit_floats_inside_is_near(name: str) -> None:
    """The others' random weights take some values beyond 65504."""
    model = network(name)
    expected = on_cpu(model)
    with qnnrt.Session(model, "gpu", options={"gpu": {"precision": "fp16"}}) as s:
        got = s.run({model.inputs[0]: networks.image(SEED)})
        s.backend.close()
    logits = model.outputs[-1]
    assert distance(got[logits], expected[logits]) < 5e-3
    assert distance(got[logits], expected[logits]) > 1e-6, "nothing has had 16 bits"
