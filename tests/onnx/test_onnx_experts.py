"""ONNX Runtime's mixtures of experts, beside ONNX Runtime, and beside numpy where it has them for
GPUs only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, ours, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

EXPERTS, HIDDEN, INNER = 50, 32, 48
SWIGLU: dict[str, Any] = {
    "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702,
    "activation_beta": 1.0, "swiglu_limit": 0.5,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    kind: {"activation_type": kind} for kind in ("relu", "gelu", "silu", "identity")
} | {"swiglu": SWIGLU}


def layers(first: int, third: bool = False) -> list[np.ndarray | None]:
    found: list[np.ndarray | None] = []
    for n, k in ((first, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN))[: 3 if third else 2]:
        found += [0.2 * values(EXPERTS, n, k), values(EXPERTS, n)]
    return found


@pytest.mark.parametrize("normal", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [(1,), (2,), (6, 10)])
def test_each_token_takes_the_best_of_its_experts(
    tokens: tuple[int, ...], kind: str, normal: int
) -> None:
    inputs = [values(*tokens, HIDDEN), values(int(np.prod(tokens)), EXPERTS)]
    weights = layers(INNER * (2 if kind == "swiglu" else 1))
    for k in (1, 2, EXPERTS):
        how = {"k": k, "normalize_routing_weights": normal, **KINDS[kind]}
        check("MoE", [*inputs, *weights], static=range(2, 6), **how)
    weights[1] = weights[3] = None
    check("MoE", [*inputs, *weights[:3]], static=[2, 4], k=2, **KINDS[kind])


@pytest.mark.parametrize("tokens", [1, 60])
def test_a_third_layer_multiplies_what_the_first_one_lets_through(tokens: int) -> None:
    x, scores, given = values(tokens, HIDDEN), values(tokens, EXPERTS), layers(INNER, third=True)
    w1, b1, w2, b2, w3, b3 = given
    expected = np.zeros_like(x)
    for t in range(tokens):
        chosen = np.argsort(-scores[t])[:2]
        shares = np.exp(scores[t, chosen]) / np.exp(scores[t, chosen]).sum()
        for e, share in zip(chosen, shares, strict=True):
            gate = w1[e] @ x[t] + b1[e]
            inner = gate / (1 + np.exp(-gate)) * (w3[e] @ x[t] + b3[e])
            expected[t] += share * (w2[e] @ inner + b2[e])
    proto, feeds = model_of("MoE", [x, scores, *given], static=range(2, 8), k=2,
                            activation_type="silu", normalize_routing_weights=1)  # fmt: skip
    np.testing.assert_allclose(ours(proto, feeds)[0], expected, rtol=2e-5, atol=2e-4)


def narrow(n: int, k: int, bits: int, size: int, zeros: bool) -> list[np.ndarray | None]:
    """Codes, scales and zero points of a layer; those of whole rows lie in bytes together."""
    rng = np.random.default_rng(n + bits)
    blocks = k // size if size else 1
    scales = rng.uniform(0.01, 0.03, (EXPERTS, n, blocks) if size else (EXPERTS, n))
    offsets = (n, -(-blocks * bits // 8)) if size else (-(-n * bits // 8),)
    return [
        rng.integers(0, 256, (EXPERTS, n, k * bits // 8)).astype(np.uint8),
        scales.astype(np.float32),
        rng.integers(0, 256, (EXPERTS, *offsets)).astype(np.uint8) if zeros else None,
    ]


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 0, False), (4, 16, True), (8, 0, False),
                                                     (4, 0, True), (4, 32, False)])  # fmt: skip
@pytest.mark.parametrize("tokens", [1, 12])
def test_experts_of_few_bits(tokens: int, bits: int, size: int, zeros: bool, shares: bool) -> None:
    inner = 64
    first = narrow(2 * inner, HIDDEN, bits, size, zeros)
    second = narrow(HIDDEN, inner, bits, size, zeros)
    inputs = [
        values(tokens, HIDDEN), values(tokens, EXPERTS), *first[:2], values(EXPERTS, 2 * inner),
        *second[:2], values(EXPERTS, HIDDEN), None, None, None, first[2], second[2], None,
        np.abs(values(tokens, EXPERTS, seed=3)) if shares else None,
    ]  # fmt: skip
    static = [i for i, v in enumerate(inputs) if v is not None and 2 <= i < 14]
    while inputs[-1] is None:
        inputs.pop()
    for normal in (0, 1):
        how = {"normalize_routing_weights": normal, **({"block_size": size} if size else {})}
        check("QMoE", inputs, static=static, k=2, expert_weight_bits=bits, tolerance=1e-4, **how,
              **SWIGLU)  # fmt: skip


def test_other_mixtures_are_refused() -> None:
    inputs = [values(1, HIDDEN), values(1, EXPERTS), *layers(INNER)]
    for how, message in (
        ({"use_sparse_mixer": 1}, "use_sparse_mixer"),
        ({"activation_type": "tanh"}, "activation_type"),
        ({"activation_type": "swiglu"}, "swiglu_fusion"),
        ({"k": 51}, "k is 51"),
    ):
        proto, _ = model_of("MoE", inputs, static=range(2, 6), **how)
        with pytest.raises((UnsupportedOpError, ValueError), match=message):
            importer.load(proto)
