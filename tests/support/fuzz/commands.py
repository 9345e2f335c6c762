"""Commands with files that people write: JSON configs, input lists, .raw and .npy files, logs.

A case is a JSON object: the arguments of a `qnnrt` command and the files in its folder.
"""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from qnnrt.cli import main
from qnnrt.cli._throughput_config import read_throughput_config
from support.tool_cases import PYTHON_MODEL

from .target import WILD_FLOATS, WILD_INTS, WILD_TEXTS, Target, words

#: Content of a file -> what it is instead of a file with bytes.
KINDS = ("folder", "fifo", "loop", "endless", "unreadable")
#: Texts as they stand in a JSON file, that are no value of any key's.
_JSON_TEXTS = (
    "null", "true", "[]", "{}", '""', "NaN", "-Infinity", "1e999", "-0.0", "1" * 5000, "0.5",
    '"\\u0000"', '"a\\u0000b"', '"\\ud800"', "[" * 100_000, '{"a":' * 60_000, "[[[[]]]]",
    "18446744073709551616", "-1", "0", "1", "2",
    "4294967296", '"' + "x" * 100_000 + '"', "9" * 400, "{", "]", ",",
    "\\", "tru",
    '{"a": 1, "a": 2}', "1e400", '"/dev/zero"', '"."', '"m.py"', '"fifo"',
)  # fmt: skip


class Commands(Target):
    suffix = ".json"

    def run(self, data: bytes, folder: Path) -> str:
        case = json.loads(data)
        here = folder / "case"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        os.chdir(here)
        for name, content in case["files"].items():
            place(Path(name), content)
        if "throughput-net-run" in case["argv"] and not _is_short(Path(case["argv"][-1])):
            return "takes too long to run"
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = main([*case["argv"]])
            except SystemExit as end:
                status = int(end.code or 0)
        said = err.getvalue()
        assert status in (0, 1, 2), f"status {status}"
        assert status == 0 or "error" in said, f"status {status} without an error: {said!r}"
        assert "Traceback" not in said, said
        assert len(said) < 100_000, f"{len(said)} characters of messages"
        line = said.splitlines()[-1].rpartition("error: ")[2] if status else ""
        return f"{case['argv'][0]}: {status} {words(ValueError(line))}"

    def smaller(self, data: bytes) -> Iterator[bytes]:
        case = json.loads(data)
        for name, content in case["files"].items():
            if isinstance(content, str) and len(content) > 1:
                plain = base64.b64decode(content)
                for less in super().smaller(plain):
                    yield _packed(case["argv"], case["files"] | {name: less})


def place(path: Path, content: str) -> None:
    """Make a file of a case."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content == "folder":
        path.mkdir()
    elif content == "fifo":
        os.mkfifo(path)
    elif content == "loop":
        path.symlink_to(path.name)
    elif content == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(base64.b64decode(content))
        if content == "unreadable":
            path.chmod(0)


def _packed(argv: list[str], files: dict[str, Any]) -> bytes:
    made = {
        k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in files.items()
    }
    return json.dumps({"argv": argv, "files": made}).encode()


def _is_short(path: Path) -> bool:
    """Whether a config of throughput-net-run asks for less than a moment's work."""
    try:
        config = read_throughput_config(path)
    except Exception:
        return True  # running it will say so, too
    return config.iterations <= 2 and len(config.threads) <= 8 and all(
        t.interval <= 1000 and (t.seconds or 0) <= 0.02 and (t.executions or 0) <= 50
        for t in config.threads
    )  # fmt: skip


def spoiled(chance: random.Random, data: bytes) -> bytes | str:
    """Damage that any text file may have; or something that is no file."""
    kind = chance.randrange(12)
    at = chance.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return (
            data[:at]
            + chance.choice((b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\x1b[2J"))
            + data[at:]
        )
    if kind == 2:
        return data.decode("utf-8", "replace").encode(
            chance.choice(("utf-16", "utf-32", "utf-8-sig"))
        )
    if kind == 3:
        return data + data
    if kind == 4:
        return chance.choice(KINDS[:4])
    if kind == 5:
        return data.replace(b"\n", b"\r\n") + chance.choice(
            (b"", b"\x0b", b"\x85", "\u2028".encode())
        )
    if kind == 6 and data:
        made = bytearray(data)
        made[at % len(data)] = chance.randrange(256)
        return bytes(made)
    return data


# ---- configs -------------------------------------------------------------------------------------

_OUTER = {
    "backend_extensions": {
        "shared_library_path": "libQnnHtpNetRunExtensions.so", "config_file_path": "inner.json",
    },
    "context_configs": {
        "context_priority": "high", "async_execute_queue_depth": 3, "enable_graphs": ["m"],
        "memory_limit_hint": 100, "is_persistent_binary": True,
        "cache_compatibility_mode": "permissive",
    },
    "graph_configs": [{
        "graph_name": "m", "graph_priority": "low", "graph_profiling_state": "enabled",
        "graph_profiling_num_executions": 5,
    }],
}  # fmt: skip
_HTP = {
    "graphs": [{
        "graph_names": ["m"], "vtcm_mb": 4, "O": 3, "dlbc": 1, "fp16_relaxed_precision": True,
        "hvx_threads": 2, "num_cores": 1, "weights_packing": False,
    }],
    "devices": [{
        "device_id": 0, "soc_model": 43, "dsp_arch": "v73", "pd_session": "unsigned",
        "profiling_level": "basic",
        "cores": [{
            "core_id": 0, "perf_profile": "burst", "rpc_control_latency": 100,
            "rpc_polling_time": 9999, "hmx_timeout_us": 5,
        }],
    }],
    "context": {
        "weight_sharing_enabled": True, "file_read_memory_budget_in_mb": 8, "extended_udma": True,
    },
}  # fmt: skip
_LPAI = {
    "lpai_backend": {"target_env": "adsp", "enable_hw_ver": "v6"},
    "lpai_graph": {
        "prepare": {
            "enable_batchnorm_fold": True, "exclude_io": False, "enable_per_layer": True,
            "enable_core_selection": "1",
        },
        "execute": {
            "fps": 30, "ftrt_ratio": 10, "client_type": "real_time", "affinity": "soft",
            "core_selection": 0, "mem_type": "ddr",
        },
    },
    "lpai_profile": {"level": "basic"},
    "lpai_debug": {"x": 1},
}  # fmt: skip
_THROUGHPUT = {
    "backends": [{
        "backendName": "b", "backendPath": "htp", "profilingLevel": "BASIC",
        "backendExtensions": "config.json", "perfProfile": "burst",
    }],
    "models": [{
        "modelName": "net", "modelPath": "m.py", "loadFromCachedBinary": False, "inputPath": "l",
        "inputDataType": "FLOAT", "outputPath": "out", "outputDataType": "FLOAT_ONLY",
        "saveOutput": "NATIVE_ALL", "ioTensorMemHandleType": "dma_buf",
    }],
    "contexts": [{"contextName": "c", "async_execute_queue_depth": 4}],
    "testCase": {
        "iteration": 1, "logLevel": "error",
        "threads": [{
            "threadName": "t", "backend": "b", "context": "c", "model": "net", "interval": 0,
            "loopUnit": "count", "loop": 2,
        }],
    },
}  # fmt: skip
_X = np.arange(-8, 8, dtype=np.float32).tobytes()
_FILES = {"m.py": PYTHON_MODEL.encode(), "x.raw": _X, "l": b"x.raw\n"}
#: An 8-bit graph, for lpai.
_FIXED_MODEL = """
import numpy as np
from qnnrt.model import Quantization

def compose(graph):
    kind = {"dtype": np.uint8, "quantization": Quantization(0.5, -128)}
    x = graph.add_tensor("x", (2, 8), **kind, type="app_write")
    y = graph.add_tensor("out/y", (2, 8), **kind, type="app_read")
    graph.add_node("relu", "Relu", [x], [y])
"""


class _Raw:
    """Text that stands in the file as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def dumped(value: Any) -> str:
    """As json.dumps, with raw texts in it."""
    if isinstance(value, _Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {dumped(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dumped, value)) + "]"
    return json.dumps(value)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key)."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(items):
        yield value, key
        if isinstance(part, (dict, list)):
            yield from _parts(part)


def edit_json(chance: random.Random, value: Any) -> None:
    """Another value, key or place somewhere in it."""
    places = list(_parts(value))
    if not places:
        return
    owner, key = chance.choice(places)
    kind = chance.randrange(10)
    if kind <= 3:
        owner[key] = _Raw(chance.choice(_JSON_TEXTS))
    elif kind == 4:
        wild = (*WILD_TEXTS, *WILD_INTS, *WILD_FLOATS, None, True, [], {}, "m", "fifo", "out")
        owner[key] = chance.choice(wild)
    elif kind == 5:
        other, its = chance.choice(places)
        part = other[its]
        owner[key] = _Raw(dumped(part))
    elif kind == 6:
        del owner[key]
    elif kind == 7 and isinstance(owner, dict):
        owner[chance.choice(WILD_TEXTS)] = owner.pop(key)
    elif kind == 8 and isinstance(owner, list):
        owner += [deepcopy(owner[key]) for _ in range(chance.choice((1, 3, 2000)))]
    elif isinstance(owner[key], (int, float)) and not isinstance(owner[key], bool):
        owner[key] += chance.choice((-1, 1, 0.5, 1e9))


class Configs(Commands):
    """JSON configs of the tools, the profile viewer's log among them."""

    name = "config"

    def build_bases(self) -> list[Any]:
        from support.profile_logs import write_log

        write_log(Path("build/fuzz/a.log").resolve())
        log = Path("build/fuzz/a.log").read_bytes()
        outer = [*("--config_file", "config.json"), "--output_dir", "out"]
        lists = ["--input_list", "l"]
        found: list[Any] = []
        for backend, inner in (("htp", _HTP), ("lpai", _LPAI), ("cpu", _HTP)):
            given = ["--model", "m.py", "--backend", backend, *outer]
            configs = {"config.json": _OUTER, "inner.json": inner}
            found.append((["net-run", *lists, *given], configs))
            found.append((["context-binary-generator", "--binary_file", "b", *given], configs))
        found.append(
            (["throughput-net-run", "--config", "config.json"],
             {"config.json": _THROUGHPUT, "inner.json": _HTP})
        )  # fmt: skip
        for kind in ("json", "csv", "text", "chrometrace"):
            argv = ["profile-viewer", "--input_log", "a.log", "--format", kind, "--output", "o"]
            found.append((argv, {"a.log": log}))
        return found

    def mutate(self, chance: random.Random) -> bytes:
        argv, configs = deepcopy(chance.choice(self.bases))
        files: dict[str, Any] = dict(_FILES)
        if "lpai" in argv:
            files["m.py"] = _FIXED_MODEL.encode()
        if chance.random() < 0.2:
            files["fifo"] = "fifo"
        if chance.random() < 0.7:  # without what only some backends, or a binary's graphs, take
            for config in configs.values():
                if not isinstance(config, dict) or "context_configs" not in config:
                    continue
                for key in ("enable_graphs", "async_execute_queue_depth"):
                    del config["context_configs"][key]
                for key in ("graph_profiling_state", "graph_profiling_num_executions"):
                    del config["graph_configs"][0][key]
        chosen = chance.choice(list(configs))
        for name, config in configs.items():
            if isinstance(config, bytes):
                files[name] = edit_log(chance, config)
                continue
            for _ in range(chance.choice((1, 1, 2, 4)) if name == chosen else 0):
                edit_json(chance, config)
            files[name] = dumped(config).encode("utf-8", "surrogatepass")
            if name == chosen and chance.random() < 0.15:
                files[name] = spoiled(chance, files[name])
        return _packed(argv, files)


def edit_log(chance: random.Random, log: bytes) -> bytes | str:
    lines = log.split(b"\n")
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(lines))
        try:
            record = json.loads(lines[at])
        except (ValueError, RecursionError):
            continue
        edit_json(chance, record)
        lines[at] = dumped(record).encode("utf-8", "surrogatepass")
    if chance.random() < 0.2:
        lines.insert(chance.randrange(len(lines)), lines[chance.randrange(len(lines))])
    made = b"\n".join(lines)
    return spoiled(chance, made) if chance.random() < 0.2 else made


# ---- input lists and arrays ----------------------------------------------------------------------


class Inputs(Commands):
    """Input lists, and the .raw and .npy files that inputs come from."""

    name = "inputs"

    def build_bases(self) -> list[Any]:
        npy = io.BytesIO()
        np.save(npy, np.arange(16, dtype=np.float32).reshape(1, 16))
        from support.fuzz.models import relu_onnx

        return [npy.getvalue(), relu_onnx()]

    def mutate(self, chance: random.Random) -> bytes:
        npy, model = self.bases
        files: dict[str, Any] = dict(_FILES)
        if chance.random() < 0.5:
            lines = [chance.choice(_LINES) for _ in range(chance.choice((1, 1, 2, 5)))]
            files["l"] = "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"
            if chance.random() < 0.4:
                files["l"] = spoiled(chance, files["l"])
            if chance.random() < 0.3:
                files["x.raw"] = spoiled(chance, _X)
            argv = ["net-run", "--model", "m.py", "--input_list", "l", "--backend",
                    chance.choice(("cpu", "htp")), "--output_dir", "out"]  # fmt: skip
            argv += chance.choice(_OPTIONS)
            return _packed(argv, files | {"fifo": "fifo", "dir": "folder", "loop": "loop"})
        suffix = chance.choice(("npy", "npy", "npy", "raw"))
        data = edit_npy(chance, npy) if suffix == "npy" else np.arange(16, dtype="<f4").tobytes()
        files[f"x.{suffix}"] = spoiled(chance, data) if chance.random() < 0.5 else data
        argv = ["run", "m.onnx", "--input", f"x=x.{suffix}", "--iterations", "1"]
        return _packed(argv, {"m.onnx": model, f"x.{suffix}": files[f"x.{suffix}"]})


_LINES = (
    "x.raw", "x:=x.raw", "x.raw", "x:=x.raw", "# out/y", "% out/y h", "#", "%", "", "   ",
    "x.raw x.raw", "x:=x.raw x:=x.raw", "y:=x.raw", ":=x.raw",
    "x:=", "a\0b", "x:=a\0b", "\0:=x.raw",
    "dir", "fifo", "loop", "missing", "/dev/zero", "/dev/null", "x" * 5000, "x/" * 3000, "é.raw",
    "\ud800", "# a\0b",
    "x.raw " * 2000, "/proc/self/mem", "../case/x.raw", "m.py", "x:=x:=x.raw", "/", ".", "x.raw/x",
)  # fmt: skip
_OPTIONS = (
    [], [], ["--use_native_input_files"], ["--input_data_type", "native"], ["--asynchronous"],
    ["--batch_multiplier", "3"], ["--num_inferences", "4"], ["--shared_buffer"], ["--debug"],
    ["--keep_num_outputs", "1"], ["--output_data_type", "float_and_native"],
    ["--batch_multiplier", "99999999999999999999"], ["--max_input_cache_size_mb", "1"],
    ["--native_input_tensor_names", "m:x"], ["--set_output_tensors", "m:h"],
    ["--set_output_tensors", "m:a\0b"],
)  # fmt: skip
_DESCR = (
    "'<f4'", "'>f4'", "'<f8'", "'|O'", "'|S99999999999'", "'<U4'", "[('a', '<f4')]", "'|V16'",
    "'f'",
    "'<M8[s]'", "None", "1", "'x'", "''", "[('a', '|O')]", "'<f4,' * 9", "{}", "'<c8'", "'|b1'",
)  # fmt: skip
_SHAPES = (
    "(1, 16)", "(16,)", "(1, 1 << 40)", f"(1, {2**40})", f"({2**63}, 1)", f"({-1}, 16)", "(0, 16)",
    f"({2**32}, {2**32})", "()", "1", "'a'", "(1.5, 2)", "(True, 16)", "(1, 16, 1)", "[1, 16]",
    f"({'1, ' * 70})", f"({'9' * 5000},)", "(None,)", "(" * 300 + ")" * 300, "-" * 3000 + "1",
)  # fmt: skip


def edit_npy(chance: random.Random, data: bytes) -> bytes:
    """A .npy file with another header: its version, length, element type, order, shape."""
    order = chance.choice(("False", "True", "2", "'a'")) if chance.random() < 0.4 else "False"
    descr = chance.choice(_DESCR) if chance.random() < 0.5 else "'<f4'"
    shape = chance.choice(_SHAPES) if chance.random() < 0.7 else "(1, 16)"
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if chance.random() < 0.2:
        text = chance.choice(
            (
                "",
                "{",
                "(" * 5000,
                "[" * 90_000,
                "-" * 90_000,
                "{}",
                "\0",
                "'" * 3,
                "é",
                "{1: 2, **3}",
            )
        )
    header = text.encode("latin-1") + b" " * chance.randrange(64) + b"\n"
    version = chance.choice((1, 1, 1, 2, 3, 0, 9))
    length = len(header) if chance.random() < 0.9 else chance.choice((0, 1, 65535, 2**32 - 1))
    size = min(length, 65535).to_bytes(2, "little") if version < 2 else length.to_bytes(4, "little")
    mark = (
        b"\x93NUMPY" if chance.random() < 0.95 else chance.choice((b"PK\x03\x04", b"\x80\x04", b""))
    )
    return mark + bytes((version, chance.choice((0, 0, 1)))) + size + header + data[-64:]
