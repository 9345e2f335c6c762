"""What the config options of devices, contexts and graphs do."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.qnn.backend import library_path
from support.c_table import Configs, Table
from support.config_values import BOOL, htp_context, htp_graph, lpai, own_graph, relu


def test_the_global_soc_is_that_of_later_devices() -> None:
    table = Table(library_path("htp"))
    try:
        assert table.globalConfigSet(Configs([(0, 69)], 8)) == 0
        with qnn.Backend.open("htp") as backend:
            assert backend.platform_info()[0][2:] == (69, 79, 8)
            assert backend.device_info()[0][2:] == (69, 79, 8)
        with qnn.Backend.open("htp", soc_model=43) as backend:
            assert backend.device_info()[0].soc_model == 43
    finally:
        assert table.globalConfigSet(Configs([(0, 30)], 8)) == 0


def test_the_cores_are_those_of_the_hardware_version() -> None:
    """Stand-ins of this runtime's: docs/decisions/0016-lpai-backend.md."""
    found = {}
    for version in (1, 2, 3, 4, 5, 65541, 6, 7):
        hardware = lpai(0, struct.pack("=II", 2, version))
        with qnn.Backend.open("lpai", options=[(0, hardware)]) as backend:
            found[version] = backend_cores(backend)
    assert found == {
        1: [(32, 1)],
        2: [(64, 2)],
        3: [(128, 3)],
        4: [(256, 4)],
        5: [(512, 5)],
        65541: [(512, 65541)],
        6: [(512, 6)] * 2,
        7: [(1024, 7)] * 2,
    }
    with qnn.Backend.open("lpai") as backend:
        assert backend_cores(backend) == found[6]
    with qnn.Backend.open("lpai", options=[(2, "enpu_cores:3;enpu_macs:9")]) as backend:
        assert backend_cores(backend) == [(9, 6)] * 3


def backend_cores(backend: qnn.Backend) -> list[tuple[int, int]]:
    """(multipliers, version) of each core."""
    count, cores = ctypes.c_uint32(), []
    backend.get_property(0, bytearray(struct.pack("=IxxxxQ", 200, ctypes.addressof(count))))
    for index in range(count.value):
        info = (ctypes.c_uint32 * 3)(index)
        backend.get_property(0, bytearray(struct.pack("=IxxxxQ", 300, ctypes.addressof(info))))
        cores.append((info[1], info[2]))
    return cores


@pytest.mark.parametrize("arch", [0, 74, 75, 2**32 - 1])
def test_a_platform_info_chooses_the_soc(arch: int) -> None:
    chip = struct.pack("=IxxxxQI??xxI", 0, 8, 57, False, False, arch).ljust(32, b"\0")
    extension = ctypes.create_string_buffer(chip, 32)
    hardware = ctypes.create_string_buffer(
        struct.pack("=IxxxxIIIxxxxQQ", 1, 0, 0, 0, 0, ctypes.addressof(extension)), 40
    )
    info = struct.pack("=IxxxxIxxxxQ", 1, 1, ctypes.addressof(hardware))
    if arch not in (0, 75):  # 0: any
        said = f"there is no architecture {-1 if arch > 75 else arch}"
        with pytest.raises(qnnrt.QnnError, match=said):
            qnn.Backend.open("htp", device_options=[(1, info)])
        return
    with qnn.Backend.open("htp", device_options=[(1, info)]) as backend:
        assert backend.device_info()[0][2:] == (57, 75, 8)


@pytest.mark.parametrize(("option", "name"), [(2, "SIGNEDPD"), (3, "SECUREPD")])
def test_a_switch_of_a_device_is_its_first_byte(option: int, name: str) -> None:
    """What follows a bool is padding, which clients do not set."""
    for layout in ("=III", "=IIII"):  # core API 2.32, 2.40
        for switch in (False, True) if name == "SIGNEDPD" else (False,):
            padded = 0xA5A5A500 | switch
            given = struct.pack(layout, option, *[0] * (len(layout) - 3), padded)
            with qnn.Backend.open("htp", device_options=[(0, given)]) as backend:
                (device,) = backend.describe()["devices"]
                assert device["configs"] == {name: switch}


def test_a_context_for_preparing_alone_executes_nothing(htp) -> None:
    with htp.create_context(custom=[htp_context(7, BOOL)]) as context:
        graph = context.create_graph("g")
        relu(graph)
        data = np.zeros((1, 64), np.float32)
        with pytest.raises(qnnrt.GraphError, match="PREPARE_ONLY") as e:
            graph.execute([data], [data.copy()])
        assert e.value.code == 6035
        with pytest.raises(qnnrt.GraphError) as e:
            graph.execute_async([data], [data.copy()]).result()
        assert e.value.code == 6035
        binary = context.binary()
    with qnn.Context.from_binary(htp, binary) as context:
        given = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
        out = np.empty_like(given)
        context.graph("g").execute([given], [out])
        np.testing.assert_array_equal(out, np.maximum(given, 0))


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_only_enabled_graphs_come_out_of_a_binary(name: str) -> None:
    with qnn.Backend.open(name) as backend:
        with backend.create_context() as context:
            for graph in ("one", "two"):
                relu(context.create_graph(graph))
            binary = context.binary()
        with qnn.Context.from_binary(backend, binary, enable_graphs=["two"]) as context:
            data = np.ones((1, 64), np.float32)
            context.graph("two").execute([data], [data.copy()])
            with pytest.raises(qnnrt.GraphError) as e:
                backend.library.graph_retrieve(context.handle, "one")
            assert e.value.code == 6002
        with pytest.raises(qnnrt.ContextError, match="three"):
            qnn.Context.from_binary(backend, binary, enable_graphs=["two", "three"])


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_strict_compatibility_checks_weights_when_loading(name: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    with qnn.Backend.open(name) as backend:
        with backend.create_context() as context, context.create_graph("g") as graph:
            x = graph.add_tensor("x", (1, 64), np.float32, type="app_write")
            w = graph.add_tensor("w", weights.shape, np.float32, type="static", data=weights)
            y = graph.add_tensor("y", (1, 64), np.float32, type="app_read")
            graph.add_node("product", "MatMul", [x, w], [y])
            graph.finalize()
            binary = bytearray(context.binary())
        with qnn.Context.from_binary(backend, bytes(binary), binary_compatibility="strict"):
            pass
        binary[-2048] ^= 0x40  # the weights stand at the end
        data = np.ones((1, 64), np.float32)
        with pytest.raises(qnnrt.ContextError):
            qnn.Context.from_binary(backend, bytes(binary), binary_compatibility="strict")
        # Mapped, and used where they lie: nobody looks at weights before the first execution.
        (tmp_path / "altered.bin").write_bytes(binary)
        given = {"binary_compatibility": "permissive"}
        with (
            qnn.Context.from_binary(backend, tmp_path / "altered.bin", **given) as context,
            pytest.raises(qnnrt.QnnError, match="checksum"),
        ):
            context.graph("g").execute([data], [data.copy()])


def test_the_number_of_hvx_threads_is_one_of_kernel_threads(htp) -> None:
    for count in (1, 4, 1000):
        with htp.create_context() as context:
            blob = htp_graph(6, struct.pack("=Q", count))
            graph = context.create_graph("g", custom=[blob])
            relu(graph)
            with pytest.raises(qnnrt.GraphError) as e:  # it is chosen before finalize
                graph.set_config(custom=[own_graph(1, 77)])
            assert e.value.code == 6024
            graph.set_config(custom=[blob])  # the same again is none
