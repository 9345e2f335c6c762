"""Decoders with a static cache, beside ONNX Runtime that is fed its own caches back."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import qnnrt

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

HEADS, GROUPS, ROOM, SIZE, LAYERS = 4, 2, 96, 8, 2
WIDTH = HEADS * SIZE
F32 = np.float32


def info(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


class Decoder:
    """Layers of one attention each over `x`, whose keys and values go into caches."""

    def __init__(self, queries: int | str, form: str) -> None:
        self.queries: Any = queries
        self.form = form
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs = [info("x", [1, queries, WIDTH])]
        self.outputs = []
        self.rng = np.random.default_rng(11)

    def op(self, kind: str, inputs: list[str], output: str, **how: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **how))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(onnx.numpy_helper.from_array(value, name))
        return name

    def heads(self, x: str, count: int) -> str:
        shape = self.constant(f"{x}_shape", np.array([1, self.queries, count, SIZE], np.int64))
        split = self.op("Reshape", [x, shape], f"{x}_split")
        return self.op("Transpose", [split], f"{x}_heads", perm=[0, 2, 1, 3])

    def model(self) -> onnx.ModelProto:
        cache = [1, GROUPS, ROOM, SIZE]
        if self.form == "GroupQueryAttention":
            self.inputs += [info(n, [1], TensorProto.INT32) for n in ("ends", "total")]
        else:
            self.inputs.append(info("at", [1], TensorProto.INT64))
        x = "x"
        for i in range(LAYERS):
            self.inputs += [info(f"past.{i}.{what}", cache) for what in ("key", "value")]
            self.outputs += [info(f"present.{i}.{what}", cache) for what in ("key", "value")]
            parts = [
                self.op("MatMul", [x, self.constant(f"{name}{i}_w", self.weights(columns))],
                        f"{name}{i}")
                for name, columns in (("q", WIDTH), ("k", GROUPS * SIZE), ("v", GROUPS * SIZE))
            ]  # fmt: skip
            x = self.op("Add", [x, self.attention(i, parts)], f"x{i}")
        self.op("Identity", [x], "y")
        self.outputs.append(info("y", [1, self.queries, WIDTH]))
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        sets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=12)

    def weights(self, columns: int) -> np.ndarray:
        return (self.rng.standard_normal((WIDTH, columns)) * WIDTH**-0.5).astype(F32)

    def attention(self, i: int, parts: list[str]) -> str:
        past = [f"past.{i}.{what}" for what in ("key", "value")]
        present = [f"present.{i}.{what}" for what in ("key", "value")]
        if self.form == "GroupQueryAttention":
            self.nodes.append(
                helper.make_node(
                    "GroupQueryAttention", [*parts, *past, "ends", "total"], [f"a{i}", *present],
                    domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS,
                )
            )  # fmt: skip
            return f"a{i}"
        counts = (HEADS, GROUPS, GROUPS)
        q, *new = (self.heads(x, count) for x, count in zip(parts, counts, strict=True))
        for old, updates, output in zip(past, new, present, strict=True):
            self.update(old, updates, output)
        if i == 0:
            self.seen()
        a = self.op("Attention", [q, *present, "seen"], f"a{i}_heads")
        a = self.op("Transpose", [a], f"a{i}_rows", perm=[0, 2, 1, 3])
        shape = self.constant(f"a{i}_shape", np.array([1, self.queries, WIDTH], np.int64))
        return self.op("Reshape", [a, shape], f"a{i}")

    def update(self, old: str, new: str, output: str) -> None:
        if self.form == "TensorScatter":
            self.op("TensorScatter", [old, new, "at"], output, axis=2)
            return
        steps = self.constant(f"{output}_n", np.arange(self.queries, dtype=np.int64))
        places = self.op("Add", ["at", steps], f"{output}_at")
        if self.form == "ScatterElements":
            shape = [1, GROUPS, self.queries, SIZE]
            one = self.constant(f"{output}_one", np.array([1, 1, self.queries, 1], np.int64))
            all = self.constant(f"{output}_all", np.array(shape, np.int64))
            places = self.op("Reshape", [places, one], f"{output}_row")
            places = self.op("Expand", [places, all], f"{output}_index")
            self.op("ScatterElements", [old, places, new], output, axis=2)
            return
        # As index_copy is exported: rows first, then scattered, then back.
        column = self.constant(f"{output}_column", np.array([self.queries, 1], np.int64))
        places = self.op("Reshape", [places, column], f"{output}_index")
        rows = [self.op("Transpose", [x], f"{output}_{n}", perm=[2, 0, 1, 3])
                for n, x in (("o", old), ("u", new))]  # fmt: skip
        scattered = self.op("ScatterND", [rows[0], places, rows[1]], f"{output}_s")
        self.op("Transpose", [scattered], output, perm=[1, 2, 0, 3])

    def seen(self) -> None:
        """Of each query the keys up to its own."""
        keys = self.constant("keys", np.arange(ROOM, dtype=np.int64)[None])
        own = self.constant("own", np.arange(self.queries, dtype=np.int64)[:, None])
        self.op("LessOrEqual", [keys, self.op("Add", ["at", own], "last")], "seen")


FORMS = ("GroupQueryAttention", "TensorScatter", "ScatterElements", "ScatterND")


class Loaded:
    """A decoder in a file and in ONNX Runtime."""

    def __init__(self, folder: Path, queries: int, form: str) -> None:
        self.path, self.queries, self.form = folder / f"{form}{queries}.onnx", queries, form
        onnx.save(Decoder(queries, form).model(), self.path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.theirs = onnxruntime.InferenceSession(self.path, options)
        self.model = qnnrt.load(self.path, state="auto")

    def feeds(self, at: int, x: np.ndarray) -> dict[str, np.ndarray]:
        """`x` behind the first `at` tokens."""
        if self.form == "GroupQueryAttention":
            end = at + self.queries
            return {
                "x": x,
                "ends": np.array([end - 1], np.int32),
                "total": np.array([end], np.int32),
            }
        return {"x": x, "at": np.array([at], np.int64)}

    def expected(self, feeds: dict[str, np.ndarray], caches: dict[str, np.ndarray]) -> np.ndarray:
        """What ONNX Runtime gives; its caches go on in `caches`."""
        names = [o.name for o in self.theirs.get_outputs()]
        found = dict(zip(names, self.theirs.run(None, feeds | caches), strict=True))
        for name in caches:
            caches[name] = found[name.replace("past", "present")]
        return found["y"]


def run(session: qnnrt.Session, feeds: dict[str, np.ndarray]) -> np.ndarray:
    for name, value in feeds.items():
        if name in session.inputs:
            session.inputs[name].array[...] = value
    session.run()
    return session.outputs["y"].array.copy()


def no_caches() -> dict[str, np.ndarray]:
    names = [f"past.{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]
    return {name: np.zeros((1, GROUPS, ROOM, SIZE), F32) for name in names}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_prefill_and_decode_agree_token_for_token(tmp_path: Path, backend: str, form: str) -> None:
    """Chunks of 24 and of 5, then single tokens, on one cache that three graphs update in place."""
    graphs = {n: Loaded(tmp_path, n, form) for n in (24, 5, 1)}
    sessions = {n: qnnrt.Session(g.model, backend, strict=True) for n, g in graphs.items()}
    try:
        for n in (5, 1):
            sessions[n].bind_state(sessions[24])
        rng, caches, at = np.random.default_rng(0), no_caches(), 0
        for n in (24, 5, *[1] * 20):
            feeds = graphs[n].feeds(at, rng.standard_normal((1, n, WIDTH)).astype(F32))
            wanted = graphs[n].expected(feeds, caches)
            np.testing.assert_allclose(run(sessions[n], feeds), wanted, rtol=2e-5, atol=2e-6)
            at += n
        for name, cache in sessions[1].save_state().items():
            np.testing.assert_allclose(
                cache[:, :, :at], caches[name][:, :, :at], rtol=2e-5, atol=2e-6
            )
        for session in sessions.values():
            assert session.stats.copied_bytes == 0
    finally:
        for session in sessions.values():
            session.close()


@pytest.mark.parametrize(("precision", "error"), [("bfloat16", 0.06), ("float16", 0.01)])
@pytest.mark.parametrize("form", FORMS)
def test_a_cache_of_floats_under_another_precision(
    tmp_path: Path, form: str, precision: str, error: float
) -> None:
    """The cache keeps its type; nothing is copied beside what converts it."""
    graph, caches = Loaded(tmp_path, 1, form), no_caches()
    rng = np.random.default_rng(5)
    with qnnrt.Session(graph.model, "htp", precision=precision, strict=True) as s:
        for at in range(6):
            feeds = graph.feeds(at, rng.standard_normal((1, 1, WIDTH)).astype(F32))
            wanted = graph.expected(feeds, caches)
            np.testing.assert_allclose(run(s, feeds), wanted, atol=error)
        for name, cache in s.save_state().items():
            np.testing.assert_allclose(cache, caches[name], atol=error)
        assert s.stats.copied_bytes == 0


@pytest.mark.parametrize("form", FORMS)
def test_rewinding_is_an_earlier_position(tmp_path: Path, form: str) -> None:
    graph = Loaded(tmp_path, 1, form)
    xs = np.random.default_rng(1).standard_normal((12, 1, 1, WIDTH)).astype(F32)
    with qnnrt.Session(graph.model, strict=True) as s:
        first = [run(s, graph.feeds(at, x)) for at, x in enumerate(xs)]
        for at in range(4, 12):  # other tokens, which are forgotten
            run(s, graph.feeds(at, -xs[at]))
        again = [run(s, graph.feeds(at, xs[at])) for at in range(4, 12)]
    np.testing.assert_array_equal(first[4:], again)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_what_the_cache_holds_beyond_the_text_is_not_read(
    tmp_path: Path, form: str, precision: str
) -> None:
    """Nor converted, where floats between nodes have other types."""
    graph = Loaded(tmp_path, 1, form)
    xs = np.random.default_rng(2).standard_normal((3, 1, 1, WIDTH)).astype(F32)
    found = []
    for rest in (0, np.nan):
        with qnnrt.Session(graph.model, precision=precision, strict=True) as s:
            for t in s.state.values():
                t.array[...] = rest
            found.append([run(s, graph.feeds(at, x)) for at, x in enumerate(xs)])
            steps = json.loads(s.graph.describe())["steps"]
            assert [step["op"] for step in steps].count("Attention") == LAYERS
            assert not [step for step in steps if step["op"] == "Cast" and "past" in step["name"]]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("queries", [1, 20])
@pytest.mark.parametrize("form", FORMS)
def test_half_precision_rounds_what_it_reads_and_writes_of_a_cache_of_floats(
    tmp_path: Path, form: str, queries: int
) -> None:
    """The client's numbers stay in memory as they are."""
    graph, text = Loaded(tmp_path, queries, form), 31
    rng = np.random.default_rng(7)
    before = {n: rng.standard_normal(x.shape).astype(F32) for n, x in no_caches().items()}
    rounded = {n: x.astype(np.float16).astype(F32) for n, x in before.items()}
    x = rng.standard_normal((1, queries, WIDTH)).astype(F32)
    found, after = [], []
    for values in (before, rounded):
        with qnnrt.Session(graph.model, precision="float16", strict=True) as s:
            s.load_state(values)
            found.append(run(s, graph.feeds(text, x)))
            after.append(s.save_state())
    np.testing.assert_array_equal(*found)
    for name in before:
        new = slice(text, text + queries)
        for values, cache in zip((before, rounded), (a[name] for a in after), strict=True):
            old = np.delete(cache, new, axis=2)
            np.testing.assert_array_equal(old, np.delete(values[name], new, axis=2))
        written = after[0][name][:, :, new]
        np.testing.assert_array_equal(written, after[1][name][:, :, new])
        np.testing.assert_array_equal(written, written.astype(np.float16))
        assert (written != before[name][:, :, new]).all()


def test_a_cache_that_is_turned_to_be_scattered_is_not_moved(tmp_path: Path) -> None:
    """As torch exports `index_copy` into a StaticCache."""
    model = Loaded(tmp_path, 5, "ScatterND").model
    caches = set(model.state)
    for node in model.nodes:
        assert node.type != "Transpose" or not caches & {*node.inputs, *node.outputs}


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize(("rows", "how"), [(1, "none"), (3, "none"), (3, "add"), (3, "max")])
def test_rows_of_a_transposed_tensor(
    tmp_path: Path, perm: tuple[int, ...], rows: int, how: str
) -> None:
    """Scattered into, by indices that may be negative, and transposed back."""
    shape = (4, 5, 6)
    turned = tuple(shape[p] for p in perm)
    back = [perm.index(i) for i in range(3)]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("ScatterND", ["t", "index", "u"], ["s"], reduction=how),
        helper.make_node("Transpose", ["s"], ["y"], perm=back),
    ]
    inputs = [
        info("x", [*shape]),
        info("index", [rows, 1], TensorProto.INT64),
        info("u", [rows, *turned[1:]]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", [*shape])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    rng = np.random.default_rng(rows)
    feeds = {
        "x": rng.standard_normal(shape).astype(F32),
        "index": np.array([[2], [-1], [0]])[:rows],
        "u": rng.standard_normal((rows, *turned[1:])).astype(F32),
    }
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    with qnnrt.Session(tmp_path / "m.onnx") as s:
        np.testing.assert_allclose(s.run(feeds)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
@pytest.mark.parametrize("shapes", [{"seq": [24, 5, 1]}, "any"])
def test_graphs_of_many_shapes_have_one_cache(tmp_path: Path, backend: str, shapes: Any) -> None:
    """Prefill and decode in one session; with two graphs at most, one goes and comes again."""
    path = tmp_path / "many.onnx"
    onnx.save(Decoder("seq", "GroupQueryAttention").model(), path)
    graphs = {n: Loaded(tmp_path, n, "GroupQueryAttention") for n in (24, 5, 1)}
    model = qnnrt.load(path, shapes=shapes, state="auto")
    assert len(pickle.loads(pickle.dumps(model)).state) == 2 * LAYERS
    rng, caches, at = np.random.default_rng(0), no_caches(), 0
    with qnnrt.Session(model, backend, options={"max_shapes": 2}) as s:
        assert list(s.inputs) == ["x", "ends", "total"]
        assert list(s.outputs) == ["y"]
        for n in (24, 1, 5, 1, 1, 5):
            feeds = graphs[n].feeds(at, rng.standard_normal((1, n, WIDTH)).astype(F32))
            wanted = graphs[n].expected(feeds, caches)
            np.testing.assert_allclose(s.run(feeds)["y"], wanted, rtol=2e-5, atol=2e-6)
            at += n
        assert set(s.state) == set(caches)
        for name, cache in s.save_state().items():
            np.testing.assert_allclose(cache, caches[name], rtol=2e-5, atol=2e-6)
        assert not any(c.tensor.startswith("past") for c in s.stats.copies)
        # Another conversation: other memory in all graphs.
        saved = s.save_state()
        others = {name: qnnrt.alloc_array(a.shape, a.dtype) for name, a in saved.items()}
        s.bind_state(others)
        caches = no_caches()
        for n in (5, 24, 1):
            feeds = graphs[n].feeds(0, rng.standard_normal((1, n, WIDTH)).astype(F32))
            wanted = graphs[n].expected(feeds, caches)
            np.testing.assert_allclose(s.run(feeds)["y"], wanted, rtol=2e-5, atol=2e-6)
        for name, other in others.items():
            np.testing.assert_array_equal(s.state[name].array, other)
        s.load_state(saved)
        s.reset_state()
        assert not any(other.any() for other in others.values())


def attention(
    path: Path, batch: int, queries: int, mask: int = 0, how: Any = None, kind: int = 1
) -> onnx.ModelProto:
    """Attention 24 over 80 keys of which inputs say how many there are. `kind`: of the floats,
    `mask` and `how`: of a mask, and attributes."""
    shape, keys = [batch, 4, queries, 16], [batch, 2, 80, 16]
    inputs = [info(n, s, kind) for n, s in (("q", shape), ("k", keys), ("v", keys))]
    inputs.append(info("n", [batch], TensorProto.INT64))
    if mask:
        inputs.append(info("mask", [queries, 80], mask))
    names = ["q", "k", "v", "mask" if mask else "", "", "", "n"]
    node = helper.make_node("Attention", names, ["y"], **(how or {}))
    graph = helper.make_graph([node], "g", inputs, [info("y", shape, kind)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["bool", "float", "none"])
@pytest.mark.parametrize("queries", [1, 7, 40])
def test_masks_that_are_computed(tmp_path: Path, mask: str, queries: int, causal: int) -> None:
    """Of Attention 24, with a number of keys; queries that see nothing get zeros."""
    shape, keys = [1, 4, queries, 16], [1, 2, 80, 16]
    path = tmp_path / "m.onnx"
    kind = {"bool": TensorProto.BOOL, "float": TensorProto.FLOAT, "none": 0}[mask]
    model = attention(path, 1, queries, kind, {"is_causal": causal})
    rng = np.random.default_rng(4)
    feeds = {
        n: rng.standard_normal(s).astype(F32) for n, s in (("q", shape), ("k", keys), ("v", keys))
    }
    seen = rng.random((queries, 80)) < 0.5
    seen[:, 0], seen[0] = True, queries == 1
    if mask == "bool":
        feeds["mask"] = seen
    elif mask == "float":
        feeds["mask"] = np.where(seen, rng.standard_normal(seen.shape), -np.inf).astype(F32)
    reference = ReferenceEvaluator(model)
    with qnnrt.Session(qnnrt.load(path)) as s:
        for count in (80, 33, 1):
            feeds["n"] = np.array([count], np.int64)
            (wanted,) = reference.run(None, feeds)
            got = s.run(feeds)["y"]
            np.testing.assert_allclose(got, np.nan_to_num(wanted), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "precision", "error"),
    [
        (TensorProto.FLOAT, "float32", 1e-6),
        (TensorProto.FLOAT, "bfloat16", 0.02),
        (TensorProto.FLOAT, "float16", 2e-3),
        (TensorProto.FLOAT16, "float32", 2e-3),
        (TensorProto.FLOAT16, "float16", 2e-3),
    ],
)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("queries", [1, 7, 40])
def test_keys_behind_their_number_are_not_read(
    tmp_path: Path, queries: int, causal: int, kind: int, precision: str, error: float
) -> None:
    """Of each batch its own, in every type, also where queries see none of them."""
    path, dtype = tmp_path / "m.onnx", helper.tensor_dtype_to_np_dtype(kind)
    model = attention(path, 3, queries, how={"is_causal": causal}, kind=kind)
    rng = np.random.default_rng(6)
    shapes = {"q": (3, 4, queries, 16), "k": (3, 2, 80, 16), "v": (3, 2, 80, 16)}
    feeds = {n: rng.standard_normal(s).astype(dtype) for n, s in shapes.items()}
    reference = ReferenceEvaluator(model)
    with qnnrt.Session(qnnrt.load(path), precision=precision) as s:
        steps = json.loads(s.graph.describe())["steps"]
        assert [step["op"] for step in steps].count("Attention") == 1
        for counts in ((80, 3, 41), (1, 64, 65)):
            feeds["n"] = np.array(counts, np.int64)
            (wanted,) = reference.run(None, feeds)
            poisoned = {n: x.copy() for n, x in feeds.items()}
            for i, count in enumerate(counts):
                poisoned["k"][i, :, count:] = poisoned["v"][i, :, count:] = np.nan
            np.testing.assert_allclose(s.run(poisoned)["y"], wanted, rtol=error, atol=error)
