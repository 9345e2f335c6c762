"""The network of a latent diffusion model: noise in an image, given a time and a text."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .inputs import Built, Floats
from .layers import Attention

GROUPS = 32


class Step(nn.Module):
    """Two convolutions, each behind a normalization in groups and SiLU; the time added between."""

    def __init__(self, inputs: int, outputs: int, time: int, groups: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(groups, inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.second_norm = nn.GroupNorm(groups, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(functional.silu(self.first_norm(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        y = self.second(functional.silu(self.second_norm(y)))
        return self.skip(x) + y


class GatedFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.first(x).chunk(2, dim=-1)
        return self.second(value * functional.gelu(gate))


class Transformer(nn.Module):
    """Pixels look at each other, then at the text."""

    def __init__(self, width: int, heads: int, text: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.pixels = Attention(width, heads, parts="o")
        self.text = Attention(width, heads, memory=text, parts="o")
        self.feed = GatedFeedForward(width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        batch, width, height, columns = x.shape
        y = self.enter(self.norm(x)).permute(0, 2, 3, 1).reshape(batch, height * columns, width)
        y = y + self.pixels(self.norms[0](y))
        y = y + self.text(self.norms[1](y), text)
        y = y + self.feed(self.norms[2](y))
        y = y.reshape(batch, height, columns, width).permute(0, 3, 1, 2)
        return x + self.leave(y)


class Level(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, time: int, heads: int, text: int, groups: int
    ) -> None:
        super().__init__()
        self.step = Step(inputs, outputs, time, groups)
        self.look = Transformer(outputs, heads, text, groups) if heads else None

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        x = self.step(x, time)
        return x if self.look is None else self.look(x, text)


class DiffusionUNet(nn.Module):
    """`widths` for each level, two steps in it; attention at all levels but the last."""

    def __init__(self, widths: tuple[int, ...], depth: int, heads: int, text: int) -> None:
        super().__init__()
        time = 4 * widths[0]
        groups = min(GROUPS, widths[0] // 2)
        self.frequencies: Tensor
        half = widths[0] // 2
        steps = torch.arange(half, dtype=torch.float32) / half
        self.register_buffer("frequencies", torch.exp(-math.log(10000) * steps))
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        kept = [widths[0]]
        channels = widths[0]
        last = len(widths) - 1

        def level(inputs: int, outputs: int, i: int) -> Level:
            return Level(inputs, outputs, time, heads if i < last else 0, text, groups)

        for i, width in enumerate(widths):
            for _ in range(depth):
                self.down.append(level(channels, width, i))
                channels = width
                kept.append(width)
            if i < last:
                self.shrink.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
        self.middle = nn.ModuleList([level(channels, channels, 0), level(channels, channels, last)])
        for i, width in reversed(list(enumerate(widths))):
            for _ in range(depth + 1):
                self.up.append(level(channels + kept.pop(), width, i))
                channels = width
            if i:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1))
        self.depth = depth
        self.norm = nn.GroupNorm(groups, channels)
        self.leave = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        angles = time[:, None] * self.frequencies[None]
        embedded = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
        x = self.enter(x)
        kept = [x]
        for i, level in enumerate(self.down):
            x = level(x, embedded, text)
            kept.append(x)
            if (i + 1) % self.depth == 0 and i // self.depth < len(self.shrink):
                x = self.shrink[i // self.depth](x)
                kept.append(x)
        for level in self.middle:
            x = level(x, embedded, text)
        for i, level in enumerate(self.up):
            x = level(torch.cat([x, kept.pop()], dim=1), embedded, text)
            if (i + 1) % (self.depth + 1) == 0 and i // (self.depth + 1) < len(self.grow):
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
                x = self.grow[i // (self.depth + 1)](x)
        return self.leave(functional.silu(self.norm(x)))


def diffusion_unet(tiny: bool) -> Built:
    size, words, text = (8, 6, 16) if tiny else (32, 77, 384)
    module = (
        DiffusionUNet((8, 16), 1, 2, text) if tiny else DiffusionUNet((96, 192, 384), 2, 6, text)
    )
    return module, {
        "sample": Floats((1, 4, size, size)),
        "timestep": Floats((1,), below=1000),
        "text": Floats((1, words, text)),
    }
