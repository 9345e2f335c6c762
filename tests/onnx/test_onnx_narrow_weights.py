"""Weights of 4 and 8 bits beside floats: ONNX Runtime's MatMulNBits, and DequantizeLinear with and
without blocks."""

from __future__ import annotations

import json
import platform
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import Session
from qnnrt.importers import onnx as importer
from support.outside import MEASURED, run_code
from support.quantizing import Graph, check, codes, image, types
from zoo.quantizing import reference

pytestmark = pytest.mark.foreign

MICROSOFT = "com.microsoft"


def plan(model: qnnrt.Model) -> dict:
    with Session(model) as session:
        found: dict = json.loads(session.graph.describe() or "")
        return found


def steps(model: qnnrt.Model) -> list[str]:
    return [step["op"] for step in plan(model)["steps"]]


def product(
    x: tuple[int, ...], n: int, k: int, bits: int, size: int, zeros: str = "", bias: bool = False,
    **more: int,
) -> onnx.ModelProto:  # fmt: skip
    blocks = -(-k // size)
    rng = np.random.default_rng(n)
    g = Graph(17)
    scales = rng.uniform(0.01, 0.1, n * blocks).astype(np.float32)
    inputs = ["x", g.const(codes(n, blocks, size * bits // 8, dtype=np.uint8)), g.const(scales)]
    if zeros == "packed":
        row = -(-blocks * bits // 8)
        inputs.append(g.const(codes(n * row, dtype=np.uint8)))
    elif zeros == "floats":
        inputs.append(g.const(rng.uniform(0, 15, n * blocks).astype(np.float32)))
    else:
        inputs.append("")
    inputs += ["", g.const(image(n)) if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    y = g.op("MatMulNBits", inputs, domain=MICROSOFT, K=k, N=n, bits=bits, block_size=size, **more)
    return g.proto({"x": x}, [y])


@pytest.mark.parametrize(
    ("x", "n", "k", "bits", "size", "zeros", "bias"),
    [
        ((1, 256), 40, 256, 4, 32, "", False),
        ((3, 256), 40, 256, 4, 16, "packed", True),
        ((2, 3, 200), 48, 200, 4, 32, "packed", False),
        ((2, 1, 300), 36, 300, 4, 128, "", True),
        ((70, 256), 70, 256, 4, 64, "packed", True),
        ((1, 256), 40, 256, 8, 32, "", False),
        ((4, 5, 256), 40, 256, 8, 64, "packed", True),
    ],
)
def test_a_product_reads_the_bytes_of_the_file(
    x: tuple[int, ...], n: int, k: int, bits: int, size: int, zeros: str, bias: bool
) -> None:
    model = check(product(x, n, k, bits, size, zeros, bias), {"x": image(*x)}, 2e-3)
    found = plan(model)
    assert [s["op"] for s in found["steps"]] == ["Pad"] * (k % size != 0) + ["MatMulNBits"]
    blocks = n * -(-k // size)
    zero_points = blocks if zeros else 0
    if bits == 4 and zeros:  # 8 bytes have 16 of them
        zero_points = min(blocks, n * -(-k // size // 16) * 8)
    assert found["weight_bytes"] == (
        blocks * size * bits // 8 + 4 * blocks + zero_points + 4 * n * bias
    )


def test_zero_points_between_integers_are_taken_as_floats() -> None:
    model = check(product((2, 256), 40, 256, 4, 32, "floats"), {"x": image(2, 256)}, 2e-3)
    assert types(model) == ["FullyConnected"]


@pytest.mark.parametrize("rows", [1, 5, 30])
@pytest.mark.parametrize(("bits", "size"), [(4, 32), (4, 128), (8, 32)])
def test_a_level_of_accuracy_lets_activations_be_bytes(rows: int, bits: int, size: int) -> None:
    """At level 4 the result is ONNX Runtime's within a step of such bytes; at others it is exact,
    and so where the session says that it should be."""
    x = image(rows, 256)

    def result(level: int, **options: bool) -> np.ndarray:
        proto = product((rows, 256), 40, 256, bits, size, "packed", accuracy_level=level)
        with Session(importer.load(proto), options=options) as session:
            return next(iter(session.run({"x": x}).values())).copy()

    exact, narrow = result(0), result(4)
    for level in (1, 2, 3):
        assert np.array_equal(result(level), exact)
    assert np.array_equal(result(4, byte_activations=False), exact)
    assert np.array_equal(result(0, byte_activations=True), narrow)
    (theirs,) = reference(
        product((rows, 256), 40, 256, bits, size, "packed", accuracy_level=4), {"x": x}
    )
    # Half a step of each number at most, times weights of up to 0.1 * 2**bits: here a random walk.
    step = np.abs(x).max() / 127 * 0.1 * 2**bits * np.sqrt(256)
    assert np.abs(narrow - exact).max() <= step / 2
    assert np.abs(narrow - theirs).max() <= step / 2


def test_all_products_of_a_file_have_to_say_so() -> None:
    g = Graph(17)
    x = "x"
    for level in (4, 0):
        inputs = [x, g.const(codes(64, 8, 16, dtype=np.uint8)), g.const(np.ones(512, np.float32))]
        how = {"K": 256 if x == "x" else 64, "N": 64, "bits": 4, "block_size": 32}
        if x != "x":
            inputs[1:] = [
                g.const(codes(64, 2, 16, dtype=np.uint8)),
                g.const(np.ones(128, np.float32)),
            ]
        x = g.op("MatMulNBits", inputs, domain=MICROSOFT, accuracy_level=level, **how)
    assert not importer.load(g.proto({"x": (1, 256)}, [x])).byte_activations
    proto = product((1, 256), 40, 256, 4, 32, accuracy_level=4)
    assert importer.load(proto).byte_activations


@pytest.mark.parametrize("op", ["MatMul", "Gather"])
def test_so_have_products_of_dequantized_constants(op: str) -> None:
    """Which have no such attribute; what only looks numbers up rounds nothing."""
    g = Graph(17)
    weights = [g.const(codes(64, 8, 16, dtype=np.uint8)), g.const(np.ones(512, np.float32))]
    how = {"K": 256, "N": 64, "bits": 4, "block_size": 32, "accuracy_level": 4}
    x = g.op("MatMulNBits", ["x", *weights], domain=MICROSOFT, **how)
    table = g.op(
        "DequantizeLinear", [g.const(codes(64, 64, dtype=np.int8)), g.const(np.float32(1))]
    )
    if op == "MatMul":
        y = g.op("MatMul", [x, table])
    else:
        y = g.op("Add", [x, g.op("Gather", [table, g.const(np.array([7]))])])
    model = importer.load(g.proto({"x": (1, 256)}, [y]))
    assert model.byte_activations == (op == "Gather")


@pytest.mark.parametrize("four", [True, False])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("shape", "axis", "size"), [((256, 48), 0, 32), ((256, 48), 1, 0)])
def test_dequantized_constants_stay_as_they_are(
    four: bool, signed: bool, shape: tuple[int, int], axis: int, size: int
) -> None:
    """With a scale for each block of rows, or for each column, and a bias behind the product."""
    rng = np.random.default_rng(3)
    kind = {(True, True): ml_dtypes.int4, (True, False): ml_dtypes.uint4}.get(
        (four, signed), np.int8 if signed else np.uint8
    )
    low, high = (-8 if four else -128, 8 if four else 128) if signed else (0, 16 if four else 256)
    grid = (shape[0] // size, shape[1]) if size else (shape[1],)
    g = Graph(21)
    w = g.const(rng.integers(low, high, shape).astype(kind))
    scales = g.const(rng.uniform(0.01, 0.1, grid).astype(np.float32))
    zeros = g.const(rng.integers(low, high, grid).astype(kind))
    how = {"axis": axis, **({"block_size": size} if size else {})}
    real = g.op("DequantizeLinear", [w, scales, zeros], **how)
    y = g.op("Add", [g.op("MatMul", ["x", real]), g.const(image(48))])
    x = image(2, 5, 256)
    model = check(g.proto({"x": x.shape}, [y]), {"x": x}, 1e-2 if not four else 1e-3)
    found = plan(model)
    assert [s["op"] for s in found["steps"]] == ["MatMulNBits"]
    blocks = 48 * (256 // size if size else 1)
    assert found["weight_bytes"] == 256 * 48 // (2 if four else 1) + 5 * blocks + 4 * 48


def test_a_binary_holds_them_as_they_are(tmp_path) -> None:
    """And so does a session of it, which reads them where the file is mapped."""
    proto = product((1, 4096), 1024, 4096, 4, 32)
    path = tmp_path / "four.bin"
    with Session(importer.load(proto)) as session:
        wanted = next(iter(session.run({"x": image(1, 4096)}).values())).copy()
        session.save_binary(path)
    weights = 1024 * 4096 // 2 + 4 * 1024 * 128
    assert weights <= path.stat().st_size < weights + 16384
    with Session(path) as session:
        assert np.array_equal(next(iter(session.run({"x": image(1, 4096)}).values())), wanted)


#: Outputs of each product of one x.
SIBLINGS = {"queries, keys, values": (96, 40, 40), "less than a tile": (13, 5, 27)}


def siblings(
    rows: int, outputs: tuple[int, ...], bits: int, zeros: bool, bias: bool, odd: bool = False
) -> onnx.ModelProto:
    """Products of one x. `odd`: one more, with other blocks, and two behind activations."""
    depth = 1024
    g = Graph(17)

    def one(n: int, size: int) -> str:
        blocks = depth // size
        scales = np.random.default_rng(n).uniform(0.01, 0.1, n * blocks).astype(np.float32)
        inputs = ["x", g.const(codes(n, blocks, size * bits // 8, dtype=np.uint8)), g.const(scales)]
        inputs += [g.const(codes(n * -(-blocks * bits // 8), dtype=np.uint8)) if zeros else ""]
        inputs += ["", g.const(image(n)) if bias else ""]
        while not inputs[-1]:
            inputs.pop()
        how = {"K": depth, "N": n, "bits": bits, "block_size": size}
        return g.op("MatMulNBits", inputs, domain=MICROSOFT, **how)

    results = [one(n, 32) for n in outputs]
    if odd:
        sigmoid, gate = one(24, 32), one(40, 32)
        results += [one(24, 64), g.op("Mul", [sigmoid, g.op("Sigmoid", [sigmoid])])]
        results += [g.op("Relu", [gate])]
    return g.proto({"x": (rows, depth)}, results)


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize(("bits", "zeros", "bias"), [(4, True, False), (8, False, True)])
@pytest.mark.parametrize("outputs", SIBLINGS.values(), ids=SIBLINGS)
def test_products_of_one_x_are_one_node(
    outputs: tuple[int, ...], bits: int, zeros: bool, bias: bool, rows: int, tmp_path: Path
) -> None:
    """With the numbers of each for itself, from a context binary, too."""
    model = siblings(rows, outputs, bits, zeros, bias, odd=True)
    loaded = importer.load(model)
    assert steps(loaded) == ["JoinedMatMulNBits", "MatMulNBits", "MatMulNBits"]
    x = image(rows, 1024)
    x[0, 0] = 1e35 if rows == 3 else x[0, 0]  # beyond what goes through integers
    names = [o.name for o in model.graph.output]
    with Session(loaded, threads=2) as session:
        together = session.run({"x": x})
        (tmp_path / "siblings.bin").write_bytes(session.context.binary())
    with Session(qnnrt.load(tmp_path / "siblings.bin"), threads=1) as again:
        from_binary = again.run({"x": x})
    for name in names:
        with Session(importer.load(model, outputs=[name])) as session:
            alone = session.run({"x": x})[name]
        assert np.array_equal(together[name], alone), name
        assert np.array_equal(from_binary[name], alone), name


def test_a_bias_may_be_computed_from_another_product_of_the_same_x() -> None:
    g = Graph(17)
    scales = g.const(np.full(40 * 4, 0.1, np.float32))
    how = {"K": 128, "N": 40, "bits": 4, "block_size": 32}
    weights = [g.const(codes(40, 4, 16, dtype=np.uint8)) for _ in range(2)]
    first = g.op("MatMulNBits", ["x", weights[0], scales], domain=MICROSOFT, **how)
    bias = g.op("ReduceMax", [first], axes=[0], keepdims=0)
    second = g.op("MatMulNBits", ["x", weights[1], scales, "", "", bias], domain=MICROSOFT, **how)
    model = g.proto({"x": (3, 128)}, [first, second])
    x = image(3, 128)
    with Session(importer.load(model)) as session:
        found = session.run({"x": x})
    for name, wanted in zip([first, second], reference(model, {"x": x}), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-3)


def test_products_that_differ_stay_apart() -> None:
    g = Graph(17)
    scales = np.full(40 * 2, 0.1, np.float32)
    results = []
    for bits in (4, 8, 4):
        weights = codes(40, 2, 64 * bits // 8, dtype=np.uint8)
        how = {"K": 128, "N": 40, "bits": bits, "block_size": 64}
        inputs = ["x", g.const(weights), g.const(scales)]
        results.append(g.op("MatMulNBits", inputs, domain=MICROSOFT, **how))
    found = steps(importer.load(g.proto({"x": (2, 128)}, results)))
    assert found == ["JoinedMatMulNBits", "MatMulNBits"]


HUGE = """
import mmap, sys
from pathlib import Path
import qnnrt

def huge():
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) >> 10 for row in rows if row.startswith("AnonHugePages"))

def system_joins(mib):
    collapse = 25
    with mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        before = huge()
        memory.write(bytes(mib << 20))
        try:
            memory.madvise(collapse)
        except OSError:
            return False
        return huge() - before >= mib - 4

model = qnnrt.load(sys.argv[1])
for _ in range(60):  # a slow page leaves the next 256 MiB in small ones
    before = huge()
    with qnnrt.Session(model, threads=1):
        if huge() - before > 24:
            sys.exit("huge")
    if not system_joins(48):
        sys.exit("none")
sys.exit("small")
"""


def test_codes_of_many_matrices_lie_in_huge_pages_though_each_is_smaller(tmp_path: Path) -> None:
    """Where they are neighbours: in a process of its own, without holes that others have left."""
    rng = np.random.default_rng(0)
    g = Graph(17)
    y, n = "x", 1024
    for _ in range(48):
        narrow = rng.integers(0, 256, (n, n // 32, 32), np.uint8)
        inputs = [y, g.const(narrow), g.const(np.full(n * n // 32, 0.01, np.float32))]
        y = g.op("MatMulNBits", inputs, domain=MICROSOFT, K=n, N=n, bits=8, block_size=32)
    path = tmp_path / "blocks.onnx"
    onnx.save(g.proto({"x": (1, n)}, [y]), path)
    said = run_code(HUGE, str(path)).stderr.strip()
    if said == "none":
        pytest.skip("this machine grants no 48 MiB in huge pages at once now (Linux 6.1)")
    assert said == "huge"


def test_encodings_of_many_matrices_are_there_in_c_one_after_the_other() -> None:
    """A pair of scale and offset for each block has a quarter of the codes' bytes."""
    rng = np.random.default_rng(0)
    g = Graph(17)
    y, n, matrices = "x", 1024, 24
    for _ in range(matrices):
        narrow = rng.integers(0, 256, (n, n // 32, 32), np.uint8)
        scales = g.const(rng.uniform(0.01, 0.02, n * n // 32).astype(np.float32))
        inputs = [y, g.const(narrow), scales]
        y = g.op("MatMulNBits", inputs, domain=MICROSOFT, K=n, N=n, bits=8, block_size=32)
    model = importer.load(g.proto({"x": (1, n)}, [y]))
    with Session(model):  # what is imported at the first use
        pass
    pairs = 8 * n * n // 32
    tracemalloc.start()
    try:
        with Session(model):
            assert tracemalloc.get_traced_memory()[1] < 8 * pairs < matrices * pairs
    finally:
        tracemalloc.stop()


def with_zeros(matrices: int, n: int, bits: int) -> onnx.ModelProto:
    g, y = Graph(17), "x"
    for i in range(matrices):
        rng = np.random.default_rng(i)
        scales = g.const(rng.uniform(0.01, 0.02, n * n // 32).astype(np.float32))
        narrow = g.const(codes(n, n // 32, 4 * bits, dtype=np.uint8))
        zeros = g.const(codes(n * n // 32 * bits // 8, dtype=np.uint8))
        inputs = [y, narrow, scales, zeros]
        y = g.op("MatMulNBits", inputs, domain=MICROSOFT, K=n, N=n, bits=bits, block_size=32)
    return g.proto({"x": (1, n)}, [y])


@pytest.mark.parametrize(("bits", "held"), [(4, 1), (8, 2)])
def test_offsets_of_blocks_take_as_few_bytes_as_hold_them(bits: int, held: int) -> None:
    n = 256
    model = importer.load(with_zeros(1, n, bits))
    (q,) = (t.quantization for t in model.tensors.values() if t.quantization is not None)
    assert q.offset.nbytes == held * n * n // 32


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
def test_so_do_those_of_dequantized_blocks_to_the_ends_of_their_type(kind: type) -> None:
    g = Graph(21)
    low, high = (int(end) for end in (ml_dtypes.iinfo(kind).min, ml_dtypes.iinfo(kind).max))
    zeros = np.resize(np.arange(low, high + 1), (16, 256))
    w = g.const(np.resize(np.arange(high, low - 1, -1), (512, 256)).astype(kind))
    scales = g.const(np.full((16, 256), 0.125, np.float32))
    how = {"axis": 0, "block_size": 32}
    real = g.op("DequantizeLinear", [w, scales, g.const(zeros.astype(kind))], **how)
    model = importer.load(g.proto({"x": (1, 512)}, [g.op("MatMul", ["x", real])]))
    (q,) = (t.quantization for t in model.tensors.values() if t.quantization is not None)
    assert np.array_equal(q.offset.T, -zeros)  # by columns, as the product has them
    assert q.offset.itemsize == (1 if -low <= 127 and high <= 128 else 2)
    assert np.asarray(q.scale).itemsize == 4


def test_a_session_that_consumes_a_model_holds_no_encodings_of_blocks() -> None:
    proto = with_zeros(2, 256, 8)
    model, x = importer.load(proto), image(1, 256)
    with Session(importer.load(proto)) as session:
        wanted = next(iter(session.run({"x": x}).values())).copy()
    with Session(model, consume=True) as session:
        assert all(t.quantization is None for t in model.tensors.values())
        assert all(t.quantization is None for t in session.graph.tensors.values())
        assert np.array_equal(next(iter(session.run({"x": x}).values())), wanted)


ENCODED = """
import ctypes, sys
from pathlib import Path
import qnnrt

def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("Anonymous:"))

with qnnrt.Session(sys.argv[1], threads=1):
    before = anonymous()
    ctypes.CDLL(None).malloc_trim(0)
    print(before - anonymous())
"""


@MEASURED
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc says what it keeps")
def test_memory_of_encodings_goes_back_to_the_system_with_finalize(tmp_path: Path) -> None:
    """The C library would keep half of their 20 MiB."""
    path = tmp_path / "blocks.onnx"
    onnx.save(with_zeros(40, 1024, 8), path)
    done = run_code(ENCODED, str(path), PYTHONMALLOC="pymalloc")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1 << 20
