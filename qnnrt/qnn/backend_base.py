"""What every backend has: a QNN library opened, its log, its device and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from .._native import _core
from ..abi import constants as abi
from ..custom_ops import PYTHON_PACKAGE, python_ops
from ..errors import QnnError
from ..support import choice, log
from .options import qnn_log_level
from .owner import Options, Owner, config
from .params import params_of

__all__ = ["CAPABILITIES", "BackendBase", "BackendVersion"]

Tensor: TypeAlias = _core.Tensor

#: Property keys for ``Backend.has_capability`` by name.
CAPABILITIES: Final = {
    "op_package": abi.QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE,
    "context_caching": abi.QNN_PROPERTY_CONTEXT_SUPPORT_CACHING,
    "validate_binary": abi.QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY,
    "graph_config": abi.QNN_PROPERTY_GRAPH_SUPPORT_CONFIG,
    "signals": abi.QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS,
    "async_execution": abi.QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION,
    "finalize_signal": abi.QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_SIGNAL,
    "execute_signal": abi.QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL,
    "execute_async_signal": abi.QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL,
    "subgraph": abi.QNN_PROPERTY_GRAPH_SUPPORT_SUBGRAPH,
    "bind_mem_handles": abi.QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES,
    "populate_client_bufs": abi.QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS,
    "finalize_deserialized_graph": abi.QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_DESERIALIZED_GRAPH,
    "early_termination": abi.QNN_PROPERTY_GRAPH_SUPPORT_EARLY_TERMINATION,
    "online_prepare": abi.QNN_PROPERTY_GRAPH_SUPPORT_ONLINE_PREPARE,
    "tensor_mem_handle": abi.QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE,
    "context_tensors": abi.QNN_PROPERTY_TENSOR_SUPPORT_CONTEXT_TENSORS,
    "dynamic_dimensions": abi.QNN_PROPERTY_TENSOR_SUPPORT_DYNAMIC_DIMENSIONS,
    "verbose_message": abi.QNN_PROPERTY_ERROR_GET_VERBOSE_MESSAGE,
    "mem_type_ion": abi.QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION,
    "mem_type_custom": abi.QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM,
    "mem_type_dma_buf": abi.QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF,
    "signal_abort": abi.QNN_PROPERTY_SIGNAL_SUPPORT_ABORT,
    "signal_timeout": abi.QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT,
    "device": abi.QNN_PROPERTY_GROUP_DEVICE,
    "device_infrastructure": abi.QNN_PROPERTY_DEVICE_SUPPORT_INFRASTRUCTURE,
}


class BackendVersion(NamedTuple):
    """Versions of the core interface that a backend speaks, and of its own extensions."""

    core: tuple[int, int, int]
    backend: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.core))} ({'.'.join(map(str, self.backend))})"


class _Log(Owner):
    _rank = 9

    def __init__(self, library: _core.Library, level: int) -> None:
        self._own("a log", _core.Held(library.log_free, library.log_create, level))


class _Device(Owner):
    _rank = 8

    def __init__(self, backend: BackendBase, options: Options, held: list[_core.Held]) -> None:
        library = backend.library
        create, given = library.device_create, config(options)
        held.append(_core.Held(library.device_free, create, backend._log_handle, given))
        # The backend keeps its device and closes it first. The other way round as well, neither
        # would ever go: what a finalizer holds lives as long as the finalizer.
        self._own("a device", held[-1])
        backend._adopt(self)


class BackendBase(Owner):
    """A backend as its contexts, profiles and signals see it; ``Backend`` makes those."""

    _rank = 7

    def __init__(
        self,
        library: _core.Library,
        *,
        log_level: str | int | None = None,
        options: Sequence[tuple[int, Any]] = (),
        device_options: Sequence[tuple[int, Any]] = (),
    ) -> None:
        self.library = library
        self._device: _Device | None = None
        self._has_python_ops = False
        self._log: _Log | None = None
        level = qnn_log_level(log.getEffectiveLevel() if log_level is None else log_level)
        try:
            self._log = _Log(library, level)
        except QnnError as e:
            log.debug("%s gives no log: %s", library.path, str(e))
        # The device and votes go before the backend, the log after it: held here, closed below.
        held: list[_core.Held] = []
        self._go_first = held

        def free(handle: int) -> None:
            while held:
                held[-1].close()
                held.pop()
            library.backend_free(handle)

        made = _core.Held(free, library.backend_create, self._log_handle, config(list(options)))
        self._own(f"backend {library.provider_name}", made, keep=self._log)
        if library.backend_id == abi.QNN_BACKEND_ID_LPAI and not device_options:
            return  # it has no devices, and says so in its log when asked for one
        try:
            self._device = _Device(self, list(device_options), held)
        except QnnError as e:
            if device_options:
                self.close()
                raise
            log.debug("%s has no device: %s", library.path, str(e))  # e has frames

    @property
    def _log_handle(self) -> int:
        return self._log.handle if self._log else 0

    @property
    def _device_handle(self) -> int:
        return self._device.handle if self._device else 0

    def close(self) -> None:
        """Close its contexts and the device, itself, and its log, in this order."""
        super().close()
        if self._log is not None:
            self._log.close()

    @property
    def name(self) -> str:
        """The provider's name, for example ``CPU_QTI_AISW``."""
        return self.library.provider_name

    @property
    def id(self) -> int:
        """QNN's number for the kind of backend: 3 CPU, 4 GPU, 6 HTP, 12 LPAI."""
        return self.library.backend_id

    @property
    def version(self) -> BackendVersion:
        """The core interface's version and the backend's own."""
        return BackendVersion(self.library.core_version, self.library.backend_version)

    @property
    def build_id(self) -> str:
        """The library's build, in the maker's own words."""
        return self.library.backend_get_build_id()

    @property
    def cl_context(self) -> Any:
        """The ``pyopencl.Context`` of the gpu backend: buffers of it can be registered.

        Raises:
            ValueError: this is another backend.
        """
        return self._opencl("cl_context")

    @property
    def cl_queue(self) -> Any:
        """The ``pyopencl.CommandQueue`` that the gpu backend runs its kernels in.

        Raises:
            ValueError: this is another backend.
        """
        return self._opencl("cl_queue")

    def _opencl(self, name: str) -> Any:
        found = getattr(self.library, name, None)
        if found is None:
            raise ValueError(
                f"{name} is the gpu backend's: {self.name} at {self.library.path} shows none"
            )
        return found

    @property
    def has_device(self) -> bool:
        """Whether it gave a device handle; the cpu and lpai backends have none."""
        return self._device is not None

    @property
    def supported_ops(self) -> tuple[str, ...]:
        """Op types that it knows, sorted; "package::type" for packages but ``qti.aisw``."""
        pairs = self.library.backend_get_supported_operations(self.handle)
        return tuple(sorted(t if p == "qti.aisw" else f"{p}::{t}" for p, t in pairs))

    def has_capability(self, key: int | str) -> bool:
        """Whether a property key (or a name in ``CAPABILITIES``) is supported."""
        number = choice("capability", key, CAPABILITIES)
        return self.library.property_has_capability(number) == 0

    def validate_op(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        params: Mapping[str, Any] | None = None,
        *,
        name: str = "op",
        package: str = "qti.aisw",
    ) -> None:
        """Ask whether it would take a node.

        Raises:
            QnnError: it would not; the message says why, as far as the backend does.
        """
        self.use_package(package)
        op = _core.Op(name, package, type, list(params_of(params, None)), inputs, outputs)
        self.library.backend_validate_op_config(self.handle, op)

    def set_config(self, options: Sequence[tuple[int, Any]]) -> None:
        """Change QnnBackend_Config_t options, given as for ``open``.

        Raises:
            BackendError: 4003 or 4012, the backend does not take an option, or not this value.
        """
        self.library.backend_set_config(self.handle, config(list(options)))

    def register_op_package(self, path: str, provider: str, target: str | None = None) -> None:
        """Load an op package: its ops are those of nodes with its name as `package`.

        Args:
            path: its library, compiled with ``qnnrt_op_package.h``.
            provider: the function of it that gives the interface.
            target: what the ops run on; "CPU" is the only one.

        Raises:
            BackendError: 4003 this backend takes none; 4005 no such library, 4006 no such provider,
                4007 what the package itself says, 4008 compiled for something else, 4009 the
                backend has a package of that name.
        """
        self.library.backend_register_op_package(self.handle, path, provider, target)

    def use_package(self, package: str) -> None:
        """See to it that the ops of Python are there, if that is the package.

        Raises:
            BackendError: 4003, this backend takes none.
        """
        if package == PYTHON_PACKAGE and not self._has_python_ops:
            _core.register_python_ops(self.library, self.handle)
            self._has_python_ops = True

    def prepare_packages(self) -> None:
        """See to it that a context binary with ops of Python finds those that are registered."""
        if python_ops() and self.library.has_extensions and self.has_capability("op_package"):
            self.use_package(PYTHON_PACKAGE)

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self.library.backend_get_property(self.handle, option, data)

    def set_log_level(self, level: str | int) -> None:
        """From now on; see ``open``."""
        if self._log is not None:
            self.library.log_set_log_level(self._log_handle, qnn_log_level(level))
