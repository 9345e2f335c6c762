"""Floats between nodes in 16 bits: results near those of 32, half the memory, the same inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.cli._network import mobilenet_v2
from qnnrt.errors import QnnError
from qnnrt.model import Model, Node, Quantization, Tensor
from support.binaries import feeds
from support.outside import PATHS, run_script
from support.toy import add_model, conv_model
from support.vendor import vendor_library

F32 = np.dtype(np.float32)
OWN = pytest.mark.parametrize("backend", ["cpu", "htp"])
#: Half a unit in the last place.
PRECISIONS = {"bfloat16": 2**-9, "float16": 2**-12}


def describe(s: qnnrt.Session) -> dict[str, Any]:
    return json.loads(s.graph.describe() or "")


def distance(got: np.ndarray, wanted: np.ndarray) -> float:
    """Root mean square, relative."""
    return float(np.sqrt(np.mean((got - wanted) ** 2) / np.mean(wanted**2)))


def chain(*nodes: Node, **tensors: Any) -> Model:
    """A model of float tensors: shapes, or the values of constants; inputs begin with x, outputs
    with y."""
    model = Model("chain", nodes=list(nodes))
    for name, value in tensors.items():
        data = value if isinstance(value, np.ndarray) else None
        shape = value if data is None else data.shape
        model.tensors[name] = Tensor(name, tuple(shape), F32 if data is None else data.dtype, data)
        if name[0] in "xy":
            (model.inputs if name[0] == "x" else model.outputs).append(name)
    return model


def run(model: Model, given: Mapping[str, Any], precision: str, **options: Any) -> np.ndarray:
    with qnnrt.Session(model, precision=precision, options=options) as s:
        return np.array(next(iter(s.run(given).values())))


def deep(width: int = 32, depth: int = 12, seed: int = 5) -> Model:
    """Convolutions with residual sums, whose results keep their size, and one behind them."""
    rng = np.random.default_rng(seed)
    nodes, tensors = [], {"x": (1, 24, 24, width)}
    last = "x"
    pads = {
        "stride": np.array([1, 1], np.uint32),
        "pad_amount": np.array([[1, 1], [1, 1]], np.uint32),
    }
    for i in range(depth + 1):
        weights = rng.standard_normal((3, 3, width, width)) * np.sqrt(1 / (9 * width))
        tensors |= {f"w{i}": weights.astype(np.float32)}
        tensors |= {f"b{i}": rng.standard_normal(width).astype(np.float32) * 0.1}
        if i == depth:  # what no product follows would stay FLOAT_32
            nodes.append(Node("last", "Conv2d", [last, f"w{i}", f"b{i}"], ["y"], pads))
            break
        tensors |= dict.fromkeys((f"c{i}", f"r{i}", f"s{i}"), (1, 24, 24, width))
        nodes.append(Node(f"conv{i}", "Conv2d", [last, f"w{i}", f"b{i}"], [f"c{i}"], pads))
        nodes.append(Node(f"act{i}", "Tanh", [f"c{i}"], [f"r{i}"], {}))
        nodes.append(Node(f"sum{i}", "ElementWiseAdd", [f"r{i}", last], [f"s{i}"], {}))
        last = f"s{i}"
    tensors["y"] = tensors["x"]
    return chain(*nodes, **tensors)


@OWN
@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_results_are_as_near_as_16_bits_allow(backend: str, kernels: str, precision: str) -> None:
    model = deep()
    options = {"kernels": kernels}
    with qnnrt.Session(model, backend, options=options) as s:
        given = feeds(s, 3)
        wanted = s.run(given)
        wide = describe(s)["arena"]
        assert s.precision == "float32"
    with qnnrt.Session(model, backend, precision=precision, options=options) as s:
        got = s.run(given)
        described = describe(s)
        assert s.precision == precision
    for name, values in wanted.items():
        assert got[name].dtype == values.dtype
        assert 0 < distance(got[name], values) < 8 * PRECISIONS[precision]
    assert any(p["name"].startswith("store floats as") for p in described["passes"])
    largest = [
        max(i["size"] for i in arena["items"] if i["kind"] == "tensor")
        for arena in (described["arena"], wide)
    ]
    assert largest == [24 * 24 * 32 * 2, 24 * 24 * 32 * 4]


@OWN
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_binary_keeps_its_precision(backend: str, precision: str, tmp_path: Path) -> None:
    with qnnrt.Session(mobilenet_v2(64, 16), backend, precision=precision) as s:
        given = feeds(s, 3)
        wanted = {k: v.tobytes() for k, v in s.run(given).items()}
        s.save_binary(tmp_path / "x.bin")
    with qnnrt.Session(tmp_path / "x.bin", backend) as s:
        assert {k: v.tobytes() for k, v in s.run(given).items()} == wanted
        assert s.precision == precision
    with pytest.raises(ValueError, match=r"were chosen when .*x\.bin was made"):
        qnnrt.Session(tmp_path / "x.bin", backend, precision="float32")


def test_float32_stays_the_default() -> None:
    for model in (conv_model(), add_model()):
        with qnnrt.Session(model) as s, qnnrt.Session(model, precision="float32") as t:
            given = feeds(s, 1)
            for name, values in s.run(given).items():
                assert values.tobytes() == t.run(given)[name].tobytes()
            assert s.precision == t.precision == "float32"


def test_fastest_is_bfloat16_or_float32_and_says_which() -> None:
    with qnnrt.Session(deep(depth=2), precision="fastest") as s:
        given = feeds(s, 1)
        assert s.precision in ("bfloat16", "float32")
        with qnnrt.Session(deep(depth=2), precision=s.precision) as t:
            assert s.run(given)["y"].tobytes() == t.run(given)["y"].tobytes()


# ---- what stays in float32


def angles() -> Model:
    """sin(position * frequency), as position encodings have it, behind a product."""
    frequency = (10000.0 ** (-np.arange(16) / 16)).astype(np.float32)
    nodes = [
        Node("scale", "ElementWiseMultiply", ["x", "f"], ["a"], {}),
        Node("move", "Reshape", ["a"], ["b"], {}),
        Node("sin", "ElementWiseSin", ["b"], ["s"], {}),
        Node("last", "ElementWiseMultiply", ["s", "two"], ["y"], {}),
    ]
    two = np.full(1, 2, np.float32)
    return chain(
        *nodes, x=(64, 1), f=frequency, a=(64, 16), b=(1024,), s=(1024,), two=two, y=(1024,)
    )


def test_angles_are_not_rounded() -> None:
    positions = np.arange(1000, 1064, dtype=np.float32).reshape(64, 1)
    given = {"x": positions}
    wanted, got = (run(angles(), given, p) for p in ("float32", "bfloat16"))
    assert 0 < np.abs(got - wanted).max() <= 2 * 2**-8


@pytest.mark.parametrize("kind", ["ReduceSumSquare", "ReduceMax", "CumulativeSum"])
def test_what_an_angle_is_made_of_is_not_rounded(kind: str) -> None:
    """Divided by a length, and summed along the way."""
    summed = kind == "CumulativeSum"
    params = (
        {"axis": np.uint32(1)}
        if summed
        else {"axes": np.array([1], np.uint32), "keep_dims": np.True_}
    )
    nodes = [
        Node("shift", "ElementWiseAdd", ["x", "k"], ["a"], {}),
        Node("sum", kind, ["a"], ["l"], params),
        Node("part", "ElementWiseDivide", ["x", "l"], ["d"], {}),
        Node("scale", "ElementWiseMultiply", ["d", "f"], ["e"], {}),
        Node("sin", "ElementWiseSin", ["e"], ["s"], {}),
        Node("last", "ElementWiseMultiply", ["s", "two"], ["y"], {}),
    ]
    two, k, f = (np.full(1, v, np.float32) for v in (2, 0.1234567, 512))
    length = (64, 3) if summed else (64, 1)
    shapes = {"x": (64, 3), "a": (64, 3), "l": length, "d": (64, 3), "e": (64, 3), "s": (64, 3)}
    model = chain(*nodes, k=k, f=f, two=two, y=(64, 3), **shapes)
    given = {"x": np.random.default_rng(0).uniform(1, 2, (64, 3)).astype(np.float32)}
    wanted, got = (run(model, given, p) for p in ("float32", "bfloat16"))
    assert 0 < np.abs(got - wanted).max() <= 2 * 2**-8


def test_the_angles_of_a_normalized_vector_are_not_rounded() -> None:
    nodes = [
        Node("shift", "ElementWiseAdd", ["x", "k"], ["a"], {}),
        Node("norm", "L2Norm", ["a"], ["d"], {"axis": np.uint32(1)}),
        Node("scale", "ElementWiseMultiply", ["d", "f"], ["e"], {}),
        Node("sin", "ElementWiseSin", ["e"], ["s"], {}),
        Node("last", "ElementWiseMultiply", ["s", "two"], ["y"], {}),
    ]
    two, k, f = (np.full(1, v, np.float32) for v in (2, 0.1234567, 512))
    shapes = dict.fromkeys(("x", "a", "d", "e", "s", "y"), (64, 3))
    model = chain(*nodes, k=k, f=f, two=two, **shapes)
    given = {"x": np.random.default_rng(0).uniform(1, 2, (64, 3)).astype(np.float32)}
    wanted, got = (run(model, given, p) for p in ("float32", "bfloat16"))
    assert 0 < np.abs(got - wanted).max() <= 2 * 2**-8


def test_decisions_are_made_on_exact_values() -> None:
    # 1 and 1 + 2**-10 are one number in 16 bits.
    nodes = [
        Node("scale", "ElementWiseMultiply", ["x", "two"], ["a"], {}),
        Node("first", "Argmax", ["a"], ["y"], {"axis": np.uint32(0)}),
    ]
    model = chain(*nodes, x=(4,), two=np.full(1, 2, np.float32), a=(4,), y=np.zeros((), np.int32))
    model.tensors["y"].data = None
    given = {"x": np.array([1, 1, 1 + 2**-10, 1], np.float32)}
    assert run(model, given, "bfloat16") == 2


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("followed", [False, True])
def test_sums_that_no_product_follows_are_not_rounded(followed: bool, kernels: str) -> None:
    # Rounding numbers near 256 to 8 bits takes up to 1 away.
    rng = np.random.default_rng(8)
    shape, identity = (1, 16, 32), np.eye(32, dtype=np.float32)
    w = (rng.integers(-8, 9, (32, 32)) / 64).astype(np.float32)
    nodes = [
        Node("product", "MatMul", ["x", "w"], ["p"], {}),
        Node("stream", "ElementWiseAdd", ["p", "x2"], ["s"], {}),
        Node("abs", "ElementWiseAbs", ["s"], ["t"], {}),
        Node("again", "MatMul", ["t", "one"], ["u"], {}),
        Node("back", "ElementWiseSubtract", ["u" if followed else "t", "x2"], ["y"], {}),
    ]
    if not followed:
        del nodes[3]
    between = dict.fromkeys("pstu" if followed else "pst", shape)
    more = {"one": identity} if followed else {}
    model = chain(*nodes, x=shape, x2=shape, w=w, y=shape, **between, **more)
    given = {
        "x": (rng.integers(-8, 9, shape) / 8).astype(np.float32),  # few bits: products are exact
        "x2": (256 + rng.integers(0, 9, shape) / 8).astype(np.float32),
    }
    error = np.abs(run(model, given, "bfloat16", kernels=kernels) - given["x"] @ w).max()
    assert 0.25 < error <= 2 if followed else error == 0


def test_nodes_that_are_kept_compute_in_float32() -> None:
    model = deep(depth=3)
    with qnnrt.Session(model) as s:
        given = feeds(s, 3)
        wanted = np.array(s.run(given)["y"])
    every = [n.name for n in model.nodes]
    assert run(model, given, "bfloat16", float32_nodes=every).tobytes() == wanted.tobytes()
    assert run(model, given, "float16", float32_nodes=every).tobytes() == wanted.tobytes()
    some = distance(run(model, given, "bfloat16", float32_nodes=every[3:]), wanted)
    none = distance(run(model, given, "bfloat16"), wanted)
    assert 0 < some < none
    with pytest.raises(QnnError, match=r"no node 'conv7' to keep in FLOAT_32"):
        run(model, given, "bfloat16", float32_nodes=["conv7"])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("op", ["Conv2d", "ReluMinMax", "ElementWiseAdd", "DepthWiseConv2d"])
def test_any_node_alone_may_be_kept_whatever_is_fused_into_it(op: str, precision: str) -> None:
    model = mobilenet_v2(32, 16)
    with qnnrt.Session(model) as s:
        given = feeds(s, 3)
        wanted = np.array(next(iter(s.run(given).values())))
    names = [n.name for n in model.nodes if n.type == op]
    assert len(names) > 5
    for name in names[:: len(names) // 4]:
        assert distance(run(model, given, precision, float32_nodes=[name]), wanted) < 0.1


# ---- half precision is a device's


def test_float16_overflows_where_a_device_does() -> None:
    square = chain(Node("n", "ElementWiseMultiply", ["x", "x"], ["y"], {}), x=(5,), y=(5,))
    given = {"x": np.array([255, -255.9, 256, 1e5, 1e-9], np.float32)}
    got = run(square, given, "float16")
    assert got.tolist() == [65024.0, 65472.0, np.inf, np.inf, 0.0]
    got = run(square, given, "bfloat16")
    assert np.isfinite(got).all()


def test_htps_own_option_is_half_precision() -> None:
    from support.htp.half import FLOAT16

    model = deep(depth=2)
    with qnnrt.Session(model, "htp") as s:
        given = feeds(s, 3)
    with (
        qnnrt.Session(model, "htp", options={"graph_config": [FLOAT16]}) as s,
        qnnrt.Session(model, "htp", precision="float16") as t,
    ):
        assert s.precision == "float16"
        assert s.run(given)["y"].tobytes() == t.run(given)["y"].tobytes()


# ---- shapes of graphs


def test_tensors_at_the_borders_keep_their_type() -> None:
    """Inputs and outputs that are moved, added, read inside and given out."""
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((16, 16)) / 4).astype(np.float32)
    nodes = [
        Node("flat", "Reshape", ["x"], ["a"], {}),
        Node("p", "FullyConnected", ["a", "w"], ["b"], {}),
        Node("sum", "ElementWiseAdd", ["b", "a"], ["y0"], {}),
        Node("q", "FullyConnected", ["y0", "w"], ["c"], {}),
        Node("join", "Concat", ["c", "y0"], ["y1"], {"axis": np.uint32(1)}),
        Node("turn", "Transpose", ["c"], ["y2"], {"perm": np.array([1, 0], np.uint32)}),
        Node("view", "Reshape", ["y0"], ["y3"], {}),
    ]
    model = chain(
        *nodes, x=(4, 2, 8), a=(4 * 1, 16), w=w, b=(4, 16), y0=(4, 16), c=(4, 16), y1=(4, 32),
        y2=(16, 4), y3=(64,),
    )  # fmt: skip
    with qnnrt.Session(model) as s:
        given = feeds(s, 1)
        wanted = {n: np.array(v) for n, v in s.run(given).items()}
    for precision, unit in PRECISIONS.items():
        for kernels in ("auto", "portable"):
            with qnnrt.Session(model, precision=precision, options={"kernels": kernels}) as s:
                for name, values in s.run(given).items():
                    assert values.dtype == np.float32
                    assert distance(values, wanted[name]) < 4 * unit, (precision, kernels, name)


# ---- what is refused


def test_a_precision_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="precision must be one of float32, float16, bfloat16"):
        qnnrt.Session(conv_model(), precision="int4")


def test_a_backend_without_the_option_says_so() -> None:
    convert = Node("n", "Convert", ["x"], ["y"], {})
    model = chain(convert, x=np.zeros(4, np.uint8), y=np.zeros(4, np.uint8))
    for t in model.tensors.values():
        t.data, t.quantization = None, Quantization(0.5, -3)
    with pytest.raises(QnnError, match="PRECISION"):
        qnnrt.Session(model, "lpai", precision="bfloat16")


@pytest.mark.foreign
def test_an_htp_library_of_others_is_asked_in_its_own_words() -> None:
    library = vendor_library("libQnnHtp.so")
    with qnnrt.Session(conv_model(), library, io="raw", precision="float16") as s:
        assert np.isfinite(s.run(feeds(s, 1))["y"]).all()
        assert s.precision is None  # it does not say
    with pytest.raises(ValueError, match=r"an HTP library takes precision 'float32' and 'float16'"):
        qnnrt.Session(conv_model(), library, precision="bfloat16")


# ---- other processors


SCRIPT = """
import sys
import numpy as np
import qnnrt
from session.test_precision import deep
from support.binaries import feeds

folder, *precisions = sys.argv[1:]
for precision in precisions:
    with qnnrt.Session(deep(), threads=2, precision=precision) as s:
        np.save(f"{folder}/{precision}.npy", s.run(feeds(s, 3))["y"])
"""


@pytest.mark.parametrize("onednn", ["AVX2", "AVX512_CORE", "ALL"])
@pytest.mark.parametrize("ours", ["base", "avx2", "avx512"])
def test_every_instruction_set_gives_results_within_the_same_error(
    onednn: str, ours: str, tmp_path: Path
) -> None:
    sets = {"QNNRT_ISA": ours, "ONEDNN_MAX_CPU_ISA": onednn, "PYTHONPATH": PATHS}
    ran = run_script("-c", SCRIPT, tmp_path, "float32", *PRECISIONS, **sets)
    assert ran.returncode == 0, ran.stderr
    wanted = np.load(tmp_path / "float32.npy")
    for precision, unit in PRECISIONS.items():
        assert distance(np.load(tmp_path / f"{precision}.npy"), wanted) < 8 * unit
