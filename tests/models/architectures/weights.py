"""Seeded random weights that keep activations near one, so that errors mean something."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .layers import LayerScale, RootMeanSquareNorm

NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, RootMeanSquareNorm, LayerScale)


def fan_in(layer: nn.Module, shape: torch.Size) -> float:
    """How many products an output of `layer` sums."""
    if isinstance(layer, nn.modules.conv._ConvTransposeNd):
        return shape[0] * math.prod(shape[2:]) / math.prod(layer.stride)
    if getattr(layer, "transposed_weight", False):
        return shape[0]
    return math.prod(shape[1:])


def fill(layer: nn.Module, parameter: Tensor, generator: torch.Generator) -> None:
    if parameter.ndim < 2 and isinstance(layer, NORMS) and parameter is layer.weight:
        parameter.uniform_(0.5, 1.5, generator=generator)
    elif parameter.ndim < 2:
        parameter.normal_(0, 0.1, generator=generator)
    else:
        # Twice the variance behind the convolutions: most of them stand before a ReLU.
        gain = 2 if isinstance(layer, nn.modules.conv._ConvNd) else 1
        std = math.sqrt(gain / fan_in(layer, parameter.shape))
        parameter.normal_(0, std, generator=generator)


def look(norm: nn.Module, values: tuple[Tensor]) -> None:
    """Gives a batch normalization statistics of what it is about to read.

    Random layers make all places of an image look alike, so a channel has a large mean and hardly
    any variance of its own: normalized with those, each layer would make rounding errors several
    times as large. Trained networks do not. So only a quarter of the mean goes, and the variance is
    that of all channels, around these quarters.
    """
    assert isinstance(norm, _BatchNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    x = values[0].transpose(0, 1).flatten(1)
    norm.running_mean.copy_(x.mean(1) / 4)
    norm.running_var.fill_(float((x - norm.running_mean[:, None]).square().mean()))


def set_weights(module: nn.Module, examples: list[Tensor], seed: int) -> None:
    """Fills every parameter; batch normalizations get statistics of a run on `examples`."""
    generator = torch.Generator().manual_seed(seed)
    module.eval().requires_grad_(False)
    for layer in module.modules():
        for parameter in layer.parameters(recurse=False):
            fill(layer, parameter, generator)
    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    hooks = [norm.register_forward_pre_hook(look) for norm in norms]
    if norms:
        with torch.inference_mode():
            module(*examples)
    for hook in hooks:
        hook.remove()
