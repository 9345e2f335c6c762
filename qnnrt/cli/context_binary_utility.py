"""``qnnrt context-binary-utility``: what a context binary holds, as the SDK's tool writes it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..abi import numbers
from ..abi.structs import QnnHtpSystemContext_ContextBlobInfo_t
from ..abi.structs import QnnHtpSystemContext_GraphBlobInfo_t as GraphBlobInfo_t
from ..abi.structs import QnnHtpSystemContext_GraphBlobInfoV1_t as GraphBlobInfoV1_t
from ..abi.structs import QnnHtpSystemContext_GraphBlobInfoV2_t as GraphBlobInfoV2_t
from ..dtypes import DATA_TYPES, data_type_name
from ..errors import QnnError
from ..model.binary import map_file
from ._common import UsageError, check_file, print_json, size
from ._tools import tool_parser

_TENSOR_TYPES: Final = {value: name for name, value in numbers("QNN_TENSOR_TYPE_").items()}
_MEM_TYPES: Final = {"raw": "RAW", "memhandle": "MEMHANDLE", "retrieve_raw": "RETRIEVE_RAW"}
#: Encoding of a tensor -> the key of its parameters in the SDK's JSON.
_ENCODING_KEYS: Final = {
    "scale_offset": "scaleOffset",
    "axis_scale_offset": "axisScaleOffset",
    "bw_scale_offset": "bwScaleOffset",
    "bw_axis_scale_offset": "bwAxisScaleOffset",
}
#: Structs in HTP's graph blob by their version; that of version 1 is a wrapper of its fields.
_HTP_BLOBS: Final = {
    abi.QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1: GraphBlobInfo_t,
    abi.QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2: GraphBlobInfoV2_t,
}


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "describe a context binary as JSON: graphs, inputs and outputs, versions"
    parser = tool_parser(commands, "context-binary-utility", text)
    parser.add_argument(
        "--context_binary", metavar="FILE", type=Path, required=True, help="the context binary"
    )
    parser.add_argument("--json_file", metavar="FILE", type=Path, help="write the JSON there")
    parser.add_argument(
        "--system_lib",
        metavar="PATH",
        help="libQnnSystem.so of those whose libraries made the binary (default: qnnrt's own)",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check every checksum of a binary of qnnrt's, those of the weights too",
    )
    parser.add_argument("--json", action="store_true", help="print the JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_file(options.context_binary)
    library = _core.SystemLibrary.open(options.system_lib)
    with map_file(options.context_binary) as data:
        info = _info(library, data, options)
        if options.verify:
            _verify(library, data, options)
        nbytes = len(data)
    document = as_json(info)
    if options.json_file is not None:
        with open(options.json_file, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=4)
            file.write("\n")
    if options.json:
        print_json(document)
        return 0
    print(f"{options.context_binary}: {size(nbytes)}, {_summary(info)}")
    for graph in info["graphs"]:
        print(f"  graph {graph['name']}")
        for side in ("inputs", "outputs"):
            for t in graph[side]:
                kind = data_type_name(t["data_type"])
                print(f"    {side[:-1]} {t['name']}: {kind}{t['dims']} {t['mem_type']}")
    if options.verify:
        print("  every checksum is right")
    if options.json_file is not None:
        print(f"  written to {options.json_file}")
    return 0


def _info(library: _core.SystemLibrary, data: Any, options: argparse.Namespace) -> dict[str, Any]:
    try:
        return library.binary_info(data)
    except QnnError as error:
        text = f"{options.context_binary}: {error}"
        if library.has_extensions:
            text += " (give such a library as --system_lib PATH)" if "libQnnSystem" in text else ""
        elif data[1:6] == b"QNNRT":
            text += ": this binary is qnnrt's own: leave --system_lib out"
        raise UsageError(text) from None


def _verify(library: _core.SystemLibrary, data: Any, options: argparse.Namespace) -> None:
    if not library.has_extensions:
        raise UsageError("--verify: only the checksums of qnnrt's own binaries are known")
    try:
        library.binary_verify(data)
    except QnnError as error:
        raise UsageError(f"{options.context_binary}: {error}") from None


def _summary(info: dict[str, Any]) -> str:
    core = ".".join(map(str, info["core_api_version"]))
    backend = ".".join(map(str, info["backend_api_version"]))
    build = info["build_id"] or "unknown build"
    return f"by {build} for backend {info['backend_id']} {backend}, core API {core}"


# ---- the SDK's JSON ----------------------------------------------------------------------------


def as_json(info: dict[str, Any]) -> dict[str, Any]:
    """``SystemLibrary.binary_info`` in the layout of the SDK's qnn-context-binary-utility."""
    htp = info["backend_id"] == abi.QNN_BACKEND_ID_HTP
    inner: dict[str, Any] = {
        "backendId": info["backend_id"],
        "buildId": info["build_id"],
        "coreApiVersion": _version(info["core_api_version"]),
        "backendApiVersion": _version(info["backend_api_version"]),
        "socVersion": info["soc_version"],
        "socModel": info["soc_model"],
        "contextBlobVersion": _version(info["context_blob_version"]),
        "contextBlobSize": info["context_blob_size"],
        "numContextTensors": len(info["context_tensors"]),
        "contextTensors": [_tensor(t) for t in info["context_tensors"]],
        "numGraphs": len(info["graphs"]),
        "graphs": [_graph(g, htp) for g in info["graphs"]],
    }
    metadata = info["context_metadata"]
    if htp and len(metadata) >= 8 and info["version"] == 3:
        found = QnnHtpSystemContext_ContextBlobInfo_t.unpack(metadata)
        inner["contextMetadata"] = {
            "version": found["version"],
            "info": {
                "dspArch": found["contextBinaryContextBlobInfoV1"],
                "socModel": info["soc_model"],
            },
        }
    if info["devices"]:
        inner["platformInfo"] = {"hwDevices": [_device(d) for d in info["devices"]]}
    return {"version": info["version"], "info": inner}


def _version(parts: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("major", "minor", "patch"), parts, strict=True))


def _device(device: dict[str, Any]) -> dict[str, Any]:
    cores = [{"coreId": c["core_id"], "coreType": c["core_type"]} for c in device["cores"]]
    return {"deviceId": device["device_id"], "deviceType": device["device_type"], "cores": cores}


def _graph(graph: dict[str, Any], htp: bool) -> dict[str, Any]:
    info: dict[str, Any] = {"graphName": graph["name"]}
    for key, name in (("inputs", "Inputs"), ("outputs", "Outputs")):
        info[f"numGraph{name}"] = len(graph[key])
        info[f"graph{name}"] = [_tensor(t) for t in graph[key]]
    if graph["updateable"]:
        info["updateableTensors"] = [_tensor(t) for t in graph["updateable"]]
    if htp and graph["blob"]:
        info["graphBlobInfo"] = htp_graph_blobs(graph["blob"])
    return {"info": info}


def htp_graph_blobs(blob: bytes) -> list[dict[str, Any]]:
    """The structs in HTP's graph blob, of each version one, as far as they are known.

    Version 1 takes 40 bytes in its wrapper; version 2 takes 72 and begins with its version.
    """
    out: list[dict[str, Any]] = []
    while len(blob) >= 4:
        version = GraphBlobInfo_t.get(blob, "version")
        layout = _HTP_BLOBS.get(version)
        if layout is None or len(blob) < layout.size:
            break
        info = layout.unpack(blob)
        del info["version"]
        if layout is GraphBlobInfo_t:
            (values,) = info.values()
            info = dict(zip(GraphBlobInfoV1_t.fields, values, strict=True))
        out.append({"version": version, "info": info})
        blob = blob[layout.size :]
    return out


def _tensor(t: dict[str, Any]) -> dict[str, Any]:
    kind = t["type"]
    data_type = data_type_name(t["data_type"])
    info = {
        "id": t["id"],
        "name": t["name"],
        "type": f"QNN_TENSOR_TYPE_{_TENSOR_TYPES[kind]}" if kind in _TENSOR_TYPES else kind,
        "dataFormat": t["data_format"],
        "dataType": f"QNN_DATATYPE_{data_type}" if data_type in DATA_TYPES else data_type,
        "rank": len(t["dims"]),
        "dimensions": t["dims"],
        "memType": f"QNN_TENSORMEMTYPE_{_MEM_TYPES.get(t['mem_type'], 'UNDEFINED')}",
        "quantizeParams": _quantize_params(t["quantization"]),
    }
    if any(t["dynamic"]):
        info["isDynamicDimensions"] = t["dynamic"]
    return {"info": info}


def _quantize_params(q: dict[str, Any] | None) -> dict[str, Any]:
    if q is None:
        return {
            "definition": "QNN_DEFINITION_UNDEFINED",
            "encoding": "QNN_QUANTIZATION_ENCODING_UNDEFINED",
        }
    out: dict[str, Any] = {
        "definition": "QNN_DEFINITION_DEFINED",
        "encoding": f"QNN_QUANTIZATION_ENCODING_{q['encoding'].upper()}",
    }
    if (key := _ENCODING_KEYS.get(q["encoding"])) is None:
        return out
    values: dict[str, Any] = {}
    if q["bitwidth"] is not None:
        values["bitwidth"] = q["bitwidth"]
    if q["axis"] is None:
        values |= {"scale": q["scale"], "offset": q["offset"]}
    else:
        pairs = zip(q["scale"], q["offset"], strict=True)
        values["axis"] = q["axis"]
        values["numScaleOffsets"] = len(q["scale"])
        values["scaleOffsets"] = [{"scale": s, "offset": o} for s, o in pairs]
    return out | {key: values}
