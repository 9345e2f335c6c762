"""One row, and a chunk of rows, times weights that no core's cache holds, in graphs whose weights
stay in caches and others: in FLOAT_32, BFLOAT_16 and FLOAT_16."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from session.test_precision import chain
from session.test_precision_kernels import numbers, rounded

from qnnrt import Session, _core
from qnnrt.model import Node, Tensor
from qnnrt.qnn import shared_weights
from support import reference
from support.one_node import Case, case, u32
from support.processor import HAS_TILES

DEPTH = 1500
ON_TILES = pytest.mark.skipif(not HAS_TILES, reason="sums as of matrix tiles")
#: Of a table beside a product: no cache keeps so many weights for the next run.
TABLE = np.zeros((9 << 20) // 4096 * 1024, np.int32).reshape(-1, 1024)


def beside_a_table(made: Case) -> Case:
    model = made.model
    for tensor in (
        Tensor("table", TABLE.shape, TABLE.dtype, TABLE),
        Tensor("ids", (1,), np.dtype(np.int32)),
        Tensor("line", (1, TABLE.shape[1]), TABLE.dtype),
    ):
        model.tensors[tensor.name] = tensor
    model.nodes.append(Node("gather", "Gather", ["table", "ids"], ["line"], {"axis": np.int32(0)}))
    model.inputs.append("ids")
    model.outputs.append("line")
    return Case(model, {**made.feeds, "ids": np.zeros(1, np.int32)})


def model(
    columns: int, bias: bool, rank: int, across: bool, rows: int = 1, depth: int = DEPTH
) -> tuple:
    rng = np.random.default_rng(columns)
    w = rng.standard_normal((depth, columns) if across else (columns, depth), np.float32)
    x = rng.standard_normal((*[1] * (rank - 2), rows, depth), np.float32)
    row = [rng.standard_normal(columns, np.float32)] if bias else []
    params = {"transpose_in0": False, "transpose_in1": not across}
    out = (*[1] * (rank - 2), rows, columns)
    then = [("Relu", {})] if bias else []
    return case("MatMul", [x, w, *row], [out], params, static=(1, 2), then=then), x, w, row


NARROW = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


@pytest.mark.parametrize("precision", ["float32", *NARROW])
@pytest.mark.parametrize(
    ("columns", "rank", "across"), [(1500, 2, False), (1427, 3, True), (1003, 2, False)]
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cached", [True, False])
def test_it_is_the_sum_of_products(
    precision: str, columns: int, rank: int, across: bool, bias: bool, threads: int, cached: bool
) -> None:
    made, x, w, row = model(columns, bias, rank, across)
    made = made if cached else beside_a_table(made)
    if precision in NARROW:
        x, w = (v.astype(NARROW[precision]) for v in (x, w))
    x, w = x.astype(np.float64), w.astype(np.float64)
    wanted = x @ (w if across else w.T) + (row[0] if bias else 0)
    wanted = np.maximum(wanted, 0) if bias else wanted
    with Session(made.model, precision=precision, threads=threads) as session:
        got, *_ = session.run(made.feeds).values()
        steps = json.loads(session.graph.describe() or "")["steps"]
    (product,) = [s for s in steps if s["op"] == "MatMul"]
    assert product["kernel"] == "portable"  # the fast library is slower there
    room = 2e-5 * np.abs(x).sum()
    if precision == "float16":  # in which the bias and the result are stored
        room = room + 2**-10 * np.abs(wanted)
    assert (np.abs(got - wanted) <= room).all()


#: Rows of registers and of matrix tiles, whole and with some left over; as many of depth, and odd;
#: columns that go by blocks of rows in groups, the last one smaller.
CHUNKS = [
    (2, 1500),
    (3, 1500),
    (12, 1024),
    (13, 577),
    (16, 1056),
    (17, 1030),
    (47, 1030),
    (64, 577),
    (70, 384),
    (128, 1040),
]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "depth"), CHUNKS)
@pytest.mark.parametrize(("columns", "across"), [(1024, False), (1003, True), (515, False)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cached", [True, False])
def test_a_chunk_of_rows_reads_the_same_weights(
    precision: str, rows: int, depth: int, columns: int, across: bool, bias: bool, cached: bool
) -> None:
    made, x, w, row = model(columns, bias, 2, across, rows, depth)
    made = made if cached else beside_a_table(made)
    if precision == "bfloat16":
        x, w = (v.astype(ml_dtypes.bfloat16) for v in (x, w))
    x, w = x.astype(np.float64), w.astype(np.float64)
    wanted = x @ (w if across else w.T) + (row[0] if bias else 0)
    wanted = np.maximum(wanted, 0) if bias else wanted
    with Session(made.model, precision=precision, threads=2) as session:
        got, *_ = session.run(made.feeds).values()
    room = np.abs(x) @ np.abs(w if across else w.T) + 1
    assert np.abs((got - wanted) / room).max() <= 2e-6


@pytest.mark.parametrize(("rows", "depth"), CHUNKS)
@pytest.mark.parametrize("columns", [1024, 1003])
@pytest.mark.parametrize("bias", [False, True])
def test_what_follows_a_chunk_is_done_to_its_blocks(
    rows: int, depth: int, columns: int, bias: bool
) -> None:
    x, z, b = numbers(1, rows, depth), numbers(2, rows, columns), numbers(3, columns)
    w, v = numbers(4, columns, depth) / 32, numbers(5, 8, columns)
    model = chain(
        Node("one", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("two", "ElementWiseNeg", ["x2"], ["r"], {}),
        Node("product", "FullyConnected", ["a", "w"] + ["b"] * bias, ["c"], {}),
        Node("sum", "ElementWiseAdd", ["c", "r"], ["s"], {}),
        Node("gelu", "Gelu", ["s"], ["g"], {}),
        Node("next", "FullyConnected", ["g", "v"], ["y"], {}),
        x=x.shape, x2=z.shape, a=x.shape, r=z.shape, w=w, v=v, c=z.shape, s=z.shape, g=z.shape,
        y=(rows, 8), **({"b": b} if bias else {}),
    )  # fmt: skip
    with Session(model, precision="bfloat16", threads=2) as session:
        (got,) = session.run({"x": x, "x2": z}).values()
        steps = json.loads(session.graph.describe() or "")["steps"]
    assert [s["op"] for s in steps].count("FullyConnected") == len(steps) - 2
    x, z, w, v = (rounded(t).astype(np.float64) for t in (x, z, w, v))
    g = reference.of("Gelu", [-x @ w.T + b * bias - z], {})
    room = 2**-8 * (np.abs(g) @ np.abs(v.T)) + 1e-3
    assert np.abs((got - g @ v.T) / room).max() <= 1


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("cached", [True, False])
def test_a_graph_gives_the_same_by_any_threads_and_out_of_a_binary(
    rows: int, cached: bool, tmp_path: Path
) -> None:
    made, *_ = model(1003, True, 2, False, rows)
    made = made if cached else beside_a_table(made)
    with Session(made.model, precision="bfloat16", threads=1) as session:
        wanted, *_ = session.run(made.feeds).values()
        session.save_binary(tmp_path / "net.bin")
    with Session(made.model, precision="bfloat16", threads=2) as session:
        got, *_ = session.run(made.feeds).values()
        assert np.array_equal(got, wanted)
    with Session(tmp_path / "net.bin", threads=3) as session:
        got, *_ = session.run(made.feeds).values()
        assert np.array_equal(got, wanted)


@ON_TILES
@pytest.mark.parametrize(("columns", "depth"), [(1003, 300), (1003, 1100), (700, 1501), (350, 33)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_alone_has_the_sums_that_it_has_among_others(
    columns: int, depth: int, threads: int
) -> None:
    some, *_ = model(columns, False, 2, False, 3, depth)
    one, *_ = model(columns, False, 2, False, 1, depth)
    for scale in (1, 2e-38):  # what is denormal, too
        feeds = {name: x * np.float32(scale) for name, x in some.feeds.items()}
        with Session(some.model, precision="bfloat16", threads=threads) as session:
            wanted, *_ = session.run(feeds).values()
        with Session(one.model, precision="bfloat16", threads=threads) as session:
            got, *_ = session.run({name: x[:1] for name, x in feeds.items()}).values()
        assert np.array_equal(got[0], wanted[0])


@ON_TILES
@pytest.mark.skipif(
    not _core.kernel_library().startswith("oneDNN"),
    reason="oneDNN is not installed: pip install onednn-cpu-gomp",
)
@pytest.mark.parametrize(("rows", "depth"), [(128, 992), (20, 1000)])
@pytest.mark.parametrize("cached", [True, False])
def test_weights_are_fetched_ahead_where_no_cache_keeps_them(
    rows: int, depth: int, cached: bool
) -> None:
    made, *_ = model(1000, False, 2, False, rows, depth)
    made = made if cached else beside_a_table(made)
    with Session(made.model, precision="bfloat16") as session:
        steps = json.loads(session.graph.describe() or "")["steps"]
    (product,) = [s for s in steps if s["op"] == "MatMul"]
    assert product["kernel"].startswith("onednn" if cached else "portable")


@pytest.mark.parametrize("precision", NARROW)
def test_a_row_and_a_chunk_hold_their_weights_once(precision: str) -> None:
    one, *_ = model(1024, False, 2, False)
    many, *_ = model(1024, False, 2, False, 128)
    with Session(one.model, precision=precision):
        before = shared_weights()
        with Session(many.model, precision=precision):
            assert shared_weights().nbytes == before.nbytes > 0


#: Spatial dims, channels and outputs: of one to three dims, some images, odd numbers.
PIXELS = [
    ((2, 7, 7), 512, 515), ((1, 1, 2), 384, 512), ((1, 11), 1027, 192), ((3, 40), 640, 320),
    ((1, 2, 4, 5), 768, 300), ((128, 1, 1), 301, 659),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "channels", "outputs"), PIXELS)
@pytest.mark.parametrize("bias", [False, True])
def test_few_pixels_are_a_chunk_of_rows_to_many_weights(
    shape: tuple[int, ...], channels: int, outputs: int, bias: bool, tmp_path: Path
) -> None:
    rank = len(shape) - 1
    op, out = f"Conv{rank}d", (*shape, outputs)
    x, z, b = numbers(1, *shape, channels), numbers(2, *out), numbers(3, outputs)
    w, v = numbers(4, *[1] * rank, channels, outputs) / 32, numbers(5, 8, outputs)
    one, none = u32(*[1] * rank), np.zeros((rank, 2), np.uint32)
    params: dict[str, object] = {"stride": one, "pad_amount": none}
    if rank == 1:
        params = {"stride": np.uint32(1), "pad_amount": none[0]}
    model = chain(
        Node("one", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("two", "ElementWiseNeg", ["x2"], ["r"], {}),
        Node("product", op, ["a", "w"] + ["b"] * bias, ["c"], params),
        Node("sum", "ElementWiseAdd", ["c", "r"], ["s"], {}),
        Node("relu", "Relu", ["s"], ["g"], {}),
        Node("next", "FullyConnected", ["g", "v"], ["y"], {}),
        x=x.shape, x2=z.shape, a=x.shape, r=z.shape, w=w, v=v, c=out, s=out, g=out,
        y=(int(np.prod(shape)), 8), **({"b": b} if bias else {}),
    )  # fmt: skip
    feeds, found = {"x": x, "x2": z}, []
    for threads in (1, 3):
        with Session(model, precision="bfloat16", threads=threads) as session:
            found.append(next(iter(session.run(feeds).values())))
            steps = json.loads(session.graph.describe() or "")["steps"]
            session.save_binary(tmp_path / "net.bin")
    with Session(tmp_path / "net.bin", threads=2) as session:
        found.append(next(iter(session.run(feeds).values())))
    (product,) = [s for s in steps if s["op"] == op]
    assert product["kernel"] == "portable" or not HAS_TILES
    # What follows is done to its blocks.
    assert [s["op"] for s in steps].count(op) == len(steps) - 3
    x, z, w, v = (rounded(t).astype(np.float64) for t in (x, z, w, v))
    g = np.maximum(-x @ w.reshape(channels, outputs) + b * bias - z, 0).reshape(-1, outputs)
    room = 2**-8 * (g @ np.abs(v.T)) + 1e-3
    assert np.abs((found[0] - g @ v.T) / room).max() <= 1
    assert all(np.array_equal(found[0], other) for other in found)
