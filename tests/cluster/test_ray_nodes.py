"""Buffers between two nodes: one copy on each side, and what a lost node leaves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.outside import PATHS, run_script

pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = [pytest.mark.foreign, pytest.mark.slow]
N = 3 << 20


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    done = run_script("-m", "support.ray_nodes", PYTHONPATH=PATHS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_buffer_is_copied_once_on_each_node(said: dict[str, Any]) -> None:
    assert said["sums"] == [N, N]
    assert said["near"] == [1, N, 0, 0, 0]
    assert said["far"] == [0, 0, 1, N, 2 * N]
    assert said["first"] == 1


def test_of_a_view_what_it_spans_is_copied(said: dict[str, Any]) -> None:
    frames = np.arange(4 * 32 * 48, dtype=np.float32).reshape(4, 32, 48)
    view = frames[1, ::2, ::-3]
    assert said["view"] == view.tolist()
    assert said["view strides"] == list(view.strides)
    low, high = np.lib.array_utils.byte_bounds(view)
    span = high - low
    assert said["views"] == [0, 0, 2, span + frames.nbytes, 2 * (span + frames.nbytes)]


def test_the_driver_and_other_nodes_give_likewise(said: dict[str, Any]) -> None:
    assert said["from the driver"] == [2 * N, [0, 0, 1, N, 2 * N]]
    assert said["pickled"] == [2 * N, [0, 0, 1, N, 2 * N]]
    assert said["back"] == [N, [0, 0, 1, N, 2 * N]]


def test_nothing_is_left_on_either_side(said: dict[str, Any]) -> None:
    assert said["left on the far side"]
    assert said["left on the near side"]


def test_a_killed_producer_is_told_on_the_other_node(said: dict[str, Any]) -> None:
    assert said["killed producer"] == ["HandoffError", "sender"]


def test_a_lost_node_is_told_and_leaves_nothing(said: dict[str, Any]) -> None:
    assert said["lost node"] == ["HandoffError", "sender"]
    assert said["lost producer"][0] in ("ActorDiedError", "ActorUnavailableError")
    assert said["kept"] == N
    assert said["left after the node"]
