"""Profiles that belong to a graph, and how many events one keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.qnn.backend import library_path
from support.c_table import Configs, Table
from support.config_values import relu


class Profiled:
    """A graph with a profile of its own, and what that has seen."""

    def __init__(self, backend: qnn.Backend, level: str = "basic") -> None:
        self.context = backend.create_context()
        self.profile = backend.create_profile(level)
        self.graph = self.context.create_graph("g")
        relu(self.graph)
        self.data = np.ones((1, 64), np.float32)
        self.out = np.zeros((1, 64), np.float32)

    def run(self, times: int = 1, **given: Any) -> None:
        for _ in range(times):
            self.graph.execute([self.data], [self.out], **given)

    def seen(self) -> int:
        return sum(event.kind == "execute" for event in self.profile.events())

    def __enter__(self) -> Profiled:
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.close()
        self.profile.close()


def test_a_graphs_own_profile_collects_its_executions(htp) -> None:
    with Profiled(htp, "detailed") as p:
        p.run()
        p.graph.set_config(profile=p.profile)
        assert p.seen() == 0
        p.run(3)
        assert p.seen() == 3
        p.graph.execute_async([p.data], [p.out]).result()
        assert p.seen() == 4
        assert all(event.events for event in p.profile.events() if event.kind == "execute")


def test_a_graphs_own_profile_excludes_one_for_a_call(htp) -> None:
    with Profiled(htp) as p, htp.create_profile() as other:
        p.graph.set_config(profile=p.profile)
        with pytest.raises(qnnrt.GraphError, match="profile of its own") as e:
            p.run(profile=other)
        assert e.value.code == 6006
        with pytest.raises(qnnrt.GraphError) as e:
            p.run(profile=p.profile)
        assert e.value.code == 6006
        with pytest.raises(qnnrt.QnnError) as e:  # nor is it for another call
            second = p.context.create_graph("second", profile=p.profile)
        assert e.value.code == 6032
        second = p.context.create_graph("second")
        with pytest.raises(qnnrt.QnnError, match="belongs to a graph") as e:
            second.finalize(profile=p.profile)
        assert e.value.code == 6032
        with pytest.raises(qnnrt.QnnError) as e:
            htp.library.profile_free(p.profile.handle)
        assert e.value.code == 12001
        p.run()
        assert p.seen() == 1
        table = Table(library_path("htp"))
        assert table.graphSetConfig(p.graph.handle, Configs([(4, 0)])) == 0
        p.run(profile=other)  # nothing is the graph's own any more
        p.run()
        assert p.seen() == 1
        assert table.graphSetConfig(p.graph.handle, Configs([(4, 0x1234)])) == 6006


def test_a_graphs_own_profile_can_pause(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile)
        p.run(2)
        p.graph.set_config(profiling_enabled=False)
        p.run(2)
        assert p.seen() == 2
        p.graph.set_config(profiling_enabled=True)
        p.run()
        assert p.seen() == 3


def test_a_graphs_own_profile_stops_after_so_many_executions(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile, num_profiling_executions=2)
        p.run(5)
        assert p.seen() == 2
        p.graph.set_config(num_profiling_executions=1)
        p.run(5)
        assert p.seen() == 3


def test_a_graph_lets_its_profile_go_with_its_context(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile)
        p.run()
        p.context.close()
        assert p.seen() == 1
        p.profile.close()
        assert _core.live_counts()["profiles"] == 0


def test_a_trace_of_nodes_has_them_at_any_level(htp) -> None:
    with Profiled(htp, "basic") as p:

        def nodes() -> list[str]:
            p.run(profile=p.profile)
            return [
                e.identifier
                for top in p.profile.events()
                for _, e in top.walk()
                if e.kind == "node"
            ]

        assert nodes() == []
        p.profile.set_config(optrace=True)
        assert len(nodes()) > 0
        p.profile.set_config(optrace=False)
        assert nodes() == []
    with qnn.Backend.open("cpu") as cpu, cpu.create_profile("basic") as profile:
        with pytest.raises(qnnrt.QnnError) as caught:
            profile.set_config(optrace=True)
        assert caught.value.code == 1000


def test_a_profile_keeps_no_more_events_than_it_may(htp) -> None:
    with Profiled(htp, "detailed") as p:
        p.run(profile=p.profile)
        assert sum(1 for event in p.profile.events() for _ in event.walk()) > 1
        p.profile.set_config(max_events=1)
        p.run(profile=p.profile)
        assert sum(1 for event in p.profile.events() for _ in event.walk()) == 1
