"""PyTorch exports that the ``onnx`` package ships, at every opset that changed their operators."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, version_converter

import qnnrt
from qnnrt.importers import onnx as importer

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = sorted(p.parent for kind in ("pytorch-converted", "pytorch-operator")
                 for p in (DATA / kind).glob("*/model.onnx"))  # fmt: skip

#: Sequences that are taken apart and put together again.
SEQUENCES = sorted(p.parent for p in (DATA / "simple").glob("test_sequence_model*/model.onnx"))

#: A slope for each channel, as opset 6 had it; the version converter does not rewrite it.
EXCLUDED = {f"test_PReLU_{rank}d_multiparam" for rank in (1, 2, 3)}

#: Opset 7 to 9 cannot express what this export does in opset 6 (onnx's converter says so).
NOT_CONVERTED = {7: 2, 8: 2, 9: 2}

OPSETS = [*range(7, 15), 17, 18, 19, 21, onnx.defs.onnx_opset_version()]


def _array(path: Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _run(model: onnx.ModelProto, data: Path, parameters: tuple[str, ...] = ()) -> None:
    constants = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in constants]
    given = {name: _array(data / f"input_{i}.pb") for i, name in enumerate(names)}
    fixed = {name: given.pop(name) for name in parameters}
    loaded = importer.load(model, shapes={k: v.shape for k, v in given.items()}, constants=fixed)
    feeds = {name: given[name].reshape(loaded.tensors[name].shape) for name in loaded.inputs}
    with qnnrt.Session(loaded, backend="cpu", threads=1) as session:
        found = session.run(feeds)
    for i, output in enumerate(model.graph.output):
        wanted = _array(data / f"output_{i}.pb")
        y = found[output.name].reshape(wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("opset", OPSETS)
def test_exports_of_pytorch_run_at_their_tolerances(opset: int) -> None:
    failed, passed, lost = [], 0, 0
    for folder in FOLDERS:
        if folder.name in EXCLUDED:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = version_converter.convert_version(onnx.load(folder / "model.onnx"), opset)
            except RuntimeError:
                lost += 1
                continue
        try:
            _run(model, folder / "test_data_set_0")
            passed += 1
        except Exception as exc:
            failed.append(f"{folder.name}: {type(exc).__name__}: {exc}")
    assert not failed, "\n".join(failed)
    assert passed >= 100
    assert lost <= NOT_CONVERTED.get(opset, 0)


@pytest.mark.parametrize("folder", SEQUENCES, ids=lambda folder: folder.name)
def test_sequences_that_the_onnx_package_ships(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    splits = [n for n in model.graph.node if n.op_type == "SplitToSequence"]
    parameters = {name for n in splits for name in n.input[1:]}
    parameters &= {i.name for i in model.graph.input}
    _run(model, folder / "test_data_set_0", tuple(parameters))
