"""The parts whose errors are silent: their sources, and the tests that cover them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    name: str
    sources: tuple[str, ...]  # patterns
    native: tuple[str, ...]  # names of C++ test programs
    python: tuple[str, ...] = ()  # files of Python tests


PARTS = (
    Part(
        "registry",
        ("csrc/memory/registry*", "csrc/memory/descriptor.cc"),
        (
            *("memory_registry_test", "memory_descriptor_test", "memory_buffer_test"),
            *("qmem_rules_test", "qmem_domain_test", "memory_process_test", "lpai_memory_test"),
            *("registry_random_test", "api_test", "qmem_sync_test", "process_domain_test"),
        ),
        ("tests/memory/test_memory.py",),
    ),
    Part(
        "slot table",
        ("csrc/support/slot_table.h",),
        ("slot_table_test", "memory_registry_test", "memory_buffer_test", "api_test"),
    ),
    Part(
        "binary loader",
        (
            *("csrc/graph/binary/io.h", "csrc/graph/binary/load.cc", "csrc/graph/binary/view.cc"),
            *("csrc/graph/binary/nodes.cc", "csrc/graph/binary/nodes.h"),
        ),
        (
            *("binary_test", "binary_damage_test", "binary_fields_test", "binary_tensor_test"),
            *("binary_api_test", "spill_fill_test"),
        ),
        (
            *("tests/binary/test_context_binary.py", "tests/binary/test_context_binary_errors.py"),
            *("tests/binary/test_encodings_binary.py", "tests/binary/test_binary_threads.py"),
            "tests/lpai/test_lpai_session.py",
        ),
    ),
    Part(
        "planner",
        ("csrc/graph/planner/*",),
        ("planner_test", "plan_verifier_test"),
    ),
    Part(
        "config parsers",
        (
            "csrc/api/config*",
            "csrc/tflite/delegate/options.cc",
            *("qnnrt/support/json_checks.py", "qnnrt/cli/_config_file.py"),
            *("qnnrt/cli/_throughput_config.py", "qnnrt/lpai/config.py", "qnnrt/gpu/configs.py"),
        ),
        (
            *("api_test", "device_test", "environment_test", "lpai_config_test", "lpai_api_test"),
            *("spill_fill_test", "tflite_delegate_test", "tflite_options_test"),
            "any_argument_test",
        ),
        (
            *("tests/qnn/test_configs.py", "tests/qnn/test_config_limits.py"),
            *("tests/qnn/test_config_effects.py", "tests/lpai/test_lpai_config.py"),
            "tests/lpai/test_lpai_net_run.py",
            *("tests/tools/test_generator_config.py", "tests/tools/test_throughput.py"),
            "tests/tools/test_bad_files.py",
            *("tests/gpu/test_gpu_config.py", "tests/tflite/test_tflite_options.py"),
        ),
    ),
    Part(
        "encodings",
        (
            *("csrc/api/encoding.cc", "csrc/ops/encoding.cc", "csrc/ops/fixed/affine.cc"),
            *("csrc/ops/fixed/arithmetic.h", "csrc/ops/fixed/codec.cc"),
            *("csrc/ops/fixed/requantize.cc", "qnnrt/quantization.py"),
            "qnnrt/importers/encodings.py",
        ),
        (
            *(
                "encoding_test",
                "read_encoding_test",
                "graph_test",
                "binary_test",
                "binary_tensor_test",
                "system_test",
            ),
            *("tflite_lowering_test", "lower_test"),
        ),
        (
            "tests/quantization/test_coded.py",
            *("tests/quantization/test_encodings.py", "tests/quantization/test_quantize.py"),
            *("tests/quantization/test_encoding_limits.py", "tests/fixed/test_fixed_convert.py"),
            *("tests/fixed/test_fixed_elementwise.py", "tests/fixed/test_fixed_16.py"),
            *("tests/binary/test_encodings_binary.py", "tests/fixed/test_fixed_residual.py"),
        ),
    ),
)
#: For changed lines of other sources: every C++ test.
OTHER = Part("other", (), ("",))
