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


def _op(name: str, like: torch.Tensor, inputs: Sequence[Any], **attributes: Any) -> torch.Tensor:
    """A node of the exported graph whose output is shaped as `like`."""
    result: torch.Tensor = torch.onnx.ops.symbolic(
        name, inputs, attributes, dtype=like.dtype, shape=like.shape, version=_OPSET
    )
    return result


class _SlotCache:
    """What a model takes for its cache: tensors with a slot for each position."""

    is_compileable = False

    def __init__(self, keys: list[torch.Tensor], values: list[torch.Tensor], at: torch.Tensor):
        self.keys, self.values, self._at = list(keys), list(values), at

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for slots, new in ((self.keys, key), (self.values, value)):
            slots[layer] = _op("TensorScatter", slots[layer], (slots[layer], new, self._at), axis=2)
        return self.keys[layer], self.values[layer]

    def get_seq_length(self, layer: int = 0) -> int:
        return 0  # positions are given

    def get_mask_sizes(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.keys[0].shape[2], 0

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class _Traced:
    """A model that is being traced: the positions of its tokens, [batch, sequence], and the slots
    that are filled behind them."""

    at: torch.Tensor
    filled: torch.Tensor


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
    attributes: dict[str, Any] = {}
    attributes["scale"] = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    if kwargs.get("softcap") is not None:
        attributes["softcap"] = float(kwargs["softcap"])
    window = kwargs.get("sliding_window")
    if window is not None and window < key.shape[2]:
        slots = torch.arange(key.shape[2])[None, None, None, :]
        mask = mask & (slots > traced.at[:, None, :, None] - window)
    inputs = (query, key, value, mask, None, None, traced.filled)
    return _op("Attention", query, inputs, **attributes).transpose(1, 2).contiguous(), None


class _Step(torch.nn.Module):
    def __init__(self, model: PreTrainedModel, capacity: int):
        super().__init__()
        self.model, self.capacity = model, capacity

    def forward(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        rows: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        at = position[:, None] + torch.arange(tokens.shape[1])[None, :]
        mask = torch.arange(self.capacity)[None, None, None, :] <= at[:, None, :, None]
        _traced.append(_Traced(at, position + tokens.shape[1]))
        cache = _SlotCache(keys, values, position)
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
            _traced.pop()
        return out.logits, cache.keys, cache.values


def _check(model: PreTrainedModel, capacity: int) -> None:
    config = model.config
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
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    layers = config.num_hidden_layers
    # Sizes that nothing else in a model has, so that none is taken for a constant.
    batch, sequence, wanted = 5, 7, 3
    shape = (batch, heads, capacity, size)
    ALL_ATTENTION_FUNCTIONS.register("qnnrt_slots", _attention)
    before = config._attn_implementation
    config._attn_implementation = "qnnrt_slots"
    experts = getattr(config, "_experts_implementation", None)
    if experts is not None:  # in one product with the weights of those that are chosen
        model.set_experts_implementation("batched_mm")
    try:
        caches = [[torch.zeros(shape, dtype=model.dtype) for _ in range(layers)] for _ in "kv"]
        example = (
            torch.zeros(batch, sequence, dtype=torch.int64),
            torch.zeros(batch, dtype=torch.int64),
            torch.zeros(wanted, dtype=torch.int64),
            *caches,
        )
        slots = [{0: "batch"}] * layers
        parts = [f"{n}.{part}" for part in ("key", "value") for n in range(layers)]
        step = _Step(model, capacity).eval()
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
    # Modules are no way to count: while tracing, some are objects that come and go.
    served = sum(node.op_type == "Attention" for node in program.model.graph)
    if served != layers:
        raise ValueError(
            f"{type(model).__name__} computes attention by code of its own, not by transformers' "
            f"attention interface (in {layers - served} of {layers} layers): what "
            "it would do with such a cache is not known"
        )
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
