"""Transformers on images, and on images beside texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .classifiers import image
from .inputs import Built, Ids, Image
from .layers import FeedForward, PreNorm


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, layers; `classes` products of the token at the end."""

    def __init__(
        self,
        size: int,
        patch: int,
        width: int,
        heads: int,
        depth: int,
        classes: int,
        first_norm: bool = False,
        **layer: object,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch, bias=not first_norm)
        self.token = nn.Parameter(torch.empty(1, width))
        self.positions = nn.Parameter(torch.empty((size // patch) ** 2 + 1, width))
        self.first = nn.LayerNorm(width) if first_norm else nn.Identity()
        self.layers = nn.Sequential(
            *(PreNorm(width, heads, 4 * width, **layer) for _ in range(depth))  # type: ignore[arg-type]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes, bias=not first_norm)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(self.patches(x), 2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], 1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.layers(self.first(x)))[:, 0])


def vit(tiny: bool) -> Built:
    """ViT-S/16."""
    sizes = (64, 16, 32, 4, 2, 10) if tiny else (224, 16, 384, 6, 12, 1000)
    return VisionTransformer(*sizes, joined=True), image(tiny)


class Window(nn.Module):
    """Attention within windows of pixels, every other time shifted by half a window."""

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.size, self.window, self.shift = heads, size, window, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        at = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + window - 1
        self.register_buffer("apart", (apart[0] * (2 * window - 1) + apart[1]).flatten())
        self.bias = nn.Parameter(torch.empty((2 * window - 1) ** 2, heads))
        if shift:
            # Pixels that the shift brought together from two ends do not see each other.
            part = torch.zeros(size)
            part[size - window : size - shift] = 1
            part[size - shift :] = 2
            parts = self.windows((part[:, None] * 3 + part[None, :])[None, :, :, None])
            seen = parts == parts.transpose(1, 2)
            mask = torch.zeros(seen.shape).masked_fill(~seen, -100.0)
            self.register_buffer("mask", mask[:, None])

    def windows(self, x: Tensor) -> Tensor:
        count, window, width = self.size // self.window, self.window, x.shape[-1]
        x = x.view(-1, count, window, count, window, width).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, window * window, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, width = x.shape[0], x.shape[-1]
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = self.windows(x)
        count, pixels, _ = x.shape
        joined = self.qkv(x).reshape(count, pixels, 3, self.heads, width // self.heads)
        q, k, v = joined.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias[self.apart].view(pixels, pixels, self.heads).permute(2, 0, 1)
        scores = scores + bias[None]
        if self.shift:
            scores = scores + self.mask
        x = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(count, pixels, width)
        x = self.out(x)
        side = self.size // self.window
        x = x.view(batch, side, side, self.window, self.window, width).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, self.size, self.size, width)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class WindowLayer(nn.Module):
    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Window(width, heads, size, window, shift)
        self.feed = FeedForward(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class Merge(nn.Module):
    """Four neighbouring pixels become one, of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(torch.cat(corners, dim=-1)))


class Swin(nn.Module):
    def __init__(
        self, size: int, window: int, width: int, stages: list[tuple[int, int]], classes: int
    ) -> None:
        super().__init__()
        size //= 4
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.LayerNorm(width)
        self.layers = nn.Sequential()
        for stage, (depth, heads) in enumerate(stages):
            if stage:
                self.layers.append(Merge(width))
                width, size = 2 * width, size // 2
            for i in range(depth):
                shift = window // 2 if i % 2 and size > window else 0
                self.layers.append(WindowLayer(width, heads, size, window, shift))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.first(self.patches(x).permute(0, 2, 3, 1)))
        return self.head(self.norm(x).mean(dim=(1, 2)))


def swin(tiny: bool) -> Built:
    """The one that its paper calls tiny."""
    stages = [(2, 2), (2, 4)] if tiny else [(2, 3), (2, 6), (6, 12), (2, 24)]
    module = Swin(64, 4, 16, stages, 10) if tiny else Swin(224, 7, 96, stages, 1000)
    return module, image(tiny)


class QuickGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class TextTower(nn.Module):
    """Causal layers; the word with the highest index, which ends a text, speaks for it."""

    def __init__(
        self, words: int, length: int, width: int, heads: int, depth: int, outputs: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.empty(length, width))
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1))
        self.layers = nn.ModuleList(
            PreNorm(width, heads, 4 * width, act=QuickGelu) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, outputs, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.positions
        for layer in self.layers:
            x = layer(x, self.mask)
        x = self.norm(x)
        return self.project(x[torch.arange(x.shape[0]), ids.argmax(dim=-1)])


class TwoTowers(nn.Module):
    """CLIP: vectors of length one for an image and for a text."""

    def __init__(self, image: nn.Module, text: nn.Module) -> None:
        super().__init__()
        self.image, self.text = image, text

    def forward(self, image: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self.image(image), self.text(ids)
        return x / x.norm(dim=-1, keepdim=True), y / y.norm(dim=-1, keepdim=True)


def clip(tiny: bool) -> Built:
    """With ViT-B/32."""
    words, length = (50, 7) if tiny else (49408, 77)
    sizes = (64, 32, 32, 4, 2, 16) if tiny else (224, 32, 768, 12, 12, 512)
    tower = VisionTransformer(*sizes, first_norm=True, act=QuickGelu)
    text = TextTower(words, length, *((32, 4, 2, 16) if tiny else (512, 8, 12, 512)))
    return TwoTowers(tower, text), {
        "image": Image((1, 3, sizes[0], sizes[0])),
        "ids": Ids((1, length), words),
    }
