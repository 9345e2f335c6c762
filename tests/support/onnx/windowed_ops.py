"""Random nodes of the operators that weigh, pool, normalize or sample, and of recurrent ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.onnx.one_op import I64, F, OneOp, Rng, drawn, floats, pick, real


def conv(r: Rng) -> OneOp:
    spatial = pick(r, 1, 2, 2, 2, 2, 3)
    group = pick(r, 1, 1, 1, 2, 4, 6)
    per, out = int(r.integers(1, 4)), int(r.integers(1, 4)) * group
    if group > 1 and r.random() < 0.6:
        per = 1  # a filter, or some, for each channel
    kernel = [pick(r, 1, 2, 3, 3, 5) for _ in range(spatial)]
    dilations = [pick(r, 1, 1, 1, 2, 3) for _ in range(spatial)]
    room = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [n + int(r.integers(0, 6)) for n in room]
    attributes: dict[str, Any] = {"group": group, "dilations": dilations, "kernel_shape": kernel,
                                  "strides": [pick(r, 1, 1, 2, 3) for _ in kernel]}  # fmt: skip
    if r.random() < 0.25:
        attributes["auto_pad"] = pick(r, "SAME_UPPER", "SAME_LOWER", "VALID")
        attributes["dilations"] = [1] * spatial
    else:
        attributes["pads"] = [int(r.integers(0, k // 2 + 2)) for k in kernel * 2]
    inputs: list[np.ndarray | None] = [
        floats(r, (int(r.integers(1, 3)), per * group, *sizes)),
        floats(r, (out, per, *kernel), -1, 1),
    ]  # fmt: skip
    if r.random() < 0.6:
        inputs.append(floats(r, (out,), -1, 1))
    constant = (1, 2) if r.random() < 0.9 else ()
    return OneOp("Conv", inputs, attributes, constant, quantizable=True)


def conv_transpose(r: Rng) -> OneOp:
    spatial = pick(r, 1, 2, 2, 3)
    group = pick(r, 1, 1, 2, 3)
    cin, out = int(r.integers(1, 4)) * group, int(r.integers(1, 4))
    if group > 1 and r.random() < 0.5:
        cin, out = group, 1
    kernel = [pick(r, 2, 3, 3, 4) for _ in range(spatial)]
    strides = [pick(r, 1, 2, 2, 3) for _ in kernel]
    sizes = [int(n) for n in r.integers(2, 6, spatial)]
    attributes: dict[str, Any] = {"group": group, "strides": strides, "kernel_shape": kernel}
    form = r.random()
    if form < 0.3:
        attributes["output_shape"] = [
            n * s + int(r.integers(0, 2)) * (s > 1) for n, s in zip(sizes, strides, strict=True)
        ]
    elif form < 0.6:
        attributes["output_padding"] = [s - 1 for s in strides]
    elif form > 0.8:
        attributes["dilations"] = [pick(r, 1, 2) for _ in kernel]
    if form >= 0.3:
        attributes["pads"] = [int(p) for p in r.integers(0, 2, 2 * spatial)]
    inputs: list[np.ndarray | None] = [
        floats(r, (1, cin, *sizes)),
        floats(r, (cin, out, *kernel), -1, 1),
    ]
    if r.random() < 0.6:
        inputs.append(floats(r, (out * group,), -1, 1))
    return OneOp("ConvTranspose", inputs, attributes, (1, 2), quantizable=True)


def _beyond(sizes: list[int], given: dict[str, Any]) -> bool:
    """Whether a last window would begin behind the data: there ONNX Runtime's kernels and its rule
    for shapes differ."""
    kernel, strides, spatial = given["kernel_shape"], given["strides"], len(sizes)
    pads = given.get("pads", [0] * (2 * spatial))
    for i, n in enumerate(sizes):
        wide = (kernel[i] - 1) * given.get("dilations", [1] * spatial)[i] + 1
        steps = -(-(n + pads[i] + pads[spatial + i] - wide) // strides[i])
        if steps * strides[i] >= n + pads[i]:
            return True
    return False


def pools(r: Rng) -> OneOp:
    spatial = pick(r, 1, 2, 2, 2, 3)
    sizes = [int(n) for n in r.integers(3, 9, spatial)]
    x = floats(r, (int(r.integers(1, 3)), int(r.integers(1, 6)), *sizes))
    op = pick(r, "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    if op.startswith("Global"):
        return OneOp(op, [x], quantizable=True)
    kernel = [int(k) for k in r.integers(2, 4, spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": int(r.random() < 0.25),
                                  "strides": [pick(r, 1, 2, 3) for _ in kernel]}  # fmt: skip
    if r.random() < 0.2:
        attributes["auto_pad"] = pick(r, "SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attributes["pads"] = [int(p) for p in r.integers(0, 2, 2 * spatial)]
        if r.random() < 0.15:
            attributes["dilations"] = [pick(r, 1, 2) for _ in kernel]
    if _beyond(sizes, attributes):
        attributes["ceil_mode"] = 0
    if op == "AveragePool":
        attributes["count_include_pad"] = int(r.integers(2))
    return OneOp(op, [x], attributes, quantizable=True)


def products(r: Rng) -> OneOp:
    m, k, n = (int(v) for v in r.integers(1, 9, 3))
    constant = pick(r, (1, 2), (1, 2), ())
    if r.random() < 0.5:
        ta, tb = int(r.integers(2)), int(r.integers(2))
        attributes = {"transA": ta, "transB": tb}
        if r.random() < 0.4:
            attributes |= {"alpha": real(r, 0.3, 2), "beta": real(r, 0.3, 2)}
        inputs: list[np.ndarray | None] = [floats(r, (k, m) if ta else (m, k)),
                                           floats(r, (n, k) if tb else (k, n), -1, 1)]  # fmt: skip
        if r.random() < 0.7:
            inputs.append(floats(r, pick(r, (n,), (1, n), (m, n)), -1, 1))
        return OneOp("Gemm", inputs, attributes, constant, quantizable=True)
    batch = drawn(r, 1, 2)
    ones = tuple(pick(r, 1, size) for size in batch)
    form = r.integers(7)
    sa, sb = [((m, k), (k, n)), ((*batch, m, k), (k, n)), ((*batch, m, k), (*batch, k, n)),
              ((k,), (k, n)), ((*batch, m, k), (k,)), ((*ones, m, k), (*batch, k, n)),
              ((m, k), (*batch, k, n))][form]  # fmt: skip
    return OneOp("MatMul", [floats(r, sa), floats(r, sb, -1, 1)], {}, constant, quantizable=True)


def norms(r: Rng) -> OneOp:
    op = pick(r, "BatchNormalization", "InstanceNormalization", "LayerNormalization",
               "GroupNormalization", "LRN")  # fmt: skip
    c = 4 if op == "GroupNormalization" else int(r.integers(1, 7))
    rank = pick(r, 3, 4, 4)
    shape = (int(r.integers(1, 3)), c, *(int(n) for n in r.integers(2, 7, rank - 2)))
    x = floats(r, shape)
    if op == "LRN":
        x = floats(r, (1, c, 4, 5))
        return OneOp(op, [x], {"size": pick(r, 3, 5), "alpha": 0.01, "beta": 0.75, "bias": 1.0})
    if op == "LayerNormalization":
        axis = pick(r, -1, -1, -2)
        sizes = shape[axis:]
        ends = floats(r, sizes, 0.5, 2), floats(r, sizes, -1, 1)
        return OneOp(op, [x, *ends], {"axis": axis}, (1, 2),
                     quantizable=True)  # fmt: skip
    each: list[np.ndarray | None] = [floats(r, (c,), 0.5, 2), floats(r, (c,), -1, 1)]
    if op == "BatchNormalization":
        each += [floats(r, (c,), -1, 1), floats(r, (c,), 0.5, 2)]
    attributes = {"num_groups": 2} if op == "GroupNormalization" else {}
    return OneOp(op, [x, *each], attributes, tuple(range(1, 1 + len(each))),
                 quantizable=op != "GroupNormalization")  # fmt: skip


def resize(r: Rng) -> OneOp:
    spatial = pick(r, 1, 2, 2, 2, 2, 3)
    given = [int(n) for n in r.integers(2, 7, spatial)]
    shape = (int(r.integers(1, 3)), int(r.integers(1, 5)), *given)
    sizes = np.array([*shape[:2], *(int(n) for n in r.integers(2, 14, spatial))], I64)
    mode = pick(r, "nearest", "nearest", "linear", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": pick(
        r, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}  # fmt: skip
    if mode == "nearest":
        attributes["nearest_mode"] = pick(r, "floor", "round_prefer_floor", "ceil",
                                          "round_prefer_ceil")  # fmt: skip
    inputs: list[np.ndarray | None] = [floats(r, shape), None, None, sizes]
    if r.random() < 0.5:
        scales = [pick(r, 2.0, 2.0, 3.0, 0.5, 1.5) for _ in given]
        inputs = [inputs[0], None, np.array([1, 1, *scales], F)]
    return OneOp("Resize", inputs, attributes, (2, 3), quantizable=mode != "cubic")


def recurrent(r: Rng) -> OneOp:
    t, n, i, h = (int(v) for v in (*r.integers(1, 4, 2), *r.integers(2, 9, 2)))
    op, gates = pick(r, ("LSTM", 4), ("GRU", 3))
    direction = pick(r, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    inputs: list[np.ndarray | None] = [
        floats(r, (t, n, i)), floats(r, (d, gates * h, i), -1, 1),
        floats(r, (d, gates * h, h), -1, 1),
        floats(r, (d, 2 * gates * h), -0.5, 0.5) if r.random() < 0.7 else None,
    ]  # fmt: skip
    if r.random() < 0.4:  # states to start from
        states = [floats(r, (d, n, h), -1, 1) for _ in range(2 if op == "LSTM" else 1)]
        inputs += [None, *states]
    attributes = {"hidden_size": h, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = int(r.integers(2))
    return OneOp(op, inputs, attributes, (1, 2, 3), (F,) * (3 if op == "LSTM" else 2))


def samples(r: Rng) -> OneOp:
    n = int(r.integers(1, 3))
    x, grid = floats(r, (n, int(r.integers(1, 5)), 5, 6)), floats(r, (n, 3, 4, 2), -1.1, 1.1)
    attributes = {"mode": pick(r, "linear", "nearest"), "align_corners": int(r.integers(2)),
                  "padding_mode": pick(r, "zeros", "border", "reflection")}  # fmt: skip
    return OneOp("GridSample", [x, grid], attributes, quantizable=attributes["mode"] == "linear")
