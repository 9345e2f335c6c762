"""A Llama with weights beyond the last cache, in any width, from an export that has one layer's."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: As the layers of Llama 3.2 1B.
SIZES = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 49152,
}
BLOCK = 32


def layers_beyond(cache: int, bits: int) -> int:
    """So many that the weights have a third more bytes than the cache."""
    hidden, between = SIZES["hidden_size"], SIZES["intermediate_size"]
    heads = 1 + SIZES["num_key_value_heads"] / SIZES["num_attention_heads"]
    layer = 2 * hidden * hidden * heads + 3 * hidden * between
    each = (bits if bits >= 16 else bits + 32 / BLOCK) / 8  # bytes of a weight, with its scale's
    return max(2, math.ceil((cache * 4 / 3 / each - hidden * SIZES["vocab_size"]) / layer))


def tied(sizes: dict[str, int], layers: int) -> Any:
    """All layers have the first one's weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        **sizes | {"num_hidden_layers": 1}, eos_token_id=None, tie_word_embeddings=False
    )
    model = LlamaForCausalLM(config).eval()
    first = model.model.layers[0]
    for i in range(1, layers):
        layer, attention = copy.copy(first), copy.copy(first.self_attn)
        attention.layer_idx = i
        layer._modules = first._modules | {"self_attn": attention}
        model.model.layers.append(layer)
    model.config.num_hidden_layers = layers
    return model


def untie(source: Path, target: Path, bits: int) -> None:
    """Every product has random weights of its own, of 32 bits, or of 8 or 4 in blocks."""
    model = onnx.load(source)
    rng = np.random.default_rng(0)
    producers = {name: node for node in model.graph.node for name in node.output}
    tensors = {t.name: t for t in model.graph.initializer}

    def matrix(name: str) -> list[int]:
        """The shape of a constant, maybe transposed; empty if it is none."""
        node = producers.get(name)
        if node is not None and node.op_type == "Transpose" and node.input[0] in tensors:
            return [*tensors[node.input[0]].dims][::-1]
        return [*tensors[name].dims] if name in tensors else []

    nodes = []
    for node in model.graph.node:
        shape = matrix(node.input[1]) if node.op_type == "MatMul" else []
        if len(shape) == 2:
            depth, columns = shape
            if bits == 32:
                arrays = [rng.standard_normal(shape, np.float32) * np.float32(0.02)]
            else:
                blocks, middle = depth // BLOCK, 1 << (bits - 1)
                each = (columns, (blocks * bits + 7) // 8, 8 // bits)
                zeros = rng.integers(middle - 2, middle + 2, each, np.uint8)
                arrays = [
                    rng.integers(0, 256, (columns, blocks, BLOCK * bits // 8), np.uint8),
                    rng.uniform(0.02, 0.04, columns * blocks).astype(np.float32) / middle,
                    zeros[..., 0] | zeros[..., -1] << 4 if bits == 4 else zeros[..., 0],
                ]
            names = [f"{node.output[0]}.weights{i}" for i in range(len(arrays))]
            model.graph.initializer.extend(map(numpy_helper.from_array, arrays, names))
            ends = [node.input[0], *names], [node.output[0]]
            if bits == 32:
                node = helper.make_node("MatMul", *ends)
            else:
                node = helper.make_node(
                    "MatMulNBits", *ends, domain="com.microsoft", K=depth, N=columns, bits=bits,
                    block_size=BLOCK,
                )  # fmt: skip
        nodes.append(node)
    read = {name for n in nodes for name in n.input} | {o.name for o in model.graph.output}
    nodes = [n for n in nodes if read.intersection(n.output)]
    read = {name for n in nodes for name in n.input}
    kept = [t for t in model.graph.initializer if t.name in read]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(kept)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save_model(model, target, save_as_external_data=True, location=f"{target.stem}.data")
