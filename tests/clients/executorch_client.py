"""ExecuTorch as a client of QNN libraries, in a process of its own.

    QNN_SDK_ROOT=... python executorch_client.py [--size full] PRECISION...

Lowers MobileNetV2 through ExecuTorch's Qualcomm backend, in each precision ("fp16", "8a8w", ...),
runs the program through the Python bindings of its runtime, and prints one JSON line: for each
precision, how many parts were delegated, how many operators were left to ExecuTorch's own kernels,
and the largest error in those of the float model's largest output: of the run against that model
("eager") and against the one that was lowered ("lowered"), both computed by torch; and of the
latter, where it is quantized ("quantization").
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from executorch import exir
from executorch.backends.qualcomm.export_utils import (
    QcomChipset,
    QuantDtype,
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    make_quantizer,
)
from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from architectures import made

SOC = "SM8650"


def quantized(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], kind: str) -> Any:
    quantizer = make_quantizer(
        quant_dtype=getattr(QuantDtype, f"use_{kind}"), per_channel_conv=True, soc_model=SOC
    )
    prepared = prepare_pt2e(torch.export.export(model, inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


def lowered(model: Any, inputs: tuple[torch.Tensor, ...], half: bool) -> Any:
    spec = generate_qnn_executorch_compiler_spec(
        soc_model=getattr(QcomChipset, SOC),
        backend_options=generate_htp_compiler_spec(use_fp16=half),
    )
    edge = to_edge_transform_and_lower_to_qnn(model, inputs, spec)
    return edge.to_executorch(exir.ExecutorchBackendConfig())


def tried(kind: str, full: bool) -> dict[str, Any]:
    network = made("mobilenet_v2", tiny=not full)
    inputs = tuple(torch.from_numpy(array) for array in network.feeds(7).values())
    with torch.no_grad():
        wanted = network.module(*inputs)
        half = kind == "fp16"
        model = network.module if half else quantized(network.module, inputs, kind)
        program = lowered(model, inputs, half)
        plan = program.executorch_program.execution_plan[0]
        (found,) = _load_for_executorch_from_buffer(program.buffer).forward(list(inputs))
        unit = wanted.abs().max()

        def error(a: torch.Tensor, b: torch.Tensor) -> float:
            return float((a - b).abs().max() / unit)

        exact = wanted if half else model(*inputs)
        said = {
            "delegated": [delegate.id for delegate in plan.delegates],
            "left": len(plan.operators),
            "eager": error(found, wanted),
            "lowered": error(found, exact),
        }
        return said if half else said | {"quantization": error(exact, wanted)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=("tiny", "full"), default="tiny")
    parser.add_argument("precisions", nargs="+")
    arguments = parser.parse_args()
    results = {kind: tried(kind, arguments.size == "full") for kind in arguments.precisions}
    print(json.dumps(results))
