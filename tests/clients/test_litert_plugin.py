"""LiteRT's compiler plugin for Qualcomm on these libraries: it compiles TFLite models whole.

The plugin builds one QNN graph of a model and stores its context binary inside a new TFLite file,
as what one operator DISPATCH_OP runs. LiteRT's wheel has no library that runs it; here the binary
is taken out and runs in a Session, against TFLite's own kernels for the model before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers

pytest.importorskip("ai_edge_litert")

import qnnrt
from support.tflite.delegated import close, interpreter, run
from support.tflite.networks import NETWORKS, segmenting
from support.tflite.quantizer import quantized_network

aot_compile = pytest.importorskip("ai_edge_litert.aot.aot_compile", reason="a wheel for Linux")
target = pytest.importorskip("ai_edge_litert.aot.vendors.qualcomm.target")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")

pytestmark = pytest.mark.foreign

LIB = Path(qnnrt.__file__).parent / "lib"
SEED = 3
SOFTMAX_STEPS = 256  # in 1, as TFLite prescribes
#: By how many steps of int8 results may differ, where that is not one: TFLite's RESIZE_BILINEAR is
#: some off (docs/tflite.md).
STEPS = {"segmenting": 3}


def dispatched(data: bytes) -> list[bytes]:
    """The context binary of each operator of a compiled file."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    (graph,) = model.subgraphs
    blobs = []
    for op in graph.operators:
        assert model.operatorCodes[op.opcodeIndex].customCode == b"DISPATCH_OP"
        at = flexbuffers.Loads(bytes(op.customOptions))
        begin, size = at["bytecode_offset"], at["bytecode_size"]
        blobs.append(data[begin : begin + size])
    return blobs


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], list[bytes]]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIB))
    monkeypatch.setenv("QNNRT_PACKAGE_LIBS", str(Path(sys.prefix, "lib")))

    def compiled(data: bytes) -> list[bytes]:
        source = tmp_path / "model.tflite"
        source.write_bytes(data)
        soc = target.Target(target.SocModel.SM8650)
        result = aot_compile.aot_compile(str(source), str(tmp_path), soc, keep_going=False)
        ((_, model),) = result.models_with_backend
        (stats,) = model.partition_stats.subgraph_stats
        assert stats.num_ops_offloaded == stats.num_total_ops > 0, result.compilation_report()
        return dispatched(Path(model.path).read_bytes())

    return compiled


@pytest.mark.parametrize("kind", ["float", "int8", "int8 with float ends"])
@pytest.mark.parametrize("name", [*NETWORKS, "segmenting"])
def test_a_network_is_compiled_whole_and_computes_what_tflite_does(
    name: str, kind: str, tmp_path: Path, compiled: Callable[[bytes], list[bytes]]
) -> None:
    data, shape = NETWORKS.get(name, segmenting)()
    feeds = [np.random.default_rng(SEED).uniform(-1, 1, shape).astype(np.float32)]
    if kind != "float":
        data, feeds = quantized_network(data, feeds, np.int8, float_io=kind.endswith("ends"))
    (blob,) = compiled(data)
    path = tmp_path / "blob.bin"
    path.write_bytes(blob)
    (wanted,) = run(interpreter(data), feeds)
    with qnnrt.Session(path) as session:
        (found,) = session.run(dict(zip(session.inputs, feeds, strict=True))).values()
    if kind.endswith("ends"):  # what the DEQUANTIZE at the end gives
        found, wanted = (np.round(a * SOFTMAX_STEPS).astype(np.int32) for a in (found, wanted))
    close(found, wanted, STEPS.get(name, 1))
