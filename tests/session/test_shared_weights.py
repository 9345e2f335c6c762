"""Sessions and graphs that have equal weights have them once."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.model import Model, Node, Tensor
from qnnrt.qnn import shared_weights

# So many that products of any number of rows have the same kernels.
DEPTH, COLUMNS, WORDS = 512, 512, 256
TABLE, MATRIX = WORDS * DEPTH * 4, DEPTH * COLUMNS * 4


def network(rows: int, seed: int = 0, *, bias: bool = False) -> Model:
    """y = table[ids] x w: the table is read as it is, w is packed."""
    random = np.random.default_rng(seed)
    table = random.standard_normal((WORDS, DEPTH), np.float32)
    w = random.standard_normal((DEPTH, COLUMNS), np.float32)
    model = Model("net", inputs=["ids"], outputs=["y"])
    for t in (
        Tensor("ids", (rows,), np.dtype(np.int32)),
        Tensor("table", table.shape, table.dtype, table),
        Tensor("w", w.shape, w.dtype, w),
        Tensor("x", (rows, DEPTH), np.dtype(np.float32)),
        Tensor("y", (rows, COLUMNS), np.dtype(np.float32)),
    ):
        model.tensors[t.name] = t
    model.nodes = [
        Node("gather", "Gather", ["table", "ids"], ["x"], {"axis": np.int32(0)}),
        Node("product", "MatMul", ["x", "w"], ["y"]),
    ]
    return model


def expected(model: Model, ids: np.ndarray) -> np.ndarray:
    table, w = model.tensors["table"].data, model.tensors["w"].data
    assert table is not None
    assert w is not None
    return np.asarray(table[ids] @ w)


def ids_of(rows: int) -> np.ndarray:
    return (np.arange(rows, dtype=np.int32) * 7) % WORDS


@pytest.fixture(autouse=True)
def _nothing_is_left():
    gc.collect()
    before = shared_weights()
    yield
    gc.collect()
    after = shared_weights()
    assert (after.entries, after.nbytes) == (before.entries, before.nbytes)


def test_sessions_of_a_model_have_its_weights_once():
    models = [network(n) for n in (1, 5, 40)]
    before = shared_weights()
    sessions = [qnnrt.Session(m, threads=t) for m, t in zip(models, (1, 2, 4), strict=True)]
    made = shared_weights()
    assert made.entries - before.entries == 2
    assert made.nbytes - before.nbytes == TABLE + MATRIX
    for session in sessions:
        assert session.stats.shared_weight_bytes == TABLE + MATRIX
        assert session.stats.private_weight_bytes == 0
    # The first one goes, and the others are as they were.
    sessions[0].close()
    for model, session, rows in zip(models[1:], sessions[1:], (5, 40), strict=True):
        y = session.run({"ids": ids_of(rows)})["y"]
        np.testing.assert_allclose(y, expected(model, ids_of(rows)), rtol=1e-4, atol=1e-4)
    sessions[1].close()
    assert sessions[2].stats.shared_weight_bytes == 0
    assert sessions[2].stats.private_weight_bytes == TABLE + MATRIX
    sessions[2].close()


def test_nobody_and_context_are_asked_for():
    options = {"share_weights": "nobody"}
    before = shared_weights()
    with (
        qnnrt.Session(network(3), options=options) as one,
        qnnrt.Session(network(3), options=options) as two,
    ):
        assert shared_weights().entries == before.entries
        assert one.stats.shared_weight_bytes == two.stats.shared_weight_bytes == 0
        assert one.stats.private_weight_bytes == TABLE + MATRIX
    options = {"share_weights": "context"}
    with qnnrt.Session(network(3), options=options), qnnrt.Session(network(3), options=options):
        assert shared_weights().nbytes - before.nbytes == 2 * (TABLE + MATRIX)
    with pytest.raises(ValueError, match="share_weights"):
        qnnrt.Session(network(3), options={"share_weights": "all"})


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_memory_types_do_not_unshare(backend):
    before = shared_weights()
    with (
        qnnrt.Session(network(3), backend, io="raw") as raw,
        qnnrt.Session(network(9), backend, io="memhandle") as handles,
    ):
        assert shared_weights().nbytes - before.nbytes == TABLE + MATRIX
        assert raw.stats.shared_weight_bytes == handles.stats.shared_weight_bytes == TABLE + MATRIX


def test_other_weights_and_other_precisions_are_others():
    before = shared_weights()
    with (
        qnnrt.Session(network(8)) as plain,
        qnnrt.Session(network(8, seed=1)) as other,
        qnnrt.Session(network(8), precision="bfloat16") as narrow,
    ):
        assert shared_weights().nbytes - before.nbytes >= 2 * (TABLE + MATRIX) + MATRIX // 2
        results = [s.run({"ids": ids_of(8)})["y"] for s in (plain, other, narrow)]
    np.testing.assert_allclose(results[0], expected(network(8), ids_of(8)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        results[1], expected(network(8, seed=1), ids_of(8)), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(results[2], results[0], rtol=0.1, atol=0.5)


def test_graphs_of_one_context_and_their_binary(tmp_path: Path):
    with qnnrt.qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        sizes = []
        for rows in (2, 20, 33):
            graph = context.create_graph(f"g{rows}")
            add(graph, network(rows))
            graph.finalize()
            sizes.append(len(context.binary()))
        # Nodes and whole pages, but no weights again.
        assert sizes[0] > TABLE + MATRIX
        assert sizes[2] - sizes[0] < (TABLE + MATRIX) // 4
        path = tmp_path / "net.bin"
        context.save_binary(path)
        assert path.read_bytes() == context.binary()
    for persistent in (False, True):
        with qnnrt.qnn.Backend.open("cpu") as backend:
            data = np.fromfile(path, np.uint8)
            aligned = np.empty(len(data) + 64, np.uint8)
            at = -aligned.ctypes.data % 64
            aligned[at : at + len(data)] = data
            loaded = qnnrt.qnn.Context.from_binary(
                backend, aligned[at : at + len(data)], persistent_binary=persistent
            )
            with loaded:
                for rows in (2, 20, 33):
                    graph = loaded.graph(f"g{rows}")
                    y = np.empty((rows, COLUMNS), np.float32)
                    graph.execute({"ids": ids_of(rows)}, {"y": y})
                    np.testing.assert_allclose(
                        y, expected(network(rows), ids_of(rows)), rtol=1e-4, atol=1e-4
                    )
                    shared, private = backend.library.graph_weights(graph.handle)
                    assert (shared, private) == (sizes_of(), 0)
                assert loaded.binary() == data.tobytes()
    # One graph of it alone.
    with qnnrt.Session(path, options={"graph": "g20"}) as session:
        y = session.run({"ids": ids_of(20)})["y"]
        np.testing.assert_allclose(y, expected(network(20), ids_of(20)), rtol=1e-4, atol=1e-4)


def sizes_of() -> int:
    """What one graph of the loaded binary reads."""
    return TABLE + MATRIX


def add(graph: qnnrt.qnn.Graph, model: Model) -> None:
    from qnnrt.session.build import add_model

    add_model(graph, model, dict.fromkeys((*model.inputs, *model.outputs), "raw"))


@pytest.mark.parametrize("at", ["own", "common"])
def test_damage_to_common_weights_is_found(tmp_path: Path, at: str):
    with qnnrt.qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        for rows, seed in ((2, 0), (20, 0), (3, 1)):
            graph = context.create_graph(f"g{rows}")
            add(graph, network(rows, seed))
            graph.finalize()
        data = bytearray(context.binary())
    place = data.find(network(1, 0 if at == "common" else 1).tensors["table"].data.tobytes())
    assert place > 0
    data[place + 5] ^= 16
    path = tmp_path / "net.bin"
    path.write_bytes(data)
    broken = {"common": (2, 20), "own": (3,)}[at]
    for rows in (2, 20, 3):
        with qnnrt.Session(path, options={"graph": f"g{rows}"}) as session:
            if rows not in broken:
                session.run({"ids": ids_of(rows)})
                continue
            with pytest.raises(qnnrt.errors.QnnError, match="do not have their checksum"):
                session.run({"ids": ids_of(rows)})


def test_shapes_of_a_session_have_its_weights_once(tmp_path: Path):
    w = np.random.default_rng(3).standard_normal((DEPTH, COLUMNS), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("rows", DEPTH))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    path = tmp_path / "net.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    before = shared_weights()
    with qnnrt.Session(qnnrt.load(path, shapes="any"), options={"max_shapes": 3}) as session:
        for rows in (1, 2, 30, 64, 7):  # the first two go again
            x = np.full((rows, DEPTH), 0.5, np.float32)
            y = session.run({"x": x})["y"]
            np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-3)
            assert shared_weights().nbytes - before.nbytes == MATRIX
        assert session.at({"rows": 64}).stats.shared_weight_bytes == MATRIX
        session.save_binary(tmp_path / "net.bin")
    assert MATRIX < (tmp_path / "net.bin").stat().st_size < MATRIX + MATRIX // 4
    with qnnrt.Session(tmp_path / "net.bin") as loaded:
        for rows in (64, 7, 30):
            x = np.full((rows, DEPTH), 0.5, np.float32)
            np.testing.assert_allclose(loaded.run({"x": x})["y"], x @ w, rtol=1e-4, atol=1e-3)


def test_a_consumed_model_gives_its_constants_away(tmp_path: Path):
    model = network(4)
    wanted = expected(model, ids_of(4))
    with qnnrt.Session(model, consume=True) as session:
        assert all(t.data is None for t in model.tensors.values())
        y = session.run({"ids": ids_of(4)})["y"]
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        with pytest.raises(qnnrt.ModelError, match="consumed"):
            qnnrt.Session(model)
    model = network(4)
    with qnnrt.Session(model), qnnrt.Session(model) as again:  # as it was
        y = again.run({"ids": ids_of(4)})["y"]
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_lent_arrays_live_until_finalize_whoever_has_them():
    with qnnrt.qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        model = network(6)
        wanted = expected(model, ids_of(6))
        add(context.create_graph("g"), model)
        del model
        gc.collect()
        junk = [np.full(TABLE // 4, i, np.float32) for i in range(20)]  # over what was freed
        graph = context.graph("g")
        graph.finalize()
        assert len(junk) == 20
        handle = graph.handle
        assert backend.library.graph_weights(handle) == (0, TABLE + MATRIX)
        session_graph = context.binary()
        with qnnrt.qnn.Context.from_binary(backend, session_graph) as loaded:
            y = np.empty((6, COLUMNS), np.float32)
            loaded.graph("g").execute({"ids": ids_of(6)}, {"y": y})
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_threads_that_make_sessions_at_once_end_with_one_copy():
    before = shared_weights()
    sessions: list[qnnrt.Session] = []

    def make(rows: int) -> None:
        sessions.append(qnnrt.Session(network(rows), threads=1))

    threads = [threading.Thread(target=make, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sessions) == 6
    assert shared_weights().nbytes - before.nbytes == TABLE + MATRIX
    for session in sessions:
        session.close()


def test_a_forked_child_makes_sessions_of_its_own():
    with qnnrt.Session(network(4), threads=1) as session:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with qnnrt.Session(network(7), threads=1) as child:
                    y = child.run({"ids": ids_of(7)})["y"]
                    right = np.allclose(y, expected(network(7), ids_of(7)), 1e-4, 1e-4)
                    code = 0 if right and child.stats.shared_weight_bytes else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        y = session.run({"ids": ids_of(4)})["y"]
        np.testing.assert_allclose(y, expected(network(4), ids_of(4)), rtol=1e-4, atol=1e-4)
