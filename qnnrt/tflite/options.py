"""Options of the delegate: fields as in C, and the string keys of an external delegate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from ..abi import constants as abi
from ..abi.structs import QnnHtpGraph_CustomConfig_t
from ..support import choice
from .external import option_table

__all__ = [
    "STRING_KEYS",
    "DspOptions",
    "GpuOptions",
    "HtpOptions",
    "QnnDelegateOptions",
    "SkipOptions",
    "choices",
]


def choices(key: str) -> list[str]:
    """The names of an option's numbers from 0 on; none where it is no choice."""
    return list(option_table()[key].get("choices", ()))


def _option(key: str) -> Any:
    """The field for a key of an external delegate, with the delegate's own default."""
    spec = option_table()[key]
    default = () if spec["kind"] == "list" else spec.get("default")
    return field(default=default, metadata={"key": key})


class _Checked:
    """Fields that are choices hold a name from the start, numbers are in their range."""

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            value, spec = getattr(self, f.name), option_table().get(f.metadata.get("key", ""), {})
            if names := spec.get("choices"):
                number = choice(f.name, value, {name: n for n, name in enumerate(names)})
                if not 0 <= number < len(names):
                    there = ", ".join(f"{n} ({name})" for n, name in enumerate(names))
                    raise ValueError(f"{f.name} must be one of {there}, not {number}")
                object.__setattr__(self, f.name, names[number])
            elif "most" in spec and not 0 <= value <= spec["most"]:
                raise ValueError(f"{f.name} must be a number from 0 to {spec['most']}, not {value}")


@dataclass(frozen=True)
class HtpOptions(_Checked):
    """Options of the HTP backend.

    Attributes:
        performance_mode: a vote for clocks; "burst", "power_saver"...
        perf_ctrl_strategy: "manual": the vote holds as long as the delegate; "auto": only while
            the interpreter runs.
        precision: "quantized" or "fp16". Given to the graph; qnnrt's own backend computes floats
            in 32 bits all the same.
        pd_session: "unsigned" or "signed" process domain; given to the device.
        optimization_strategy: "inference", "prepare" or "inference_o3"; given to the graph, which
            qnnrt's own backend always optimizes fully.
        use_conv_hmx, use_fold_relu: given to the graph.
        vtcm_size: in MiB, 0 for all; given to the graph.
        num_hvx_threads: threads of the graph's kernels, 0 for the default.
        device_id: there has to be such a device.
    """

    performance_mode: str | int = _option("htp_performance_mode")
    perf_ctrl_strategy: str | int = _option("htp_perf_ctrl_strategy")
    precision: str | int = _option("htp_precision")
    pd_session: str | int = _option("htp_pd_session")
    optimization_strategy: str | int = _option("htp_optimization_strategy")
    use_conv_hmx: bool = _option("htp_use_conv_hmx")
    use_fold_relu: bool = _option("htp_use_fold_relu")
    vtcm_size: int = _option("htp_vtcm_size")
    num_hvx_threads: int = _option("htp_num_hvx_threads")
    device_id: int = _option("htp_device_id")

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

    precision: str | int = _option("gpu_precision")
    performance_mode: str | int = _option("gpu_performance_mode")
    kernel_repo_dir: str | None = _option("gpu_kernel_repo_dir")


@dataclass(frozen=True)
class DspOptions(_Checked):
    """Options of the DSP backend, which only a vendor's library is (``library_path``).

    Attributes:
        performance_mode, perf_ctrl_strategy, pd_session: as of ``HtpOptions``.
    """

    performance_mode: str | int = _option("dsp_performance_mode")
    perf_ctrl_strategy: str | int = _option("dsp_perf_ctrl_strategy")
    pd_session: str | int = _option("dsp_pd_session")


@dataclass(frozen=True)
class SkipOptions:
    """Operators that the delegate leaves to the CPU.

    Attributes:
        ops: builtin operators, by name or number: "CONV_2D".
        node_ids: their positions in the execution plan.
    """

    ops: Sequence[str | int] = _option("skip_delegate_ops")
    node_ids: Sequence[int] = _option("skip_delegate_node_ids")


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

    backend_type: str | int = _option("backend_type")
    library_path: str | None = _option("library_path")
    skel_library_dir: str | None = _option("skel_library_dir")
    htp_options: HtpOptions = field(default_factory=HtpOptions)
    gpu_options: GpuOptions = field(default_factory=GpuOptions)
    dsp_options: DspOptions = field(default_factory=DspOptions)
    log_level: str | int = _option("log_level")
    profiling: str | int = _option("profiling")
    op_packages: Sequence[tuple[str, str, str | None]] = ()
    tensor_dump_output_path: str | None = _option("tensor_dump_output_path")
    cache_dir: str | None = _option("cache_dir")
    model_token: str | None = _option("model_token")
    skip_options: SkipOptions = field(default_factory=SkipOptions)
    graph_priority: str | int = _option("graph_priority")

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
        return choices("log_level").index(str(self.log_level))

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
            group, name = STRING_KEYS[key]
            groups.setdefault(group, {})[name] = _parsed(key, str(text))
        own = groups.pop("", {})
        return cls(**own, **{group: _GROUPS[group](**given) for group, given in groups.items()})


def _number(key: str, text: str) -> int:
    try:
        return int(text, 10)
    except ValueError:
        raise ValueError(f"{key} must be a number, not {text!r}") from None


def _parsed(key: str, text: str) -> Any:
    kind = option_table()[key]["kind"]
    if kind == "choice":
        return int(text) if text.isdecimal() else text
    if kind == "number":
        return _number(key, text)
    if kind == "list":
        return tuple(_number(key, item) for item in text.split(",")) if text else ()
    if kind == "flag":
        flags = {"0": False, "false": False, "1": True, "true": True}
        if text.lower() not in flags:
            raise ValueError(f"{key} must be 0 or 1, not {text!r}")
        return flags[text.lower()]
    return text


_GROUPS: Final[dict[str, type]] = {
    "": QnnDelegateOptions,
    "htp_options": HtpOptions,
    "gpu_options": GpuOptions,
    "dsp_options": DspOptions,
    "skip_options": SkipOptions,
}
#: Key of an external delegate -> the group of options ("" for none) and the field.
STRING_KEYS: Final[dict[str, tuple[str, str]]] = {
    f.metadata["key"]: (group, f.name)
    for group, made in _GROUPS.items()
    for f in fields(made)
    if "key" in f.metadata
}
