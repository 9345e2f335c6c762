"""What qnnrt.llm.export asks of a model, and what it refuses with its reason."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.foreign  # torch


def test_export_says_what_a_cache_cannot_serve(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm.export import export

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.MistralConfig(**sizes, vocab_size=9)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(ValueError, match="capacity is 1;"):
        export(model, tmp_path / "model.onnx", capacity=1)
    config = transformers.Lfm2Config(**sizes, vocab_size=9, layer_types=["conv", "full_attention"])
    model = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(ValueError, match=r"layers of other kinds than attention \(conv\)"):
        export(model, tmp_path / "model.onnx", capacity=32)


def test_what_torch_cannot_convert_is_said_in_a_line(tmp_path: Any) -> None:
    """A loop over the experts that the data choose."""
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm.export import export

    config = transformers.DbrxConfig(
        d_model=32, n_heads=2, n_layers=1, max_seq_len=32, vocab_size=9,
        attn_config={"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        ffn_config={"ffn_hidden_size": 32, "moe_num_experts": 2, "moe_top_k": 1, "hidden_size": 32},
    )  # fmt: skip
    config.tie_word_embeddings = False
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(ValueError, match="DbrxForCausalLM is not converted by torch: ") as error:
        export(model, tmp_path / "model.onnx", capacity=32)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_model_that_asks_another_thing_of_its_cache_is_refused(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm.export import export

    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=9, max_position_embeddings=32,
    )  # fmt: skip

    class Asks(transformers.LlamaForCausalLM):  # type: ignore[misc, name-defined]
        def forward(self, cache: Any = None, **kwargs: Any) -> Any:
            if cache is not None:
                cache.is_sliding  # noqa: B018
            return super().forward(cache=cache, **kwargs)

    with pytest.raises(ValueError, match=r"does not run with a cache that has slots: .*sliding"):
        export(Asks(config), tmp_path / "model.onnx", capacity=32)

    class Counts(transformers.LlamaForCausalLM):  # type: ignore[misc, name-defined]
        """Its positions are those that a cache of its own would say."""

        def forward(self, position_ids: Any = None, cache: Any = None, **kwargs: Any) -> Any:
            return super().forward(cache=cache, **kwargs)

    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    config.initializer_range = 0.5
    with pytest.raises(ValueError, match=r"Counts: with a cache .* its logits differ by 0\.\d+ of"):
        export(Counts(config), tmp_path / "model.onnx", capacity=32)
    config = transformers.Llama4TextConfig(floor_scale=32, max_position_embeddings=64)
    with torch.device("meta"):
        model = transformers.Llama4ForCausalLM(config)
    with pytest.raises(ValueError, match="capacity is 32; from 32 tokens on Llama4ForCausalLM"):
        export(model, tmp_path / "model.onnx", capacity=32)


def test_each_layer_counts_whatever_becomes_of_its_module(tmp_path: Any, monkeypatch: Any) -> None:
    """While a model is traced, what stands for a module may be gone behind the call."""
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm import export

    traced = export._attention
    monkeypatch.setattr(export, "_attention", lambda _, *args, **kw: traced(object(), *args, **kw))
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=9, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    assert export.export(model, tmp_path / "model.onnx", capacity=32).exists()


def test_a_model_whose_own_attention_needs_a_growing_cache_is_refused(tmp_path: Any) -> None:
    """It takes the last slots of a cache for the newest tokens."""
    transformers = pytest.importorskip("transformers")
    from qnnrt.llm.export import export

    config = transformers.GPTNeoConfig(
        hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=2,
        vocab_size=9, initializer_range=0.2, window_size=8,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(ValueError, match=r"code of its own.* its logits differ by 0\.\d+ of"):
        export(model, tmp_path / "model.onnx", capacity=32)
    assert not list(tmp_path.iterdir())
