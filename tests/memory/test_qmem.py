"""The Qmem table: what is reserved, when, and what is copied, byte for byte, on the htp backend."""

from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.cli import main
from support.parallel import in_threads
from support.qmem import SIZES, TOTAL, WORDS, broadcast_model, run_and_check

VIA = pytest.mark.parametrize("via", ["online", "binary"])
RAW_RAW = "prepared raw, executed raw"
HANDLE_RAW = "prepared memhandle, executed raw"

Choice = str | Mapping[str, str]


def onnx_file(folder: Path) -> Path:
    """The same network as an ONNX file."""
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    infos = {
        n: helper.make_tensor_value_info(n, float32, [4 if n in "aw" else 1, 8]) for n in SIZES
    }
    nodes = [
        helper.make_node("Add", ["a", "b"], ["w"], "add"),
        helper.make_node("Relu", ["b"], ["z"], "relu"),
    ]
    graph = helper.make_graph(nodes, "four", [infos[n] for n in "ab"], [infos[n] for n in "wz"])
    opsets = [helper.make_opsetid("", 17)]
    path = folder / "four.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def generated(folder: Path, prepare: str) -> Path:
    """A binary from the command line's generator."""
    options = ["--backend", "htp", "--binary_file", "four", "--output_dir", str(folder)]
    options += ["--input_output_tensor_mem_type", prepare]
    assert main(["context-binary-generator", "--model", str(onnx_file(folder)), *options]) == 0
    return folder / "four.bin"


def session(tmp_path: Path, via: str, prepare: Choice, io: Choice, **given: object):
    """A session on the same network, prepared here or loaded from a binary prepared before."""
    if via == "online":
        return qnnrt.Session(broadcast_model(), "htp", prepare=prepare, io=io, **given)
    if via == "generator":
        assert isinstance(prepare, str)
        return qnnrt.Session(generated(tmp_path, prepare), "htp", io=io, **given)
    path = tmp_path / "four.bin"
    with qnnrt.Session(broadcast_model(), "htp", prepare=prepare) as s:
        s.save_binary(path)
    return qnnrt.Session(path, "htp", io=io, **given)


def expected_copies(prepare: Mapping[str, str], io: Mapping[str, str], runs: int) -> set:
    copies = set()
    for name, nbytes in SIZES.items():
        if io[name] == "raw":
            reason = RAW_RAW if prepare[name] == "raw" else HANDLE_RAW
            copies.add((name, "in" if name in "ab" else "out", nbytes * runs, reason))
    return copies


@pytest.mark.parametrize("via", ["online", "binary", "generator"])
@pytest.mark.parametrize(
    ("prepare", "io", "at_finalize", "at_execute", "copied"),
    [
        ("raw", "raw", TOTAL, 0, TOTAL),
        ("raw", "memhandle", TOTAL, 0, 0),
        ("memhandle", "raw", 0, TOTAL, TOTAL),
        ("memhandle", "memhandle", 0, 0, 0),
    ],
)
def test_the_four_rows(tmp_path, via, prepare, io, at_finalize, at_execute, copied):
    with session(tmp_path, via, prepare, io) as s:
        assert (s.prepare, s.io) == (prepare, io)
        before = s.stats
        assert before.reserved_bytes == before.reserved_at_finalize == at_finalize
        assert before.reserved_at == ("finalize" if at_finalize else None)
        assert before.reserved_at_execute == before.copied_bytes == 0
        for runs in (1, 2, 3):
            run_and_check(s, runs)
            stats = s.stats
            assert stats.reserved_bytes == at_finalize + at_execute
            assert stats.reserved_at_finalize == at_finalize
            assert stats.reserved_at_execute == at_execute
            assert stats.reserved_at == (
                "finalize" if at_finalize else "execute" if at_execute else None
            )
            assert stats.copied_bytes == copied * runs
            words = [dict.fromkeys(SIZES, word) for word in (prepare, io)]
            assert set(stats.copies) == expected_copies(*words, runs)


@VIA
@pytest.mark.parametrize("seed", range(4))
def test_mixed_sets_count_for_each_tensor(tmp_path, via, seed):
    print("seed", seed)
    random = np.random.default_rng(seed)
    if seed == 0:  # every cell once
        prepare = {"a": "raw", "b": "memhandle", "w": "raw", "z": "memhandle"}
        io = {"a": "raw", "b": "raw", "w": "memhandle", "z": "memhandle"}
    else:
        prepare, io = ({n: str(random.choice(WORDS)) for n in SIZES} for _ in range(2))
    at_finalize = sum(SIZES[n] for n in SIZES if prepare[n] == "raw")
    at_execute = sum(SIZES[n] for n in SIZES if (prepare[n], io[n]) == ("memhandle", "raw"))
    copied = sum(SIZES[n] for n in SIZES if io[n] == "raw")
    with session(tmp_path, via, prepare, io) as s:
        bound = {**s.inputs, **s.outputs}
        assert {n: t.prepare for n, t in bound.items()} == prepare
        assert {n: t.io for n, t in bound.items()} == io
        assert s.stats.reserved_bytes == at_finalize
        for runs in range(1, 4):
            run_and_check(s, runs)
            stats = s.stats
            assert (stats.reserved_at_finalize, stats.reserved_at_execute) == (
                at_finalize,
                at_execute,
            )
            assert stats.reserved_bytes == at_finalize + at_execute
            assert stats.copied_bytes == copied * runs
            assert set(stats.copies) == expected_copies(prepare, io, runs)
        if seed == 0:
            assert (s.prepare, s.io) == ("mixed", "mixed")
            assert (at_finalize, at_execute, copied) == (256, 32, 160)


@VIA
@pytest.mark.parametrize(("prepare", "io"), list(itertools.product(WORDS, WORDS)))
def test_a_thousand_runs_count_exactly(tmp_path, via, prepare, io):
    with session(tmp_path, via, prepare, io) as s:
        for _ in range(1000):
            s.run()
        stats = s.stats
        assert stats.executes == 1000
        assert stats.copied_bytes == (TOTAL * 1000 if io == "raw" else 0)
        reserved = 0 if prepare == io == "memhandle" else TOTAL
        assert stats.reserved_bytes == reserved
        s.reset_stats()
        assert s.stats.copied_bytes == 0
        assert s.stats.reserved_bytes == reserved  # reset forgets events; memory is still there
        run_and_check(s, 5)
        assert s.stats.copied_bytes == (TOTAL if io == "raw" else 0)


@pytest.mark.parametrize(("prepare", "io"), list(itertools.product(WORDS, WORDS)))
def test_a_run_allocates_nothing_staged_or_not(prepare, io):
    with qnnrt.Session(broadcast_model(), "htp", prepare=prepare, io=io) as s:
        s.run()
        before = _core.debug_allocations()
        for _ in range(1000):
            s.run()
        assert _core.debug_allocations() == before


def test_runs_of_several_threads_count_exactly():
    with qnnrt.Session(broadcast_model(), "htp", io="raw") as s:

        def work() -> None:
            for _ in range(250):
                s.run()

        in_threads(*[work] * 4)
        assert s.stats.executes == 1000
        assert s.stats.copied_bytes == 1000 * TOTAL
        assert s.stats.reserved_bytes == TOTAL


def test_rebinding_raw_memory_copies_from_and_to_the_new_place():
    with qnnrt.Session(broadcast_model(), "htp", io="raw") as s:
        for value in range(5):
            a, w = np.full((4, 8), value, np.float32), np.full((4, 8), np.nan, np.float32)
            s.inputs["a"].bind(a)
            s.outputs["w"].bind(w)
            s.inputs["b"].array[...] = 1
            s.run()
            assert (w == value + 1).all()
        assert s.stats.copied_bytes == 5 * TOTAL


def test_a_log_line_once_for_each_tensor_and_reason(caplog):
    caplog.set_level(logging.WARNING, "qnnrt")
    with qnnrt.Session(broadcast_model(), "htp", io={"a": "raw"}, prepare="raw") as s:
        for _ in range(100):
            s.run()
    lines = [r.getMessage() for r in caplog.records if RAW_RAW in r.getMessage()]
    assert len(lines) == 1
    assert "'a'" in lines[0]


@pytest.mark.parametrize("prepare", WORDS)
def test_the_profile_has_the_copies_in_and_out(prepare):
    with qnnrt.Session(broadcast_model(), "htp", io="raw", prepare=prepare) as s:
        for first in (True, False):
            (top,) = [e for e in s.profile("basic") if e.kind == "execute"]
            found = {
                (part.kind, event.identifier): event.value
                for part in top.events
                for event in part.events
                if event.unit == "bytes"
            }
            expected = {("preprocess", "copied in"): 160, ("postprocess", "copied out"): 160}
            if first and prepare == "memhandle":
                expected["preprocess", "reserved for staging"] = TOTAL
            assert found == expected
    with qnnrt.Session(broadcast_model(), "htp") as s:
        events = [e for top in s.profile("basic") for _, e in top.walk()]
        assert sum(e.value for e in events if e.unit == "bytes") == 0


@pytest.mark.parametrize("prepare", WORDS)
def test_the_cpu_backend_copies_nothing_either_way(prepare):
    with qnnrt.Session(broadcast_model(), "cpu", io="raw", prepare=prepare) as s:
        run_and_check(s, 1)
        assert (s.stats.copied_bytes, s.stats.reserved_bytes) == (0, 0)


@pytest.mark.parametrize(("prepare", "io"), list(itertools.product(WORDS, WORDS)))
def test_wherever_memory_runs_out_nothing_is_left_and_the_next_session_works(prepare, io):
    model = broadcast_model()

    def whole() -> None:
        with qnnrt.Session(model, "htp", prepare=prepare, io=io) as s:
            run_and_check(s, 1)
            assert s.stats.copied_bytes == (TOTAL if io == "raw" else 0)

    whole()
    held = _core.live_counts()
    used = qnn.process_domain().used
    start = _core.debug_allocations()
    whole()
    needed = _core.debug_allocations() - start
    failures = 0
    for n in range(1, needed + 1):
        _core.debug_fail_allocation(n)
        try:
            whole()
        except qnnrt.QnnError:
            failures += 1
        finally:
            _core.debug_fail_allocation(-1)
        assert qnn.process_domain().used == used
    assert failures > needed / 2
    gc.collect()
    assert _core.live_counts() == held
    whole()


# ---- strict


@pytest.mark.parametrize("prepare", WORDS)
@pytest.mark.parametrize(("io", "first"), [("raw", "a"), ({"w": "raw", "z": "raw"}, "w")])
def test_strict_refuses_what_every_run_would_copy_before_anything_is_built(prepare, io, first):
    before = _core.live_counts()
    with pytest.raises(qnnrt.CopyError, match=f"prepared {prepare}, executed raw") as e:
        qnnrt.Session(broadcast_model(), "htp", io=io, prepare=prepare, strict=True)
    assert e.value.tensor == first
    after = _core.live_counts()
    assert {k: after[k] - before[k] for k in ("contexts", "graphs", "mem_handles", "buffers")} == {
        "contexts": 0,
        "graphs": 0,
        "mem_handles": 0,
        "buffers": 0,
    }


@VIA
def test_a_strict_session_runs_on_handles_and_its_graph_refuses_raw_memory(tmp_path, via):
    with session(tmp_path, via, "memhandle", "memhandle", strict=True) as s:
        run_and_check(s, 2)
        assert s.stats.copied_bytes == 0
        arrays = [np.zeros(t.shape, np.float32) for t in (*s.inputs.values(), *s.outputs.values())]
        with pytest.raises(qnnrt.GraphError, match=r"'a'.*prepared memhandle, executed raw") as e:
            s.graph.execute(arrays[:2], arrays[2:])
        assert e.value.code == 6004
        run_and_check(s, 3)
        assert (s.stats.copied_bytes, s.stats.reserved_bytes) == (0, 0)


def test_strict_takes_raw_memory_where_nothing_copies_it():
    with qnnrt.Session(broadcast_model(), "cpu", io="raw", strict=True) as s:
        run_and_check(s, 1)


# ---- choices for single tensors


def test_tensors_that_a_mapping_leaves_out_are_as_without_it():
    with qnnrt.Session(broadcast_model(), "htp", io={"a": "raw"}, prepare={"w": "raw"}) as s:
        bound = {**s.inputs, **s.outputs}
        assert {n: t.io for n, t in bound.items()} == {
            "a": "raw", "b": "memhandle", "w": "memhandle", "z": "memhandle",
        }  # fmt: skip
        assert {n: t.prepare for n, t in bound.items()} == {
            "a": "raw", "b": "memhandle", "w": "raw", "z": "memhandle",
        }  # fmt: skip
        assert bound["a"].handle is None
        assert bound["b"].handle is not None


@pytest.mark.parametrize("what", ["io", "prepare"])
def test_wrong_choices_are_refused_by_name(what):
    with pytest.raises(ValueError, match=rf"{what}.*'q'.*'a', 'b', 'w', 'z'"):
        qnnrt.Session(broadcast_model(), "htp", **{what: {"q": "raw"}})
    with pytest.raises(ValueError, match=rf"{what}\['a'\].*'cooked'"):
        qnnrt.Session(broadcast_model(), "htp", **{what: {"a": "cooked"}})


def test_each_tensor_takes_the_memory_of_its_kind():
    with qnnrt.Session(broadcast_model(), "htp", io={"a": "raw"}) as s:
        plain = np.full((4, 8), 7, np.float32)
        s.inputs["a"].bind(plain)  # any memory
        with pytest.raises(qnnrt.BindError, match="not on a shared buffer"):
            s.inputs["b"].bind(np.zeros((1, 8), np.float32))
        with pytest.raises(qnnrt.BindError, match="RAW memory"):
            s.inputs["a"].bind(s.inputs["b"].handle)
        s.inputs["b"].array[...] = 1
        s.run()
        assert (s.outputs["w"].array == 8).all()
