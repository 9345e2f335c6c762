"""What networks are fed with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn


@dataclass(frozen=True)
class Floats:
    """Normal values; or, with `below`, values from 0 up to it."""

    shape: tuple[int, ...]
    below: float | None = None

    def draw(self, random: np.random.Generator) -> np.ndarray:
        if self.below is None:
            return random.standard_normal(self.shape, np.float32)
        return (random.random(self.shape) * self.below).astype(np.float32)


@dataclass(frozen=True)
class Image:
    """Squares of random brightness, with some noise: neighbouring pixels are alike."""

    shape: tuple[int, ...]

    def draw(self, random: np.random.Generator) -> np.ndarray:
        *first, height, width = self.shape
        side = max(1, height // 14)
        coarse = random.standard_normal((*first, -(-height // side), -(-width // side)))
        fine = coarse.repeat(side, axis=-2).repeat(side, axis=-1)[..., :height, :width]
        return (fine + 0.25 * random.standard_normal(self.shape)).astype(np.float32)


@dataclass(frozen=True)
class Ids:
    """Indices below `below`."""

    shape: tuple[int, ...]
    below: int

    def draw(self, random: np.random.Generator) -> np.ndarray:
        return random.integers(0, self.below, self.shape, np.int64)


@dataclass(frozen=True)
class Mask:
    """Ones, then zeros for the last `hidden` of each row."""

    shape: tuple[int, ...]
    hidden: int

    def draw(self, random: np.random.Generator) -> np.ndarray:
        ones = np.ones(self.shape, np.int64)
        ones[..., self.shape[-1] - self.hidden :] = 0
        return ones


Input = Floats | Image | Ids | Mask
Built = tuple[nn.Module, dict[str, Input]]


def drawn(inputs: dict[str, Input], seed: int) -> dict[str, np.ndarray]:
    """Seeded values for them."""
    random = np.random.default_rng(seed)
    return {name: given.draw(random) for name, given in inputs.items()}
