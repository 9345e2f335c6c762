"""Context binaries in Python: saved, mapped, described, loaded; and what is refused."""

from __future__ import annotations

import errno
import gc
import importlib.util
import json
import mmap
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.cli import main
from qnnrt.cli._network import mobilenet_v2
from qnnrt.model import ContextBinary, Model, Node, Quantization, Tensor
from support.binaries import made_for
from support.outside import SANITIZED, run_code
from support.toy import F32, add_model, conv_model, relu_model, tensors

MIB = 1 << 20
MEASURED = pytest.mark.skipif(SANITIZED, reason="the sanitizer's own memory is measured, too")
OWN = pytest.mark.parametrize("backend", ["cpu", "htp"])

MODELS = {
    "relu": relu_model,
    "add": add_model,
    "conv": conv_model,
    "mobilenet_v2": lambda: mobilenet_v2(64, 16),
}


def save(model: Model, path: Path, backend: str = "htp", **given: object) -> Path:
    with qnnrt.Session(model, backend, **given) as s:
        s.save_binary(path)
    return path


def feeds(s: qnnrt.Session, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal(t.shape).astype(t.dtype) for n, t in s.inputs.items()}


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return save(conv_model(), tmp_path / "conv.bin")


# ---- what comes back


@OWN
@pytest.mark.parametrize("name", MODELS)
def test_a_session_from_a_binary_computes_the_same_bytes(tmp_path, backend, name):
    with qnnrt.Session(MODELS[name](), backend) as s:
        s.save_binary(tmp_path / "x.bin")
        given = feeds(s, 1)
        expected = s.run(given)
        names = (list(s.inputs), list(s.outputs))
    with qnnrt.Session(tmp_path / "x.bin", backend) as s:
        assert (list(s.inputs), list(s.outputs)) == names
        got = s.run(given)
        assert got.keys() == expected.keys()
        for key in expected:
            assert got[key].tobytes() == expected[key].tobytes()


def test_load_maps_and_describes(binary):
    loaded = qnnrt.load(binary)
    assert isinstance(loaded, ContextBinary)
    assert isinstance(loaded.data, mmap.mmap)
    with pytest.raises(TypeError):
        loaded.data[0] = 1  # read only
    assert loaded.data[:] == binary.read_bytes()
    assert (loaded.path, loaded.name) == (str(binary), "conv")
    assert loaded.nbytes == binary.stat().st_size
    assert loaded.graphs == ("conv",)
    assert loaded.info["backend_id"] == 6
    graph = loaded.graph()
    (x,), (y,) = graph.inputs, graph.outputs
    assert (x.name, x.shape, x.dtype, x.mem_type) == ("x", (1, 8, 8, 8), F32, "memhandle")
    assert (y.name, y.shape, y.dtype, y.mem_type) == ("y", (1, 8, 8, 16), F32, "memhandle")
    assert "graph 'conv'" in loaded.summary()
    assert "conv.bin" in repr(loaded)


def test_scalars_come_back(tmp_path):
    model = Model(
        "scalar",
        tensors(Tensor("a", (), F32), Tensor("b", (), F32)),
        [Node("relu", "Relu", ["a"], ["b"])],
        ["a"],
        ["b"],
    )
    with qnnrt.Session(save(model, tmp_path / "s.bin"), "htp") as s:
        assert s.inputs["a"].array.shape == ()
        s.inputs["a"].array[...] = 4
        s.run()
        assert s.outputs["b"].array == 4


@pytest.mark.parametrize("prepare", ["raw", "memhandle", {"x": "raw"}])
def test_what_was_prepared_comes_back_and_cannot_be_changed(tmp_path, prepare):
    path = save(conv_model(), tmp_path / "x.bin", prepare=prepare)
    expected = {"x": "memhandle", "y": "memhandle"} | (
        prepare if isinstance(prepare, dict) else dict.fromkeys("xy", prepare)
    )
    with qnnrt.Session(path, "htp", prepare=expected) as s:
        assert {n: t.prepare for n, t in {**s.inputs, **s.outputs}.items()} == expected
        assert s.io == "memhandle"
    other = "raw" if expected["x"] == "memhandle" else "memhandle"
    with pytest.raises(ValueError, match=rf"'x'.*prepared {expected['x']}, not {other}"):
        qnnrt.Session(path, "htp", prepare={"x": other})


def test_several_graphs_are_chosen_by_name(tmp_path):
    with qnn.Backend.open("htp") as backend, backend.create_context() as context:
        for name, factor in (("double", 2.0), ("triple", 3.0)):
            graph = context.create_graph(name)
            x = graph.add_tensor("x", (4,), np.float32, type="app_write", mem_type="memhandle")
            f = graph.add_tensor(
                f"{name}_f", (1,), np.float32, type="static", data=np.array([factor], np.float32)
            )
            y = graph.add_tensor("y", (4,), np.float32, type="app_read", mem_type="memhandle")
            graph.add_node("mul", "ElementWiseMultiply", [x, f], [y])
            graph.finalize()
        context.save_binary(tmp_path / "two.bin")
    loaded = qnnrt.load(tmp_path / "two.bin")
    assert loaded.graphs == ("double", "triple")
    for name, factor in (("triple", 3), ("double", 2)):
        with qnnrt.Session(loaded, "htp", options={"graph": name}) as s:
            s.inputs["x"].array[...] = 5
            s.run()
            assert (s.outputs["y"].array == 5 * factor).all()
    for options in ({}, {"graph": "half"}):
        with pytest.raises(ValueError, match="'double', 'triple'"):
            qnnrt.Session(loaded, "htp", options=options)
    with pytest.raises(ValueError, match="for context binaries"):
        qnnrt.Session(relu_model(), "htp", options={"graph": "relu"})


@OWN
def test_a_binary_of_a_binary_is_the_same(tmp_path, backend):
    first = save(conv_model(), tmp_path / "1.bin", backend)
    with qnnrt.Session(first, backend) as s:
        s.save_binary(tmp_path / "2.bin")
        given = feeds(s, 5)
        expected = s.run(given)["y"]
    with qnnrt.Session(tmp_path / "2.bin", backend) as s:
        assert s.run(given)["y"].tobytes() == expected.tobytes()


# ---- contexts


@pytest.fixture
def backend() -> Iterator[qnn.Backend]:
    with qnn.Backend.open("htp") as b:
        yield b


@pytest.mark.parametrize("kind", ["path", "text", "ContextBinary", "bytes", "mmap"])
@pytest.mark.parametrize("persistent", [None, True, False])
def test_a_context_takes_files_and_bytes_and_knows_its_graphs(binary, backend, kind, persistent):
    data = {
        "path": lambda: binary,
        "text": lambda: str(binary),
        "ContextBinary": lambda: ContextBinary(binary),
        "bytes": binary.read_bytes,
        "mmap": lambda: ContextBinary(binary).data,
    }[kind]()
    with qnn.Context.from_binary(backend, data, persistent_binary=persistent) as context:
        del data
        gc.collect()
        graph = context.graph("conv")
        assert [t.name for t in graph.inputs] == ["x"]
        assert [t.name for t in graph.outputs] == ["y"]
        assert graph.inputs[0].id != graph.outputs[0].id
        assert graph.inputs[0].mem_type == 1
        x = np.random.default_rng(0).standard_normal((1, 8, 8, 8)).astype(np.float32)
        y = np.zeros((1, 8, 8, 16), np.float32)
        graph.execute([x], [y])
        with qnnrt.Session(conv_model(), "htp") as s:
            assert y.tobytes() == s.run({"x": x})["y"].tobytes()
        with pytest.raises(qnnrt.GraphError):
            context.graph("other")


def test_a_mapping_in_use_cannot_be_closed(binary, backend):
    loaded = ContextBinary(binary)
    with qnn.Context.from_binary(backend, loaded) as context:
        with pytest.raises(BufferError):
            loaded.data.close()
        del context
    gc.collect()
    loaded.data.close()


def test_validate_reads_everything_and_loads_nothing(binary, backend):
    before = _core.live_counts()
    for data in (binary, ContextBinary(binary), binary.read_bytes()):
        qnn.Context.validate_binary(backend, data)
    assert _core.live_counts() == before
    altered = bytearray(binary.read_bytes())
    altered[-100] ^= 1  # a weight
    with pytest.raises(qnnrt.ContextError):
        qnn.Context.validate_binary(backend, bytes(altered))


# ---- what is refused


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 200, 0.25, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_one_clear_error(binary, size):
    data = binary.read_bytes()
    binary.write_bytes(data[: int(size * len(data)) if isinstance(size, float) else size])
    for use in (qnnrt.load, lambda path: qnnrt.Session(path, "htp")):
        with pytest.raises(qnnrt.ModelError, match=r"conv\.bin"):
            use(binary)


@pytest.mark.parametrize("content", [b"hello\n" * 100, b"\0" * 4096, b"\x7fELF" + bytes(5000)])
def test_what_is_no_binary_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(qnnrt.ModelError, match=r"other\.bin is not a context binary"):
        qnnrt.load(path)
    with pytest.raises(FileNotFoundError):
        qnnrt.load(tmp_path / "none.bin")


@pytest.mark.parametrize("seed", range(20))
def test_an_altered_file_never_gives_other_results(binary, seed):
    """Any bit of it: refused when it is loaded or first run, or it made no difference."""
    random = np.random.default_rng(seed)
    data = bytearray(binary.read_bytes())
    data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
    with qnnrt.Session(binary, "htp") as s:
        given = feeds(s, 3)
        expected = s.run(given)["y"]
    other = binary.with_name("altered.bin")
    other.write_bytes(data)
    try:
        with qnnrt.Session(other, "htp") as s:
            got = s.run(given)["y"]
    except (qnnrt.ModelError, qnnrt.QnnError):
        return
    assert got.tobytes() == expected.tobytes()


def test_a_binary_for_another_backend_is_refused(tmp_path):
    path = save(relu_model(), tmp_path / "x.bin", "cpu")
    path.write_bytes(made_for(path.read_bytes(), 4))
    with pytest.raises(qnnrt.ModelError, match="made for the gpu backend, not for the htp backend"):
        qnnrt.Session(path, "htp")
    with qnn.Backend.open("htp") as b, pytest.raises(qnnrt.ContextError):
        qnn.Context.from_binary(b, path)


def test_options_that_were_chosen_before_are_refused(binary):
    for given in ({"threads": 2}, {"options": {"kernels": "portable"}}):
        with pytest.raises(ValueError, match="were chosen when"):
            qnnrt.Session(binary, "htp", **given)


def test_saving_is_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")
    with qnnrt.Session(relu_model(), "htp") as s:
        with pytest.raises(OSError, match="x"):
            s.save_binary(tmp_path / "no" / "x.bin")
        (tmp_path / "folder.bin").mkdir()
        with pytest.raises(OSError, match="folder"):
            s.save_binary(tmp_path / "folder.bin")
        with path.open("rb") as old:
            s.save_binary(path)
            assert old.read() == b"before"  # whoever has it open keeps it
    assert {p.name for p in tmp_path.iterdir()} == {"x.bin", "folder.bin"}
    with qnnrt.Session(path, "htp") as s:
        s.close()
        with pytest.raises(qnnrt.ClosedError):
            s.save_binary(path)


def test_another_process_maps_the_file_itself(binary):
    loaded = qnnrt.load(binary)
    again = pickle.loads(pickle.dumps(loaded))
    assert (again.path, again.system, again.graphs) == (loaded.path, loaded.system, loaded.graphs)
    assert again.data is not loaded.data


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path):
    code = """
        import resource, sys, os, signal
        from pathlib import Path
        from support.toy import conv_model
        import qnnrt
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with qnnrt.Session(conv_model(), "htp") as s:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            try:
                s.save_binary(Path(sys.argv[1]) / "x.bin")
            except OSError as e:
                print("refused", e.errno)
        print(os.listdir(sys.argv[1]))
    """
    done = run_code(code, str(tmp_path))
    assert done.stdout.splitlines() == [f"refused {errno.EFBIG}", "[]"], done.stderr


def test_a_folder_that_is_not_there_is_told_by_the_name_given(tmp_path):
    path = tmp_path / "none" / "x.bin"
    with qnnrt.Session(relu_model(), "htp") as s, pytest.raises(FileNotFoundError) as e:
        s.save_binary(path)
    assert e.value.filename == str(path)


def test_a_strict_session_from_a_raw_binary_runs_on_handles(tmp_path):
    path = save(relu_model(), tmp_path / "x.bin", prepare="raw")
    with pytest.raises(qnnrt.CopyError, match="prepared raw, executed raw"):
        qnnrt.Session(path, "htp", io="raw", strict=True)
    with qnnrt.Session(path, "htp", strict=True) as s:
        s.run()
        assert s.stats.copied_bytes == 0


def test_the_command_line_runs_binaries(binary, capsys):
    assert main(["run", str(binary), "--backend", "htp", "--io", "raw", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stats"]["copied_bytes"] == 2048 + 4096
    assert found["outputs"]["y"]["shape"] == [1, 8, 8, 16]
    assert main(["bench", str(binary), "--backend", "htp", "--iterations", "2"]) == 0
    assert "copied on the zero-copy way: 0 bytes" in capsys.readouterr().out
    assert main(["run", str(binary)]) == 0  # on cpu, as well
    capsys.readouterr()
    binary.write_bytes(made_for(binary.read_bytes(), 4))
    for options in ([], ["--backend", "htp", "--shape", "x=1"]):
        assert main(["run", str(binary), *options]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert "conv.bin" in line


# ---- memory for the backend to fill


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


# ---- memory


def wide_model(nbytes: int) -> Model:
    """Relu with so many bytes of input and output together."""
    return relu_model((1, nbytes // 8))


LOADED = """
import gc, json, sys
from pathlib import Path
from qnnrt import qnn

def held():
    fields = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        fields[name.rstrip(":")] = int(value) * 1024
    size = next(int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines()
                if l.startswith("VmSize"))
    return {"rss": fields["Rss"], "size": size * 1024}

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


@MEASURED
def test_prepared_for_handles_a_binary_loads_with_the_io_size_less_memory(tmp_path):
    io = 64 * MIB
    small = save(relu_model(), tmp_path / "small.bin")
    taken = {}
    for prepare in ("raw", "memhandle"):
        path = save(wide_model(io), tmp_path / f"{prepare}.bin", prepare=prepare)
        taken[prepare] = json.loads(run_code(LOADED, str(path), str(small)).stdout)
    print(taken)
    saved = {k: taken["raw"][k] - taken["memhandle"][k] for k in ("rss", "size")}
    assert saved["size"] >= io
    assert saved["rss"] >= io - 16 * 4096  # the interpreter touches a few pages of its own


HOLD = """
import json, sys
from pathlib import Path
import qnnrt
from qnnrt import qnn

def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("Anonymous:"))

backend = qnn.Backend.open("htp")
before = anonymous()
with qnnrt.Session(sys.argv[1], "htp") as session:
    session.run()
    y = next(iter(session.outputs.values())).array
    print(json.dumps(float(y.sum())), flush=True)
    sys.stdin.readline()  # all of them have it now
    found, here = {}, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            here = line.endswith(sys.argv[1])
        elif here and first in ("Rss:", "Pss:", "Private_Clean:", "Private_Dirty:", "Anonymous:"):
            name = first.rstrip(":")
            found[name] = found.get(name, 0) + int(rest[0]) * 1024
    print(json.dumps(found | {"grown": anonymous() - before}), flush=True)
    sys.stdin.readline()
"""


@MEASURED
def test_processes_that_load_one_file_share_its_pages(tmp_path):
    import subprocess
    import sys

    random = np.random.default_rng(0)
    side = 2048
    weight = random.standard_normal((side, side), dtype=np.float32)  # 16 MiB
    model = Model(
        "dense",
        tensors(
            Tensor("x", (1, side), F32),
            Tensor("w", (side, side), F32, weight),
            Tensor("y", (1, side), F32),
        ),
        [Node("dense", "FullyConnected", ["x", "w"], ["y"])],
        ["x"],
        ["y"],
    )
    path = save(model, tmp_path / "dense.bin")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)],
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


# ---- a vendor's binaries


@pytest.fixture(scope="module")
def simulator() -> str:
    spec = importlib.util.find_spec("onnxruntime_qnn")
    if spec is None or spec.origin is None:
        pytest.skip("the package onnxruntime-qnn is not installed")
    return str(Path(spec.origin).parent / "libQnnHtp.so")


@pytest.fixture(scope="module")
def vendor_binary(simulator, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("vendor") / "add.bin"
    return save(add_model(), path, simulator, io="raw")


@pytest.mark.foreign
def test_a_vendors_binary_runs_on_the_vendors_library(simulator, vendor_binary):
    with qnnrt.Session(add_model(), "cpu") as ours:
        given = feeds(ours, 2)
        expected = ours.run(given)
    with qnnrt.Session(vendor_binary, simulator, io="raw") as s:
        assert s.model.system == str(Path(simulator).parent / "libQnnSystem.so")
        assert s.model.info["build_id"].startswith("v")
        assert s.prepare == "raw"
        got = s.run(given)
        assert list(got) == ["w", "z"]
        for name in expected:
            np.testing.assert_allclose(got[name], expected[name], 1e-3, 1e-3)


@pytest.mark.foreign
def test_the_command_line_runs_a_vendors_binary(simulator, vendor_binary, capsys):
    command = ["run", str(vendor_binary), "--backend", simulator, "--io", "raw", "--json"]
    assert main(command) == 0
    assert set(json.loads(capsys.readouterr().out)["outputs"]) == {"w", "z"}


@pytest.mark.foreign
def test_quantization_comes_back(simulator, tmp_path):
    q = Quantization(0.5, -3)
    shape = (1, 4, 4, 8)
    model = Model(
        "q",
        tensors(*(Tensor(n, shape, np.dtype(np.uint8), quantization=q) for n in "xy")),
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )
    path = save(model, tmp_path / "q.bin", simulator, io="raw")
    with qnnrt.Session(path, simulator, io="raw") as s:
        x, y = s.inputs["x"], s.outputs["y"]
        for t in (x, y):
            assert t.dtype == np.uint8
            assert (t.quantization.scale, t.quantization.offset) == (0.5, -3)
            assert t.quantization.axis is None
        x.array[...] = np.arange(128).reshape(shape) % 9
        s.run()
        assert (y.array == np.maximum(x.array, 3)).all()  # 3 stands for 0


@pytest.mark.foreign
def test_a_vendors_binary_is_none_for_ours_and_the_message_says_what_it_needs(
    simulator, vendor_binary
):
    for use in (qnnrt.load, lambda path: qnnrt.Session(path, "htp")):
        with pytest.raises(qnnrt.ModelError, match=r"add\.bin.*libQnnSystem\.so"):
            use(vendor_binary)
    system = Path(simulator).parent / "libQnnSystem.so"
    loaded = qnnrt.load(vendor_binary, system=system)
    assert isinstance(loaded, ContextBinary)
    assert loaded.graphs == ("add",)
    with pytest.raises(qnnrt.ContextError):
        qnnrt.Session(loaded, "htp")


@pytest.mark.foreign
def test_our_binary_is_none_for_a_vendor(simulator, tmp_path):
    path = save(relu_model(), tmp_path / "ours.bin")
    with pytest.raises(qnnrt.ModelError, match=r"ours\.bin"):
        qnnrt.Session(path, simulator, io="raw")
    with pytest.raises(qnnrt.QnnError):
        qnnrt.Session(qnnrt.load(path), simulator, io="raw")


@pytest.mark.foreign
def test_without_its_system_library_a_vendors_context_still_loads(simulator, vendor_binary):
    with qnn.Backend.open(simulator, log_level="error") as backend:
        data = vendor_binary.read_bytes()
        context = qnn.Context.from_binary(backend, data)
        assert context.graph("add").inputs
        context._graphs, context._unknown = None, "no library"
        assert not context.graph("add").inputs  # a line in the log says why
