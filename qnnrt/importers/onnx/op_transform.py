"""Rotary embeddings, and random numbers."""

from __future__ import annotations

import numpy as np

from ..shorthand import u32
from .checks import ELEMENT_TYPES
from .common import cast
from .infer import Found, exactly, infers, rank_of
from .nodes import Lowering, OnnxNode, lowers
from .op_gather import indices
from .values import Value, constant, identity


def _sizes(n: OnnxNode) -> tuple[int, int, int, int]:
    """Batch, heads, length and size of a head."""
    shape = rank_of(n, 0, 3, 4)
    if len(shape) == 4:
        batch, heads, length, size = shape
        return batch, heads, length, size
    heads = n.integer("num_heads")
    if heads < 1 or shape[2] % heads:
        raise ValueError(f"num_heads is {heads}, which does not divide {shape[2]}")
    return shape[0], heads, shape[1], shape[2] // heads


@infers("RotaryEmbedding")
def _rotary_shape(n: OnnxNode) -> Found:
    batch, _, length, size = _sizes(n)
    turned = n.integer("rotary_embedding_dim") or size
    if not 0 < turned <= size or turned % 2:
        raise ValueError(f"{turned} elements of heads of {size} cannot be turned in pairs")
    if n.has(3):
        exactly(n, 3, (batch, length), "position_ids")
        rows = rank_of(n, 1, 2, 2)[0]
        lead: tuple[int, ...] = (rows,)
    else:
        lead = (batch, length)
    for index, name in ((1, "cos_cache"), (2, "sin_cache")):
        exactly(n, index, (*lead, turned // 2), name)
    return n.input(0).shape, n.input(0).dtype


@lowers("RotaryEmbedding", to="RotaryEmbedding")
def rotary_embedding(c: Lowering, n: OnnxNode) -> Value:
    batch, heads, length, size = _sizes(n)
    x, angles = n.input(0), [n.input(1), n.input(2)]
    if n.has(3):
        rows = angles[0].shape[0]
        places = c.b.plain(indices(c, n.input(3), rows))
        angles = [
            c.b.op("Gather", [c.b.plain(a), places], (batch, length, a.shape[1]), axis=np.int32(0))
            for a in angles
        ]
    if x.rank == 3:
        x = c.b.transpose(c.b.reshape(x, (batch, length, heads, size)), (0, 2, 1, 3))
    y = c.b.op(
        "RotaryEmbedding",
        [c.b.plain(x), *(c.b.plain(a) for a in angles)],
        (batch, heads, length, size),
        interleaved=np.bool_(n.integer("interleaved")),
        rotary_embedding_dim=np.uint32(n.integer("rotary_embedding_dim")),
    )
    if n.input(0).rank == 4:
        return y
    return c.b.reshape(c.b.transpose(y, (0, 2, 1, 3)), n.shape())


@infers("RandomNormalLike", "RandomUniformLike")
def _like(n: OnnxNode) -> Found:
    kind = n.integer("dtype")
    return n.input(0).shape, ELEMENT_TYPES[kind] if kind else n.input(0).dtype


@infers("RandomNormal", "RandomUniform")
def _of_shape(n: OnnxNode) -> Found:
    return tuple(n.integers("shape") or ()), ELEMENT_TYPES[n.integer("dtype", 1)]


@lowers("RandomUniform", "RandomUniformLike", to="RandomUniformLike")
@lowers("RandomNormal", "RandomNormalLike", to="RandomNormalLike")
def random(c: Lowering, n: OnnxNode) -> Value:
    """With the attribute seed the same numbers in each run, other ones without."""
    kind = n.op.removesuffix("Like")
    names = ("low", "high") if kind == "RandomUniform" else ("mean", "scale")
    params: dict[str, object] = {
        name: np.float32(n.number(name, i)) for i, name in enumerate(names)
    }
    shape = n.shape() or (1,)
    inputs = [constant(u32(shape))]
    if "seed" in n.attrs:
        inputs.append(constant(np.array([n.number("seed")], np.float32)))
    y = c.b.op(f"{kind}Like", inputs, shape, np.dtype(np.float32), identity(len(shape)), **params)
    return cast(c, c.b.reshape(y, n.shape()), n.dtype())
