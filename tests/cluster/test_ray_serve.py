"""A deployment of Ray Serve: batches, reload, health, metrics, and what is wrong with a request."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from support.toy import add_model, relu_model

ray = pytest.importorskip("ray", reason="Ray is not installed")

from ray import serve  # noqa: E402

import qnnrt.ray as qr  # noqa: E402
from qnnrt.ray.rows import BatchSession  # noqa: E402
from qnnrt.ray.serve import _Replica  # noqa: E402

# Ray tells itself of what is deprecated.
pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
ROW = np.arange(-4, 4, dtype=np.float32).reshape(1, 8)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("serve")
    found = {}
    for name, model in {"relu": relu_model((4, 8)), "add": add_model((2, 8))}.items():
        found[name] = folder / f"{name}.bin"
        with qnnrt.Session(model, "htp") as session:
            session.save_binary(found[name])
    return found


def free_port() -> int:
    """None of those that the kernel gives to whoever asks for any, as Ray's processes do."""
    for port in range(20000, 32000):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture(scope="module")
def port(cluster: None) -> Iterator[int]:
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("api", "client"):  # a busy machine starts a proxy for longer than a minute
            patch.setattr(f"ray.serve._private.{name}.HTTP_PROXY_TIMEOUT", 600, raising=False)
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        yield port
        serve.shutdown()


def application(binaries: dict[str, Path], **options: Any) -> serve.Application:
    return qr.deployment(
        *(binaries["relu"], "htp"),
        ray_actor_options={"num_cpus": 0},
        **options,
    )


def post(port: int, body: bytes) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", body, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def npz(**arrays: np.ndarray) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def test_a_deployment_answers_and_loads_another_model(port: int, binaries: dict[str, Path]) -> None:
    patient = application(binaries, user_config={"batch_wait_s": 300})
    handle = serve.run(patient, name="toy", route_prefix="/")
    answers = [handle.remote({"x": ROW + i}) for i in range(8)]
    for i, answer in enumerate(answers):
        np.testing.assert_array_equal(answer.result()["y"], np.maximum(ROW + i, 0))
    stats = handle.stats.remote().result()
    assert stats["rows"] == 4
    assert stats["executes"] == 2  # they waited for each other
    assert stats["copied_bytes"] == 8 * 2 * ROW.nbytes

    again = application(binaries, user_config={"model": str(binaries["add"]), "batch_wait_s": 0})
    handle = serve.run(again, name="toy", route_prefix="/")
    answer = handle.remote({"a": ROW, "b": ROW}).result()
    np.testing.assert_array_equal(answer["w"], ROW + ROW)
    shared = qnnrt.alloc_array((9, 8))  # more rows than the model has
    shared[:] = ROW
    answer = handle.remote({"a": qr.share(shared), "b": qr.share(shared)}).result()["w"]
    np.testing.assert_array_equal(answer, shared + shared)

    compressed = io.BytesIO()
    zeros = np.zeros((1 << 10, 8), np.float32)
    np.savez_compressed(compressed, a=zeros, b=zeros)
    status, body = post(port, npz(a=ROW, b=ROW))
    assert status == 200
    np.testing.assert_array_equal(np.load(io.BytesIO(body))["w"], ROW + ROW)
    for wrong, said in {
        b"no file": b"expected an .npz file",
        npz(q=ROW): b"expected the inputs",
        npz(a=ROW, b=ROW.astype(int)): b"needs rows of float32[8]",
        npz(a=ROW[0, 0], b=ROW): b"a single number",
        compressed.getvalue(): b"are compressed",
        npz(a=ROW, b=np.array([None])): b"allow_pickle",
    }.items():
        status, body = post(port, wrong)
        assert status == 400
        assert said in body


# ---- the replica itself, without Serve's queue


@pytest.fixture
def replica(binaries: dict[str, Path]) -> Iterator[_Replica]:
    made = _Replica(str(binaries["relu"]), "htp", 0.05, {})
    yield made
    assert made._batches is not None
    made._batches.close()
    made._batches = None  # Serve keeps the replica


def answers(replica: _Replica, *requests: np.ndarray) -> list[Any]:
    assert replica._batches is not None
    return replica._run(replica._batches, [{"x": rows} for rows in requests])


def test_a_batch_answers_each_request_with_its_rows(replica: _Replica, cluster: None) -> None:
    asyncio.run(replica.reconfigure(None))
    requests = [np.repeat(ROW + i, i, 0) for i in range(1, 4)]
    for rows, answer in zip(requests, answers(replica, *requests), strict=True):
        np.testing.assert_array_equal(answer["y"], np.maximum(rows, 0))
    assert asyncio.run(replica.stats())["executes"] == 2  # six rows, four at a time


def test_a_request_for_an_earlier_model_fails_alone(replica: _Replica, cluster: None) -> None:
    asyncio.run(replica.reconfigure(None))
    assert replica._batches is not None
    requests = [{"x": ROW}, {"a": ROW, "b": ROW}, {"x": ROW[:, :4]}, {"x": ROW + 1}]
    first, *wrong, last = replica._run(replica._batches, requests)
    np.testing.assert_array_equal(first["y"], np.maximum(ROW, 0))
    assert [type(answer) for answer in wrong] == [ValueError, ValueError]
    np.testing.assert_array_equal(last["y"], np.maximum(ROW + 1, 0))


def test_requests_of_one_shape_run_together(tmp_path: Path, cluster: None) -> None:
    onnx = pytest.importorskip("onnx")
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", "seq"])
        for n in ("x", "y")
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "relu.onnx")
    shapes = {"batch": "any", "seq": [4, 8]}
    replica = _Replica(str(tmp_path / "relu.onnx"), "cpu", 0.05, {}, shapes)
    asyncio.run(replica.reconfigure(None))
    assert replica._batches is not None
    given = [ROW, ROW[:, :4], ROW + 1, ROW[:, :3], ROW[:, 4:], ROW.astype(np.float64)]
    answers = replica._run(replica._batches, [{"x": each} for each in given])
    for i in (0, 1, 2, 4):
        np.testing.assert_array_equal(answers[i]["y"], np.maximum(given[i], 0))
    assert [type(answers[i]) for i in (3, 5)] == [ValueError, ValueError]
    stats = replica._batches.session.stats
    assert stats.executes == 2  # of two rows of 8, and of two of 4
    assert replica._failures == 0
    replica._batches.close()


def test_first_calls_at_once_load_the_model_once(
    replica: _Replica, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(
        *("qnnrt.ray.serve.BatchSession",),
        lambda session: made.append(BatchSession(session)) or made[-1],
    )

    async def calls() -> None:
        await asyncio.gather(*(replica.stats() for _ in range(4)))

    asyncio.run(calls())
    assert len(made) == 1


def test_a_model_that_cannot_be_loaded_leaves_the_old_one(
    replica: _Replica, cluster: None, tmp_path: Path
) -> None:
    asyncio.run(replica.reconfigure({}))
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(b"no binary")
    with pytest.raises(qnnrt.Error):
        asyncio.run(replica.reconfigure({"model": str(damaged)}))
    with pytest.raises(ValueError, match="user_config has"):
        asyncio.run(replica.reconfigure({"modle": "x"}))
    np.testing.assert_array_equal(answers(replica, ROW)[0]["y"], np.maximum(ROW, 0))


def test_runs_that_fail_one_after_another_are_unhealthy(replica: _Replica, cluster: None) -> None:
    asyncio.run(replica.check_health())
    assert replica._batches is not None
    replica._batches.session.close()
    for _ in range(3):
        asyncio.run(replica.check_health())
        assert isinstance(answers(replica, ROW)[0], qnnrt.ClosedError)
    with pytest.raises(RuntimeError, match="last 3 runs failed"):
        asyncio.run(replica.check_health())
    asyncio.run(replica.reconfigure({}))
    asyncio.run(replica.check_health())
