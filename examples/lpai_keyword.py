"""A network that hears one frame of sound at a time, on LPAI: its LSTM remembers the others.

Quantized by hand, 16-bit activations and 8-bit weights. Its state is in persistent memory, what
it computes with in scratch memory, both of them buffers of this program's.
"""

import numpy as np

import qnnrt
from qnnrt import lpai
from qnnrt.model import Model, Node, Quantization, Tensor

BANDS, UNITS, WORDS, FRAMES = 40, 24, 4, 30
GATES = ("forget", "cell", "output", "input")


def activation(name: str, size: int, least: float, most: float) -> Tensor:
    """A tensor of 16-bit codes for numbers from `least` to `most`."""
    scale = (most - least) / 65535
    encoding = Quantization(scale=scale, offset=round(least / scale))
    return Tensor(name, (1, size), np.dtype(np.uint16), quantization=encoding)


def weights(random: np.random.Generator, name: str, *shape: int) -> Tensor:
    """Random ones, as 8-bit codes with one scale."""
    values = random.normal(0, shape[-1] ** -0.5, shape)
    scale = float(np.abs(values).max() / 127)
    codes = np.round(values / scale).astype(np.int8)
    return Tensor(name, shape, codes.dtype, codes, Quantization(scale=scale, offset=0))


def network() -> Model:
    """frame -> FullyConnected -> Relu -> Lstm -> FullyConnected -> Softmax -> scores."""
    random = np.random.default_rng(7)
    tensors = [
        activation("frame", BANDS, -4, 4),
        weights(random, "dense.w", UNITS, BANDS),
        activation("dense", UNITS, -6, 6),
        activation("features", UNITS, 0, 6),
        *(weights(random, f"{gate}.w", UNITS, UNITS) for gate in GATES),
        *(weights(random, f"{gate}.r", UNITS, UNITS) for gate in GATES),
        *(weights(random, f"{gate}.b", UNITS) for gate in GATES),
        Tensor("reset", (1,), np.dtype(np.bool_)),
        activation("heard", UNITS, -1, 1),
        weights(random, "words.w", WORDS, UNITS),
        activation("words", WORDS, -6, 6),
        activation("scores", WORDS, 0, 1),
    ]
    f, c, o, i = (tuple(f"{gate}.{part}" for part in "wrb") for gate in GATES)
    # The op's order; omitted are initial states, norms, peepholes and a projection.
    lstm = [
        "features", f[0], c[0], o[0], f[1], c[1], o[1], f[2], c[2], o[2], *[""] * 6,
        i[0], i[1], "", "", "", i[2], "", "", "reset",
    ]  # fmt: skip
    nodes = [
        Node("dense", "FullyConnected", ["frame", "dense.w"], ["dense"]),
        Node("relu", "Relu", ["dense"], ["features"]),
        Node("lstm", "Lstm", lstm, ["heard"]),
        Node("words", "FullyConnected", ["heard", "words.w"], ["words"]),
        Node("softmax", "Softmax", ["words"], ["scores"]),
    ]
    return Model("keyword", {t.name: t for t in tensors}, nodes, ["frame", "reset"], ["scores"])


def listen(session: qnnrt.Session, sound: np.ndarray) -> np.ndarray:
    """The scores after each frame."""
    frame, reset = session.inputs["frame"], session.inputs["reset"]
    scores = session.outputs["scores"]
    heard = np.empty((len(sound), WORDS))
    for n, values in enumerate(sound):
        frame.array[...] = qnnrt.quantize(values, frame.quantization, frame.dtype)
        reset.array[...] = n == 0
        session.run()
        heard[n] = qnnrt.dequantize(scores.array[0], scores.quantization)
    return heard


def main() -> None:
    model = network()
    sound = np.random.default_rng(8).normal(0, 1, (FRAMES, 1, BANDS)).astype(np.float32)
    with qnnrt.Session(model, "lpai") as session:
        needed = lpai.alignment(session.backend)
        pools = lpai.pools_of(session.graph)
        print(f"addresses are multiples of {needed.start}, sizes of {needed.size}")
        print(f"scratch {pools.scratch.nbytes} bytes, persistent {pools.persistent.nbytes} bytes")
        once = listen(session, sound)
        print("word", once[-1].argmax(), "with", once[-1].max().round(3), "after", FRAMES, "frames")
        # Other scratch memory changes nothing: what has to last is in persistent memory.
        session.set_scratch(lpai.alloc(session.backend, pools.scratch.nbytes))
        again = listen(session, sound)
        print("the same again:", bool((once == again).all()))
        print(session.stats.executes, "runs,", session.stats.copied_bytes, "bytes copied")


if __name__ == "__main__":
    main()
