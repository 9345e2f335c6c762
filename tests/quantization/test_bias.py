"""A constant bias of 32 bits may have any scale: its real number is added, whatever that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from qnnrt import Session, qnn
from qnnrt.errors import QnnError, TensorError, UnsupportedOpError
from qnnrt.model import Quantization
from support.htp import cases as htp_cases
from support.htp.process import run_cases
from support.htp.spec import Act, Bias, Spec, Weight
from support.htp.sweep import DEVICE, Trial, compare, trial_of
from support.one_node import KERNELS, Outcome, graph_options, outcome, run_op
from support.vendor import vendor_library

#: Of the bias, in those of input x weight.
STEPS = (1e-3, 0.37, 1.7, 290.0)
KINDS = (("u8", "s8"), ("s8", "u8"), ("u16", "s8"), ("s16", "s8"), ("u8", "s8 per channel"),
         ("u16", "s8 per channel"))  # fmt: skip


def specs() -> Iterator[Spec]:
    """Each form of each product that takes a bias, which has other scales."""
    matmul = Spec("MatMul", [Act((2, 8, 32)), Weight((32, 16), 1), Bias((16,))], [(2, 8, 16)])
    for i, spec in enumerate([*htp_cases.conv(), matmul]):
        for j, along in enumerate((False, True)):
            bias = [isinstance(p, Bias) for p in spec.inputs]
            if True in bias:
                inputs = list(spec.inputs)
                shape = inputs[bias.index(True)].shape
                inputs[bias.index(True)] = Bias(shape, STEPS[(i + 2 * j) % len(STEPS)], along)
                yield replace(spec, inputs=inputs)


def trials(kinds: tuple[tuple[str, str], ...] = KINDS) -> list[Trial]:
    with qnn.Backend.open("cpu") as cpu:
        return [
            trial_of(cpu, spec, form, type, weights)
            for form, spec in enumerate(specs())
            for type, weights in kinds
        ]


@pytest.mark.parametrize("name", ["cpu", "htp", "lpai"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_product_adds_the_real_number_that_its_bias_stands_for(name: str, kernels: str) -> None:
    ran = 0
    with qnn.Backend.open(name) as backend:
        for trial in trials():
            case = trial.case
            try:
                session = Session(case.model, backend, options={"kernels": kernels})
            except UnsupportedOpError:
                assert name == "lpai"
                continue
            with session:
                results = session.run(case.feeds)
            found = Outcome("ran", outputs=[results[name] for name in case.model.outputs])
            cell = compare(trial, found, found)
            assert cell.ours < 0.55, (trial.label, trial.type, trial.weights, cell)
            ran += 1
    assert ran >= 20


@pytest.mark.foreign
def test_the_simulator_takes_it_and_adds_the_same_rounded_to_products() -> None:
    made = [t for t in trials(KINDS[:2]) if not t.case.model.nodes[0].type.endswith("1d")]
    theirs = run_cases(vendor_library("libQnnHtp.so"), [t.case for t in made], **DEVICE)
    compared = 0
    with qnn.Backend.open("htp") as backend:
        for trial, their in zip(made, theirs, strict=True):
            if their.stage != "ran":
                continue
            along = trial.case.model.tensors["in2"].quantization
            assert along is not None
            cell = compare(trial, their, outcome(backend, trial.case))
            assert cell.verdict != "refused here", (trial.label, cell)
            if along.axis is None:
                # A product is less than a step of these outputs.
                assert cell.worst <= 1, (trial.label, trial.type, cell)
                compared += 1
    assert compared >= 8


def test_a_bias_as_large_as_its_type_ends_at_the_outputs_limits() -> None:
    with qnn.Backend.open("cpu") as backend:
        for type, weights in KINDS:
            inputs = [Act((4, 64)), Weight((8, 64), 0), Bias((8,), 1e6, False)]
            spec = Spec("FullyConnected", inputs, [(4, 8)], range=(-4, 4))
            trial = trial_of(backend, spec, 0, type, weights)
            data = trial.case.model.tensors["in2"].data
            assert data is not None
            data[:] = np.resize([2**31 - 1, -(2**31)], 8)
            for kernels in KERNELS:
                found = outcome(backend, trial.case, graph_options(kernels, 2))
                assert found.stage == "ran", found.text
                ends = np.iinfo(found.outputs[0].dtype)
                assert (found.outputs[0][:, ::2] == ends.max).all()
                assert (found.outputs[0][:, 1::2] == ends.min).all()


def products(backend: qnn.Backend, scale_is_open: bool) -> list[np.ndarray]:
    """Products of one input with weights of one scale and of several, which add one bias. Its
    scale is that of each product: said, or left open as 0 by a tensor that both share."""
    rng = np.random.default_rng(5)
    q = Quantization(0.05, -7)
    bias = rng.integers(-900, 900, 6, dtype=np.int32)
    many = rng.uniform(1e-3, 1e-1, 6).astype(np.float32)
    with backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (2, 8), np.uint8, type="app_write", quantization=q)
        shared = graph.add_tensor(
            "b", (6,), np.int32, type="static", data=bias, quantization=Quantization(0.0, 0)
        )
        for i, (scales, axis) in enumerate(((np.float32(0.01), None), (many, 0))):
            data = rng.integers(-127, 128, (6, 8), dtype=np.int8)
            w = graph.add_tensor(
                f"w{i}", data.shape, data.dtype, type="static", data=data,
                quantization=Quantization(scales, 0, axis=axis),
            )  # fmt: skip
            said = Quantization(np.float32(q.scale) * scales, 0, axis=axis)
            added = shared if scale_is_open else graph.add_tensor(
                f"b{i}", (6,), np.int32, type="static", data=bias, quantization=said
            )  # fmt: skip
            y = graph.add_tensor(
                f"y{i}", (2, 6), np.uint8, type="app_read", quantization=Quantization(0.2, -128)
            )
            graph.add_node(f"n{i}", "FullyConnected", [x, w, added], [y])
        graph.finalize()
        found = [np.empty((2, 6), np.uint8) for _ in range(2)]
        graph.execute([rng.integers(0, 256, (2, 8), dtype=np.uint8)], found)
        return found


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_a_bias_of_scale_0_has_the_scale_of_the_products(name: str) -> None:
    with qnn.Backend.open(name) as backend:
        found, wanted = products(backend, True), products(backend, False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        assert len(np.unique(a)) > 2


def test_no_other_tensor_has_the_scale_0() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        open_scale = Quantization(0.0, 0)
        with pytest.raises(TensorError, match="scale is 0"):
            graph.add_tensor("x", (6,), np.int32, type="app_write", quantization=open_scale)
        data = np.arange(6, dtype=np.int32)
        x = graph.add_tensor("b", (6,), np.int32, type="static", data=data, quantization=open_scale)
        y = graph.add_tensor("y", (6,), np.float32, type="app_read")
        with pytest.raises(QnnError, match="scale is 0"):
            graph.add_node("n", "Dequantize", [x], [y])


def transposed(scales: np.ndarray) -> np.ndarray:
    """A transposed convolution of two groups of three outputs, whose bias has these scales."""

    def along(values: np.ndarray, axis: int) -> Quantization:
        return Quantization(values.astype(np.float32), np.zeros(len(values), np.int32), axis=axis)

    x = np.array([1, 1, 1, 2, 2, 2], np.uint8).reshape(1, 1, 1, 6)
    weights = np.full((1, 1, 6, 3), 10, np.int8)
    bias = np.array([100, 100, 100, 200, 200, 200], np.int32)
    params = {"stride": np.ones(2, np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    encodings = {
        "in0": Quantization(0.5, 0),
        "in1": along(np.array([0.1, 0.2, 0.4]), 3),
        "in2": along(scales, 0),
        "out0": Quantization(0.5, 0),
    }
    (y,) = run_op(
        "TransposeConv2d",
        [x, weights, bias],
        [x.shape],
        params | {"group": np.uint32(2)},
        static=(1, 2),
        encodings=encodings,
    )
    return y.ravel()


def test_scales_of_one_group_are_those_of_every_group() -> None:
    """As a transposed convolution's weights have them, and clients give them to its bias."""
    scales = np.array([0.05, 0.1, 0.2])
    wanted = np.repeat([1, 2], 3) * (np.tile([1.5, 3, 6], 2) + np.tile([5.0, 10, 20], 2))
    for given in (scales, np.tile(scales, 2)):
        np.testing.assert_array_equal(transposed(given), wanted * 2)
    with pytest.raises(TensorError, match="4 scales along axis 0, which has size 6"):
        transposed(np.full(4, 0.05))
