"""Options of the TFLite delegate: each with its effect, and wrong ones refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.qnn.profile import ProfileEvent
from qnnrt.tflite import (
    DspOptions,
    GpuOptions,
    HtpOptions,
    Interpreter,
    QnnDelegate,
    QnnDelegateOptions,
    SkipOptions,
    get_api_version,
    has_capability,
)
from qnnrt.tflite.options import STRING_KEYS
from support.tflite import delegated
from support.tflite.models import F32, ends, expected, toy

pytestmark = pytest.mark.foreign


def ran(delegate: QnnDelegate, half: bool = False) -> np.ndarray:
    """The toy model once, with the delegate; half: in half precision."""
    with Interpreter(model_content=toy(), experimental_delegates=[delegate]) as it:
        it.allocate_tensors()
        x = np.linspace(-4, 4, 32, dtype=F32).reshape(1, 32)
        it.set_tensor(0, x)
        it.invoke()
        found = it.get_tensor(ends(it)[1])
        wanted = expected(x.astype(np.float16).astype(F32)) if half else expected(x)
        np.testing.assert_array_equal(found, wanted.astype(np.float16) if half else wanted)
        return found


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "backend_type is mandatory"),
        ({"backend_type": "tpu"}, "backend_type must be one of undefined, gpu, htp, dsp, ir"),
        ({"backend_type": 9}, r"backend_type must be one of 0 \(undefined\), 1 \(gpu\).*not 9"),
        ({"backend_type": "ir"}, "offline tools"),
        ({"backend_type": "dsp"}, "needs library_path"),
        ({"backend_type": "htp", "profiling": "linting"}, "use 'per_op'"),
        ({"backend_type": "htp", "cache_dir": "x"}, "belong together"),
        ({"backend_type": "htp", "cache_dir": "x", "model_token": "a/b"}, "a plain file name"),
        ({"backend_type": "htp", "log_level": "loud"}, "log_level must be one of off, error"),
        ({"backend_type": "htp", "graph_priority": "top"}, "graph_priority must be one of low"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        QnnDelegate(**options)


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"colour": "red"}, "unknown option 'colour'; there are backend_type, cache_dir"),
        ({"device_id": "0"}, "unknown option 'device_id'; it is htp_device_id"),
        ({"backend_type": "htp", "htp_performance_mode": "12"}, "not 12"),
        ({"backend_type": "htp", "htp_performance_mode": "fast"}, "must be one of default"),
        ({"backend_type": "htp", "htp_device_id": "first"}, "htp_device_id must be a number"),
        ({"backend_type": "htp", "htp_use_conv_hmx": "maybe"}, "must be 0 or 1, not 'maybe'"),
        ({"backend_type": "htp", "htp_vtcm_size": "-1"}, "vtcm_size must be a number from 0 to"),
        ({"backend_type": "htp", "skip_delegate_ops": "3,,4"}, "skip_delegate_ops must be a numb"),
    ],
)
def test_wrong_keys_are_refused(keys: dict[str, str], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        QnnDelegate(keys)


def test_keys_are_fields() -> None:
    found = QnnDelegateOptions.from_strings(
        {
            "backend_type": "2",
            "htp_performance_mode": "9",
            "htp_perf_ctrl_strategy": "auto",
            "htp_use_fold_relu": "0",
            "gpu_precision": "3",
            "dsp_pd_session": "signed",
            "log_level": "5",
            "skip_delegate_ops": "3,4",
            "skip_delegate_node_ids": "",
            "htp_vtcm_size": "8",
        }
    )
    assert found == QnnDelegateOptions(
        backend_type="htp",
        htp_options=HtpOptions(
            performance_mode="extreme_power_saver",
            perf_ctrl_strategy=1,
            use_fold_relu=False,
            vtcm_size=8,
        ),
        gpu_options=GpuOptions(precision="hybrid"),
        dsp_options=DspOptions(pd_session=1),
        log_level="debug",
        skip_options=SkipOptions(ops=(3, 4)),
    )
    fields = {f"{group}.{name}" if group else name for group, name in STRING_KEYS.values()}
    assert len(fields) == len(STRING_KEYS)


def test_keys_are_those_of_the_library() -> None:
    """The interpreter here places no tensors by itself, so one key would say nothing to it."""
    with pytest.raises(ValueError, match="there is no option 'nothing'") as caught:
        delegated.delegate(nothing=1)
    told = str(caught.value).partition("there are ")[2].split(", ")
    assert len(told) == len(set(told))
    assert set(told) - STRING_KEYS.keys() == {"qnnrt_shared_memory"}
    assert STRING_KEYS.keys() <= set(told)


def test_a_performance_mode_is_voted_for_as_long_as_the_delegate_is_there() -> None:
    with QnnDelegate({"backend_type": "htp", "htp_performance_mode": "2"}) as d:
        assert d.backend.perf_profile == "burst"
        described = d.backend.describe()
        assert described is not None
        assert len(described["power_configs"]) == 1
        ran(d)
        assert d.backend.perf_profile == "burst"
        d.update_htp_performance_mode(8)
        assert d.backend.perf_profile == "balanced"
        with pytest.raises(ValueError, match="must be one of default"):
            d.update_htp_performance_mode("warp")


def test_the_automatic_strategy_votes_while_the_interpreter_runs() -> None:
    htp = HtpOptions(performance_mode="burst", perf_ctrl_strategy="auto")
    with QnnDelegate(backend_type="htp", htp_options=htp) as d:
        assert d.backend.perf_profile is None
        seen = []
        vote = d.vote
        d.vote = lambda mode=None: (vote(mode), seen.append(d.backend.perf_profile))  # type: ignore[method-assign, assignment]
        ran(d)
        assert seen == ["burst", "default"]


def test_graph_options_reach_the_backend() -> None:
    htp = HtpOptions(
        num_hvx_threads=1,
        vtcm_size=4,
        precision="fp16",
        optimization_strategy="inference_o3",
        use_conv_hmx=False,
        use_fold_relu=False,
    )
    assert [blob[0] for blob in htp.graph_config()] == [1, 2, 3, 4, 5, 6]
    assert all(len(blob) == 56 for blob in htp.graph_config())
    assert HtpOptions().graph_config() == []
    with QnnDelegate(backend_type="htp", htp_options=htp, graph_priority="high") as d:
        ran(d, half=True)
    many = HtpOptions(num_hvx_threads=5000)  # which the backend refuses
    with QnnDelegate(backend_type="htp", htp_options=many) as d, pytest.raises(qnnrt.QnnError):
        ran(d)


def test_a_signed_process_domain_is_asked_for() -> None:
    with QnnDelegate({"backend_type": "htp", "htp_pd_session": "signed"}) as d:
        ran(d)


def test_a_device_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"htp device_id 7: there are \[0\]"):
        QnnDelegate({"backend_type": "htp", "htp_device_id": "7"})


def test_another_backend_library_is_loaded() -> None:
    path = qnnrt.qnn.backend.library_path("cpu")
    with QnnDelegate({"backend_type": "htp", "library_path": path}) as d:
        assert d.backend.id == 3
        ran(d)


def test_graphs_are_kept_and_loaded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "qnnrt.tflite")
    keys = {"backend_type": "htp", "cache_dir": str(tmp_path / "new"), "model_token": "toy"}
    for _ in range(2):
        with QnnDelegate(keys) as d:
            ran(d)
        (made,) = (tmp_path / "new").iterdir()
        assert made.name.startswith("toy_")
    first = made.read_bytes()
    made.write_bytes(first[: len(first) // 2])  # damaged: prepared anew
    with QnnDelegate(keys) as d:
        ran(d)
    assert "is of no use, so the graph is prepared anew" in caplog.text
    assert made.read_bytes() == first
    with QnnDelegate({**keys, "htp_use_fold_relu": "0"}) as d:  # another graph
        ran(d)
    assert len(list((tmp_path / "new").iterdir())) == 2


def executions(delegate: QnnDelegate) -> list[ProfileEvent]:
    """Without the waits on a busy machine, which are events too."""
    return [e for e in delegate.profiling_result() if e.kind == "execute"]


def test_profiling_collects_the_events_of_all_runs() -> None:
    with QnnDelegate(backend_type="htp", profiling="per_op") as d:
        ran(d)
        (event,) = executions(d)
        assert len(event.events) >= 3  # one for each node
        ran(d)
        assert len(executions(d)) == 2
        d.clear_profiling_result()
        assert d.profiling_result() == []
    with QnnDelegate(backend_type="htp") as d:
        ran(d)
        assert d.profiling_result() == []


def test_tensors_are_dumped(tmp_path: Path) -> None:
    with QnnDelegate(backend_type="htp", tensor_dump_output_path=str(tmp_path / "out")) as d:
        y = ran(d)
    files = {p.name: np.fromfile(p, F32) for p in (tmp_path / "out").iterdir()}
    assert len(files) == 2
    np.testing.assert_array_equal(files["tensor_0.raw"], np.linspace(-4, 4, 32, dtype=F32))
    (other,) = (v for k, v in files.items() if k != "tensor_0.raw")
    np.testing.assert_array_equal(other, y.reshape(-1))


@pytest.mark.parametrize(("level", "lines"), [("off", 0), ("warning", 0), ("info", 2)])
def test_lines_below_the_log_level_are_not_said(
    level: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1, "qnnrt.tflite")
    with QnnDelegate(backend_type="htp", log_level=level) as d:
        ran(d)
    said = [r for r in caplog.records if "delegate" in r.getMessage()]
    assert len(said) == lines


def test_a_delegate_that_takes_nothing_replaces_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1, "qnnrt.tflite")
    with QnnDelegate({"backend_type": "htp", "skip_delegate_ops": "0,18,19"}) as d:
        ran(d)
    said = [r.getMessage() for r in caplog.records if "partitions" in r.getMessage()]
    line = "TfLiteQnnDelegate delegate: 0 nodes delegated out of 3 nodes with 0 partitions.\n"
    assert said == [line]


def test_op_packages_are_given_to_the_backend() -> None:
    with pytest.raises(qnnrt.QnnError):  # qnnrt's own takes none
        QnnDelegate(backend_type="htp", op_packages=[("libNone.so", "provider", None)])


def test_capabilities_and_version() -> None:
    assert has_capability("htp_quantized")
    assert not has_capability("htp_fp16")
    assert not has_capability("dsp")
    assert get_api_version() == (0, 24, 0)
