"""What the client sends to a backend, call by call, seen by a backend that writes it all down."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Quantization, Tensor
from support.recording import verbs
from support.toy import F32, add_model, relu_model, tensors

pytestmark = pytest.mark.other_fds


def test_the_order_of_calls_from_open_to_close(fake):
    with qnnrt.Session(relu_model(), fake.path) as s:
        s.run()
        backend = s.backend
    backend.close()
    assert verbs(fake.journal()) == [
        "logCreate",
        "backendCreate",
        "deviceCreate",
        "contextCreate",
        "memRegister",
        "memRegister",
        "graphCreate",
        "tensor",
        "tensor",
        "node",
        "graphFinalize",
        "execute",
        "execute",
        "memDeRegister",
        "memDeRegister",
        "contextFree",
        "deviceFree",
        "backendFree",
        "logFree",
    ]


def test_closing_the_backend_first_keeps_that_order(fake):
    backend = qnn.Backend.open(fake.path)
    s = qnnrt.Session(relu_model(), backend)
    fake.journal()
    backend.close()
    assert s.closed
    assert verbs(fake.journal()) == [
        "memDeRegister",
        "memDeRegister",
        "contextFree",
        "deviceFree",
        "backendFree",
        "logFree",
    ]


def test_shared_buffers_state_the_size_of_the_whole_buffer(fake):
    with qnn.Backend.open(fake.path) as backend:
        context = backend.create_context()
        b = qnnrt.alloc(10_000)
        fake.journal()
        context.register(b, (4, 4), np.float32, offset=256, kind="shared_buffer")
        context.register(b, (8,), "UFIXED_POINT_8", kind="ion")
        context.register(b, (8,), np.float16, kind="dma_buf")
        lines = [line for line in fake.journal() if line.startswith("memRegister")]
        assert lines == [
            f"memRegister type=2 rank=2 dim0=4 dtype=0x0232 htp=1 size={b.fd_size} offset=256 fd=1",
            "memRegister type=1 rank=1 dim0=8 dtype=0x0408 fd=1",
            "memRegister type=3 rank=1 dim0=8 dtype=0x0216 fd=1 data=1",
        ]
        assert b.fd_size >= 10_000


@pytest.mark.parametrize("prepare", ["raw", "memhandle"])
@pytest.mark.parametrize("io", ["raw", "memhandle"])
def test_the_qmem_table_is_what_is_declared_and_what_is_bound(fake, prepare, io):
    with qnnrt.Session(relu_model(), fake.path, prepare=prepare, io=io) as s:
        s.run()
    journal = fake.journal()
    declared = int(prepare == "memhandle")
    assert f"tensor x v1 type=0 dtype=0x0232 dims=1x16 mem={declared} data=0" in journal
    bound = "mem=1 data=1" if io == "memhandle" else "mem=0 data=64"
    assert f"execute in x v1 type=0 dtype=0x0232 dims=1x16 {bound}" in journal
    assert f"execute out y v1 type=1 dtype=0x0232 dims=1x16 {bound}" in journal


def test_params_tensors_and_operands_left_out(fake):
    model = Model(
        "all",
        tensors(
            Tensor("x", (2, 3), F32),
            Tensor("w", (3,), np.dtype(np.int8), np.arange(3, dtype=np.int8)),
            Tensor("y", (), np.dtype(bool)),
        ),
        [
            Node(
                "n",
                "Strange",
                ["x", "", "w"],
                ["y"],
                {
                    "a": 3,
                    "b": -3,
                    "c": 0.5,
                    "d": True,
                    "e": np.int32(7),
                    "f": "text",
                    "g": np.array([[1, 2]], np.uint32),
                },
            )
        ],
        ["x"],
        ["y"],
    )
    qnnrt.Session(model, fake.path, io="raw").close()
    journal = fake.journal()
    start = journal.index("node n qti.aisw::Strange in=3 out=1")
    assert journal[start + 1 : start + 9] == [
        "param a u32=3",
        "param b i32=-3",
        "param c f32=0.5",
        "param d b8=1",
        "param e i32=7",
        "param f str=text",
        "param g tensor id=4",
        "left out: input 1",
    ]
    assert "tensor w v1 type=4 dtype=0x0008 dims=3 mem=0 data=3" in journal
    assert "tensor y v1 type=1 dtype=0x0508 dims=1 mem=0 data=0" in journal
    assert "tensor n.g v1 type=4 dtype=0x0132 dims=1x2 mem=0 data=8" in journal


@pytest.mark.parametrize(
    ("dtype", "quantization", "expected"),
    [
        (
            np.uint8,
            Quantization(0.5, -128),
            "dtype=0x0408 dims=4 mem=0 data=0 scale=0.5 offset=-128",
        ),
        (
            np.int8,
            Quantization(np.array([0.5, 0.25]), np.array([0, -3]), axis=0),
            "dtype=0x0308 dims=4 mem=0 data=0 axis=0 n=2 last=0.25,-3",
        ),
        (
            np.int16,
            Quantization(0.125, 0, bitwidth=12),
            "dtype=0x0316 dims=4 mem=0 data=0 bw=12 scale=0.125 offset=0",
        ),
        (
            np.int8,
            Quantization(np.array([1, 2, 4]), 0, axis=3, bitwidth=4),
            "dtype=0x0308 dims=4 mem=0 data=0 bw=4 axis=3 n=3 last=4,0",
        ),
    ],
)
def test_quantization_reaches_the_backend(fake, dtype, quantization, expected):
    with qnn.Backend.open(fake.path) as backend:
        graph = backend.create_context().create_graph("q")
        fake.journal()
        graph.add_tensor("t", (4,), dtype, quantization=quantization)
        assert fake.journal() == [f"tensor t v1 type=3 {expected}"]


def test_context_options_become_the_c_configs(fake):
    with qnn.Backend.open(fake.path, options=[(2, "key:value")]) as backend:
        assert "backendCreate platform=key:value" in fake.journal()
        context = backend.create_context(
            priority="high",
            oem_string="mine",
            async_queue_depth=300,
            enable_graphs=["one", "two"],
            memory_limit_hint=1 << 40,
            persistent_binary=True,
            binary_compatibility="strict",
            defer_graph_init=True,
            custom=[b"blob\0"],
        )
        assert fake.journal()[1:] == [
            "contextCreate custom=blob",
            "contextCreate priority=200",
            "contextCreate oem=mine",
            "contextCreate depth=300",
            "contextCreate graph=one",
            "contextCreate graph=two",
            f"contextCreate limit={1 << 40}",
            "contextCreate persistent=1",
            "contextCreate compatibility=1",
            "contextCreate defer=1",
        ]
        context.close()


def test_errors_carry_the_verbose_words_and_the_whole_handle(fake):
    with qnnrt.Session(relu_model(), fake.path) as s:
        s.run()
        fake.library.fake_execute_error((7 << 32) | 6031)
        with pytest.raises(qnnrt.GraphError, match="verbose words for 0x70000178f") as e:
            s.run()
        assert (e.value.code, e.value.name) == (6031, "QNN_GRAPH_ERROR_ABORTED")
        fake.library.fake_execute_error(0)
        s.run()
        assert s.stats.executes == 2
        assert "freeVerbose" in fake.journal()


def test_log_lines_from_the_backends_threads_arrive(fake, caplog):
    with caplog.at_level("INFO", "qnnrt"):
        qnnrt.Session(relu_model(), fake.path).close()
    lines = [r.getMessage() for r in caplog.records if "thread of the backend" in r.getMessage()]
    assert lines == [f"line {i} from a thread of the backend" for i in range(3)]
    assert {r.levelname for r in caplog.records if "thread" in r.getMessage()} == {"WARNING"}


def test_asynchronous_executions_complete_their_futures(fake):
    with qnn.Backend.open(fake.path) as backend:
        graph = backend.create_context().create_graph("g")
        x = graph.add_tensor("x", (16,), np.float32, type="app_write")
        y = graph.add_tensor("y", (16,), np.float32, type="app_read")
        graph.add_node("n", "Copy", [x], [y])
        graph.finalize()
        outs = [np.zeros(16, np.float32) for _ in range(8)]
        futures = [
            graph.execute_async([np.full(16, i, np.float32)], [out]) for i, out in enumerate(outs)
        ]
        for i, (future, out) in enumerate(zip(futures, outs, strict=True)):
            assert future.result(120) is None
            assert (out == i).all()
        fake.library.fake_execute_error(6033)
        with pytest.raises(qnnrt.GraphError) as e:
            graph.execute_async([outs[0]], [outs[1]]).result(120)
        assert e.value.code == 6033
        fake.library.fake_execute_error(6025)
        with pytest.raises(qnnrt.GraphError, match="queue depth") as e:
            graph.execute_async([outs[0]], [outs[1]])
        assert e.value.code == 6025
        fake.library.fake_join()


def test_an_execution_environment_is_released_before_its_handles(fake):
    with qnn.Backend.open(fake.path) as backend:
        context = backend.create_context()
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (16,), np.float32, type="app_write", mem_type="memhandle")
        y = graph.add_tensor("y", (16,), np.float32, type="app_read", mem_type="memhandle")
        graph.add_node("n", "Copy", [x], [y])
        graph.finalize()
        handles = [context.register(qnnrt.alloc(4096), (16,), np.float32) for _ in range(2)]
        fake.journal()
        environment = graph.prepare_environment(handles[:1], handles[1:])
        assert fake.journal() == [
            "prepareEnvironment n=1 option=0 in=1 out=1",
            "prepare in x v1 type=0 dtype=0x0232 dims=16 mem=1 data=1",
        ]
        handles[0].close()
        assert environment.closed
        assert fake.journal() == ["releaseEnvironment out=1", "memDeRegister 1"]
        fake.library.fake_skip_environment()
        with pytest.raises(qnnrt.GraphError, match="left the option out") as e:
            graph.prepare_environment({"x": handles[1]}, {"y": handles[1]})
        assert e.value.code == 1000


def test_the_newest_provider_that_fits_is_chosen(fake):
    fake.library.fake_provider(0, 2, 33)
    fake.library.fake_provider(1, 2, 41)
    fake.library.fake_provider(2, 3, 0)
    with qnn.Backend.open(fake.path) as backend:
        assert backend.version.core == (2, 41, 1)
        assert backend.version.backend == (7, 8, 9)


@pytest.mark.parametrize("version", [(1, 40), (2, 31), (3, 0)])
def test_another_interface_version_is_refused_and_named(fake, version):
    fake.library.fake_provider(0, *version)
    with pytest.raises(qnnrt.BackendNotFoundError, match=rf"{version[0]}\.{version[1]}\.0.*2\.32"):
        qnn.Backend.open(fake.path)


# Slots of the function table by number: backendCreate, contextCreate, graphCreate, graphAddNode,
# graphFinalize, graphExecute, tensorCreateGraphTensor.
@pytest.mark.parametrize("slot", [1, 9, 15, 18, 19, 21, 24])
def test_a_missing_function_is_an_error_that_names_it(fake, slot):
    fake.library.fake_provider(0, 2, 40)
    fake.library.fake_no_slot(slot)
    with pytest.raises(qnnrt.QnnError, match="has no such function") as e:
        qnnrt.Session(relu_model(), fake.path)
    assert e.value.code == 1000


# logCreate, deviceCreate, memRegister, errorGetVerboseMessage: a session works without.
@pytest.mark.parametrize("slot", [25, 40, 35, 49])
@pytest.mark.filterwarnings("ignore:.*takes no memory handles:RuntimeWarning")
def test_a_session_works_without_what_it_can_do_without(fake, slot):
    fake.library.fake_provider(0, 2, 40)
    fake.library.fake_no_slot(slot)
    with qnnrt.Session(add_model(), fake.path) as s:
        s.run()
        assert (s.stats.fallback is not None) == (slot == 35)
