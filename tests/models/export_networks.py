"""Writes the networks as ONNX files, with torch's exporters.

    python tests/models/export_networks.py FOLDER [NAME...] [--tiny] [--dynamo] [--list]

What is in the folder already is not written again.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch

from architectures import NETWORKS, Network, made

OPSET = 17  # the newest that the exporter through TorchScript writes all of
Axes = Mapping[str, Mapping[int, str]]
DYNAMO_OPSET = 18  # the oldest of the other one


def exported(network: Network, path: Path, dynamo: bool = False, axes: Axes | None = None) -> Path:
    """`network` as a file; from torch.export if `dynamo`, else through TorchScript.

    `axes`: the names of dimensions that stay open, by input and place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    feeds = network.feeds(seed=0)
    examples = tuple(torch.from_numpy(array) for array in feeds.values())
    with torch.inference_mode():
        found = network.module(*examples)
    outputs = [f"output{i}" for i in range(len(found) if isinstance(found, tuple) else 1)]
    part = path.with_suffix(f".{os.getpid()}.part")  # a file is whole when it has its name
    more: dict[str, object] = {"external_data": False, "verbose": False} if dynamo else {}
    if axes is not None:
        more["dynamic_axes"] = axes
    with warnings.catch_warnings():
        # Shapes are fixed here, which is what most warnings of the tracer are about.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.module,
            examples,
            str(part),
            dynamo=dynamo,
            opset_version=DYNAMO_OPSET if dynamo else OPSET,
            input_names=list(feeds),
            output_names=outputs,
            **more,  # type: ignore[arg-type]
        )
    part.rename(path)
    return path


def file_name(name: str, tiny: bool = False, dynamo: bool = False) -> str:
    return name + "-tiny" * tiny + "-dynamo" * dynamo + ".onnx"


def cached(folder: Path, name: str, tiny: bool = False, dynamo: bool = False) -> Path:
    """The file of a network in `folder`, written where it is missing."""
    path = folder / file_name(name, tiny, dynamo)
    return path if path.exists() else exported(made(name, tiny), path, dynamo)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the networks as ONNX files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NETWORKS, []])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--dynamo", action="store_true", help="needs onnxscript")
    options = parser.parse_args()
    for name in options.names or NETWORKS:
        print(cached(options.folder, name, options.tiny, options.dynamo), flush=True)


if __name__ == "__main__":
    main()
