"""The networks that benchmarks run, as files: nine of the onnx package and those of tests/models.

A folder gets the network in ONNX (quantized by ONNX Runtime's quantizer where the precision says
so), what it is fed with, and what float64 makes of it.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _harness import optional
from onnx import version_converter

REPOSITORY = Path(__file__).parents[1]
sys.path += [str(REPOSITORY / "tools"), str(REPOSITORY / "tests/models")]

from zoo.networks import NAMES as LIGHT  # noqa: E402

Feeds = dict[str, np.ndarray]

PRECISIONS = ("float32", "bfloat16", "int8", "a16w8")
QUANTIZED = ("int8", "a16w8")
SEED, CALIBRATION = 2, (3, 4, 5)


def names() -> tuple[str, ...]:
    """All that can be built here: without torch the nine."""
    if optional("torch") is None:
        return LIGHT
    from architectures import NETWORKS

    return (*LIGHT, *NETWORKS)


@dataclass(frozen=True)
class Job:
    """A network in a precision, and its files."""

    name: str
    precision: str
    folder: Path
    tiny: bool = False
    inputs: int = 1  # how many times it is fed, with seeds from SEED on; the first is timed

    def file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}{'-tiny' * self.tiny}{suffix}"

    @property
    def onnx(self) -> Path:
        """In float32 for "bfloat16", too: that is how each runtime computes it."""
        kind = f"-{self.precision}" if self.precision in QUANTIZED else ""
        return self.file(f"{kind}.onnx")

    def fed(self, kind: str, i: int) -> Path:
        """What it is fed with the i-th time, or what is exact then."""
        return self.file(f"-{kind}{f'-{i}' * (i > 0)}.npz")

    def feeds(self, i: int = 0) -> Feeds:
        with np.load(self.fed("feeds", i)) as file:
            return dict(file)

    def exact(self, i: int = 0) -> list[np.ndarray]:
        """From float64; from ONNX Runtime node by node where torch is not installed."""
        with np.load(self.fed("exact", i)) as file:
            return list(file.values())


@lru_cache(maxsize=1)
def light(name: str) -> onnx.ModelProto:
    from zoo import client_models

    model = client_models.light_model(name, seed=1)
    del model.graph.output[1:]  # what the tests look at
    return model


@lru_cache(maxsize=1)
def network(name: str, tiny: bool) -> Any:
    from architectures import made

    return made(name, tiny)


def module(name: str, tiny: bool) -> Any:
    """The network in torch, in float32."""
    if name not in LIGHT:
        return network(name, tiny).module
    import _torch
    import torch

    return _torch.module(torch, light(name))


def feeds_of(name: str, tiny: bool, seed: int) -> Feeds:
    if name not in LIGHT:
        return dict(network(name, tiny).feeds(seed))
    random = np.random.default_rng(seed)
    return {
        i.name: random.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in light(name).graph.input
    }


def exact_of(name: str, tiny: bool, feeds: Feeds) -> list[np.ndarray]:
    if name not in LIGHT:
        return list(network(name, tiny).exact(feeds))
    if optional("torch") is None:
        from zoo import quantizing

        return quantizing.reference(light(name), feeds)
    import torch

    with torch.inference_mode():
        inputs = [torch.from_numpy(array).double() for array in feeds.values()]
        return [module(name, tiny).double()(*inputs).numpy()]


def quantize(job: Job) -> None:
    """Static: signed 8-bit weights with a scale for each channel, activations of 8 or 16 bits."""
    from zoo import quantizing

    model = onnx.load(job.file(".onnx"))
    if job.name in LIGHT:
        model = version_converter.convert_version(model, 17)  # scales for channels came with 13
    samples = [feeds_of(job.name, job.tiny, seed) for seed in CALIBRATION]
    kind = quantizing.QuantType
    activations = kind.QUInt8 if job.precision == "int8" else kind.QUInt16
    with tempfile.TemporaryDirectory() as folder:
        made = quantizing.quantized(
            model, samples, Path(folder), activations=activations, prepare=True
        )
    onnx.save(made, job.onnx)


def prepare(job: Job) -> None:
    """Writes what is missing of its files."""
    job.folder.mkdir(parents=True, exist_ok=True)
    if not job.file(".onnx").exists():
        if job.name in LIGHT:
            onnx.save(light(job.name), job.file(".onnx"))
        else:
            from export_networks import exported

            exported(network(job.name, job.tiny), job.file(".onnx"))
    for i in range(job.inputs):
        if not job.fed("exact", i).exists():
            feeds = feeds_of(job.name, job.tiny, SEED + i)
            np.savez(job.fed("feeds", i), **feeds)  # type: ignore[arg-type]
            np.savez(job.fed("exact", i), *exact_of(job.name, job.tiny, feeds))
    if not job.onnx.exists():
        quantize(job)


@dataclass(frozen=True)
class Error:
    """How far outputs are from the exact ones; the worst of several outputs."""

    largest: float  # of the largest value
    rms: float  # of the root of the mean square

    def __str__(self) -> str:
        return f"{self.largest:.1e} of the largest value"


def error_of(found: list[np.ndarray], exact: list[np.ndarray]) -> Error:
    if [x.size for x in found] != [x.size for x in exact]:
        return Error(float("inf"), float("inf"))
    pairs = [
        (x.astype(np.float64).ravel(), y.astype(np.float64).ravel())
        for x, y in zip(found, exact, strict=True)
    ]
    largest = max(np.abs(x - y).max() / np.abs(y).max() for x, y in pairs)
    rms = max(np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in pairs)
    infinite = float("inf")
    return Error(
        float(np.nan_to_num(largest, nan=infinite)), float(np.nan_to_num(rms, nan=infinite))
    )
