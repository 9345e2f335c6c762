"""ONNX Runtime's operators around linear attention, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(("queries", "own"), [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("steps", [1, 4])
def test_the_recurrence_of_each_rule(steps: int, queries: int, own: int, rule: str) -> None:
    inputs: list[np.ndarray | None]
    for each in (False, True):  # a decay and a rate for each head, or fewer
        inputs = [values(2, steps, n) for n in (queries * 4, own * 4, own * 3)]
        inputs.append(values(2, own, 4, 3) if each else None)
        decay = -np.abs(values(2, steps, own * (4 if each else 1)))
        rate = 0.3 * np.abs(values(2, steps, own if each else 1))
        inputs += [decay if "gated" in rule else None, rate if "delta" in rule else None]
        how: dict[str, Any] = {"q_num_heads": queries, "kv_num_heads": own, "update_rule": rule}
        check("LinearAttention", inputs, 2, **how)
        check("LinearAttention", inputs, 2, scale=0.3, **how)


def test_states_of_several_positions_are_refused() -> None:
    inputs = [values(1, 1, 4), values(1, 1, 4), values(1, 1, 4)]
    proto, _ = model_of("LinearAttention", inputs, 2, update_rule="linear", state_window=2,
                        q_num_heads=1, kv_num_heads=1)  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="state_window"):
        importer.load(proto)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolutions_keep_their_end(dilation: int, activation: str) -> None:
    how = {"dilation": dilation, "activation": activation}
    past, weights, bias = values(2, 3, 3 * dilation), values(3, 1, 4), values(3)
    for steps in (1, 6):
        check("CausalConvWithState", [values(2, 3, steps), weights, bias, past], 2, **how)
    check("CausalConvWithState", [values(2, 6, 3), weights, None, None], 2, channels_last=1, **how)
    x, weights, past = values(2, 6, 2, 3), values(6, 1, 3), values(2, 2 * dilation, 2, 3)
    check("CausalConvWithState", [x, weights, values(6), past], 2, channels_last=1, **how)


def test_gates_and_norms() -> None:
    a, per_head = values(2, 3, 4), values(4)
    check("LinearAttentionGate", [a, per_head, values(4, seed=1)])
    check("LinearAttentionGate", [a, per_head, values(4, seed=1), values(2, 3, 4, seed=1)], 2)
    x = values(2, 3, 8)
    for activation in ("silu", "swish", "sigmoid"):
        for size in (8, 4):
            inputs = [x, values(size), values(2, 3, 8, seed=1)]
            check("GatedRMSNorm", inputs, activation=activation, epsilon=1e-2)
    check("GatedAdd", [x, values(2, 3, 8, seed=1), values(2, 3, 1)])
    check("ScaledSiLU", [x], alpha=0.5)
    check("ScaledSiLU", [x, np.array(2, np.float32)])
    grouped = values(2, 3, 4, 5)
    check("BranchwiseRMSNorm", [grouped])
    for scale in (values(4, 5), values(5)):
        check("BranchwiseRMSNorm", [grouped, scale], epsilon=0.1)
    check("BranchwiseRMSNorm", [values(2, 3, 20), values(20)], num_branches=4)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("sections", [[2, 1, 1], [1, 1, 2], [4, 0, 0]])
def test_angles_of_three_places(sections: list[int], layout: int) -> None:
    places = np.random.default_rng(0).integers(0, 9, (3, 2, 3))
    caches = [values(9, 4), values(9, 4, seed=1)]
    how: dict[str, Any] = {"mrope_section": sections, "mrope_layout": layout}
    check("MRotaryEmbedding", [values(2, 2, 3, 8), places, *caches], interleaved=1, **how)
    check("MRotaryEmbedding", [values(2, 3, 16), places, *caches], num_heads=2,
          rotary_embedding_dim=8, **how)  # fmt: skip
