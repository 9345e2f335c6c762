"""Context binaries through the API: what goes in comes out, by mapping it; what is not sound is
one clear error. (tests/native/binary_test.cc has the format, byte for byte.)"""

from __future__ import annotations

import gc
import json
import logging
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.binaries import BACKENDS, PAGE, aligned, binary_of, deep, dense, expect, prepared, run
from support.one_node import case
from support.outside import printed
from support.recurrent_cases import LstmCase, N, U
from support.toy import add_model, conv_model, relu_model
from zoo import networks

KERNELS = pytest.mark.parametrize("kernels", ["auto", "portable"])


# ---- what goes in comes out


@BACKENDS
@KERNELS
@pytest.mark.other_fds  # the first use of onnxruntime keeps some
@pytest.mark.parametrize("network", ["squeezenet", "shufflenet"])
def test_a_network_gives_the_same_bytes_after_loading(tmp_path, name, kernels, network):
    path = tmp_path / "net.onnx"
    onnx.save(networks.randomized(network, 3), path)
    options = {"kernels": kernels}
    with qnnrt.Session(path, name, options=options) as s:
        (x,) = s.inputs
        expected = s.run({x: networks.image(3)})
        steps = json.loads(s.graph.describe())["steps"]
        s.save_binary(tmp_path / "net.bin")
    with qnnrt.Session(tmp_path / "net.bin", name) as s:
        got = s.run({x: networks.image(3)})
        assert json.loads(s.graph.describe())["steps"] == steps
    assert {n: v.tobytes() for n, v in got.items()} == {n: v.tobytes() for n, v in expected.items()}


@BACKENDS
def test_an_output_left_out_between_others_is_left_out_after_loading(name):
    cell = LstmCase(2)  # its outputs: all states, the last cell, the last state
    inputs, states = [cell.x[0], *cell.v[1:]], [(N, U), None, (N, U)]
    what = case("Lstm", inputs, states, static=range(1, len(inputs)))
    with qnnrt.Session(what.model, name) as s:
        expected = s.run(what.feeds)
        data = s.context.binary()
    with qnn.Backend.open(name) as b, qnn.Context.from_binary(b, data) as context:
        outputs = {n: np.empty_like(v) for n, v in expected.items()}
        context.graph("Lstm").execute(what.feeds, outputs)
    assert len(expected) == 2
    for n, wanted in expected.items():
        np.testing.assert_array_equal(outputs[n], wanted)


@BACKENDS
@pytest.mark.parametrize("model", [relu_model(), add_model(), conv_model(), dense()], ids=str)
def test_a_binary_is_the_same_whenever_it_is_written(name, model):
    first = prepared(model, name)
    assert prepared(model, name) == first
    with qnn.Backend.open(name) as b, qnn.Context.from_binary(b, first) as context:
        assert context.binary() == first  # of a context that came from one, too


def test_a_binary_is_the_same_in_another_process(tmp_path):
    # malloc gives memory full of something: nothing of that may get in.
    code = (
        "import hashlib\n"
        "from support import binaries as t\n"
        "from support import toy\n"
        "for m in (toy.conv_model(), t.dense()):\n"
        "    for k in ('auto', 'portable'):\n"
        "        b = t.prepared(m, options={'kernels': k})\n"
        "        print(hashlib.sha256(b).hexdigest())\n"
    )
    assert len({printed(code, MALLOC_PERTURB_=perturb) for perturb in ("1", "200")}) == 1


def test_several_graphs_live_in_one_binary(backend):
    models = [dense("one", seed=1), dense("two", seed=2), dense("three", seed=3)]
    data = binary_of(backend, *models)
    with qnn.Context.from_binary(backend, data) as context:
        for model in models:
            np.testing.assert_allclose(run(context.graph(model.name)), expect(model), rtol=1e-4)
    with qnn.Context.from_binary(backend, data, enable_graphs=["two"]) as context:
        np.testing.assert_allclose(run(context.graph("two")), expect(models[1]), rtol=1e-4)
        with pytest.raises(qnnrt.GraphError) as e:
            context.graph("one")
        assert e.value.code == 6002
        assert len(context.binary()) < len(data)
    with pytest.raises(qnnrt.ContextError, match=r"no graph 'four'.*'one', 'three', 'two'") as c:
        qnn.Context.from_binary(backend, data, enable_graphs=["two", "four"])
    assert c.value.code == 5010


def test_a_retrieved_graph_is_ready_and_closed(backend):
    data = binary_of(backend, dense())
    with qnn.Context.from_binary(backend, data) as context:
        graph = context.graph("dense")
        for change in (
            graph.finalize,
            lambda: graph.add_tensor("more", (1,), np.float32),
            lambda: graph.add_node("n", "Relu", [graph.tensors["x"]], [graph.tensors["y"]]),
        ):
            with pytest.raises(qnnrt.QnnError) as e:
                change()
            assert e.value.code == 6024
        np.testing.assert_allclose(run(graph), expect(dense()), rtol=1e-4)


def test_writing_needs_finalized_graphs(backend):
    with backend.create_context() as context:
        for message in ("no graph", "'open' is not finalized"):
            with pytest.raises(qnnrt.ContextError, match=message) as e:
                context.binary()
            assert e.value.code == 5003
            if message == "no graph":
                context.create_graph("open")


# ---- memory


def mapped_bytes(path: Path, what: str) -> int:
    """Of this process's mappings of a file, in bytes."""
    text = Path("/proc/self/smaps").read_text()
    blocks = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text)
    sizes = [re.search(rf"^{what}: +(\d+) kB", b, re.MULTILINE) for b in blocks if str(path) in b]
    return sum(int(size.group(1)) for size in sizes if size) * 1024


def test_loading_maps_the_weights_and_does_not_read_them(tmp_path):
    path = tmp_path / "big.bin"
    model = dense("big", 4096)  # 64 MiB
    with qnnrt.Session(model, "htp") as s:
        s.save_binary(path)
        expected = s.run({"x": np.full((1, 4096), 0.5, np.float32)})["y"]
    size = path.stat().st_size
    assert size > 64 << 20
    before = _core.memory_counts()
    with qnnrt.Session(path, "htp") as s:
        assert mapped_bytes(path, "Size") >= size
        assert mapped_bytes(path, "Rss") < 4 << 20  # header, metadata and their neighbours
        got = s.run({"x": np.full((1, 4096), 0.5, np.float32)})["y"]
        assert mapped_bytes(path, "Rss") >= 64 << 20
        assert mapped_bytes(path, "Anonymous") == 0  # used in place, shared with everyone
        assert s.stats.executes == 1
    assert got.tobytes() == expected.tobytes()
    del s
    gc.collect()
    assert mapped_bytes(path, "Size") == 0
    assert _core.memory_counts()["maps"] == before["maps"]


def test_without_a_persistent_binary_the_clients_memory_may_go(backend):
    data = bytearray(binary_of(backend, dense()))
    with qnn.Context.from_binary(backend, data, persistent_binary=False) as context:
        data[:] = bytes(len(data))
        np.testing.assert_allclose(run(context.graph("dense")), expect(dense()), rtol=1e-4)


def test_a_persistent_binary_that_is_not_aligned_is_copied_and_told(caplog):
    caplog.set_level(logging.WARNING, "qnnrt")
    with qnn.Backend.open("htp", log_level="warn") as backend:
        data = binary_of(backend, dense())
        skewed = aligned(b"\0" * 8 + data)[8:]
        with qnn.Context.from_binary(backend, skewed, persistent_binary=True) as context:
            np.testing.assert_allclose(run(context.graph("dense")), expect(dense()), rtol=1e-4)
        assert any("boundary of 64 bytes" in r.getMessage() for r in caplog.records)
        with pytest.raises(qnnrt.ContextError, match="boundary of 64 bytes") as e:
            qnn.Context.from_binary(
                backend, skewed, persistent_binary=True, binary_compatibility="strict"
            )
        assert e.value.code == 5011


def test_weights_and_arenas_count_against_the_process_domain(backend):
    data = binary_of(backend, dense("dense", 512))
    before = qnn.process_domain()
    with qnn.Context.from_binary(backend, data):
        used = qnn.process_domain().used - before.used
        assert 512 * 512 * 4 <= used < 512 * 512 * 4 + (1 << 16)
    assert qnn.process_domain().used == before.used
    qnn.set_process_domain_budget(before.used + (1 << 19))
    try:
        with pytest.raises(qnnrt.QnnError, match="weights of graph") as e:
            qnn.Context.from_binary(backend, data)
        assert e.value.code == 1002
    finally:
        qnn.set_process_domain_budget(before.budget)
    assert qnn.process_domain().used == before.used


# ---- deferred graphs


@pytest.mark.parametrize("persistent", [True, False])
def test_deferred_graphs_become_ready_in_finalize(backend, persistent):
    data = binary_of(backend, dense("one", seed=1), dense("two", seed=2))
    memory = aligned(data)
    with qnn.Context.from_binary(
        backend, memory, persistent_binary=persistent, defer_graph_init=True
    ) as context:
        graph = context.graph("one")
        with pytest.raises(qnnrt.GraphError) as e:
            run(graph)
        assert e.value.code == 6023
        with pytest.raises(qnnrt.GraphError, match="contextFinalize") as e:
            graph.finalize()
        assert e.value.code == 6024
        with pytest.raises(qnnrt.ContextError):
            context.binary()
        if not persistent:
            memory[:] = bytes(len(memory))
        context.finalize()
        np.testing.assert_allclose(run(graph), expect(dense(seed=1)), rtol=1e-4)
        with pytest.raises(qnnrt.QnnError, match="once") as c:
            context.finalize()
        assert c.value.code == 1005


def test_weights_and_spill_fill_go_where_the_client_wants_them(backend):
    models = [deep("one", seed=1), deep("two", seed=2)]
    data = aligned(binary_of(backend, *models))
    with qnn.Context.from_binary(
        backend, data, persistent_binary=True, defer_graph_init=True
    ) as context:
        alignment = context.get_property("buffer_start_alignment")
        weights = context.get_property("weights_buffer_size")
        spill_fill = context.get_property("spill_fill_buffer_size")
        assert alignment == 64
        assert weights == 2 * 2 * 64 * 64 * 4  # packed, and as they are
        assert spill_fill > 0
        small = context.register(qnnrt.alloc(PAGE), kind="weights")
        with pytest.raises(qnnrt.ContextError, match=rf"WEIGHTS_BUFFER.*{weights}") as e:
            context.finalize()
        assert e.value.code == 5000
        context.deregister(small)
        used = qnn.process_domain().used
        rooms = [qnnrt.alloc(weights), qnnrt.alloc(max(spill_fill, PAGE))]
        for room in rooms:
            room.array((room.nbytes,), np.uint8)[:] = 0xEE
        handles = [
            context.register(room, kind=kind)
            for room, kind in zip(rooms, ("weights", "spill_fill"), strict=True)
        ]
        registered = qnn.process_domain().used - used
        context.finalize()
        staging = 4 * 64 * 4  # four RAW tensors
        assert qnn.process_domain().used - used <= registered + staging + 4 * PAGE
        filled = rooms[0].array((weights // 4,), np.float32)
        assert set(filled.tolist()) >= set(models[0].tensors["w"].data.ravel()[:9].tolist())
        # Weights are used from there: with others it computes something else.
        for model in models:
            y = run(context.graph(model.name))
            np.testing.assert_allclose(y, expect(model, -0.5), rtol=1e-4)
        filled[:] = 0
        assert not run(context.graph("one")).any()
        assert not (rooms[1].array((spill_fill,), np.uint8) == 0xEE).all()
        with pytest.raises(qnnrt.MemError) as m:  # in use until the graphs are gone
            context.deregister(handles[0])
        assert m.value.code == 1005


def test_properties_of_other_contexts(backend):
    with backend.create_context() as context:
        assert context.get_property("weights_buffer_size") == 0
    with (
        qnn.Backend.open("cpu") as cpu,
        cpu.create_context() as context,
        pytest.raises(qnnrt.ContextError) as e,
    ):
        context.get_property("weights_buffer_size")
    assert e.value.code == 1000


# ---- what is told


def test_the_profile_of_loading_has_its_parts(backend):
    data = binary_of(backend, dense())
    with backend.create_profile() as profile:
        with qnn.Context.from_binary(backend, data, profile=profile):
            pass
        (top,) = profile.events()
        assert top.kind == "init"
        assert top.identifier == "init: context binary"
        parts = {e.identifier: e for e in top.events}
        assert set(parts) == {
            "load binary: header and metadata",
            "load binary: graphs",
            "load binary: weights",
        }
        assert parts["load binary: weights"].value == 2 * 64 * 64 * 4  # packed, and as they are


def test_the_log_says_what_was_loaded(caplog):
    caplog.set_level(logging.DEBUG, "qnnrt")
    with qnn.Backend.open("htp", log_level="verbose") as backend:
        data = binary_of(backend, dense())
        with qnn.Context.from_binary(backend, data):
            pass
    lines = [r.getMessage() for r in caplog.records]
    assert any(
        re.search(rf"context binary of {len(data)} bytes by \S*qnnrt-.*1 graphs.*copied", line)
        for line in lines
    )
    assert any("graph 'dense' of the context binary: 1 inputs, 1 outputs" in n for n in lines)
