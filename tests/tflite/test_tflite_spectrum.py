"""Fourier transforms of real numbers, with which networks for sound begin, beside TFLite's."""

from __future__ import annotations

import resource

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from qnnrt.tflite import Interpreter
from support.tflite.builder import ModelBuilder
from support.tflite.reference import close, reference, run
from support.tflite.spectrum import FORMS, READERS, complex_tensor, model, transformed

F32 = np.float32


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FORMS)
def test_a_transform_is_tflites(name: str, reader: str) -> None:
    data = model(name, reader)
    x = np.random.default_rng(0).normal(size=FORMS[name][0]).astype(F32)
    (found,) = run(importer.load(data), [x])
    (theirs,) = reference(data, [x])
    assert found.shape == theirs.shape
    exact = np.fft.rfft2(x.astype(np.float64), FORMS[name][1])
    wanted = {"IMAG": exact.imag, "COMPLEX_ABS": np.abs(exact)}.get(reader, exact.real)
    largest = np.abs(exact).max()
    np.testing.assert_allclose(found, theirs, atol=2e-6 * largest)
    np.testing.assert_allclose(found, wanted, atol=2e-6 * largest)


def test_what_moves_elements_moves_both_parts() -> None:
    """As TensorFlow writes it: a dimension of 1 is added before, and taken away behind."""
    b = ModelBuilder()
    x = b.input((3, 16))
    (rows,) = b.op("RESHAPE", [x, b.const(np.array([3, 1, 16], np.int32))],
                   [((3, 1, 16), F32)], "ReshapeOptions")  # fmt: skip
    found = transformed(b, rows, (3, 1, 16), (1, 16))
    (flat,) = b.op("SQUEEZE", [found], [complex_tensor(b, (3, 9))], "SqueezeOptions",
                   squeezeDims=[1])  # fmt: skip
    (turned,) = b.op("TRANSPOSE", [flat, b.const(np.array([1, 0], np.int32))],
                     [complex_tensor(b, (9, 3))], "TransposeOptions")  # fmt: skip
    (part,) = b.op("SLICE",
                   [turned, *(b.const(np.array(v, np.int32)) for v in ([2, 0], [4, 3]))],
                   [complex_tensor(b, (4, 3))], "SliceOptions")  # fmt: skip
    b.output(*b.op("COMPLEX_ABS", [part], [((4, 3), F32)]))
    b.output(*b.op("IMAG", [flat], [((3, 9), F32)]))
    given = np.random.default_rng(1).normal(size=(3, 16)).astype(F32)
    magnitude, imaginary = run(importer.load(b.build()), [given])
    exact = np.fft.rfft(given.astype(np.float64))
    np.testing.assert_allclose(magnitude, np.abs(exact).T[2:6], atol=1e-5)
    np.testing.assert_allclose(imaginary, exact.imag, atol=1e-5)


def _complex_product() -> bytes:
    b = ModelBuilder()
    found = transformed(b, b.input((1, 1, 16)), (1, 1, 16), (1, 16))
    (product,) = b.op("MUL", [found, found], [complex_tensor(b, (1, 1, 9))], "MulOptions")
    b.output(*b.op("REAL", [product], [((1, 1, 9), F32)]))
    return b.build()


def test_arithmetic_on_complex_numbers_is_refused() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        importer.load(_complex_product())
    assert [(n.op, "complex numbers" in n.reason) for n in caught.value.nodes] == [("MUL", True)]


def test_complex_outputs_and_inputs_are_refused() -> None:
    b = ModelBuilder()
    b.output(transformed(b, b.input((1, 1, 16)), (1, 1, 16), (1, 16)))
    with pytest.raises(ModelError, match="complex64"):
        importer.load(b.build())
    b = ModelBuilder()
    x = complex_tensor(b, (1, 4))
    b.graph.inputs.append(x)
    b.output(*b.op("REAL", [x], [((1, 4), F32)]))
    with pytest.raises(ModelError, match="complex64"):
        importer.load(b.build())


def test_a_length_that_is_none_is_one_error() -> None:
    b = ModelBuilder()
    b.output(*b.op("REAL", [transformed(b, b.input((1, 1, 16)), (1, 1, 16), (1, 0))],
                   [((1, 1, 1), F32)]))  # fmt: skip
    with pytest.raises(ModelError, match="a length of 0"):
        importer.load(b.build())


def test_a_long_transform_is_refused_before_its_matrix_is_made() -> None:
    """Of 8 GB, which a few hundred bytes ask for."""
    length = 1 << 16
    b = ModelBuilder()
    found = transformed(b, b.input((1, 1, length)), (1, 1, length), (1, length))
    b.output(*b.op("REAL", [found], [((1, 1, length // 2 + 1), F32)]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="constant_bytes"):
        importer.load(b.build())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 1024  # KiB


def test_the_interpreter_says_what_it_leaves() -> None:
    """It computes operators in parts, and complex tensors cannot lie between them."""
    with pytest.raises(UnsupportedOpError, match="complex"):
        Interpreter(model_content=model("a frame", "REAL")).allocate_tensors()


def test_a_part_without_elements() -> None:
    """tf.signal.frame splits shapes so; what is split may be known or not."""
    sizes = [2, 0, 1]
    for known in (True, False):
        b = ModelBuilder()
        x = b.input((3, 4))
        split = b.const(np.arange(12, dtype=F32).reshape(3, 4)) if known else x
        first, none, last = b.op(
            "SPLIT_V",
            [split, b.const(np.array(sizes, np.int32)), b.const(np.array(0, np.int32))],
            [((s, 4), F32) for s in sizes], "SplitVOptions", numSplits=3,
        )  # fmt: skip
        (joined,) = b.op("CONCATENATION", [none, last, first], [((3, 4), F32)],
                         "ConcatenationOptions", axis=0)  # fmt: skip
        b.output(*b.op("ADD", [joined, x], [((3, 4), F32)], "AddOptions"))
        data = b.build()
        given = np.random.default_rng(5).normal(size=(3, 4)).astype(F32)
        (found,) = run(importer.load(data), [given])
        close(found, reference(data, [given])[0])
