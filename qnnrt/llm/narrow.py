"""Writes a decoder anew with the weights of its products in 4 or 8 bits.

    python -m qnnrt.llm.narrow folder narrower --bits 4

Products become ONNX Runtime's MatMulNBits: a scale and a zero point for each block of weights along
the inputs of an output. An output layer that is tied to the embedding is one of them; the table
that tokens are looked up in stays as it is, of which a token reads a row. Needs no packages beside
qnnrt's own.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper


@dataclass
class _Product:
    """x [.., K] times the weights [N, K], and what is added to it."""

    x: str
    weights: NDArray[np.floating]
    bias: str = ""


def narrow(
    source: str | Path,
    target: str | Path,
    *,
    bits: int = 4,
    block: int = 32,
    byte_activations: bool = False,
) -> Path:
    """Writes the file `source` as `target` (weights beside it in ``<target>.data``).

    Args:
        source: what ``qnnrt.llm.export`` wrote; any ONNX file with its weights in MatMul or Gemm.
        bits: 4 or 8.
        block: weights that have a scale together; a power of two from 16 on.
        byte_activations: what multiplies them may be rounded to 8 bits while it does
            (`accuracy_level` 4 of MatMulNBits), which takes a half to a third of the time.

    Raises:
        ValueError: other bits or blocks; source and target are one; no product is there.
    """
    if bits not in (4, 8) or block < 16 or block & (block - 1):
        raise ValueError(f"bits {bits} are 4 or 8, and block {block} a power of two from 16 on")
    source, target = Path(source), Path(target)
    if target.exists() and target.samefile(source):
        raise ValueError(f"{source} would be overwritten while it is read: write another file")
    model = onnx.load(source)
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    turned = {
        n.output[0]: n.input[0]
        for n in graph.node
        if n.op_type == "Transpose"
        and n.input[0] in constants
        and _attributes(n) == {"perm": (1, 0)}
    }
    nodes, made = [], 0
    for node in graph.node:
        product = _product(node, constants, turned)
        if product is None:
            nodes.append(node)
            continue
        made += 1
        name = f"{node.output[0]}.weights"
        given = [f"{name}.{part}" for part in ("codes", "scales", "zeros")]
        for part, array in zip(given, quantized(product.weights, bits, block), strict=True):
            graph.initializer.append(numpy_helper.from_array(array, part))
        rows, depth = product.weights.shape
        how: dict[str, Any] = {"K": depth, "N": rows, "bits": bits, "block_size": block}
        if byte_activations:
            how["accuracy_level"] = 4
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                [product.x, *given, *(["", product.bias] if product.bias else [])],
                [node.output[0]],
                domain="com.microsoft",
                **how,
            )
        )
    if not made:
        raise ValueError(f"{source} has no product with weights")
    _replace(graph, nodes)
    if all(o.domain != "com.microsoft" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    target.parent.mkdir(parents=True, exist_ok=True)
    data = target.with_name(target.name + ".data")
    data.unlink(missing_ok=True)  # it would be appended to
    onnx.save(model, target, save_as_external_data=True, location=data.name)
    return target


def quantized(
    weights: NDArray[np.floating], bits: int, block: int
) -> tuple[NDArray[np.uint8], NDArray[np.floating], NDArray[np.uint8]]:
    """Weights [N, K] as MatMulNBits has them: codes [N, blocks, block * bits / 8], scales
    [N, blocks], zero points [N, blocks * bits / 8], of the weights' type."""
    rows, depth = weights.shape
    blocks = -(-depth // block)
    w = np.zeros((rows, blocks * block), np.float32)
    w[:, :depth] = weights
    w = w.reshape(rows, blocks, block)
    top = (1 << bits) - 1
    low, high = np.minimum(w.min(-1), 0), np.maximum(w.max(-1), 0)
    scales = ((high - low) / top).astype(weights.dtype)
    scales[scales == 0] = 1
    real = scales.astype(np.float32)
    zeros = np.clip(np.rint(-low / real), 0, top)
    codes = np.clip(np.rint(w / real[..., None]) + zeros[..., None], 0, top)
    return _packed(codes, bits), scales, _packed(zeros, bits)


def _packed(numbers: NDArray[np.floating], bits: int) -> NDArray[np.uint8]:
    """As bytes along the last dimension, the lower half of one first."""
    found = numbers.astype(np.uint8)
    if bits == 8:
        return found
    if found.shape[-1] % 2:
        found = np.concatenate([found, np.zeros((*found.shape[:-1], 1), np.uint8)], -1)
    return found[..., ::2] | found[..., 1::2] << np.uint8(4)


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def _product(
    node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], turned: dict[str, str]
) -> _Product | None:
    """What a node multiplies, where it is a product with weights."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in ("", "ai.onnx"):
        return None
    x, name = node.input[:2]
    across, bias = name in turned, ""  # [N, K], else [K, N]
    weights = constants.get(turned.get(name, name))
    if node.op_type == "Gemm":
        how = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **_attributes(node)}
        bias = node.input[2] if len(node.input) > 2 else ""
        if (how["alpha"], how["beta"], how["transA"]) != (1.0, 1.0, 0):
            return None
        across ^= bool(how["transB"])
    if weights is None or len(weights.dims) != 2 or 0 in weights.dims:
        return None
    rows = weights.dims[0 if across else 1]
    if bias and (bias not in constants or list(constants[bias].dims) != [rows]):
        return None
    array = numpy_helper.to_array(weights)
    return _Product(x, array if across else array.T, bias)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """The nodes of a graph, without those and the constants that nobody reads any more."""
    used = Counter(name for n in nodes for name in n.input)
    used.update(o.name for o in graph.output)
    kept = [n for n in nodes if n.op_type != "Transpose" or any(used[o] for o in n.output)]
    read = {name for n in kept for name in n.input} | {o.name for o in graph.output}
    constants = [t for t in graph.initializer if t.name in read]
    infos = [v for v in graph.value_info if v.name in {o for n in kept for o in n.output}]
    for field, values in ((graph.node, kept), (graph.initializer, constants)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]
    graph.value_info.extend(infos)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m qnnrt.llm.narrow", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("source", type=Path, help="a folder that qnnrt.llm.export made")
    parser.add_argument("target", type=Path, help="another one, which gets the same files")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4)
    parser.add_argument("--block", type=int, default=32, help="weights of a scale (default 32)")
    parser.add_argument(
        "--byte-activations",
        action="store_true",
        help="activations may be rounded to 8 bits while they are multiplied: faster",
    )
    args = parser.parse_args(arguments)
    try:
        narrow(
            args.source / "model.onnx",
            args.target / "model.onnx",
            bits=args.bits,
            block=args.block,
            byte_activations=args.byte_activations,
        )
        for name in ("tokenizer.json", "qnnrt.json"):
            if (args.source / name).exists():
                shutil.copyfile(args.source / name, args.target / name)
    except (OSError, ValueError) as error:  # no such file, or nothing to narrow
        parser.exit(1, f"{parser.prog}: error: {error}\n")


if __name__ == "__main__":
    main()
