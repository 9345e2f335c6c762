"""Random numbers of Philox4x32-10, seeded."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Node

from .registry import number, op

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Four words for each counter of four words, as uint64."""
    c, low = counter.astype(np.uint64), np.uint64(0xFFFFFFFF)
    k = [np.uint64(v) for v in key]
    for _ in range(10):
        a, b = c[..., 0] * np.uint64(_MULTIPLIERS[0]), c[..., 2] * np.uint64(_MULTIPLIERS[1])
        c = np.stack(
            [(b >> np.uint64(32)) ^ c[..., 1] ^ k[0], b & low,
             (a >> np.uint64(32)) ^ c[..., 3] ^ k[1], a & low], -1,
        )  # fmt: skip
        k = [(v + np.uint64(w)) & low for v, w in zip(k, _WEYL, strict=True)]
    return c


def shares(count: int, key: tuple[int, int], run: int = 0) -> np.ndarray:
    """The upper 24 bits of a word for each number, in [0, 1)."""
    blocks = np.arange(-(-count // 4))
    counter = np.zeros((len(blocks), 4), np.uint64)
    counter[:, 0], counter[:, 2] = blocks, run
    return (philox(counter, key).reshape(-1) >> np.uint64(8)) / 2.0**24


def _key(seed: np.ndarray) -> tuple[int, int]:
    return int(seed.astype(np.float32).view(np.uint32)[0]), 0


@op("RandomUniformLike")
def random_uniform(n: Node, shape: np.ndarray, seed: np.ndarray) -> np.ndarray:
    low, high = number(n, "low", 0), number(n, "high", 1)
    size = int(np.prod(shape))
    return (low + shares(size, _key(seed))[:size] * (high - low)).reshape(shape)


@op("RandomNormalLike")
def random_normal(n: Node, shape: np.ndarray, seed: np.ndarray) -> np.ndarray:
    size = int(np.prod(shape))
    share, turn = np.moveaxis(shares(size, _key(seed)).reshape(-1, 2), 1, 0)
    z = np.sqrt(-2 * np.log(share + 2.0**-24)) * np.exp(2j * np.pi * turn)
    pairs = np.stack([z.real, z.imag], -1).reshape(-1)[:size]
    return (number(n, "mean", 0) + number(n, "scale", 1) * pairs).reshape(shape)
