"""Context binaries in Python: saved, mapped, described, loaded; and what is refused."""

from __future__ import annotations

import errno
import gc
import json
import mmap
import pickle

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.cli import main
from qnnrt.model import ContextBinary, Model, Node, Tensor
from support.binaries import MODELS, OWN, feeds, made_by, made_for, save
from support.outside import run_code
from support.toy import F32, conv_model, relu_model, tensors

# ---- what comes back -----------------------------------------------------------------------------


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


# ---- contexts ------------------------------------------------------------------------------------


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


# ---- what is refused -----------------------------------------------------------------------------


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


def test_a_binary_of_other_versions_of_the_libraries_is_read(tmp_path):
    path = save(relu_model(), tmp_path / "x.bin")
    path.write_bytes(made_by(path.read_bytes(), (5, 43, 0), "qnnrt-0.1.0"))
    with qnnrt.Session(path, "htp") as s:
        assert s.model.info["build_id"] == "qnnrt-0.1.0"
        x = feeds(s, 4)
        np.testing.assert_array_equal(s.run(x)["y"], np.maximum(x["x"], 0))


def test_options_that_were_chosen_before_are_refused(binary):
    for option in ({"kernels": "portable"}, {"plan_milliseconds": 5}):
        with pytest.raises(ValueError, match="were chosen when"):
            qnnrt.Session(binary, "htp", options=option)


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
