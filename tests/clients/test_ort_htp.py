"""ONNX Runtime's QNN execution provider on libQnnHtp.so: it believes in an accelerator.

What was copied, registered, voted and written is read from this runtime: its counters and its log
lines in the client's process, and the files that the client leaves.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from test_ort_qnn import PROVIDER, RUNS, assert_close, count, random_feeds, reference

import qnnrt
from qnnrt import _core, qnn
from qnnrt.importers import onnx as onnx_importer
from qnnrt.model import ContextBinary
from support.htp.votes import VOTES
from support.outside import run_script
from zoo import client_models

pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

LIB = Path(qnnrt.__file__).parent / "lib"
HERE = Path(__file__).parent
LIVE = ("mem_handles", "buffers", "contexts", "graphs", "devices", "backends", "profiles", "logs")
COPIED = re.compile(
    r"graph '[^']*' copied (\d+) bytes of RAW tensors through (\d+) bytes of staging memory", re.M
)


class Run:
    """What one process with ONNX Runtime in it did and said."""

    def __init__(self, process: subprocess.CompletedProcess[str], outputs: Path) -> None:
        self.log = process.stderr
        tail = process.stderr[-4000:]
        assert process.returncode == 0, f"exit status {process.returncode}\n{tail}"
        self.said: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
        contexts = self.said["htp"]["contexts"]
        self.graphs = [graph for context in contexts for graph in context["graphs"]]
        self.executions = [graph["executes"] for graph in self.graphs]
        self.copied = [(graph["copied_bytes"], graph["reserved_bytes"]) for graph in self.graphs]
        with np.load(outputs) as arrays:
            self.outputs = [arrays[name] for name in arrays.files]


@pytest.fixture
def run(tmp_path: Path):
    def run(
        client: str,
        model: onnx.ModelProto | Path,
        feeds: dict[str, np.ndarray],
        case: Any,
        **environment: str,
    ) -> Run:
        files = {n: tmp_path / n for n in ("model.onnx", "in.npz", "out.npz", "case.json")}
        if isinstance(model, Path):
            files["model.onnx"] = model
        else:
            onnx.save(model, files["model.onnx"])
        np.savez(files["in.npz"], **feeds)
        files["case.json"].write_text(json.dumps(case))
        arguments = [files["model.onnx"], LIB / "libQnnHtp.so", files["in.npz"], files["out.npz"]]
        process = run_script(
            *(HERE / client, *arguments, RUNS, files["case.json"]),
            LD_LIBRARY_PATH=str(LIB),  # the provider finds libcdsprpc.so by its bare name
            QNNRT_PACKAGE_LIBS=str(Path(sys.prefix, "lib")),
            **environment,
        )
        return Run(process, files["out.npz"])

    return run


def shapes(values: Any) -> dict[str, list[int]]:
    return {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}


@pytest.mark.parametrize("name", ["squeezenet", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_light_models_run_whole_and_every_copied_byte_is_told(run, name: str) -> None:
    model = client_models.light_model(name, 21)
    feeds = random_feeds(model, 21)
    ran = run("ort_client.py", model, feeds, {})
    assigned = {name: Counter(ops) for name, ops in ran.said["assigned"].items()}
    assert set(assigned) == {PROVIDER}
    assert assigned[PROVIDER]["Conv"] == count(model, "Conv")
    assert ran.executions == [RUNS]
    assert_close(ran.outputs, reference(model, feeds))
    all_bytes = sum(array.nbytes for array in (*feeds.values(), *ran.outputs))
    assert ran.copied == [(RUNS * all_bytes, all_bytes)]
    # The same in the log, for who has only that.
    (told,) = COPIED.findall(ran.log)
    assert tuple(map(int, told)) == ran.copied[0]
    during, after = ran.said["during"], ran.said["after"]
    assert (during["contexts"], during["graphs"], during["devices"]) == (1, 1, 1)
    for what in LIVE:  # the memory pool may keep a map and its fd
        assert after[what] == 0, what
    assert ran.said["htp"]["devices"][0]["contexts"] == 1


@pytest.fixture
def net() -> onnx.ModelProto:
    return client_models.conv_net(22)


@pytest.mark.parametrize("asked", ["0", "1"])
def test_half_precision_is_computed_where_it_is_asked_for(run, net, asked: str) -> None:
    feeds = random_feeds(net, 22)
    device = {"soc_model": "69", "htp_arch": "79", "enable_htp_fp16_precision": asked}
    ran = run("ort_client.py", net, feeds, {"provider": device})
    right = reference(net, feeds)
    if asked == "0":
        assert_close(ran.outputs, right)
        return
    with qnnrt.Session(onnx_importer.load(net), "htp", precision="float16") as session:
        ours = list(session.run(feeds).values())
    for got, own, exact in zip(ran.outputs, ours, right, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, got.astype(np.float16).astype(np.float32))
        unit = float(np.spacing(np.float16(np.abs(exact).max())))
        assert np.abs(got - own).max() <= unit
        assert 0 < np.abs(got - exact).max() <= 8 * unit


def test_bfloat16_is_computed_where_it_is_asked_for(run, net) -> None:
    """Tensors of BFLOAT_16 between Casts of the provider's own."""
    feeds = random_feeds(net, 22)
    device = {"soc_model": "88", "htp_arch": "81", "htp_bf16_enable": "1"}
    ran = run("ort_client.py", net, feeds, {"provider": device})
    assert set(ran.said["assigned"]) == {PROVIDER}
    assert ran.executions == [RUNS]
    (on,) = ran.said["htp"]["devices"]
    assert (on["soc_model"], on["arch"]) == (88, 81)
    for got, exact in zip(ran.outputs, reference(net, feeds), strict=True):
        assert got.dtype == np.float32
        assert not np.any(got.view(np.uint32) & 0xFFFF)  # each of them one of BFLOAT_16
        unit = 2.0 ** (np.floor(np.log2(np.abs(exact).max())) - 7)
        assert 0 < np.abs(got - exact).max() <= 4 * unit


@pytest.mark.parametrize("asked", ["0", "1"])
def test_half_precision_overflows_or_is_clamped_as_asked(run, asked: str) -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "square", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    device = {"soc_model": "69", "htp_arch": "79", "enable_htp_fp16_precision": "1"}
    case = {"provider": device | {"enable_htp_fp16_clamp_overflow": asked}}
    ran = run("ort_client.py", model, {"x": np.array([[1, 250, 300, -400]], np.float32)}, case)
    most = 65504 if asked == "1" else np.inf
    np.testing.assert_array_equal(ran.outputs[0], [[1, 62496, most, most]])
    (graph,) = ran.said["htp"]["contexts"][0]["graphs"]
    assert graph["configs"].get("FP16_CLAMP_OVERFLOW", False) == (asked == "1")


SHARED = {"enable_htp_shared_memory_allocator": "1"}


@pytest.mark.parametrize("inputs", ["Cpu", "QnnHtpShared"])
@pytest.mark.parametrize("outputs", ["Cpu", "QnnHtpShared"])
def test_tensors_in_shared_memory_are_registered_and_not_copied(
    run, net, inputs: str, outputs: str
) -> None:
    feeds = random_feeds(net, 22)
    results = shapes(net.graph.output)
    memory = dict.fromkeys(feeds, inputs) | dict.fromkeys(results, outputs)
    case = {"memory": memory, "outputs": results, "provider": SHARED}
    ran = run("ort_shared_client.py", net, feeds, case)
    assert_close(ran.outputs, reference(net, feeds))
    given = sum(feed.nbytes for feed in feeds.values()) if inputs == "Cpu" else 0
    got = sum(array.nbytes for array in ran.outputs) if outputs == "Cpu" else 0
    copied = given + got
    # The graph was prepared for handles, so staging memory is there for RAW tensors alone.
    assert ran.copied == [(RUNS * copied, copied)]
    handles = list(memory.values()).count("QnnHtpShared")
    assert ran.said["during"]["mem_handles"] == handles
    # Freeing a tensor deregisters it, before its memory goes.
    assert ran.said["freed"]["mem_handles"] == 0
    for what in LIVE:
        assert ran.said["after"][what] == 0, what
    assert ran.executions == [RUNS]


def two_unary_nodes() -> onnx.ModelProto:
    values = {n: helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4, 16]) for n in "abyz"}
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Abs", ["b"], ["z"])]
    graph = helper.make_graph(nodes, "g", [values["a"], values["b"]], [values["y"], values["z"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


@pytest.mark.parametrize("places", [(0, 256, 512, 768), (256, 256, 768, 0), (0, 256, 0, 256)])
def test_parts_of_one_buffer_are_registered_and_not_copied(run, places) -> None:
    """Side by side, one input twice, and element-wise results over their operands."""
    model = two_unary_nodes()
    a, b = random_feeds(model, 29).values()
    if places[0] == places[1]:
        b = a
    results = {"y": (4, 16), "z": (4, 16)}
    case = {"memory": {}, "outputs": results, "provider": SHARED}
    case["places"] = dict(zip("abyz", places, strict=True))
    ran = run("ort_shared_client.py", model, {"a": a, "b": b}, case)
    np.testing.assert_array_equal(ran.outputs, [np.maximum(a, 0), np.abs(b)])
    assert ran.copied == [(0, 0)]
    assert ran.said["during"]["mem_handles"] == len(set(places))
    assert ran.said["freed"]["mem_handles"] == 0


@pytest.mark.parametrize("mode", [*VOTES, "default"])
def test_performance_modes_are_votes_that_are_told(run, mode: str) -> None:
    model = client_models.conv_net(23)
    case = {"provider": {"htp_performance_mode": mode, "rpc_control_latency": "100"}}
    (vote,) = run("ort_client.py", model, random_feeds(model, 23), case).said["htp"][
        "power_configs"
    ]
    assert vote["configs"]["RPC_CONTROL_LATENCY"] == 100
    dcvs = vote["configs"].get("DCVS_V3")
    if mode == "default":
        assert dcvs is None
        return
    # The same vote as our own profile of that name makes.
    corner, latency, enabled = VOTES[mode]
    assert dcvs["core"] == dcvs["bus"] == [corner] * 3
    assert (dcvs["sleepLatency"], dcvs["dcvsEnable"]) == (latency, enabled)
    with qnn.Backend.open("htp") as backend:
        backend.set_perf_profile(mode)
        (own,) = backend.describe()["power_configs"]
    for configs in (own["configs"]["DCVS_V3"], dcvs):
        configs.pop("contextId")
    assert own["configs"]["DCVS_V3"] == dcvs
    assert own["configs"].get("RPC_POLLING_TIME") == vote["configs"].get("RPC_POLLING_TIME")


def test_device_context_and_graph_options_arrive_by_their_names(run) -> None:
    model = client_models.conv_net(24)
    feeds = random_feeds(model, 24)
    case = {
        "provider": {
            "soc_model": "69",
            "htp_arch": "79",
            "vtcm_mb": "4",
            "htp_graph_finalization_optimization_mode": "3",
            "qnn_context_priority": "high",
        }
    }
    ran = run("ort_client.py", model, feeds, case)
    (device,) = ran.said["htp"]["devices"]
    assert (device["soc_model"], device["arch"], device["vtcm_mb"]) == (69, 79, 8)
    (context,) = ran.said["htp"]["contexts"]
    assert context["priority"] == "high"
    (graph,) = context["graphs"]
    assert graph["configs"]["VTCM_SIZE_IN_MB"] == 4
    assert graph["configs"]["OPTIMIZATION"]["FINALIZE_OPTIMIZATION_FLAG"] == 3
    assert_close(ran.outputs, reference(model, feeds))


#: Options of the provider that ask for nothing which changes a result here.
HARMLESS = (
    {"enable_htp_graph_splitting": "1", "htp_graph_splitting_num_prepare_threads": "2"},
    {
        "disable_file_mapped_weights": "1",
        "enable_block_quant_weight_optimization": "1",
        "enable_htp_monolithic_lstm": "1",
        "enable_htp_prepare_and_load": "1",
        "enable_htp_spill_fill_buffer": "1",
        "extended_udma": "1",
        "htp_arch": "81",
        "num_graph_prepare_threads": "2",
        "skip_backend_op_validation": "1",
        "soc_model": "88",
    },
)


@pytest.mark.parametrize("options", HARMLESS, ids=lambda options: next(iter(options)))
def test_options_that_change_no_result_are_taken(run, net, options: dict[str, str]) -> None:
    feeds = random_feeds(net, 22)
    ran = run("ort_client.py", net, feeds, {"provider": options})
    assert set(ran.said["assigned"]) == {PROVIDER}
    assert ran.executions == [RUNS]
    assert_close(ran.outputs, reference(net, feeds))


def test_contexts_that_share_their_resources_are_refused(run, net) -> None:
    """As on the vendor's simulator (1000). The model is left to ONNX Runtime's own kernels."""
    feeds = random_feeds(net, 23)
    for option in ("htp_share_resource_optimization", "enable_vtcm_backup_buffer_sharing"):
        ran = run("ort_client.py", net, feeds, {"provider": {option: "1"}})
        assert set(ran.said["assigned"]) == {"CPUExecutionProvider"}
        assert "Code:1000" in ran.log


@pytest.mark.parametrize("embedded", ["0", "1"])
def test_a_context_model_is_written_and_read_back(run, tmp_path, embedded: str) -> None:
    """Through our libQnnSystem.so, which tells the provider what the binary holds."""
    model = client_models.conv_net(25)
    feeds = random_feeds(model, 25)
    context = tmp_path / "made.onnx"
    case = {
        "session": {
            "ep.context_enable": "1",
            "ep.context_file_path": str(context),
            "ep.context_embed_mode": embedded,
        }
    }
    made = run("ort_client.py", model, feeds, case)
    nodes = [n for n in onnx.load(context).graph.node if n.op_type == "EPContext"]
    assert len(nodes) == 1
    (cache,) = (a for a in nodes[0].attribute if a.name == "ep_cache_context")
    data = cache.s if embedded == "1" else (tmp_path / cache.s.decode()).read_bytes()
    info = _core.SystemLibrary.open().binary_info(data)
    assert info["backend_id"] == 6
    (graph,) = info["graphs"]
    assert {t["name"] for t in graph["inputs"]} == set(feeds)

    again = run("ort_client.py", context, feeds, {})
    assert set(again.said["assigned"]) == {PROVIDER}
    assert again.executions == [RUNS]
    for one, other in zip(again.outputs, made.outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    if embedded == "0":
        binary = ContextBinary(tmp_path / cache.s.decode())
        with qnnrt.Session(binary, "htp") as s:  # whoever made it
            results = s.run(feeds)
            for name, other in zip(s.outputs, made.outputs, strict=True):
                np.testing.assert_array_equal(results[name], other)


FEWER_INSTRUCTIONS = {"QNNRT_ISA": "base", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def check_moved_context(run, model: Any, feeds: Any, folder: Path) -> None:
    """What one kind of kernels has made gives with another what that gives without it."""
    for made_with, loaded_with in ((FEWER_INSTRUCTIONS, {}), ({}, FEWER_INSTRUCTIONS)):
        context = folder / f"made{len(made_with)}.onnx"
        settings = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
        run("ort_client.py", model, feeds, {"session": settings}, **made_with)
        again = run("ort_client.py", context, feeds, {}, **loaded_with)
        assert again.executions == [RUNS]
        built = run("ort_client.py", model, feeds, {}, **loaded_with)
        for one, other in zip(again.outputs, built.outputs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_context_model_loads_with_other_instructions(run, tmp_path) -> None:
    model = client_models.conv_net(27)
    check_moved_context(run, model, random_feeds(model, 27), tmp_path)


@pytest.mark.parametrize("level", ["basic", "detailed", "optrace"])
def test_a_profile_is_written_to_a_file(run, tmp_path, level: str) -> None:
    model = client_models.conv_net(26)
    path = tmp_path / "profile.csv"
    case = {"provider": {"profiling_level": level, "profiling_file_path": str(path)}}
    ran = run("ort_client.py", model, random_feeds(model, 26), case)
    assert ran.executions == [RUNS]
    lines = path.read_text().splitlines()
    assert lines[0].startswith("Msg Timestamp,Message,Time,Unit of Measurement")
    events = [line for line in lines if "execute" in line]
    assert len(events) >= RUNS, path.read_text()[:2000]
    assert (",NODE," in path.read_text()) == (level != "basic")
