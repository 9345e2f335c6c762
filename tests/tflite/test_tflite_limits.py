"""What loading a TFLite file may take is the caller's to set, as for ONNX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import tflite as importer
from qnnrt.importers.tflite.lower import Lowering
from support.tflite.builder import ModelBuilder


def filled(count: int = 1000, scale: float = 0.5) -> bytes:
    """x + a constant that is filled, times weights that are made float32."""
    b = ModelBuilder()
    x = b.input((count,))
    (made,) = b.op("FILL", [b.const(np.array([count], np.int32)), b.const(np.float32(3))],
                   [((count,), np.float32)])  # fmt: skip
    weights = b.const(np.full(count, 2, np.int8), scale=scale)
    (real,) = b.op("DEQUANTIZE", [weights], [((count,), np.float32)], "DequantizeOptions")
    (y,) = b.op("ADD", [x, made], [((count,), np.float32)], "AddOptions")
    b.output(*b.op("MUL", [y, real], [((count,), np.float32)], "MulOptions"))
    return b.build()


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (qnnrt.Limits(constant_bytes=1000), r"wants 4,000 bytes for .*constant_bytes=\.\.\."),
        (qnnrt.Limits(steps=2), r"wants one step more; .*Limits\(steps=\.\.\.\)"),
        (qnnrt.Limits(operations=10), r"operations on constants; .*Limits\(operations=\.\.\.\)"),
        (qnnrt.Limits(seconds=1e-9), r"FILL_0 wants more time; .*Limits\(seconds=\.\.\.\)"),
    ],
)
def test_each_limit_holds(limits: qnnrt.Limits, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(filled())
    for source, load in ((path, qnnrt.load), (path.read_bytes(), importer.load)):
        with pytest.raises(ModelError, match=says) as error:
            load(source, limits=limits)  # type: ignore[operator]
        assert len(str(error.value)) < 1000
    wide = qnnrt.Limits(constant_bytes=10**6, steps=10, operations=10**6, seconds=60)
    model = qnnrt.load(path, limits=wide)
    with qnnrt.Session(model) as session:
        y = session.run({model.inputs[0]: np.ones(1000, np.float32)})
    np.testing.assert_array_equal(next(iter(y.values())), np.full(1000, 4, np.float32))


def test_more_than_a_small_file_may_take_can_be_allowed() -> None:
    """64 MiB of constants are for every file: here it is 80."""
    b = ModelBuilder()
    shape = b.const(np.array([20 << 20], np.int32))
    (made,) = b.op("FILL", [shape, b.const(np.float32(3))], [((20 << 20,), np.float32)])
    x = b.input((20 << 20,))
    b.output(*b.op("ADD", [x, made], [((20 << 20,), np.float32)], "AddOptions"))
    data = b.build()
    with pytest.raises(ModelError, match=r"FILL_0 wants 83,886,080 bytes .*67,108,864 bytes"):
        importer.load(data)
    assert importer.load(data, limits=qnnrt.Limits(constant_bytes=1 << 28)).nodes


def test_time_is_looked_at_behind_the_last_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Lowering.run

    def slow(self: Lowering, *args: object) -> None:
        whole(self, *args)  # type: ignore[arg-type]
        self.budget._deadline -= 1000

    monkeypatch.setattr(Lowering, "run", slow)
    with pytest.raises(ModelError, match="clean-up of the graph wants more time"):
        importer.load(filled())


def test_limits_are_of_their_class() -> None:
    with pytest.raises(TypeError, match=r"limits is a .*, not int"):
        importer.load(filled(), limits=5)  # type: ignore[arg-type]
