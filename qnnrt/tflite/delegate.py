"""The delegate: a QNN backend that takes operators off an interpreter."""

from __future__ import annotations

import hashlib
import logging
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import BufferInUseError, ClosedError, ModelError, QnnError
from ..importers.tflite.parts import Parts
from ..importers.tflite.schema import OperatorInfo
from ..model import Model
from ..qnn import htp
from ..qnn.backend import Backend
from ..qnn.profile import ProfileEvent
from ..session import Session
from ..session.build import add_model
from ..support import named
from .options import QnnDelegateOptions, choices

__all__ = ["API_VERSION", "QnnDelegate", "get_api_version", "has_capability", "log"]

log = logging.getLogger("qnnrt.tflite")
#: Of the delegate interface that this follows.
API_VERSION: Final = (0, 24, 0)
_VERBOSE: Final = 15  # between logging.INFO and logging.DEBUG
logging.addLevelName(_VERBOSE, "VERBOSE")
_NUMBERS: Final = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "verbose": _VERBOSE,
}
_CAPABILITIES: Final = ("dsp", "gpu", "htp_quantized", "htp_fp16")


class QnnDelegate:
    """A QNN backend that runs the operators of an interpreter that it knows.

    Attributes:
        options: the ``QnnDelegateOptions``.
        backend: the open ``Backend``.
    """

    name = "TfLiteQnnDelegate"

    def __init__(
        self, options: QnnDelegateOptions | Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """
        Args:
            options: options; a mapping of strings is read as the keys of an external delegate.
            more: fields of ``QnnDelegateOptions`` instead.

        Raises:
            ValueError: an option that there is not; ``backend_type`` is missing.
            BackendNotFoundError, BackendError: the backend does not open.
        """
        if options is None:
            options = QnnDelegateOptions(**more)
        elif more:
            raise ValueError("give options, or fields of them, not both")
        elif not isinstance(options, QnnDelegateOptions):
            options = QnnDelegateOptions.from_strings(options)
        self.options = options
        self.profile: list[ProfileEvent] = []
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()
        self._ops: frozenset[str] | None = None
        self.backend = self._open()
        try:
            self._prepare()
        except BaseException:
            self.backend.close()
            raise

    # ---- the backend

    def _open(self) -> Backend:
        given = self.options
        name = given.library_path or str(given.backend_type)
        # One step quieter than the delegate: its lines are about nodes, the backend's about calls.
        level = {4: "info", 5: "debug"}.get(given.log_number)
        more: dict[str, Any] = {"log_level": level or ("warning" if given.log_number else "error")}
        if given.backend_type == "gpu" and given.library_path is None:
            gpu = given.gpu_options
            more["gpu"] = {"precision": gpu.precision}
            if gpu.performance_mode != "default":
                more["gpu"]["perf_hint"] = gpu.performance_mode
            if gpu.kernel_repo_dir is not None:
                more["gpu"]["cache_dir"] = gpu.kernel_repo_dir
        if given.backend_type == "htp" and given.htp_options.pd_session == "signed":
            library = Backend.shared(name).library
            more["device_options"] = htp.device_configs(library.core_version, signed_pd=True)
        return Backend.open(name, **more)

    def _prepare(self) -> None:
        given = self.options
        if given.backend_type == "htp":
            there = [d.device_id for d in self.backend.platform_info()]
            if there and given.htp_options.device_id not in there:
                raise ValueError(
                    f"htp device_id {given.htp_options.device_id}: there are {there} on this "
                    "platform"
                )
        for path, provider, target in given.op_packages:
            self.backend.register_op_package(path, provider, target)
        if self.strategy == "manual":
            self.vote()

    @property
    def _group(self) -> Any:
        return getattr(self.options, f"{self.options.backend_type}_options")

    @property
    def strategy(self) -> str:
        """When the performance mode is voted for: "manual" or "auto"."""
        return str(getattr(self._group, "perf_ctrl_strategy", "manual"))

    def vote(self, mode: str | None = None) -> None:
        """Ask for the performance mode; "default" takes it back."""
        wanted = mode or str(self._group.performance_mode)
        if self.options.backend_type == "gpu":  # asked for when it was opened
            return
        if wanted == "default" and self.backend.perf_profile in (None, "default"):
            return
        self.backend.set_perf_profile(wanted)

    def update_htp_performance_mode(self, mode: str | int) -> None:
        """Another performance mode from now on, as ``TfLiteQnnDelegateUpdateHtpPerfMode``.

        Raises:
            ValueError: no such mode, or the backend is not HTP.
        """
        if self.options.backend_type != "htp":
            raise ValueError(
                f"the backend of this delegate is {self.options.backend_type}, not htp"
            )
        names = choices("htp_performance_mode")
        name = names[mode] if isinstance(mode, int) and 0 <= mode < len(names) else mode
        if name not in names:
            raise ValueError(f"performance mode must be one of {', '.join(names)}, not {mode!r}")
        self.vote(str(name))

    # ---- which operators

    def refusal(self, parts: Parts, operator: OperatorInfo) -> str | None:
        """Why this backend does not take an operator; None where it does."""
        if self._ops is None:
            self._ops = frozenset(self.backend.supported_ops)
        if parts.variable(operator) is not None:
            return "resource variables stay with the interpreter"
        inputs = [
            i
            for i in dict.fromkeys(operator.inputs)
            if i >= 0 and i not in parts.constants and not parts.graph.tensors[i].variable
        ]
        try:
            model = parts.model([operator], inputs, operator.outputs)
        except ModelError as e:
            return str(e)
        unknown = [n.type for n in model.nodes if n.type not in self._ops]
        if unknown:
            return f"{self.backend.name} has no operation {unknown[0]}"
        context = self.backend.create_context()
        try:
            declared = dict.fromkeys((*model.inputs, *model.outputs), "raw")
            scalar = () if self.backend.library.has_extensions else (1,)
            add_model(context.create_graph("one"), model, declared, scalar)
        except QnnError as e:
            return str(e)
        finally:
            context.close()
        return None

    # ---- graphs

    def session(self, model: Model, shared: Mapping[str, bool], key: str) -> Session:
        """The model made ready; ``shared`` says which inputs and outputs lie in custom memory.

        Args:
            key: identifies this model among others of the same token.
        """
        io = {name: "memhandle" if there else "raw" for name, there in shared.items()}
        path = self._cached(key)
        if path is not None and path.exists():
            try:
                return Session(path, self.backend, io=io)
            except (QnnError, ModelError, OSError) as e:
                self.say("warning", f"{path} is of no use, so the graph is prepared anew: {e}")
        options: dict[str, Any] = {"priority": self.options.graph_priority}
        if self.options.backend_type == "htp":
            options["graph_config"] = self.options.htp_options.graph_config()
        session = Session(model, self.backend, io=io, options=options)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            session.save_binary(path)
        return session

    def _cached(self, key: str) -> Path | None:
        if self.options.cache_dir is None:
            return None
        described = repr((key, self.options.backend_type, self._group, self.backend.build_id))
        number = hashlib.sha256(described.encode()).hexdigest()[:16]
        return Path(self.options.cache_dir) / f"{self.options.model_token}_{number}.bin"

    # ---- what happened

    def say(self, level: str, text: str) -> None:
        """A line on the logger ``qnnrt.tflite``, unless ``log_level`` is below."""
        if self.options.log_number >= choices("log_level").index(level):
            log.log(_NUMBERS[level], "%s", text)

    def profiling_result(self) -> list[ProfileEvent]:
        """Events of all runs since the last ``clear_profiling_result``; none with profiling off."""
        return list(self.profile)

    def clear_profiling_result(self) -> None:
        """Forget the events."""
        self.profile.clear()

    # ---- the end

    def check_open(self) -> None:
        """Raises ``ClosedError`` after ``close``."""
        if self.backend.closed:
            raise ClosedError("the delegate has been deleted")

    def close(self) -> None:
        """Delete it, after the interpreters that use it.

        Raises:
            BufferInUseError: an interpreter still uses it.
        """
        users: Sequence[str] = sorted(str(u) for u in self._users)
        if users:
            raise BufferInUseError(
                f"the delegate is used by {', '.join(users)}: close the interpreter first", users
            )
        self.backend.close()

    def __enter__(self) -> QnnDelegate:
        self.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name} on {self.backend.name}>"


def has_capability(name: str) -> bool:
    """Whether a runtime is there: "dsp", "gpu", "htp_quantized" or "htp_fp16".

    Raises:
        ValueError: no such capability.
    """
    named("capability", name, _CAPABILITIES)
    if name == "gpu":
        from ..gpu import why_not

        return why_not() is None
    # Floats of 16 bits are computed in 32 here: no fp16 runtime.
    return name == "htp_quantized"


def get_api_version() -> tuple[int, int, int]:
    """The version of the delegate interface that this follows."""
    return API_VERSION
