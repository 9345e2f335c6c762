"""Rules of ops over the last dim that are no products, and of random numbers."""

from __future__ import annotations

import numpy as np

from .growing import FIXED_ACTIVATIONS, FLOATS, INDICES, Growing, Plan, rule


@rule("HadamardTransform")
def hadamard_transform(g: Growing, op: str) -> Plan:
    x = g.operand(
        g.types(op), 1, 4, fits=lambda s: s[-1] in (1, 2, 4, 8, 16, 32),
        make=lambda: (*g.random_shape(0, 2), g.choice((1, 2, 4, 8, 16, 32))),
    )  # fmt: skip
    params = {"scale": g.number(0.2, 3)} if g.chance(0.5) else {}
    return Plan([x], [g.kind(x)], params)


@rule("RotaryEmbedding")
def rotary_embedding(g: Growing, op: str) -> Plan:
    batch, heads, places, pairs = g.int(1, 3), g.int(1, 4), g.int(1, 5), g.int(1, 9)
    rest = g.choice((0, 0, 1, 4))
    shape = (batch, heads, places, 2 * pairs + rest)
    x = g.operand(g.types(op), 4, 4, fits=lambda s: s == shape, make=lambda: shape)
    angles = [g.like(x, (batch, places, pairs), (-1, 1)) for _ in range(2)]
    params: dict[str, object] = {}
    if rest or g.chance(0.5):
        params["rotary_embedding_dim"] = np.uint32(2 * pairs)
    if g.chance(0.5):
        params["interleaved"] = g.chance(0.7)
    return Plan([x, *angles], [g.kind(x)], params)


@rule("RandomUniformLike", "RandomNormalLike")
def random_like(g: Growing, op: str) -> Plan:
    """With a seed: what comes without one depends on the node's name."""
    size = g.random_shape(1, 4)
    shape = g.add(g.choice(INDICES), np.array(size), constant=g.chance(0.8), private=True)
    seed = g.add("FLOAT_32", g.rng.normal(size=1), constant=g.chance(0.8), private=True)
    low = g.number(-2, 2)
    second = g.number(0, 3)
    params: dict[str, object] = {"mean": low, "scale": second}
    if op == "RandomUniformLike":
        params = {"low": low, "high": np.float32(low + second)}
    out = g.pick_type([*FLOATS, *FIXED_ACTIVATIONS])
    return Plan([shape, seed], [out], params if g.chance(0.8) else {})
