"""context-binary-generator: what the config files do."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnnrt import _core
from qnnrt.cli._common import UsageError
from qnnrt.cli._config_file import read_config
from qnnrt.qnn.backend import library_path
from qnnrt.support.json_checks import JsonError
from support.generator import generator, net_run, outer
from support.recording import Fake
from support.tool_cases import (
    EXPECTED,
    Capture,
    call,
    complaint,
    listed,
    numbers,
    python_model,
    raw,
    report,
)

pytestmark = pytest.mark.usefixtures("listed_here")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return python_model(tmp_path)


def test_every_key_is_taken(model: Path, tmp_path: Path, capsys: Capture) -> None:
    config = outer(
        tmp_path,
        {
            "graphs": [
                {
                    "graph_names": ["m"],
                    "vtcm_mb": 8,
                    "O": 3,
                    "hvx_threads": 2,
                    "num_cores": 1,
                    "fp16_relaxed_precision": 0,
                }
            ],
            "devices": [
                {
                    "soc_model": 69,
                    "dsp_arch": "v79",
                    "pd_session": "unsigned",
                    "cores": [{"core_id": 0, "perf_profile": "burst", "rpc_control_latency": 100}],
                }
            ],
            "context": {"weight_sharing_enabled": False},
        },
        context_configs={"context_priority": "high", "async_execute_queue_depth": 3},
        graph_configs=[{"graph_name": "m", "graph_priority": "low"}],
    )
    found = report(capsys, *generator(model, "--binary_file", "b", "--config_file", config))
    # Those that the backend's own table (docs/configs.md) has as recorded are warned about.
    without = {"vtcm_mb", "O", "num_cores", "pd_session"}
    without |= {"context_priority", "graph_priority"}
    said = [re.search(r": (\w+) has no effect here", line) for line in found["warnings"]]
    assert {match[1] for match in said if match} == without
    assert len(said) == len(without)
    assert any("vtcm_mb has no effect here: there is no VTCM" in w for w in found["warnings"])
    run = net_run("output/b.bin", "--input_list", "l", "--config_file", config)
    found = report(capsys, *run)
    assert sum("it is prepared already" in line for line in found["warnings"]) == 1
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/out_y.raw"), EXPECTED)


def test_enabled_graphs_are_the_ones_that_run(model: Path, tmp_path: Path, capsys: Capture) -> None:
    other = python_model(tmp_path, "n")
    assert call(*generator(f"{model},{other}", "--binary_file", "two")) == 0
    config = outer(tmp_path, context_configs={"enable_graphs": ["n"], "is_persistent_binary": True})
    capsys.readouterr()
    run = net_run("output/two.bin", "--input_list", "l", "--config_file", config)
    assert [g["name"] for g in report(capsys, *run)["graphs"]] == ["n"]
    found = report(
        capsys,
        *generator(
            model,
            "--config_file",
            outer(tmp_path, context_configs={"enable_graphs": ["m"], "is_persistent_binary": True}),
        ),
    )
    assert sum("has no effect where a model is prepared" in w for w in found["warnings"]) == 2


def test_the_queue_depth_reaches_the_backend(model: Path, tmp_path: Path, capsys: Capture) -> None:
    config = outer(tmp_path, context_configs={"async_execute_queue_depth": 301})
    assert call(*generator(model, "--config_file", config)) == 1
    assert "301" in capsys.readouterr().err
    config = outer(tmp_path, context_configs={"async_execute_queue_depth": 3})
    run = ["net-run", "--model", model, "--backend", "htp", "--input_list", "l"]
    more = ["--asynchronous", "--num_inferences", "20", "--config_file", config]
    assert report(capsys, *run, *more)["graphs"][0]["tensor_sets"] == 3


@pytest.mark.parametrize(
    ("inner", "keys", "words"),
    [
        (None, {"graph_configs": [{"graph_name": "z"}]}, "unable to find graphName 'z'"),
        ({"graphs": [{"graph_names": ["z"]}]}, {}, "unable to find graphName 'z'; there are m"),
        (None, {"context_config": {}}, "unknown key 'context_config'; there are"),
        (None, {"context_configs": {"priority": "low"}}, "context_configs: unknown key 'priority'"),
        (None, {"context_configs": {"context_priority": "top"}}, "expected one of low, normal"),
        (None, {"context_configs": {"async_execute_queue_depth": 0}}, "expected a whole number"),
        (None, {"context_configs": {"async_execute_queue_depth": "3"}}, "expected a whole number"),
        (None, {"context_configs": []}, "context_configs: expected an object"),
        (None, {"graph_configs": [{}]}, "'graph_name' is missing"),
        (None, {"graph_configs": [{"graph_name": "m"}] * 2}, "'m' is there twice"),
        (None, {"graphs": [{"graph_names": ["m"]}]}, "this is a backend's own config"),
        ({"graphs": [{"graph_names": ["m"], "vtcm": 8}]}, {}, "graphs: unknown key 'vtcm'"),
        ({"graphs": [{"graph_names": ["m"], "O": 9}]}, {}, "O: expected a whole number from 1 to"),
        ({"graphs": [{"vtcm_mb": 8}]}, {}, "'graph_names' is missing"),
        ({"devices": [{}, {}]}, {}, "there is one device, 2 are given"),
        ({"devices": [{"dsp_arch": "v1"}]}, {}, "dsp_arch: expected one of v68"),
        ({"devices": [{"cores": [{"core_id": 1}]}]}, {}, "there is one core, number 0"),
        ({"devices": [{"cores": [{"perf_profile": "fast"}]}]}, {}, "expected one of low_balanced"),
        (
            None,
            {"backend_extensions": {"config_file_path": "none.json"}},
            "none.json: no such file",
        ),
    ],
)
def test_a_bad_config_is_one_line_that_says_where(
    inner: dict[str, Any] | None,
    keys: dict[str, Any],
    words: str,
    model: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    config = outer(tmp_path, inner, **keys)
    error = complaint(capsys, *generator(model, "--binary_file", "b", "--config_file", config))
    assert words in error
    assert ".json" in error
    assert not list(tmp_path.rglob("*.bin"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "config.json:1: not JSON"),
        ("[]", "expected one JSON object"),
        ('{"graph_configs": [], "graph_configs": []}', "the key 'graph_configs' is there twice"),
        ("\udcff", "not a text file"),
    ],
)
def test_a_file_that_is_no_config_is_named(
    text: str, words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    config = tmp_path / "config.json"
    config.write_bytes(text.encode(errors="surrogateescape"))
    assert words in complaint(capsys, *generator(model, "--config_file", config))


def test_the_inner_file_is_found_beside_the_outer_one(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    config = outer(folder, {"devices": [{"cores": [{"perf_profile": "burst"}]}]})
    warnings: list[str] = []
    libraries = {name: _core.Library.open(library_path(name)) for name in ("htp", "cpu")}
    assert read_config(config, libraries["htp"], warnings.append).perf_profile == "burst"
    assert read_config(config, libraries["cpu"], warnings.append).perf_profile is None
    assert len(warnings) == 1
    assert "inner.json has no effect: it is for the htp backend" in warnings[0]


def test_custom_configs_have_the_layout_of_the_c_structs(tmp_path: Path) -> None:
    graph = {"graph_names": ["m"], "hvx_threads": 5, "O": 2, "vtcm_mb": 8}
    config = outer(tmp_path, {"graphs": [graph], "context": {"extended_udma": True}})
    settings = read_config(config, _core.Library.open(library_path("htp")), print)
    threads, level, vtcm = settings.graph("m")["custom"]
    assert {len(threads), len(level), len(vtcm)} == {56}
    assert np.frombuffer(threads, np.uint32)[:4].tolist() == [6, 0, 5, 0]
    assert np.frombuffer(vtcm, np.uint32)[:3].tolist() == [3, 0, 8]
    assert np.frombuffer(level, np.uint32)[:3].tolist() == [1, 0, 3]
    assert np.frombuffer(level, np.float32)[3] == 2
    (custom,) = settings.context(from_binary=False)["custom"]
    assert len(custom) == 24
    assert np.frombuffer(custom, np.uint32)[:3].tolist() == [11, 0, 1]


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("vtcm_mb", (0, 8), (-1, 1.5)),
        ("vtcm_size_in_bytes", (0, 1 << 20), (-1,)),
        ("O", (1, 3), (0, 4)),
        ("dlbc", (0, 1), (-1, 2)),
        ("dlbc_weights", (0, 1), (-1, 2)),
        ("hvx_threads", (1, 4), (0,)),
        ("num_cores", (1,), (0,)),
    ],
)
def test_where_the_numbers_of_a_key_end(
    key: str, taken: tuple[int, ...], refused: tuple[float, ...], tmp_path: Path
) -> None:
    library = _core.Library.open(library_path("htp"))
    for value in taken:
        config = outer(tmp_path, {"graphs": [{"graph_names": ["m"], key: value}]})
        assert len(read_config(config, library, print).graph("m")["custom"]) == 1
    for wrong in refused:
        config = outer(tmp_path, {"graphs": [{"graph_names": ["m"], key: wrong}]})
        with pytest.raises(JsonError, match=f"{key}: expected a whole number"):
            read_config(config, library, print)


@pytest.mark.parametrize("value", [[1], 1, {"graph_names": ["m"]}, [{"graph_names": ["m"]}, None]])
def test_a_list_of_objects_has_nothing_else(value: Any, tmp_path: Path) -> None:
    library = _core.Library.open(library_path("htp"))
    with pytest.raises(JsonError, match="graphs: expected a list of objects"):
        read_config(outer(tmp_path, {"graphs": value}), library, print)


def test_a_device_of_any_soc_is_taken(tmp_path: Path) -> None:
    library = _core.Library.open(library_path("htp"))
    config = outer(tmp_path, {"devices": [{"soc_model": 0}]})
    read_config(config, library, print)
    with pytest.raises(JsonError, match="soc_model: expected a whole number"):
        read_config(outer(tmp_path, {"devices": [{"soc_model": -1}]}), library, print)


def test_of_another_makers_backend_nothing_is_known(fake: Fake, tmp_path: Path) -> None:
    """Whether an option has an effect there, its own documentation says."""
    config = outer(tmp_path, {}, context_configs={"context_priority": "high"})
    for library, count in ((library_path("htp"), 1), (fake.path, 0)):
        warnings: list[str] = []
        read_config(config, _core.Library.open(library), warnings.append)
        assert sum("context_priority has no effect" in line for line in warnings) == count


def test_a_core_says_what_has_no_effect(tmp_path: Path) -> None:
    library = _core.Library.open(library_path("htp"))
    for core, count in (({"hmx_timeout_us": 5}, 1), ({"hmx_timeout_us": 0}, 1), ({}, 0)):
        warnings: list[str] = []
        read_config(outer(tmp_path, {"devices": [{"cores": [core]}]}), library, warnings.append)
        assert sum("hmx_timeout_us has no effect" in line for line in warnings) == count


def test_device_options_name_the_only_device_and_core() -> None:
    library = _core.Library.open(library_path("htp"))
    for good in ("", "device_id:0", "device_id:0;core_id:0", "core_id:0;"):
        assert not read_config(None, library, print, good).device
    for bad in ("device_id", "device_id:", "device_id:x", "device_id:-1", "soc:0"):
        with pytest.raises(UsageError, match="expected device_id:N or core_id:N"):
            read_config(None, library, print, bad)
    for name in ("device", "core"):
        with pytest.raises(UsageError, match=f"there is one {name}, number 0"):
            read_config(None, library, print, f"{name}_id:1")


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/tools.md").read_text(encoding="utf-8")


def example(language: str, word: str) -> str:
    """The code block of docs/tools.md in this language with this word in it."""
    blocks = re.findall(rf"^ *```{language}\n(.*?)^ *```", DOCUMENT, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return textwrap.dedent(found)


def test_the_examples_of_the_document_work(tmp_path: Path, capsys: Capture) -> None:
    python_model(tmp_path, "mobile_net", example("python", "def compose"))
    (tmp_path / "config.json").write_text(example("json", "graph_configs"))
    (tmp_path / "htp.json").write_text(example("json", "graph_names"))
    raw(tmp_path / "image.raw", np.arange(16) - 8)
    listed(tmp_path / "input_list.txt", "image.raw")
    given = generator("mobile_net.py", "--binary_file", "net", "--config_file", "config.json")
    warnings = report(capsys, *given)["warnings"]
    assert all("has no effect here" in line for line in warnings), warnings
    (tmp_path / "throughput.json").write_text(
        example("json", "testCase").replace('"loop": 5', '"loop": 0.1')
    )
    found = report(capsys, "throughput-net-run", "--config", "throughput.json")
    assert [t["name"] for t in found["threads"]] == ["a", "b"]
    assert found["threads"][1]["executions"] == 100
