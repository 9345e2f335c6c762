"""HadamardTransform and RotaryEmbedding."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Node

from .registry import flag, integer, number, op


@op("HadamardTransform")
def hadamard_transform(n: Node, x: np.ndarray) -> np.ndarray:
    places = np.arange(x.shape[-1])
    both = places[:, None] & places
    ones = sum((both >> bit) & 1 for bit in range(32))
    return x @ (1.0 - 2.0 * (ones % 2)) * number(n, "scale", 1) / np.sqrt(len(places))


@op("RotaryEmbedding")
def rotary_embedding(n: Node, x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """Complex numbers, turned."""
    turned = integer(n, "rotary_embedding_dim") or x.shape[-1]
    pairs = x[..., :turned].reshape(
        *x.shape[:-1], *((-1, 2) if flag(n, "interleaved") else (2, -1))
    )
    axis = -1 if flag(n, "interleaved") else -2
    first, second = (np.take(pairs, i, axis) for i in (0, 1))
    z = (first + 1j * second) * (cosine + 1j * sine)[:, None]
    done = np.stack([z.real, z.imag], axis).reshape(*x.shape[:-1], turned)
    return np.concatenate([done, x[..., turned:]], -1)
