"""State on lpai: quantized tensors that a graph updates, in aligned buffers or the scratch pool."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

U8 = np.dtype(np.uint8)
SHAPE = (1, 8, 64)


def average() -> Model:
    """The mean of the state and the input becomes the state: the codes' own mean, since all have
    one encoding but for half of the scale."""
    own, half = Quantization(0.5, -10), Quantization(0.25, -10)
    tensors = {
        "past": Tensor("past", SHAPE, U8, quantization=own),
        "x": Tensor("x", SHAPE, U8, quantization=own),
        "sum": Tensor("sum", SHAPE, U8, quantization=Quantization(1.0, -10)),
        "y": Tensor("y", SHAPE, U8, quantization=own),
        "half": Tensor("half", (1,), U8, np.array([12], U8), half),
        "present": Tensor("present", SHAPE, U8, quantization=own),
    }
    nodes = [
        Node("add", "ElementWiseAdd", ["past", "x"], ["sum"]),
        Node("mean", "ElementWiseMultiply", ["sum", "half"], ["present"]),
        Node("relu", "Relu", ["present"], ["y"]),
    ]
    model = Model("average", tensors, nodes, ["past", "x"], ["y", "present"])
    model.set_state({"past": "present"})
    return model


@pytest.mark.parametrize("io", ["memhandle", "raw", "scratch"])
def test_state_goes_on_from_run_to_run_without_a_copy(io):
    with qnnrt.Session(average(), "lpai", io=io, strict=io == "memhandle") as s:
        assert list(s.inputs), list(s.outputs) == (["x"], ["y"])
        state = np.full(SHAPE, 10, U8)
        s.load_state({"past": state})
        rng = np.random.default_rng(0)
        for _ in range(6):
            x = rng.integers(10, 250, SHAPE).astype(U8)
            s.inputs["x"].array[...] = x
            s.run()
            wanted = state + (x.astype(int) - state) / 2
            got = s.state["past"].array
            assert np.abs(got - wanted).max() <= 1
            np.testing.assert_array_equal(s.outputs["y"].array, np.maximum(got, 10))
            state = got.astype(int).copy()
        assert s.stats.copied_bytes == 0


def test_a_loaded_binary_has_its_state_in_the_scratch_pool_too(tmp_path):
    with qnnrt.Session(average(), "lpai") as s:
        s.save_binary(tmp_path / "average.bin")
    with qnnrt.Session(tmp_path / "average.bin", "lpai", io="scratch") as s:
        assert list(s.state) == ["past"]
        s.reset_state()
        s.load_state({"past": np.full(SHAPE, 10, U8)})
        s.inputs["x"].array[...] = 30
        for wanted in (20, 25):
            s.run()
            assert (s.state["past"].array == wanted).all()
