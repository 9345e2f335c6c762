"""``strict``: an avoidable copy is an error that names the tensor and the reason."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from support.toy import add_model, relu_model


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_feeding_foreign_memory_raises_and_changes_nothing(io):
    with qnnrt.Session(add_model(), io=io, strict=True) as s:
        s.inputs["b"].array[...] = 1
        with pytest.raises(qnnrt.CopyError, match=r"tensor 'b'.*inputs\['b'\]") as e:
            s.run({"a": s.inputs["a"].array, "b": np.zeros((4, 8), np.float32)})
        assert e.value.tensor == "b"
        assert "bound memory" in e.value.reason
        assert (s.inputs["b"].array == 1).all()
        assert s.stats.executes == 0


def test_feeding_the_bound_memory_is_no_copy_and_returns_the_bound_outputs():
    with qnnrt.Session(add_model(), strict=True) as s:
        a, b = s.inputs["a"].array, s.inputs["b"].array
        a[...] = 1
        b[...] = 2
        out = s.run({"a": a, "b": b})
        assert out["z"] is s.outputs["z"].array
        assert (out["z"] == 3).all()
        assert s.stats.copied_bytes == 0
        assert s.run({})["w"] is s.outputs["w"].array


def test_the_same_call_without_strict_copies_and_counts():
    with qnnrt.Session(relu_model()) as s:
        s.run({"x": np.zeros((1, 16), np.float32)})
        reasons = {c.tensor: c.reason for c in s.stats.copies}
        assert "bound memory" in reasons["x"]
        assert "caller's own" in reasons["y"]


def test_a_transposed_view_of_the_bound_memory_is_not_the_bound_memory():
    with qnnrt.Session(relu_model((4, 4)), strict=True) as s:
        x = s.inputs["x"].array
        with pytest.raises(qnnrt.CopyError):
            s.run({"x": x.T})
