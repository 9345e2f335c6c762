"""Weights that a file stores without their zeros, beside TFLite's DENSIFY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import tflite as importer
from qnnrt.tflite import Interpreter
from support.tflite import sparse
from support.tflite.builder import ModelBuilder
from support.tflite.damage import mutants
from support.tflite.reference import close, reference, run

F32 = np.float32


def weights(shape: tuple[int, ...], dtype: Any = F32) -> np.ndarray:
    r = np.random.default_rng(3)
    found = r.integers(1, 100, shape) * (r.random(shape) < 0.3)
    return found.astype(dtype) if np.dtype(dtype).kind in "iu" else (found / 16).astype(dtype)


def densified(name: str, dtype: Any = F32, kind: type = np.int32, **more: Any) -> bytes:
    """x + DENSIFY(weights)"""
    shape, order, compressed, blocks = sparse.FORMS[name]
    b = ModelBuilder()
    x = b.input(shape, F32)
    given = sparse.const(b, weights(shape, dtype), order, compressed, blocks, kind, **more)
    (w,) = b.op("DENSIFY", [given], [(shape, dtype)], "DensifyOptions")
    if more:
        b.graph.tensors[w].quantization = b.graph.tensors[given].quantization
    if dtype != F32:
        (w,) = b.op("DEQUANTIZE", [w], [(shape, F32)], "DequantizeOptions")
    b.output(*b.op("ADD", [x, w], [(shape, F32)], "AddOptions"))
    return b.build()


@pytest.mark.parametrize("name", sparse.FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_densify_gives_is_what_tflite_gives(name: str, dtype: Any) -> None:
    data = densified(name, dtype)
    x = np.random.default_rng(0).normal(size=sparse.FORMS[name][0]).astype(F32)
    (found,) = run(importer.load(data), [x])
    np.testing.assert_array_equal(found, x + weights(x.shape, dtype).astype(F32))
    close(found, reference(data, [x])[0])


@pytest.mark.parametrize("kind", [np.uint16, np.uint8])
def test_indices_have_the_integers_of_the_file(kind: type) -> None:
    data = densified("blocks of 2x4", kind=kind)
    x = np.zeros((6, 8), F32)
    np.testing.assert_array_equal(run(importer.load(data), [x])[0], weights((6, 8)))


def test_of_integers_with_a_scale() -> None:
    data = densified("rows", np.int8, scale=0.25)
    x = np.zeros((6, 8), F32)
    (found,) = run(importer.load(data), [x])
    np.testing.assert_array_equal(found, weights((6, 8), np.int8) * F32(0.25))
    close(found, reference(data, [x])[0])


def test_a_product_reads_sparse_weights_itself() -> None:
    b = ModelBuilder()
    x = b.input((2, 8))
    w = sparse.const(b, weights((6, 8)), (0, 1, 2), (1,), {1: 4})
    b.output(*b.op("FULLY_CONNECTED", [x, w, -1], [((2, 6), F32)], "FullyConnectedOptions"))
    data = b.build()
    given = np.random.default_rng(1).normal(size=(2, 8)).astype(F32)
    (found,) = run(importer.load(data), [given])
    close(found, given @ weights((6, 8)).T)
    close(found, reference(data, [given])[0])
    with Interpreter(model_content=data) as interpreter:
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, given)
        interpreter.invoke()
        close(interpreter.get_tensor(b.graph.outputs[0]), found)


def test_dense_weights_pack_as_those_that_were_dense() -> None:
    """Nothing of the sparse form is left in a session."""
    model = importer.load(densified("rows"))
    assert [n.type for n in model.nodes] == ["ElementWiseAdd"]


Change = Callable[[Any], None]


def _segments(values: list[int]) -> Change:
    def change(tensor: Any) -> None:
        tensor.sparsity.dimMetadata[1].arraySegments.values = np.array(values, np.int32)

    return change


def _index(tensor: Any) -> None:
    indices = tensor.sparsity.dimMetadata[1].arrayIndices.values
    indices[0] = 8


def _traversal(order: list[int]) -> Change:
    def change(tensor: Any) -> None:
        tensor.sparsity.traversalOrder = order

    return change


def _dense(size: int) -> Change:
    def change(tensor: Any) -> None:
        tensor.sparsity.dimMetadata[0].denseSize = size

    return change


def _no_indices(tensor: Any) -> None:
    tensor.sparsity.dimMetadata[1].arrayIndices = None
    tensor.sparsity.dimMetadata[1].arrayIndicesType = 0


def _blocks(tensor: Any) -> None:
    tensor.sparsity.blockMap = [5]


DAMAGE: dict[str, tuple[Change, str]] = {
    "segments that are too few": (_segments([0, 3]), "do not divide"),
    "segments that go back": (_segments([0, 9, 1, 4, 5, 6, 7]), "do not divide"),
    "an index outside": (_index, "an index outside of its 8"),
    "a dimension twice": (_traversal([0, 0]), "sparse in dimensions that it does not have"),
    "a dimension that is missing": (_traversal([0]), "sparse in dimensions"),
    "another size": (_dense(1 << 30), "1073741824 indices for 6"),
    "no indices": (_no_indices, "no ArrayIndices"),
    "blocks of no dimension": (_blocks, "sparse in dimensions"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_error(name: str) -> None:
    change, said = DAMAGE[name]
    b = ModelBuilder()
    x = b.input((6, 8))
    given = sparse.const(b, weights((6, 8)), (0, 1), (1,))
    change(b.graph.tensors[given])
    b.output(*b.op("ADD", [x, given], [((6, 8), F32)], "AddOptions"))
    with pytest.raises(ModelError, match=said):
        importer.load(b.build())


def test_fewer_elements_than_places() -> None:
    b = ModelBuilder()
    x = b.input((6, 8))
    given = sparse.const(b, weights((6, 8)), (0, 1), (1,))
    buffer = b.model.buffers[b.graph.tensors[given].buffer]
    buffer.data = buffer.data[:-4]
    b.output(*b.op("ADD", [x, given], [((6, 8), F32)], "AddOptions"))
    with pytest.raises(ModelError, match="and says where"):
        importer.load(b.build())


def test_a_damaged_file_is_a_model_error_or_loads() -> None:
    refused = 0
    for data in mutants(densified("blocks of 2x4", kind=np.uint8), 20261127, 60):
        try:
            importer.load(data)
        except ModelError:
            refused += 1
    assert refused > 5


def test_a_tensor_of_zeros_is_counted_before_it_is_made() -> None:
    """A few bytes stand for a large constant: the limits are those of any other."""
    b = ModelBuilder()
    shape = (4096, 8192)
    x = b.input(shape)
    w = sparse.const(b, np.zeros((4096, 1), F32), (0, 1), (1,))
    tensor = b.graph.tensors[w]
    tensor.shape, tensor.sparsity.dimMetadata[1].denseSize = list(shape), shape[1]
    b.output(*b.op("ADD", [x, w], [(shape, F32)], "AddOptions"))
    with pytest.raises(ModelError, match="constant_bytes"):
        importer.load(b.build())
    importer.load(b.build(), limits=qnnrt.Limits(constant_bytes=2**28))
