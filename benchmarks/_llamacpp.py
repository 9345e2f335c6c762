"""The Llama of language_model.py in llama.cpp: the same weights as GGUF, at the same width."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _harness import optional

gguf: Any = optional("gguf")
llama: Any = optional("llama_cpp")

#: Widths of language_model.py -> what llama.cpp calls them. Its blocks are of 32, too.
TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "8 bits": "Q8_0", "4 bits": "Q4_0"}
TYPES |= {f"{width}, bytes": TYPES[width] for width in ("8 bits", "4 bits")}

#: Of a layer in transformers -> in GGUF.
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@functools.cache
def start() -> object:
    """Once in a process; what it returns has to stay."""
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    return quiet


def why_missing() -> str:
    """Why llama.cpp is not there, or ""."""
    if gguf is None or llama is None:
        return "not installed: pip install 'qnnrt[bench-llama]', which builds it"
    return ""


def in_pairs(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys in llama.cpp's order: it turns neighbours, transformers halves."""
    rows, columns = weights.shape
    split = weights.reshape(heads, 2, rows // heads // 2, columns)
    return split.swapaxes(1, 2).reshape(rows, columns)


def write(model: Any, path: Path, width: str, capacity: int) -> None:
    """A LlamaForCausalLM of transformers as GGUF, without a tokenizer."""
    config, state = model.config, model.state_dict()
    kind = getattr(gguf.GGMLQuantizationType, TYPES[width])
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_vocab_size(config.vocab_size)
    file.add_context_length(capacity)
    file.add_embedding_length(config.hidden_size)
    file.add_block_count(config.num_hidden_layers)
    file.add_feed_forward_length(config.intermediate_size)
    file.add_head_count(config.num_attention_heads)
    file.add_head_count_kv(config.num_key_value_heads)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    file.add_rope_freq_base(config.rope_parameters["rope_theta"])
    file.add_tokenizer_model("none")

    def add(name: str, weights: np.ndarray) -> None:
        of_type = gguf.GGMLQuantizationType.F32 if weights.ndim == 1 else kind
        data = gguf.quants.quantize(np.ascontiguousarray(weights), of_type)
        file.add_tensor(f"{name}.weight", data, raw_dtype=of_type)

    def of(name: str) -> np.ndarray:
        found: np.ndarray = state[f"{name}.weight"].numpy()
        return found

    add("token_embd", of("model.embed_tokens"))
    add("output_norm", of("model.norm"))
    add("output", of("lm_head"))
    for layer in range(config.num_hidden_layers):
        for theirs, ours in NAMES.items():
            weights = of(f"model.layers.{layer}.{theirs}")
            if ours == "attn_q":
                weights = in_pairs(weights, config.num_attention_heads)
            elif ours == "attn_k":
                weights = in_pairs(weights, config.num_key_value_heads)
            add(f"blk.{layer}.{ours}", weights)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


class Peer:
    """The last `size` tokens of a text, read again and again."""

    def __init__(
        self, path: Path, threads: int, capacity: int, text: list[int], size: int, narrow: bool
    ) -> None:
        """narrow: the cache is in float16, as unless said otherwise; else float32, as qnnrt's."""
        start()
        options = llama.llama_model_default_params()
        # With AMX its matrix tiles end the process at two rows and more of 4 and 8 bits (0.3.36).
        self._tiles = "amx_int8" in Path("/proc/cpuinfo").read_text()
        if self._tiles and size > 1:
            options.use_extra_bufts = False
        self._model = llama.llama_model_load_from_file(str(path).encode(), options)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        how = llama.llama_context_default_params()
        how.n_ctx, how.n_batch, how.n_ubatch = capacity, capacity, 512
        how.n_threads = how.n_threads_batch = threads
        how.no_perf = True
        if not narrow:
            how.type_k = how.type_v = llama.GGML_TYPE_F32
            how.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED  # sums in float16
        self._context = llama.llama_init_from_model(self._model, how)
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self._memory = llama.llama_get_memory(self._context)
        self._start = len(text) - size
        if self._start:
            self._read(text[: self._start])
        self._again = self._reader(text[self._start :])

    def _reader(self, tokens: list[int]) -> Callable[[], None]:
        array = (llama.llama_token * len(tokens))(*tokens)
        batch = llama.llama_batch_get_one(array, len(tokens))

        def read(array: Any = array) -> None:
            code = llama.llama_decode(self._context, batch)
            if code:
                raise RuntimeError(f"llama_decode: {code}")

        return read

    def _read(self, tokens: list[int]) -> None:
        step = 1 if self._tiles else len(tokens)
        for at in range(0, len(tokens), step):
            self._reader(tokens[at : at + step])()

    def run(self) -> None:
        llama.llama_memory_seq_rm(self._memory, 0, self._start, -1)
        self._again()

    def logits(self) -> np.ndarray:
        """[vocabulary], behind the last token."""
        row = llama.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(row, (self._vocabulary,)).copy()

    def close(self) -> None:
        llama.llama_free(self._context)
        llama.llama_model_free(self._model)
