"""Programs of every family of kernels, for an OpenCL device that checks each access to memory.

``test_gpu_oclgrind`` starts this as a program of its own, whose argument is JSON::

    {"families": ["moves", ...], "changes": {"in a kernel's source": "what to put there", ...}}

It prints a line of JSON for each family: what oclgrind has written about it, and what else went
wrong. A family is a list of functions, as a rule tests of other modules, which are small enough and
compare with the cpu backend; add to ``FAMILIES`` what new kernels bring.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import test_gpu_bad_indices as bad_indices
import test_gpu_fusion as fusion
import test_gpu_long_rows as long_rows
import test_gpu_ops_conv as conv
import test_gpu_ops_elementwise as elementwise
import test_gpu_ops_matmul as matmul
import test_gpu_ops_move as move
import test_gpu_ops_norm as norm
import test_gpu_ops_recurrent as recurrent
import test_gpu_ops_reduce as reduce
import test_gpu_ops_spatial as spatial
from test_gpu_session import attention

import qnnrt
from support.gpu.cases import against_cpu
from support.toy import add_model, relu_model

#: Whose work groups are loops, and whose are lanes side by side: kernels differ.
KINDS: Final = ("cpu", "gpu")


def memory() -> None:
    """A device with memory of its own: RAW memory is staged, the client's buffers are bound."""
    cl: Any = __import__("pyopencl")
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    with qnnrt.Session(relu_model(), "gpu") as s:
        assert "memory of its own" in (s.stats.fallback or "")
        np.testing.assert_array_equal(s.run({"x": x})["y"], np.maximum(x, 0))
        assert {(c.tensor, c.nbytes) for c in s.stats.copies} == {("x", 64), ("y", 64)}
        library = s.backend.library
        buffers = [cl.Buffer(library.cl_context, cl.mem_flags.READ_WRITE, 64) for _ in "xy"]
        cl.enqueue_copy(library.cl_queue, buffers[0], x - 0.5)
        s.inputs["x"].bind(buffers[0])
        s.outputs["y"].bind(buffers[1])
        s.reset_stats()
        s.run()
        assert s.stats.copied_bytes == 0
        handle = s.outputs["y"].handle
        assert isinstance(handle, qnnrt.gpu.OpenCLHandle)
        with handle.map() as mapped:
            np.testing.assert_array_equal(mapped, np.maximum(x - 0.5, 0))


FAMILIES: Final[dict[str, tuple[Callable[[], object], ...]]] = {
    "arithmetic": (
        elementwise.test_operands_are_broadcast,
        elementwise.test_arithmetic_on_floats,
        partial(elementwise.test_arithmetic_on_integers, "int32"),
        elementwise.test_comparisons_and_logic,
    ),
    "functions": (
        elementwise.test_functions_of_one_float,
        elementwise.test_activations,
        elementwise.test_selection,
    ),
    "conversions": (elementwise.test_casts, elementwise.test_quantization),
    "convolutions": (partial(conv.test_convolutions_of_any_geometry, 0),),
    "depthwise": (
        partial(spatial.test_depthwise_convolutions, np.float32),
        spatial.test_depthwise_convolutions_of_every_shape,
        partial(spatial.test_transposed_convolutions, np.float32),
        spatial.test_convolutions_of_volumes,
    ),
    "fused": (
        partial(against_cpu, attention(), terms=7),
        partial(against_cpu, add_model()),
        partial(fusion.test_a_normalization_behind_a_sum_and_behind_slices, np.float32),
        fusion.test_values_that_come_together_again_stay_in_registers,
    ),
    "gathers": (
        move.test_elements_are_gathered,
        move.test_elements_are_scattered_in_their_order,
        move.test_the_last_of_many_updates_stays,
        move.test_one_hot,
        bad_indices.test_indices_far_away_are_not_followed,
        partial(bad_indices.test_a_run_with_a_bad_index_fails_and_the_next_works, "ScatterNd", ""),
    ),
    "grids": (partial(spatial.test_samples_of_a_grid, np.float32, ""),),
    "long rows": (long_rows.test_rows_that_groups_share,),
    "memory": (memory,),
    "moves": (
        move.test_transposes,
        move.test_tensors_are_joined_and_cut,
        move.test_slices_are_those_of_the_cpu,
        move.test_blocks_and_channels,
    ),
    "norms": (
        partial(norm.test_batch_norms, np.float32),
        partial(norm.test_norms_of_rows, np.float32),
        norm.test_norms_along_axes_that_are_no_rows,
        partial(norm.test_norms_of_images, np.float32),
        norm.test_instance_norms_in_every_mode,
        norm.test_statistics_of_images_that_are_taken_in_parts,
        partial(norm.test_local_responses, np.float32),
        norm.test_local_responses_of_every_exponent_and_radius,
    ),
    "pads": (move.test_pads_in_all_schemes,),
    "places": (reduce.test_places_of_extremes,),
    "pools": (
        partial(spatial.test_pools, np.float32),
        spatial.test_windows_that_hang_over_the_padding,
        spatial.test_the_greatest_of_integers,
    ),
    "products": (
        partial(matmul.test_products_broadcast_and_turn_as_on_the_cpu, 0),
        partial(matmul.test_fully_connected_layers, np.float32),
    ),
    "recurrent": (
        partial(recurrent.test_lstms, "layer norm", ""),
        partial(recurrent.test_lstms, "projection", ""),
        partial(recurrent.test_grus, False, True, ""),
        partial(recurrent.test_grus, True, True, ""),
    ),
    "reductions": (
        reduce.test_extremes_are_exact_and_nan_wins,
        reduce.test_integers_wrap_and_their_mean_is_truncated,
        reduce.test_floats_are_reduced,
    ),
    "resizes": (
        partial(spatial.test_images_are_interpolated, np.float32),
        spatial.test_resizes_in_every_mode,
        spatial.test_the_nearest_pixel_moves_whatever_its_type,
    ),
    "scans": (partial(reduce.test_running_sums, exclusive=True, reverse=True),),
    "softmaxes": (reduce.test_softmax,),
}


def change_sources(changes: dict[str, str]) -> None:
    """From now on programs have another source."""
    cl: Any = __import__("pyopencl")
    make = cl.Program.__init__

    def from_source(program: Any, first: Any, *more: Any, **others: Any) -> None:
        if isinstance(first, cl._cl._Program):
            text = first.get_info(cl.program_info.SOURCE)
            for old, new in changes.items():
                text = text.replace(old, new)
            first = cl._cl._Program(first.get_info(cl.program_info.CONTEXT), text)
        make(program, first, *more, **others)

    if changes:
        cl.Program.__init__ = from_source


def main(families: list[str], changes: dict[str, str]) -> None:
    log = Path(os.environ["OCLGRIND_LOG"])
    change_sources(changes)
    with qnnrt.qnn.Backend.shared("gpu") as backend:
        library = backend.library
        for name in families:
            before, error = log.stat().st_size if log.exists() else 0, ""
            for kind in KINDS:
                library.device = dataclasses.replace(library.device, kind=kind)
                for run in FAMILIES[name]:
                    try:
                        run()
                    except Exception:
                        error += f"with kernels for {kind}s: {traceback.format_exc()}"
            text = log.read_bytes()[before:].decode(errors="replace")
            print(json.dumps({"family": name, "log": text, "error": error}), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
