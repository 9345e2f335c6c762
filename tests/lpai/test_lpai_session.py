"""Sessions on the lpai backend of this runtime: inputs and outputs, state, TCM, binaries."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import GraphError, _core, lpai
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.qnn import Backend, Context
from support.lpai_models import (
    U8,
    codes,
    compose,
    example,
    keyword,
    on_cpu,
    quantized_conv,
    quantized_relu,
)
from support.parallel import running

KEYWORD = example()
IOS = ("memhandle", "raw", "scratch")


def sound(frames: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (frames, 1, KEYWORD.BANDS)).astype(np.float32)


def file_of(buffer: qnnrt.Buffer) -> tuple[int, int]:
    found = os.fstat(buffer.fd)
    return found.st_dev, found.st_ino


class TestIo:
    @pytest.mark.parametrize("io", IOS)
    def test_all_of_them_give_what_cpu_gives(self, io: str) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})
        with qnnrt.Session(model, "lpai", io=io) as s:
            assert s.io == io
            for _ in range(2):
                s.inputs["x"].array[...] = x
                s.run()
                for name, value in wanted.items():
                    np.testing.assert_array_equal(s.outputs[name].array, value)
            assert s.stats.copied_bytes == 0
            assert s.stats.reserved_bytes == 0
            again = s.run({"x": x})
            np.testing.assert_array_equal(again["y"], wanted["y"])

    @pytest.mark.parametrize("io", IOS)
    def test_a_run_allocates_nothing(self, io: str) -> None:
        with qnnrt.Session(keyword(), "lpai", io=io) as s:
            s.run()
            before = _core.debug_allocations()
            for _ in range(5):
                s.run()
            assert _core.debug_allocations() == before

    def test_some_in_scratch_and_some_not(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})
        with qnnrt.Session(model, "lpai", io={"r": "scratch", "y": "raw"}) as s:
            assert s.io == "mixed"
            s.inputs["x"].array[...] = x
            s.run()
            for name, value in wanted.items():
                np.testing.assert_array_equal(s.outputs[name].array, value)

    def test_arrays_in_scratch_memory_follow_it(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})["y"]
        with qnnrt.Session(model, "lpai", io="scratch") as s:
            for n in range(3):
                scratch = lpai.pools_of(s.graph).scratch
                inside = range(scratch.address, scratch.address + scratch.nbytes)
                for t in (s.inputs["x"], s.outputs["r"], s.outputs["y"]):
                    assert t.array.ctypes.data in inside
                    assert t.array.ctypes.data + t.nbytes - 1 in inside
                    assert t.array is t.array
                    assert (t.buffer, t.handle) == (None, None)
                s.inputs["x"].array[...] = x
                s.run()
                np.testing.assert_array_equal(s.outputs["y"].array, wanted)
                other = lpai.alloc(s.backend, scratch.nbytes)
                if n % 2:
                    lpai.set_scratch(s.graph, other)
                else:
                    s.set_scratch(other)
                scratch.close()

    def test_what_lies_in_scratch_memory_cannot_be_bound(self) -> None:
        with (
            qnnrt.Session(quantized_relu(), "lpai", io="scratch") as s,
            pytest.raises(qnnrt.BindError, match=r"'x': lies in the scratch memory .*set_scratch"),
        ):
            s.inputs["x"].bind(np.zeros((1, 16), np.uint8))

    def test_arrays_in_scratch_memory_end_with_the_session(self) -> None:
        s = qnnrt.Session(quantized_relu(), "lpai", io="scratch")
        y = s.outputs["y"]
        s.close()
        with pytest.raises(qnnrt.ClosedError):
            y.array  # noqa: B018

    def test_own_io_takes_no_room_in_scratch_memory(self) -> None:
        sizes = {}
        for io in IOS:
            with qnnrt.Session(quantized_conv(), "lpai", io=io) as s:
                sizes[io] = lpai.pool_sizes(s.graph).scratch
        assert sizes["memhandle"] == sizes["raw"] < sizes["scratch"]

    def test_bound_memory_must_be_aligned(self) -> None:
        with qnnrt.Session(quantized_relu(), "lpai", io="raw") as s:
            memory = np.asarray(lpai.alloc(s.backend, 256))
            s.inputs["x"].bind(memory[64:80].reshape(1, 16))
            with pytest.raises(qnnrt.BindError, match=r"multiple of 64; 0x\w+ is only .* of 16"):
                s.inputs["x"].bind(memory[16:32].reshape(1, 16))
        with qnnrt.Session(quantized_relu(), "lpai") as s:
            buffer = qnnrt.alloc(256)
            handle = s.context.register(buffer, (1, 16), "UFIXED_POINT_8", offset=32, kind="lpai")
            with pytest.raises(qnnrt.BindError, match="multiple of 64"):
                s.inputs["x"].bind(handle)

    def test_the_backend_checks_that_itself(self, backend: Backend) -> None:
        graph = compose(backend, quantized_relu())
        lpai.allocate_pools(graph)
        graph.finalize()
        memory = np.asarray(lpai.alloc(backend, 256))
        good, bad = (memory[n : n + 16].reshape(1, 16) for n in (64, 144))
        graph.execute([good], [memory[128:144].reshape(1, 16)])
        with pytest.raises(GraphError, match="64") as error:
            graph.execute([bad], [good])
        assert error.value.code == 6004

    def test_many_tensors_in_one_buffer(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})
        with qnnrt.Session(model, "lpai", strict=True) as s:
            buffer = lpai.alloc(s.backend, 4096)
            at = {"x": 0, "r": 256, "y": 768}
            for t in (*s.inputs.values(), *s.outputs.values()):
                place = buffer.array(t.shape, t.dtype, at[t.name])
                t.bind(place)
                assert t.handle is not None
                assert (t.handle.kind, t.handle.offset) == ("lpai", at[t.name])
            s.inputs["x"].array[...] = x
            s.run()
            for name, value in wanted.items():
                np.testing.assert_array_equal(s.outputs[name].array, value)
            assert s.stats.copied_bytes == 0

    def test_replaced_scratch_memory_is_written_no_more(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})["y"]
        with qnnrt.Session(model, "lpai", io="scratch") as s:
            size = lpai.pool_sizes(s.graph).scratch
            old = lpai.pools_of(s.graph).scratch
            for n in range(8):
                s.inputs["x"].array[...] = x
                if n % 2:
                    s.run_async().result(120)
                else:
                    s.run()
                np.testing.assert_array_equal(s.outputs["y"].array, wanted)
                s.set_scratch(lpai.alloc(s.backend, size))
                np.asarray(old)[...] = 0xA5
                s.inputs["x"].array[...] = x
                for _ in range(2):
                    s.run() if n % 4 < 2 else s.run_async().result(120)
                assert (np.asarray(old) == 0xA5).all()
                old = lpai.pools_of(s.graph).scratch

    def test_replacing_scratch_memory_waits_for_a_run(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})["y"]
        with qnnrt.Session(model, "lpai") as s:
            s.inputs["x"].array[...] = x
            pools = [lpai.alloc(s.backend, lpai.pool_sizes(s.graph).scratch) for _ in range(2)]

            def run() -> None:
                for _ in range(100):
                    s.run()
                    np.testing.assert_array_equal(s.outputs["y"].array, wanted)

            with running(run):
                for n in range(100):
                    s.set_scratch(pools[n % 2])

    def test_arrays_lie_in_one_pool_or_the_other_while_they_are_exchanged(self) -> None:
        with qnnrt.Session(quantized_conv(), "lpai", io="scratch") as s:
            pools = [lpai.alloc(s.backend, lpai.pool_sizes(s.graph).scratch) for _ in range(2)]
            places = set()

            def look() -> None:
                for _ in range(1000):
                    places.add(s.inputs["x"].array.ctypes.data)

            s.set_scratch(pools[0])
            look()
            (first,) = places
            s.set_scratch(pools[1])
            with running(look):
                for n in range(1000):
                    s.set_scratch(pools[n % 2])
            assert places <= {first, first + pools[1].address - pools[0].address}


class TestTcm:
    OPTIONS = {"lpai": {"direct_mode": True, "mem_type": "tcm"}}  # noqa: RUF012

    def test_io_and_model_lie_in_one_pool(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})
        with qnnrt.Session(model) as s:
            s.save_binary(tmp_path / "conv.bin")
        caplog.set_level("INFO", "qnnrt")
        with qnnrt.Session(tmp_path / "conv.bin", "lpai", options=self.OPTIONS) as s:
            said = [r.getMessage() for r in caplog.records if "tcm" in r.getMessage().lower()]
            nbytes = (tmp_path / "conv.bin").stat().st_size
            sizes = [nbytes, *(t.nbytes for t in (*s.inputs.values(), *s.outputs.values()))]
            assert said[0] == "TCM pool current size: 2035712 max_size: 2035712"
            assert said[1:] == [f"Allocate size {n} from tcm pool 0" for n in sizes]
            buffers = [t.buffer for t in (*s.inputs.values(), *s.outputs.values())]
            assert len({file_of(b) for b in buffers if b is not None}) == 1
            for pool in (lpai.pools_of(s.graph).scratch, lpai.pools_of(s.graph).persistent):
                assert pool is None or file_of(pool) != file_of(buffers[0])
            s.inputs["x"].array[...] = x
            s.run()
            for name, value in wanted.items():
                np.testing.assert_array_equal(s.outputs[name].array, value)
            assert s.stats.copied_bytes == 0

    def test_what_does_not_fit_is_an_error_and_falls_back_nowhere(self) -> None:
        with pytest.raises(qnnrt.MemError, match="TCM memory allocation failure: required size"):
            qnnrt.Session(quantized_relu(2_000_000), "lpai", options=self.OPTIONS)

    def test_it_is_for_direct_mode(self) -> None:
        with pytest.raises(qnnrt.MemError, match="direct mode"):
            qnnrt.Session(quantized_relu(), "lpai", options={"lpai": {"mem_type": "tcm"}})

    def test_a_memory_type_that_is_none(self, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(qnnrt.MemError, match="Memory type only supports DDR & TCM"):
            qnnrt.Session(quantized_relu(), "lpai", options={"lpai": {"mem_type": "sram"}})
        said = [record.getMessage() for record in caplog.records]
        assert "Invalid memory type" in said
        assert "Memory type only supports DDR & TCM" in said


class TestState:
    def test_step_by_step_is_the_whole_sequence(self) -> None:
        frames = sound(6)
        with qnnrt.Session(keyword(), "cpu") as s:
            wanted = KEYWORD.listen(s, frames)
        assert len({tuple(scores) for scores in wanted}) == 6
        for io in IOS:
            with qnnrt.Session(keyword(), "lpai", io=io) as s:
                np.testing.assert_array_equal(KEYWORD.listen(s, frames), wanted)

    @pytest.mark.parametrize("io", IOS)
    def test_state_outlives_scratch_memory(self, io: str) -> None:
        frames = sound(5)
        with qnnrt.Session(keyword(), "lpai", io=io) as s:
            wanted = KEYWORD.listen(s, frames)
            for n, values in enumerate(frames):
                new = lpai.alloc(s.backend, lpai.pool_sizes(s.graph).scratch)
                np.asarray(new)[...] = 0xA5
                s.set_scratch(new)
                t = s.inputs["frame"]
                t.array[...] = qnnrt.quantize(values, t.quantization, t.dtype)
                s.inputs["reset"].array[...] = n == 0
                s.run()
                y = s.outputs["scores"]
                found = qnnrt.dequantize(y.array[0], y.quantization)
                np.testing.assert_array_equal(found, wanted[n])

    @pytest.mark.parametrize("where", ["cpu", "htp", "lpai"])
    def test_reset_state_starts_afresh(self, where: str) -> None:
        with qnnrt.Session(keyword(), where) as s:
            frame = np.full((1, 40), 40000, np.uint16)
            feeds = {"frame": frame, "reset": np.array([False])}
            first, second = (s.run(feeds)["scores"] for _ in range(2))
            assert (first != second).any()
            s.reset_state()
            np.testing.assert_array_equal(s.run(feeds)["scores"], first)
            np.testing.assert_array_equal(s.run(feeds)["scores"], second)

    def test_two_sessions_do_not_disturb_each_other(self) -> None:
        sounds = sound(4, 5), sound(4, 6)
        with qnnrt.Session(keyword(), "lpai") as one, qnnrt.Session(keyword(), "lpai") as two:
            wanted = [KEYWORD.listen(one, frames) for frames in sounds]
            found: list[list[np.ndarray]] = [[], []]
            for n in range(4):
                for s, frames, list_ in zip((one, two), sounds, found, strict=True):
                    t = s.inputs["frame"]
                    t.array[...] = qnnrt.quantize(frames[n], t.quantization, t.dtype)
                    s.inputs["reset"].array[...] = n == 0
                    s.run()
                    y = s.outputs["scores"]
                    list_.append(qnnrt.dequantize(y.array[0], y.quantization))
            np.testing.assert_array_equal(found, wanted)

    @pytest.mark.parametrize("io", IOS)
    def test_runs_that_end_early_go_on(self, io: str) -> None:
        model = quantized_relu()
        encoding = model.tensors["x"].quantization
        model.tensors["w"] = Tensor("w", (2, 16), U8, quantization=encoding)
        window = {"buffer_size": np.uint32(2), "buffer_dim": np.uint32(0)}
        model.nodes.append(Node("window", "Buffer", ["y"], ["w"], window))
        model.outputs = ["w"]
        with qnnrt.Session(model, "lpai", io=io) as s:
            for _ in range(2):
                s.inputs["x"].array[...] = 20
                with pytest.raises(qnnrt.errors.EarlyTermination):
                    s.run()
                s.inputs["x"].array[...] = 30
                s.run()
                np.testing.assert_array_equal(s.outputs["w"].array[:, 0], [20, 30])
                s.reset_state()


class TestSession:
    def test_what_it_says_it_is(self) -> None:
        with qnnrt.Session(quantized_relu(), "lpai") as s:
            assert repr(s) == "<qnnrt.Session 'relu' on LPAI_QTI_AISW>"
            assert s.backend.id == lpai.ID
            assert not s.backend.has_device
            s.run()
            assert s.stats.executes == 1
            assert s.stats.registrations == 2

    def test_every_node_that_it_cannot_take_is_named(self) -> None:
        model = quantized_relu()
        encoding = model.tensors["x"].quantization
        f32 = np.dtype(np.float32)
        model.tensors |= {
            "s": Tensor("s", (1, 16), U8, quantization=encoding),
            "f": Tensor("f", (1, 16), f32),
            "g": Tensor("g", (1, 16), f32),
        }
        model.nodes += [
            Node("sine", "ElementWiseSin", ["y"], ["s"]),
            Node("out", "Dequantize", ["s"], ["f"]),
            Node("float", "Relu", ["f"], ["g"]),
        ]
        model.outputs.append("g")
        with pytest.raises(qnnrt.UnsupportedOpError) as error:
            qnnrt.Session(model, "lpai")
        sine, floats = error.value.nodes
        assert (sine.name, sine.reason) == ("sine", "lpai has no such operation")
        assert "tensors 'f', 'g' are float: quantize the model first" in floats.reason
        assert "docs/quantization.md" in floats.reason

    def test_runs_in_the_background(self) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})["y"]
        for io in IOS:
            with qnnrt.Session(model, "lpai", io=io) as s:
                s.inputs["x"].array[...] = x
                s.run_async().result(120)
                np.testing.assert_array_equal(s.outputs["y"].array, wanted)

    def test_profile(self) -> None:
        with qnnrt.Session(quantized_conv(), "lpai") as s:
            assert s.profile()

    def test_hardware_and_what_else_it_is_told(self) -> None:
        options = {
            "hardware_version": "v5_1", "target": "adsp", "direct_mode": True, "fps": 25,
            "ftrt_ratio": 12, "affinity": "soft", "cores": [0], "island": True,
        }  # fmt: skip
        with qnnrt.Session(quantized_relu(), "lpai", options={"lpai": options}) as s:
            assert lpai.requires_persistent_binary(s.backend)
            assert lpai.cores(s.backend)[0].version == lpai.HardwareVersion.V5_1
            s.run()
            text = f"{lpai.describe(s.backend)} {lpai.describe(s.graph)}"
            for word in ("V5_1", "ADSP", "25", "soft"):
                assert word in text
            shared = Backend.shared("lpai")
            assert shared is not s.backend

    @pytest.mark.parametrize("made_on", ["cpu", "htp", "lpai"])
    def test_binaries_run_on_all_three(self, made_on: str, tmp_path: Path) -> None:
        frames = sound(4)
        with qnnrt.Session(keyword(), made_on) as s:
            wanted = KEYWORD.listen(s, frames)
            s.save_binary(tmp_path / "keyword.bin")
        for where in ("cpu", "htp", "lpai"):
            with qnnrt.Session(tmp_path / "keyword.bin", where) as s:
                np.testing.assert_array_equal(KEYWORD.listen(s, frames), wanted)
        with qnnrt.Session(tmp_path / "keyword.bin", "lpai", io="scratch") as s:
            np.testing.assert_array_equal(KEYWORD.listen(s, frames), wanted)

    def test_a_binary_is_finalized_by_hand(self, backend: Backend, tmp_path: Path) -> None:
        with qnnrt.Session(quantized_conv(), "cpu") as s:
            s.save_binary(tmp_path / "conv.bin")
        context = Context.from_binary(backend, tmp_path / "conv.bin")
        graph = context.graph("conv")
        with pytest.raises(GraphError) as error:
            graph.execute({}, {})
        assert error.value.code == 6023
        lpai.allocate_pools(graph)
        graph.finalize()
        lpai.io_array(graph, "x")[...] = 7
        graph.execute({}, {})

    def test_a_copied_binary_lives_as_long_as_its_graph(self, backend: Backend) -> None:
        """The copy is read when the graph is made, which the client decides, and by each run."""
        random = np.random.default_rng(5)
        weights = random.integers(-127, 128, (1024, 1024)).astype(np.int8)  # a mapping of its own
        tensors = [
            Tensor("x", (1, 1024), U8, quantization=Quantization(scale=0.02, offset=-128)),
            Tensor("w", weights.shape, weights.dtype, weights, Quantization(scale=0.01, offset=0)),
            Tensor("y", (1, 1024), U8, quantization=Quantization(scale=0.4, offset=-128)),
        ]
        node = Node("fc", "FullyConnected", ["x", "w"], ["y"])
        model = Model("fc", {t.name: t for t in tensors}, [node], ["x"], ["y"])
        given = {"x": codes((1, 1024))}
        with qnnrt.Session(model, "cpu", options={"kernels": "portable"}) as s:
            wanted = s.run(given)["y"]
            data = bytearray(s.context.binary())
        context = Context.from_binary(backend, data, persistent_binary=False)
        data[:] = bytes(len(data))
        graph = context.graph("fc")
        lpai.allocate_pools(graph)
        graph.finalize()
        lpai.io_array(graph, "x")[...] = given["x"]
        graph.execute({}, {})
        np.testing.assert_array_equal(lpai.io_array(graph, "y"), wanted)

    def test_direct_mode_wants_binaries_that_stay(self, tmp_path: Path) -> None:
        with qnnrt.Session(quantized_relu()) as s:
            s.save_binary(tmp_path / "relu.bin")
        with Backend.open("lpai", options=lpai.backend_options(direct_mode=True)) as backend:
            with pytest.raises(qnnrt.ContextError, match="PERSISTENT_BINARY"):
                Context.from_binary(backend, tmp_path / "relu.bin", persistent_binary=False)
            Context.from_binary(backend, tmp_path / "relu.bin").close()
        options = {"lpai": {"direct_mode": True}}
        with qnnrt.Session(tmp_path / "relu.bin", "lpai", options=options) as s:
            s.run()
