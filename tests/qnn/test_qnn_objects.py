"""``qnnrt.qnn``: the C API's objects, calls and codes, in Python's spelling."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn


@pytest.fixture
def backend():
    with qnn.Backend.open("cpu") as b:
        yield b


@pytest.fixture
def context(backend):
    with backend.create_context() as c:
        yield c


def _relu(context, name="g", shape=(4, 4), mem_type="raw"):
    graph = context.create_graph(name)
    x = graph.add_tensor("x", shape, np.float32, type="app_write", mem_type=mem_type)
    y = graph.add_tensor("y", shape, np.float32, type="app_read", mem_type=mem_type)
    graph.add_node("relu", "Relu", [x], [y])
    return graph


def test_a_backend_says_what_it_is(backend):
    assert backend.name == "CPU_QTI_AISW"
    assert backend.id == 3
    assert backend.version.core >= (2, 32, 0)
    assert str(backend.version).startswith("2.")
    major, minor, patch = backend.version.core
    assert backend.build_id == f"v{major}.{minor}.{patch}.0-qnnrt-{qnnrt.__version__}"
    assert not backend.has_device
    ops = backend.supported_ops
    assert len(ops) == len(set(ops)) > 50
    assert {"Conv2d", "Relu", "MatMul", "Softmax"} <= set(ops)


def test_capabilities_by_name_and_number(backend):
    assert backend.has_capability("mem_type_ion")
    assert backend.has_capability(1102)
    assert not backend.has_capability("signals")
    assert not backend.has_capability(999_999)
    with pytest.raises(ValueError, match="capability"):
        backend.has_capability("magic")


def test_a_graph_runs_on_arrays_in_place(context):
    graph = _relu(context)
    graph.finalize()
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    y = np.full_like(x, np.nan)
    graph.execute({"x": x}, {"y": y})
    assert (y == np.maximum(x, 0)).all()
    y[...] = np.nan
    graph.execute([x], [y])
    assert (y == np.maximum(x, 0)).all()


@pytest.mark.parametrize("kind", ["ion", "shared_buffer", "dma_buf"])
def test_a_graph_runs_on_memory_handles(context, kind):
    graph = _relu(context, mem_type="memhandle")
    graph.finalize()
    a, b = qnnrt.alloc(4096), qnnrt.alloc(4096)
    x = context.register(a, (4, 4), np.float32, kind=kind)
    y = context.register(b, (4, 4), np.float32, kind=kind)
    x.array[...] = -3
    x.array[1, 2] = 4
    graph.execute([x], [y])
    assert y.array.sum() == 4
    assert (x.nbytes, x.kind, x.dtype, x.shape) == (64, kind, np.float32, (4, 4))
    context.deregister(x, y)
    assert x.closed
    assert y.closed
    a.close()
    b.close()


def test_many_tensors_share_one_buffer(context):
    graph = _relu(context)
    graph.finalize()
    pool = qnnrt.alloc(1 << 14)
    x = context.register(pool, (4, 4), np.float32, offset=64, kind="shared_buffer")
    y = context.register(pool, (4, 4), np.float32, offset=8192, kind="shared_buffer")
    x.array[...] = 5
    graph.execute([x], [y])
    assert (pool.array((4, 4), np.float32, 8192) == 5).all()


def test_registering_twice_is_8002_and_get_or_register_finds_the_first(context):
    b = qnnrt.alloc(4096)
    first = context.register(b, (16,), np.float32)
    with pytest.raises(qnnrt.MemError) as e:
        context.register(b, (16,), np.float32)
    assert (e.value.code, e.value.name) == (8002, "QNN_MEM_ERROR_ALREADY_REGISTERED")
    first.close()
    first = context.get_or_register(b, (16,), np.float32)
    assert context.get_or_register(b, 16, "float32") is first
    other = context.get_or_register(b, (16,), np.float32, offset=64, kind="shared_buffer")
    assert other is not first
    first.close()
    assert context.get_or_register(b, (16,), np.float32) is not first
    gc.collect()


def test_a_handle_dies_with_its_last_reference(context):
    b = qnnrt.alloc(4096)
    context.register(b, (16,), np.float32)
    gc.collect()
    assert b.holds()["registrations"] == 0
    context.register(b, (16,), np.float32).close()  # else 8002
    b.close()


def test_deregister_processes_the_valid_handles_of_an_array_with_a_bad_one(context):
    buffers = [qnnrt.alloc(4096) for _ in range(3)]
    handles = [context.register(b, (16,), np.float32) for b in buffers]
    context.deregister(handles[1])
    with pytest.raises(qnnrt.MemError) as e:
        context.deregister(*handles)
    assert e.value.code == 8001
    again = [context.register(b, (16,), np.float32) for b in buffers]
    context.deregister(*again)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"shape": (2048,)}, "8192 bytes"),
        ({"shape": (16,), "offset": 4090, "kind": "shared_buffer"}, "4154 bytes"),
        ({"shape": (16,), "offset": -4, "kind": "shared_buffer"}, "bytes"),
        ({"shape": (16,), "offset": 64}, "shared_buffer"),
        ({"shape": (16,), "kind": "ram"}, "kind must be"),
        ({"shape": (16,), "kind": "opencl"}, "gpu"),
    ],
)
def test_bad_registrations_are_refused(context, kwargs, match):
    b = qnnrt.alloc(4096)
    with pytest.raises(ValueError, match=match):
        context.register(b, kwargs.pop("shape"), np.float32, **kwargs)
    b.close()


def test_memory_without_an_fd_cannot_be_registered(context):
    b = qnnrt.Buffer.from_array(np.zeros(16, np.float32))
    with pytest.raises(qnnrt.MemError) as e:
        context.register(b, (16,), np.float32)
    assert e.value.code == 1000


def test_errors_of_building_carry_code_name_and_reason(backend, context):
    graph = context.create_graph("g")
    with pytest.raises(qnnrt.GraphError) as e:
        context.create_graph("g")
    assert e.value.code == 6003
    x = graph.add_tensor("x", (4,), np.float32, type="app_write")
    with pytest.raises(qnnrt.TensorError) as e:
        graph.add_tensor("x", (4,), np.float32)
    assert (e.value.code, e.value.name) == (7003, "QNN_TENSOR_ERROR_ALREADY_EXISTS")
    y = graph.add_tensor("y", (5,), np.float32, type="app_read")
    with pytest.raises(qnnrt.QnnError, match="Relu"):
        backend.validate_op("Relu", [x], [y])
    with pytest.raises(qnnrt.QnnError, match="NoSuchOp"):
        graph.add_node("n", "NoSuchOp", [x], [y])
    with pytest.raises(qnnrt.GraphError) as e:
        context.graph("nowhere")
    assert e.value.code == 6002


def test_a_name_that_is_taken_is_told_also_of_a_finalized_graph(context):
    graph = _relu(context)
    graph.finalize()
    for name, code in (("x", 7003), ("new", 6024)):
        with pytest.raises(qnnrt.QnnError) as e:
            graph.add_tensor(name, (4, 4), np.float32, type="app_write")
        assert e.value.code == code


def test_a_tensor_between_nodes_may_be_written_again_once_it_was_read(backend, context):
    """As on the vendor's simulator, which refuses it before that, too."""
    graph = context.create_graph("g")
    x = graph.add_tensor("x", (3,), "float32", type="app_write")
    m = graph.add_tensor("m", (3,), "float32", type="native")
    y = [graph.add_tensor(f"y{i}", (3,), "float32", type="app_read") for i in range(2)]
    graph.add_node("relu", "Relu", [x], [m])
    graph.add_node("neg", "ElementWiseNeg", [m], [y[0]])
    graph.add_node("again", "ElementWiseNeg", [x], [m])
    graph.add_node("exp", "ElementWiseExp", [m], [y[1]])
    graph.finalize()
    given = np.array([-1, 0.5, 2], np.float32)
    with qnn.Context.from_binary(backend, context.binary()) as other:
        for made in (graph, other.graph("g")):
            found = {t.name: np.zeros(3, np.float32) for t in y}
            made.execute({"x": given}, found)
            np.testing.assert_array_equal(found["y0"], -np.maximum(given, 0))
            np.testing.assert_allclose(found["y1"], np.exp(-given), rtol=1e-6)

    unread = context.create_graph("unread")
    x = unread.add_tensor("x", (3,), "float32", type="app_write")
    m = unread.add_tensor("m", (3,), "float32", type="native")
    for _ in range(2):
        unread.add_node("relu", "Relu", [x], [m])
    with pytest.raises(qnnrt.GraphError, match="'m' is written by two nodes"):
        unread.finalize()


def test_a_graph_that_is_not_finalized_does_not_run(context):
    graph = _relu(context)
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(qnnrt.GraphError) as e:
        graph.execute([x], [x.copy()])
    assert e.value.code == 6023
    graph.finalize()
    with pytest.raises(qnnrt.GraphError) as e:
        graph.finalize()
    assert e.value.code == 6024


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "match"),
    [
        ({"q": 0}, {}, KeyError, "'q'"),
        ([], [], ValueError, "1 tensors"),
        ([np.zeros((4, 5), np.float32)], [None], ValueError, r"\[4, 4\].*\[4, 5\]"),
        ([np.zeros((4, 4))], [None], ValueError, "float64"),
        ([np.zeros((8, 4), np.float32)[::2]], [None], ValueError, "contiguous"),
        ([[0.0] * 16], [None], TypeError, "list"),
    ],
)
def test_bad_executions_are_refused(context, inputs, outputs, error, match):
    graph = _relu(context)
    graph.finalize()
    with pytest.raises(error, match=match):
        graph.execute(inputs, outputs)


def test_params_of_every_kind_reach_the_backend(context):
    graph = context.create_graph("params")
    x = graph.add_tensor("x", (2, 6), np.float32, type="app_write")
    a = graph.add_tensor("a", (2, 6), np.float32)
    b = graph.add_tensor("b", (6, 2), np.float32)
    y = graph.add_tensor("y", (6, 1), np.float32, type="app_read")
    graph.add_node("clip", "ReluMinMax", [x], [a], {"min_value": -1.0, "max_value": np.float32(2)})
    graph.add_node("turn", "Transpose", [a], [b], {"perm": [1, 0]})
    graph.add_node(
        "sum", "ReduceSum", [b], [y], {"axes": np.array([1], np.uint32), "keep_dims": True}
    )
    graph.finalize()
    values = np.arange(-6, 6, dtype=np.float32).reshape(2, 6)
    out = np.zeros((6, 1), np.float32)
    graph.execute([values], [out])
    assert out[:, 0].tolist() == np.clip(values, -1, 2).sum(0).tolist()


def test_static_data_is_taken_over_at_finalize(context):
    graph = context.create_graph("static")
    x = graph.add_tensor("x", (4,), np.float32, type="app_write")
    data = np.arange(4, dtype=np.float32)
    c = graph.add_tensor("c", (4,), np.float32, type="static", data=data)
    y = graph.add_tensor("y", (4,), np.float32, type="app_read")
    graph.add_node("add", "ElementWiseAdd", [x, c], [y])
    graph.finalize()
    data[...] = 100
    out = np.zeros(4, np.float32)
    graph.execute([np.ones(4, np.float32)], [out])
    assert out.tolist() == [1, 2, 3, 4]


def test_profiles_measure_finalize_and_execute(backend, context):
    graph = _relu(context)
    profile = backend.create_profile("detailed")
    graph.finalize(profile)
    kinds = {event.kind for top in profile.events() for _, event in top.walk()}
    assert "finalize" in kinds
    x = np.zeros((4, 4), np.float32)
    graph.execute([x], [x.copy()], profile=profile)
    events = [event for top in profile.events() for _, event in top.walk()]
    assert {"execute", "node"} <= {event.kind for event in events}
    assert "microseconds" in {event.unit for event in events}
    with pytest.raises(ValueError, match="level"):
        backend.create_profile("loud")


def test_events_can_be_read_after_memory_ran_out_while_reading_them(backend, context):
    graph = _relu(context)
    profile = backend.create_profile("detailed")
    graph.finalize(profile)
    for n in range(1, 6):
        _core.debug_fail_allocation(n)
        try:
            profile.events()  # without the parts that there was no memory for
        finally:
            _core.debug_fail_allocation(-1)
    events = profile.events()
    assert {part.identifier for part in events[1].events} == {"passes", "kernels and plan"}


def test_what_a_backend_has_not_is_1000(backend, context):
    graph = _relu(context)
    graph.finalize()
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(qnnrt.GraphError) as e:
        graph.execute_async([x], [x.copy()])
    assert e.value.code == 1000
    with pytest.raises(qnnrt.QnnError) as e2:
        backend.create_signal(abort=True)
    assert e2.value.code == 1000


@pytest.mark.parametrize("text", ["threads:2x", "threads:", "threads:0", "threads:1025", "fast:1"])
def test_a_bad_platform_option_is_refused_and_changes_nothing(text):
    with pytest.raises(qnnrt.BackendError):
        qnn.Backend.open("cpu", options=[(2, text)])
    with qnn.Backend.open("cpu", options=[(2, "threads:1")]) as backend:
        backend.set_config([(2, "threads:3")])
        with pytest.raises(qnnrt.BackendError, match=f"'{text}'") as e:
            backend.set_config([(2, f"threads:2;{text}")])
        assert e.value.code == 4012
        graph = _relu(backend.create_context())
        graph.finalize()
        assert json.loads(graph.describe())["threads"] == 3


def test_an_option_that_does_not_exist_is_a_type_error(backend, context):
    with pytest.raises(TypeError, match=r"'colour'.*priority"):
        context.set_config(colour="red")
    with pytest.raises(TypeError, match=r"'colour'.*priority"):
        _relu(context).set_config(colour="red")
    with pytest.raises(TypeError, match="colour"):
        backend.create_context(colour="red")


def test_context_options_reach_the_backend(backend):
    with backend.create_context(priority="high"):
        pass
    with backend.create_context(oem_string="tag") as context:
        context.set_config(priority="low")
    with pytest.raises(qnnrt.ContextError, match="QUEUE_DEPTH is not supported") as e:
        backend.create_context(async_queue_depth=5)
    assert e.value.code == 1000
    with pytest.raises(ValueError, match="priority"):
        backend.create_context(priority="urgent")
    with pytest.raises(qnnrt.ContextError):
        backend.create_context(async_queue_depth=100_000)


def test_a_damaged_context_binary_is_an_error(backend):
    for data in (b"", b"not a context binary", bytes(4096)):
        with pytest.raises(qnnrt.QnnError):
            qnn.Context.from_binary(backend, data)
        with pytest.raises(qnnrt.ContextError):
            qnn.Context.validate_binary(backend, data)


def test_strings_with_nul_are_refused(context):
    with pytest.raises(ValueError, match="NUL"):
        context.create_graph("a\0b")
    graph = context.create_graph("g")
    with pytest.raises(ValueError, match="NUL"):
        graph.add_tensor("x\0", (1,), np.float32)


def test_data_types_map_both_ways():
    for name, value in qnn.DATA_TYPES.items():
        assert qnn.data_type(name) == qnn.data_type(f"QNN_DATATYPE_{name}") == value
        assert qnn.data_type_name(value) == name
    assert qnn.data_type(np.uint8, quantized=True) == qnn.DATA_TYPES["UFIXED_POINT_8"]
    assert qnn.numpy_dtype(qnn.DATA_TYPES["SFIXED_POINT_16"]) == np.int16
    for bad in (np.complex64, "U8", 0x7777):
        with pytest.raises(TypeError):
            qnn.data_type(bad)
    with pytest.raises(TypeError, match="byte order"):
        qnn.data_type(np.dtype(">f4"))
    with pytest.raises(TypeError, match="fixed-point"):
        qnn.data_type(np.float32, quantized=True)


def test_log_lines_go_to_the_qnnrt_logger(caplog):
    with caplog.at_level("DEBUG", "qnnrt"), qnn.Backend.open("cpu", log_level="debug") as backend:
        context = backend.create_context()
        graph = _relu(context)
        graph.finalize()
        with pytest.raises(qnnrt.GraphError):
            graph.finalize()
    assert any(r.levelname == "ERROR" and "6024" in r.getMessage() for r in caplog.records)
    assert any(r.levelname == "INFO" for r in caplog.records)


@pytest.mark.parametrize("level", ["warn", "error"])
def test_what_validation_refuses_is_a_warning_with_its_reason(caplog, level: str) -> None:
    with caplog.at_level("DEBUG", "qnnrt"), qnn.Backend.open("cpu", log_level=level) as backend:
        graph = backend.create_context().create_graph("g")
        x = graph.add_tensor("x", (4,), np.float32, type="app_write")
        y = graph.add_tensor("y", (5,), np.float32, type="app_read")
        with pytest.raises(qnnrt.QnnError):
            backend.validate_op("Relu", [x], [y], name="short")
    told = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    expected = ["not supported: Relu 'short': output 0 'y' is declared as [5] but comes out as [4]"]
    assert told == (expected if level == "warn" else [])
