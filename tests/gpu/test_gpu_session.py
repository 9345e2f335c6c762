"""Sessions on the gpu backend: results, memory used in place, copies counted."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support import reference
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.toy import F32, add_model, relu_model, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def attention(batch: int = 2, rows: int = 5, width: int = 7) -> Model:
    """softmax(q k^T * scale) v + bias, with an activation behind it."""
    rng = np.random.default_rng(0)
    bias = rng.standard_normal(width).astype(np.float32)
    names = ("q", "k", "v")
    square, full = (batch, rows, rows), (batch, rows, width)
    return Model(
        "attention",
        tensors(
            *(Tensor(n, full, F32) for n in names),
            Tensor("scale", (1,), F32, np.float32([0.25])),
            Tensor("bias", (width,), F32, bias),
            *(Tensor(n, square, F32) for n in ("scores", "scaled", "weights")),
            *(Tensor(n, full, F32) for n in ("mixed", "sum", "y")),
        ),
        [
            Node("qk", "MatMul", ["q", "k"], ["scores"], {"transpose_in1": True}),
            Node("scale", "ElementWiseMultiply", ["scores", "scale"], ["scaled"]),
            Node("softmax", "Softmax", ["scaled"], ["weights"]),
            Node("mix", "MatMul", ["weights", "v"], ["mixed"]),
            Node("bias", "ElementWiseAdd", ["mixed", "bias"], ["sum"]),
            Node("tanh", "Tanh", ["sum"], ["y"]),
        ],
        [*names],
        ["y"],
    )


def feeds(model: Model, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(model.tensors[n].shape, np.float32) for n in model.inputs}


def test_a_graph_gives_what_the_cpu_gives() -> None:
    model = attention()
    given = feeds(model)
    with qnnrt.Session(model, "cpu") as s:
        expected = s.run(given)
    with qnnrt.Session(model, "gpu") as s:
        for _ in range(2):
            got = s.run(given)
            np.testing.assert_allclose(got["y"], expected["y"], rtol=1e-5, atol=1e-6)
        assert s.backend.id == 4
        counts = s.backend.library.gpu_counts(s.graph.handle)
        assert counts["executes"] == 2
        assert counts["kernels"] > 2


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((1,), (2, 2)), ((2, 3, 1), (1, 1, 5))]
)
def test_operands_are_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    shape = np.broadcast_shapes(a, b)
    model = Model(
        "broadcast",
        tensors(Tensor("a", a, F32), Tensor("b", b, F32), Tensor("y", shape, F32)),
        [Node("sub", "ElementWiseSubtract", ["a", "b"], ["y"])],
        ["a", "b"],
        ["y"],
    )
    given = feeds(model)
    with qnnrt.Session(model, "gpu") as s:
        np.testing.assert_array_equal(s.run(given)["y"], given["a"] - given["b"])


def test_softmax_along_an_inner_axis() -> None:
    model = Model(
        "softmax",
        tensors(Tensor("x", (2, 3, 4), F32), Tensor("y", (2, 3, 4), F32)),
        [Node("softmax", "LogSoftmax", ["x"], ["y"], {"axis": np.uint32(1)})],
        ["x"],
        ["y"],
    )
    given = feeds(model)
    with qnnrt.Session(model, "gpu") as s:
        got = s.run(given)["y"]
    np.testing.assert_allclose(got, reference.run(model, given)["y"], rtol=1e-5, atol=1e-6)


def test_nothing_is_copied_where_the_device_shares_memory() -> None:
    with qnnrt.Session(add_model(), "gpu", strict=True) as s:
        if not s.backend.library.device.shared:
            pytest.skip("the device has memory of its own")
        for name, t in s.inputs.items():
            t.array[...] = {"a": 2, "b": -5}[name]
        s.run()
        assert (s.outputs["w"].array == -3).all()
        assert (s.outputs["z"].array == 0).all()
        counts = s.backend.library.gpu_counts(s.graph.handle)
        assert (counts["writes"], counts["reads"]) == (0, 0)
        assert s.stats.copied_bytes == 0
        assert s.io == "memhandle"
        for t in (*s.inputs.values(), *s.outputs.values()):
            handle = t.handle
            assert isinstance(handle, gpu.OpenCLHandle)
            with handle.map() as mapped:  # the device's view is the buffer itself
                assert mapped.ctypes.data == t.buffer.address


def test_raw_memory_is_staged_and_counted() -> None:
    with qnnrt.Session(relu_model(), "gpu", io="raw") as s:
        s.inputs["x"].array[...] = -1
        s.run()
        s.inputs["x"].array[...] = 2
        s.run()
        assert (s.outputs["y"].array == 2).all()
        found = {(c.tensor, c.direction, c.nbytes) for c in s.stats.copies}
        assert found == {("x", "in", 128), ("y", "out", 128)}
        assert s.stats.reserved_bytes == 128
        assert s.stats.reserved_at == "execute"
        s.reset_stats()
        assert s.stats.copied_bytes == 0


def test_memory_is_bound_anew_between_runs() -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        for value in (1, 2, 3):
            x = qnnrt.alloc_array((1, 16), np.float32)
            x[...] = value
            s.inputs["x"].bind(x)
            s.run()
            assert (s.outputs["y"].array == value).all()


def test_asynchronous_runs() -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.inputs["x"].array[...] = 4
        for future in [s.run_async() for _ in range(5)]:
            future.result()
        assert (s.outputs["y"].array == 4).all()
        assert s.stats.executes == 5


def buffer_model() -> Model:
    """An op that keeps state between runs, which no kernel of the gpu backend does."""
    shapes = {"x": (1, 4), "y": (3, 4)}
    params = {"buffer_size": 3, "buffer_dim": 0, "stride": 1}
    return Model(
        "stream",
        tensors(*(Tensor(name, shape, F32) for name, shape in shapes.items())),
        [Node("keep", "Buffer", ["x"], ["y"], params)],
        ["x"],
        ["y"],
    )


def test_every_node_without_a_kernel_is_named() -> None:
    with pytest.raises(qnnrt.UnsupportedOpError, match="no such operation") as e:
        qnnrt.Session(buffer_model(), "gpu")
    assert [(n.name, n.op) for n in e.value.nodes] == [("keep", "Buffer")]


def test_floats_of_16_bits_are_read_and_written_by_every_device() -> None:
    with qnnrt.Session(relu_model(dtype=np.dtype(np.float16)), "gpu") as s:
        x = np.linspace(-2, 2, 16, dtype=np.float16).reshape(1, 16)
        np.testing.assert_array_equal(s.run({"x": x})["y"], np.maximum(x, 0))
        s.backend.close()


def test_wrong_shapes_are_refused_as_on_the_cpu() -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        graph = s.context.create_graph("wrong")
        x = graph.add_tensor("x", (2, 3), F32, type="app_write")
        y = graph.add_tensor("y", (3, 3), F32, type="app_read")
        with pytest.raises(qnnrt.QnnError, match="comes out as"):
            graph.add_node("relu", "Relu", [x], [y])


def test_a_device_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QNNRT_GPU_DEVICE", "no such device")
    with pytest.raises(qnnrt.BackendNotFoundError, match="no OpenCL device has 'no such device'"):
        qnnrt.qnn.Backend.open("gpu")
    with pytest.raises(ValueError, match="unknown gpu option 'colour'"):
        qnnrt.Session(relu_model(), "gpu", options={"gpu": {"colour": 1}})
    with pytest.raises(ValueError, match="option 'gpu' is for GPU backends, which CPU"):
        qnnrt.Session(relu_model(), "cpu", options={"gpu": {}})
