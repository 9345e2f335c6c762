"""Writes a decoder of Hugging Face's transformers as one ONNX file whose cache has a fixed capacity
and is updated in place.

    python -m qnnrt.llm.export Qwen/Qwen2.5-0.5B folder --capacity 2048

The file's operators are ONNX's own (opset 24): TensorScatter writes the new keys and values into
the cache, Attention reads as many of its slots as are filled. Inputs and outputs:

- tokens, int64[batch, sequence]: what comes next in each of so many texts.
- position, int64[batch]: how many tokens of each the cache holds already.
- rows, int64[wanted]: which of the new tokens' logits are wanted.
- past_key_values.N.key and .value, float[batch, heads, capacity, size]: the cache of layer N.
- logits, float[batch, wanted, vocabulary].
- present.N.key and .value: the same cache, with the new tokens in it.

The dimensions `batch`, `sequence` and `wanted` are symbolic: `qnnrt.load(path, shapes=...)` chooses
them.
Needs the packages torch, transformers and onnxscript: ``pip install 'qnnrt[llm-export]'``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .decoder import INPUTS

_OPSET = 24  # the first with TensorScatter and the number of valid keys of an Attention


def _op(
    name: str, dtype: torch.dtype, shape: Sequence[Any], inputs: Sequence[Any], **attributes: Any
) -> torch.Tensor:
    """A node of the exported graph."""
    result: torch.Tensor = torch.onnx.ops.symbolic(
        name, inputs, attributes, dtype=dtype, shape=shape, version=_OPSET
    )
    return result


class _Cache:
    """What a model takes for its cache, as far as any is asked."""

    is_compileable = False

    def __init__(self, capacity: int):
        self.capacity = capacity

    def get_seq_length(self, layer: int = 0) -> int:
        return 0  # positions are given

    def get_mask_sizes(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.capacity, 0


class _SlotCache(_Cache):
    """Tensors with a slot for each position, of each layer in `layers`."""

    def __init__(
        self,
        layers: Sequence[int],
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        at: torch.Tensor,
    ):
        super().__init__(keys[0].shape[2])
        self.keys, self.values, self._layers, self._at = list(keys), list(values), layers, at

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        i = self._layers.index(layer)
        for parts, new in ((self.keys, key), (self.values, value)):
            slots = parts[i]
            inputs = slots, new, self._at
            parts[i] = _op("TensorScatter", slots.dtype, slots.shape, inputs, axis=2)
        return self.keys[i], self.values[i]

    def __len__(self) -> int:
        return len(self.keys)


class _Seen(_Cache):
    """Notes what a model would put into its cache: layer -> shapes of its keys and values. Layers
    may differ, and some read what another one has put there."""

    def __init__(self, capacity: int):
        super().__init__(capacity)
        self.shapes: dict[int, tuple[torch.Size, torch.Size]] = {}

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.shapes[layer] = key.shape, value.shape
        keys, values = (x.new_zeros(*x.shape[:2], self.capacity, x.shape[3]) for x in (key, value))
        return keys, values

    def __len__(self) -> int:
        return len(self.shapes)


@dataclass
class _Traced:
    """A model that is being traced: the positions of its tokens, [batch, sequence], the slots that
    are filled behind them, and how often it has attended."""

    at: torch.Tensor
    filled: torch.Tensor
    attentions: int = 0


_traced: list[_Traced] = []


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    for name in ("s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"an attention with {name} has no counterpart in the export")
    traced = _traced[-1]
    traced.attentions += 1
    attributes: dict[str, Any] = {}
    attributes["scale"] = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    if kwargs.get("softcap") is not None:
        attributes["softcap"] = float(kwargs["softcap"])
    window = kwargs.get("sliding_window")
    if window is not None and window < key.shape[2]:
        slots = torch.arange(key.shape[2])[None, None, None, :]
        mask = mask & (slots > traced.at[:, None, :, None] - window)
    inputs = (query, key, value, mask, None, None, traced.filled)
    shape = (*query.shape[:3], value.shape[3])
    result = _op("Attention", query.dtype, shape, inputs, **attributes)
    return result.transpose(1, 2).contiguous(), None


def _text(model: PreTrainedModel) -> Any:
    """The configuration of the decoder, which may be one part of a model's."""
    return model.config.get_text_config(decoder=True)


class _Step(torch.nn.Module):
    def __init__(self, model: PreTrainedModel, capacity: int):
        super().__init__()
        self.model, self.capacity = model, capacity
        self.layers: list[int] = []  # that have a cache

    def shapes(self) -> list[tuple[torch.Size, torch.Size]]:
        """Of the keys and values that each of `layers` caches, which it finds by running the model.

        Raises ValueError: there are layers that do not ask transformers to attend.
        """
        tokens, position = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        seen = _Seen(self.capacity)
        attentions = self._run(tokens, position, position, seen)[1]
        name, layers = type(self.model).__name__, _text(self.model).num_hidden_layers
        if attentions < max(layers, len(seen)) or not len(seen):
            raise ValueError(
                f"{name} computes attention by code of its own, not by transformers' attention "
                f"interface (in {layers - attentions} of {layers} layers): what it would do with "
                "such a cache is not known"
            )
        self.layers = sorted(seen.shapes)
        return [seen.shapes[layer] for layer in self.layers]

    def forward(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        rows: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        cache = _SlotCache(self.layers, keys, values, position)
        logits, _ = self._run(tokens, position, rows, cache)
        return logits, cache.keys, cache.values

    def _run(
        self, tokens: torch.Tensor, position: torch.Tensor, rows: torch.Tensor, cache: _Cache
    ) -> tuple[torch.Tensor, int]:
        """The logits, and how often transformers was asked to attend."""
        at = position[:, None] + torch.arange(tokens.shape[1])[None, :]
        mask = torch.arange(self.capacity)[None, None, None, :] <= at[:, None, :, None]
        _traced.append(_Traced(at, position + tokens.shape[1]))
        try:
            out = self.model(
                input_ids=tokens,
                position_ids=at,
                past_key_values=cache,
                attention_mask=mask,
                use_cache=True,
                logits_to_keep=rows,
            )
        finally:
            attentions = _traced.pop().attentions
        return out.logits, attentions


def _check(model: PreTrainedModel, capacity: int) -> None:
    config = _text(model)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if others := kinds - {"full_attention", "sliding_attention"}:
        raise ValueError(
            f"{type(model).__name__} has layers of other kinds than attention "
            f"({', '.join(sorted(others))}), which a cache of keys and values does not serve"
        )
    longest = getattr(config, "max_position_embeddings", capacity)
    if not 2 <= capacity <= longest:
        raise ValueError(f"capacity is {capacity}; this model has positions for 2 to {longest}")


def export(model: PreTrainedModel, path: str | Path, *, capacity: int = 2048) -> Path:
    """Writes `model`, a decoder of transformers, to `path` (weights beside it in ``<path>.data``).

    capacity: slots of the cache, the longest text in tokens. The dtype is the model's.
    Errors: ValueError for a model with layers that such a cache does not serve, or a capacity that
    its positions do not.
    """
    _check(model, capacity)
    config = _text(model)
    # Sizes that nothing else in a model has, so that none is taken for a constant.
    batch, sequence, wanted = 5, 7, 3
    ALL_ATTENTION_FUNCTIONS.register("qnnrt_slots", _attention)
    before = config._attn_implementation
    config._attn_implementation = "qnnrt_slots"
    experts = getattr(config, "_experts_implementation", None)
    if experts is not None:  # in one product with the weights of those that are chosen
        model.set_experts_implementation("batched_mm")
    try:
        step = _Step(model, capacity).eval()
        with torch.no_grad():
            shapes = step.shapes()
        layers = len(shapes)
        caches = [
            [torch.zeros(batch, s[1], capacity, s[3], dtype=model.dtype) for s in part]
            for part in zip(*shapes, strict=True)
        ]
        example = (
            torch.zeros(batch, sequence, dtype=torch.int64),
            torch.zeros(batch, dtype=torch.int64),
            torch.zeros(wanted, dtype=torch.int64),
            *caches,
        )
        slots = [{0: "batch"}] * layers
        parts = [f"{n}.{part}" for part in ("key", "value") for n in range(layers)]
        with torch.no_grad():
            program = torch.onnx.export(
                step,
                example,
                dynamo=True,
                opset_version=_OPSET,
                dynamic_shapes=(
                    {0: "batch", 1: "sequence"},
                    {0: "batch"},
                    {0: "wanted"},
                    slots,
                    slots,
                ),
                input_names=[*INPUTS, *(f"past_key_values.{p}" for p in parts)],
                output_names=["logits", *(f"present.{p}" for p in parts)],
                verbose=False,
            )
    finally:
        config._attn_implementation = before
        if experts is not None:
            model.set_experts_implementation(experts)
    assert program is not None
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(path, external_data=True)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m qnnrt.llm.export", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "model", help="a folder with a model of transformers, or its name on the hub"
    )
    parser.add_argument("folder", type=Path, help="gets model.onnx and tokenizer.json")
    parser.add_argument(
        "--capacity", type=int, default=2048, help="slots of the cache (default 2048)"
    )
    args = parser.parse_args(arguments)
    try:
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        export(model, args.folder / "model.onnx", capacity=args.capacity)
    except (OSError, ValueError) as error:  # no such model, or one that cannot be exported
        parser.exit(1, f"{parser.prog}: error: {' '.join(str(error).split())}\n")
    tokenizer.save_pretrained(args.folder)
    ends = model.generation_config.eos_token_id
    settings = {"end": ends if isinstance(ends, list) else [] if ends is None else [ends]}
    (args.folder / "qnnrt.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    main()
