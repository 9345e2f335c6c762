"""``qnnrt.lpai``: what each call sends, seen by a backend that writes it all down."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt import BufferInUseError, lpai
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.qnn import Backend, Graph
from support.lpai_models import U8, quantized_relu
from support.recording import Fake, verbs

SCALE = Quantization(scale=0.1, offset=-3)


@pytest.mark.other_fds
class TestWhatIsSent:
    @pytest.fixture
    def lpai_fake(self, fake: Fake) -> Fake:
        fake.library.fake_lpai(1024, 512)
        return fake

    @staticmethod
    def graph(fake: Fake) -> tuple[Backend, Graph]:
        backend = Backend.open(fake.path)
        graph = backend.create_context().create_graph("g")
        graph.add_tensor("x", (4,), U8, type="app_write", quantization=SCALE)
        graph.add_tensor("y", (4,), U8, type="app_read", quantization=SCALE)
        fake.journal()
        return backend, graph

    def test_no_device_is_asked_for(self, lpai_fake: Fake) -> None:
        with Backend.open(lpai_fake.path) as backend:
            assert not backend.has_device
        assert verbs(lpai_fake.journal()) == [
            "logCreate",
            "backendCreate",
            "backendFree",
            "logFree",
        ]

    def test_hardware_and_platform_options(self, lpai_fake: Fake) -> None:
        options = lpai.backend_options(hardware_version="v5_1", target="x86", direct_mode=True)
        with Backend.open(lpai_fake.path, options=options):
            assert lpai_fake.journal()[2:] == [
                "backendCreate hardware option=0 target=0 version=65541",
                "backendCreate platform=direct_mode:adsp",
            ]

    def test_hardware_defaults_are_v6_on_adsp(self, lpai_fake: Fake) -> None:
        with Backend.open(lpai_fake.path, options=lpai.backend_options(target="adsp")):
            assert lpai_fake.journal()[2:] == ["backendCreate hardware option=0 target=2 version=6"]
        assert lpai.backend_options() == []
        assert lpai.HardwareVersion.DEFAULT is lpai.HardwareVersion.V6

    def test_backend_properties(self, lpai_fake: Fake) -> None:
        with Backend.open(lpai_fake.path) as backend:
            lpai_fake.journal()
            assert lpai.alignment(backend) == lpai.Alignment(start=256, size=32)
            assert lpai.requires_persistent_binary(backend)
            assert lpai.cores(backend) == (lpai.CoreInfo(0, 512, 6), lpai.CoreInfo(1, 513, 6))
            assert lpai_fake.journal() == [
                f"backendGetProperty {option} count=1" for option in (0, 1, 200, 300, 300)
            ]
            assert lpai.describe(backend) is None  # an extension of qnnrt's own

    def test_context_configs(self, lpai_fake: Fake) -> None:
        with Backend.open(lpai_fake.path) as backend:
            lpai_fake.journal()
            context = backend.create_context(custom=[lpai.model_memory("tcm"), lpai.island()])
            assert lpai_fake.journal() == [
                "contextCreate device=0",
                "contextCreate lpai option=1 value=3",
                "contextCreate lpai option=11 value=1",
            ]
            context.close()

    def test_performance_affinity_and_prepare(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        lpai.set_performance(graph)
        lpai.set_performance(graph, fps=30, ftrt_ratio=20, client_type="non_real_time")
        lpai.set_affinity(graph)
        lpai.set_affinity(graph, "hard", cores=[1, 1])
        lpai.set_affinity(graph, lpai.Affinity.SOFT, cores=0b10)
        lpai.set_prepare(graph, per_layer=True, core_selection="1")
        lpai.set_prepare(graph)
        assert lpai_fake.journal() == [
            "graphSetConfig perf fps=1 ftrt=10 client=1",
            "graphSetConfig perf fps=30 ftrt=20 client=2",
            "graphSetConfig affinity=1 cores=0",
            "graphSetConfig affinity=2 cores=2",
            "graphSetConfig affinity=1 cores=2",
            "graphSetConfig prepare layers=1 cores=1",
            "graphSetConfig prepare layers=0 cores=none",
        ]
        backend.close()

    def test_pools_by_hand(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        assert lpai.pool_sizes(graph) == lpai.PoolSizes(scratch=1024, persistent=512)
        with lpai.alloc(backend, 1000) as scratch, lpai.alloc(backend, 512) as persistent:
            assert scratch.nbytes == 1024
            assert scratch.address % 256 == 0
            lpai.set_scratch(graph, scratch)
            lpai.set_persistent(graph, persistent)
            lpai.set_scratch(graph, None)
            assert lpai_fake.journal() == [
                "graphGetProperty 1",
                "graphGetProperty 101",
                "backendGetProperty 0 count=1",
                "backendGetProperty 0 count=1",
                "graphSetConfig memory=1 type=1 size=1024 aligned=1 given=1",
                "graphSetConfig memory=101 type=1 size=512 aligned=1 given=1",
                "graphSetConfig memory=1 type=1 size=0 aligned=1 given=0",
            ]
            backend.close()

    def test_pools_at_once(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        pools = lpai.allocate_pools(graph)
        assert (pools.scratch.nbytes, pools.persistent.nbytes) == (1024, 512)
        assert verbs(lpai_fake.journal()).count("graphSetConfig") == 2
        assert lpai.allocate_pools(graph) == pools  # what is there stays
        assert verbs(lpai_fake.journal()) == ["graphGetProperty"] * 2
        backend.close()

    def test_pools_of_size_0_are_skipped(self, fake: Fake) -> None:
        fake.library.fake_lpai(256, 0)
        backend, graph = self.graph(fake)
        pools = lpai.allocate_pools(graph)
        assert pools.persistent is None
        assert pools.scratch.nbytes == 256
        assert verbs(fake.journal()).count("graphSetConfig") == 1
        backend.close()

    def test_pools_are_held_until_replaced_or_the_context_goes(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        first, persistent = lpai.allocate_pools(graph).scratch, lpai.pools_of(graph).persistent
        with pytest.raises(BufferInUseError, match="in use by graph 'g' as its scratch memory"):
            first.close()
        with pytest.raises(BufferInUseError, match="in use by graph 'g' as its persistent memory"):
            persistent.close()
        second = lpai.alloc(backend, 1024)
        lpai.set_scratch(graph, second)
        first.close()
        context = graph.context
        del graph
        with pytest.raises(BufferInUseError):
            second.close()
        context.close()
        second.close()
        persistent.close()
        backend.close()

    def test_pools_of_a_context_that_nobody_closes_go_with_it(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        scratch = lpai.allocate_pools(graph).scratch
        del graph
        scratch.close()  # nothing is in a reference cycle
        backend.close()

    def test_arrays_can_be_pools_too(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        memory = np.zeros(2048, np.uint8)
        skip = -memory.ctypes.data % 256
        lpai.set_scratch(graph, memory[skip : skip + 1024])
        assert lpai.pools_of(graph).scratch.base is memory
        buffer = qnnrt.alloc(4096)
        lpai.set_persistent(graph, buffer.array(512, np.uint8, 1024))
        with pytest.raises(BufferInUseError, match="graph 'g' as its persistent memory; 1 view"):
            buffer.close()
        assert lpai_fake.journal() == [
            "graphSetConfig memory=1 type=1 size=1024 aligned=1 given=1",
            "graphSetConfig memory=101 type=1 size=512 aligned=1 given=1",
        ]
        backend.close()

    def test_bad_pools_are_refused_before_the_backend_sees_them(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        frozen = np.zeros(1024, np.uint8)
        frozen.flags.writeable = False
        for bad, error, message in (
            (frozen, ValueError, "scratch memory of graph 'g' must be writable"),
            (np.zeros((64, 64), np.uint8)[:, ::2], ValueError, "must be C-contiguous"),
            (b"bytes", TypeError, "must be a Buffer or an array, not a bytes"),
        ):
            with pytest.raises(error, match=message):
                lpai.set_scratch(graph, bad)
        assert lpai_fake.journal() == []
        backend.close()

    def test_words(self, lpai_fake: Fake) -> None:
        backend, graph = self.graph(lpai_fake)
        for call, message in (
            (lambda: lpai.backend_options(hardware_version="v9"), "hardware_version must be one"),
            (lambda: lpai.backend_options(target="dsp"), "target must be one of x86, arm, adsp"),
            (lambda: lpai.model_memory("sram"), "mem_type must be one of ddr, llc, tcm, psram"),
            (lambda: lpai.set_performance(graph, client_type="fast"), "client_type must be one of"),
            (lambda: lpai.set_affinity(graph, "loose"), "affinity must be one of soft, hard"),
            (lambda: lpai.backend_options(hardware_version=-1), "hardware_version must be a whole"),
            (lambda: lpai.set_performance(graph, fps=-1), "fps must be a whole number"),
            (lambda: lpai.set_performance(graph, ftrt_ratio=1 << 32), "ftrt_ratio must be .* 429"),
            (lambda: lpai.set_affinity(graph, cores=[-1]), "cores must be a whole number"),
            (lambda: lpai.set_affinity(graph, cores=[32]), "from 0 to 31, not 32"),
            (lambda: lpai.set_affinity(graph, cores=1 << 32), "cores must be a whole number"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        assert lpai_fake.journal() == []
        backend.close()

    def test_the_lpai_descriptor_has_fd_and_offset_alone(self, lpai_fake: Fake) -> None:
        with Backend.open(lpai_fake.path) as backend:
            context = backend.create_context()
            b = qnnrt.alloc(8192)
            lpai_fake.journal()
            handle = context.register(b, (4, 4), U8, offset=4096, kind="lpai")
            assert handle.offset == 4096
            where = f"lpai offset={b.fd_offset + 4096} fd=1"
            assert lpai_fake.journal() == [f"memRegister type=2 rank=2 dim0=4 dtype=0x0108 {where}"]

    def test_a_session_does_the_eight_steps_in_their_order(self, lpai_fake: Fake) -> None:
        options = {"fps": 30, "affinity": "hard", "cores": [0], "island": True}
        with qnnrt.Session(quantized_relu(), lpai_fake.path, options={"lpai": options}) as s:
            s.run()
            assert s.io == "memhandle"
            backend = s.backend
        backend.close()
        journal = lpai_fake.journal()
        assert [line for line in verbs(journal) if line not in ("tensor", "node")] == [
            "logCreate",
            "backendCreate",
            "contextCreate",
            "contextCreate",
            "backendGetProperty",
            "memRegister",
            "backendGetProperty",
            "memRegister",
            "graphCreate",
            "graphSetConfig",
            "graphSetConfig",
            "graphGetProperty",
            "graphGetProperty",
            "backendGetProperty",
            "graphSetConfig",
            "backendGetProperty",
            "graphSetConfig",
            "graphFinalize",
            "execute",
            "execute",
            "memDeRegister",
            "memDeRegister",
            "contextFree",
            "backendFree",
            "logFree",
        ]
        assert "graphSetConfig perf fps=30 ftrt=10 client=1" in journal
        assert "graphSetConfig affinity=2 cores=1" in journal
        assert "contextCreate lpai option=11 value=1" in journal

    def test_a_session_takes_pools_of_the_callers(self, lpai_fake: Fake) -> None:
        scratch = qnnrt.alloc(4096)
        options = lpai.Options(scratch=scratch)
        with qnnrt.Session(quantized_relu(), lpai_fake.path, options={"lpai": options}) as s:
            assert lpai.pools_of(s.graph).scratch is scratch
            assert lpai.pools_of(s.graph).persistent.nbytes == 512
            with pytest.raises(BufferInUseError, match="graph 'relu' as its scratch memory"):
                scratch.close()
            other = lpai.alloc(s.backend, 1024)
            s.set_scratch(other)
            scratch.close()
        other.close()

    def test_a_foreign_backend_gives_no_places_in_scratch(self, lpai_fake: Fake) -> None:
        with pytest.raises(qnnrt.GraphError, match="no such function"):
            qnnrt.Session(quantized_relu(), lpai_fake.path, io="scratch")
        with (
            qnnrt.Session(quantized_relu(), lpai_fake.path) as s,
            pytest.raises(qnnrt.GraphError, match="no such function"),
        ):
            s.reset_state()

    def test_own_buffers_are_aligned_as_it_asks(self, lpai_fake: Fake) -> None:
        with qnnrt.Session(quantized_relu(), lpai_fake.path, io="raw") as s:
            for t in (s.inputs["x"], s.outputs["y"]):
                assert t.buffer is not None
                assert t.buffer.address % 256 == 0
                assert t.buffer.nbytes == 32  # 16 bytes, rounded up
            memory = np.zeros(1024, np.uint8)
            skip = -memory.ctypes.data % 256
            s.inputs["x"].bind(memory[skip : skip + 16].reshape(1, 16))
            with pytest.raises(qnnrt.BindError, match=r"multiple of 256; 0x\w+ is only .* of 64"):
                s.inputs["x"].bind(memory[skip + 64 : skip + 80].reshape(1, 16))


def test_a_float_model_is_refused_and_told_what_to_do(fake: Fake) -> None:
    fake.library.fake_lpai(0, 0)
    f32 = np.dtype(np.float32)
    names = {"x": f32, "w": f32, "y": f32, "q": U8, "z": f32}
    tensors = {
        name: Tensor(name, (2, 2), dtype, quantization=SCALE if dtype == U8 else None)
        for name, dtype in names.items()
    }
    tensors["w"].data = np.zeros((2, 2), f32)
    nodes = [
        Node("add", "ElementWiseAdd", ["x", "w"], ["y"]),
        Node("quantize", "Quantize", ["y"], ["q"]),
        Node("dequantize", "Dequantize", ["q"], ["z"]),
    ]
    with pytest.raises(qnnrt.UnsupportedOpError) as error:
        qnnrt.Session(Model("m", tensors, nodes, ["x"], ["z"]), fake.path)
    (refused,) = error.value.nodes
    assert (refused.name, refused.op, refused.types) == (
        "add",
        "ElementWiseAdd",
        "float32, float32",
    )
    assert refused.reason == (
        "lpai computes on fixed-point numbers alone, and tensors 'x', 'w', 'y' are float: quantize "
        "the model first, see docs/quantization.md"
    )


def test_what_is_for_lpai_alone_is_refused_elsewhere() -> None:
    model = quantized_relu()
    with pytest.raises(ValueError, match="io='scratch' is for LPAI backends"):
        qnnrt.Session(model, io="scratch")
    with pytest.raises(ValueError, match="option 'lpai' is for LPAI backends, which CPU_QTI_AISW"):
        qnnrt.Session(model, options={"lpai": {}})
    with pytest.raises(ValueError, match="unknown lpai option 'scrtch'; there are affinity"):
        qnnrt.Session(model, options={"lpai": {"scrtch": None}})
    with qnnrt.Session(model) as s:
        with pytest.raises(ValueError, match="no scratch memory of the client's"):
            s.set_scratch(qnnrt.alloc(64))
        with pytest.raises(TypeError, match="None is for tensors in the scratch memory"):
            s.graph.execute([None], [None])
        with pytest.raises(qnnrt.BackendError):
            lpai.alignment(s.backend)
        with pytest.raises(qnnrt.GraphError):
            lpai.pool_sizes(s.graph)
        assert lpai.describe(s.backend) is None


def test_the_backend_must_not_be_open_already_for_options_of_its_own(fake: Fake) -> None:
    fake.library.fake_lpai(0, 0)
    with (
        Backend.open(fake.path) as backend,
        pytest.raises(ValueError, match="the backend is open already: give its hardware_version"),
    ):
        qnnrt.Session(quantized_relu(), backend, options={"lpai": {"direct_mode": True}})
