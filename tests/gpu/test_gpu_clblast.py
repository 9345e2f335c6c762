"""Products by CLBlast: what it is asked for, when it is taken, and what a list does with it."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_gpu_ops_matmul as products

import qnnrt
from qnnrt.gpu import tune
from qnnrt.gpu.device import choose
from qnnrt.gpu.ir import Launch
from qnnrt.gpu.ops import clblast, gemm
from qnnrt.gpu.ops.product import Product
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import against_cpu, normal, one_backend  # noqa: F401
from support.gpu.fake_clblast import Fake
from support.gpu.opencl import cl, gpu, on_shared_memory, opencl_is_up  # noqa: F401
from support.one_node import Case, case
from support.waiting import until

pytestmark = pytest.mark.foreign  # OpenCL drivers are


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Installed in the place of pyclblast."""
    module = Fake()
    monkeypatch.setitem(sys.modules, "pyclblast", module)
    monkeypatch.setattr(clblast, "_version", lambda: "")  # of the real one, where that is installed
    return module


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing pyclblast is an ImportError."""
    monkeypatch.setitem(sys.modules, "pyclblast", None)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """It is taken for every product that it is offered for: for each product, whether it was."""
    asked: list[bool] = []
    usual = gemm.variants

    def only(x: Product, target: Target) -> tune.Variants:
        found = usual(x, dataclasses.replace(target, compute_half=True))
        asked.append(tune.CLBLAST in found)
        return {tune.CLBLAST: found[tune.CLBLAST]} if asked[-1] else found

    monkeypatch.setattr(gemm, "variants", only)
    return asked


def layer(rows: int, groups: int, bias: bool, *, then: Any = (), static: bool = True) -> Case:
    """A convolution of single pixels."""
    x, w = normal(1, rows, 3, 8), normal(1, 1, 8 // groups, 12, seed=1)
    ins = [x, w, normal(12, seed=2) if bias else None]
    params: dict[str, Any] = {
        "stride": np.ones(2, np.uint32),
        "pad_amount": np.zeros((2, 2), np.uint32),
        "group": np.uint32(groups),
    }
    at = (1, 2) if static and bias else (1,) if static else ()
    return case("Conv2d", ins, [(1, rows, 3, 12)], params, static=at, then=then)


@pytest.mark.slow
def test_products_of_all_layouts_and_batches(fake: Fake, taken: list[bool]) -> None:
    """Bias, batches that broadcast in any way, turned and constant matrices."""
    against_cpu(*(products.product(seed) for seed in range(20)), terms=70)
    assert taken == [True] * 20
    assert {name for name, _, _ in fake.calls} == {"gemm", "gemmStridedBatched"}
    turned = {(how["a_transp"], how["b_transp"]) for _, _, how in fake.calls}
    assert len(turned) == 4


@pytest.mark.slow
def test_layers(fake: Fake, taken: list[bool]) -> None:
    """Groups write between each other's columns; what is behind a product is done to it."""
    relu = [("Relu", {})]
    w = normal(45, 37)
    full = [
        case("FullyConnected", [normal(rows, 37), w, normal(45)], [(rows, 45)], then=relu)
        for rows in (1, 13)
    ]
    cases = [layer(2, 1, False), layer(1, 4, True, then=relu), layer(2, 2, False, static=False)]
    against_cpu(*full, *cases, case("FullyConnected", [normal(2, 37), w], [(2, 45)]), terms=37)
    assert taken == [True] * 6
    grouped = [how for name, _, how in fake.calls if name == "gemmStridedBatched"]
    steps = [(how["b_ld"], how["b_stride"], how["c_ld"], how["c_stride"]) for how in grouped]
    assert steps == [(12, 3, 3, 9), (12, 6, 12, 6)], "between each other where nothing is behind"


@pytest.mark.slow
def test_sums_behind_a_product_read_their_operand(fake: Fake, taken: list[bool]) -> None:
    """A residual is fused behind it; one kernel does that after the routine."""
    shapes = {"a": (2, 5, 7), "b": (2, 7, 3), "r": (2, 5, 3)}
    tensors = {n: Tensor(n, s, np.dtype(np.float32)) for n, s in shapes.items()}
    for name in "py":
        tensors[name] = Tensor(name, shapes["r"], np.dtype(np.float32))
    nodes = [
        Node("product", "MatMul", ["a", "b"], ["p"]),
        Node("sum", "ElementWiseAdd", ["p", "r"], ["y"]),
    ]
    model = Model("residual", tensors, nodes, list(shapes), ["y"])
    against_cpu(model, terms=7)
    assert taken == [True]
    with qnnrt.Session(model, "gpu") as s:
        steps = json.loads(s.graph.describe())["steps"]
    assert [step["kernel"] for step in steps] == ["clblast.gemm", "combine.combine"]


def test_sixteen_bits_are_for_devices_that_add_them(fake: Fake, taken: list[bool]) -> None:
    """And for products alone: what would be done behind them is done to 32 bits."""
    a, b = normal(5, 8, dtype=np.float16), normal(8, 6, dtype=np.float16)
    bias = normal(6, dtype=np.float16)
    against_cpu(case("MatMul", [a, b], [(5, 6)]), case("MatMul", [a, b, bias], [(5, 6)]), terms=8)
    assert taken == [True, False]
    assert len(fake.calls) == 1


def made(what: Case, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the variants that there are for a case's product."""
    names: list[str] = []
    usual = gemm.variants

    def note(x: Product, target: Target) -> tune.Variants:
        found = usual(x, target)
        names.extend(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gemm, "variants", note)
        with qnnrt.Session(what.model, "gpu"):
            pass
    return names


def square(dtype: Any = np.float32) -> Case:
    return case("MatMul", [normal(4, 4, dtype=dtype), normal(4, 4, dtype=dtype)], [(4, 4)])


def test_it_is_not_offered_where_it_cannot(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(square(), monkeypatch)[-1] == tune.CLBLAST
    assert tune.CLBLAST not in made(square(np.float16), monkeypatch)
    padded = layer(3, 1, False)
    padded.model.nodes[0].params["pad_amount"] = np.ones((2, 2), np.uint32)
    for name, tensor in padded.model.tensors.items():
        if name == "out0":
            tensor.shape = (1, 5, 5, 12)
    assert tune.CLBLAST not in made(padded, monkeypatch)
    many = case("MatMul", [normal(70, 1, 2, 2), normal(2, 2, 2)], [(70, 2, 2, 2)])
    assert tune.CLBLAST not in made(many, monkeypatch)


def test_it_is_not_offered_where_it_is_not_installed(
    absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune.CLBLAST not in made(square(), monkeypatch)


# ---- which variant is taken


def nothing() -> list[Launch]:
    return []


@pytest.mark.parametrize(("microseconds", "expected"), [(9.0, "clblast"), (9.1, "panels")])
def test_it_has_to_be_a_tenth_faster_than_the_best_kernel(
    microseconds: float, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = dict.fromkeys(("tiles", "panels", tune.CLBLAST), nothing)
    times = {"tiles": 11.0, "panels": 10.0, tune.CLBLAST: microseconds}
    monkeypatch.setattr(tune, "measure", lambda device, variants: times)
    target = Target(choose(), tuning=True, tuning_cache=tmp_path)
    assert tune.choose(target, "product", "a", variants) == expected
    monkeypatch.setattr(tune, "measure", None)  # what is known is not measured again
    assert tune.choose(target, "product", "a", variants) == expected
    untuned = dataclasses.replace(target, tuning=False)
    assert tune.choose(untuned, "product", "a", variants) == expected
    # Where it is not installed what is known of it counts for nothing.
    fewer = dict.fromkeys(("tiles", "panels"), nothing)
    assert tune.choose(untuned, "product", "a", fewer) == (
        "tiles" if expected == tune.CLBLAST else "panels"
    )


def test_it_is_taken_where_no_kernel_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "measure", lambda device, variants: {tune.CLBLAST: 7.0})
    target = Target(choose(), tuning=True, tuning_cache=tmp_path)
    variants = dict.fromkeys(("panels", tune.CLBLAST), nothing)
    assert tune.choose(target, "product", "a", variants) == tune.CLBLAST


@pytest.mark.slow
def test_a_session_that_tunes_measures_it_and_keeps_its_name(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The routine is run on the device with memory of the right sizes, once and five times more."""
    monkeypatch.setattr(tune, "_WORTH", float("inf"))
    monkeypatch.setattr(gemm, "variants", few(gemm.variants))
    given = {"gpu": {"tuning": True, "cache_dir": tmp_path}}
    what = case("MatMul", [normal(5, 24), normal(24, 20), normal(20)], [(5, 20)])
    for runs in (7, 1):  # the second session knows
        fake.calls.clear()
        with qnnrt.Session(what.model, "gpu", options=given) as s:
            got = s.run(what.feeds)["out0"]
            s.backend.close()
        assert len(fake.calls) == runs
    a, b, bias = what.feeds.values()
    np.testing.assert_allclose(got, a @ b + bias, rtol=1e-5, atol=1e-5)
    assert '"clblast"' in (tmp_path / tune.FILE).read_text()


def few(usual: Callable[..., Any]) -> Callable[..., tune.Variants]:
    """Of the variants the first and CLBlast's, since every kernel takes its time to build."""

    def variants(x: Product, target: Target) -> tune.Variants:
        found = usual(x, target)
        return {name: found[name] for name in (next(iter(found)), tune.CLBLAST)}

    return variants


@pytest.mark.slow
def test_what_it_refuses_when_it_is_measured_is_left_out(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.fails = "PyCLBlast: 'CLBlastXgemm' failed: no such device"
    monkeypatch.setattr(gemm, "variants", few(gemm.variants))
    given = {"gpu": {"tuning": True, "cache_dir": tmp_path}}
    what = square()
    with qnnrt.Session(what.model, "gpu", options=given) as s:
        np.testing.assert_allclose(
            s.run(what.feeds)["out0"], np.matmul(*what.feeds.values()), rtol=1e-5, atol=1e-5
        )
        s.backend.close()
    assert tune.CLBLAST not in (tmp_path / tune.FILE).read_text()


# ---- in a list


def chain(count: int) -> Model:
    """Products one behind the other, a Softmax before each."""
    shape, f32 = (6, 6), np.dtype(np.float32)
    tensors = {"x": Tensor("x", shape, f32), "w": Tensor("w", shape, f32, normal(6, 6, seed=9))}
    nodes = []
    last = "x"
    for i in range(count):
        for name in (f"s{i}", f"y{i}"):
            tensors[name] = Tensor(name, shape, f32)
        nodes += [
            Node(f"softmax{i}", "Softmax", [last], [f"s{i}"]),
            Node(f"product{i}", "MatMul", [f"s{i}", "w"], [f"y{i}"]),
        ]
        last = f"y{i}"
    return Model("chain", tensors, nodes, ["x"], [last])


def expected(model: Model, x: np.ndarray) -> np.ndarray:
    with qnnrt.Session(model, "cpu", threads=1) as s:
        return s.run({"x": x})[model.outputs[0]]


def own_queue(more: int = 0) -> Any:
    """A client's, with timestamps."""
    properties = cl.command_queue_properties.PROFILING_ENABLE | more
    return cl.CommandQueue(cl.Context([choose().raw]), properties=properties)


def out_of_order_queue() -> Any:
    queue = own_queue(cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    if not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        pytest.skip("the device has no queues without order")
    return queue


@on_shared_memory
@pytest.mark.parametrize("out_of_order", [False, True])
def test_a_list_is_cut_by_several_calls_on_any_queue(
    out_of_order: bool, fake: Fake, taken: list[bool]
) -> None:
    """On the client's queue, in the background, and with profiles, which name every node."""
    queue = out_of_order_queue() if out_of_order else own_queue()
    model, x = chain(3), normal(6, 6)
    y = expected(model, x)
    with qnnrt.Session(model, "gpu", options={"gpu": {"queue": queue}}) as s:
        assert taken == [True] * 3
        s.inputs["x"].array[...] = x
        s.run()
        np.testing.assert_allclose(s.outputs["y2"].array, y, rtol=1e-5, atol=1e-6)
        for future in [s.run_async() for _ in range(5)]:
            future.result()
        s.outputs["y2"].array[...] = 0
        events = s.profile()[-1].events
        nodes = [e for e in events if e.type == 404]
        assert [e.identifier for e in nodes] == [n.name for n in model.nodes]
        assert [e.timestamp for e in nodes] == sorted(e.timestamp for e in nodes)
        np.testing.assert_allclose(s.outputs["y2"].array, y, rtol=1e-5, atol=1e-6)
        assert s.stats.executes == 7
        counts = s.backend.library.gpu_counts(s.graph.handle)
        assert counts["kernels"] == 7 * 6
        assert (counts["writes"], counts["reads"], s.stats.copied_bytes) == (0, 0, 0)
        s.close()
        s.backend.close()
    assert len(fake.calls) == 7 * 3


def test_what_it_raises_in_a_run_names_the_step(fake: Fake, taken: list[bool]) -> None:
    """And the list goes on as ever."""
    model, x = chain(2), normal(6, 6)
    with qnnrt.Session(model, "gpu") as s:
        s.inputs["x"].array[...] = x
        fake.fails = "PyCLBlast: 'CLBlastXgemmStridedBatched' failed: out of it"
        for run in (s.run, lambda: s.run_async().result()):
            with pytest.raises(
                qnnrt.QnnError, match=r"step 1, node 'product0', kernel gemm: .*out of it"
            ) as e:
                run()
            assert e.value.code == 1100
        fake.fails = ""
        s.run()
        np.testing.assert_allclose(s.outputs["y1"].array, expected(model, x), rtol=1e-5, atol=1e-6)


@on_shared_memory
@pytest.mark.parametrize("clients", [False, True])
def test_the_time_of_the_first_step_is_told(clients: bool, fake: Fake, taken: list[bool]) -> None:
    """From before it starts: only the commands behind it have timestamps."""
    given = {"gpu": {"queue": out_of_order_queue()}} if clients else None
    with qnnrt.Session(square().model, "gpu", options=given) as s:
        s.run()
        fake.seconds = 0.005
        events = s.profile()[-1].events
        if clients:
            s.close()
            s.backend.close()
    assert [(e.type, e.identifier) for e in events[2:]] == [(404, "node")]
    assert events[2].value >= 4000
    assert taken == [True]


def test_events_go_with_their_runs(
    fake: Fake, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of which pyclblast keeps a reference, which would keep the queue."""
    monkeypatch.setattr(clblast, "_version", lambda: "1.4.0")
    fake.keeps = True
    references = cl.command_queue_info.REFERENCE_COUNT
    with qnnrt.Session(square().model, "gpu") as s:
        queue = s.backend.library.cl_queue
        s.run()
        before = queue.get_info(references)
        for _ in range(30):
            s.run()
        # A driver lets go of some a little later.
        assert until(lambda: queue.get_info(references) < before + 30)


# ---- the real one


@pytest.mark.slow
def test_the_real_one_computes_as_the_kernels_do(taken: list[bool]) -> None:
    pytest.importorskip("pyclblast", reason="pyclblast is not installed")
    relu = [("Relu", {})]
    cases = [layer(1, 4, True, then=relu)]
    if choose().kind != "cpu":  # whose drivers build CLBlast's other kernels for minutes
        cases += [products.product(seed) for seed in range(10)]
        large = [normal(2, 130, 70), normal(70, 90), normal(90)]
        cases.append(case("MatMul", large, [(2, 130, 90)]))
    against_cpu(*cases, terms=70)
    assert taken == [True] * len(cases)
