"""Networks whose results are maps: segmentation, boxes, larger images."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from .classifiers import MOBILENET_V2, image, inverted_stages
from .inputs import Built, Image
from .layers import ConvNorm


def double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(ConvNorm(inputs, outputs, 3), ConvNorm(outputs, outputs, 3))


class UNet(nn.Module):
    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.first = double(3, width)
        self.pool = nn.MaxPool2d(2)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(double(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(double(b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(self.pool(levels[-1])))
        x = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([levels.pop(), up(x)], dim=1))
        return self.last(x)


def unet(tiny: bool) -> Built:
    module = UNet(8, 2, 2) if tiny else UNet(32, 4, 2)
    return module, image(tiny, 256)


class Pyramid(nn.Module):
    """DeepLab's: convolutions of several dilations and the mean of the image, side by side."""

    def __init__(self, inputs: int, outputs: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.branches = nn.ModuleList([ConvNorm(inputs, outputs)])
        self.branches.extend(ConvNorm(inputs, outputs, 3, dilation=d) for d in dilations)
        self.pooled = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(inputs, outputs, 1), nn.ReLU()
        )
        self.project = ConvNorm(outputs * (len(dilations) + 2), outputs)

    def forward(self, x: Tensor) -> Tensor:
        found = [branch(x) for branch in self.branches]
        size = x.shape[-2:]
        found.append(
            functional.interpolate(self.pooled(x), size, mode="bilinear", align_corners=False)
        )
        return self.project(torch.cat(found, dim=1))


class DeepLab(nn.Module):
    """Version 3+: MobileNet v2, its last stages dilated, and a decoder that sees early features."""

    def __init__(self, stages: int, width: int, classes: int) -> None:
        super().__init__()
        blocks, early = inverted_stages(32, MOBILENET_V2[:2], nn.ReLU6, excites=False)
        self.early = nn.Sequential(ConvNorm(3, 32, 3, 2, act=nn.ReLU6), *blocks)
        # The stages from the fifth on keep the size.
        later = [(e, c, n, s if i < 4 else 1, k) for i, (e, c, n, s, k) in enumerate(MOBILENET_V2)]
        blocks, channels = inverted_stages(early, later[2:stages], nn.ReLU6, excites=False)
        self.late = nn.Sequential(*blocks)
        self.pyramid = Pyramid(channels, width, (6, 12, 18))
        self.reduce = ConvNorm(early, 48)
        self.decode = nn.Sequential(ConvNorm(width + 48, width, 3), nn.Conv2d(width, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        early = self.early(x)
        found = self.pyramid(self.late(early))
        found = functional.interpolate(found, early.shape[-2:], mode="bilinear")
        found = self.decode(torch.cat([found, self.reduce(early)], dim=1))
        return functional.interpolate(found, x.shape[-2:], mode="bilinear")


def deeplab(tiny: bool) -> Built:
    return (DeepLab(3, 16, 5) if tiny else DeepLab(7, 256, 21)), image(tiny, 256)


def conv(inputs: int, outputs: int, size: int = 1, stride: int = 1) -> ConvNorm:
    return ConvNorm(inputs, outputs, size, stride, act=nn.SiLU)


class Residual(nn.Module):
    def __init__(self, width: int, adds: bool) -> None:
        super().__init__()
        self.parts = nn.Sequential(conv(width, width, 3), conv(width, width, 3))
        self.adds = adds

    def forward(self, x: Tensor) -> Tensor:
        return x + self.parts(x) if self.adds else self.parts(x)


class CrossStage(nn.Module):
    """Half of the channels goes through blocks, each of which is also part of the result."""

    def __init__(self, inputs: int, outputs: int, depth: int, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first = conv(inputs, outputs)
        self.blocks = nn.ModuleList(Residual(half, adds) for _ in range(depth))
        self.last = conv(half * (depth + 2), outputs)

    def forward(self, x: Tensor) -> Tensor:
        found = list(self.first(x).chunk(2, dim=1))
        for block in self.blocks:
            found.append(block(found[-1]))
        return self.last(torch.cat(found, dim=1))


class PoolPyramid(nn.Module):
    """The same maximum pooling three times over, and all four results."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = conv(inputs, inputs // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.last = conv(inputs // 2 * 4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.first(x)]
        for _ in range(3):
            found.append(self.pool(found[-1]))
        return self.last(torch.cat(found, dim=1))


BINS = 16  # of a distance's distribution


class Detector(nn.Module):
    """A detector in the style of YOLO's eighth version: boxes and class scores, decoded."""

    def __init__(self, width: int, depth: int, classes: int, size: int) -> None:
        super().__init__()
        a, b, c, d, e = (width << i for i in range(5))
        self.stem = nn.Sequential(conv(3, a, 3, 2), conv(a, b, 3, 2), CrossStage(b, b, depth, True))
        self.third = nn.Sequential(conv(b, c, 3, 2), CrossStage(c, c, 2 * depth, True))
        self.fourth = nn.Sequential(conv(c, d, 3, 2), CrossStage(d, d, 2 * depth, True))
        self.fifth = nn.Sequential(
            conv(d, e, 3, 2), CrossStage(e, e, depth, True), PoolPyramid(e, e)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.join_up = nn.ModuleList(
            [CrossStage(e + d, d, depth, False), CrossStage(d + c, c, depth, False)]
        )
        self.down = nn.ModuleList([conv(c, c, 3, 2), conv(d, d, 3, 2)])
        self.join_down = nn.ModuleList(
            [CrossStage(c + d, d, depth, False), CrossStage(d + e, e, depth, False)]
        )
        boxes, scores = max(16, c // 4, 4 * BINS), max(c, min(classes, 100))
        self.boxes = nn.ModuleList(
            nn.Sequential(conv(x, boxes, 3), conv(boxes, boxes, 3), nn.Conv2d(boxes, 4 * BINS, 1))
            for x in (c, d, e)
        )
        self.scores = nn.ModuleList(
            nn.Sequential(
                conv(x, scores, 3), conv(scores, scores, 3), nn.Conv2d(scores, classes, 1)
            )
            for x in (c, d, e)
        )
        self.classes = classes
        centers, strides = [], []
        for stride in (8, 16, 32):
            at = torch.arange(size // stride) + 0.5
            y, x = torch.meshgrid(at, at, indexing="ij")
            centers.append(torch.stack([x, y]).flatten(1))
            strides.append(torch.full((1, (size // stride) ** 2), float(stride)))
        self.register_buffer("centers", torch.cat(centers, dim=1)[None])
        self.register_buffer("strides", torch.cat(strides, dim=1))
        self.register_buffer("bins", torch.arange(BINS, dtype=torch.float32)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        third = self.third(self.stem(x))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        fourth = self.join_up[0](torch.cat([self.up(fifth), fourth], dim=1))
        third = self.join_up[1](torch.cat([self.up(fourth), third], dim=1))
        fourth = self.join_down[0](torch.cat([self.down[0](third), fourth], dim=1))
        fifth = self.join_down[1](torch.cat([self.down[1](fourth), fifth], dim=1))
        maps = []
        for level, boxes, scores in zip(
            (third, fourth, fifth), self.boxes, self.scores, strict=True
        ):
            maps.append(torch.cat([boxes(level), scores(level)], dim=1).flatten(2))
        found, scores = torch.cat(maps, dim=2).split((4 * BINS, self.classes), dim=1)
        # A distance is the mean of its distribution over the bins.
        found = found.reshape(-1, 4, BINS, found.shape[-1]).transpose(1, 2).softmax(1)
        lower, upper = (found * self.bins).sum(1).chunk(2, dim=1)
        low, high = self.centers - lower, self.centers + upper
        boxes = torch.cat([(low + high) / 2, high - low], dim=1) * self.strides
        return torch.cat([boxes, scores.sigmoid()], dim=1)


def yolo(tiny: bool) -> Built:
    module = Detector(8, 1, 4, 64) if tiny else Detector(16, 1, 80, 640)
    return module, image(tiny, 640)


def espcn(tiny: bool) -> Built:
    """An image three times as large, from its brightness."""
    module = nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )
    return module, {"image": Image((1, 1, 24, 24) if tiny else (1, 1, 224, 224))}
