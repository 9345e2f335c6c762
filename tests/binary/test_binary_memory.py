"""Memory of context binaries: given to the backend to fill, mapped, shared between processes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Tensor
from support.binaries import feeds, save
from support.outside import MEASURED, run_code
from support.toy import F32, relu_model, tensors

MIB = 1 << 20


# ---- memory for the backend to fill --------------------------------------------------------------


def test_a_session_finishes_a_deferred_context(binary):
    with qnnrt.Session(binary, "htp") as s:
        given = feeds(s, 4)
        expected = s.run(given)["y"]
    with qnnrt.Session(binary, "htp", options={"context": {"defer_graph_init": True}}) as s:
        assert s.run(given)["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("kinds", [(), ("weights",), ("spill_fill",), ("weights", "spill_fill")])
def test_a_deferred_context_takes_memory_for_weights_and_for_spill_and_fill(binary, backend, kinds):
    x = np.random.default_rng(0).standard_normal((1, 8, 8, 8)).astype(np.float32)
    with qnnrt.Session(binary, "htp") as s:
        expected = s.run({"x": x})["y"]
    with qnn.Context.from_binary(backend, binary, defer_graph_init=True) as context:
        sizes = {k: context.get_property(f"{k}_buffer_size") for k in ("weights", "spill_fill")}
        alignment = context.get_property("buffer_start_alignment")
        assert sizes["weights"] >= 3 * 3 * 8 * 16 * 4
        assert alignment > 0
        assert alignment & (alignment - 1) == 0
        held = []
        for kind in kinds:
            buffer = qnnrt.alloc(max(sizes[kind], 1))
            held.append(context.register(buffer, kind=kind))
            assert held[-1].nbytes == buffer.nbytes
            assert held[-1].dtype is None
            with pytest.raises(ValueError, match="holds no tensor"):
                held[-1].array  # noqa: B018
            with pytest.raises(qnnrt.BufferInUseError):
                buffer.close()
        context.finalize()
        if "weights" in kinds:  # they are there now
            assert np.asarray(held[0].buffer).any()
        y = np.zeros((1, 8, 8, 16), np.float32)
        context.graph("conv").execute([x], [y])
        assert y.tobytes() == expected.tobytes()


def test_properties_have_names(backend, binary):
    with qnn.Context.from_binary(backend, binary) as context:
        with pytest.raises(ValueError, match="weights_buffer_size"):
            context.get_property("size")
        with pytest.raises(TypeError, match="struct"):
            context.get_property(0)


# ---- memory --------------------------------------------------------------------------------------


def wide_model(nbytes: int) -> Model:
    """Relu with so many bytes of input and output together."""
    return relu_model((1, nbytes // 8))


MAPPED = """
from pathlib import Path

def mapped(counts, names):  # sums of the mappings whose first line counts
    found, here = dict.fromkeys(names, 0), False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            here = counts(line)
        elif here and first[:-1] in found:
            found[first[:-1]] += int(rest[0]) * 1024
    return found
"""

LOADED = (
    MAPPED
    + """
import gc, json, sys
from qnnrt import qnn

def held():  # by all mappings but the heap, which grows by 132 KiB when it happens to be full
    return mapped(lambda line: not line.endswith("[heap]"), ("Rss", "Size"))

backend = qnn.Backend.open("htp")
with qnn.Context.from_binary(backend, sys.argv[2]) as context:  # threads, libraries, caches
    context.graph("relu")
held()
before = held()
context = qnn.Context.from_binary(backend, sys.argv[1])
graph = context.graph("relu")
after = held()
print(json.dumps({k: after[k] - before[k] for k in after}))
"""
)


@MEASURED
def test_prepared_for_handles_a_binary_loads_with_the_io_size_less_memory(tmp_path):
    io = 64 * MIB
    small = save(relu_model(), tmp_path / "small.bin")
    taken = {}
    for prepare in ("raw", "memhandle"):
        path = save(wide_model(io), tmp_path / f"{prepare}.bin", prepare=prepare)
        # Python's own objects lie in the heap, too.
        done = run_code(LOADED, str(path), str(small), PYTHONMALLOC="malloc")
        taken[prepare] = json.loads(done.stdout)
    print(taken)
    saved = {k: taken["raw"][k] - taken["memhandle"][k] for k in ("Rss", "Size")}
    assert saved["Size"] >= io
    assert saved["Rss"] >= io - 16 * 4096  # the interpreter touches a few pages of its own


HOLD = (
    MAPPED
    + """
import json, sys
import qnnrt

def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("Anonymous:"))

with qnnrt.Session(sys.argv[2], "htp") as session:  # threads, libraries, caches
    session.run()
before = anonymous()
with qnnrt.Session(sys.argv[1], "htp") as session:
    session.run()
    y = next(iter(session.outputs.values())).array
    print(json.dumps(float(y.sum())), flush=True)
    sys.stdin.readline()  # all of them have it now
    names = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Anonymous")
    found = mapped(lambda line: line.endswith(sys.argv[1]), names)
    print(json.dumps(found | {"grown": anonymous() - before}), flush=True)
    sys.stdin.readline()
"""
)


@MEASURED
def test_processes_that_load_one_file_share_its_pages(tmp_path):
    import subprocess
    import sys

    random = np.random.default_rng(0)
    side = 2048
    weight = random.standard_normal((side, side), dtype=np.float32)  # 16 MiB

    def dense(weight: np.ndarray) -> Model:
        rows, columns = weight.shape
        return Model(
            "dense",
            tensors(
                Tensor("x", (1, columns), F32),
                Tensor("w", (rows, columns), F32, weight),
                Tensor("y", (1, rows), F32),
            ),
            [Node("dense", "FullyConnected", ["x", "w"], ["y"])],
            ["x"],
            ["y"],
        )

    path = save(dense(weight), tmp_path / "dense.bin")
    small = save(dense(weight[:64, :64]), tmp_path / "small.bin")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path), str(small)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        for p in processes:
            assert p.stdout is not None
            assert json.loads(p.stdout.readline()) == 0.0
        for p in processes:
            assert p.stdin is not None
            p.stdin.write("\n")
            p.stdin.flush()
        held = [json.loads(p.stdout.readline()) for p in processes if p.stdout]
    finally:
        for p in processes:
            p.communicate()
    print(held)
    for one in held:
        assert one["Rss"] >= weight.nbytes  # its weights are read from the mapping
        assert one["Private_Dirty"] == one["Anonymous"] == 0
        assert one["Private_Clean"] < MIB
        assert one["grown"] < weight.nbytes / 4  # no copy of them elsewhere
    assert sum(one["Pss"] for one in held) < 1.1 * max(one["Rss"] for one in held)
