"""TFLite's own interpreter as the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import qnnrt
from qnnrt.importers import tflite as importer
from qnnrt.model import Model

RTOL = 1e-5


def interpreter(data: bytes) -> Interpreter:
    found = Interpreter(
        model_content=data,
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    found.allocate_tensors()
    return found


def reference(data: bytes, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs, by TFLite's kernels."""
    runner = interpreter(data)
    for detail, array in zip(runner.get_input_details(), feeds, strict=True):
        runner.set_tensor(detail["index"], array)
    runner.invoke()
    return [np.array(runner.get_tensor(d["index"])) for d in runner.get_output_details()]


def run(model: Model, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    with qnnrt.Session(model, backend="cpu", threads=1) as session:
        given = {
            name: array.reshape(model.tensors[name].shape)
            for name, array in zip(model.inputs, feeds, strict=True)
        }
        found = session.run(given)
    return [found[name] for name in model.outputs]


def close(found: np.ndarray, wanted: np.ndarray, rtol: float = RTOL) -> None:
    """Equal types, shapes and values: floats within `rtol` of the value or of the largest one."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)


def agree(data: bytes, feeds: Sequence[np.ndarray], rtol: float = RTOL) -> Model:
    """Import, run, compare every output with TFLite's."""
    model = importer.load(data)
    found, wanted = run(model, feeds), reference(data, feeds)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        close(a, b, rtol)
    return model


def streamed(data: bytes, feeds: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """The interpreter's outputs, frame after frame, its state kept."""
    runner = interpreter(data)
    found = []
    for x in feeds:
        runner.set_tensor(runner.get_input_details()[0]["index"], x)
        runner.invoke()
        found.append([np.array(runner.get_tensor(d["index"])) for d in runner.get_output_details()])
    return found
