"""Convolutional networks for classification. Their shapes are those of the papers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .inputs import Built, Image, Input
from .layers import Classifier, ConvNorm, LayerScale, SqueezeExcite


def image(tiny: bool, size: int = 224) -> dict[str, Input]:
    return {"image": Image((1, 3, 64, 64) if tiny else (1, 3, size, size))}


def rounded(channels: float) -> int:
    """The multiple of eight nearest to it that takes away at most a tenth."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class Inverted(nn.Module):
    """Pointwise to `hidden` channels, depthwise, squeeze and excite, pointwise to `outputs`."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        size: int,
        stride: int,
        act: type[nn.Module],
        excite: nn.Module | None = None,
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        if hidden != inputs:
            parts.append(ConvNorm(inputs, hidden, act=act))
        parts.append(ConvNorm(hidden, hidden, size, stride, groups=hidden, act=act))
        if excite is not None:
            parts.append(excite)
        parts.append(ConvNorm(hidden, outputs, act=None))
        self.parts = nn.Sequential(*parts)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.parts(x) if self.adds else self.parts(x)


def inverted_stages(
    channels: int,
    stages: list[tuple[int, int, int, int, int]],
    act: type[nn.Module],
    excites: bool,
) -> tuple[list[nn.Module], int]:
    """The blocks of stages (expansion, outputs, blocks, stride, size), and how many come out."""
    blocks: list[nn.Module] = []
    for expansion, outputs, repeats, first_stride, size in stages:
        for i in range(repeats):
            hidden, stride = channels * expansion, first_stride if i == 0 else 1
            excite = SqueezeExcite(hidden, max(1, channels // 4), act=act) if excites else None
            blocks.append(Inverted(channels, hidden, outputs, size, stride, act, excite))
            channels = outputs
    return blocks, channels


def inverted_network(
    stages: list[tuple[int, int, int, int, int]], act: type[nn.Module], tiny: bool, excites: bool
) -> Built:
    """A stem, the stages (three where it is tiny), a last convolution and the classifier."""
    blocks, channels = inverted_stages(32, stages[:3] if tiny else stages, act, excites)
    last = 64 if tiny else 1280
    module = nn.Sequential(
        ConvNorm(3, 32, 3, 2, act=act),
        *blocks,
        ConvNorm(channels, last, act=act),
        Classifier(last, 10 if tiny else 1000),
    )
    return module, image(tiny)


MOBILENET_V2 = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
]


def mobilenet_v2(tiny: bool) -> Built:
    return inverted_network(MOBILENET_V2, nn.ReLU6, tiny, excites=False)


# hidden, outputs, size, stride, squeezes, hard swish
MOBILENET_V3 = [
    (16, 16, 3, 1, False, False),
    (64, 24, 3, 2, False, False),
    (72, 24, 3, 1, False, False),
    (72, 40, 5, 2, True, False),
    (120, 40, 5, 1, True, False),
    (120, 40, 5, 1, True, False),
    (240, 80, 3, 2, False, True),
    (200, 80, 3, 1, False, True),
    (184, 80, 3, 1, False, True),
    (184, 80, 3, 1, False, True),
    (480, 112, 3, 1, True, True),
    (672, 112, 3, 1, True, True),
    (672, 160, 5, 2, True, True),
    (960, 160, 5, 1, True, True),
    (960, 160, 5, 1, True, True),
]


def mobilenet_v3(tiny: bool) -> Built:
    """The large one."""
    rows = MOBILENET_V3[3:8] if tiny else MOBILENET_V3
    channels = 16
    blocks: list[nn.Module] = []
    for hidden, outputs, size, stride, squeezes, swish in rows:
        excite = None
        if squeezes:
            excite = SqueezeExcite(hidden, rounded(hidden / 4), gate=nn.Hardsigmoid)
        act = nn.Hardswish if swish else nn.ReLU
        blocks.append(Inverted(channels, hidden, outputs, size, stride, act, excite))
        channels = outputs
    hidden, last, classes = (96, 64, 10) if tiny else (960, 1280, 1000)
    module = nn.Sequential(
        ConvNorm(3, 16, 3, 2, act=nn.Hardswish),
        *blocks,
        ConvNorm(channels, hidden, act=nn.Hardswish),
        Classifier(hidden, last),
        nn.Hardswish(),
        nn.Linear(last, classes),
    )
    return module, image(tiny)


EFFICIENTNET_B0 = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
]


def efficientnet(tiny: bool) -> Built:
    """B0."""
    return inverted_network(EFFICIENTNET_B0, nn.SiLU, tiny, excites=True)


class Bottleneck(nn.Module):
    """Pointwise, 3x3 in groups, pointwise, and what came in; ReLU behind the sum."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        stride: int,
        groups: int,
        excite: nn.Module | None = None,
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            ConvNorm(inputs, hidden),
            ConvNorm(hidden, hidden, 3, stride, groups),
        ]
        if excite is not None:
            parts.append(excite)
        parts.append(ConvNorm(hidden, outputs, act=None))
        self.parts = nn.Sequential(*parts)
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride, act=None)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.parts(x) + self.skip(x))


def resnext(tiny: bool) -> Built:
    """ResNeXt-50, 32 groups of 4 channels."""
    depths = (1, 1) if tiny else (3, 4, 6, 3)
    groups, channels = (4, 16) if tiny else (32, 64)
    module = nn.Sequential(ConvNorm(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1))
    for stage, depth in enumerate(depths):
        hidden = groups * 4 << stage
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            module.append(Bottleneck(channels, hidden, hidden * 2, stride, groups))
            channels = hidden * 2
    module.append(Classifier(channels, 10 if tiny else 1000))
    return module, image(tiny)


def regnet(tiny: bool) -> Built:
    """RegNetY-400MF: groups of 8 channels, squeeze and excite."""
    stages = [(16, 1), (32, 2)] if tiny else [(48, 1), (104, 3), (208, 6), (440, 6)]
    channels = 32
    module = nn.Sequential(ConvNorm(3, channels, 3, 2))
    for width, depth in stages:
        for i in range(depth):
            excite = SqueezeExcite(width, channels // 4)
            stride = 2 if i == 0 else 1
            module.append(Bottleneck(channels, width, width, stride, width // 8, excite))
            channels = width
    module.append(Classifier(channels, 10 if tiny else 1000))
    return module, image(tiny)


class ChannelNorm(nn.LayerNorm):
    """A normalization of each pixel's channels."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.pointwise = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            LayerScale(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.pointwise(self.depthwise(x).permute(0, 2, 3, 1))
        return x + y.permute(0, 3, 1, 2)


def convnext(tiny: bool) -> Built:
    """The one that its paper calls tiny."""
    widths, depths = ((8, 16), (1, 1)) if tiny else ((96, 192, 384, 768), (3, 3, 9, 3))
    module = nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], eps=1e-6))
    for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if i:
            module.append(ChannelNorm(widths[i - 1], eps=1e-6))
            module.append(nn.Conv2d(widths[i - 1], width, 2, 2))
        module.extend([ConvNextBlock(width) for _ in range(depth)])
    module.extend([nn.AdaptiveAvgPool2d(1), ChannelNorm(widths[-1], eps=1e-6), nn.Flatten()])
    module.append(nn.Linear(widths[-1], 10 if tiny else 1000))
    return module, image(tiny)


class MixerBlock(nn.Module):
    """Products over the patches, then over the channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(
            nn.Linear(patches, width // 2), nn.GELU(), nn.Linear(width // 2, patches)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


class Mixer(nn.Module):
    def __init__(self, size: int, patch: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        count = math.prod((size // patch, size // patch))
        self.blocks = nn.Sequential(*(MixerBlock(count, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(self.patches(x), 2).transpose(1, 2)
        return self.fc(self.norm(self.blocks(x)).mean(dim=1))


def mixer(tiny: bool) -> Built:
    """MLP-Mixer S/16."""
    module = Mixer(64, 16, 32, 2, 10) if tiny else Mixer(224, 16, 512, 8, 1000)
    return module, image(tiny)
