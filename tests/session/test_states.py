"""State: tensors that a graph reads and writes, one buffer each, updated in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.dtypes import data_type
from qnnrt.errors import BindError, GraphError, ModelError
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.qnn.memhandle import Parts

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
ROWS, COLUMNS = 8, 4
BACKENDS = ("cpu", "htp")
OVER_ROWS = {"axes": np.array([0], np.uint32), "keep_dims": True}


def tensors(**shapes: Any) -> dict[str, Tensor]:
    made = {}
    for name, (shape, dtype) in shapes.items():
        made[name] = Tensor(name, shape, np.dtype(dtype))
    return made


def cache_model(old: str = "", rows: int = ROWS, new: int = 1) -> Model:
    """`new` rows of a cache are replaced, and all are summed; with `old` = "apart" the old ones are
    summed, too, by a node behind the update, with "mixed" times the new sum."""
    cache, row = (rows, COLUMNS), (1, COLUMNS)
    ts = tensors(
        past=(cache, F32),
        x=((new, COLUMNS), F32),
        at=((new, 1), I32),
        present=(cache, F32),
        sum=(row, F32),
        old=(row, F32),
        mix=(cache, F32),
    )
    nodes = [
        Node("update", "ScatterNd", ["past", "at", "x"], ["present"]),
        Node("sum", "ReduceSum", ["present"], ["sum"], OVER_ROWS),
    ]
    if old == "mixed":
        nodes.append(Node("mix", "ElementWiseMultiply", ["past", "sum"], ["mix"]))
    if old:
        source = "mix" if old == "mixed" else "past"
        nodes.append(Node("old", "ReduceSum", [source], ["old"], OVER_ROWS))
    outputs = ["sum", "present", *(["old"] if old else [])]
    model = Model("cache", ts, nodes, ["past", "x", "at"], outputs)
    model.set_state({"past": "present"})
    return model


class Steps:
    """A session of `cache_model`, and what numpy makes of the same steps."""

    def __init__(self, session: qnnrt.Session) -> None:
        self.session = session
        self.cache = np.zeros((ROWS, COLUMNS), F32)
        self.rng = np.random.default_rng(3)

    def step(self, at: int) -> None:
        s, x = self.session, self.rng.standard_normal((1, COLUMNS)).astype(F32)
        before = self.cache.copy()
        self.cache[at] = x
        s.inputs["x"].array[...] = x
        s.inputs["at"].array[...] = at
        s.run()
        np.testing.assert_array_equal(s.state["past"].array, self.cache)
        total = self.cache.sum(0)
        np.testing.assert_allclose(s.outputs["sum"].array[0], total, rtol=1e-5, atol=1e-6)
        if "old" in s.outputs:
            factor = total if any(n.name == "mix" for n in s.model.nodes) else 1
            wanted = (before * factor).sum(0)
            np.testing.assert_allclose(s.outputs["old"].array[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("old", ["", "apart"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cache_is_updated_in_place_without_a_copy(backend, old):
    with qnnrt.Session(cache_model(old), backend, strict=True) as s:
        assert list(s.inputs) == ["x", "at"]
        assert list(s.state) == ["past"]
        assert "present" not in s.outputs
        steps, address = Steps(s), s.state["past"].array.ctypes.data
        for at in (0, 1, 2, 1, 7):
            steps.step(at)
        assert s.stats.copied_bytes == 0
        assert s.state["past"].array.ctypes.data == address


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_old_value_that_waits_for_the_new_one_costs_one_counted_copy(backend):
    with qnnrt.Session(cache_model("mixed"), backend) as s:
        steps = Steps(s)
        for at in (0, 5, 0):
            steps.step(at)
        (copy,) = s.stats.copies
        assert (copy.tensor, copy.nbytes) == ("past", 3 * ROWS * COLUMNS * 4)
        assert "old value" in copy.reason
        s.reset_stats()
        assert s.stats.copies == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_strict_refuses_that_copy(backend):
    with pytest.raises(qnnrt.CopyError, match="old value") as e:
        qnnrt.Session(cache_model("mixed"), backend, strict=True)
    assert e.value.tensor == "past"


def test_raw_state_is_staged_once_in_and_out_on_htp():
    with qnnrt.Session(cache_model(), "htp", io="raw") as s:
        steps = Steps(s)
        steps.step(2)
        cache = ROWS * COLUMNS * 4
        assert {(c.direction, c.nbytes) for c in s.stats.copies if c.tensor == "past"} == {
            ("in", cache),
            ("out", cache),
        }
        assert s.stats.reserved_bytes == cache + COLUMNS * 4 + 4 + COLUMNS * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_is_saved_restored_and_zeroed(backend):
    with qnnrt.Session(cache_model(), backend) as s:
        steps = Steps(s)
        steps.step(3)
        saved = s.save_state()
        wanted = steps.cache.copy()
        steps.step(4)
        s.load_state(saved)
        steps.cache = wanted
        steps.step(5)
        s.reset_state()
        assert not s.state["past"].array.any()
        with pytest.raises(KeyError, match="no state 'other'"):
            s.load_state({"other": saved["past"]})
        with pytest.raises(ValueError, match="needs float32"):
            s.load_state({"past": saved["past"][:1]})


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_graphs_update_one_buffer(backend):
    with (
        qnnrt.Session(cache_model(new=3), backend, strict=True) as prefill,
        qnnrt.Session(cache_model(), backend, strict=True) as decode,
    ):
        decode.bind_state(prefill)
        rows = np.arange(3 * COLUMNS, dtype=F32).reshape(3, COLUMNS)
        prefill.inputs["x"].array[...] = rows
        prefill.inputs["at"].array[...] = [[0], [1], [2]]
        prefill.run()
        steps = Steps(decode)
        steps.cache[:3] = rows
        steps.step(3)
        np.testing.assert_array_equal(prefill.state["past"].array, steps.cache)
        assert prefill.stats.copied_bytes == decode.stats.copied_bytes == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_index_fails_the_run_and_leaves_the_state(backend):
    with qnnrt.Session(cache_model(new=2), backend) as s:
        s.inputs["x"].array[...] = 1
        s.inputs["at"].array[...] = [[0], [ROWS]]
        with pytest.raises(GraphError, match=f"index {ROWS}"):
            s.run()
        assert not s.state["past"].array.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_context_binary_keeps_what_is_state(backend, tmp_path):
    path = tmp_path / "cache.bin"
    with qnnrt.Session(cache_model("apart"), backend) as s:
        s.save_binary(path)
    with qnnrt.Session(path, backend, strict=True) as s:
        assert (list(s.inputs), list(s.state)) == (["x", "at"], ["past"])
        assert list(s.outputs) == ["sum", "old"]
        s.inputs["x"].array[...] = 2
        s.inputs["at"].array[...] = 6
        s.run()
        assert (s.state["past"].array[6] == 2).all()
        assert s.state["past"].array.sum() == 2 * COLUMNS
        assert s.stats.copied_bytes == 0


# ---- which nodes update in place -----------------------------------------------------------------


def run_once(model: Model, given: dict[str, np.ndarray], strict: bool) -> dict[str, np.ndarray]:
    """New values of all states after one run on these values of inputs and states."""
    with qnnrt.Session(model, strict=strict) as s:
        for name, value in given.items():
            (s.inputs.get(name) or s.state[name]).array[...] = value
        s.run()
        assert s.stats.copied_bytes == 0 or not strict
        return s.save_state()


def test_what_is_computed_element_by_element_is_written_over_the_state():
    """A moving average, whose old value is read by its own update alone."""
    ts = tensors(m=((64,), F32), x=((64,), F32), d=((64,), F32), h=((64,), F32), n=((64,), F32))
    half = np.full(64, 0.5, F32)
    ts["half"] = Tensor("half", (64,), F32, half)
    nodes = [
        Node("sub", "ElementWiseSubtract", ["x", "m"], ["d"]),
        Node("mul", "ElementWiseMultiply", ["d", "half"], ["h"]),
        Node("add", "ElementWiseAdd", ["m", "h"], ["n"]),
    ]
    model = Model("average", ts, nodes, ["m", "x"], ["n"])
    model.set_state({"m": "n"})
    x, m = np.arange(64, dtype=F32), np.ones(64, F32)
    got = run_once(model, {"x": x, "m": m}, strict=True)
    np.testing.assert_allclose(got["m"], m + (x - m) / 2)


def test_scatters_in_a_row_write_one_buffer():
    shape = (ROWS, COLUMNS)
    ts = tensors(
        past=(shape, F32),
        x=((1, COLUMNS), F32),
        i=((1, 1), I32),
        j=((1, 1), I32),
        a=(shape, F32),
        b=(shape, F32),
    )
    nodes = [
        Node("one", "ScatterNd", ["past", "i", "x"], ["a"]),
        Node("two", "ScatterNd", ["a", "j", "x"], ["b"], {"reduction": np.uint32(1)}),
    ]
    model = Model("two", ts, nodes, ["past", "x", "i", "j"], ["b"])
    model.set_state({"past": "b"})
    x = np.arange(1, COLUMNS + 1, dtype=F32)
    past = np.ones(shape, F32)
    got = run_once(model, {"past": past, "x": x, "i": [[1]], "j": [[1]]}, strict=True)
    past[1] = 2 * x
    np.testing.assert_array_equal(got["past"], past)


def test_states_that_change_places_keep_their_values():
    """What one state becomes is the other's old value, both ways."""
    ts = tensors(**dict.fromkeys(("a", "b", "x", "y"), ((16,), F32)))
    nodes = [
        Node("p", "Reshape", ["b"], ["x"]),
        Node("q", "Reshape", ["a"], ["y"]),
    ]
    model = Model("swap", ts, nodes, ["a", "b"], ["x", "y"])
    model.set_state({"a": "x", "b": "y"})
    a, b = np.arange(16, dtype=F32), -np.arange(16, dtype=F32)
    got = run_once(model, {"a": a, "b": b}, strict=False)
    np.testing.assert_array_equal(got["a"], b)
    np.testing.assert_array_equal(got["b"], a)


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_binding_several_states_is_all_or_none(io):
    """Where one of them cannot be bound, none is."""
    ts = tensors(**dict.fromkeys(("a", "b", "x", "y"), ((16,), F32)))
    nodes = [Node("p", "ElementWiseAbs", ["a"], ["x"]), Node("q", "ElementWiseAbs", ["b"], ["y"])]
    model = Model("two", ts, nodes, ["a", "b"], ["x", "y"])
    model.set_state({"a": "x", "b": "y"})
    good = qnnrt.alloc_array((16,), np.float32)
    good[...] = -1
    with qnnrt.Session(model, io=io) as s:
        before = [t.array.ctypes.data for t in s.state.values()]
        for bad in (np.zeros(16, np.float64), np.zeros(15, np.float32), "nothing"):
            with pytest.raises(BindError, match="'b'"):
                s.bind_state({"a": good, "b": bad})
            assert [t.array.ctypes.data for t in s.state.values()] == before
        s.run()
        assert (good == -1).all()
        s.bind_state({"a": good})
        s.run()
        assert (good == 1).all()


def test_a_window_that_moves_is_copied_once_and_right():
    """The last rows of old and new ones: every row changes its place."""
    ts = tensors(past=((4, 2), F32), x=((1, 2), F32), all=((5, 2), F32), present=((4, 2), F32))
    nodes = [
        Node("put", "Concat", ["past", "x"], ["all"], {"axis": np.uint32(0)}),
        Node(
            "cut",
            "StridedSlice",
            ["all"],
            ["present"],
            {"ranges": np.array([[1, 5, 1], [0, 2, 1]], np.int32)},
        ),
    ]
    model = Model("window", ts, nodes, ["past", "x"], ["present"])
    model.set_state({"past": "present"})
    with qnnrt.Session(model, strict=True) as s:
        for i in range(6):
            s.inputs["x"].array[...] = i + 1
            s.run()
        np.testing.assert_array_equal(s.state["past"].array[:, 0], [3, 4, 5, 6])


def test_a_part_of_the_old_value_is_still_old_behind_the_update():
    """Split parts are not left in the state that is overwritten."""
    shape = (4, 2)
    ts = tensors(
        past=(shape, F32),
        x=((1, 2), F32),
        at=((1, 1), I32),
        present=(shape, F32),
        head=((2, 2), F32),
        tail=((2, 2), F32),
        sum=((1, 2), F32),
        y=((2, 2), F32),
    )
    nodes = [
        Node(
            "split", "Split", ["past"], ["head", "tail"],
            {"axis": np.uint32(0), "split_index": np.array([2], np.uint32)},
        ),
        Node("update", "ScatterNd", ["past", "at", "x"], ["present"]),
        Node("sum", "ReduceSum", ["present"], ["sum"], OVER_ROWS),
        Node("y", "ElementWiseMultiply", ["head", "sum"], ["y"]),
    ]  # fmt: skip
    model = Model("parts", ts, nodes, ["past", "x", "at"], ["present", "y"])
    model.set_state({"past": "present"})
    with qnnrt.Session(model) as s:
        s.state["past"].array[...] = 1
        s.inputs["x"].array[...] = 5
        s.inputs["at"].array[...] = 0
        s.run()
        np.testing.assert_array_equal(s.outputs["y"].array, np.full((2, 2), 8, F32))


def test_a_scatter_between_nodes_writes_over_what_nobody_reads_any_more():
    shape = (1024, 4)
    ts = tensors(
        x=(shape, F32), u=((1, 4), F32), i=((1, 1), I32), a=(shape, F32), b=(shape, F32),
        y=((1, 4), F32),
    )  # fmt: skip
    nodes = [
        Node("neg", "ElementWiseNeg", ["x"], ["a"]),
        Node("set", "ScatterNd", ["a", "i", "u"], ["b"]),
        Node("sum", "ReduceSum", ["b"], ["y"], OVER_ROWS),
    ]
    model = Model("inner", ts, nodes, ["x", "u", "i"], ["y"])
    with qnnrt.Session(model) as s:
        x = np.random.default_rng(0).standard_normal(shape).astype(F32)
        y = s.run({"x": x, "u": np.full((1, 4), 7, F32), "i": np.array([[9]], I32)})["y"]
        wanted = -x
        wanted[9] = 7
        np.testing.assert_allclose(y[0], wanted.sum(0), rtol=1e-3, atol=1e-3)
        plan = s.graph.describe()
        assert '"peak":16384' in plan.replace(" ", "")


# ---- the graph's own interface -------------------------------------------------------------------


def app_readwrite_graph(context: Any) -> Any:
    """Old sum, update, new sum, all by one tensor's name."""
    g = context.create_graph("g")
    t = {
        "past": g.add_tensor("past", (ROWS, COLUMNS), F32, type="app_readwrite"),
        "x": g.add_tensor("x", (1, COLUMNS), F32, type="app_write"),
        "at": g.add_tensor("at", (1, 1), I32, type="app_write"),
        "old": g.add_tensor("old", (1, COLUMNS), F32, type="app_read"),
        "new": g.add_tensor("new", (1, COLUMNS), F32, type="app_read"),
    }
    g.add_node("old", "ReduceSum", [t["past"]], [t["old"]], OVER_ROWS)
    g.add_node("update", "ScatterNd", [t["past"], t["at"], t["x"]], [t["past"]])
    g.add_node("new", "ReduceSum", [t["past"]], [t["new"]], OVER_ROWS)
    g.finalize()
    return g


@pytest.mark.parametrize("also_among_outputs", [False, True])
def test_nodes_before_the_one_that_writes_a_tensor_read_its_old_value(also_among_outputs):
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        g = app_readwrite_graph(context)
        past = np.ones((ROWS, COLUMNS), F32)
        old, new = np.zeros((1, COLUMNS), F32), np.zeros((1, COLUMNS), F32)
        given = {"past": past, "x": np.full((1, COLUMNS), 3, F32), "at": np.zeros((1, 1), I32)}
        outputs = {"old": old, "new": new} | ({"past": past} if also_among_outputs else {})
        g.execute(given, outputs)
        assert (old == ROWS).all()
        assert (new == ROWS + 2).all()
        assert (past[0] == 3).all()


def test_one_tensor_in_two_places_is_refused():
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        g = app_readwrite_graph(context)
        row = np.zeros((1, COLUMNS), F32)
        given = {"past": np.ones((ROWS, COLUMNS), F32), "x": row, "at": np.zeros((1, 1), I32)}
        outputs = {"old": row.copy(), "new": row.copy(), "past": np.ones((ROWS, COLUMNS), F32)}
        with pytest.raises(GraphError, match=r"'past' is read and written.*same memory"):
            g.execute(given, outputs)


# ---- models --------------------------------------------------------------------------------------


def pair_model(name: str, output: str, shape: tuple[int, ...] = (2, 2)) -> Model:
    ts = tensors(**{name: ((2, 2), F32), output: (shape, F32)})
    return Model("pair", ts, [Node("n", "Relu", [name], [output])], [name], [output])


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.11.value", "present_key_values.11.value"),
        ("past_key_values.0.decoder.key", "present.0.decoder.key"),
        ("past_key_3", "present_key_3"),
        ("past_0", "present_0"),
        ("cache.past.0", "cache.present.0"),
    ],
)
def test_auto_knows_the_names_of_exporters(name, output):
    model = pair_model(name, output)
    model.set_state("auto")
    assert model.state == {name: output}


def test_auto_leaves_a_cache_that_grows():
    with pytest.raises(ModelError, match=r"finds no input.*no one tensor"):
        pair_model("past_0", "present_0", (3, 2)).set_state("auto")
    with pytest.raises(ModelError, match="finds no input"):
        pair_model("pasture", "presenture").set_state("auto")


def test_pairs_that_are_no_tensor_are_refused():
    model = pair_model("a", "b")
    for state, why in (
        ({"c": "b"}, "'c' is no input"),
        ({"a": "c"}, "'c' is no output"),
        ("all", "must be 'auto'"),
    ):
        with pytest.raises(ModelError, match=why):
            model.set_state(state)
    with pytest.raises(ModelError, match="shape and type differ"):
        pair_model("a", "b", (4, 1)).set_state({"a": "b"})
    other = pair_model("a", "b")
    for t, scale in zip(other.tensors.values(), (0.5, 0.25), strict=True):
        t.dtype, t.quantization = np.dtype(np.uint8), Quantization(scale, 0)
    with pytest.raises(ModelError, match="encodings differ"):
        other.set_state({"a": "b"})
    assert model.state == other.state == {}


def sums_model() -> Model:
    """a and b, to each of which x is added in every run."""
    ts = tensors(**dict.fromkeys(("a", "b", "x", "next.a", "next.b"), ((16,), F32)))
    nodes = [Node(n, "ElementWiseAdd", [n, "x"], [f"next.{n}"]) for n in "ab"]
    model = Model("sums", ts, nodes, ["a", "b", "x"], ["next.a", "next.b"])
    model.set_state({n: f"next.{n}" for n in "ab"})
    return model


@pytest.mark.parametrize(
    ("backend", "io"), [("cpu", "memhandle"), ("cpu", "raw"), ("htp", "memhandle")]
)
def test_states_in_one_buffer_are_registered_together(backend, io):
    code = data_type(F32)
    parts = Parts((((16,), code, 0), ((16,), code, 4096)), 4096 + 64)
    with qnnrt.Session(sums_model(), backend, io=io, strict=True) as s:
        s.inputs["x"].array[...] = np.arange(16)
        own, before = s.save_state(), s.context.registrations
        buffer = qnnrt.alloc(8192)
        s._bind_state_parts(buffer, parts)
        for _ in range(3):
            s.run()
        for name, offset in (("a", 0), ("b", 4096)):
            values = buffer.array((16,), F32, offset)
            np.testing.assert_array_equal(values, 3 * np.arange(16))
            assert s.state[name].array.ctypes.data == values.ctypes.data
            assert s.state[name].offset == offset
            assert s.state[name].buffer is buffer
        assert s.stats.copied_bytes == 0
        if io == "memhandle":
            assert s.context.registrations == before + 2
            s._bind_state_parts(buffer, parts)
            handle = s.state["b"].handle
            found = s.context.get_or_register(buffer, (16,), F32, offset=4096, kind="shared_buffer")
            assert found.handle == handle.handle
            np.testing.assert_array_equal(found.array, handle.array)
            assert s.context.registrations == before + 2
            del values
            with pytest.raises(qnnrt.BufferInUseError, match="2 memory handles"):
                buffer.close()
            del handle, found
            with pytest.raises(qnnrt.BindError, match="8192" if io == "raw" else "4096 bytes"):
                s._bind_state_parts(qnnrt.alloc(4096), parts)
        s.load_state(own)
        s.run()
        np.testing.assert_array_equal(s.state["b"].array, np.arange(16))
        s.state["b"].bind(qnnrt.alloc_array(16))
        assert s.state["a"].buffer is buffer
        s._bind_state_parts(buffer, parts)  # the other one, too
        assert s.state["b"].buffer is buffer
        for t in s.state.values():
            t.bind(qnnrt.alloc_array(16))
        values = None
        buffer.close()
        s.state["a"].array[...] = s.state["b"].array[...] = 1
        s.run()
        np.testing.assert_array_equal(s.state["a"].array, np.arange(16) + 1)
