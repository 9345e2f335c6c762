"""The lpai backend of this runtime, step by step: the eight steps, the rules, who holds what."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qnnrt
from qnnrt import BufferInUseError, GraphError, _core, lpai
from qnnrt.qnn import Backend, Graph
from support.lpai_models import (
    codes,
    compose,
    example,
    keyword,
    on_cpu,
    quantized_conv,
    quantized_relu,
)

KEYWORD = example()


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

    @pytest.mark.parametrize(
        ("name", "kind", "instead"),
        [("lpai", "shared_buffer", "lpai"), ("lpai", "weights", "lpai")]
        + [(name, "lpai", "shared_buffer") for name in ("cpu", "htp")],
    )
    def test_descriptors_are_of_the_backends_own_kind(
        self, name: str, kind: str, instead: str
    ) -> None:
        tensor = () if kind == "weights" else ((16,), np.uint8)
        with Backend.open(name) as backend, backend.create_context() as context:
            buffer = qnnrt.alloc(64)
            message = f"kind '{kind}' is not for {backend.name}: use kind='{instead}'"
            with pytest.raises(ValueError, match=message):
                context.register(buffer, *tensor, kind=kind)
            buffer.close()


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
