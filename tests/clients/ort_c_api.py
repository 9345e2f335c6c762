"""ONNX Runtime's C API through ctypes: what its Python package has no words for.

Tensors in a provider's own memory ("QnnHtpShared") come from an allocator of the session, which
only the C API gives out. Functions go by their places in the API's table, which stay.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

# ONNX_TENSOR_ELEMENT_DATA_TYPE_*
ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5}
API_VERSION = 22
FUNCTIONS = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSession": 7,
    "CreateSessionOptions": 10,
    "SetSessionLogSeverityLevel": 22,
    "CreateTensorAsOrtValue": 48,
    "CreateTensorWithDataAsOrtValue": 49,
    "GetTensorMutableData": 51,
    "CreateMemoryInfo": 68,
    "ReleaseEnv": 92,
    "ReleaseMemoryInfo": 94,
    "ReleaseSession": 95,
    "ReleaseValue": 96,
    "ReleaseSessionOptions": 100,
    "CreateAllocator": 131,
    "ReleaseAllocator": 132,
    "RunWithBinding": 133,
    "CreateIoBinding": 134,
    "ReleaseIoBinding": 135,
    "BindInput": 136,
    "BindOutput": 137,
    "RegisterExecutionProviderLibrary": 301,
    "GetEpDevices": 303,
    "SessionOptionsAppendExecutionProvider_V2": 304,
    "EpDevice_EpName": 312,
}


class Api:
    """The table: ``api.CreateEnv(...)`` raises what the status says."""

    def __init__(self) -> None:
        (path,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
        library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(library.OrtGetApiBase()[0])
        address = get_api(API_VERSION)
        assert address, f"this ONNX Runtime has no API of version {API_VERSION}"
        self._table = (ctypes.c_void_p * 400).from_address(address)

    def _raw(self, name: str, result: Any, args: Sequence[Any]) -> Any:
        types = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in args]
        texts = [ctypes.c_char_p(a) if isinstance(a, bytes) else a for a in args]
        return ctypes.CFUNCTYPE(result, *types)(self._table[FUNCTIONS[name]])(*texts)

    def release(self, kind: str, pointer: ctypes.c_void_p) -> None:
        self._raw(f"Release{kind}", None, [pointer])

    def text(self, name: str, *args: Any) -> str:
        return self._raw(name, ctypes.c_char_p, args).decode()

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> None:
            if status := self._raw(name, ctypes.c_void_p, args):
                raise RuntimeError(
                    f"{name}: {self.text('GetErrorMessage', ctypes.c_void_p(status))}"
                )

        return call

    def make(self, name: str, *args: Any) -> ctypes.c_void_p:
        """The object that a function returns through its last parameter."""
        made = ctypes.c_void_p()
        getattr(self, name)(*args, ctypes.byref(made))
        return made


class Session:
    """A session of a model of float tensors on one execution provider."""

    def __init__(
        self, model: str, provider: str, library: str, options: Mapping[str, str], severity: int = 2
    ) -> None:
        api = self.api = Api()
        self.env = api.make("CreateEnv", severity, b"test")
        api.RegisterExecutionProviderLibrary(self.env, provider.encode(), library.encode())
        devices = ctypes.POINTER(ctypes.c_void_p)()
        count = ctypes.c_size_t()
        api.GetEpDevices(self.env, ctypes.byref(devices), ctypes.byref(count))
        of_ep = [d for d in devices[: count.value] if self._name(d) == provider]
        keys = (ctypes.c_char_p * len(options))(*[k.encode() for k in options])
        values = (ctypes.c_char_p * len(options))(*[v.encode() for v in options.values()])
        settings = api.make("CreateSessionOptions")
        api.SetSessionLogSeverityLevel(settings, severity)
        one = (ctypes.c_void_p * 1)(of_ep[0])
        api.SessionOptionsAppendExecutionProvider_V2(
            settings, self.env, one, 1, keys, values, len(options)
        )
        self.session = api.make("CreateSession", self.env, model.encode(), settings)
        api.release("SessionOptions", settings)
        self._allocators: dict[str, tuple[ctypes.c_void_p, ctypes.c_void_p]] = {}
        self._values: list[ctypes.c_void_p] = []

    def _name(self, device: int) -> str:
        return self.api.text("EpDevice_EpName", ctypes.c_void_p(device))

    def allocator(self, memory: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """(memory info, allocator) by the memory's name: "Cpu" or "QnnHtpShared"."""
        if memory not in self._allocators:
            info = self.api.make("CreateMemoryInfo", memory.encode(), 0, 0, 0)
            self._allocators[memory] = (info, self.api.make("CreateAllocator", self.session, info))
        return self._allocators[memory]

    def tensor(
        self, shape: Sequence[int], memory: str, dtype: str = "float32"
    ) -> tuple[ctypes.c_void_p, np.ndarray]:
        """(value, a view of its memory)."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        _, allocator = self.allocator(memory)
        kind = ELEMENT_TYPES[dtype]
        value = self.api.make("CreateTensorAsOrtValue", allocator, dims, len(shape), kind)
        self._values.append(value)
        data = self.api.make("GetTensorMutableData", value)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        flat = (ctypes.c_uint8 * size).from_address(data.value or 0)
        return value, np.frombuffer(flat, dtype).reshape(shape)

    def part(
        self, whole: np.ndarray, memory: str, offset: int, shape: Sequence[int], dtype: str
    ) -> tuple[ctypes.c_void_p, np.ndarray]:
        """(value, a view) of a tensor at a byte of memory from that allocator, which stays."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        view = whole.reshape(-1).view(np.uint8)[offset : offset + size]
        info, _ = self.allocator(memory)
        address = ctypes.c_void_p(view.ctypes.data)
        value = self.api.make(
            "CreateTensorWithDataAsOrtValue",
            info,
            address,
            size,
            dims,
            len(shape),
            ELEMENT_TYPES[dtype],
        )
        self._values.append(value)
        return value, view.view(dtype).reshape(shape)

    def binding(
        self, inputs: Mapping[str, ctypes.c_void_p], outputs: Mapping[str, ctypes.c_void_p]
    ) -> ctypes.c_void_p:
        binding = self.api.make("CreateIoBinding", self.session)
        for name, value in inputs.items():
            self.api.BindInput(binding, name.encode(), value)
        for name, value in outputs.items():
            self.api.BindOutput(binding, name.encode(), value)
        return binding

    def run(self, binding: ctypes.c_void_p) -> None:
        self.api.RunWithBinding(self.session, None, binding)

    def release_values(self) -> None:
        for value in self._values:
            self.api.release("Value", value)
        self._values.clear()

    def close(self) -> None:
        self.release_values()
        for info, allocator in self._allocators.values():
            self.api.release("Allocator", allocator)
            self.api.release("MemoryInfo", info)
        self._allocators.clear()
        self.api.release("Session", self.session)
        self.api.release("Env", self.env)
