"""OpenCL buffers as memory handles: what can be registered, how long it lives, what is refused."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from qnnrt._native.descriptor import OPENCL_STRUCT, MemDescriptor
from qnnrt.gpu import imports
from qnnrt.gpu.ops import arg
from qnnrt.model import Model, Node, Tensor
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import add_model, relu_model, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are

RW = cl.mem_flags.READ_WRITE
F32 = np.dtype(np.float32)


@pytest.fixture
def session() -> Iterator[qnnrt.Session]:
    with qnnrt.Session(relu_model(), "gpu") as s:
        yield s
    s.backend.close()  # pytest keeps the session, and so its backend, for longer
    assert _core.gpu_counts() == {"handles": 0, "lists": 0}


def of(session: qnnrt.Session, nbytes: int = 64, flags: int = RW) -> Any:
    return cl.Buffer(session.backend.cl_context, flags, nbytes)


def register(session: qnnrt.Session, buffer: Any, shape: Any = (1, 16), dtype: Any = F32) -> Any:
    return session.context.register(buffer, shape, dtype, kind="opencl")


def test_one_buffer_has_one_handle(session: qnnrt.Session) -> None:
    buffer = of(session)
    with register(session, buffer) as handle:
        with pytest.raises(qnnrt.MemError, match=r"ALREADY.*registered already.*one handle") as e:
            register(session, buffer)
        assert e.value.code == 8002
        with pytest.raises(qnnrt.MemError) as e:
            register(session, buffer, (4, 4))
        assert e.value.code == 8002
        assert session.context.get_or_register(of(session), 16, F32, kind="opencl") is not handle
    with register(session, buffer):  # free again
        pass


def test_get_or_register_finds_the_handle_of_a_buffer(session: qnnrt.Session) -> None:
    buffer = of(session)
    handle = session.context.get_or_register(buffer, (1, 16), F32, kind="opencl")
    again = cl.Buffer.from_int_ptr(buffer.int_ptr)  # another object, the same buffer
    assert session.context.get_or_register(again, (1, 16), F32, kind="opencl") is handle


def test_a_buffer_that_is_too_small(session: qnnrt.Session) -> None:
    with pytest.raises(qnnrt.MemError, match=r"needs 68 bytes, the OpenCL buffer has 64") as e:
        register(session, of(session), (17,))
    assert e.value.code == 8000


def test_a_buffer_of_another_context(session: qnnrt.Session) -> None:
    other = cl.Context([session.backend.library.device.raw])
    buffer = cl.Buffer(other, RW, 64)
    with pytest.raises(qnnrt.MemError, match="belongs to another OpenCL context") as e:
        register(session, buffer)
    assert e.value.code == 8000


def test_memory_where_a_cpu_cannot_read_vectors(session: qnnrt.Session) -> None:
    library: Any = session.backend.library
    if not imports.coherent(library.device):
        pytest.skip("the device is no CPU")
    memory = qnnrt.alloc(4096)
    flags = RW | cl.mem_flags.USE_HOST_PTR
    for offset in (4, 16, 32):
        x = memory.array((1, 16), F32, offset)
        on_host = cl.Buffer(session.backend.cl_context, flags, hostbuf=x)
        with pytest.raises(qnnrt.MemError, match="multiple of 64; make the buffer on") as e:
            register(session, on_host)
        assert e.value.code == 8000
        with pytest.raises(qnnrt.MemError, match="an address that is a multiple of 64, not") as e:
            session.inputs["x"].bind(x)
        assert e.value.code == 8005
    x = memory.array((1, 16), F32, 64)
    x[...] = 3
    session.inputs["x"].bind(x)
    session.run()
    np.testing.assert_array_equal(session.outputs["y"].array, x)


def test_what_the_kernels_may_do_with_a_buffer(session: qnnrt.Session) -> None:
    session.inputs["x"].bind(of(session, flags=cl.mem_flags.WRITE_ONLY))
    with pytest.raises(qnnrt.GraphError, match=r"kernels read it, .* WRITE_ONLY") as e:
        session.run()
    assert e.value.code == 6004
    session.inputs["x"].bind(of(session, flags=cl.mem_flags.READ_ONLY))
    session.outputs["y"].bind(of(session, flags=cl.mem_flags.READ_ONLY))
    with pytest.raises(qnnrt.GraphError, match=r"kernels write it, .* READ_ONLY") as e:
        session.run()
    assert e.value.code == 6004
    session.outputs["y"].bind(of(session, flags=cl.mem_flags.WRITE_ONLY))
    session.run()


def test_an_output_that_another_kernel_reads() -> None:
    """What only kernels may write is refused then, and is none of the others' matter."""
    model = Model(
        "chain",
        tensors(*(Tensor(name, (1, 16), F32) for name in "xyz")),
        [Node("relu", "Relu", ["x"], ["y"]), Node("tanh", "Tanh", ["y"], ["z"])],
        ["x"],
        ["y", "z"],
    )
    apart = {"gpu": {"node_optimizations": False}}
    with qnnrt.Session(model, "gpu", options=apart) as s:
        s.outputs["z"].bind(of(s, flags=cl.mem_flags.WRITE_ONLY))
        s.run()
        s.outputs["y"].bind(of(s, flags=cl.mem_flags.WRITE_ONLY))
        with pytest.raises(qnnrt.GraphError, match=r"'y': kernels read it, .* WRITE_ONLY") as e:
            s.run()
        assert e.value.code == 6004
        s.backend.close()


def test_an_output_that_its_kernel_adds_to() -> None:
    indices = np.zeros((1, 1), np.int32)
    model = Model(
        "sum",
        tensors(
            Tensor("x", (1, 16), F32),
            Tensor("at", (1, 1), np.dtype(np.int32), indices),
            Tensor("updates", (1, 16), F32),
            Tensor("y", (1, 16), F32),
        ),
        [Node("scatter", "ScatterNd", ["x", "at", "updates"], ["y"], {"reduction": 1})],
        ["x", "updates"],
        ["y"],
    )
    with qnnrt.Session(model, "gpu") as s:
        s.outputs["y"].bind(of(s, flags=cl.mem_flags.WRITE_ONLY))
        with pytest.raises(qnnrt.GraphError, match=r"'y': kernels read it, .* WRITE_ONLY"):
            s.run()
        s.backend.close()


def test_an_output_that_its_kernel_keeps_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_FEW", "_MOST_PAIRS"):
        monkeypatch.setattr(arg, limit, 0)
    values, places = Tensor("y", (1, 2), F32), Tensor("i", (1, 2), np.dtype(np.int32))
    model = Model(
        "top",
        tensors(Tensor("x", (1, 16), F32), values, places),
        [Node("top", "TopK", ["x"], ["y", "i"], {"k": 2})],
        ["x"],
        ["y", "i"],
    )
    with qnnrt.Session(model, "gpu") as s:
        s.outputs["y"].bind(of(s, flags=cl.mem_flags.WRITE_ONLY))
        with pytest.raises(qnnrt.GraphError, match=r"'y': kernels read it, .* WRITE_ONLY"):
            s.run()
        s.backend.close()


def test_a_shape_that_is_none(session: qnnrt.Session) -> None:
    with pytest.raises(ValueError, match=r"sizes from 0 on is needed, not \[-1, 16\]"):
        register(session, of(session), (-1, 16))


@pytest.mark.parametrize("kind", ["ion", "shared_buffer", "dma_buf"])
def test_other_kinds_of_memory_are_unsupported(session: qnnrt.Session, kind: str) -> None:
    with (
        qnnrt.alloc(4096) as buffer,
        pytest.raises(qnnrt.MemError, match="takes OpenCL buffers alone") as e,
    ):
        session.context.register(buffer, (1, 16), F32, kind=kind)
    assert e.value.code == 8005


def test_a_handle_keeps_its_buffer(session: qnnrt.Session) -> None:
    x, y = of(session), of(session)
    values = np.linspace(-1, 1, 16, dtype=F32).reshape(1, 16)
    cl.enqueue_copy(session.backend.cl_queue, x, values)
    session.inputs["x"].bind(x)
    session.outputs["y"].bind(y)
    del x, y
    gc.collect()
    session.run()
    handle = session.outputs["y"].handle
    assert isinstance(handle, gpu.OpenCLHandle)
    with handle.map() as array:
        assert array.shape == (1, 16)
        np.testing.assert_array_equal(array, np.maximum(values, 0))


def test_deregistering_twice(session: qnnrt.Session) -> None:
    a, b = register(session, of(session)), register(session, of(session))
    stale = a.handle
    a.close()
    with pytest.raises(qnnrt.MemError, match="1 of the handles") as e:
        session.backend.library.mem_deregister([stale, b.handle])
    assert e.value.code == 8001
    b._detach()
    with pytest.raises(qnnrt.ClosedError):
        session.inputs["x"].bind(a)


def test_a_stale_handle_is_never_another_buffer(session: qnnrt.Session) -> None:
    graph, library = session.graph, session.backend.library
    x, y = register(session, of(session)), register(session, of(session))
    stale = x.handle
    x.close()
    with register(session, of(session)) as new:
        assert new.handle != stale
        with pytest.raises(qnnrt.GraphError, match="not registered on the gpu") as e:
            _core.graph_execute(
                library, graph.handle, [(graph.inputs[0], stale)], [(graph.outputs[0], y.handle)]
            )
        assert e.value.code == 6004
    y.close()


def described(shape: tuple[int, ...], buffer: Any) -> MemDescriptor:
    return MemDescriptor(shape, 0x0232, 2, OPENCL_STRUCT, size=64, address=buffer.int_ptr)


def test_all_or_nothing(session: qnnrt.Session) -> None:
    library = session.backend.library
    good, small = of(session), of(session, 32)
    items = [described((1, 16), b) for b in (good, small)]
    before = _core.gpu_counts()["handles"]
    with pytest.raises(qnnrt.MemError):
        library.mem_register(session.context.handle, items)
    assert _core.gpu_counts()["handles"] == before


def test_a_handle_for_another_shape_of_as_many_elements(session: qnnrt.Session) -> None:
    x, y = register(session, of(session)), register(session, of(session), (4, 4))
    message = r"tensor 'y': .* another shape or type \(it needs float32\[1, 16\], .*float32\[4, 4\]"
    with pytest.raises(qnnrt.GraphError, match=message) as e:
        session.graph.execute([x], [y])
    assert e.value.code == 6004
    with pytest.raises(qnnrt.BindError, match=r"the handle is for float32\[4, 4\]"):
        session.outputs["y"].bind(y)
    x.close(), y.close()


def test_handles_that_a_context_still_has_when_it_ends() -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend:
        context = backend.create_context()
        handle = context.register(
            cl.Buffer(backend.cl_context, RW, 64), (1, 16), F32, kind="opencl"
        )
        context.close()  # closes its handles first
        assert handle.closed
        number = backend.library.context_create(backend.handle, 0, None)
        buffer = cl.Buffer(backend.cl_context, RW, 64)
        backend.library.mem_register(number, [described((16,), buffer)])
        with pytest.warns(ResourceWarning, match="freed with 1 memory handles"):
            backend.library.context_free(number)
    assert _core.gpu_counts() == {"handles": 0, "lists": 0}


class Held:
    """A queue of the client's that runs nothing until it is told to."""

    def __init__(self) -> None:
        context = cl.Context([gpu.devices()[0].raw])
        self.queue = cl.CommandQueue(context)
        self.options = {"gpu": {"context": context, "queue": self.queue}}

    def hold(self) -> None:
        self.gate = cl.UserEvent(self.queue.context)
        cl.enqueue_barrier(self.queue, wait_for=[self.gate])

    def go(self) -> None:
        self.gate.set_status(cl.command_execution_status.COMPLETE)


@pytest.mark.parametrize("what", ["deregister", "map"])
def test_an_execution_that_uses_a_handle_is_waited_for(what: str) -> None:
    held = Held()
    with qnnrt.Session(relu_model(), "gpu", options=held.options) as s:
        x, y = register(s, of(s)), register(s, of(s))
        x.write(np.full((1, 16), 3, F32))
        s.graph.execute([x], [y])
        held.hold()
        seen: list[str] = []

        def execute() -> None:
            s.graph.execute([x], [y])
            seen.append("executed")

        def use() -> None:
            if what == "map":
                with y.map(write=False) as array:
                    assert (array == 3).all()
            else:
                s.context.deregister(y)
            seen.append(what)

        runs = threading.Thread(target=execute)
        runs.start()
        while not s.context._library.memories.in_use(y.handle):
            pass
        uses = threading.Thread(target=use)
        uses.start()
        uses.join(0.05)
        assert uses.is_alive()
        assert not seen
        held.go()
        runs.join()
        uses.join()
        assert sorted(seen) == sorted(["executed", what])
        x.close(), y.close()
        s.backend.close()


def test_mappings_show_the_whole_tensor_and_end(session: qnnrt.Session) -> None:
    handle = register(session, of(session))
    with handle.map(read=False) as array:
        assert (array.shape, array.dtype, array.nbytes) == ((1, 16), F32, 64)
        array[...] = np.arange(16)
        array += 1
    with handle.map(write=False) as array:
        np.testing.assert_array_equal(array[0], np.arange(16) + 1)
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
        kept, total, row = array.copy(), array.sum(), array[0]
    assert (total, kept[0, 0]) == (136, 1)
    uses = [
        lambda: array[0],
        lambda: array + 1,
        lambda: array.sum(),
        lambda: np.maximum(array, 0),
        lambda: np.mean(array),
        lambda: array.shape,
        lambda: array.tobytes(),
        lambda: repr(array),
        lambda: len(row),
        lambda: list(row),
    ]
    for use in uses:
        with pytest.raises(qnnrt.ClosedError, match="mapping of this array has ended"):
            use()
    assert np.asarray(array).size == 0  # and none of the device's memory behind it
    with (
        pytest.raises(ValueError, match="'read', 'write' or both"),
        handle.map(read=False, write=False),
    ):
        pass
    handle.close()
    with pytest.raises(qnnrt.ClosedError), handle.map():
        pass


def test_mappings_at_the_same_time(session: qnnrt.Session) -> None:
    handle = register(session, of(session))
    with handle.map(write=False) as a, handle.map(write=False) as b:
        np.testing.assert_array_equal(a, b)
    for first, second in ((True, False), (False, True), (True, True)):
        with (
            handle.map(write=first),
            pytest.raises(qnnrt.MemError, match="mapped already") as e,
            handle.map(write=second),
        ):
            pass
        assert e.value.code == 1005
    with handle.map():  # what was refused has left nothing behind
        pass
    handle.close()


def test_executing_and_deregistering_while_mapped(session: qnnrt.Session) -> None:
    x, y = register(session, of(session)), register(session, of(session))
    execute = session.graph.execute
    for handle, write in ((x, True), (y, True), (y, False)):
        with handle.map(write=write):
            with pytest.raises(
                qnnrt.QnnError, match=r"tensor '[xy]': .* is mapped: execute after"
            ) as e:
                execute([x], [y])
            assert e.value.code == 1005
            with pytest.raises(qnnrt.MemError, match="are mapped: leave") as f:
                session.context.deregister(handle)
            assert f.value.code == 1005
            with pytest.raises(qnnrt.MemError, match="is mapped: leave"):
                handle.close()
            assert not handle.closed
    with x.map(write=False) as array:  # kernels may read what the client reads
        execute([x], [y])
        assert array.shape == (1, 16)
    session.context.deregister(x, y)


def test_closing_a_buffer_that_is_registered(session: qnnrt.Session) -> None:
    if not session.backend.library.device.shared:
        pytest.skip("the device has memory of its own: no Buffer is registered")
    buffer = session.inputs["x"].buffer
    assert buffer is not None
    with pytest.raises(qnnrt.BufferInUseError, match="memory handle"):
        buffer.close()


def test_the_callers_own_context_and_queue() -> None:
    device = gpu.devices()[0].raw
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    a, b, z, w = (cl.Buffer(context, RW, 128) for _ in range(4))
    ones = np.ones((4, 8), F32)
    cl.enqueue_copy(queue, a, ones)
    cl.enqueue_copy(queue, b, -3 * ones)
    options = {"gpu": {"context": context, "queue": queue}}
    with qnnrt.Session(add_model(), "gpu", options=options) as s:
        for name, buffer in (("a", a), ("b", b), ("z", z), ("w", w)):
            (s.inputs if name in "ab" else s.outputs)[name].bind(buffer)
        s.run()
        counts = s.backend.library.gpu_counts(s.graph.handle)
        assert (counts["kernels"], counts["writes"], counts["reads"]) == (1, 0, 0)
        assert s.stats.copied_bytes == 0
        with pytest.raises(qnnrt.BindError, match="OpenCL buffer"):
            s.outputs["w"].array  # noqa: B018
    got = np.empty((4, 8), F32)
    cl.enqueue_copy(queue, got, w)
    np.testing.assert_array_equal(got, -2 * ones)


def test_a_queue_of_another_context() -> None:
    device = gpu.devices()[0].raw
    context, other = cl.Context([device]), cl.Context([device])
    with pytest.raises(ValueError, match="another OpenCL context"):
        qnnrt.Session(
            relu_model(),
            "gpu",
            options={"gpu": {"context": context, "queue": cl.CommandQueue(other)}},
        )


def test_a_buffer_that_kernels_still_read_is_no_output() -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        types = {"x": "app_write", "n": "native", "y": "app_read", "z": "app_read"}
        x, n, y, z = (graph.add_tensor(t, (8, 8), F32, type=type) for t, type in types.items())
        graph.add_node("squared", "MatMul", [x, x], [n])
        graph.add_node("turned", "Transpose", [n], [y], {"perm": np.array([1, 0], np.uint32)})
        graph.add_node("summed", "Softmax", [n], [z])
        graph.finalize()
        buffers = [cl.Buffer(backend.cl_context, RW, 256) for _ in range(3)]
        a, b, c = (context.register(buffer, (8, 8), F32, kind="opencl") for buffer in buffers)
        values = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)

        def run(*outputs: Any) -> np.ndarray:
            cl.enqueue_copy(backend.cl_queue, buffers[0], values)
            graph.execute([a], list(outputs))
            got = np.empty_like(values)
            cl.enqueue_copy(backend.cl_queue, got, buffers[[a, b, c].index(outputs[0])])
            return got

        np.testing.assert_allclose(run(b, c), (values @ values).T, rtol=1e-4, atol=1e-5)
        for _ in range(2):
            with pytest.raises(qnnrt.GraphError, match="'y' and output 'z' are one OpenCL") as e:
                run(b, b)
        assert e.value.code == 6004
        # The input was read by the first kernel, and the last ones write.
        np.testing.assert_allclose(run(a, c), (values @ values).T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "operands", "params", "expected"),
    [
        ("Relu", 1, {}, lambda x: np.maximum(x, 0)),
        ("ElementWiseMultiply", 2, {}, lambda x: x * x),
        ("Transpose", 1, {"perm": np.array([1, 0], np.uint32)}, None),
        ("MatMul", 2, {}, None),
        ("Softmax", 1, {}, None),
    ],
)
def test_one_kernel_over_its_operand_is_element_wise(
    op: str, operands: int, params: Any, expected: Any
) -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (8, 8), F32, type="app_write")
        y = graph.add_tensor("y", (8, 8), F32, type="app_read")
        graph.add_node("n", op, [x] * operands, [y], params)
        graph.finalize()
        buffer = cl.Buffer(backend.cl_context, RW, 256)
        values = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
        cl.enqueue_copy(backend.cl_queue, buffer, values)
        handle = context.register(buffer, (8, 8), F32, kind="opencl")
        if expected is None:
            with pytest.raises(qnnrt.GraphError, match="'x' and output 'y' are one OpenCL") as e:
                graph.execute([handle], [handle])
            assert e.value.code == 6004
            return
        graph.execute([handle], [handle])
        got = np.empty_like(values)
        cl.enqueue_copy(backend.cl_queue, got, buffer)
        np.testing.assert_allclose(got, expected(values), rtol=1e-6)
