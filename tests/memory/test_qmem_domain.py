"""Registered memory and the backend's own on htp, and the budget that both count against."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.outside import printed
from support.qmem import SIZES, TOTAL, WORDS, broadcast_model, run_and_check
from support.toy import conv_model, relu_model

# ---- registration on htp


@pytest.fixture
def context() -> Iterator[qnn.Context]:
    with qnn.Backend.open("htp") as backend, backend.create_context() as c:
        yield c


@pytest.mark.parametrize("kind", ["ion", "shared_buffer", "dma_buf"])
def test_every_kind_of_tensor_memory_is_used_in_place(context, kind):
    graph = context.create_graph("g")
    x = graph.add_tensor("x", (4, 4), np.float32, type="app_write", mem_type="memhandle")
    y = graph.add_tensor("y", (4, 4), np.float32, type="app_read", mem_type="memhandle")
    graph.add_node("relu", "Relu", [x], [y])
    graph.finalize()
    a, b = (context.register(qnnrt.alloc(4096), (4, 4), np.float32, kind=kind) for _ in range(2))
    a.array[...] = np.arange(16).reshape(4, 4) - 8
    graph.execute([a], [b])
    assert (b.array == np.maximum(a.array, 0)).all()
    assert graph._library.graph_stats(graph.handle)["copied_bytes"] == 0
    context.deregister(a, b)


@pytest.mark.parametrize("kind", ["ion", "shared_buffer", "dma_buf"])
def test_registering_twice_is_8002_and_get_or_register_finds_the_handle(context, kind):
    buffer = qnnrt.alloc(4096)
    first = context.get_or_register(buffer, (4, 4), np.float32, kind=kind)
    with pytest.raises(qnnrt.MemError) as e:
        context.register(buffer, (4, 4), np.float32, kind=kind)
    assert e.value.code == 8002
    assert context.get_or_register(buffer, (4, 4), np.float32, kind=kind) is first
    assert context.registrations == 1


def test_kinds_for_the_backend_take_no_shape_and_others_need_one(context):
    buffer = qnnrt.alloc(4096)
    for kind in ("weights", "spill_fill"):
        with pytest.raises(ValueError, match="no shape or type"):
            context.register(buffer, (4,), np.float32, kind=kind)
    with pytest.raises(ValueError, match="needs the tensor's shape and type"):
        context.register(buffer)
    with pytest.raises(ValueError, match="weights"):
        context.register(buffer, (4,), np.float32, kind="wood")


@pytest.mark.parametrize("nbytes", [1, 100, 4096, 5000])
@pytest.mark.parametrize("kind", ["weights", "spill_fill"])
def test_memory_for_the_backend_may_have_any_size(context, kind, nbytes):
    with context.register(qnnrt.alloc(nbytes), kind=kind) as handle:
        assert handle.nbytes == nbytes


# ---- execution environments


@pytest.mark.parametrize("prepare", WORDS)
def test_the_backends_own_memory_is_used_in_place(prepare):
    with qnnrt.Session(broadcast_model(), "htp", io="raw", prepare=prepare) as s:
        assert s.backend.has_capability("populate_client_bufs")
        with s.graph.populate_environment() as environment:
            arrays = environment.arrays
            assert list(arrays) == list(SIZES)
            assert s.stats.reserved_bytes == TOTAL
            for name, t in {**s.inputs, **s.outputs}.items():
                assert (arrays[name].shape, arrays[name].dtype) == (t.shape, t.dtype)
                t.bind(arrays[name])
            for value in range(3):
                run_and_check(s, value)
            assert s.stats.copied_bytes == 0
            s.inputs["b"].bind(np.arange(8, dtype=np.float32).reshape(1, 8) - 4)
            run_and_check(s, 3)
            assert s.stats.copied_bytes == SIZES["b"]
        run_and_check(s, 4)  # the memory is there as long as the graph
    assert (arrays["w"] == 4 + np.arange(8) - 4).all()  # and its bytes as long as the array


def test_some_tensors_may_be_in_the_backends_memory():
    with qnnrt.Session(broadcast_model(), "htp", io="raw") as s:
        with pytest.raises(KeyError, match="'q'"):
            s.graph.populate_environment(["q"])
        environment = s.graph.populate_environment(["w", "a"])
        assert list(environment.arrays) == ["a", "w"]
        s.inputs["a"].bind(environment.arrays["a"])
        s.outputs["w"].bind(environment.arrays["w"])
        run_and_check(s, 1)
        assert s.stats.copied_bytes == SIZES["b"] + SIZES["z"]


def test_bound_handles_stay_until_the_environment_is_closed():
    with qnnrt.Session(broadcast_model(), "htp") as s:
        handles = [t.handle for t in (*s.inputs.values(), *s.outputs.values())]
        environment = s.graph.prepare_environment(handles[:2], handles[2:])
        run_and_check(s, 1)
        with pytest.raises(qnnrt.MemError) as e:
            s.backend.library.mem_deregister([handles[0].handle])
        assert e.value.code == 1005
        environment.close()
        run_and_check(s, 2)
        assert s.stats.copied_bytes == 0


# ---- the process domain


@pytest.fixture
def small_domain() -> Iterator[int]:
    before = qnn.process_domain()
    room = 1 << 20
    qnn.set_process_domain_budget(before.used + room)
    yield room
    qnn.set_process_domain_budget(before.budget)
    assert qnn.process_domain().used == before.used  # all of it was given back


def test_what_is_mapped_is_counted_and_given_back():
    before = qnn.process_domain().used
    with qnnrt.Session(broadcast_model(), "htp", prepare="raw") as s:
        now = qnn.process_domain()
        assert now.peak >= now.used >= before + TOTAL
        assert sum(h.nbytes for h in now.holders) == now.used
        assert [h.nbytes for h in now.holders] == sorted(h.nbytes for h in now.holders)[::-1]
        assert any(h.what == "staging of graph" for h in now.holders)
        s.run()
    assert qnn.process_domain().used == before


def test_weights_of_a_binary_and_arenas_are_counted(tmp_path):
    path = tmp_path / "conv.bin"
    with qnnrt.Session(conv_model(), "htp") as s:
        s.save_binary(path)
    before = qnn.process_domain().used
    with qnnrt.Session(path, "htp", io="raw"):
        what = {h.what: h.nbytes for h in qnn.process_domain().holders}
        assert what["weights of graph"] >= 3 * 3 * 8 * 16 * 4
    assert qnn.process_domain().used == before


def test_a_buffer_counts_once_however_often_it_is_registered(context):
    before = qnn.process_domain().used
    buffer = qnnrt.alloc(1 << 16)
    handles = [
        context.register(buffer, (16,), np.float32, offset=offset, kind="shared_buffer")
        for offset in range(0, 4096, 64)
    ]
    assert qnn.process_domain().used == before + (1 << 16)
    context.deregister(*handles)
    assert qnn.process_domain().used == before


def test_beyond_the_budget_it_is_8003_and_the_message_names_who_holds_it(context, small_domain):
    held = context.register(qnnrt.alloc(768 << 10), (16,), np.float32)
    with pytest.raises(qnnrt.MemError) as e:
        context.register(qnnrt.alloc(512 << 10), (16,), np.float32)
    assert e.value.code == 8003
    assert str(qnn.process_domain().budget) in str(e.value)
    assert "registered buffer" in str(e.value)
    held.close()
    context.register(qnnrt.alloc(512 << 10), (16,), np.float32).close()


def test_a_session_beyond_the_budget_leaves_nothing_behind(small_domain):
    before = _core.live_counts()
    with pytest.raises(qnnrt.QnnError) as e:
        qnnrt.Session(relu_model((1, small_domain)), "htp")
    assert e.value.code == 8003
    after = _core.live_counts()
    assert {k: after[k] for k in ("contexts", "graphs", "mem_handles")} == {
        k: before[k] for k in ("contexts", "graphs", "mem_handles")
    }
    with qnnrt.Session(relu_model(), "htp") as s:
        s.run()


def test_the_environment_sets_the_budget():
    program = "from qnnrt import qnn; print(qnn.process_domain().budget)"
    assert printed(program, QNNRT_HTP_DOMAIN_BYTES="12345678").strip() == "12345678"
