"""Decoders with random weights, as transformers has them and as qnnrt.llm.export writes them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CAPACITY = 96
VOCABULARY = 101


@dataclass
class Exported:
    folder: Path
    eager: Any

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        """What transformers generates, with a cache of its own."""
        import torch

        given = torch.tensor([tokens])
        all_of_it = torch.ones_like(given)  # else a token that pads is left out
        made = self.eager.generate(
            given, attention_mask=all_of_it, max_new_tokens=count, do_sample=False
        )
        return made[0, len(tokens) :].tolist()


def build(family: str, folder: Path, **sizes: Any) -> Exported:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm.export import export

    shared = {"vocab_size": VOCABULARY, "eos_token_id": None, "bos_token_id": None}
    grouped = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.2,
    }
    config = {
        "llama": lambda: transformers.LlamaConfig(**{**shared, **grouped, **sizes}),
        "qwen2": lambda: transformers.Qwen2Config(**{**shared, **grouped, **sizes}),
        "qwen3": lambda: transformers.Qwen3Config(
            **{**shared, **grouped, "head_dim": 24, "tie_word_embeddings": True, **sizes}
        ),
        "gemma2": lambda: transformers.Gemma2Config(
            **{**shared, **grouped, "head_dim": 16, "sliding_window": 8, **sizes},
            query_pre_attn_scalar=16,
            attn_logit_softcapping=2.0,
        ),
        # Two kinds of layers with caches of their own sizes, and two that read those of the others.
        "gemma4": lambda: transformers.Gemma4TextConfig(
            **{**shared, **grouped, "num_hidden_layers": 4, "head_dim": 16, **sizes},
            global_head_dim=32,
            num_kv_shared_layers=2,
            sliding_window=8,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=VOCABULARY,
            tie_word_embeddings=False,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        "mixtral": lambda: transformers.MixtralConfig(
            **{**shared, **grouped, "num_local_experts": 4, "sliding_window": 8, **sizes}
        ),
        # A score of each head that nothing has, and experts with biases.
        "gpt_oss": lambda: transformers.GptOssConfig(
            **{**shared, **grouped, "head_dim": 16, "sliding_window": 8, **sizes},
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=128,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        # Pairs turned as complex numbers; keys and values of sizes of their own.
        "deepseek2": lambda: transformers.DeepseekV2Config(
            **{**shared, **grouped, "num_key_value_heads": 4, "head_dim": 8, **sizes},
            q_lora_rank=24,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=12,
            moe_intermediate_size=32,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
        ),
        # Layers that see what is in one part of the text with them.
        "llama4": lambda: transformers.Llama4TextConfig(
            **{**shared, **grouped, "num_hidden_layers": 4, "head_dim": 16, **sizes},
            intermediate_size_mlp=96,
            num_local_experts=4,
            attention_chunk_size=16,
            layer_types=["chunked_attention", "full_attention"] * 2,
            no_rope_layers=[1, 0] * 2,
        ),
        # Attention by code of its own, with scores that fall with the distance.
        "bloom": lambda: transformers.BloomConfig(
            **{**shared, "hidden_size": 64, "n_layer": 2, "n_head": 4, **sizes},
            initializer_range=0.2,
        ),
        "gpt2": lambda: transformers.GPT2Config(
            **{**shared, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, **sizes},
            initializer_range=0.2,
        ),
    }[family]()
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):  # which are as many zeros otherwise
            torch.nn.init.normal_(parameter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(model, folder / "model.onnx", capacity=CAPACITY)
    return Exported(folder, model)
