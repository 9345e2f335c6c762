"""Networks of the kinds that people run, with seeded random weights, in plain PyTorch.

`NETWORKS` is the table: from a name to what builds the network. `made` gives one that is ready to
run. Shapes are those of the published networks; for tests there are tiny ones with their structure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from . import classifiers, diffusion, pixels, sounds, texts, vision_transformers
from .inputs import Built, Input, drawn
from .weights import set_weights


@dataclass(frozen=True)
class Entry:
    build: Callable[[bool], Built]  # of a tiny one?
    tags: frozenset[str]


def entry(build: Callable[[bool], Built], *tags: str) -> Entry:
    return Entry(build, frozenset(tags))


NETWORKS: dict[str, Entry] = {
    "mobilenet_v2": entry(classifiers.mobilenet_v2, "image", "convolution"),
    "mobilenet_v3": entry(classifiers.mobilenet_v3, "image", "convolution"),
    "efficientnet_b0": entry(classifiers.efficientnet, "image", "convolution"),
    "resnext50": entry(classifiers.resnext, "image", "convolution"),
    "regnet_y_400mf": entry(classifiers.regnet, "image", "convolution"),
    "convnext_tiny": entry(classifiers.convnext, "image", "convolution"),
    "mixer_s16": entry(classifiers.mixer, "image"),
    "vit_s16": entry(vision_transformers.vit, "image", "attention"),
    "swin_tiny": entry(vision_transformers.swin, "image", "attention"),
    "clip_b32": entry(vision_transformers.clip, "image", "text", "attention"),
    "unet": entry(pixels.unet, "image", "convolution"),
    "deeplab_v3": entry(pixels.deeplab, "image", "convolution"),
    "yolo_n": entry(pixels.yolo, "image", "convolution"),
    "espcn": entry(pixels.espcn, "image", "convolution"),
    "diffusion_unet": entry(diffusion.diffusion_unet, "image", "convolution", "attention"),
    "bert_base": entry(texts.bert, "text", "attention"),
    "gpt2_small": entry(texts.gpt2, "text", "attention"),
    "llama_6": entry(texts.llama, "text", "attention"),
    "t5_small": entry(texts.t5, "text", "attention"),
    "whisper_tiny": entry(sounds.whisper, "sound", "attention"),
    "wav2vec2_base": entry(sounds.wav2vec2, "sound", "attention"),
    "conformer_s": entry(sounds.conformer, "sound", "attention"),
    "lstm": entry(sounds.lstm, "series", "recurrent"),
    "gru": entry(sounds.gru, "series", "recurrent"),
    "tcn": entry(sounds.tcn, "series", "convolution"),
}


@dataclass(frozen=True)
class Network:
    """A module in float32 with its weights, and what it is fed with."""

    name: str
    module: nn.Module
    inputs: dict[str, Input]

    def feeds(self, seed: int) -> dict[str, np.ndarray]:
        return drawn(self.inputs, seed)

    def exact(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Its outputs computed in float64."""
        tensors = [torch.from_numpy(feeds[name]) for name in self.inputs]
        tensors = [t.double() if t.is_floating_point() else t for t in tensors]
        self.module.double()
        try:
            with torch.inference_mode():
                found = self.module(*tensors)
        finally:
            self.module.float()  # exactly what it was
        return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


def made(name: str, tiny: bool = False, seed: int = 1) -> Network:
    torch.manual_seed(seed)
    module, inputs = NETWORKS[name].build(tiny)
    examples = [torch.from_numpy(a) for a in drawn(inputs, seed + 100).values()]
    set_weights(module, examples, seed)
    return Network(name, module, inputs)
