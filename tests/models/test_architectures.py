"""Networks of the kinds that people run, from torch's exporters: tiny ones of the same structure.

Each is compared with torch in float64, on this runtime's fast kernels and on its portable ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import qnnrt
from architectures import NETWORKS, Network, made
from export_networks import cached

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
]

SEED = 2
#: Of the largest value of an output. The worst of the tiny networks takes a tenth of it.
TOLERANCE = 2e-5
#: Of those that the other exporter writes differently; it takes seconds for each.
BY_DYNAMO = ("efficientnet_b0", "llama_6")


def check(path: Path, network: Network, kernels: str) -> None:
    feeds = network.feeds(SEED)
    exact = network.exact(feeds)
    with qnnrt.Session(path, threads=1, options={"kernels": kernels}) as session:
        session.run(feeds)
        found = [tensor.array.copy() for tensor in session.outputs.values()]
    assert len(found) == len(exact)
    for ours, expected in zip(found, exact, strict=True):
        assert ours.shape == expected.shape
        error = np.abs(ours - expected).max() / np.abs(expected).max()
        assert error < TOLERANCE


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_from_torch_computes_what_torch_computes(name: str, tmp_path: Path) -> None:
    path, network = cached(tmp_path, name, tiny=True), made(name, tiny=True)
    for kernels in ("auto", "portable"):
        check(path, network, kernels)


@pytest.mark.parametrize("name", BY_DYNAMO)
def test_the_newer_exporter_gives_the_same_network(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    path = cached(tmp_path, name, tiny=True, dynamo=True)
    check(path, made(name, tiny=True), "auto")


@pytest.mark.parametrize("name", NETWORKS)
def test_the_random_weights_keep_values_near_one(name: str) -> None:
    """Errors of narrow types mean something only where no layer's values grow or vanish."""
    network = made(name, tiny=True)
    spreads: list[float] = []

    def look(layer: torch.nn.Module, given: object, found: object) -> None:
        if isinstance(found, torch.Tensor) and found.is_floating_point():
            spreads.append(float(found.square().mean().sqrt()))

    for layer in network.module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(look)
    with torch.inference_mode():
        network.module(*map(torch.from_numpy, network.feeds(SEED).values()))
    assert max(spreads) < 30
    assert np.median(spreads) > 0.1
