"""Devices say what they are and who uses them; votes for performance are kept and shown."""

import json

import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.qnn import htp
from support.htp.votes import VOTES
from support.outside import run_code
from support.vendor import vendor_library


@pytest.fixture
def backend():
    with qnn.Backend.open("htp") as backend:
        yield backend


def test_the_default_device_is_the_simulators(backend):
    assert backend.has_device
    device = htp.DeviceInfo(device_id=0, cores=(0,), soc_model=30, arch=68, vtcm_mb=4)
    assert backend.platform_info() == backend.device_info() == (device,)
    assert backend.has_capability("device")
    assert backend.has_capability("device_infrastructure")


@pytest.mark.parametrize(
    ("soc_model", "htp_arch", "shown"),
    [
        (69, None, (69, 79, 8)),
        (43, 68, (43, 73, 8)),  # the architecture is the least: the SoC's is later
        (30, 79, (30, 79, 4)),
        (None, 75, (30, 75, 4)),
        (46, 0, (46, 73, 2)),
        (1, None, (1, 68, 4)),  # a SoC of which no accelerator is known
    ],
)
def test_a_device_stands_for_the_soc_that_was_asked_for(soc_model, htp_arch, shown):
    with qnn.Backend.open("htp", soc_model=soc_model, htp_arch=htp_arch) as backend:
        assert backend.device_info()[0][2:] == shown
        assert backend.platform_info()[0][2:] == (30, 68, 4)
        described = backend.describe()["devices"]
        assert [d["soc_model"] for d in described] == [shown[0]]


@pytest.mark.parametrize("core_version", [(2, 32, 0), (2, 40, 0)])
def test_device_configs_of_both_layouts_are_understood(core_version):
    configs = htp.device_configs(core_version, soc_model=57, arch=81, signed_pd=True)
    with qnn.Backend.open("htp", device_options=configs) as backend:
        (device,) = backend.describe()["devices"]
        assert device["configs"] == {"SOC": 57, "ARCH": 81, "SIGNEDPD": True}
        assert (device["soc_model"], device["arch"]) == (57, 81)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"soc_model": 9999}, "no SoC model 9999"),
        ({"soc_model": 0}, "no SoC model 0"),
        ({"htp_arch": 70}, "got 70"),
        ({"device_options": [(0, b"\3\0\0\0" + bytes(8) + b"\1" + bytes(11))]}, "secure"),
        ({"device_options": [(0, b"\x09" + bytes(23))]}, "option 9 is unknown"),
        ({"device_options": [(7, 0)]}, "option 7 is unknown"),
    ],
)
def test_a_config_that_no_device_can_have_is_refused(options, words):
    with pytest.raises(qnnrt.QnnError, match=words) as e:
        qnn.Backend.open("htp", **options)
    assert e.value.code == 14001
    assert _core.live_counts()["devices"] == 0


def test_a_device_in_use_by_a_context_stays(backend):
    device = backend._device
    with backend.create_context() as context:
        assert backend.describe()["devices"][0]["contexts"] == 1
        with pytest.raises(qnnrt.QnnError, match="1 contexts") as e:
            backend.library.device_free(device.handle)
        assert e.value.code == 14003
        with context.create_graph("g"):
            pass
    assert backend.describe()["devices"][0]["contexts"] == 0
    extra = backend.library.device_create(0)
    backend.library.device_free(extra)
    with pytest.raises(qnnrt.QnnError) as e:
        backend.library.device_free(extra)
    assert e.value.code == 14000
    with pytest.raises(qnnrt.QnnError) as e:
        backend.library.context_create(backend.handle, extra)
    assert e.value.code == 5002


def test_platform_infos_are_given_back(backend):
    for _ in range(3):
        backend.platform_info()
    assert backend.describe()["platform_infos"] == 0


def test_the_cpu_backend_has_no_device():
    with qnn.Backend.open("cpu") as backend:
        assert not backend.has_device
        assert backend.platform_info() == backend.device_info() == ()
        assert backend.describe() is None
        with pytest.raises(qnnrt.QnnError, match="votes") as e:
            backend.set_perf_profile("burst")
        assert e.value.code == 1000


@pytest.mark.parametrize("profile", htp.PERF_PROFILES)
def test_a_performance_profile_is_a_vote_until_the_backend_closes(profile):
    with qnn.Backend.open("htp") as backend:
        counts = backend.describe()["power_counts"]
        backend.set_perf_profile(profile)
        assert backend.perf_profile == profile
        (vote,) = backend.describe()["power_configs"]
        if profile not in VOTES:
            assert vote["configs"] == {}
        else:
            corner, latency, dcvs = VOTES[profile]
            dcvs_v3 = vote["configs"]["DCVS_V3"]
            assert dcvs_v3["bus"] == dcvs_v3["core"] == [corner] * 3
            assert (dcvs_v3["sleepLatency"], dcvs_v3["dcvsEnable"]) == (latency, dcvs)
            assert dcvs_v3["contextId"] == vote["id"]
            assert vote["configs"].get("RPC_POLLING_TIME") == (9999 if profile == "burst" else None)
        backend.set_perf_profile("balanced", rpc_control_latency=100, rpc_polling_time=5)
        (vote,) = backend.describe()["power_configs"]
        assert vote["configs"]["RPC_CONTROL_LATENCY"] == 100
        assert vote["configs"]["RPC_POLLING_TIME"] == 5
        library = backend.library
    left = json.loads(_core.htp_describe(library))
    assert left["power_configs"] == []
    assert left["power_counts"]["created"] == counts["created"] + 2
    assert left["power_counts"]["destroyed"] == counts["destroyed"] + 2


def test_a_profile_that_does_not_exist_changes_nothing(backend):
    backend.set_perf_profile("burst")
    with pytest.raises(ValueError, match="perf profile must be one of default"):
        backend.set_perf_profile("warp")
    assert backend.perf_profile == "burst"
    assert len(backend.describe()["power_configs"]) == 1


DCVS = (1, 1, 16, 1, 40, 0, 0, 1, 160, 160, 160, 1, 160, 160, 160)  # after contextId


@pytest.mark.parametrize(
    ("option", "words", "code"),
    [
        (2, (100,), 0),
        (3, (9999,), 0),
        (4, (300_000,), 0),
        (6, (1,), 0),
        (1, (0, *DCVS), 13001),  # contextId is no power config id
        (1, ("id", *DCVS), 0),
        (1, ("id", 1, 1, 3, *DCVS[3:]), 13001),  # no such power mode
        (1, ("id", 0, 1, 3, *DCVS[3:]), 0),  # which nothing asks for
        (1, ("id", *DCVS[:-1], 7), 13001),  # no such voltage corner
        (1, ("id", *DCVS[:-4], 0, 7, 7, 7), 0),
        (5, (1, 256, 256, 65535, 0), 13004),  # not on v68
        (7, (1,), 13004),
        (0, (1,), 13002),
        (8, (1,), 13002),
    ],
)
def test_power_configs_are_checked(backend, option, words, code):
    library = backend.library
    number = _core.power_config_create(library)
    values = [number if w == "id" else w for w in words]
    try:
        if code == 0:
            _core.power_config_set(library, number, [(option, values)])
            assert backend.describe()["power_configs"][0]["sets"] == 1
        else:
            with pytest.raises(qnnrt.QnnError) as e:
                # The first one is good: all or nothing.
                _core.power_config_set(library, number, [(3, [1]), (option, values)])
            assert e.value.code == code
            (vote,) = backend.describe()["power_configs"]
            assert (vote["sets"], vote["configs"]) == (0, {})
    finally:
        _core.power_config_destroy(library, number)
    with pytest.raises(qnnrt.QnnError) as e:
        _core.power_config_destroy(library, number)
    assert e.value.code == 13001
    with pytest.raises(qnnrt.QnnError) as e:
        _core.power_config_set(library, number, [(3, [1])])
    assert e.value.code == 13001
    with pytest.raises(qnnrt.QnnError) as e:
        _core.power_config_create(library, 0, 7)
    assert e.value.code == 13001


def test_later_architectures_take_votes_that_v68_refuses():
    with qnn.Backend.open("htp", htp_arch=75) as backend:
        number = _core.power_config_create(backend.library)
        _core.power_config_set(backend.library, number, [(5, [1, 256, 512, 65535, 1]), (7, [2])])
        (vote,) = backend.describe()["power_configs"]
        assert vote["configs"]["HMX_V2"]["hmxPerfMode"] == "LOW"
        assert vote["configs"]["DDR_PERF_MODE"] == 2
        _core.power_config_destroy(backend.library, number)


#: In a process of its own: the simulator keeps what devices were made with, and its graphs compute
#: with other roundings from then on.
SIMULATOR = """
    import sys
    import qnnrt
    from qnnrt import qnn
    from qnnrt.qnn import htp

    path = sys.argv[1]
    with qnn.Backend.open(path, log_level="error", soc_model=69, htp_arch=79) as backend:
        device = htp.DeviceInfo(device_id=0, cores=(0,), soc_model=30, arch=68, vtcm_mb=4)
        assert backend.platform_info() == (device,), backend.platform_info()
        assert backend.describe() is None
        for profile in htp.PERF_PROFILES:
            backend.set_perf_profile(profile, rpc_control_latency=100)
            assert backend.perf_profile == profile
        assert backend.version.core >= (2, 40, 0)
    # The struct of 2.32 is another one for it.
    older = htp.device_configs((2, 32, 0), soc_model=69)
    try:
        qnn.Backend.open(path, log_level="error", device_options=older)
    except qnnrt.QnnError as e:
        print("refused", e.code)
"""


@pytest.mark.foreign
def test_the_vendors_simulator_understands_our_device_configs_and_votes():
    done = run_code(SIMULATOR, str(vendor_library("libQnnHtp.so")))
    assert done.returncode == 0, done.stderr
    # The vendor's library prints a line of its own, before or after this one.
    assert "refused 14001" in done.stdout.splitlines(), done.stdout + done.stderr
