"""The lpai backend of this runtime through Python: the eight steps, its rules, and Session."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lpai_models import U8, codes, example, quantized_conv, quantized_relu
from parallel import running

import qnnrt
from qnnrt import BufferInUseError, GraphError, _core, lpai
from qnnrt.model import Model, Node, Tensor
from qnnrt.qnn import Backend, Context, Graph

KEYWORD = example()
IOS = ("memhandle", "raw", "scratch")


def on_cpu(model: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with qnnrt.Session(model) as s:
        return s.run(feeds)


def sound(frames: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (frames, 1, KEYWORD.BANDS)).astype(np.float32)


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Backend.open("lpai") as opened:
        yield opened


def compose(backend: Backend, model: Model, name: str = "g") -> Graph:
    """A model's graph, not finalized."""
    from qnnrt._build import add_model

    graph = backend.create_context().create_graph(name)
    add_model(graph, model, dict.fromkeys((*model.inputs, *model.outputs), "raw"))
    return graph


def keyword() -> Model:
    return KEYWORD.network()


class TestStepByStep:
    def test_the_eight_steps(self, backend: Backend) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        graph = compose(backend, model)
        needed = lpai.alignment(backend)
        assert needed == lpai.Alignment(start=64, size=16)
        sizes = lpai.pool_sizes(graph)
        assert sizes.scratch > 0
        assert sizes.scratch % needed.size == 0
        assert sizes.persistent == 0
        scratch = qnnrt.alloc(sizes.scratch, alignment=4096)
        lpai.set_scratch(graph, scratch)
        graph.finalize()
        into = {n: lpai.alloc(backend, t.nbytes) for n, t in model.tensors.items() if n in "xry"}
        into["x"].array(x.shape, x.dtype)[...] = x
        graph.execute([into["x"]], {"r": into["r"], "y": into["y"]})
        wanted = on_cpu(model, {"x": x})
        for name in "ry":
            found = into[name].array(wanted[name].shape, np.uint8)
            np.testing.assert_array_equal(found, wanted[name])

    def test_sizes_are_the_same_however_often_one_asks(self, backend: Backend) -> None:
        graph = compose(backend, keyword())
        sizes = lpai.pool_sizes(graph)
        assert sizes.persistent > 0
        assert lpai.pool_sizes(graph) == sizes
        lpai.allocate_pools(graph)
        graph.finalize()
        assert lpai.pool_sizes(graph) == sizes

    def test_a_tensor_added_afterwards_makes_another_plan(self, backend: Backend) -> None:
        graph = compose(backend, quantized_relu(1024))
        before = lpai.pool_sizes(graph)
        y = graph.tensors["y"]
        z = graph.add_tensor("z", (1, 1024), np.uint8, type="app_read", quantization=y.quantization)
        graph.add_node("again", "Relu", [graph.tensors["x"]], [z])
        assert lpai.pool_sizes(graph).scratch > before.scratch

    def test_other_alignments(self) -> None:
        options = lpai.backend_options(start_alignment=4096, size_alignment=256)
        with Backend.open("lpai", options=options) as backend:
            assert lpai.alignment(backend) == lpai.Alignment(start=4096, size=256)
            graph = compose(backend, keyword())
            sizes = lpai.pool_sizes(graph)
            assert sizes.scratch % 256 == sizes.persistent % 256 == 0
            pools = lpai.allocate_pools(graph)
            assert pools.scratch.address % 4096 == pools.persistent.address % 4096 == 0
            graph.finalize()


class TestRules:
    @pytest.fixture
    def graph(self, backend: Backend) -> Graph:
        return compose(backend, keyword())

    def test_finalize_needs_every_pool_that_is_not_empty(
        self, backend: Backend, graph: Graph
    ) -> None:
        sizes = lpai.pool_sizes(graph)
        with pytest.raises(GraphError, match=f"scratch.* {sizes.scratch} ") as error:
            graph.finalize()
        assert error.value.code == 6000
        lpai.set_scratch(graph, lpai.alloc(backend, sizes.scratch))
        with pytest.raises(GraphError, match=f"persistent.* {sizes.persistent} "):
            graph.finalize()
        lpai.set_persistent(graph, lpai.alloc(backend, sizes.persistent))
        graph.finalize()

    @pytest.mark.parametrize("kind", ["scratch", "persistent"])
    def test_a_pool_that_is_too_small(self, backend: Backend, graph: Graph, kind: str) -> None:
        needed = getattr(lpai.pool_sizes(graph), kind)
        small = lpai.alloc(backend, needed - 16)
        with pytest.raises(
            GraphError, match=f"has {needed - 16} bytes, needed are {needed}"
        ) as error:
            getattr(lpai, f"set_{kind}")(graph, small)
        assert error.value.code == 6000
        assert getattr(lpai.pools_of(graph), kind) is None
        small.close()  # it was not taken

    @pytest.mark.parametrize("kind", ["scratch", "persistent"])
    def test_a_pool_that_is_not_aligned(self, backend: Backend, graph: Graph, kind: str) -> None:
        needed = getattr(lpai.pool_sizes(graph), kind)
        memory = np.asarray(qnnrt.alloc(needed + 256))
        with pytest.raises(GraphError, match="multiple of 64") as error:
            getattr(lpai, f"set_{kind}")(graph, memory[32 : 32 + needed])
        assert error.value.code == 6000
        with pytest.raises(
            GraphError, match=rf"has {needed + 8} bytes; needed is .* multiple of 16"
        ):
            getattr(lpai, f"set_{kind}")(graph, memory[: needed + 8])
        getattr(lpai, f"set_{kind}")(graph, memory[64 : 64 + needed])

    def test_pools_may_not_overlap(self, backend: Backend, graph: Graph) -> None:
        sizes = lpai.pool_sizes(graph)
        memory = np.asarray(lpai.alloc(backend, sizes.scratch + sizes.persistent))
        lpai.set_scratch(graph, memory[: sizes.scratch])
        with pytest.raises(GraphError, match="scratch"):
            lpai.set_persistent(graph, memory[: sizes.persistent])

    def test_persistent_memory_is_one_graphs_alone(self, backend: Backend, graph: Graph) -> None:
        memory = lpai.alloc(backend, lpai.pool_sizes(graph).persistent)
        lpai.set_persistent(graph, memory)
        other = compose(backend, keyword(), "other")
        with pytest.raises(GraphError, match="'g'"):
            lpai.set_persistent(other, memory)

    def test_scratch_memory_may_be_that_of_several_graphs(self, backend: Backend) -> None:
        model, x = quantized_conv(), codes((1, 8, 8, 4))
        wanted = on_cpu(model, {"x": x})["y"]
        graphs = [compose(backend, model, name) for name in ("one", "two")]
        scratch = lpai.alloc(backend, lpai.pool_sizes(graphs[0]).scratch)
        for graph in graphs:
            lpai.set_scratch(graph, scratch)
            graph.finalize()
        for graph in graphs * 2:
            lpai.io_array(graph, "x")[...] = x
            graph.execute({}, {})
            np.testing.assert_array_equal(lpai.io_array(graph, "y"), wanted)

    def test_persistent_memory_is_settled_by_finalize(self, backend: Backend, graph: Graph) -> None:
        lpai.allocate_pools(graph)
        graph.finalize()
        for memory in (lpai.alloc(backend, lpai.pool_sizes(graph).persistent), None):
            with pytest.raises(GraphError) as error:
                lpai.set_persistent(graph, memory)
            assert error.value.code == 6024

    def test_executing_without_scratch_memory(self, graph: Graph) -> None:
        pools = lpai.allocate_pools(graph)
        graph.finalize()
        lpai.set_scratch(graph, None)
        with pytest.raises(GraphError, match="scratch") as error:
            graph.execute({}, {})
        assert error.value.code == 6000
        lpai.set_scratch(graph, pools.scratch)
        lpai.io_array(graph, "frame")[...] = 0
        lpai.io_array(graph, "reset")[...] = True
        graph.execute({}, {})

    def test_executing_before_finalize(self, graph: Graph) -> None:
        lpai.allocate_pools(graph)
        with pytest.raises(GraphError) as error:
            graph.execute({}, {})
        assert error.value.code == 6023

    def test_pools_that_are_empty_need_no_call(self) -> None:
        with qnnrt.Session(quantized_relu(), "lpai") as s:
            assert lpai.pool_sizes(s.graph) == lpai.PoolSizes(0, 0)
            assert lpai.pools_of(s.graph) == lpai.Pools(None, None)
            s.inputs["x"].array[...] = np.arange(16)
            s.run()
            np.testing.assert_array_equal(s.outputs["y"].array[0], np.maximum(np.arange(16), 10))

    def test_pools_are_in_ddr_alone(self, graph: Graph) -> None:
        config = _core.LpaiConfig.memory(False, lpai.MemType.TCM, 0x1000, 1 << 20)
        with pytest.raises(GraphError, match="DDR"):
            graph.set_config(custom=[config])

    def test_performance_and_affinity_are_checked_and_reported(
        self, backend: Backend, graph: Graph
    ) -> None:
        lpai.set_performance(graph, fps=30, ftrt_ratio=20, client_type="non_real_time")
        lpai.set_affinity(graph, "hard", cores=[1])
        for bad, message in (
            (lambda: lpai.set_performance(graph, fps=0), "fps"),
            (lambda: lpai.set_performance(graph, ftrt_ratio=0), "ftrtRatio"),
            (lambda: lpai.set_performance(graph, client_type=3), "clientType"),
            (lambda: lpai.set_affinity(graph, 3), "affinity"),
            (lambda: lpai.set_affinity(graph, "soft", cores=[0, 1]), "coreSelection"),
            (lambda: lpai.set_affinity(graph, "soft", cores=[7]), "coreSelection"),
        ):
            with pytest.raises(GraphError, match=message):
                bad()
        text = str(lpai.describe(graph))
        assert "'fps': 30" in text
        assert "non_real_time" in text
        assert "hard" in text

    def test_options_of_preparing_come_before_it(self, graph: Graph) -> None:
        lpai.set_prepare(graph, per_layer=True)
        lpai.pool_sizes(graph)
        with pytest.raises(GraphError, match="prepared"):
            lpai.set_prepare(graph)


class TestLifetime:
    def test_pools_are_the_graphs_as_long_as_it_uses_them(self, backend: Backend) -> None:
        graph = compose(backend, keyword())
        pools = lpai.allocate_pools(graph)
        for memory, kind in ((pools.scratch, "scratch"), (pools.persistent, "persistent")):
            with pytest.raises(BufferInUseError, match=f"graph 'g' as its {kind} memory"):
                memory.close()
        graph.finalize()
        lpai.set_scratch(graph, lpai.alloc(backend, pools.scratch.nbytes))
        pools.scratch.close()
        with pytest.raises(BufferInUseError):
            pools.persistent.close()
        graph.context.close()
        pools.persistent.close()

    def test_the_runtime_itself_knows_too(self, backend: Backend) -> None:
        graph = compose(backend, keyword())
        pools = lpai.allocate_pools(graph)
        graph.context._pools.clear()  # what Python knows
        for memory in (pools.scratch, pools.persistent):
            with pytest.raises(BufferInUseError, match="'g'"):
                memory.close()
        graph.context.close()
        pools.scratch.close()

    def test_nobody_has_to_keep_the_pools(self) -> None:
        s = qnnrt.Session(keyword(), "lpai")
        gc.collect()
        first = s.run({"frame": np.zeros((1, 40), np.uint16), "reset": np.array([True])})
        gc.collect()
        again = s.run({"frame": np.zeros((1, 40), np.uint16), "reset": np.array([True])})
        np.testing.assert_array_equal(first["scores"], again["scores"])

    def test_closing_the_session_frees_pools_of_the_callers(self) -> None:
        with qnnrt.Session(keyword(), "lpai") as s:
            sizes = lpai.pool_sizes(s.graph)
        scratch, persistent = (qnnrt.alloc(n) for n in (sizes.scratch, sizes.persistent))
        options = lpai.Options(scratch=scratch, persistent=persistent)
        s = qnnrt.Session(keyword(), "lpai", options={"lpai": options})
        assert lpai.pools_of(s.graph) == lpai.Pools(scratch, persistent)
        for memory in (scratch, persistent):
            with pytest.raises(BufferInUseError):
                memory.close()
        s.close()
        scratch.close()
        persistent.close()

    def test_pools_of_the_callers_that_do_not_fit_leave_nothing_behind(self) -> None:
        small = qnnrt.alloc(64)
        with pytest.raises(GraphError, match="64"):
            qnnrt.Session(keyword(), "lpai", options={"lpai": {"scratch": small}})
        small.close()


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
                    s.run_async().result(60)
                else:
                    s.run()
                np.testing.assert_array_equal(s.outputs["y"].array, wanted)
                s.set_scratch(lpai.alloc(s.backend, size))
                np.asarray(old)[...] = 0xA5
                s.inputs["x"].array[...] = x
                for _ in range(2):
                    s.run() if n % 4 < 2 else s.run_async().result(60)
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
            assert len({b._file_id() for b in buffers if b is not None}) == 1
            for pool in (lpai.pools_of(s.graph).scratch, lpai.pools_of(s.graph).persistent):
                assert pool is None or pool._file_id() != buffers[0]._file_id()
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
                s.run_async().result(60)
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
