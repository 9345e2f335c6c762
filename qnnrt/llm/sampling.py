"""How the next token is chosen from logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sampling:
    """temperature: 0 takes the likeliest token. top_k: of the k likeliest alone, 0: of all. top_p:
    of the fewest likeliest whose probabilities come to p. seed: of the random numbers, None: others
    each time.

    Errors: ValueError for values out of their ranges.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature is {self.temperature}, not 0 or more")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}, not 0 (all) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, not above 0 and at most 1")

    def probabilities(self, logits: NDArray[np.floating]) -> NDArray[np.float64]:
        """float64[vocabulary], of what may be drawn; one is 1 with temperature 0."""
        logits = logits.astype(np.float64)
        if self.temperature == 0:
            only = np.zeros_like(logits)
            only[logits.argmax()] = 1
            return only
        logits = (logits - logits.max()) / self.temperature
        if 0 < self.top_k < len(logits):
            least = np.partition(logits, -self.top_k)[-self.top_k]
            logits = np.where(logits >= least, logits, -np.inf)
        p: NDArray[np.float64] = np.exp(logits)
        p /= p.sum()
        if self.top_p < 1:
            order = np.argsort(-p, kind="stable")
            before = np.cumsum(p[order]) - p[order]
            p[order[before >= self.top_p]] = 0
            p /= p.sum()
        return p


class Sampler:
    """Draws with `sampling`; one number for a token, so that equal logits give equal tokens."""

    def __init__(self, sampling: Sampling):
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)

    def __call__(self, logits: NDArray[np.floating]) -> int:
        if self.sampling.temperature == 0:
            return int(logits.argmax())
        p = self.sampling.probabilities(logits)
        at = np.searchsorted(np.cumsum(p), self._random.random(), side="right")
        return int(min(at, np.flatnonzero(p)[-1]))
