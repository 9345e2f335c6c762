"""Windows that move over the spatial dimensions of [N, C, spatial...]: sizes, steps, padding."""

from __future__ import annotations

from .nodes import OnnxNode

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def list_attr(n: OnnxNode, name: str, rank: int, default: int, least: int = 1) -> list[int]:
    """A list attribute with one entry for each spatial dimension."""
    found = n.integers(name) or [default] * rank
    if len(found) != rank:
        raise ValueError(f"{name} has {len(found)} entries for {rank} spatial dimensions")
    if min(found, default=least) < least:
        raise ValueError(f"{name} is {found}; every entry has to be {least} or more")
    return found


def auto_pad(n: OnnxNode) -> str:
    found = n.text("auto_pad") or "NOTSET"
    if found not in _AUTO_PADS:
        raise ValueError(f"auto_pad is {found[:60]!r}; it has to be one of {', '.join(_AUTO_PADS)}")
    return found


def padding(
    n: OnnxNode, size: list[int], kernel: list[int], stride: list[int], dilation: list[int]
) -> list[tuple[int, int]]:
    """(begin, end) for each spatial dimension, from `pads` or `auto_pad`."""
    auto = auto_pad(n)
    rank = len(size)
    if auto == "VALID":
        return [(0, 0)] * rank
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        out = []
        for d, k, s, dil in zip(size, kernel, stride, dilation, strict=True):
            reach = (k - 1) * dil + 1
            total = max((-(-d // s) - 1) * s + reach - d, 0)
            small, large = total // 2, total - total // 2
            out.append((small, large) if auto == "SAME_UPPER" else (large, small))
        return out
    pads = n.integers("pads") or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise ValueError(f"pads has {len(pads)} entries for {rank} spatial dimensions")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def moved(
    size: list[int],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    pads: list[tuple[int, int]],
    ceil: bool = False,
) -> list[int]:
    """How many positions a window has along each dimension."""
    out = []
    for d, k, s, dil, (begin, end) in zip(size, kernel, stride, dilation, pads, strict=True):
        reach = (k - 1) * dil + 1
        room = d + begin + end - reach
        # With ceil_mode the last window may go beyond the end, also if it is the only one.
        if room < (1 - s if ceil else 0):
            raise ValueError(
                f"a window over {reach} elements does not fit into {d} with the padding "
                f"{(begin, end)}"
            )
        count = (room + (s - 1 if ceil else 0)) // s + 1
        # A window may not start in the padding at the end (as in PyTorch).
        if ceil and (count - 1) * s >= d + begin:
            count -= 1
        out.append(count)
    return out


def transpose_padding(
    n: OnnxNode, size: list[int], kernel: list[int], stride: list[int], dilation: list[int]
) -> tuple[list[tuple[int, int]], list[int]]:
    """(begin, end) and output padding of a transposed convolution."""
    rank = len(size)
    extra = list_attr(n, "output_padding", rank, 0, 0)
    auto = auto_pad(n)
    wanted = n.integers("output_shape")
    if not wanted and auto in ("NOTSET", "VALID"):
        return padding(n, size, kernel, stride, dilation), extra
    if wanted and len(wanted) not in (rank, rank + 2):
        raise ValueError(f"output_shape has {len(wanted)} entries for {rank} spatial dimensions")
    wanted = wanted[-rank:] if wanted else [d * s for d, s in zip(size, stride, strict=True)]
    pads = []
    for i, target in enumerate(wanted):
        full = stride[i] * (size[i] - 1) + extra[i] + (kernel[i] - 1) * dilation[i] + 1
        total = full - target
        if total < 0:
            extra[i] -= total
            total = 0
        small, large = total // 2, total - total // 2
        pads.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return pads, extra
