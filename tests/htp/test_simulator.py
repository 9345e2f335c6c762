"""A backend nobody here wrote: the vendor's HTP simulator, driven through the same Session."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from support import reference
from support.toy import add_model, conv_model, relu_model
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def simulator() -> str:
    return vendor_library("libQnnHtp.so")


def test_it_is_what_it_says(simulator):
    with qnn.Backend.open(simulator, log_level="error") as backend:
        assert backend.name == "HTP_QTI_AISW"
        assert backend.id == 6
        assert backend.version.core[0] == 2
        assert backend.has_device
        assert not backend.library.has_extensions
        assert "Conv2d" in backend.supported_ops


def test_a_float_graph_matches_our_cpu_backend(simulator):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
    with qnnrt.Session(add_model(), io="raw") as ours:
        expected = ours.run({"a": a, "b": b})
    with qnnrt.Session(add_model(), simulator, io="raw") as s:
        got = s.run({"a": a, "b": b})
        assert list(got) == ["w", "z"]
        for name in expected:
            np.testing.assert_allclose(got[name], expected[name], 1e-3, 1e-3)
        assert s.stats.executes == 1
        assert s.stats.execute_seconds > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_convolution_matches_our_cpu_backend(simulator, seed):
    model = conv_model(seed)
    x = np.random.default_rng(seed + 50).standard_normal((1, 8, 8, 8)).astype(np.float32)
    with qnnrt.Session(model) as ours:
        expected = ours.run({"x": x})["y"]
    with qnnrt.Session(model, simulator, io="raw") as s:
        s.inputs["x"].array[...] = x
        for _ in range(3):
            s.run()
        np.testing.assert_allclose(s.outputs["y"].array, expected, 2e-3, 2e-3)
        np.testing.assert_allclose(
            s.outputs["y"].array, reference.run(model, {"x": x})["y"], 2e-3, 2e-3
        )


def test_memory_handles_that_it_lacks_are_a_warning_once_and_an_error_under_strict(simulator):
    from qnnrt.session import memory

    memory._warned.discard(simulator)
    with pytest.raises(qnnrt.CopyError, match="takes no memory handles"):
        qnnrt.Session(relu_model(), simulator, strict=True)
    with pytest.warns(RuntimeWarning, match="takes no memory handles") as caught:
        first = qnnrt.Session(relu_model(), simulator)
    assert caught[0].filename == __file__  # it points at the caller
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = qnnrt.Session(relu_model(), simulator)
    for s in (first, second):
        assert s.io == "raw"
        assert s.inputs["x"].handle is None
        assert "QNN_MEM_ERROR_NOT_SUPPORTED" in (s.stats.fallback or "")
        s.inputs["x"].array[...] = -1
        s.run()
        assert (s.outputs["y"].array == 0).all()
        s.close()


def test_strict_takes_raw_memory_where_no_handle_could_save_the_copy(simulator):
    with qnnrt.Session(relu_model(), simulator, io="raw", strict=True) as s:
        s.run()
        assert s.stats.executes == 1


def test_options_of_our_own_are_refused(simulator):
    for options in ({"threads": 2}, {"options": {"kernels": "portable"}}):
        with pytest.raises(ValueError, match="not qnnrt's own"):
            qnnrt.Session(relu_model(), simulator, io="raw", **options)


def test_its_errors_have_its_codes_and_the_next_call_works(simulator):
    with qnn.Backend.open(simulator, log_level="error") as backend:
        context = backend.create_context()
        graph = context.create_graph("bad")
        x = graph.add_tensor("x", (1, 4), np.float32, type="app_write")
        y = graph.add_tensor("y", (1, 4), np.float32, type="app_read")
        with pytest.raises(qnnrt.BackendError) as e:
            backend.validate_op("NoSuchOp", [x], [y])
        assert e.value.code == 4005
        good = context.create_graph("good")
        x = good.add_tensor("x", (1, 4), np.float32, type="app_write")
        y = good.add_tensor("y", (1, 4), np.float32, type="app_read")
        good.add_node("relu", "Relu", [x], [y])
        good.finalize()
        out = np.full((1, 4), np.nan, np.float32)
        good.execute([np.array([[-1, 2, -3, 4]], np.float32)], [out])
        assert out.tolist() == [[0, 2, 0, 4]]


def test_it_profiles_in_its_own_events(simulator):
    with qnnrt.Session(relu_model(), simulator, io="raw") as s:
        events = s.profile("basic")
        assert any(event.kind == "execute" for event in events)
        assert any(event.kind.startswith("backend") for event in events)


def test_its_context_binary_comes_back(simulator):
    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(1, 16)
    with qnnrt.Session(relu_model(), simulator, io="raw") as s:
        binary = s.context.binary()
        assert len(binary) > 1000
        ids = {t.name: t.id for t in (*s.graph.inputs, *s.graph.outputs)}
        with qnn.Context.from_binary(s.backend, binary) as context:
            graph = context.graph("relu")
            # its libQnnSystem.so says what the graph takes
            assert {t.name: t.id for t in (*graph.inputs, *graph.outputs)} == ids
            y = np.zeros((1, 16), np.float32)
            graph.execute([x], [y])
            assert y.tolist() == np.maximum(x, 0).tolist()
    with (
        qnn.Backend.open(simulator, log_level="error") as backend,
        pytest.raises(qnnrt.QnnError),
    ):
        qnn.Context.from_binary(backend, binary[: len(binary) // 2])
