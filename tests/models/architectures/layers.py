"""Layers that several of the networks share, as plain modules."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module] | None


class ConvNorm(nn.Sequential):
    """A convolution without bias that keeps the size, batch normalization, an activation."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int = 1,
        stride: int = 1,
        groups: int = 1,
        dilation: int = 1,
        act: Activation = nn.ReLU,
    ) -> None:
        pad = (size - 1) // 2 * dilation
        conv = nn.Conv2d(inputs, outputs, size, stride, pad, dilation, groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class SqueezeExcite(nn.Module):
    """Scales channels by what two products make of their means."""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        act: Callable[[], nn.Module] = nn.ReLU,
        gate: Callable[[], nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.act = act()
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.gate = gate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.expand(self.act(self.reduce(self.pool(x)))))


class Classifier(nn.Module):
    """The mean of each channel, then a product."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.pool(x), 1))


class Attention(nn.Module):
    """Attention with several heads, to `x` itself or to a memory of width `memory`.

    `joined`: queries, keys and values come out of one product. `explicit`: scores, softmax and the
    second product are written out; else they are torch's own function. `parts` says which of the
    products (query, key, value, output) have a bias.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        joined: bool = False,
        explicit: bool = False,
        causal: bool = False,
        memory: int | None = None,
        parts: str = "qkvo",
    ) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.joined, self.explicit, self.causal = joined, explicit, causal
        memory = memory or width
        if joined:
            self.qkv = nn.Linear(width, 3 * width, bias="q" in parts)
        else:
            self.q = nn.Linear(width, width, bias="q" in parts)
            self.k = nn.Linear(memory, width, bias="k" in parts)
            self.v = nn.Linear(memory, width, bias="v" in parts)
        self.out = nn.Linear(width, width, bias="o" in parts)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        batch, length, width = x.shape
        if self.joined:
            joined = self.qkv(x).reshape(batch, length, 3, self.heads, self.size)
            q, k, v = joined.permute(2, 0, 3, 1, 4).unbind(0)
        else:
            memory = x if memory is None else memory
            q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        if not self.explicit:
            y = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / self.size**0.5
            if mask is not None:
                scores = scores + mask
            y = torch.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Sequential):
    def __init__(self, width: int, hidden: int, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__(nn.Linear(width, hidden), act(), nn.Linear(hidden, width))


class PreNorm(nn.Module):
    """A transformer's layer that normalizes what each of its two parts reads."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        act: Callable[[], nn.Module] = nn.GELU,
        **attention: object,
    ) -> None:
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.attention = Attention(width, heads, **attention)  # type: ignore[arg-type]
        self.second = nn.LayerNorm(width)
        self.feed = FeedForward(width, hidden, act)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.first(x), mask=mask)
        return x + self.feed(self.second(x))


class PostNorm(nn.Module):
    """A transformer's layer that normalizes the sums of its two parts with what they read."""

    def __init__(
        self, width: int, heads: int, hidden: int, eps: float = 1e-5, **attention: object
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, **attention)  # type: ignore[arg-type]
        self.first = nn.LayerNorm(width, eps)
        self.feed = FeedForward(width, hidden)
        self.second = nn.LayerNorm(width, eps)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.first(x + self.attention(x, mask=mask))
        return self.second(x + self.feed(x))


class RootMeanSquareNorm(nn.Module):
    """Llama's and T5's normalization, written out as their own code does."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class LayerScale(nn.Module):
    """A factor for each channel, the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight
