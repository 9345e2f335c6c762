"""Trains a small Llama on text, from scratch, in minutes on two cores, and exports it for
`qnnrt.llm`.

    python examples/language_model/train.py folder    # on this project's documentation
    python examples/language_model/train.py folder --text book.txt --steps 1000

The folder gets model.onnx, tokenizer.json, the weights as transformers keep them, and held_out.txt:
a twentieth of the text, which was not trained on. Needs pip install 'qnnrt[llm-export]'.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from qnnrt.llm.export import export

ROOT = Path(__file__).parents[2]
END = "<|end|>"


def read(files: list[Path]) -> tuple[str, str]:
    """Text to train on and text held out: each twentieth paragraph."""
    parts = "\n\n".join(f.read_text() for f in sorted(files)).split("\n\n")
    held_out = parts[::20]
    del parts[::20]
    return "\n\n".join(parts), "\n\n".join(held_out)


def tokenizer_of(text: str, size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text.split("\n\n"), trainer)
    return tokenizer


@torch.no_grad()
def perplexity(model: LlamaForCausalLM, tokens: torch.Tensor, length: int) -> float:
    model.eval()
    losses = [model(part, labels=part).loss.item() for part in tokens[None].split(length, 1)[:-1]]
    model.train()
    return math.exp(sum(losses) / len(losses))


def train(
    model: LlamaForCausalLM, tokens: torch.Tensor, steps: int, batch: int, length: int
) -> None:
    best = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.OneCycleLR(best, 3e-3, total_steps=steps, pct_start=0.1)
    began = time.monotonic()
    for step in range(1, steps + 1):
        at = torch.randint(len(tokens) - length, (batch,))
        part = torch.stack([tokens[i : i + length] for i in at])
        loss = model(part, labels=part).loss
        best.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        best.step()
        rate.step()
        if step % 20 == 0 or step == steps:
            print(
                f"step {step}: loss {loss.item():.2f}, {time.monotonic() - began:.0f} s", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--text", type=Path, nargs="+", help="files; the documentation unless given"
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--capacity", type=int, default=1024)
    args = parser.parse_args()

    torch.manual_seed(0)
    text, held_out = read(args.text or [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    tokenizer = tokenizer_of(text, args.vocabulary)
    tokens = torch.tensor(tokenizer.encode(text).ids)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3 // 32 * 32,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 32,
        num_key_value_heads=max(args.hidden // 96, 1),
        max_position_embeddings=args.capacity,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{len(tokens)} tokens, {weights / 1e6:.1f} million weights")
    train(model, tokens, args.steps, args.batch, args.length)
    test = torch.tensor(tokenizer.encode(held_out).ids)
    print(f"perplexity of the text held out: {perplexity(model, test, args.length):.1f}")

    export(model.eval(), args.folder / "model.onnx", capacity=args.capacity)
    model.save_pretrained(args.folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)
    wrapped.save_pretrained(args.folder)
    (args.folder / "held_out.txt").write_text(held_out)


if __name__ == "__main__":
    main()
