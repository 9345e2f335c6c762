"""A Llama of 135 million random weights, token by token: time, and the part of the bandwidth.

    python benchmarks/language_model.py [--smoke] [--json FILE] [--threads 1 2] [--text 16 1000]
    python benchmarks/language_model.py --trained DIR    # of examples/language_model/train.py
    python benchmarks/language_model.py --only handoff batch
    python benchmarks/language_model.py --only beyond    # weights beyond the last cache
    python benchmarks/language_model.py --only beyond --models DIR --export    # files alone
    python benchmarks/language_model.py --only beyond --models DIR --widths "4 bits" --threads 2

For every width of weights (float32, bfloat16, and 8 and 4 bits in blocks of 32, by ONNX Runtime's
quantizer; with "bytes" at accuracy_level 4, which lets activations be rounded to 8 bits): a token
behind a text of so many, and a prompt of 128 tokens. qnnrt's cache is updated in place; ONNX
Runtime runs the same file with its caches bound, and copies them into others in each run, as it
says itself (of TensorScatter). llama.cpp has the same weights as GGUF, a cache in float32 for
float32 and in float16 else, as unless told otherwise, and rounds activations to 8 bits with weights
of 8 and 4. "reading the bytes" is a loop over as many bytes as the token has to read, weights and
filled cache (_read.c): its ratio is the part of the bandwidth.

Beyond: 135 million weights of 4 bits are 82 MB, which some last caches hold. So the part of the
bandwidth is also measured with as many layers of a Llama of 1 billion weights as have, in each
width, a third more bytes than the last cache. Each layer has random weights of its own. The part is
of the fastest of the loops there, which read as many bytes in huge pages at one place or several.
With --models the files stay for the next call, so that a call may measure one width.

Handed over: a process reads a text and sends it, with its cache, to another one, which goes on.
Until its graph is bound to the memory, and until its next token, against reading the text again.
Together: texts that are decoded in one run (`qnnrt.llm.Batch`), for each of so many.

With --trained: the perplexity of the text held out, in every width, and nothing else.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _beyond
import _llamacpp
import _prefix
import numpy as np
from _harness import Benchmark, optional, same
from decode import last_cache, reader

from qnnrt.llm import Batch, Conversation, LanguageModel

onnx: Any = optional("onnx")
ort: Any = optional("onnxruntime")

#: Of SmolLM-135M.
SIZES = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
}
TINY = SIZES | {
    "hidden_size": 288,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "vocab_size": 256,
}
CAPACITY, PROMPT = 1024, 128
PARTS = ("tokens", "handoff", "batch", "beyond")
#: Name -> bits that ONNX Runtime's quantizer gives weights, and the precision of the session.
WIDTHS: dict[str, tuple[int, str]] = {
    "float32": (0, "float32"),
    "bfloat16": (0, "bfloat16"),
    "float16": (0, "float16"),
    "8 bits": (8, "float32"),
    "4 bits": (4, "float32"),
    "8 bits, bytes": (8, "float32"),
    "4 bits, bytes": (4, "float32"),
}


def export_random(folder: Path, sizes: dict[str, int]) -> Any:
    """The model, as transformers has it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from qnnrt.llm.export import export

    torch.manual_seed(0)
    config = LlamaConfig(**sizes, eos_token_id=None, tie_word_embeddings=False)
    model = LlamaForCausalLM(config).eval()
    export(model, folder / "model.onnx", capacity=CAPACITY)
    return model


def narrowed(source: Path, bits: int, level: int = 0) -> Path:
    """The model with its products' weights in so many bits, at a level of accuracy."""
    if bits == 0:
        return source
    target = source.with_name(f"model_{bits}{f'_{level}' if level else ''}.onnx")
    if not target.exists():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        logging.getLogger(MatMulNBitsQuantizer.__module__).setLevel(logging.WARNING)
        quantizer = MatMulNBitsQuantizer(
            onnx.load(source), bits=bits, block_size=32, accuracy_level=level
        )
        quantizer.process()
        quantizer.model.save_model_to_file(str(target), use_external_data_format=True)
    return target


def weight_bytes(path: Path, precision: str) -> int:
    """What a token reads: all weights but the embedding, of which it reads a row."""
    model = onnx.load(path)
    tables = {n.input[0] for n in model.graph.node if n.op_type == "Gather"}
    others = {name for n in model.graph.node if n.op_type != "Gather" for name in n.input}
    size = sum(
        len(t.raw_data) for t in model.graph.initializer if t.name in others or t.name not in tables
    )
    return size // 2 if precision in ("bfloat16", "float16") else size


class Peer:
    """The file in ONNX Runtime, with two sets of caches, each the past of the other."""

    def __init__(self, path: Path, threads: int, text: list[int], size: int):
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        caches = [i for i in self.session.get_inputs() if i.name.startswith("past")]
        sets = [
            {
                i.name: ort.OrtValue.ortvalue_from_numpy(np.zeros((1, *i.shape[1:]), np.float32))
                for i in caches
            }
            for _ in range(2)
        ]
        self.logits = np.empty((1, 1, self.session.get_outputs()[0].shape[-1]), np.float32)
        self.bindings = []
        self.feeds = {
            "tokens": np.array([text[-size:]]),
            "position": np.array([len(text) - size]),
            "rows": np.array([size - 1]),
        }
        for one in range(2):
            binding = self.session.io_binding()
            for name, array in self.feeds.items():
                binding.bind_cpu_input(name, array)
            for name, value in sets[one].items():
                binding.bind_ortvalue_input(name, value)
                present = name.replace("past_key_values", "present")
                binding.bind_ortvalue_output(present, sets[1 - one][name])
            y = self.logits
            binding.bind_output("logits", "cpu", 0, np.float32, y.shape, y.ctypes.data)
            self.bindings.append(binding)
        if len(text) > size:
            before = {
                "tokens": np.array([text[:-size]]),
                "position": np.array([0]),
                "rows": np.array([0]),
            }
            past = {n: v.numpy() for n, v in sets[0].items()}
            names = [n.replace("past_key_values", "present") for n in past]
            read = dict(zip(names, self.session.run(names, before | past), strict=True))
            for each in sets:
                for name, value in each.items():
                    value.update_inplace(read[name.replace("past_key_values", "present")])
        self.turn = 0

    def run(self) -> None:
        self.session.run_with_iobinding(self.bindings[self.turn])
        self.turn = 1 - self.turn


def repeated(text: Conversation, size: int) -> Callable[[], None]:
    """Reads the last `size` tokens again."""
    tokens, start = text.tokens[-size:], len(text.tokens) - size
    model, slots = text.model, text._slots
    return lambda: model._run(slots, [tokens], [start], [size - 1], size)  # type: ignore[return-value]


def measure(
    bench: Benchmark, folder: Path, width: str, library: Any, memory: np.ndarray, whole: Any
) -> None:
    bits, precision = WIDTHS[width]
    there = not _llamacpp.why_missing()
    if there:
        _llamacpp.write(whole, folder / "model.gguf", width, CAPACITY)
    in_bytes = width.endswith("bytes")
    path = narrowed(folder / "model.onnx", bits, 4 if in_bytes else 0)
    read = weight_bytes(path, precision)
    prompt = 8 if bench.smoke else PROMPT
    for threads in bench.options.threads:
        with LanguageModel(
            path, chunks=(128, 8, 1), threads=threads, precision=precision, strict=True
        ) as model:
            cases = [(f"a token behind {n}", n + 1, 1) for n in bench.options.text]
            for name, length, size in [*cases, (f"a prompt of {prompt}", prompt, prompt)]:
                tokens = [i * 7919 % model.vocabulary for i in range(length)]
                text = model.conversation()
                text.append(tokens)
                peer = Peer(path, threads, tokens, size)
                peer.run()
                if precision == "float32":
                    same("onnxruntime", text.logits, peer.logits[0, 0], 2 if in_bytes else 2e-3)
                bytes_read = read + model.cache_bytes * length // model.capacity
                case = bench.case(f"{width}, {threads} threads: {name}", "ms", bytes_read)
                case.add("qnnrt", repeated(text, size))
                case.add("onnxruntime IOBinding", peer.run)
                if there:
                    how = threads, CAPACITY, tokens, size, precision != "float32" or bool(bits)
                    other = _llamacpp.Peer(folder / "model.gguf", *how)
                    other.run()
                    if width == "float32":
                        same("llama.cpp", other.logits(), peer.logits[0, 0], 2e-3)
                    case.add("llama.cpp", other.run)
                else:
                    case.missing("llama.cpp", _llamacpp.why_missing())
                if size == 1:
                    case.add(
                        "reading the bytes",
                        lambda n=bytes_read, t=threads: library.read_all(memory.ctypes.data, n, t),
                    )
                case.measure()
                medians = {r["name"]: r["seconds"]["median"] for r in case.rows() if "seconds" in r}
                print(f"  {size / medians['qnnrt']:.1f} tokens a second", end="")
                if size == 1:
                    part = medians["reading the bytes"] / medians["qnnrt"]
                    print(f", {part:.0%} of the bandwidth", end="")
                print(f"; {model.copied_bytes} bytes copied")
                if there:
                    other.close()


def beyond(bench: Benchmark, folder: Path, width: str, library: Any) -> None:
    """Tokens of a model whose weights the last cache cannot hold, by the loop that reads."""
    from qnnrt.llm.export import export

    bits, precision = WIDTHS[width]
    sizes, cache = (TINY, 1 << 20) if bench.smoke else (_beyond.SIZES, last_cache())
    stored = bits or (32 if precision == "float32" else 16)
    layers = 2 if bench.smoke else _beyond.layers_beyond(cache, stored)
    kind = "tiny" if bench.smoke else "beyond"
    path = folder / f"{kind}{layers}_{bits}.onnx"
    if not path.exists():
        shared = folder / f"{kind}{layers}_tied.onnx"
        if not shared.exists():
            export(_beyond.tied(sizes, layers), shared, capacity=CAPACITY)
        _beyond.untie(shared, path, bits or 32)
    if bench.options.export:
        return
    read = weight_bytes(path, precision)
    memory = np.ones(read + (256 << 20), np.uint8)
    for threads in bench.options.threads:
        with LanguageModel(
            path, chunks=(128, 8, 1), threads=threads, precision=precision, strict=True
        ) as model:
            for behind in bench.options.text:
                text = model.conversation()
                text.append([i * 7919 % model.vocabulary for i in range(behind + 1)])
                moved = read + model.cache_bytes * (behind + 1) // model.capacity
                name = f"{width}, {layers} layers beyond {cache >> 20} MiB, {threads} threads"
                case = bench.case(f"{name}: a token behind {behind}", "ms", moved)
                case.add("qnnrt", repeated(text, 1))
                for kind in range(library.read_kinds()):

                    def reading(k: int = kind, n: int = moved, t: int = threads) -> None:
                        library.read_by(k, memory.ctypes.data, n, t)

                    case.add(f"reading the bytes, loop {kind}", reading)
                case.measure()
                mine, *loops = (r["seconds"]["median"] for r in case.rows())
                print(
                    f"  {1 / mine:.1f} tokens a second, {min(loops) / mine:.0%} of the bandwidth "
                    f"(loop {loops.index(min(loops))}), {loops[0] / mine:.0%} of loop 0"
                )
    if bench.options.models is None:
        path.unlink()
        path.with_suffix(".data").unlink()


def together(bench: Benchmark, path: Path, threads: int) -> None:
    """A token for each of several texts: in one run, and in one after another."""
    with LanguageModel(path, chunks=(128, 8, 1), threads=threads, strict=True) as model:
        for count in (2,) if bench.smoke else (2, 4, 8):
            tokens = [[i * n % model.vocabulary for i in range(64)] for n in range(1, count + 1)]
            batch = model.batch(count)
            for each in tokens:
                batch.add(each)
            texts = batch.conversations

            def alone(texts: tuple[Conversation, ...] = texts) -> None:
                for text in texts:
                    text._logits = None
                    _ = text.logits

            def step(batch: Batch = batch, texts: tuple[Conversation, ...] = texts) -> None:
                for text in texts:
                    text._logits = None
                batch._read()

            case = bench.case(f"a token for each of {count} texts, {threads} threads", "ms")
            case.add("in one run", step)
            case.add("one after another", alone)
            case.measure()
            median = case.rows()[0]["seconds"]["median"]
            print(f"  {count / median:.1f} tokens a second; {model.copied_bytes} bytes copied")


def perplexities(folder: Path) -> None:
    held_out = (folder / "held_out.txt").read_text()
    for width, (bits, precision) in WIDTHS.items():
        path = narrowed(folder / "model.onnx", bits, 4 if width.endswith("bytes") else 0)
        with LanguageModel(path, precision=precision) as model:
            tokens = model.tokenizer.encode(held_out).ids
            parts = [tokens[at : at + 256] for at in range(0, len(tokens) - 1, 256)]
            scores = [model.conversation().score(part) for part in parts]
            found = np.exp(-np.concatenate(scores).mean())
            text = model.conversation()
            text.append("A buffer")
            sample = "".join(text.stream(max_tokens=24))
        print(f"{width:13} perplexity {found:7.3f}   {sample!r}", flush=True)


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
        parser.add_argument("--text", type=int, nargs="+", default=[16, 1000])
        parser.add_argument(
            "--widths",
            nargs="+",
            default=[w for w in WIDTHS if w != "float16"],
            choices=WIDTHS,
        )
        parser.add_argument("--only", nargs="+", default=[*PARTS], choices=PARTS)
        parser.add_argument("--trained", type=Path, metavar="DIR")
        parser.add_argument("--models", type=Path, metavar="DIR", help="where exported files stay")
        parser.add_argument("--export", action="store_true", help="only make the files of beyond")

    bench = Benchmark("language_model", __doc__ or "", rounds=5, sample_ms=60, more=more)
    if bench.options.trained:
        perplexities(bench.options.trained)
        return
    if any(optional(name) is None for name in ("onnxruntime", "torch", "transformers")):
        print("needs onnxruntime, torch and transformers: pip install 'qnnrt[bench,llm-export]'")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = bench.options.models or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        library = reader(Path(name))
        for width in bench.options.widths if "beyond" in bench.options.only else ():
            beyond(bench, folder, width, library)
        if bench.options.only == ["beyond"]:
            bench.finish()
            return
        whole = export_random(folder, TINY if bench.smoke else SIZES)
        memory = np.ones((16 if bench.smoke else 600) << 20, np.uint8)
        for width in bench.options.widths if "tokens" in bench.options.only else ():
            measure(bench, folder, width, library, memory, whole)
        for threads in bench.options.threads:
            if "handoff" in bench.options.only:
                _prefix.measure(bench, folder / "model.onnx", threads, 8 if bench.smoke else PROMPT)
            if "batch" in bench.options.only:
                together(bench, folder / "model.onnx", threads)
    bench.finish()


if __name__ == "__main__":
    main()
