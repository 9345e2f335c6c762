"""Options of the delegate: fields as in C, and the string keys of an external delegate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from ..abi import constants as abi
from ..abi.structs import QnnHtpGraph_CustomConfig_t
from ..support import choice

__all__ = [
    "STRING_KEYS",
    "DspOptions",
    "GpuOptions",
    "HtpOptions",
    "QnnDelegateOptions",
    "SkipOptions",
]

_BACKENDS: Final = {"undefined": 0, "gpu": 1, "htp": 2, "dsp": 3, "ir": 4}
#: The number is the delegate's, the name that of ``Backend.set_perf_profile``.
HTP_MODES: Final = {
    "default": 0,
    "sustained_high_performance": 1,
    "burst": 2,
    "high_performance": 3,
    "power_saver": 4,
    "low_power_saver": 5,
    "high_power_saver": 6,
    "low_balanced": 7,
    "balanced": 8,
    "extreme_power_saver": 9,
}
_DSP_MODES: Final = {name: n for name, n in HTP_MODES.items() if n < 9}
_STRATEGIES: Final = {"manual": 0, "auto": 1}
_PD: Final = {"unsigned": 0, "signed": 1}
_LOG_LEVELS: Final = {"off": 0, "error": 1, "warning": 2, "info": 3, "verbose": 4, "debug": 5}
_PROFILING: Final = {"off": 0, "basic": 1, "per_op": 2, "linting": 3}
_PRIORITIES: Final = {"low": 0, "normal": 1, "normal_high": 2, "high": 3}
_GPU_PRECISION: Final = {"user": 0, "fp32": 1, "fp16": 2, "hybrid": 3}
_GPU_MODES: Final = {"default": 0, "high": 1, "normal": 2, "low": 3}
_HTP_PRECISION: Final = {"quantized": 0, "fp16": 1}
_HTP_STRATEGIES: Final = {"inference": 0, "prepare": 1, "inference_o3": 2}


class _Checked:
    """Fields with a list of words hold one of them from the start."""

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            words = f.metadata.get("words")
            if words is not None:
                number = choice(f.name, getattr(self, f.name), words)
                name = next((w for w, n in words.items() if n == number), None)
                if name is None:
                    there = ", ".join(f"{n} ({w})" for w, n in words.items())
                    raise ValueError(f"{f.name} must be one of {there}, not {number}")
                object.__setattr__(self, f.name, name)


def _word(words: Mapping[str, int], default: str) -> Any:
    return field(default=default, metadata={"words": words})


@dataclass(frozen=True)
class HtpOptions(_Checked):
    """Options of the HTP backend.

    Attributes:
        performance_mode: a vote for clocks; "burst", "power_saver"...
        perf_ctrl_strategy: "manual": the vote holds as long as the delegate; "auto": only while
            the interpreter runs.
        precision: "quantized" or "fp16". Told to the graph; qnnrt's own backend computes floats
            in 32 bits all the same.
        pd_session: "unsigned" or "signed" process domain; told to the device.
        optimization_strategy: "inference", "prepare" or "inference_o3"; told to the graph, which
            qnnrt's own backend always optimizes fully.
        use_conv_hmx, use_fold_relu: told to the graph.
        vtcm_size: in MiB, 0 for all; told to the graph.
        num_hvx_threads: threads of the graph's kernels, 0 for the default.
        device_id: there has to be such a device.
    """

    performance_mode: str | int = _word(HTP_MODES, "default")
    perf_ctrl_strategy: str | int = _word(_STRATEGIES, "manual")
    precision: str | int = _word(_HTP_PRECISION, "quantized")
    pd_session: str | int = _word(_PD, "unsigned")
    optimization_strategy: str | int = _word(_HTP_STRATEGIES, "inference")
    use_conv_hmx: bool = True
    use_fold_relu: bool = True
    vtcm_size: int = 0
    num_hvx_threads: int = 0
    device_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vtcm_size", "num_hvx_threads"):
            value = getattr(self, name)
            if not 0 <= value < 1 << 32:
                raise ValueError(f"{name} must be a number from 0 to 4294967295, not {value}")

    def graph_config(self) -> list[bytes]:
        """QnnHtpGraph_CustomConfig_t structs for what differs from the backend's own defaults."""
        pack = QnnHtpGraph_CustomConfig_t.pack
        found = []
        if self.optimization_strategy != "inference":
            level = 1.0 if self.optimization_strategy == "prepare" else 3.0
            kind = abi.QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION
            found.append(pack(option=option, optimizationOption=(kind, level)))
        if self.precision == "fp16":
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION
            found.append(pack(option=option, precision=abi.QNN_PRECISION_FLOAT16))
        if self.vtcm_size:
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB
            found.append(pack(option=option, vtcmSizeInMB=self.vtcm_size))
        if not self.use_fold_relu:
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF
            found.append(pack(option=option, foldReluActivationIntoConvOff=True))
        if not self.use_conv_hmx:
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF
            found.append(pack(option=option, shortDepthConvOnHmxOff=True))
        if self.num_hvx_threads:
            option = abi.QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS
            found.append(pack(option=option, numHvxThreads=self.num_hvx_threads))
        return found


@dataclass(frozen=True)
class GpuOptions(_Checked):
    """Options of the GPU backend.

    Attributes:
        precision: "user", "fp32", "fp16" or "hybrid".
        performance_mode: "default", "high", "normal" or "low".
        kernel_repo_dir: where built kernels are kept.
    """

    precision: str | int = _word(_GPU_PRECISION, "fp16")
    performance_mode: str | int = _word(_GPU_MODES, "default")
    kernel_repo_dir: str | None = None


@dataclass(frozen=True)
class DspOptions(_Checked):
    """Options of the DSP backend, which only a vendor's library is (``library_path``).

    Attributes:
        performance_mode, perf_ctrl_strategy, pd_session: as of ``HtpOptions``.
    """

    performance_mode: str | int = _word(_DSP_MODES, "default")
    perf_ctrl_strategy: str | int = _word(_STRATEGIES, "manual")
    pd_session: str | int = _word(_PD, "unsigned")


@dataclass(frozen=True)
class SkipOptions:
    """Operators that the delegate leaves to the CPU.

    Attributes:
        ops: builtin operators, by name or number: "CONV_2D".
        node_ids: their places in the execution plan.
    """

    ops: Sequence[str | int] = ()
    node_ids: Sequence[int] = ()


@dataclass(frozen=True)
class QnnDelegateOptions(_Checked):
    """Options of ``QnnDelegate``; what they are in C is in ``QnnTFLiteDelegate.h`` of this package.

    Attributes:
        backend_type: "htp" or "gpu"; "dsp" with ``library_path``. There has to be one.
        library_path: another backend library than the one that the type stands for.
        skel_library_dir: accepted without effect: nothing here is loaded by a DSP.
        htp_options, gpu_options, dsp_options: of the backend; those of others are ignored.
        log_level: "off", "error", "warning", "info", "verbose" (why operators are left to the CPU)
            or "debug": of the lines on the logger ``qnnrt.tflite``, and of the backend's.
        profiling: "off", "basic" or "per_op": ``QnnDelegate.profiling_result``. "linting" is
            refused: only a vendor's HTP has it.
        op_packages: (path, interface provider, target or None) of each op package library.
        tensor_dump_output_path: every run writes each input and output of a delegated partition
            into this folder, as ``tensor_N.raw``.
        cache_dir, model_token: both: prepared graphs are kept in this folder under this name, and
            loaded from there by the next process.
        skip_options: operators to leave to the CPU.
        graph_priority: "low", "normal", "normal_high" or "high".
    """

    backend_type: str | int = _word(_BACKENDS, "undefined")
    library_path: str | None = None
    skel_library_dir: str | None = None
    htp_options: HtpOptions = field(default_factory=HtpOptions)
    gpu_options: GpuOptions = field(default_factory=GpuOptions)
    dsp_options: DspOptions = field(default_factory=DspOptions)
    log_level: str | int = _word(_LOG_LEVELS, "info")
    profiling: str | int = _word(_PROFILING, "off")
    op_packages: Sequence[tuple[str, str, str | None]] = ()
    tensor_dump_output_path: str | None = None
    cache_dir: str | None = None
    model_token: str | None = None
    skip_options: SkipOptions = field(default_factory=SkipOptions)
    graph_priority: str | int = _word(_PRIORITIES, "normal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend_type == "undefined":
            raise ValueError("backend_type is mandatory: 'htp' or 'gpu'")
        if self.backend_type == "ir":
            raise ValueError(
                "backend_type 'ir' writes a model for the vendor's offline tools, which qnnrt "
                "does not: use 'htp' or 'gpu'"
            )
        if self.backend_type == "dsp" and self.library_path is None:
            raise ValueError(
                "backend_type 'dsp' needs library_path, a vendor's libQnnDsp.so: qnnrt has no such "
                "backend of its own; 'htp' runs the same models"
            )
        if self.profiling == "linting":
            raise ValueError("profiling 'linting' is of a vendor's HTP alone: use 'per_op'")
        if (self.cache_dir is None) != (self.model_token is None):
            raise ValueError("cache_dir and model_token belong together: give both, or neither")
        if self.model_token is not None and Path(self.model_token).name != self.model_token:
            raise ValueError(f"model_token {self.model_token!r} must be a plain file name")

    @property
    def log_number(self) -> int:
        """The log level, from 0 (off) to 5 (debug)."""
        return _LOG_LEVELS[str(self.log_level)]

    @classmethod
    def from_strings(cls, keys: Mapping[str, str]) -> QnnDelegateOptions:
        """Options out of the keys of an external delegate, all of them strings.

        Raises:
            ValueError: no such key, or not such a value; the message says which there are.
        """
        groups: dict[str, dict[str, Any]] = {}
        for key, text in keys.items():
            if key not in STRING_KEYS:
                hint = "; it is htp_device_id" if key == "device_id" else ""
                raise ValueError(
                    f"unknown option {key!r}{hint}; there are {', '.join(sorted(STRING_KEYS))}"
                )
            group, name, parse = STRING_KEYS[key]
            groups.setdefault(group, {})[name] = parse(key, str(text))
        own = groups.pop("", {})
        for group, made in (
            ("htp_options", HtpOptions),
            ("gpu_options", GpuOptions),
            ("dsp_options", DspOptions),
            ("skip_options", SkipOptions),
        ):
            if group in groups:
                own[group] = made(**groups[group])
        return cls(**own)


def _text(key: str, text: str) -> str:
    return text


def _number(key: str, text: str) -> int:
    try:
        return int(text, 10)
    except ValueError:
        raise ValueError(f"{key} must be a number, not {text!r}") from None


def _either(key: str, text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _flag(key: str, text: str) -> bool:
    words = {"0": False, "false": False, "1": True, "true": True}
    if text.lower() not in words:
        raise ValueError(f"{key} must be 0 or 1, not {text!r}")
    return words[text.lower()]


def _numbers(key: str, text: str) -> tuple[int, ...]:
    return tuple(_number(key, item) for item in text.split(",")) if text else ()


_Parse = Callable[[str, str], Any]
#: Key -> the group of options, the field, and what reads the text.
STRING_KEYS: Final[dict[str, tuple[str, str, _Parse]]] = {
    "backend_type": ("", "backend_type", _either),
    "library_path": ("", "library_path", _text),
    "skel_library_dir": ("", "skel_library_dir", _text),
    "log_level": ("", "log_level", _either),
    "profiling": ("", "profiling", _either),
    "graph_priority": ("", "graph_priority", _either),
    "tensor_dump_output_path": ("", "tensor_dump_output_path", _text),
    "skip_delegate_ops": ("skip_options", "ops", _numbers),
    "skip_delegate_node_ids": ("skip_options", "node_ids", _numbers),
    "gpu_precision": ("gpu_options", "precision", _either),
    "gpu_performance_mode": ("gpu_options", "performance_mode", _either),
    "gpu_kernel_repo_dir": ("gpu_options", "kernel_repo_dir", _text),
    "htp_performance_mode": ("htp_options", "performance_mode", _either),
    "htp_perf_ctrl_strategy": ("htp_options", "perf_ctrl_strategy", _either),
    "htp_precision": ("htp_options", "precision", _either),
    "htp_pd_session": ("htp_options", "pd_session", _either),
    "htp_optimization_strategy": ("htp_options", "optimization_strategy", _either),
    "htp_use_conv_hmx": ("htp_options", "use_conv_hmx", _flag),
    "htp_use_fold_relu": ("htp_options", "use_fold_relu", _flag),
    "htp_vtcm_size": ("htp_options", "vtcm_size", _number),
    "htp_num_hvx_threads": ("htp_options", "num_hvx_threads", _number),
    "htp_device_id": ("htp_options", "device_id", _number),
    "dsp_performance_mode": ("dsp_options", "performance_mode", _either),
    "dsp_perf_ctrl_strategy": ("dsp_options", "perf_ctrl_strategy", _either),
    "dsp_pd_session": ("dsp_options", "pd_session", _either),
    "cache_dir": ("", "cache_dir", _text),
    "model_token": ("", "model_token", _text),
}
