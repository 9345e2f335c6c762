"""Networks on sounds and other series."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .inputs import Built, Floats
from .layers import FeedForward, PostNorm, PreNorm


class WhisperEncoder(nn.Module):
    def __init__(self, mels: int, frames: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(mels, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        half = width // 2
        speeds = torch.exp(-math.log(10000) / (half - 1) * torch.arange(half))
        angles = torch.arange(frames // 2)[:, None] * speeds[None]
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))
        self.layers = nn.Sequential(
            *(PreNorm(width, heads, 4 * width, parts="qvo") for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.second(functional.gelu(self.first(x))))
        return self.norm(self.layers(x.transpose(1, 2) + self.positions))


def whisper(tiny: bool) -> Built:
    """The encoder of its tiny model, half a minute of sound."""
    sizes = (16, 40, 32, 4, 2) if tiny else (80, 3000, 384, 6, 4)
    return WhisperEncoder(*sizes), {"mels": Floats((1, sizes[0], sizes[1]))}


class Wav2Vec2(nn.Module):
    def __init__(
        self, channels: int, width: int, heads: int, depth: int, kernel: int, groups: int
    ) -> None:
        super().__init__()
        steps = [(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]
        convs = [nn.Conv1d(1, channels, *steps[0], bias=False)]
        convs += [nn.Conv1d(channels, channels, *step, bias=False) for step in steps[1:]]
        self.convs = nn.ModuleList(convs)
        self.each = nn.GroupNorm(channels, channels)
        self.norm = nn.LayerNorm(channels)
        self.project = nn.Linear(channels, width)
        self.positions = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        self.first = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(PostNorm(width, heads, 4 * width) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None]
        for i, conv in enumerate(self.convs):
            x = conv(x)
            x = functional.gelu(self.each(x) if i == 0 else x)
        x = self.project(self.norm(x.transpose(1, 2)))
        # An even kernel padded on both sides gives one too many.
        places = functional.gelu(self.positions(x.transpose(1, 2))[:, :, :-1])
        return self.layers(self.first(x + places.transpose(1, 2)))


def wav2vec2(tiny: bool) -> Built:
    """The base model, a second of sound."""
    sizes = (16, 32, 4, 2, 8, 4) if tiny else (512, 768, 12, 12, 128, 16)
    return Wav2Vec2(*sizes), {"sound": Floats((1, 1600 if tiny else 16000))}


class ConformerBlock(nn.Module):
    """Half a feed-forward part, attention, a gated convolution, the other half."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.before = FeedForward(width, 4 * width, nn.SiLU)
        self.attention = PreNorm(width, heads, 4 * width, nn.SiLU).attention
        self.enter = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.leave = nn.Conv1d(width, width, 1)
        self.after = FeedForward(width, 4 * width, nn.SiLU)
        self.last = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.before(self.norms[0](x))
        x = x + self.attention(self.norms[1](x))
        y = functional.glu(self.enter(self.norms[2](x).transpose(1, 2)), dim=1)
        y = self.leave(functional.silu(self.batch_norm(self.depthwise(y))))
        x = x + y.transpose(1, 2)
        return self.last(x + 0.5 * self.after(self.norms[3](x)))


def conformer(tiny: bool) -> Built:
    width, heads, depth, kernel = (16, 2, 2, 7) if tiny else (256, 4, 8, 31)
    blocks = [ConformerBlock(width, heads, kernel) for _ in range(depth)]
    return nn.Sequential(*blocks), {"frames": Floats((1, 12 if tiny else 200, width))}


class Recurrent(nn.Module):
    """A recurrent network of several layers, and a product of each of its results."""

    def __init__(self, kind: type[nn.RNNBase], inputs: int, hidden: int, both: bool) -> None:
        super().__init__()
        self.layers = kind(inputs, hidden, 2, batch_first=True, bidirectional=both)
        self.fc = nn.Linear(hidden * (2 if both else 1), 40)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(x)[0])


def lstm(tiny: bool) -> Built:
    """Two layers, in both directions."""
    inputs, hidden, length = (8, 12, 5) if tiny else (80, 256, 100)
    module = Recurrent(nn.LSTM, inputs, hidden, both=True)
    return module, {"frames": Floats((1, length, inputs))}


def gru(tiny: bool) -> Built:
    """Two layers, in one direction."""
    inputs, hidden, length = (8, 12, 5) if tiny else (80, 256, 100)
    module = Recurrent(nn.GRU, inputs, hidden, both=False)
    return module, {"frames": Floats((1, length, inputs))}


class CausalBlock(nn.Module):
    """Two dilated convolutions that see no later value, and what came in."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.cut = (kernel - 1) * dilation
        self.first = nn.Conv1d(inputs, outputs, kernel, padding=self.cut, dilation=dilation)
        self.second = nn.Conv1d(outputs, outputs, kernel, padding=self.cut, dilation=dilation)
        self.norms = nn.ModuleList(nn.BatchNorm1d(outputs) for _ in range(2))
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)[:, :, : -self.cut]))
        y = functional.relu(self.norms[1](self.second(y)[:, :, : -self.cut]))
        return functional.relu(y + self.skip(x))


def tcn(tiny: bool) -> Built:
    """Dilations 1, 2, 4, ..."""
    inputs, width, depth, length = (4, 8, 3, 30) if tiny else (40, 64, 8, 400)
    blocks = [CausalBlock(width if i else inputs, width, 3, 1 << i) for i in range(depth)]
    module = nn.Sequential(*blocks, nn.Conv1d(width, 10, 1))
    return module, {"frames": Floats((1, inputs, length))}
