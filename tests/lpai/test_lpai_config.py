"""The JSON config of LPAI backends: every key with its values and default, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qnnrt import lpai
from qnnrt.lpai.config import SECTIONS, Config
from qnnrt.qnn.backend import Backend
from support.tool_cases import Capture, call, complaint, python_model

ROOT = Path(__file__).resolve().parents[2]


def execute(**keys: Any) -> Config:
    return Config.of({"lpai_graph": {"execute": keys}})


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_defaults_are_the_documented_ones() -> None:
    for config in (Config(), Config.of({}), Config.of({"lpai_graph": {"execute": {}}})):
        assert config == Config(
            target_env="adsp",
            enable_hw_ver="v6",
            prepare={},
            fps=1,
            ftrt_ratio=10,
            client_type="real_time",
            affinity="soft",
            core_selection=0,
            mem_type="ddr",
            profile_level=None,
            notes=(),
        )
        assert config.backend_options() == []
        assert config.context_custom() == []


def test_the_file_of_the_documentation(tmp_path: Path) -> None:
    path = written(
        tmp_path / "eaiParams_direct.conf", {"lpai_graph": {"execute": {"mem_type": "tcm"}}}
    )
    config = Config.read(path)
    assert config == Config(mem_type="tcm")
    assert len(config.context_custom()) == 1


def test_every_key() -> None:
    config = Config.of(
        {
            "lpai_backend": {"target_env": "arm", "enable_hw_ver": "v5_1"},
            "lpai_graph": {
                "prepare": {
                    "exclude_io": True,
                    "enable_batchnorm_fold": False,
                    "enable_per_layer": True,
                    "enable_core_selection": "0",
                },
                "execute": {
                    "fps": 30,
                    "ftrt_ratio": 7,
                    "client_type": "non_real_time",
                    "affinity": "hard",
                    "core_selection": 2,
                    "mem_type": "ddr",
                },
            },
            "lpai_profile": {"level": "detailed"},
            "lpai_debug": {"dump": 1},
        },
        "f",
    )
    assert (config.target_env, config.enable_hw_ver) == ("arm", "v5_1")
    assert config.prepare == {
        "exclude_io": True,
        "enable_batchnorm_fold": False,
        "enable_per_layer": True,
        "enable_core_selection": "0",
    }
    assert (config.fps, config.ftrt_ratio, config.client_type) == (30, 7, "non_real_time")
    assert (config.affinity, config.core_selection, config.mem_type) == ("hard", 2, "ddr")
    assert config.profile_level == "detailed"
    assert config.notes == (
        "f: lpai_debug: dump has no effect here: nothing is published on what it does",
        (
            "f: lpai_graph: prepare: enable_batchnorm_fold has no effect here: what can be folded "
            "always is"
        ),
    )


@pytest.mark.parametrize(
    ("section", "key", "values"),
    [
        ("lpai_backend", "target_env", ["arm", "adsp", "x86"]),
        ("lpai_backend", "enable_hw_ver", ["v5", "v5_1", "v6"]),
        ("execute", "fps", [1, 60]),
        ("execute", "ftrt_ratio", [1, 0x8000]),
        ("execute", "client_type", ["real_time", "non_real_time"]),
        ("execute", "affinity", ["soft", "hard"]),
        ("execute", "core_selection", [0, 1, 2]),
        ("execute", "mem_type", ["ddr", "tcm", "llc", ""]),
        ("prepare", "exclude_io", [True, False]),
        ("prepare", "enable_batchnorm_fold", [True, False]),
        ("lpai_profile", "level", ["basic", "detailed"]),
    ],
)
def test_values_that_a_key_takes(section: str, key: str, values: list[Any]) -> None:
    for value in values:
        inner = {section: {key: value}}
        Config.of({"lpai_graph": inner} if section in ("prepare", "execute") else inner)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lpai_grpah": {}}, "f: unknown key 'lpai_grpah'; there are lpai_backend, lpai_graph, "),
        ({"lpai_graph": {"run": {}}}, "f: lpai_graph: unknown key 'run'; there are prepare, exec"),
        (
            {"lpai_graph": {"execute": {"memtype": "tcm"}}},
            "f: lpai_graph: execute: unknown key 'memtype'; there are fps, ftrt_ratio, client_type",
        ),
        (
            {"lpai_backend": {"hw_version": "v6"}},
            "f: lpai_backend: unknown key 'hw_version'; there are target_env, enable_hw_ver",
        ),
        (
            {"lpai_backend": {"enable_hw_ver": "v4"}},
            "f: lpai_backend: enable_hw_ver: expected one of v5, v5_1, v6, not 'v4'",
        ),
        (
            {"lpai_backend": {"target_env": "tensilica"}},
            "f: lpai_backend: target_env: expected one of arm, adsp, x86, not 'tensilica'",
        ),
        ({"lpai_graph": {"execute": {"fps": 0}}}, "execute: fps: expected a whole number from 1"),
        ({"lpai_graph": {"execute": {"fps": "1"}}}, "fps: expected a whole number from 1"),
        ({"lpai_graph": {"execute": {"ftrt_ratio": 0}}}, "ftrt_ratio: expected a whole number"),
        (
            {"lpai_graph": {"execute": {"client_type": "real"}}},
            "client_type: expected one of real_time, non_real_time, not 'real'",
        ),
        ({"lpai_graph": {"execute": {"core_selection": -1}}}, "core_selection: expected a whole"),
        ({"lpai_graph": {"execute": {"mem_type": 3}}}, "mem_type: expected ddr or tcm, not 3"),
        ({"lpai_graph": {"prepare": {"exclude_io": "no"}}}, "exclude_io: expected true or false"),
        (
            {"lpai_graph": {"prepare": {"enable_core_selection": 1}}},
            "enable_core_selection: expected a string, not 1",
        ),
        ({"lpai_profile": {"level": "linting"}}, "level: expected one of basic, detailed, not"),
        ({"lpai_debug": []}, "f: lpai_debug: expected an object"),
        ({"lpai_graph": 1}, "f: lpai_graph: expected an object"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Config.of(given, "f")
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "f.conf"
    with pytest.raises(ValueError, match="no such file"):
        Config.read(path)
    path.write_text('{"lpai_graph": {}, "lpai_graph": {}}')
    with pytest.raises(ValueError, match="the key 'lpai_graph' is there twice"):
        Config.read(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"f\.conf:1: not JSON"):
        Config.read(path)


# ---- applied -------------------------------------------------------------------------------------


def test_hardware_is_given_to_the_backend() -> None:
    config = Config.of({"lpai_backend": {"target_env": "x86", "enable_hw_ver": "v5_1"}})
    with Backend.open("lpai", options=config.backend_options()) as backend:
        assert {core.version for core in lpai.cores(backend)} == {lpai.HardwareVersion.V5_1}
    with Backend.open("lpai", options=Config().backend_options(direct_mode=True)) as backend:
        assert lpai.requires_persistent_binary(backend)
        assert {core.version for core in lpai.cores(backend)} == {lpai.HardwareVersion.V6}


def test_direct_mode_is_for_the_adsp() -> None:
    for target in ("x86", "arm"):
        config = Config.of({"lpai_backend": {"target_env": target}})
        with pytest.raises(ValueError, match=f"target_env {target} contradicts it"):
            config.backend_options(direct_mode=True)


def test_performance_and_affinity_are_given_to_the_graph() -> None:
    with Backend.open("lpai") as backend:
        graph = backend.create_context().create_graph("g")
        config = execute(fps=30, ftrt_ratio=20, client_type="non_real_time", affinity="hard")
        config.apply_execute(graph)
        said = lpai.describe(graph)
        assert said is not None
        assert said["perf"] == {"fps": 30, "ftrt_ratio": 20, "client_type": "non_real_time"}
        assert said["affinity"] == {"affinity": "hard", "core_selection": 0}
        with pytest.raises(Exception, match="coreSelection is 0"):
            execute(core_selection=3).apply_execute(graph)


# ---- in the tools --------------------------------------------------------------------------------


def wrapped(folder: Path, inner: Any, **outer: Any) -> Path:
    written(folder / "inner.conf", inner)
    extensions = {
        "shared_library_path": "/data/local/tmp/libQnnLpaiNetRunExtensions.so",
        "config_file_path": "inner.conf",
    }
    return written(folder / "outer.json", {"backend_extensions": extensions, **outer})


def run(model: Path, backend: str, config: Path, *more: object) -> list[object]:
    output = model.parent / "output"
    return [
        *("net-run", "--model", model, "--backend", backend),
        *("--config_file", config, "--output_dir", output, *more),
    ]


def test_wrong_keys_are_told_with_the_file(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(tmp_path)
    config = wrapped(tmp_path, {"lpai_graph": {"execute": {"fsp": 1}}})
    line = complaint(capsys, *run(model, "lpai", config))
    assert f"{tmp_path / 'inner.conf'}: lpai_graph: execute: unknown key 'fsp'; there are" in line
    config = wrapped(tmp_path, {"lpai_grap": {}})
    line = complaint(capsys, *run(model, "lpai", config))
    assert "unknown key 'lpai_grap'; there are lpai_backend, lpai_graph, lpai_profile" in line


def test_the_inner_file_alone_is_refused(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(tmp_path)
    inner = written(tmp_path / "f.conf", {"lpai_graph": {"execute": {"mem_type": "tcm"}}})
    line = complaint(capsys, *run(model, "lpai", inner))
    assert "this is a backend's own config: name it in another file as" in line


def test_files_for_another_backend_are_warned_about(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(tmp_path)
    config = wrapped(tmp_path, {"lpai_graph": {}})
    for backend in ("cpu", "htp"):
        assert call(*run(model, backend, config)) == 2  # for the list that is missing
        assert "inner.conf has no effect: it is for the lpai backend" in capsys.readouterr().err
    config = wrapped(tmp_path, {"graphs": []})
    call(*run(model, "lpai", config))
    assert "inner.conf has no effect: it is for the htp backend" in capsys.readouterr().err


def test_keys_without_an_effect_are_warned_about(tmp_path: Path, capsys: Capture) -> None:
    config = wrapped(tmp_path, {"lpai_debug": {"dump": 1}})
    call(*run(python_model(tmp_path), "lpai", config))  # the list is missing, and it has floats
    assert "lpai_debug: dump has no effect here" in capsys.readouterr().err


def test_direct_mode_contradicts_another_target(tmp_path: Path, capsys: Capture) -> None:
    config = wrapped(tmp_path, {"lpai_backend": {"target_env": "x86"}})
    line = complaint(capsys, *run(python_model(tmp_path), "lpai", config, "--direct_mode", "adsp"))
    assert "direct mode runs on the aDSP: target_env x86 contradicts it" in line
    assert complaint(capsys, *run(python_model(tmp_path), "lpai", config, "--direct_mode=cdsp"))


def test_the_page_has_every_key() -> None:
    text = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    rows = [
        tuple(cell.strip() for cell in line.split("|")[1:3])
        for line in text.splitlines()
        if line.startswith("| `lpai_")
    ]
    assert {section.strip("`").partition(".")[0] for section, _ in rows} == set(SECTIONS)
    for section, key in rows:
        names = section.strip("`").split(".")
        if key == "any":
            continue
        # An unknown key would be told; a value of the wrong kind proves that it is known.
        given: dict[str, Any] = {key.strip("`"): {}}
        for name in reversed(names):
            given = {name: given}
        with pytest.raises(ValueError, match=f"{key.strip('`')}: expected "):
            Config.of(given)
